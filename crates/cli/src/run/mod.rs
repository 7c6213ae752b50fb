//! `tactus run`: promises to real processes.

pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod play;

use crate::args::Run;
use crate::failure::{Failure, refused};
use crate::output;
use crate::record::Form;
use daemon::directory::Directory;
use daemon::live;
use daemon::terms::Terms;
use outcome::{Kept, Shown};
use plan::Plan;
use play::Played;
use std::process::ExitCode;

pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.output.trace {
        Form::of(file)?;
    }
    let plan = plan::plan(args)?;
    let terms = plan::terms(args.mechanism)?;
    let directory = plan::directory(args.directory.as_deref())?;
    let mut shown = Shown::begin(&args.output, plan.length)?;
    let played = keep(&terms, directory, &plan)?;
    let kept = Kept::new(&plan, &terms, played);
    shown.show(&plan, &kept, &terms)?;
    Ok(status(&plan, &kept.played))
}

/// Runs the daemon, which keeps the promises of `plan` from start to end.
pub(crate) fn keep(terms: &Terms, directory: Directory, plan: &Plan) -> Result<Played, Failure> {
    let _in_order = output::end_in_order();
    // Ctrl-Z must not stop the daemon: a stopped daemon keeps no promises, and the guardian would treat the stop as a
    // hang and kill the daemon.
    sys::process::ignore_stops();
    let what = format!("under {}", terms.policy.name);
    match live::serve(&terms.setup(directory), |front| play::play(Some(front), plan, &what)) {
        Ok(played) => played,
        Err(live::Failure::Running(reason) | live::Failure::Refused(reason)) => Err(refused(&reason)),
        Err(live::Failure::Failed(reason)) => {
            Err(anyhow::anyhow!("{reason}").context("the daemon failed, and all threads are restored").into())
        }
    }
}

/// Returns the exit code: 130 after an interrupt; otherwise the exit code of the process, if the plan has exactly one
/// process and the run started it; otherwise 0.
fn status(plan: &Plan, played: &Played) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let alone = plan.processes.len() == 1;
    match played.ends.first().and_then(|end| end.status).filter(|_| alone) {
        _ if played.interrupted => ExitCode::from(130),
        // The exit code that a shell reports.
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
            (None, None) => ExitCode::FAILURE,
        },
        None => ExitCode::SUCCESS,
    }
}
