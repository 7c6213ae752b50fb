//! `tactus-scx --replay`: compares the decisions of a recording with those of the policy, and prints the result.

use input::problem::{Problem, Problems};
use sched::Nanos;
use scx::recording::{Record, Recording, read};
use scx::replay::{Choice, Comparison, Difference, Kind, replay};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

/// Number of records shown before and after an unattributed difference, and of earlier ones of its promises.
const BEFORE: usize = 24;
const AFTER: usize = 8;
const EARLIER: usize = 60;

/// Replays a file. Returns 0 if the kernel has decided as the policy, 1 if not, and 2 if the file is no whole recording.
pub(crate) fn run(file: &Path, is_json: bool) -> ExitCode {
    match compare(file) {
        Ok((recording, comparison)) => {
            if is_json {
                println!("{}", serde_json::to_string(&comparison).expect("it has only numbers and names"));
            } else {
                print(&recording, &comparison);
            }
            if comparison.agrees() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problems) => {
            eprintln!("{:?}", problems.report());
            ExitCode::from(2)
        }
    }
}

fn compare(file: &Path) -> Result<(Recording, Comparison), Problems> {
    let name = file.display().to_string();
    let open = File::open(file).map_err(|error| Problem::new(format!("{name}: {error}")).help("check the path"))?;
    let recording = read(&name, BufReader::new(open))?;
    let comparison = replay(&recording)?;
    Ok((recording, comparison))
}

fn print(recording: &Recording, comparison: &Comparison) {
    let Comparison { policy, promises, records, choices, differences, attributed, unattributed, .. } = comparison;
    let length = Nanos::ns(comparison.length_ns);
    let cpus = if comparison.cpus == 1 { "1 CPU".to_string() } else { format!("{} CPUs", comparison.cpus) };
    println!("{policy} on {cpus} for {length}: {promises} promises, {records} records");
    println!("{choices} choices, {differences} differences: {attributed} attributed, {unattributed} unattributed");
    for difference in &comparison.listed {
        list(difference);
        if difference.pair.is_none() {
            explain(recording, difference);
        }
    }
}

/// Prints the records that explain an unattributed difference, as they are in the file: those of its promises since the last agreement, and those
/// around it.
fn explain(recording: &Recording, difference: &Difference) {
    let records = &recording.records;
    let Some(at) = records.iter().position(|record| record.number == difference.number) else { return };
    let begin = at.saturating_sub(BEFORE);
    let is_earlier = |record: &&Record| record.number >= difference.since && difference.concerns(record.promise);
    let earlier: Vec<&Record> = records[..begin].iter().filter(is_earlier).collect();
    let shown = &earlier[earlier.len().saturating_sub(EARLIER)..];
    for record in shown.iter().copied().chain(&records[begin..(at + AFTER + 1).min(records.len())]) {
        println!("    {}", serde_json::to_string(record).expect("it has only numbers and names"));
    }
}

fn list(difference: &Difference) {
    let Difference { number, at_ns, cpu, kind, pair, .. } = difference;
    let choice = |choice: Option<Choice>| match choice {
        Some(Choice { promise, deadline_ns, left_ns }) => {
            format!("promise {promise} with deadline {deadline_ns} and {left_ns} ns left")
        }
        None => "no promise".to_string(),
    };
    let what = match *kind {
        Kind::Choice { kernel, policy } => format!("{}, by the policy {}", choice(kernel), choice(policy)),
        Kind::Run { runs, chosen } => format!("promise {runs} runs, and {chosen} was chosen"),
        Kind::NoChoice { since_ns } => format!("no choice, due since {since_ns}"),
        Kind::NoPeriod { since_ns } => format!("no period begins, due since {since_ns}"),
        Kind::State => "the event cannot happen in the state of the promise".to_string(),
    };
    let why = match pair {
        Some((one, other)) => format!("attributed to records {one} and {other}"),
        None => "unattributed".to_string(),
    };
    println!("  record {number} at {at_ns} on CPU {cpu}: {what}; {why}");
}
