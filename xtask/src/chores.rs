//! The xtask commands that run one or two cargo commands.

use crate::component;
use crate::oracle::SIMSO;
use crate::python;
use crate::root::{ALL_PACKAGES, cargo};
use crate::stream::pass_on;
use anyhow::Result;
use clap::Args;
use std::process::{Command, ExitCode};

/// Options of `cargo xtask bench`.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Number of measurements; the medians are printed.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Measure only the Python package.
    #[arg(long, conflicts_with = "rest")]
    python: bool,
    /// Further arguments for the benchmark.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Options of `cargo xtask golden`.
#[derive(Args, Debug)]
pub(crate) struct Golden {
    /// Replace the expected outputs by the current outputs; review the difference before committing it.
    #[arg(long)]
    update: bool,
}

/// Runs the benchmarks; with further arguments, only the benchmark of speed.
pub(crate) fn bench(bench: &Bench) -> Result<ExitCode> {
    let runs = bench.runs.to_string();
    if bench.python {
        return python::bench(&runs);
    }
    let mut command = benchmark("speed");
    match SIMSO.python() {
        Ok(python) => drop(command.env("TACTUS_SIMSO_PYTHON", python)),
        Err(reason) => println!("SimSo is not measured: {reason}"),
    }
    if let Err(reason) = component::valgrind() {
        println!("instructions are not counted: {reason}");
    }
    let speed = pass_on(command.args(["--runs", &runs]).args(&bench.rest))?;
    if !bench.rest.is_empty() {
        return Ok(speed);
    }
    let mut promises = benchmark("promises");
    let promises = pass_on(promises.args(["--runs", &runs]))?;
    let mut service = benchmark("service");
    let service = pass_on(service.args(["--runs", &runs]))?;
    let package = python::bench(&runs)?;
    let failed = [speed, promises, service, package].into_iter().find(|code| *code != ExitCode::SUCCESS);
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

/// Returns the command of a benchmark, without its arguments.
fn benchmark(name: &str) -> Command {
    let mut command = cargo(&["bench", "--bench", name]);
    command.args(ALL_PACKAGES).arg("--");
    command
}

/// Runs the tests of all crates except xtask. With `--update`, the tests rewrite their expected outputs.
pub(crate) fn golden(golden: &Golden) -> Result<ExitCode> {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(ALL_PACKAGES);
    if golden.update {
        command.env("UPDATE_EXPECT", "1");
    }
    let code = pass_on(&mut command)?;
    if golden.update {
        println!("what changed, to review: git diff");
    }
    Ok(code)
}
