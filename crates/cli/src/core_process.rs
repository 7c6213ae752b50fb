//! `tactus core`: the process that keeps promises, for the front end that has started it or as a resident core.

use crate::args::Core;
use crate::failure::explained;
use crate::output::complain;
use crate::raising::Raising;
use crate::run::plan::directory;
use crate::run::terms::on_this_host;
use daemon::Explanation;
use daemon::live::{Entrance, run_core, run_resident};
use daemon::terms::Terms;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
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
    let end = Arc::new(Bell::new()?);
    let request = Arc::clone(&end);
    let handled = sys::process::heeding_nohup(|| ctrlc::set_handler(move || request.ring()));
    handled.map_err(|error| Explanation::new(error.to_string(), ""))?;
    match (args.descriptor, &args.listen) {
        (None, Some(socket)) => resident(args, socket, &end),
        (descriptor, _) => run_core(descriptor.expect("one of the two is required"), policies::find, &end),
    }
}

/// Runs a resident core that listens at `socket`, with every mechanism that works on this host.
fn resident(args: &Core, socket: &Path, end: &Bell) -> Result<(), Explanation> {
    let turns = on_this_host(Raising::Auto).map_err(explained)?;
    // Without SCHED_DEADLINE, all promises are kept by turns.
    let reservations = on_this_host(Raising::Deadline).ok();
    let directory = directory(args.directory.as_deref()).map_err(explained)?;
    let setup = Terms::setup([Some(&turns), reservations.as_ref()].into_iter().flatten(), directory.clone());
    // The socket may be in the directory.
    directory.create()?;
    let entrance = Entrance::at(socket, args.user)?;
    run_resident(&setup, &entrance, &service::manager::ready, end).map_err(|failure| failure.reason().clone())
}
