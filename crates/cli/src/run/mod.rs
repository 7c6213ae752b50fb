//! `tactus run`: promises to real processes.

pub(crate) mod breaches;
pub(crate) mod end;
mod fault;
mod measured;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod play;
mod refusal;
pub(crate) mod terms;

use crate::args::Run;
use crate::failure::{Failure, refused};
use crate::output;
use crate::record::Form;
use crate::scx;
use daemon::live::{self, Setup};
use end::End;
use outcome::{Kept, Shown};
use plan::Plan;
use play::Played;
use std::process::ExitCode;
use terms::RunTerms;

/// The exit code of a run in which a promise was not kept.
const NOT_KEPT: u8 = 3;

pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.output.trace {
        Form::of(file)?;
    }
    let plan = plan::plan(args)?;
    let terms = RunTerms::of(&plan, args.mechanism)?;
    let directory = plan::directory(args.directory.as_deref())?;
    let scheduler = args.sched_ext.then(scx::scheduler).transpose()?;
    let setup = Setup { scheduler, fault: fault::fault(args)?, ..terms.setup(directory) };
    let mut shown = Shown::begin(&args.output, plan.length)?;
    let played = keep_with(&setup, &plan, &terms)?;
    let kept = Kept::new(&plan, &terms, played);
    shown.show(&plan, &kept, &terms)?;
    Ok(status(&plan, &kept.played))
}

/// Runs the daemon in its usual directory, which keeps the promises of `plan` from start to end.
pub(crate) fn keep(plan: &Plan, terms: &RunTerms) -> Result<Played, Failure> {
    keep_with(&terms.setup(plan::directory(None)?), plan, terms)
}

fn keep_with(setup: &Setup, plan: &Plan, terms: &RunTerms) -> Result<Played, Failure> {
    let _in_order = output::end_in_order();
    let what = format!("under {}", terms.first().policy.name);
    match live::serve(setup, |front| play::play(Some((front, terms)), plan, &what)) {
        Ok(played) => played,
        Err(live::Failure::Running(reason) | live::Failure::Refused(reason)) => Err(refused(&reason)),
        Err(live::Failure::Failed(reason)) => {
            Err(anyhow::anyhow!("{reason}").context("the daemon failed, and all threads are restored").into())
        }
        Err(live::Failure::NotRestored(reason)) => {
            Err(anyhow::anyhow!("{reason}").context("the daemon failed, and some threads may not be restored").into())
        }
    }
}

/// Returns the exit code. The first of these codes that applies and is not 0: 130 after an interrupt; the code of the
/// process, if the plan has exactly one process; [`NOT_KEPT`] if a promise was not kept.
fn status(plan: &Plan, played: &Played) -> ExitCode {
    let only = played.ends.first().filter(|_| plan.processes.len() == 1);
    match only.map_or(0, End::code) {
        _ if played.interrupted => ExitCode::from(130),
        0 if !played.is_kept() => ExitCode::from(NOT_KEPT),
        code => ExitCode::from(code),
    }
}
