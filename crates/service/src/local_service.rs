//! [`LocalService`]: a service for the clients of one user.

use crate::events::Events;
use crate::managed_host::ManagedHost;
use crate::serving::{self, Listeners};
use daemon::Explanation;
use std::path::Path;
use std::sync::Arc;
use sys::local_socket::LocalListener;

/// A service that is ready to start: it listens at a socket to which its user and root may connect. It keeps nothing on
/// disk.
#[derive(Debug)]
pub struct LocalService {
    listener: LocalListener,
}

impl LocalService {
    /// Opens the socket.
    ///
    /// # Errors
    /// The socket cannot be created, or another process listens at it.
    pub fn open(socket: &Path) -> Result<LocalService, Explanation> {
        Ok(LocalService { listener: LocalListener::at(socket, 0o600, None)? })
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.listener.path()
    }

    /// Serves clients until `is_over` returns true. `begin` makes the managed host, on a thread of its own. The host
    /// reports its events to the value that `begin` receives.
    ///
    /// # Errors
    /// `begin` has failed, or the service has.
    pub fn serve<H: ManagedHost>(
        self,
        begin: impl FnOnce(Arc<Events>) -> Result<H, Explanation> + Send + 'static,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> Result<(), Explanation> {
        serving::serve(Listeners { local: self.listener, remote: None }, "simulated host", begin, is_over)
    }
}
