//! The tests of the guardian. Each test ends the processes that it starts.

use daemon::directory::{Directory, Refused};
use sched::{CpuSet, Instant, Nanos};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child as Begun, ChildStdout, Command, Stdio};
use sys::attributes::{self, Attributes};
use sys::cgroup::Hierarchy;
use sys::child::{Child, Work};
use sys::process::Process;
use sys::thread::{self, State};
use sys::{Error, affinity, clock};
use tempfile::TempDir;

/// Time within which every thread must have its original values again.
const PROMISED: Nanos = Nanos::s(1);

/// A process of this program in one of its roles.
struct Role {
    begun: Begun,
    process: Process,
    out: BufReader<ChildStdout>,
}

impl Role {
    fn begin(args: &[&str]) -> Role {
        let mut command = Command::new("/proc/self/exe");
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut begun = command.spawn().unwrap();
        let out = BufReader::new(begun.stdout.take().unwrap());
        // The child is not reaped yet, so its pid is not reused.
        let process = Process::open(begun.id()).unwrap();
        Role { begun, process, out }
    }

    /// Returns the next line of output of the process; empty once the process has ended.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim().to_string()
    }

    fn hear_number(&mut self) -> u32 {
        let heard = self.hear();
        heard.parse().unwrap_or_else(|_| panic!("it said {heard:?} and not a number; {}", self.complaints()))
    }

    fn tell(&mut self, words: &str) {
        self.begun.stdin.as_mut().unwrap().write_all(words.as_bytes()).unwrap();
    }

    fn end_of_input(&mut self) {
        drop(self.begun.stdin.take());
    }

    /// Returns the standard error of the process, and of a guardian that the process started, once both have ended.
    fn complaints(&mut self) -> String {
        let mut text = String::new();
        self.end_of_input();
        self.begun.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.end_of_input();
        if !self.process.ends_within(Nanos::s(3)) {
            let _ = self.process.kill();
        }
        let _ = self.begun.wait();
    }
}

/// The values of a thread.
#[derive(Clone, PartialEq, Debug)]
struct Now {
    attributes: Attributes,
    affinity: CpuSet,
    is_frozen: bool,
    /// Path of the group of the thread in the freezer hierarchy.
    group: String,
}

fn now(tid: u32) -> Now {
    // A frozen thread is in an uninterruptible sleep. The victims never wait for a disk.
    let is_frozen = thread::status(tid).unwrap().state == State::Uninterruptible;
    let group = Hierarchy::one_or_mount("freezer").and_then(|freezer| freezer.path_of(tid)).unwrap_or_default();
    Now { attributes: attributes::get(tid).unwrap(), affinity: affinity::get(tid).unwrap(), is_frozen, group }
}

fn all_now(tids: &[u32]) -> Vec<Now> {
    tids.iter().map(|&tid| now(tid)).collect()
}

/// Waits until `is_so` holds. Returns the time since `begin`.
fn until(begin: Instant, limit: Nanos, what: &str, mut is_so: impl FnMut() -> bool) -> Nanos {
    while !is_so() {
        assert!(clock::now() < begin + limit, "not within {limit}: {what}");
        clock::sleep(Nanos::us(500));
    }
    clock::now().since(begin)
}

/// Two processes, the victims, and a daemon that changes their values.
struct Scene {
    daemon: Role,
    guardian: Process,
    victims: [Child; 2],
    before: Vec<Now>,
    place: TempDir,
}

impl Scene {
    fn begin() -> Scene {
        let scene = Scene::under("daemon");
        scene.assert_imposed();
        scene
    }

    /// Returns a scene with a daemon in this role.
    fn under(role: &str) -> Scene {
        let place = tempfile::tempdir().unwrap();
        let half = Work::Spin { busy: Nanos::ms(1), idle: Nanos::ms(1) };
        let victims = [Child::start(half).unwrap(), Child::start(Work::Sleep).unwrap()];
        attributes::set(victims[0].pid(), Attributes::of(attributes::Policy::Batch { nice: 2 })).unwrap();
        let pids = victims.each_ref().map(Child::pid);
        let before = all_now(&pids);
        let words = pids.map(|pid| pid.to_string());
        let mut daemon = Role::begin(&[role, place.path().to_str().unwrap(), &words[0], &words[1]]);
        let guardian = Process::open(daemon.hear_number()).unwrap();
        Scene { daemon, guardian, victims, before, place }
    }

    fn pids(&self) -> [u32; 2] {
        self.victims.each_ref().map(Child::pid)
    }

    fn directory(&self) -> Directory {
        Directory::at(self.place.path())
    }

    /// Asserts that the daemon has changed the values of the victims.
    fn assert_imposed(&self) {
        until(clock::now(), PROMISED, "the first is frozen", || now(self.pids()[0]).is_frozen);
        for (found, before) in all_now(&self.pids()).into_iter().zip(&self.before) {
            assert_eq!(found.affinity.len(), 1);
            if !found.attributes.reset_on_fork {
                eprintln!("SKIPPED: real-time priorities, which we lack the privilege for");
            }
            assert!(found != *before, "it is as before: {found:?}");
        }
    }

    /// Asserts that all values are restored within the promised time after `begin`, and prints the elapsed time.
    fn assert_restored(&self, begin: Instant) {
        let took = until(begin, PROMISED, "all threads are as before", || all_now(&self.pids()) == self.before);
        eprintln!("all threads were as before after {took}");
    }

    /// Asserts that the guardian ends, the table is removed and the lock is free. Returns the standard error of the
    /// daemon and its guardian.
    fn assert_over(&mut self) -> String {
        assert!(self.guardian.ends_within(PROMISED), "the guardian ends");
        assert!(self.directory().open_table().unwrap().is_none(), "the table is gone");
        assert!(self.directory().lock().is_ok(), "the lock is free");
        self.daemon.complaints()
    }
}

pub(crate) fn all_threads_are_restored_when_the_daemon_is_killed() {
    let mut scene = Scene::begin();
    let me = scene.daemon.process.pid();
    assert!(matches!(scene.directory().lock(), Err(Refused::Held(Some(pid))) if pid == me), "there is one dispatcher");
    let begin = clock::now();
    scene.daemon.process.kill().unwrap();
    scene.assert_restored(begin);
    let said = scene.assert_over();
    assert!(said.contains("has ended: 2 threads restored"), "{said}");
    assert!(scene.pids().iter().all(|pid| said.contains(&format!("thread {pid}: "))), "{said}");
}

pub(crate) fn a_stopped_daemon_is_killed_and_all_threads_are_restored() {
    let mut scene = Scene::begin();
    let begin = clock::now();
    scene.daemon.process.stop().unwrap();
    scene.assert_restored(begin);
    until(begin, PROMISED, "the daemon has ended", || scene.daemon.process.has_ended());
    let said = scene.assert_over();
    assert!(said.contains("the agent of CPU 0 has missed its heartbeats for 300ms"), "{said}");
}

pub(crate) fn at_any_instant_of_its_death_all_threads_are_restored() {
    let seed = clock::now().as_ns();
    eprintln!("seed {seed}");
    let mut state = seed;
    for round in 0..8 {
        let mut scene = Scene::under("restless");
        // Knuth's linear congruential generator, whose upper bits are more random than its lower bits.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        clock::sleep(Nanos::us(state >> 50));
        let (daemon, begin) = (&scene.daemon.process, clock::now());
        // The guardian detects a stopped daemon only by missed beats, which takes time, so only two rounds stop it.
        if round % 4 == 3 {
            daemon.stop().unwrap()
        } else {
            daemon.kill().unwrap()
        }
        scene.assert_restored(begin);
        scene.assert_over();
        assert_eq!(all_now(&scene.pids()), scene.before);
    }
}

pub(crate) fn threads_that_were_born_since_are_restored_too() {
    let mut victim = Role::begin(&["victim"]);
    victim.tell("a thread\n");
    let (leader, second) = (victim.begun.id(), victim.hear_number());
    for tid in [leader, second] {
        attributes::set(tid, Attributes::of(attributes::Policy::Other { nice: 6 })).unwrap();
    }
    let before = now(leader);
    let place = tempfile::tempdir().unwrap();
    // The daemon freezes its first process, which then cannot start threads. A sleeping child takes that place.
    let first = Child::start(Work::Sleep).unwrap();
    let words = [first.pid(), leader].map(|pid| pid.to_string());
    let mut daemon = Role::begin(&["daemon", place.path().to_str().unwrap(), &words[0], &words[1]]);
    daemon.hear_number();
    victim.tell("another\nand one more\n");
    let tids = [leader, second, victim.hear_number(), victim.hear_number()];
    assert!(tids.iter().all(|&tid| now(tid).affinity.len() == 1), "they inherit where they may run");
    let begin = clock::now();
    daemon.process.kill().unwrap();
    until(begin, PROMISED, "all threads are as before", || all_now(&tids).iter().all(|found| *found == before));
    let said = daemon.complaints();
    assert!(said.contains(&format!("thread {} of process {leader}: ", tids[3])), "{said}");
}

/// Tests that the daemon replaces a guardian after `act`, and that the new guardian restores all threads.
fn guardian_is_missed(act: impl Fn(&Process) -> Result<(), Error>) {
    let mut scene = Scene::begin();
    let begin = clock::now();
    act(&scene.guardian).unwrap();
    assert_eq!(scene.daemon.hear(), "restored");
    let took = clock::now().since(begin);
    assert!(took < PROMISED, "{took}");
    eprintln!("the guardian was missed after {took}");
    let another = Process::open(scene.daemon.hear_number()).unwrap();
    assert!(scene.guardian.has_ended() && scene.guardian.pid() != another.pid());
    scene.assert_imposed();
    // Now kill the daemon: the new guardian must restore all threads.
    scene.guardian = another;
    let begin = clock::now();
    scene.daemon.process.kill().unwrap();
    scene.assert_restored(begin);
    scene.assert_over();
}

pub(crate) fn a_guardian_that_is_killed_is_missed_and_replaced() {
    guardian_is_missed(Process::kill);
}

pub(crate) fn a_guardian_that_is_stopped_is_missed_and_replaced() {
    guardian_is_missed(Process::stop);
}

pub(crate) fn an_orderly_end_leaves_no_guardian_and_no_table() {
    let mut scene = Scene::begin();
    // The signal simulates a terminal, which signals its whole process group.
    scene.guardian.terminate().unwrap();
    let session = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3).unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(session(scene.guardian.pid()), scene.guardian.pid(), "it is out of the daemon's session");
    assert!(!scene.guardian.ends_within(Nanos::ms(150)), "it does not end when it is asked to");
    let begin = clock::now();
    scene.daemon.end_of_input();
    scene.assert_restored(begin);
    let said = scene.daemon.hear();
    assert!(said.starts_with("2 threads restored, 0 as before"), "{said}");
    assert!(scene.daemon.process.ends_within(PROMISED));
    assert_eq!(scene.assert_over(), "", "there is nothing to say");
}

pub(crate) fn a_guardian_without_a_table_does_not_begin() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap().to_string();
    let mut guardian = Role::begin(&["guardian", &path]);
    let said = guardian.complaints();
    assert_eq!(said, format!("tactus guardian: there is no table of originals in {path}\n"));
    assert_eq!(guardian.begun.wait().unwrap().code(), Some(1));
}
