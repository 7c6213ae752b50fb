//! The commands of the front end, and the command thread, which carries them out.

use super::connection::{Connection, Received};
use super::kernel_kept;
use super::message::{Command, Message, Reply};
use super::shared::{AT_ONCE, Shared, at_agent_priority, restore_all};
use super::stall::StalledThread;
use crate::Explanation;
use crate::dispatch::{EVENTS_MOST, Enclosure, PromiseRequest, Refusal, enclose, release_groups, scan, share};
use crate::kernel::CpuShare;
use crate::restore::PATIENCE;
use crate::table::Beating;
use sched::{EntityId, Instant, Limit, Nanos};
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use sys::event::{Bell, Waiting};
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
/// The kernel refuses to wait.
pub(super) fn serve(shared: &Shared<'_>, connection: &mut Connection, end: &Bell) -> sys::Result<()> {
    let waiting = Waiting::new()?;
    waiting.add(&*connection, COMMAND)?;
    waiting.add(end, REQUEST)?;
    waiting.add(&shared.notification, OVER)?;
    let goes_on = || {
        shared.table.beat(Beating::Commands);
        !shared.over.load(Ordering::Acquire)
    };
    let epoch = shared.promises(|promises| promises.epoch());
    let mut outcome = connection.send(&Message::Ready { epoch }, goes_on);
    let mut last = Instant::NEVER;
    while outcome.is_ok() && goes_on() && clock::now() < last {
        shared.stall(StalledThread::Commands);
        outcome = match waiting.next(clock::now().saturating_add(BEAT).min(last))? {
            Some(COMMAND) => answer(shared, connection, last != Instant::NEVER, goes_on),
            Some(REQUEST) if end.rings() > 0 => {
                // The threads do not wait for the front end, which may be stopped.
                restore_all(shared);
                last = clock::now().saturating_add(LAST_COMMANDS);
                connection.send(&Message::Ending, || goes_on() && clock::now() < last)
            }
            _ => Ok(()),
        };
    }
    Ok(())
}

/// Receives a command and sends the reply. `is_ending`: promises are not made any more.
///
/// # Errors
/// The core has to end.
fn answer(
    shared: &Shared<'_>,
    connection: &mut Connection,
    is_ending: bool,
    goes_on: impl Fn() -> bool,
) -> io::Result<()> {
    let reply = match connection.receive(COMMAND_MOST, &goes_on)? {
        Received::Message(Command::End) => return Err(io::ErrorKind::ConnectionAborted.into()),
        Received::Message(Command::Admit { .. }) if is_ending => Reply::Admitted(Err(ending().into())),
        Received::Message(Command::Share { .. }) if is_ending => Reply::Changed(Err(ending().into())),
        Received::Message(command) => carry_out(shared, command),
        Received::Malformed(reason) => Reply::Malformed(reason),
    };
    connection.send(&Message::Reply(reply), &goes_on)
}

fn ending() -> Refusal {
    Refusal::Reported(Explanation::new("the core ends on request of another process", "start it again"))
}

fn carry_out(shared: &Shared<'_>, command: Command) -> Reply {
    match command {
        Command::Admit { request, pid } => Reply::Admitted(admit(shared, &request, pid).map_err(Into::into)),
        Command::Adjust { entity, slice, period } => {
            Reply::Changed(adjust(shared, entity, slice, period).map_err(Into::into))
        }
        Command::Share { pid, share } => Reply::Changed(give_share(shared, pid, share).map_err(Into::into)),
        Command::EndShare { pid } => {
            end_share(shared, pid);
            Reply::Done
        }
        Command::Dismiss { entity } => {
            dismiss(shared, entity);
            Reply::Done
        }
        Command::ReadJournal => {
            let (events, lost) = read_journal(shared);
            Reply::Journal { events, lost }
        }
        Command::TakeDismissed => Reply::Dismissed(shared.promises(|promises| promises.take_dismissed())),
        Command::ReportsWakeups { entity } => {
            Reply::ReportsWakeups(shared.promises(|promises| promises.reports_wakeups(entity)))
        }
        Command::Promise { entity } => Reply::Promise(shared.promises(|promises| promises.promise(entity))),
        Command::Warnings => Reply::Warnings(shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        // The caller handles this command.
        Command::End => Reply::Done,
    }
}

/// Makes a promise to process `pid` and its descendants. With a hard limit, the call takes some 10 ms more.
fn admit(shared: &Shared<'_>, request: &PromiseRequest, pid: u32) -> Result<Vec<EntityId>, Refusal> {
    let ours = ancestors();
    let beat = || shared.table.beat(Beating::Commands);
    if let Some(kept) = &shared.kernel_kept {
        await_leaving(shared, pid);
        let entities = kernel_kept::admit(shared, kept, request, pid, &ours)?;
        shared.keeper_bell.ring();
        return Ok(entities);
    }
    // A CPU without an agent cannot serve a client, even if the client may run on that CPU.
    let request = PromiseRequest { affinity: request.affinity.and(&shared.cpus()), ..request.clone() };
    await_leaving(shared, pid);
    let Shared { kernel, table, .. } = shared;
    // The agents would wait for a scan of many threads with the dispatcher.
    let scanned = if ours.contains(&pid) { None } else { scan(kernel, pid) };
    beat();
    let enclosure = match request.reservation.limit {
        Limit::Soft => Enclosure::none(),
        Limit::Hard => {
            at_agent_priority(|| shared.lock().check(&request, pid, &ours, scanned.as_ref()))?;
            enclose(kernel, table, pid)?
        }
    };
    let groups = enclosure.rows();
    let admit = || shared.lock().admit_scanned(&request, pid, &ours, scanned, enclosure);
    let answer = at_agent_priority(admit).inspect_err(|_| release_groups(kernel, table, &groups));
    let (entities, call) = answer.map_err(|refused| match refused {
        Refusal::NoRoom(room) => Refusal::NoRoom(Box::new(room.among(&shared.cpus()))),
        other => other,
    })?;
    shared.call(&call);
    // In steps, because the agents would wait for the adoption of many threads.
    let further = || at_agent_priority(|| shared.lock().adopt_further(entities[0], AT_ONCE));
    while let Some(call) = further().inspect_err(|_| release_groups(kernel, table, &groups))? {
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

fn adjust(shared: &Shared<'_>, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
    let (answer, call) = shared.promises(|promises| promises.adjust(e, slice, period));
    shared.call(&call);
    answer
}

/// Gives process `pid` and its descendants this share of the CPUs. Takes some 10 ms.
fn give_share(shared: &Shared<'_>, pid: u32, wanted: CpuShare) -> Result<(), Refusal> {
    let Shared { kernel, table, shares, .. } = shared;
    let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
    if shares.iter().any(|(other, _)| *other == pid) {
        return Err(Refusal::Already { pid, name: format!("pid {pid}") });
    }
    let rows = share(kernel, table, pid, &ancestors(), wanted)?;
    shares.push((pid, rows));
    Ok(())
}

/// Ends the share of process `pid`: its processes return to their earlier control group.
fn end_share(shared: &Shared<'_>, pid: u32) {
    let Shared { kernel, table, shares, .. } = shared;
    let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = shares.extract_if(.., |(other, _)| *other == pid);
    ended.for_each(|(_, rows)| release_groups(kernel, table, &rows));
}

fn dismiss(shared: &Shared<'_>, e: EntityId) {
    let call = shared.promises(|promises| promises.dismiss(e));
    shared.call(&call);
    shared.keeper_bell.ring();
}

/// Returns the events since the last call, and the number of events that were lost because the journal was full.
fn read_journal(shared: &Shared<'_>) -> (Vec<(Instant, Event)>, u64) {
    // Allocate memory before acquiring the lock.
    let mut events = Vec::with_capacity(EVENTS_MOST);
    let lost = shared.promises(|promises| promises.read_journal(&mut events));
    (events, lost)
}

/// Waits while a dismissed ancestor or descendant of process `pid` may still be inside a fork. Otherwise, values that
/// Tactus has set for the parent could be recorded as originals of the child.
fn await_leaving(shared: &Shared<'_>, pid: u32) {
    let end = clock::now() + PATIENCE;
    while shared.promises(|promises| promises.is_leaving(pid)) && clock::now() < end {
        clock::sleep(Nanos::ms(1));
    }
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
