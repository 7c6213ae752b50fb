//! [`KernelScheduler`]: a port of a policy that schedules all threads of this kernel during a live run.

use crate::failure::Failure;
use crate::scx;
use anyhow::{Context, anyhow};
use sched::Nanos;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use sys::clock;
use sys::kernel::{self, SchedExt};
use sys::process::Process;

/// Maximum time until the scheduler is loaded.
const LOADED: Nanos = Nanos::s(60);
/// Interval between two checks whether it is.
const LOOK: Nanos = Nanos::ms(5);
/// Maximum time until `tactus-scx` ends after a request.
const ENDED: Nanos = Nanos::s(10);

/// A running `tactus-scx`, which is killed when the value is dropped.
#[derive(Debug)]
pub(super) struct KernelScheduler {
    child: Child,
}

impl KernelScheduler {
    /// Loads the port of the policy `policy`, and waits until it schedules.
    ///
    /// # Errors
    /// The program `tactus-scx` is missing, this kernel has no sched_ext, or another scheduler is loaded.
    pub(super) fn start(policy: &str) -> Result<KernelScheduler, Failure> {
        match kernel::sched_ext() {
            SchedExt::Absent => return Err(anyhow!("this kernel has no sched_ext").into()),
            SchedExt::Loaded(name) => return Err(anyhow!("the scheduler {name} of sched_ext is loaded").into()),
            SchedExt::Vacant => {}
        }
        let mut command = Command::new(scx::scheduler()?);
        command.args(["--policy", policy, "--native", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut scheduler = KernelScheduler { child: command.spawn().context("cannot start tactus-scx")? };
        let end = clock::now().saturating_add(LOADED);
        while !kernel::is_sched_ext_enabled() {
            if scheduler.child.try_wait().context("cannot wait for tactus-scx")?.is_some() {
                return Err(scheduler.why_ended());
            }
            if clock::now() > end {
                return Err(anyhow!("tactus-scx has loaded no scheduler after {LOADED}").into());
            }
            clock::sleep(LOOK);
        }
        Ok(scheduler)
    }

    /// Ends the scheduler.
    ///
    /// # Errors
    /// It has ended before: the run was scheduled by the kernel for some time.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        let process = Process::open(self.child.id()).map_err(anyhow::Error::new)?;
        if self.child.try_wait().context("cannot wait for tactus-scx")?.is_some() {
            return Err(self.why_ended());
        }
        process.terminate().map_err(anyhow::Error::new)?;
        if !process.ends_within(ENDED) {
            return Err(anyhow!("tactus-scx does not end").into());
        }
        match self.child.wait().context("cannot wait for tactus-scx")?.success() {
            true => Ok(()),
            false => Err(self.why_ended()),
        }
    }

    fn why_ended(&mut self) -> Failure {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            // Without its last words, the error still says that it has ended.
            let _ = errors.read_to_string(&mut text);
        }
        anyhow!("tactus-scx has ended: {}", text.trim()).into()
    }
}

impl Drop for KernelScheduler {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
