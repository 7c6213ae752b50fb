//! `RESULT.md`: the claims of a paper and their verdicts, as a table.

use crate::claim::Accepted;
use crate::experiment::Experiment;
use crate::judge::{Judged, Status, Verdict};
use crate::paper::Paper;
use crate::results::Results;
use measure::statistics;

/// Returns the text of `RESULT.md` of `paper`.
#[must_use]
pub fn text(paper: &Paper, results: &Results, verdicts: &[Verdict<'_>]) -> String {
    let count = |status| verdicts.iter().filter(|verdict| verdict.status == status).count();
    let mut text = format!("# {}\n\n{}\n\n", paper.key, paper.source.trim());
    text += &format!(
        "{} claims: {} reproduced, {} partly, {} not. Tactus {}, seeds 1 to {}; written by `tactus lab run all --record`, which repeats \
         all measurements. Numbers are medians over the seeds, with intervals that contain the median of all seeds with \
         {} % confidence. The paper's values are in parentheses. ✓ and ✗ show whether the whole interval is in the \
         accepted range.\n\n",
        verdicts.len(),
        count(Status::Reproduced),
        count(Status::Partly),
        count(Status::Not),
        results.version,
        results.seeds(),
        sureness(results.seeds()),
    );
    text += &format!("{}\n\n", paper.method.trim());
    text += "| | claim | measured (paper) | status | why |\n|---|---|---|---|---|\n";
    for verdict in verdicts {
        let checks: Vec<String> = verdict.checks.iter().map(line).collect();
        text += &format!(
            "| {} | {} | {} | **{}** | {} |\n",
            verdict.id,
            cell(verdict.claim),
            checks.join("<br>"),
            verdict.status.word(),
            cell(verdict.why.unwrap_or_default()),
        );
    }
    text += "\n## Experiments\n\n| file | shows | points | seeds | for |\n|---|---|---|---|---|\n";
    for experiment in &paper.experiments {
        text += &row(experiment, results);
    }
    text
}

/// Formats the confidence of an interval over this number of seeds, in percent: at least 95 from six seeds on.
pub(crate) fn sureness(seeds: usize) -> String {
    let ppm = statistics::confidence(seeds.clamp(1, statistics::RUNS_MAX));
    format!("{}.{:02}", ppm / 10_000, ppm / 100 % 100)
}

fn row(experiment: &Experiment, results: &Results) -> String {
    let rows = results.experiments.get(&experiment.name).map_or(&[][..], Vec::as_slice);
    let seeds = rows.iter().map(|row| row.seeds.len()).min().unwrap_or(0);
    let Experiment { name, figure, title, claims, .. } = experiment;
    let shows = format!("{}: {}", cell(figure), cell(title));
    format!("| `experiments/{name}.toml` | {shows} | {} | {seeds} | {} |\n", rows.len(), claims.join(", "))
}

/// Escapes `text` for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Formats a check as one line of text.
#[must_use]
pub fn line(check: &Judged) -> String {
    let mark = if check.anchor {
        "⚓"
    } else if check.holds {
        "✓"
    } else {
        "✗"
    };
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
    line
}

/// Formats the accepted range of a check's number: `> 3`, `70 to 130`.
pub(crate) fn bounds(check: &Judged) -> String {
    let Accepted { low, high, above, below } = check.accepted;
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
