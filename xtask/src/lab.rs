//! The experiments of `papers/`: a run that records all experiments, and a check of a few points.

use crate::program::TACTUS;
use crate::root::{cargo, root};
use crate::step::{Failure, Outcome, succeeds};
use anyhow::{Context, Result};
use clap::Args;
use std::process::{Command, ExitCode};

/// Options of `cargo xtask lab`.
#[derive(Args, Debug)]
pub(crate) struct Lab {
    /// Further arguments for `tactus lab run`, such as `-j 2`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs all experiments in a release build, records their measurements, and draws the figures.
pub(crate) fn lab(lab: &Lab) -> Result<ExitCode> {
    let played = tactus(&["run", "all", "--record"], &lab.rest)?;
    // Exit code 1: a check accepts its wrong world. The measurements are recorded nevertheless, so draw the figures.
    if played > 1 {
        return Ok(ExitCode::from(played));
    }
    let drawn = tactus(&["report"], &[])?;
    Ok(ExitCode::from(played.max(drawn)))
}

/// Calls `tactus lab` and returns its exit code.
fn tactus(what: &[&str], rest: &[String]) -> Result<u8> {
    let mut command = cargo(&["run", "--release", "--quiet", "--package", "cli", "--", "lab"]);
    command.args(what).args(rest);
    let status = command.status().context("cannot run cargo")?;
    // A process that was killed by a signal has no exit code. The code 130 prevents drawing.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(130))
}

/// Measures a few points of each paper again, and checks that the values equal the recorded values.
pub(crate) fn smoke() -> Result<Outcome> {
    let papers = std::fs::read_dir(root().join("papers")).context("cannot read papers/")?;
    let is_recorded = papers.filter_map(Result::ok).any(|paper| paper.path().join("measured.json").exists());
    if !is_recorded {
        return Ok(Outcome::Skipped("no paper has a measured.json yet; `cargo xtask lab` records them".to_string()));
    }
    let program = match TACTUS.build() {
        Ok(program) => program,
        Err(why) => {
            let again = "cargo build --profile test --package cli".to_string();
            return Ok(Outcome::Failed(Failure { text: format!("{why:#}"), again }));
        }
    };
    let mut command = Command::new(program);
    command.current_dir(root()).args(["lab", "run", "all", "--smoke", "--results", "target/smoke"]);
    succeeds(&mut command)
}
