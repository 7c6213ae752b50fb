//! The commands of the front end, and the command thread, which carries them out.

use super::connection::{Connection, Received};
use super::failure::Failure;
use super::fault::StalledThread;
use super::keeper::FRONT_END;
use super::kernel_kept;
use super::message::{Command, Message, News, Reply};
use super::shared::{AT_ONCE, Shared, at_agent_priority, restore_all};
use crate::Explanation;
use crate::dispatch::{
    Admission, Dismissed, EVENTS_MOST, Enclosure, Found, KeptBy, PromiseRequest, Promises, Refusal, enclose,
    is_reserved, release_groups, scan_beating, share,
};
use crate::interfering::{InterferingThreads, belongs};
use crate::kernel::CpuShare;
use crate::restore::PATIENCE;
use crate::table::Beating;
use sched::{EntityId, Instant, Limit, Nanos};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use sys::event::{Bell, Waiting};
use sys::thread::Identity;
use sys::{clock, thread};
use trace::Event;

/// Maximum length of a command. Unit: bytes.
const COMMAND_MOST: usize = 1 << 16;
/// Maximum time between two beats of the command thread while it waits.
const BEAT: Nanos = Nanos::ms(500);
/// Time for which the command thread answers commands after another process has requested the end of the core.
const LAST_COMMANDS: Nanos = Nanos::ms(500);

/// Event sources of the command thread.
const COMMAND: u64 = 0;
const REQUEST: u64 = 1;
const OVER: u64 = 2;

/// Carries out commands until the front end requests the end of the core or closes the connection, until the core
/// fails, or until `end` rings.
///
/// # Errors
/// The kernel refuses to wait, or to transfer messages.
pub(super) fn serve(shared: &Shared<'_>, connection: &mut Connection, end: &Bell) -> Result<(), Failure> {
    let waiting = Waiting::new()?;
    waiting.add(&*connection, COMMAND)?;
    waiting.add(end, REQUEST)?;
    waiting.add(&shared.notification, OVER)?;
    shared.keeper_events.add_hang_up(&*connection, FRONT_END)?;
    let commands = Commands { shared, end, last: Cell::new(Instant::NEVER), interfering: RefCell::default() };
    let epoch = at_agent_priority(|| shared.lock().epoch());
    // The first promise then waits for no scan.
    commands.find_interfering::<()>(&[]);
    let mut outcome = connection.send(&Message::Ready { epoch }, || commands.goes_on());
    let mut is_reported = false;
    while outcome.is_ok() && commands.goes_on() {
        if commands.is_ending() && !is_reported {
            is_reported = true;
            outcome = connection.send(&Message::Ending, || commands.goes_on());
            continue;
        }
        shared.stall(StalledThread::Commands);
        outcome = match waiting.next(clock::now().saturating_add(BEAT).min(commands.last.get()))? {
            Some(COMMAND) => commands.answer(connection),
            _ => Ok(()),
        };
    }
    match outcome {
        Err(error) if !is_an_end(&error) => {
            let why = format!("cannot exchange messages with the front end: {error}");
            Err(Failure::Failed(Explanation::new(why, "")))
        }
        _ => Ok(()),
    }
}

/// Returns whether `error` is the end of a connection: closed by one of the processes, or not awaited any longer.
fn is_an_end(error: &io::Error) -> bool {
    use io::ErrorKind as Is;
    matches!(
        error.kind(),
        Is::UnexpectedEof
            | Is::ConnectionAborted
            | Is::BrokenPipe
            | Is::ConnectionReset
            | Is::WouldBlock
            | Is::TimedOut
    )
}

/// The state of the command thread.
struct Commands<'a, 'k> {
    shared: &'a Shared<'k>,
    /// Bell that another process rings to request the end of the core.
    end: &'a Bell,
    /// Instant until which commands are answered; [`Instant::NEVER`] before a request for the end.
    last: Cell<Instant>,
    interfering: RefCell<InterferingThreads>,
}

impl Commands<'_, '_> {
    /// Beats, and answers a request for the end of the core: all threads are restored at once. The threads wait neither
    /// for the front end, which may be stopped, nor for the end of a command.
    fn beat(&self) {
        self.shared.table.beat(Beating::Commands);
        if self.end.rings() > 0 && !self.is_ending() {
            restore_all(self.shared);
            self.last.set(clock::now().saturating_add(LAST_COMMANDS));
        }
    }

    /// Returns whether another process has requested the end of the core. Promises are not made any more.
    fn is_ending(&self) -> bool {
        self.last.get() != Instant::NEVER
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
    fn goes_on(&self) -> bool {
        self.beat();
        !self.shared.over.load(Ordering::Acquire) && clock::now() < self.last.get()
    }

    /// Receives a command and sends the reply.
    ///
    /// # Errors
    /// The core has to end.
    fn answer(&self, connection: &mut Connection) -> io::Result<()> {
        let reply = match connection.receive(COMMAND_MOST, || self.goes_on())? {
            Received::Message(Command::End) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Received::Message(command) => self.carry_out(command),
            Received::Malformed(reason) => Reply::Malformed(reason),
        };
        connection.send(&Message::Reply(reply), || self.goes_on())
    }

    fn carry_out(&self, command: Command) -> Reply {
        let shared = self.shared;
        match command {
            Command::Admit { request, pid } => Reply::Admitted(self.admit(&request, pid).map_err(Into::into)),
            Command::Adjust { entity, slice, period } => {
                Reply::Changed(self.adjust(entity, slice, period).map_err(Into::into))
            }
            Command::Share { pid, share } => Reply::Changed(self.give_share(pid, share).map_err(Into::into)),
            Command::EndShare { pid } => {
                self.end_share(pid);
                Reply::Done
            }
            Command::Dismiss { entity } => {
                dismiss(shared, entity);
                Reply::Done
            }
            Command::ReadJournal => {
                let (events, lost) = read_journals(shared, |_| ());
                Reply::Journal { events, lost }
            }
            Command::TakeDismissed => Reply::Dismissed(take_dismissed(shared)),
            Command::ReadNews => Reply::News(read_news(shared)),
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

    /// Makes a promise to process `pid` and its descendants. With a hard limit, the call takes some 10 ms more.
    fn admit(&self, request: &PromiseRequest, pid: u32) -> Result<Vec<EntityId>, Refusal> {
        let (shared, ours) = (self.shared, ancestors());
        let beat = || self.beat();
        self.await_leaving(pid);
        // The agents would wait for a scan of many threads with the dispatcher.
        let scanned = if ours.contains(&pid) { None } else { scan_beating(&shared.kernel, pid, &beat) };
        let new = scanned.as_ref().map_or(&[][..], |scanned| &scanned.found);
        self.refuse_members(new)?;
        self.find_interfering(new);
        if request.by == KeptBy::Kernel {
            let may_admit = || self.refuse_if_ending();
            let entities = kernel_kept::admit(shared, request, pid, &ours, scanned, may_admit)?;
            shared.keeper_bell.ring();
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
        Ok(entities)
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
            return kernel_kept::adjust(self.shared, e, slice, period);
        }
        let (answer, call) = self.shared.promises(e, |promises| promises.adjust(e, slice, period));
        self.shared.call(&call);
        answer
    }

    /// Gives process `pid` and its descendants this share of the CPUs. Takes some 10 ms.
    fn give_share(&self, pid: u32, wanted: CpuShare) -> Result<(), Refusal> {
        self.refuse_if_ending()?;
        let Shared { kernel, table, shares, .. } = self.shared;
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.iter().any(|(other, _)| *other == pid) {
            return Err(Refusal::Already { pid, name: format!("pid {pid}") });
        }
        let rows = share(kernel, table, pid, &ancestors(), wanted, &|| self.beat())?;
        shares.push((pid, rows));
        Ok(())
    }

    /// Ends the share of process `pid`: its processes return to their earlier control group.
    fn end_share(&self, pid: u32) {
        let Shared { kernel, table, shares, .. } = self.shared;
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = shares.extract_if(.., |(other, _)| *other == pid);
        ended.for_each(|(_, rows)| release_groups(kernel, table, &rows, &|| self.beat()));
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
    News { events, lost, dismissed }
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

#[cfg(test)]
mod tests {
    use super::super::connection::Received;
    use super::*;
    use crate::dispatch::{Dispatcher, KernelKept, RaiseBy, Signals};
    use crate::linux::Linux;
    use crate::table::Table;
    use sched::{CpuId, Reservation};
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::sync::{Arc, Mutex};
    use sys::child::{Child, Work};
    use sys::shared::Words;
    use sys::{affinity, attributes};

    /// Returns the state of a core without agents, whose table is in `directory`.
    fn shared<'k>(kernel: &'k Linux, directory: &std::path::Path) -> Shared<'k> {
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
            shares: Mutex::default(),
            table,
            channels: Vec::new(),
            places: Vec::new(),
            keeper_events: Arc::new(Waiting::new().unwrap()),
            keeper_bell: Arc::new(Bell::new().unwrap()),
            over: AtomicBool::new(false),
            looking: AtomicU64::new(u64::MAX),
            is_faulty: false,
            stall: Mutex::new(None),
            warnings: Mutex::new(Vec::new()),
            failure: Mutex::new(None),
            notification: Bell::new().unwrap(),
        }
    }

    #[test]
    fn a_request_for_the_end_is_heard_while_the_front_end_has_sent_half_of_a_command() {
        let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let end = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let core = scope.spawn(|| {
                let shared = shared(&kernel, directory.path());
                serve(&shared, &mut Connection::new(ours).unwrap(), &end)
            });
            let mut front = Connection::new(theirs.try_clone().unwrap()).unwrap();
            assert!(matches!(front.receive(COMMAND_MOST, || true).unwrap(), Received::Message(Message::Ready { .. })));
            theirs.write_all(&[2, 0, 0, 0, 3]).unwrap();
            clock::sleep(Nanos::ms(50));
            end.ring();
            let within = clock::now() + LAST_COMMANDS + Nanos::s(1);
            while !core.is_finished() && clock::now() < within {
                clock::sleep(Nanos::ms(5));
            }
            let has_ended = core.is_finished();
            // Closing the connection ends the core in any case.
            drop((front, theirs));
            core.join().unwrap().unwrap();
            assert!(has_ended, "the core waits for the rest of the command");
        });
    }

    #[test]
    fn a_core_that_ends_on_request_answers_commands_and_makes_no_promise() {
        let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let end = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let core = scope.spawn(|| {
                let shared = shared(&kernel, directory.path());
                serve(&shared, &mut Connection::new(ours).unwrap(), &end)
            });
            let mut front = Connection::new(theirs).unwrap();
            let mut next = |command: Option<Command>| {
                command.iter().for_each(|command| front.send(command, || true).unwrap());
                match front.receive(COMMAND_MOST, || true).unwrap() {
                    Received::Message(message) => message,
                    Received::Malformed(reason) => panic!("{reason}"),
                }
            };
            assert!(matches!(next(None), Message::Ready { .. }));
            end.ring();
            assert!(matches!(next(None), Message::Ending));
            assert!(matches!(next(Some(Command::Warnings)), Message::Reply(Reply::Warnings(_))));
            let share = Command::Share { pid: 1, share: CpuShare { weight: None, cap_percent: None } };
            let Message::Reply(Reply::Changed(Err(refused))) = next(Some(share)) else { panic!("it is given") };
            assert!(format!("{refused:?}").contains("ends on request"), "{refused:?}");
            core.join().unwrap().unwrap();
        });
    }

    #[test]
    fn after_a_panic_with_one_mechanism_the_clients_of_the_other_are_dismissed() {
        let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let mut shared = shared(&kernel, directory.path());
        let policy = policies::find(crate::terms::DEADLINE_POLICY).expect("it is registered");
        let table = Arc::clone(&shared.table);
        let kept = KernelKept::new(&kernel, table, policy, &policy.defaults(), 1, clock::now()).unwrap();
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
