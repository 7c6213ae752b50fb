//! `tactus why`: why tasks in a VM run late.

use crate::failure::{Failure, NO_HINTS, failed, refused, usage};
use crate::guest_args::Why;
use crate::output::{self, Draft};
use crate::progress::Progress;
use crate::terminal::safe;
use anyhow::Context;
use daemon::Explanation;
use report::{Grid, percent, short};
use sched::Nanos;
use service::late_wake_ups::{LateWakeUp, LateWakeUps, LatencyParts, Question, check, explain, explain_observed};
use service::{HintPort, ObservedVm};
use std::io::Write;
use std::process::ExitCode;
use sys::clock;
use sys::event::Bell;
use trace::svg::{Bar, Bars};

/// Range of the length of an observation, and least value of --least.
const LENGTH: (Nanos, Nanos) = (Nanos::s(1), Nanos::s(3_600));
const LEAST: Nanos = Nanos::us(10);
/// Number of wake-ups and of threads that are shown, and number of wake-ups in a picture.
const SHOWN: usize = 8;
const DRAWN: usize = 40;

pub(crate) fn run(args: &Why) -> Result<ExitCode, Failure> {
    let length = input::duration::length(&args.length)?;
    if !(LENGTH.0..=LENGTH.1).contains(&length) {
        let remedy = format!("use --for with {} to {}", LENGTH.0, LENGTH.1);
        return Err(usage(format!("a VM is observed for {} to {}, not for {length}", LENGTH.0, LENGTH.1), &remedy));
    }
    let least = input::duration::moment(&args.least)?;
    if least < LEAST {
        return Err(usage(format!("--least is {least}"), &format!("use at least {LEAST}")));
    }
    let _in_order = output::end_in_order();
    check().map_err(|error| failed(error, "the host cannot be traced"))?;
    let picture = args.picture.as_deref().map(Draft::create).transpose()?;
    let Observed { found, is_observed, detached } = observed(args, length, least)?;
    if let Err(Explanation { reason, remedy }) = &detached {
        output::complain(&format!("error: {reason}; {remedy}"));
    }
    let found = found?;
    let has_agent = found.messages > 0;
    if has_agent || args.json {
        output::print(&if args.json { output::json(&found)? } else { text(&found, is_observed) })?;
    } else if !output::is_interrupted() && !found.closed {
        output::complain(&format!("error: {}: {NO_HINTS}", safe(&found.vm, false)));
    }
    if let Some(mut picture) = picture {
        picture.file().write_all(drawn(&found).as_bytes()).context("cannot write the picture")?;
        picture.keep()?;
    }
    Ok(match detached {
        Ok(()) if output::is_interrupted() => ExitCode::from(130),
        Ok(()) if has_agent => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// An observation.
struct Observed {
    found: Result<LateWakeUps, Failure>,
    /// Whether another process has the port.
    is_observed: bool,
    /// Whether the port is detached, if this process has attached it.
    detached: Result<(), Explanation>,
}

/// Observes the VM through its port, or along with the process that has it.
fn observed(args: &Why, length: Nanos, least: Nanos) -> Result<Observed, Failure> {
    if let Some(vm) = ObservedVm::find(&args.vm, least).map_err(|reason| refused(&reason))? {
        if args.port.is_some() {
            return Err(usage(format!("another process has the port of {}", vm.name), "leave --port out"));
        }
        let name = vm.name.clone();
        let found = observe(&name, length, least, |question| explain_observed(vm, question));
        return Ok(Observed { found, is_observed: true, detached: Ok(()) });
    }
    let port = HintPort::attach(&args.vm, args.port.as_deref()).map_err(|reason| refused(&reason))?;
    if let Some(Explanation { reason, remedy }) = &port.warning {
        output::complain(&format!("warning: {reason}, and so the instants of the guest are less exact; {remedy}"));
    }
    let found = observe(&port.name, length, least, |question| explain(&port, question));
    Ok(Observed { found, is_observed: false, detached: port.detach() })
}

/// Observes a VM, and shows how many late wake-ups there are so far.
fn observe(
    name: &str,
    length: Nanos,
    least: Nanos,
    explain: impl FnOnce(Question<'_>) -> sys::Result<LateWakeUps>,
) -> Result<LateWakeUps, Failure> {
    let end = Bell::new().map_err(|error| refused(&error.into()))?;
    let (begin, bar) = (clock::now(), Progress::new(name.to_string(), length));
    let progress = |messages: u64, count: u64| {
        bar.passed(clock::now().saturating_since(begin).min(length));
        bar.say(if messages == 0 { "waiting for the agent".to_string() } else { format!("{count} late wake-ups") });
        if output::is_interrupted() {
            end.ring();
        }
    };
    let found = explain(Question { least, length, end: &end, progress: &progress });
    bar.clear();
    found.map_err(|error| failed(error, "the observation has ended"))
}

/// The parts with their titles, in the order of the columns.
fn parts(parts: &LatencyParts) -> [(&'static str, &'static str, u64); 6] {
    [
        ("the vCPU waited for a CPU of the host", "vCPU waited", parts.vcpu_wait_ns),
        ("the main loop or vhost waited for a CPU of the host", "main loop", parts.carrier_wait_ns),
        ("the interrupt was on its way, or the vCPU in an exit", "path", parts.path_ns),
        ("the task waited behind other tasks of the guest", "guest", parts.guest_queue_ns),
        ("a hypervisor below the host took the CPU", "steal", parts.steal_ns),
        ("not attributed", "unattributed", parts.unattributed_ns),
    ]
}

fn text(found: &LateWakeUps, is_observed: bool) -> String {
    let name = safe(&found.vm, false);
    let (least, length) = (short(found.least_ns), short(found.length_ns));
    let total = parts(&found.parts).map(|(_, _, ns)| ns).iter().sum::<u64>();
    let mut text = match total.checked_div(found.count) {
        None => format!("{name}: no interactive task ran {least} or more late during {length}\n"),
        Some(mean) => {
            let (count, mean) = (found.count, short(mean));
            format!("{name}: {count} wake-ups were {least} or more late during {length}, {mean} on average\n\n")
                + &shares(found, total)
        }
    };
    if found.lost > 0 {
        text += &format!("\n{} records of the host's scheduler were lost\n", found.lost);
    }
    if found.closed {
        let what = if is_observed {
            "the process with the port passes nothing on any longer"
        } else {
            "the VM has closed the port"
        };
        text += &format!("\n{what}\n");
    }
    text
}

/// Returns a table of the parts, one of the threads that ran meanwhile, and one of the longest wake-ups.
fn shares(found: &LateWakeUps, total: u64) -> String {
    let mut grid = Grid::new(["where the time went", "mean", "share"].map(str::to_string).to_vec(), 1);
    for (title, _, ns) in parts(&found.parts) {
        let share = percent((u128::from(ns) * 1_000_000 / u128::from(total.max(1))) as u64);
        grid.add(vec![title.to_string(), short(ns / found.count), share]);
    }
    let attributed = percent(found.attributed.saturating_mul(1_000_000) / found.count);
    let mut text = format!("{grid}\n{attributed} of them are attributed but for 5 % or 100 us\n");
    if !found.instead.is_empty() {
        text += &format!("\n{}", instead(found));
    }
    text += &format!("\n{}", longest(found));
    if found.wake_ups.len() as u64 != found.count {
        text += &format!("\nthe longest are those of the first {} wake-ups\n", found.wake_ups.len());
    }
    text
}

/// Returns a table of the threads that ran while the VM waited.
fn instead(found: &LateWakeUps) -> String {
    let titles = ["ran on the host meanwhile", "process", "thread", "time"];
    let mut grid = Grid::new(titles.map(str::to_string).to_vec(), 1);
    for it in found.instead.iter().take(SHOWN) {
        let pid = it.pid.map_or_else(String::new, |pid| pid.to_string());
        grid.add(vec![name_of(it), pid, it.tid.to_string(), short(it.ran_ns)]);
    }
    grid.to_string()
}

fn name_of(thread: &api::Instead) -> String {
    match (&thread.name, thread.tid) {
        (_, 0) => "(idle)".to_string(),
        (Some(name), _) => safe(name, false).to_string(),
        (None, _) => "(ended)".to_string(),
    }
}

/// Returns a table of the longest late wake-ups.
fn longest(found: &LateWakeUps) -> String {
    let mut titles = ["the longest", "task", "latency"].map(str::to_string).to_vec();
    titles.extend(parts(&found.parts).map(|(_, title, _)| title.to_string()));
    titles.push("ran longest".to_string());
    let mut grid = Grid::new(titles, 2);
    for it in by_latency(found).into_iter().take(SHOWN) {
        let at = format!("at {}", short(it.due_ns));
        let mut row = vec![at, safe(&it.task, false).to_string(), short(it.latency_ns)];
        row.extend(parts(&it.parts).map(|(_, _, ns)| if ns == 0 { String::new() } else { short(ns) }));
        row.push(it.instead.first().map_or_else(String::new, name_of));
        grid.add(row);
    }
    grid.to_string()
}

/// Returns the late wake-ups, the longest first.
fn by_latency(found: &LateWakeUps) -> Vec<&LateWakeUp> {
    let mut all: Vec<&LateWakeUp> = found.wake_ups.iter().collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.latency_ns));
    all
}

/// Returns an SVG document with a bar for each of the longest late wake-ups.
fn drawn(found: &LateWakeUps) -> String {
    let bar = |it: &&LateWakeUp| {
        let at = format!("at {}", short(it.due_ns));
        Bar {
            label: format!("{} {at}", it.task),
            about: format!("{} (tid {}) on vCPU {} {at}", it.task, it.tid, it.vcpu),
            parts: parts(&it.parts).map(|(_, _, ns)| Nanos::ns(ns)).to_vec(),
        }
    };
    let length = short(found.length_ns);
    Bars {
        title: format!("Late wake-ups of {}", found.vm),
        about: format!("{} of {} or more during {length}; the longest", found.count, short(found.least_ns)),
        parts: parts(&found.parts).map(|(title, _, _)| title.to_string()).to_vec(),
        bars: by_latency(found).iter().take(DRAWN).map(bar).collect(),
    }
    .render()
}
