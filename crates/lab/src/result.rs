//! `RESULT.md`: the claims of a paper and their verdicts, as a table.

use crate::claim::Accepted;
use crate::experiment::Experiment;
use crate::judge::{Judged, Rivalled, Verdict, counts, judge};
use crate::live::STEAL;
use crate::margin::Margin;
use crate::paper::Paper;
use crate::problem::Problem;
use crate::results::Results;
use crate::varied::{ROBUST, Varied};
use measure::statistics;
use std::collections::BTreeSet;

/// Returns the text of `RESULT.md` of `paper`. If results of its live part are recorded, the text includes them.
///
/// # Errors
/// The live results cannot be read or judged.
pub fn text(paper: &Paper, results: &Results, verdicts: &[Verdict<'_>]) -> Result<String, Problem> {
    let recorded = paper.live.as_deref().map(|part| Ok((part, part.recorded()?))).transpose()?;
    let live = match &recorded {
        Some((part, Some(results))) => Some(Live::new(part, results)?),
        _ => None,
    };
    let seeds = Results::seeds(results.experiments.values());
    let mut text = format!("# {}\n\n{}\n\n", paper.key, paper.source.trim());
    text += &format!(
        "{} claims: {}. Tactus {}, seeds 1 to {}; written by `tactus lab run all --record`, which repeats all \
         measurements. Points that checks read and whose scenario draws by chance have the most seeds. Numbers are medians \
         over the seeds, with intervals that contain the median of all seeds with {} confidence, and the paper's values in parentheses. ✓: the whole interval is in the accepted range, and the whole \
         interval of the rival is outside. The margin is the distance of the nearer end to the bound, as a fraction of \
         the bound; for ratios (ln), as a difference of logarithms. Intervals are the noise of the simulation, not the \
         uncertainty of the model.\n\n",
        verdicts.len(),
        counts(verdicts.iter()),
        results.version,
        listed(&seeds, |count| count.to_string()),
        listed(&seeds, |count| format!("{} % ({count} seeds)", sureness(count))),
    );
    text += &format!("{}\n\n", paper.method.trim());
    let (title, rule) = if live.is_some() { (" real processes |", "---|") } else { ("", "") };
    text += &format!("| | claim | simulated (paper) | status | why |{title}\n|---|---|---|---|---|{rule}\n");
    for verdict in verdicts {
        text += &format!(
            "| {} | {} | {} | **{}** | {} |{}\n",
            verdict.id,
            cell(verdict.claim),
            checks(verdict),
            verdict.status.word(),
            cell(&reasons(verdict)),
            live.as_ref().map_or(String::new(), |live| format!(" {} |", live.cell(verdict.id))),
        );
    }
    if let Some(live) = &live {
        text += "\n## Real processes\n\n";
        text += &live.text(verdicts);
    }
    text += &variations(paper);
    text += HEAD_OF_EXPERIMENTS;
    paper.experiments.iter().for_each(|experiment| text += &row("experiments", experiment, results));
    if let Some(Live { part, results, .. }) = live {
        part.experiments.iter().for_each(|experiment| text += &row("live/experiments", experiment, results));
    }
    Ok(text)
}

/// Describes the recorded verdicts under other values of parameters, with the values without verdicts.
fn variations(paper: &Paper) -> String {
    if paper.robust.is_empty() {
        return String::new();
    }
    let values = |is_counted: &dyn Fn(&Varied) -> bool| {
        let counted = paper.robust.iter().filter(|varied| is_counted(varied));
        counted.map(|varied| (&varied.parameter, &varied.value)).collect::<BTreeSet<_>>().len()
    };
    let mut text = format!(
        "\n## Other values of parameters\n\nThe claims were also judged under {} other values of parameters, one at a \
         time ({ROBUST}). Under {} of them, at least one verdict differs; the limits of each claim name these \
         values.\n",
        values(&|_| true),
        values(&|varied| !varied.flips.is_empty()),
    );
    let judged: BTreeSet<&String> = paper.robust.iter().flat_map(|varied| &varied.claims).collect();
    let is_open = |id: &&String| !judged.contains(id);
    let open: Vec<&str> = paper.claims.iter().map(|claim| &claim.id).filter(is_open).map(String::as_str).collect();
    if !open.is_empty() {
        text += &format!("Not judged under other values: {}.\n", open.join(", "));
    }
    let unjudged: Vec<_> = paper.robust.iter().filter_map(|it| Some((it, it.unjudged.as_ref()?))).collect();
    if !unjudged.is_empty() {
        text += "\n| value without verdicts | claims | reason |\n|---|---|---|\n";
    }
    for (Varied { parameter, value, claims, .. }, why) in unjudged {
        text += &format!("| {} = {} | {} | {} |\n", cell(parameter), cell(value), claims.join(", "), cell(why));
    }
    text
}

const HEAD_OF_EXPERIMENTS: &str =
    "\n## Experiments\n\n| file | shows | points | seeds | for |\n|---|---|---|---|---|\n";

/// The live part of a paper, with its recorded results.
struct Live<'p> {
    part: &'p Paper,
    results: &'p Results,
    /// Verdicts on the claims whose experiments are recorded.
    verdicts: Vec<Verdict<'p>>,
}

impl<'p> Live<'p> {
    fn new(part: &'p Paper, results: &'p Results) -> Result<Live<'p>, Problem> {
        let is_recorded = |experiment: &Experiment| results.experiments.contains_key(&experiment.name);
        let verdicts = judge(part, results, |id| part.experiments_of(id).all(is_recorded))?;
        Ok(Live { part, results, verdicts })
    }

    /// Returns the status and the checks of the claim `id`, for a cell of a table.
    fn cell(&self, id: &str) -> String {
        let verdict = self.verdicts.iter().find(|verdict| verdict.id == id);
        let words = |verdict: &Verdict<'_>| {
            let why = verdict.why.map_or(String::new(), |why| format!("<br>{}", cell(why)));
            format!("**{}**<br>{}{why}", verdict.status.word(), checks(verdict))
        };
        verdict.map_or(String::new(), words)
    }

    /// Describes the machine and the method, and lists the claims that only real processes test. `simulated` are the
    /// verdicts of the other claims.
    fn text(&self, simulated: &[Verdict<'_>]) -> String {
        let machine = self.results.machine.as_deref().unwrap_or("an unknown machine");
        let steal = self.results.greatest(STEAL).map_or("not counted".to_string(), |ppm| {
            format!("at most {} % of the CPUs in any run", number(ppm / 10_000.0))
        });
        let mut text =
            format!("Recorded on {machine}, by `tactus lab run all --live --record`. Steal time: {steal}.\n\n");
        text += &format!("{}\n", self.part.method.trim());
        let only = self.verdicts.iter().filter(|verdict| simulated.iter().all(|other| other.id != verdict.id));
        let rows: Vec<String> = only
            .map(|verdict| format!("| {} | {} | {} |\n", verdict.id, cell(verdict.claim), self.cell(verdict.id)))
            .collect();
        if !rows.is_empty() {
            text += "\n| | claim | real processes |\n|---|---|---|\n";
            text += &rows.concat();
        }
        text
    }
}

/// Returns the explanation of a verdict: what was set, the limits of the evidence, and the reason for a miss.
fn reasons(verdict: &Verdict<'_>) -> String {
    let set = &verdict.limits.anchored;
    let set = if set.is_empty() { String::new() } else { format!("Set from anchors: {}.", set.join(", ")) };
    let limits = verdict.limits.reasons.join("; ");
    let limits = if limits.is_empty() { limits } else { format!("Limits: {limits}.") };
    let parts = [set.as_str(), &limits, verdict.why.unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Formats the checks of `verdict`, one per line.
fn checks(verdict: &Verdict<'_>) -> String {
    verdict.checks.iter().map(line).collect::<Vec<_>>().join("<br>")
}

/// Formats the confidence of an interval over this number of seeds, in percent: at least 95 from six seeds on.
pub(crate) fn sureness(seeds: usize) -> String {
    let ppm = statistics::confidence(seeds.clamp(1, statistics::RUNS_MAX));
    format!("{}.{:02}", ppm / 10_000, ppm / 100 % 100)
}

/// Returns the numbers of seeds, each in the format `of`, as a list.
pub(crate) fn listed(seeds: &BTreeSet<usize>, of: impl Fn(usize) -> String) -> String {
    seeds.iter().map(|&count| of(count)).collect::<Vec<_>>().join(" or ")
}

fn row(directory: &str, experiment: &Experiment, results: &Results) -> String {
    let recorded = results.experiments.get(&experiment.name);
    let (points, seeds) = (recorded.map_or(0, Vec::len), listed(&Results::seeds(recorded), |count| count.to_string()));
    let Experiment { name, figure, title, claims, .. } = experiment;
    let shows = format!("{}: {}", cell(figure), cell(title));
    format!("| `{directory}/{name}.toml` | {shows} | {points} | {seeds} | {} |\n", claims.join(", "))
}

/// Escapes `text` for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Formats a check as one line of text.
#[must_use]
pub fn line(check: &Judged) -> String {
    let (mark, _) = mark(check);
    let unit = if check.unit.is_empty() { String::new() } else { format!(" {}", check.unit) };
    let mut line = format!("{mark} {}: {}", cell(&check.what), number(check.median));
    if check.low < check.high {
        line += &format!(" [{}, {}]", number(check.low), number(check.high));
    }
    line += &unit;
    match (check.paper, bounds(check)) {
        (Some(paper), _) => line += &format!(" ({})", number(paper)),
        (None, bounds) if bounds.is_empty() => {}
        (None, bounds) => line += &format!(" ({bounds})"),
    }
    if let (Some(distance), Some(of)) = (check.margin, &check.rival) {
        line += &format!("; margin {}; rival {}", margin(distance), cell(&rival(of)));
    }
    line
}

/// Returns the mark of a check, and its meaning in words.
pub(crate) fn mark(check: &Judged) -> (&'static str, &'static str) {
    if check.anchor.is_some() {
        ("⚓", "anchor")
    } else if check.is_evidence() {
        ("✓", "holds")
    } else if check.holds {
        ("✗", "holds for its rival, too")
    } else {
        ("✗", "does not hold")
    }
}

/// Formats the distance to a bound: `+12 %`, `ln +0.4`.
pub(crate) fn margin(margin: Margin) -> String {
    let sign = if margin.size() < 0.0 { "−" } else { "+" };
    let size = margin.size().abs();
    match margin {
        Margin::Fraction(_) => format!("{sign}{} %", number(100.0 * size)),
        Margin::Logarithm(_) => format!("ln {sign}{}", number(size)),
        Margin::Difference(_) => format!("{sign}{}", number(size)),
    }
}

/// Formats the result of a rival: its name, its interval and its margin.
pub(crate) fn rival(rival: &Rivalled) -> String {
    let defect = rival.defect.map_or(String::new(), |defect| format!(", {defect}"));
    let distance = rival.margin.map_or(String::new(), |distance| format!(" {}", margin(distance)));
    let accepted = if rival.is_rejected { "" } else { ", not rejected" };
    format!("{}{distance}{accepted}{defect}", rival.name)
}

/// Formats the accepted range of a check's number: `> 3`, `70 to 130`.
pub(crate) fn bounds(check: &Judged) -> String {
    let Accepted { low, high, above, below, .. } = check.accepted;
    let mut words = Vec::new();
    if low.is_finite() && high.is_finite() {
        words.push(format!("{} to {}", number(low), number(high)));
    }
    match (above.is_finite(), below.is_finite()) {
        (true, true) => words.push(format!("between {} and {}", number(above), number(below))),
        (true, false) => words.push(format!("> {}", number(above))),
        (false, true) => words.push(format!("< {}", number(below))),
        (false, false) => {}
    }
    words.join(", ")
}

/// Formats a number with three significant digits, but with all digits before the decimal point, and with at most five
/// decimals.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        _ if size == 0.0 || !size.is_finite() || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.01 => 3,
        _ => 5,
    };
    let text = format!("{value:.places$}");
    if places > 0 { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}
