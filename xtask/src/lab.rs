//! The experiments of `papers/`: a run of all experiments, and a check of a few points.

use crate::program::TACTUS;
use crate::root::root;
use crate::step::{Failure, Outcome, succeeds};
use anyhow::{Context, Result};
use clap::Args;
use std::process::{Command, ExitCode};

/// Options of `cargo xtask lab`. Without options, all points are run with the seeds 1 to 5 and compared with the record.
#[derive(Args, Debug)]
pub(crate) struct Lab {
    /// Compare the values of all points with the record (the default).
    #[arg(long, conflicts_with_all = ["record", "robust", "smoke"])]
    replay: bool,
    /// Record the measurements and the verdicts, and draw the figures.
    #[arg(long)]
    record: bool,
    /// Judge the claims under other values of each parameter. With `--record`, the verdicts are recorded.
    #[arg(long)]
    robust: bool,
    /// Run a few points with one seed, and compare them with the record.
    #[arg(long, conflicts_with_all = ["record", "robust"])]
    smoke: bool,
    /// Profile of cargo in which `tactus` is built.
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Further arguments for `tactus lab run`, such as `-- -j 2`.
    #[arg(last = true)]
    rest: Vec<String>,
}

impl Lab {
    /// Returns the words of the command line after `tactus lab`.
    fn words(&self) -> Vec<&str> {
        let mut words = vec!["run", "all"];
        words.extend(self.record.then_some("--record"));
        words.extend(self.robust.then_some("--robust"));
        words.extend(self.smoke.then_some("--smoke"));
        words.extend((self.replay || !(self.record || self.robust || self.smoke)).then_some("--replay"));
        words.extend(self.rest.iter().map(String::as_str));
        words
    }
}

/// Runs all experiments, in a release build by default.
pub(crate) fn lab(lab: &Lab) -> Result<ExitCode> {
    let played = tactus(&lab.profile, &lab.words())?;
    // Exit code 1: a rival has a defect. The measurements are recorded nevertheless, so draw the figures.
    if played > 1 || !lab.record {
        return Ok(ExitCode::from(played));
    }
    let drawn = tactus(&lab.profile, &["report"])?;
    Ok(ExitCode::from(played.max(drawn)))
}

/// Calls `tactus lab` with these words and returns its exit code.
fn tactus(profile: &str, words: &[&str]) -> Result<u8> {
    let mut command = Command::new(TACTUS.build_in(profile)?);
    let status = command.arg("lab").args(words).status().context("cannot run the program")?;
    // A process that was killed by a signal has no exit code. The code 130 prevents drawing.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(130))
}

/// Measures a few points of each paper again, and checks that the values equal the recorded values.
pub(crate) fn smoke() -> Result<Outcome> {
    let papers = std::fs::read_dir(root().join("papers")).context("cannot read papers/")?;
    let is_recorded = papers.filter_map(Result::ok).any(|paper| paper.path().join("measured.json").exists());
    if !is_recorded {
        return Ok(Outcome::Skipped(
            "no paper has a measured.json yet; `cargo xtask lab --record` records them".to_string(),
        ));
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        lab: Lab,
    }

    #[test]
    fn options_of_lab_select_the_replay_the_record_or_the_smoke_set() {
        let words = |options: &str| {
            let command = Command::try_parse_from(["lab"].into_iter().chain(options.split_whitespace()));
            command.map(|it| (it.lab.profile.clone(), it.lab.words().join(" "))).ok()
        };
        let release = |words: &str| Some(("release".to_string(), words.to_string()));
        assert_eq!(words(""), release("run all --replay"));
        assert_eq!(words("--replay"), words(""));
        assert_eq!(words("--record -- -j 2"), release("run all --record -j 2"));
        assert_eq!(words("--record --robust"), release("run all --record --robust"));
        assert_eq!(words("--smoke --profile dev"), Some(("dev".to_string(), "run all --smoke".to_string())));
        assert_eq!((words("--smoke --record"), words("--replay --robust")), (None, None));
    }
}
