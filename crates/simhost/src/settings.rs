//! [`Settings`]: the parameters of a world.

use sched::{Descriptor, Nanos};

/// Lateness of timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    /// Maximum lateness in the usual case.
    pub most: Nanos,
    /// Lateness in the rare case.
    pub rare: Nanos,
    /// Number of timers per rare lateness; 0: never.
    pub rare_in: u64,
}

/// Parameters of a world.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of CPUs.
    pub cpus: usize,
    /// The host's policy: `linux`, or another policy with real-time classes.
    pub policy: &'static Descriptor,
    /// Knobs that differ from their defaults.
    pub knobs: Vec<(&'static str, i64)>,
    /// Largest number of a thread. Threads are numbered from 1; after the largest number, numbers are reused.
    pub numbers: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Lateness of timers.
    pub lateness: Lateness,
    /// Maximum duration of a call into the kernel. The minimum is half of it.
    pub call: Nanos,
}

impl Settings {
    /// Returns a host of `cpus` CPUs without lateness, on which calls take no time.
    #[must_use]
    pub fn new(policy: &'static Descriptor, cpus: usize) -> Settings {
        let lateness = Lateness::default();
        Settings { cpus, policy, knobs: Vec::new(), numbers: 500, seed: 0, lateness, call: Nanos::ZERO }
    }
}
