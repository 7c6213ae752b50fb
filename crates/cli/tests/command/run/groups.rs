//! One kill of all processes in the control group of a run does not reach its guardian, which restores all threads.

use super::super::Place;
use super::{HOG, Live, Now, PATIENCE, assert_restored, soon, turn};
use sched::Nanos;
use std::process::Command;
use sys::cgroup::{Group, Hierarchy, Version};
use sys::child::Child;
use sys::clock;
use sys::privileges::Capability;
use sys::process::Process;

/// Returns the paths of the groups of guardians on this host.
pub(super) fn of_guardians() -> Vec<String> {
    let one = ["freezer", "memory", "pids"].into_iter().filter_map(|controller| Hierarchy::one(controller).ok());
    let all = one.chain(Hierarchy::two().ok());
    all.flat_map(|it| it.find(|name, _| name.starts_with("tactus-guardian-")).unwrap_or_default()).collect()
}

/// Kills all processes of `group`: by `cgroup.kill` in version 2, otherwise one after another until none is left.
fn kill_all(group: &Group) {
    if group.version() == Version::Two {
        return group.write("cgroup.kill", "1").unwrap();
    }
    let end = clock::now() + PATIENCE;
    while let Some(pids) = group.processes().ok().filter(|pids| !pids.is_empty()) {
        assert!(clock::now() < end, "processes {pids:?} do not end");
        // Each process may end in the meantime.
        pids.into_iter().for_each(|pid| drop(Process::open(pid).and_then(|process| process.kill())));
    }
}

#[test]
fn after_a_kill_of_the_whole_control_group_of_a_run_the_guardian_restores_all_threads() {
    let Some(_turn) = turn() else { return };
    for hierarchy in [Hierarchy::one("freezer"), Hierarchy::one("memory"), Hierarchy::two()] {
        let whole = hierarchy.and_then(|hierarchy| hierarchy.open("/")).and_then(|root| {
            let name = format!("tactus-test-{}", std::process::id());
            root.create(&name)
        });
        let Ok(whole) = whole.inspect_err(|error| eprintln!("SKIPPED: {error}")) else { continue };
        if whole.version() == Version::Two && !whole.has("cgroup.kill") {
            eprintln!("SKIPPED: this kernel has no cgroup.kill");
            continue;
        }
        let hog = Child::start(HOG).unwrap();
        let before = Now::of(hog.pid());
        let place = Place::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(whole.path().join("cgroup.procs"));
        command.args([env!("CARGO_BIN_EXE_tactus"), "run", "--directory", "live"]).current_dir(place.0.path());
        let pid = hog.pid().to_string();
        let args = ["--period", "10ms", "--slice", "5ms", "--hard", "--pid", &pid];
        let mut live = Live::of_command(command, place, &args);
        live.await_raised(&[hog.pid()]);
        let (core, guardian, standby) = (live.core(), live.guardian(), live.await_standby());
        let is_inside = |process: &Process| whole.processes().unwrap().contains(&process.pid());
        soon("both guardians leave the group", || !is_inside(&guardian) && !is_inside(&standby));
        assert!(is_inside(&core) && is_inside(&live.process));
        let begin = clock::now();
        kill_all(&whole);
        assert_restored(begin, &[hog.pid()], &[before]);
        assert_eq!(live.done().code, Some(137), "the front end is killed, too");
        assert!(core.has_ended());
        for process in [guardian, standby] {
            assert!(process.ends_within(Nanos::s(10)), "no guardian is left: {}", live.said("stderr"));
        }
        live.assert_nothing_left();
    }
}

#[test]
fn core_and_guardian_are_no_choice_of_the_oom_killer_and_commands_are() {
    let Some(_turn) = turn() else { return };
    if !sys::privileges::held().unwrap().contains(&Capability::Resource) {
        return eprintln!("SKIPPED: only a process with CAP_SYS_RESOURCE can exclude itself");
    }
    let score = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        text.trim().parse::<i32>().unwrap()
    };
    let mine = score(std::process::id());
    let script = "echo $$ > pid; exec sleep 30";
    let live = Live::begin(&["--period", "10ms", "--slice", "1ms", "--", "sh", "-c", script]);
    let pid = || std::fs::read_to_string(live.path("pid")).ok()?.strip_suffix('\n')?.parse::<u32>().ok();
    soon("the command runs", || pid().is_some());
    assert_eq!([live.process.pid(), pid().unwrap()].map(score), [mine; 2]);
    for process in [live.core(), live.guardian(), live.await_standby()] {
        soon("it is excluded", || score(process.pid()) == -1000);
    }
    live.end();
}
