//! The service of an operator: the front end of a resident core.
//!
//! ```text
//!   clients ──REST, events──▶ routes ──requests──▶ reconciler ──commands──▶ resident core
//!                               ▲                   │   │   ▲
//!                               └──────events───────┘   │   └── inventory: the VMs of /proc
//!                                                       ├────── store: the desired states on disk
//!                                                       └────── carried: the desired states of label files and of libvirt
//! ```
//!
//! The routes run on one thread of an asynchronous runtime, and the reconciler on a thread of its own. The
//! reconciler alone changes the store and talks to the core. What a client sets is acknowledged when it is on disk and, if
//! the VM runs, in force.
//!
//! The routes know the reconciler as a [`ManagedHost`]. [`LocalService`] serves any other managed host, such as a simulated
//! host.

mod audit;
mod bursts;
mod caller;
mod carried;
mod complaint;
mod connections;
mod core_link;
mod cpu_history;
mod demand;
mod enforced;
mod events;
mod hint_port;
mod history;
mod host_switches;
mod inventory;
pub mod late_wake_ups;
mod live;
mod local_service;
mod managed_host;
pub mod manager;
mod metrics;
mod monitors;
mod observation;
mod permission;
mod qmp;
mod recognition;
mod reconciler;
mod requests;
mod routes;
mod serving;
mod standing;
mod store;
mod terms;
mod thread_names;
mod timeline;
mod usage;

pub use bursts::Bursts;
pub use caller::Caller;
pub use events::{After, Events, now_ms};
pub use hint_port::{HintPort, ObservedVm};
pub use history::Recorded;
pub use local_service::LocalService;
pub use managed_host::{ChangeRequest, ManagedHost, PerCpu, Reading};
pub use terms::{check as check_values, host_policy};

use audit::Audit;
use carried::Carried;
use certs::ServerTls;
use core_link::CoreLink;
use daemon::Explanation;
use reconciler::Reconciler;
use serving::Listeners;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use store::Store;
use sys::attributes;
use sys::local_socket::LocalListener;

/// Parameters of the service.
#[derive(Clone, Debug)]
pub struct Options {
    /// Unix socket for clients. Every user may connect; the kernel reports the user of each connection. A socket of the
    /// service manager takes its place (`sd_listen_fds(3)`).
    pub socket: PathBuf,
    /// Directory of the desired states and the audit log.
    pub state: PathBuf,
    /// Directory of the label files, which need not exist.
    pub labels: PathBuf,
    /// Directory of libvirt's status files, which need not exist.
    pub libvirt: PathBuf,
    /// Address for clients with certificates, and the directory of the certificates; `None`: only clients of this host.
    pub remote: Option<(SocketAddr, PathBuf)>,
    /// Part of a CPU that users other than root may promise to their own VMs, for each user. Unit: percent.
    pub user_quota: u32,
}

/// A service that is ready to start: it listens, and no other service uses its directory.
#[derive(Debug)]
pub struct Service {
    options: Options,
    store: Store,
    audit: Audit,
    listeners: Listeners,
}

impl Service {
    /// Opens the directory and the socket.
    ///
    /// # Errors
    /// The directory or the socket cannot be used, another service uses them, or the desired states are damaged.
    pub fn open(options: Options) -> Result<Service, Explanation> {
        let store = Store::open(&options.state)?;
        let audit = Audit::open(&options.state)?;
        let remote = options.remote.as_ref().map(|(address, certs)| listen(*address, certs)).transpose()?;
        let local = match manager::socket()? {
            Some(socket) => socket,
            None => LocalListener::at(&options.socket, 0o666, None).map_err(|error| match error {
                sys::Error::Absent { .. } => {
                    let why = format!("another service listens at {}", options.socket.display());
                    Explanation::new(why, "end it, or use --socket with another path")
                }
                other => other.into(),
            })?,
        };
        Ok(Service { options, store, audit, listeners: Listeners { local, remote } })
    }

    /// Returns the address for clients with certificates, with the port that was chosen for port 0.
    #[must_use]
    pub fn remote(&self) -> Option<SocketAddr> {
        self.listeners.remote.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// Returns the path of the socket for clients.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.listeners.local.path()
    }

    /// Serves clients until `is_over` returns true. `core` is the socket of the resident core; without a core, the service
    /// only observes. `policy` finds a scheduling policy by its name.
    ///
    /// # Errors
    /// The service has failed.
    pub fn serve(
        self,
        core: Option<&Path>,
        policy: fn(&str) -> Option<&'static sched::Descriptor>,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> Result<(), Explanation> {
        let Service { options, store, audit, listeners } = self;
        // Each VM and each connection has a file. If the limit stays low, connections are refused.
        let _ = sys::privileges::raise_file_limit();
        let link = CoreLink::new(core, policy);
        let boot = sys::kernel::boot_id()?;
        let carried = Carried::new(&options.labels, &options.libvirt);
        let begin = move |events| {
            // A request is answered soon, also beside busy threads. A refusal costs only time.
            let _ = attributes::run_promptly();
            Ok(Reconciler::new(link, carried, store, audit, events, boot, options.user_quota))
        };
        serving::serve(listeners, "reconciler", begin, is_over)
    }
}

/// Listens at `address` for clients with certificates of the authority in the directory `certs`.
fn listen(address: SocketAddr, certs: &Path) -> Result<(TcpListener, ServerTls), Explanation> {
    let tls = ServerTls::open(certs).map_err(|error| Explanation::new(error.to_string(), error.remedy()))?;
    let listener = TcpListener::bind(address).map_err(|error| {
        Explanation::new(format!("cannot listen at {address}: {error}"), "use --listen with another address")
    })?;
    Ok((listener, tls))
}
