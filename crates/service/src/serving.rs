//! [`serve`]: answers the requests of clients for a managed host.

use crate::connections::Connections;
use crate::events::Events;
use crate::managed_host::ManagedHost;
use crate::manager;
use crate::requests::{self, Requests};
use crate::routes::{self, Shared};
use certs::ServerTls;
use daemon::Explanation;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use sys::attributes;
use sys::local_socket::LocalListener;
use tokio::sync::{oneshot, watch};

/// Time for which requests are still answered when the service ends.
const GRACE: Duration = Duration::from_millis(500);
/// Interval between two checks whether the service must end.
const CHECK: Duration = Duration::from_millis(200);

/// The listeners of a service.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) local: LocalListener,
    pub(crate) remote: Option<(TcpListener, ServerTls)>,
}

/// Serves clients until `is_over` returns true. `begin` makes the managed host, on its thread with this `name`. The host
/// reports its events to the value that `begin` receives.
///
/// # Errors
/// `begin` has failed, or the service has.
pub(crate) fn serve<H: ManagedHost>(
    mut listeners: Listeners,
    name: &'static str,
    begin: impl FnOnce(Arc<Events>) -> Result<H, Explanation> + Send + 'static,
    is_over: impl Fn() -> bool + Send + 'static,
) -> Result<(), Explanation> {
    let failed = |what: &str, error: &io::Error| Explanation::new(format!("cannot {what}: {error}"), "");
    let events = Arc::new(Events::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("start the service", &error))?;
    let (requests, receiver) = requests::channel();
    let router = routes::router(Shared::new(requests.clone(), Arc::clone(&events)));
    let (alive, ended) = oneshot::channel::<()>();
    let working = std::thread::Builder::new().name(name.to_string()).spawn(move || -> Result<(), Explanation> {
        // Dropped at the end of the thread, also after a panic.
        let _alive = alive;
        let mut host = begin(events)?;
        requests::serve(&mut host, &receiver);
        Ok(())
    });
    let working = working.map_err(|error| failed("start a thread", &error))?;
    // A request is answered soon, also beside busy threads. A refusal costs only time.
    let _ = attributes::run_promptly();
    let served = runtime.block_on(answer(&mut listeners, router, requests, is_over, ended));
    // Readers of events may still be connected. The last requests end with the runtime, and then the host ends.
    drop(runtime);
    let worked = working.join();
    drop(listeners);
    let broken = |_| Explanation::new(format!("the {name} has failed"), "report this, with the output above");
    worked.map_err(broken)??;
    served.map_err(|error| failed("serve clients", &error))
}

/// Answers the requests of clients until `is_over` returns true, and the unfinished requests for [`GRACE`]. Ends at once if
/// the managed host has `ended`. Informs the service manager.
async fn answer(
    listeners: &mut Listeners,
    router: axum::Router,
    requests: Requests,
    is_over: impl Fn() -> bool,
    ended: oneshot::Receiver<()>,
) -> io::Result<()> {
    let (ending, ends) = watch::channel(false);
    let connections = Connections::new(router, ends);
    let local = tokio::net::UnixListener::from_std(listeners.local.handle()?)?;
    tokio::spawn(Arc::clone(&connections).accept_local(local));
    if let Some((listener, tls)) = listeners.remote.take() {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::spawn(Arc::clone(&connections).accept_remote(listener, tls));
    }
    let over = async {
        while !is_over() {
            tokio::time::sleep(CHECK).await;
        }
    };
    tokio::select! {
        () = over => {}
        _ = ended => return Ok(()),
        () = manager::keep_informed(requests) => {}
    }
    manager::stopping();
    ending.send_replace(true);
    let _ = tokio::time::timeout(GRACE, connections.ended()).await;
    Ok(())
}
