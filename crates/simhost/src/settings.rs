//! [`Settings`]: the parameters of a world.

use sched::{Descriptor, Nanos};

/// Lateness of timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Maximum lateness of an ordinary timer.
    pub most: Nanos,
    /// Lateness of a rare timer. Rare timers are chosen at random.
    pub rare: Nanos,
    /// Mean number of timers per rare timer; 0: no timer is rare.
    pub rare_in: u64,
}

/// Parameters of a world.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of CPUs.
    pub cpus: usize,
    /// Policy of the host: `linux`, or another policy with real-time classes.
    pub policy: &'static Descriptor,
    /// Knobs that differ from their defaults, with their values.
    pub knobs: Vec<(&'static str, i64)>,
    /// Largest tid. Tids start at 1, and wrap around after the largest tid.
    pub numbers: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Lateness of timers.
    pub lateness: Lateness,
    /// Maximum duration of a call into the kernel. The minimum is half the maximum.
    pub call: Nanos,
    /// Mean number of beginnings of a loan per beginning that the kernel answers with `Busy`; 0: none.
    pub busy_in: u64,
}

impl Settings {
    /// Returns the settings of a host with `cpus` CPUs, without lateness and with calls that take no time.
    #[must_use]
    pub fn new(policy: &'static Descriptor, cpus: usize) -> Settings {
        let lateness = Lateness::default();
        Settings { cpus, policy, knobs: Vec::new(), numbers: 500, seed: 0, lateness, call: Nanos::ZERO, busy_in: 0 }
    }
}
