//! [`Commands`]: carries out the commands of the front end, in the command thread.

use super::connection::{Connection, Received};
use super::core_locks::CoreLocks;
use super::entrance::Entrance;
use super::handover::{self, Known, NotReplaced, Replacement, State};
use super::kernel_kept;
use super::message::{Command, Message, News, Opening, ProcessId, Reply, Roster};
use super::shared::{AT_ONCE, Shared, at_agent_priority, restore_all};
use crate::Explanation;
use crate::dispatch::{
    Admission, Dismissed, EVENTS_MOST, Enclosure, Found, KeptBy, PromiseRequest, Promises, Refusal, Scanned, enclose,
    is_reserved, release_groups, scan_beating, share,
};
use crate::interfering::{InterferingThreads, belongs};
use crate::kernel::{CpuShare, Kernel};
use crate::linux::Linux;
use crate::restore::PATIENCE;
use crate::table::Beating;
use sched::{EntityId, Instant, Limit, Nanos};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use sys::event::Bell;
use sys::thread::Identity;
use sys::{clock, thread};
use trace::Event;

/// Maximum length of a command. Unit: bytes.
const COMMAND_MOST: usize = 1 << 16;
/// Time for which the command thread answers commands after another process has requested the end of the core.
const LAST_COMMANDS: Nanos = Nanos::ms(500);
/// Maximum time to wait for a standby of the guardian before this program is replaced.
const STANDBY: Nanos = Nanos::s(2);

/// The result of a scan of a process.
pub(super) type ScannedProcess<'k> = Scanned<<&'k Linux as Kernel>::Thread>;

/// The state of the command thread.
pub(super) struct Commands<'a, 'k> {
    pub(super) shared: &'a Shared<'k>,
    /// Bell that another process rings to request the end of the core.
    end: &'a Bell,
    /// Instant until which commands are answered; [`Instant::NEVER`] before a request for the end.
    last: Cell<Instant>,
    interfering: RefCell<InterferingThreads>,
    pub(super) roster: RefCell<Roster>,
}

impl<'a, 'k> Commands<'a, 'k> {
    /// Returns the state at the start. `end` is the bell for the end of the core. Looks for interfering threads, so that the
    /// first promise waits for no scan.
    pub(super) fn new(shared: &'a Shared<'k>, end: &'a Bell) -> Commands<'a, 'k> {
        let (interfering, roster) = (RefCell::default(), RefCell::default());
        let commands = Commands { shared, end, last: Cell::new(Instant::NEVER), interfering, roster };
        commands.find_interfering::<()>(&[]);
        commands
    }

    /// Returns the state of a program that continues the promises and shares of `former`, the former program of this process.
    /// `end` is the bell for the end of the core.
    pub(super) fn of_former(shared: &'a Shared<'k>, end: &'a Bell, mut former: State) -> Commands<'a, 'k> {
        let interfering = InterferingThreads::of_former(std::mem::take(&mut former.interfering));
        let (interfering, roster) = (RefCell::new(interfering), RefCell::default());
        let commands = Commands { shared, end, last: Cell::new(Instant::NEVER), interfering, roster };
        commands.find_interfering::<()>(&[]);
        commands.take_over(former);
        commands
    }

    /// Replaces this program, and does not return unless this is not possible.
    pub(super) fn replace(
        &self,
        replacement: &Replacement<'_>,
        from: (&Entrance, &CoreLocks),
        opening: Opening,
    ) -> NotReplaced {
        let shared = self.shared;
        if let Err(refused) = self.refuse_if_ending() {
            return NotReplaced::Unchanged(refused.reason());
        }
        self.await_standby();
        let known = || {
            let (unread, lost) = read_journals(shared, |_| ());
            let (roster, interfering) = (self.judged_roster(), self.interfering.borrow().pass_on());
            Known { opening, roster, interfering, unread, lost }
        };
        handover::replace(shared, replacement, from, known, &|| self.beat())
    }

    /// Waits up to 2 s until the standby of the guardian is ready. The new program ends it, and starts its own.
    fn await_standby(&self) {
        let (table, end) = (&self.shared.table, clock::now().saturating_add(STANDBY));
        let is_ready = || {
            let standby = table.standby().filter(|standby| table.guardian() != Some(*standby));
            standby.is_some_and(|standby| thread::Thread::open_as(standby).is_ok())
        };
        while !is_ready() && clock::now() < end {
            self.beat();
            clock::sleep(Nanos::ms(5));
        }
    }

    /// Returns the roster, with the present judgement about each promise.
    pub(super) fn judged_roster(&self) -> Roster {
        let mut roster = self.roster.borrow_mut();
        roster.judge(|e| self.shared.promises(e, |promises| promises.is_kept(e)));
        roster.clone()
    }

    /// Beats, and answers a request for the end of the core: all threads are restored at once. The threads wait neither
    /// for the front end, which may be stopped, nor for the end of a command.
    pub(super) fn beat(&self) {
        self.shared.table.beat(Beating::Commands);
        if self.end.rings() > 0 && !self.is_ending() {
            restore_all(self.shared);
            self.last.set(clock::now().saturating_add(LAST_COMMANDS));
        }
    }

    /// Returns whether another process has requested the end of the core. Promises are not made any more.
    pub(super) fn is_ending(&self) -> bool {
        self.last.get() != Instant::NEVER
    }

    /// Returns the instant until which commands are answered; [`Instant::NEVER`] before a request for the end.
    pub(super) fn end_of_service(&self) -> Instant {
        self.last.get()
    }

    /// Refuses a promise or a share while the core ends.
    fn refuse_if_ending(&self) -> Result<(), Refusal> {
        let reason = match self.is_ending() {
            true => "the core ends on request of another process",
            false if self.shared.is_left.load(Ordering::SeqCst) => "the front end has ended",
            false => return Ok(()),
        };
        Err(Refusal::Reported(Explanation::new(reason, "start it again")))
    }

    /// Beats. Returns whether the command thread continues to serve the front end.
    pub(super) fn goes_on(&self) -> bool {
        self.beat();
        !self.shared.over.load(Ordering::Acquire) && clock::now() < self.last.get()
    }

    /// Receives a command and sends the reply, each within `patience`. Returns false after the command to end.
    ///
    /// # Errors
    /// The connection is closed, or cannot be understood. The front end has stopped in the middle of a message.
    pub(super) fn answer(&self, connection: &mut Connection, patience: Nanos) -> io::Result<bool> {
        let within = |begin: Instant| move || self.goes_on() && clock::now() < begin.saturating_add(patience);
        let reply = match connection.receive(COMMAND_MOST, within(clock::now()))? {
            Received::Message(Command::End) => return Ok(false),
            Received::Message(command) => {
                let reply = self.carry_out(command);
                self.shared.kernel_bell.ring();
                reply
            }
            Received::Malformed(reason) => Reply::Malformed(reason),
        };
        connection.send(&Message::Reply(reply), within(clock::now()))?;
        Ok(true)
    }

    fn carry_out(&self, command: Command) -> Reply {
        let shared = self.shared;
        match command {
            Command::Admit { request, process } => Reply::Admitted(self.admit(&request, process).map_err(Into::into)),
            Command::Adjust { entity, slice, period } => {
                Reply::Changed(self.adjust(entity, slice, period).map_err(Into::into))
            }
            Command::WouldAdmit { request, process, instead } => {
                Reply::Changed(self.would_admit(&request, process, instead).map_err(Into::into))
            }
            Command::WouldAdjust { entity, slice, period } => {
                Reply::Changed(self.would_adjust(entity, slice, period).map_err(Into::into))
            }
            Command::Share { process, share } => Reply::Changed(self.give_share(process, share).map_err(Into::into)),
            Command::EndShare { pid } => {
                self.end_share(pid);
                Reply::Done
            }
            Command::Dismiss { entity } => {
                dismiss(shared, entity);
                self.roster.borrow_mut().ended(entity);
                Reply::Done
            }
            Command::ReadJournal => {
                let (events, lost) = read_journals(shared, |_| ());
                Reply::Journal { events, lost }
            }
            Command::TakeDismissed => Reply::Dismissed(self.struck(take_dismissed(shared))),
            Command::ReadNews => {
                let news = read_news(shared);
                Reply::News(News { dismissed: self.struck(news.dismissed), ..news })
            }
            Command::ReadRoster => Reply::Roster(self.judged_roster()),
            Command::ReadPlaces => {
                let roster = self.roster.borrow();
                let entities = roster.promises.iter().flat_map(|it| it.entities.iter().copied());
                let placed = |e| Some((e, shared.promises(e, |promises| promises.cpu(e))?));
                Reply::Places(entities.filter_map(placed).collect())
            }
            Command::ReportsWakeups { entity } => {
                Reply::ReportsWakeups(shared.promises(entity, |promises| promises.reports_wakeups(entity)))
            }
            Command::Promise { entity } => Reply::Promise(shared.promises(entity, |promises| promises.promise(entity))),
            Command::Warnings => {
                Reply::Warnings(shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone())
            }
            // The caller handles this command.
            Command::End => Reply::Done,
        }
    }

    /// Makes a promise to a process and its descendants. With a hard limit, the call takes some 10 ms more.
    pub(super) fn admit(&self, request: &PromiseRequest, process: ProcessId) -> Result<Vec<EntityId>, Refusal> {
        self.await_leaving(process.pid);
        // The agents would wait for a scan of many threads with the dispatcher.
        self.admit_scanned(request, process, self.scan_process(process), request)
    }

    /// Scans a process for an admission.
    pub(super) fn scan_process(&self, process: ProcessId) -> Option<ScannedProcess<'k>> {
        let is_ours = ancestors().contains(&process.pid);
        if is_ours { None } else { scan_beating(&self.shared.kernel, process.pid, &|| self.beat()) }
    }

    /// Makes the promise `request` to a process, with the result of a scan. The roster has the request `asked`.
    pub(super) fn admit_scanned(
        &self,
        request: &PromiseRequest,
        process: ProcessId,
        scanned: Option<ScannedProcess<'k>>,
        asked: &PromiseRequest,
    ) -> Result<Vec<EntityId>, Refusal> {
        let (shared, ours, pid) = (self.shared, ancestors(), process.pid);
        let beat = || self.beat();
        let leader = scanned.as_ref().map(Scanned::leader);
        if leader.is_some_and(|leader| !process.is(leader)) {
            return Err(Refusal::Gone(pid));
        }
        let new = scanned.as_ref().map_or(&[][..], |scanned| &scanned.found);
        self.refuse_members(new)?;
        self.find_interfering(new);
        if request.by == KeptBy::Kernel {
            let may_admit = || self.refuse_if_ending().and_then(|()| running(process).map(drop));
            let entities = kernel_kept::admit(shared, request, pid, &ours, scanned, may_admit)?;
            shared.keeper_bell.ring();
            self.roster.borrow_mut().made(&entities, leader.map_or(process, Into::into), asked.clone());
            return Ok(entities);
        }
        if !shared.has_turns {
            return Err(kernel_kept::not_set_up("by turns"));
        }
        kernel_kept::count_reserved(shared);
        // A CPU without an agent cannot serve a client, even if the client may run on that CPU.
        let request = PromiseRequest { affinity: request.affinity.and(&shared.cpus()), ..request.clone() };
        let Shared { kernel, table, .. } = shared;
        let enclosure = match request.reservation.limit {
            Limit::Soft => Enclosure::none(),
            Limit::Hard => {
                at_agent_priority(|| shared.lock().check(&request, pid, &ours, scanned.as_ref()))?;
                enclose(kernel, table, pid, &beat)?
            }
        };
        let groups = enclosure.rows();
        // A promise that is made after the restoration of all threads would stay.
        let admit = || {
            let mut dispatcher = shared.lock();
            self.refuse_if_ending()?;
            running(process)?;
            dispatcher.admit_scanned(&request, pid, &ours, scanned, enclosure)
        };
        let answer = at_agent_priority(admit);
        let answer = answer.inspect_err(|_| release_groups(kernel, table, &groups, &beat));
        let Admission { entities, tree, call } = answer.map_err(|refused| match refused {
            Refusal::NoRoom(room) => Refusal::NoRoom(Box::new(room.among(&shared.cpus()))),
            other => other,
        })?;
        shared.call(&call);
        // In steps, because the agents would wait for the adoption of many threads.
        let further = || at_agent_priority(|| shared.lock().adopt_further(tree, AT_ONCE));
        while let Some(call) = further().inspect_err(|_| release_groups(kernel, table, &groups, &beat))? {
            beat();
            shared.call(&call);
        }
        // Before the process is raised: a process that it forks from now on belongs to the promise, even if the parent
        // ends at once.
        shared.await_births(beat);
        // The keeper begins the loans of further threads.
        at_agent_priority(|| shared.provide_loans(AT_ONCE, beat));
        shared.keeper_bell.ring();
        self.roster.borrow_mut().made(&entities, leader.map_or(process, Into::into), asked.clone());
        Ok(entities)
    }

    /// Returns whether the promise would be made, in place of the promise that `instead` is part of.
    fn would_admit(
        &self,
        request: &PromiseRequest,
        process: ProcessId,
        instead: Option<EntityId>,
    ) -> Result<(), Refusal> {
        let (shared, ours) = (self.shared, ancestors());
        self.refuse_if_ending()?;
        running(process)?;
        self.find_interfering::<()>(&[]);
        if request.by == KeptBy::Kernel {
            return kernel_kept::would_admit(shared, request, process.pid, &ours, instead);
        }
        if !shared.has_turns {
            return Err(kernel_kept::not_set_up("by turns"));
        }
        kernel_kept::count_reserved(shared);
        let request = PromiseRequest { affinity: request.affinity.and(&shared.cpus()), ..request.clone() };
        at_agent_priority(|| shared.lock().would_admit(&request, process.pid, &ours, instead))
    }

    /// Returns whether the promise that `e` is part of would be changed.
    fn would_adjust(&self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        match is_reserved(e) {
            true => kernel_kept::would_adjust(self.shared, e, slice, period),
            false => at_agent_priority(|| self.shared.lock().would_adjust(e, slice, period)),
        }
    }

    /// Strikes the dismissed clients off the roster.
    fn struck(&self, dismissed: Vec<Dismissed>) -> Vec<Dismissed> {
        dismissed.iter().for_each(|it| self.roster.borrow_mut().ended(it.entity));
        dismissed
    }

    /// Refuses a request for threads that have a promise by any mechanism.
    fn refuse_members<T>(&self, new: &[Found<T>]) -> Result<(), Refusal> {
        let shared = self.shared;
        let holder = |by, it: &Found<T>| shared.promises_of(by, |promises| promises.name_of_holder(&it.identity));
        let held = |it: &Found<T>| shared.mechanisms().find_map(|by| holder(by, it));
        let found = new.iter().find_map(|it| Some(Refusal::Already { pid: it.leader.tid, name: held(it)? }));
        found.map_or(Ok(()), Err)
    }

    /// Finds the threads of other programs that run above the clients, for the admission of the threads `new`.
    fn find_interfering<T>(&self, new: &[Found<T>]) {
        let (shared, me) = (self.shared, std::process::id());
        let front_end = thread::status(me).map_or(me, |status| status.parent);
        let is_client = |thread: &Identity| {
            let is_member = |by| shared.promises_of(by, |promises| promises.name_of_holder(thread).is_some());
            new.iter().any(|it| it.identity == *thread) || shared.mechanisms().any(is_member)
        };
        let pause = |time: Nanos| {
            self.beat();
            clock::sleep(time);
        };
        let is_ours = |thread: &Identity| is_client(thread) || belongs(thread, &[me, front_end], me);
        let found = self.interfering.borrow_mut().look(is_ours, pause);
        *shared.interfering.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Changes the promise that `e` is part of.
    fn adjust(&self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        if is_reserved(e) {
            kernel_kept::adjust(self.shared, e, slice, period)?;
        } else {
            let (answer, call) = self.shared.promises(e, |promises| promises.adjust(e, slice, period));
            self.shared.call(&call);
            answer?;
        }
        self.roster.borrow_mut().changed(e, slice, period);
        Ok(())
    }

    /// Gives a process and its descendants this share of the CPUs. Takes some 10 ms.
    fn give_share(&self, process: ProcessId, wanted: CpuShare) -> Result<(), Refusal> {
        self.refuse_if_ending()?;
        let (pid, process) = (process.pid, running(process)?);
        let Shared { kernel, table, shares, .. } = self.shared;
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.iter().any(|(other, _)| *other == pid) {
            return Err(Refusal::Already { pid, name: format!("pid {pid}") });
        }
        let rows = share(kernel, table, pid, &ancestors(), wanted, &|| self.beat())?;
        shares.push((pid, rows));
        self.roster.borrow_mut().shared(process, wanted);
        Ok(())
    }

    /// Ends the share of process `pid`: its processes return to their earlier control group.
    fn end_share(&self, pid: u32) {
        let Shared { kernel, table, shares, .. } = self.shared;
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = shares.extract_if(.., |(other, _)| *other == pid);
        ended.for_each(|(_, rows)| release_groups(kernel, table, &rows, &|| self.beat()));
        self.roster.borrow_mut().unshared(pid);
    }

    /// Waits while a dismissed ancestor or descendant of process `pid` may still be inside a fork. Otherwise, values that
    /// Tactus has set for the parent could be recorded as originals of the child.
    fn await_leaving(&self, pid: u32) {
        let end = clock::now() + PATIENCE;
        let is_leaving = |by| self.shared.promises_of(by, |promises| promises.is_leaving(pid));
        while self.shared.mechanisms().any(is_leaving) && clock::now() < end {
            self.beat();
            clock::sleep(Nanos::ms(1));
        }
    }
}

/// Returns the process with its start time.
///
/// # Errors
/// The process has ended. Another process may have its pid.
fn running(process: ProcessId) -> Result<ProcessId, Refusal> {
    let found = thread::Thread::open(process.pid).ok().map(|thread| thread.identity());
    found.filter(|found| process.is(*found)).map(Into::into).ok_or(Refusal::Gone(process.pid))
}

fn dismiss(shared: &Shared<'_>, e: EntityId) {
    let call = shared.promises(e, |promises| promises.dismiss(e));
    shared.call(&call);
    if is_reserved(e) {
        kernel_kept::count_reserved(shared);
    }
    shared.keeper_bell.ring();
}

/// Returns the clients that were dismissed since the last call.
fn take_dismissed(shared: &Shared<'_>) -> Vec<Dismissed> {
    shared.mechanisms().flat_map(|by| shared.promises_of(by, |promises| promises.take_dismissed())).collect()
}

/// Returns the events since the last call, and the number of events that were lost because a journal was full. Calls `also`
/// for the promises of each mechanism, at the same time.
fn read_journals(shared: &Shared<'_>, mut also: impl FnMut(&mut dyn Promises)) -> (Vec<(Instant, Event)>, u64) {
    let (mut all, mut lost) = (Vec::new(), 0);
    for by in shared.mechanisms() {
        // Allocate memory before acquiring the lock.
        let mut events = Vec::with_capacity(EVENTS_MOST);
        lost += shared.promises_of(by, |promises| {
            also(promises);
            promises.read_journal(&mut events)
        });
        all.append(&mut events);
    }
    // The sort keeps the order of events at the same instant.
    all.sort_by_key(|&(at, _)| at);
    (all, lost)
}

/// Returns the events and dismissals since the last call.
fn read_news(shared: &Shared<'_>) -> News {
    let mut dismissed = Vec::new();
    let (events, lost) = read_journals(shared, |promises| dismissed.append(&mut promises.take_dismissed()));
    let in_kernel = at_agent_priority(|| shared.lock().in_kernel());
    News { events, lost, dismissed, in_kernel }
}

/// Returns the pids of this process and its ancestors, which include the front end. A promise to one of these processes
/// would include the core.
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
