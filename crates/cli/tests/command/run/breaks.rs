//! A run reports when a promise stops being kept, and how its processes ended, also by its exit code.

use super::super::Place;
use super::{HOG, Live, Now, hogs, last_cpu, soon, turn};
use sched::{CpuId, CpuSet, Nanos};
use serde_json::Value;
use std::process::{Command, Stdio};
use sys::attributes::{self, Attributes};
use sys::child::{Child, Work};
use sys::process::Process;
use sys::{affinity, clock};

const PROMISE: [&str; 4] = ["--period", "10ms", "--slice", "3ms"];

/// A thread of another program that preempts all threads of Tactus. The pauses let the agents beat, so that the guardian
/// does not kill the daemon, and are shorter than a slice in every period.
const INTRUDER: Work = Work::Spin { busy: Nanos::ms(150), idle: Nanos::ms(10) };

#[test]
fn a_foreign_thread_at_the_highest_priority_breaks_a_promise_and_the_run_says_so() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let cpu = last_cpu().to_string();
    let pid = hog.pid().to_string();
    let mut live = Live::begin(&[&PROMISE[..], &["--affinity", &cpu, "--for", "4s", "--json", "--pid", &pid]].concat());
    live.await_raised(&[hog.pid()]);
    let intruder = Child::start(INTRUDER).unwrap();
    affinity::set(intruder.pid(), &CpuSet::one(CpuId::new(last_cpu()))).unwrap();
    attributes::set(intruder.pid(), Attributes::raised(99)).unwrap();
    clock::sleep(Nanos::s(2));
    let so_far = live.said("stderr");
    let named = format!("(thread {}, real-time priority 99, ", intruder.pid());
    intruder.process().kill().unwrap();
    drop(intruder);
    let done = live.done();
    let above = so_far.lines().find(|line| line.starts_with("threads above all clients: "));
    assert!(above.is_some_and(|line| line.contains(&named)), "the intruder is named at once: {so_far}");
    let not_kept = format!("the promise to pid {pid} is not kept: ");
    assert!(so_far.contains(&not_kept), "it is said at once: {so_far}");
    assert!(done.stderr.contains(&format!("the promise to pid {pid} is kept again")), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("The promise to pid {pid} was not kept from ")), "{}", done.stderr);
    let shown: Value = serde_json::from_str(&done.stdout).unwrap();
    let entity = &shown["runs"][0]["entities"][0];
    assert!(entity["breaches"].as_u64().is_some_and(|count| count >= 1), "{entity:#}");
    assert!(entity["first_breach_ns"].as_u64().is_some_and(|at| at < 3_000_000_000), "{entity:#}");
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    live.assert_nothing_left();
}

#[test]
fn beside_ordinary_hogs_a_promise_is_kept_and_the_code_is_0() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let _others = hogs();
    let pid = hog.pid().to_string();
    let mut live = Live::begin(&[&PROMISE[..], &["--for", "2s", "--json", "--pid", &pid]].concat());
    assert!(live.process.ends_within(Nanos::s(10)));
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let shown: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(shown["runs"][0]["entities"][0]["breaches"], Value::Null);
}

#[test]
fn the_exit_code_of_a_command_that_fails_comes_before_that_of_a_promise() {
    let Some(_turn) = turn() else { return };
    let cpu = last_cpu().to_string();
    for (end, code) in [("exit 7", 7), ("exit 0", 3)] {
        let script = format!("until [ -e over ]; do :; done; {end}");
        let mut live = Live::begin(&[&PROMISE[..], &["--affinity", &cpu, "--", "sh", "-c", &script]].concat());
        clock::sleep(Nanos::ms(500));
        let intruder = Child::start(INTRUDER).unwrap();
        affinity::set(intruder.pid(), &CpuSet::one(CpuId::new(last_cpu()))).unwrap();
        attributes::set(intruder.pid(), Attributes::raised(99)).unwrap();
        clock::sleep(Nanos::s(1));
        intruder.process().kill().unwrap();
        drop(intruder);
        std::fs::write(live.path("over"), "").unwrap();
        let done = live.done();
        assert!(done.stderr.contains("the promise to sh is not kept"), "{}", done.stderr);
        assert_eq!(done.code, Some(code), "{end}: {}", done.stderr);
    }
}

#[test]
fn a_process_that_a_signal_ends_is_named_and_the_code_is_not_0() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let mut live = Live::promise(&PROMISE, &[hog.pid()]);
    hog.process().kill().unwrap();
    let done = live.done();
    assert!(done.stdout.contains(&format!("pid {} was ended by signal 9.", hog.pid())), "{}", done.stdout);
    assert_eq!(done.code, Some(137), "{}", done.stderr);
    live.assert_nothing_left();
}

#[test]
fn a_process_that_ends_by_itself_is_named_and_the_code_is_0() {
    let Some(_turn) = turn() else { return };
    let place = Place::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "while read -r line; do exit 7; done; :"]).stdin(Stdio::piped()).current_dir(place.0.path());
    let mut shell = shell.spawn().unwrap();
    let mut live = Live::promise(&PROMISE, &[shell.id()]);
    std::io::Write::write_all(shell.stdin.as_mut().unwrap(), b"go\n").unwrap();
    assert_eq!(shell.wait().unwrap().code(), Some(7));
    let done = live.done();
    let said = [format!("pid {} ended with exit code 7.", shell.id()), format!("pid {} has ended;", shell.id())];
    // Before Linux 6.15, the exit code of a reaped process is not known.
    assert!(said.iter().any(|said| done.stdout.contains(said)), "{}", done.stdout);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn a_live_run_is_released_with_its_commands() {
    let Some(_turn) = turn() else { return };
    let script = "echo $$ > pid; exec sleep 60";
    let mut live = Live::begin(&[&PROMISE[..], &["--", "sh", "-c", script]].concat());
    let pid = || std::fs::read_to_string(live.path("pid")).ok()?.trim().parse::<u32>().ok();
    soon("the command runs", || pid().is_some());
    let command = Process::open(pid().unwrap()).unwrap();
    let core = live.core();
    let released = live.place.run(&["release", "--directory", "live"]);
    assert_eq!(released.code, Some(0), "{released:?}");
    let said = format!("The daemon, process {}, has ended on request.\n", core.pid());
    assert!(released.stdout.starts_with(&said), "{}", released.stdout);
    assert_eq!(live.done().code, Some(130));
    assert!(command.has_ended());
    live.assert_nothing_left();
}

#[test]
fn after_the_death_of_core_and_guardians_a_release_gives_everything_back() {
    let Some(_turn) = turn() else { return };
    for limit in [None, Some("--hard")] {
        let hog = Child::start(HOG).unwrap();
        let before = Now::of(hog.pid());
        let live = Live::promise(&PROMISE.into_iter().chain(limit).collect::<Vec<_>>(), &[hog.pid()]);
        live.kill_all();
        assert_ne!(affinity::get(hog.pid()).unwrap(), before.affinity, "it is still confined");
        let released = live.place.run(&["release", "--directory", "live"]);
        assert_eq!(released.code, Some(0), "{released:?}");
        assert!(released.stdout.contains("1 thread restored"), "{}", released.stdout);
        soon("it is as before", || Now::of(hog.pid()) == before);
        live.assert_nothing_left();
    }
}

#[test]
fn a_dispatcher_with_a_table_elsewhere_is_named() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let live = Live::promise(&PROMISE, &[hog.pid()]);
    let place = Place::new();
    let done = place.run(&["release", "--all", "--run-directory", "."]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains(&format!("process {} still dispatches", live.core().pid())), "{}", done.stderr);
    assert!(!live.process.has_ended());
    live.end();
}

#[test]
fn a_refusal_as_json_has_what_would_make_room() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    let pid = child.pid().to_string();
    let cpu = last_cpu().to_string();
    let args = ["--period", "10ms", "--slice", "9500us", "--affinity", &cpu, "--json", "--pid", &pid];
    let mut live = Live::begin(&args);
    let done = live.done();
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let shown: Value = serde_json::from_str(&done.stdout).unwrap();
    let refused = &shown["refused"];
    assert_eq!(refused["alternatives"]["slice_ns"], 9_000_000, "{shown:#}");
    assert_eq!(refused["alternatives"]["period_ns"], 10_555_556, "{shown:#}");
    assert_eq!(refused["alternatives"]["held"], Value::Array(Vec::new()));
    assert!(done.stderr.replace('\n', " ").contains("10.555556ms"), "{}", done.stderr);
}
