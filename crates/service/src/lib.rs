//! The service of an operator: the front end of a resident core.
//!
//! ```text
//!   clients ──REST, events──▶ routes ──requests──▶ reconciler ──commands──▶ resident core
//!                               ▲                   │   │   ▲
//!                               └──────events───────┘   │   └── inventory: the VMs of /proc
//!                                                       └────── store: the desired states on disk
//! ```
//!
//! The routes run on one thread of an asynchronous runtime, and the reconciler on a thread of its own. The
//! reconciler alone changes the store and talks to the core. What a client sets is acknowledged when it is on disk and, if
//! the VM runs, in force.

mod audit;
mod caller;
mod complaint;
mod core_link;
mod enforced;
mod events;
mod inventory;
mod metrics;
mod reconciler;
mod requests;
mod routes;
mod store;
mod terms;

use audit::Audit;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use caller::Caller;
use core_link::CoreLink;
use daemon::Explanation;
use events::Events;
use reconciler::Reconciler;
use routes::Shared;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use sys::local_socket::LocalListener;
use tokio::sync::{oneshot, watch};

/// Time for which requests are still answered when the service ends.
const GRACE: Duration = Duration::from_millis(500);
/// Interval between two checks whether the service must end.
const CHECK: Duration = Duration::from_millis(50);

/// Parameters of the service.
#[derive(Clone, Debug)]
pub struct Options {
    /// Unix socket for clients. Every user may connect; the kernel reports the user of each connection.
    pub socket: PathBuf,
    /// Directory of the desired states and the audit log.
    pub state: PathBuf,
    /// Part of a CPU that users other than root may promise to their own VMs, for each user. Unit: percent.
    pub user_quota: u32,
}

/// A service that is ready to start: it listens, and no other service uses its directory.
#[derive(Debug)]
pub struct Service {
    options: Options,
    store: Store,
    audit: Audit,
    listener: LocalListener,
}

impl Service {
    /// Opens the directory and the socket.
    ///
    /// # Errors
    /// The directory or the socket cannot be used, another service uses them, or the desired states are damaged.
    pub fn open(options: Options) -> Result<Service, Explanation> {
        let store = Store::open(&options.state)?;
        let audit = Audit::open(&options.state)?;
        let listener = LocalListener::at(&options.socket, 0o666, None).map_err(|error| match error {
            sys::Error::Absent { .. } => {
                let why = format!("another service listens at {}", options.socket.display());
                Explanation::new(why, "end it, or use --socket with another path")
            }
            other => other.into(),
        })?;
        Ok(Service { options, store, audit, listener })
    }

    /// Serves clients until `is_over` returns true. `core` is the socket of the resident core, and `policy` finds a
    /// scheduling policy by its name.
    ///
    /// # Errors
    /// The service has failed.
    pub fn serve(
        self,
        core: &Path,
        policy: fn(&str) -> Option<&'static sched::Descriptor>,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> Result<(), Explanation> {
        let Service { options, store, audit, listener } = self;
        let failed = |what: &str, error: &io::Error| Explanation::new(format!("cannot {what}: {error}"), "");
        // Each VM and each connection has a file. If the limit stays low, connections are refused.
        let _ = sys::privileges::raise_file_limit();
        let events = Arc::new(Events::new());
        let link = CoreLink::new(core, policy);
        let boot = sys::kernel::boot_id()?;
        let mut reconciler = Reconciler::new(link, store, audit, Arc::clone(&events), boot, options.user_quota);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed("start the service", &error))?;
        let (requests, receiver) = requests::channel();
        let router = routes::router(Shared { requests, events });
        let (alive, ended) = oneshot::channel::<()>();
        let reconciling = std::thread::Builder::new().name("reconciler".to_string());
        let reconciling = reconciling.spawn(move || {
            // Dropped at the end of the thread, also after a panic.
            let _alive = alive;
            requests::serve(&mut reconciler, &receiver);
        });
        let reconciling = reconciling.map_err(|error| failed("start a thread", &error))?;
        let served = runtime.block_on(async {
            let listener = tokio::net::UnixListener::from_std(listener.handle()?)?;
            answer(listener, router, is_over, ended).await
        });
        // Readers of events may still be connected. The last requests end with the runtime, and then the reconciler ends.
        drop(runtime);
        let reconciled = reconciling.join();
        drop(listener);
        let broken = || Explanation::new("the reconciler has failed", "report this, with the output above");
        reconciled.map_err(|_| broken())?;
        served.map_err(|error| failed("serve clients", &error))
    }
}

/// Answers the requests of clients until `is_over` returns true, and the unfinished requests for [`GRACE`]. Ends at once if
/// the reconciler has `ended`.
async fn answer(
    listener: tokio::net::UnixListener,
    router: axum::Router,
    is_over: impl Fn() -> bool + Send + 'static,
    ended: oneshot::Receiver<()>,
) -> io::Result<()> {
    let (ending, mut ends) = watch::channel(false);
    let signal = async move {
        while !is_over() {
            tokio::time::sleep(CHECK).await;
        }
        ending.send_replace(true);
    };
    let service = router.into_make_service_with_connect_info::<Caller>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(signal);
    let out_of_time = async {
        let _ = ends.wait_for(|ends| *ends).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = serving.into_future() => served,
        () = out_of_time => Ok(()),
        _ = ended => Ok(()),
    }
}

impl Connected<IncomingStream<'_, tokio::net::UnixListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, tokio::net::UnixListener>) -> Caller {
        // A connection without credentials may change nothing: no VM belongs to this user.
        let user = stream.io().peer_cred().map_or(u32::MAX, |peer| peer.uid());
        Caller { user }
    }
}
