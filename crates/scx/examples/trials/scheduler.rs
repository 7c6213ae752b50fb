//! [`Scheduler`]: a running `tactus-scx`.

use crate::Line;
use anyhow::{Context, Result, bail, ensure};
use sched::Nanos;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use sys::clock;
use sys::process::Process;

/// Maximum time until the scheduler is loaded.
const LOADED: Nanos = Nanos::s(30);
/// Maximum time until the program ends after a request.
const ENDED: Nanos = Nanos::s(5);

/// Returns whether a scheduler is loaded.
pub(crate) fn is_loaded() -> Result<bool> {
    let state = fs::read_to_string("/sys/kernel/sched_ext/state").context("this kernel has no sched_ext")?;
    Ok(state.trim() == "enabled")
}

/// Returns how many schedulers have been loaded since the boot.
pub(crate) fn loads() -> Result<u64> {
    let text = fs::read_to_string("/sys/kernel/sched_ext/enable_seq").context("this kernel has no sched_ext")?;
    Ok(text.trim().parse()?)
}

/// Waits until another scheduler is loaded than after `before` loads. Returns the time.
pub(crate) fn wait_for_load(before: u64) -> Result<Nanos> {
    let begin = clock::now();
    while loads()? == before || !is_loaded()? {
        ensure!(clock::now().since(begin) < LOADED, "no scheduler is loaded again");
        clock::sleep(Nanos::ms(5));
    }
    Ok(clock::now().since(begin))
}

/// Waits until the kernel schedules by itself. Returns the time; `None`: it took longer than `limit`.
pub(crate) fn scheduler_ends_within(limit: Nanos) -> Option<Nanos> {
    let begin = clock::now();
    loop {
        let passed = clock::now().since(begin);
        if fs::read_to_string("/sys/kernel/sched_ext/state").is_ok_and(|state| state.trim() == "disabled") {
            return Some(passed);
        }
        if passed > limit {
            return None;
        }
        clock::sleep(Nanos::ms(1));
    }
}

/// A program that is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Scheduler {
    child: Child,
    /// The lines of standard error that were not read yet.
    lines: Receiver<String>,
    /// Those that were.
    errors: String,
}

impl Scheduler {
    /// Starts the program, and waits until its scheduler is loaded.
    pub(crate) fn start(line: &Line, args: &[&str]) -> Result<Scheduler> {
        let mut command = Command::new(&line.tactus_scx);
        command.args(args).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start tactus-scx")?;
        let errors = child.stderr.take().context("it is piped")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            BufReader::new(errors).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut scheduler = Scheduler { child, lines, errors: String::new() };
        let end = clock::now().saturating_add(LOADED);
        while !is_loaded()? {
            if let Some(status) = scheduler.child.try_wait()? {
                bail!("{args:?} ended with {status}: {}", scheduler.errors());
            }
            ensure!(clock::now() < end, "{args:?} has loaded no scheduler");
            clock::sleep(Nanos::ms(5));
        }
        Ok(scheduler)
    }

    pub(crate) fn process(&self) -> Result<Process> {
        Ok(Process::open(self.child.id())?)
    }

    /// Requests the end of the program. Returns its summary.
    pub(crate) fn end(self) -> Result<Value> {
        self.end_within(ENDED).map(|(summary, _)| summary)
    }

    /// Requests the end of the program. Returns its summary, and what it has written on standard error.
    pub(crate) fn end_with_errors(self) -> Result<(Value, String)> {
        self.end_within(ENDED)
    }

    /// Does so for a program that may have to write a file before.
    pub(crate) fn end_within(mut self, most: Nanos) -> Result<(Value, String)> {
        let process = self.process()?;
        process.terminate()?;
        ensure!(process.ends_within(most), "the program does not end");
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}: {}", self.errors());
        let mut text = String::new();
        self.child.stdout.take().context("it has an output")?.read_to_string(&mut text)?;
        ensure!(scheduler_ends_within(ENDED).is_some(), "its scheduler is still loaded");
        let summary = serde_json::from_str(&text).with_context(|| format!("its output is no JSON: {text}"))?;
        Ok((summary, self.errors()))
    }

    /// Waits until the program has written `words` on standard error `count` times.
    pub(crate) fn wait_for_words(&mut self, words: &str, count: usize, most: Nanos) -> Result<()> {
        let end = clock::now().saturating_add(most);
        while self.errors.matches(words).count() < count {
            ensure!(clock::now() < end, "{words:?} was not written {count} times: {}", self.errors);
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => self.add(&line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the program has ended: {}", self.errors),
            }
        }
        Ok(())
    }

    fn add(&mut self, line: &str) {
        self.errors.push_str(line);
        self.errors.push('\n');
    }

    /// Returns what the program, which has ended, has written on standard error.
    fn errors(&mut self) -> String {
        while let Ok(line) = self.lines.recv() {
            self.add(&line);
        }
        std::mem::take(&mut self.errors)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A scheduler of another project, which is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
}

impl Peer {
    /// Starts the program, and waits until its scheduler is loaded.
    pub(crate) fn start(path: &Path) -> Result<Peer> {
        let mut command = Command::new(path);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut peer = Peer { child: child.with_context(|| format!("cannot start {}", path.display()))? };
        let end = clock::now().saturating_add(LOADED);
        while !is_loaded()? {
            if let Some(status) = peer.child.try_wait()? {
                bail!("{} ended with {status}", path.display());
            }
            ensure!(clock::now() < end, "{} has loaded no scheduler", path.display());
            clock::sleep(Nanos::ms(5));
        }
        Ok(peer)
    }

    /// Requests the end of the program.
    pub(crate) fn end(self) -> Result<()> {
        let process = Process::open(self.child.id())?;
        process.terminate()?;
        ensure!(process.ends_within(ENDED), "the program does not end");
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
