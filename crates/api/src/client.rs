//! [`Client`]: requests to a service.

use crate::{Desired, Event, Host, Problem, Vm, Vms, WHY};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::blocking::{self, RequestBuilder, Response};
use reqwest::header::IF_MATCH;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

/// All characters but the unreserved ones of RFC 3986, section 2.3.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Maximum time for the reply to a request.
const REPLY: Duration = Duration::from_secs(40);

/// A client of a service on this host.
#[derive(Clone, Debug)]
pub struct Client {
    http: blocking::Client,
    /// Client without a limit of time, for events.
    following: blocking::Client,
    /// Name of the service in messages.
    name: String,
}

/// Reason why a request has no reply.
#[derive(Debug)]
pub enum Error {
    /// The service refuses the request.
    Refused(Problem),
    /// The service cannot be reached, or its reply cannot be understood.
    Failed {
        /// Name of the service.
        service: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(problem) => f.write_str(&problem.detail),
            Error::Failed { service, why } => write!(f, "cannot reach the service at {service}: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl Client {
    /// Returns a client of the service with the Unix socket `socket`. Connects with the first request.
    ///
    /// # Errors
    /// The client cannot be set up.
    pub fn at(socket: &Path) -> Result<Client, Error> {
        let name = socket.display().to_string();
        let set_up = |timeout: Option<Duration>| {
            let built = blocking::Client::builder().unix_socket(socket).timeout(timeout).no_proxy().build();
            built.map_err(|error| Error::Failed { service: name.clone(), why: reason(&error) })
        };
        Ok(Client { http: set_up(Some(REPLY))?, following: set_up(None)?, name: name.clone() })
    }

    /// Returns the host of the service.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn host(&self) -> Result<Host, Error> {
        self.read(self.http.get(url("host")))
    }

    /// Returns all VMs.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn list(&self) -> Result<Vms, Error> {
        self.read(self.http.get(url("vms")))
    }

    /// Returns the VM with this id, name or pid.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn show(&self, vm: &str) -> Result<Vm, Error> {
        self.read(self.http.get(of(vm, "")))
    }

    /// Sets the desired state of a VM, if it still has `generation`; `None`: whatever it has. `why` is for the audit log.
    /// Returns the VM.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set(&self, vm: &str, generation: Option<u64>, desired: &Desired, why: Option<&str>) -> Result<Vm, Error> {
        let mut request = self.http.put(of(vm, "/desired")).json(desired);
        if let Some(generation) = generation {
            request = request.header(IF_MATCH, format!("\"{generation}\""));
        }
        if let Some(why) = why {
            request = request.header(WHY, escaped(why));
        }
        self.read(request)
    }

    /// Calls `each` with the events after number `after`, as they happen; `None`: from now on. Ends when `each` returns
    /// false, or the service ends.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn follow(&self, after: Option<u64>, mut each: impl FnMut(Event) -> bool) -> Result<(), Error> {
        let mut request = self.following.get(url("events"));
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after.to_string());
        }
        let events = BufReader::new(self.send(request)?);
        for line in events.lines() {
            let line = line.map_err(|error| self.failed(error.to_string()))?;
            // The fields `id` and `event` repeat what the data has.
            let Some(data) = line.strip_prefix("data:") else { continue };
            let event = serde_json::from_str(data.trim()).map_err(|error| self.failed(error.to_string()))?;
            if !each(event) {
                break;
            }
        }
        Ok(())
    }

    fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let reply = request.send().map_err(|error| self.failed(reason(&error)))?;
        if reply.status().is_success() {
            return Ok(reply);
        }
        let status = reply.status();
        let text = reply.text().map_err(|error| self.failed(reason(&error)))?;
        Err(match serde_json::from_str(&text) {
            Ok(problem) => Error::Refused(problem),
            Err(_) => self.failed(format!("it replied {status}")),
        })
    }

    fn read<T: serde::de::DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        self.send(request)?.json().map_err(|error| self.failed(reason(&error)))
    }

    fn failed(&self, why: String) -> Error {
        Error::Failed { service: self.name.clone(), why }
    }
}

/// Returns the innermost reason of `error`: the outer ones repeat the URL.
fn reason(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

/// Returns the URL of `path`. The host of the URL is not used with a Unix socket.
fn url(path: &str) -> String {
    format!("http://tactus/v1/{path}")
}

/// Returns the URL of the VM `vm`, or of a part of it.
fn of(vm: &str, part: &str) -> String {
    url(&format!("vms/{}{part}", escaped(vm)))
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_the_url() {
        assert_eq!(of("a b/c?#é", "/desired"), "http://tactus/v1/vms/a%20b%2Fc%3F%23%C3%A9/desired");
        assert_eq!(of("pid:7", ""), "http://tactus/v1/vms/pid%3A7");
    }

    #[test]
    fn a_service_that_is_not_there_is_named_with_the_reason() {
        let place = std::env::temp_dir().join("tactus-no-such-socket");
        let error = Client::at(&place).unwrap().list().unwrap_err().to_string();
        assert!(error.contains("tactus-no-such-socket: No such file or directory"), "{error}");
    }
}
