//! [`OwnCore`]: the resident core of a service that is not given one.

use crate::output::complain;
use daemon::Explanation;
use daemon::directory::Directory;
use daemon::guardian::this_program;
use sched::Nanos;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};
use sys::clock;
use sys::local_socket::peer;
use sys::process::Process;

/// Interval between two checks of the core.
const CHECK: Nanos = Nanos::ms(200);
/// Range of the pause before a core that has ended is started again. It doubles as long as each core ends soon.
const PAUSE: (Nanos, Nanos) = (Nanos::ms(250), Nanos::s(30));
/// Maximum time for a core to end in order.
const END: Nanos = Nanos::s(10);

/// The resident core of a service without `--core`. A core that ends is started again. If this process is killed, the core
/// stays, and the next service takes it over.
#[derive(Debug)]
pub(super) struct OwnCore {
    wish: Arc<Mutex<Wish>>,
    watch: JoinHandle<()>,
}

/// What is to happen with the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Run,
    End,
    Leave,
}

/// What a core is started with.
#[derive(Clone, Debug)]
struct Start {
    directory: Directory,
    /// Whether a scheduler in the kernel dispatches the promises.
    sched_ext: bool,
}

/// A running core.
struct Running {
    process: Process,
    /// The core as a child of this process, which must be reaped. `None`: an earlier service has started it.
    child: Option<Child>,
}

impl OwnCore {
    /// Takes over the core with its table in `directory`, or starts one. `sched_ext`: a scheduler in the kernel dispatches the
    /// promises of a core that is started.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn begin(directory: Directory, sched_ext: bool) -> Result<OwnCore, Explanation> {
        let start = Start { directory, sched_ext };
        let core = match start.found() {
            Some(core) => core,
            None => start.spawn()?,
        };
        let wish = Arc::new(Mutex::new(Wish::Run));
        let asked = Arc::clone(&wish);
        let watch = spawn(move || keep_running(&start, core, &asked));
        Ok(OwnCore { wish, watch })
    }

    /// Ends the core, which restores all threads.
    pub(super) fn end(self) {
        self.finish(Wish::End);
    }

    /// Leaves the core to the next service.
    pub(super) fn leave(self) {
        self.finish(Wish::Leave);
    }

    fn finish(self, wish: Wish) {
        *self.wish.lock().unwrap_or_else(PoisonError::into_inner) = wish;
        let _ = self.watch.join();
    }
}

impl Start {
    /// Returns the core that listens at the socket.
    fn found(&self) -> Option<Running> {
        let stream = UnixStream::connect(self.directory.socket()).ok()?;
        let process = Process::open(peer(&stream).ok()?.pid).ok()?;
        Some(Running { process, child: None })
    }

    fn spawn(&self) -> Result<Running, Explanation> {
        let mut command = Command::new(this_program());
        command.arg0("tactus").args(["core", "--listen"]).arg(self.directory.socket());
        command.arg("--directory").arg(self.directory.path());
        command.args(self.sched_ext.then_some("--sched-ext"));
        // The service manager knows the service alone.
        for variable in service::manager::VARIABLES {
            command.env_remove(variable);
        }
        // An interrupt of the terminal is for the service, which ends the core afterwards.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        let failed =
            |error| Explanation::new(format!("cannot start the core: {error}"), "reduce the number of processes");
        let child = command.spawn().map_err(failed)?;
        // The child is not reaped yet, so its pid is not reused.
        Ok(Running { process: Process::open(child.id())?, child: Some(child) })
    }
}

/// Starts the core again whenever it ends, as long as `wish` is to run it.
fn keep_running(start: &Start, first: Running, wish: &Mutex<Wish>) {
    let wish = || *wish.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut core, mut pause, mut began) = (Some(first), PAUSE.0, clock::now());
    while wish() == Wish::Run {
        if core.as_ref().is_none_or(|core| core.process.has_ended()) {
            let status = core.take().and_then(|core| core.child?.wait().ok());
            complain(&status.map_or("the core has ended, and is started again".to_string(), |status| {
                format!("the core has ended ({status}), and is started again")
            }));
            // A core that cannot start here ends at once.
            pause =
                if clock::now().since(began) > PAUSE.1 { PAUSE.0 } else { pause.saturating_add(pause).min(PAUSE.1) };
            let until = clock::now().saturating_add(pause);
            while wish() == Wish::Run && clock::now() < until {
                clock::sleep(CHECK);
            }
            began = clock::now();
            core = start.spawn().inspect_err(|reason| complain(&reason.to_string())).ok();
        }
        clock::sleep(CHECK);
    }
    let Some(core) = core.filter(|_| wish() == Wish::End) else { return };
    let _ = core.process.terminate();
    if !core.process.ends_within(END) {
        let _ = core.process.kill();
    }
    core.child.map(|mut child| child.wait());
}
