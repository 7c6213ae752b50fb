//! The fuzzer: a seed becomes options, the options a run of a machine under everything that can happen to it, and the
//! run is judged by the machine's own assertions, by the [`sim::Auditor`], and by being done twice.
//!
//! ```no_run
//! use lab::fuzz::{Options, check};
//! let options = Options::draw(policies::find("edf").unwrap(), 123);
//! println!("{options}"); // All options, and the line that replays them, first.
//! check(&options).unwrap();
//! ```

mod options;
mod world;

pub use options::Options;

use sched::Descriptor;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Inputs and changes the machine accepted.
    pub accepted: u64,
    /// Wishes it refused.
    pub refused: u64,
    /// A hash over every action.
    pub actions: u64,
}

/// A run that broke a law.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The options of the smallest run found that still breaks one.
    pub options: Options,
    /// What broke, in words.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what, self.options)
    }
}

impl std::error::Error for Failure {}

/// Runs these options once, and again, and compares.
///
/// # Errors
/// A law is broken; the failure holds the smallest options found for which one is.
pub fn check(options: &Options) -> Result<Stats, Box<Failure>> {
    match attempt(options) {
        Ok(stats) => Ok(stats),
        Err(what) => Err(Box::new(shrink(options, what))),
    }
}

/// Runs `seeds` seeds of `policy` from `first` on, on machines of `cpus` CPUs, printing the options of each first.
///
/// # Errors
/// As for [`check`].
pub fn smoke(policy: &'static Descriptor, cpus: usize, first: u64, seeds: u64) -> Result<Stats, Box<Failure>> {
    let mut sum = Stats::default();
    for seed in first..first + seeds {
        let options = Options::draw(policy, seed).on(cpus);
        println!("{options}");
        let stats = check(&options)?;
        sum.accepted += stats.accepted;
        sum.refused += stats.refused;
    }
    Ok(sum)
}

/// One run without shrinking: what it came to, or what broke.
fn attempt(options: &Options) -> Result<Stats, String> {
    let once = || {
        let run = catch_unwind(AssertUnwindSafe(|| World::new(options).and_then(World::run)));
        run.unwrap_or_else(|panic| Err(words(panic.as_ref())))
    };
    let (first, second) = (once()?, once()?);
    if first != second {
        return Err(format!("law 10: the same inputs gave {first:?}, then {second:?}"));
    }
    Ok(first)
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "a panic".to_string())
}

/// Halves steps and entities for as long as something still breaks.
fn shrink(options: &Options, what: String) -> Failure {
    let mut smallest = Failure { options: options.clone(), what };
    loop {
        let now = &smallest.options;
        let candidates = [
            Options { steps: now.steps / 2, ..now.clone() },
            Options { steps: now.steps * 7 / 8, ..now.clone() },
            Options { entities: now.entities / 2, ..now.clone() },
            Options { entities: now.entities - 1, ..now.clone() },
        ];
        let smaller = |candidate: &Options| (candidate.steps, candidate.entities) != (now.steps, now.entities);
        let sound = candidates.into_iter().filter(|candidate| candidate.steps > 0 && candidate.entities > 0);
        let failing = sound.filter(smaller).find_map(|candidate| {
            let what = attempt(&candidate).err()?;
            Some(Failure { options: candidate, what })
        });
        match failing {
            Some(failure) => smallest = failure,
            None => return smallest,
        }
    }
}
