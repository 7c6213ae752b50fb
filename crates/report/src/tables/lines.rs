//! Tables of the results of entities, with a line for each entity.

use super::grid::{Wide, Widths};
use crate::got::Got;
use crate::short::{percent, short};

/// The columns, in order. Columns without information and columns that do not fit are omitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Column {
    Name,
    Asked,
    Policy,
    Granted,
    Got,
    Time,
    Late,
    Lateness,
    Unfinished,
    Short,
    Shortfall,
    Median,
    Percentile,
    Longest,
    Response,
    ResponsePercentile,
    ResponseLongest,
    Stolen,
    Spun,
    Held,
    Preempted,
    Moved,
}

impl Column {
    const ALL: [Column; 22] = [
        Column::Name,
        Column::Asked,
        Column::Policy,
        Column::Granted,
        Column::Got,
        Column::Time,
        Column::Late,
        Column::Lateness,
        Column::Unfinished,
        Column::Short,
        Column::Shortfall,
        Column::Median,
        Column::Percentile,
        Column::Longest,
        Column::Response,
        Column::ResponsePercentile,
        Column::ResponseLongest,
        Column::Stolen,
        Column::Spun,
        Column::Held,
        Column::Preempted,
        Column::Moved,
    ];

    /// Columns in the order in which they are omitted if the table is too wide.
    const LEAST_MISSED: [Column; 12] = [
        Column::Moved,
        Column::Preempted,
        Column::Held,
        Column::Time,
        Column::Granted,
        Column::Shortfall,
        Column::Percentile,
        Column::Median,
        Column::Response,
        Column::ResponseLongest,
        Column::Unfinished,
        Column::Lateness,
    ];

    const fn title(self) -> &'static str {
        match self {
            Column::Name => "",
            Column::Asked => "asked",
            Column::Policy => "policy",
            Column::Granted => "granted",
            Column::Got => "got",
            Column::Time => "CPU time",
            Column::Late => "jobs late",
            Column::Lateness | Column::Shortfall => "by",
            Column::Unfinished => "open",
            Column::Short => "slices short",
            Column::Median | Column::Response => "p50",
            Column::Percentile | Column::ResponsePercentile => "p99",
            Column::Longest | Column::ResponseLongest => "max",
            Column::Stolen => "stolen",
            Column::Spun => "spinning",
            Column::Held => "held",
            Column::Preempted => "preempted",
            Column::Moved => "moved",
        }
    }

    /// Returns whether the column has information about `got` in a table about `whose`.
    fn matters(self, whose: Whose, granted: Option<u64>, got: &Got) -> bool {
        match self {
            Column::Response | Column::ResponsePercentile | Column::ResponseLongest => {
                whose == Whose::Guest && got.responses > 0
            }
            Column::Stolen => whose == Whose::Guest,
            Column::Spun => got.spins > 0,
            Column::Policy => false,
            Column::Granted => granted.is_some(),
            Column::Late => got.releases > 0,
            Column::Lateness => got.misses > 0,
            Column::Unfinished => got.unfinished_late > 0,
            Column::Short => got.periods_judged > 0,
            Column::Shortfall => got.periods_missed > 0,
            Column::Held => got.held_ns > 0,
            _ => true,
        }
    }
}

/// Subject of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// A host, or a single machine.
    Host,
    /// A guest, whose tasks have steal time and whose jobs have response times.
    Guest,
}

/// A row of a table before the selection of columns.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) asked: String,
    pub(crate) policy: &'a str,
    pub(crate) granted: Option<u64>,
    pub(crate) got: &'a Got,
}

impl Line<'_> {
    fn cell(&self, column: Column) -> String {
        let got = self.got;
        let of = |part: u64, whole: u64| if whole > 0 { format!("{part}/{whole}") } else { "–".to_string() };
        let time = |ns: u64, part: u64| if part > 0 { short(ns) } else { "–".to_string() };
        match column {
            Column::Name => self.name.to_string(),
            Column::Asked => self.asked.clone(),
            Column::Policy => self.policy.to_string(),
            Column::Granted => self.granted.map_or_else(|| "–".to_string(), percent),
            Column::Got => percent(got.delivered_ppm),
            Column::Time => short(got.delivered_ns),
            Column::Late => of(got.misses, got.releases),
            Column::Lateness => time(got.worst_lateness_ns, got.misses),
            Column::Unfinished => got.unfinished_late.to_string(),
            Column::Short => of(got.periods_missed, got.periods_judged),
            Column::Shortfall => time(got.worst_shortfall_ns, got.periods_missed),
            Column::Median => short(got.wait_p50_ns),
            Column::Percentile => short(got.wait_p99_ns),
            Column::Longest => short(got.wait_max_ns),
            Column::Response => time(got.response_p50_ns, got.responses),
            Column::ResponsePercentile => time(got.response_p99_ns, got.responses),
            Column::ResponseLongest => time(got.response_max_ns, got.responses),
            Column::Stolen => short(got.stolen_ns),
            Column::Spun => short(got.spun_ns),
            Column::Held => short(got.held_ns),
            Column::Preempted => got.preemptions.to_string(),
            Column::Moved => got.migrations.to_string(),
        }
    }
}

/// Returns the table of `lines`, with the columns that fit `widths`.
pub(crate) fn table_of(lines: &[Line<'_>], whose: Whose, several: bool, widths: Widths) -> String {
    let mut columns: Vec<Column> = Column::ALL.to_vec();
    columns.retain(|&column| match column {
        Column::Policy => several,
        _ => lines.iter().any(|line| column.matters(whose, line.granted, line.got)),
    });
    let rows = lines.iter().map(|line| columns.iter().map(|&column| line.cell(column)).collect()).collect();
    let numbers = columns.split_off(columns.iter().take_while(|column| **column <= Column::Policy).count());
    let words = columns.iter().map(|column| column.title().to_string()).collect();
    Wide { words, columns: numbers, rows }.fitted(
        &Column::LEAST_MISSED,
        |column, least| column == least,
        titles,
        widths,
    )
}

/// Returns the titles of `columns`. The title of the first column of waits begins with `wait`, and the title of the
/// first column of responses with `response`.
fn titles(columns: &[&Column]) -> Vec<String> {
    let (mut waits, mut responses) = ("wait ", "response ");
    let title = |column: &&Column| match column {
        Column::Median | Column::Percentile | Column::Longest => {
            std::mem::take(&mut waits).to_string() + column.title()
        }
        Column::Response | Column::ResponsePercentile | Column::ResponseLongest => {
            std::mem::take(&mut responses).to_string() + column.title()
        }
        _ => column.title().to_string(),
    };
    columns.iter().map(title).collect()
}
