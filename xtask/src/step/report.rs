//! [`Report`]: the outcomes of the steps, printed as they come, and their totals.

use super::outcome::{Failure, Outcome};
use super::tally::Tally;
use std::process::ExitCode;
use std::time::Duration;

/// The outcomes so far.
#[derive(Default)]
pub(super) struct Report {
    sum: Tally,
    /// Names of the steps that were skipped, with the reasons.
    skipped: Vec<(&'static str, String)>,
    /// Names of the steps that failed.
    failures: Vec<(&'static str, Failure)>,
}

impl Report {
    /// Prints and adds the outcome of a step, which took this time in seconds.
    pub(super) fn add(&mut self, name: &'static str, (outcome, seconds): (Outcome, f64)) {
        let (tally, failure) = match outcome {
            Outcome::Passed => (Tally::PASSED, None),
            Outcome::Counted(tally, failure) => (tally, failure),
            Outcome::Failed(failure) => (Tally::FAILED, Some(failure)),
            Outcome::Skipped(reason) => {
                println!("      SKIPPED: {reason}");
                self.skipped.push((name, reason));
                (Tally::SKIPPED, None)
            }
        };
        println!("      {tally}, {seconds:.1} s");
        if let Some(failure) = failure {
            println!("---- {name} failed; its whole output:\n{}\n---- to run it again:", failure.text);
            println!("{}", failure.again);
            self.failures.push((name, failure));
        }
        self.sum += tally;
    }

    /// Prints the totals. Returns the exit code: 0 if no step has failed.
    pub(super) fn end(self, took: Duration) -> ExitCode {
        println!();
        for (name, reason) in &self.skipped {
            println!("SKIPPED {name}: {reason}");
        }
        for (name, failure) in &self.failures {
            println!("FAILED {name}: {}; to run it again: {}", failure.last_line(), failure.again);
        }
        println!("{:.0} s in all", took.as_secs_f64());
        println!("{}", self.sum);
        if self.sum.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
