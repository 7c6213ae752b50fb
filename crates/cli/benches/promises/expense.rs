//! The CPU time of the threads of Tactus.

use crate::cpu;
use std::collections::BTreeMap;
use std::ops::Sub;
use sys::thread;
use sys::usage::Meter;

/// The threads of a core, of its guardian and of the guardian's standby. The front end is not included: the benchmark
/// itself is the front end.
pub(crate) struct Expense {
    /// Each thread with its name.
    meters: Vec<(String, Meter)>,
    /// Name of the agent of the CPU under test.
    agent: String,
}

/// CPU time of these threads, and number of wake-ups of the agent of the CPU under test.
#[derive(Clone, Default)]
pub(crate) struct Spent {
    /// CPU time of the threads with each name. Unit: ns.
    by_name: BTreeMap<String, u64>,
    pub(crate) wakes: u64,
}

impl Expense {
    pub(crate) fn of(core: u32) -> Expense {
        let guardians = thread::children(core).unwrap_or_default();
        let threads = [core].into_iter().chain(guardians).filter_map(|process| thread::threads(process).ok()).flatten();
        let meter = |tid| {
            let name = thread::status(tid).ok()?.name;
            Some((name.strip_prefix("tactus-").unwrap_or(&name).to_string(), Meter::open(tid).ok()?))
        };
        Expense { meters: threads.filter_map(meter).collect(), agent: format!("agent-{}", cpu()) }
    }

    pub(crate) fn read(&self) -> Spent {
        let mut spent = Spent::default();
        for (name, usage) in self.meters.iter().filter_map(|(name, meter)| Some((name, meter.read().ok()?))) {
            *spent.by_name.entry(name.clone()).or_default() += usage.ran.as_ns();
            spent.wakes += if *name == self.agent { usage.dispatches } else { 0 };
        }
        spent
    }
}

impl Sub<&Spent> for Spent {
    type Output = Spent;

    fn sub(mut self, earlier: &Spent) -> Spent {
        for (name, time) in &mut self.by_name {
            // A thread that has ended meanwhile is missing in the later sum.
            *time = time.saturating_sub(*earlier.by_name.get(name).unwrap_or(&0));
        }
        self.wakes = self.wakes.saturating_sub(earlier.wakes);
        self
    }
}

impl Spent {
    /// Returns the CPU time of all threads. Unit: ns.
    pub(crate) fn total(&self) -> f64 {
        self.by_name.values().sum::<u64>() as f64
    }

    /// Returns the CPU time of the threads with each name, in us per period, without those below 0.05 us.
    pub(crate) fn by_name(&self, periods: f64) -> String {
        let of = |(name, ns): (&String, &u64)| {
            let us = *ns as f64 / 1e3 / periods;
            (us >= 0.05).then(|| format!("{name} {us:.1}"))
        };
        self.by_name.iter().filter_map(of).collect::<Vec<_>>().join(", ")
    }
}
