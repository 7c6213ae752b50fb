//! `tactus lab judge` and `tactus lab lock`: the recorded results under the current bounds, and the lock of the bounds.

use super::judged::{Judged, reject_toothless, table, write_result};
use crate::claims::named;
use crate::failure::Failure;
use crate::lab_args::{LabJudge, LabLock};
use crate::output::{self, keep};
use lab::judge::{Verdict, counts, judge};
use lab::lock::{self, CHANGES, Entries, LOCK, Ledger, MACHINES, Set};
use lab::{Paper, Results, Suite};
use std::path::Path;
use std::process::ExitCode;

/// Judges the recorded results under the current bounds. Measures nothing.
pub(super) fn judge_record(args: &LabJudge) -> Result<ExitCode, Failure> {
    let papers = Paper::all(&args.papers)?;
    let claims = named(&args.claims)?;
    let suite = Suite { papers: &papers, claims: &claims, ..Suite::default() };
    suite.check()?;
    let mut recorded: Vec<(&Paper, Results)> = Vec::new();
    for paper in papers.iter().flat_map(Paper::parts) {
        recorded.extend(paper.recorded()?.map(|results| (paper, results)));
    }
    let mut judged = Vec::new();
    for (paper, measured) in &recorded {
        // RESULT.md has all claims, so a claim without measurements is an error there.
        let is_measured = |id: &str| {
            args.record && !paper.is_live()
                || paper.experiments_of(id).all(|it| measured.experiments.contains_key(&it.name))
        };
        let verdicts: Vec<Verdict<'_>> = judge(paper, measured, |id| suite.asks(id) && is_measured(id))?;
        judged.push((*paper, Judged { paper: &paper.key, verdicts, measured }));
    }
    // Nothing is written unless the claims of all papers can be judged.
    for (paper, of) in judged.iter().filter(|(paper, _)| args.record && !paper.is_live()) {
        write_result(paper, of.measured, &of.verdicts)?;
    }
    judged.retain(|(_, of)| !of.verdicts.is_empty());
    let mut text: String = judged.iter().map(|(paper, of)| table(paper, &of.verdicts)).collect();
    let simulated = judged.iter().filter(|(paper, _)| !paper.is_live());
    text += &format!("{}.\n", counts(simulated.flat_map(|(_, of)| &of.verdicts)));
    let judged: Vec<Judged<'_>> = judged.into_iter().map(|(_, of)| of).collect();
    output::print(&if args.json { output::json(&judged)? } else { text })?;
    reject_toothless(&judged)
}

/// Adds new bounds and parameters to the locks, and checks that each change of the others is recorded.
pub(super) fn lock(args: &LabLock) -> Result<ExitCode, Failure> {
    let papers = Paper::all(&args.papers)?;
    let set = args.before.clone().map_or(Set::After, Set::Before);
    for paper in papers.iter().flat_map(Paper::parts) {
        extend(&paper.directory, &paper.given(), &set)?;
    }
    let machines = args.papers.join(MACHINES);
    if machines.is_dir() {
        let given = lock::machines();
        extend(&machines, &given.iter().map(|(key, given)| (key.clone(), given)).collect(), &set)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds the entries of `given` to the lock in `directory`.
fn extend(directory: &Path, given: &Entries<'_>, set: &Set) -> Result<(), Failure> {
    let (text, added) = Ledger::read(directory)?.with_new(given, set);
    let path = directory.join(LOCK);
    if added > 0 {
        keep(&path, text.as_bytes())?;
    }
    let ledger = Ledger::read(directory)?;
    ledger.check(given)?;
    let (count, changes) = (given.len(), ledger.changed());
    output::print(&format!(
        "{}: {count} entries, {added} of them new, {changes} changes in {CHANGES}\n",
        path.display()
    ))?;
    Ok(())
}
