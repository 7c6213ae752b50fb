//! Weights and caps through control groups (`--weight`, `--cap`). The processes return to their earlier groups.

use super::{HOG, Live, Now, last_cpu, soon, turn, until};
use sched::{CpuId, CpuSet, Nanos};
use sys::cgroup::Hierarchy;
use sys::child::Child;
use sys::usage::Meter;
use sys::{affinity, clock};

/// Time within which a process is in its earlier group again. The first move takes an RCU grace period.
const GIVEN_BACK: Nanos = Nanos::s(5);

/// Returns the path of the group of a process; prints a message and returns `None` without a cpu controller of version 1.
fn group_of(pid: u32) -> Option<String> {
    let path = Hierarchy::one("cpu").and_then(|cpu| cpu.path_of(pid));
    path.inspect_err(|error| eprintln!("SKIPPED: {error}")).ok()
}

/// Starts a run with a share for process `pid`. Returns once the process is in the group of Tactus, with the path.
fn share(options: &[&str], pid: u32, before: &str) -> (Live, String) {
    let number = pid.to_string();
    let live = Live::begin(&[options, &["--pid", &number]].concat());
    let mut path = String::new();
    soon("the process is in a group of Tactus", || {
        path = group_of(pid).unwrap();
        path != before
    });
    assert!(path.starts_with(before) && path.contains(&format!("/tactus-share-{pid}-")), "{path}");
    (live, path)
}

/// Returns the CPU time of each process in two seconds, in parts per million of the elapsed time.
fn shares<const N: usize>(pids: [u32; N]) -> [u64; N] {
    let meters = pids.map(|pid| Meter::open(pid).unwrap());
    let ran = || meters.each_ref().map(|meter| meter.read().unwrap().ran.as_ns());
    let (begin, before) = (clock::now(), ran());
    clock::sleep(Nanos::s(2));
    let (after, length) = (ran(), clock::now().since(begin).as_ns());
    std::array::from_fn(|nth| (after[nth] - before[nth]) * 1_000_000 / length)
}

#[test]
fn a_process_with_a_cap_receives_no_more_and_returns_to_its_group() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let (Some(home), before) = (group_of(hog.pid()), Now::of(hog.pid())) else { return };
    let (live, path) = share(&["--cap", "30"], hog.pid(), &home);
    let [received] = shares([hog.pid()]);
    assert!((200_000..=320_000).contains(&received), "at most 30 %, and most of it: {received} ppm");
    live.end();
    assert_eq!((group_of(hog.pid()).unwrap(), Now::of(hog.pid())), (home, before));
    assert!(Hierarchy::one("cpu").unwrap().open(&path).is_err(), "the group is removed");
}

#[test]
fn a_weight_divides_a_cpu_and_the_report_names_it() {
    let Some(_turn) = turn() else { return };
    let [heavy, other] = [Child::start(HOG).unwrap(), Child::start(HOG).unwrap()];
    for child in [&heavy, &other] {
        affinity::set(child.pid(), &CpuSet::one(CpuId::new(last_cpu()))).unwrap();
    }
    let Some(home) = group_of(heavy.pid()) else { return };
    let (mut live, _) = share(&["--weight", "400", "--for", "4s", "--json"], heavy.pid(), &home);
    let [weighed, ordinary] = shares([heavy.pid(), other.pid()]);
    assert!(weighed > ordinary * 2, "4 times the weight: {weighed} and {ordinary} ppm");
    let done = live.done();
    assert_eq!((done.code, group_of(heavy.pid()).unwrap()), (Some(0), home), "{}", done.stderr);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let entity = &report["runs"][0]["entities"][0];
    assert_eq!(entity["mechanism"]["name"], "CPU weight", "{entity:#}");
    assert!(entity["delivered_ns"].as_u64().unwrap() > 500_000_000, "{entity:#}");
    live.assert_nothing_left();
}

#[test]
fn a_process_returns_to_its_group_after_a_kill_of_the_daemon() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let Some(home) = group_of(hog.pid()) else { return };
    let (live, path) = share(&["--cap", "50", "--weight", "200"], hog.pid(), &home);
    let guardian = live.guardian();
    let begin = clock::now();
    live.core().kill().unwrap();
    let back = || group_of(hog.pid()).unwrap() == home && Hierarchy::one("cpu").unwrap().open(&path).is_err();
    eprintln!("it is back after {}", until(begin, GIVEN_BACK, "the process is in its earlier group", back));
    soon("the guardian ends", || guardian.has_ended());
    live.assert_nothing_left();
}

#[test]
fn a_release_after_the_loss_of_daemon_and_guardians_moves_the_process_back() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let Some(home) = group_of(hog.pid()) else { return };
    let (live, path) = share(&["--cap", "50"], hog.pid(), &home);
    live.kill_all();
    assert_eq!(group_of(hog.pid()).unwrap(), path, "the table still has the group");
    let done = live.place.run(&["release", "--directory", "live"]);
    assert!(done.code == Some(0) && done.stdout.contains("1 control group restored"), "{done:?}");
    assert_eq!(group_of(hog.pid()).unwrap(), home);
    live.assert_nothing_left();
}

#[test]
fn a_share_that_cannot_be_is_refused_with_the_remedy() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let Some(home) = group_of(hog.pid()) else { return };
    let number = hog.pid().to_string();
    let refused = |args: &[&str], words: &[&str]| {
        let done = Live::begin(args).done();
        let said = done.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(done.code == Some(2) && words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        assert_eq!(group_of(hog.pid()).unwrap(), home);
    };
    refused(&["--weight", "0", "--pid", &number], &["--weight", "1..=10000"]);
    refused(&["--cap", "20", "--slice", "1ms", "--period", "10ms", "--pid", &number], &["cannot be used with"]);
    refused(&["--cap", "20", "--pid", "1"], &["process 1 is tactus itself, or its ancestor", "another process"]);
    refused(&["--cap", "20", "--pid", &number, "--pid", &number], &["has a promise already", "help:"]);
}

#[test]
fn a_command_with_all_descendants_stays_below_its_cap() {
    let Some(_turn) = turn() else { return };
    if group_of(std::process::id()).is_none() {
        return;
    }
    // Two busy children share the cap of their parent.
    let script = "for nth in 1 2; do (while :; do :; done) & done; sleep 2; times; kill %1 %2; wait; times";
    let mut live = Live::begin(&["--cap", "20", "--for", "4s", "--", "bash", "-c", script]);
    assert!(live.process.ends_within(Nanos::s(8)));
    let done = live.done();
    // The last line of `times` has the CPU time of the children: user and system.
    let last = done
        .stdout
        .lines()
        .rfind(|line| line.starts_with("0m") && line.contains("s 0m"))
        .unwrap_or_else(|| panic!("there are times: {} {}", done.stdout, done.stderr));
    let seconds: f64 = last.split_whitespace().map(|part| part[2..part.len() - 1].parse::<f64>().unwrap()).sum();
    assert!((0.2..=0.6).contains(&seconds), "a fifth of two seconds, and not {seconds} s");
}
