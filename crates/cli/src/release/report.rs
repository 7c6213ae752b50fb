//! What was given back, as text and as JSON.

use daemon::directory::Directory;
use daemon::release::{Ended, Released};
use daemon::restore::{End, GroupRestored, Outcome, Replayed, Restored, ThreadRestored};
use serde::Serialize;

/// Maximum number of threads that the text lists one by one. JSON lists all threads.
const LISTED_MAX: usize = 100;

/// The result for a directory as JSON.
#[derive(Serialize)]
pub(super) struct TableReport {
    directory: String,
    /// Pid of the daemon that was ended, and whether it had to be killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<EndedReport>,
    /// Result of the replay. `nothing`: there was no table; `stale`: the table was from an earlier boot; `replayed`:
    /// the threads of the table were restored.
    table: &'static str,
    settled: bool,
    restored: usize,
    as_before: usize,
    left: usize,
    gone: usize,
    failed: usize,
    damaged_rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    may_have_missed: Option<String>,
    threads: Vec<ThreadReport>,
    control_groups: Vec<GroupReport>,
}

/// A control group as JSON.
#[derive(Serialize)]
struct GroupReport {
    /// Name of a group that Tactus created.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(flatten)]
    outcome: OutcomeReport,
}

/// An ended daemon as JSON.
#[derive(Serialize)]
struct EndedReport {
    pid: u32,
    killed: bool,
}

/// A thread as JSON.
#[derive(Serialize)]
struct ThreadReport {
    tid: u32,
    process: u32,
    /// Whether the thread has no row in the table, but descends from a thread that has one.
    newborn: bool,
    end: &'static str,
    attributes: OutcomeReport,
    stop: OutcomeReport,
    affinity: OutcomeReport,
    original_attributes: Option<String>,
    original_cpus: String,
}

/// The outcome for one property, as JSON.
#[derive(Serialize)]
struct OutcomeReport {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<&Outcome> for OutcomeReport {
    fn from(outcome: &Outcome) -> OutcomeReport {
        let (outcome, reason) = match outcome {
            Outcome::AsBefore => ("as_before", None),
            Outcome::Restored => ("restored", None),
            Outcome::Left => ("left", None),
            Outcome::Gone => ("gone", None),
            Outcome::Failed(reason) => ("failed", Some(reason.reason.to_string())),
        };
        OutcomeReport { outcome, reason }
    }
}

impl From<&GroupRestored> for GroupReport {
    fn from(restored: &GroupRestored) -> GroupReport {
        GroupReport { name: restored.group.name(), outcome: (&restored.outcome).into() }
    }
}

impl From<&ThreadRestored> for ThreadReport {
    fn from(thread: &ThreadRestored) -> ThreadReport {
        ThreadReport {
            tid: thread.thread.tid,
            process: thread.leader.tid,
            newborn: thread.row.is_none(),
            end: match thread.end() {
                End::AsBefore => "as_before",
                End::Restored => "restored",
                End::Left => "left",
                End::Gone => "gone",
                End::Failed => "failed",
            },
            attributes: (&thread.attributes).into(),
            stop: (&thread.stop).into(),
            affinity: (&thread.affinity).into(),
            original_attributes: thread.original.attributes.map(|attributes| attributes.to_string()),
            original_cpus: thread.original.affinity.to_string(),
        }
    }
}

/// Returns what was restored.
fn restored(released: &Released) -> Restored {
    match &released.replayed {
        Replayed::Done(restored) => restored.clone(),
        Replayed::Nothing | Replayed::Stale => Restored::default(),
    }
}

/// Returns whether nothing is left to restore.
pub(super) fn is_settled(released: &Released) -> bool {
    restored(released).is_settled()
}

/// Returns the result for `directory` as JSON.
pub(super) fn report(directory: &Directory, released: &Released) -> TableReport {
    let restored = restored(released);
    TableReport {
        directory: directory.path().display().to_string(),
        ended: released.ended.map(|Ended { pid, was_killed }| EndedReport { pid, killed: was_killed }),
        table: match released.replayed {
            Replayed::Nothing => "nothing",
            Replayed::Stale => "stale",
            Replayed::Done(_) => "replayed",
        },
        settled: restored.is_settled(),
        restored: restored.count(End::Restored),
        as_before: restored.count(End::AsBefore),
        left: restored.count(End::Left),
        gone: restored.count(End::Gone),
        failed: restored.count(End::Failed),
        damaged_rows: restored.damaged,
        may_have_missed: restored.doubt(),
        threads: restored.threads.iter().map(ThreadReport::from).collect(),
        control_groups: restored.groups.iter().map(GroupReport::from).collect(),
    }
}

/// Returns the result for `directory` as text.
pub(super) fn text(directory: &Directory, released: &Released) -> String {
    let mut text = match released.ended {
        Some(Ended { pid, was_killed: false }) => format!("The daemon, process {pid}, has ended on request.\n"),
        Some(Ended { pid, was_killed: true }) => format!("The daemon, process {pid}, did not end, and was killed.\n"),
        None => String::new(),
    };
    let restored = match &released.replayed {
        Replayed::Nothing => {
            return text + &format!("Nothing to restore: no table was left in {}.\n", directory.path().display());
        }
        Replayed::Stale => {
            let why = "the leftover table is from an earlier boot of this machine. It is removed";
            return text + &format!("Nothing to restore: {why}.\n");
        }
        Replayed::Done(restored) => restored,
    };
    for thread in restored.threads.iter().take(LISTED_MAX) {
        text += &format!("{thread}\n");
    }
    if restored.threads.len() > LISTED_MAX {
        text += &format!("and {} more (--json lists all)\n", restored.threads.len() - LISTED_MAX);
    }
    text + &format!("{restored}\n")
}
