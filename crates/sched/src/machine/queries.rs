//! Queries of a [`Machine`]. No query changes the machine.

use super::Machine;
use crate::alarm::Alarm;
use crate::answers::{Position, PromiseState};
use crate::entity::State;
use crate::id::{CpuId, CpuSet, EntityId};
use crate::params::{Params, Topology};
use crate::time::{Instant, Nanos};

impl Machine {
    /// Returns whether `cpu` is frozen.
    #[must_use]
    pub fn is_frozen(&self, cpu: CpuId) -> bool {
        self.truth.is_frozen(cpu)
    }

    /// Returns whether `cpu` is frozen and picks as soon as it thaws.
    #[must_use]
    pub fn picks_once_thawed(&self, cpu: CpuId) -> bool {
        self.truth.picks_once_thawed(cpu)
    }

    /// Returns the latest instant that the driver has passed to the machine.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.truth.now
    }

    /// Returns the machine's CPUs.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.truth.host
    }

    /// Returns the dense number of `alarm`, by which a driver indexes its table of timers. Numbers start at 0; the
    /// highest number grows with the number of entities and groups. The number depends only on the type and index of
    /// the owner and on the slot.
    ///
    /// # Panics
    /// The descriptor declares no such slot.
    #[inline]
    #[must_use]
    pub fn alarm_number(&self, alarm: Alarm) -> usize {
        self.truth.alarms.number(alarm)
    }

    /// Returns the CPU and the instant at which `alarm` fires. `None`: the alarm is not set, or the descriptor declares
    /// no such slot.
    #[must_use]
    pub fn alarm(&self, alarm: Alarm) -> Option<(CpuId, Instant)> {
        let cell = self.truth.alarms.find(alarm)?;
        (cell.at != Instant::NEVER).then_some((cell.on, cell.at))
    }

    /// Returns the state of `e`.
    #[must_use]
    pub fn state(&self, e: EntityId) -> State {
        self.truth.slot(e).state
    }

    /// Returns the CPU on which `e` runs or last ran. Before the first run: the lowest CPU of the affinity with which
    /// `e` was attached.
    #[must_use]
    pub fn last_cpu(&self, e: EntityId) -> CpuId {
        self.truth.slot(e).cpu
    }

    /// Returns whether `e` is attached.
    #[must_use]
    pub fn is_attached(&self, e: EntityId) -> bool {
        self.truth.is_attached(e)
    }

    /// Returns whether `e` is held.
    #[must_use]
    pub fn is_held(&self, e: EntityId) -> bool {
        self.truth.slot(e).held != 0
    }

    /// Returns the entity running on `cpu`.
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Option<EntityId> {
        self.truth.running(cpu).map(|(e, _)| e)
    }

    /// Returns the end of the time slice on `cpu`. [`Instant::NEVER`] if the time slice has no end or the CPU idles.
    #[must_use]
    pub fn until(&self, cpu: CpuId) -> Instant {
        self.truth.until(cpu)
    }

    /// Returns the CPU time charged to `e` since its attachment. Law 5.
    #[must_use]
    pub fn charged(&self, e: EntityId) -> Nanos {
        self.truth.slot(e).charged
    }

    /// Returns the CPUs on which `e` may run: its affinity and the policy's confinement.
    #[must_use]
    pub fn allowed(&self, e: EntityId) -> CpuSet {
        self.truth.allowed(e)
    }

    /// Returns the parameters of `e`.
    #[must_use]
    pub fn params(&self, e: EntityId) -> &Params {
        self.truth.params(e)
    }

    /// Returns the policy's state of `e` under `name`, for tables and tests. `None`: no state has this name.
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

    /// Passes the policy's whole state of `e` to `show`.
    pub fn inspect_all(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.policy.inspect(e, show);
    }

    /// Returns the state of the reservation of `e` in its current period; `None` if the policy keeps no reservation for
    /// `e`.
    #[must_use]
    pub fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.policy.promise(e)
    }

    /// Returns the credit of `e` in the unit of the policy, as of the last charge. `None`: the policy has no credits.
    #[must_use]
    pub fn credit(&self, e: EntityId) -> Option<i64> {
        self.policy.credit(e)
    }

    /// Returns the position of `e` in the order of the policy. `None`: [`Position`] has no variant for this order.
    #[must_use]
    pub fn position(&self, e: EntityId) -> Option<Position> {
        self.policy.position(e)
    }

    /// Returns whether the policy classifies `e` as interactive.
    #[must_use]
    pub fn interactive(&self, e: EntityId) -> bool {
        self.policy.interactive(e)
    }
}
