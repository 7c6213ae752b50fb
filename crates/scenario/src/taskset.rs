//! Task sets: periodic tasks in CSV, with the columns `id`, `period_us` and `wcet_us` in any order.

use crate::{EntitySpec, JobEnd, Periodic, Scenario, Workload};
use csv::ByteRecord;
use input::problem::{Findings, Problem, Problems, Wrong, nearest, quoted};
use input::source::{Placed, Source, Span, floor};
use sched::time::SPAN_MAX;
use sched::{Instant, Nanos, Params, Reservation, Topology};
use std::collections::BTreeMap;

/// Columns of a task set.
const COLUMNS: [&str; 3] = ["id", "period_us", "wcet_us"];
/// Maximum period, in microseconds.
const PERIOD_MAX_US: u64 = SPAN_MAX.as_ns() / 1_000;

/// A periodic task whose deadline is the end of its period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Number of the task. Among tasks with equal deadlines, `edf` runs the task with the lowest number first.
    pub id: u64,
    /// Time from one release to the next. Range: 1 µs to [`SPAN_MAX`].
    pub period: Nanos,
    /// CPU time per job (worst-case execution time). Range: 1 µs to `period`.
    pub wcet: Nanos,
}

/// Returns the scenario of `tasks` on `cpus` identical CPUs for `length`. All tasks arrive at the start, in the order
/// of their ids. Each task has its period and execution time as its reservation. At the end of a job, a task yields if
/// its next job has already been released.
#[must_use]
pub fn scenario(name: &str, tasks: &[Task], cpus: usize, length: Nanos) -> Scenario {
    let mut tasks = tasks.to_vec();
    tasks.sort_by_key(|task| task.id);
    let entity = |task: &Task| EntitySpec {
        name: format!("task {}", task.id),
        group: None,
        host: 0,
        arrival: Instant::ZERO,
        leaves: None,
        params: Params { reservation: Some(task.reservation()), ..Params::default() },
        workload: Workload::Periodic(Periodic { end: JobEnd::Yield, ..Periodic::new(task.period, task.wcet) }),
        changes: Vec::new(),
        switch: None,
        real: None,
        real_place: Span::default(),
        mechanism: None,
        place: Span::default(),
    };
    let bare = Scenario::bare(name, Topology::new(cpus), length);
    Scenario { entities: tasks.iter().map(entity).collect(), ..bare }
}

impl Task {
    fn reservation(&self) -> Reservation {
        Reservation::new(self.wcet, self.period)
    }
}

/// Reads the contents of the file `name`. Returns the tasks in the order of the file, at least one task.
///
/// # Errors
/// The errors in the file, each with its span and its remedy. If the header is wrong, the rows are not checked.
pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Vec<Task>, Problems> {
    let source = input::text::decode(name, bytes)?;
    let mut findings = Findings::new(&source);
    let tasks = tasks(&source, &mut findings);
    findings.finish()?;
    Ok(tasks)
}

fn tasks(source: &Source, findings: &mut Findings) -> Vec<Task> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(source.text().as_bytes());
    let mut record = ByteRecord::new();
    let mut next = || {
        // The reader is in memory and accepts any number of fields, so reading cannot fail.
        let found = reader.read_byte_record(&mut record).expect("text in memory can be read");
        found.then(|| row(source, &record, reader.position().byte()))
    };
    let Some(header) = next() else {
        findings.add(empty("the file is empty", "a header, id,period_us,wcet_us, and a line for each task"));
        return Vec::new();
    };
    let Some(columns) = columns(&header, findings) else { return Vec::new() };
    let mut tasks = Vec::new();
    let mut ids: BTreeMap<u64, Span> = BTreeMap::new();
    while let Some(row) = next() {
        let Some((id, task)) = task(&row, columns, findings) else { continue };
        let first = *ids.entry(id.value).or_insert(id.at);
        if first != id.at {
            let problem =
                Problem::new(format!("the id {} is taken", id.value)).at(id.at, "again").at(first, "first here");
            findings.add(problem.help("use an id of its own for each task"));
        }
        tasks.extend(task);
    }
    if tasks.is_empty() && findings.is_empty() {
        findings.add(empty("the task set has no tasks", "at least one line below the header"));
    }
    tasks
}

fn empty(message: &str, right: &str) -> Problem {
    Problem::new(message).at(Span::default(), "in this file").help(format!("use {right}"))
}

/// The fields of a line, with their spans.
struct Row {
    /// Fields of the line: at most one field more than in a valid line.
    fields: Vec<Placed<String>>,
    /// Number of fields of the line.
    count: usize,
    at: Span,
}

/// Returns the row of `record`, which ends before byte `end`. The reader reports the start of a record, but not the
/// spans of its fields.
fn row(source: &Source, record: &ByteRecord, end: u64) -> Row {
    let at = |text: &str, byte: u64| floor(text, usize::try_from(byte).unwrap_or(usize::MAX));
    let text = &source.text()[..at(source.text(), end)];
    let begin = record.position().map_or(0, |position| at(text, position.byte()));
    // Between the reported position and the record, line ends or a byte order mark may remain.
    let mut start = text.len() - text[begin..].trim_start_matches(['\r', '\n', '\u{feff}']).len();
    let row_start = start;
    let mut fields = Vec::new();
    for field in record.iter().take(COLUMNS.len() + 1) {
        let raw = &text[start..start + field_length(&text[start..])];
        let indent = raw.len() - raw.trim_start().len();
        let at = Span { start: start + indent, end: start + raw.trim_end().len().max(indent) };
        fields.push(Placed { value: String::from_utf8_lossy(field).into_owned(), at });
        start = (start + raw.len() + 1).min(text.len());
    }
    let row_end = row_start + text[row_start..].trim_end().len();
    Row { fields, count: record.len(), at: Span { start: row_start, end: row_end } }
}

/// Returns the length of the field at the start of `text`, including quotes.
fn field_length(text: &str) -> usize {
    let ends = |rest: &str| rest.find([',', '\r', '\n']).unwrap_or(rest.len());
    let Some(mut rest) = text.strip_prefix('"') else { return ends(text) };
    // In a quoted field, two quotes stand for one quote. In an unquoted field, a quote stands for itself.
    loop {
        let Some(quote) = rest.find('"') else { return text.len() };
        rest = &rest[quote + 1..];
        match rest.strip_prefix('"') {
            Some(after) => rest = after,
            None => return text.len() - rest.len() + ends(rest),
        }
    }
}

/// Returns the index of each of [`COLUMNS`] in a row. `None`: a column is missing, unknown or repeated.
fn columns(header: &Row, findings: &mut Findings) -> Option<[usize; 3]> {
    const RIGHT: &str = "use the columns id, period_us and wcet_us, in any order";
    let mut places: [Option<usize>; 3] = [None; 3];
    let mut known = true;
    for (i, field) in header.fields.iter().enumerate() {
        let Some(column) = COLUMNS.iter().position(|&column| column == field.value) else {
            let help = match nearest(&field.value, COLUMNS) {
                Some(near) => format!("did you mean `{near}`? {RIGHT}"),
                None => RIGHT.to_string(),
            };
            let message = format!("there is no column {}", quoted(&field.value));
            findings.add(Problem::new(message).at(field.at, "unknown column").help(help));
            known = false;
            continue;
        };
        if let Some(first) = places[column].replace(i) {
            let problem = Problem::new(format!("the column `{}` occurs twice", field.value));
            findings.add(problem.at(field.at, "again").at(header.fields[first].at, "first here").help(RIGHT));
            known = false;
        }
    }
    for (column, _) in COLUMNS.iter().zip(places).filter(|(_, place)| known && place.is_none()) {
        let problem = Problem::new(format!("the column `{column}` is missing"));
        findings.add(problem.at(header.at, "the header").help(RIGHT));
    }
    let [Some(id), Some(period), Some(wcet)] = places else { return None };
    known.then_some([id, period, wcet])
}

/// Returns the id of a row, and its task if the row is valid. `None`: the id is unreadable, or the number of fields is
/// wrong.
fn task(row: &Row, columns: [usize; 3], findings: &mut Findings) -> Option<(Placed<u64>, Option<Task>)> {
    if row.count != COLUMNS.len() {
        let message = format!("this line has {} field{}", row.count, if row.count == 1 { "" } else { "s" });
        let problem = Problem::new(message).at(row.at, "not three");
        findings.add(problem.help("use three, as in the header"));
        return None;
    }
    let [id, period, wcet] = columns.map(|column| &row.fields[column]);
    let id = number("id", id, 0, u64::MAX, findings);
    let period = number("period_us", period, 1, PERIOD_MAX_US, findings);
    let wcet = number("wcet_us", wcet, 1, PERIOD_MAX_US, findings);
    if let (Some(period), Some(wcet)) = (period, wcet)
        && wcet.value > period.value
    {
        let message = format!("the execution time ({}) is longer than the period ({})", wcet.value, period.value);
        let problem = Problem::new(message).at(wcet.at, "longer than the period").at(period.at, "the period");
        findings.add(problem.help(format!("use at most {}", period.value)));
    }
    let time = |us: Option<Placed<u64>>| us.map(|us| Nanos::us(us.value));
    let task = match (id, time(period), time(wcet)) {
        (Some(id), Some(period), Some(wcet)) => Some(Task { id: id.value, period, wcet }),
        _ => None,
    };
    Some((id?, task))
}

/// Reads the whole number of a field, from `least` to `most`.
fn number(column: &str, field: &Placed<String>, least: u64, most: u64, findings: &mut Findings) -> Option<Placed<u64>> {
    let (message, label) = match field.value.parse() {
        Ok(value) if (least..=most).contains(&value) => return Some(Placed { value, at: field.at }),
        Ok(0) => (format!("`{column}` is zero"), "zero"),
        Ok(_) => (format!("`{column}` is out of range"), "out of range"),
        Err(_) if field.value.is_empty() => (format!("`{column}` is empty"), "nothing"),
        Err(_) if field.value.bytes().all(|byte| byte.is_ascii_digit()) => {
            (format!("`{column}` is out of range"), "out of range")
        }
        Err(_) => (format!("`{column}` is no whole number: {}", quoted(&field.value)), "no whole number"),
    };
    let help = format!("use a whole number from {least} to {most}");
    findings.add(Wrong::new(message, label, help).at(field.at));
    None
}
