//! [`Cx`]: the limited handle through which a policy sees the machine and asks things of it.

use crate::alarm::{Alarm, AlarmOwner};
use crate::entity::{Held, State};
use crate::id::{CpuId, CpuSet, EntityId, GroupId};
use crate::params::{GroupParams, Params, Topology};
use crate::time::{Instant, Nanos};
use crate::truth::Truth;
use core::fmt;

/// What runs on a CPU, as seen by a policy (or by one class of a composition).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    /// The CPU idles; it may be about to pick.
    Idle,
    /// An entity of this policy or class.
    Mine {
        /// The entity.
        entity: EntityId,
        /// The start of the time it has not been charged for yet.
        since: Instant,
    },
    /// An entity of a more urgent class.
    Above,
    /// An entity of a less urgent class.
    Below,
}

/// Which class of a composition is looking, and where its alarm slots begin.
#[derive(Clone, Copy, Default)]
struct View {
    class: u8,
    alarms: AlarmBase,
}

/// Where the alarm slots of one class of a composition begin, per kind of owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlarmBase {
    /// Among the policy's own.
    pub policy: u8,
    /// Among each CPU's.
    pub cpu: u8,
    /// Among each entity's.
    pub entity: u8,
    /// Among each group's.
    pub group: u8,
}

/// The handle that a policy gets with every call. It shows the machine and takes requests. A request takes effect
/// through the machine, which checks the laws.
pub struct Cx<'a> {
    truth: &'a mut Truth,
    here: CpuId,
    view: View,
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("now", &self.now()).field("here", &self.here).finish_non_exhaustive()
    }
}

impl<'a> Cx<'a> {
    pub(crate) fn new(truth: &'a mut Truth, here: CpuId) -> Cx<'a> {
        Cx { truth, here, view: View::default() }
    }

    /// The same machine as one class of a composition sees it; a lower `class` is more urgent.
    pub fn as_class(&mut self, class: u8, alarms: AlarmBase) -> Cx<'_> {
        Cx { truth: self.truth, here: self.here, view: View { class, alarms } }
    }

    /// Puts `e` into a class of a composition.
    pub fn classify(&mut self, e: EntityId, class: u8) {
        self.truth.slot_mut(e).class = class;
    }

    /// The class `e` was put into, 0 if into none.
    #[must_use]
    pub fn class_of(&self, e: EntityId) -> u8 {
        self.truth.slot(e).class
    }

    /// The current instant.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.truth.now
    }

    /// The CPU of the current call: the waker's, the alarm's, the one that stops an entity or picks.
    #[inline]
    #[must_use]
    pub fn here(&self) -> CpuId {
        self.here
    }

    /// The CPUs of the machine, their sibling threads and shared caches.
    #[inline]
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.truth.host
    }

    /// The parameters of `e`.
    #[inline]
    #[must_use]
    pub fn params(&self, e: EntityId) -> &Params {
        self.truth.params(e)
    }

    /// The state of `e`.
    #[inline]
    #[must_use]
    pub fn state(&self, e: EntityId) -> State {
        self.truth.slot(e).state
    }

    /// Whether `e` waits for a CPU and is not held.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self, e: EntityId) -> bool {
        let slot = self.truth.slot(e);
        slot.state == State::Waiting && slot.held == 0
    }

    /// Whether `e` is held, for any reason.
    #[inline]
    #[must_use]
    pub fn is_held(&self, e: EntityId) -> bool {
        self.truth.slot(e).held != 0
    }

    /// The CPU `e` runs on or last ran on; CPU 0, or its lowest allowed one, before it ever ran.
    #[inline]
    #[must_use]
    pub fn last_cpu(&self, e: EntityId) -> CpuId {
        self.truth.slot(e).cpu
    }

    /// Whether `e` may run on `cpu`: its affinity and the policy's own [`confine`](Cx::confine).
    #[inline]
    #[must_use]
    pub fn may_run(&self, e: EntityId, cpu: CpuId) -> bool {
        self.truth.may_run(e, cpu)
    }

    /// Whether `e` may run on every CPU.
    #[inline]
    #[must_use]
    pub fn may_run_anywhere(&self, e: EntityId) -> bool {
        self.truth.slot(e).anywhere
    }

    /// The CPUs `e` may run on.
    #[must_use]
    pub fn allowed(&self, e: EntityId) -> CpuSet {
        self.truth.allowed(e)
    }

    /// The members of `g` itself (not of its subgroups), newest first; in a composition, those of this class.
    pub fn members(&self, g: GroupId) -> impl Iterator<Item = EntityId> + '_ {
        self.truth.members(g).filter(|&e| self.class_of(e) == self.view.class)
    }

    /// The parameters of `g`.
    #[must_use]
    pub fn group_params(&self, g: GroupId) -> &GroupParams {
        &self.truth.group(g).params
    }

    /// The group above `g`; `None` for the root.
    #[must_use]
    pub fn parent(&self, g: GroupId) -> Option<GroupId> {
        self.truth.group(g).parent
    }

    /// What runs on `cpu`.
    #[inline]
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Running {
        let Some((entity, since)) = self.truth.running(cpu) else { return Running::Idle };
        match self.truth.slot(entity).class.cmp(&self.view.class) {
            core::cmp::Ordering::Less => Running::Above,
            core::cmp::Ordering::Equal => Running::Mine { entity, since },
            core::cmp::Ordering::Greater => Running::Below,
        }
    }

    /// Whether `cpu` has been kicked and has not picked yet.
    #[inline]
    #[must_use]
    pub fn kicked(&self, cpu: CpuId) -> bool {
        self.truth.will_pick(cpu)
    }

    /// Whether `cpu` is a vCPU without a physical CPU at this moment, if the policy may see that (`vcpu_is_preempted`).
    /// Such a vCPU does not react to kicks now.
    #[inline]
    #[must_use]
    pub fn preempted(&self, cpu: CpuId) -> bool {
        self.truth.is_preempted(cpu)
    }

    /// An idle CPU that `e` may run on and that has not been kicked yet: the last CPU of `e` if possible, else the
    /// lowest.
    #[must_use]
    pub fn idle_cpu_for(&self, e: EntityId) -> Option<CpuId> {
        self.truth.idle_cpu_for(e)
    }

    /// Takes the running time of `cpu`'s entity that has not been charged yet. The policy must account for it like for
    /// time passed to [`charge`](crate::policy::Policy::charge). `None` if no entity of this policy runs there, or no
    /// time is due.
    pub fn take_ran(&mut self, cpu: CpuId) -> Option<(EntityId, Nanos)> {
        match self.running(cpu) {
            Running::Mine { .. } => self.truth.take_ran(cpu),
            Running::Idle | Running::Above | Running::Below => None,
        }
    }

    /// Kicks `cpu`: it picks again soon. Several kicks count as one.
    #[inline]
    pub fn kick(&mut self, cpu: CpuId) {
        self.truth.kick(cpu);
    }

    /// Shortens the time slice of the entity running on `cpu` to end at `until` (later than now), without a new
    /// decision.
    pub fn cut(&mut self, cpu: CpuId, until: Instant) {
        self.truth.cut(cpu, until);
    }

    /// Holds `e`, for this reason. If it runs, its CPU is kicked.
    pub fn hold(&mut self, e: EntityId, held: Held) {
        self.truth.hold(e, held);
    }

    /// Ends a hold for this reason. `e` waits again if it was not blocked and is held for no other reason.
    pub fn release(&mut self, e: EntityId, held: Held) {
        self.truth.release(e, held);
    }

    /// Confines `e` to these CPUs, within its affinity; [`CpuSet::ALL`] lifts the confinement.
    pub fn confine(&mut self, e: EntityId, to: &CpuSet) {
        self.truth.confine(e, to);
    }

    /// Sets an alarm to go off on CPU `on` at `at`, later than now. This replaces the slot's previous alarm.
    pub fn set_alarm(&mut self, alarm: Alarm, on: CpuId, at: Instant) {
        self.truth.set_alarm(self.mine(alarm), on, at);
    }

    /// Clears an alarm, set or not.
    pub fn clear_alarm(&mut self, alarm: Alarm) {
        self.truth.clear_alarm(self.mine(alarm));
    }

    /// When an alarm is due; `None` if it is not set.
    #[must_use]
    pub fn alarm_at(&self, alarm: Alarm) -> Option<Instant> {
        self.truth.alarm_at(self.mine(alarm))
    }

    fn mine(&self, alarm: Alarm) -> Alarm {
        let base = match alarm.owner {
            AlarmOwner::Policy => self.view.alarms.policy,
            AlarmOwner::Cpu(_) => self.view.alarms.cpu,
            AlarmOwner::Entity(_) => self.view.alarms.entity,
            AlarmOwner::Group(_) => self.view.alarms.group,
        };
        Alarm { owner: alarm.owner, slot: alarm.slot + base }
    }
}
