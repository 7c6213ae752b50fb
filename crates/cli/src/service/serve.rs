//! `tactus serve`: the service.

use super::own_core::OwnCore;
use super::places;
use super::settings::Settings;
use crate::failure::{Failure, refused};
use crate::output;
use crate::run::plan;
use crate::service_args::Serve;
use anyhow::anyhow;
use service::{Options, Service};

/// Serves clients until this process is interrupted.
pub(crate) fn serve(args: &Serve) -> Result<(), Failure> {
    let in_order = output::end_in_order();
    let settings = Settings::of(args)?;
    let socket = places::socket(settings.socket.as_deref())?;
    let state = places::state(settings.state.as_deref())?;
    let remote = settings.listen.map(|address| (address, places::certs_of_service(settings.certs.as_deref())));
    let labels = places::labels(settings.labels.as_deref());
    let libvirt = places::libvirt(settings.libvirt.as_deref());
    let options = Options { socket, state, labels, libvirt, remote, user_quota: settings.user_quota.unwrap_or(0) };
    // Before a core starts or changes hands, this service must be able to serve.
    let service = Service::open(options).map_err(|reason| refused(&reason))?;
    let (core, own) = match settings.core {
        Some(core) => (Some(core), None),
        None if settings.observe => (None, None),
        None => {
            let directory = plan::directory(settings.directory.as_deref())?;
            let core = directory.socket();
            (Some(core), Some(OwnCore::begin(directory, settings.sched_ext).map_err(|reason| refused(&reason))?))
        }
    };
    let remote = service.remote().map_or(String::new(), |address| format!(" and {address}"));
    output::complain(&format!("serving at {}{remote}; `tactus list` shows the VMs", service.socket().display()));
    let served = service.serve(core.as_deref(), policies::find, output::is_interrupted);
    match own {
        Some(own) if served.is_ok() => own.end(),
        // The next service takes over the core, which keeps its promises.
        Some(own) => own.leave(),
        None => {}
    }
    drop(in_order);
    served.map_err(|reason| Failure::Failed(anyhow!("{reason}")))
}
