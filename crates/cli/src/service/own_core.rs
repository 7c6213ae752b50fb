//! [`OwnCore`]: the resident core of a service that is not given one.

use crate::output::complain;
use daemon::Explanation;
use daemon::directory::Directory;
use daemon::guardian::this_program;
use sched::Nanos;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use sys::process::Process;
use sys::{clock, peer};

/// Interval between two checks of the core.
const CHECK: Nanos = Nanos::ms(50);
/// Pause before a core that has ended is started again.
const PAUSE: Nanos = Nanos::ms(500);
/// Maximum time for a core to end in order.
const END: Nanos = Nanos::s(10);

/// The resident core of a service without `--core`. A core that ends is started again. When the value is dropped, the core
/// restores all threads and ends. If this process is killed, the core stays, and the next service takes it over.
#[derive(Debug)]
pub(super) struct OwnCore {
    is_over: Arc<AtomicBool>,
    watch: Option<JoinHandle<()>>,
}

/// What a core is started with.
#[derive(Clone, Debug)]
struct Start {
    directory: Directory,
}

/// A running core.
struct Running {
    process: Process,
    /// The core as a child of this process, which must be reaped. `None`: an earlier service has started it.
    child: Option<Child>,
}

impl OwnCore {
    /// Takes over the core with its table in `directory`, or starts one.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn begin(directory: Directory) -> Result<OwnCore, Explanation> {
        let start = Start { directory };
        let core = match start.found() {
            Some(core) => core,
            None => start.spawn()?,
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_over);
        let watch = Some(spawn(move || keep_running(&start, core, &asked)));
        Ok(OwnCore { is_over, watch })
    }
}

impl Drop for OwnCore {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.watch.take().map(JoinHandle::join);
    }
}

impl Start {
    /// Returns the core that listens at the socket.
    fn found(&self) -> Option<Running> {
        let stream = UnixStream::connect(self.directory.socket()).ok()?;
        let process = Process::open(peer::of(&stream).ok()?.pid).ok()?;
        Some(Running { process, child: None })
    }

    fn spawn(&self) -> Result<Running, Explanation> {
        let mut command = Command::new(this_program());
        command.arg0("tactus").args(["core", "--listen"]).arg(self.directory.socket());
        command.arg("--directory").arg(self.directory.path());
        // An interrupt of the terminal is for the service, which ends the core afterwards.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        let failed =
            |error| Explanation::new(format!("cannot start the core: {error}"), "reduce the number of processes");
        let child = command.spawn().map_err(failed)?;
        // The child is not reaped yet, so its pid is not reused.
        Ok(Running { process: Process::open(child.id())?, child: Some(child) })
    }
}

/// Starts the core again whenever it ends, until `is_over`, and then ends it.
fn keep_running(start: &Start, first: Running, is_over: &AtomicBool) {
    let mut core = Some(first);
    while !is_over.load(Ordering::Acquire) {
        if core.as_ref().is_none_or(|core| core.process.has_ended()) {
            let status = core.take().and_then(|core| core.child?.wait().ok());
            complain(&status.map_or("the core has ended, and is started again".to_string(), |status| {
                format!("the core has ended ({status}), and is started again")
            }));
            clock::sleep(PAUSE);
            core = start.spawn().inspect_err(|reason| complain(&reason.to_string())).ok();
        }
        clock::sleep(CHECK);
    }
    let Some(core) = core else { return };
    let _ = core.process.terminate();
    if !core.process.ends_within(END) {
        let _ = core.process.kill();
    }
    core.child.map(|mut child| child.wait());
}
