//! The guardian's process, which watches the daemon and restores all threads when the daemon cannot.

use super::apart::Apart;
use super::name::{AGENT_PREFIX, NAME};
use super::urging::Urging;
use super::watch::{DaemonState, INTERVAL, PATIENCE, PATIENCE_WITH_COMMANDS, PATIENCE_WITH_KEEPER, Verdict, Watch};
use crate::Explanation;
use crate::directory::{Directory, Refused};
use crate::kernel::priority;
use crate::linux::{Linux, take_over_mount};
use crate::restore::{End, Restored, end_loans, restore, restore_at_once};
use crate::table::{Beating, Table};
use sched::{CpuId, CpuSet, Nanos};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use sys::attributes::{self, Attributes};
use sys::cpus::StealMeter;
use sys::event::Waiting;
use sys::process::{self, Process};
use sys::shared::Lock;
use sys::thread::{self, Identity, State, Thread};
use sys::usage::StateMeter;
use sys::{affinity, clock, cpus, memory};

/// Memory that the guardian takes from the system at its start. Unit: bytes.
const HEAP: usize = 1 << 20;
/// Interval between two checks of a standby whether anything is left to guard.
const LOOK: Nanos = Nanos::s(1);
/// Maximum number of threads that a report lists individually.
const LISTED_MOST: usize = 32;

/// The end of a guardian.
#[derive(Debug)]
pub struct GuardianEnd {
    /// Report of the guardian's actions, one per line; empty if the guardian took no action.
    pub report: String,
    /// Whether nothing is left to restore.
    pub is_settled: bool,
    apart: Option<Apart>,
}

impl GuardianEnd {
    /// Removes the control groups of the guardian, if the core has ended. Takes seconds on a busy host.
    pub fn remove_groups(self) {
        if let Some(apart) = self.apart {
            apart.end();
        }
    }
}

/// Turns this process into the guardian of the daemon with the table in `directory`. Returns after an error, or when
/// the guardian has nothing left to do. The caller writes the report last, because writing to a slow or closed pipe may
/// block or fail. `mount` is the number of the descriptor of the daemon's private mount, if the daemon has one.
#[must_use]
pub fn run(directory: &Path, mount: Option<i32>) -> GuardianEnd {
    process::ignore_requests();
    let (mut report, mut apart) = (String::new(), None);
    // Without this mount, the restoration mounts the hierarchy of the freezer again.
    let _ = mount.map(take_over_mount);
    let is_settled = guard(&Directory::at(directory), &mut report, &mut apart).unwrap_or_else(|reason| {
        let _ = writeln!(report, "tactus guardian: {}", reason.reason);
        false
    });
    GuardianEnd { report, is_settled, apart }
}

/// Guards the threads, and writes a report of the guardian's actions to `report`. Returns whether nothing is left to
/// restore. Sets `apart` to the groups into which this process moves.
fn guard(directory: &Directory, report: &mut String, apart: &mut Option<Apart>) -> Result<bool, Explanation> {
    let table = directory.open_table()?.ok_or_else(|| {
        let why = format!("there is no table of originals in {}", directory.path().display());
        Explanation::new(why, "start it from a daemon, which creates the table")
    })?;
    let kernel = Linux::new()?;
    // The errors of the preparation are reported only if the guardian has to act.
    let mut complaints = String::new();
    let me = prepare(&mut complaints)?;
    *apart = Some(Apart::begin(table.daemon()));
    let waiting = Waiting::new()?;
    let daemon = match Process::open_as(table.daemon()) {
        Ok(daemon) => Some(daemon),
        Err(sys::Error::Gone(_)) => None,
        Err(error) => return Err(error.into()),
    };
    if !stand_by(&table, me.identity())? {
        return Ok(true);
    }
    if let Some(daemon) = &daemon {
        waiting.add(daemon, 0)?;
    }
    table.set_guardian(me.identity());
    let (mut watch, mut urging) = (Watch::default(), None);
    // The files stay open, because the guardian may read them 20 times a second.
    let (steal, mut observed) = (RefCell::new(StealMeter::open().ok()), Observed::new(daemon.as_ref()));
    let (mut due, mut has_event) = (clock::now(), true);
    loop {
        let state = observed.state(&table, has_event);
        // A CPU whose steal time cannot be read counts as not stolen from.
        let stolen = |cpu| steal.borrow_mut().as_mut()?.read(cpu);
        let verdict = watch.step(&table, state, stolen);
        let urging = urging.get_or_insert_with(|| daemon.as_ref().map(Urging::of_predecessor).unwrap_or_default());
        if matches!(verdict, Verdict::Kill { .. } | Verdict::Restore) {
            report.push_str(&std::mem::take(&mut complaints));
        }
        match verdict {
            Verdict::Fine => urging.relax(),
            Verdict::Urge { late } => {
                if let Some(daemon) = &daemon {
                    urging.urge(daemon, &table, &late);
                }
            }
            Verdict::End => return Ok(true),
            Verdict::Kill { hung } => {
                kill(daemon.as_ref(), hung, report);
                end_loans(&kernel, &table);
            }
            Verdict::Restore => {
                if let Some(settled) = bring_back(&kernel, directory, &table, state, report) {
                    return Ok(settled);
                }
            }
        }
        due = due.saturating_add(INTERVAL);
        if due <= clock::now() {
            // Skip missed beats. After a suspension of the machine, the guardian must not catch up on its beats,
            // because the agents need time for theirs.
            due = clock::now().saturating_add(INTERVAL);
        }
        has_event = waiting
            .next(due)
            .unwrap_or_else(|_| {
                clock::sleep_until(due);
                None
            })
            .is_some();
    }
}

/// Returns what the agents do, and the first other threads of the daemon that do not sleep. The daemon starts its agents
/// first.
fn states_of(daemon: &Process) -> String {
    let state = |tid| {
        let thread = Thread::open(tid).ok()?;
        let status = thread.status().ok()?;
        let waits = || thread.waits_in().unwrap_or_else(|| "the kernel".to_string());
        let doing = match status.state {
            State::Runnable => format!("is ready on CPU {}", status.cpu),
            State::Uninterruptible => format!("waits in {}", waits()),
            _ if status.name.starts_with(AGENT_PREFIX) => format!("sleeps in {}", waits()),
            _ => return None,
        };
        Some(format!("{} {doing}", status.name))
    };
    let threads = thread::threads(daemon.pid()).unwrap_or_default();
    threads.into_iter().take(LISTED_MOST).filter_map(state).collect::<Vec<_>>().join(", ")
}

/// Kills the daemon, because its thread `hung` hangs.
fn kill(daemon: Option<&Process>, hung: Beating, report: &mut String) {
    let patience = match hung {
        Beating::Keeper => PATIENCE_WITH_KEEPER,
        Beating::Commands => PATIENCE_WITH_COMMANDS,
        Beating::Agent(_) | Beating::Guardian => PATIENCE,
    };
    let missed = INTERVAL.saturating_mul(patience.into());
    let states = daemon.map_or_else(String::new, states_of);
    let _ = writeln!(report, "tactus guardian: {hung} has missed its heartbeats for {missed}: the daemon is killed");
    if !states.is_empty() {
        let _ = writeln!(report, "  {states}");
    }
    // The kill also fails if the daemon has just ended.
    if let Some(Err(error)) = daemon.map(Process::kill) {
        let _ = writeln!(report, "tactus guardian: {error}");
    }
}

/// Waits while another guardian watches the daemon of `table`. Returns whether something is left to guard afterwards.
fn stand_by(table: &Table, me: Identity) -> sys::Result<bool> {
    let Some(guardian) = table.guardian() else { return Ok(true) };
    match Process::open_as(guardian) {
        Ok(guardian) => {
            table.set_standby(me);
            while !table.is_finished() && !guardian.ends_within(LOOK) {}
        }
        Err(sys::Error::Gone(_)) => {}
        Err(error) => return Err(error),
    }
    Ok(!table.is_finished())
}

/// The daemon, as the guardian observes it.
struct Observed<'d> {
    /// `None`: the process had already ended when the guardian started.
    daemon: Option<&'d Process>,
    /// State of the first thread of the daemon.
    first: Option<StateMeter>,
    /// Number of beats of all agents at the last step.
    beats: u64,
}

impl<'d> Observed<'d> {
    fn new(daemon: Option<&'d Process>) -> Observed<'d> {
        Observed { daemon, first: None, beats: 0 }
    }

    /// Returns the state of the daemon of `table`, once per step. `has_event`: the daemon may have ended.
    fn state(&mut self, table: &Table, has_event: bool) -> DaemonState {
        let agents = (0..table.watched()).map(|cpu| table.beats(Beating::Agent(CpuId::new(cpu))));
        let beats = agents.fold(0, u64::wrapping_add);
        // A daemon whose agents beat lives. To read its state takes longer than the rest of a step.
        let is_beating = std::mem::replace(&mut self.beats, beats) != beats;
        if is_beating && !has_event { DaemonState::Lives } else { self.read(table) }
    }

    fn read(&mut self, table: &Table) -> DaemonState {
        if self.daemon.is_none_or(Process::has_ended) {
            return DaemonState::HasEnded;
        }
        let doing = match &self.first {
            Some(meter) => meter.read(),
            None => Thread::open_as(table.daemon())
                .and_then(|thread| thread.state_meter())
                .and_then(|meter| self.first.insert(meter).read()),
        };
        match doing {
            Ok(doing) if doing.state == State::Dead => DaemonState::Ends,
            Err(sys::Error::Gone(_)) => DaemonState::Ends,
            // A failed read is no evidence that the daemon has ended.
            _ => DaemonState::Lives,
        }
    }
}

/// Prepares this process, as far as permitted, to preempt a hung daemon: all CPUs, locked memory and the highest
/// priority.
fn prepare(report: &mut String) -> sys::Result<Thread> {
    thread::set_name(NAME);
    let me = thread::current();
    let mut tried = |outcome: sys::Result<()>| {
        if let Err(error) = outcome {
            let _ = writeln!(report, "tactus guardian: {error}");
        }
    };
    // The guardian inherits the affinity of its parent, which may be pinned. A cpuset may still forbid some CPUs.
    let everywhere: CpuSet = cpus::online()?;
    match affinity::set(me, &everywhere) {
        Err(sys::Error::NotKept { .. }) => {}
        outcome => tried(outcome),
    }
    // The call fails for a guardian that a shell started, because this guardian already leads a process group.
    let _ = process::leave_session();
    tried(clock::set_slack(Nanos::ns(1)));
    attributes::prepare();
    memory::keep_freed(HEAP);
    tried(memory::lock());
    tried(attributes::set(me, Attributes::raised(priority::GUARDIAN)));
    // The call fails without CAP_SYS_RESOURCE, and then the guardian has the value of the core.
    let _ = process::avoid_oom_kill();
    Thread::open(me)
}

/// Restores all threads. Returns whether nothing is left to restore; `None` while the daemon still exists.
fn bring_back(
    kernel: &Linux,
    directory: &Directory,
    table: &Table,
    daemon: DaemonState,
    report: &mut String,
) -> Option<bool> {
    let begin = clock::now();
    end_loans(kernel, table);
    let held = match daemon {
        DaemonState::HasEnded => match wait_for_lock(directory, table) {
            Waited::Done => return Some(true),
            Waited::Held(lock) => lock,
        },
        // The killed daemon only finishes its current system calls. Their effects are undone after the daemon has
        // ended.
        DaemonState::Lives | DaemonState::Ends => None,
    };
    let restored = match daemon {
        DaemonState::HasEnded => restore(kernel, table, clock::sleep),
        // Children that are being forked are found after the daemon has ended.
        DaemonState::Lives | DaemonState::Ends => restore_at_once(kernel, table),
    };
    let took = clock::now().saturating_since(begin);
    if !(restored.threads.is_empty() && restored.is_settled()) {
        let (process, end) =
            (table.daemon().tid, if daemon == DaemonState::HasEnded { "has ended" } else { "is ending" });
        let _ = writeln!(report, "tactus guardian: the daemon, process {process}, {end}: {restored}, within {took}");
        list_changed(&restored, report);
    }
    if daemon != DaemonState::HasEnded {
        return None;
    }
    let settled = restored.is_settled();
    if settled {
        table.finish();
        if let Some(Err(reason)) = held.map(|lock| directory.remove_table_of(table.daemon(), &lock)) {
            let _ = writeln!(report, "tactus guardian: {}", reason.reason);
        }
    } else {
        let _ = writeln!(report, "tactus guardian: `tactus release` tries again");
    }
    Some(settled)
}

/// The result of waiting for the lock.
enum Waited {
    /// Another process held the lock, and has restored all threads.
    Done,
    /// This process holds the lock. `None`: the lock is not available, and the guardian restores without the lock.
    Held(Option<Lock>),
}

/// Waits briefly for the lock, because a process that holds the lock may restore all threads itself.
fn wait_for_lock(directory: &Directory, table: &Table) -> Waited {
    for _ in 0..PATIENCE {
        match directory.try_lock() {
            Ok(lock) => return Waited::Held(Some(lock)),
            Err(Refused::Failed(_)) => break,
            Err(Refused::Held(_)) => clock::sleep(INTERVAL),
        }
        if table.is_finished() {
            return Waited::Done;
        }
    }
    Waited::Held(None)
}

/// Reports the threads that were restored, left with another process's values, or not restored.
fn list_changed(restored: &Restored, report: &mut String) {
    let changed = |end: End| matches!(end, End::Restored | End::Failed | End::Left);
    let mut listed = restored.threads.iter().filter(|thread| changed(thread.end()));
    for thread in listed.by_ref().take(LISTED_MOST) {
        let _ = writeln!(report, "  {thread}");
    }
    match listed.count() {
        0 => {}
        more => {
            let _ = writeln!(report, "  and {more} more");
        }
    }
}
