//! The demo on this machine: two runs of the same processes.

use super::drawing::{CELLS, PICTURE, PICTURE_ROWS_MOST, ROWS_MOST, SCENARIO, TRACE, window};
use super::outcome::{self, Side, TACTUS};
use super::switches::{self, Watcher};
use super::vms::Vms;
use crate::args::Demo;
use crate::failure::{Failure, refused};
use crate::output::Draft;
use crate::raising::Raising;
use crate::record::{TraceFile, Watch};
use crate::run::end::End;
use crate::run::keep;
use crate::run::outcome::Kept;
use crate::run::plan::{Plan, directory, from_scenario};
use crate::run::play::{Played, play};
use crate::run::terms::RunTerms;
use crate::window::Window;
use crate::{output, picture};
use anyhow::Context;
use daemon::kernel::priority;
use measure::Meter;
use report::{Report, RunDescription, Runs};
use run::live::merged;
use scenario::{EntitySpec, Scenario};
use sched::{Instant, Nanos};
use std::io::Write;
use std::path::Path;
use sys::attributes::{self, Attributes};
use sys::child::{Child, Work};
use trace::{Event, Header, Sink, Timeline};

/// Number of batch processes per CPU.
const BATCH: usize = 5;
/// Additional promised time for interrupts and context switches, in percent of the work.
const ABOVE: u64 = 10;
/// Additional promised time of a VM: its emulator needs CPU time, too, and its guest computes slower while the other
/// thread of the core is busy.
const ABOVE_VM: u64 = 100;
/// Name of the first run, without promises.
const KERNEL: &str = "the kernel";

/// Checks whether promises can be kept on this machine.
///
/// # Errors
/// Promises cannot be kept on this machine, for the returned reason.
pub(super) fn is_possible() -> Result<(), Failure> {
    let said = |error: sys::Error| refused(&error.into());
    let child = Child::start(Work::Sleep).map_err(said)?;
    attributes::set(child.pid(), Attributes::raised(priority::RAISED)).map_err(said)?;
    let held = directory(None)?.lock().map_err(|busy| refused(&busy.into()))?;
    drop(held);
    Ok(())
}

/// Returns the demo scenario: two periodic VMs, and so many batch VMs that a fair share is too small for the periodic
/// VMs.
fn scenario(seconds: u64, above: u64) -> Result<Scenario, Failure> {
    let mut scenario = Scenario::from_bytes("scenarios/demo.toml", SCENARIO.as_bytes().to_vec())?;
    scenario.length = Nanos::s(seconds);
    let cpus = sys::affinity::get(sys::thread::current()).map_or(1, |cpus| cpus.len());
    let hog = scenario.entities.iter().find(|entity| entity.name.starts_with("batch")).cloned();
    scenario.entities.retain(|entity| !entity.name.starts_with("batch"));
    for entity in &mut scenario.entities {
        if let Some(reservation) = &mut entity.params.reservation {
            reservation.slice = reservation.slice.scale(100 + above, 100);
        }
    }
    let hog = hog.expect("the demo has batch VMs");
    let named = |nth: usize| EntitySpec { name: format!("batch-{nth:02}"), group: None, ..hog.clone() };
    scenario.entities.extend((1..=BATCH * cpus).map(named));
    scenario.entities.iter_mut().for_each(|entity| entity.group = None);
    scenario.groups.clear();
    Ok(scenario)
}

/// One of the two runs, with the schedule as the kernel recorded it.
struct Run {
    kept: Kept,
    side: Side,
    /// The schedule from the kernel's records of context switches. If the kernel does not report context switches, the
    /// schedule from the dispatcher.
    events: Vec<(Instant, Event)>,
}

pub(super) fn run(args: &Demo) -> Result<(), Failure> {
    let above = if args.vm { ABOVE_VM } else { ABOVE };
    let mut scenario = scenario(args.seconds, above)?;
    let vms = args.vm.then(|| Vms::start(&mut scenario.entities)).transpose()?;
    let vms = vms.as_ref();
    let promised = from_scenario(&scenario, false)?;
    let terms = &RunTerms::of(&promised, Raising::Auto)?;
    let mut alone = promised.clone();
    alone.processes.iter_mut().for_each(|planned| planned.request = None);
    let drafts = (!args.json).then(|| Draft::create(Path::new(PICTURE))).transpose()?;
    let watcher = Watcher::begin();
    let in_order = output::end_in_order();
    let played = play(None, &alone, "as the kernel schedules")?;
    drop(in_order);
    if played.interrupted {
        return Err(Failure::Interrupted);
    }
    let first = finish(&alone, terms, played, watcher, KERNEL, vms);
    let watcher = Watcher::begin();
    let played = keep(&promised, terms)?;
    if played.interrupted {
        return Err(Failure::Interrupted);
    }
    let runs = [first, finish(&promised, terms, played, watcher, TACTUS, vms)];
    if args.json {
        let reports: Vec<Report> = runs.iter().map(|run| run.kept.report.clone()).collect();
        let text = output::json(&Runs { simulated: false, runs: &reports })?;
        return Ok(output::print(&text)?);
    }
    show(&runs, terms, drafts, &opening(&runs[1].kept.description, args.vm))
}

/// Returns the result of a run. The guests of `vms` have reported the jobs of their VMs.
fn finish(plan: &Plan, terms: &RunTerms, mut played: Played, watcher: Watcher, name: &str, vms: Option<&Vms>) -> Run {
    let recorded = watcher.end();
    if let Some(vms) = vms {
        let (start, length) = (played.start, played.length);
        let of = |end: &End| Some((*end.entities.first()?, vms.jobs(&end.name, start, length)?));
        let jobs: Vec<_> = played.ends.iter().filter_map(of).collect();
        played.events = merged(played.events, &jobs, Instant::ZERO, Instant::ZERO + length);
    }
    let mut kept = Kept::new(plan, terms, played);
    kept.report.policy = name.to_string();
    kept.header.policy = name.to_string();
    if name == KERNEL {
        kept.report.knobs.clear();
        kept.report.entities.iter_mut().for_each(|entity| entity.mechanism = None);
    }
    let mut meter = Meter::new();
    kept.played.events.iter().for_each(|(at, event)| meter.record(*at, event));
    let side = Side::new(kept.report.clone(), &meter);
    let thread = |pid: u32| vms.map_or(pid, |vms| vms.vcpu(pid));
    let drawn = |recorded: Vec<_>| switches::events(plan, &kept.played, &recorded, thread);
    let events = recorded.map_or_else(|| kept.played.events.clone(), drawn);
    Run { kept, side, events }
}

fn show(runs: &[Run; 2], terms: &RunTerms, picture: Option<Draft>, opening: &str) -> Result<(), Failure> {
    let [first, second] = runs;
    let length = first.kept.description.length.min(second.kept.description.length);
    let window = window(length);
    let timelines = [timeline(first, window)?, timeline(second, window)?];
    let mut text = opening.to_string();
    let sides = [&first.side, &second.side];
    text += &outcome::table(&sides);
    text += "\n";
    for line in outcome::sentence(&sides).lines() {
        text += &format!("{}\n", output::folded(line, 100).join("\n"));
    }
    text += &second.kept.remarks();
    for (run, timeline) in runs.iter().zip(&timelines) {
        text += &format!("\n{} at {}, one column a millisecond:\n\n", run.kept.report.policy, window.from);
        text += &picture::gantt(timeline, window, CELLS, ROWS_MOST);
    }
    text += &format!("\n{}\n", output::folded(&terms.in_words(), 100).join("\n"));
    if let Some(mut picture) = picture {
        let title = format!("The same processes as {KERNEL} schedules them, and under Tactus");
        let svg = picture::svg(&title, &timelines.each_ref(), window, PICTURE_ROWS_MOST);
        picture.file().write_all(svg.as_bytes()).context("cannot write the picture")?;
        let mut trace = TraceFile::create(Path::new(TRACE), &second.kept.header)?;
        switches::chained(&first.events, &second.events).iter().for_each(|(at, event)| trace.record(*at, event));
        trace.finish()?.keep()?;
        picture.keep()?;
        text += &format!(
            "Wrote the picture of both to {PICTURE}, and all events, one run after the other, to {TRACE}\n\
             (ui.perfetto.dev).\n\
             Next: tactus run --period 10ms --slice 2ms -- COMMAND, tactus doctor.\n"
        );
    }
    Ok(output::print(&text)?)
}

fn timeline(run: &Run, window: Window) -> anyhow::Result<Timeline> {
    let mut watch = Watch::new(&Header { ..run.kept.header.clone() }, window);
    run.events.iter().for_each(|(at, event)| watch.record(*at, event));
    watch.finish()
}

fn opening(run: &RunDescription, has_vms: bool) -> String {
    let cpus = run.cpus;
    let kind = if has_vms { ", a VM of QEMU" } else { "" };
    let reserved = match has_vms {
        false => format!("the need of the first two plus {ABOVE} %"),
        true => "twice the need of the two VMs".to_string(),
    };
    let heading = format!(
        "The same processes on this machine twice, {} each: as the kernel schedules them, and under Tactus.",
        run.length
    );
    format!(
        "{}\n\n\
         interactive  needs  2 ms of CPU time in every  10 ms (a game, a call){kind}\n\
         steady       needs 20 ms of CPU time in every 100 ms (a video, a control loop){kind}\n\
         batch        is {} processes on {cpus} CPU{} that use all remaining CPU time\n\n\
         Tactus reserves {reserved}; the kernel schedules the remaining time.\n\n",
        output::heading(&heading),
        run.entities.len() - 2,
        if cpus == 1 { "" } else { "s" },
    )
}
