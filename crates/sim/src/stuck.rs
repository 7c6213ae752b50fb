//! [`Stuck`]: why a run cannot go on: who waits for whom.

use sched::Instant;
use std::fmt;

/// One task that waits, or does what it should not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// The task.
    pub task: String,
    /// What it waits for, such as "mutex `a`".
    pub waits_for: String,
    /// Who holds that, if anybody does.
    pub held_by: Option<String>,
    /// Since when.
    pub since: Instant,
}

/// Why a run ended before its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// When.
    pub at: Instant,
    /// The machine on which it happened.
    pub machine: String,
    /// What is wrong, in a sentence.
    pub why: String,
    /// What to do, in the imperative.
    pub right: &'static str,
    /// Who waits, and for whom: the first few, in order of arrival.
    pub waiters: Vec<Waiter>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waiter { task, waits_for, held_by, since } = self;
        write!(f, "{task} waits for {waits_for} since {since}")?;
        held_by.as_ref().map_or(Ok(()), |owner| write!(f, ", which {owner} holds"))
    }
}

impl Stuck {
    /// Who waits for whom, a line each.
    #[must_use]
    pub fn waits(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.waiters.iter().map(ToString::to_string).collect();
        if self.more > 0 {
            lines.push(format!("… and {} more", self.more));
        }
        lines
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} on {}: {}; {}", self.at, self.machine, self.why, self.right)?;
        self.waits().iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Stuck {}
