//! Clients with certificates, and connections that send nothing or too much. The service has no core, so nothing is in force.

use super::{Done, Place};
use sched::Nanos;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use sys::clock;

/// A service with an authority, and clients `view`, `operate` and `admin`.
pub(super) struct Service {
    pub(super) place: Place,
    process: Child,
    /// Address of the service for clients with certificates.
    pub(super) address: String,
    /// Passwords of the files for browsers, by client.
    pub(super) passwords: BTreeMap<&'static str, String>,
}

impl Service {
    pub(super) fn begin() -> Service {
        let place = Place::new();
        done(&place, &["certs", "init", "--certs", "service", "--name", "localhost", "--name", "127.0.0.1"]);
        let issue = |role| {
            let said = done(&place, &["certs", "issue", role, "--role", role, "--certs", "service"]);
            (role, said.trim().rsplit(' ').next().unwrap().to_string())
        };
        let passwords = ["view", "operate", "admin"].map(issue).into();
        Service::at(place, passwords)
    }

    /// Starts another service with the directory of one that has ended.
    fn again(mut self) -> Service {
        Service::at(std::mem::replace(&mut self.place, Place::new()), std::mem::take(&mut self.passwords))
    }

    fn at(place: Place, passwords: BTreeMap<&'static str, String>) -> Service {
        let serve = ["serve", "--core", "none.sock", "--socket", "api.sock", "--state", "state"];
        let mut command = place.command(&[&serve[..], &["--listen", "127.0.0.1:0", "--certs", "service"]].concat());
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        let (_, rest) = said.split_once(" and ").unwrap_or_else(|| panic!("it said {said}"));
        let address = rest.split(';').next().unwrap().to_string();
        Service { place, process, address, passwords }
    }

    /// Runs a command of a remote client.
    fn client(&self, role: &str, args: &[&str]) -> Done {
        self.place.run(&[args, &["--host", &self.address, "--certs", role]].concat())
    }

    /// Returns the status and the body of curl's request with the certificate of `role`; the error of curl instead.
    fn curl(&self, role: &str, args: &[&str], path: &str) -> Result<(u16, String), String> {
        let of_role = |file: &str| self.place.0.path().join(role).join(file);
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--write-out", "\n%{http_code}", "--cacert"]);
        command.arg(of_role("authority.pem")).arg("--cert").arg(of_role("client.pem"));
        command.arg("--key").arg(of_role("client.key"));
        let done = command.args(args).arg(format!("https://{}{path}", self.address)).output().expect("curl is missing");
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        let text = String::from_utf8(done.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        Ok((status.parse().unwrap(), body.to_string()))
    }

    fn local(&self) -> UnixStream {
        let stream = UnixStream::connect(self.place.0.path().join("api.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Returns the time that a client of this host waits for a list of the VMs.
    fn time_of_list(&self) -> Nanos {
        let begin = clock::now();
        let mut stream = self.local();
        stream.write_all(b"GET /v1/vms HTTP/1.1\r\nhost: tactus\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        clock::now().saturating_since(begin)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command that succeeds.
fn done(place: &Place, args: &[&str]) -> String {
    let done = place.run(args);
    assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
    done.stdout
}

const UUID: &str = "5c3d2f0e-0f5e-4c0c-8f5e-3a1f0c1d2e3f";

pub(super) fn until(mut is_so: impl FnMut() -> bool) {
    let end = clock::now() + Nanos::s(10);
    while !is_so() {
        assert!(clock::now() < end, "not within 10 s");
        clock::sleep(Nanos::ms(10));
    }
}

/// A process with the command line of a VM.
pub(super) struct FakeVm(Child);

impl FakeVm {
    pub(super) fn start(name: &str) -> FakeVm {
        FakeVm::start_with(name, &[])
    }

    /// Starts a VM with further arguments. The name `-` is none.
    fn start_with(name: &str, further: &[&str]) -> FakeVm {
        let mut shell = Command::new("sh");
        shell.arg0("qemu-system-x86_64").args(["-c", "read line", "sh"]).args(further);
        if name != "-" {
            shell.args(["-name", name]);
        }
        FakeVm(shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for FakeVm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_role_of_a_certificate_says_what_its_client_may_change() {
    let service = Service::begin();
    let vm = FakeVm::start("remote-vm");
    let process = format!("pid:{}", std::process::id());
    for role in ["view", "operate", "admin"] {
        let (status, body) = service.curl(role, &[], "/v1/caller").unwrap();
        let caller: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &caller["name"], &caller["role"]), (200, &format!("cert:{role}").into(), &role.into()));
        assert_eq!(service.client(role, &["list"]).code, Some(0));
    }
    let set = |role: &str, vm: &str| service.client(role, &["set", vm, "--slice", "1ms", "--period", "20ms", "--json"]);
    for (role, what, is_permitted) in [
        ("view", "remote-vm", false),
        ("operate", "remote-vm", true),
        ("view", &process, false),
        ("operate", &process, false),
        ("admin", &process, true),
    ] {
        let done = set(role, what);
        let expected = if is_permitted { 0 } else { 2 };
        assert_eq!(done.code, Some(expected), "{role} {what}: {}{}", done.stdout, done.stderr);
        assert!(is_permitted || done.stderr.contains("may"), "{}", done.stderr);
    }
    let audit = String::from_utf8(service.place.read("state/audit.jsonl")).unwrap();
    let by: Vec<String> =
        audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["by"].to_string()).collect();
    assert_eq!(by, ["view", "operate", "view", "operate", "admin"].map(|name| format!("\"cert:{name}\"")));
    drop(vm);
}

#[test]
fn other_certificates_and_older_protocols_are_refused() {
    let (service, other) = (Service::begin(), Place::new());
    done(&other, &["certs", "init", "--certs", "service", "--name", "localhost"]);
    let out = service.place.0.path().join("foreign").display().to_string();
    done(&other, &["certs", "issue", "eve", "--role", "admin", "--certs", "service", "--out", &out]);
    std::fs::copy(service.place.0.path().join("service/authority.pem"), format!("{out}/authority.pem")).unwrap();
    // OpenSSL makes a certificate that ended a day ago.
    let script = "mkdir expired && cp service/authority.pem expired/ && openssl req -new -newkey ec \
        -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout expired/client.key -subj /OU=admin/CN=eve -out request && echo extendedKeyUsage=clientAuth >usage && \
        openssl x509 -req -in request -CA service/authority.pem -CAkey service/authority.key -days -1 -extfile usage -out expired/client.pem";
    let openssl = Command::new("sh").args(["-ec", script]).current_dir(service.place.0.path()).output().unwrap();
    assert!(openssl.status.success(), "{}", String::from_utf8_lossy(&openssl.stderr));
    done(&service.place, &["certs", "issue", "former", "--role", "admin", "--certs", "service"]);
    assert!(service.curl("former", &[], "/v1/vms").is_ok());
    done(&service.place, &["certs", "revoke", "former", "--certs", "service"]);
    for (role, args, word) in [
        ("foreign", &[][..], "alert"),
        ("expired", &[], "expired"),
        ("former", &[], "revoked"),
        ("admin", &["--tls-max", "1.2"], "alert protocol version"),
    ] {
        let error = service.curl(role, args, "/v1/vms").unwrap_err();
        assert!(error.contains(word), "{role}: {error}");
    }
    let place = service.place.0.path();
    let mut without = Command::new("curl");
    without.args(["--silent", "--show-error", "--cacert"]).arg(place.join("service/authority.pem"));
    let without = without.arg(format!("https://{}/v1/vms", service.address)).output().unwrap();
    assert!(!without.status.success());
    // OpenSSL agrees about the protocol and the service's certificate.
    let script = format!(
        "openssl s_client -connect {} -CAfile admin/authority.pem -cert admin/client.pem -key admin/client.key \
         -verify_return_error -brief </dev/null",
        service.address
    );
    let seen = Command::new("sh").args(["-c", &script]).current_dir(place).output().unwrap();
    let seen = String::from_utf8_lossy(&seen.stderr).into_owned();
    assert!(seen.contains("TLSv1.3") && seen.contains("Verification: OK"), "{seen}");
    let refused = service.client("former", &["list"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("Revoked"), "{}", refused.stderr);
    assert_eq!(service.client("admin", &["list"]).code, Some(0));
}

#[test]
fn connections_that_send_too_little_end_and_others_are_served_meanwhile() {
    let service = Service::begin();
    let mut silent: Vec<UnixStream> = (0..100).map(|_| service.local()).collect();
    for stream in &mut silent[..50] {
        stream.write_all(b"GET /v1/vms HTTP/1.1\r\nhost: t").unwrap();
    }
    let mut body = service.local();
    let head =
        "PUT /v1/vms/pid:1/desired HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    body.write_all(head.as_bytes()).unwrap();
    // No handshake begins.
    let mut remote: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&service.address).unwrap()).collect();
    let begin = clock::now();
    for _ in 0..10 {
        let took = service.time_of_list();
        assert!(took < Nanos::s(1), "a list took {took}");
    }
    assert_eq!(service.client("view", &["list"]).code, Some(0));
    // All of them end, the last ones about ten seconds after the begin.
    for stream in &mut silent {
        let mut reply = Vec::new();
        let read = stream.read_to_end(&mut reply);
        assert!(read.is_ok() && !reply.starts_with(b"HTTP/1.1 200"), "{read:?}");
    }
    let mut late = String::new();
    body.read_to_string(&mut late).unwrap();
    assert!(late.starts_with("HTTP/1.1 408"), "{late}");
    for stream in &mut remote {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let read = stream.read(&mut [0]);
        assert!(
            matches!(&read, Ok(0)) || read.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset),
            "{read:?}"
        );
    }
    let took = clock::now().saturating_since(begin);
    assert!(took < Nanos::s(15), "{took}");
    assert_eq!(service.client("view", &["list"]).code, Some(0));
}

#[test]
fn a_caller_has_a_limited_number_of_connections_and_a_request_a_limited_size() {
    let service = Service::begin();
    let mut events: Vec<UnixStream> = (0..256).map(|_| service.local()).collect();
    for stream in &mut events {
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: t\r\n\r\n").unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    let mut further = service.local();
    assert!(matches!(further.read(&mut [0]), Ok(0)), "one connection too many");
    // Another caller is served.
    assert_eq!(service.client("view", &["list"]).code, Some(0));
    drop(events);
    let body = format!("{{\"promise\": \"{}\"}}", "x".repeat(100_000));
    // With `Expect`, curl waits for the reply before it sends the body.
    let headers = ["-H", "content-type: application/json", "-H", "expect: 100-continue", "--expect100-timeout", "20"];
    let large = [&["-X", "PUT", "-d", &body][..], &headers].concat();
    let large = service.curl("admin", &large, "/v1/vms/a/desired");
    assert_eq!(large.unwrap().0, 413);
}

#[test]
fn events_reach_a_hundred_readers_and_one_that_never_reads_delays_none() {
    let service = Service::begin();
    let mut readers: Vec<BufReader<UnixStream>> = (0..100).map(|_| BufReader::new(service.local())).collect();
    for reader in &mut readers {
        reader.get_mut().write_all(b"GET /v1/events HTTP/1.1\r\nhost: t\r\n\r\n").unwrap();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
    }
    // The first reader stops reading here. Each change is an event, and so is the new state.
    let vm = format!("pid:{}", std::process::id());
    let mut changes = service.local();
    for number in 0..500_u64 {
        let body = format!("{{\"promise\": {{\"slice_ns\": {}, \"period_ns\": 20000000}}}}", 1_000_000 + number);
        let length = body.len();
        let head = format!("PUT /v1/vms/{vm}/desired HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n");
        changes.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut reply = [0; 4_096];
        let count = changes.read(&mut reply).unwrap();
        assert!(reply[..count].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply[..count]));
    }
    assert!(service.time_of_list() < Nanos::s(1));
    let last = format!("\"slice_ns\":{}", 1_000_000 + 499);
    for reader in &mut readers[1..] {
        let mut text = String::new();
        while !text.contains(&last) {
            text.clear();
            assert_ne!(reader.read_line(&mut text).unwrap(), 0, "the stream ended");
        }
    }
}

#[test]
fn top_prints_what_vms_use_as_tables_and_as_json() {
    let service = Service::begin();
    let vm = FakeVm::start("top-vm");
    let top = service.client("view", &["top", "--count", "2", "--interval", "100ms", "--json"]);
    assert_eq!(top.code, Some(0), "{}", top.stderr);
    let lines: Vec<Value> = top.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    let vms = lines[1]["vms"].as_array().unwrap();
    let row = vms.iter().find(|vm| vm["name"] == "top-vm").unwrap_or_else(|| panic!("{vms:?}"));
    assert!(row["used_ppm"].is_u64() && row["waited_ppm"].is_u64() && row["state"] == "none", "{row}");
    assert!(lines[1]["span_ns"].as_u64().unwrap() >= 100_000_000, "{}", lines[1]["span_ns"]);
    let table = service.client("view", &["top", "--count", "1", "--interval", "100ms"]).stdout;
    assert!(table.starts_with("name") && table.contains("top-vm"), "{table}");
    drop(vm);
}

#[test]
fn a_name_that_two_vms_claim_is_refused_with_their_ids() {
    let service = Service::begin();
    let vms = [FakeVm::start("claimed"), FakeVm::start_with("claimed", &["-uuid", UUID])];
    until(|| service.client("admin", &["show", UUID]).code == Some(0));
    let refused = service.client("admin", &["set", "claimed", "--slice", "1ms", "--period", "20ms"]);
    assert!(refused.code == Some(2) && refused.stderr.contains(UUID), "{}", refused.stderr);
    for name in [UUID, &format!("pid:{}", vms[0].0.id())] {
        let set = service.client("admin", &["set", name, "--slice", "1ms", "--period", "20ms", "--json"]);
        assert_eq!(set.code, Some(0), "{name}: {}", set.stderr);
    }
}

#[test]
fn a_vm_without_a_name_keeps_its_desired_state_while_it_runs() {
    let mut service = Service::begin();
    let vm = FakeVm::start_with("-", &[]);
    let id = format!("qemu-{}", vm.0.id());
    until(|| service.client("admin", &["show", &id]).code == Some(0));
    let set = service.client("admin", &["set", &id, "--slice", "1ms", "--period", "20ms"]);
    assert_eq!(set.code, Some(0), "{}", set.stderr);
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    let service = service.again();
    let shown = service.client("admin", &["show", &id, "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{}", shown.stderr));
    assert_eq!(shown["desired"]["promise"]["slice_ns"], 1_000_000);
    let gone = vm.0.id();
    drop(vm);
    until(|| service.client("admin", &["show", &format!("qemu-{gone}")]).code == Some(2));
}
