//! The chores that are one call of cargo each.

use crate::component;
use crate::oracle::SIMSO;
use crate::root::cargo;
use anyhow::{Context, Result};
use clap::Args;
use std::process::{Command, ExitCode};

/// How to fuzz.
#[derive(Args, Debug)]
pub(crate) struct Fuzz {
    /// How long, in minutes, shared by the policies.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Daemon and guardian on simulated hosts, where one of them fails, instead of policies.
    #[arg(long, conflicts_with_all = ["policy", "steps", "cpus", "entities"])]
    daemon: bool,
    /// Only this policy (all of them unless given).
    #[arg(long)]
    policy: Option<String>,
    /// Just this seed, once; a run that fails prints its own.
    #[arg(long)]
    seed: Option<u64>,
    /// With a seed: only this many rounds of inputs.
    #[arg(long, requires = "seed")]
    steps: Option<u64>,
    /// With a seed: on this many CPUs.
    #[arg(long, requires = "seed")]
    cpus: Option<u16>,
    /// With a seed: at most this many entities at a time.
    #[arg(long, requires = "seed")]
    entities: Option<u64>,
}

/// How to measure.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// How often everything is measured; the medians count.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Further arguments for the benchmark itself.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// What to do about golden outputs.
#[derive(Args, Debug)]
pub(crate) struct Golden {
    /// Write what comes out now in place of what was expected; review the difference before committing it.
    #[arg(long)]
    update: bool,
}

impl Fuzz {
    fn arguments(&self) -> Vec<String> {
        let mut words = vec!["--minutes".to_string(), self.minutes.to_string()];
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([format!("--{name}"), value]);
            }
        };
        option("policy", self.policy.clone());
        option("seed", self.seed.map(|n| n.to_string()));
        option("steps", self.steps.map(|n| n.to_string()));
        option("cpus", self.cpus.map(|n| n.to_string()));
        option("entities", self.entities.map(|n| n.to_string()));
        words
    }
}

/// Looks for inputs that break a law.
pub(crate) fn fuzz(fuzz: &Fuzz) -> Result<ExitCode> {
    let (package, example) = if fuzz.daemon { ("storms", "fuzz-daemon") } else { ("fuzz", "fuzz") };
    let mut command = cargo(&["run", "--release", "--quiet", "--package", package, "--example", example, "--"]);
    pass_on(command.args(fuzz.arguments()))
}

/// Measures speed.
pub(crate) fn bench(bench: &Bench) -> Result<ExitCode> {
    let mut command = cargo(&["bench", "--package", "cli", "--bench", "speed", "--"]);
    match SIMSO.environment() {
        Ok(python) => drop(command.env("TACTUS_SIMSO_PYTHON", python)),
        Err(reason) => println!("SimSo is not measured: {reason}"),
    }
    if let Err(reason) = component::valgrind() {
        println!("instructions are not counted: {reason}");
    }
    let runs = bench.runs.to_string();
    let speed = pass_on(command.args(["--runs", &runs]).args(&bench.rest))?;
    if !bench.rest.is_empty() {
        return Ok(speed);
    }
    let mut promises = cargo(&["bench", "--package", "cli", "--bench", "promises", "--"]);
    let promises = pass_on(promises.args(["--runs", &runs]))?;
    Ok(if speed == ExitCode::SUCCESS { promises } else { speed })
}

/// Compares golden outputs, or writes them anew: every test whose expectation is text kept in the tree.
pub(crate) fn golden(golden: &Golden) -> Result<ExitCode> {
    let mut command = cargo(&["test", "--workspace", "--exclude", "xtask", "--no-fail-fast"]);
    if golden.update {
        command.env("UPDATE_EXPECT", "1");
    }
    let code = pass_on(&mut command)?;
    if golden.update {
        println!("what changed, to review: git diff");
    }
    Ok(code)
}

/// Runs `command` in place of ourselves, as far as anybody can see.
fn pass_on(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    // A signal has no code; then it is a plain failure.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_passes_on_just_what_it_was_given() {
        let mut given =
            Fuzz { minutes: 3.0, daemon: false, policy: None, seed: None, steps: None, cpus: None, entities: None };
        assert_eq!(given.arguments(), ["--minutes", "3"]);
        given.policy = Some("edf".to_string());
        given.seed = Some(7);
        assert_eq!(given.arguments(), ["--minutes", "3", "--policy", "edf", "--seed", "7"]);
    }
}
