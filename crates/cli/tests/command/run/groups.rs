//! Control groups of a run. One kill of all processes in the group of a run does not reach its guardian, which restores all
//! threads. The core leaves a group without real-time runtime.

use super::super::Place;
use super::{HOG, Live, Now, PATIENCE, assert_restored, hogs, soon, turn};
use sched::Nanos;
use serde_json::Value;
use std::process::Command;
use sys::cgroup::{Group, Hierarchy, Version};
use sys::child::Child;
use sys::clock;
use sys::privileges::Capability;
use sys::process::Process;
use sys::thread;

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

/// Returns the start of a command line for a run in `group`.
fn in_group(group: &Group, place: &Place) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.path().join("cgroup.procs"));
    command.args([env!("CARGO_BIN_EXE_tactus"), "run", "--directory", "live"]).current_dir(place.0.path());
    command
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
        let command = in_group(&whole, &place);
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

#[test]
fn a_core_leaves_a_group_without_real_time_runtime_and_serves_clients_there() {
    let Some(_turn) = turn() else { return };
    let above = Hierarchy::one("cpu").and_then(|cpu| cpu.group_of(thread::current()));
    let group = above.and_then(|above| Ok((above.create(&format!("tactus-test-{}", std::process::id()))?, above)));
    let Ok((group, above)) = group.inspect_err(|error| eprintln!("SKIPPED: {error}")) else { return };
    if !group.has("cpu.rt_runtime_us") {
        return eprintln!("SKIPPED: this kernel does not group real-time threads");
    }
    let _others = hogs();
    let hog = Child::start(HOG).unwrap();
    group.add_process(hog.pid()).unwrap();
    let before = Now::of(hog.pid());
    let (place, pid) = (Place::new(), hog.pid().to_string());
    let args = ["--json", "--period", "10ms", "--slice", "5ms", "--pid", &pid];
    let live = Live::of_command(in_group(&group, &place), place, &args);
    live.await_raised(&[hog.pid()]);
    let (core, guardian, inside) = (live.core(), live.guardian(), group.processes().unwrap());
    assert!(inside.contains(&hog.pid()) && inside.contains(&live.process.pid()), "{inside:?}");
    let outside = above.processes().unwrap();
    assert!(outside.contains(&core.pid()) && outside.contains(&guardian.pid()), "{outside:?}");
    clock::sleep(Nanos::ms(500));
    let shown: Value = serde_json::from_str(&live.end().stdout).unwrap();
    let entity = &shown["runs"][0]["entities"][0];
    let (judged, missed) = (entity["periods_judged"].as_u64().unwrap(), entity["periods_missed"].as_u64().unwrap());
    assert!(judged > 20 && missed * 5 < judged, "{missed} of {judged} periods are missed");
    assert_eq!(Now::of(hog.pid()), before);
    // A client whose own attributes would have to change needs runtime in its group.
    let place = Place::new();
    let refused = in_group(&group, &place).args(["--mechanism", "fifo"]).args(args).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("no promise is possible here") && said.contains("real-time runtime"), "{said}");
}
