//! `tactus core`: the process that keeps promises, for the front end that has started it or as a resident core.

use crate::core_args::Core;
use crate::failure::explained;
use crate::output::{complain, print};
use crate::raising::Raising;
use crate::run::plan::directory;
use crate::run::terms::on_this_host;
use crate::scx;
use daemon::Explanation;
use daemon::directory::Directory;
use daemon::guardian::this_program;
use daemon::live::{
    COMMAND, CoreLocks, Entrance, HANDOVER_VERSION, Handover, Replacement, ResidentOptions, Setup, run_core,
    run_resident,
};
use daemon::terms::Terms;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::Builder;
use sys::event::Bell;

/// Runs the core. SIGTERM ends it in order.
pub(crate) fn run(args: &Core) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            complain(&format!("tactus core: {reason}"));
            ExitCode::from(2)
        }
    }
}

fn serve(args: &Core) -> Result<(), Explanation> {
    if args.handover_version {
        let failed = |error: anyhow::Error| Explanation::new(error.to_string(), "");
        return print(&format!("{HANDOVER_VERSION}\n")).map_err(failed);
    }
    match (args.descriptor, &args.listen) {
        (None, Some(socket)) => resident(args, socket),
        (descriptor, _) => {
            let end = Arc::new(Bell::new()?);
            let request = Arc::clone(&end);
            let handled = sys::process::heeding_nohup(|| ctrlc::set_handler(move || request.ring()));
            handled.map_err(|error| Explanation::new(error.to_string(), ""))?;
            run_core(descriptor.expect("one of the two is required"), policies::find, &end)
        }
    }
}

/// Runs a resident core that listens at `socket`, with every mechanism that works on this host. SIGHUP replaces it by the
/// program at its path.
fn resident(args: &Core, socket: &Path) -> Result<(), Explanation> {
    let program = own_path()?;
    let requests = Requests::heed()?;
    let directory = directory(args.directory.as_deref()).map_err(explained)?;
    // The socket may be in the directory.
    directory.create()?;
    let complain = |reason: &Explanation| complain(&format!("tactus core: {reason}"));
    let (entrance, locks, former) = match &args.handover {
        Some(passed) => {
            Handover::inherited(passed)?.open(args.user, &directory, (policies::find, this_program()), complain)?
        }
        None => {
            let entrance = Entrance::at(socket, args.user)?;
            (entrance, CoreLocks::acquire(&directory).map_err(|failure| failure.reason().clone())?, None)
        }
    };
    let setup = match &former {
        Some(former) => former.setup().clone(),
        None => usual_setup(&directory, args.sched_ext)?,
    };
    let Requests { end, replacement: request, is_ending } = &requests;
    let replacement = Replacement { request, is_ending, program, arguments: arguments_of(args, socket) };
    let (entrance, ready) = (&entrance, &service::manager::ready);
    let options = ResidentOptions { entrance, ready, replacement, complain: &complain, locks };
    run_resident(&setup, &options, former, end).map_err(|failure| failure.reason().clone())
}

/// Returns the path of this program, at which another file may take its place.
fn own_path() -> Result<PathBuf, Explanation> {
    let unreadable = |error: std::io::Error| Explanation::new(format!("cannot find this program: {error}"), "");
    let found = std::env::current_exe().map_err(unreadable)?.into_os_string().into_vec();
    // The mark of the kernel if another file has taken the place before the start (d_path, fs/d_path.c).
    let path = found.strip_suffix(b" (deleted)").unwrap_or(&found);
    Ok(OsStr::from_bytes(path).into())
}

/// Returns the parameters of a core with every mechanism that works on this host. `sched_ext`: a scheduler in the kernel dispatches
/// the promises.
fn usual_setup(directory: &Directory, sched_ext: bool) -> Result<Setup, Explanation> {
    let turns = on_this_host(Raising::Auto).map_err(explained)?;
    // Without SCHED_DEADLINE, all promises are kept by turns.
    let reservations = on_this_host(Raising::Deadline).ok();
    let scheduler = sched_ext.then(scx::scheduler).transpose().map_err(explained)?;
    let setup = Terms::setup([Some(&turns), reservations.as_ref()].into_iter().flatten(), directory.clone());
    Ok(Setup { scheduler, ..setup })
}

/// Requests by signals.
struct Requests {
    /// SIGINT and SIGTERM.
    end: Arc<Bell>,
    /// SIGHUP.
    replacement: Arc<Bell>,
    /// Whether SIGINT or SIGTERM has arrived. The bell rings a little later.
    is_ending: Arc<AtomicBool>,
}

impl Requests {
    /// Handles the signals from now on.
    fn heed() -> Result<Requests, Explanation> {
        let failed = |error: std::io::Error| Explanation::new(format!("cannot handle signals: {error}"), "");
        let (end, replacement) = (Arc::new(Bell::new()?), Arc::new(Bell::new()?));
        let is_ending = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&is_ending)).map_err(failed)?;
        }
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(failed)?;
        let bells = [Arc::clone(&end), Arc::clone(&replacement)];
        let heeding = move || signals.forever().for_each(|signal| bells[usize::from(signal == SIGHUP)].ring());
        Builder::new().name("tactus-signals".to_string()).spawn(heeding).map_err(failed)?;
        Ok(Requests { end, replacement, is_ending })
    }
}

/// Returns the arguments with which another program takes the place of this core.
fn arguments_of(args: &Core, socket: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec![COMMAND.into(), "--listen".into(), socket.into()];
    if let Some(user) = args.user {
        all.extend(["--user".into(), user.to_string().into()]);
    }
    if let Some(directory) = &args.directory {
        all.extend(["--directory".into(), directory.into()]);
    }
    all.extend(args.sched_ext.then(|| "--sched-ext".into()));
    all
}
