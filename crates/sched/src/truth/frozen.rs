//! The frozen CPUs: vCPUs without a physical CPU at this moment.

use super::Truth;
use crate::id::CpuId;
use crate::time::Nanos;

impl Truth {
    #[inline]
    pub(crate) fn is_frozen(&self, cpu: CpuId) -> bool {
        self.frozen_count > 0 && self.frozen.contains(cpu)
    }

    #[inline]
    pub(crate) fn is_preempted(&self, cpu: CpuId) -> bool {
        self.preempted.contains(cpu)
    }

    pub(crate) fn picks_once_thawed(&self, cpu: CpuId) -> bool {
        self.deferred.contains(cpu)
    }

    /// Asserts law 13: nothing executes on a frozen CPU.
    #[inline]
    pub(crate) fn expect_awake(&self, cpu: CpuId) {
        assert!(!self.is_frozen(cpu), "law 13: {cpu:?} is frozen");
    }

    pub(crate) fn freeze(&mut self, cpu: CpuId, preempted: bool) {
        assert!(self.frozen.insert(cpu), "law 13: {cpu:?} is frozen already");
        self.frozen_count += 1;
        if preempted {
            self.preempted.insert(cpu);
        }
        if self.needy_count > 0 && self.needy.remove(cpu) {
            self.needy_count -= 1;
            self.deferred.insert(cpu);
        }
    }

    pub(crate) fn thaw(&mut self, cpu: CpuId, stolen: Nanos) {
        assert!(self.frozen.remove(cpu), "law 13: {cpu:?} thaws but is not frozen");
        self.frozen_count -= 1;
        self.preempted.remove(cpu);
        let seat = &mut self.seats[cpu.index()];
        seat.since = seat.since.saturating_add(stolen).min(self.now);
        if self.deferred.remove(cpu) {
            self.need(cpu);
        }
    }
}
