//! `cargo xtask bench`: speed beside a peer, in one run, alternating, as medians with their spread.
//!
//! - `events`: global EDF on the oracle's set B, laws on, against a bare event loop (and SimSo's figure, for its users).
//! - `worlds`: two levels, `scenarios/bench-two-level.toml`: inputs accepted per second, and how that grows with threads.
//! - `decisions`: wake + put + pick per policy at 10 to 100,000 runnable entities.
//! - `instructions`: the same counted by callgrind, for the record.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod bare_loop;
mod decisions;
mod events;
mod instructions;
mod worlds;

/// The median of some figures, and the least and the largest of them.
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

/// What can be measured, and named to be measured alone.
const PARTS: [&str; 4] = ["events", "worlds", "decisions", "instructions"];

fn main() {
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
        return instructions::run(policy, size.parse().expect("a size is a number"));
    }
    let named = |part: &&str| arguments.iter().any(|argument| argument == part);
    let wants = |part: &str| !PARTS.iter().any(named) || named(&part);
    if wants("events") {
        events::compare(runs);
    }
    if wants("worlds") {
        worlds::measure(runs);
    }
    if wants("decisions") {
        decisions::measure(runs);
    }
    if wants("instructions") {
        instructions::count();
    }
}
