//! `tactus sim --serve` and `tactus demo --page`: simulated hosts, which need no privileges.

use super::{Place, scenario};
use sched::Nanos;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use sys::clock;
use sys::process::Process;

/// A simulated host. Dropping this value kills it.
struct Simulated {
    process: Child,
    /// The first line of its output.
    said: String,
}

impl Simulated {
    /// Starts a simulated host that prints its first line to standard output, or else to standard error.
    fn begin(place: &Place, args: &[&str], is_printed: bool) -> Simulated {
        let mut command = place.command(args);
        command.env("TMPDIR", place.0.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = String::new();
        let read = if is_printed {
            BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut said)
        } else {
            BufReader::new(process.stderr.as_mut().unwrap()).read_line(&mut said)
        };
        read.unwrap();
        Simulated { process, said: said.trim().to_string() }
    }

    /// Ends the host in order.
    fn end(mut self) {
        Process::open(self.process.id()).unwrap().terminate().unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn clients_list_change_and_follow_a_simulated_host_and_nothing_is_left() {
    let place = Place::new();
    let serve = ["sim", &scenario("three-vms.toml"), "--serve", "--socket", "sim.sock", "--speed", "10"];
    let host = Simulated::begin(&place, &serve, false);
    assert!(host.said.contains("three VMs under edf, simulated at speed 10, at sim.sock"), "{}", host.said);
    let client = |args: &[&str]| place.run(&[args, &["--socket", "sim.sock"]].concat());
    let begin = clock::now();
    while !client(&["list"]).stdout.contains("300ms in 1s") {
        assert!(clock::now().since(begin) < Nanos::s(20), "the third VM arrives after 60 ms of simulated time");
    }
    let mut events = place.command(&["events", "--json", "--socket", "sim.sock"]);
    let mut events = events.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    clock::sleep(Nanos::ms(500));
    let refused = client(&["set", "b", "--slice", "40ms", "--period", "100ms"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("at most 20ms") && refused.stderr.contains("a or c"), "{}", refused.stderr);
    assert_eq!(client(&["set", "b", "--slice", "20ms", "--period", "100ms"]).code, Some(0));
    let mut line = String::new();
    BufReader::new(events.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (_, _) = (events.kill(), events.wait());
    let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!((&event["event"], &event["vm"], &event["generation"]), (&"changed".into(), &"b".into(), &1.into()));
    assert_eq!(event["before"]["promise"]["slice_ns"], 10_000_000);
    let top: Value = serde_json::from_str(&client(&["top", "--once", "--json"]).stdout).unwrap();
    let vms = top["vms"].as_array().unwrap();
    assert_eq!(vms.len(), 3, "{top}");
    assert!(vms.iter().all(|vm| vm["state"] == "kept" && vm["kind"] == "simulated"), "{top}");
    let observed: Value = serde_json::from_str(&client(&["observe", "a", "--json"]).stdout).unwrap();
    assert_eq!(observed["promise"][0]["missed"], 0, "{observed}");
    assert_eq!(client(&["unset", "c"]).code, Some(0));
    assert_eq!(client(&["set", "d", "--slice", "20ms", "--period", "100ms"]).code, Some(2));
    host.end();
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn the_page_of_the_demo_shows_a_simulated_host_without_privileges_and_leaves_nothing() {
    let place = Place::new();
    let host = Simulated::begin(&place, &["demo", "--page"], true);
    let (base, token) = host.said.split_once("/?token=").unwrap_or_else(|| panic!("it printed {}", host.said));
    let curl = |args: &[&str], path: &str| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--max-time", "20"]).args(args);
        let done = command.arg(format!("{base}{path}")).output().expect("curl is missing");
        String::from_utf8(done.stdout).unwrap()
    };
    let entered = curl(&[], &format!("/?token={token}"));
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("there is a cookie");
    let reply = curl(&["--cookie", cookie.split(';').next().unwrap()], "/v1/host");
    let shown: Value = serde_json::from_str(reply.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(
        (&shown["simulated"], &shown["cpus"], &shown["mechanisms"][0]),
        (&true.into(), &2.into(), &"edf".into())
    );
    host.end();
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn a_scenario_that_cannot_be_served_is_refused_before_a_socket_exists() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        place.file(name, format!("name = \"test\"\ncpus = 1\nlength = \"1s\"\npolicy = \"edf\"\n{text}"))
    };
    let vm = "[[vm]]\nname = \"a\"\nworkload = \"hog\"\nslice = \"6ms\"\nperiod = \"10ms\"\n";
    let full = file("full.toml", &format!("{vm}{}", vm.replace("\"a\"", "\"b\"")));
    let several = file("several.toml", "hosts = 2\n[[vm]]\nname = \"a\"\nworkload = \"hog\"\n");
    let serve = |path: &Path, more: &[&str]| {
        place.run(&[&["sim", &path.display().to_string(), "--serve", "--socket", "sim.sock"], more].concat())
    };
    for (path, more, words) in [
        (&full, &[][..], "60.00 % of a CPU"),
        (&several, &[], "hosts = 1"),
        (&full, &["--policy", "edf,cfs"], "one policy"),
        (&full, &["--speed", "0"], "0.001 to 1000"),
    ] {
        let done = serve(path, more);
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
    assert_eq!(place.files(), ["full.toml", "several.toml"]);
}
