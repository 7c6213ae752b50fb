//! `tactus doctor`: the properties of this machine, and the mechanisms that work on it.

mod examination;
mod facts;
mod measured;
mod shown;

use crate::args::Doctor;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use anyhow::{Context, anyhow};
use daemon::doctor::{Finding, Mechanism, examine, warn_of_guardian, warn_of_interfering};
use daemon::host_profile::{self, HostProfile};
use daemon::lateness;
use examination::{Examination, INTERVAL};
use measured::{MeasuredMechanisms, PERIOD, SLICE};
use report::{percent, short};
use sched::Nanos;

/// Width of the labels on the left.
const LABELS: usize = 20;

pub(crate) fn run(args: &Doctor) -> Result<(), Failure> {
    let mut examination = examine_all(Nanos::s(args.seconds))?;
    examination.mechanisms = args.measure.map(|seconds| measured::measure(Nanos::s(seconds))).transpose()?;
    if args.json {
        output::print(&output::json(&shown::shown(&examination))?)?;
    } else {
        output::print(&text(&examination))?;
    }
    if examination.keeps_promises() {
        return Ok(());
    }
    Err(Failure::Failed(anyhow!("no promise can be kept on this machine: neither SCHED_FIFO nor SCHED_DEADLINE works")))
}

fn examine_all(length: Nanos) -> anyhow::Result<Examination> {
    let host = HostProfile::read().context("the properties of this machine cannot be read")?;
    let all = Nanos::s(Mechanism::ALL.len() as u64);
    let progress = Progress::new("trying mechanisms".to_string(), all);
    let findings = Mechanism::ALL.iter().zip(1..).map(|(&mechanism, nth)| {
        let finding = examine(mechanism);
        progress.passed(Nanos::s(nth));
        finding
    });
    let findings: Vec<Finding> = findings.collect();
    let tried = warn_of_guardian().into_iter().chain(warn_of_interfering()).collect();
    progress.finish(&format!("tried {} mechanisms", findings.len()));
    let progress = Progress::new(format!("timers of {INTERVAL}"), length);
    let before = host_profile::times().context("the CPU times of this machine cannot be read")?;
    let measured = lateness::measure(INTERVAL, length, &mut |passed| progress.passed(passed));
    let stolen_ppm = host_profile::times().ok().and_then(|after| host_profile::steal_ppm(&after.since(&before)));
    progress.finish(&format!("measured timers of {INTERVAL} for {length}"));
    Ok(Examination { host, findings, measured, length, stolen_ppm, mechanisms: None, tried })
}

fn text(examination: &Examination) -> String {
    let mut text = format!("{}\n", output::heading("This machine"));
    for (label, words) in facts::facts(&examination.host) {
        text += &labelled(label, &words);
    }
    text += &format!("\n{}\n", output::heading("Mechanisms, each tried on a process of its own"));
    for Finding { mechanism, verdict } in &examination.findings {
        let words = match verdict {
            Ok(seen) => format!("works: {seen}"),
            Err(reason) => format!("does not: {reason}"),
        };
        text += &labelled(mechanism.name(), &words);
    }
    let title = format!("Lateness of timers every {INTERVAL}, over {}", examination.length);
    text += &format!("\n{}\n", output::heading(&title));
    text += &format!("{:<LABELS$}{:>10}{:>10}{:>10}{:>10}\n", "", "wake-ups", "p50", "p99", "max");
    for (class, outcome) in &examination.measured {
        text += &match outcome {
            Ok(found) => {
                let [median, most, longest] = [found.p50, found.p99, found.longest].map(|late| short(late.as_ns()));
                let slack = match found.slack {
                    Nanos::ZERO => String::new(),
                    slack => format!("   of which the timer slack may be {slack}"),
                };
                format!("{:<LABELS$}{:>10}{median:>10}{most:>10}{longest:>10}{slack}\n", class.name(), found.wakeups)
            }
            Err(reason) => labelled(class.name(), &reason.to_string()),
        };
    }
    let stolen = examination.stolen_ppm.map_or("not counted".to_string(), percent);
    text += &labelled("steal meanwhile", &stolen);
    let warnings = examination.warnings();
    if !warnings.is_empty() {
        text += &format!("\n{}\n", output::heading("To know"));
        for warning in &warnings {
            text += &labelled(warning.about, &warning.reason.to_string());
        }
    }
    if let Some(mechanisms) = &examination.mechanisms {
        text += &measurements(mechanisms);
    }
    text + "\n" + &verdict(examination)
}

/// Returns the table of the measured mechanisms, and the choice of a run.
fn measurements(measured: &MeasuredMechanisms) -> String {
    let title = format!("A promise of {SLICE} in every {PERIOD} beside hogs, for {} each", measured.measurement.length);
    let mut text = format!("\n{}\n", output::heading(&title));
    text += &format!("{:<LABELS$}{:>12}{:>12}{:>20}\n", "", "delivered", "error", "missed periods");
    for (mechanism, outcome) in &measured.measurement.each {
        text += &match outcome {
            Ok(found) => {
                let (delivered, error) = (percent(found.ppm), points(found.error_ppm));
                let missed = format!("{} of {}", found.periods_missed, found.periods_judged);
                format!("{:<LABELS$}{delivered:>12}{error:>12}{missed:>20}\n", mechanism.name())
            }
            Err(reason) => labelled(mechanism.name(), &format!("does not: {reason}")),
        };
    }
    if let Some((mechanism, reason)) = &measured.auto {
        text += &labelled("--mechanism auto", &format!("uses {}: {reason}", mechanism.name()));
    }
    if let Some((mechanism, _)) = measured.measurement.best() {
        let option = measured::option(mechanism).map_or(String::new(), |option| format!(" (`--mechanism {option}`)"));
        text += &labelled(
            "best here",
            &format!("{}{option}: the fewest missed periods, then the smallest error", mechanism.name()),
        );
    }
    text
}

/// Formats a difference of shares. Unit of the input: parts per million of a CPU.
fn points(error_ppm: i64) -> String {
    let sign = if error_ppm < 0 { "-" } else { "+" };
    let ppm = error_ppm.unsigned_abs();
    format!("{sign}{}.{:02} %", ppm / 10_000, ppm % 10_000 / 100)
}

/// Returns the conclusion.
fn verdict(examination: &Examination) -> String {
    let ways: Vec<String> = examination
        .promisable()
        .map(|(mechanism, ppm)| format!("by {}, of at most {} of each CPU", mechanism.name(), percent(ppm)))
        .collect();
    match ways.as_slice() {
        [] => "No promise can be kept here.\n".to_string(),
        ways => {
            let words = format!("Promises can be kept here {}.", ways.join(", and "));
            output::folded(&words, usize::from(output::width())).join("\n") + "\n"
        }
    }
}

/// Returns `words` with a label at the left, folded to the width of the output.
fn labelled(label: &str, words: &str) -> String {
    let width = usize::from(output::width()).saturating_sub(LABELS + 1);
    let mut text = String::new();
    for (nth, line) in output::folded(words, width).into_iter().enumerate() {
        text += &format!("{:<LABELS$}{line}\n", if nth == 0 { label } else { "" });
    }
    text
}
