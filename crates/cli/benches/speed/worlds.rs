//! The speed with hosts and guests: the number of inputs per second that all machines accept, on one core, and with
//! two seeds on two cores.

use crate::Spread;
use run::{Choice, Observers, Run};
use scenario::Scenario;

const FILE: &str = "bench-two-level.toml";
const TOWN: &str = include_str!("../../../../scenarios/bench-two-level.toml");
/// Minimum speed. Unit: inputs per second.
const LEAST: f64 = 5e6;
/// Minimum speed-up of two threads that counts as nearly linear.
const NEARLY_LINEAR: f64 = 1.8;

pub(crate) fn measure(runs: usize) {
    let scenario = Scenario::from_bytes(FILE, TOWN.as_bytes().to_vec()).expect("it is a scenario");
    let choice = run::choose(&scenario, &[], &[]).expect("it names its policy").remove(0);
    let tasks: usize = scenario.guests.iter().map(|guest| guest.entities.len() + applications(guest)).sum();
    println!(
        "worlds: {} CPUs under {}, {} VMs, {} vCPUs, {tasks} tasks in guests; {} simulated, laws on",
        scenario.host.cpus,
        choice.name(),
        scenario.guests.len(),
        scenario.entities.len(),
        scenario.length,
    );
    let (mut one, mut ratios, mut inputs) = (Vec::new(), Vec::new(), 0);
    for nth in 0..runs {
        let seed = nth as u64;
        let (alone, counted) = timed(|| count(&scenario, &choice, seed));
        inputs = counted;
        one.push(counted as f64 / alone);
        let (together, both) = timed(|| {
            let seeds =
                lab::parallel::in_order(2, 2, |half| Ok::<u64, ()>(count(&scenario, &choice, seed + half as u64)));
            seeds.expect("none is refused").iter().sum::<u64>()
        });
        ratios.push((both as f64 / together) / (counted as f64 / alone));
    }
    let guests = of_guests(&scenario, &choice);
    let (one, ratio) = (Spread::of(one), Spread::of(ratios));
    let met = |met: bool| if met { "met" } else { "NOT met" };
    println!(
        "  one core         {:6.2} M inputs per second  ({:.2} to {:.2}); at least 5.00: {}; {inputs} inputs, {guests:.0} % of them in guests",
        one.median / 1e6,
        one.least / 1e6,
        one.most / 1e6,
        met(one.median >= LEAST && guests >= 50.0),
    );
    println!(
        "  two seeds, -j 2  {:6.2} times as many          ({:.2} to {:.2}); nearly linear: {}",
        ratio.median,
        ratio.least,
        ratio.most,
        met(ratio.median >= NEARLY_LINEAR),
    );
}

fn applications(guest: &scenario::GuestSpec) -> usize {
    guest.applications.iter().map(|spec| spec.application.tasks.len()).sum()
}

fn run(scenario: &Scenario, choice: &Choice, seed: u64) -> Run {
    Run { seed, ..Run::new(scenario.clone(), choice.clone()) }
}

fn count(scenario: &Scenario, choice: &Choice, seed: u64) -> u64 {
    let tally = run(scenario, choice, seed).tally_while(|_| true).expect("it can go on");
    tally.expect("nothing cancels it").inputs
}

/// Returns the percentage of inputs that the machines of guests accept.
fn of_guests(scenario: &Scenario, choice: &Choice) -> f64 {
    let short = Scenario { length: sched::Nanos::ms(100), ..scenario.clone() };
    let mut inputs = Inputs::default();
    run(&short, choice, 0).play(Observers::none().world(&mut inputs)).expect("it can go on");
    100.0 * inputs.guests as f64 / (inputs.guests + inputs.host) as f64
}

/// Counts inputs, except those that the world itself sends to its machines, such as freeze and thaw.
#[derive(Default)]
struct Inputs {
    host: u64,
    guests: u64,
}

impl trace::WorldSink for Inputs {
    fn record(&mut self, machine: trace::MachineId, _at: sched::Instant, event: &trace::Event) {
        use sched::{Input, Notice};
        use trace::Event;
        let counts = matches!(
            event,
            Event::Input(
                Input::Wake { .. }
                    | Input::Block { .. }
                    | Input::Yield { .. }
                    | Input::Expire { .. }
                    | Input::Kicked { .. }
                    | Input::Alarm { .. }
                    | Input::Event { what: Notice::Interrupt, .. }
            )
        );
        *(if machine == trace::MachineId(0) { &mut self.host } else { &mut self.guests }) += u64::from(counts);
    }
}

fn timed<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let start = std::time::Instant::now();
    let result = run();
    (start.elapsed().as_secs_f64(), result)
}
