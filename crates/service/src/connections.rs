//! [`Connections`]: answers the requests of clients over Unix sockets and over TLS.
//!
//! A connection costs a file and some memory, so their number has limits, and a client that sends nothing for a while is
//! disconnected.

use crate::caller::Caller;
use crate::complaint::complain;
use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use certs::{Holder, ServerTls};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Maximum time for a TLS handshake, and for the head of a request, counted from the end of the request before.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of connections.
const MOST: u32 = 1_024;
/// Maximum number of connections of one caller. Each reader of events has one.
const MOST_OF_CALLER: usize = 256;
/// Maximum number of unfinished handshakes. Further connections are closed.
const MOST_HANDSHAKES: usize = 64;
/// Pause after an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// All connections of a service.
#[derive(Debug)]
pub(crate) struct Connections {
    router: Router,
    all: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    of_caller: Mutex<HashMap<Caller, usize>>,
    /// Whether the service ends.
    ends: watch::Receiver<bool>,
}

impl Connections {
    /// Returns the connections of a service with these routes. When `ends` becomes true, no further request is answered.
    pub(crate) fn new(router: Router, ends: watch::Receiver<bool>) -> Arc<Connections> {
        Arc::new(Connections {
            router,
            all: Arc::new(Semaphore::new(MOST as usize)),
            handshakes: Arc::new(Semaphore::new(MOST_HANDSHAKES)),
            of_caller: Mutex::default(),
            ends,
        })
    }

    /// Accepts clients of this host until the service ends.
    pub(crate) async fn accept_local(self: Arc<Connections>, listener: UnixListener) {
        while let Some(accepted) = self.unless_over(listener.accept()).await {
            let Some((stream, _)) = accepted else { continue };
            // Without credentials, no VM belongs to the caller.
            let user = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
            if let Some(room) = self.room() {
                tokio::spawn(Arc::clone(&self).serve(stream, Caller::Local(user), room));
            }
        }
    }

    /// Accepts clients with certificates until the service ends.
    pub(crate) async fn accept_remote(self: Arc<Connections>, listener: TcpListener, tls: ServerTls) {
        let mut has_complained = false;
        while let Some(accepted) = self.unless_over(listener.accept()).await {
            let Some((stream, _)) = accepted else { continue };
            let Ok(handshake) = Arc::clone(&self.handshakes).try_acquire_owned() else { continue };
            let Some(room) = self.room() else { continue };
            let config = match tls.config() {
                Ok(config) => config,
                Err(error) => {
                    if !std::mem::replace(&mut has_complained, true) {
                        complain(&format!("clients with certificates are refused: {error}"));
                    }
                    continue;
                }
            };
            has_complained = false;
            let connections = Arc::clone(&self);
            tokio::spawn(async move {
                let shaken = timeout(PATIENCE, shake_hands(TlsAcceptor::from(config), stream)).await;
                drop(handshake);
                // The client learns the reason from the alert of TLS.
                if let Ok(Ok((stream, holder))) = shaken {
                    connections.serve(stream, Caller::Remote(holder), room).await;
                }
            });
        }
    }

    /// Waits for a connection. Returns `None` when the service ends, and `Some(None)` after an error and a pause.
    async fn unless_over<S>(&self, accept: impl Future<Output = io::Result<S>>) -> Option<Option<S>> {
        tokio::select! {
            accepted = accept => {
                if accepted.is_err() {
                    sleep(PAUSE).await;
                }
                Some(accepted.ok())
            }
            () = self.end() => None,
        }
    }

    /// Waits until the service ends.
    async fn end(&self) {
        drop(self.ends.clone().wait_for(|ends| *ends).await);
    }

    /// Returns the right to one more connection.
    fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).try_acquire_owned().ok()
    }

    /// Answers the requests over a connection.
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
        self: Arc<Connections>,
        stream: S,
        caller: Caller,
        room: OwnedSemaphorePermit,
    ) {
        let Some(_counted) = Counted::new(&self, caller.clone()) else { return };
        let router = self.router.clone().layer(Extension(ConnectInfo(caller)));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => {}
            () = self.end() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
        drop(room);
    }

    /// Waits for the end of all connections, after the service ends.
    pub(crate) async fn ended(&self) {
        let _ = self.all.acquire_many(MOST).await;
    }
}

/// Accepts a TLS connection. Returns the client that its certificate names.
async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> io::Result<(tokio_rustls::server::TlsStream<TcpStream>, Holder)> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.ok_or(io::ErrorKind::PermissionDenied)?;
    let holder = Holder::of(certificate).map_err(io::Error::other)?;
    Ok((stream, holder))
}

/// A connection that is counted for its caller.
struct Counted<'c> {
    connections: &'c Connections,
    caller: Caller,
}

impl<'c> Counted<'c> {
    /// Counts a connection of `caller`; `None`: the caller has too many.
    fn new(connections: &'c Connections, caller: Caller) -> Option<Counted<'c>> {
        let mut all = connections.of_caller.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(caller.clone()).or_default();
        if *count >= MOST_OF_CALLER {
            return None;
        }
        *count += 1;
        Some(Counted { connections, caller })
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut all = self.connections.of_caller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.caller);
            }
        }
    }
}
