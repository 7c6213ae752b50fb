//! [`BmqSettings`]: the numbers of the policy `bmq` for its port.

use policies::bmq::{Tables, YieldEffect};
use sched::Knobs;
use zerocopy::{Immutable, IntoBytes};

/// The best boost of a kind whose boost never improves.
const NEVER: i8 = 127;

/// The numbers of the policy `bmq` for its port: `struct bmq_settings` of `crates/scx/bpf/bmq.h`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct BmqSettings {
    slice: u64,
    rest_least: u64,
    timer_least: u64,
    long_run: u64,
    sleep_above: u64,
    short_runs: [u64; 25],
    sleep_shift: u32,
    sleep_most: u32,
    clamps: u32,
    yields: u32,
    yielder_goes_last: u32,
    one_better: u32,
    steal_most: u32,
    worst: i8,
    first: i8,
    yielded: i8,
    reserved: i8,
    best: [i8; 3],
    children: [i8; 25],
    levels: [[u8; 25]; 40],
    padding: [u8; 4],
}

impl BmqSettings {
    /// Returns the settings for these knobs of the policy.
    #[must_use]
    pub fn new(knobs: &Knobs) -> BmqSettings {
        let tables = Tables::new(knobs);
        let boost = |boost: i32| i8::try_from(boost).expect("a boost is small");
        BmqSettings {
            slice: tables.slice.as_ns(),
            rest_least: tables.rest_least.as_ns(),
            timer_least: tables.timer_least.as_ns(),
            long_run: tables.long_run.as_ns(),
            sleep_above: tables.sleep_above.as_ns(),
            short_runs: tables.short_runs.map(|length| length.as_ns()),
            sleep_shift: tables.sleep_shift,
            sleep_most: tables.sleep_most,
            clamps: u32::from(tables.clamps),
            yields: match tables.yields {
                YieldEffect::GiveUp => 0,
                YieldEffect::Ignored => 1,
                YieldEffect::Skip => 2,
            },
            yielder_goes_last: u32::from(tables.yielder_goes_last),
            one_better: u32::from(tables.one_better),
            steal_most: tables.steal_most,
            worst: boost(tables.worst),
            first: boost(tables.first),
            yielded: boost(tables.yielded),
            reserved: 0,
            best: tables.best.map(|best| best.map_or(NEVER, boost)),
            children: tables.children.map(boost),
            levels: tables.levels,
            padding: [0; 4],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_of_the_port_has_seven_bits_and_is_not_that_of_rescued_threads() {
        for version in ["5.12", "5.13", "6.6", "6.12"] {
            let mut knobs = policies::find("bmq").expect("it is registered").defaults();
            knobs.set_word("version", version).expect("it is a version");
            let settings = BmqSettings::new(&knobs);
            assert!(settings.levels.iter().flatten().all(|level| (1..128).contains(level)), "{version}");
        }
    }
}
