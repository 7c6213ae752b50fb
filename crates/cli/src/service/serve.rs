//! `tactus serve`: the service.

use super::own_core::OwnCore;
use super::places;
use crate::failure::{Failure, refused};
use crate::output;
use crate::run::plan;
use crate::service_args::Serve;
use service::Options;

/// Serves clients until this process is interrupted.
pub(crate) fn serve(args: &Serve) -> Result<(), Failure> {
    let in_order = output::end_in_order();
    let socket = places::socket(args.socket.as_deref())?;
    let state = places::state(args.state.as_deref())?;
    let directory = plan::directory(args.directory.as_deref())?;
    let core = args.core.clone().unwrap_or_else(|| directory.socket());
    let own = args.core.is_none().then(|| OwnCore::begin(directory));
    let own = own.transpose().map_err(|reason| refused(&reason))?;
    let ready = || output::complain(&format!("serving at {}; `tactus list` shows the VMs", socket.display()));
    let options = Options { core, socket: socket.clone(), state, policy: policies::find };
    let served = service::serve(&options, ready, output::is_interrupted);
    drop(own);
    drop(in_order);
    served.map_err(|reason| refused(&reason))
}
