//! [`Step`]: one thing that is checked, how it came out, and a count of all at the end.

mod tally;

use crate::root::typed;
use crate::stream::{Said, stream};
use anyhow::Result;
use std::process::{Command, ExitCode};
use std::time::Instant;
pub(crate) use tally::Tally;

/// How a step came out.
pub(crate) enum Outcome {
    /// One check, passed.
    Passed,
    /// Many checks, counted.
    Counted(Tally, Option<Failure>),
    /// One check, failed.
    Failed(Failure),
    /// It could not be made, for this reason.
    Skipped(String),
}

/// What failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// All that was said.
    pub(crate) text: String,
    /// The line to run it again.
    pub(crate) again: String,
}

/// One thing that is checked.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) check: Box<dyn Fn() -> Result<Outcome>>,
}

impl Step {
    pub(crate) fn new(name: &'static str, check: fn() -> Result<Outcome>) -> Step {
        Step { name, check: Box::new(check) }
    }
}

/// Makes one check after the other, and counts them.
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
            println!("---- {} failed; all that was said:\n{}\n---- to run it again:", step.name, failure.text);
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
    println!("everything took {:.0} s", begin.elapsed().as_secs_f64());
    println!("{sum}");
    Ok(if sum.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a step takes is told to whoever waits for it, and some have a limit"
)]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// One check: whether `command` succeeds.
pub(crate) fn succeeds(command: &mut Command) -> Result<Outcome> {
    let said = stream(command, |_| None)?;
    Ok(if said.success { Outcome::Passed } else { Outcome::Failed(failure(said, command)) })
}

/// Many checks: the tests of a call of `cargo test`.
pub(crate) fn counted(command: &mut Command) -> Result<Outcome> {
    let said = stream(command, progress)?;
    let tally = Tally::of_cargo_test(&said.text, said.success);
    let failure = (tally.failed > 0).then(|| failure(said, command));
    Ok(Outcome::Counted(tally, failure))
}

fn failure(said: Said, command: &Command) -> Failure {
    Failure { text: said.text, again: typed(command) }
}

/// The lines of `cargo test` that say how far it is.
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
