//! [`Judged`]: the verdicts on a paper, and their output.

use crate::failure::Failure;
use crate::lab_args::LabRun;
use crate::output::{self, keep};
use anyhow::anyhow;
use lab::experiment::Extent;
use lab::judge::Verdict;
use lab::{Paper, Results, result};
use serde::Serialize;
use std::num::NonZero;
use std::process::ExitCode;

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct Judged<'p> {
    pub(super) paper: &'p str,
    pub(super) verdicts: Vec<Verdict<'p>>,
    pub(super) measured: &'p Results,
}

pub(super) fn extent(full: bool, smoke: bool) -> Extent {
    match (full, smoke) {
        (true, _) => Extent::Full,
        (_, true) => Extent::Smoke,
        _ => Extent::Usual,
    }
}

/// Returns the number of threads on which runs take place.
pub(super) fn threads(args: &LabRun) -> usize {
    args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get), usize::from)
}

pub(super) fn table(paper: &Paper, verdicts: &[Verdict<'_>]) -> String {
    let mut text = output::heading(&paper.key) + "\n\n";
    for verdict in verdicts {
        let claim = output::folded(verdict.claim, 90).join("\n                ");
        text += &format!("{:<4} {:<10} {claim}\n", verdict.id, verdict.status.word());
        for check in &verdict.checks {
            text += &format!("       {}\n", result::line(check));
        }
        let anchored = verdict.limits.anchored.iter().map(|it| format!("set from an anchor: {it}"));
        let reasons = verdict.limits.reasons.iter().map(|it| format!("limit: {it}"));
        text.extend(anchored.chain(reasons).map(|it| format!("       {it}\n")));
    }
    text + "\n"
}

/// Fails if the rival of a check has a defect, so that the check proves nothing.
pub(super) fn reject_toothless(judged: &[Judged<'_>]) -> Result<ExitCode, Failure> {
    let toothless: Vec<String> = judged.iter().flat_map(|paper| &paper.verdicts).flat_map(toothless).collect();
    if toothless.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Failed(anyhow!("checks whose rival has a defect:\n{}", toothless.join("\n"))))
}

/// Returns the checks of `verdict` whose rival has a defect, with the defect.
fn toothless(verdict: &Verdict<'_>) -> Vec<String> {
    let defect = |check: &lab::judge::Judged| {
        let rival = check.rival.as_ref()?;
        Some(format!("{}: {}: rival {}: {}", verdict.id, check.what, rival.name, rival.defect?))
    };
    verdict.checks.iter().filter_map(defect).collect()
}

/// Writes RESULT.md of `paper`.
pub(super) fn write_result(paper: &Paper, measured: &Results, verdicts: &[Verdict<'_>]) -> Result<(), Failure> {
    let text = result::text(paper, measured, verdicts)?;
    Ok(keep(&paper.directory.join("RESULT.md"), text.as_bytes())?)
}
