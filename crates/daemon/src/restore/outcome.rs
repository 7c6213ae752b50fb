//! The outcome of a restoration: for a property, for a thread, and for all threads.

use crate::Explanation;
use crate::table::{ControlGroup, Entry, Original, Row};
use std::fmt;
use sys::thread::Identity;

/// The outcome for one property of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The property needed no change.
    AsBefore,
    /// The property had the value that Tactus had set, and has the original value again.
    Restored,
    /// Another process has changed the property since Tactus set it. The property is left unchanged.
    Left,
    /// The thread has ended.
    Gone,
    /// The property keeps the value that Tactus had set, or has the closest possible value.
    Failed(Explanation),
}

impl Outcome {
    pub(super) fn of(error: sys::Error) -> Outcome {
        match error {
            sys::Error::Gone(_) => Outcome::Gone,
            error => Outcome::Failed(error.into()),
        }
    }
}

/// Summary of the outcomes for a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The thread has ended.
    Gone,
    /// A property could not be restored.
    Failed,
    /// A property was restored.
    Restored,
    /// Another process has changed a property, and no other property needed to be restored.
    Left,
    /// The thread needed no change.
    AsBefore,
}

/// The outcome for a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadRestored {
    /// The thread.
    pub thread: Identity,
    /// The first thread of the thread's process.
    pub leader: Identity,
    /// Row of the thread in the table; `None` for a thread that is not in the table.
    pub row: Option<Row>,
    /// Original attributes and affinity of the thread.
    pub original: Original,
    /// The outcome for the scheduling attributes of the thread.
    pub attributes: Outcome,
    /// The outcome for a stop of the process by an earlier program, recorded with the first thread of the process.
    pub stop: Outcome,
    /// The outcome for the affinity of the thread.
    pub affinity: Outcome,
}

impl ThreadRestored {
    pub(super) fn begin(row: Option<Row>, entry: &Entry) -> ThreadRestored {
        let nothing = Outcome::AsBefore;
        ThreadRestored {
            thread: entry.thread,
            leader: entry.leader,
            row,
            original: entry.original,
            attributes: nothing.clone(),
            stop: nothing.clone(),
            affinity: nothing,
        }
    }

    fn outcomes(&self) -> [&Outcome; 3] {
        [&self.attributes, &self.stop, &self.affinity]
    }

    /// Returns the summary of the outcomes.
    #[must_use]
    pub fn end(&self) -> End {
        let has = |wanted: &Outcome| self.outcomes().contains(&wanted);
        if has(&Outcome::Gone) {
            End::Gone
        } else if self.failures().next().is_some() {
            End::Failed
        } else if has(&Outcome::Restored) {
            End::Restored
        } else if has(&Outcome::Left) {
            End::Left
        } else {
            End::AsBefore
        }
    }

    /// Returns the reasons why properties could not be restored.
    pub fn failures(&self) -> impl Iterator<Item = &Explanation> {
        self.outcomes().into_iter().filter_map(|outcome| match outcome {
            Outcome::Failed(reason) => Some(reason),
            _ => None,
        })
    }
}

impl fmt::Display for ThreadRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.thread.tid)?;
        if self.thread != self.leader {
            write!(f, " of process {}", self.leader.tid)?;
        }
        if self.end() == End::Gone {
            return f.write_str(": gone");
        }
        let mut separator = ": ";
        let mut say = |words: String| {
            let said = write!(f, "{separator}{words}");
            separator = "; ";
            said
        };
        match &self.attributes {
            Outcome::Restored => say(self.original.attributes.map_or(String::new(), |it| it.to_string()))?,
            Outcome::Left => say("scheduled by another process since".to_string())?,
            Outcome::Failed(reason) => say(reason.reason.to_string())?,
            _ => {}
        }
        match &self.stop {
            Outcome::Restored => say("continued".to_string())?,
            Outcome::Failed(reason) => say(reason.reason.to_string())?,
            _ => {}
        }
        match &self.affinity {
            Outcome::Restored => say(format!("on CPUs {}", self.original.affinity))?,
            Outcome::Left => say("moved to other CPUs by another process since".to_string())?,
            Outcome::Failed(reason) => say(reason.reason.to_string())?,
            _ => {}
        }
        if self.outcomes().iter().all(|outcome| **outcome == Outcome::AsBefore) {
            say("as before".to_string())
        } else {
            Ok(())
        }
    }
}

/// The outcome for a control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupRestored {
    /// Row of the group in the table.
    pub row: Row,
    /// The group.
    pub group: ControlGroup,
    /// The outcome. `Restored`: the group is thawed and, if Tactus created it, removed. `AsBefore`: the group was not
    /// frozen, or is not removed yet.
    pub outcome: Outcome,
}

impl GroupRestored {
    /// Returns the reason why the group could not be thawed or removed.
    #[must_use]
    pub fn failure(&self) -> Option<&Explanation> {
        match &self.outcome {
            Outcome::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The outcome for all threads.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Restored {
    /// The outcome for each thread: first the threads of the table in the order of its rows, then the threads that are
    /// not in the table.
    pub threads: Vec<ThreadRestored>,
    /// The outcome for each control group.
    pub groups: Vec<GroupRestored>,
    /// The number of unreadable rows of the table.
    pub damaged: usize,
    /// Reason why threads outside the table may have been missed.
    pub missed: Option<Explanation>,
    /// Threads that may be inside a fork that began before they were restored, because they have received too little
    /// CPU time to finish the fork. A child of such a fork would keep inherited values. Until these threads receive CPU
    /// time, another restoration has the same result.
    pub unsure: Vec<Identity>,
}

impl Restored {
    /// Returns whether nothing is left to restore.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let groups = self.groups.iter().all(|group| group.failure().is_none());
        self.damaged == 0 && self.missed.is_none() && self.count(End::Failed) == 0 && groups
    }

    /// Returns the reasons why threads outside the table may have been missed, in one string; `None` without a reason.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let unsure = match self.unsure.len() {
            0 => None,
            1 => Some("1 thread had no CPU time to finish a fork".to_string()),
            many => Some(format!("{many} threads had no CPU time to finish a fork")),
        };
        let both = [self.missed.as_ref().map(|reason| reason.reason.to_string()), unsure];
        both.into_iter().flatten().reduce(|first, second| format!("{first}; {second}"))
    }

    /// Returns the number of threads with this outcome.
    #[must_use]
    pub fn count(&self, end: End) -> usize {
        self.threads.iter().filter(|thread| thread.end() == end).count()
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [restored, before, left, gone, failed] =
            [End::Restored, End::AsBefore, End::Left, End::Gone, End::Failed].map(|end| self.count(end));
        let threads = if restored == 1 { "thread" } else { "threads" };
        write!(
            f,
            "{restored} {threads} restored, {before} as before, {left} left with values that another process has set since"
        )?;
        write!(f, ", {gone} gone, {failed} failed")?;
        match self.groups.iter().filter(|group| group.outcome == Outcome::Restored).count() {
            0 => {}
            1 => write!(f, "; 1 control group restored")?,
            many => write!(f, "; {many} control groups restored")?,
        }
        for failure in self.groups.iter().filter_map(GroupRestored::failure) {
            write!(f, "; {}", failure.reason)?;
        }
        if self.damaged > 0 {
            write!(f, "; {} rows of the table cannot be read", self.damaged)?;
        }
        match self.doubt() {
            Some(why) => write!(f, "; newer threads may have been missed: {why}"),
            None => Ok(()),
        }
    }
}
