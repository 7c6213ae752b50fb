//! The state of the machine at this instant. [`Machine`](crate::machine::Machine) owns this state; policies read the
//! state through [`Cx`](crate::cx::Cx).
//!
//! Laws are asserted at each change of the state. The comments name a law by its number in ARCHITECTURE.md.

mod confined;
mod frozen;
mod groups;
mod slots;

use crate::alarm::{Alarm, AlarmOwner, AlarmSlots};
use crate::alarms::Alarms;
use crate::entity::{Held, State};
use crate::id::{CpuId, CpuSet, ENTITIES_MAX, EntityId};
use crate::machine::{Action, Kicks};
use crate::params::{GroupParams, Params, Topology};
use crate::time::{Instant, Nanos};
use alloc::vec::Vec;
use confined::Confined;
use slots::{Group, NO_ENTITY, Slot};

/// The state of a CPU.
#[derive(Clone, Copy, Debug)]
struct Seat {
    /// Entity that runs on the CPU.
    entity: Option<EntityId>,
    /// Entity that ran on the CPU at the last report to the driver.
    reported: Option<EntityId>,
    /// Start of the running time that has not been charged yet.
    since: Instant,
    /// End of the time slice.
    until: Instant,
    /// Whether a change of this CPU has not been reported to the driver.
    touched: bool,
    /// Whether the CPU picked an entity, or its time slice was cut, since the last report to the driver.
    decided: bool,
    /// False if a kick was requested since the last report to the driver.
    kick_reported: bool,
}

#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) now: Instant,
    pub(crate) host: Topology,
    kicks: Kicks,
    seats: Vec<Seat>,
    /// CPUs that must still pick in this settle.
    needy: CpuSet,
    needy_count: usize,
    /// CPUs with a kick in flight.
    kicked: CpuSet,
    /// vCPUs without a physical CPU.
    frozen: CpuSet,
    frozen_count: usize,
    /// Frozen CPUs whose vCPU was preempted, if the policy is informed.
    preempted: CpuSet,
    /// Frozen CPUs that pick as soon as they thaw.
    deferred: CpuSet,
    /// Maximum number of picks of one settle. With more picks, the machine panics.
    pub(crate) picks_most: usize,
    /// CPU for which `settle` puts an entity back or picks at this moment.
    pub(crate) deciding: Option<CpuId>,
    slots: Vec<Slot>,
    /// Parameters of each entity. They are stored apart from `slots`, because they are rarely read.
    params: Vec<Params>,
    confined: Confined,
    free_slots: Vec<u32>,
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    pub(crate) alarms: Alarms,
    touched: Vec<CpuId>,
    hold_changes: Vec<EntityId>,
    actions: Vec<Action>,
}

impl Truth {
    pub(crate) fn new(host: Topology, alarms: AlarmSlots, kicks: Kicks) -> Truth {
        let seat = Seat {
            entity: None,
            reported: None,
            since: Instant::ZERO,
            until: Instant::NEVER,
            touched: false,
            decided: false,
            kick_reported: true,
        };
        let root = Group {
            generation: 0,
            attached: true,
            params: GroupParams::default(),
            parent: None,
            children: 0,
            first_member: NO_ENTITY,
        };
        let mut truth = Truth {
            now: Instant::ZERO,
            host,
            kicks,
            seats: alloc::vec![seat; host.cpus],
            needy: CpuSet::EMPTY,
            needy_count: 0,
            kicked: CpuSet::EMPTY,
            frozen: CpuSet::EMPTY,
            frozen_count: 0,
            preempted: CpuSet::EMPTY,
            deferred: CpuSet::EMPTY,
            picks_most: 64 + 2 * host.cpus * host.cpus,
            deciding: None,
            slots: Vec::new(),
            params: Vec::new(),
            confined: Confined::new(host.cpus),
            free_slots: Vec::new(),
            groups: alloc::vec![root],
            free_groups: Vec::new(),
            alarms: Alarms::new(alarms, host.cpus),
            touched: Vec::with_capacity(host.cpus),
            hold_changes: Vec::new(),
            actions: Vec::new(),
        };
        truth.reserve();
        truth
    }

    /// Makes room for all actions of one settle, so that reporting allocates nothing. Law 9.
    fn reserve(&mut self) {
        self.alarms.reserve(self.slots.len(), self.groups.len());
        let most = 3 * self.seats.len() + self.slots.len() + self.alarms.len();
        self.actions.reserve(most - self.actions.len().min(most));
        self.hold_changes.reserve(self.slots.len() - self.hold_changes.len());
    }

    // ---- Entities ----

    #[inline]
    pub(crate) fn slot(&self, e: EntityId) -> &Slot {
        let slot = &self.slots[e.index()];
        assert!(slot.generation == e.generation() && slot.attached, "law 8: {e} is detached");
        slot
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, e: EntityId) -> &mut Slot {
        let slot = &mut self.slots[e.index()];
        assert!(slot.generation == e.generation() && slot.attached, "law 8: {e} is detached");
        slot
    }

    pub(crate) fn is_attached(&self, e: EntityId) -> bool {
        self.slots.get(e.index()).is_some_and(|slot| slot.attached && slot.generation == e.generation())
    }

    #[inline]
    pub(crate) fn params(&self, e: EntityId) -> &Params {
        let _ = self.slot(e);
        &self.params[e.index()]
    }

    fn id(&self, index: u32) -> EntityId {
        EntityId::new(index, self.slots[index as usize].generation)
    }

    /// Adds a blocked entity, in a free slot or in a new slot.
    pub(crate) fn add_entity(&mut self, params: Params) -> EntityId {
        let cpu = params.affinity.and(&self.host.all()).first().expect("checked before");
        let mut slot = Slot {
            generation: 0,
            state: State::Blocked,
            held: 0,
            held_reported: 0,
            hold_listed: false,
            class: 0,
            anywhere: false,
            attached: true,
            cpu,
            charged: Nanos::ZERO,
            next_member: NO_ENTITY,
            prev_member: NO_ENTITY,
        };
        let index = match self.free_slots.pop() {
            Some(index) => {
                slot.generation = self.slots[index as usize].generation + 1;
                self.slots[index as usize] = slot;
                self.params[index as usize] = params;
                index
            }
            None => {
                assert!(self.slots.len() < ENTITIES_MAX, "a machine holds at most ENTITIES_MAX entities");
                self.slots.push(slot);
                self.params.push(params);
                #[expect(clippy::cast_possible_truncation, reason = "ENTITIES_MAX fits in 32 bits")]
                let index = (self.slots.len() - 1) as u32;
                index
            }
        };
        self.confined.free(index as usize);
        self.reserve();
        self.free_slots.reserve(self.slots.len() - self.free_slots.len());
        let e = self.id(index);
        self.set_anywhere(e);
        self.join_group(e, params.group);
        e
    }

    pub(crate) fn remove_entity(&mut self, e: EntityId) {
        assert_eq!(self.slot(e).state, State::Blocked, "an entity is blocked when it leaves");
        self.leave_group(e, self.params[e.index()].group);
        self.alarms.drop_entity(e);
        let slot = self.slot_mut(e);
        slot.attached = false;
        #[expect(clippy::cast_possible_truncation, reason = "an index is 32 bits")]
        self.free_slots.push(e.index() as u32);
    }

    /// Replaces the parameters of `e`; returns the previous parameters.
    pub(crate) fn replace_params(&mut self, e: EntityId, params: Params) -> Params {
        let old = core::mem::replace(&mut self.params[e.index()], params);
        if old.group != params.group {
            self.leave_group(e, old.group);
            self.join_group(e, params.group);
        }
        self.set_anywhere(e);
        old
    }

    fn set_anywhere(&mut self, e: EntityId) {
        let all = self.host.all();
        let anywhere = all.minus(&self.allowed(e)).is_empty();
        self.slot_mut(e).anywhere = anywhere;
    }

    pub(crate) fn allowed(&self, e: EntityId) -> CpuSet {
        self.confined.of(e.index(), &self.params[e.index()].affinity.and(&self.host.all()))
    }

    #[inline]
    pub(crate) fn may_run(&self, e: EntityId, cpu: CpuId) -> bool {
        if self.slot(e).anywhere {
            return cpu.index() < self.host.cpus;
        }
        self.params[e.index()].affinity.contains(cpu) && self.confined.allows(e.index(), cpu)
    }

    pub(crate) fn confine(&mut self, e: EntityId, to: &CpuSet) {
        let _ = self.slot(e);
        self.confined.confine(e.index(), to);
        self.set_anywhere(e);
        self.kick_if_misplaced(e);
    }

    /// Kicks the CPU on which `e` runs, if `e` is held or may no longer run on this CPU.
    pub(crate) fn kick_if_misplaced(&mut self, e: EntityId) {
        if let State::Running(cpu) = self.slot(e).state
            && (!self.may_run(e, cpu) || self.slot(e).held != 0)
        {
            self.kick(cpu);
        }
    }

    pub(crate) fn hold(&mut self, e: EntityId, held: Held) {
        let slot = self.slot_mut(e);
        slot.held |= held as u8;
        self.hold_changed(e);
        self.kick_if_misplaced(e);
    }

    pub(crate) fn release(&mut self, e: EntityId, held: Held) {
        let slot = self.slot_mut(e);
        slot.held &= !(held as u8);
        self.hold_changed(e);
    }

    fn hold_changed(&mut self, e: EntityId) {
        if !core::mem::replace(&mut self.slot_mut(e).hold_listed, true) {
            self.hold_changes.push(e);
        }
    }

    // ---- CPUs ----

    #[inline]
    pub(crate) fn running(&self, cpu: CpuId) -> Option<(EntityId, Instant)> {
        let seat = &self.seats[cpu.index()];
        Some((seat.entity?, seat.since))
    }

    pub(crate) fn until(&self, cpu: CpuId) -> Instant {
        self.seats[cpu.index()].until
    }

    #[inline]
    pub(crate) fn will_pick(&self, cpu: CpuId) -> bool {
        self.deciding == Some(cpu) || self.will_pick_here(cpu)
    }

    /// Returns whether `cpu` picks without a further kick.
    #[inline]
    fn will_pick_here(&self, cpu: CpuId) -> bool {
        self.needy.contains(cpu) || self.kicked.contains(cpu) || (self.frozen_count > 0 && self.deferred.contains(cpu))
    }

    pub(crate) fn idle_cpu_for(&self, e: EntityId) -> Option<CpuId> {
        let last = self.slot(e).cpu;
        let idle =
            |cpu: CpuId| self.seats[cpu.index()].entity.is_none() && !self.will_pick(cpu) && self.deciding != Some(cpu);
        if self.may_run(e, last) && idle(last) {
            return Some(last);
        }
        self.host.iter().find(|&cpu| idle(cpu) && self.may_run(e, cpu))
    }

    #[inline]
    fn touch(&mut self, cpu: CpuId) {
        if !core::mem::replace(&mut self.seats[cpu.index()].touched, true) {
            self.touched.push(cpu);
        }
    }

    /// Makes `cpu` pick in this settle, or as soon as `cpu` thaws if `cpu` is frozen.
    #[inline]
    pub(crate) fn need(&mut self, cpu: CpuId) {
        if self.is_frozen(cpu) {
            self.deferred.insert(cpu);
            return;
        }
        if self.needy.insert(cpu) {
            self.needy_count += 1;
            self.touch(cpu);
        }
    }

    #[inline]
    pub(crate) fn kick(&mut self, cpu: CpuId) {
        assert!(cpu.index() < self.host.cpus, "{cpu:?} is not on this machine");
        // A frozen CPU needs a delivered kick, even if kicks are immediate.
        if self.kicks == Kicks::Immediate && !self.is_frozen(cpu) {
            return self.need(cpu);
        }
        if !self.will_pick_here(cpu) {
            self.kicked.insert(cpu);
            self.seats[cpu.index()].kick_reported = false;
            self.touch(cpu);
        }
    }

    /// Returns whether a kick that arrives at `cpu` still requires a pick: the CPU may have picked in the meantime.
    pub(crate) fn kick_arrived(&mut self, cpu: CpuId) -> bool {
        self.kicked.contains(cpu)
    }

    pub(crate) fn cut(&mut self, cpu: CpuId, until: Instant) {
        assert!(until > self.now, "law 1: a slice cannot end at {until}, it is {} already", self.now);
        let seat = &mut self.seats[cpu.index()];
        assert!(seat.entity.is_some(), "only a running slice can be cut");
        if until < seat.until {
            seat.until = until;
            seat.decided = true;
            self.touch(cpu);
        }
    }

    /// Removes and returns the lowest CPU that must pick. The coming pick also answers a kick in flight to this CPU.
    #[inline]
    pub(crate) fn take_needy(&mut self) -> Option<CpuId> {
        if self.needy_count == 0 {
            return None;
        }
        let cpu = self.needy.first().expect("counted");
        self.needy.remove(cpu);
        self.needy_count -= 1;
        self.kicked.remove(cpu);
        Some(cpu)
    }

    /// Cancels a second pick of `cpu`: the pick that follows the put also answers kicks during the put.
    #[inline]
    pub(crate) fn answer(&mut self, cpu: CpuId) {
        if self.needy_count > 0 && self.needy.remove(cpu) {
            self.needy_count -= 1;
        }
    }

    #[inline]
    pub(crate) fn take_ran(&mut self, cpu: CpuId) -> Option<(EntityId, Nanos)> {
        if self.is_frozen(cpu) {
            return None;
        }
        let seat = &mut self.seats[cpu.index()];
        let entity = seat.entity.filter(|_| seat.since != self.now)?;
        let ran = self.now.since(seat.since);
        seat.since = self.now;
        self.slots[entity.index()].charged += ran;
        Some((entity, ran))
    }

    /// Takes the running time of the entity on `cpu`, as measured by the driver. The rest of the elapsed time is not
    /// charged.
    pub(crate) fn take_measured(&mut self, cpu: CpuId, time: Nanos) -> Option<(EntityId, Nanos)> {
        let seat = &mut self.seats[cpu.index()];
        let entity = seat.entity?;
        // The clock of CPU time and the clock of instants may differ by some nanoseconds.
        let ran = time.min(self.now.since(seat.since));
        seat.since = self.now;
        self.slots[entity.index()].charged += ran;
        (!ran.is_zero()).then_some((entity, ran))
    }

    /// Empties the seat of `cpu`. The entity must have been charged.
    #[inline]
    pub(crate) fn vacate(&mut self, cpu: CpuId, to: State) -> EntityId {
        let seat = &mut self.seats[cpu.index()];
        assert!(seat.since == self.now, "law 5: charged before it stops");
        let entity = seat.entity.take().expect("an entity runs on a CPU that is vacated");
        seat.until = Instant::NEVER;
        let slot = self.slot_mut(entity);
        assert_eq!(slot.state, State::Running(cpu), "law 3: the entity of a CPU runs there and nowhere else");
        slot.state = to;
        self.touch(cpu);
        entity
    }

    /// Makes `e` run on `cpu`, at most until `until`.
    #[inline]
    pub(crate) fn seat(&mut self, cpu: CpuId, e: EntityId, until: Instant) {
        let now = self.now;
        assert!(until > now, "law 1: a slice cannot end at {until}, it is {now} already");
        let (params, confined) = (&self.params, &self.confined);
        let slot = &mut self.slots[e.index()];
        assert!(slot.generation == e.generation() && slot.attached, "law 8: {e} is detached");
        let may_run = slot.anywhere || (params[e.index()].affinity.contains(cpu) && confined.allows(e.index(), cpu));
        assert!(may_run, "law 2: {e} may not run on {cpu:?}");
        assert!(slot.held == 0, "law 2: {e} is held");
        assert!(slot.state == State::Waiting, "laws 2 and 3: {e} was picked but is {:?}", slot.state);
        slot.state = State::Running(cpu);
        slot.cpu = cpu;
        let seat = &mut self.seats[cpu.index()];
        assert!(seat.entity.is_none(), "law 3: one entity to a CPU");
        seat.entity = Some(e);
        seat.since = now;
        seat.until = until;
        seat.decided = true;
    }

    /// Stops the ticks of `cpu`, which becomes idle.
    pub(crate) fn idle(&mut self, cpu: CpuId) {
        self.alarms.stop_ticks(cpu);
    }

    // ---- Alarms ----

    pub(crate) fn set_alarm(&mut self, alarm: Alarm, on: CpuId, at: Instant) {
        assert!(at > self.now, "law 7: {alarm:?} lies in the past ({at}, it is {})", self.now);
        self.check_owner(alarm);
        self.alarms.set(alarm, on, at);
    }

    pub(crate) fn clear_alarm(&mut self, alarm: Alarm) {
        self.check_owner(alarm);
        self.alarms.set(alarm, CpuId::default(), Instant::NEVER);
    }

    pub(crate) fn alarm_at(&self, alarm: Alarm) -> Option<Instant> {
        Some(self.alarms.get(alarm).at).filter(|&at| at != Instant::NEVER)
    }

    fn check_owner(&self, alarm: Alarm) {
        match alarm.owner {
            AlarmOwner::Entity(e) => drop(*self.slot(e)),
            AlarmOwner::Group(g) => drop(self.group(g).parent),
            AlarmOwner::Policy | AlarmOwner::Cpu(_) => {}
        }
    }

    // ---- Actions for the driver ----

    /// Turns all changes since the last call into actions: first stops, then holds, then runs and kicks, then alarms.
    pub(crate) fn report(&mut self) {
        self.actions.clear();
        if let [cpu] = *self.touched {
            self.report_stop(cpu);
            if !self.hold_changes.is_empty() {
                self.report_holds();
            }
            self.report_run(cpu);
        } else {
            for i in 0..self.touched.len() {
                self.report_stop(self.touched[i]);
            }
            self.report_holds();
            for i in 0..self.touched.len() {
                self.report_run(self.touched[i]);
            }
        }
        self.touched.clear();
        if self.alarms.any_changed() {
            self.alarms.report(&mut self.actions);
        }
    }

    #[inline]
    fn report_stop(&mut self, cpu: CpuId) {
        let seat = &self.seats[cpu.index()];
        if let Some(entity) = seat.reported.filter(|_| seat.reported != seat.entity) {
            self.actions.push(Action::Stop { cpu, entity });
        }
    }

    #[inline]
    fn report_run(&mut self, cpu: CpuId) {
        let seat = &mut self.seats[cpu.index()];
        seat.touched = false;
        let reported = core::mem::replace(&mut seat.reported, seat.entity);
        let decided = core::mem::replace(&mut seat.decided, false);
        if let Some(entity) = seat.entity.filter(|_| decided) {
            let until = seat.until;
            self.actions.push(match reported == seat.entity {
                true => Action::Extend { cpu, until },
                false => Action::Run { cpu, entity, until },
            });
        }
        if !core::mem::replace(&mut seat.kick_reported, true) && self.kicked.contains(cpu) {
            self.actions.push(Action::Kick { cpu });
        }
    }

    #[cold]
    fn report_holds(&mut self) {
        for entity in self.hold_changes.drain(..) {
            let slot = &mut self.slots[entity.index()];
            if !slot.attached || slot.generation != entity.generation() {
                continue;
            }
            slot.hold_listed = false;
            if slot.held != slot.held_reported {
                slot.held_reported = slot.held;
                self.actions.push(Action::Held { entity, reasons: slot.held });
            }
        }
    }

    #[inline]
    pub(crate) fn actions(&self) -> &[Action] {
        &self.actions
    }
}
