//! A client is raised during its promise, and restored afterwards.

use super::victim::Victim;
use super::{BUSY_NOW_AND_THEN, HOG, Live, Now, RAISED, Watching, is_raised, soon, turn};
use sched::{CpuSet, Nanos};
use std::process::{Command, Stdio};
use sys::attributes::{self, Attributes, Policy};
use sys::child::{Child, Work};
use sys::{affinity, clock, thread};

/// Returns two CPUs, or the only CPU of a host with one CPU.
fn two_cpus() -> CpuSet {
    affinity::get(thread::current()).unwrap().iter().take(2).collect()
}

/// Promises CPU time to a process with this work and these attributes by each mechanism, ends the promise, and asserts
/// that the process is restored.
fn promise_and_take_back(work: Work, policy: Policy, is_stopped: bool, limit: &[&str]) {
    for mechanism in ["inherit", "fifo"] {
        promise_by(mechanism, work, policy, is_stopped, limit);
    }
}

fn promise_by(mechanism: &str, work: Work, policy: Policy, is_stopped: bool, limit: &[&str]) {
    let child = Child::start(work).unwrap();
    attributes::set(child.pid(), Attributes::of(policy)).unwrap();
    affinity::set(child.pid(), &two_cpus()).unwrap();
    if is_stopped {
        child.process().stop().unwrap();
        soon("it is stopped", || Now::of(child.pid()).is_stopped);
    }
    let before = Now::of(child.pid());
    let promise = ["--mechanism", mechanism, "--period", "10ms", "--slice", "2ms", "--pid", &child.pid().to_string()];
    let live = Live::begin(&[&promise, limit].concat());
    let watching = Watching::begin();
    soon("it is raised", || is_raised(child.pid()));
    let now = || attributes::get(child.pid()).unwrap();
    if mechanism == "inherit" {
        assert_eq!(now(), before.attributes, "its attributes do not change");
    } else {
        soon("its attributes are set", || now() == Attributes::raised(RAISED[0]));
    }
    drop(watching);
    assert_eq!(affinity::get(child.pid()).unwrap().len(), 1, "it is on its CPU");
    clock::sleep(Nanos::ms(50));
    if is_stopped {
        assert!(Now::of(child.pid()).is_stopped, "no process has continued it");
    }
    let done = live.end();
    assert_eq!(Now::of(child.pid()), before, "{mechanism}, {work:?}, {policy:?}, {limit:?}; {}", done.stderr);
}

#[test]
fn a_process_that_inherits_its_priority_keeps_its_timer_slack() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(HOG).unwrap();
    let path = format!("/proc/{}/timerslack_ns", child.pid());
    let slack = || std::fs::read_to_string(&path).unwrap();
    // A change to a real-time class and back would set the slack to 50 us.
    std::fs::write(&path, "7").unwrap();
    let live = Live::promise(&["--mechanism", "inherit", "--period", "10ms", "--slice", "2ms"], &[child.pid()]);
    assert_eq!(slack(), "7\n");
    live.end();
    assert_eq!(slack(), "7\n");
}

const EACH_LIMIT: [&[&str]; 2] = [&[], &["--hard"]];

#[test]
fn an_ordinary_process_is_raised_and_then_as_nice_as_before() {
    let Some(_turn) = turn() else { return };
    for (limit, work) in EACH_LIMIT.into_iter().zip([BUSY_NOW_AND_THEN, HOG]) {
        promise_and_take_back(work, Policy::Other { nice: 5 }, false, limit);
        promise_and_take_back(HOG, Policy::Other { nice: -3 }, false, limit);
    }
}

#[test]
fn another_class_is_restored() {
    let Some(_turn) = turn() else { return };
    promise_and_take_back(Work::Sleep, Policy::Fifo { priority: 1 }, false, &[]);
    promise_and_take_back(BUSY_NOW_AND_THEN, Policy::Fifo { priority: 1 }, false, &["--hard"]);
    promise_and_take_back(BUSY_NOW_AND_THEN, Policy::RoundRobin { priority: 3 }, false, &[]);
    promise_and_take_back(HOG, Policy::Batch { nice: 4 }, false, &[]);
    promise_and_take_back(HOG, Policy::Idle, false, &["--hard"]);
}

#[test]
fn a_stopped_process_stays_stopped() {
    let Some(_turn) = turn() else { return };
    for limit in EACH_LIMIT {
        promise_and_take_back(HOG, Policy::Other { nice: 0 }, true, limit);
        promise_and_take_back(Work::Sleep, Policy::Batch { nice: 1 }, true, limit);
    }
}

#[test]
fn every_thread_is_what_it_was_itself() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_threads();
    let leader = victim.hear();
    let tids = [leader, victim.ask("sleeper"), victim.ask("hog"), victim.ask("sleeper")];
    attributes::set(tids[0], Attributes::of(Policy::Other { nice: 5 })).unwrap();
    attributes::set(tids[1], Attributes::of(Policy::Fifo { priority: 2 })).unwrap();
    attributes::set(tids[2], Attributes::of(Policy::Idle)).unwrap();
    affinity::set(tids[2], &two_cpus()).unwrap();
    affinity::set(tids[3], &CpuSet::one(two_cpus().first().unwrap())).unwrap();
    let before = Now::of_all(&tids);
    let live = Live::promise(&["--period", "20ms", "--slice", "4ms"], &[leader]);
    live.await_raised(&tids);
    live.end();
    assert_eq!(Now::of_all(&tids), before);
}

#[test]
fn a_value_that_another_process_sets_meanwhile_stays() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    let before = Now::of(child.pid());
    let live = Live::promise(&["--period", "10ms", "--slice", "2ms"], &[child.pid()]);
    // The agent must first have found the process asleep.
    clock::sleep(Nanos::ms(50));
    // The test changes the affinity, as taskset does. The process sleeps, so Tactus does not set the affinity again.
    affinity::set(child.pid(), &two_cpus()).unwrap();
    live.end();
    assert_eq!(Now::of(child.pid()), Now { affinity: two_cpus(), ..before });
}

#[test]
fn a_busy_process_keeps_the_nice_value_that_another_process_sets_meanwhile() {
    let Some(_turn) = turn() else { return };
    for mechanism in ["inherit", "fifo"] {
        let child = Child::start(HOG).unwrap();
        let promise = ["--mechanism", mechanism, "--period", "10ms", "--slice", "5ms"];
        let live = Live::promise(&promise, &[child.pid()]);
        live.await_raised(&[child.pid()]);
        let renice = ["-n", "7", "-p", &child.pid().to_string()];
        assert!(Command::new("renice").args(renice).stdout(Stdio::null()).status().unwrap().success());
        clock::sleep(Nanos::ms(100));
        let done = live.end();
        let reniced = Attributes::of(Policy::Other { nice: 7 });
        assert_eq!(attributes::get(child.pid()).unwrap(), reniced, "{mechanism}: {}", done.stderr);
    }
}
