//! [`RunUnderTest`]: a `tactus run` with its core, its agents and its guardian.

use crate::victims::{Victim, after, within};
use anyhow::{Context, Result, bail};
use daemon::directory::Directory;
use sched::Nanos;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use sys::attributes::{self, Attributes, Policy};
use sys::cpus;
use sys::process::Process;
use sys::thread::{self, Identity};

/// Real-time priorities of the run's threads.
use daemon::kernel::priority::{AGENT, GUARDIAN};

/// The promise to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Promise {
    pub(crate) slice: Nanos,
    pub(crate) period: Nanos,
    /// Whether the process is frozen when its slice is used up.
    pub(crate) is_hard: bool,
    pub(crate) on: On,
}

/// The CPUs of a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    /// One CPU that Tactus chooses.
    Any,
    /// The last CPU.
    Last,
    /// Two CPUs.
    Two,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Promise { slice, period, is_hard, on } = self;
        write!(f, "{slice} in {period}{}", if *is_hard { ", hard" } else { "" })?;
        match on {
            On::Any => Ok(()),
            On::Last => f.write_str(", on the last CPU"),
            On::Two => f.write_str(", on two CPUs"),
        }
    }
}

/// A `tactus run`.
#[derive(Debug)]
pub(crate) struct RunUnderTest {
    program: PathBuf,
    front_end: Child,
    said: File,
}

impl RunUnderTest {
    /// Starts `tactus run` with `promise` for `victim`, and with the options `fault` for fault injection.
    pub(crate) fn begin(program: &Path, victim: &Victim, promise: Promise, fault: &[&str]) -> Result<RunUnderTest> {
        let said = tempfile::tempfile()?;
        // This program starts the command with `become`, so that the command ends when the storm is killed.
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("become").arg(std::process::id().to_string()).arg(program);
        command.args(["run", "--period", &promise.period.to_string(), "--slice", &promise.slice.to_string()]);
        if promise.is_hard {
            command.arg("--hard");
        }
        command.args(fault);
        match promise.on {
            On::Any => {}
            On::Last => {
                let last = cpus::online()?.iter().last().context("there is a CPU")?;
                command.args(["--affinity", &last.index().to_string()]);
            }
            On::Two => drop(command.args(["--cpus", "2"])),
        }
        command.args(["--pid", &victim.pid().to_string()]);
        command.env(MARK, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?);
        let front_end = command.spawn().with_context(|| format!("cannot begin {command:?}"))?;
        let program = fs::canonicalize(program)?;
        Ok(RunUnderTest { program, front_end, said })
    }

    /// Returns the front end.
    pub(crate) fn front_end(&self) -> Result<Process> {
        Ok(Process::open(self.front_end.id())?)
    }

    /// Returns the core.
    pub(crate) fn core(&self) -> Result<Process> {
        Ok(Process::open(self.core_pid().context("there is no core")?)?)
    }

    fn core_pid(&self) -> Option<u32> {
        let children = thread::children(self.front_end.id()).unwrap_or_default();
        children.into_iter().find(|&pid| thread::status(pid).is_ok_and(|status| status.name == "tactus-core"))
    }

    /// Returns the tids of the run's agents.
    pub(crate) fn agents(&self) -> Vec<u32> {
        let all = self.core_pid().and_then(|core| thread::threads(core).ok()).unwrap_or_default();
        // Other threads of the core have the priority of the agents for a short time.
        let is_agent = |tid: u32| thread::status(tid).is_ok_and(|status| status.name.starts_with("tactus-agent-"));
        all.into_iter().filter(|&tid| is_agent(tid) && is_at(tid, AGENT)).collect()
    }

    /// Returns a guardian other than `before`; `None` if no other guardian exists.
    pub(crate) fn guardian(&self, before: Option<Identity>) -> Option<Identity> {
        // The table names the guardian that watches, and not one that stands by.
        let table = Directory::usual().ok()?.open_table().ok()??;
        let guardian = table.guardian().filter(|_| Some(table.daemon().tid) == self.core_pid())?;
        (Some(guardian) != before && is_at(guardian.tid, GUARDIAN)).then_some(guardian)
    }

    /// Returns the living processes that run the program under test and were started by this storm.
    fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_ours = |pid: &u32| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path == self.program)
                && fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|&byte| byte == 0).any(is_mark))
        };
        pids.filter(is_ours).collect()
    }

    /// Returns whether the front end has ended. An ended front end is reaped.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.front_end.try_wait().ok().flatten()
    }

    /// Waits for the end of all processes of the run. Returns the elapsed time.
    pub(crate) fn all_end_within(&mut self, limit: Nanos) -> Result<Nanos> {
        let ended = after(limit, || self.has_ended() && self.processes().is_empty());
        ended.with_context(|| format!("still there after {limit}:\n{}", self.states()))
    }

    /// Returns the state of each thread of the run, and where a thread that does not run waits in the kernel.
    pub(crate) fn states(&self) -> String {
        let mut lines = String::new();
        for pid in self.processes() {
            for tid in thread::threads(pid).unwrap_or_default() {
                let Ok(status) = thread::status(tid) else { continue };
                let stack = fs::read_to_string(format!("/proc/{tid}/stack")).unwrap_or_default();
                let calls = stack.lines().map(|line| line.trim_start_matches("[<0>] ")).collect::<Vec<_>>().join(" < ");
                let _ = writeln!(lines, "thread {tid} of {pid} ({}), {:?}: {calls}", status.name, status.state);
            }
        }
        lines
    }

    /// Returns the output of the run.
    pub(crate) fn said(&mut self) -> String {
        let mut text = String::new();
        let read = self.said.rewind().and_then(|()| self.said.read_to_string(&mut text));
        read.map_or_else(|error| format!("what it said cannot be read: {error}"), |_| text)
    }

    /// Waits until the promise is kept: agents and a guardian other than `before` exist, and `is_changed` returns true.
    pub(crate) fn wait_until_it_keeps(
        &mut self,
        before: Option<Identity>,
        limit: Nanos,
        is_changed: impl Fn() -> bool,
    ) -> Result<()> {
        let keeps = within(limit, || {
            let keeps = !self.agents().is_empty() && self.guardian(before).is_some() && is_changed();
            keeps || self.has_ended()
        });
        let how = match self.ended() {
            Some(status) => format!("it ended ({status})"),
            None if keeps => return Ok(()),
            None => format!("not within {limit}"),
        };
        bail!("tactus run does not keep its promise: {how}; it said:\n{}", self.said())
    }
}

impl Drop for RunUnderTest {
    fn drop(&mut self) {
        // Kill the guardians first: after a finding, a guardian would restore threads whose values must stay as found. The
        // core would do the same after the end of the front end. Ignore errors, because each process may have ended.
        let (core, mut all) = (self.core_pid(), self.processes());
        all.sort_by_key(|&pid| (pid == self.front_end.id(), Some(pid) == core));
        for pid in all {
            let _ = Process::open(pid).and_then(|process| process.kill());
        }
        // The front end may still be the program that becomes the front end.
        let _ = self.front_end.kill();
        let _ = self.front_end.wait();
    }
}

/// Environment variable that marks the processes that this storm started. Other processes of the same program do not
/// count.
const MARK: &str = "TACTUS_STORM";

fn is_mark(variable: &[u8]) -> bool {
    variable == format!("{MARK}={}", std::process::id()).as_bytes()
}

/// Returns whether a thread has this real-time priority.
fn is_at(tid: u32, priority: u32) -> bool {
    let found = attributes::get(tid).map(|Attributes { policy, .. }| policy);
    found.is_ok_and(|policy| policy == Policy::Fifo { priority })
}
