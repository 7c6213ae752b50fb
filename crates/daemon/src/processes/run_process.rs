//! [`RunProcess`]: a process of a live run, from its gate to its end.

use super::captured::Captured;
use super::work::{Periodic, Work};
use super::worker_report::{JOBS_MAX, READY, WorkerReport};
use crate::Explanation;
use sched::{Instant, Nanos};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, ExitStatus};
use sys::clock;
use sys::event::Waiting;
use sys::process::Process;
use trace::Job;

/// Maximum time to wait for output of a worker. On an idle machine, the output arrives within milliseconds.
const PATIENCE: Nanos = Nanos::s(10);
/// Maximum time to wait for a command to end after a request to end.
const GRACE: Nanos = Nanos::s(2);

/// A process of a live run. Dropping this value ends the process.
#[derive(Debug)]
pub struct RunProcess {
    name: String,
    child: Child,
    process: Process,
    /// Gate of the process. The gate of a command is closed at its start. The gate of a worker stays open; closing the
    /// gate requests the end of the worker.
    gate: Option<File>,
    /// Start time of the process, once the time is set.
    start: Option<Instant>,
    /// State of a worker; `None` for a command.
    worker: Option<Worker>,
    /// Standard output of a command, if it is captured.
    captured: Option<Captured>,
}

/// State of a worker.
#[derive(Debug)]
pub(super) struct Worker {
    /// Pipe with the output of the worker.
    pub(super) output: ChildStdout,
    pub(super) work: Work,
}

/// Result of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Exit status of the process.
    pub status: ExitStatus,
    /// Jobs of the process in order of release, up to the request to end; empty for a command. Times are from the
    /// monotonic clock.
    pub jobs: Vec<Job>,
    /// CPU time of a worker since its start, as measured by the worker; `None` for a command.
    pub cpu_time: Option<Nanos>,
    /// Number of jobs that were not recorded.
    pub lost: u64,
    /// Captured output of a command, at most 1 MiB; empty for other processes.
    pub output: String,
}

impl RunProcess {
    pub(super) fn new(
        name: &str,
        mut child: Child,
        gate: OwnedFd,
        worker: Option<Worker>,
    ) -> Result<RunProcess, Explanation> {
        let captured = child.stdout.take().map(Captured::begin);
        // The child is not reaped yet, so its pid is not reused.
        match Process::open(child.id()) {
            Ok(process) => {
                let gate = Some(File::from(gate));
                Ok(RunProcess { name: name.to_string(), child, process, gate, start: None, worker, captured })
            }
            Err(error) => {
                // The child may have ended already.
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Returns the name of the process in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the pid of the process, which is valid before its start, too.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the handle to the process, to wait for its end.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns whether the process is a command, not a worker.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.worker.is_none()
    }

    /// Waits for the worker's message that it is ready.
    pub(super) fn await_readiness(&mut self) -> Result<(), Explanation> {
        let worker = self.worker.as_mut().expect("a worker says so");
        let mut said = [0; 8];
        let mut heard = 0;
        while heard < said.len() {
            match read_some(&mut worker.output, &mut said[heard..]) {
                Ok(count @ 1..) => heard += count,
                _ => break,
            }
        }
        if u64::from_le_bytes(said) == READY {
            return Ok(());
        }
        Err(Explanation::new(
            format!("`{}` is not ready in time", self.name),
            "try again when the machine is less busy",
        ))
    }

    /// Opens the gate: the process starts at `start`, or at once if `start` has passed. A worker with a phase releases
    /// its first job one phase after `start`, other workers at `start`.
    ///
    /// # Errors
    /// The process has ended, or started already.
    pub fn go(&mut self, start: Instant) -> Result<(), Explanation> {
        let again = || Explanation::new(format!("`{}` has started already", self.name), "start it once");
        let gate = self.gate.as_mut().filter(|_| self.start.is_none()).ok_or_else(again)?;
        let said = gate.write_all(&start.as_ns().to_le_bytes());
        self.start = Some(start);
        if self.worker.is_none() {
            self.gate = None;
        }
        said.map_err(|error| Explanation::new(format!("`{}` ended before its start: {error}", self.name), "try again"))
    }

    /// Returns the exit status of the process, if the process has ended.
    ///
    /// # Errors
    /// The kernel does not report the status.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Explanation> {
        self.child.try_wait().map_err(|error| self.unknown(&error))
    }

    fn unknown(&self, error: &io::Error) -> Explanation {
        Explanation::new(format!("the exit status of `{}` is unknown: {error}", self.name), "")
    }

    /// Requests the end of the process (SIGTERM). A command may delay its end; a worker ignores the signal.
    ///
    /// # Errors
    /// The caller lacks permission to signal the process.
    pub fn terminate(&self) -> Result<(), Explanation> {
        Ok(self.process.terminate()?)
    }

    /// Kills the process.
    ///
    /// # Errors
    /// The caller lacks permission to signal the process.
    pub fn kill(&self) -> Result<(), Explanation> {
        Ok(self.process.kill()?)
    }

    /// Ends the process, and returns its result. A running command receives a request to end, and is killed if it has
    /// not ended two seconds later.
    ///
    /// # Errors
    /// The process was a worker and sent no report. The process has ended in any case.
    pub fn end(mut self) -> Result<Outcome, Explanation> {
        let report = match &mut self.worker {
            None => None,
            Some(worker) => {
                self.gate = None;
                // Another process may have stopped the worker; a stopped worker could not report.
                let _ = self.process.cont();
                Some(read_all(&mut worker.output))
            }
        };
        self.stop();
        let status = self.child.wait().map_err(|error| self.unknown(&error))?;
        let output = self.captured.take().map(Captured::end).unwrap_or_default();
        let silent = Outcome { status, jobs: Vec::new(), cpu_time: None, lost: 0, output };
        let (Some(bytes), Some(Worker { work, .. }), Some(start)) = (report, &self.worker, self.start) else {
            return Ok(silent);
        };
        let report = bytes.ok().and_then(|bytes| WorkerReport::read(&bytes)).ok_or_else(|| {
            Explanation::new(format!("`{}` sent no report ({status})", self.name), "run again without killing it")
        })?;
        let (jobs, unknown) = match work {
            Work::Hog => (Vec::new(), 0),
            Work::Periodic(periodic) => jobs(periodic, start, &report),
        };
        Ok(Outcome { jobs, cpu_time: Some(report.cpu_time), lost: report.lost + unknown, ..silent })
    }

    /// Ends the process, and kills it if necessary.
    fn stop(&mut self) {
        self.gate = None;
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // Each of these calls fails only if the process has ended.
        let _ = self.process.cont();
        if self.worker.is_none() {
            let _ = self.process.terminate();
        }
        let patience = if self.worker.is_none() { GRACE } else { Nanos::ms(100) };
        if !self.process.ends_within(patience) {
            let _ = self.process.kill();
        }
    }
}

impl Drop for RunProcess {
    fn drop(&mut self) {
        self.stop();
        if self.process.ends_within(GRACE) {
            let _ = self.child.try_wait();
        }
    }
}

/// Returns the jobs of `report`, followed by the jobs that were released but not completed, and the number of jobs that
/// [`JOBS_MAX`] excludes.
fn jobs(periodic: &Periodic, start: Instant, report: &WorkerReport) -> (Vec<Job>, u64) {
    let done = report.jobs().iter().map(|done| Job {
        released: done.released,
        deadline: done.released.saturating_add(periodic.deadline),
        woke: done.woke,
        done: Some(done.done),
    });
    let mut jobs: Vec<Job> = done.collect();
    let known = jobs.len() as u64 + report.lost;
    let first = start.saturating_add(periodic.phase);
    let all = match report.end.saturating_since(first) {
        Nanos::ZERO => known,
        past => past.as_ns().div_ceil(periodic.period.as_ns()).max(known),
    };
    let most = if report.lost > 0 { known } else { all.min(JOBS_MAX.max(known)) };
    for nth in known..most {
        let released = periodic.release(start, nth);
        let deadline = released.saturating_add(periodic.deadline);
        jobs.push(Job { released, deadline, woke: None, done: None });
    }
    (jobs, all - most)
}

/// Waits for output and reads the available part.
fn read_some(from: &mut ChildStdout, into: &mut [u8]) -> io::Result<usize> {
    let waiting = Waiting::new().map_err(io::Error::other)?;
    waiting.add(&*from, 0).map_err(io::Error::other)?;
    match waiting.next(clock::now().saturating_add(PATIENCE)) {
        Ok(Some(_)) => from.read(into),
        Ok(None) => Err(io::ErrorKind::TimedOut.into()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Reads all output.
fn read_all(from: &mut ChildStdout) -> io::Result<Vec<u8>> {
    let (mut all, mut some) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match read_some(from, &mut some)? {
            0 => return Ok(all),
            count => all.extend_from_slice(&some[..count]),
        }
    }
}
