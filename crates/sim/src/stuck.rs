//! [`Stuck`]: the reason why a run or an application cannot continue, with the waiting tasks.

use sched::Instant;
use std::fmt;

/// A task that waits for an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// Name of the task.
    pub task: String,
    /// Object that the task waits for, such as "mutex `a`".
    pub waits_for: String,
    /// Task that holds the object. `None`: no task holds the object.
    pub held_by: Option<String>,
    /// Instant since which the task waits.
    pub since: Instant,
}

/// The reason why a run ended early, or why an application waits for its stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// Instant at which the run ended or the application stalled.
    pub at: Instant,
    /// Name of the machine.
    pub machine: String,
    /// Description of the problem, in a sentence.
    pub why: String,
    /// Remedy, as an imperative.
    pub help: &'static str,
    /// At most 20 waiting tasks, in the order in which the tasks started.
    pub waiters: Vec<Waiter>,
    /// Number of further waiting tasks.
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
    /// Returns one line per listed waiter. If there are further waiting tasks, a last line states their number.
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
