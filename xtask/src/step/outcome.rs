//! [`Outcome`]: what a step has found.

use super::tally::Tally;

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

impl Failure {
    /// Returns the last line of the output: for most checks, it is the reason.
    pub(crate) fn last_line(&self) -> &str {
        self.text.lines().last().unwrap_or("it printed nothing")
    }
}
