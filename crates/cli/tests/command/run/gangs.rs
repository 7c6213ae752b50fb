//! The members of a gang start together.

use super::victim::Victim;
use super::{HOG, Live, hogs, turn};
use measure::Siblings;
use sched::{EntityId, GroupId, GroupParams, Instant, Nanos, Params};
use serde_json::Value;
use sys::child::Child;
use sys::{affinity, clock, thread};
use trace::{Event, Sink};

/// A promise of 4 ms in every 20 ms on each of two CPUs.
const PROMISE: [&str; 6] = ["--period", "20ms", "--slice", "8ms", "--cpus", "2"];
/// Half of the slice on each CPU.
const TOGETHER: Nanos = Nanos::ms(2);

/// Runs a process as a gang beside hogs. Two threads of the process begin to spin 30 ms apart, so that periods that
/// follow their wake-ups would be half a period apart. Returns the report and the trace.
fn run() -> (Value, String) {
    let mut victim = Victim::of_threads();
    victim.hear();
    let _hogs = hogs();
    let args = [&PROMISE[..], &["--gang", "--for", "3s", "--json", "--trace", "run.txt"]].concat();
    let mut live = Live::promise(&args, &[victim.pid()]);
    victim.ask("hog");
    clock::sleep(Nanos::ms(30));
    victim.ask("hog");
    let done = live.done();
    assert!(matches!(done.code, Some(0 | 3)), "{:?}: {}", done.code, done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    (report["runs"][0].clone(), live.said("run.txt"))
}

/// Returns the median of the start skews of all entities of a trace, as if they were one gang.
fn as_if_a_gang(trace: &str) -> Nanos {
    let trace = trace::text::read(trace.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let (group, parent) = (GroupId::new(1, 0), GroupId::ROOT);
    let params = Box::new(GroupParams { gang: true, ..GroupParams::default() });
    let mut siblings = Siblings::from(Instant::ZERO);
    siblings.record(Instant::ZERO, &Event::GroupCreated { group, name: "as if".to_string(), parent, params });
    let in_group = |event: &Event| match event.clone() {
        Event::Attach { entity, name, params } => {
            let params = Box::new(Params { group, ..*params });
            Event::Attach { entity, name, params }
        }
        other => other,
    };
    trace.events.iter().for_each(|(at, event)| siblings.record(*at, &in_group(event)));
    let (_, skews) = siblings.start_skews().next().expect("it has reservations");
    assert!(skews.count() > 50, "{} periods", skews.count());
    skews.percentile(50)
}

/// Returns the entities of a trace, with the groups in which they were attached.
fn groups(trace: &str) -> Vec<(EntityId, GroupId)> {
    let trace = trace::text::read(trace.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let attached = trace.events.into_iter().filter_map(|(_, event)| match event {
        Event::Attach { entity, params, .. } => Some((entity, params.group)),
        _ => None,
    });
    attached.collect()
}

/// The processes of a run are one gang, with a thread on each of two CPUs.
#[test]
fn the_processes_of_a_run_are_one_gang() {
    let Some(_turn) = turn() else { return };
    if affinity::get(thread::current()).unwrap().len() < 2 {
        eprintln!("SKIPPED: there is one CPU");
        return;
    }
    let children = [Child::start(HOG).unwrap(), Child::start(HOG).unwrap()];
    let _hogs = hogs();
    let mut measured = Vec::new();
    let is_together = (0..3).any(|_| {
        let args = ["--period", "20ms", "--slice", "4ms", "--gang", "--for", "2s", "--json", "--trace", "run.txt"];
        let mut live = Live::promise(&args, &children.each_ref().map(Child::pid));
        let done = live.done();
        assert!(matches!(done.code, Some(0 | 3)), "{:?}: {}", done.code, done.stderr);
        let report: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
        let gang = &report["runs"][0]["groups"][0];
        assert_eq!(gang["entities"], 2);
        let all = groups(&live.said("run.txt"));
        assert!(all.len() == 2 && all[0].1 == all[1].1 && all[0].1 != GroupId::ROOT, "{all:?}");
        let number = |key: &str| gang[key].as_u64().unwrap_or_else(|| panic!("{key} is in {gang}"));
        measured.push((number("start_skews"), Nanos::ns(number("start_skew_p50_ns"))));
        measured.last().is_some_and(|&(count, median)| count > 50 && median < TOGETHER)
    });
    eprintln!("number and median of the start skews of two processes: {measured:?}");
    assert!(is_together, "{measured:?}");
}

/// A VM of a scenario is a gang in a live run, and its vCPUs change their promises together.
#[test]
fn a_vm_of_a_scenario_is_a_gang_whose_promises_change_together() {
    let Some(_turn) = turn() else { return };
    if affinity::get(thread::current()).unwrap().len() < 2 {
        eprintln!("SKIPPED: there is one CPU");
        return;
    }
    let _hogs = hogs();
    let scenario = "name = \"change\"\ncpus = 2\nlength = \"2s\"\n\
                    [[vm]]\nname = \"parallel\"\nvcpus = 2\ngang = true\nworkload = \"hog\"\n\
                    slice = \"4ms\"\nperiod = \"20ms\"\n\
                    [[vm.change]]\nat = \"1s\"\nslice = \"6ms\"\nperiod = \"30ms\"\n\
                    [[vm.change]]\nat = \"1.5s\"\nslice = \"39ms\"\nperiod = \"40ms\"\n";
    let mut live = Live::of_scenario_with(scenario, &["--trace", "run.txt"]);
    let done = live.done();
    assert!(matches!(done.code, Some(0 | 3)), "{:?}: {}", done.code, done.stderr);
    let text = live.said("run.txt");
    let all = groups(&text);
    assert!(all.len() == 2 && all[0].1 == all[1].1 && all[0].1 != GroupId::ROOT, "{all:?}");
    let trace = trace::text::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let slice_of = |event: &Event| match event {
        Event::Adjust { entity, params } => Some((*entity, params.reservation?.slice)),
        _ => None,
    };
    let changes: Vec<(EntityId, Nanos)> = trace.events.iter().filter_map(|(_, event)| slice_of(event)).collect();
    assert_eq!(changes.len(), 2, "each member changes once: {changes:?}");
    assert!(all.iter().all(|(e, _)| changes.contains(&(*e, Nanos::ms(6)))), "{changes:?}");
    let refusal = "The change of parallel/0 at 1.5s is refused: ";
    assert!(done.stdout.contains(refusal) && done.stdout.contains("start skew"), "{}", done.stdout);
}

/// The start skew of vCPUs whose periods begin half a period apart shows that the measurement tells them from a gang.
#[test]
fn the_threads_of_a_gang_start_together_and_staggered_vcpus_do_not() {
    let Some(_turn) = turn() else { return };
    if affinity::get(thread::current()).unwrap().len() < 2 {
        eprintln!("SKIPPED: there is one CPU");
        return;
    }
    // A single run proves little if a hypervisor withdraws CPUs. The output has all measured start skews.
    let mut measured = Vec::new();
    let is_together = (0..3).any(|_| {
        let (report, trace) = run();
        let gang = &report["groups"][0];
        let number = |key: &str| gang[key].as_u64().unwrap_or_else(|| panic!("{key} is in {gang}"));
        let (count, median) = (number("start_skews"), Nanos::ns(number("start_skew_p50_ns")));
        eprintln!("{count} start skews of a gang: p50 {median}, p99 {}", Nanos::ns(number("start_skew_p99_ns")));
        let all = groups(&trace);
        assert!(all.len() == 2 && all[0].1 == all[1].1 && all[0].1 != GroupId::ROOT, "{all:?}");
        measured.push(median);
        count > 50 && median < TOGETHER && as_if_a_gang(&trace) == median
    });
    assert!(is_together, "{measured:?}");
    let _hogs = hogs();
    let scenario = "name = \"apart\"\ncpus = 2\nlength = \"2s\"\n\
                    [[vm]]\nname = \"parallel\"\nvcpus = 2\nstagger = \"10ms\"\nworkload = \"hog\"\n\
                    slice = \"4ms\"\nperiod = \"20ms\"\n";
    let mut measured = Vec::new();
    let is_apart = (0..3).any(|_| {
        let mut live = Live::of_scenario_with(scenario, &["--trace", "run.txt"]);
        let done = live.done();
        assert!(matches!(done.code, Some(0 | 3)), "{:?}: {}", done.code, done.stderr);
        let trace = live.said("run.txt");
        let all = groups(&trace);
        assert!(all.len() == 2 && all.iter().all(|&(_, group)| group == GroupId::ROOT), "{all:?}");
        measured.push(as_if_a_gang(&trace));
        measured.last().is_some_and(|&median| median >= TOGETHER)
    });
    eprintln!("start skews of staggered vCPUs: p50 {measured:?}");
    assert!(is_apart, "{measured:?}");
}
