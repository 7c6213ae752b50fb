//! The tables of domains, in the format of Xen's performance monitor.

use super::grid::{ROWS_MAX, Wide, Widths, and_more};
use crate::run_report::Report;
use crate::short::{percent, short};
use crate::spreads::{Spreads, numbers};
use crate::summary::Summary;
use crate::xenmon::DomainGot;

/// Display format of a column's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Percent,
    Time,
    Count,
    Thousandths,
}

impl Form {
    fn show(self, number: u64) -> String {
        match self {
            Form::Percent => percent(number),
            Form::Time => short(number),
            Form::Count => number.to_string(),
            Form::Thousandths if number < 99_950 => format!("{}.{}", (number + 50) / 1_000, (number + 50) / 100 % 10),
            Form::Thousandths => ((number + 500) / 1_000).to_string(),
        }
    }
}

/// The columns after the name: name of the number in a [`DomainGot`], title, and display format.
const COLUMNS: [(&str, &str, Form); 14] = [
    ("cpu_ns", "CPU time", Form::Time),
    ("cpu_ppm", "CPU", Form::Percent),
    ("cpu_per_execution_ns", "/ex", Form::Time),
    (ALLOCATED, "allocated/ex", Form::Time),
    ("waited_ns", "waited", Form::Time),
    ("waited_ppm", "%", Form::Percent),
    ("waited_per_execution_ns", "/ex", Form::Time),
    ("blocked_ns", "blocked", Form::Time),
    ("blocked_ppm", "%", Form::Percent),
    ("blocked_per_io_ns", "/io", Form::Time),
    ("executions_per_1000s", "ex/s", Form::Thousandths),
    ("io", "io", Form::Count),
    ("io_per_1000s", "io/s", Form::Thousandths),
    ("io_per_1000_executions", "io/ex", Form::Thousandths),
];

/// Columns in the order in which they are omitted if the table is too wide. The remaining columns always fit.
const LEAST_MISSED: [&str; 8] = [
    "io",
    "blocked_ns",
    "waited_ns",
    "blocked_per_io_ns",
    "io_per_1000s",
    "cpu_ns",
    ALLOCATED,
    "waited_per_execution_ns",
];

/// Columns about I/O, which are omitted if no I/O occurred.
const ON_IO: [&str; 4] = ["blocked_per_io_ns", "io", "io_per_1000s", "io_per_1000_executions"];

/// The column that is omitted if no time slice is bounded.
const ALLOCATED: &str = "allocated_per_execution_ns";

/// The kinds of information that at least one row of a table has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Has {
    /// Whether I/O occurred.
    io: bool,
    /// Whether a time slice is bounded.
    ends: bool,
}

/// A line of a table: a name, and the formatted numbers.
type Row<'a> = (&'a str, Vec<(String, String)>);

fn table(rows: &[Row<'_>], has: Has, widths: Widths) -> String {
    let mut columns: Vec<_> = COLUMNS.to_vec();
    columns.retain(|(name, ..)| match *name {
        ALLOCATED => has.ends,
        name => has.io || !ON_IO.contains(&name),
    });
    let cells = |(name, numbers): &Row<'_>| {
        let shown = |of: &str| numbers.iter().find(|(name, _)| name == of).map_or_else(String::new, |it| it.1.clone());
        std::iter::once((*name).to_string()).chain(columns.iter().map(|(of, ..)| shown(of))).collect()
    };
    let rows = rows.iter().map(cells).collect();
    Wide { words: vec![String::new()], columns, rows }.fitted(
        &LEAST_MISSED,
        |(name, ..), least| name == least,
        |columns| columns.iter().map(|(_, title, _)| (*title).to_string()).collect(),
        widths,
    )
}

/// Returns the numbers of `got`, formatted for their columns.
fn shown(got: &DomainGot) -> Vec<(String, String)> {
    let form = |of: &str| COLUMNS.iter().find(|(name, ..)| *name == of).map(|(_, _, form)| *form);
    numbers(got).filter_map(|(name, number)| form(&name).map(|form| (name, form.show(number)))).collect()
}

/// Returns the medians in `got`, formatted for their columns. An interval follows, unless its bounds are displayed as
/// the same text.
fn shown_medians(got: &Spreads) -> Vec<(String, String)> {
    let show = |(of, _, form): &(&str, &str, Form)| {
        let [median, low, high] = [got[*of].median, got[*of].low, got[*of].high].map(|number| form.show(number));
        ((*of).to_string(), if low == high { median } else { format!("{median} ({low}–{high})") })
    };
    COLUMNS.iter().map(show).collect()
}

/// Returns a title such as `Domains of host under edf, from 1s on (12.5% idle):`.
fn title(host: &str, under: Option<&str>, warm_up_ns: u64, idle: &str) -> String {
    let under = under.map_or(String::new(), |policy| format!(" under {policy}"));
    let from = if warm_up_ns == 0 { String::new() } else { format!(", from {} on", short(warm_up_ns)) };
    format!("\nDomains of {host}{under}{from} ({idle} idle):\n")
}

/// Returns the tables of the domains of each host, one for each run. Empty for runs without a monitor.
#[must_use]
pub fn xenmon(reports: &[Report], widths: Widths) -> String {
    let mut text = String::new();
    for report in reports {
        let under = (reports.len() > 1).then_some(report.policy.as_str());
        let Some(monitored) = &report.xenmon else { continue };
        for host in &monitored.hosts {
            text += &title(&host.name, under, monitored.warm_up_ns, &percent(host.idle_ppm));
            let most = host.domains.len().min(ROWS_MAX);
            let domains = host.domains[..most].iter().map(|it| (it.name.as_str(), shown(&it.got)));
            let has = Has { io: host.total.io > 0, ends: host.total.allocated_per_execution_ns > 0 };
            let rows: Vec<Row<'_>> = domains.chain([("all", shown(&host.total))]).collect();
            text += &table(&rows, has, widths);
            text += &and_more(host.domains.len() - most);
        }
    }
    text
}

/// Returns the tables of the domains of each host, with medians over several runs.
pub(crate) fn xenmon_medians(summaries: &[Summary], widths: Widths) -> String {
    let mut text = String::new();
    for summary in summaries {
        let under = (summaries.len() > 1).then_some(summary.policy.as_str());
        for host in &summary.xenmon {
            text += &title(&host.name, under, summary.warm_up_ns, &percent(host.idle_ppm.median));
            let most = host.domains.len().min(ROWS_MAX);
            let domains = host.domains[..most].iter().map(|it| (it.name.as_str(), shown_medians(&it.got)));
            let has = Has { io: host.total["io"].high > 0, ends: host.total[ALLOCATED].high > 0 };
            let rows: Vec<Row<'_>> = domains.chain([("all", shown_medians(&host.total))]).collect();
            text += &table(&rows, has, widths);
            text += &and_more(host.domains.len() - most);
        }
    }
    text
}
