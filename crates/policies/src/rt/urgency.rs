//! [`Urgency`]: how urgent the most urgent of each CPU is, and which CPUs are least so (the kernel's `cpupri`).

use sched::{CpuId, CpuSet};

/// A place in the order of priorities: 0 for priority 99, 98 for priority 1, then [`OTHER`].
pub(super) type Level = usize;

/// How many real-time priorities there are.
pub(super) const PRIORITIES: usize = 99;
/// A CPU without real-time entities.
pub(super) const OTHER: Level = PRIORITIES;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Urgency {
    /// By CPU; `None`: it takes nobody.
    levels: Vec<Option<Level>>,
    /// By level.
    cpus: Vec<CpuSet>,
    /// The levels at which there is a CPU.
    occupied: u128,
}

impl Urgency {
    /// All CPUs without real-time entities.
    pub(super) fn new(cpus: usize) -> Urgency {
        let mut sets = vec![CpuSet::EMPTY; OTHER + 1];
        sets[OTHER] = CpuSet::first_n(cpus);
        Urgency { levels: vec![Some(OTHER); cpus], cpus: sets, occupied: 1 << OTHER }
    }

    /// The level of `cpu`; `None` if it takes nobody.
    pub(super) fn of(&self, cpu: CpuId) -> Option<Level> {
        self.levels[cpu.index()]
    }

    /// Moves `cpu` to `level`; `None`: it takes nobody.
    pub(super) fn set(&mut self, cpu: CpuId, level: Option<Level>) {
        let old = core::mem::replace(&mut self.levels[cpu.index()], level);
        if old == level {
            return;
        }
        if let Some(old) = old {
            self.cpus[old].remove(cpu);
            if self.cpus[old].is_empty() {
                self.occupied &= !(1 << old);
            }
        }
        if let Some(level) = level {
            self.cpus[level].insert(cpu);
            self.occupied |= 1 << level;
        }
    }

    /// The least urgent level of all CPUs that take somebody.
    pub(super) fn least(&self) -> Option<Level> {
        self.occupied.checked_ilog2().map(|level| level as usize)
    }

    /// The CPUs of the least urgent level among `allowed`, if it is less urgent than `than`.
    pub(super) fn least_among(&self, allowed: &CpuSet, than: Level) -> Option<(Level, CpuSet)> {
        let mut rest = self.occupied;
        while let Some(level) = rest.checked_ilog2().map(|level| level as usize).filter(|&level| level > than) {
            let cpus = self.cpus[level].and(allowed);
            if !cpus.is_empty() {
                return Some((level, cpus));
            }
            rest &= !(1 << level);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_urgent_allowed_cpus_are_found() {
        let [a, b, c] = [0, 1, 2].map(CpuId::new);
        let mut urgency = Urgency::new(3);
        urgency.set(a, Some(10));
        urgency.set(b, Some(50));
        assert_eq!(urgency.least(), Some(OTHER));
        assert_eq!(urgency.least_among(&CpuSet::ALL, 20), Some((OTHER, CpuSet::one(c))));
        let without_c = CpuSet::first_n(2);
        assert_eq!(urgency.least_among(&without_c, 20), Some((50, CpuSet::one(b))));
        assert_eq!(urgency.least_among(&without_c, 50), None, "an equal does not give way");
        urgency.set(c, None);
        assert_eq!((urgency.least(), urgency.of(c)), (Some(50), None));
        assert_eq!(urgency.least_among(&CpuSet::ALL, 60), None);
    }
}
