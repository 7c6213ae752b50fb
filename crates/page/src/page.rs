//! [`Page`]: the way of a browser on this host to the service.

use crate::entrance::{self, Entrance};
use crate::forward::forward;
use crate::origin::same_origin;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use sched::Explanation;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two checks whether the page must end.
const CHECK: Duration = Duration::from_millis(200);

/// An address of this host at which one browser finds the page.
#[derive(Debug)]
pub struct Page {
    listener: TcpListener,
    address: SocketAddr,
    entrance: Arc<Entrance>,
    token: String,
    socket: PathBuf,
}

impl Page {
    /// Listens on 127.0.0.1 at `port`, or at a free port if it is 0, for the service with the Unix socket `socket`.
    ///
    /// # Errors
    /// Another program uses the port.
    pub fn open(socket: PathBuf, port: u16) -> Result<Page, Explanation> {
        let failed = |error: io::Error| {
            Explanation::new(format!("cannot listen at 127.0.0.1:{port}: {error}"), "use another port, or none")
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (entrance, token) = Entrance::new(address).map_err(failed)?;
        Ok(Page { listener, address, entrance, token, socket })
    }

    /// Returns the URL for the browser. It admits one browser, once.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// Answers the requests of the browser until `is_over` returns true.
    ///
    /// # Errors
    /// Connections cannot be accepted any more.
    pub fn serve(self, is_over: impl Fn() -> bool) -> io::Result<()> {
        let Page { listener, entrance, socket, .. } = self;
        let router = Router::new()
            .fallback(forward)
            .with_state(Arc::new(socket))
            .layer(from_fn(same_origin))
            .layer(from_fn_with_state(entrance, entrance::admit));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let over = async {
                while !is_over() {
                    tokio::time::sleep(CHECK).await;
                }
            };
            // Streams of events do not end by themselves: they end with the runtime.
            tokio::select! {
                served = axum::serve(listener, router).into_future() => served,
                () = over => Ok(()),
            }
        })
    }
}
