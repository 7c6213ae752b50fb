//! `tactus serve` without a core: its configuration file, its service manager, repeated requests, a burst of them, and a
//! service that only observes.

use super::Place;
use sched::{CpuSet, Nanos};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use sys::child::Work;
use sys::process::Process;
use sys::{affinity, clock};

/// Maximum time that a step of a few milliseconds may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit of the service manager for signs of life.
const WATCHDOG: Duration = Duration::from_millis(300);
/// Arguments of a service without a core.
pub(super) const SERVE: [&str; 5] = ["serve", "--state", "state", "--core", "none.sock"];

/// A service, and the socket of its service manager.
struct Supervised {
    service: Child,
    manager: UnixDatagram,
}

impl Supervised {
    fn begin(place: &Place) -> Supervised {
        let path = place.0.path().join("notify.sock");
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut command = place.command(&[&SERVE[..], &["--socket", "api.sock"]].concat());
        command.env("NOTIFY_SOCKET", path).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        let service = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Supervised { service, manager }
    }

    /// Returns the next message to the service manager; `None` if there is none within `limit`.
    fn next(&self, limit: Duration) -> Option<String> {
        self.manager.set_read_timeout(Some(limit)).unwrap();
        let mut bytes = [0; 256];
        let length = self.manager.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..length].to_vec()).unwrap())
    }

    /// Waits until the service has sent `message`.
    fn expect(&self, message: &str) {
        while self.next(PATIENCE).expect(message) != format!("{message}\n") {}
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// A service with the socket `api.sock`. Dropping this value kills it.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends the service in order.
    pub(super) fn end(mut self) {
        Process::open(self.pid()).unwrap().terminate().unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a service with the socket `api.sock`, and waits until it serves.
pub(super) fn serving(place: &Place, args: &[&str]) -> Running {
    let service = Running(place.command(args).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begin = clock::now();
    while place.run(&["list", "--socket", "api.sock"]).code != Some(0) {
        assert!(clock::now().since(begin) < Nanos::s(20), "the service does not listen");
        clock::sleep(Nanos::ms(20));
    }
    service
}

#[test]
fn the_service_manager_learns_of_the_start_the_work_and_the_end() {
    let place = Place::new();
    let mut supervised = Supervised::begin(&place);
    assert_eq!(supervised.next(PATIENCE).as_deref(), Some("READY=1\n"));
    let listed = place.run(&["list", "--socket", "api.sock"]);
    assert_eq!(listed.code, Some(0), "a service that is ready serves: {}", listed.stderr);
    for _ in 0..3 {
        assert_eq!(supervised.next(PATIENCE).as_deref(), Some("WATCHDOG=1\n"));
    }
    Process::open(supervised.service.id()).unwrap().terminate().unwrap();
    supervised.expect("STOPPING=1");
    assert_eq!(supervised.service.wait().unwrap().code(), Some(0));
}

#[test]
fn a_service_with_a_reconciler_that_hangs_sends_no_sign_of_life() {
    let place = Place::new();
    let supervised = Supervised::begin(&place);
    supervised.expect("READY=1");
    // The reconciler writes the desired states to this file, and opening it waits for a reader.
    let draft = place.0.path().join("state/desired.json.new");
    assert!(Command::new("mkfifo").arg(&draft).status().unwrap().success());
    let vm = format!("pid:{}", std::process::id());
    let mut set = place.command(&["set", &vm, "--weight", "50", "--socket", "api.sock"]);
    let set = set.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = clock::now();
    // Several intervals without a sign: the service manager would have started the service again.
    while supervised.next(4 * WATCHDOG).is_some() {
        assert!(clock::now().since(begin) < Nanos::s(20), "the reconciler hangs, and signs of life arrive");
    }
    let reader = std::fs::File::open(&draft).unwrap();
    supervised.expect("WATCHDOG=1");
    drop(reader);
    // A pipe cannot be synchronised, so the change is refused.
    let refused = set.wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn clients_wait_at_the_socket_of_the_service_manager() {
    let place = Place::new();
    let path = place.0.path().join("passed.sock");
    let passed = UnixListener::bind(&path).unwrap();
    let early = place.command(&["list", "--socket", "passed.sock"]).stdout(Stdio::null()).spawn().unwrap();
    let early = Process::open(early.id()).map(|process| (early, process)).unwrap();
    let serve = place.command(&[&SERVE[..], &["--socket", "other.sock"]].concat());
    // The passed socket has the number 3, and LISTEN_PID is known only in the process itself.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"", "sh"]);
    shell.arg(serve.get_program()).args(serve.get_args()).current_dir(place.0.path());
    let mut service = shell.stdin(OwnedFd::from(passed)).stderr(Stdio::null()).spawn().unwrap();
    let (mut early, process) = early;
    assert!(process.ends_within(Nanos::s(20)), "the client that was there first is served");
    assert_eq!(early.wait().unwrap().code(), Some(0));
    Process::open(service.id()).unwrap().terminate().unwrap();
    assert_eq!(service.wait().unwrap().code(), Some(0));
    assert_eq!(place.files(), ["passed.sock", "state"], "the socket of the manager stays, and there is no other");
}

#[test]
fn a_service_reads_its_configuration_file_and_refuses_a_wrong_one() {
    let place = Place::new();
    let (socket, state) = (place.0.path().join("api.sock"), place.0.path().join("kept"));
    let core = place.0.path().join("none.sock");
    let right = format!("core = {core:?}\nsocket = {socket:?}\nstate = {state:?}\nuser-quota = 20\n");
    place.file("config.toml", format!("{right}quota = 5\n"));
    let serve = ["serve", "--config", "config.toml"];
    let refused = place.run(&serve);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for words in ["the configuration has no key `quota`", "config.toml:5:1", "help: use one of certs, core"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    assert_eq!(place.files(), ["config.toml"], "nothing was begun");
    let missing = place.run(&["serve", "--config", "other.toml"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("`other.toml` cannot be read"), "{}", missing.stderr);
    place.file("config.toml", right);
    let service = serving(&place, &serve);
    service.end();
    assert!(state.join("audit.jsonl").exists());
}

/// Requests a change of what is desired for this process, with an idempotency key. Returns the status and the body.
fn put(place: &Place, key: &str, weight: u32) -> (u16, serde_json::Value) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--unix-socket", "api.sock", "-X", "PUT", "-w", "\n%{http_code}"]);
    curl.args(["-H", "content-type: application/json", "-H", &format!("Idempotency-Key: {key}")]);
    curl.args(["-d", &format!("{{\"weight\": {weight}}}")]);
    curl.arg(format!("http://tactus/v1/vms/pid:{}/desired", std::process::id()));
    let output = curl.current_dir(place.0.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn a_request_that_is_repeated_with_its_key_changes_nothing_also_after_a_crash() {
    let place = Place::new();
    let supervised = Supervised::begin(&place);
    supervised.expect("READY=1");
    let weight = |vm: &serde_json::Value| vm["desired"]["weight"].as_u64();
    let (status, first) = put(&place, "\"one\"", 50);
    assert_eq!((status, weight(&first)), (200, Some(50)), "{first}");
    let (status, second) = put(&place, "two", 60);
    assert_eq!((status, weight(&second)), (200, Some(60)), "{second}");
    let again = |key: &str| {
        let (status, vm) = put(&place, key, if key == "one" { 50 } else { 60 });
        assert_eq!((status, weight(&vm), &vm["generation"]), (200, Some(60), &second["generation"]), "{vm}");
    };
    again("one");
    again("two");
    let (status, problem) = put(&place, "one", 70);
    assert_eq!(status, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("belongs to another change"), "{problem}");
    assert_eq!(put(&place, &"k".repeat(129), 70).0, 400);
    // SIGKILL.
    drop(supervised);
    std::fs::remove_file(place.0.path().join("notify.sock")).unwrap();
    let supervised = Supervised::begin(&place);
    supervised.expect("READY=1");
    again("one");
    let audit = std::fs::read_to_string(place.0.path().join("state/audit.jsonl")).unwrap();
    // Two changes, and the refused one. What is repeated is no request for a change.
    assert_eq!(audit.lines().count(), 3, "{audit}");
}

#[test]
fn a_service_that_only_observes_has_no_core_and_refuses_changes() {
    let place = Place::new();
    let service = serving(&place, &["serve", "--observe", "--state", "state", "--socket", "api.sock"]);
    let vm = format!("pid:{}", std::process::id());
    let at = |args: &[&str]| place.run(&[args, &["--socket", "api.sock"]].concat());
    assert_eq!(at(&["show", &vm]).code, Some(0));
    assert_eq!(at(&["top", "--count", "1"]).code, Some(0));
    for change in [
        &["set", &vm, "--weight", "50"][..],
        &["set", &vm, "--weight", "50", "--dry-run"],
        &["schedinfo", &vm, "--set", "cpu_shares=50", "--reason", "a test"],
        &["schedinfo", &vm, "--set", "cpu_shares=50", "--dry-run"],
    ] {
        let refused = at(change);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("the service only observes"), "{}", refused.stderr);
        assert!(refused.stderr.contains("without --observe"), "{}", refused.stderr);
    }
    assert!(sys::thread::children(service.pid()).unwrap().is_empty(), "the service has started no core");
    service.end();
    let both = place.run(&["serve", "--observe", "--core", "core.sock"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
}

#[test]
fn an_observation_names_the_threads_that_ran_instead() {
    let place = Place::new();
    let service = serving(&place, &["serve", "--observe", "--state", "state", "--socket", "api.sock"]);
    let cpu = CpuSet::one(affinity::get(sys::thread::current()).unwrap().first().unwrap());
    let spin = |busy, idle| {
        let child = sys::child::Child::start(Work::Spin { busy, idle }).unwrap();
        affinity::set(child.pid(), &cpu).unwrap();
        child
    };
    let hog = spin(Nanos::ms(100), Nanos::ZERO);
    // A hog waits after preemptions, and a sleeper after wake-ups.
    for observed in [spin(Nanos::ms(100), Nanos::ZERO), spin(Nanos::ms(1), Nanos::ms(1))] {
        let vm = format!("pid:{}", observed.pid());
        let args = ["observe", &vm, "--for", "600ms", "--socket", "api.sock"];
        let done = place.run(&[&args[..], &["--json"]].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let observation: api::Observation = serde_json::from_str(&done.stdout).unwrap();
        let [thread] = &observation.threads[..] else { panic!("{observation:?}") };
        if let Some(why) = &observation.unrecorded {
            eprintln!("SKIPPED: {why}");
            break;
        }
        let (waited, waits) = (thread.usage.time.waited_ns, thread.waits.as_ref().unwrap());
        assert!(waits.count > 0 && waits.histogram.0.iter().sum::<u64>() == waits.count, "{observation:?}");
        assert!(thread.instead.iter().any(|it| it.tid == hog.pid() && it.ran_ns > 0), "{observation:?}");
        let instead: u64 = thread.instead.iter().map(|it| it.ran_ns).sum();
        // A wait at the start or the end of the observation, and more than eight threads, are not in the sum.
        assert!(instead * 2 > waited && instead < waited * 3 / 2, "{instead} of {waited}: {observation:?}");
        let text = place.run(&args).stdout;
        assert!(text.contains("ran instead") && text.contains("longest"), "{text}");
    }
    for (length, code) in [("9ms", 2), ("31s", 2), ("x", 2)] {
        let vm = format!("pid:{}", hog.pid());
        let refused = place.run(&["observe", &vm, "--for", length, "--socket", "api.sock"]);
        assert_eq!(refused.code, Some(code), "{}", refused.stderr);
    }
    service.end();
}

/// Sends changes of the weight of process `pid`, from 1 to `count`, over one connection. Returns the last weight that was
/// acknowledged before the end of the connection.
fn changes(socket: &Path, pid: u32, count: u32) -> u32 {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut replies = BufReader::new(&stream);
    let mut change = |weight: u32| -> std::io::Result<()> {
        let body = format!("{{\"weight\": {weight}}}");
        let head =
            format!("PUT /v1/vms/pid:{pid}/desired HTTP/1.1\r\nhost: tactus\r\ncontent-type: application/json\r\n");
        (&stream).write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let (mut line, mut length) = (String::new(), 0);
        replies.read_line(&mut line)?;
        if line.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" && !line.is_empty() {
            line.clear();
            replies.read_line(&mut line)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        replies.read_exact(&mut vec![0; length])
    };
    (1..=count).take_while(|&weight| change(weight).is_ok()).last().unwrap_or(0)
}

/// Lets each of these processes have `count` changes of its weight, all at the same time, and calls `meanwhile`. Returns the
/// last acknowledged weights.
fn burst(place: &Place, pids: &[u32], count: u32, meanwhile: impl FnOnce()) -> Vec<u32> {
    let socket = &place.0.path().join("api.sock");
    std::thread::scope(|scope| {
        let clients: Vec<_> = pids.iter().map(|&pid| scope.spawn(move || changes(socket, pid, count))).collect();
        meanwhile();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn ten_thousand_changes_in_a_burst_are_acknowledged_and_outlive_a_kill() {
    const CLIENTS: u32 = 40;
    const EACH: u32 = 10_000 / CLIENTS;
    let place = Place::new();
    let serve = [&SERVE[..], &["--socket", "api.sock"]].concat();
    let service = serving(&place, &serve);
    let processes: Vec<_> = (0..CLIENTS).map(|_| sys::child::Child::start(sys::child::Work::Sleep).unwrap()).collect();
    let pids: Vec<u32> = processes.iter().map(sys::child::Child::pid).collect();
    assert!(burst(&place, &pids, EACH, || {}).iter().all(|&last| last == EACH));
    let audit = std::fs::read_to_string(place.0.path().join("state/audit.jsonl")).unwrap();
    assert_eq!(audit.lines().count(), 10_000);
    // A second burst, in the middle of which the service is killed.
    let last = burst(&place, &pids, 9_999, || {
        clock::sleep(Nanos::ms(300));
        drop(service);
    });
    assert!(last.iter().any(|&last| last > 0) && last.iter().all(|&last| last < 9_999), "{last:?}");
    let service = serving(&place, &serve);
    for (pid, last) in pids.iter().zip(last) {
        let shown = place.run(&["show", &format!("pid:{pid}"), "--json", "--socket", "api.sock"]);
        let vm: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let found = u32::try_from(vm["desired"]["weight"].as_u64().unwrap()).unwrap();
        // The change behind the last one may be stored without a reply, and a process may have had none of the burst.
        let expected = if last == 0 { EACH } else { last };
        assert!(found == expected || found == last + 1, "{vm}: {last} was acknowledged");
    }
    service.end();
}
