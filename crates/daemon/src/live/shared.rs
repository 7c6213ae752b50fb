//! [`Shared`]: the state that the threads of the daemon share.

use super::channel::Channel;
use super::fault::StalledThread;
use crate::Explanation;
use crate::dispatch::{Dispatcher, KeptBy, KernelKept, Promises, RaiseBy, begin_loans, is_reserved};
use crate::interfering::InterferingThread;
use crate::kernel::priority;
use crate::linux::Linux;
use crate::restore;
use crate::table::{Beating, Row, Table};
use sched::{CpuSet, EntityId, Instant, Nanos};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sys::attributes::{self, Attributes};
use sys::event::{Bell, Waiting};
use sys::{clock, thread};

/// Maximum number of threads that are adopted in one step, or whose forks begin to be awaited in one step, or whose
/// loans begin in one step. A step takes about 50 us per thread, and more on a busy host. During a step, the agents wait for
/// the dispatcher. The agent of the keeper's CPU cannot even beat, because the keeper then runs at the priority of the
/// agents.
pub(super) const AT_ONCE: usize = 4;
/// Number of warnings that are kept. A resident core can run for years; its earliest warnings are dropped.
const WARNINGS_MOST: usize = 100;

/// State shared by the threads of the daemon.
pub(super) struct Shared<'k> {
    pub(super) kernel: &'k Linux,
    pub(super) dispatcher: Mutex<Dispatcher<&'k Linux>>,
    /// Whether the dispatcher may have clients.
    pub(super) has_turns: bool,
    /// The promises that the kernel keeps. `None`: this daemon makes none.
    pub(super) kernel_kept: Option<Mutex<KernelKept<&'k Linux>>>,
    /// The interfering threads of other programs, as of the last scan.
    pub(super) interfering: Mutex<Vec<InterferingThread>>,
    /// Locked by the thread that begins loans.
    pub(super) beginning_loans: Mutex<()>,
    /// Locked while a guardian may be started, and while the descriptors for a new program can be inherited.
    pub(super) starting: Mutex<()>,
    /// The processes with a share of the CPUs, each with the rows of its groups.
    pub(super) shares: Mutex<Vec<(u32, Vec<Row>)>>,
    pub(super) table: Arc<Table>,
    pub(super) channels: Vec<Channel>,
    /// For each CPU, the index of its channel; `None` for a CPU without an agent.
    pub(super) places: Vec<Option<usize>>,
    /// Event set of the keeper, which contains the keeper's bell and the forks.
    pub(super) keeper_events: Arc<Waiting>,
    pub(super) keeper_bell: Arc<Bell>,
    /// Bell that rings when there may be orders for a scheduler in the kernel.
    pub(super) kernel_bell: Bell,
    pub(super) over: AtomicBool,
    /// Whether the front end has closed its connection. No further promise is made.
    pub(super) is_left: AtomicBool,
    /// Interval between scans for new threads whose forks the host does not report. Unit: ns.
    pub(super) looking: AtomicU64,
    /// Whether a thread is to stall. Otherwise, turns do not lock the following field.
    pub(super) is_faulty: bool,
    /// Fault injection: the thread that is to stall, and the instant. `None`: no thread, or not again.
    pub(super) stall: Mutex<Option<(StalledThread, Instant)>>,
    pub(super) warnings: Mutex<Vec<Explanation>>,
    pub(super) failure: Mutex<Option<Explanation>>,
    /// Bell that rings when the daemon ends.
    pub(super) notification: Bell,
}

impl<'k> Shared<'k> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Dispatcher<&'k Linux>> {
        self.dispatcher.lock().expect("a thread that panics with the dispatcher ends the daemon")
    }

    /// Returns the mechanisms of this daemon.
    pub(super) fn mechanisms(&self) -> impl Iterator<Item = KeptBy> + use<> {
        let kernel = self.kernel_kept.is_some().then_some(KeptBy::Kernel);
        [KeptBy::Dispatcher(RaiseBy::Inheritance)].into_iter().chain(kernel)
    }

    /// Applies `act` to the promises of a mechanism.
    pub(super) fn promises_of<T>(&self, by: KeptBy, act: impl FnOnce(&mut dyn Promises) -> T) -> T {
        at_agent_priority(|| match (by, &self.kernel_kept) {
            (KeptBy::Kernel, Some(kept)) => {
                act(&mut *kept.lock().expect("a thread that panics with the promises ends the daemon"))
            }
            _ => act(&mut *self.lock()),
        })
    }

    /// Applies `act` to the promises of the mechanism that serves `e`.
    pub(super) fn promises<T>(&self, e: EntityId, act: impl FnOnce(&mut dyn Promises) -> T) -> T {
        let by = if is_reserved(e) { KeptBy::Kernel } else { KeptBy::Dispatcher(RaiseBy::Inheritance) };
        self.promises_of(by, act)
    }

    /// Wakes the agents of these CPUs.
    pub(super) fn call(&self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            if let Some(Some(place)) = self.places.get(cpu.index()) {
                self.channels[*place].call();
            }
        }
    }

    /// Returns the CPUs with an agent: the CPUs that this process could use when it started.
    pub(super) fn cpus(&self) -> CpuSet {
        self.channels.iter().map(|channel| channel.cpu).collect()
    }

    /// Returns the interval between scans for new threads.
    pub(super) fn looking(&self) -> Nanos {
        Nanos::ns(self.looking.load(Ordering::Relaxed))
    }

    /// Stalls the calling thread for good if this is due for `thread`.
    pub(super) fn stall(&self, thread: StalledThread) {
        if !self.is_faulty {
            return;
        }
        let mut stall = self.stall.lock().unwrap_or_else(PoisonError::into_inner);
        if stall.take_if(|(which, at)| *which == thread && *at <= clock::now()).is_some() {
            drop(stall);
            loop {
                clock::sleep(Nanos::s(3_600));
            }
        }
    }

    pub(super) fn warn(&self, reason: Explanation) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&reason) {
            if warnings.len() == WARNINGS_MOST {
                warnings.remove(0);
            }
            warnings.push(reason);
        }
    }

    /// Begins up to `most` of the loans that threads of clients wait for, and hands these loans to the dispatcher. Returns
    /// whether there were such threads. Some of them may still wait. While another thread begins loans, does nothing: both
    /// would begin the same. Calls `beat` before each step. The donors start at the priority of the agents: starting a
    /// thread changes the address space, and an agent that has a page fault meanwhile waits for the end of the change.
    pub(super) fn provide_loans(&self, most: usize, beat: impl Fn()) -> bool {
        let Ok(_beginning) = self.beginning_loans.try_lock() else { return true };
        let threads = at_agent_priority(|| self.lock().without_loan());
        for some in threads[..threads.len().min(most)].chunks(AT_ONCE) {
            beat();
            let loans = at_agent_priority(|| begin_loans(self.kernel, some));
            let (call, reasons) = at_agent_priority(|| self.lock().give_loans(loans));
            self.call(&call);
            reasons.into_iter().for_each(|reason| self.warn(reason));
        }
        !threads.is_empty()
    }

    /// Begins to await the forks of new threads. Calls `beat` after each step.
    pub(super) fn await_births(&self, beat: impl Fn()) {
        while at_agent_priority(|| self.lock().await_further_births(AT_ONCE)) {
            beat();
        }
    }

    /// Waits until every agent has beaten. After this call, the guardian expects further beats.
    pub(super) fn begin_beating(&self) {
        let has_begun = |channel: &Channel| self.table.beats(Beating::Agent(channel.cpu)) > 0;
        while !self.channels.iter().all(has_begun) && !self.over.load(Ordering::Acquire) {
            clock::sleep(Nanos::us(200));
        }
        if !self.over.load(Ordering::Acquire) {
            self.table.set_watched(self.places.len());
        }
    }

    /// Records that a thread of the daemon has failed, and ends the daemon.
    pub(super) fn fail(&self, reason: Explanation) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.end();
        restore_all(self);
        // No thread is raised any more, so the agents need not beat, and the report of the failure may take long.
        self.table.set_watched(0);
    }

    /// Restores all threads, because the front end has closed its connection. A promise that is being made is refused, or
    /// its threads are restored: the mark is set before the locks are acquired.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
        restore_all(self);
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.channels.iter().for_each(Channel::call);
        self.keeper_bell.ring();
        self.kernel_bell.ring();
        self.notification.ring();
    }
}

/// Runs `work` at the priority of an agent.
pub(super) fn at_agent_priority<T>(work: impl FnOnce() -> T) -> T {
    at_priority(priority::AGENT, work)
}

/// Runs `work` at a real-time priority.
pub(super) fn at_priority<T>(priority: u32, work: impl FnOnce() -> T) -> T {
    let _raised = RaisedPriority::to(priority);
    work()
}

/// Guard that gives the calling thread a real-time priority.
#[derive(Debug)]
pub(super) struct RaisedPriority {
    /// The attributes without it; `None` if the thread was not raised.
    before: Option<Attributes>,
}

impl RaisedPriority {
    pub(super) fn to(priority: u32) -> RaisedPriority {
        let me = thread::current();
        let before = attributes::get(me).ok();
        // The call of `apply` fails only without the privilege for real-time priorities, and then there are no agents to
        // delay. The class is set without reset-on-fork, because clearing reset-on-fork would require CAP_SYS_NICE, and
        // because a donor that this thread starts must start with this priority.
        let class = Attributes::of(attributes::Policy::Fifo { priority });
        let is_raised = attributes::apply(me, class).is_ok();
        RaisedPriority { before: before.filter(|_| is_raised) }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = attributes::apply(thread::current(), before);
        }
    }
}

/// Restores all threads: through the dispatcher if its state is intact, otherwise from the table.
pub(super) fn restore_all(shared: &Shared<'_>) {
    let dismiss = |by: KeptBy| {
        let is_intact = match (by, &shared.kernel_kept) {
            (KeptBy::Kernel, Some(kept)) => !kept.is_poisoned(),
            _ => !shared.dispatcher.is_poisoned(),
        };
        if is_intact {
            shared.promises_of(by, |promises| promises.dismiss_all());
        }
        is_intact
    };
    // A dispatcher with clients would raise their threads again, so every intact mechanism dismisses its clients first.
    let is_orderly = |by| matches!(catch_unwind(AssertUnwindSafe(|| dismiss(by))), Ok(true));
    if !shared.mechanisms().map(is_orderly).fold(true, |all, one| all & one) {
        // A thread that inherits a priority may occupy the CPU that this thread needs.
        let broken = || shared.dispatcher.lock().unwrap_or_else(PoisonError::into_inner).end_loans();
        let _ = catch_unwind(AssertUnwindSafe(broken));
        // The children of these threads are found when the daemon ends.
        restore::restore_at_once(shared.kernel, &shared.table);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::dispatch::{PromiseRequest, Signals};
    use crate::table::Table;
    use sched::{CpuId, Reservation};
    use sys::affinity;
    use sys::child::{Child, Work};
    use sys::shared::Words;

    /// Returns the state of a core without agents, whose table is in `directory`.
    pub(in crate::live) fn shared<'k>(kernel: &'k Linux, directory: &std::path::Path) -> Shared<'k> {
        let words = Words::create(&directory.join("words"), Table::words(1)).unwrap();
        let me = sys::thread::Thread::open(std::process::id()).unwrap().identity();
        let table = Arc::new(Table::create(Box::new(words), "boot", me));
        let policy = policies::find(crate::terms::POLICY).expect("it is registered");
        let knobs = crate::terms::knobs(policy);
        let dispatcher = Dispatcher::new(kernel, Arc::clone(&table), policy, &knobs, 1).unwrap();
        Shared {
            kernel,
            dispatcher: Mutex::new(dispatcher),
            has_turns: true,
            kernel_kept: None,
            interfering: Mutex::default(),
            beginning_loans: Mutex::default(),
            starting: Mutex::default(),
            shares: Mutex::default(),
            table,
            channels: Vec::new(),
            places: Vec::new(),
            keeper_events: Arc::new(Waiting::new().unwrap()),
            keeper_bell: Arc::new(Bell::new().unwrap()),
            kernel_bell: Bell::new().unwrap(),
            over: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            looking: AtomicU64::new(u64::MAX),
            is_faulty: false,
            stall: Mutex::new(None),
            warnings: Mutex::new(Vec::new()),
            failure: Mutex::new(None),
            notification: Bell::new().unwrap(),
        }
    }

    #[test]
    fn the_latest_warnings_are_kept_each_once() {
        let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let shared = shared(&kernel, directory.path());
        for nth in 0..=WARNINGS_MOST {
            shared.warn(Explanation::new(format!("warning {nth}"), ""));
            shared.warn(Explanation::new(format!("warning {nth}"), ""));
        }
        let warnings = shared.warnings.into_inner().unwrap();
        assert_eq!((warnings.len(), &*warnings[0].reason), (WARNINGS_MOST, "warning 1"));
    }

    #[test]
    fn after_a_panic_with_one_mechanism_the_clients_of_the_other_are_dismissed() {
        let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let mut shared = shared(&kernel, directory.path());
        let policy = policies::find(crate::terms::DEADLINE_POLICY).expect("it is registered");
        let table = Arc::clone(&shared.table);
        let kept = KernelKept::new(&kernel, table, policy, &policy.defaults(), 1, clock::now(), Nanos::ZERO).unwrap();
        shared.kernel_kept = Some(Mutex::new(kept));
        let child = Child::start(Work::Sleep).unwrap();
        let now = || (attributes::get(child.pid()).unwrap(), affinity::get(child.pid()).unwrap());
        let before = now();
        let by = KeptBy::Dispatcher(RaiseBy::Attributes);
        let reservation = Reservation::new(Nanos::ms(1), Nanos::ms(10));
        let request = PromiseRequest { by, ..PromiseRequest::new("client", reservation) };
        if let Err(refused) = shared.lock().admit(&request, child.pid(), &[]) {
            eprintln!("SKIPPED: {refused}");
            return;
        }
        let _ = shared.lock().turn(CpuId::new(0), Signals::default());
        assert_ne!(now().0, before.0, "a sleeping client is raised");
        let poison = || {
            let _held = shared.kernel_kept.as_ref().map(|kept| kept.lock());
            panic!("a broken law")
        };
        assert!(catch_unwind(AssertUnwindSafe(poison)).is_err());
        restore_all(&shared);
        assert_eq!(now(), before);
        assert!(shared.lock().known().is_empty(), "no agent raises a client again");
    }
}
