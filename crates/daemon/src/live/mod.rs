//! The daemon on this host: agents, sentinels, a keeper and a guardian around one [`Dispatcher`].
//!
//! A thread that holds the dispatcher's lock runs at the priority of an agent. A holder at ordinary priority could be
//! preempted, and would then delay every agent.

mod agent;
mod channel;
mod keeper;
mod kernel_kept;
mod setup;
mod shared;

pub use setup::Setup;

use crate::Explanation;
use crate::directory::{Directory, Refused};
use crate::dispatch::{
    Dismissed, Dispatcher, EVENTS_MOST, Enclosure, KeptBy, KernelKept, PromiseRequest, Promises, RaiseBy, Refusal,
    enclose, release_groups, scan, share,
};
use crate::kernel::CpuShare;
use crate::linux::{Linux, Sentinels};
use crate::restore::{self, PATIENCE};
use channel::Channel;
use keeper::Watcher;
use sched::{EntityId, Instant, Limit, Nanos, PromiseState};
use shared::{Shared, at_agent_priority, restore_all};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use sys::event::{Bell, Waiting};
use sys::{affinity, clock, memory, thread};
use trace::Event;

/// Capacity of the table of originals. Unit: threads.
const ROWS: usize = 4096;

/// A handle to control a running daemon.
#[derive(Clone, Copy)]
pub struct Control<'a, 'k> {
    shared: &'a Shared<'k>,
}

impl std::fmt::Debug for Control<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("over", &self.is_over()).finish_non_exhaustive()
    }
}

impl Control<'_, '_> {
    /// Makes the promise `request` to process `pid` and its descendants. With a hard limit, the call takes some 10 ms more.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn admit(&self, request: &PromiseRequest, pid: u32) -> Result<Vec<EntityId>, Refusal> {
        let ours = ancestors();
        if let Some(kept) = &self.shared.kernel_kept {
            self.await_leaving(pid);
            let entities = kernel_kept::admit(self.shared, kept, request, pid, &ours)?;
            self.shared.keeper_bell.ring();
            return Ok(entities);
        }
        // A CPU without an agent cannot serve a client, even if the client may run on that CPU.
        let request = PromiseRequest { affinity: request.affinity.and(&self.shared.cpus()), ..request.clone() };
        self.await_leaving(pid);
        let Shared { kernel, table, .. } = self.shared;
        // The agents would wait for a scan of many threads with the dispatcher.
        let scanned = if ours.contains(&pid) { None } else { scan(kernel, pid) };
        let enclosure = match request.reservation.limit {
            Limit::Soft => Enclosure::none(),
            Limit::Hard => {
                at_agent_priority(|| self.shared.lock().check(&request, pid, &ours, scanned.as_ref()))?;
                enclose(kernel, table, pid)?
            }
        };
        let groups = enclosure.rows();
        let admit = || self.shared.lock().admit_scanned(&request, pid, &ours, scanned, enclosure);
        let answer = at_agent_priority(admit).inspect_err(|_| release_groups(kernel, table, &groups));
        let (entities, call) = answer.map_err(|refused| match refused {
            Refusal::NoRoom(room) => Refusal::NoRoom(Box::new(room.among(&self.shared.cpus()))),
            other => other,
        })?;
        self.shared.call(&call);
        // Before the process is raised: a process that it forks from now on belongs to the promise, even if the parent
        // ends at once.
        self.shared.await_births(|| {});
        self.shared.provide_loans(|| {});
        self.shared.keeper_bell.ring();
        Ok(entities)
    }

    /// Changes the promise that `e` is part of to `slice` in every `period`.
    ///
    /// # Errors
    /// The change is refused; nothing has changed.
    pub fn adjust(&self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        let (answer, call) = self.shared.promises(|promises| promises.adjust(e, slice, period));
        self.shared.call(&call);
        answer
    }

    /// Gives process `pid` and its descendants this share of the CPUs, until [`end_share`](Control::end_share) or the end
    /// of the daemon. Takes some 10 ms.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn share(&self, pid: u32, wanted: CpuShare) -> Result<(), Refusal> {
        let Shared { kernel, table, shares, .. } = self.shared;
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.iter().any(|(other, _)| *other == pid) {
            return Err(Refusal::Already { pid, name: format!("pid {pid}") });
        }
        let rows = share(kernel, table, pid, &ancestors(), wanted)?;
        shares.push((pid, rows));
        Ok(())
    }

    /// Ends the share of process `pid`: its processes return to their earlier control group.
    pub fn end_share(&self, pid: u32) {
        let Shared { kernel, table, shares, .. } = self.shared;
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = shares.extract_if(.., |(other, _)| *other == pid);
        ended.for_each(|(_, rows)| release_groups(kernel, table, &rows));
    }

    /// Ends the promise to `e`.
    pub fn dismiss(&self, e: EntityId) {
        let call = self.shared.promises(|promises| promises.dismiss(e));
        self.shared.call(&call);
        self.shared.keeper_bell.ring();
    }

    /// Waits while a dismissed ancestor or descendant of process `pid` may still be inside a fork. Otherwise, values
    /// that Tactus has set for the parent could be recorded as originals of the child.
    fn await_leaving(&self, pid: u32) {
        let end = clock::now() + PATIENCE;
        while self.shared.promises(|promises| promises.is_leaving(pid)) && clock::now() < end {
            clock::sleep(Nanos::ms(1));
        }
    }

    /// Replaces the content of `events` with the events since the last call. Returns the number of events that were
    /// lost because the journal was full.
    pub fn read_journal(&self, events: &mut Vec<(Instant, Event)>) -> u64 {
        // Allocate memory before acquiring the lock.
        events.clear();
        events.reserve(EVENTS_MOST);
        self.shared.promises(|promises| promises.read_journal(events))
    }

    /// Returns the clients that were dismissed since the last call.
    #[must_use]
    pub fn take_dismissed(&self) -> Vec<Dismissed> {
        self.shared.promises(|promises| promises.take_dismissed())
    }

    /// Returns time zero of the journal, according to the monotonic clock.
    #[must_use]
    pub fn epoch(&self) -> Instant {
        self.shared.promises(|promises| promises.epoch())
    }

    /// Returns whether this host reports wake-ups of `e`.
    #[must_use]
    pub fn reports_wakeups(&self, e: EntityId) -> bool {
        self.shared.promises(|promises| promises.reports_wakeups(e))
    }

    /// Returns the promise state of `e`; `None` if the policy keeps no promise for `e`.
    #[must_use]
    pub fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.shared.promises(|promises| promises.promise(e))
    }

    /// Returns the problems that did not end the daemon.
    #[must_use]
    pub fn warnings(&self) -> Vec<Explanation> {
        self.shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the daemon has failed and restores all threads.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Acquire)
    }

    /// Returns the bell that becomes readable when the daemon has failed.
    #[must_use]
    pub fn notification(&self) -> &Bell {
        &self.shared.notification
    }
}

/// Returns the pids of this process and its ancestors. A promise to one of these processes would include the daemon.
fn ancestors() -> Vec<u32> {
    let mut all = vec![std::process::id(), 1];
    let mut pid = std::process::id();
    while let Ok(status) = thread::status(pid) {
        if status.parent <= 1 {
            break;
        }
        all.push(status.parent);
        pid = status.parent;
    }
    all
}

/// Reason why the daemon did not start, or why the daemon failed.
#[derive(Debug)]
pub enum Failure {
    /// Another daemon is running.
    Running(Explanation),
    /// The daemon cannot run on this host.
    Refused(Explanation),
    /// The daemon failed while it was running, and then restored the threads as it does at an orderly end.
    Failed(Explanation),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Held(_) => Failure::Running(refused.into()),
            other => Failure::Refused(other.into()),
        }
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Failure {
        Failure::Refused(error.into())
    }
}

/// Runs the daemon while `front` runs, and then restores all threads.
///
/// # Errors
/// See [`Failure`].
pub fn serve<R>(setup: &Setup, front: impl FnOnce(Control<'_, '_>) -> R) -> Result<R, Failure> {
    let held = setup.directory.lock()?;
    let _host = Directory::lock_host()?;
    // First restore the threads that a dead daemon has left changed.
    restore::replay(&Linux::new()?, &setup.directory, &held).map_err(Failure::Refused)?;
    // Each thread handle uses several files. If the limit stays low, requests with too many threads are refused.
    let _ = sys::privileges::raise_file_limit();
    memory::lock().or_else(|error| if error.remedy().is_some() { Ok(()) } else { Err(error) })?;
    let cpus = affinity::get(thread::current())?;
    let channels = cpus.iter().map(Channel::new).collect::<sys::Result<Vec<Channel>>>()?;
    let mut places = vec![None; channels.last().map_or(0, |channel| channel.cpu.index() + 1)];
    channels.iter().enumerate().for_each(|(place, channel)| places[channel.cpu.index()] = Some(place));
    let sentinels = Sentinels::start(channels.iter().map(|channel| (channel.cpu, Arc::clone(&channel.quiet))))?;
    let waiting = channels.iter().map(|channel| (channel.cpu, Arc::clone(&channel.waiting)));
    let (keeper_events, keeper_bell) = (Arc::new(Waiting::new()?), Arc::new(Bell::new()?));
    keeper_events.add(&*keeper_bell, keeper::KEEPER_BELL)?;
    let kernel = Linux::with(sentinels, waiting, Some((Arc::clone(&keeper_events), Arc::clone(&keeper_bell))))?;
    let table = Arc::new(setup.directory.create_table(ROWS, &held).map_err(Failure::Refused)?);
    let mut watcher = Watcher::start(setup, Arc::clone(&table)).map_err(Failure::Refused)?;
    let refused = |refused: sched::Refused| Failure::Refused(Explanation::new(refused.to_string(), ""));
    let (policy, knobs, cpus) = (setup.policy, &setup.knobs, places.len());
    // Without clients, the dispatcher does nothing.
    let (by, kernel_kept) = match setup.by {
        KeptBy::Dispatcher(by) => (by, None),
        KeptBy::Kernel => {
            let kept = KernelKept::new(&kernel, Arc::clone(&table), policy, knobs, cpus).map_err(refused)?;
            (RaiseBy::Inheritance, Some(Mutex::new(kept)))
        }
    };
    let dispatcher = Dispatcher::new(&kernel, Arc::clone(&table), policy, knobs, cpus, by).map_err(refused)?;
    let shared = Shared {
        kernel: &kernel,
        dispatcher: Mutex::new(dispatcher),
        kernel_kept,
        shares: Mutex::default(),
        table: Arc::clone(&table),
        channels,
        places,
        keeper_events,
        keeper_bell,
        over: AtomicBool::new(false),
        looking: AtomicU64::new(u64::MAX),
        warnings: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
        notification: Bell::new()?,
    };
    let answer = run(&shared, &mut watcher, front);
    // If something is left to restore, the guardian tries again after the end of this process, and then the next daemon
    // at its start.
    if table.is_finished() {
        watcher.stop();
        setup.directory.remove_table(&held).map_err(Failure::Failed)?;
    }
    match shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(reason) => Err(Failure::Failed(reason)),
        None => answer,
    }
}

/// Starts the threads of the daemon, runs `front`, and ends the threads.
fn run<R>(
    shared: &Shared<'_>,
    watcher: &mut Watcher<'_>,
    front: impl FnOnce(Control<'_, '_>) -> R,
) -> Result<R, Failure> {
    std::thread::scope(|scope| {
        let agents = (0..shared.channels.len()).map(|place| {
            let name = format!("tactus-agent-{}", shared.channels[place].cpu);
            let body =
                move || guarded(shared, || agent::enter(shared.channels[place].cpu), || agent::serve(shared, place));
            Builder::new().name(name).spawn_scoped(scope, body)
        });
        let begun = agents.collect::<std::io::Result<Vec<_>>>();
        let keeper = Builder::new().name("tactus-keeper".to_string()).spawn_scoped(scope, move || {
            guarded(shared, keeper::enter, || keeper::serve(shared, watcher));
        });
        let begun = begun.and(keeper);
        let answer = match begun {
            Ok(_) => {
                // A reserved thread preempts the agents, which have no clients. The kernel keeps its promises without them.
                if shared.kernel_kept.is_none() {
                    shared.begin_beating();
                }
                Ok(catch_unwind(AssertUnwindSafe(|| front(Control { shared }))))
            }
            Err(error) => Err(Failure::Refused(Explanation::new(format!("cannot start a thread: {error}"), ""))),
        };
        restore_all(shared);
        await_leaving(shared);
        // Restore once more, from the table. The table still contains the threads that the dispatcher could not restore,
        // and the threads that may be inside a fork. The agents continue to beat, so that the guardian restores them if
        // this process hangs.
        if restore::restore(shared.kernel, &shared.table, clock::sleep).is_settled() {
            shared.table.finish();
        }
        // From here on no thread is raised, and no agent needs to beat.
        shared.table.set_watched(0);
        shared.end();
        match answer? {
            Ok(answer) => Ok(answer),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs a thread of the daemon. A failure of the thread ends the daemon.
fn guarded(shared: &Shared<'_>, enter: impl FnOnce() -> sys::Result<()>, serve: impl FnOnce() -> sys::Result<()>) {
    let body = AssertUnwindSafe(|| enter().and_then(|()| serve()));
    match catch_unwind(body) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => shared.fail(error.into()),
        Err(_) => {
            let me = std::thread::current();
            let why = format!("the thread {} detected a broken law", me.name().unwrap_or("of the daemon"));
            shared.fail(Explanation::new(why, "report this, with the output above"));
        }
    }
}

/// Waits while dismissed clients may still have threads inside a fork. Meanwhile the keeper scans for their children,
/// and the agents continue to beat, so that the guardian restores all threads if this process hangs.
fn await_leaving(shared: &Shared<'_>) {
    let end = clock::now() + PATIENCE;
    let has_leaving = || match &shared.kernel_kept {
        Some(kept) => at_agent_priority(|| kept.lock().is_ok_and(|kept| kept.has_leaving())),
        None => at_agent_priority(|| shared.dispatcher.lock().is_ok_and(|dispatcher| dispatcher.has_leaving())),
    };
    shared.keeper_bell.ring();
    while !shared.over.load(Ordering::Acquire) && has_leaving() && clock::now() < end {
        clock::sleep(Nanos::ms(1));
    }
}
