//! The keeper: the thread that adopts new threads and watches over the guardian.

use super::fault::StalledThread;
use super::kernel_kept;
use super::setup::Setup;
use super::shared::{AT_ONCE, Shared, at_agent_priority};
use crate::Explanation;
use crate::dispatch::{Former, KeptBy, Known, Promises, ended, find, moved_threads};
use crate::guardian::{CHECK, Care, Handle, NAME, Standby, Succession};
use crate::kernel::{Kernel, priority};
use crate::linux::Linux;
use crate::table::{Beating, Table};
use sched::{CpuId, CpuSet, Instant, Nanos};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use sys::attributes::{self, Attributes};
use sys::event::Waiting;
use sys::process::Process;
use sys::thread::Identity;
use sys::{Result, clock, thread};

/// Range of the interval between scans for new threads and children that the kernel does not report. The interval is
/// the shortest period of the clients concerned, limited to this range.
const SCAN: (Nanos, Nanos) = (Nanos::ms(1), Nanos::ms(100));
/// Number of the keeper's bell in the keeper's event set.
pub(super) const KEEPER_BELL: u64 = 0;
/// Number, in the keeper's event set, of the end of the guardian or of its standby. [`Linux::BIRTH`] is 1.
const END: u64 = 2;
/// Number, in the keeper's event set, of the end of the front end. The command thread, which has ordinary priority, may
/// wait long for a CPU.
pub(super) const FRONT_END: u64 = 3;
/// Interval between checks whether the guardian beats, and of the affinity of served threads.
const WATCH: Nanos = CHECK;

/// Turns the calling thread into the keeper. The keeper runs at a lower priority than every dispatched thread.
pub(super) fn enter() -> Result<()> {
    attributes::set(thread::current(), Attributes::raised(priority::SENTINEL))?;
    clock::set_slack(Nanos::ns(1))
}

/// The watch over the guardian and its standby.
pub(super) struct Watcher<'s> {
    setup: &'s Setup,
    table: Arc<Table>,
    /// Event set of the keeper.
    events: Arc<Waiting>,
    guardian: Option<Handle>,
    standby: Option<Handle>,
    /// Whether the guardian is one of the former program of this process. A standby of this program takes its place.
    is_former: bool,
    /// Killed guardians and standbys that are not reaped yet.
    killed: Vec<Process>,
    succession: Succession,
}

impl<'s> Watcher<'s> {
    /// Starts a guardian. `events` is the event set of the keeper.
    ///
    /// # Errors
    /// The guardian does not start. The caller must not raise any thread after this error.
    pub(super) fn start(
        setup: &'s Setup,
        table: Arc<Table>,
        events: Arc<Waiting>,
    ) -> std::result::Result<Watcher<'s>, Explanation> {
        let mut watcher = Watcher::without_guardian(setup, table, events);
        watcher.guardian = Some(watcher.start_guardian()?);
        Ok(watcher)
    }

    /// Takes over the guardian that the former program of this process has started. Starts a guardian if there is none.
    ///
    /// # Errors
    /// The guardian does not start. The caller must not raise any thread after this error.
    pub(super) fn take_over(
        setup: &'s Setup,
        table: Arc<Table>,
        events: Arc<Waiting>,
    ) -> std::result::Result<Watcher<'s>, Explanation> {
        let mut watcher = Watcher::without_guardian(setup, table, events);
        let found = watcher.table.guardian().and_then(|identity| Handle::of_former(identity, &watcher.table));
        watcher.is_former = found.is_some();
        watcher.guardian = Some(match found {
            Some(found) => watcher.watched(found),
            None => watcher.start_guardian()?,
        });
        Ok(watcher)
    }

    /// Returns a watch without a guardian. Kills the standby of the former program of this process, also one that the table
    /// does not name. What has ended is reaped later. The process can have other children, of a shell that has executed the
    /// core.
    fn without_guardian(setup: &'s Setup, table: Arc<Table>, events: Arc<Waiting>) -> Watcher<'s> {
        let guardian = table.guardian().map(|guardian| guardian.tid);
        let children = thread::children(std::process::id()).unwrap_or_default().into_iter();
        let is_guardian = |child: &u32| thread::status(*child).is_ok_and(|status| status.name == NAME);
        let former = children.filter(|child| Some(*child) != guardian && is_guardian(child));
        let killed: Vec<Process> = former.flat_map(Process::open).collect();
        killed.iter().for_each(|child| drop(child.kill()));
        let succession = Succession::default();
        Watcher { setup, table, events, guardian: None, standby: None, is_former: false, killed, succession }
    }

    fn start_guardian(&self) -> std::result::Result<Handle, Explanation> {
        Handle::start(&self.setup.directory, &self.table, &self.setup.executable).map(|guardian| self.watched(guardian))
    }

    /// Wakes the keeper when `guardian` ends.
    fn watched(&self, guardian: Handle) -> Handle {
        // If the call fails, a later check detects the end.
        let _ = self.events.add_edges(&guardian, END);
        guardian
    }

    /// Returns the next action.
    fn step(&mut self, now: Instant) -> Care {
        self.killed.retain(|process| !process.reap());
        let is_alive = self.guardian.as_mut().is_some_and(|guardian| guardian.is_alive(&self.table, now));
        let standby = self.standby.as_ref().map_or(Standby::None, |standby| standby.as_standby(&self.table));
        let is_replaced = self.is_former && standby == Standby::Ready;
        self.succession.step(is_alive && !is_replaced, standby, now)
    }

    /// Starts a standby as an ordinary process.
    fn start_standby(&mut self) -> std::result::Result<(), Explanation> {
        let standby = Handle::spawn(&self.setup.directory, &self.table, &self.setup.executable)?;
        self.standby = Some(self.watched(standby));
        Ok(())
    }

    fn drop_standby(&mut self) {
        self.killed.extend(self.standby.take().map(Handle::kill));
    }

    fn kill_guardian(&mut self) {
        self.is_former = false;
        self.killed.extend(self.guardian.take().map(Handle::kill));
    }

    /// Makes the standby, which has taken over, the guardian.
    fn promote(&mut self) {
        self.kill_guardian();
        self.guardian = self.standby.take();
        if let Some(guardian) = &mut self.guardian {
            guardian.begin_watch(&self.table);
        }
    }

    /// Kills the current guardian and its standby, and starts a new guardian.
    fn replace(&mut self) -> std::result::Result<(), Explanation> {
        self.drop_standby();
        self.kill_guardian();
        self.guardian = Some(self.start_guardian()?);
        Ok(())
    }

    /// Waits until the guardian and its standby end. The table must be finished.
    pub(super) fn stop(&mut self) {
        if self.standby.as_ref().is_some_and(|standby| standby.as_standby(&self.table) == Standby::Starts) {
            self.drop_standby();
        }
        for guardian in [self.guardian.take(), self.standby.take()].into_iter().flatten() {
            guardian.stop();
        }
    }
}

/// What the dispatcher has for the keeper to do.
struct Due {
    /// The served threads, each with the CPU to which it is confined.
    confined: Vec<(Identity, CpuId)>,
    /// Reasons for the threads that the agents have found to have left their promises.
    reasons: Vec<Explanation>,
    /// CPUs whose agents must be woken.
    call: CpuSet,
    /// Whether there are threads whose forks are not awaited.
    lacks_births: bool,
    /// Whether threads wait for loans.
    lacks_loans: bool,
    /// Whether dismissed clients may have threads inside a fork.
    has_leaving: bool,
}

/// Reads what is due, in one step: to lock the dispatcher at the priority of the agents takes several system calls. Closes
/// the files of threads that are no longer served.
fn read_due(shared: &Shared<'_>) -> Due {
    let (due, former) = at_agent_priority(|| {
        let mut dispatcher = shared.lock();
        let (call, reasons) = dispatcher.follow(&[]);
        let due = Due {
            confined: dispatcher.confined(),
            reasons,
            call,
            lacks_births: dispatcher.lacks_births(),
            lacks_loans: !dispatcher.without_loan().is_empty(),
            has_leaving: dispatcher.has_leaving() || shared.kernel_kept.is_some(),
        };
        (due, dispatcher.take_former())
    });
    close(shared, former);
    due
}

/// Closes the files of threads that are no longer served. While a perf event is in the set of an agent, closing the event
/// takes the lock of this set. The event therefore leaves the set first.
fn close<'k>(shared: &Shared<'k>, former: Former<&'k Linux>) {
    for mut part in former.parts(AT_ONCE) {
        at_agent_priority(|| part.stop_waking(&shared.kernel));
    }
}

/// Runs the keeper until the daemon ends.
pub(super) fn serve(shared: &Shared<'_>, watcher: &mut Watcher<'_>) -> Result<()> {
    let (mut births, mut is_notified, mut watched) = (None, true, Instant::ZERO);
    let (mut again, mut lacks_loans, mut takes_over) = (None, false, false);
    let mut observed = Instant::NEVER;
    while !shared.over.load(Ordering::Acquire) {
        shared.stall(StalledThread::Keeper);
        shared.table.beat(Beating::Keeper);
        let now = clock::now();
        let (mut has_dismissals, mut has_births) = (is_notified || again.is_some(), false);
        if takes_over || watched.saturating_add(WATCH) <= now {
            watched = now;
            takes_over = watch(shared, watcher, now);
            let due = read_due(shared);
            has_dismissals |= due.has_leaving;
            lacks_loans |= due.lacks_loans;
            follow_threads(shared, due);
        }
        // Read the number of births before the scan, so that a thread that starts during the scan causes another scan.
        let latest = shared.kernel.births().ok();
        if is_notified || latest.is_none() || latest != births {
            births = latest;
            close(shared, at_agent_priority(|| shared.lock().take_former()));
            adopt_new(shared);
            lacks_loans = true;
            has_births = true;
        }
        if let Some(kept) = shared.kernel_kept.as_ref().filter(|_| has_births || is_notified || observed <= now) {
            observed = kernel_kept::observe(shared, kept, has_births);
        }
        if lacks_loans {
            lacks_loans = shared.provide_loans(usize::MAX, || shared.table.beat(Beating::Keeper));
        }
        // Dismissed clients are less urgent than new threads. To rescan them first would delay the adoption of a child
        // whose parent ends at once.
        if has_dismissals {
            again = finish_dismissals(shared);
        }
        shared.kernel_bell.ring();
        let looking = if lacks_loans || takes_over { SCAN.0 } else { shared.looking() };
        let pause = looking.max(SCAN.0).min(SCAN.1).min(again.unwrap_or(WATCH));
        let signals = shared.keeper_events.next(clock::now().saturating_add(pause.min(WATCH)).min(observed))?;
        is_notified = signals.is_some();
        match signals {
            Some(KEEPER_BELL) => drop(shared.keeper_bell.rings()),
            Some(END) => watched = Instant::ZERO,
            Some(FRONT_END) => shared.leave(),
            _ => {}
        }
    }
    Ok(())
}

/// Follows the affinity of the threads that other processes have moved since the last check.
fn follow_threads(shared: &Shared<'_>, due: Due) {
    shared.call(&due.call);
    due.reasons.into_iter().for_each(|reason| shared.warn(reason));
    let moved = moved_threads(&shared.kernel, &due.confined);
    for some in moved.chunks(AT_ONCE) {
        shared.table.beat(Beating::Keeper);
        let (call, reasons) = at_agent_priority(|| shared.lock().follow(some));
        shared.call(&call);
        reasons.into_iter().for_each(|reason| shared.warn(reason));
    }
    // Forks are recorded on the CPU of the client, and the client may have moved.
    if due.lacks_births || !moved.is_empty() {
        shared.await_births(|| shared.table.beat(Beating::Keeper));
    }
}

/// Adopts the new threads and children.
fn adopt_new(shared: &Shared<'_>) {
    shared.await_births(|| shared.table.beat(Beating::Keeper));
    let (known, looking): (Vec<Known>, _) = at_agent_priority(|| {
        let mut dispatcher = shared.lock();
        (dispatcher.known(), dispatcher.looking())
    });
    shared.looking.store(looking.map_or(u64::MAX, Nanos::as_ns), Ordering::Relaxed);
    for known in known {
        // Reading /proc may take long, so the dispatcher is not held.
        let ended = ended(shared.kernel, &known);
        if !ended.is_empty() {
            at_agent_priority(|| shared.lock().forget_ended(known.tree, &ended));
        }
        let is_reserved = |thread: &Identity| {
            let holder = |promises: &mut dyn Promises| promises.name_of_holder(thread);
            shared.kernel_kept.is_some() && shared.promises_of(KeptBy::Kernel, holder).is_some()
        };
        let mut found = find(shared.kernel, &known).into_iter().filter(|new| !is_reserved(&new.identity));
        loop {
            let some: Vec<_> = found.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            shared.table.beat(Beating::Keeper);
            match at_agent_priority(|| shared.lock().adopt(known.tree, some)) {
                Ok(call) => shared.call(&call),
                Err(refused) => shared.warn(refused.reason()),
            }
        }
    }
}

/// Rescans for children forked by dismissed clients. Returns the pause until the next scan, if a scan is needed.
fn finish_dismissals(shared: &Shared<'_>) -> Option<Nanos> {
    let finish = |by| {
        let mut leaving = shared.promises_of(by, |promises| promises.take_leaving());
        if leaving.is_empty() {
            return None;
        }
        for (_, restoring) in &mut leaving {
            shared.table.beat(Beating::Keeper);
            restoring.look(&shared.kernel, &shared.table);
        }
        shared.promises_of(by, |promises| promises.keep_leaving(leaving))
    };
    shared.mechanisms().filter_map(finish).min()
}

/// Checks the guardian and its standby. Returns whether the standby is about to take over.
fn watch(shared: &Shared<'_>, watcher: &mut Watcher<'_>, now: Instant) -> bool {
    let _starting = shared.starting.lock().unwrap_or_else(PoisonError::into_inner);
    match watcher.step(now) {
        Care::Nothing => {}
        Care::Start => {
            if let Err(reason) = watcher.start_standby() {
                shared.warn(reason);
            }
        }
        Care::Drop => watcher.drop_standby(),
        Care::Await => {
            watcher.kill_guardian();
            return true;
        }
        Care::Promote => watcher.promote(),
        Care::Replace => replace(shared, watcher),
    }
    false
}

/// Replaces the guardian. Without a guardian, no thread may be raised, so all threads stay restored until a new guardian
/// runs.
fn replace(shared: &Shared<'_>, watcher: &mut Watcher<'_>) {
    for by in shared.mechanisms() {
        shared.promises_of(by, |promises| promises.suspend());
    }
    match watcher.replace() {
        Ok(()) => {
            for by in shared.mechanisms() {
                let call = shared.promises_of(by, |promises| promises.resume());
                shared.call(&call);
            }
        }
        Err(reason) => shared.fail(reason),
    }
}
