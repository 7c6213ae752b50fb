//! A hard limit freezes the client through a control group. Stops by other programs stay in force, no parent is notified,
//! and no process stays frozen or in a group of Tactus.

use super::super::Place;
use super::victim::Victim;
use super::{HOG, Live, Now, assert_restored, soon, turn};
use sched::Nanos;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use sys::cgroup::{Hierarchy, OwnGroup};
use sys::child::Child;
use sys::clock;
use sys::freezer;
use sys::process::Process;
use sys::thread::{self, State};
use sys::usage::Meter;

/// A quarter of a CPU, with a hard limit.
const QUARTER: [&str; 5] = ["--period", "20ms", "--slice", "5ms", "--hard"];

/// Returns the CPU time of these threads in `length`, in parts per million of `length`.
fn share(tids: &[u32], length: Nanos) -> u64 {
    let ran = || tids.iter().map(|&tid| Meter::open(tid).unwrap().read().unwrap().ran.as_ns()).sum::<u64>();
    let (begin, before) = (clock::now(), ran());
    clock::sleep(length);
    (ran() - before) * 1_000_000 / clock::now().since(begin).as_ns()
}

fn is_frozen(tid: u32) -> bool {
    thread::status(tid).unwrap().state == State::Uninterruptible
}

#[test]
fn a_stop_by_another_program_stays_in_force_under_a_hard_limit() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let before = Now::of(hog.pid());
    let live = Live::promise(&QUARTER, &[hog.pid()]);
    for round in 0..8 {
        // At other instants of the period in each round.
        clock::sleep(Nanos::ms(40 + 3 * round));
        hog.process().stop().unwrap();
        clock::sleep(Nanos::ms(20));
        assert_eq!(share(&[hog.pid()], Nanos::ms(100)), 0, "round {round}: it was continued");
        hog.process().cont().unwrap();
        soon("it runs again", || share(&[hog.pid()], Nanos::ms(40)) > 0);
    }
    hog.process().stop().unwrap();
    live.end();
    assert_eq!(Now::of(hog.pid()), Now { is_stopped: true, ..before });
    hog.process().cont().unwrap();
}

#[test]
fn a_parent_with_job_control_is_not_notified_of_a_hard_limit() {
    let Some(_turn) = turn() else { return };
    let script = "set -m; sh -c 'while :; do :; done' & echo $!; wait $!; echo $?";
    let begun = Command::new("bash").args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut shell) = begun.inspect_err(|error| eprintln!("SKIPPED: there is no bash: {error}")) else { return };
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    let mut number = || lines.next().unwrap().unwrap().parse::<u32>().unwrap();
    let child = Process::open(number()).unwrap();
    let live = Live::promise(&QUARTER, &[child.pid()]);
    let had = share(&[child.pid()], Nanos::ms(500));
    assert!(had < 300_000, "the limit is in force: {had} ppm");
    assert!(thread::status(shell.id()).unwrap().state == State::Sleeping, "it waits");
    child.terminate().unwrap();
    // 147 would be SIGSTOP.
    assert_eq!(number(), 143);
    drop(live);
    shell.wait().unwrap();
}

#[test]
fn all_processes_of_a_client_share_its_hard_limit_from_their_start() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_children();
    let first = victim.bear("(while :; do :; done & echo says $!; wait) &");
    let before = Now::of_all(&[victim.pid(), first]);
    let live = Live::promise(&QUARTER, &[victim.pid()]);
    let begin = clock::now();
    let second = victim.bear("(while :; do :; done & echo says $!; wait) &");
    let had = Meter::open(second).unwrap().read().unwrap().ran;
    let most = clock::now().since(begin).scale(1, 2) + Nanos::ms(5);
    assert!(had < most, "a child is limited at once: {had}");
    let (both, mut had) = ([first, second], 0);
    // A single second proves little if a hypervisor withdraws CPUs.
    for _ in 0..3 {
        had = share(&both, Nanos::s(1));
        if (220_000..=280_000).contains(&had) {
            break;
        }
    }
    assert!((220_000..=280_000).contains(&had), "{had} ppm, and not 250000");
    let groups = both.map(|pid| Now::of(pid).freezer);
    assert_eq!(groups[0], groups[1], "a child starts in the group");
    live.end();
    assert_eq!(Now::of_all(&[victim.pid(), first]), before);
    assert_eq!(Now::of(second), before[1]);
}

/// Kills or stops the daemon while its client is frozen, and asserts that the client is restored within a second.
fn daemon_is_missed(mechanism: &str, act: impl Fn(&Process)) {
    let hog = Child::start(HOG).unwrap();
    let before = Now::of(hog.pid());
    let mut live = Live::promise(&[&QUARTER[..], &["--mechanism", mechanism]].concat(), &[hog.pid()]);
    soon("it is frozen", || is_frozen(hog.pid()));
    let begin = clock::now();
    act(&live.core());
    assert_restored(begin, &[hog.pid()], std::slice::from_ref(&before));
    let done = live.done();
    live.assert_nothing_left();
    assert_eq!(Now::of(hog.pid()), before, "{}", done.stderr);
    assert!(share(&[hog.pid()], Nanos::ms(100)) > 0);
}

#[test]
fn after_the_daemon_is_killed_a_frozen_client_runs_within_a_second() {
    let Some(_turn) = turn() else { return };
    for mechanism in ["inherit", "fifo"] {
        for _ in 0..3 {
            daemon_is_missed(mechanism, |daemon| daemon.kill().unwrap());
        }
        daemon_is_missed(mechanism, |daemon| daemon.stop().unwrap());
    }
}

#[test]
fn after_the_guardian_is_killed_the_hard_limit_is_kept_and_the_client_restored() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let before = Now::of(hog.pid());
    let live = Live::promise(&QUARTER, &[hog.pid()]);
    let first = live.guardian();
    soon("it is frozen", || is_frozen(hog.pid()));
    first.kill().unwrap();
    soon("there is another guardian", || first.has_ended() && live.guardian().pid() != first.pid());
    live.await_raised(&[hog.pid()]);
    soon("the limit is in force", || (220_000..=280_000).contains(&share(&[hog.pid()], Nanos::ms(500))));
    live.end();
    assert_eq!(Now::of(hog.pid()), before);
}

/// Starts a run that finds no freezer of version 1, and may not mount it.
fn without_version_1(args: &[&str]) -> Live {
    let script = "awk '$3 == \"cgroup\" && $4 ~ /freezer/ { print $2 }' /proc/mounts | xargs -r umount && \
                  exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$0\" \"$@\"";
    let place = Place::new();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_tactus"), "run", "--directory", "live"]);
    command.current_dir(place.0.path()).env("NO_COLOR", "1");
    Live::of_command(command, place, args)
}

/// Returns a child that is alone in a group of version 2; `None` where this is not permitted.
fn scope() -> Option<(Child, OwnGroup)> {
    let hog = Child::start(HOG).unwrap();
    let made = Hierarchy::two().and_then(|two| two.group_of(hog.pid()));
    let made = made.and_then(|home| home.create(&format!("tactus-test-{}", hog.pid())));
    let scope = made.inspect_err(|error| eprintln!("SKIPPED: {error}")).ok()?;
    scope.add_process(hog.pid()).unwrap();
    Some((hog, scope))
}

#[test]
fn in_version_2_a_scope_is_frozen_in_place_and_a_freeze_by_another_program_lasts() {
    let Some(_turn) = turn() else { return };
    let Some((hog, scope)) = scope() else { return };
    let pid = hog.pid().to_string();
    let before = Now::of(hog.pid());
    let mut live = without_version_1(&[&QUARTER[..], &["--pid", &pid]].concat());
    live.await_raised(&[hog.pid()]);
    soon("the limit is in force", || (220_000..=280_000).contains(&share(&[hog.pid()], Nanos::ms(500))));
    // If both programs freeze at the same instant, the freezes cannot be distinguished, so try again.
    soon("a freeze by another program lasts", || {
        soon("it is thawed", || freezer::state(&scope).unwrap() == freezer::State::Thawed);
        freezer::freeze(&scope).unwrap();
        clock::sleep(Nanos::ms(200));
        freezer::state(&scope).unwrap() == freezer::State::Frozen
    });
    freezer::thaw(&scope).unwrap();
    soon("the limit is in force", || (220_000..=280_000).contains(&share(&[hog.pid()], Nanos::ms(500))));
    soon("it is frozen", || freezer::state(&scope).unwrap() == freezer::State::Frozen);
    let begin = clock::now();
    live.core().kill().unwrap();
    assert_restored(begin, &[hog.pid()], std::slice::from_ref(&before));
    live.done();
    live.assert_nothing_left();
    assert_eq!(freezer::state(&scope).unwrap(), freezer::State::Thawed);
    assert_eq!(scope.processes().unwrap(), [hog.pid()]);
}

#[test]
fn in_version_2_a_process_that_is_not_alone_in_its_group_is_refused() {
    let Some(_turn) = turn() else { return };
    let Some((hog, scope)) = scope() else { return };
    let other = Child::start(HOG).unwrap();
    for (pid, words) in [
        (other.pid(), "it is in the root control group".to_string()),
        (hog.pid(), format!("process {} is in the same control group", other.pid())),
    ] {
        let before = Now::of(pid);
        let done = without_version_1(&[&QUARTER[..], &["--pid", &pid.to_string()]].concat()).done();
        let said = done.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(done.code, Some(2), "{said}");
        assert!(said.contains(&words) && said.contains("systemd-run --scope"), "{said}");
        assert_eq!(Now::of(pid), before);
        scope.add_process(other.pid()).unwrap();
    }
}
