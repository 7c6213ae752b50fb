//! The process that works: it keeps the beat of a workload, and remembers when.
//!
//! It has one thread, which asks for the clock and its own CPU time and does nothing else; while it works it allocates
//! nothing. Jobs that come late queue up in order, as in the simulator. What a job's turn takes on the way (falling asleep,
//! waking, remembering) is part of its work, so that so many jobs take so many times their work, and no more.

use super::tale::{Tale, Told};
use crate::Reason;
use sched::{Instant, Nanos};
use std::io::{self, ErrorKind, Read, Write};
use sys::clock::{self, Timer};
use sys::event::Waiting;
use sys::{launch, process};

/// A request to end is noticed so soon.
const GLANCE: Nanos = Nanos::ms(1);
/// The standard input, among what is waited for.
const REQUEST: u64 = 0;
/// The timer, among what is waited for.
const TIMER: u64 = 1;

/// What a process does with the CPU time it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// It always wants to run.
    Hog,
    /// It releases a job in every period.
    Periodic(Periodic),
}

/// Periodic work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Periodic {
    /// From one release to the next. Range: above zero.
    pub period: Nanos,
    /// CPU time per job. Range: above zero.
    pub work: Nanos,
    /// From the start to the first release.
    pub phase: Nanos,
    /// From a release to when the job should be done.
    pub deadline: Nanos,
}

impl Periodic {
    /// When job number `nth`, from 0, is released.
    pub(super) fn release(&self, start: Instant, nth: u64) -> Instant {
        start.saturating_add(self.phase).saturating_add(self.period.saturating_mul(nth))
    }
}

/// Is a process that works: waits for its start on the standard input, works until that is closed, and tells of it on the
/// standard output. It remembers `records` jobs.
///
/// # Errors
/// It has no such standard streams, or nobody reads what it tells.
pub fn work(work: Work, records: usize) -> Result<(), Reason> {
    // Whoever began us ends us; what happens to a terminal does not.
    process::ignore_requests();
    launch::end_with_parent()?;
    clock::set_slack(Nanos::ns(1))?;
    let mut worker = Worker::new(records)?;
    let mut output = io::stdout().lock();
    output.write_all(&super::READY.to_le_bytes()).and_then(|()| output.flush()).map_err(unread)?;
    let Some(start) = start(&mut io::stdin().lock())? else { return Ok(()) };
    clock::sleep_until(start);
    let before = clock::thread_time();
    match work {
        Work::Hog => drop(worker.uses(Nanos::ns(u64::MAX))),
        Work::Periodic(jobs) => worker.beats(&jobs, start, before),
    }
    worker.tale.cpu_time = clock::thread_time().saturating_sub(before);
    worker.tale.end = clock::now();
    worker.tale.write(&mut output).and_then(|()| output.flush()).map_err(unread)
}

fn unread(error: io::Error) -> Reason {
    Reason::new(format!("nobody hears what this process tells: {error}"), "a pipe as its standard output")
}

struct Worker {
    /// For the request to end alone, and for it or the timer.
    request: Waiting,
    either: Waiting,
    timer: Timer,
    /// When it was last looked whether there is a request.
    glanced: Instant,
    tale: Tale,
}

impl Worker {
    fn new(records: usize) -> sys::Result<Worker> {
        let (request, either, timer) = (Waiting::new()?, Waiting::new()?, Timer::new()?);
        request.add(io::stdin(), REQUEST)?;
        either.add(io::stdin(), REQUEST)?;
        either.add(&timer, TIMER)?;
        Ok(Worker { request, either, timer, glanced: clock::now(), tale: Tale::with_room(records) })
    }

    /// Whether it is asked to end.
    fn is_to_end(&self) -> bool {
        !matches!(self.request.next(Instant::ZERO), Ok(None))
    }

    /// Uses the CPU until its thread has had `until` of it. Whether it was not asked to end before.
    fn uses(&mut self, until: Nanos) -> bool {
        loop {
            let left = until.saturating_sub(clock::thread_time());
            if left.is_zero() {
                return true;
            }
            let now = clock::now();
            if now.saturating_since(self.glanced) >= GLANCE {
                self.glanced = now;
                if self.is_to_end() {
                    return false;
                }
            }
            // Nobody has more CPU time than passes, and this clock costs no system call.
            let soonest = now.saturating_add(left.min(GLANCE));
            while clock::now() < soonest {
                std::hint::spin_loop();
            }
        }
    }

    /// Sleeps until `at`. Whether it was not asked to end before.
    fn sleeps(&self, at: Instant) -> bool {
        self.timer.set(at);
        loop {
            match self.either.next(Instant::NEVER) {
                Ok(Some(TIMER)) if self.timer.went_off() => return !self.is_to_end(),
                Ok(Some(TIMER) | None) => {}
                _ => return false,
            }
        }
    }

    /// Does job after job until it is asked to end. `had` is the CPU time of its thread at the start.
    fn beats(&mut self, jobs: &Periodic, start: Instant, had: Nanos) {
        let (mut until, mut idle_since) = (had, start);
        for nth in 0.. {
            let released = jobs.release(start, nth);
            if clock::now() < released && !self.sleeps(released) {
                return;
            }
            let woke = (idle_since <= released).then(clock::now);
            until = until.saturating_add(jobs.work);
            if !self.uses(until) {
                return;
            }
            idle_since = clock::now();
            self.tale.add(Told { released, woke, done: idle_since });
        }
    }
}

/// Reads the moment to begin; none where the input ends before it says one.
pub(super) fn start(input: &mut impl Read) -> Result<Option<Instant>, Reason> {
    let mut bytes = [0; 8];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(Instant::at_ns(u64::from_le_bytes(bytes)))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => {
            Err(Reason::new(format!("cannot read when to begin: {error}"), "a pipe from who began this process"))
        }
    }
}
