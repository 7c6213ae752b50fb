//! [`Reclaim`]: the rate at which time is charged to an entity that reclaims unused bandwidth (GRUB, greedy reclamation
//! of unused bandwidth; Lipari and Baruah 2000).
//!
//! Bandwidths are integers; [`ONE`] is a whole CPU.

use crate::admission::ONE;
use sched::{CpuId, Nanos};

/// The formulas of the kernel. `u` is the share of the entity, and `Umax` is the part of a CPU that may be reserved.
/// `Uinactive` is the inactive bandwidth of the CPU, and `Uextra` is the part of `Umax` that is not reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Formula {
    /// The rate is `max{u / Umax, 1 − Uinactive − Uextra}`.
    V513,
    /// The rate is `max{u, Umax − Uinactive − Uextra} / Umax`.
    V65,
}

/// The bandwidth of a CPU's members, and the part that is in use.
#[derive(Clone, Copy, Debug, Default)]
struct Bandwidth {
    all: u64,
    active: u64,
}

/// The bandwidths of all CPUs.
#[derive(Debug)]
pub(super) struct Reclaim {
    formula: Option<Formula>,
    cpus: Vec<Bandwidth>,
    /// Part of each CPU that may be reserved.
    most: u64,
    /// Average part of a CPU that may be reserved but is not.
    extra: u64,
}

/// A charge rate: `parts` per `of`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rate {
    parts: u64,
    of: u64,
}

impl Rate {
    /// The rate 1: CPU time is charged in full.
    pub(super) const FULL: Rate = Rate { parts: 1, of: 1 };

    /// Returns the charge for `ran`, rounded up, so that an entity receives at most the time that other entities leave.
    pub(super) fn charge(self, ran: Nanos) -> Nanos {
        let used = (u128::from(ran.as_ns()) * u128::from(self.parts)).div_ceil(u128::from(self.of));
        Nanos::ns(u64::try_from(used).unwrap_or(u64::MAX))
    }

    /// Returns the CPU time for which `left` lasts at this rate.
    pub(super) fn lasts(self, left: Nanos) -> Nanos {
        let span = u128::from(left.as_ns()) * u128::from(self.of) / u128::from(self.parts.max(1));
        Nanos::ns(u64::try_from(span).unwrap_or(u64::MAX))
    }
}

impl Reclaim {
    /// Creates a state without reservations, in which at most `percent` of each CPU may be reserved.
    pub(super) fn new(cpus: usize, formula: Option<Formula>, percent: u64) -> Reclaim {
        let most = ONE / 100 * percent + ONE % 100 * percent / 100;
        Reclaim { formula, cpus: vec![Bandwidth::default(); cpus], most, extra: most }
    }

    pub(super) fn is_on(&self) -> bool {
        self.formula.is_some()
    }

    /// Records that the sum of all reservations is `units`.
    pub(super) fn promised(&mut self, units: u64) {
        self.extra = self.most.saturating_sub(units / self.cpus.len() as u64);
    }

    pub(super) fn add(&mut self, cpu: CpuId, units: u64, active: bool) {
        let here = &mut self.cpus[cpu.index()];
        here.all += units;
        here.active += if active { units } else { 0 };
    }

    pub(super) fn remove(&mut self, cpu: CpuId, units: u64, active: bool) {
        let here = &mut self.cpus[cpu.index()];
        here.all -= units;
        here.active -= if active { units } else { 0 };
    }

    /// Returns the rate at which time on `cpu` is charged to a share of `units`.
    pub(super) fn rate(&self, cpu: CpuId, units: u64) -> Rate {
        let Bandwidth { all, active } = self.cpus[cpu.index()];
        let free = (all - active) + self.extra;
        match self.formula {
            None => Rate::FULL,
            Some(Formula::V65) => Rate { parts: units.max(self.most.saturating_sub(free)), of: self.most },
            Some(Formula::V513) => {
                let least = (u128::from(units) * u128::from(ONE)).div_ceil(u128::from(self.most));
                let least = u64::try_from(least).unwrap_or(u64::MAX);
                Rate { parts: least.max(ONE.saturating_sub(free)), of: ONE }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: CpuId = CpuId::new(0);

    fn permille(rate: Rate) -> u64 {
        rate.charge(Nanos::ns(1_000_000)).as_ns() / 1_000
    }

    #[test]
    fn the_formulas_differ_where_less_than_a_whole_cpu_may_be_promised() {
        let rate = |formula, percent, shares: &[(u64, bool)]| {
            let mut books = Reclaim::new(1, Some(formula), percent);
            let units = |part: u64| ONE / 100 * part;
            shares.iter().for_each(|&(part, active)| books.add(CPU, units(part), active));
            books.promised(shares.iter().map(|&(part, _)| units(part)).sum());
            permille(books.rate(CPU, units(shares[0].0)))
        };
        // For a lone task of 10 %, the rates are 1 − 0.85 (v5.13) and 0.10 / 0.95 (v6.5).
        assert_eq!(rate(Formula::V513, 95, &[(10, true)]), 150);
        assert_eq!(rate(Formula::V65, 95, &[(10, true)]), 105);
        // With half a CPU for another entity, the rates are 1 − 0.35 and 0.60 / 0.95. While that entity is inactive,
        // the rates are as before.
        assert_eq!(rate(Formula::V513, 95, &[(10, true), (50, true)]), 650);
        assert_eq!(rate(Formula::V65, 95, &[(10, true), (50, true)]), 631);
        assert_eq!(rate(Formula::V513, 95, &[(10, true), (50, false)]), 150);
        assert_eq!(rate(Formula::V65, 95, &[(10, true), (50, false)]), 105);
        // If the whole CPU may be reserved, the formulas agree.
        for formula in [Formula::V513, Formula::V65] {
            assert_eq!(rate(formula, 100, &[(50, true), (50, true)]), 1_000);
            assert_eq!(rate(formula, 100, &[(50, true), (50, false)]), 500);
        }
    }

    #[test]
    fn what_is_left_lasts_until_it_is_charged() {
        let rate = Rate { parts: 3, of: 7 };
        for left in [1, 2, 3, 1_000, 999_983] {
            let lasts = rate.lasts(Nanos::ns(left));
            assert!(rate.charge(lasts) <= Nanos::ns(left) && rate.charge(lasts + Nanos::ns(3)) > Nanos::ns(left));
        }
    }
}
