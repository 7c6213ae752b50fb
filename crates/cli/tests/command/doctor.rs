//! `tactus doctor`: the examination reports every mechanism and the lateness of timers. An interrupted doctor leaves no
//! process and no control group, and the next doctor removes the control groups of a killed doctor.

use super::run::{soon, turn};
use super::{Done, Place};
use serde_json::Value;
use std::process::Stdio;

const MECHANISMS: [&str; 10] = [
    "inherited FIFO",
    "SCHED_FIFO",
    "SCHED_DEADLINE",
    "affinity",
    "freezer, cgroup v1",
    "freezer, cgroup v2",
    "switch events",
    "CPU quota",
    "CPU weight",
    "sched_ext",
];

/// Runs `tactus doctor`. Returns its output, and whether its exit code states that promises can be kept on this
/// machine.
fn doctor(args: &[&str]) -> (Done, bool) {
    let place = Place::new();
    let done = place.run(&[&["doctor", "--seconds", "1"], args].concat());
    assert_eq!(place.files(), [""; 0]);
    assert!(done.stderr.contains("tried 10 mechanisms\nmeasured timers of 1ms for 1s\n"), "{}", done.stderr);
    let can = done.code == Some(0);
    assert!(can || (done.code == Some(1) && done.stderr.contains("error: no promise can be kept")), "{done:?}");
    (done, can)
}

#[test]
fn the_doctor_says_what_works_here_and_how_late_timers_are() {
    let (done, can) = doctor(&[]);
    let text = done.stdout;
    for name in MECHANISMS {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
        let tried = |line: &&str| line.contains("  works: ") || line.contains("  does not: ");
        assert_eq!(lines.into_iter().filter(tried).count(), 1, "{name}:\n{text}");
    }
    for part in ["\nkernel  ", "\nclock  ", "\nprivileges  ", "\nfair server  ", "\nsteal  ", "p50       p99       max"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert_eq!(text.contains("\nPromises can be kept here by "), can, "{text}");
    // The path of a control group may be longer than a line.
    let fits = |line: &str| line.chars().count() <= 100 || line.split(' ').any(|word| word.chars().count() > 60);
    assert!(text.lines().all(fits), "{text}");
}

#[test]
fn the_doctor_as_json_gives_each_failure_a_reason_and_a_remedy() {
    let (done, can) = doctor(&["--json"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    assert_eq!(shown["promises_can_be_kept"], can);
    let mechanisms = shown["mechanisms"].as_array().expect("there are some");
    let names: Vec<&str> = mechanisms.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, MECHANISMS);
    for one in mechanisms {
        match one["works"].as_bool().expect("it is said") {
            true => assert!(one["seen"].is_string() && one["reason"].is_null(), "{one}"),
            false => assert!(one["seen"].is_null() && one["reason"].is_string() && one["remedy"].is_string(), "{one}"),
        }
    }
    let ordinary = &shown["lateness"][0];
    assert_eq!((&ordinary["class"], &ordinary["interval_ns"]), (&"SCHED_OTHER".into(), &1_000_000.into()));
    let number = |name: &str| ordinary[name].as_u64().expect("it is a number");
    assert!((1..=1_001).contains(&number("wakeups")), "{ordinary}");
    assert!(number("p50_ns") <= number("p99_ns") && number("p99_ns") <= number("max_ns"), "{ordinary}");
    let promisable = mechanisms.iter().filter_map(|one| one["promisable_ppm"].as_u64());
    assert_eq!(promisable.max().is_some_and(|most| (1..=1_000_000).contains(&most)), can);
}

/// Returns the names of the control groups that trials of process `doctor` have left behind, if control groups are
/// visible.
fn left_groups(doctor: u32) -> Vec<String> {
    let roots = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let roots = roots.chain(["/sys/fs/cgroup".into()]).filter(|path| path.is_dir());
    let below = roots.flat_map(|root| std::fs::read_dir(root).into_iter().flatten().flatten());
    let names = below.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("tactus-doctor-{doctor}-"))).collect()
}

/// Returns whether process `pid` handles SIGINT, signal 2. Source: SigCgt, proc_pid_status(5).
fn handles_sigint(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for another process")]
fn an_interrupted_doctor_leaves_no_groups_and_no_processes() {
    // Instants during the trials of mechanisms, and during the measurement of timers.
    for after_ms in [40, 150, 330, 480, 700, 900, 1_500] {
        let place = Place::new();
        let mut command = place.command(&["doctor", "--seconds", "60"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be started");
        // Before that, SIGINT is ignored if these tests are a background job of a shell.
        soon("the doctor handles SIGINT", || handles_sigint(child.id()));
        std::thread::sleep(std::time::Duration::from_millis(after_ms));
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
        let killed = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "after {after_ms} ms");
        assert_eq!(left_groups(child.id()), [""; 0], "after {after_ms} ms");
        for pid in children.unwrap_or_default().split_ascii_whitespace() {
            let is_gone = || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
                stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
            };
            let in_time = (0..1_000).any(|_| {
                is_gone() || {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    false
                }
            });
            assert!(in_time, "{pid} outlives the doctor that was interrupted after {after_ms} ms");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for another process")]
fn what_a_killed_doctor_leaves_the_next_one_removes() {
    let killed: Vec<u32> = [330, 400, 480, 700, 900]
        .map(|after_ms| {
            let place = Place::new();
            let mut command = place.command(&["doctor", "--seconds", "60"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be started");
            std::thread::sleep(std::time::Duration::from_millis(after_ms));
            child.kill().expect("it is ours");
            child.wait().expect("it ends");
            child.id()
        })
        .into();
    let left = || killed.iter().flat_map(|&doctor| left_groups(doctor)).collect::<Vec<_>>();
    eprintln!("killed doctors left {:?}", left());
    doctor(&[]);
    assert_eq!(left(), [""; 0]);
}

#[test]
fn a_user_whose_guardian_cannot_leave_the_group_of_the_daemon_is_warned_and_root_is_not() {
    if sys::privileges::user() != 0 {
        return eprintln!("SKIPPED: only root can become another user");
    }
    let warned = |stdout: &str| {
        let shown: Value = serde_json::from_str(stdout).expect("it is JSON");
        let warnings = shown["warnings"].as_array().expect("it is a list").clone();
        warnings.into_iter().find(|warning| warning["about"] == "guardian")
    };
    let can_leave = sys::cgroup::Hierarchy::one("freezer")
        .or_else(|_| sys::cgroup::Hierarchy::two())
        .is_ok_and(|hierarchy| hierarchy.open("/").is_ok_and(|root| root.is_writable()));
    if !can_leave {
        return eprintln!("SKIPPED: root cannot create control groups here");
    }
    assert_eq!(warned(&doctor(&["--json"]).0.stdout), None);
    let place = Place::new();
    std::fs::set_permissions(place.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    let program = place.0.path().join("tactus");
    std::fs::copy(env!("CARGO_BIN_EXE_tactus"), &program).expect("there is room");
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(program);
    command.args(["doctor", "--seconds", "1", "--json"]).current_dir("/");
    let done = match command.output() {
        Ok(output) => Done::from(output),
        Err(error) => return eprintln!("SKIPPED: there is no setpriv here to become another user: {error}"),
    };
    let warning = warned(&done.stdout).expect("the user is warned");
    let reason = warning["reason"].as_str().expect("it has a reason");
    assert!(reason.starts_with("the guardian shares a control group with the daemon"), "{reason}");
    assert!(warning["remedy"].as_str().is_some_and(|remedy| remedy.starts_with("run as root")), "{warning}");
}

/// Within 3 points and a tenth of the periods, because the test may share this machine.
#[test]
fn the_doctor_measures_what_each_mechanism_delivers() {
    let Some(_turn) = turn() else { return };
    let (done, _) = doctor(&["--json", "--measure", "1"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    let measured = &shown["measurements"];
    let mechanisms = measured["mechanisms"].as_array().expect("there are some");
    let names: Vec<&str> = mechanisms.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, MECHANISMS[..3]);
    for one in mechanisms {
        let Some(error) = one["error_ppm"].as_i64() else {
            assert!(one["reason"].is_string(), "{one}");
            eprintln!("SKIPPED: {one}");
            continue;
        };
        let number = |name: &str| one[name].as_i64().expect("it is a number");
        assert_eq!(error, number("delivered_ppm") - 200_000);
        assert!(error.abs() <= 30_000, "{one}");
        assert!(number("periods_judged") > 50 && number("periods_missed") * 10 <= number("periods_judged"), "{one}");
    }
    assert!(measured["auto"]["reason"].is_string() && measured["best"].is_string(), "{measured}");
    let (done, _) = doctor(&["--measure", "1"]);
    for part in ["A promise of 2ms in every 10ms beside hogs, for 1s each", "\n--mechanism auto", "\nbest here"] {
        assert!(done.stdout.contains(part), "{part:?} is not in {}", done.stdout);
    }
}
