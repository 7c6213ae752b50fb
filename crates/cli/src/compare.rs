//! `tactus compare`: the predictions of a simulation beside the observations of a live run.

use crate::args::Compare;
use crate::failure::Failure;
use crate::output;
use crate::raising::Raising;
use crate::run::keep;
use crate::run::outcome::Kept;
use crate::run::plan;
use crate::run::terms::RunTerms;
use report::{Report, Widths, compared, short, side_by_side};
use run::{Choice, Observers, Run};

pub(crate) fn run(args: &Compare) -> Result<(), Failure> {
    let mut scenario = lab::disk::scenario(&args.scenario)?;
    if let Some(length) = &args.length {
        scenario.length = input::duration::length(length)?;
    }
    let plan = plan::from_scenario(&scenario, args.json)?;
    let terms = RunTerms::of(&plan, Raising::Auto)?;
    let played = keep(&plan, &terms)?;
    if played.interrupted {
        return Err(anyhow::anyhow!("interrupted").into());
    }
    let kept = Kept::new(&plan, &terms, played);
    // The simulated host has the topology of this host, and the length is the real duration of the live run. In both
    // runs, entities without a promise receive the remaining time.
    (scenario.host, scenario.length) = (plan::host(), kept.description.length);
    let run = Run::new(scenario.clone(), Choice::new(terms.first().policy, terms.first().predicting()));
    let predicted = run.play(Observers::none()).map(Report::of)?;
    let compared = compared(&predicted, &kept.report);
    if args.json {
        output::print(&output::json(&compared)?)?;
        output::complain(&kept.remarks());
        return Ok(());
    }
    let title = format!("{}: predicted and observed, {}", scenario.name, short(scenario.length.as_ns()));
    let width = args.width.unwrap_or_else(output::width);
    let text = output::heading(&title) + "\n\n" + &side_by_side(&compared, Widths(width)) + &kept.remarks();
    Ok(output::print(&format!("{text}\n{}\n", output::folded(&terms.in_words(), width.into()).join("\n")))?)
}
