//! The replacement of a resident core by another program in the same process.
//!
//! The process executes the new program: its pid and its start time stay, so its guardian goes on watching it, and the
//! table of originals stays valid. The kernel keeps reservations, weights and quotas meanwhile. The clients of the
//! dispatcher are suspended first; the new program makes their promises again, each on the CPU of before. The threads of
//! the former program end with it, and their loans, too.
//!
//! ```text
//!   former program                          process                        new program
//!   suspend clients ─▶ write the state ─▶ execve(2) ─▶ take over reservations and shares ─▶ make promises again
//!        └─────── locks, listening socket, state: descriptors ──────────────┘
//! ```
//!
//! If the new program cannot read the state, it restores all threads and begins without promises. If it fails, the
//! process ends, and the guardian restores all threads.

use super::entrance::Entrance;
use super::held::Held;
use super::message::{Opening, Roster};
use super::setup::Setup;
use super::shared::{Raised, Shared, at_agent_priority};
use crate::Explanation;
use crate::directory::Directory;
use crate::dispatch::{FormerClient, FormerReservations, Promises};
use crate::interfering::InterferingThread;
use crate::kernel::priority;
use crate::table::Table;
use sched::{Descriptor, Instant, Nanos};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::PoisonError;
use sys::event::Bell;
use sys::process::Process;
use sys::shared::{HostLock, Lock};
use sys::thread::Thread;
use sys::{clock, kernel, launch, process};
use trace::Event;

/// Version of the state. A program begins without promises if it finds another version.
const VERSION: u32 = 1;
/// The option with the descriptors, for the command line of the new program.
const OPTION: &str = "--handover";
/// Maximum time for the new program to print its version.
const TRIAL: Nanos = Nanos::s(2);
/// Interval between two checks of the trial.
const LOOK: Nanos = Nanos::ms(10);

/// How a resident core is replaced.
#[derive(Debug)]
pub struct Replacement<'r> {
    /// A ring of this bell requests the replacement.
    pub request: &'r Bell,
    /// File of the new program.
    pub program: PathBuf,
    /// Arguments of the new program, which gets the descriptors in a further option.
    pub arguments: Vec<OsString>,
}

/// What a resident core passes on to the program that replaces it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    opening: Opening,
    /// Time zero of the journals.
    pub(super) epoch: Instant,
    /// Instant of the suspension of the clients, according to the kernel's clock.
    pub(super) suspended: Instant,
    pub(super) roster: Roster,
    pub(super) clients: Vec<FormerClient>,
    pub(super) reservations: FormerReservations,
    /// The processes with a share of the CPUs, each with the numbers of the rows of its groups.
    pub(super) shares: Vec<(u32, Vec<usize>)>,
    pub(super) interfering: Vec<(u64, InterferingThread)>,
    /// The measurements that no front end has read.
    pub(super) unread: Vec<(Instant, Event)>,
    pub(super) warnings: Vec<Explanation>,
}

/// What the former program of this process has passed on.
#[derive(Debug)]
pub struct Handover {
    state: File,
    entrance: OwnedFd,
    lock: OwnedFd,
    host: OwnedFd,
}

impl Handover {
    /// Takes the descriptors in `text`, the argument of the option `--handover`.
    ///
    /// # Errors
    /// `text` does not have the numbers of four inherited descriptors.
    pub fn inherited(text: &str) -> Result<Handover, Explanation> {
        let numbers: Option<Vec<i32>> = text.split(',').map(|number| number.parse().ok()).collect();
        let Some(&[state, entrance, lock, host]) = numbers.as_deref() else {
            return Err(Explanation::new(
                format!("`{text}` has no four descriptors"),
                "replace a core by SIGHUP; its program passes them on",
            ));
        };
        Ok(Handover {
            state: File::from(launch::inherited(state)?),
            entrance: launch::inherited(entrance)?,
            lock: launch::inherited(lock)?,
            host: launch::inherited(host)?,
        })
    }

    /// Returns the entrance and the locks, and the state and the table of the former program. If the state does not fit
    /// this program, calls `complain` with the reason.
    ///
    /// # Errors
    /// The socket does not listen.
    pub fn open(
        self,
        user: Option<u32>,
        directory: &Directory,
        complain: impl FnOnce(&Explanation),
    ) -> Result<(Entrance, Held, Option<Former>), Explanation> {
        // The clients wait for the dispatch.
        let raised = Raised::to(priority::AGENT);
        let entrance = Entrance::of_former(self.entrance, user)?;
        let held = Held { lock: Lock::inherited(self.lock), host: HostLock::inherited(self.host) };
        let former = Former::read(self.state, directory, raised).inspect_err(complain).ok();
        Ok((entrance, held, former))
    }
}

/// The state and the table of the former program of this process.
#[derive(Debug)]
pub struct Former {
    pub(super) state: State,
    pub(super) table: Table,
    /// Until the promises are made again, the command thread has the priority of an agent.
    pub(super) raised: Raised,
}

impl Former {
    fn read(mut file: File, directory: &Directory, raised: Raised) -> Result<Former, Explanation> {
        let other = |why: String| {
            let why = format!("the state of the former program cannot be used: {why}");
            Explanation::new(why, "nothing; the promises are made again")
        };
        // The offset is shared with the former program, which has written the file.
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| other(error.to_string()))?;
        let state: State = serde_json::from_slice(&bytes).map_err(|error| other(error.to_string()))?;
        if state.version != VERSION {
            return Err(other(format!("its version is {}, and that of this program {VERSION}", state.version)));
        }
        let table = directory.open_table()?.ok_or_else(|| other("the table of originals is gone".to_string()))?;
        let me = Thread::open(std::process::id())?.identity();
        if !table.is_current() || table.daemon() != me || table.boot() != kernel::boot_id()? || table.is_finished() {
            return Err(other("the table of originals is another one".to_string()));
        }
        Ok(Former { state, table, raised })
    }

    /// Returns the parameters of the former program, without fault injection. `find` returns the policy with a name, and
    /// `executable` is the program of the guardian.
    ///
    /// # Errors
    /// This program does not have the policies of the former program.
    pub fn setup(
        &self,
        find: impl Fn(&str) -> Option<&'static Descriptor>,
        executable: &Path,
    ) -> Result<Setup, Explanation> {
        Ok(Setup { fault: None, ..self.state.opening.clone().setup(find, executable)? })
    }
}

/// Executes the program of `replacement` in this process. Returns only if this is not possible.
pub(super) fn replace(
    shared: &Shared<'_>,
    replacement: &Replacement<'_>,
    (entrance, held): (&Entrance, &Held),
    opening: Opening,
    (roster, interfering): (Roster, Vec<(u64, InterferingThread)>),
) -> NotReplaced {
    let descriptors = [entrance.as_fd(), held.lock.as_fd(), held.host.as_fd()];
    let prepared = try_out(replacement).and_then(|()| prepare(replacement, descriptors));
    let (mut command, file) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return NotReplaced::Unchanged(reason),
    };
    // The guardian does not expect beats of a program that starts.
    shared.table.set_watched(0);
    let mut dispatcher = at_agent_priority(|| shared.lock());
    let mut kept = shared.kernel_kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
    let suspended = clock::now();
    let clients = at_agent_priority(|| dispatcher.pass_on());
    let (mut unread, mut further) = (Vec::new(), Vec::new());
    dispatcher.read_journal(&mut unread);
    if let Some(kept) = &mut kept {
        kept.read_journal(&mut further);
    }
    unread.append(&mut further);
    unread.retain(|(_, event)| matches!(event, Event::Period { .. } | Event::Kept { .. }));
    let shares = shared.shares.lock().unwrap_or_else(PoisonError::into_inner);
    let state = State {
        version: VERSION,
        opening,
        epoch: dispatcher.epoch(),
        suspended,
        roster,
        clients,
        reservations: kept.as_ref().map(|kept| kept.pass_on()).unwrap_or_default(),
        shares: shares.iter().map(|(pid, rows)| (*pid, rows.iter().map(|row| row.number()).collect())).collect(),
        interfering,
        unread,
        warnings: shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    };
    let written = serde_json::to_vec(&state).map_err(io::Error::other).and_then(|bytes| (&file).write_all(&bytes));
    let error = written.err().unwrap_or_else(|| {
        // A further request must not end the process before the new program handles requests.
        process::ignore_terminal();
        command.exec()
    });
    NotReplaced::Suspended(cannot(replacement, &error.to_string()))
}

/// Returns the command that executes the new program, and the file of the state. The program gets this file and
/// `descriptors`.
fn prepare(replacement: &Replacement<'_>, descriptors: [BorrowedFd<'_>; 3]) -> Result<(Command, File), Explanation> {
    let file = launch::memory_file("tactus-handover")?;
    let mut command = Command::new(&replacement.program);
    let mut numbers = Vec::new();
    for descriptor in [file.as_fd()].into_iter().chain(descriptors) {
        let own = descriptor.try_clone_to_owned().map_err(|error| cannot(replacement, &error.to_string()))?;
        numbers.push(launch::inherit(&mut command, own).to_string());
    }
    command.arg0("tactus").args(&replacement.arguments).arg(OPTION).arg(numbers.join(","));
    Ok((command, file))
}

/// Why a core was not replaced.
#[derive(Debug)]
pub(super) enum NotReplaced {
    /// Nothing has changed.
    Unchanged(Explanation),
    /// The clients are suspended, so the core must end.
    Suspended(Explanation),
}

/// Checks that the new program is executable and prints its version.
fn try_out(replacement: &Replacement<'_>) -> Result<(), Explanation> {
    let mut trial = Command::new(&replacement.program);
    trial.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = trial.spawn().map_err(|error| cannot(replacement, &error.to_string()))?;
    let has_ended = Process::open(child.id()).is_ok_and(|process| {
        let end = clock::now().saturating_add(TRIAL);
        std::iter::repeat_with(|| process.ends_within(LOOK)).find(|ended| *ended || clock::now() >= end) == Some(true)
    });
    if !has_ended {
        let _ = child.kill();
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if has_ended => Err(cannot(replacement, &format!("`--version` has ended with {status}"))),
        Ok(_) => Err(cannot(replacement, &format!("`--version` has not ended within {TRIAL}"))),
        Err(error) => Err(cannot(replacement, &error.to_string())),
    }
}

fn cannot(replacement: &Replacement<'_>, why: &str) -> Explanation {
    let why = format!("cannot replace the core by {}: {why}", replacement.program.display());
    Explanation::new(why, "install a working program at this path, and try again")
}
