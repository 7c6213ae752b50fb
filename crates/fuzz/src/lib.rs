//! The fuzzer: a seed becomes options, the options a run of a machine under everything that can happen to it, and the
//! run is judged by the machine's own assertions, by the [`sim::Auditor`], and by being done twice.
//!
//! ```no_run
//! use fuzz::{Options, check};
//! let options = Options::draw(policies::find("edf").unwrap(), 123);
//! println!("{options}"); // All options, and the line that replays them, first.
//! if let Err(failure) = check(&options) {
//!     println!("{failure}"); // What broke, and the smallest run found in which it does.
//! }
//! ```

mod driver;
mod flows;
mod levels;
mod options;
mod wishes;
mod world;

pub use driver::{Driver, Lateness, Meter};
pub use levels::{WorldOptions, WorldStats, check_world};
pub use options::{Dice, Options};

use sched::{Action, Descriptor, Instant};
use std::fmt::{self, Write};
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

/// Runs these options once, with `meter` around every call in which the policy may not allocate.
///
/// # Errors
/// As for [`check`], but the run is not made smaller.
pub fn run_metered<'a>(options: &'a Options, meter: Meter<'a>) -> Result<Stats, Box<Failure>> {
    let run = once(options, Some(meter)).map(|run| run.stats());
    run.map_err(|what| Box::new(Failure { options: options.clone(), what }))
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
        sum.actions ^= stats.actions;
    }
    Ok(sum)
}

/// One run: what went in, and all that came out.
#[derive(PartialEq, Eq, Debug)]
struct Run {
    accepted: u64,
    refused: u64,
    log: Vec<(Instant, Action)>,
}

impl Run {
    fn stats(&self) -> Stats {
        let mut hash = Fnv::default();
        for (at, action) in &self.log {
            let _ = write!(hash, "{at}{action:?}");
        }
        Stats { accepted: self.accepted, refused: self.refused, actions: hash.0 }
    }

    /// Law 10: where `self` and another run of the same options differ first, in words.
    fn difference(&self, again: &Run) -> Option<String> {
        let end = self.log.len().max(again.log.len());
        let shown = |entry: Option<&(Instant, Action)>| match entry {
            Some((at, action)) => format!("{action:?} at {at}"),
            None => "nothing more".to_string(),
        };
        let (a, b) = (0..end).map(|i| (self.log.get(i), again.log.get(i))).find(|(a, b)| a != b)?;
        Some(format!("law 10: the same inputs gave {}, and then {}", shown(a), shown(b)))
    }
}

/// FNV-1a: the same everywhere, unlike the standard library's hash.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Ok(())
    }
}

/// One run without shrinking: what it came to, or what broke.
fn attempt(options: &Options) -> Result<Stats, String> {
    let (first, second) = (once(options, None)?, once(options, None));
    let second = second.map_err(|what| format!("law 10: the same inputs were kept once, but not again: {what}"))?;
    match first.difference(&second) {
        Some(difference) => Err(difference),
        None => Ok(first.stats()),
    }
}

fn once<'a>(options: &'a Options, meter: Option<Meter<'a>>) -> Result<Run, String> {
    let run = catch_unwind(AssertUnwindSafe(|| World::new(options, meter).and_then(World::run)));
    run.unwrap_or_else(|panic| Err(words(panic.as_ref())))
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "a panic".to_string())
}

/// Makes steps and entities fewer for as long as something still breaks.
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
