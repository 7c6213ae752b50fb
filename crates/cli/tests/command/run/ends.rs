//! The end of a run: on a signal, after its duration, or because its command has ended.

use super::super::Place;
use super::{Done, HOG, Live, Now, signal_to, soon, turn};
use sched::Nanos;
use std::path::Path;
use sys::child::Child;
use sys::clock;
use sys::process::Process;
use sys::thread::{self, State};

const PROMISE: [&str; 4] = ["--period", "10ms", "--slice", "3ms"];

fn command(words: &[&str]) -> Live {
    Live::begin(&[&PROMISE[..], &["--"], words].concat())
}

/// Waits until the command has written its pid into the file `pid`.
fn pid_of(live: &Live) -> Process {
    let read = || std::fs::read_to_string(live.path("pid")).ok()?.strip_suffix('\n')?.parse().ok();
    soon("the command runs", || read().is_some());
    Process::open(read().unwrap()).unwrap()
}

const SAYS_ITS_PID: &str = "echo $$ > pid; exec sleep 30";

#[test]
fn an_interrupt_or_sigterm_ends_a_run_in_order() {
    let Some(_turn) = turn() else { return };
    for (signal, limit) in [("INT", None), ("TERM", Some("--hard"))] {
        let hog = Child::start(HOG).unwrap();
        let before = Now::of(hog.pid());
        let args: Vec<&str> = PROMISE.into_iter().chain(limit).collect();
        let mut live = Live::promise(&args, &[hog.pid()]);
        let guardian = live.guardian();
        live.signal(signal);
        let done = live.done();
        assert_eq!(done.code, Some(130), "{signal}: {}", done.stderr);
        assert_eq!(Now::of(hog.pid()), before, "{signal}");
        assert!(guardian.has_ended());
        live.assert_nothing_left();
    }
}

#[test]
fn a_stop_of_the_terminal_stops_the_front_end_alone_and_a_hangup_that_is_not_to_be_heard_ends_nothing() {
    let Some(_turn) = turn() else { return };
    let mut live = Live::at_begun(Place::new(), "nohup", &[&PROMISE[..], &["--", "sh", "-c", SAYS_ITS_PID]].concat());
    let (sleeper, core, guardian) = (pid_of(&live), live.core(), live.guardian());
    live.signal("HUP");
    for signal in ["TSTP", "TTOU", "HUP"] {
        signal_to(signal, &core.pid().to_string());
    }
    live.signal_group("TSTP");
    let state = |process: &Process| thread::status(process.pid()).unwrap().state;
    soon("the front end is stopped", || state(&live.process) == State::Stopped);
    // The guardian would have killed a core without heartbeats within this time.
    assert!(!core.ends_within(Nanos::ms(700)), "it goes on: {}", live.said("stderr"));
    assert!(!guardian.has_ended() && state(&core) != State::Stopped);
    assert_eq!(state(&sleeper), State::Stopped, "the command is stopped like any other command");
    live.signal_group("CONT");
    soon("the command goes on", || state(&sleeper) != State::Stopped);
    live.signal("INT");
    assert_eq!(live.done().code, Some(130));
    live.assert_nothing_left();
}

#[test]
fn an_interrupt_of_the_terminal_ends_the_command_too() {
    let Some(_turn) = turn() else { return };
    let mut live = command(&["sh", "-c", SAYS_ITS_PID]);
    let sleeper = pid_of(&live);
    live.signal_group("INT");
    let done = live.done();
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    assert!(sleeper.has_ended());
    live.assert_nothing_left();
}

#[test]
fn sigterm_to_the_run_of_a_command_ends_the_command() {
    let Some(_turn) = turn() else { return };
    let mut live = command(&["sh", "-c", SAYS_ITS_PID]);
    let sleeper = pid_of(&live);
    live.signal("TERM");
    assert_eq!(live.done().code, Some(130));
    assert!(sleeper.has_ended());
    live.assert_nothing_left();
}

#[test]
fn the_exit_code_of_a_command_is_that_of_its_run() {
    let Some(_turn) = turn() else { return };
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -s TERM $$", 143), ("kill -s KILL $$", 137)] {
        let mut live = command(&["sh", "-c", script]);
        let Done { code: found, stderr, .. } = live.done();
        assert_eq!(found, Some(code), "{script}: {stderr}");
        live.assert_nothing_left();
    }
}

#[test]
fn a_command_that_the_run_ends_after_its_duration_is_no_failure() {
    let Some(_turn) = turn() else { return };
    for (script, code) in [("exec sleep 30", 0), ("trap 'exit 5' TERM; while :; do sleep 0.01; done", 5)] {
        let mut live = Live::begin(&[&PROMISE[..], &["--for", "300ms", "--", "sh", "-c", script]].concat());
        let Done { code: found, stderr, .. } = live.done();
        assert_eq!(found, Some(code), "{script}: {stderr}");
    }
}

#[test]
fn what_a_command_reads_and_where_it_is_are_ours() {
    let Some(_turn) = turn() else { return };
    let mut live = command(&["sh", "-c", "pwd -P > where; ulimit -n >> where; umask >> where; cat; echo done >&2"]);
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let place = live.path(".").canonicalize().unwrap();
    let said = std::fs::read_to_string(live.path("where")).unwrap();
    let direct = std::process::Command::new("sh").args(["-c", "ulimit -n; umask"]).output().unwrap();
    assert_eq!(said, format!("{}\n{}", place.display(), String::from_utf8_lossy(&direct.stdout)));
    assert!(done.stderr.contains("done"), "{}", done.stderr);
}

#[test]
fn a_command_that_forks_all_the_time_is_served_to_its_end() {
    let Some(_turn) = turn() else { return };
    let storm = "for i in 1 2 3 4 5 6 7 8; do sh -c true & done; wait";
    let script = format!("n=0; until [ -e over ]; do {storm}; n=$((n+1)); done; echo $n > rounds; exit 5");
    for limit in [None, Some("--hard")] {
        let args: Vec<&str> = PROMISE.into_iter().chain(limit).chain(["--", "sh", "-c", &script]).collect();
        let mut live = Live::begin(&args);
        clock::sleep(Nanos::s(1));
        assert!(!live.process.has_ended(), "{}", live.done().stderr);
        std::fs::write(live.path("over"), "").unwrap();
        let done = live.done();
        assert_eq!(done.code, Some(5), "{limit:?}: {}", done.stderr);
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
        let rounds: u32 = std::fs::read_to_string(live.path("rounds")).unwrap().trim().parse().unwrap();
        eprintln!("{limit:?}: {rounds} rounds");
        assert!(rounds > 0);
        live.assert_nothing_left();
    }
}

#[test]
fn a_run_with_a_duration_ends_after_it_and_leaves_the_process_running() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let before = Now::of(hog.pid());
    let pid = hog.pid().to_string();
    let mut live = Live::begin(&[&PROMISE[..], &["--for", "200ms", "--pid", &pid]].concat());
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(Now::of(hog.pid()), before);
    live.assert_nothing_left();
}
