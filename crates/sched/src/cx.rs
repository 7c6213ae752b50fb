//! [`Cx`]: the limited handle through which a policy observes the machine and makes requests.

use crate::alarm::{Alarm, AlarmOwner};
use crate::entity::{Held, State};
use crate::id::{CpuId, CpuSet, EntityId, GroupId};
use crate::params::{GroupParams, Params, Topology};
use crate::time::{Instant, Nanos};
use crate::truth::Truth;
use core::fmt;

/// The occupant of a CPU relative to a policy or, in a policy composed of classes, relative to one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    /// No entity: the CPU idles and may be about to pick.
    Idle,
    /// An entity of this policy or class.
    Mine {
        /// Entity that runs on the CPU.
        entity: EntityId,
        /// Start of the running time that has not been charged yet.
        since: Instant,
    },
    /// An entity of a more urgent class.
    Above,
    /// An entity of a less urgent class.
    Below,
}

/// In a policy composed of classes, the class that uses the handle, and the position of its alarm slots.
#[derive(Clone, Copy, Default)]
struct View {
    class: u8,
    alarms: AlarmBase,
}

/// The number of the first alarm slot of one class of a composed policy, per type of owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlarmBase {
    /// First slot among the slots of the policy.
    pub policy: u8,
    /// First slot among the slots of each CPU.
    pub cpu: u8,
    /// First slot among the slots of each entity.
    pub entity: u8,
    /// First slot among the slots of each group.
    pub group: u8,
}

/// The handle that a policy receives with every call. A policy reads the machine and makes requests through the handle.
/// The machine checks the laws and then carries out the request.
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

    /// Returns a handle to the same machine for one class of a composed policy. A lower `class` is more urgent.
    pub fn as_class(&mut self, class: u8, alarms: AlarmBase) -> Cx<'_> {
        Cx { truth: self.truth, here: self.here, view: View { class, alarms } }
    }

    /// Puts `e` into a class of a composed policy.
    pub fn classify(&mut self, e: EntityId, class: u8) {
        self.truth.slot_mut(e).class = class;
    }

    /// Returns the class of `e`; 0 if no class was set.
    #[must_use]
    pub fn class_of(&self, e: EntityId) -> u8 {
        self.truth.slot(e).class
    }

    /// Returns the current instant.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.truth.now
    }

    /// Returns the CPU to which the current call relates. This is the CPU of the waker, of the alarm or of the running
    /// entity, or the CPU that puts an entity back or picks. Without such a CPU: CPU 0 in `plan` and `group`, else the
    /// last CPU of the entity.
    #[inline]
    #[must_use]
    pub fn here(&self) -> CpuId {
        self.here
    }

    /// Returns the CPUs of the machine, their sibling threads and shared caches.
    #[inline]
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.truth.host
    }

    /// Returns the parameters of `e`.
    #[inline]
    #[must_use]
    pub fn params(&self, e: EntityId) -> &Params {
        self.truth.params(e)
    }

    /// Returns the state of `e`.
    #[inline]
    #[must_use]
    pub fn state(&self, e: EntityId) -> State {
        self.truth.slot(e).state
    }

    /// Returns whether `e` waits for a CPU and is not held.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self, e: EntityId) -> bool {
        let slot = self.truth.slot(e);
        slot.state == State::Waiting && slot.held == 0
    }

    /// Returns whether `e` is held, for any reason.
    #[inline]
    #[must_use]
    pub fn is_held(&self, e: EntityId) -> bool {
        self.truth.slot(e).held != 0
    }

    /// Returns the CPU on which `e` runs or last ran. Before the first run: the lowest CPU of the affinity with which
    /// `e` was attached.
    #[inline]
    #[must_use]
    pub fn last_cpu(&self, e: EntityId) -> CpuId {
        self.truth.slot(e).cpu
    }

    /// Returns whether `e` may run on `cpu` within its affinity and the policy's own [`confine`](Cx::confine).
    #[inline]
    #[must_use]
    pub fn may_run(&self, e: EntityId, cpu: CpuId) -> bool {
        self.truth.may_run(e, cpu)
    }

    /// Returns whether `e` may run on every CPU.
    #[inline]
    #[must_use]
    pub fn may_run_anywhere(&self, e: EntityId) -> bool {
        self.truth.slot(e).anywhere
    }

    /// Returns the CPUs on which `e` may run.
    #[must_use]
    pub fn allowed(&self, e: EntityId) -> CpuSet {
        self.truth.allowed(e)
    }

    /// Returns the members of `g` itself (not of its subgroups), in reverse order of joining. In a composed policy,
    /// returns only members of this class.
    pub fn members(&self, g: GroupId) -> impl Iterator<Item = EntityId> + '_ {
        self.truth.members(g).filter(|&e| self.class_of(e) == self.view.class)
    }

    /// Returns the parameters of `g`.
    #[must_use]
    pub fn group_params(&self, g: GroupId) -> &GroupParams {
        &self.truth.group(g).params
    }

    /// Returns the parent of `g`; `None` for the root.
    #[must_use]
    pub fn parent(&self, g: GroupId) -> Option<GroupId> {
        self.truth.group(g).parent
    }

    /// Returns the occupant of `cpu`.
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

    /// Returns whether `cpu` is picking, or will pick without a further kick, because it was kicked or its entity
    /// stopped.
    #[inline]
    #[must_use]
    pub fn kicked(&self, cpu: CpuId) -> bool {
        self.truth.will_pick(cpu)
    }

    /// Returns whether `cpu` is a vCPU that its host has preempted (`vcpu_is_preempted`). The vCPU does not react to
    /// kicks until the thaw. Always false if the policy is not informed of preemptions.
    #[inline]
    #[must_use]
    pub fn preempted(&self, cpu: CpuId) -> bool {
        self.truth.is_preempted(cpu)
    }

    /// Returns an idle CPU on which `e` may run and which is not about to pick. The last CPU of `e` takes precedence,
    /// then the CPU with the lowest number.
    #[must_use]
    pub fn idle_cpu_for(&self, e: EntityId) -> Option<CpuId> {
        self.truth.idle_cpu_for(e)
    }

    /// Takes the uncharged running time of the entity on `cpu`. The policy must account for this time as for time
    /// passed to [`charge`](crate::policy::Policy::charge). `None`: no entity of this policy runs on `cpu`, or no time
    /// is due.
    pub fn take_ran(&mut self, cpu: CpuId) -> Option<(EntityId, Nanos)> {
        match self.running(cpu) {
            Running::Mine { .. } => self.truth.take_ran(cpu),
            Running::Idle | Running::Above | Running::Below => None,
        }
    }

    /// Kicks `cpu`, so that it soon picks again. Several kicks count as one kick.
    #[inline]
    pub fn kick(&mut self, cpu: CpuId) {
        self.truth.kick(cpu);
    }

    /// Shortens the time slice of the entity running on `cpu`, without a new pick. The slice then ends at `until`,
    /// which is later than now. A slice that ends earlier is unchanged.
    pub fn cut(&mut self, cpu: CpuId, until: Instant) {
        self.truth.cut(cpu, until);
    }

    /// Holds `e` for this reason. If `e` runs, its CPU is kicked.
    pub fn hold(&mut self, e: EntityId, held: Held) {
        self.truth.hold(e, held);
    }

    /// Ends a hold for this reason. `e` waits again if `e` is not blocked and no other hold remains.
    pub fn release(&mut self, e: EntityId, held: Held) {
        self.truth.release(e, held);
    }

    /// Confines `e` to these CPUs, within its affinity; [`CpuSet::ALL`] removes the confinement. If `e` runs on a CPU
    /// outside this set, that CPU is kicked.
    pub fn confine(&mut self, e: EntityId, to: &CpuSet) {
        self.truth.confine(e, to);
    }

    /// Sets an alarm for `at`, later than now, on CPU `on`. The previous alarm of the slot is replaced.
    pub fn set_alarm(&mut self, alarm: Alarm, on: CpuId, at: Instant) {
        self.truth.set_alarm(self.mine(alarm), on, at);
    }

    /// Clears an alarm. The alarm need not be set.
    pub fn clear_alarm(&mut self, alarm: Alarm) {
        self.truth.clear_alarm(self.mine(alarm));
    }

    /// Returns the instant at which an alarm is due; `None` if the alarm is not set.
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
