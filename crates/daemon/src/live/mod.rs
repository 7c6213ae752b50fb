//! The daemon on this host: agents, sentinels, a keeper and a guardian around one [`Dispatcher`].
//!
//! A thread that holds the dispatcher's lock runs at the priority of an agent: a preempted ordinary thread would keep every agent
//! waiting.

mod agent;
mod keeper;

use crate::Explanation;
use crate::directory::{Directory, Refused};
use crate::dispatch::{Dismissed, Dispatcher, EVENTS_MOST, PromiseRequest, Refusal};
use crate::kernel::priority;
use crate::linux::{Linux, Sentinels};
use crate::restore::{self, PATIENCE};
use crate::table::{Beating, Table};
use agent::Channel;
use keeper::Watcher;
use sched::{CpuSet, Descriptor, EntityId, Instant, Knobs, Nanos, PromiseState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use sys::attributes::{self, Attributes};
use sys::event::{Bell, Waiting};
use sys::{affinity, clock, memory, thread};
use trace::Event;

/// Capacity of the table of originals, in threads.
const ROWS: usize = 4096;

/// Parameters of the daemon.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The directory of the table of originals and the lock.
    pub directory: Directory,
    /// The program that runs as guardian with `guardian DIRECTORY`.
    pub executable: PathBuf,
    /// The policy.
    pub policy: &'static Descriptor,
    /// Its knobs.
    pub knobs: Knobs,
}

/// State shared by the threads of the daemon.
struct Shared<'k> {
    kernel: &'k Linux,
    dispatcher: Mutex<Dispatcher<&'k Linux>>,
    table: Arc<Table>,
    channels: Vec<Channel>,
    /// By the number of the CPU, the index of its channel.
    places: Vec<Option<usize>>,
    /// The event set of the keeper, and its bell.
    keeper_events: Arc<Waiting>,
    keeper_bell: Bell,
    over: AtomicBool,
    /// The interval to scan for new threads where the host reports no forks. Unit: ns.
    looking: AtomicU64,
    warnings: Mutex<Vec<Explanation>>,
    failure: Mutex<Option<Explanation>>,
    /// Rung for events that the controlling thread must see.
    notification: Bell,
}

impl<'k> Shared<'k> {
    fn lock(&self) -> MutexGuard<'_, Dispatcher<&'k Linux>> {
        self.dispatcher.lock().expect("a thread that panics with the dispatcher ends the daemon")
    }

    /// Calls the agents of these CPUs.
    fn call(&self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            if let Some(Some(place)) = self.places.get(cpu.index()) {
                self.channels[*place].call();
            }
        }
    }

    /// The CPUs with an agent: those that this process could use when it started.
    fn cpus(&self) -> CpuSet {
        self.channels.iter().map(|channel| channel.cpu).collect()
    }

    /// The interval to scan for new threads.
    fn looking(&self) -> Nanos {
        Nanos::ns(self.looking.load(Ordering::Relaxed))
    }

    fn warn(&self, reason: Explanation) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&reason) {
            warnings.push(reason);
        }
    }

    /// Waits until every agent has taken a turn: from then on the guardian expects beats.
    fn begin_beating(&self) {
        let has_begun = |place| self.table.beats(Beating::Agent(place)) > 0;
        while !(0..self.channels.len()).all(has_begun) && !self.over.load(Ordering::Acquire) {
            clock::sleep(Nanos::us(200));
        }
        if !self.over.load(Ordering::Acquire) {
            self.table.set_agents(self.channels.len());
        }
    }

    /// A thread of the daemon has failed: ends the daemon.
    fn fail(&self, reason: Explanation) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.end();
        restore_all(self);
        // No thread is raised, and the agents end: reporting the failure may take its time.
        self.table.set_agents(0);
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.channels.iter().for_each(Channel::call);
        self.keeper_bell.ring();
        self.notification.ring();
    }
}

/// Runs `work` at the priority of an agent.
fn at_agent_priority<T>(work: impl FnOnce() -> T) -> T {
    let me = thread::current();
    let before = attributes::get(me).ok();
    // Without the privilege there are no agents that could be kept waiting. No child is forked in `work`, and undoing reset-on-fork
    // would take CAP_SYS_NICE.
    let class = Attributes::of(attributes::Policy::Fifo { priority: priority::AGENT });
    let raised = attributes::apply(me, class).is_ok();
    let done = work();
    if let (true, Some(before)) = (raised, before) {
        let _ = attributes::apply(me, before);
    }
    done
}

/// Control of a running daemon.
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
    /// Makes the promise `request` to process `pid` and its descendants.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn admit(&self, request: &PromiseRequest, pid: u32) -> Result<Vec<EntityId>, Refusal> {
        let ours = ancestors();
        // A CPU without an agent serves no client, although the process itself may run there.
        let request = PromiseRequest { affinity: request.affinity.and(&self.shared.cpus()), ..request.clone() };
        self.await_leaving(pid);
        let (entities, call) = at_agent_priority(|| self.shared.lock().admit(&request, pid, &ours))?;
        self.shared.call(&call);
        self.shared.keeper_bell.ring();
        Ok(entities)
    }

    /// Ends the promise to `e`.
    pub fn dismiss(&self, e: EntityId) {
        let call = at_agent_priority(|| self.shared.lock().dismiss(e));
        self.shared.call(&call);
        self.shared.keeper_bell.ring();
    }

    /// Waits while a dismissed relative of process `pid` may still be in a fork: its child would be recorded with inherited values as
    /// originals.
    fn await_leaving(&self, pid: u32) {
        let end = clock::now() + PATIENCE;
        while at_agent_priority(|| self.shared.lock().is_leaving(pid)) && clock::now() < end {
            clock::sleep(Nanos::ms(1));
        }
    }

    /// Exchanges the events since the last call for an empty list. Returns the number of events that were lost to a full journal.
    pub fn read_journal(&self, events: &mut Vec<(Instant, Event)>) -> u64 {
        // Allocate before taking the lock.
        events.clear();
        events.reserve(EVENTS_MOST);
        at_agent_priority(|| self.shared.lock().read_journal(events))
    }

    /// The clients that have left since the last call.
    #[must_use]
    pub fn take_dismissed(&self) -> Vec<Dismissed> {
        at_agent_priority(|| self.shared.lock().take_dismissed())
    }

    /// Time zero of the journal, by the monotonic clock.
    #[must_use]
    pub fn epoch(&self) -> Instant {
        at_agent_priority(|| self.shared.lock().epoch())
    }

    /// Whether this host reports wake-ups of `e`.
    #[must_use]
    pub fn reports_wakeups(&self, e: EntityId) -> bool {
        at_agent_priority(|| self.shared.lock().reports_wakeups(e))
    }

    /// The current period of the promise of `e`; `None` if the policy keeps no promise for it.
    #[must_use]
    pub fn promise(&self, e: EntityId) -> Option<PromiseState> {
        at_agent_priority(|| self.shared.lock().machine().promise(e))
    }

    /// Problems that did not end the daemon.
    #[must_use]
    pub fn warnings(&self) -> Vec<Explanation> {
        self.shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the daemon has failed and is restoring.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Acquire)
    }

    /// Becomes readable when the daemon has failed.
    #[must_use]
    pub fn notification(&self) -> &Bell {
        &self.shared.notification
    }
}

/// This process and its ancestors: scheduling them would delay the daemon.
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

/// Why the daemon did not start, or did not end in order.
#[derive(Debug)]
pub enum Failure {
    /// Another daemon is running.
    Running(Explanation),
    /// It cannot run here.
    Refused(Explanation),
    /// A thread of it failed. All threads are restored.
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
    // First, restore what a dead daemon has left behind.
    restore::replay(&Linux::new()?, &setup.directory, &held).map_err(Failure::Refused)?;
    // Each thread handle takes files; at the limit, requests with too many threads are refused.
    let _ = sys::privileges::raise_file_limit();
    memory::lock().or_else(|error| if error.remedy().is_some() { Ok(()) } else { Err(error) })?;
    let cpus = affinity::get(thread::current())?;
    let channels = cpus.iter().map(Channel::new).collect::<sys::Result<Vec<Channel>>>()?;
    let mut places = vec![None; channels.last().map_or(0, |channel| channel.cpu.index() + 1)];
    channels.iter().enumerate().for_each(|(place, channel)| places[channel.cpu.index()] = Some(place));
    let sentinels = Sentinels::start(channels.iter().map(|channel| (channel.cpu, Arc::clone(&channel.quiet))))?;
    let waiting = channels.iter().map(|channel| (channel.cpu, Arc::clone(&channel.waiting)));
    let (keeper_events, keeper_bell) = (Arc::new(Waiting::new()?), Bell::new()?);
    keeper_events.add(&keeper_bell, keeper::KEEPER_BELL)?;
    let kernel = Linux::with(sentinels, waiting, Some(Arc::clone(&keeper_events)))?;
    let table = Arc::new(setup.directory.create_table(ROWS, &held).map_err(Failure::Refused)?);
    let mut watcher = Watcher::start(setup, Arc::clone(&table)).map_err(Failure::Refused)?;
    let dispatcher = Dispatcher::new(&kernel, Arc::clone(&table), setup.policy, &setup.knobs, places.len());
    let dispatcher = dispatcher.map_err(|refused| Failure::Refused(Explanation::new(refused.to_string(), "")))?;
    let shared = Shared {
        kernel: &kernel,
        dispatcher: Mutex::new(dispatcher),
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
    // Once more by comparison: the table still has what the dispatcher could not restore, and children of threads that were in
    // forks. If anything is left, the guardian tries again at the end of this process, and then the next start.
    if restore::restore(&kernel, &table, clock::sleep).is_settled() {
        table.finish();
        watcher.stop();
        setup.directory.remove_table(&held).map_err(Failure::Failed)?;
    }
    match shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(reason) => Err(Failure::Failed(reason)),
        None => answer,
    }
}

/// Starts the threads, runs `front`, and ends the threads.
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
                shared.begin_beating();
                Ok(catch_unwind(AssertUnwindSafe(|| front(Control { shared }))))
            }
            Err(error) => Err(Failure::Refused(Explanation::new(format!("cannot start a thread: {error}"), ""))),
        };
        restore_all(shared);
        await_leaving(shared);
        // From here on no thread is raised, and no agent has to beat.
        shared.table.set_agents(0);
        shared.end();
        match answer? {
            Ok(answer) => Ok(answer),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs a thread of the daemon; its failure ends the daemon.
fn guarded(shared: &Shared<'_>, enter: impl FnOnce() -> sys::Result<()>, serve: impl FnOnce() -> sys::Result<()>) {
    let body = AssertUnwindSafe(|| enter().and_then(|()| serve()));
    match catch_unwind(body) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => shared.fail(error.into()),
        Err(_) => {
            let me = std::thread::current();
            let why = format!("the thread {} found a law broken", me.name().unwrap_or("of the daemon"));
            shared.fail(Explanation::new(why, "report this, with the output above"));
        }
    }
}

/// Waits while dismissed clients may still have threads in forks, which the keeper scans. The agents go on beating: the guardian
/// takes over if this process hangs.
fn await_leaving(shared: &Shared<'_>) {
    let end = clock::now() + PATIENCE;
    let has_leaving =
        || at_agent_priority(|| shared.dispatcher.lock().is_ok_and(|dispatcher| dispatcher.has_leaving()));
    shared.keeper_bell.ring();
    while !shared.over.load(Ordering::Acquire) && has_leaving() && clock::now() < end {
        clock::sleep(Nanos::ms(1));
    }
}

/// Restores all threads: through the dispatcher where it is intact, otherwise from the table.
fn restore_all(shared: &Shared<'_>) {
    let orderly = catch_unwind(AssertUnwindSafe(|| {
        at_agent_priority(|| match shared.dispatcher.lock() {
            Ok(mut dispatcher) => {
                dispatcher.dismiss_all();
                true
            }
            Err(_) => false,
        })
    }));
    if !matches!(orderly, Ok(true)) {
        // Their children are found at the end.
        restore::restore_at_once(shared.kernel, &shared.table);
    }
}
