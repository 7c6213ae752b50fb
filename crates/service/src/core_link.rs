//! [`CoreLink`]: the connection to the resident core, which is made again after every loss.

use crate::events::Events;
use api::Happened;
use daemon::live::{Client, Failure};
use sched::{Instant, Nanos};
use std::path::{Path, PathBuf};
use sys::clock;

/// Range of the pause between attempts to connect. It doubles with each attempt that fails.
const RETRY: (Nanos, Nanos) = (Nanos::ms(100), Nanos::ms(500));

/// Reason why a service that only observes has no core.
const OBSERVES: &str = "the service only observes";

/// The connection to the resident core.
#[derive(Debug)]
pub(crate) struct CoreLink {
    /// Socket of the core. `None`: the service has no core, because it only observes.
    socket: Option<PathBuf>,
    policy: fn(&str) -> Option<&'static sched::Descriptor>,
    client: Option<Client>,
    /// Reason why there is no connection.
    reason: String,
    /// Instant of the next attempt. [`Instant::NEVER`]: another service has taken over the core.
    next: Instant,
    pause: Nanos,
}

impl CoreLink {
    /// Returns a link to the core at `socket`; `None`: there is no core. `policy` finds a policy by its name.
    pub(crate) fn new(socket: Option<&Path>, policy: fn(&str) -> Option<&'static sched::Descriptor>) -> CoreLink {
        let (socket, next) = (socket.map(Path::to_path_buf), Instant::ZERO);
        let reason = if socket.is_some() { "the service has not connected to its core yet" } else { OBSERVES };
        CoreLink { socket, policy, client: None, reason: reason.to_string(), next, pause: RETRY.0 }
    }

    /// Returns whether the service only observes.
    pub(crate) fn only_observes(&self) -> bool {
        self.socket.is_none()
    }

    /// Returns the core, if there is a connection.
    pub(crate) fn core(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Returns the reason why there is no connection.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Notices the loss of the connection, and connects if it is time to. Returns true after a new connection, and reports
    /// changes as events.
    pub(crate) fn look(&mut self, now: Instant, events: &Events) -> bool {
        if let Some(client) = self.client.take_if(|client| client.is_over()) {
            self.reason = match client.end() {
                Ok(()) => "the core has ended on request".to_string(),
                Err(failure) => {
                    if matches!(failure, Failure::Running(_)) {
                        self.next = Instant::NEVER;
                    }
                    failure.reason().reason.to_string()
                }
            };
            let reason = Some(self.reason.clone());
            events.push(None, Happened::Core { is_connected: false, reason });
        }
        if self.client.is_some() || now < self.next {
            return false;
        }
        let Some(socket) = &self.socket else { return false };
        match Client::attach(socket, self.policy) {
            Ok(client) => {
                self.client = Some(client);
                (self.next, self.pause) = (Instant::ZERO, RETRY.0);
                events.push(None, Happened::Core { is_connected: true, reason: None });
                true
            }
            Err(failure) => {
                self.reason = failure.reason().reason.to_string();
                self.next = clock::now().saturating_add(self.pause);
                self.pause = self.pause.saturating_add(self.pause).min(RETRY.1);
                false
            }
        }
    }
}
