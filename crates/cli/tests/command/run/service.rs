//! The service: what is desired for real processes, and whether it is in force.

use super::super::{Done, Place};
use super::{HOG, Now, PATIENCE, crowded_hog, share, signal_to, soon, turn};
use sched::Nanos;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use sys::affinity;
use sys::child::{Child, Work};
use sys::clock;
use sys::process::Process;

/// A service with a core of its own, in a directory of its own.
pub(super) struct Service {
    begun: std::process::Child,
    process: Process,
    pub(super) place: Place,
}

const SERVE: [&str; 11] = [
    "serve",
    "--socket",
    "api.sock",
    "--state",
    "state",
    "--directory",
    "live",
    "--labels",
    "vms.d",
    "--libvirt",
    "libvirt",
];

impl Service {
    pub(super) fn begin() -> Service {
        Service::at(Place::new(), &[])
    }

    pub(super) fn at(place: Place, further: &[&str]) -> Service {
        let mut command = place.command(&[&SERVE[..], further].concat());
        let begun = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let process = Process::open(begun.id()).unwrap();
        let service = Service { begun, process, place };
        soon("the service has a core", || {
            let host = service.client(&["list", "--json"]);
            host.code == Some(0) && service.get("/v1/host")["core"].is_u64()
        });
        service
    }

    /// Runs a command of a client.
    pub(super) fn client(&self, args: &[&str]) -> Done {
        self.place.run(&[args, &["--socket", "api.sock"]].concat())
    }

    /// Runs a command of a client that succeeds, and returns its JSON.
    pub(super) fn json(&self, args: &[&str]) -> Value {
        let done = self.client(&[args, &["--json"]].concat());
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// Returns the reply to a request of curl: its status and its body.
    fn curl(&self, args: &[&str], path: &str) -> (u16, String) {
        self.curl_by(std::process::Command::new("curl"), args, path)
    }

    /// Returns the reply to a request of `command`, a curl.
    fn curl_by(&self, mut command: std::process::Command, args: &[&str], path: &str) -> (u16, String) {
        let socket = self.place.0.path().join("api.sock");
        command.args(["--silent", "--write-out", "\n%{http_code}", "--unix-socket"]).arg(socket);
        let done = command.args(args).arg(format!("http://tactus{path}")).output().expect("curl is missing");
        let text = String::from_utf8(done.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_string())
    }

    pub(super) fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.curl(&[], path).1).unwrap_or_default()
    }

    /// Ends the service in order.
    pub(super) fn end(mut self) {
        self.process.terminate().unwrap();
        assert!(self.process.ends_within(PATIENCE));
        assert_eq!(self.begun.wait().unwrap().code(), Some(0));
        for left in ["api.sock", "live/core.sock", "live/table"] {
            assert!(!self.place.0.path().join(left).exists(), "{left}");
        }
    }

    /// Kills the service, and returns its directory. Its core stays.
    pub(super) fn kill(mut self) -> Place {
        self.process.kill().unwrap();
        self.begun.wait().unwrap();
        std::mem::replace(&mut self.place, Place::new())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if !self.process.has_ended() {
            let _ = self.process.terminate();
            let _ = self.process.ends_within(PATIENCE);
        }
        let _ = self.begun.wait();
    }
}

#[test]
fn what_is_set_is_kept_and_outlives_the_service() {
    let Some(_turn) = turn() else { return };
    let (hog, _others) = crowded_hog();
    let (before, vm) = (Now::of(hog.pid()), format!("pid:{}", hog.pid()));
    let service = Service::begin();
    let set = service.json(&["set", &vm, "--slice", "4ms", "--period", "10ms", "--reason", "größer"]);
    assert_eq!((&set["state"]["phase"], &set["generation"]), (&"kept".into(), &1.into()));
    let place = service.kill();
    let alone = share(hog.pid(), Nanos::s(1));
    assert!(alone >= 39, "{alone} % of the CPU while there is no service");
    let service = Service::at(place, &[]);
    let shown = service.json(&["show", &vm]);
    assert_eq!((&shown["state"]["phase"], &shown["desired"]), (&"kept".into(), &set["desired"]));
    // Slice and period change in place.
    service.json(&["set", &vm, "--slice", "6ms"]);
    let more = share(hog.pid(), Nanos::s(1));
    assert!(more >= 59, "{more} % of the CPU after the change");
    soon("periods are counted", || service.json(&["show", &vm])["measured"]["judged"].as_u64() > Some(20));
    let log = String::from_utf8(service.place.read("state/audit.jsonl")).unwrap();
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!((&line["why"], &line["to"]["promise"]["slice_ns"]), (&"größer".into(), &4_000_000.into()));
    // A paused promise is desired, and not in force.
    assert_eq!(service.json(&["pause", &vm])["state"]["phase"], "paused");
    soon("the hog is as before", || Now::of(hog.pid()) == before);
    assert_eq!(service.json(&["resume", &vm])["state"]["phase"], "kept");
    assert_eq!(service.json(&["unset", &vm])["state"]["phase"], "none");
    soon("the hog is as before", || Now::of(hog.pid()) == before);
    let listed = service.json(&["list"]);
    assert!(listed["vms"].as_array().unwrap().iter().all(|it| it["id"] != vm), "{listed}");
    service.end();
}

#[test]
fn after_a_refused_change_the_promise_of_before_is_in_force() {
    let Some(_turn) = turn() else { return };
    let (hog, _others) = crowded_hog();
    let vm = format!("pid:{}", hog.pid());
    let service = Service::begin();
    let set = service.json(&["set", &vm, "--slice", "4ms", "--period", "10ms"]);
    // Another mechanism needs another promise, which has no room: the first one has ended by then.
    let refused = service.client(&["set", &vm, "--slice", "9500us", "--mechanism", "fifo"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let shown = service.json(&["show", &vm]);
    assert_eq!((&shown["desired"], &shown["state"]), (&set["desired"], &set["state"]));
    let kept = share(hog.pid(), Nanos::s(1));
    assert!(kept >= 39, "{kept} % of the CPU after the refusal");
    // The promise was in force at once, and not by a later attempt. An old number brings all events.
    let (_, events) = service.curl(&["--max-time", "1", "-H", "Last-Event-ID: 7"], "/v1/events");
    assert!(events.contains("event: changed\n") && !events.contains("\"refused\""), "{events}");
    service.end();
}

#[test]
fn a_core_that_is_killed_is_started_again_and_keeps_what_is_desired() {
    let Some(_turn) = turn() else { return };
    let (hog, _others) = crowded_hog();
    let vm = format!("pid:{}", hog.pid());
    let service = Service::begin();
    service.json(&["set", &vm, "--slice", "4ms", "--period", "10ms"]);
    let first = service.get("/v1/host")["core"].as_u64().unwrap();
    Process::open(u32::try_from(first).unwrap()).unwrap().kill().unwrap();
    let begin = clock::now();
    soon("there is another core", || service.get("/v1/host")["core"].as_u64().is_some_and(|core| core != first));
    soon("the promise is in force", || service.json(&["show", &vm])["state"]["phase"] == "kept");
    eprintln!("the promise was in force again after {}", clock::now().since(begin));
    let again = share(hog.pid(), Nanos::s(1));
    assert!(again >= 39, "{again} % of the CPU under the second core");
    service.end();
}

#[test]
fn a_core_is_replaced_under_a_service_whose_measurement_goes_on_and_whose_changes_are_carried_out() {
    let Some(_turn) = turn() else { return };
    let (hog, _others) = crowded_hog();
    let vm = format!("pid:{}", hog.pid());
    let service = Service::begin();
    service.json(&["set", &vm, "--slice", "4ms", "--period", "10ms"]);
    let measured = || service.json(&["show", &vm])["measured"].clone();
    let periods = || measured()["periods"].as_u64().unwrap();
    soon("periods are counted", || periods() > 50);
    let (before, begin) = (measured(), clock::now());
    let core = service.get("/v1/host")["core"].as_u64().unwrap();
    let replace = || signal_to("HUP", &core.to_string());
    for _ in 0..3 {
        replace();
        clock::sleep(Nanos::ms(400));
        assert_eq!(service.json(&["show", &vm])["state"]["phase"], "kept");
    }
    let (after, elapsed) = (measured(), clock::now().since(begin).as_ns() / 10_000_000);
    let more = |field: &str| after[field].as_u64().unwrap() - before[field].as_u64().unwrap();
    eprintln!("{} of {elapsed} periods measured, {} missed", more("periods"), more("missed"));
    assert!(more("periods").abs_diff(elapsed) <= elapsed / 10 + 3, "{before} {after}");
    assert!(more("missed") >= 3, "{before} {after}");
    // A change that arrives meanwhile waits for the next program.
    for nth in 1..=20 {
        if nth % 5 == 1 {
            replace();
        }
        let changed = service.json(&["set", &vm, "--slice", &format!("{}00us", 10 + nth)]);
        assert_eq!(changed["state"]["phase"], "kept", "{changed}");
    }
    assert_eq!(service.get("/v1/host")["core"], core);
    service.end();
}

#[test]
fn a_second_service_is_refused_and_the_core_of_the_first_stays() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    let vm = format!("pid:{}", child.pid());
    let service = Service::begin();
    service.json(&["set", &vm, "--slice", "1ms", "--period", "10ms"]);
    let core = service.get("/v1/host")["core"].clone();
    let second = service.place.run(&SERVE);
    assert!(second.code == Some(2) && second.stderr.contains("another service uses state"), "{}", second.stderr);
    let elsewhere = ["serve", "--socket", "api.sock", "--state", "other", "--directory", "live"];
    let second = service.place.run(&elsewhere);
    assert!(second.code == Some(2) && second.stderr.contains("another service listens"), "{}", second.stderr);
    assert_eq!(
        (&service.get("/v1/host")["core"], &service.json(&["show", &vm])["state"]["phase"]),
        (&core, &"kept".into())
    );
    // After a crash, a damaged file keeps the next service from its start, and the promise stays in force.
    let place = service.kill();
    let stored = place.read("state/desired.json");
    place.file("state/desired.json", "{");
    let damaged = place.run(&SERVE);
    assert!(damaged.code == Some(2) && damaged.stderr.contains("is damaged"), "{}", damaged.stderr);
    place.file("state/desired.json", stored);
    let service = Service::at(place, &[]);
    assert_eq!(service.get("/v1/host")["core"], core);
    service.end();
}

#[test]
fn a_user_may_promise_time_only_to_own_processes_and_within_the_quota() {
    const USER: u32 = 65_534;
    let Some(_turn) = turn() else { return };
    if sys::privileges::user() != 0 {
        eprintln!("SKIPPED: only root can make requests as another user");
        return;
    }
    let mut sleeper = std::process::Command::new("sleep");
    let own = FakeVm(sleeper.arg("600").uid(USER).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let other = Child::start(Work::Sleep).unwrap();
    let service = Service::at(Place::new(), &["--user-quota", "20"]);
    // The user must reach the socket.
    std::fs::set_permissions(service.place.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let put = |pid: u32, body: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.uid(USER);
        let args = ["-X", "PUT", "-H", "content-type: application/json", "-d", body];
        service.curl_by(curl, &args, &format!("/v1/vms/pid:{pid}/desired"))
    };
    for (pid, body, status, words) in [
        (other.pid(), r#"{"promise": {"slice_ns": 1000000, "period_ns": 10000000}}"#, 403, "may not change"),
        (own.pid(), r#"{"promise": {"slice_ns": 2100000, "period_ns": 10000000}}"#, 403, "the quota is 20 %"),
        (own.pid(), r#"{"promise": {"slice_ns": 1000000, "period_ns": 10000000, "limit": "hard"}}"#, 403, "limit a VM"),
        (own.pid(), r#"{"cap_percent": 10}"#, 403, "limit a VM"),
        (own.pid(), r#"{"promise": {"slice_ns": 2000000, "period_ns": 10000000}}"#, 200, "kept"),
        (own.pid(), "{}", 200, "none"),
    ] {
        let (found, text) = put(pid, body);
        assert!(found == status && text.contains(words), "{body}: {found}: {text}");
    }
    let log = String::from_utf8(service.place.read("state/audit.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["by"]), (6, &"uid:65534".into()));
    assert!(lines[1]["refused"].as_str().unwrap().contains("quota"), "{log}");
    service.json(&["set", &format!("pid:{}", own.pid()), "--cap", "50"]);
    let (found, text) = put(own.pid(), "{}");
    assert!(found == 403 && text.contains("limit a VM"), "the owner keeps the cap of the administrator: {text}");
    drop(own);
    service.end();
}

/// A process with the command line of a VM, which uses all CPU time that it gets.
struct FakeVm(std::process::Child);

impl FakeVm {
    fn start(name: &str) -> FakeVm {
        let mut vm = std::process::Command::new("sh");
        let name = format!("guest={name}");
        vm.arg0("qemu-system-x86_64").args(["-c", "while :; do :; done", "sh", "-name", &name]).stdout(Stdio::null());
        FakeVm(vm.stderr(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for FakeVm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_vm_gets_its_promise_and_its_share_again_when_it_starts_again() {
    let Some(_turn) = turn() else { return };
    let service = Service::begin();
    let first = FakeVm::start("again");
    let is_found = |pid: u32| service.get("/v1/vms/again")["process"]["pid"] == pid;
    soon("the VM is found", || is_found(first.pid()));
    let set = service.json(&["set", "again", "--slice", "8ms", "--period", "10ms", "--weight", "50"]);
    assert_eq!((&set["state"]["phase"], &set["kind"]), (&"kept".into(), &"qemu".into()));
    drop(first);
    soon("the VM is absent", || service.get("/v1/vms/again")["state"]["phase"] == "absent");
    // Two promises of 8 ms in 10 ms would not fit beside each other on one CPU.
    let second = FakeVm::start("again");
    let begin = clock::now();
    soon("the VM is found again", || is_found(second.pid()));
    soon("its promise is in force", || service.get("/v1/vms/again")["state"]["phase"] == "kept");
    eprintln!("the promise was in force again after {}", clock::now().since(begin));
    assert_eq!(service.json(&["show", "again"])["desired"], set["desired"]);
    service.json(&["unset", "again"]);
    drop(second);
    service.end();
}

#[test]
fn a_vm_that_a_shell_becomes_is_found_within_100_ms_and_its_end_noticed() {
    let Some(_turn) = turn() else { return };
    let service = Service::begin();
    if service.get("/v1/host")["warnings"].to_string().contains("scans of /proc") {
        eprintln!("SKIPPED: {}", service.get("/v1/host")["warnings"]);
        return service.end();
    }
    // The shell is examined many times before it becomes a VM, and prints the time then.
    let program = "sleep 1; date +%s%3N; exec -a qemu-system-x86_64 bash -c 'read; date +%s%3N' bash -name guest=late";
    let mut shell = std::process::Command::new("bash");
    let shell = shell.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut shell = shell.expect("bash is missing");
    soon("the VM is found", || service.get("/v1/vms/late")["process"].is_object());
    drop(shell.stdin.take());
    let said = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
    let times: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    soon("its end is noticed", || service.get("/v1/vms/late")["status"] == 404);
    let (_, events) = service.curl(&["--max-time", "1", "-H", "Last-Event-ID: 7"], "/v1/events");
    let events = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|line| serde_json::from_str(line).unwrap()).collect();
    for (name, time) in ["appeared", "ended"].iter().zip(times) {
        let event = events.iter().find(|event| event["event"] == *name && event["vm"] == "late").unwrap();
        let late = event["at_ms"].as_u64().unwrap() - time;
        eprintln!("{name}: noticed after {late} ms");
        assert!(late <= 100, "{name}: noticed after {late} ms");
    }
    service.end();
}

#[test]
fn a_vm_has_the_promise_of_its_label_file_from_its_start_unless_a_client_sets_another() {
    let Some(_turn) = turn() else { return };
    let place = Place::new();
    std::fs::create_dir(place.0.path().join("vms.d")).unwrap();
    place.file("vms.d/labelled.toml", "slice = \"4ms\"\nperiod = \"10ms\"\n");
    let service = Service::at(place, &[]);
    let vm = FakeVm::start("labelled");
    let slice = || service.get("/v1/vms/labelled")["desired"]["promise"]["slice_ns"].as_u64().unwrap_or(0);
    let state = || service.get("/v1/vms/labelled")["state"].clone();
    soon("the promise of the file is in force", || state()["phase"] == "kept");
    let shown = service.json(&["show", "labelled"]);
    assert_eq!((slice(), &shown["source"], &shown["generation"]), (4_000_000, &"label-file".into(), &0.into()));
    let text = service.client(&["show", "labelled"]).stdout;
    assert!(text.contains("set by      label-file\n"), "{text}");
    service.place.file("vms.d/labelled.toml", "slice = \"5ms\"\nperiod = \"10ms\"\n");
    soon("the change of the file is in force", || slice() == 5_000_000);
    // A wrong file changes nothing.
    service.place.file("vms.d/labelled.toml", "slice = \"5\"");
    soon("the reason is shown", || state()["reason"].as_str().is_some_and(|why| why.contains("labelled.toml")));
    assert_eq!((slice(), &state()["phase"]), (5_000_000, &"kept".into()));
    // A client comes first, and pausing is a change by a client.
    let set = service.json(&["set", "labelled", "--slice", "3ms"]);
    assert_eq!((slice(), &set["source"], &set["state"]["reason"]), (3_000_000, &"client".into(), &Value::Null));
    service.place.file("vms.d/labelled.toml", "slice = \"6ms\"\nperiod = \"10ms\"\n");
    let unset = service.json(&["unset", "labelled"]);
    assert_eq!((&unset["source"], &unset["state"]["phase"]), (&"label-file".into(), &"kept".into()));
    soon("the latest content of the file is in force", || slice() == 6_000_000);
    assert_eq!(service.json(&["pause", "labelled"])["state"]["phase"], "paused");
    service.json(&["unset", "labelled"]);
    let alone = share(vm.pid(), Nanos::s(1));
    assert!(alone >= 59, "{alone} % of the CPU");
    std::fs::remove_file(service.place.0.path().join("vms.d/labelled.toml")).unwrap();
    soon("nothing is desired", || state()["phase"] == "none");
    service.end();
}

#[test]
fn a_domain_of_libvirt_has_the_promise_of_its_metadata() {
    let Some(_turn) = turn() else { return };
    let service = Service::begin();
    let directory = service.place.0.path().join("libvirt");
    std::fs::create_dir(&directory).unwrap();
    let uuid = "c7a5fdbd-edaf-9455-926a-d65c16db1809";
    let mut emulator = std::process::Command::new("sh");
    emulator.args(["-c", "while :; do :; done", "emulator", "-uuid", uuid]).stdout(Stdio::null());
    let vm = FakeVm(emulator.spawn().unwrap());
    let recorded = include_str!("../../../../service/tests/libvirt/vm1.xml");
    let recorded = recorded.replace("pid='14497'", &format!("pid='{}'", vm.pid()));
    let write = |weight: &str| {
        let draft = directory.join("vm1.xml.new");
        std::fs::write(&draft, recorded.replace("cpus=\"2\" weight=\"200\"", weight)).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(draft, directory.join("vm1.xml")).unwrap();
    };
    write("");
    let shown = || service.get("/v1/vms/vm1");
    soon("the promise is in force", || shown()["state"]["phase"] == "kept");
    let first = shown();
    assert_eq!((&first["id"], &first["source"], &first["kind"]), (&uuid.into(), &"libvirt".into(), &"qemu".into()));
    assert_eq!(first["desired"]["promise"]["slice_ns"], 2_000_000);
    write("mechanism=\"best\"");
    soon("the wrong metadata is reported", || {
        shown()["state"]["reason"].as_str().is_some_and(|why| why.contains("metadata of domain vm1"))
    });
    assert_eq!((&shown()["desired"], &shown()["state"]["phase"]), (&first["desired"], &"kept".into()));
    // A label file comes before the metadata, and libvirt confirms that the VM is the one.
    std::fs::create_dir(service.place.0.path().join("vms.d")).unwrap();
    service.place.file(&format!("vms.d/{uuid}.toml"), "slice = \"1ms\"\nperiod = \"10ms\"\nuser = 4242\n");
    soon("the promise of the label file is in force", || shown()["source"] == "label-file");
    assert_eq!(shown()["desired"]["promise"]["slice_ns"], 1_000_000);
    drop(vm);
    soon("the end is noticed", || shown()["status"] == 404);
    service.end();
}

#[test]
fn a_command_with_a_label_file_has_its_promise_at_each_start() {
    let Some(_turn) = turn() else { return };
    let service = Service::begin();
    let start = || {
        let mut command = std::process::Command::new("sh");
        command.arg0("tactus-test-batch").args(["-c", "while :; do :; done"]);
        FakeVm(command.spawn().unwrap())
    };
    let first = start();
    std::fs::create_dir(service.place.0.path().join("vms.d")).unwrap();
    let label = "program = \"tactus-test-batch\"\nslice = \"4ms\"\nperiod = \"10ms\"\n";
    service.place.file("vms.d/batch.toml", label);
    let shown = || service.get("/v1/vms/batch");
    let is_kept = |pid: u32| shown()["state"]["phase"] == "kept" && shown()["process"]["pid"] == pid;
    soon("the promise is in force", || is_kept(first.pid()));
    assert_eq!((&shown()["id"], &shown()["kind"]), (&"batch".into(), &"process".into()));
    drop(first);
    let second = start();
    soon("the promise is in force again", || is_kept(second.pid()));
    let set = service.json(&["set", "batch", "--slice", "2ms"]);
    assert_eq!(set["source"], "client");
    drop(second);
    soon("the VM is absent", || shown()["state"]["phase"] == "absent");
    let third = start();
    soon("the promise of the client is in force", || is_kept(third.pid()));
    assert_eq!(shown()["desired"], set["desired"]);
    assert_eq!(service.json(&["unset", "batch"])["source"], "label-file");
    drop(third);
    service.end();
}

#[test]
fn refusals_have_the_reason_and_the_nearest_promise_and_change_nothing() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    let vm = format!("pid:{}", child.pid());
    let service = Service::begin();
    let refused = |args: &[&str], words: &str| {
        let done = service.client(args);
        let said = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ").replace("│ ", "");
        assert!(done.code == Some(2) && said.contains(words), "{args:?}: {:?}: {said}", done.code);
    };
    refused(&["set", &vm, "--slice", "2ms"], "needs a slice and a period");
    refused(&["pause", &vm], "nothing is desired");
    refused(&["set", &vm, "--slice", "9500us", "--period", "10ms"], "use at most 9ms every 10ms");
    refused(&["set", &vm, "--slice", "20ms", "--period", "10ms"], "use a slice of at most 10ms");
    refused(&["show", "nothing"], "there is no VM nothing");
    refused(&["set", "pid:4194305", "--weight", "5"], "there is no VM pid:4194305");
    refused(&["set", &vm, "--weight", "5", "--if-generation", "3"], "has generation 0");
    let path = format!("/v1/vms/{vm}/desired");
    let put = |body: &str| service.curl(&["-X", "PUT", "-H", "content-type: application/json", "-d", body], &path);
    for (body, status) in [
        (r#"{"promise": {"slice_ns": 9500000, "period_ns": 10000000}}"#, 409),
        (r#"{"promise": {"slice_ns": -1, "period_ns": 10000000}}"#, 422),
        (r#"{"wieght": 1}"#, 422),
        ("{", 400),
    ] {
        let (found, text) = put(body);
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((found, &problem["status"]), (status, &status.into()), "{text}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{text}");
        if status == 409 {
            assert_eq!(problem["alternatives"]["slice_ns"], 9_000_000, "{text}");
        }
    }
    assert_eq!(put(&format!("{{\"weight\": \"{}\"}}", "x".repeat(70_000))).0, 413);
    assert_eq!(service.curl(&["-X", "POST"], &path).0, 405);
    assert_eq!(service.curl(&[], "/nothing").0, 404);
    assert_eq!(service.get(&format!("/v1/vms/{vm}"))["generation"], 0, "nothing has changed");
    service.end();
}

#[test]
fn a_dry_run_has_the_answer_of_the_change_and_changes_nothing() {
    let Some(_turn) = turn() else { return };
    let (hog, _others) = crowded_hog();
    let other = Child::start(HOG).unwrap();
    let service = Service::begin();
    let vm = format!("pid:{}", hog.pid());
    let cpu = affinity::get(hog.pid()).unwrap();
    affinity::set(other.pid(), &cpu).unwrap();
    let before = service.json(&["set", &vm, "--slice", "4ms", "--period", "10ms", "--mechanism", "inherit"]);
    let (of_hog, of_other) = (Now::of(hog.pid()), Now::of(other.pid()));
    let audit = service.place.read("state/audit.jsonl");
    let other_vm = format!("pid:{}", other.pid());
    for (vm, args, is_possible) in [
        (&vm, &["--slice", "9ms"][..], true),
        (&vm, &["--slice", "9001us"], false),
        (&vm, &["--slice", "4ms", "--hard", "--weight", "50"], true),
        (&vm, &["--slice", "9001us", "--hard"], false),
        (&vm, &["--no-promise"], true),
        (&other_vm, &["--slice", "5ms", "--period", "10ms", "--mechanism", "fifo"], true),
        (&other_vm, &["--slice", "5001us", "--period", "10ms", "--mechanism", "fifo"], false),
        (&other_vm, &["--slice", "1ms", "--period", "10ms", "--mechanism", "deadline", "--hard"], false),
    ] {
        let done = service.client(&[&["set", vm, "--dry-run"], args].concat());
        assert_eq!(done.code, Some(if is_possible { 0 } else { 2 }), "{args:?}: {}{}", done.stdout, done.stderr);
    }
    let path = format!("/v1/vms/{vm}/desired?dry-run=true");
    let (status, text) = service.curl(&["-X", "DELETE"], &path);
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert!(status == 200 && shown["desired"]["promise"].is_null(), "{text}");
    assert_eq!(service.curl(&["-X", "DELETE"], &format!("/v1/vms/{vm}/desired?dryrun=true")).0, 400);
    let after = service.json(&["show", &vm]);
    assert_eq!((&after["desired"], &after["generation"]), (&before["desired"], &before["generation"]));
    assert_eq!(after["state"]["phase"], "kept");
    assert_eq!(service.json(&["show", &other_vm])["desired"]["promise"], Value::Null);
    assert_eq!(service.place.read("state/audit.jsonl"), audit, "a dry run is no change");
    assert_eq!(Now::of(other.pid()), of_other);
    assert_eq!(Now::of(hog.pid()).attributes, of_hog.attributes);
    service.end();
}

/// Returns the number of connections to the service.
fn connections() -> usize {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    // A connection that the service has accepted has the path of the listening socket, which has the flag 10000.
    sockets.lines().filter(|line| line.ends_with(" api.sock") && !line.contains(" 00010000 ")).count()
}

#[test]
fn events_are_followed_and_resumed_and_metrics_have_every_promise() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    let vm = format!("pid:{}", child.pid());
    let service = Service::begin();
    let mut following = service.place.command(&["events", "--json", "--socket", "api.sock"]);
    let following = following.stdout(Stdio::piped()).spawn().unwrap();
    let ours = Process::open(following.id()).unwrap();
    // Later requests are answered after the stream has begun, because one thread answers all.
    soon("the reader is connected", || ours.has_ended() || connections() > 0);
    service.json(&["set", &vm, "--slice", "1ms", "--period", "10ms"]);
    let metrics = service.curl(&[], "/metrics").1;
    let of_vm = format!("tactus_vm_slice_seconds{{id=\"{vm}\"");
    assert!(metrics.lines().any(|line| line.starts_with(&of_vm) && line.ends_with(" 0.001")), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    service.json(&["unset", &vm]);
    clock::sleep(Nanos::ms(200));
    ours.kill().unwrap();
    let said = String::from_utf8(following.wait_with_output().unwrap().stdout).unwrap();
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["changed", "state", "changed"], "{said}");
    let first = events[0]["number"].as_u64().unwrap();
    assert_eq!(events[2]["number"], first + 2);
    // A reader that returns gets what it has missed.
    let (_, resumed) = service.curl(&["--max-time", "1", "-H", &format!("Last-Event-ID: {first}")], "/v1/events");
    assert!(
        resumed.contains(&format!("id: {}\n", first + 2)) && !resumed.contains(&format!("id: {first}\n")),
        "{resumed}"
    );
    let (_, lost) = service.curl(&["--max-time", "1", "-H", "Last-Event-ID: 7"], "/v1/events");
    assert!(lost.contains("event: gap\n"), "{lost}");
    let described = service.get("/openapi.json");
    assert_eq!(described["openapi"].as_str().map(|it| &it[..3]), Some("3.1"));
    assert!(described["paths"]["/v1/vms/{vm}/desired"]["put"].is_object());
    service.end();
}
