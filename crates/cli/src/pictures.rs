//! `tactus lab report`: writes a page of all claims, and the figures, from recorded or stored results.

use crate::claims::named;
use crate::failure::{Failure, usage};
use crate::lab_args::LabReport;
use crate::output::{self, keep};
use crate::progress::Progress;
use anyhow::Context;
use lab::experiment::{Experiment, Extent, Schedule};
use lab::page::{self, Drawing, Picture, Report};
use lab::results::RECORDED;
use lab::store::{self, Store};
use lab::{Paper, Results, Suite};
use std::fmt::Write as _;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn report(args: &LabReport) -> Result<ExitCode, Failure> {
    let papers = Paper::all(&args.papers)?;
    let claims = named(&args.claims)?;
    let suite = Suite { papers: &papers, claims: &claims, extent: Extent::Usual, seeds: None, first_seed: None };
    suite.check()?;
    let asked = papers.iter().filter(|paper| paper.claims.iter().any(|claim| suite.asks(&claim.id)));
    let mut reports = Vec::new();
    for paper in asked {
        let results = if args.last { last(&suite, paper, &args.results)? } else { paper.recorded()? };
        reports.push(Report::new(paper, results, |id| suite.asks(id))?);
        if let Some(part) = paper.live.as_deref().filter(|_| !args.last)
            && let Some(results) = part.recorded()?
        {
            reports.push(Report::new(part, Some(results), |id| suite.asks(id))?);
        }
    }
    let without: Vec<&Report<'_>> = reports.iter().filter(|report| report.results.is_none()).collect();
    for report in &without {
        output::complain(&unmeasured(report.paper, args.last));
    }
    if without.len() == reports.len() {
        let right = "run `tactus lab run all --record` first, or use --last after a `tactus lab run`";
        return Err(usage("no results are measured yet".to_string(), right));
    }
    schedules(&mut reports, |id| suite.asks(id))?;
    let written = draw(&reports, &args.results)?;
    let path = args.results.join("report.html");
    keep(&path, page::html(&reports).as_bytes())?;
    output::print(&written_files(&reports, &path, &args.results, written))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the reason why the page has no results of `paper`.
fn unmeasured(paper: &Paper, is_last: bool) -> String {
    let key = &paper.key;
    if is_last {
        return format!("{key}: no experiment has finished with this program; `tactus lab run` runs the experiments");
    }
    format!("{key}: no results are recorded ({RECORDED}); `tactus lab run all --record` measures the paper")
}

/// Returns the latest results of `paper`, if any.
fn last(suite: &Suite<'_>, paper: &Paper, directory: &Path) -> Result<Option<Results>, Failure> {
    if !directory.exists() {
        return Ok(None);
    }
    let paper = suite.papers.iter().find(|other| other.key == paper.key).expect("it is one of them");
    let results = suite.known(paper, &Store::open(directory, store::SOURCES)?)?;
    Ok((!results.experiments.is_empty()).then_some(results))
}

/// Runs the points of the requested schedules, and adds the drawn schedules to `reports`.
fn schedules(reports: &mut [Report<'_>], asks: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let of = |report: &Report<'_>| -> Vec<(usize, usize)> {
        let is_asked = |experiment: &Experiment| experiment.claims.iter().any(|id| asks(id));
        let all = report.paper.experiments.iter().enumerate().filter(|(_, experiment)| is_asked(experiment));
        all.flat_map(|(place, it)| (0..it.schedule.len()).map(move |nth| (place, nth))).collect()
    };
    let known = |report: &&mut Report<'_>| report.results.is_some();
    for report in reports.iter_mut().filter(known) {
        let paper = report.paper;
        let all: Vec<(&Experiment, &Schedule)> = of(report)
            .iter()
            .map(|(place, nth)| (&paper.experiments[*place], *nth))
            .map(|(it, nth)| (it, &it.schedule[nth]))
            .collect();
        let drawn = lab::parallel::in_order(all.len(), threads(), |nth| {
            let (experiment, schedule) = all[nth];
            schedule.draw(experiment)
        });
        for ((experiment, schedule), svg) in all.into_iter().zip(drawn?) {
            let (name, title) = (&schedule.name, &schedule.title);
            report.pictures.push(Picture { experiment, name, title, drawing: Drawing::Svg(svg) });
        }
    }
    Ok(())
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Writes every picture of `reports` below `directory`: schedules as SVG, other figures as SVG and PNG. Returns the
/// number of pictures.
fn draw(reports: &[Report<'_>], directory: &Path) -> Result<usize, Failure> {
    let mut all = Vec::new();
    for report in reports.iter().filter(|report| !report.pictures.is_empty()) {
        let folder = directory.join("figures").join(&report.paper.key);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        all.extend(report.pictures.iter().map(|picture| (folder.clone(), picture)));
    }
    let bar = Progress::of_pieces("figures".to_string(), all.len());
    lab::parallel::in_order(all.len(), threads(), |nth| {
        let (folder, picture) = &all[nth];
        keep(&folder.join(format!("{}.svg", picture.name)), picture.drawing.svg().as_bytes())?;
        if let Drawing::Figure(figure) = &picture.drawing {
            keep(&folder.join(format!("{}.png", picture.name)), &figure.png())?;
        }
        bar.one_more();
        Ok::<(), Failure>(())
    })?;
    bar.finish("all figures are drawn");
    Ok(all.len())
}

/// Returns a message with the paths of the written files and the claims that are not measured.
fn written_files(reports: &[Report<'_>], page: &Path, directory: &Path, pictures: usize) -> String {
    let papers = || reports.iter().filter(|report| !report.paper.is_live());
    let claims: usize = papers().map(|report| report.verdicts.len()).sum();
    let open: Vec<&str> = papers().flat_map(|report| report.open.iter().copied()).collect();
    let (of, folder) = (counted(papers().count(), "paper"), directory.join("figures"));
    let mut text = format!("{}: {} of {of}\n", page.display(), counted(claims, "claim"));
    let figures = counted(pictures, "figure");
    let _ = writeln!(text, "{}: {figures}, as SVG, and figures of numbers as PNG", folder.display());
    if !open.is_empty() {
        let _ = writeln!(text, "not measured: {}", open.join(", "));
    }
    text
}

/// Formats a count: `1 claim`, `2 claims`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
