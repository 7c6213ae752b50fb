//! The thread of the core that has a scheduler in the kernel dispatch the clients: it starts `tactus-scx`, gives it the orders of
//! the dispatcher, and notes its reports.
//!
//! The program is apart from the core because its parts in BPF have another licence. If it ends, hangs with an order, or if the
//! kernel removes its scheduler, the agents dispatch again. If the reason is a CPU that went offline or online, the program is started
//! again. It ends with the core, whose end closes its input.

use super::shared::{Shared, at_agent_priority};
use crate::Explanation;
use crate::dispatch::KernelPeriods;
use crate::kernel::priority;
use orders::{Order, Report};
use sched::{Instant, Nanos};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use sys::attributes::{self, Attributes};
use sys::event::Waiting;
use sys::kernel::SchedExt;
use sys::process::Process;
use sys::{Result, clock, kernel, thread};

/// Name of the process of the program.
const PROGRAM: &str = "tactus-scx";
/// Name of the thread.
pub(super) const NAME: &str = "tactus-kernel";
/// Interval of attempts while orders are outstanding, and while the kernel removes a scheduler.
const AGAIN_SOON: Nanos = Nanos::ms(10);
/// Interval of checks for threads that have ended, and for a scheduler that the kernel has removed. A turn of this thread delays the
/// clients.
const LOOK: Nanos = Nanos::ms(100);
/// Maximum time until the scheduler is loaded.
const LOADED: Nanos = Nanos::s(20);
/// Time from a failed start to the next, and number of starts. After a replacement of the core, the kernel may not have removed the
/// scheduler of the former program yet.
const AGAIN: Nanos = Nanos::s(2);
const STARTS: u32 = 3;
/// Maximum time without progress while orders are outstanding. The agents dispatch again then.
const PATIENCE: Nanos = Nanos::ms(100);
/// The sources of events for this thread.
const REPORTS: u64 = 0;
const BELL: u64 = 1;
/// The reasons if the kernel has removed the scheduler, and if the program ends without one.
const REMOVED: &str = "the kernel has removed it";
const ENDED: &str = "its program has ended";
/// Maximum time until the program ends with its input. It is killed then.
const END: Nanos = Nanos::s(1);

/// Turns the calling thread into this thread, with the priority of the keeper.
pub(super) fn enter() -> Result<()> {
    attributes::set(thread::current(), Attributes::raised(priority::SENTINEL))
}

/// Has the scheduler of `program` dispatch the clients, until it or the daemon ends.
pub(super) fn serve(shared: &Shared<'_>, program: &Path) -> Result<()> {
    reap_former();
    let mut starts = 0;
    loop {
        let Err(Ended { reason, was_loaded, begins_again }) = serve_once(shared, program) else { return Ok(()) };
        let reason = reason.trim_end();
        starts = if was_loaded { 0 } else { starts + 1 };
        if was_loaded && !begins_again || starts == STARTS {
            let what = format!("no scheduler in the kernel dispatches the promises: {reason}");
            shared.warn(Explanation::new(
                what,
                "the core dispatches them itself; `tactus doctor` shows what this kernel offers",
            ));
            return Ok(());
        }
        if begins_again {
            let what = format!("the kernel has removed the scheduler of the promises: {reason}");
            shared.warn(Explanation::new(what, "the core dispatches them itself until the scheduler is loaded again"));
        }
        let again = clock::now().saturating_add(AGAIN);
        let is_removed = || kernel::sched_ext() == SchedExt::Vacant;
        while clock::now() < again && !(begins_again && is_removed()) {
            if shared.over.load(Ordering::Acquire) {
                return Ok(());
            }
            clock::sleep(AGAIN_SOON);
        }
    }
}

/// Reaps the programs that a former program of this process has started. They have ended with it.
fn reap_former() {
    let children = thread::children(std::process::id()).unwrap_or_default().into_iter();
    let is_former = |child: &u32| thread::status(*child).is_ok_and(|status| status.name == PROGRAM);
    for program in children.filter(is_former).flat_map(Process::open) {
        if program.ends_within(END) {
            let _ = program.reap();
        }
    }
}

/// Why the scheduler has ended.
struct Ended {
    reason: String,
    was_loaded: bool,
    begins_again: bool,
}

/// Why the scheduler is of no use any longer.
struct Fault {
    reason: String,
    /// The scheduler can be loaded again: a CPU has gone offline or online.
    begins_again: bool,
}

impl From<String> for Fault {
    fn from(reason: String) -> Fault {
        Fault { reason, begins_again: false }
    }
}

fn serve_once(shared: &Shared<'_>, program: &Path) -> std::result::Result<(), Ended> {
    let started = {
        // No descriptor for another program can be inherited meanwhile.
        let _starting = shared.starting.lock().unwrap_or_else(PoisonError::into_inner);
        Scheduler::start(program)
    };
    let mut scheduler = match started {
        Ok(scheduler) => scheduler,
        Err(error) => {
            let reason = format!("cannot run {}: {error}", program.display());
            return Err(Ended { reason, was_loaded: false, begins_again: false });
        }
    };
    let served = pass_on(shared, &mut scheduler);
    // A ring would end each wait for the last report.
    let _ = scheduler.waiting.remove(&shared.kernel_bell);
    // The agents dispatch before the program ends, which may take long.
    let call = at_agent_priority(|| shared.lock().end_in_kernel());
    shared.call(&call);
    served.map_err(|fault| {
        let reported = if fault.reason == REMOVED { scheduler.last_report() } else { None };
        let Fault { reason, begins_again } = reported.unwrap_or(fault);
        Ended { reason, was_loaded: scheduler.is_loaded, begins_again }
    })
}

/// Passes orders and reports on until the daemon ends.
///
/// # Errors
/// The scheduler is of no use any longer.
fn pass_on(shared: &Shared<'_>, scheduler: &mut Scheduler) -> std::result::Result<(), Fault> {
    let (begin, mut looked) = (clock::now(), Instant::ZERO);
    scheduler.waiting.add(&shared.kernel_bell, BELL).map_err(|error| error.to_string())?;
    while !shared.over.load(Ordering::Acquire) {
        scheduler.hear(|report| note(shared, report))?;
        let now = clock::now();
        if scheduler.is_loaded {
            let looks = looked.saturating_add(LOOK) <= now;
            looked = if looks { now } else { looked };
            // The program may be stopped.
            if looks && !kernel::is_sched_ext_enabled() {
                return Err(REMOVED.to_string().into());
            }
            let (orders, call) = at_agent_priority(|| {
                let mut dispatcher = shared.lock();
                let ended = if looks { dispatcher.look_in_kernel() } else { sched::CpuSet::EMPTY };
                let (orders, call) = dispatcher.kernel_orders();
                (orders, ended.iter().chain(call.iter()).collect())
            });
            shared.call(&call);
            scheduler.order(&orders, now)?;
        } else if begin.saturating_add(LOADED) < now {
            return Err(format!("it is not loaded after {LOADED}").into());
        }
        let pause = if scheduler.has_outstanding() { AGAIN_SOON } else { LOOK };
        scheduler.wait(now.saturating_add(pause)).map_err(|error| error.to_string())?;
        let _ = shared.kernel_bell.rings();
    }
    Ok(())
}

/// Notes a report of the scheduler.
fn note(shared: &Shared<'_>, report: Report) -> std::result::Result<(), Fault> {
    match report {
        Report::Ready => at_agent_priority(|| shared.lock().begin_in_kernel()),
        Report::Periods { promise, due_ns, delivered_ns, throughout, count } => {
            let (due, delivered) = (Nanos::ns(due_ns), Nanos::ns(delivered_ns));
            let periods = KernelPeriods { promise, due, delivered, throughout, count };
            at_agent_priority(|| shared.lock().note_in_kernel(periods));
        }
        // The thread may have ended meanwhile.
        Report::Refused { order: Order::Join { tid, .. } | Order::Leave { tid }, .. }
            if thread::status(tid).is_err() => {}
        Report::Refused { order, reason } => return Err(format!("it refuses an order ({order:?}): {reason}").into()),
        Report::Ended { reason, begins_again } => return Err(Fault { reason, begins_again }),
        Report::Lost { events } => shared.warn(Explanation::new(
            format!("{events} events of the scheduler in the kernel were lost: the counts of periods lack theirs"),
            "the promises are kept as before; with fewer promises or longer periods there are fewer events",
        )),
        Report::Done { .. } => {}
    }
    Ok(())
}

/// A running `tactus-scx`.
struct Scheduler {
    child: Child,
    /// Its input and its output.
    stream: UnixStream,
    waiting: Waiting,
    /// Orders that are not written yet, and the beginning of a report.
    unwritten: Vec<u8>,
    unread: Vec<u8>,
    /// Number of orders given and carried out.
    given: u64,
    done: u64,
    /// Instant since which orders are outstanding.
    since: Instant,
    is_loaded: bool,
}

impl Scheduler {
    fn start(program: &Path) -> std::io::Result<Scheduler> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let waiting = Waiting::new().and_then(|waiting| waiting.add(&stream, REPORTS).map(|()| waiting));
        let waiting = waiting.map_err(|error| std::io::Error::other(error.to_string()))?;
        let mut command = Command::new(program);
        let (input, output) = (OwnedFd::from(theirs.try_clone()?), OwnedFd::from(theirs));
        command.arg("--serve").current_dir("/").stdin(input).stdout(output).stderr(Stdio::null());
        let (child, since) = (command.spawn()?, Instant::ZERO);
        let (unwritten, unread) = (Vec::new(), Vec::new());
        Ok(Scheduler { child, stream, waiting, unwritten, unread, given: 0, done: 0, since, is_loaded: false })
    }

    /// Returns whether there are orders that are not carried out.
    fn has_outstanding(&self) -> bool {
        self.given != self.done
    }

    /// Waits for reports, or for changes of promises, until `end`.
    fn wait(&self, end: Instant) -> Result<()> {
        self.waiting.next(end).map(drop)
    }

    /// Gives orders.
    ///
    /// # Errors
    /// The program does not carry them out. A promise that it does not know yet is kept by no agent.
    fn order(&mut self, orders: &[Order], now: Instant) -> std::result::Result<(), String> {
        if !self.has_outstanding() {
            self.since = now;
        }
        self.given += orders.len() as u64;
        orders.iter().for_each(|order| self.unwritten.extend(orders::line(order).as_bytes()));
        while !self.unwritten.is_empty() {
            match self.stream.write(&self.unwritten) {
                Ok(length) => drop(self.unwritten.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        if self.has_outstanding() && self.since.saturating_add(PATIENCE) < now {
            return Err(format!("it has carried out no order for {PATIENCE}"));
        }
        Ok(())
    }

    /// Passes the reports that have come to `note`.
    ///
    /// # Errors
    /// The reason why there are no more.
    fn hear(&mut self, note: impl Fn(Report) -> std::result::Result<(), Fault>) -> std::result::Result<(), Fault> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ENDED.to_string().into()),
                Ok(length) => self.unread.extend(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.to_string().into()),
            }
            while let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                match orders::read(&String::from_utf8_lossy(&line))? {
                    Report::Done { orders } => (self.done, self.since) = (orders, clock::now()),
                    report => {
                        self.is_loaded |= report == Report::Ready;
                        note(report)?;
                    }
                }
            }
        }
    }
}

impl Scheduler {
    /// Returns what the program reports of the end of its scheduler, which it notices later than the core does. `None`: nothing, in the
    /// time that the program has to end.
    fn last_report(&mut self) -> Option<Fault> {
        let end = clock::now().saturating_add(END);
        while clock::now() < end {
            let heard = self.hear(|report| match report {
                Report::Ended { reason, begins_again } => Err(Fault { reason, begins_again }),
                _ => Ok(()),
            });
            match heard {
                Ok(()) => self.wait(end).ok()?,
                Err(fault) => return Some(fault).filter(|fault| fault.reason != ENDED),
            }
        }
        None
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // The end of its input is the request to end.
        let _ = self.stream.shutdown(Shutdown::Write);
        let has_ended = Process::open(self.child.id()).is_ok_and(|process| process.ends_within(END));
        if !has_ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
