//! The options of `tactus lab`.

use crate::failure::EXIT_CODES;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) what: LabWhat,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabWhat {
    /// List the claims, and the experiments that test each claim
    List(LabList),
    /// Run the experiments of some or all claims, and evaluate the claims; resumes an interrupted run
    #[command(after_help = EXIT_CODES)]
    Run(LabRun),
    /// Judge the recorded results under the current bounds; measures nothing
    #[command(after_help = EXIT_CODES)]
    Judge(LabJudge),
    /// Lock new bounds and parameters, and check that each change of the others is recorded
    #[command(after_help = EXIT_CODES)]
    Lock(LabLock),
    /// Draw the figures and write a page of all claims, from recorded or latest results
    #[command(after_help = EXIT_CODES)]
    Report(LabReport),
}

#[derive(Args, Debug)]
pub(crate) struct LabList {
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabRun {
    /// The claims, such as A1 C5, or `all`
    #[arg(required = true, value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
    /// Number of seeds, in place of the number in each experiment
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=measure::statistics::RUNS_MAX as i64))]
    pub(crate) seeds: Option<u16>,
    /// First seed; anchors are set with the seeds 1001 to 1020
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = ["smoke", "record", "live"])]
    pub(crate) first_seed: Option<u32>,
    /// Run all points with the seeds 1 to 5, and compare the values with the recorded results
    #[arg(long, conflicts_with_all = ["full", "smoke", "seeds", "first_seed", "live", "record", "json"])]
    pub(crate) replay: bool,
    /// Judge the claims under other plausible values of each parameter, such as assumed values 25 % lower and higher
    #[arg(long, conflicts_with_all = ["full", "smoke", "seeds", "first_seed", "live", "replay"])]
    pub(crate) robust: bool,
    /// Number of threads; by default the number of CPUs
    #[arg(short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Use the full size of the papers; takes far longer
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) full: bool,
    /// Run a few points with one seed, and compare them with recorded results (--live: show them beside each other)
    #[arg(long, conflicts_with_all = ["record", "seeds", "json"])]
    pub(crate) smoke: bool,
    /// Run the live experiments, with real processes on this host; needs the privileges of `tactus run`
    #[arg(long, conflicts_with = "threads")]
    pub(crate) live: bool,
    /// With --live: run nothing, and take the values from the output of `--live --json` on another machine
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with_all = ["smoke", "seeds", "full", "note"])]
    pub(crate) measured: Option<PathBuf>,
    /// With --live: addition to the description of the machine
    #[arg(long, value_name = "TEXT", requires = "live")]
    pub(crate) note: Option<String>,
    /// Write measured.json and RESULT.md of each paper; without --live and --robust, requires all experiments (--robust: write robust.json and RESULT.md)
    #[arg(long, conflicts_with = "full")]
    pub(crate) record: bool,
    /// Print the verdicts and all measurements as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Directory of finished runs
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) results: PathBuf,
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct LabJudge {
    /// Only these claims, such as A1 C5; by default all
    #[arg(value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
    /// Write RESULT.md of each paper; requires all claims
    #[arg(long, conflicts_with = "claims")]
    pub(crate) record: bool,
    /// Print the verdicts and all measurements as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
}

/// Parses the hash of a commit.
fn commit(text: &str) -> Result<String, String> {
    let is_hash = (7..=40).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit());
    if is_hash {
        Ok(text.to_string())
    } else {
        Err("not the hash of a commit; use 7 to 40 hexadecimal digits".to_string())
    }
}

#[derive(Args, Debug)]
pub(crate) struct LabLock {
    /// The commit that precedes the first measurement with the new entries; by default, they were set after it
    #[arg(long, value_name = "COMMIT", value_parser = commit)]
    pub(crate) before: Option<String>,
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct LabReport {
    /// Only these claims, such as A1 C5
    #[arg(value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
    /// Use the results of finished runs in place of recorded results; measures nothing
    #[arg(long)]
    pub(crate) last: bool,
    /// Directory in which the page and the pictures are written
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) results: PathBuf,
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
}
