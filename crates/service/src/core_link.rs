//! [`CoreLink`]: the connection to the resident core, which is made again after every loss.

use crate::events::Events;
use api::Happened;
use daemon::live::Client;
use sched::{Instant, Nanos};
use std::path::{Path, PathBuf};

/// Pause between attempts to connect.
const RETRY: Nanos = Nanos::ms(100);

/// The connection to the resident core.
#[derive(Debug)]
pub(crate) struct CoreLink {
    socket: PathBuf,
    policy: fn(&str) -> Option<&'static sched::Descriptor>,
    client: Option<Client>,
    /// Reason why there is no connection.
    reason: String,
    /// Instant of the next attempt.
    next: Instant,
}

impl CoreLink {
    /// Returns a link to the core at `socket`. `policy` finds a policy by its name.
    pub(crate) fn new(socket: &Path, policy: fn(&str) -> Option<&'static sched::Descriptor>) -> CoreLink {
        let reason = "the service has not connected to its core yet".to_string();
        CoreLink { socket: socket.to_path_buf(), policy, client: None, reason, next: Instant::ZERO }
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
                Err(failure) => failure.reason().reason.to_string(),
            };
            let reason = Some(self.reason.clone());
            events.push(None, Happened::Core { is_connected: false, reason });
        }
        if self.client.is_some() || now < self.next {
            return false;
        }
        self.next = now.saturating_add(RETRY);
        match Client::attach(&self.socket, self.policy) {
            Ok(client) => {
                self.client = Some(client);
                events.push(None, Happened::Core { is_connected: true, reason: None });
                true
            }
            Err(failure) => {
                self.reason = failure.reason().reason.to_string();
                false
            }
        }
    }
}
