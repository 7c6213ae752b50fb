//! Promises that the kernel keeps (`--mechanism deadline`).

use super::{BUSY_NOW_AND_THEN, HOG, Live, Now, Watching, assert_restored, hogs, soon, turn};
use sched::Nanos;
use sys::attributes::{self, Attributes, Policy};
use sys::child::Child;
use sys::usage::Meter;
use sys::{affinity, clock, thread};

const MECHANISM: [&str; 2] = ["--mechanism", "deadline"];

/// Starts a run with a promise by SCHED_DEADLINE to process `pid`. Returns once the process is reserved.
fn reserve(promise: &[&str], pid: u32, wanted: Attributes) -> Live {
    let number = pid.to_string();
    let live = Live::begin(&[&MECHANISM[..], promise, &["--pid", &number]].concat());
    let _watching = Watching::begin();
    soon("the process is reserved", || attributes::get(pid).is_ok_and(|found| found == wanted));
    live
}

fn share_of(pid: u32, time: Nanos) -> u64 {
    let meter = Meter::open(pid).unwrap();
    let (begin, before) = (clock::now(), meter.read().unwrap().ran);
    clock::sleep(time);
    let (length, ran) = (clock::now().since(begin), meter.read().unwrap().ran.saturating_sub(before));
    ran.as_ns() * 1_000_000 / length.as_ns()
}

#[test]
fn a_busy_process_beside_hogs_is_served_and_restored_after_a_kill() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(HOG).unwrap();
    attributes::set(child.pid(), Attributes::of(Policy::Batch { nice: 7 })).unwrap();
    let slack = thread::Thread::open(child.pid()).unwrap();
    slack.set_slack(Nanos::us(7)).unwrap();
    let before = Now::of(child.pid());
    let _others = hogs();
    let wanted = Attributes::reserved(Nanos::ms(3), Nanos::ms(10));
    let live = reserve(&["--period", "10ms", "--slice", "3ms"], child.pid(), wanted);
    let share = share_of(child.pid(), Nanos::s(2));
    assert!(share.abs_diff(300_000) <= 20_000, "30 % within 2 points, and not {share} ppm");
    assert_eq!(affinity::get(child.pid()).unwrap(), before.affinity, "it is not confined");
    assert_eq!(slack.slack().unwrap(), Nanos::ZERO, "the kernel has set the slack");
    let guardian = live.guardian();
    let begin = clock::now();
    live.core().kill().unwrap();
    assert_restored(begin, &[child.pid()], std::slice::from_ref(&before));
    soon("the guardian ends", || guardian.has_ended());
    assert_eq!(slack.slack().unwrap(), Nanos::us(7));
    live.assert_nothing_left();
}

#[test]
fn the_report_has_the_delivered_periods_and_the_mechanism() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(HOG).unwrap();
    let before = Now::of(child.pid());
    let _others = hogs();
    let wanted = Attributes::reserved(Nanos::ms(2), Nanos::ms(10));
    let mut live = reserve(&["--period", "10ms", "--slice", "2ms", "--for", "2s", "--json"], child.pid(), wanted);
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let entity = &report["runs"][0]["entities"][0];
    let number = |name: &str| entity[name].as_u64().unwrap_or_else(|| panic!("{name}: {entity:#}"));
    assert!(number("periods_judged") > 150 && number("periods_missed") * 20 <= number("periods_judged"), "{entity:#}");
    assert_eq!(entity["mechanism"]["name"], "SCHED_DEADLINE");
    assert_eq!(entity["mechanism"]["reason"], "as requested");
    let delivered = number("delivered_ns");
    assert!(delivered.abs_diff(400_000_000) <= 40_000_000, "a fifth of two seconds, and not {delivered} ns");
    assert_eq!(Now::of(child.pid()), before);
    live.assert_nothing_left();
}

#[test]
fn a_change_by_another_process_ends_the_promise_and_stays() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(HOG).unwrap();
    let before = Now::of(child.pid());
    let wanted = Attributes::reserved(Nanos::ms(2), Nanos::ms(10));
    let mut live = reserve(&["--period", "10ms", "--slice", "2ms"], child.pid(), wanted);
    let theirs = Attributes::of(Policy::Batch { nice: 3 });
    attributes::set(child.pid(), theirs).unwrap();
    let done = live.done();
    let why = format!("another process has made thread {} SCHED_BATCH, nice 3", child.pid());
    assert!(done.code == Some(3) && done.stdout.contains(&why), "{:?}: {}", done.code, done.stdout);
    assert_eq!(Now::of(child.pid()), Now { attributes: theirs, ..before });
}

#[test]
fn a_request_above_the_reserve_is_refused_with_the_nearest_promise() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(HOG).unwrap();
    let number = child.pid().to_string();
    let refused = |promise: &[&str], words: &[&str]| {
        let before = Now::of(child.pid());
        let done = Live::begin(&[&MECHANISM[..], promise, &["--pid", &number]].concat()).done();
        let said = done.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} are not in {said:?}");
        assert_eq!(Now::of(child.pid()), before);
    };
    let too_large = ["--period", "10ms", "--slice", "9500us"];
    refused(&too_large, &["95.00 % of a CPU", "only 90.00 %", "use at most 9ms every 10ms"]);
    refused(&["--period", "5s", "--slice", "1ms"], &["the period (5s) is too long", "at most 4.194304s"]);
    refused(&["--period", "10ms", "--slice", "2ms", "--hard"], &["limits the reserved threads only"]);
    let cpus = affinity::get(thread::current()).unwrap();
    if cpus.len() > 1 {
        affinity::set(child.pid(), &sched::CpuSet::one(cpus.first().unwrap())).unwrap();
        refused(
            &["--period", "10ms", "--slice", "2ms"],
            &["grants SCHED_DEADLINE only to a thread", "--mechanism inherit"],
        );
    }
}

#[test]
fn the_report_names_the_mechanism_of_each_client_and_the_reason() {
    let Some(_turn) = turn() else { return };
    let (ordinary, urgent) = (Child::start(HOG).unwrap(), Child::start(BUSY_NOW_AND_THEN).unwrap());
    // A thread at priority 96 does not gain from a lent priority of 95.
    attributes::set(urgent.pid(), Attributes::of(Policy::Fifo { priority: 96 })).unwrap();
    let pids = [&ordinary, &urgent].map(|child| child.pid().to_string());
    let promise = ["--period", "10ms", "--slice", "2ms", "--for", "500ms", "--pid", &pids[0], "--pid", &pids[1]];
    let done = Live::begin(&[&["--json"][..], &promise].concat()).done();
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let mechanisms = [0, 1].map(|nth| report["runs"][0]["entities"][nth]["mechanism"].clone());
    assert!(mechanisms.iter().all(|it| it["name"] == "inherited FIFO"), "{mechanisms:#?}");
    assert!(mechanisms[0]["exception"].is_null(), "{mechanisms:#?}");
    let exception = mechanisms[1]["exception"].as_str().unwrap();
    assert!(exception.contains("SCHED_FIFO 96 is too high to inherit a priority"), "{exception}");
    let done = Live::begin(&promise).done();
    let said = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let words =
        format!("Tactus serves pid {} by inherited FIFO (it works on this host, and changes no attributes", pids[0]);
    assert!(said.contains(&words) && said.contains("SCHED_FIFO for other threads, because"), "{said}");
}
