//! [`html`]: a page of all claims, their verdicts, and the figures, in one self-contained file.

use crate::experiment::Experiment;
use crate::judge::{Judged, Verdict, judge};
use crate::paper::Paper;
use crate::plot::Figure;
use crate::problem::Problem;
use crate::result::{bounds, listed, margin, mark, number, rival};
use crate::results::Results;
use crate::status::Status;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

/// A paper with its results and verdicts.
#[derive(Debug)]
pub struct Report<'p> {
    /// The paper.
    pub paper: &'p Paper,
    /// Measurements; `None`: no run was measured.
    pub results: Option<Results>,
    /// Verdicts of the requested claims whose experiments were run.
    pub verdicts: Vec<Verdict<'p>>,
    /// Requested claims whose experiments were not all run.
    pub open: Vec<&'p str>,
    /// Pictures of the paper.
    pub pictures: Vec<Picture<'p>>,
}

/// A picture of an experiment.
#[derive(Debug)]
pub struct Picture<'p> {
    /// Experiment of the picture.
    pub experiment: &'p Experiment,
    /// Name of the picture's file, without an extension.
    pub name: &'p str,
    /// Title of the picture.
    pub title: &'p str,
    /// The Gantt chart, or the plot of the measurements.
    pub drawing: Drawing,
}

/// Content of a picture.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// A figure, which can be drawn in several formats.
    Figure(Box<Figure>),
    /// An SVG document.
    Svg(String),
}

impl<'p> Report<'p> {
    /// Evaluates the claims of `paper` that `asks` selects, and creates the figures. The caller adds the schedules. A
    /// claim has no verdict if one of its experiments was not run.
    ///
    /// # Errors
    /// The evaluation of an expression fails, or a plot cannot show the measurements.
    pub fn new(paper: &'p Paper, results: Option<Results>, asks: impl Fn(&str) -> bool) -> Result<Report<'p>, Problem> {
        let mut report = Report { paper, results, verdicts: Vec::new(), open: Vec::new(), pictures: Vec::new() };
        let asked = || paper.claims.iter().map(|claim| claim.id.as_str()).filter(|id| asks(id));
        let Some(results) = &report.results else {
            report.open = asked().collect();
            return Ok(report);
        };
        let is_played = |experiment: &Experiment| results.experiments.contains_key(&experiment.name);
        let is_open = |id: &&str| !paper.experiments_of(id).all(is_played);
        report.open = asked().filter(is_open).collect();
        report.verdicts = judge(paper, results, |id| asks(id) && !report.open.contains(&id))?;
        for experiment in report.asked(&asks) {
            for plot in &experiment.plot {
                if let Some(figure) = Figure::of(&paper.key, experiment, plot, results)? {
                    let drawing = Drawing::Figure(Box::new(figure));
                    report.pictures.push(Picture { experiment, name: &plot.name, title: &plot.title, drawing });
                }
            }
        }
        Ok(report)
    }

    fn asked(&self, asks: &impl Fn(&str) -> bool) -> Vec<&'p Experiment> {
        let paper: &'p Paper = self.paper;
        paper.experiments.iter().filter(|experiment| experiment.claims.iter().any(|id| asks(id))).collect()
    }

    fn count(&self, status: Status) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.status == status).count()
    }
}

impl Drawing {
    /// Returns the picture as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        match self {
            Drawing::Figure(figure) => figure.svg(),
            Drawing::Svg(text) => text.clone(),
        }
    }
}

/// Template of the page.
const TEMPLATE: &str = include_str!("page.html");

/// Values of the variables of the template.
#[derive(Serialize)]
struct PageValues<'r> {
    version: &'static str,
    counts: Vec<CountValues>,
    open: usize,
    papers: Vec<PaperValues<'r>>,
}

/// Number of claims with a status.
#[derive(Serialize)]
struct CountValues {
    word: &'static str,
    count: usize,
}

#[derive(Serialize)]
struct PaperValues<'r> {
    key: &'r str,
    /// Prefix of the HTML ids of its claims.
    prefix: &'static str,
    /// Description of the machine of live results.
    machine: Option<&'r str>,
    source: &'r str,
    method: Vec<String>,
    is_measured: bool,
    version: &'r str,
    seeds: String,
    counts: Vec<CountValues>,
    claims: Vec<ClaimValues<'r>>,
    open: String,
    figures: Vec<FigureValues<'r>>,
    experiments: Vec<ExperimentValues<'r>>,
}

#[derive(Serialize)]
struct ClaimValues<'r> {
    id: &'r str,
    /// HTML id of the claim on the page.
    anchor: String,
    claim: &'r str,
    status: &'static str,
    why: Option<&'r str>,
    /// What was set from anchors.
    anchored: &'r [String],
    /// What limits the evidence.
    limits: &'r [String],
    figures: Vec<[String; 2]>,
    checks: Vec<CheckValues<'r>>,
}

#[derive(Serialize)]
struct CheckValues<'r> {
    mark: &'static str,
    means: &'static str,
    what: &'r str,
    median: String,
    interval: String,
    unit: &'r str,
    paper: String,
    bounds: String,
    margin: String,
    rival: String,
}

#[derive(Serialize)]
struct FigureValues<'r> {
    place: String,
    figure: &'r str,
    title: &'r str,
    experiment: &'r str,
    claims: Vec<TestedValues<'r>>,
    /// Settings of the runs.
    set: Vec<String>,
    /// Meaning of the intervals.
    intervals: &'static str,
    svg: String,
}

/// A claim that a figure tests.
#[derive(Serialize)]
struct TestedValues<'r> {
    id: &'r str,
    /// HTML id of the claim on the page.
    anchor: String,
    claim: &'r str,
    /// Verdict, as a class of the style sheet.
    status: &'static str,
    verdict: &'static str,
}

#[derive(Serialize)]
struct ExperimentValues<'r> {
    name: &'r str,
    figure: &'r str,
    title: &'r str,
    points: usize,
    seeds: String,
    claims: &'r [String],
}

/// Returns the page of `reports` as HTML.
///
/// # Panics
/// Never panics, because the template is valid and its values are complete.
#[must_use]
pub fn html(reports: &[Report<'_>]) -> String {
    // A live part repeats claims of its paper, so it does not count.
    let papers = || reports.iter().filter(|report| !report.paper.is_live());
    let count = |status| papers().map(|report| report.count(status)).sum();
    let counts = Status::ALL.map(|status| CountValues { word: status.word(), count: count(status) }).into();
    let values = PageValues {
        version: env!("CARGO_PKG_VERSION"),
        counts,
        open: papers().map(|report| report.open.len()).sum(),
        papers: reports.iter().map(paper).collect(),
    };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let text = environment.render_named_str("page.html", TEMPLATE, Value::from(Serde(&values)));
    text.expect("the template is valid")
}

fn paper<'r>(report: &'r Report<'_>) -> PaperValues<'r> {
    let paper = report.paper;
    let experiments = report.results.iter().flat_map(|results| {
        let shown = |experiment: &'r Experiment| {
            let rows = results.experiments.get(&experiment.name)?;
            let seeds = listed(&Results::seeds([rows]), |count| count.to_string());
            let Experiment { name, figure, title, claims, .. } = experiment;
            Some(ExperimentValues { name, figure, title, points: rows.len(), seeds, claims })
        };
        paper.experiments.iter().filter_map(shown)
    });
    PaperValues {
        key: &paper.key,
        prefix: prefix(paper),
        machine: report.results.as_ref().and_then(|results| results.machine.as_deref()),
        source: paper.source.trim(),
        method: paragraphs(&paper.method),
        is_measured: report.results.is_some(),
        version: report.results.as_ref().map_or("", |results| &results.version),
        seeds: report.results.as_ref().map_or(String::new(), |results| {
            listed(&Results::seeds(results.experiments.values()), |count| count.to_string())
        }),
        counts: Status::ALL.map(|status| CountValues { word: status.word(), count: report.count(status) }).into(),
        claims: report.verdicts.iter().map(|verdict| claim(report, verdict)).collect(),
        open: report.open.join(", "),
        figures: report.pictures.iter().map(|picture| figure(report, picture)).collect(),
        experiments: experiments.collect(),
    }
}

fn paragraphs(text: &str) -> Vec<String> {
    let joined = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split("\n\n").map(joined).filter(|part| !part.is_empty()).collect()
}

/// Returns the HTML id of a picture on the page.
fn place(paper: &Paper, picture: &Picture<'_>) -> String {
    format!("{}-{}", paper.key, picture.name)
}

/// Returns the prefix of the HTML ids of the claims of `paper`. A live part has the ids of its paper's claims.
fn prefix(paper: &Paper) -> &'static str {
    if paper.is_live() { "live-" } else { "" }
}

/// Returns the HTML id of the claim `id` on the page.
fn anchor(paper: &Paper, id: &str) -> String {
    format!("{}{id}", prefix(paper))
}

fn claim<'r>(report: &'r Report<'_>, verdict: &'r Verdict<'_>) -> ClaimValues<'r> {
    let is_of = |picture: &&Picture<'_>| picture.experiment.claims.iter().any(|id| id == verdict.id);
    let link = |picture: &Picture<'_>| [place(report.paper, picture), picture.name.to_string()];
    ClaimValues {
        id: verdict.id,
        anchor: anchor(report.paper, verdict.id),
        claim: verdict.claim.trim(),
        status: verdict.status.word(),
        why: verdict.why.map(str::trim),
        anchored: &verdict.limits.anchored,
        limits: &verdict.limits.reasons,
        figures: report.pictures.iter().filter(is_of).map(link).collect(),
        checks: verdict.checks.iter().map(check).collect(),
    }
}

fn check(check: &Judged) -> CheckValues<'_> {
    let (mark, means) = mark(check);
    let interval = format!("{} … {}", number(check.low), number(check.high));
    CheckValues {
        mark,
        means,
        what: &check.what,
        median: number(check.median),
        interval: if check.low < check.high { interval } else { String::new() },
        unit: &check.unit,
        paper: check.paper.map(number).unwrap_or_default(),
        bounds: bounds(check),
        margin: check.margin.map(margin).unwrap_or_default(),
        rival: check.rival.as_ref().map(rival).unwrap_or_default(),
    }
}

fn figure<'r>(report: &'r Report<'_>, picture: &'r Picture<'_>) -> FigureValues<'r> {
    let Experiment { figure, name, claims, .. } = picture.experiment;
    let svg = picture.drawing.svg();
    // The XML declaration before the root element belongs only in files.
    let begin = svg.find("<svg").unwrap_or(0);
    FigureValues {
        place: place(report.paper, picture),
        figure,
        title: picture.title,
        experiment: name,
        claims: claims.iter().map(|id| tested(report, id)).collect(),
        set: what_was_set(picture.experiment),
        intervals: intervals(report.paper, &picture.drawing),
        svg: svg[begin..].to_string(),
    }
}

fn tested<'r>(report: &'r Report<'_>, id: &'r str) -> TestedValues<'r> {
    let claim = report.paper.claims.iter().find(|claim| claim.id == id);
    let status = report.verdicts.iter().find(|verdict| verdict.id == id).map(|verdict| verdict.status);
    TestedValues {
        id,
        anchor: anchor(report.paper, id),
        claim: claim.map_or("", |claim| claim.claim.trim()),
        status: status.map_or("", Status::word),
        verdict: match status {
            Some(Status::Partly) => "partly reproduced",
            Some(Status::Not) => "not reproduced",
            Some(status) => status.word(),
            None => "not judged",
        },
    }
}

/// Returns what was set for the runs of `experiment`, one text for each setting: the parameters with the kind of their
/// evidence, and the start of the monitor.
#[must_use]
pub fn what_was_set(experiment: &Experiment) -> Vec<String> {
    let given = experiment.parameters.iter().chain(&experiment.set);
    let mut set: Vec<String> = given.map(|(name, it)| format!("{name} = {} ({})", it.value, it.kind.word())).collect();
    set.extend(experiment.xenmon.iter().map(|start| format!("XenMon from {start} on")));
    set
}

/// Returns the meaning of the intervals in a picture; empty if it has none.
fn intervals(paper: &Paper, drawing: &Drawing) -> &'static str {
    match drawing {
        Drawing::Svg(_) => "One run, with the first seed.",
        Drawing::Figure(figure) if !figure.has_intervals() => "",
        Drawing::Figure(_) if paper.is_live() => LIVE_NOISE,
        Drawing::Figure(_) => NOISE,
    }
}

/// Meaning of intervals over seeds.
const NOISE: &str = "The intervals show simulation noise only: the variation between seeds. They do not include the \
uncertainty of the model.";

/// Meaning of intervals over runs of real processes.
const LIVE_NOISE: &str = "The intervals show the variation between runs on one machine. They do not include the \
differences between machines.";
