//! Reports as tables for people.

use super::guest::called;
use super::short::{percent, short};
use super::{Asked, Entity, Got, GroupGot, Report};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// The most rows a table shows.
pub(super) const ROWS_MAX: usize = 40;

/// How wide a table may be, in characters. Range: 40 and more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Widths(pub u16);

/// The columns, in order. Those that have nothing to say are left out, and those that find no room.
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

    /// Which go first where there is no room for all.
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

    /// Whether `got`, of a `whose`, has something to say in it.
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

/// What a table is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// A host, or a machine by itself.
    Host,
    /// A guest: it has steal time, and its jobs have response times.
    Guest,
}

/// A line of a table before its columns are chosen.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) asked: String,
    pub(super) policy: &'a str,
    pub(super) granted: Option<u64>,
    pub(super) got: &'a Got,
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

/// The table of `lines`, in as many columns as `widths` has room for.
pub(super) fn table_of(lines: &[Line<'_>], whose: Whose, several: bool, widths: Widths) -> String {
    let mut columns: Vec<Column> = Column::ALL.to_vec();
    columns.retain(|&column| match column {
        Column::Policy => several,
        _ => lines.iter().any(|line| column.matters(whose, line.granted, line.got)),
    });
    let mut dropped = 0;
    let mut least_missed = Column::LEAST_MISSED.iter();
    loop {
        let text = drawn(lines, &columns);
        let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let next = least_missed.find(|column| columns.contains(column));
        let Some(column) = next.filter(|_| width > usize::from(widths.0)) else {
            let note = format!("({dropped} more columns need a larger --width, or --json)\n");
            return if dropped == 0 { text } else { text + &note };
        };
        columns.retain(|other| other != column);
        dropped += 1;
    }
}

fn drawn(lines: &[Line<'_>], columns: &[Column]) -> String {
    let words = columns.iter().take_while(|column| **column <= Column::Policy).count();
    let (mut waits, mut responses) = ("wait ", "response ");
    let title = |column: &Column| match column {
        Column::Median | Column::Percentile | Column::Longest => {
            std::mem::take(&mut waits).to_string() + column.title()
        }
        Column::Response | Column::ResponsePercentile | Column::ResponseLongest => {
            std::mem::take(&mut responses).to_string() + column.title()
        }
        _ => column.title().to_string(),
    };
    let mut table = Grid::new(columns.iter().map(title).collect(), words);
    for line in lines {
        table.add(columns.iter().map(|&column| line.cell(column)).collect());
    }
    table.to_string()
}

/// The table of a run: a line for each entity and one for all together.
#[must_use]
pub fn table(report: &Report, widths: Widths) -> String {
    comparison(std::slice::from_ref(report), widths)
}

/// The table of several runs of one scenario: the entities, and of each a line for each policy.
#[must_use]
pub fn comparison(reports: &[Report], widths: Widths) -> String {
    let entities = reports.iter().map(|report| report.entities.len()).max().unwrap_or(0);
    let most = (ROWS_MAX / reports.len().max(1)).max(1).min(entities);
    let names: Vec<String> = (0..most)
        .map(|index| reports.iter().find_map(|report| report.entities.get(index)).map_or_else(String::new, called))
        .collect();
    let mut lines = Vec::with_capacity((most + 1) * reports.len());
    for (index, name) in names.iter().enumerate() {
        for (nth, report) in reports.iter().enumerate() {
            let Some(Entity { asked, granted_ppm, got, .. }) = report.entities.get(index) else { continue };
            let (name, asked) = if nth == 0 { (name.as_str(), shown(asked)) } else { ("", String::new()) };
            lines.push(Line { name, asked, policy: &report.policy, granted: *granted_ppm, got });
        }
    }
    for (nth, report) in reports.iter().enumerate() {
        let name = if nth == 0 { "all" } else { "" };
        lines.push(Line { name, asked: String::new(), policy: &report.policy, granted: None, got: &report.total });
    }
    table_of(&lines, Whose::Host, reports.len() > 1, widths) + &and_more(entities - most) + &unfinished(reports)
}

pub(super) fn and_more(count: usize) -> String {
    if count > 0 { format!("… and {count} more (see --json)\n") } else { String::new() }
}

/// Names the entities with jobs that were still open at the end though their deadline had passed.
fn unfinished(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports.iter().filter(|report| report.total.unfinished_late > 0) {
        let count = report.total.unfinished_late;
        let (jobs, were) = if count == 1 { ("job", "was") } else { ("jobs", "were") };
        let under = if reports.len() > 1 { format!(" under {}", report.policy) } else { String::new() };
        text += &format!("{count} {jobs} {were} late and still unfinished at the end{under}.\n");
    }
    text
}

/// The table of the groups that hold more than one entity; nothing if there are none.
#[must_use]
pub fn groups(reports: &[Report], widths: Widths) -> String {
    let shared = |report: &'_ Report| report.groups.iter().filter(|group| group.entities > 1).count();
    let count = reports.first().map_or(0, shared);
    if count == 0 {
        return String::new();
    }
    let most = (ROWS_MAX / reports.len().max(1)).max(1).min(count);
    let mut lines = Vec::with_capacity(most * reports.len());
    for index in 0..most {
        for (nth, report) in reports.iter().enumerate() {
            let mut large = report.groups.iter().filter(|group| group.entities > 1);
            let GroupGot { name, asked, got, .. } = large.nth(index).expect("they were counted");
            let (name, asked) = if nth == 0 { (name.as_str(), shown(asked)) } else { ("", String::new()) };
            lines.push(Line { name, asked, policy: &report.policy, granted: None, got });
        }
    }
    table_of(&lines, Whose::Host, reports.len() > 1, widths) + &and_more(count - most)
}

/// The table of the totals that tools for task sets report, one line for each policy.
#[must_use]
pub fn totals(reports: &[Report]) -> String {
    const HEADER: [&str; 9] = [
        "policy",
        "releases",
        "completions",
        "misses",
        "unfinished",
        "worst",
        "preemptions",
        "dispatches",
        "migrations",
    ];
    let mut table = Grid::new(HEADER.map(str::to_string).to_vec(), 1);
    for report in reports {
        let total = &report.total;
        let counts = [total.releases, total.completions, total.misses, total.unfinished_late];
        let mut row = vec![report.policy.clone()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(short(total.worst_lateness_ns));
        row.extend([total.preemptions, total.dispatches, total.migrations].map(|count| count.to_string()));
        table.add(row);
    }
    table.to_string() + &unfinished(reports)
}

/// An aligned table without lines: words to the left, numbers to the right, never folded.
pub(super) struct Grid {
    table: Table,
    /// How many columns are words.
    words: usize,
}

impl Grid {
    pub(super) fn new(header: Vec<String>, words: usize) -> Grid {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let mut grid = Grid { table, words };
        let header = grid.aligned(header);
        grid.table.set_header(header);
        for column in grid.table.column_iter_mut() {
            column.set_padding((0, 1));
        }
        grid
    }

    pub(super) fn add(&mut self, row: Vec<String>) {
        let row = self.aligned(row);
        self.table.add_row(row);
    }

    fn aligned(&self, row: Vec<String>) -> Vec<Cell> {
        let side = |at| if at < self.words { CellAlignment::Left } else { CellAlignment::Right };
        row.into_iter().enumerate().map(|(at, text)| Cell::new(text).set_alignment(side(at))).collect()
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.table.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

/// What was asked for, in a few words.
pub(super) fn shown(asked: &Asked) -> String {
    let mut words = Vec::new();
    if let (Some(slice), Some(period)) = (asked.slice_ns, asked.period_ns) {
        words.push(format!("{}/{}", short(slice), short(period)));
    }
    words.extend(asked.class.clone());
    if asked.limit == Some("hard") {
        words.push("hard".to_string());
    }
    if let Some(cap) = asked.cap_ppm {
        words.push(format!("cap {}%", cap / 10_000));
    }
    if let (Some(quota), Some(period)) = (asked.quota_ns, asked.quota_period_ns) {
        words.push(format!("quota {}/{}", short(quota), short(period)));
    }
    if asked.weight_linux != 1024 || words.is_empty() {
        let weight = sched::Weight::linux(asked.weight_linux).unwrap_or_default();
        words.insert(0, format!("weight {weight}"));
    }
    words.join(", ")
}
