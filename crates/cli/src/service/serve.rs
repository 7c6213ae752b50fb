//! `tactus serve`: the service.

use super::own_core::OwnCore;
use super::places;
use crate::failure::{Failure, refused};
use crate::output;
use crate::run::plan;
use crate::service_args::Serve;
use anyhow::anyhow;
use service::{Options, Service};

/// Serves clients until this process is interrupted.
pub(crate) fn serve(args: &Serve) -> Result<(), Failure> {
    let in_order = output::end_in_order();
    let socket = places::socket(args.socket.as_deref())?;
    let state = places::state(args.state.as_deref())?;
    let remote = args.listen.map(|address| (address, args.certs.clone()));
    let labels = places::labels(args.labels.as_deref());
    let libvirt = places::libvirt(args.libvirt.as_deref())?;
    let options = Options { socket: socket.clone(), state, labels, libvirt, remote, user_quota: args.user_quota };
    // Before a core starts or changes hands, this service must be able to serve.
    let service = Service::open(options).map_err(|reason| refused(&reason))?;
    let directory = plan::directory(args.directory.as_deref())?;
    let core = args.core.clone().unwrap_or_else(|| directory.socket());
    let own = args.core.is_none().then(|| OwnCore::begin(directory));
    let own = own.transpose().map_err(|reason| refused(&reason))?;
    let remote = service.remote().map_or(String::new(), |address| format!(" and {address}"));
    output::complain(&format!("serving at {}{remote}; `tactus list` shows the VMs", socket.display()));
    let served = service.serve(&core, policies::find, output::is_interrupted);
    match own {
        Some(own) if served.is_ok() => own.end(),
        // The next service takes over the core, which keeps its promises.
        Some(own) => own.leave(),
        None => {}
    }
    drop(in_order);
    served.map_err(|reason| Failure::Failed(anyhow!("{reason}")))
}
