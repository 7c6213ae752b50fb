//! A run whose promises have different mechanisms.

use super::refuses::assert_said;
use super::victim::Victim;
use super::{HOG, Live, Now, Watching, assert_restored, hogs, soon, turn};
use sched::Nanos;
use serde_json::Value;
use std::fmt::Write;
use sys::attributes::{self, Attributes, Policy};
use sys::child::Child;
use sys::{affinity, clock, thread};

/// Returns a scenario of existing processes: name, pid, slice of every 100 ms, and mechanism.
fn scenario(length: &str, promises: &[(&str, u32, &str, &str)]) -> String {
    let mut toml = format!("name = \"several\"\ncpus = 64\nlength = \"{length}\"\n");
    for (name, pid, slice, mechanism) in promises {
        let _ = write!(toml, "[[task]]\nname = \"{name}\"\npid = {pid}\nslice = \"{slice}\"\nperiod = \"100ms\"\n");
        let _ = writeln!(toml, "mechanism = \"{mechanism}\"");
    }
    toml
}

#[test]
fn each_promise_has_its_own_mechanism_and_a_kill_of_the_core_restores_all() {
    let Some(_turn) = turn() else { return };
    let children = [(); 3].map(|()| Child::start(HOG).unwrap());
    let [inherits, fifo, reserved] = children.each_ref().map(Child::pid);
    let pids = [inherits, fifo, reserved];
    let before = Now::of_all(&pids);
    let _others = hogs();
    let live = Live::of_scenario(&scenario(
        "60s",
        &[("a", inherits, "20ms", "inherit"), ("b", fifo, "20ms", "fifo"), ("c", reserved, "12ms", "deadline")],
    ));
    live.await_raised(&[inherits, fifo]);
    let watching = Watching::begin();
    let class = |pid| attributes::get(pid).unwrap();
    soon("one is in SCHED_FIFO", || matches!(class(fifo).policy, Policy::Fifo { .. }));
    soon("one is reserved", || class(reserved) == Attributes::reserved(Nanos::ms(12), Nanos::ms(100)));
    assert_eq!(class(inherits), before[0].attributes, "a thread that inherits keeps its attributes");
    drop(watching);
    let guardian = live.guardian();
    let begin = clock::now();
    live.core().kill().unwrap();
    assert_restored(begin, &pids, &before);
    soon("the guardian ends", || guardian.has_ended());
    live.assert_nothing_left();
}

#[test]
fn the_report_names_each_mechanism_and_all_promises_are_kept() {
    let Some(_turn) = turn() else { return };
    let children = [(); 3].map(|()| Child::start(HOG).unwrap());
    let [inherits, fifo, reserved] = children.each_ref().map(Child::pid);
    let before = Now::of_all(&[inherits, fifo, reserved]);
    let _others = hogs();
    let promises =
        [("a", inherits, "20ms", "inherit"), ("b", fifo, "20ms", "fifo"), ("c", reserved, "12ms", "deadline")];
    let mut live = Live::of_scenario_with(&scenario("2s", &promises), &["--json"]);
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let entities = report["runs"][0]["entities"].as_array().unwrap();
    let names: Vec<&str> = entities.iter().filter_map(|entity| entity["mechanism"]["name"].as_str()).collect();
    assert_eq!(names, ["inherited FIFO", "SCHED_FIFO", "SCHED_DEADLINE"]);
    for entity in entities {
        let number = |name: &str| entity[name].as_u64().unwrap_or_else(|| panic!("{name}: {entity:#}"));
        assert!(number("periods_judged") > 10, "{entity:#}");
        assert!(number("periods_missed") * 10 <= number("periods_judged"), "{entity:#}");
    }
    assert_eq!(Now::of_all(&[inherits, fifo, reserved]), before);
    live.assert_nothing_left();
}

#[test]
fn promises_by_different_mechanisms_that_do_not_fit_together_are_refused() {
    let Some(_turn) = turn() else { return };
    let cpus = affinity::get(thread::current()).unwrap().len();
    let children: Vec<Child> = (0..=cpus).map(|_| Child::start(HOG).unwrap()).collect();
    let pids: Vec<u32> = children.iter().map(Child::pid).collect();
    let before = Now::of_all(&pids);
    // Each CPU has a client with 85 ms of every 100 ms. A reserved thread takes 10 ms + 10 ms (2 - 0.1) of them, and an overrun.
    let mut promises: Vec<(&str, u32, &str, &str)> =
        pids[..cpus].iter().map(|&pid| ("", pid, "85ms", "auto")).collect();
    let names: Vec<String> = (0..cpus).map(|nth| format!("by turns {nth}")).collect();
    promises.iter_mut().zip(&names).for_each(|(promise, name)| promise.0 = name);
    let reserved = ("reserved", pids[cpus], "10ms", "deadline");
    let mut live = Live::of_scenario(&scenario("1s", &[&promises[..], &[reserved]].concat()));
    let words = ["SCHED_DEADLINE runs a thread before all clients by turns", "by turns 0", "make a smaller promise"];
    assert_said(&live.done(), &words);
    assert_eq!(Now::of_all(&pids), before);
    live.assert_nothing_left();
    let reserved = ("reserved", pids[cpus], "60ms", "deadline");
    let mut live = Live::of_scenario(&scenario("1s", &[reserved, promises[0]]));
    let of_thread = format!("reserved (thread {}, SCHED_DEADLINE, 60ms every 100ms", pids[cpus]);
    assert_said(&live.done(), &["threads above all clients may take 100ms of 100ms", &of_thread]);
    assert_eq!(Now::of_all(&pids), before);
    live.assert_nothing_left();
}

#[test]
fn a_thread_has_a_promise_by_one_mechanism_only() {
    let Some(_turn) = turn() else { return };
    let mut parent = Victim::of_children();
    let child = parent.bear("while :; do :; done & echo says $!");
    let both = [parent.pid(), child];
    let before = Now::of_all(&both);
    for (first, second) in
        [((child, "deadline"), (parent.pid(), "fifo")), ((parent.pid(), "inherit"), (child, "deadline"))]
    {
        let promises = [("first", first.0, "4ms", first.1), ("second", second.0, "4ms", second.1)];
        let mut live = Live::of_scenario(&scenario("1s", &promises));
        assert_said(&live.done(), &[&format!("process {child} has a promise already, as first")]);
        assert_eq!(Now::of_all(&both), before);
        live.assert_nothing_left();
    }
}
