//! The first part of `cargo xtask bench`: the speed of Tactus, relative to a program that does the same without Tactus.
//! Each run measures both programs, one after the other. The benchmark reports the medians of all runs, with minimum
//! and maximum.
//!
//! - `events`: global EDF on the oracle's set B, with the laws checked, compared with a bare event loop and with SimSo.
//! - `worlds`: hosts and guests (`scenarios/bench-two-level.toml`): accepted inputs per second, and the speed-up by a
//!   second thread.
//! - `decisions`: wake + put + pick per policy at 10 to 100,000 runnable entities.
//! - `command`: `tactus sim` including its report, on set B over 100 s and on the two-level scenario, compared with the
//!   bare event loop.
//! - `counted`: instructions of the bare loop, the core and the commands by callgrind, compared with
//!   `benches/instructions.toml`.
//! - `instructions`: instructions of a decision by callgrind, without a bound.
//!
//! The benchmark fails if `counted` finds more instructions than the record allows.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod bare_loop;
mod command;
mod counted;
mod decisions;
mod events;
mod instructions;
mod record;
mod worlds;

use std::process::ExitCode;

/// Median of several figures, with minimum and maximum.
#[derive(Clone, Copy, Debug)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        Spread { least: figures[0], median: figures[figures.len() / 2], most: figures[figures.len() - 1] }
    }
}

/// Names of the parts that can be measured alone.
const PARTS: [&str; 6] = ["events", "command", "worlds", "decisions", "counted", "instructions"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runs = match arguments.iter().position(|argument| argument == "--runs").map(|at| arguments.get(at + 1)) {
        None => 5,
        Some(runs) => runs.and_then(|runs| runs.parse().ok()).filter(|&runs| runs > 0).unwrap_or_else(|| {
            eprintln!("--runs takes a number above zero");
            std::process::exit(2);
        }),
    };
    if let [mode, policy, size] = arguments.as_slice()
        && mode == "count"
    {
        instructions::run(policy, size.parse().expect("a size is a number"));
        return ExitCode::SUCCESS;
    }
    if let [mode, what] = arguments.as_slice()
        && mode == "count"
    {
        counted::run(what);
        return ExitCode::SUCCESS;
    }
    let named = |part: &&str| arguments.iter().any(|argument| argument == part);
    let wants = |part: &str| !PARTS.iter().any(named) || named(&part);
    if wants("events") {
        events::compare(runs);
    }
    if wants("command") {
        command::compare(runs);
    }
    if wants("worlds") {
        worlds::measure(runs);
    }
    if wants("decisions") {
        decisions::measure(runs);
    }
    let as_recorded = !wants("counted") || counted::compare();
    if wants("instructions") {
        instructions::count();
    }
    if as_recorded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
