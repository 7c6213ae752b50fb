//! The simulated demo, for machines where promises cannot be kept, and for `--simulated`.

use super::outcome::{self, Side};

use super::drawing::{CELLS, PICTURE, PICTURE_ROWS_MOST, ROWS_MOST, SCENARIO, window};
use crate::args::Demo;
use crate::failure::Failure;
use crate::output::Draft;
use crate::progress::Progress;
use crate::record::Watch;
use crate::window::Window;
use crate::{output, picture, sim};
use anyhow::Context;
use daemon::Explanation;
use measure::Meter;
use report::{Report, Runs};
use run::{Choice, Observers, Run};
use scenario::Scenario;
use sched::Nanos;
use simservice::Speed;
use std::io::Write;
use std::path::Path;
use trace::{Header, Timeline};

/// The policy without promises: the default of Linux up to v6.5.
const FAIR: &str = "cfs";
/// The policy that keeps promises.
const PROMISING: &str = "edf";

/// Shows the demo under [`PROMISING`] in a browser, as a simulated host, until this process is interrupted.
pub(super) fn page() -> Result<(), Failure> {
    let scenario = Scenario::from_bytes("scenarios/demo.toml", SCENARIO.as_bytes().to_vec())?;
    let choice = run::choose(&scenario, &[PROMISING.to_string()], &[])?.remove(0);
    let (seed, title) = (scenario.seed.unwrap_or(0), format!("{} under {PROMISING}, simulated", scenario.name));
    let run = Run { seed, ..Run::new(scenario, choice) };
    sim::serve::serve(&run, &title, Speed::REAL, None, true)
}

/// Simulates the demo. `why` is the reason for the simulation.
pub(super) fn run(args: &Demo, why: &Explanation) -> Result<(), Failure> {
    let mut scenario = Scenario::from_bytes("scenarios/demo.toml", SCENARIO.as_bytes().to_vec())?;
    scenario.length = Nanos::s(args.seconds);
    let names = [FAIR, PROMISING].map(str::to_string);
    let choices = run::choose(&scenario, &names, &[])?;
    let seed = scenario.seed.unwrap_or(0);
    let window = window(scenario.length);
    let mut picture = (!args.json).then(|| Draft::create(Path::new(PICTURE))).transpose()?;
    let mut sides = Vec::with_capacity(choices.len());
    let mut timelines = Vec::with_capacity(choices.len());
    for choice in &choices {
        let (side, timeline) = simulate(&scenario, choice, seed, window)?;
        sides.push(side);
        timelines.push(timeline);
    }
    if args.json {
        let runs: Vec<Report> = sides.iter().map(|side| side.report.clone()).collect();
        let text = output::json(&Runs { simulated: true, runs: &runs })?;
        return Ok(output::print(&text)?);
    }
    let mut text = opening(&scenario, why);
    text += &outcome::table(&sides.iter().collect::<Vec<_>>());
    text += "\n";
    text += &outcome::sentence(&sides.iter().collect::<Vec<_>>());
    for (side, timeline) in sides.iter().zip(&timelines) {
        text += &format!("\n{} at {}, one column a millisecond:\n\n", side.report.policy, window.from);
        text += &picture::gantt(timeline, window, CELLS, ROWS_MOST);
    }
    if let Some(mut picture) = picture.take() {
        let title = format!("The same VMs under {FAIR} and under {PROMISING}, simulated");
        let drawn: Vec<&Timeline> = timelines.iter().collect();
        let svg = picture::svg(&title, &drawn, window, PICTURE_ROWS_MOST);
        picture.file().write_all(svg.as_bytes()).context("cannot write the picture")?;
        picture.keep()?;
    }
    text += &format!("\nWrote the picture of both to {PICTURE}. Next: tactus sim SCENARIO, tactus policies.\n");
    text += &format!("This was a simulation: {}. See tactus doctor.\n", why.reason);
    Ok(output::print(&text)?)
}

fn simulate(scenario: &Scenario, choice: &Choice, seed: u64, window: Window) -> Result<(Side, Timeline), Failure> {
    let header = Header { policy: choice.name().to_string(), cpus: scenario.host.cpus, seed };
    let (mut meter, mut watch) = (Meter::new(), Watch::new(&header, window));
    let progress = Progress::new(format!("simulating {}", choice.name()), scenario.length);
    let run = Run { seed, ..Run::new(scenario.clone(), choice.clone()) };
    let report = progress.play(&run, Observers::none().host(&mut meter).host(&mut watch))?;
    progress.finish(&format!("simulated {} under {}", scenario.length, choice.name()));
    Ok((Side::new(report, &meter), watch.finish()?))
}

fn opening(scenario: &Scenario, why: &Explanation) -> String {
    let heading = format!(
        "This is a simulation ({}): {} CPUs, {} of their time, the same work under two policies.",
        why.reason, scenario.host.cpus, scenario.length
    );
    format!(
        "{}\n\n\
         interactive  needs  2 ms of CPU time in every  10 ms (a game, a call)\n\
         steady       needs 20 ms of CPU time in every 100 ms (a video, a control loop)\n\
         batch        is twelve VMs that use all remaining CPU time\n\n\
         {FAIR} divides the CPUs equally; {PROMISING} reserves CPU time for the first two \
         and divides the remainder.\n\n",
        output::heading(&heading)
    )
}
