//! The core: the process with the threads that schedule.

use super::agent;
use super::channel::Channel;
use super::connection::{Connection, Received, VERSION};
use super::core_locks::CoreLocks;
use super::failure::Failure;
use super::fault::Fault;
use super::front_ends::{self, FrontEnds};
use super::handover::{FormerProgram, State};
use super::in_kernel;
use super::keeper::{self, Watcher};
use super::message::{Message, Opening};
use super::resident_options::ResidentOptions;
use super::setup::{AdmissionPolicy, Setup};
use super::shared::{RaisedPriority, Shared, at_agent_priority, restore_all};
use crate::Explanation;
use crate::dispatch::{Dispatcher, KernelKept, Promises};
use crate::guardian::{AGENT_PREFIX, KEEPER, remove_groups, sweep, this_program};
use crate::interfering::overrun;
use crate::linux::{Linux, Sentinels};
use crate::realtime_group;
use crate::restore::{self, PATIENCE, restore_beating};
use crate::table::{Beating, Table};
use sched::{Descriptor, Instant, Nanos};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use sys::event::{Bell, Waiting};
use sys::{affinity, clock, launch, memory, process, thread};

/// The name of the core in process lists.
const NAME: &str = "tactus-core";
/// Memory of the command thread at first, enough for the journals of most runs. Unit: bytes.
const HEAP: usize = 16 * 1024 * 1024;
/// Capacity of the table of originals. Unit: threads.
const ROWS: usize = 4096;
/// Maximum length of the first message of the front end. Unit: bytes.
const OPENING_MOST: usize = 1 << 16;
/// Maximum time to wait for the first message of the front end, and to send the last message of the core.
const MESSAGE: Nanos = Nanos::s(1);

/// Turns this process into the core of the front end at the other end of the inherited socket `descriptor`. Returns
/// when all threads are restored. `find` returns the policy with a name. A ring of `end` ends the core.
///
/// # Errors
/// The other process is no front end of this version. Nothing was changed.
pub fn run_core(
    descriptor: i32,
    find: impl Fn(&str) -> Option<&'static Descriptor>,
    end: &Bell,
) -> Result<(), Explanation> {
    thread::set_name(NAME);
    // A signal of the terminal is for the front end. The call fails if this process leads a process group, and then the
    // front end has not started it.
    let _ = process::leave_session();
    process::ignore_terminal();
    let broken = |error: std::io::Error| Explanation::new(format!("the front end has ended: {error}"), "");
    let mut connection = Connection::new(UnixStream::from(launch::inherited(descriptor)?)).map_err(broken)?;
    let patience = clock::now() + MESSAGE;
    let goes_on = || clock::now() < patience;
    connection.greet(VERSION, goes_on)?;
    let opening = match connection.receive::<Opening>(OPENING_MOST, goes_on).map_err(broken)? {
        Received::Message(opening) => opening,
        Received::Malformed(reason) => return Err(reason),
    };
    let outcome = opening.setup(find, this_program()).map_err(Failure::Refused).and_then(|setup| {
        let locks = CoreLocks::acquire(&setup.directory)?;
        serve(&setup, &locks, None, FrontEnds::Only(&mut connection), end)
    });
    let patience = clock::now() + MESSAGE;
    // The front end may have ended.
    let _ = connection.send(&Message::Ended(outcome), || clock::now() < patience);
    Ok(())
}

/// Turns this process into a resident core. Returns when the end is requested, by a front end or by a ring of `end`, and all
/// threads are restored. `former`: this program has replaced another one in this process, and continues its promises.
///
/// # Errors
/// See [`Failure`].
pub fn run_resident(
    setup: &Setup,
    options: &ResidentOptions<'_>,
    former: Option<FormerProgram>,
    end: &Bell,
) -> Result<(), Failure> {
    thread::set_name(NAME);
    serve(setup, &options.locks, former, FrontEnds::Of { options, setup }, end)
}

/// Keeps promises until the end is requested, and then restores all threads.
///
/// # Errors
/// See [`Failure`].
fn serve(
    setup: &Setup,
    locks: &CoreLocks,
    former: Option<FormerProgram>,
    front_ends: FrontEnds<'_>,
    end: &Bell,
) -> Result<(), Failure> {
    setup.fault.iter().for_each(Fault::begin_failing);
    if former.is_none() {
        // First restore the threads that a dead daemon has left changed.
        restore::replay(&Linux::new()?, &setup.directory, &locks.lock).map_err(Failure::Refused)?;
    }
    sweep();
    prepare()?;
    let cpus = affinity::get(thread::current())?;
    let channels = cpus.iter().map(Channel::new).collect::<sys::Result<Vec<Channel>>>()?;
    let mut places = vec![None; channels.last().map_or(0, |channel| channel.cpu.index() + 1)];
    channels.iter().enumerate().for_each(|(place, channel)| places[channel.cpu.index()] = Some(place));
    let sentinels = Sentinels::start(channels.iter().map(|channel| (channel.cpu, Arc::clone(&channel.quiet))))?;
    let waiting = channels.iter().map(|channel| (channel.cpu, Arc::clone(&channel.waiting)));
    let (keeper_events, keeper_bell) = (Arc::new(Waiting::new()?), Arc::new(Bell::new()?));
    keeper_events.add(&*keeper_bell, keeper::KEEPER_BELL)?;
    let kernel = Linux::with(sentinels, waiting, Some((Arc::clone(&keeper_events), Arc::clone(&keeper_bell))))?;
    let (table, former) = match former {
        Some(FormerProgram { table, state, raised, .. }) => (table, Some((state, raised))),
        None => (setup.directory.create_table(ROWS, &locks.lock).map_err(Failure::Refused)?, None),
    };
    let (table, is_new) = (Arc::new(table), former.is_none());
    table.forget_beats();
    let begin = if is_new { Watcher::start } else { Watcher::take_over };
    let watcher = begin(setup, Arc::clone(&table), Arc::clone(&keeper_events)).map_err(Failure::Refused);
    let abandon = || {
        // Before the first promise, nothing is to be restored.
        if is_new || restore::restore(&kernel, &table, clock::sleep).is_settled() {
            table.finish();
        }
    };
    let watcher = watcher.inspect_err(|_| abandon());
    let outcome = watcher.and_then(|mut watcher| {
        let epoch = former.as_ref().map(|(state, _)| state.epoch);
        let shared = share(setup, &kernel, (&table, epoch), (channels, places), (keeper_events, keeper_bell));
        let shared = shared.inspect_err(|_| {
            abandon();
            if table.is_finished() {
                watcher.stop();
            }
        })?;
        let answer = run(&shared, &mut watcher, setup.scheduler.as_deref(), former, front_ends, end);
        if table.is_finished() {
            watcher.stop();
        }
        match shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(reason) => Err(Failure::Failed(reason)),
            None => answer,
        }
    });
    // If something is left to restore, the guardian tries again after the end of this process, and then the next daemon
    // at its start.
    if table.is_finished() {
        remove_groups(table.daemon());
        setup.directory.remove_table(&locks.lock).map_err(Failure::Failed)?;
    } else {
        // Dropping the kernel waits for the sentinels. A sentinel cannot end while a thread that could not be restored
        // occupies its CPU at a higher priority, and the guardian restores this thread only when this process ends.
        std::mem::forget(kernel);
    }
    outcome
}

/// Prepares this process, as far as permitted, to keep promises: group, files and memory.
fn prepare() -> sys::Result<()> {
    realtime_group::enter();
    // The call fails without CAP_SYS_RESOURCE.
    let _ = process::avoid_oom_kill();
    // Each thread handle uses several files. If the limit stays low, requests with too many threads are refused.
    let _ = sys::privileges::raise_file_limit();
    memory::avoid_huge_pages();
    memory::keep_freed(HEAP);
    memory::lock().or_else(|error| if error.remedy().is_some() { Ok(()) } else { Err(error) })
}

/// Returns the state of the core: without clients, and with its agents on the CPUs of `channels`. `places` has the number
/// of the channel of each CPU. `epoch` is time zero of the journals; `None`: now.
fn share<'k>(
    setup: &Setup,
    kernel: &'k Linux,
    (table, epoch): (&Arc<Table>, Option<Instant>),
    (channels, places): (Vec<Channel>, Vec<Option<usize>>),
    (keeper_events, keeper_bell): (Arc<Waiting>, Arc<Bell>),
) -> Result<Shared<'k>, Failure> {
    let refused = |refused: sched::Refused| Failure::Refused(Explanation::new(refused.to_string(), ""));
    let cpus = places.len();
    // A dispatcher without a policy has no clients, but agents.
    let Some(AdmissionPolicy { policy, knobs }) = setup.turns.as_ref().or(setup.reservations.as_ref()) else {
        return Err(Failure::Refused(Explanation::new("the daemon has no mechanism", "report this")));
    };
    let dispatcher = Dispatcher::new(kernel, Arc::clone(table), policy, knobs, cpus).map_err(refused)?;
    let epoch = epoch.unwrap_or(dispatcher.epoch());
    let dispatcher = dispatcher.with_epoch(epoch);
    let reserving = setup.reservations.as_ref().map(|AdmissionPolicy { policy, knobs }| {
        KernelKept::new(kernel, Arc::clone(table), policy, knobs, cpus, epoch, overrun()).map(Mutex::new)
    });
    let kernel_kept = reserving.transpose().map_err(refused)?;
    let at = |fault: &Fault| Some((fault.stalled()?, clock::now().saturating_add(fault.after)));
    let stall = setup.fault.as_ref().and_then(at);
    Ok(Shared {
        kernel,
        dispatcher: Mutex::new(dispatcher),
        has_turns: setup.turns.is_some(),
        kernel_kept,
        interfering: Mutex::default(),
        beginning_loans: Mutex::default(),
        starting: Mutex::default(),
        shares: Mutex::default(),
        table: Arc::clone(table),
        channels,
        places,
        keeper_events,
        keeper_bell,
        kernel_bell: Bell::new()?,
        over: AtomicBool::new(false),
        is_left: AtomicBool::new(false),
        looking: AtomicU64::new(u64::MAX),
        is_faulty: stall.is_some(),
        stall: Mutex::new(stall),
        warnings: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
        notification: Bell::new()?,
    })
}

/// Starts the other threads of the core, carries out commands in this thread, and ends the other threads. A thread has the
/// program `scheduler` dispatch. `former` is the
/// state of the former program of this process, and the priority of this thread until that state is in force again.
fn run(
    shared: &Shared<'_>,
    watcher: &mut Watcher<'_>,
    scheduler: Option<&Path>,
    former: Option<(State, RaisedPriority)>,
    front_ends: FrontEnds<'_>,
    end: &Bell,
) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let agents = (0..shared.channels.len()).map(|place| {
            let name = format!("{AGENT_PREFIX}{}", shared.channels[place].cpu);
            let body =
                move || guarded(shared, || agent::enter(shared.channels[place].cpu), || agent::serve(shared, place));
            Builder::new().name(name).spawn_scoped(scope, body)
        });
        let begun = agents.collect::<std::io::Result<Vec<_>>>();
        let keeper = Builder::new().name(KEEPER.to_string()).spawn_scoped(scope, move || {
            guarded(shared, keeper::enter, || keeper::serve(shared, watcher));
        });
        let in_kernel = scheduler.map(|program| {
            let body = move || guarded(shared, in_kernel::enter, || in_kernel::serve(shared, program));
            Builder::new().name(in_kernel::NAME.to_string()).spawn_scoped(scope, body).map(drop)
        });
        let begun = begun.and(keeper).and_then(|keeper| in_kernel.transpose().map(|_| keeper));
        let answer = match begun {
            Ok(_) => {
                // With reservations only, the agents have no clients. The kernel keeps such promises without the core.
                if shared.has_turns {
                    shared.begin_beating();
                }
                Ok(catch_unwind(AssertUnwindSafe(|| front_ends::serve(shared, former, front_ends, end))))
            }
            Err(error) => Err(Failure::Refused(Explanation::new(format!("cannot start a thread: {error}"), ""))),
        };
        restore_all(shared);
        await_leaving(shared);
        // Restore once more, from the table. The table still contains the threads that the dispatcher could not restore,
        // and the threads that may be inside a fork. The agents continue to beat, so that the guardian restores them if
        // this process hangs.
        let beat = || shared.table.beat(Beating::Commands);
        if restore_beating(shared.kernel, &shared.table, clock::sleep, &beat).is_settled() {
            shared.table.finish();
        }
        // From here on no thread is raised, and no agent needs to beat.
        shared.table.set_watched(0);
        shared.end();
        match answer? {
            Ok(answer) => answer,
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
    let reserves = || shared.kernel_kept.as_ref().is_some_and(|kept| kept.lock().is_ok_and(|kept| kept.has_leaving()));
    let has_leaving = || {
        at_agent_priority(|| reserves() || shared.dispatcher.lock().is_ok_and(|dispatcher| dispatcher.has_leaving()))
    };
    shared.keeper_bell.ring();
    while !shared.over.load(Ordering::Acquire) && has_leaving() && clock::now() < end {
        shared.table.beat(Beating::Commands);
        clock::sleep(Nanos::ms(1));
    }
}
