//! `tactus run`: promises kept on real processes.

mod plan;
mod play;

use crate::args::Run;
use crate::{Failure, output, usage};
use daemon::Reason;
use daemon::live::{self, Setup};
use plan::Plan;

pub(crate) fn run(args: &Run) -> Result<(), Failure> {
    let plan = plan::plan(args)?;
    let setup = plan::setup(args.directory.as_deref())?;
    let played = keep(&setup, &plan)?;
    output::print(&format!("{played:?}\n"))?;
    Ok(())
}

/// Has the daemon keep the promises of `plan` from beginning to end.
pub(crate) fn keep(setup: &Setup, plan: &Plan) -> Result<play::Played, Failure> {
    let _live = output::end_in_order();
    match live::serve(setup, |front| play::play(Some(front), plan, "under tactus")) {
        Ok(played) => played,
        Err(live::Failure::Running(reason) | live::Failure::Refused(reason)) => Err(refused(&reason)),
        Err(live::Failure::Failed(Reason { why, remedy })) => {
            let text = if remedy.is_empty() { why } else { format!("{why}; right would be {remedy}") };
            Err(anyhow::anyhow!("{text}").context("the daemon failed, and everything is what it was before").into())
        }
    }
}

/// A refusal, as something typed.
pub(crate) fn refused(reason: &Reason) -> Failure {
    let right = match reason.remedy.strip_prefix("right would be ") {
        Some(_) => reason.remedy.clone(),
        None if reason.remedy.is_empty() => "nothing was changed".to_string(),
        None => format!("right would be {}", reason.remedy),
    };
    usage(reason.why.clone(), &right)
}
