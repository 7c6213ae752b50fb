//! A sweep: the medians of all points under all policies, as one table, as CSV and as JSON.

use crate::applications::AppSummary;
use crate::asked::shown;
use crate::spreads::Spreads;
use crate::summary::{Summary, SummaryLine};
use crate::tables::grid::Widths;
use crate::tables::medians::{Row, table_of};
use measure::statistics::Spread;
use run::sweep::{Point, value_shown};
use serde::Serialize;

/// Maximum number of rows of the table. CSV has all rows.
const ROWS_MAX: usize = 400;

/// One point of a sweep, and its results.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweptPoint {
    /// Value of each axis.
    pub point: Point,
    /// Medians under each policy.
    pub medians: Vec<Summary>,
}

/// A sweep, in the format of `--json`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Swept<'s> {
    /// Whether the runs were simulated.
    pub simulated: bool,
    /// Points in the order of the axes. The last axis changes fastest.
    pub points: &'s [SweptPoint],
}

/// Returns the table of `points`. For each point and policy, the table has a line per entity of the host, a line per
/// task of a guest (`vm/task`), and a total of the host (`all`).
#[must_use]
pub fn swept(points: &[SweptPoint], widths: Widths) -> String {
    let axes: Vec<&str> = points.first().map(|it| it.point.keys().map(String::as_str).collect()).unwrap_or_default();
    // If the policy is an axis, it already has a column.
    let has_policies = !axes.contains(&"policy") && points.iter().any(|it| it.medians.len() > 1);
    let mut header = axes.iter().map(|axis| (*axis).to_string()).collect::<Vec<_>>();
    header.extend([String::new(), "asked".to_string()]);
    header.extend(has_policies.then(|| "policy".to_string()));
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut left_out = 0;
    for SweptPoint { point, medians } in points {
        for summary in medians {
            for (name, asked, got) in lines(summary) {
                if rows.len() == ROWS_MAX {
                    left_out += 1;
                    continue;
                }
                let mut words: Vec<String> = point.values().map(value_shown).collect();
                words.extend([name, asked]);
                words.extend(has_policies.then(|| summary.policy.clone()));
                rows.push((words, got));
            }
        }
    }
    let more = if left_out > 0 {
        format!("... and {left_out} more rows: write all of them with --csv FILE\n")
    } else {
        String::new()
    };
    table_of(&header, &rows, widths) + &more
}

/// Returns the name, the requested parameters and the numbers of each line of `summary`. The lines are entities of the
/// host, tasks of guests, and the total of the host.
fn lines(summary: &Summary) -> Vec<(String, String, &Spreads)> {
    let line = |of: Option<&str>, line: &'_ SummaryLine| {
        (of.map_or(line.name.clone(), |of| format!("{of}/{}", line.name)), shown(&line.asked))
    };
    let mut lines: Vec<(String, String, &Spreads)> = Vec::new();
    for it in &summary.entities {
        let (name, asked) = line(None, it);
        lines.push((name, asked, &it.got));
    }
    for guest in &summary.guests {
        for it in &guest.entities {
            let (name, asked) = line(Some(&guest.name), it);
            lines.push((name, asked, &it.got));
        }
    }
    lines.push(("all".to_string(), String::new(), &summary.total));
    lines
}

/// Returns `points` as CSV, with one line for each number. The columns are the axes, then `policy`, `machine`, `kind`
/// (`entity`, `group`, `application` or `total`), `name`, `metric`, `median`, `low`, `high`.
///
/// # Panics
/// Never panics, because writing to memory cannot fail.
#[must_use]
pub fn swept_csv(points: &[SweptPoint]) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let axes = points.first().map(|it| it.point.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let columns = ["policy", "machine", "kind", "name", "metric", "median", "low", "high"].map(str::to_string);
    let in_memory = "memory takes every record";
    // The axis `policy` is omitted, because the column `policy` already has its value.
    csv.write_record(axes.iter().filter(|axis| *axis != "policy").chain(&columns)).expect(in_memory);
    for SweptPoint { point, medians } in points {
        for summary in medians {
            let values = point.iter().filter(|(axis, _)| *axis != "policy").map(|(_, value)| value_shown(value));
            let start: Vec<String> = values.chain([summary.policy.clone()]).collect();
            for Number { machine, kind, name, metric, spread } in numbers(summary) {
                let Spread { median, low, high } = spread;
                let numbers = [median, low, high].map(|number| number.to_string());
                let words = [machine, kind, name, metric].map(str::to_string);
                csv.write_record(start.iter().chain(&words).chain(&numbers)).expect(in_memory);
            }
        }
    }
    String::from_utf8(csv.into_inner().expect(in_memory)).expect("names are text")
}

/// A number of a summary, with its subject.
struct Number<'s> {
    machine: &'s str,
    kind: &'static str,
    name: &'s str,
    metric: &'s str,
    spread: Spread,
}

fn numbers(summary: &Summary) -> Vec<Number<'_>> {
    let Summary { total, entities, groups, applications, guests, .. } = summary;
    let mut numbers = Vec::new();
    of_machine("host", (entities, groups), applications, total, &mut numbers);
    for guest in guests {
        of_machine(&guest.name, (&guest.entities, &guest.groups), &guest.applications, &guest.total, &mut numbers);
    }
    numbers
}

fn of_machine<'s>(
    machine: &'s str,
    (entities, groups): (&'s [SummaryLine], &'s [SummaryLine]),
    applications: &'s [AppSummary],
    total: &'s Spreads,
    numbers: &mut Vec<Number<'s>>,
) {
    let of = |kind, name, metric, spread| Number { machine, kind, name, metric, spread };
    for (kind, lines) in [("entity", entities), ("group", groups)] {
        for line in lines {
            numbers
                .extend(line.got.iter().map(|(metric, spread)| of(kind, line.name.as_str(), metric.as_str(), *spread)));
        }
    }
    for it in applications {
        numbers.extend(it.values.0.iter().map(|&(metric, spread)| of("application", it.name.as_str(), metric, spread)));
    }
    numbers.extend(total.iter().map(|(metric, spread)| of("total", "all", metric.as_str(), *spread)));
}
