//! [`Summary`]: what each entity got over many runs that differ only in their seed.

use super::text::{Grid, ROWS_MAX, Widths, and_more, shown};
use super::xenmon::{self, HostSpreads};
use super::{
    AppSummary, Asked, CoordinationSpreads, Entity, Got, GroupGot, ManagerSummary, Report, applications, manager,
    percent, short,
};
use measure::statistics::{Spread, confidence};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of each number of a [`Got`] or [`DomainGot`](super::DomainGot), by its name there, the median over the runs.
pub(super) type Spreads = BTreeMap<String, Spread>;

/// The medians over several runs of one scenario under one policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// The scenario's title.
    pub scenario: String,
    /// The policy's name.
    pub policy: String,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Length of each run. Unit: nanoseconds.
    pub length_ns: u64,
    /// What was left out of its beginning. Unit: nanoseconds.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub warm_up_ns: u64,
    /// The seeds of the runs, in order.
    pub seeds: Vec<u64>,
    /// How sure it is that an interval over all runs holds the median. Unit: millionths.
    pub confidence_ppm: u64,
    /// All together.
    pub total: Spreads,
    /// Each entity that was there in any run, in the order in which they were first met.
    pub entities: Vec<SummaryLine>,
    /// Each VM and other group.
    pub groups: Vec<SummaryLine>,
    /// What its applications say of themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppSummary>,
    /// The guests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestSummary>,
    /// What its workload manager did, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerSummary>,
    /// What the domains of each host did, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub xenmon: Vec<HostSpreads>,
}

/// Medians of one entity or group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SummaryLine {
    /// What people call it.
    pub name: String,
    /// What was asked for it.
    pub asked: Asked,
    /// In how many runs it was there: the medians are over those.
    pub runs: usize,
    /// What it got.
    #[serde(flatten)]
    pub got: Spreads,
}

/// Medians of a guest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GuestSummary {
    /// The name of its VM.
    pub name: String,
    /// Its policy's name.
    pub policy: String,
    /// Time for which its CPUs were frozen together.
    pub stolen_ns: Spread,
    /// The same in millionths of their time.
    pub stolen_ppm: Spread,
    /// What came of its coordination with its host, if they coordinate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination: Option<CoordinationSpreads>,
    /// All its tasks together.
    pub total: Spreads,
    /// Its tasks.
    pub entities: Vec<SummaryLine>,
    /// Its groups.
    pub groups: Vec<SummaryLine>,
    /// What its applications say of themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<AppSummary>,
}

impl Summary {
    /// Of `runs`, which differ in nothing but their seed. At least one, at most
    /// [`RUNS_MAX`](measure::statistics::RUNS_MAX).
    #[must_use]
    pub fn new(runs: &[Report]) -> Summary {
        let first = &runs[0];
        let guest = |index: usize| {
            let of: Vec<_> = runs.iter().filter_map(|run| run.guests.get(index)).collect();
            let over = |number: fn(&super::GuestReport) -> u64| {
                Spread::of(&of.iter().map(|guest| number(guest)).collect::<Vec<_>>())
            };
            GuestSummary {
                name: of[0].name.clone(),
                policy: of[0].policy.clone(),
                stolen_ns: over(|guest| guest.stolen_ns),
                stolen_ppm: over(|guest| guest.stolen_ppm),
                coordination: CoordinationSpreads::new(of.iter().filter_map(|guest| guest.coordination.as_ref())),
                total: spreads(of.iter().map(|guest| &guest.total)),
                entities: lines(of.iter().map(|guest| guest.entities.iter().map(entity))),
                groups: lines(of.iter().map(|guest| guest.groups.iter().map(group))),
                applications: AppSummary::all(of.iter().map(|guest| guest.applications.as_slice())),
            }
        };
        let guests = runs.iter().map(|run| run.guests.len()).max().unwrap_or(0);
        Summary {
            scenario: first.scenario.clone(),
            policy: first.policy.clone(),
            cpus: first.cpus,
            length_ns: first.length_ns,
            warm_up_ns: first.warm_up_ns,
            seeds: runs.iter().map(|run| run.seed).collect(),
            confidence_ppm: confidence(runs.len()),
            total: spreads(runs.iter().map(|run| &run.total)),
            entities: lines(runs.iter().map(|run| run.entities.iter().map(entity))),
            groups: lines(runs.iter().map(|run| run.groups.iter().map(group))),
            applications: AppSummary::all(runs.iter().map(|run| run.applications.as_slice())),
            guests: (0..guests).map(guest).collect(),
            manager: ManagerSummary::new(runs),
            xenmon: xenmon::hosts(runs),
        }
    }
}

fn entity(entity: &Entity) -> (&str, &Asked, &Got) {
    (&entity.name, &entity.asked, &entity.got)
}

fn group(group: &GroupGot) -> (&str, &Asked, &Got) {
    (&group.name, &group.asked, &group.got)
}

/// The lines of all `runs`, one for each name; a name that comes more than once in a run is distinguished by its number.
fn lines<'r>(runs: impl Iterator<Item = impl Iterator<Item = (&'r str, &'r Asked, &'r Got)>>) -> Vec<SummaryLine> {
    let mut order: Vec<(&str, &Asked, Vec<&Got>)> = Vec::new();
    let mut index: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for run in runs {
        let mut met: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, asked, got) in run {
            let times = met.entry(name).or_default();
            let at = *index.entry((name, *times)).or_insert_with(|| {
                order.push((name, asked, Vec::new()));
                order.len() - 1
            });
            *times += 1;
            order[at].2.push(got);
        }
    }
    let line = |(name, asked, got): (&str, &Asked, Vec<&Got>)| SummaryLine {
        name: name.to_string(),
        asked: asked.clone(),
        runs: got.len(),
        got: spreads(got.into_iter()),
    };
    order.into_iter().map(line).collect()
}

/// The numbers in `got`, by their names there.
pub(super) fn numbers<G: Serialize>(got: &G) -> impl Iterator<Item = (String, u64)> + use<G> {
    let serde_json::Value::Object(numbers) = serde_json::to_value(got).expect("numbers can be written") else {
        unreachable!("what an entity got is an object")
    };
    numbers.into_iter().map(|(name, number)| (name, number.as_u64().expect("all of it are whole numbers")))
}

pub(super) fn spreads<'g, G: Serialize + 'g>(of: impl Iterator<Item = &'g G>) -> Spreads {
    let mut values: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (name, number) in of.flat_map(numbers) {
        values.entry(name).or_default().push(number);
    }
    values.into_iter().map(|(name, values)| (name, Spread::of(&values))).collect()
}

/// How a column's numbers are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Percent,
    Time,
    Count,
    Thousandths,
}

/// The columns after name, asked and policy: the number's name in a [`Got`], the title, the form; those that are zero throughout are
/// left out, but for the first.
const COLUMNS: [(&str, &str, Form); 12] = [
    ("delivered_ppm", "got", Form::Percent),
    ("misses", "late", Form::Count),
    ("unfinished_late", "open", Form::Count),
    ("periods_missed", "short", Form::Count),
    ("wait_p99_ns", "wait p99", Form::Time),
    ("wait_max_ns", "wait max", Form::Time),
    ("wakeup_p50_ns", "wake-up p50", Form::Time),
    ("wakeup_p99_ns", "wake-up p99", Form::Time),
    ("response_p50_ns", "response p50", Form::Time),
    ("response_p99_ns", "response p99", Form::Time),
    ("stolen_ns", "stolen", Form::Time),
    ("spun_ns", "spinning", Form::Time),
];

/// Which go first where there is no room for all.
const LEAST_MISSED: [&str; 9] = [
    "unfinished_late",
    "wait_p99_ns",
    "wakeup_p50_ns",
    "response_p50_ns",
    "spun_ns",
    "wait_max_ns",
    "wakeup_p99_ns",
    "periods_missed",
    "stolen_ns",
];

pub(super) fn cell(spread: Spread, form: Form) -> String {
    let shown = |number: u64| match form {
        Form::Percent => percent(number),
        Form::Time => short(number),
        Form::Count => number.to_string(),
        Form::Thousandths => format!("{}.{:03}", number / 1000, number % 1000),
    };
    let [median, low, high] = [spread.median, spread.low, spread.high].map(shown);
    if low == high { median } else { format!("{median} ({low}–{high})") }
}

/// A line of a table: words, as many as the table has columns of words, and numbers.
pub(super) type Row<'a> = (Vec<String>, &'a Spreads);

/// The table of `rows` under `words`, the headers of its columns of words. Columns of numbers that find no room are left out.
pub(super) fn table_of(words: &[String], rows: &[Row<'_>], widths: Widths) -> String {
    let matters = |name: &str, nth: usize| {
        nth == 0 || rows.iter().any(|(_, got)| got.get(name).is_some_and(|spread| spread.high > 0))
    };
    let mut columns: Vec<_> =
        COLUMNS.into_iter().enumerate().filter(|(nth, (name, ..))| matters(name, *nth)).map(|(_, it)| it).collect();
    let all = columns.len();
    let mut least_missed = LEAST_MISSED.iter();
    loop {
        let text = drawn(words, rows, &columns);
        let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let next = least_missed.find(|least| columns.iter().any(|(name, ..)| name == *least));
        let Some(least) = next.filter(|_| width > usize::from(widths.0)) else {
            let dropped = all - columns.len();
            let note = format!("({dropped} more columns need a larger --width, or --json)\n");
            return if dropped == 0 { text } else { text + &note };
        };
        columns.retain(|(name, ..)| name != least);
    }
}

fn drawn(words: &[String], rows: &[Row<'_>], columns: &[(&str, &str, Form)]) -> String {
    let header = words.iter().cloned().chain(columns.iter().map(|(_, title, _)| (*title).to_string()));
    let mut grid = Grid::new(header.collect(), words.len());
    for (words, got) in rows {
        let numbers =
            columns.iter().map(|(name, _, form)| got.get(*name).map_or_else(String::new, |it| cell(*it, *form)));
        grid.add(words.iter().cloned().chain(numbers).collect());
    }
    grid.to_string()
}

/// The rows of one kind of line in all `summaries`: each name once, with a row for each policy, and what all got together.
fn rows<'s>(of: &[(&'s str, &'s [SummaryLine], &'s Spreads)], widths: Widths) -> String {
    let count = of.iter().map(|(_, lines, _)| lines.len()).max().unwrap_or(0);
    let most = (ROWS_MAX / of.len().max(1)).max(1).min(count);
    let several = of.len() > 1;
    let words = |name: &str, asked: String, policy: &str| {
        let mut words = vec![name.to_string(), asked];
        words.extend(several.then(|| policy.to_string()));
        words
    };
    let mut rows: Vec<Row<'s>> = Vec::new();
    for index in 0..most {
        let there = of.iter().filter_map(|(policy, lines, _)| Some((*policy, lines.get(index)?)));
        for (nth, (policy, line)) in there.enumerate() {
            let (name, asked) = if nth == 0 { (line.name.as_str(), shown(&line.asked)) } else { ("", String::new()) };
            rows.push((words(name, asked, policy), &line.got));
        }
    }
    for (nth, (policy, _, total)) in of.iter().enumerate() {
        rows.push((words(if nth == 0 { "all" } else { "" }, String::new(), policy), total));
    }
    let mut header = vec![String::new(), "asked".to_string()];
    header.extend(several.then(|| "policy".to_string()));
    table_of(&header, &rows, widths) + &and_more(count - most)
}

/// The table of medians of several policies, which had the same seeds, and of the guests; and how to read it. At least one.
#[must_use]
pub fn medians(summaries: &[Summary], widths: Widths) -> String {
    let host: Vec<_> = summaries.iter().map(|it| (it.policy.as_str(), it.entities.as_slice(), &it.total)).collect();
    let mut text = rows(&host, widths);
    let by_policy: Vec<_> = summaries.iter().map(|it| (it.policy.as_str(), it.applications.as_slice())).collect();
    text += &applications::summed(&by_policy);
    for index in 0..summaries.iter().map(|summary| summary.guests.len()).max().unwrap_or(0) {
        let guests: Vec<(&str, &GuestSummary)> =
            summaries.iter().filter_map(|it| Some((it.policy.as_str(), it.guests.get(index)?))).collect();
        text += &format!("\nIn {} ({}):\n", guests[0].1.name, guests[0].1.policy);
        for (policy, guest) in &guests {
            let under = if summaries.len() > 1 { format!("under {policy} ") } else { String::new() };
            let stolen = cell(guest.stolen_ppm, Form::Percent);
            text += &format!("{under}{stolen} of its vCPUs' time stolen\n");
            text += &guest.coordination.as_ref().map_or(String::new(), |it| format!("{under}{}", it.text()));
        }
        let of: Vec<_> = guests.iter().map(|(policy, it)| (*policy, it.entities.as_slice(), &it.total)).collect();
        text += &rows(&of, widths);
        let by_policy: Vec<_> = guests.iter().map(|(policy, it)| (*policy, it.applications.as_slice())).collect();
        text += &applications::summed(&by_policy);
    }
    text += &manager::manager_medians(summaries);
    text += &xenmon::xenmon_medians(summaries, widths);
    let (runs, sure) = (summaries[0].seeds.len(), percent(summaries[0].confidence_ppm));
    text + &match runs {
        1 => "\nOne run has a median, but no interval: --seeds 6 or more for 95 %.\n".to_string(),
        2..=5 => format!("\nMedians of {runs} runs (least–greatest: {sure} sure; --seeds 6 or more for 95 %).\n"),
        _ => format!("\nMedians of {runs} runs, and where the median of all lies ({sure} sure).\n"),
    }
}
