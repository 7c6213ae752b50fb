//! The processes that take part in a live run: programs that somebody named, and processes of our own that work as the
//! simulator's workloads do.
//!
//! Each is there before it may begin: it waits at a gate, so that it can be promised something before its first
//! instruction, and all begin at moments that are counted from the same one. None makes a group of processes of its own: what
//! is typed at the terminal reaches a command as ever. A process that works ends with us; it does not hear the terminal, so
//! that it can still tell what it did.

mod program;
mod tale;
mod work;

pub use program::{find, launch};
pub use work::{Periodic, Work, work};

use crate::Reason;
use sched::{Instant, Nanos};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use sys::clock;
use sys::event::Waiting;
use sys::launch as begin;
use sys::privileges;
use sys::process::Process;
use tale::Tale;
use trace::Job;

/// So many jobs are told of one by one, 24 MB of them; a process that does more counts them.
pub const JOBS_MAX: u64 = 1_000_000;

/// What a process that works says when it has all it needs.
const READY: u64 = u64::from_le_bytes(*b"tactus 1");
/// How long a process of ours may take for what takes a few milliseconds on a machine that is not busy.
const PATIENCE: Nanos = Nanos::s(10);
/// How long a command has to end when it was asked to.
const GRACE: Nanos = Nanos::s(2);

/// Where the standard output of a command goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// To ours.
    Inherited,
    /// To our standard error, where ours is for something else.
    ToStandardError,
}

/// Begins the parts of a run.
#[derive(Clone, Debug)]
pub struct Parts {
    executable: PathBuf,
}

impl Parts {
    /// By means of `executable`, a program that [works](work()) and [launches](launch()) when it is called so.
    #[must_use]
    pub fn of(executable: PathBuf) -> Parts {
        Parts { executable }
    }

    /// Begins the command `argv` under the name `name`, and keeps it at its gate. Its standard input and error are ours.
    ///
    /// # Errors
    /// There is no such program, or too many processes. Nothing has been begun.
    pub fn command(&self, name: &str, argv: &[String], output: Output) -> Result<Part, Reason> {
        let path = std::env::var_os("PATH");
        find(argv.first().map_or("", String::as_str), path.as_deref())?;
        let (gate, handle) = io::pipe().map_err(|error| no_process(name, &error))?;
        let mut command = Command::new(&self.executable);
        let number = begin::inherit(&mut command, gate.into());
        command.args(["launch", "--gate", &number.to_string()]);
        if let Some(files) = privileges::files_before() {
            command.args(["--files", &files.to_string()]);
        }
        command.arg("--").args(argv);
        if output == Output::ToStandardError {
            let copy = io::stderr().as_fd().try_clone_to_owned().map_err(|error| no_process(name, &error))?;
            command.stdout(Stdio::from(copy));
        }
        let child = command.spawn().map_err(|error| no_process(name, &error))?;
        Part::new(name, child, OwnedFd::from(handle), None)
    }

    /// Begins a process that does `work` under the name `name`, and keeps it at its gate. In `length` it tells of every job, up
    /// to [`JOBS_MAX`]. It ends with the thread that called this.
    ///
    /// # Errors
    /// The work takes no time, there are too many processes, or it is not ready within ten seconds.
    pub fn work(&self, name: &str, work: Work, length: Nanos) -> Result<Part, Reason> {
        let mut command = Command::new(&self.executable);
        command.arg("work");
        if let Work::Periodic(jobs) = work {
            if jobs.period.is_zero() || jobs.work.is_zero() {
                return Err(Reason::new(format!("the work of `{name}` takes no time"), "a period and work above zero"));
            }
            let records = (length.as_ns() / jobs.period.as_ns()).saturating_add(2).min(JOBS_MAX);
            let options = [("--period-ns", jobs.period), ("--work-ns", jobs.work), ("--phase-ns", jobs.phase)];
            command.args(options.into_iter().flat_map(|(option, time)| [option.to_string(), time.as_ns().to_string()]));
            command.args(["--records", &records.to_string()]);
        }
        let begun = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = begun.map_err(|error| no_process(name, &error))?;
        let handle = child.stdin.take().expect("it was asked to be a pipe");
        let told = child.stdout.take().expect("it was asked to be a pipe");
        let mut part = Part::new(name, child, OwnedFd::from(handle), Some(Worker { told, work }))?;
        part.is_ready()?;
        Ok(part)
    }
}

fn no_process(name: &str, error: &io::Error) -> Reason {
    Reason::new(
        format!("cannot begin `{name}`: {error}"),
        "fewer processes and open files, or higher limits (ulimit -a)",
    )
}

/// A process of a live run that we began. It is not left behind.
#[derive(Debug)]
pub struct Part {
    name: String,
    child: Child,
    process: Process,
    /// What it waits at until it may begin, and a worker until it is to end.
    gate: Option<File>,
    /// When it may begin, once that is said.
    start: Option<Instant>,
    /// None: it is a command.
    worker: Option<Worker>,
}

/// What is known of a process that works.
#[derive(Debug)]
struct Worker {
    /// Where it tells what it did.
    told: ChildStdout,
    work: Work,
}

/// What came of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its jobs in order of release, up to when it was asked to end; none of a command. Moments of the monotonic clock.
    pub jobs: Vec<Job>,
    /// The CPU time that it measured, from its start on; none of a command.
    pub cpu_time: Option<Nanos>,
    /// Jobs of which nothing is told, because they are too many.
    pub lost: u64,
}

impl Part {
    fn new(name: &str, mut child: Child, gate: OwnedFd, worker: Option<Worker>) -> Result<Part, Reason> {
        // It is not reaped yet, so the number is still its own.
        match Process::open(child.id()) {
            Ok(process) => {
                let gate = Some(File::from(gate));
                Ok(Part { name: name.to_string(), child, process, gate, start: None, worker })
            }
            Err(error) => {
                // It ends at once: it waits at a gate that nobody opens any more.
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// What people call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its pid, from before it begins.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// It, to wait for.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Whether it is a command, and no work of ours.
    #[must_use]
    pub fn is_command(&self) -> bool {
        self.worker.is_none()
    }

    /// Waits until it says that it is ready.
    fn is_ready(&mut self) -> Result<(), Reason> {
        let worker = self.worker.as_mut().expect("a worker says so");
        let mut said = [0; 8];
        let mut heard = 0;
        while heard < said.len() {
            match hear(&mut worker.told, &mut said[heard..]) {
                Ok(count @ 1..) => heard += count,
                _ => break,
            }
        }
        if u64::from_le_bytes(said) == READY {
            return Ok(());
        }
        Err(Reason::new(format!("`{}` does not get ready to work", self.name), "a machine that is less busy"))
    }

    /// Opens the gate: it begins at `start`, or at once if that is past. Its first job is released then, or a phase later.
    ///
    /// # Errors
    /// It has ended, or begun.
    pub fn go(&mut self, start: Instant) -> Result<(), Reason> {
        let again = || Reason::new(format!("`{}` has begun already", self.name), "to begin once");
        let gate = self.gate.as_mut().filter(|_| self.start.is_none()).ok_or_else(again)?;
        let said = gate.write_all(&start.as_ns().to_le_bytes());
        self.start = Some(start);
        if self.worker.is_none() {
            self.gate = None;
        }
        said.map_err(|error| Reason::new(format!("`{}` ended before it began: {error}", self.name), "another try"))
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Reason> {
        self.child.try_wait().map_err(|error| self.unknown(&error))
    }

    fn unknown(&self, error: &io::Error) -> Reason {
        Reason::new(format!("it is not known how `{}` ended: {error}", self.name), "")
    }

    /// Asks it to end (SIGTERM). A command may take its time, and a worker does not hear it.
    ///
    /// # Errors
    /// It is not ours to signal any more.
    pub fn terminate(&self) -> Result<(), Reason> {
        Ok(self.process.terminate()?)
    }

    /// Kills it.
    ///
    /// # Errors
    /// It is not ours to signal any more.
    pub fn kill(&self) -> Result<(), Reason> {
        Ok(self.process.kill()?)
    }

    /// Ends it, and says what came of it: a command that still runs is asked to, and killed two seconds later.
    ///
    /// # Errors
    /// It worked and does not tell. It is gone in any case.
    pub fn end(mut self) -> Result<Outcome, Reason> {
        let tale = match &mut self.worker {
            None => None,
            Some(worker) => {
                self.gate = None;
                // Somebody may have stopped it; nobody else is to hear that from it.
                let _ = self.process.cont();
                Some(hear_all(&mut worker.told))
            }
        };
        self.stop();
        let status = self.child.wait().map_err(|error| self.unknown(&error))?;
        let silent = Outcome { status, jobs: Vec::new(), cpu_time: None, lost: 0 };
        let (Some(bytes), Some(Worker { work, .. }), Some(start)) = (tale, &self.worker, self.start) else {
            return Ok(silent);
        };
        let tale = bytes.ok().and_then(|bytes| Tale::read(&bytes)).ok_or_else(|| {
            Reason::new(
                format!("`{}` does not tell what it did ({status})", self.name),
                "a run in which nobody kills it",
            )
        })?;
        let (jobs, unknown) = match work {
            Work::Hog => (Vec::new(), 0),
            Work::Periodic(periodic) => jobs(periodic, start, &tale),
        };
        Ok(Outcome { status, jobs, cpu_time: Some(tale.cpu_time), lost: tale.lost + unknown })
    }

    /// Has it end, by force if need be.
    fn stop(&mut self) {
        self.gate = None;
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // Each of these fails only for who has ended meanwhile.
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

impl Drop for Part {
    fn drop(&mut self) {
        self.stop();
        if self.process.ends_within(GRACE) {
            let _ = self.child.try_wait();
        }
    }
}

/// The jobs that `tale` tells of, those that were released and not done too, and how many of those are too many.
fn jobs(periodic: &Periodic, start: Instant, tale: &Tale) -> (Vec<Job>, u64) {
    let done = tale.jobs().iter().map(|told| Job {
        released: told.released,
        deadline: told.released.saturating_add(periodic.deadline),
        woke: told.woke,
        done: Some(told.done),
    });
    let mut jobs: Vec<Job> = done.collect();
    let known = jobs.len() as u64 + tale.lost;
    let first = start.saturating_add(periodic.phase);
    let all = match tale.end.saturating_since(first) {
        Nanos::ZERO => known,
        past => past.as_ns().div_ceil(periodic.period.as_ns()).max(known),
    };
    let most = if tale.lost > 0 { known } else { all.min(JOBS_MAX.max(known)) };
    for nth in known..most {
        let released = periodic.release(start, nth);
        let deadline = released.saturating_add(periodic.deadline);
        jobs.push(Job { released, deadline, woke: None, done: None });
    }
    (jobs, all - most)
}

/// Reads some of what is told, which is waited for.
fn hear(from: &mut ChildStdout, into: &mut [u8]) -> io::Result<usize> {
    let waiting = Waiting::new().map_err(io::Error::other)?;
    waiting.add(&*from, 0).map_err(io::Error::other)?;
    match waiting.next(clock::now().saturating_add(PATIENCE)) {
        Ok(Some(_)) => from.read(into),
        Ok(None) => Err(io::ErrorKind::TimedOut.into()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Reads all that is told.
fn hear_all(from: &mut ChildStdout) -> io::Result<Vec<u8>> {
    let (mut all, mut some) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match hear(from, &mut some)? {
            0 => return Ok(all),
            count => all.extend_from_slice(&some[..count]),
        }
    }
}
