//! The processes under test. The storm changes no other processes.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use sched::Nanos;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use sys::clock;
use sys::process::Process;
use sys::thread::{self, State};

/// Maximum time to wait for the end of a killed victim.
const LAST: Nanos = Nanos::s(2);

/// The workload of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Always busy.
    Hog,
    /// Starts and ends threads.
    Threads,
    /// Starts and ends children; all have nice value 5.
    Children,
    /// Has nice value 5.
    Polite,
    /// Two threads of SCHED_BATCH.
    Batch,
    /// SCHED_FIFO 1.
    RealTime,
    /// Pinned to its last CPU.
    Pinned,
    /// Threads with different classes.
    Mixed,
    /// Sleeps, and is stopped by the storm.
    Waiting,
}

/// The program of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// This program, with this workload.
    Work(Kind),
    /// A virtual machine with this number of vCPUs.
    Vm(u32),
}

/// A victim.
#[derive(Debug)]
pub(crate) struct Victim {
    what: What,
    child: Child,
}

impl Victim {
    fn of(what: What, command: &mut Command) -> Result<Victim> {
        command.arg(std::process::id().to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot begin {command:?}"))?;
        Ok(Victim { what, child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the name of the victim in messages.
    pub(crate) fn name(&self) -> String {
        format!("{:?} (process {})", self.what, self.pid())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The victim may have ended. Its children end with the victim. A victim that a finding has left frozen does not
        // end.
        let _ = self.child.kill();
        within(LAST, || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)));
    }
}

/// One process for each workload.
#[derive(Debug)]
pub(crate) struct Victims(pub(crate) Vec<Victim>);

impl Victims {
    /// Starts the victims: virtual machines that are run by `micro_vm`, or one process for each workload. Returns once
    /// each victim is set up. If CPUs are removed, no victim is pinned, because Linux itself changes the affinity of a
    /// thread whose CPUs are all offline.
    pub(crate) fn gather(micro_vm: Option<&Path>, cpus_are_removed: bool) -> Result<Victims> {
        let mut victims = match micro_vm {
            Some(program) => [1, 2, 2].map(|vcpus| begin_vm(program, vcpus)).into_iter().collect::<Result<Vec<_>>>()?,
            None => {
                let kinds = Kind::value_variants().iter().filter(|&&kind| !cpus_are_removed || kind != Kind::Pinned);
                kinds.map(|&kind| begin(kind)).collect::<Result<Vec<_>>>()?
            }
        };
        for victim in &mut victims {
            let out = victim.child.stdout.take().context("it is piped")?;
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line)?;
            ensure!(line == "ready\n", "{} did not become what it was to be", victim.name());
            if victim.what == What::Work(Kind::Waiting) {
                Process::open(victim.pid())?.stop()?;
                let is_stopped = || thread::status(victim.pid()).is_ok_and(|status| status.state == State::Stopped);
                ensure!(within(Nanos::s(2), is_stopped), "{} was not stopped", victim.name());
            }
        }
        Ok(Victims(victims))
    }
}

fn begin(kind: Kind) -> Result<Victim> {
    let name = kind.to_possible_value().context("every kind has a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["work", name.get_name()]);
    Victim::of(What::Work(kind), &mut command)
}

fn begin_vm(program: &Path, vcpus: u32) -> Result<Victim> {
    Victim::of(What::Vm(vcpus), Command::new(program).arg(vcpus.to_string()))
}

/// Returns whether `is_so` returns true within `limit`.
pub(crate) fn within(limit: Nanos, is_so: impl FnMut() -> bool) -> bool {
    after(limit, is_so).is_some()
}

/// Polls `is_so` for up to `limit`. Returns the time until `is_so` returned true. The caller has a higher priority than
/// all ordinary threads, including those of a daemon. The pauses between the polls leave these threads three quarters
/// of the time.
pub(crate) fn after(limit: Nanos, mut is_so: impl FnMut() -> bool) -> Option<Nanos> {
    let begin = clock::now();
    loop {
        let asked = clock::now().saturating_since(begin);
        if is_so() {
            return Some(clock::now().saturating_since(begin));
        }
        if asked >= limit {
            return None;
        }
        let took = clock::now().saturating_since(begin).saturating_sub(asked);
        clock::sleep(took.saturating_mul(3).max(Nanos::ms(1)));
    }
}
