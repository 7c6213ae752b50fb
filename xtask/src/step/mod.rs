//! [`Step`]: a check with an outcome. [`run_all`] runs several steps and prints the totals of their outcomes.

mod tally;

use crate::root::typed;
use crate::stream::{Output, stream};
use anyhow::Result;
use std::process::{Command, ExitCode};
use std::time::Instant;
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
    pub(crate) check: Box<dyn Fn() -> Result<Outcome>>,
}

impl Step {
    pub(crate) fn new(name: &'static str, check: fn() -> Result<Outcome>) -> Step {
        Step { name, check: Box::new(check) }
    }
}

/// Runs the steps in order and prints the totals of their outcomes.
pub(crate) fn run_all(steps: &[Step]) -> Result<ExitCode> {
    let begin = clock();
    let mut sum = Tally::default();
    let (mut skipped, mut failures) = (Vec::new(), Vec::new());
    for (number, step) in steps.iter().enumerate() {
        println!("[{}/{}] {}", number + 1, steps.len(), step.name);
        let start = clock();
        let (tally, failure) = match (step.check)()? {
            Outcome::Passed => (Tally::PASSED, None),
            Outcome::Counted(tally, failure) => (tally, failure),
            Outcome::Failed(failure) => (Tally::FAILED, Some(failure)),
            Outcome::Skipped(reason) => {
                println!("      SKIPPED: {reason}");
                skipped.push((step.name, reason));
                (Tally::SKIPPED, None)
            }
        };
        println!("      {tally}, {:.1} s", start.elapsed().as_secs_f64());
        if let Some(failure) = failure {
            println!("---- {} failed; its whole output:\n{}\n---- to run it again:", step.name, failure.text);
            println!("{}", failure.again);
            failures.push((step.name, failure.again));
        }
        sum += tally;
    }
    println!();
    for (name, reason) in &skipped {
        println!("SKIPPED {name}: {reason}");
    }
    for (name, again) in &failures {
        println!("FAILED {name}; to run it again: {again}");
    }
    println!("{:.0} s in all", begin.elapsed().as_secs_f64());
    println!("{sum}");
    Ok(if sum.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

/// Runs `command`, a call of `node --test` with the reporter `tap`. Each test counts as a check.
pub(crate) fn counted_by_node(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, |_| None)?;
    let tally = Tally::of_node_test(&output.text, output.success);
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
    fn a_failure_carries_the_whole_output_and_the_line_to_run_it_again() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo because; exit 1"]);
        let Ok(Outcome::Failed(failure)) = succeeds(&mut shell) else { panic!("it fails") };
        assert_eq!((failure.text.as_str(), failure.again.as_str()), ("because\n", "sh -c 'echo because; exit 1'"));
    }
}
