//! Virtual deadlines: the time from the beginning of a time slice to its deadline, by nice level.

use sched::{Knobs, Nanos};

const NICES: usize = 40;

/// Returns the ratios of the nice levels −20 to 19; `first` is the ratio of −20. Each ratio is 1.1 times the previous
/// ratio, rounded down. Source: `prio_ratios`, kernel/sched/bfs.c.
const fn ratios(first: u64) -> [u64; NICES] {
    let mut all = [first; NICES];
    let mut n = 1;
    while n < NICES {
        all[n] = all[n - 1] * 11 / 10;
        n += 1;
    }
    all
}

const LATER: [u64; NICES] = ratios(128);
const EARLY: [u64; NICES] = ratios(100);

/// Time slice and deadline offsets, computed from the knobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// Length of a full time slice.
    pub(crate) slice: Nanos,
    /// Time from the beginning of a time slice to its deadline, by nice + 20.
    offsets: [Nanos; NICES],
}

impl Lengths {
    /// Returns the lengths for `cpus` CPUs, from the knobs `rr-interval`, `binary-milliseconds`, `ratios` and
    /// `scale-interval`.
    pub(crate) fn new(knobs: &Knobs, cpus: usize) -> Lengths {
        let factor = if knobs.on("scale-interval") { 1 + u64::from(cpus.ilog2()) } else { 1 };
        let interval = knobs.time("rr-interval").saturating_mul(factor);
        // In bfs.c, a millisecond is 1,024 us in time slices and 2^20 ns in deadlines.
        let binary = knobs.on("binary-milliseconds");
        let slice = if binary { interval.scale(1_024, 1_000) } else { interval };
        let unit = if binary { interval.scale(1 << 20, 1_000_000) } else { interval };
        let table = if knobs.word("ratios") == "early" { EARLY } else { LATER };
        Lengths { slice, offsets: table.map(|ratio| unit.scale(ratio, 128)) }
    }

    /// Returns lengths without binary milliseconds: a time slice of exactly `interval`, and deadline offsets in
    /// proportion.
    pub(crate) fn exact(interval: Nanos) -> Lengths {
        Lengths { slice: interval, offsets: LATER.map(|ratio| interval.scale(ratio, 128)) }
    }

    /// Returns the time from the beginning of a time slice to its deadline at `nice`.
    pub(crate) fn offset(&self, nice: i32) -> Nanos {
        self.offsets[usize::try_from(nice + 20).expect("a nice value is at least -20")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares some entries of the tables with `prio_ratios` in bfs.c.
    #[test]
    fn the_tables_are_the_sources() {
        let some = [LATER[0], LATER[1], LATER[10], LATER[20], LATER[30], LATER[39]];
        assert_eq!(some, [128, 140, 324, 836, 2161, 5089]);
        assert_eq!([EARLY[0], EARLY[1], EARLY[3], EARLY[20], EARLY[39]], [100, 110, 133, 655, 3987]);
    }

    #[test]
    fn offsets_are_in_binary_milliseconds_or_exact() {
        let mut knobs = super::super::POLICY.defaults();
        let us = |lengths: &Lengths, nice| lengths.offset(nice).as_ns() / 1_000;
        let binary = Lengths::new(&knobs, 4);
        assert_eq!((binary.slice, us(&binary, -20), us(&binary, 0)), (Nanos::us(6_144), 6_291, 41_091));
        assert_eq!((us(&binary, -10), us(&binary, 10), us(&binary, 19)), (15_925, 106_217, 250_134));
        knobs.set("binary-milliseconds", 0).unwrap();
        let exact = Lengths::new(&knobs, 4);
        assert_eq!((exact.slice, exact.offset(-20)), (Nanos::ms(6), Nanos::ms(6)));
        knobs.set("scale-interval", 1).unwrap();
        assert_eq!(Lengths::new(&knobs, 4).slice, Nanos::ms(18), "1 + log2(4)");
    }
}
