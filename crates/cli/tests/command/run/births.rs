//! Descendants of a client belong to its promise. After the end of the promise, the descendants have the attributes
//! that they would have without the promise.

use super::victim::Victim;
use super::{Live, Now, soon, turn};
use sched::{CpuSet, Nanos};
use sys::attributes::{self, Attributes, Policy};
use sys::births::Children;
use sys::process::Process;
use sys::{affinity, clock, thread};

const PROMISE: [&str; 4] = ["--period", "20ms", "--slice", "8ms"];

/// Gives all threads of `victim` a nice value, and an affinity other than the default if there are enough CPUs.
fn mark(victim: &Victim) -> Now {
    let all = affinity::get(thread::current()).unwrap();
    let cpus: CpuSet = all.iter().take(2).collect();
    for tid in victim.threads() {
        attributes::set(tid, Attributes::of(Policy::Other { nice: 5 })).unwrap();
        affinity::set(tid, &cpus).unwrap();
    }
    Now::of(victim.pid())
}

#[test]
fn threads_that_are_born_later_belong_to_the_promise() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_threads();
    victim.hear();
    let before = mark(&victim);
    let live = Live::promise(&PROMISE, &[victim.pid()]);
    let mut tids = vec![victim.pid()];
    for kind in ["sleeper", "hog", "sleeper", "sleeper"] {
        tids.push(victim.ask(kind));
        live.await_raised(&tids[tids.len() - 1..]);
    }
    live.end();
    for &tid in &tids {
        assert_eq!(Now::of(tid), before, "{tid} of {tids:?}");
    }
}

#[test]
fn children_and_their_children_that_are_born_later_belong_to_the_promise() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_children();
    let before = mark(&victim);
    let live = Live::promise(&PROMISE, &[victim.pid()]);
    let child = victim.bear("sleep 30 & echo says $!");
    let grandchild = victim.bear("(sleep 30 & echo says $!; wait) &");
    let parent = thread::status(grandchild).unwrap().parent;
    assert_ne!(parent, victim.pid(), "there is a shell between them");
    let pids = [child, parent, grandchild];
    live.await_raised(&pids);
    live.end();
    for pid in pids {
        assert_eq!(Now::of(pid), before, "{pid} of {pids:?}");
    }
}

#[test]
fn a_child_that_outlives_its_parent_is_still_served_and_restored() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_children();
    let before = mark(&victim);
    let live = Live::promise(&PROMISE, &[victim.pid()]);
    let orphan = victim.bear("(sleep 30 & echo says $!; wait) &");
    live.await_raised(&[orphan]);
    let parent = Process::open(thread::status(orphan).unwrap().parent).unwrap();
    parent.kill().unwrap();
    soon("it is an orphan", || thread::status(orphan).unwrap().parent != parent.pid());
    clock::sleep(Nanos::ms(60));
    live.await_raised(&[orphan]);
    live.end();
    assert_eq!(Now::of(orphan), before);
}

#[test]
fn a_child_forked_while_the_promise_ends_is_restored() {
    let Some(_turn) = turn() else { return };
    for round in 0..4 {
        let mut victim = Victim::of_children();
        let before = mark(&victim);
        let live = Live::promise(&["--period", "10ms", "--slice", "6ms"], &[victim.pid()]);
        victim.tell("n=0; while [ $n -lt 300 ]; do sleep 30 & n=$((n+1)); done; echo says $n");
        clock::sleep(Nanos::ms(20 + round * 7));
        live.end();
        assert_eq!(victim.hear(), 300);
        let children = victim.children();
        assert_eq!(children.len(), 300);
        for (nth, &pid) in children.iter().enumerate() {
            assert_eq!(Now::of(pid), before, "child {nth} in round {round}");
        }
    }
}

/// Returns whether this host reports forks to the keeper. Prints a message otherwise.
fn is_told() -> bool {
    let me = thread::current();
    let told = Children::of_thread(me, affinity::get(me).unwrap().first().unwrap());
    told.inspect_err(|refused| eprintln!("SKIPPED: {refused}")).is_ok()
}

#[test]
fn a_child_whose_parent_ends_at_once_belongs_to_the_promise() {
    let Some(_turn) = turn() else { return };
    if !is_told() {
        return;
    }
    let mut victim = Victim::of_children();
    let before = mark(&victim);
    let live = Live::promise(&PROMISE, &[victim.pid()]);
    let orphans: Vec<u32> = (0..20).map(|_| victim.bear("(sleep 30 & echo says $!)")).collect();
    live.await_raised(&orphans);
    live.end();
    for pid in orphans {
        assert_eq!(Now::of(pid), before);
    }
}

#[test]
fn a_child_of_a_command_that_ends_at_once_is_restored() {
    let Some(_turn) = turn() else { return };
    if !is_told() {
        return;
    }
    // After the run, the child must have the attributes of this thread, from which the command inherited them.
    let before = Now::of(thread::current());
    for _ in 0..5 {
        let script = "(sleep 30 > /dev/null 2>&1 & echo $! > pid); exit 0";
        let mut live = Live::begin(&[&PROMISE[..], &["--", "sh", "-c", script]].concat());
        let done = live.done();
        let pid: u32 = std::fs::read_to_string(live.path("pid")).unwrap().trim().parse().unwrap();
        let orphan = Process::open(pid).unwrap();
        let now = Now::of(pid);
        orphan.kill().unwrap();
        assert_eq!((done.code, now), (Some(0), before.clone()), "{}", done.stderr);
    }
}

#[test]
fn a_crowd_of_processes_is_served_and_restored() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_children();
    let before = mark(&victim);
    assert_eq!(victim.ask("n=0; while [ $n -lt 400 ]; do sleep 30 & n=$((n+1)); done; echo says $n"), 400);
    let live = Live::promise(&["--period", "50ms", "--slice", "10ms"], &[victim.pid()]);
    let children = victim.children();
    assert_eq!(children.len(), 400);
    let another = victim.bear("sleep 30 & echo says $!");
    live.await_raised(&[children[0], children[399], another]);
    live.end();
    for pid in children.into_iter().chain([another]) {
        assert_eq!(Now::of(pid), before, "{pid}");
    }
}
