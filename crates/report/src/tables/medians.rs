//! The tables of medians over several runs.

use super::applications;
use super::grid::{ROWS_MAX, Wide, Widths, and_more};
use super::manager::manager_medians;
use super::xenmon::xenmon_medians;
use crate::asked::shown;
use crate::short::percent;
use crate::spreads::{Form, Spreads, cell};
use crate::summary::{GuestSummary, Summary, SummaryLine};

/// The columns after name, requested parameters and policy: name of the number in a report, title, and display format.
/// A column with only zeros is omitted, unless it is the first column.
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

/// Columns in the order in which they are omitted if the table is too wide.
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

/// A line of a table: a word for each column of words, and the numbers.
pub(crate) type Row<'a> = (Vec<String>, &'a Spreads);

/// Returns the table of `rows` under `words`, the headers of its columns of words. Columns of numbers that do not fit
/// are omitted.
pub(crate) fn table_of(words: &[String], rows: &[Row<'_>], widths: Widths) -> String {
    let matters = |name: &str, nth: usize| {
        nth == 0 || rows.iter().any(|(_, got)| got.get(name).is_some_and(|spread| spread.high > 0))
    };
    let columns: Vec<_> =
        COLUMNS.into_iter().enumerate().filter(|(nth, (name, ..))| matters(name, *nth)).map(|(_, it)| it).collect();
    let cells = |(words, got): &Row<'_>| {
        let number =
            |(name, _, form): &(&str, &str, Form)| got.get(*name).map_or_else(String::new, |it| cell(*it, *form));
        words.iter().cloned().chain(columns.iter().map(number)).collect()
    };
    let rows = rows.iter().map(cells).collect();
    Wide { words: words.to_vec(), columns, rows }.fitted(
        &LEAST_MISSED,
        |(name, ..), least| name == least,
        |columns| columns.iter().map(|(_, title, _)| (*title).to_string()).collect(),
        widths,
    )
}

/// Returns the table of one kind of line in all summaries, such as the entities. The table has a row for each name and
/// policy, and a row for the total of each policy.
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

/// Returns the tables of medians under several policies with the same seeds: entities, applications, guests, managers
/// and domains, followed by a legend.
/// `summaries` has at least one element.
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
    text += &manager_medians(summaries);
    text += &xenmon_medians(summaries, widths);
    let (runs, sure) = (summaries[0].seeds.len(), percent(summaries[0].confidence_ppm));
    text + &match runs {
        1 => "\nOne run has a median, but no interval: --seeds 6 or more for 95 %.\n".to_string(),
        2..=5 => {
            format!("\nMedians of {runs} runs (minimum–maximum: {sure} confidence; --seeds 6 or more for 95 %).\n")
        }
        _ => format!("\nMedians of {runs} runs, with intervals of the true median ({sure} confidence).\n"),
    }
}
