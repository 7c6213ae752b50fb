//! [`Stuck`]: why a run cannot go on, with the tasks that wait.

use sched::Instant;
use std::fmt;

/// A task that waits, or that misuses an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// The task.
    pub task: String,
    /// What it waits for, such as "mutex `a`".
    pub waits_for: String,
    /// The task that holds it. `None`: it is free.
    pub held_by: Option<String>,
    /// Since when it waits.
    pub since: Instant,
}

/// Why a run ended before its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The instant.
    pub at: Instant,
    /// The machine.
    pub machine: String,
    /// What is wrong, in a sentence.
    pub why: String,
    /// What to do, as an imperative.
    pub help: &'static str,
    /// The first few tasks that wait, in order of arrival.
    pub waiters: Vec<Waiter>,
    /// The number of further waiting tasks.
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
    /// The waiting tasks, a line each.
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
        write!(f, "at {} on {}: {}; help: {}", self.at, self.machine, self.why, self.help)?;
        self.waits().iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Stuck {}
