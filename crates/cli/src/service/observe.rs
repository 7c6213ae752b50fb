//! `tactus observe`: what the threads of a VM do for some time, and what runs instead of them.

use super::views::client;
use crate::failure::{Failure, usage};
use crate::output;
use crate::progress::Progress;
use crate::service_args::Observe;
use crate::terminal::safe;
use anyhow::Context;
use api::{Instead, LENGTH_MS, Observation, ObservedThread};
use report::{Grid, percent, short};
use sched::Nanos;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;
use sys::clock;

/// Interval between two updates of the bar.
const UPDATE: Nanos = Nanos::ms(50);
/// Number of threads that are shown as running instead of the VM's.
const INSTEAD_SHOWN: usize = 8;

pub(crate) fn observe(args: &Observe) -> Result<(), Failure> {
    let client = client(&args.at)?;
    let length = input::duration::length(&args.length)?;
    let [least, most] = [LENGTH_MS.start(), LENGTH_MS.end()].map(|ms| Nanos::ms(*ms));
    if !(least..=most).contains(&length) {
        let remedy = format!("use --for with {least} to {most}");
        return Err(usage(format!("a VM is observed for {least} to {most}, not for {length}"), &remedy));
    }
    let vm = client.show(&args.vm)?;
    let observed = thread::scope(|scope| {
        let request = scope.spawn(|| client.observe(&vm.id, Duration::from_nanos(length.as_ns())));
        let (begin, bar) = (clock::now(), Progress::new(vm.name.clone(), length));
        while !request.is_finished() {
            clock::sleep(UPDATE);
            bar.passed(clock::now().saturating_since(begin).min(length));
        }
        bar.clear();
        request.join().ok().context("the request has ended early")
    })??;
    let text = if args.at.json { output::json(&observed)? } else { text(&vm.name, &observed) };
    Ok(output::print(&text)?)
}

fn text(name: &str, observed: &Observation) -> String {
    let mut text = format!("{} during {}\n\n", safe(name, false), short(observed.length_ns));
    text += &threads(observed);
    if !observed.promise.is_empty() {
        text += &format!("\n{}", promise(observed));
    }
    let kept = [("throttled by its cap", observed.throttled_ns), ("taken by a hypervisor below", observed.stolen_ns)];
    for (what, ns) in kept.into_iter().filter_map(|(what, ns)| Some((what, ns.filter(|ns| *ns > 0)?))) {
        text += &format!("\n{what}: {}\n", short(ns));
    }
    match &observed.unrecorded {
        Some(why) => text += &format!("\nWhat ran instead is not known: {why}.\n"),
        None => text += &format!("\n{}", instead(observed)),
    }
    if observed.lost > 0 {
        text += &format!("\n{} context switches were lost, so waits are missing.\n", observed.lost);
    }
    text
}

/// Returns a table of the threads that ran or waited.
fn threads(observed: &Observation) -> String {
    let titles = ["thread", "name", "CPU", "ran", "waited", "waits", "p50", "p99", "longest"];
    let mut grid = Grid::new(titles.map(str::to_string).to_vec(), 2);
    let share = |ns: u64| percent(ns.saturating_mul(1_000_000) / observed.length_ns.max(1));
    let is_active = |thread: &&ObservedThread| thread.usage.time.ran_ns > 0 || thread.usage.time.waited_ns > 0;
    for thread in observed.threads.iter().filter(is_active) {
        let mut row = vec![thread.usage.tid.to_string(), thread.usage.name.clone(), thread.usage.cpu.to_string()];
        row.extend([share(thread.usage.time.ran_ns), share(thread.usage.time.waited_ns)]);
        match thread.waits.as_ref().filter(|waits| waits.count > 0) {
            Some(waits) => {
                row.push(waits.count.to_string());
                row.extend([waits.p50_ns, waits.p99_ns, waits.longest_ns].map(short));
            }
            None => row.extend([const { String::new() }; 4]),
        }
        grid.add(row);
    }
    grid.to_string()
}

/// Returns a line for each CPU of the promise.
fn promise(observed: &Observation) -> String {
    let line = |(nth, measured): (usize, &api::Measured)| {
        let times = [measured.delivered_ns, measured.due_ns].map(short);
        let short = match measured.missed {
            0 => String::new(),
            missed => format!(", short by {} on average", short(measured.short_ns / missed)),
        };
        let number = nth + 1;
        format!(
            "part {number} of the promise: {} of {} delivered, {} of {} periods missed{short}\n",
            times[0], times[1], measured.missed, measured.judged
        )
    };
    observed.promise.iter().enumerate().map(line).collect()
}

/// Returns a table of the threads that ran while vCPUs waited; without vCPUs, while any thread of the VM waited.
fn instead(observed: &Observation) -> String {
    let has_vcpus = observed.threads.iter().any(|thread| thread.usage.is_vcpu);
    let mut sums: BTreeMap<u32, Instead> = BTreeMap::new();
    for thread in observed.threads.iter().filter(|thread| thread.usage.is_vcpu || !has_vcpus) {
        for instead in &thread.instead {
            let sum = sums.entry(instead.tid).or_insert_with(|| Instead { ran_ns: 0, ..instead.clone() });
            sum.ran_ns += instead.ran_ns;
        }
    }
    let mut all: Vec<Instead> = sums.into_values().collect();
    all.sort_by_key(|instead| (std::cmp::Reverse(instead.ran_ns), instead.tid));
    let what = if has_vcpus { "its vCPUs" } else { "its threads" };
    if all.is_empty() {
        return format!("Nothing ran while {what} waited.\n");
    }
    let titles = ["ran instead", "process", "thread", "time"];
    let mut grid = Grid::new(titles.map(str::to_string).to_vec(), 1);
    for Instead { tid, name, pid, ran_ns } in all.into_iter().take(INSTEAD_SHOWN) {
        let name = if tid == 0 { Some("nothing: the CPU was idle".to_string()) } else { name };
        let pid = pid.map_or(String::new(), |pid| pid.to_string());
        let name = name.unwrap_or_else(|| "(ended)".to_string());
        grid.add(vec![name, pid, tid.to_string(), short(ran_ns)]);
    }
    grid.to_string()
}
