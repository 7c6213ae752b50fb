//! The worker process, which runs a workload and records the times of its jobs.
//!
//! A worker has one thread, which reads the clock and its own CPU time, and allocates no memory during its work. Late
//! jobs queue up in order, as in the simulator. The overhead of a job (falling asleep, waking, recording) is part of
//! the job's work, so that `n` jobs take `n` times the work.

use super::worker_report::{JobRecord, READY, WorkerReport};
use crate::Explanation;
use sched::{Instant, Nanos};
use std::io::{self, ErrorKind, Read, Write};
use sys::clock::{self, Timer};
use sys::event::Waiting;
use sys::{launch, process};

/// Maximum delay until a worker notices a request to end.
const GLANCE: Nanos = Nanos::ms(1);
/// Number of the standard input in the event set.
const REQUEST: u64 = 0;
/// Number of the timer in the event set.
const TIMER: u64 = 1;

/// The work of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Endless work: the process is always runnable.
    Hog,
    /// Periodic work: one job per period.
    Periodic(Periodic),
}

/// Periodic work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Periodic {
    /// Interval between releases. Range: above zero.
    pub period: Nanos,
    /// CPU time per job. Range: above zero.
    pub work: Nanos,
    /// Time from the start to the first release.
    pub phase: Nanos,
    /// Relative deadline of a job.
    pub deadline: Nanos,
}

impl Periodic {
    /// Returns the release time of job number `nth`, counted from 0.
    pub(super) fn release(&self, start: Instant, nth: u64) -> Instant {
        start.saturating_add(self.phase).saturating_add(self.period.saturating_mul(nth))
    }
}

/// Runs a worker. The worker reads its start time from standard input, works until the input is closed, and writes its
/// report to standard output. The worker records up to `records` jobs.
///
/// # Errors
/// The standard streams are missing, or the output is closed.
pub fn work(work: Work, records: usize) -> Result<(), Explanation> {
    // The parent process ends the worker; the terminal does not.
    process::ignore_requests();
    launch::end_with_parent()?;
    clock::set_slack(Nanos::ns(1))?;
    let mut worker = Worker::new(records)?;
    let mut output = io::stdout().lock();
    output.write_all(&READY.to_le_bytes()).and_then(|()| output.flush()).map_err(unread)?;
    let Some(start) = start(&mut io::stdin().lock())? else { return Ok(()) };
    clock::sleep_until(start);
    let before = clock::thread_time();
    match work {
        Work::Hog => drop(worker.uses(Nanos::ns(u64::MAX))),
        Work::Periodic(jobs) => worker.beats(&jobs, start, before),
    }
    worker.report.cpu_time = clock::thread_time().saturating_sub(before);
    worker.report.end = clock::now();
    worker.report.write(&mut output).and_then(|()| output.flush()).map_err(unread)
}

fn unread(error: io::Error) -> Explanation {
    Explanation::new(format!("nothing reads the report of this process: {error}"), "give it a pipe as standard output")
}

struct Worker {
    /// Event set that contains only the request to end. Event set `either` contains the request and the timer.
    request: Waiting,
    either: Waiting,
    timer: Timer,
    /// Instant of the last check for a request to end.
    glanced: Instant,
    report: WorkerReport,
}

impl Worker {
    fn new(records: usize) -> sys::Result<Worker> {
        let (request, either, timer) = (Waiting::new()?, Waiting::new()?, Timer::new()?);
        request.add(io::stdin(), REQUEST)?;
        either.add(io::stdin(), REQUEST)?;
        either.add(&timer, TIMER)?;
        Ok(Worker { request, either, timer, glanced: clock::now(), report: WorkerReport::with_room(records) })
    }

    /// Returns whether the request to end has arrived.
    fn is_to_end(&self) -> bool {
        !matches!(self.request.next(Instant::ZERO), Ok(None))
    }

    /// Uses the CPU until the CPU time of the thread is `until`. Returns false if a request to end has arrived.
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
            // The thread cannot have used `left` of CPU time before `soonest`. Until then, read only the clock, which
            // makes no system call.
            let soonest = now.saturating_add(left.min(GLANCE));
            while clock::now() < soonest {
                std::hint::spin_loop();
            }
        }
    }

    /// Sleeps until `at`. Returns false if a request to end has arrived, or if the kernel refuses to wait.
    fn sleeps(&self, at: Instant) -> bool {
        if self.timer.set(at).is_err() {
            return false;
        }
        loop {
            match self.either.next(Instant::NEVER) {
                Ok(Some(TIMER)) if self.timer.went_off() => return !self.is_to_end(),
                Ok(Some(TIMER) | None) => {}
                _ => return false,
            }
        }
    }

    /// Runs one job after another until the request to end. `had` is the CPU time of the thread at the start.
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
            self.report.add(JobRecord { released, woke, done: idle_since });
        }
    }
}

/// Reads the start time; `None` if the input ends without a start time.
pub(super) fn start(input: &mut impl Read) -> Result<Option<Instant>, Explanation> {
    let mut bytes = [0; 8];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(Instant::at_ns(u64::from_le_bytes(bytes)))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => {
            Err(Explanation::new(format!("cannot read the start time: {error}"), "give it a pipe as standard input"))
        }
    }
}
