//! `tactus release`: ends the daemon if it lives, and restores the threads that it has changed.

mod done;
mod report;
mod users;

use crate::args::Release;
use crate::failure::Failure;
use crate::output;
use anyhow::anyhow;
use daemon::Explanation;
use daemon::directory::Directory;
use done::Done;
use serde_json::{Value, json};
use std::path::Path;
use sys::privileges;
use sys::thread::Thread;

pub(crate) fn run(args: &Release) -> Result<(), Failure> {
    let mut all = vec![Done::of(&own(args)?)?];
    let mut problem = None;
    if args.all {
        if privileges::user() == 0 {
            let run = args.run_directory.as_deref().unwrap_or(Path::new("/run"));
            let users = Directory::of_users(run);
            all.extend(users.iter().map(|user| users::release(user, args.json)).collect::<Vec<Done>>());
        }
        // A dispatcher with another directory is not ended: only its pid is known, and not its table.
        problem = elsewhere().map(|pid| {
            let why = format!("process {pid} still dispatches, and its table is in no default directory");
            Explanation::new(why, format!("end it (kill {pid}): it restores its threads"))
        });
    }
    let is_settled = problem.is_none() && all.iter().all(|done| done.is_settled);
    let text = if args.json {
        let tables: Vec<&Value> = all.iter().map(|done| &done.json).collect();
        output::json(&json!({ "settled": is_settled, "tables": tables }))?
    } else {
        all.iter().map(|done| done.text.as_str()).collect()
    };
    output::print(&text)?;
    match problem {
        Some(problem) => Err(Failure::Failed(anyhow!("{problem}"))),
        None if !is_settled => {
            let why = "some threads may not be restored, and their table stays; see the reasons above";
            Err(Failure::Failed(anyhow!(why)))
        }
        None => Ok(()),
    }
}

/// Returns the directory of this user.
fn own(args: &Release) -> Result<Directory, Failure> {
    match (&args.directory, &args.run_directory) {
        (Some(path), _) => Ok(Directory::at(path)),
        (None, Some(run)) if privileges::user() == 0 => Ok(Directory::at(run.join("tactus"))),
        _ => Directory::usual().map_err(|reason| Failure::Failed(anyhow!("{reason}"))),
    }
}

/// Returns the pid of a living dispatcher that this user may end; `None` without such a dispatcher.
fn elsewhere() -> Option<u32> {
    let user = privileges::user();
    let is_ours = |pid: &u32| {
        let owner = Thread::open(*pid).and_then(|thread| thread.owner());
        user == 0 || owner.is_ok_and(|owner| owner.real == user)
    };
    Directory::dispatcher().filter(is_ours)
}
