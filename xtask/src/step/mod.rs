//! [`Step`]: a check with an outcome. [`run_all`] runs several steps and prints the totals of their outcomes.

mod tally;

use crate::root::typed;
use crate::stream::{Output, stream};
use anyhow::Result;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
pub(crate) use tally::Tally;

/// The outcome of a step.
pub(crate) enum Outcome {
    /// One check that passed.
    Passed,
    /// Several checks, with their totals.
    Counted(Tally, Option<Failure>),
    /// One check that failed.
    Failed(Failure),
    /// A check that could not run, with the reason.
    Skipped(String),
}

/// A failed check.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Complete output of the check.
    pub(crate) text: String,
    /// Command that repeats the check.
    pub(crate) again: String,
}

/// A check, or several similar checks.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) check: Box<dyn Fn() -> Result<Outcome> + Send + Sync>,
    /// Whether the step uses one CPU, and its outcome does not depend on other load. Two such steps run at the same time.
    pub(crate) is_independent: bool,
}

impl Step {
    pub(crate) fn new(name: &'static str, check: impl Fn() -> Result<Outcome> + Send + Sync + 'static) -> Step {
        Step { name, check: Box::new(check), is_independent: false }
    }
}

/// The outcomes of the steps that have ended.
#[derive(Default)]
struct Sum {
    tally: Tally,
    /// Names of skipped steps, with the reasons.
    skipped: Vec<(&'static str, String)>,
    /// Names of failed steps, with the commands that repeat them.
    failed: Vec<(&'static str, String)>,
}

impl Sum {
    /// Adds and prints the outcome of a step. `of` precedes it in the output.
    fn add(&mut self, step: &Step, outcome: Outcome, of: &str, took: Duration) {
        let (tally, failure) = match outcome {
            Outcome::Passed => (Tally::PASSED, None),
            Outcome::Counted(tally, failure) => (tally, failure),
            Outcome::Failed(failure) => (Tally::FAILED, Some(failure)),
            Outcome::Skipped(reason) => {
                println!("      {of}SKIPPED: {reason}");
                self.skipped.push((step.name, reason));
                (Tally::SKIPPED, None)
            }
        };
        println!("      {of}{tally}, {:.1} s", took.as_secs_f64());
        if let Some(failure) = failure {
            println!("---- {} failed; its whole output:\n{}\n---- to run it again:", step.name, failure.text);
            println!("{}", failure.again);
            self.failed.push((step.name, failure.again));
        }
        self.tally += tally;
    }
}

/// Runs the steps in order and prints the totals of their outcomes. Adjacent independent steps run two at a time.
pub(crate) fn run_all(steps: &[Step]) -> Result<ExitCode> {
    let begin = clock();
    let sum = Mutex::new(Sum::default());
    let groups = steps.chunk_by(|one, next| one.is_independent && next.is_independent);
    let mut number = 0;
    for group in groups {
        run_group(group, number, steps.len(), &sum)?;
        number += group.len();
    }
    let Sum { tally, skipped, failed } = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!();
    for (name, reason) in &skipped {
        println!("SKIPPED {name}: {reason}");
    }
    for (name, again) in &failed {
        println!("FAILED {name}; to run it again: {again}");
    }
    println!("{:.0} s in all", begin.elapsed().as_secs_f64());
    println!("{tally}");
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs steps, up to two at a time. `before` is the number of steps before them, of `count`.
fn run_group(group: &[Step], before: usize, count: usize, sum: &Mutex<Sum>) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((nth, step)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|nth| Some((nth, group.get(nth)?)))
        {
            println!("[{}/{count}] {}", before + nth + 1, step.name);
            let start = clock();
            let outcome = (step.check)()?;
            let of = if group.len() > 1 { format!("[{}/{count}] ", before + nth + 1) } else { String::new() };
            sum.lock().unwrap_or_else(PoisonError::into_inner).add(step, outcome, &of, start.elapsed());
        }
        Ok(())
    };
    thread::scope(|scope| {
        let other = (group.len() > 1).then(|| scope.spawn(work));
        let outcome: Result<()> = work();
        other.map_or(Ok(()), |other| other.join().expect("a step does not panic")).and(outcome)
    })
}

#[expect(clippy::disallowed_methods, reason = "each step prints its duration, and some have a time limit")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// Runs one check, which passes if `command` succeeds.
pub(crate) fn succeeds(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, |_| None)?;
    Ok(if output.success { Outcome::Passed } else { Outcome::Failed(failure(output, command)) })
}

/// Runs `command`, a call of `cargo test`. Each test counts as a check.
pub(crate) fn counted(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, progress)?;
    let tally = Tally::of_cargo_test(&output.text, output.success);
    let failure = (tally.failed > 0).then(|| failure(output, command));
    Ok(Outcome::Counted(tally, failure))
}

/// Runs `command`, a call of pytest. Each test counts as a check.
pub(crate) fn counted_by_pytest(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, |_| None)?;
    let tally = Tally::of_pytest(&output.text, output.success);
    let failure = (tally.failed > 0).then(|| failure(output, command));
    Ok(Outcome::Counted(tally, failure))
}

fn failure(output: Output, command: &Command) -> Failure {
    Failure { text: output.text, again: typed(command) }
}

/// Returns `line` with an indent if this line of the output of `cargo test` names a target, a result or a failed test.
fn progress(line: &str) -> Option<String> {
    let line = line.trim();
    let telling = ["Running ", "Doc-tests ", "test result: "].iter().any(|start| line.starts_with(start));
    let failed = line.starts_with("test ") && line.ends_with("FAILED");
    (telling || failed).then(|| format!("      {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_targets_results_and_failures_only() {
        assert!(progress("     Running unittests src/lib.rs (target/debug/deps/sched-1)").is_some());
        assert!(progress("test queue::tests::a ... FAILED").is_some());
        assert!(progress("test queue::tests::a ... ok").is_none());
        assert!(progress("   Compiling sched v0.1.0").is_none());
    }

    #[test]
    fn two_independent_steps_run_at_a_time_and_all_count() {
        let step =
            |check: fn() -> Result<Outcome>, is_independent| Step { is_independent, ..Step::new("a step", check) };
        let pass: fn() -> Result<Outcome> = || Ok(Outcome::Passed);
        // A step that waits for another one.
        let meet: fn() -> Result<Outcome> = || {
            static MET: std::sync::Barrier = std::sync::Barrier::new(2);
            MET.wait();
            Ok(Outcome::Passed)
        };
        let skip: fn() -> Result<Outcome> = || Ok(Outcome::Skipped("because".to_string()));
        let steps = [step(pass, false), step(meet, true), step(meet, true), step(skip, true), step(pass, false)];
        let sum = Mutex::new(Sum::default());
        for group in steps.chunk_by(|one, next| one.is_independent && next.is_independent) {
            run_group(group, 0, steps.len(), &sum).unwrap();
        }
        let sum = sum.into_inner().unwrap();
        assert_eq!((sum.tally.passed, sum.skipped.len(), sum.failed.len()), (4, 1, 0));
        let fails = [step(|| anyhow::bail!("because"), true), step(pass, true)];
        assert!(run_group(&fails, 0, 2, &Mutex::new(Sum::default())).is_err());
    }

    #[test]
    fn a_failure_carries_the_whole_output_and_the_line_to_run_it_again() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo because; exit 1"]);
        let Ok(Outcome::Failed(failure)) = succeeds(&mut shell) else { panic!("it fails") };
        assert_eq!((failure.text.as_str(), failure.again.as_str()), ("because\n", "sh -c 'echo because; exit 1'"));
    }
}
