//! `tactus run` on real processes: kept promises, restored values, and refused requests.
//!
//! No other live test runs at the same time. Each test ends its processes, and is skipped where raising threads is not
//! permitted.

mod agrees;
mod births;
mod breaks;
mod calls;
mod compares;
mod ends;
mod faults;
mod follows;
mod freezes;
mod front_ends;
mod gangs;
mod groups;
mod host_views;
mod instants;
mod interferes;
mod keeps;
mod lab;
mod mechanisms;
mod monitor;
mod races;
mod refuses;
mod replacement;
mod reservations;
mod resident;
mod restores;
mod sandbox;
mod service;
mod shares;
mod sleepers;
mod top;
mod victim;
mod vm;

use super::{Done, Place};
use daemon::directory::Directory;
use sched::{CpuSet, Instant, Nanos};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use sys::attributes::{self, Attributes};
use sys::autogroup::{self, Autogroup};
use sys::cgroup::Hierarchy;
use sys::child::{Child, Work};
use sys::process::Process;
use sys::shared::Lock;
use sys::thread::{self, State};
use sys::{affinity, clock};

/// Time within which all threads must be restored after the death of a daemon or its guardian.
const PROMISED: Nanos = Nanos::s(1);
/// Maximum time that a step of a few milliseconds may take on a busy machine.
const PATIENCE: Nanos = Nanos::s(20);
/// Maximum time to wait for other test processes that use the host.
const PATIENCE_WITH_OTHERS: Nanos = Nanos::s(300);
/// Priorities of a raised thread: the usual priority, that of the threads that serve vCPUs, and that of the dispatched
/// client if other clients share its CPU.
const RAISED: [u32; 3] = [97, 96, 95];
/// Work of a hog.
const HOG: Work = Work::Spin { busy: Nanos::ms(1), idle: Nanos::ZERO };
/// Work of a process that alternates between a millisecond of CPU time and two milliseconds of sleep.
const BUSY_NOW_AND_THEN: Work = Work::Spin { busy: Nanos::ms(1), idle: Nanos::ms(2) };

/// The right to use the host, held by one live test at a time. Two dispatchers would promise the time of the same CPUs.
pub(super) struct Turn {
    // The order of the fields matters: other test processes may start only when the threads of this process have ended.
    _host: Lock,
    _process: MutexGuard<'static, ()>,
}

/// Waits until no other live test runs. Prints a message and returns `None` where raising threads is not permitted.
pub(super) fn turn() -> Option<Turn> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let process = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let trial = Child::start(Work::Sleep).unwrap();
    if let Err(refused) = attributes::set(trial.pid(), Attributes::raised(RAISED[0])) {
        eprintln!("SKIPPED: {refused}");
        return None;
    }
    let name = format!("tactus-live-tests-{}", sys::privileges::user());
    let directory = Directory::at(std::env::temp_dir().join(name));
    let begin = clock::now();
    loop {
        match directory.lock() {
            Ok(host) if !is_dispatched() => return Some(Turn { _host: host, _process: process }),
            Ok(_) => assert!(clock::now() < begin + PATIENCE_WITH_OTHERS, "another dispatcher does not end"),
            Err(refused) => assert!(clock::now() < begin + PATIENCE_WITH_OTHERS, "{refused}"),
        }
        clock::sleep(Nanos::ms(20));
    }
}

/// Returns whether a dispatcher that these tests did not start runs on this host.
fn is_dispatched() -> bool {
    Directory::usual().is_ok_and(|usual| {
        let daemon = usual.open_table().ok().flatten().map(|table| table.daemon());
        daemon.is_some_and(|daemon| Process::open_as(daemon).is_ok_and(|process| !process.has_ended()))
    })
}

/// The attributes of a thread that a promise can change.
#[derive(Clone, PartialEq, Debug)]
struct Now {
    attributes: Attributes,
    /// Effective real-time priority, including an inherited priority. Other priorities do not count: a thread whose nice
    /// value is 19 reports 20 when it enters SCHED_IDLE, and 39 after it has inherited a priority.
    real_time: Option<i32>,
    affinity: CpuSet,
    is_stopped: bool,
    /// Path of the group of the thread in the freezer hierarchy of version 1; empty without one.
    freezer: String,
    /// Whether the freezer holds the thread: it is in an uninterruptible sleep for 20 ms, longer than a fork or a page
    /// fault.
    is_frozen: bool,
    autogroup: Option<Autogroup>,
}

impl Now {
    fn of(tid: u32) -> Now {
        Now {
            attributes: attributes::get(tid).unwrap(),
            real_time: Some(thread::status(tid).unwrap().priority).filter(|priority| *priority < 0),
            affinity: affinity::get(tid).unwrap(),
            is_stopped: thread::status(tid).unwrap().state == State::Stopped,
            freezer: Hierarchy::one("freezer").and_then(|freezer| freezer.path_of(tid)).unwrap_or_default(),
            is_frozen: (0..20).all(|_| {
                let is_so = thread::status(tid).unwrap().state == State::Uninterruptible;
                if is_so {
                    clock::sleep(Nanos::ms(1));
                }
                is_so
            }),
            autogroup: autogroup::of(tid).unwrap(),
        }
    }

    fn of_all(tids: &[u32]) -> Vec<Now> {
        tids.iter().map(|&tid| Now::of(tid)).collect()
    }
}

/// Waits until `is_so` holds. Returns the time since `begin`.
fn until(begin: Instant, limit: Nanos, what: &str, mut is_so: impl FnMut() -> bool) -> Nanos {
    while !is_so() {
        assert!(clock::now() < begin + limit, "not within {limit}: {what}");
        clock::sleep(Nanos::us(300));
    }
    clock::now().since(begin)
}

/// Waits until `is_so` holds, but at most [`PATIENCE`].
pub(super) fn soon(what: &str, is_so: impl FnMut() -> bool) {
    until(clock::now(), PATIENCE, what, is_so);
}

/// Starts a hog beside other hogs on the last CPU.
fn crowded_hog() -> (Child, Vec<Child>) {
    let (hog, others, cpu) = (Child::start(HOG).unwrap(), hogs(), CpuSet::one(sched::CpuId::new(last_cpu())));
    std::iter::once(&hog).chain(&others).for_each(|it| affinity::set(it.pid(), &cpu).unwrap());
    (hog, others)
}

/// Returns the share of a CPU that process `pid` receives in `time`. Unit: percent.
fn share(pid: u32, time: Nanos) -> u64 {
    let meter = sys::usage::Meter::open(pid).unwrap();
    let (begin, before) = (clock::now(), meter.read().unwrap().ran);
    clock::sleep(time);
    let (length, after) = (clock::now().since(begin), meter.read().unwrap().ran);
    (after - before).as_ns() * 100 / length.as_ns()
}

/// Asserts that all threads have the attributes `before` within [`PROMISED`] after `begin`, and keep them while the others
/// are observed. Prints the time that this took.
fn assert_restored(begin: Instant, tids: &[u32], before: &[Now]) {
    // To observe a thousand threads takes half a second on a slow machine, so each thread is awaited in turn.
    for (&tid, before) in tids.iter().zip(before) {
        loop {
            let now = Now::of(tid);
            if now == *before {
                break;
            }
            assert!(clock::now() < begin + PROMISED, "not as before within {PROMISED}: {now:#?}, and not {before:#?}");
            clock::sleep(Nanos::us(300));
        }
    }
    eprintln!("all threads were as before after {}", clock::now().since(begin));
    assert_eq!(Now::of_all(tids), before, "they stay so");
}

/// Returns whether the thread has a priority of Tactus, its own or inherited, and is confined to one CPU.
fn is_raised(tid: u32) -> bool {
    // The kernel reports real-time priority 97 as -98.
    let found = thread::status(tid).is_ok_and(|now| RAISED.map(|it| -1 - it.cast_signed()).contains(&now.priority));
    found && affinity::get(tid).is_ok_and(|cpus| cpus.len() == 1)
}

/// Guard that gives the test a priority above every raised thread, so that raised threads on its CPU do not delay its
/// observations.
struct Watching(Attributes);

impl Watching {
    fn begin() -> Watching {
        let before = attributes::get(thread::current()).unwrap();
        attributes::set(thread::current(), Attributes::raised(99)).unwrap();
        Watching(before)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // A thread needs no privilege to lower its priority.
        let _ = attributes::apply(thread::current(), self.0);
    }
}

/// Prints a seed, and returns random numbers: a function of the exclusive upper limit. The environment variable
/// `TACTUS_FAULT_SEED` sets the seed.
fn chance() -> impl FnMut(u64) -> u64 {
    let given = std::env::var("TACTUS_FAULT_SEED").ok().map(|seed| seed.parse().expect("the seed is a number"));
    let seed: u64 = given.unwrap_or_else(|| clock::now().as_ns());
    eprintln!("TACTUS_FAULT_SEED={seed}");
    // The state must not be 0.
    let mut state = seed.wrapping_mul(2) | 1;
    move |limit| {
        // xorshift64, of Marsaglia.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    }
}

/// Returns the last CPU that this process may use.
fn last_cpu() -> usize {
    affinity::get(thread::current()).unwrap().iter().last().unwrap().index()
}

/// Starts one hog more than there are CPUs, so that a process without a promise has to wait.
fn hogs() -> Vec<Child> {
    let count = affinity::get(thread::current()).unwrap().len() + 1;
    (0..count).map(|_| Child::start(HOG).unwrap()).collect()
}

/// A `tactus run` in the background.
struct Live {
    begun: std::process::Child,
    process: Process,
    place: Place,
}

impl Live {
    /// Starts a run in a new directory.
    fn begin(args: &[&str]) -> Live {
        Live::at(Place::new(), args)
    }

    /// Starts a run of the scenario that is written in `toml`.
    fn of_scenario(toml: &str) -> Live {
        Live::of_scenario_with(toml, &[])
    }

    /// Starts a run of the scenario that is written in `toml`, with further arguments.
    fn of_scenario_with(toml: &str, args: &[&str]) -> Live {
        let place = Place::new();
        place.file("scenario.toml", toml);
        Live::at(place, &[&["scenario.toml"], args].concat())
    }

    /// Starts a run in a new process group, as a shell does on a terminal.
    fn at(place: Place, args: &[&str]) -> Live {
        Live::of_command(place.command(&["run", "--directory", "live"]), place, args)
    }

    /// Starts a run through `program`, which executes its arguments.
    fn at_begun(place: Place, program: &str, args: &[&str]) -> Live {
        let mut command = Command::new(program);
        command.args([env!("CARGO_BIN_EXE_tactus"), "run", "--directory", "live"]).current_dir(place.0.path());
        Live::of_command(command, place, args)
    }

    fn of_command(mut command: Command, place: Place, args: &[&str]) -> Live {
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| File::create(place.0.path().join(name)).unwrap());
        command.args(args).process_group(0).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let begun = command.spawn().unwrap();
        // The child is not reaped yet, so its pid is not reused.
        let process = Process::open(begun.id()).unwrap();
        Live { begun, process, place }
    }

    /// Starts a run with a promise to running processes. Returns once all these processes are raised.
    fn promise(args: &[&str], pids: &[u32]) -> Live {
        let numbers: Vec<String> = pids.iter().flat_map(|pid| ["--pid".to_string(), pid.to_string()]).collect();
        let live = Live::begin(&args.iter().copied().chain(numbers.iter().map(String::as_str)).collect::<Vec<_>>());
        live.await_raised(pids);
        live
    }

    /// Waits until each thread of `tids` has been raised at least once.
    fn await_raised(&self, tids: &[u32]) {
        // A thread above all clients counts at admissions, so the test watches only after them.
        let mut recorded = BTreeSet::new();
        for &tid in tids {
            let is_recorded = || {
                if !recorded.contains(&tid) {
                    let table = self.directory().open_table().ok().flatten();
                    let entries = table.map(|table| table.entries()).unwrap_or_default();
                    recorded.extend(entries.iter().map(|(_, entry)| entry.thread.tid));
                }
                recorded.contains(&tid)
            };
            self.await_that(tid, Nanos::ms(1), is_recorded);
        }
        let _watching = Watching::begin();
        for &tid in tids {
            self.await_that(tid, Nanos::us(300), || is_raised(tid));
        }
    }

    /// Waits until thread `tid` is as it is `wanted`, and checks this after every `pause`.
    fn await_that(&self, tid: u32, pause: Nanos, mut wanted: impl FnMut() -> bool) {
        let begin = clock::now();
        while !wanted() {
            let said = || self.said("stderr");
            if self.process.has_ended() {
                // The guardian writes its report last.
                clock::sleep(PROMISED + Nanos::s(1));
                panic!("it has ended before {tid} was raised: {:?}: {}", self.status(), said());
            }
            assert!(clock::now() < begin + PATIENCE, "{tid} is not raised but {:?}: {}", Now::of(tid), said());
            clock::sleep(pause);
        }
    }

    fn directory(&self) -> Directory {
        Directory::at(self.place.0.path().join("live"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.0.path().join(name)
    }

    /// Waits for the core, and returns its process.
    fn core(&self) -> Process {
        let mut found = None;
        soon("there is a core", || {
            let table = self.directory().open_table().ok().flatten();
            found = table.and_then(|table| Process::open_as(table.daemon()).ok());
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits for an active guardian, and returns its process.
    fn guardian(&self) -> Process {
        let mut found = None;
        soon("there is a guardian", || {
            let table = self.directory().open_table().ok().flatten();
            found = table.and_then(|table| table.guardian()).and_then(|identity| Process::open_as(identity).ok());
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until a second guardian stands by, and returns its process.
    fn await_standby(&self) -> Process {
        let mut found = None;
        soon("a guardian stands by", || {
            let Some(table) = self.directory().open_table().ok().flatten() else { return false };
            let standby = table.standby().filter(|standby| table.guardian() != Some(*standby));
            let process = standby.and_then(|standby| Process::open_as(standby).ok());
            found = process.filter(|process| !process.has_ended());
            found.is_some()
        });
        found.unwrap()
    }

    /// Kills the core and both guardians, before any of them restores a thread.
    fn kill_all(&self) {
        let (core, guardian, standby) = (self.core(), self.guardian(), self.await_standby());
        // No guardian may restore the threads before it is killed, nor the core replace it.
        standby.stop().unwrap();
        core.stop().unwrap();
        let all = [&guardian, &core, &standby];
        all.iter().for_each(|process| process.kill().unwrap());
        assert!(all.iter().all(|process| process.ends_within(Nanos::s(2))));
    }

    /// Sends `signal` to the process group of the run, as a terminal does.
    fn signal_group(&self, signal: &str) {
        signal_to(signal, &format!("-{}", self.process.pid()));
    }

    /// Sends `signal` only to the process of the run.
    fn signal(&self, signal: &str) {
        signal_to(signal, &self.process.pid().to_string());
    }

    /// Waits for at most [`PATIENCE`] until the run ends, and returns its result.
    fn done(&mut self) -> Done {
        assert!(self.process.ends_within(PATIENCE), "it ends; so far it has said {}", self.said("stderr"));
        let status = self.begun.wait().unwrap();
        // A process that was killed by a signal has no exit code. A shell reports 128 plus the number of the signal.
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        if status.signal().is_some() {
            // The guardian may still print what it has restored.
            clock::sleep(Nanos::ms(500));
        }
        Done { code, stdout: self.said("stdout"), stderr: self.said("stderr") }
    }

    /// Returns the exit status of the run as the kernel reports it, without reaping the process.
    fn status(&self) -> String {
        let fields = std::fs::read_to_string(format!("/proc/{}/stat", self.process.pid())).unwrap_or_default();
        let code: Option<i32> = fields.split(' ').next_back().and_then(|code| code.trim().parse().ok());
        code.map_or_else(|| "unknown status".to_string(), |code| ExitStatus::from_raw(code).to_string())
    }

    fn said(&self, name: &str) -> String {
        String::from_utf8(self.place.read(name)).expect("it is text")
    }

    /// Ends the run with SIGINT, as a user does. Asserts that the run ends with code 130 and without a panic, and that
    /// it leaves no process and only the lock file.
    fn end(mut self) -> Done {
        self.signal("INT");
        let done = self.done();
        assert_eq!(done.code, Some(130), "it ends in order: {}", self.said("stderr"));
        self.assert_nothing_left();
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
        done
    }

    /// Asserts that no process is left, and no file except the lock file.
    fn assert_nothing_left(&self) {
        // The files come first: a guardian that finds the directory locked, by this test, leaves them.
        soon("only the lock file is left", || {
            let left = std::fs::read_dir(self.directory().path()).unwrap();
            left.map(|entry| entry.unwrap().file_name()).eq(["tactus.lock"])
        });
        soon("the lock is free", || self.directory().lock().is_ok());
        soon("no group of a guardian is left", || groups::of_guardians().is_empty());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if !self.process.has_ended() {
            // A test has failed. When the front end is killed, the core restores all threads.
            let _ = self.process.kill();
            let _ = self.begun.wait();
            let end = clock::now() + PATIENCE;
            while self.directory().lock().is_err() && clock::now() < end {
                clock::sleep(Nanos::ms(20));
            }
        }
    }
}

/// Sends `signal` to `target` with the `kill` command of a shell.
fn signal_to(signal: &str, target: &str) {
    let status = Command::new("sh").args(["-c", "kill -s \"$0\" -- \"$1\"", signal, target]).status().unwrap();
    assert!(status.success(), "no process gets {signal}: {target}");
}
