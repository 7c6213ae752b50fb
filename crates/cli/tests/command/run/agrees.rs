//! One scenario in the simulator and on this host: the order of dispatches, and the CPU time of each process.

use super::{Place, turn};
use sched::{Action, EntityId, Input, Instant, Nanos};
use std::collections::BTreeMap;
use trace::{Event, Trace};

/// Three processes that are always busy, on one CPU, with synchronous periods. The shortest period is as long as a
/// window.
const SCENARIO: &str = r#"
name = "three on one CPU"
cpus = 2
length = "1s"

[[vm]]
name = "a"
slice = "5ms"
period = "20ms"
limit = "hard"
start = "100ms"
affinity = "AFFINITY"
workload = "hog"

[[vm]]
name = "b"
slice = "12ms"
period = "60ms"
limit = "hard"
start = "100ms"
affinity = "AFFINITY"
workload = "hog"

[[vm]]
name = "c"
slice = "20ms"
period = "100ms"
limit = "hard"
start = "100ms"
affinity = "AFFINITY"
workload = "hog"
"#;
/// The knobs with which a simulated `gang-edf` behaves like the `gang-edf` of the daemon.
const KNOBS: [&str; 4] = ["enforce=hard", "late=carry", "rest=renew", "change=due"];
/// Length of a window, in which the orders of the first dispatches are compared.
const WINDOW: Nanos = Nanos::ms(20);
/// Start of the first window, and number of windows.
const BEGIN: Instant = Instant::at_ns(100_000_000);
const WINDOWS: u64 = 44;
/// Maximum number of windows whose order may differ because the host was late. Other processes use this machine, too.
const SWAPPED_MOST: usize = 4;

/// Returns, for each window, the processes in the order of their first dispatch, and the CPU time of each process.
fn told(trace: &Trace, is_live: bool) -> (Vec<String>, BTreeMap<String, Nanos>) {
    let mut names: BTreeMap<EntityId, String> = BTreeMap::new();
    let mut orders = vec![String::new(); usize::try_from(WINDOWS).unwrap()];
    let mut had: BTreeMap<String, Nanos> = BTreeMap::new();
    let mut running: BTreeMap<EntityId, Instant> = BTreeMap::new();
    let mut on = BTreeMap::new();
    for (at, event) in &trace.events {
        match event {
            Event::Attach { entity, name, .. } => drop(names.insert(*entity, name.clone())),
            Event::Action(Action::Run { entity, cpu, .. }) => {
                on.insert(*cpu, *entity);
                running.insert(*entity, *at);
                if *at >= BEGIN {
                    let window = at.since(BEGIN).as_ns() / WINDOW.as_ns();
                    let order = usize::try_from(window).ok().and_then(|window| orders.get_mut(window));
                    if let Some(order) = order.filter(|order| !order.contains(&names[entity])) {
                        order.push_str(&names[entity]);
                    }
                }
            }
            // On the host, the daemon measures CPU time. In the simulator, CPU time is the time from `Run` to `Stop`.
            Event::Input(Input::Ran { cpu, time }) if is_live => {
                *had.entry(names[&on[cpu]].clone()).or_default() += *time
            }
            Event::Action(Action::Stop { entity, .. }) if !is_live => {
                let since = running.remove(entity).expect("a stopped entity was running");
                *had.entry(names[entity].clone()).or_default() += at.since(since);
            }
            _ => {}
        }
    }
    (orders, had)
}

#[test]
fn simulator_and_host_agree_on_order_and_delivered_time() {
    let Some(_turn) = turn() else { return };
    let cpus = sys::affinity::get(sys::thread::current()).unwrap();
    let cpu = cpus.iter().last().unwrap();
    let place = Place::new();
    let scenario =
        SCENARIO.replace("AFFINITY", &cpu.to_string()).replace("cpus = 2", &format!("cpus = {}", cpu.index() + 1));
    place.file("three.toml", scenario);
    let mut simulate = vec!["sim", "three.toml", "--policy", "gang-edf", "--trace", "simulated.txt"];
    KNOBS.iter().for_each(|knob| simulate.extend(["--knob", knob]));
    let simulated = place.run(&simulate);
    assert_eq!(simulated.code, Some(0), "{}", simulated.stderr);
    let lived = place.run(&["run", "three.toml", "--trace", "lived.txt"]);
    assert_eq!(lived.code, Some(0), "{}", lived.stderr);
    let read = |name: &str| trace::text::read(place.read(name).as_slice()).unwrap();
    let (predicted, should) = told(&read("simulated.txt"), false);
    let (observed, did) = told(&read("lived.txt"), true);
    let swapped = predicted.iter().zip(&observed).filter(|(predicted, observed)| predicted != observed).count();
    assert!(swapped <= SWAPPED_MOST, "{swapped} of {WINDOWS} windows differ:\n{predicted:?}\n{observed:?}");
    for (name, should) in should {
        let did = did.get(&name).copied().unwrap_or_default();
        // The last period may be incomplete, and the host may once be late by some milliseconds.
        let most = Nanos::ns(should.as_ns() / 50) + Nanos::ms(5);
        let off = should.saturating_sub(did).max(did.saturating_sub(should));
        assert!(off <= most, "{name} was to get {should} and got {did}");
    }
}
