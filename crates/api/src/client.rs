//! [`Client`]: requests to a service.

use crate::{Caller, Desired, Event, Host, KEY, Observation, Problem, ThreadUsages, Usages, Vm, Vms, WHY};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::blocking::{self, ClientBuilder, RequestBuilder, Response};
use reqwest::header::IF_MATCH;
use rustls::ClientConfig;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader};
use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Duration;

/// All characters but the unreserved ones of RFC 3986, section 2.3.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Maximum time for the reply to a request.
const REPLY: Duration = Duration::from_secs(40);
/// Maximum time to connect to another host.
const CONNECT: Duration = Duration::from_secs(10);
/// Pauses before a change is requested again whose reply is lost, because the service ends meanwhile. A service manager
/// starts it again within this time.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// TCP port of the service, unless another one is named.
pub const PORT: u16 = 7430;

/// A client of a service on this host, or on another one.
#[derive(Clone, Debug)]
pub struct Client {
    http: blocking::Client,
    /// Client without a limit of time, for events.
    following: blocking::Client,
    /// URL of the interface.
    base: String,
    /// Name of the service in messages.
    name: String,
}

/// Reason why a request has no reply.
#[derive(Debug)]
pub enum Error {
    /// The service refuses the request.
    Refused(Problem),
    /// The certificates cannot be used: the reason and the remedy.
    Certificates(String, &'static str),
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
            Error::Certificates(why, _) => f.write_str(why),
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
        // The host of the URL is not used with a Unix socket.
        let (name, base) = (socket.display().to_string(), "http://tactus/v1".to_string());
        let tls = certs::client_without_tls().map_err(unusable)?;
        Client::set_up(name, base, tls, |builder| builder.unix_socket(socket))
    }

    /// Returns a client of the service at `host`, a name or an address with an optional port, with the certificates in the
    /// directory `certs`. Connects with the first request.
    ///
    /// # Errors
    /// A certificate is missing or cannot be used.
    pub fn remote(host: &str, certs: &Path) -> Result<Client, Error> {
        let tls = certs::client(certs).map_err(unusable)?;
        let authority = with_port(host);
        let base = format!("https://{authority}/v1");
        Client::set_up(authority, base, tls, |builder| builder.connect_timeout(CONNECT))
    }

    fn set_up(
        name: String,
        base: String,
        tls: ClientConfig,
        change: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Result<Client, Error> {
        let with = |timeout: Option<Duration>| {
            let builder = blocking::Client::builder().tls_backend_preconfigured(tls.clone()).no_proxy();
            let built = change(builder).timeout(timeout).build();
            built.map_err(|error| Error::Failed { service: name.clone(), why: reason(&error) })
        };
        let (http, following) = (with(Some(REPLY))?, with(None)?);
        Ok(Client { http, following, base, name })
    }

    /// Returns the client as the service knows it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn caller(&self) -> Result<Caller, Error> {
        self.read(self.http.get(self.url("caller")))
    }

    /// Returns the host of the service.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn host(&self) -> Result<Host, Error> {
        self.read(self.http.get(self.url("host")))
    }

    /// Returns all VMs.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn list(&self) -> Result<Vms, Error> {
        self.read(self.http.get(self.url("vms")))
    }

    /// Returns the VM with this id, name or pid.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn show(&self, vm: &str) -> Result<Vm, Error> {
        self.read(self.http.get(self.of(vm, "")))
    }

    /// Returns the CPU time of all VMs that run.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn usages(&self) -> Result<Usages, Error> {
        self.read(self.http.get(self.url("usage")))
    }

    /// Returns the CPU time of each thread of the VM with this id, name or pid.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn usage_of_threads(&self, vm: &str) -> Result<ThreadUsages, Error> {
        self.read(self.http.get(self.of(vm, "/usage")))
    }

    /// Observes the VM with this id, name or pid for `length`, and returns what its threads did.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn observe(&self, vm: &str, length: Duration) -> Result<Observation, Error> {
        self.read(self.http.get(self.of(vm, &format!("/observation?length_ms={}", length.as_millis()))))
    }

    /// Sets the desired state of a VM, if it still has `generation`; `None`: whatever it has. `why` is for the audit log.
    /// Returns the VM. If the connection ends before the reply, repeats the request; its key keeps the service from making
    /// the change twice.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set(&self, vm: &str, generation: Option<u64>, desired: &Desired, why: Option<&str>) -> Result<Vm, Error> {
        let mut request = if_match(self.http.put(self.of(vm, "/desired")).json(desired), generation);
        if let Some(why) = why {
            request = request.header(WHY, escaped(why));
        }
        self.read_repeatedly(request.header(KEY, new_key()))
    }

    /// Returns the VM as it would be after [`set`](Client::set). Nothing changes. A weight and a cap are checked for their values
    /// only.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn would_set(&self, vm: &str, generation: Option<u64>, desired: &Desired) -> Result<Vm, Error> {
        let request = self.http.put(self.of(vm, "/desired?dry-run=true")).json(desired);
        self.read(if_match(request, generation))
    }

    /// Calls `each` with the events after number `after`, as they happen; `None`: from now on. Ends when `each` returns
    /// false, or the service ends.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn follow(&self, after: Option<u64>, mut each: impl FnMut(Event) -> bool) -> Result<(), Error> {
        let mut request = self.following.get(self.url("events"));
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
        self.accepted(request.send())
    }

    /// Returns a reply that is no refusal.
    fn accepted(&self, reply: reqwest::Result<Response>) -> Result<Response, Error> {
        let reply = reply.map_err(|error| self.failed(reason(&error)))?;
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

    /// Sends a request again if the connection ends before the whole reply.
    fn read_repeatedly<T: serde::de::DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let read = |request: RequestBuilder| self.send_for_text(request);
        let mut outcome = match request.try_clone() {
            Some(first) => read(first),
            None => return self.read(request),
        };
        let mut is_lost = false;
        for pause in PAUSES {
            // A service that cannot be reached at all has made no change.
            is_lost |= matches!(&outcome, Err(Lost::Reply(error)) if !error.is_connect() && !error.is_timeout());
            let Some(again) = request.try_clone().filter(|_| is_lost && matches!(outcome, Err(Lost::Reply(_)))) else {
                break;
            };
            wait(pause);
            outcome = read(again);
        }
        let text = outcome.map_err(|lost| match lost {
            Lost::Reply(error) => self.failed(reason(&error)),
            Lost::Refused(error) => error,
        })?;
        serde_json::from_str(&text).map_err(|error| self.failed(error.to_string()))
    }

    /// Returns the whole reply.
    fn send_for_text(&self, request: RequestBuilder) -> Result<String, Lost> {
        let reply = request.send().map_err(Lost::Reply)?;
        let reply = self.accepted(Ok(reply)).map_err(Lost::Refused)?;
        reply.text().map_err(Lost::Reply)
    }

    fn read<T: serde::de::DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        self.send(request)?.json().map_err(|error| self.failed(reason(&error)))
    }

    /// Returns the URL of `path`.
    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    /// Returns the URL of the VM `vm`, or of a part of it.
    fn of(&self, vm: &str, part: &str) -> String {
        self.url(&format!("vms/{}{part}", escaped(vm)))
    }

    fn failed(&self, why: String) -> Error {
        Error::Failed { service: self.name.clone(), why }
    }
}

/// Reason why a reply has no content.
enum Lost {
    /// The reply did not arrive as a whole.
    Reply(reqwest::Error),
    /// The reply is a refusal.
    Refused(Error),
}

#[expect(clippy::disallowed_methods, reason = "a client of the service does not depend on the host")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// Returns a key that no other change has.
fn new_key() -> String {
    // The standard library has no random numbers other than the keys of a hash map.
    let chance = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", chance(), chance())
}

fn unusable(error: certs::Error) -> Error {
    Error::Certificates(error.to_string(), error.remedy())
}

/// Returns the innermost reason of `error`: the outer ones repeat the URL.
fn reason(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

/// Lets a request fail if the VM has another generation than `generation`.
fn if_match(request: RequestBuilder, generation: Option<u64>) -> RequestBuilder {
    match generation {
        Some(generation) => request.header(IF_MATCH, format!("\"{generation}\"")),
        None => request,
    }
}

/// Returns `host` with the usual port if it has none. An IPv6 address with a port is in brackets.
fn with_port(host: &str) -> String {
    let is_v6 = host.parse::<Ipv6Addr>().is_ok();
    match host.rsplit_once(':') {
        _ if is_v6 => format!("[{host}]:{PORT}"),
        Some((_, port)) if port.parse::<u16>().is_ok() => host.to_string(),
        _ => format!("{host}:{PORT}"),
    }
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_the_url() {
        let client = Client::at(Path::new("/nowhere")).unwrap();
        assert_eq!(client.of("a b/c?#é", "/desired"), "http://tactus/v1/vms/a%20b%2Fc%3F%23%C3%A9/desired");
        assert_eq!(client.of("pid:7", ""), "http://tactus/v1/vms/pid%3A7");
    }

    #[test]
    fn a_host_has_the_usual_port_unless_it_names_one() {
        for (host, with) in [
            ("host.example", "host.example:7430"),
            ("host.example:1", "host.example:1"),
            ("192.0.2.1", "192.0.2.1:7430"),
            ("2001:db8::1", "[2001:db8::1]:7430"),
            ("[2001:db8::1]", "[2001:db8::1]:7430"),
            ("[2001:db8::1]:1", "[2001:db8::1]:1"),
        ] {
            assert_eq!(with_port(host), with, "{host}");
        }
    }

    #[test]
    fn a_service_that_is_not_there_is_named_with_the_reason() {
        let place = std::env::temp_dir().join("tactus-no-such-socket");
        let error = Client::at(&place).unwrap().list().unwrap_err().to_string();
        assert!(error.contains("tactus-no-such-socket: No such file or directory"), "{error}");
    }
}
