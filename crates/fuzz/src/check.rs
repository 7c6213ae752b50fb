//! Checks runs of a machine: each run is repeated, and a run that breaks a law is shrunk.

use super::driver::Meter;
use super::options::Options;
use super::outcome::{Failure, Run, Stats, catch_panic};
use super::world::World;
use sched::Descriptor;

/// Runs a machine with these options twice, and compares the runs.
///
/// # Errors
/// A law is broken. The failure contains the smallest options found that still break a law.
pub fn check(options: &Options) -> Result<Stats, Box<Failure>> {
    match attempt(options) {
        Ok(stats) => Ok(stats),
        Err(what) => Err(Box::new(shrink(options, what))),
    }
}

/// Runs a machine with these options once, with `meter` around every call in which the policy must not allocate.
///
/// # Errors
/// A law is broken. Unlike in [`check`], the run is not shrunk.
pub fn run_metered<'a>(options: &'a Options, meter: Meter<'a>) -> Result<Stats, Box<Failure>> {
    let run = once(options, Some(meter)).map(|run| run.stats());
    run.map_err(|what| Box::new(Failure { options: options.clone(), what }))
}

/// Runs `policy` with `seeds` consecutive seeds from `first`, on machines with `cpus` CPUs. Prints the options of each
/// run before the run.
///
/// # Errors
/// A law is broken; see [`check`].
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

/// Runs a machine with these options twice, without shrinking. Returns the outcome, or a description of the broken law.
fn attempt(options: &Options) -> Result<Stats, String> {
    let (first, second) = (once(options, None)?, once(options, None));
    let second = second.map_err(|what| format!("law 10: the same inputs kept the laws once, but not again: {what}"))?;
    match first.difference(&second) {
        Some(difference) => Err(difference),
        None => Ok(first.stats()),
    }
}

fn once<'a>(options: &'a Options, meter: Option<Meter<'a>>) -> Result<Run, String> {
    catch_panic(|| World::new(options, meter).and_then(World::run))
}

/// Reduces the numbers of steps and entities as long as the run still breaks a law.
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
