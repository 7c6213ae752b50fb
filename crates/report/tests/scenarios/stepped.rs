//! Runs in steps. A run in steps gives the same report as a run in one step, and can be cancelled after any step. Each
//! step takes less than 50 ms.

use crate::alone::parse;
use report::Report;
use run::{Budget, Choice, Observers, Run};
use scenario::Scenario;
use sched::Nanos;
use std::time::{Duration, Instant};
use trace::{MachineId, WorldSink};

const DENSE: &str = include_str!("../../../../scenarios/bench-two-level.toml");
const SHIPPED: [(&str, &str, u64); 7] = [
    ("bench-two-level", DENSE, 5),
    ("coordination", include_str!("../../../../scenarios/coordination.toml"), 300),
    ("two-levels", include_str!("../../../../scenarios/two-levels.toml"), 300),
    ("xen-io", include_str!("../../../../scenarios/xen-io.toml"), 300),
    ("weights", include_str!("../../../../scenarios/weights.toml"), 300),
    ("managed", MANAGED, 2_500),
    ("together", TOGETHER, 45),
];
/// A scenario with hundreds of releases, wake-ups and alarms at one instant, on a host and in a guest.
const TOGETHER: &str = "name = \"together\"\ncpus = 2\nlength = \"45ms\"\npolicy = \"edf\"\ncosts = \"epyc\"\n\
    [[task]]\ncount = 200\nname = \"t{i}\"\nslice = \"20us\"\nperiod = \"10ms\"\nlimit = \"hard\"\n\
    workload = { periodic = { period = \"10ms\", work = \"25us\" } }\n\
    [[vm]]\nname = \"vm\"\nvcpus = 2\nguest = \"cfs\"\nslice = \"2ms\"\nperiod = \"10ms\"\n\
    [[vm.task]]\ncount = 200\nname = \"g{i}\"\n\
    workload = { periodic = { period = \"10ms\", work = \"20us\" } }\n";
/// A scenario with a manager, samples, a warm-up, arrivals, departures and a changed reservation.
const MANAGED: &str = "name = \"managed\"\ncpus = 2\nlength = \"3s\"\nwarm_up = \"500ms\"\npolicy = \"sedf\"\n\
    [manager]\ninterval = \"500ms\"\ntargets = { a = 30 }\n[samples]\ninterval = \"100ms\"\n\
    [[vm]]\nname = \"a\"\nslice = \"1ms\"\nperiod = \"10ms\"\nlimit = \"hard\"\nworkload = \"hog\"\n\
    [[vm]]\nname = \"b\"\narrival = \"500ms\"\nleaves = \"2s\"\nworkload = \"hog\"\n\
    [[vm]]\nname = \"c\"\nslice = \"10ms\"\nperiod = \"100ms\"\nlimit = \"hard\"\nworkload = \"hog\"\n\
    [[vm.change]]\nat = \"1s\"\nslice = \"20ms\"\nperiod = \"100ms\"\n\
    [[vm]]\nname = \"d\"\n[[vm.task]]\nname = \"t\"\nworkload.web = {}\n";

fn run_of(text: &str, length: Nanos) -> Run {
    let scenario = Scenario { length, ..parse(text) };
    let choice = run::choose(&scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    Run { seed: 3, ..Run::new(scenario, choice) }
}

/// A hash of all events, in order.
#[derive(Default, PartialEq, Eq, Debug)]
struct Hash {
    events: u64,
    hash: u64,
}

impl WorldSink for Hash {
    fn record(&mut self, machine: MachineId, at: sched::Instant, event: &trace::Event) {
        let text = format!("{machine} {at} {event:?}");
        self.events += 1;
        self.hash = text.bytes().fold(self.hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    }
}

fn json(report: &Report) -> String {
    serde_json::to_string(report).expect("a report is JSON")
}

/// Returns the report of `run` in steps of `budget`, and its events.
fn in_steps(run: &Run, budget: Budget) -> (String, Hash) {
    let mut hash = Hash::default();
    let mut session = run.start(Observers::none().world(&mut hash)).expect("it begins");
    let (mut reached, mut steps) = (sched::Instant::ZERO, 0_u64);
    let outcome = loop {
        let progress = session.step(budget).expect("it goes on");
        assert!(progress.now >= reached && progress.now <= progress.end, "{progress:?} after {reached}");
        (reached, steps) = (progress.now, steps + 1);
        if progress.is_done {
            assert_eq!(progress.now, progress.end);
            break session.outcome();
        }
    };
    assert!(steps > 5 || budget > Budget(3), "{steps} steps");
    (json(&Report::of(outcome)), hash)
}

#[test]
fn a_run_in_steps_of_any_size_gives_the_report_of_a_run_in_one_go() {
    for (name, text, ms) in SHIPPED {
        let run = run_of(text, Nanos::ms(ms));
        let mut hash = Hash::default();
        let whole = run.play(Observers::none().world(&mut hash)).map(Report::of);
        let whole = json(&whole.unwrap_or_else(|problems| panic!("{name}: {problems}")));
        assert!(hash.events > 100, "{name}: {} events", hash.events);
        for budget in [1, 3, 64, u64::MAX] {
            let (report, events) = in_steps(&run, Budget(budget));
            assert_eq!(events, hash, "{name} in steps of {budget}");
            assert!(report == whole, "the report of {name} in steps of {budget} differs");
        }
    }
}

#[test]
fn a_step_ends_in_the_midst_of_an_instant() {
    let run = run_of(TOGETHER, Nanos::ms(15));
    let mut session = run.start(Observers::none()).expect("it begins");
    let together = sched::Instant::ZERO + Nanos::ms(10);
    let mut steps = 0;
    loop {
        let progress = session.step(Budget(16)).expect("it goes on");
        steps += u64::from(progress.now == together);
        if progress.is_done {
            break;
        }
    }
    // The instant has 200 releases on the host, 200 releases in the guest, and the wake-ups that they cause.
    assert!(steps > 400 / 16, "only {steps} steps end at {together}");
}

#[test]
fn a_step_without_a_budget_goes_on_all_the_same() {
    let run = run_of(MANAGED, Nanos::ms(100));
    assert_eq!(in_steps(&run, Budget(0)), in_steps(&run, Budget(1)));
}

#[test]
fn a_run_is_cancelled_after_the_step_that_says_so() {
    let run = run_of(DENSE, Nanos::ms(100));
    let mut steps = 0;
    let cancelled = run.play_while(Observers::none(), |progress| {
        steps += 1;
        progress.now < sched::Instant::ZERO + Nanos::ms(1)
    });
    assert!(cancelled.expect("it goes on").is_none());
    assert!(steps > 1, "{steps} steps");
}

/// Returns the number of steps of `run` and the duration of the longest step. The duration of a step is the minimum
/// over three runs, because other processes also use the CPUs. The steps are the same in each run.
#[expect(clippy::disallowed_methods, reason = "the promise is one about time")]
fn longest_step(run: &Run) -> (usize, Duration) {
    let timed = || {
        let mut session = run.start(Observers::none()).expect("it begins");
        let mut steps = Vec::new();
        loop {
            let begun = Instant::now();
            let is_done = session.step(Budget::STEP).expect("it goes on").is_done;
            steps.push(begun.elapsed());
            if is_done {
                return steps;
            }
        }
    };
    let mut steps = timed();
    for _ in 0..2 {
        let again = timed();
        assert_eq!(again.len(), steps.len());
        steps.iter_mut().zip(again).for_each(|(step, again)| *step = again.min(*step));
    }
    (steps.len(), *steps.iter().max().expect("there are steps"))
}

/// Returns a scenario with `count` tasks whose jobs are released at the same instants: on a host, or in a guest with
/// 4 vCPUs.
fn released_together(count: usize, policy: &str, in_guest: bool) -> String {
    let (vm, task) = match in_guest {
        true => (format!("[[vm]]\nname = \"vm\"\nvcpus = 4\nguest = \"{policy}\"\n"), "vm.task"),
        false => (String::new(), "task"),
    };
    format!(
        "name = \"x\"\ncpus = 4\nlength = \"20ms\"\npolicy = \"{policy}\"\n{vm}[[{task}]]\ncount = {count}\nname = \"t{{i}}\"\n\
         workload = {{ periodic = {{ period = \"10ms\", work = \"1us\" }} }}\n"
    )
}

#[test]
fn every_step_takes_less_than_50_ms() {
    let dense = ("the densest scenario", run_of(DENSE, Nanos::ms(200)));
    let hot = [("credit", false), ("cfs", false), ("edf", false), ("credit", true), ("cfs", true)];
    let hot =
        hot.map(|(policy, in_guest)| (policy, run_of(&released_together(30_000, policy, in_guest), Nanos::ms(20))));
    for (name, run) in hot.into_iter().chain([dense]) {
        let (steps, longest) = longest_step(&run);
        println!("{name}: {steps} steps, the longest {longest:?}");
        assert!(longest < Duration::from_millis(50), "{name}: {longest:?}");
    }
}

#[test]
fn a_session_owns_what_it_needs() {
    fn outlives<T: 'static>(it: T) -> T {
        it
    }
    let mut session = {
        let scenario = parse(MANAGED);
        let choice = Choice::from(policies::find("sedf").expect("it is registered"));
        outlives(Run::new(scenario, choice).start(Observers::none()).expect("it begins"))
    };
    while !session.step(Budget::STEP).expect("it goes on").is_done {}
    assert_eq!(session.outcome().run.choice.name(), "sedf");
}
