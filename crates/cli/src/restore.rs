//! `tactus restore`: restores the threads that a dead dispatcher changed and did not restore.

use crate::args::Restore;
use crate::failure::{Failure, usage};
use crate::output;
use anyhow::anyhow;
use daemon::Explanation;
use daemon::directory::{Directory, Refused};
use daemon::linux::Linux;
use daemon::restore::{End, Outcome, Replayed, Restored, ThreadRestored, replay};
use serde::Serialize;

/// Maximum number of threads that the text lists one by one. JSON lists all threads.
const LISTED_MAX: usize = 100;

/// The result as JSON.
#[derive(Serialize)]
struct RestoreReport {
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

pub(crate) fn run(args: &Restore) -> Result<(), Failure> {
    let directory = match &args.directory {
        Some(path) => Directory::at(path),
        None => Directory::usual().map_err(failed)?,
    };
    let replayed = replayed(&directory)?;
    let restored = match &replayed {
        Replayed::Done(restored) => restored,
        Replayed::Nothing | Replayed::Stale => &Restored::default(),
    };
    let text = if args.json { output::json(&report(&replayed, restored))? } else { text(&replayed, &directory) };
    output::print(&text)?;
    if restored.is_settled() {
        return Ok(());
    }
    Err(Failure::Failed(anyhow!(
        "some threads may not be restored; the table stays: run `tactus restore` again as root"
    )))
}

/// Replays the table in `directory`, unless a dispatcher is running.
fn replayed(directory: &Directory) -> Result<Replayed, Failure> {
    // Without the directory, there is no table. The lock would create the directory.
    if !directory.path().exists() {
        return Ok(Replayed::Nothing);
    }
    let held = directory.lock().map_err(|refused| match refused {
        held @ Refused::Held(_) => {
            let reason = Explanation::from(held);
            usage(format!("{}, and restores all threads itself", reason.reason), &reason.remedy)
        }
        Refused::Failed(error) => failed(error.into()),
    })?;
    let kernel = Linux::new().map_err(|error| failed(error.into()))?;
    replay(&kernel, directory, &held).map_err(failed)
}

fn failed(reason: Explanation) -> Failure {
    Failure::Failed(anyhow!("{reason}"))
}

fn report(replayed: &Replayed, restored: &Restored) -> RestoreReport {
    RestoreReport {
        table: match replayed {
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
    }
}

fn text(replayed: &Replayed, directory: &Directory) -> String {
    let restored = match replayed {
        Replayed::Nothing => {
            return format!("Nothing to restore: no table was left in {}.\n", directory.path().display());
        }
        Replayed::Stale => {
            return "Nothing to restore: the leftover table is from an earlier boot of this machine. It is removed.\n"
                .into();
        }
        Replayed::Done(restored) => restored,
    };
    let mut text = String::new();
    for thread in restored.threads.iter().take(LISTED_MAX) {
        text += &format!("{thread}\n");
    }
    if restored.threads.len() > LISTED_MAX {
        text += &format!("and {} more (--json lists all)\n", restored.threads.len() - LISTED_MAX);
    }
    text + &format!("{restored}\n")
}
