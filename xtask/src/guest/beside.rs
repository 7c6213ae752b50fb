//! What runs on the host beside a guest: commands of Tactus that have the guest's VM as their client, and hogs.

use crate::step::clock;
use procfs::process::Process;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Work on the host beside a guest. Returns what was wrong.
pub(crate) type Beside = fn(&Host<'_>) -> Result<(), String>;

/// What the work knows of the guest.
pub(crate) struct Host<'h> {
    /// Pid of the emulator.
    pub(crate) emulator: u32,
    pub(crate) output: &'h Output,
}

/// The lines that a guest has printed.
#[derive(Default)]
pub(crate) struct Output {
    lines: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

impl Output {
    pub(crate) fn add(&self, line: &str) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).0.push(line.to_string());
        self.changed.notify_all();
    }

    /// The guest has ended.
    pub(crate) fn end(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.changed.notify_all();
    }

    /// Returns the number of lines so far that begin with `begin`.
    pub(crate) fn count(&self, begin: &str) -> usize {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.0.iter().filter(|line| line.starts_with(begin)).count()
    }

    /// Waits until `count` lines begin with `begin`, and returns the rest of each.
    ///
    /// # Errors
    /// The guest ends before.
    pub(crate) fn wait(&self, begin: &str, count: usize) -> Result<Vec<String>, String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let found: Vec<String> =
                lines.0.iter().filter_map(|line| line.strip_prefix(begin)).map(str::to_string).collect();
            if found.len() >= count {
                return Ok(found);
            }
            if lines.1 {
                return Err(format!("the guest ended with {} of {count} lines of `{begin}`", found.len()));
            }
            lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Threads that always run, three for each CPU of the host. They end with this value or with the thread that started them.
pub(crate) struct Hogs(Vec<Child>);

impl Hogs {
    pub(crate) fn start() -> Result<Hogs, String> {
        let count = 3 * std::thread::available_parallelism().map_or(1, usize::from);
        let mut hogs = Hogs(Vec::new());
        for _ in 0..count {
            let mut hog = Command::new("setpriv");
            hog.args(["--pdeathsig", "KILL", "--", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            hogs.0.push(hog.spawn().map_err(|error| format!("cannot start a hog: {error}"))?);
        }
        Ok(hogs)
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(Child::id)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // It has not ended by itself.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Whether this process is root, which the commands of Tactus on a VM need.
pub(crate) fn is_root() -> bool {
    Process::myself().and_then(|me| me.uid()).is_ok_and(|uid| uid == 0)
}

/// Runs a command of `tactus`, and returns the JSON that it prints.
pub(crate) fn json(tactus: &Path, words: &[&str]) -> Result<Value, String> {
    let command = format!("tactus {}", words.join(" "));
    let begin = clock();
    let done = Command::new(tactus).args(words).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("cannot run {command}: {error}"))?;
    let took: Duration = begin.elapsed();
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{command} failed after {:.1} s: {said}", took.as_secs_f64()));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| format!("{command} printed no JSON: {error}"))
}
