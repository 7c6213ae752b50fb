//! [`Machine`]: keeps the state of all entities (blocked, waiting, held, running), calls the [`Policy`], asserts the
//! laws and turns [`Input`]s into [`Action`]s. The machine has no clock: every call names the current instant.
//!
//! A driver passes on all inputs of one instant and then calls [`Machine::settle`], which makes all decisions and
//! returns the resulting actions:
//!
//! ```text
//! machine.input(now, Input::Block { cpu });
//! machine.input(now, Input::Wake { entity, why });
//! for action in machine.settle(now) { carry it out }
//! ```

mod action;
mod input;
mod queries;

pub use action::{Action, Kicks};
pub use input::Input;

use crate::alarm::{Alarm, AlarmOwner, AlarmSlots};
use crate::cx::Cx;
use crate::descriptor::Knobs;
use crate::entity::State;
use crate::id::{CpuId, EntityId, GroupId};
use crate::params::{GroupParams, Params, Refused, Topology};
use crate::policy::{GroupChange, Policy, StopReason, Stopped, Wake};
use crate::source::PolicySource;
use crate::time::Instant;
use crate::truth::Truth;
use alloc::boxed::Box;
use core::fmt;

/// A scheduler: one policy, and the state of the CPUs, entities, groups and alarms.
pub struct Machine {
    policy: Box<dyn Policy>,
    truth: Truth,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("truth", &self.truth).finish_non_exhaustive()
    }
}

impl Machine {
    /// Creates a machine at [`Instant::ZERO`], without entities and with all CPUs idle.
    ///
    /// # Errors
    /// The policy does not work with these knobs on this topology.
    pub fn build(source: &dyn PolicySource, host: Topology, knobs: &Knobs, kicks: Kicks) -> Result<Machine, Refused> {
        Ok(Machine::new(source.build(&host, knobs)?, source.alarms(), host, kicks))
    }

    /// Creates a machine around a policy without a descriptor.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, alarms: AlarmSlots, host: Topology, kicks: Kicks) -> Machine {
        Machine { policy, truth: Truth::new(host, alarms, kicks) }
    }

    // ---- Membership ----

    /// Adds a blocked entity.
    ///
    /// # Errors
    /// The request is malformed, or the policy cannot meet the request. The machine is then unchanged.
    pub fn attach(&mut self, now: Instant, params: Params) -> Result<EntityId, Refused> {
        self.advance(now);
        self.check_params(&params)?;
        let e = self.truth.add_entity(params);
        let here = self.truth.slot(e).cpu;
        let answer = self.policy.attach(e, &mut Cx::new(&mut self.truth, here));
        if let Err(refused) = answer {
            self.truth.remove_entity(e);
            return Err(refused);
        }
        Ok(e)
    }

    /// Removes an entity in any state.
    pub fn detach(&mut self, now: Instant, e: EntityId) {
        self.advance(now);
        self.stop(e);
        let here = self.truth.slot(e).cpu;
        self.policy.detach(e, &mut Cx::new(&mut self.truth, here));
        self.truth.remove_entity(e);
    }

    /// Changes the parameters of an entity.
    ///
    /// # Errors
    /// The errors of [`attach`](Machine::attach).
    /// The parameters are then unchanged.
    pub fn adjust(&mut self, now: Instant, e: EntityId, params: Params) -> Result<(), Refused> {
        self.advance(now);
        self.check_params(&params)?;
        let here = self.truth.slot(e).cpu;
        if let State::Running(cpu) = self.truth.slot(e).state {
            self.charge(cpu);
        }
        let old = self.truth.replace_params(e, params);
        if let Err(refused) = self.policy.adjust(e, &old, &mut Cx::new(&mut self.truth, here)) {
            self.truth.replace_params(e, old);
            return Err(refused);
        }
        self.truth.kick_if_misplaced(e);
        Ok(())
    }

    fn check_params(&self, params: &Params) -> Result<(), Refused> {
        params.check(&self.truth.host)?;
        if !self.truth.is_group(params.group) {
            return Err(Refused::NoGroup(params.group));
        }
        Ok(())
    }

    /// Adds a group under `parent`.
    ///
    /// # Errors
    /// `parent` does not exist, or the policy cannot meet the request. The machine is then unchanged.
    pub fn create_group(&mut self, now: Instant, params: GroupParams, parent: GroupId) -> Result<GroupId, Refused> {
        self.advance(now);
        if !self.truth.is_group(parent) {
            return Err(Refused::NoGroup(parent));
        }
        let g = self.truth.add_group(params, parent);
        let answer = self.notify_group(g, GroupChange::Created { parent });
        if answer.is_err() {
            self.truth.remove_group(g);
        }
        answer.map(|()| g)
    }

    /// Changes the parameters of a group.
    ///
    /// # Errors
    /// The group does not exist, or the policy cannot meet the request. The parameters are then unchanged.
    pub fn adjust_group(&mut self, now: Instant, g: GroupId, params: GroupParams) -> Result<(), Refused> {
        self.advance(now);
        if !self.truth.is_group(g) {
            return Err(Refused::NoGroup(g));
        }
        self.charge_all();
        let old = core::mem::replace(self.truth.group_params_mut(g), params);
        let answer = self.notify_group(g, GroupChange::Params { old: &old });
        if answer.is_err() {
            *self.truth.group_params_mut(g) = old;
        }
        answer
    }

    /// Removes an empty group.
    ///
    /// # Errors
    /// The group does not exist, is in use (it has members or subgroups, or is the root), or the policy refuses the
    /// removal.
    pub fn remove_group(&mut self, now: Instant, g: GroupId) -> Result<(), Refused> {
        self.advance(now);
        if !self.truth.is_group(g) {
            return Err(Refused::NoGroup(g));
        }
        if g == GroupId::ROOT || self.truth.group_in_use(g) {
            return Err(Refused::GroupInUse(g));
        }
        self.notify_group(g, GroupChange::Removed)?;
        self.truth.remove_group(g);
        Ok(())
    }

    fn notify_group(&mut self, g: GroupId, change: GroupChange<'_>) -> Result<(), Refused> {
        self.policy.group(g, change, &mut Cx::new(&mut self.truth, CpuId::default()))
    }

    // ---- Facts ----

    /// Applies an input. An instant may have several inputs; [`settle`](Machine::settle) makes the decisions
    /// afterwards.
    ///
    /// Panics when the input contradicts the state. Examples: a wake-up of an entity that is not blocked, a block on an
    /// idle CPU, a kick that arrives at a frozen CPU.
    #[inline]
    pub fn input(&mut self, now: Instant, input: Input) {
        self.advance(now);
        match input {
            Input::Wake { entity, why } => self.wake(entity, why),
            Input::Block { cpu } => self.leave_cpu(cpu, State::Blocked, StopReason::Blocked),
            Input::Yield { cpu } => self.leave_cpu(cpu, State::Waiting, StopReason::Yielded),
            Input::Expire { cpu } => {
                let until = self.truth.until(cpu);
                assert!(until <= now, "the slice on {cpu:?} ends at {until}, not at {now}");
                self.leave_cpu(cpu, State::Waiting, StopReason::Expired);
            }
            Input::Kicked { cpu } => {
                self.truth.expect_awake(cpu);
                if self.truth.kick_arrived(cpu) {
                    self.reschedule(cpu);
                }
            }
            Input::Alarm { alarm } => self.ring(alarm),
            Input::Event { entity, what } => {
                assert_ne!(self.truth.slot(entity).state, State::Blocked, "a blocked entity gets no event");
                let here = self.truth.slot(entity).cpu;
                self.policy.event(entity, what, &mut Cx::new(&mut self.truth, here));
            }
            Input::YieldTo { cpu, to } => {
                let (from, _) = self.truth.running(cpu).expect("a running entity yields");
                if self.policy.yield_to(from, to, &mut Cx::new(&mut self.truth, cpu)) {
                    self.leave_cpu(cpu, State::Waiting, StopReason::Yielded);
                }
            }
            Input::Pause { entity } => self.stop(entity),
            Input::Ran { cpu, time } => {
                if let Some((e, ran)) = self.truth.take_measured(cpu, time) {
                    self.policy.charge(e, ran, &mut Cx::new(&mut self.truth, cpu));
                }
            }
            Input::Freeze { cpu, preempted } => self.truth.freeze(cpu, preempted),
            Input::Thaw { cpu, stolen } => self.truth.thaw(cpu, stolen),
        }
    }

    #[inline]
    fn wake(&mut self, e: EntityId, why: Wake) {
        let slot = self.truth.slot_mut(e);
        assert!(slot.state == State::Blocked, "{e} wakes but is {:?}", slot.state);
        slot.state = State::Waiting;
        let mut here = slot.cpu;
        if let Wake::By { waker, .. } | Wake::New { parent: Some(waker) } = why {
            here = self.truth.slot(waker).cpu;
        }
        self.policy.wake(e, why, &mut Cx::new(&mut self.truth, here));
    }

    /// Charges the entity running on `cpu`, empties the CPU and returns the entity to the policy.
    #[inline]
    fn leave_cpu(&mut self, cpu: CpuId, to: State, why: StopReason) {
        self.truth.expect_awake(cpu);
        self.charge(cpu);
        let entity = self.truth.vacate(cpu, to);
        self.truth.need(cpu);
        self.policy.put(cpu, Stopped { entity, why }, &mut Cx::new(&mut self.truth, cpu));
    }

    #[inline]
    fn charge(&mut self, cpu: CpuId) {
        if let Some((e, ran)) = self.truth.take_ran(cpu) {
            self.policy.charge(e, ran, &mut Cx::new(&mut self.truth, cpu));
        }
    }

    fn charge_all(&mut self) {
        for cpu in 0..self.truth.host.cpus {
            self.charge(CpuId::new(cpu));
        }
    }

    fn reschedule(&mut self, cpu: CpuId) {
        if self.truth.running(cpu).is_some() {
            self.leave_cpu(cpu, State::Waiting, StopReason::Kicked);
        } else {
            self.truth.need(cpu);
        }
    }

    /// Blocks `e`, which may be in any state.
    fn stop(&mut self, e: EntityId) {
        match self.truth.slot(e).state {
            State::Blocked => {}
            State::Running(cpu) => self.leave_cpu(cpu, State::Blocked, StopReason::Blocked),
            State::Waiting => {
                // Law 6: only a waiting entity can go to sleep.
                self.truth.slot_mut(e).state = State::Blocked;
                let here = self.truth.slot(e).cpu;
                self.policy.sleep(e, &mut Cx::new(&mut self.truth, here));
            }
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        if matches!(alarm.owner, AlarmOwner::Entity(e) if !self.truth.is_attached(e))
            || matches!(alarm.owner, AlarmOwner::Group(g) if !self.truth.is_group(g))
        {
            return;
        }
        let cell = *self.truth.alarms.get(alarm);
        if cell.at > self.truth.now {
            return; // The alarm was cleared or postponed in the meantime.
        }
        self.truth.expect_awake(cell.on);
        self.truth.alarms.set(alarm, cell.on, Instant::NEVER);
        self.policy.alarm(alarm, &mut Cx::new(&mut self.truth, cell.on));
    }

    // ---- The decision ----

    /// Makes all decisions of the instant `now`, and returns the resulting actions.
    pub fn settle(&mut self, now: Instant) -> &[Action] {
        self.advance(now);
        self.policy.plan(&mut Cx::new(&mut self.truth, CpuId::default()));
        // A pick may kick other CPUs, whose picks may kick further CPUs. A policy whose picks kick CPUs without end is
        // faulty.
        let mut picks = 0;
        while let Some(cpu) = self.truth.take_needy() {
            self.truth.deciding = Some(cpu);
            if self.truth.running(cpu).is_some() {
                self.displace(cpu);
                self.truth.answer(cpu);
            }
            self.pick(cpu);
            picks += 1;
            assert!(picks <= self.truth.picks_most, "the policy kicks without end at {now}");
        }
        self.truth.deciding = None;
        self.truth.report();
        self.truth.actions()
    }

    /// Returns the actions of the last [`settle`](Machine::settle).
    #[inline]
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        self.truth.actions()
    }

    fn displace(&mut self, cpu: CpuId) {
        self.charge(cpu);
        let entity = self.truth.vacate(cpu, State::Waiting);
        self.policy.put(cpu, Stopped { entity, why: StopReason::Kicked }, &mut Cx::new(&mut self.truth, cpu));
    }

    #[inline]
    fn pick(&mut self, cpu: CpuId) {
        let slice = self.policy.pick(cpu, &mut Cx::new(&mut self.truth, cpu));
        match slice.run {
            Some(e) => self.truth.seat(cpu, e, slice.until),
            None => self.truth.idle(cpu),
        }
    }

    #[inline]
    fn advance(&mut self, now: Instant) {
        assert!(now >= self.truth.now, "law 1: it was {}, it cannot be {now}", self.truth.now);
        self.truth.now = now;
    }
}
