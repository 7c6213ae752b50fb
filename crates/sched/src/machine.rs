//! [`Machine`]: owns who is blocked, waiting, held or running where; calls the [`Policy`]; asserts the laws; turns
//! [`Input`]s into [`Action`]s. It knows no clock: every call says what time it is.
//!
//! A driver passes on all inputs of one instant and then calls [`Machine::settle`], which decides once and
//! answers with what changed:
//!
//! ```text
//! machine.input(now, Input::Block { cpu });
//! machine.input(now, Input::Wake { entity, why });
//! for action in machine.settle(now) { carry it out }
//! ```

use crate::cx::{Cx, State};
use crate::descriptor::{Descriptor, Knobs};
use crate::id::{CpuId, CpuSet, EntityId, GroupId};
use crate::params::{GroupParams, Params, Refused, Topology};
use crate::policy::{Alarm, AlarmOwner, AlarmSlots, GroupChange, Notice, Policy, StopReason, Stopped, Wake};
use crate::standing::{Position, PromiseState};
use crate::time::{Instant, Nanos};
use crate::truth::Truth;
use alloc::boxed::Box;
use core::fmt;

/// A fact the driver reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A blocked entity wants to run.
    Wake {
        /// Who.
        entity: EntityId,
        /// Why.
        why: Wake,
    },
    /// Something that happens to an entity that is waiting or running.
    Event {
        /// To whom.
        entity: EntityId,
        /// What.
        what: Notice,
    },
    /// The entity running on `cpu` waits for something other than a CPU.
    Block {
        /// Where.
        cpu: CpuId,
    },
    /// The entity running on `cpu` gives its turn away.
    Yield {
        /// Where.
        cpu: CpuId,
    },
    /// The entity running on `cpu` gives its turn to another.
    YieldTo {
        /// Where.
        cpu: CpuId,
        /// To whom.
        to: EntityId,
    },
    /// The slice on `cpu` is over.
    Expire {
        /// Where.
        cpu: CpuId,
    },
    /// A kick has arrived at `cpu`.
    Kicked {
        /// Where.
        cpu: CpuId,
    },
    /// An alarm is due.
    Alarm {
        /// Which.
        alarm: Alarm,
    },
    /// An entity is stopped from outside, wherever it is: it is blocked until it wakes again.
    Pause {
        /// Who.
        entity: EntityId,
    },
    /// Who runs on `cpu` has had this much CPU time since it was last charged, no more than has passed: the rest went to
    /// interrupts, a hypervisor or the driver. A driver that cannot tell leaves it out, and all that has passed is charged.
    Ran {
        /// Where.
        cpu: CpuId,
        /// How much.
        time: Nanos,
    },
    /// `cpu` is a vCPU that has no CPU from now on: until it thaws it gets no put, no pick and no charge, and whatever is due there
    /// waits.
    Freeze {
        /// Which.
        cpu: CpuId,
        /// Whether its CPU was taken away; otherwise it has halted.
        preempted: bool,
    },
    /// `cpu` goes on.
    Thaw {
        /// Which.
        cpu: CpuId,
        /// How much of the time it was frozen its steal clock tells: whoever runs there is not charged for it.
        stolen: Nanos,
    },
}

/// What the driver is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The entity that ran on `cpu` runs there no more. All stops of an instant come before all runs.
    Stop {
        /// Where.
        cpu: CpuId,
        /// Who.
        entity: EntityId,
    },
    /// `entity` runs on `cpu`, at most until `until`.
    Run {
        /// Where.
        cpu: CpuId,
        /// Who.
        entity: EntityId,
        /// The end of its slice; [`Instant::NEVER`] for none.
        until: Instant,
    },
    /// Who runs on `cpu` goes on, with another end of its slice.
    Extend {
        /// Where.
        cpu: CpuId,
        /// The new end.
        until: Instant,
    },
    /// `cpu` is to be interrupted; the driver answers with [`Input::Kicked`] when it has been.
    Kick {
        /// Where.
        cpu: CpuId,
    },
    /// `entity` is kept from running for these reasons ([`Held`](crate::policy::Held) bits); 0: no longer.
    Held {
        /// Who.
        entity: EntityId,
        /// Why.
        reasons: u8,
    },
    /// `alarm` is to go off on CPU `on` at `at`, in place of whatever it was set to.
    SetAlarm {
        /// Which.
        alarm: Alarm,
        /// Its dense number, for the driver's tables.
        number: usize,
        /// Where.
        on: CpuId,
        /// When.
        at: Instant,
    },
    /// `alarm` is not to go off.
    ClearAlarm {
        /// Which.
        alarm: Alarm,
        /// Its dense number.
        number: usize,
    },
}

/// How a kick reaches a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kicks {
    /// At once: the CPU picks in the same settle.
    Immediate,
    /// By the driver, which may take its time ([`Action::Kick`], [`Input::Kicked`]).
    Delivered,
}

/// A scheduler: one policy, the CPUs it decides about, and the truth about them.
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
    /// A machine without entities, all CPUs idle, at [`Instant::ZERO`].
    ///
    /// # Errors
    /// The policy does not work with these knobs on this host.
    pub fn build(descriptor: &Descriptor, host: Topology, knobs: &Knobs, kicks: Kicks) -> Result<Machine, Refused> {
        Ok(Machine::new((descriptor.build)(&host, knobs)?, descriptor.alarms, host, kicks))
    }

    /// A machine around a policy without a descriptor.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, alarms: AlarmSlots, host: Topology, kicks: Kicks) -> Machine {
        Machine { policy, truth: Truth::new(host, alarms, kicks) }
    }

    // ---- Membership ----

    /// Adds an entity, blocked.
    ///
    /// # Errors
    /// The wish is malformed, or the policy cannot meet it; nothing has changed then.
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

    /// Removes an entity, wherever it is.
    pub fn detach(&mut self, now: Instant, e: EntityId) {
        self.advance(now);
        self.stop(e);
        let here = self.truth.slot(e).cpu;
        self.policy.detach(e, &mut Cx::new(&mut self.truth, here));
        self.truth.remove_entity(e);
    }

    /// Changes what is asked for an entity.
    ///
    /// # Errors
    /// As for [`attach`](Machine::attach).
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
    /// As for [`attach`](Machine::attach).
    pub fn create_group(&mut self, now: Instant, params: GroupParams, parent: GroupId) -> Result<GroupId, Refused> {
        self.advance(now);
        if !self.truth.is_group(parent) {
            return Err(Refused::NoGroup(parent));
        }
        let g = self.truth.add_group(params, parent);
        let answer = self.tell_group(g, GroupChange::Created { parent });
        if answer.is_err() {
            self.truth.remove_group(g);
        }
        answer.map(|()| g)
    }

    /// Changes what is asked for a group.
    ///
    /// # Errors
    /// As for [`attach`](Machine::attach).
    pub fn adjust_group(&mut self, now: Instant, g: GroupId, params: GroupParams) -> Result<(), Refused> {
        self.advance(now);
        if !self.truth.is_group(g) {
            return Err(Refused::NoGroup(g));
        }
        self.charge_all();
        let old = core::mem::replace(self.truth.group_params_mut(g), params);
        let answer = self.tell_group(g, GroupChange::Params { old: &old });
        if answer.is_err() {
            *self.truth.group_params_mut(g) = old;
        }
        answer
    }

    /// Removes an empty group.
    ///
    /// # Errors
    /// It still has members or subgroups, or it is the root.
    pub fn remove_group(&mut self, now: Instant, g: GroupId) -> Result<(), Refused> {
        self.advance(now);
        if !self.truth.is_group(g) {
            return Err(Refused::NoGroup(g));
        }
        if g == GroupId::ROOT || self.truth.group_in_use(g) {
            return Err(Refused::GroupInUse(g));
        }
        self.tell_group(g, GroupChange::Removed)?;
        self.truth.remove_group(g);
        Ok(())
    }

    fn tell_group(&mut self, g: GroupId, change: GroupChange<'_>) -> Result<(), Refused> {
        self.policy.group(g, change, &mut Cx::new(&mut self.truth, CpuId::default()))
    }

    // ---- Facts ----

    /// Passes on a fact. Several may come at one instant; [`settle`](Machine::settle) decides afterwards.
    ///
    /// Panics when the fact contradicts the truth: a wake-up of who is not blocked, a block where nobody runs, a kick that arrives
    /// at a frozen CPU.
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
            Input::Alarm { alarm } => self.alarm(alarm),
            Input::Event { entity, what } => {
                assert_ne!(self.truth.slot(entity).state, State::Blocked, "an event wakes who is blocked");
                let here = self.truth.slot(entity).cpu;
                self.policy.event(entity, what, &mut Cx::new(&mut self.truth, here));
            }
            Input::YieldTo { cpu, to } => {
                let (from, _) = self.truth.running(cpu).expect("somebody runs where a yield comes from");
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

    /// Charges who runs on `cpu`, empties the seat and lets the policy have them back.
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

    /// Blocks `e`, wherever it is.
    fn stop(&mut self, e: EntityId) {
        match self.truth.slot(e).state {
            State::Blocked => {}
            State::Running(cpu) => self.leave_cpu(cpu, State::Blocked, StopReason::Blocked),
            State::Waiting => {
                // Law 6: sleep is only for those who wait.
                self.truth.slot_mut(e).state = State::Blocked;
                let here = self.truth.slot(e).cpu;
                self.policy.sleep(e, &mut Cx::new(&mut self.truth, here));
            }
        }
    }

    fn alarm(&mut self, alarm: Alarm) {
        if matches!(alarm.owner, AlarmOwner::Entity(e) if !self.truth.is_attached(e))
            || matches!(alarm.owner, AlarmOwner::Group(g) if !self.truth.is_group(g))
        {
            return;
        }
        let cell = *self.truth.alarms.get(alarm);
        if cell.at > self.truth.now {
            return; // It was cleared or put off while it was on its way.
        }
        self.truth.expect_awake(cell.on);
        self.truth.alarms.set(alarm, cell.on, Instant::NEVER);
        self.policy.alarm(alarm, &mut Cx::new(&mut self.truth, cell.on));
    }

    // ---- The decision ----

    /// Decides, once for all that happened at `now`, and says what is to be done.
    pub fn settle(&mut self, now: Instant) -> &[Action] {
        self.advance(now);
        self.policy.plan(&mut Cx::new(&mut self.truth, CpuId::default()));
        // A pick may kick others, and those others again; a policy that never comes to rest is wrong.
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
        self.truth.tell();
        self.truth.actions()
    }

    /// What the last [`settle`](Machine::settle) said.
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

    /// From now on the policy may see which CPUs are frozen ([`Cx::preempted`]); otherwise it cannot.
    pub fn show_preempted(&mut self) {
        self.truth.shows_preempted = true;
    }

    // ---- What is known ----

    /// Whether `cpu` is frozen.
    #[must_use]
    pub fn is_frozen(&self, cpu: CpuId) -> bool {
        self.truth.is_frozen(cpu)
    }

    /// Whether `cpu` is frozen and picks as soon as it thaws.
    #[must_use]
    pub fn picks_once_thawed(&self, cpu: CpuId) -> bool {
        self.truth.picks_once_thawed(cpu)
    }

    /// The instant of the last call.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.truth.now
    }

    /// The machine's CPUs.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.truth.host
    }

    /// Where `e` is.
    #[must_use]
    pub fn state(&self, e: EntityId) -> State {
        self.truth.slot(e).state
    }

    /// The CPU `e` runs on or last ran on; its lowest allowed one before it ever ran.
    #[must_use]
    pub fn last_cpu(&self, e: EntityId) -> CpuId {
        self.truth.slot(e).cpu
    }

    /// Whether `e` is attached.
    #[must_use]
    pub fn is_attached(&self, e: EntityId) -> bool {
        self.truth.is_attached(e)
    }

    /// Whether `e` is held.
    #[must_use]
    pub fn is_held(&self, e: EntityId) -> bool {
        self.truth.slot(e).held != 0
    }

    /// Who runs on `cpu`.
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Option<EntityId> {
        self.truth.running(cpu).map(|(e, _)| e)
    }

    /// The end of the slice on `cpu`; [`Instant::NEVER`] if it has none or nobody runs there.
    #[must_use]
    pub fn until(&self, cpu: CpuId) -> Instant {
        self.truth.until(cpu)
    }

    /// The CPU time `e` has been charged since it was attached. Law 5.
    #[must_use]
    pub fn charged(&self, e: EntityId) -> Nanos {
        self.truth.slot(e).charged
    }

    /// The CPUs `e` may run on: its affinity, and where the policy confines it to.
    #[must_use]
    pub fn allowed(&self, e: EntityId) -> CpuSet {
        self.truth.allowed(e)
    }

    /// What is asked for `e`.
    #[must_use]
    pub fn params(&self, e: EntityId) -> &Params {
        self.truth.params(e)
    }

    /// What the policy keeps about `e` under `name`, for tables and tests; `None` if it keeps no such thing.
    #[must_use]
    pub fn inspect(&self, e: EntityId, name: &str) -> Option<i64> {
        let mut found = None;
        self.policy.inspect(e, &mut |what, value| {
            if what == name {
                found = Some(value);
            }
        });
        found
    }

    /// Shows all that the policy keeps about `e`.
    pub fn inspect_all(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.policy.inspect(e, show);
    }

    /// The current period of the promise of `e`; `None` where the policy keeps no promise for it.
    #[must_use]
    pub fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.policy.promise(e)
    }

    /// The place of `e` in the order of the policy; `None` where that order is not one of [`Position`].
    #[must_use]
    pub fn position(&self, e: EntityId) -> Option<Position> {
        self.policy.position(e)
    }

    /// Whether the policy takes `e` for an interactive entity.
    #[must_use]
    pub fn interactive(&self, e: EntityId) -> bool {
        self.policy.interactive(e)
    }
}
