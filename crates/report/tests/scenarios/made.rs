//! Policies that functions with captured state create at run time.

use crate::alone::parse;
use report::Report;
use run::{Choice, Observers, Run};
use sched::{AlarmSlots, MadePolicy, Nanos, Policy, Refused, Topology};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const HOST: &str = "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"round-robin\"\n\
    [[vm]]\nname = \"a\"\nworkload = \"hog\"\n[[vm]]\nname = \"b\"\nworkload = \"hog\"\n";
const GUEST: &str = "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"cfs\"\n[[vm]]\nname = \"v\"\nguest = \"round-robin\"\n\
    [[vm.task]]\nname = \"a\"\nworkload = \"hog\"\n[[vm.task]]\nname = \"b\"\nworkload = \"hog\"\n";

/// Returns round robin with a time slice of `text` microseconds, a value that is known only at run time. `built` counts
/// how often the policy is built.
fn made(text: String, built: &Arc<AtomicUsize>) -> Choice {
    let built = Arc::clone(built);
    let build = move |host: &Topology| -> Result<Box<dyn Policy>, Refused> {
        built.fetch_add(1, Ordering::SeqCst);
        let policy = policies::find("round-robin").expect("it is registered");
        let mut knobs = policy.defaults();
        let quantum: u64 = text.parse().expect("it is a number");
        knobs.set("quantum", Nanos::us(quantum).as_ns().cast_signed()).expect("it is in range");
        (policy.build)(host, &knobs)
    };
    Choice::made(MadePolicy { name: "made of text".to_string(), alarms: AlarmSlots::NONE, build })
}

fn registered(quantum: i64) -> Choice {
    let mut choice = Choice::from(policies::find("round-robin").expect("it is registered"));
    choice.knobs.set("quantum", quantum).expect("it is in range");
    choice
}

fn played(run: &Run) -> Report {
    let mut auditor = run.auditor().unwrap_or_else(|problems| panic!("{problems}"));
    let report = run.play(Observers::none().world(&mut auditor)).map(Report::of);
    assert!(auditor.findings().is_empty(), "{:?}", auditor.findings());
    report.unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_policy_that_captures_state_schedules_a_host() {
    let built = Arc::new(AtomicUsize::new(0));
    let run = Run::new(parse(HOST), made("7000".to_string(), &built));
    let report = played(&run);
    assert_eq!(built.load(Ordering::SeqCst), 1);
    assert_eq!((report.policy.as_str(), report.knobs.len()), ("made of text", 0));
    assert_eq!(run.header().expect("no guests").machines[0].header.policy, "made of text");
    let right = played(&Run::new(parse(HOST), registered(7_000_000)));
    let other = played(&Run::new(parse(HOST), registered(9_000_000)));
    let got = |report: &Report| serde_json::to_string(&report.entities).expect("it is JSON");
    assert_eq!(got(&report), got(&right));
    assert_ne!(got(&report), got(&other), "the time slice makes a difference");
}

#[test]
fn a_policy_that_captures_state_schedules_guests() {
    let built = Arc::new(AtomicUsize::new(0));
    let scenario = Arc::new(parse(GUEST));
    let host = run::choose(&scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let under = |guests| played(&Run { guests: Some(guests), ..Run::new(Arc::clone(&scenario), host.clone()) });
    let report = under(made("7000".to_string(), &built));
    assert!(built.load(Ordering::SeqCst) >= 1);
    assert_eq!(report.guests[0].policy, "made of text");
    let right = under(registered(7_000_000));
    let got = |report: &Report| serde_json::to_string(&report.guests[0].entities).expect("it is JSON");
    assert_eq!(got(&report), got(&right));
}

#[test]
fn a_refusal_of_a_made_policy_has_its_name() {
    let build = |_: &Topology| -> Result<Box<dyn Policy>, Refused> {
        Err(Refused::Unsupported { reason: "the program has no entry", remedy: "load another" })
    };
    let choice = Choice::made(MadePolicy { name: "loaded".to_string(), alarms: AlarmSlots::NONE, build });
    let refused = Run::new(parse(HOST), choice).play(Observers::none()).expect_err("it is refused").to_string();
    assert!(refused.contains("loaded") && refused.contains("the program has no entry"), "{refused}");
}
