//! The replacement of a resident core by another program in the same process.
//!
//! The process executes the new program: its pid and its start time stay, so its guardian goes on watching it, and the
//! table of originals stays valid. The kernel keeps reservations, weights and quotas meanwhile. The clients of the
//! dispatcher are suspended first; the new program makes their promises again, each on the same CPU. The threads of the
//! former program end with it, and their loans, too.
//!
//! ```text
//!   former program                          process                        new program
//!   suspend clients ─▶ write the state ─▶ execve(2) ─▶ take over reservations and shares ─▶ make promises again
//!        └─────── locks, listening socket, state: descriptors ──────────────┘
//! ```
//!
//! If the new program cannot read the state, it restores all threads and begins without promises. If it fails, the
//! process ends, and the guardian restores all threads.

use super::COMMAND;
use super::core_locks::CoreLocks;
use super::entrance::Entrance;
use super::message::{Opening, Roster};
use super::setup::Setup;
use super::shared::{RaisedPriority, Shared, at_agent_priority};
use crate::Explanation;
use crate::directory::Directory;
use crate::dispatch::{Dispatcher, EVENTS_MOST, FormerClient, FormerReservations, KernelKept, Promises};
use crate::interfering::InterferingThread;
use crate::kernel::priority;
use crate::linux::{Linux, pass_on_mount, take_over_mount};
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, PoisonError};
use sys::event::Bell;
use sys::process::Process;
use sys::shared::{HostLock, Lock};
use sys::thread::Thread;
use sys::{clock, kernel, launch, process};
use trace::Event;

/// Version of the state of a core that is replaced. A program that finds another version begins without promises.
pub const HANDOVER_VERSION: u32 = 2;
/// The option with the descriptors, for the command line of the new program.
const OPTION: &str = "--handover";
/// The option with which a program prints [`HANDOVER_VERSION`].
const TRIAL: &str = "--handover-version";
/// Maximum time for the new program to print its version.
const PATIENCE: Nanos = Nanos::s(2);
/// Interval between two checks of the trial.
const LOOK: Nanos = Nanos::ms(10);
/// Maximum number of measurements that are passed on. More are there only if no front end has read them for long.
const UNREAD_MOST: usize = 1 << 13;

/// How a resident core is replaced.
#[derive(Debug)]
pub struct Replacement<'r> {
    /// A ring of this bell requests the replacement.
    pub request: &'r Bell,
    /// Whether the end of the core is requested. The handler of the signal sets this before it returns.
    pub is_ending: &'r AtomicBool,
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
    /// Number of the descriptor of the private mount of the freezer, if there is one.
    mount: Option<i32>,
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
    /// The measurements that no front end has read, and the number of those that were lost.
    pub(super) unread: Vec<(Instant, Event)>,
    pub(super) lost: u64,
    pub(super) warnings: Vec<Explanation>,
}

/// The part of [`State`] that is the same in all versions.
#[derive(Deserialize)]
struct Head {
    version: u32,
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
            let why = format!("`{text}` is no list of four descriptors");
            return Err(Explanation::new(why, "replace a core by SIGHUP; its program passes them on"));
        };
        Ok(Handover {
            state: File::from(launch::inherited(state)?),
            entrance: launch::inherited(entrance)?,
            lock: launch::inherited(lock)?,
            host: launch::inherited(host)?,
        })
    }

    /// Returns the entrance and the locks, and what the former program has left. If this does not fit this program, calls
    /// `complain` with the reason. `find` returns the policy with a name, and `executable` is the program of the guardian.
    ///
    /// # Errors
    /// The socket does not listen.
    pub fn open(
        self,
        user: Option<u32>,
        directory: &Directory,
        (find, executable): (impl Fn(&str) -> Option<&'static Descriptor>, &Path),
        complain: impl FnOnce(&Explanation),
    ) -> Result<(Entrance, CoreLocks, Option<FormerProgram>), Explanation> {
        // The clients wait for the dispatch.
        let raised = RaisedPriority::to(priority::SENTINEL);
        let entrance = Entrance::of_former(self.entrance, user)?;
        let locks = CoreLocks { lock: Lock::inherited(self.lock), host: HostLock::inherited(self.host) };
        let former = read(self.state, directory).and_then(|(state, table)| {
            // The former program injected the fault.
            let setup = Setup { fault: None, ..state.opening.clone().setup(find, executable)? };
            Ok(FormerProgram { state, setup, table, raised })
        });
        Ok((entrance, locks, former.inspect_err(complain).ok()))
    }
}

/// The state and the table of the former program of this process.
#[derive(Debug)]
pub struct FormerProgram {
    pub(super) state: State,
    setup: Setup,
    pub(super) table: Table,
    /// Until the promises are made again, the command thread precedes ordinary threads.
    pub(super) raised: RaisedPriority,
}

impl FormerProgram {
    /// Returns the parameters of the former program, without fault injection.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// Reads the state of the former program, and opens its table.
fn read(mut file: File, directory: &Directory) -> Result<(State, Table), Explanation> {
    let unusable = |why: String| {
        let why = format!("the state of the former program cannot be used: {why}");
        Explanation::new(why, "make the promises again; the service does so itself")
    };
    // The offset is shared with the former program, which has written the file.
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| unusable(error.to_string()))?;
    let Head { version } = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
    if version != HANDOVER_VERSION {
        return Err(unusable(format!("its version is {version}, and this program reads {HANDOVER_VERSION}")));
    }
    let state: State = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
    // Without this mount, the next hard limit mounts the hierarchy again.
    let _ = state.mount.map(take_over_mount);
    let table = directory.open_table()?.ok_or_else(|| unusable("the table of originals is gone".to_string()))?;
    let me = Thread::open(std::process::id())?.identity();
    if !table.is_current() || table.daemon() != me || table.boot() != kernel::boot_id()? || table.is_finished() {
        return Err(unusable("the table of originals is another one".to_string()));
    }
    Ok((state, table))
}

/// What the command thread knows besides the state that the threads share.
pub(super) struct Known {
    pub(super) opening: Opening,
    pub(super) roster: Roster,
    pub(super) interfering: Vec<(u64, InterferingThread)>,
    pub(super) unread: Vec<(Instant, Event)>,
    pub(super) lost: u64,
}

/// The promises of both mechanisms, locked and suspended.
struct Suspended<'s, 'k> {
    dispatcher: MutexGuard<'s, Dispatcher<&'k Linux>>,
    kept: Option<MutexGuard<'s, KernelKept<&'k Linux>>>,
    at: Instant,
    clients: Vec<FormerClient>,
}

/// Executes the program of `replacement` in this process. Returns only if this is not possible. Calls `beat` while the new
/// program is tried out.
pub(super) fn replace(
    shared: &Shared<'_>,
    replacement: &Replacement<'_>,
    (entrance, locks): (&Entrance, &CoreLocks),
    known: impl FnOnce() -> Known,
    beat: &dyn Fn(),
) -> NotReplaced {
    if let Err(reason) = try_out(replacement, beat) {
        return NotReplaced::Unchanged(reason);
    }
    // No guardian inherits the descriptors, and none is replaced meanwhile.
    let _starting = shared.starting.lock().unwrap_or_else(PoisonError::into_inner);
    let descriptors = [entrance.as_fd(), locks.lock.as_fd(), locks.host.as_fd()];
    let (mut command, file) = match prepare(replacement, descriptors) {
        Ok(prepared) => prepared,
        Err(reason) => return NotReplaced::Unchanged(reason),
    };
    let known = known();
    // Allocate memory before the clients are suspended.
    let journals = [(); 2].map(|()| Vec::with_capacity(EVENTS_MOST));
    let mut suspended = suspend(shared);
    // From here on, SIGTERM ends the process, and the guardian restores all threads.
    process::leave_signals_to_next_program();
    if replacement.is_ending.load(Ordering::SeqCst) {
        return NotReplaced::Ending;
    }
    let state = state_of(shared, &mut suspended, known, journals);
    let written = serde_json::to_vec(&state).map_err(io::Error::other).and_then(|bytes| (&file).write_all(&bytes));
    let error = written.err().unwrap_or_else(|| command.exec());
    NotReplaced::Suspended(cannot(replacement, &error.to_string()))
}

/// Suspends the clients of the dispatcher. Until the new program starts, no other thread reads or changes a promise: this
/// thread alone acquires both locks.
fn suspend<'s, 'k>(shared: &'s Shared<'k>) -> Suspended<'s, 'k> {
    at_agent_priority(|| {
        let kept = shared.kernel_kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        let mut dispatcher = shared.lock();
        let at = clock::now();
        let clients = dispatcher.pass_on();
        // The guardian does not expect beats of a program that starts.
        shared.table.set_watched(0);
        Suspended { dispatcher, kept, at, clients }
    })
}

fn state_of(
    shared: &Shared<'_>,
    suspended: &mut Suspended<'_, '_>,
    known: Known,
    [mut latest, mut further]: [Vec<(Instant, Event)>; 2],
) -> State {
    let Suspended { dispatcher, kept, at, clients } = suspended;
    let Known { opening, roster, interfering, mut unread, mut lost } = known;
    lost += dispatcher.read_journal(&mut latest);
    lost += kept.as_mut().map_or(0, |kept| kept.read_journal(&mut further));
    unread.append(&mut latest);
    unread.append(&mut further);
    unread.retain(|(_, event)| matches!(event, Event::Period { .. } | Event::Kept { .. }));
    let excess = unread.len().saturating_sub(UNREAD_MOST);
    lost += unread.drain(..excess).count() as u64;
    let shares = shared.shares.lock().unwrap_or_else(PoisonError::into_inner);
    State {
        version: HANDOVER_VERSION,
        opening,
        mount: pass_on_mount(),
        epoch: dispatcher.epoch(),
        suspended: *at,
        roster,
        clients: std::mem::take(clients),
        reservations: kept.as_ref().map(|kept| kept.pass_on()).unwrap_or_default(),
        shares: shares.iter().map(|(pid, rows)| (*pid, rows.iter().map(|row| row.number()).collect())).collect(),
        interfering,
        unread,
        lost,
        warnings: shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    }
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
    /// The end of the core is requested. The clients are suspended.
    Ending,
}

/// Checks that the new program runs, and that it can take over a state. Calls `beat` meanwhile.
fn try_out(replacement: &Replacement<'_>, beat: &dyn Fn()) -> Result<(), Explanation> {
    let failed = |why: &str| cannot(replacement, why);
    let mut trial = Command::new(&replacement.program);
    trial.arg0("tactus").args([COMMAND, TRIAL]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = trial.spawn().map_err(|error| failed(&error.to_string()))?;
    let process = Process::open(child.id());
    let end = clock::now().saturating_add(PATIENCE);
    while !process.as_ref().is_ok_and(|process| process.ends_within(LOOK)) {
        beat();
        if process.is_err() || clock::now() >= end {
            let _ = child.kill();
            return Err(failed(&format!("`core {TRIAL}` has not ended within {PATIENCE}")));
        }
    }
    let done = child.wait_with_output().map_err(|error| failed(&error.to_string()))?;
    if !done.status.success() {
        return Err(failed(&format!("`core {TRIAL}` has ended with {}", done.status)));
    }
    match String::from_utf8_lossy(&done.stdout).trim().parse::<u32>() {
        Ok(_) => Ok(()),
        Err(_) => Err(failed(&format!("`core {TRIAL}` prints no version"))),
    }
}

fn cannot(replacement: &Replacement<'_>, why: &str) -> Explanation {
    let why = format!("cannot replace the core by {}: {why}", replacement.program.display());
    Explanation::new(why, "install a working program at this path, and try again")
}
