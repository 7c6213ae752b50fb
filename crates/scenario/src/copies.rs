//! `count`: one `[[vm]]` or `[[task]]` that stands for several VMs or tasks.
//!
//! Before the scenario is read, a table with `count = 64` is replaced by 64 copies. In copy number *i* (from 0), `{i}`
//! in a string becomes *i* (`{i:02}`: with at least two digits). If a list or a [`Range`] is given instead of a single
//! value, the copy receives element *i*. After the last element, the elements repeat. Copies keep the spans of their
//! original text, so that a problem in a copy points to the line in the file.

use crate::{SCENARIO_ENTITIES_MAX, form};
use input::problem::{Findings, Problem, quoted};
use input::range::Range;
use input::source::Span;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Maximum total number of values in all copies. A value takes about 200 bytes.
const VALUES_MAX: usize = 1 << 20;
/// Keys of tables that may have a `count`.
const COUNTED: [&str; 2] = ["vm", "task"];
/// Keys of other lists of tables. Each copy receives the whole list.
const TABLES: [&str; 2] = ["group", "change"];
/// Keys whose value is a list. Each copy receives the whole list, unless all elements of the list are lists.
const LISTS: [&str; 7] = ["command", "uniform", "at-least", "loads", "leaves", "nodes", "workers"];
/// Keys whose values are copied unchanged: a program and its arguments.
const VERBATIM: [&str; 1] = ["command"];

/// The elements of all ranges of numbers in a document, by the text of the range. Values of a document borrow their
/// text, so the elements must outlive the document.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<String, Vec<String>>);

impl Numbers {
    /// Returns the elements of all ranges of numbers in `document`.
    pub(super) fn of(document: &DeTable<'_>) -> Numbers {
        let mut numbers = Numbers::default();
        document.iter().for_each(|(_, value)| numbers.collect(value.get_ref()));
        numbers
    }

    fn collect(&mut self, value: &DeValue<'_>) {
        match value {
            DeValue::String(text) => {
                if let Some(Ok(range)) = Range::parse(text).filter(|_| !self.0.contains_key(text.as_ref()))
                    && range.is_of_numbers()
                {
                    self.0.insert(text.to_string(), range.values().collect());
                }
            }
            DeValue::Array(values) => values.iter().for_each(|value| self.collect(value.get_ref())),
            DeValue::Table(entries) => entries.iter().for_each(|(_, value)| self.collect(value.get_ref())),
            _ => {}
        }
    }
}

/// Returns `document` with each table that has a `count` replaced by its copies. `numbers`: the result of
/// [`Numbers::of`] for this document.
pub(super) fn expand<'i>(mut document: DeTable<'i>, numbers: &'i Numbers, findings: &mut Findings) -> DeTable<'i> {
    let mut copies = Copies { numbers, values: 0, findings };
    copies.expand(&mut document, None);
    document
}

struct Copies<'i, 'f> {
    numbers: &'i Numbers,
    /// Number of values in all copies so far.
    values: usize,
    findings: &'f mut Findings,
}

impl<'i> Copies<'i, '_> {
    /// Replaces each `[[vm]]` and `[[task]]` in `table` by its copies. `copy`: the number of the copy that contains
    /// `table`, if any.
    fn expand(&mut self, table: &mut DeTable<'i>, copy: Option<usize>) {
        for key in COUNTED {
            let Some(value) = table.get_mut(key) else { continue };
            if let DeValue::Array(tables) = value.get_mut() {
                *tables = std::mem::replace(tables, DeArray::new())
                    .into_iter()
                    .flat_map(|table| self.copies(table, key, copy))
                    .collect();
            }
        }
    }

    /// Returns the copies of `table`, or `table` itself if it has no `count`. `outer`: the number of the copy that
    /// contains `table`, if any.
    fn copies(&mut self, table: Spanned<DeValue<'i>>, key: &str, outer: Option<usize>) -> Vec<Spanned<DeValue<'i>>> {
        let at = table.span();
        let mut entries = match table.into_inner() {
            DeValue::Table(entries) => entries,
            // The reader of tables reports any other value.
            other => return vec![Spanned::new(at, other)],
        };
        let Some(count) = entries.remove("count") else {
            let mut single = self.walked_table(entries, outer);
            self.expand(&mut single, outer);
            return vec![Spanned::new(at, DeValue::Table(single))];
        };
        let place = Span::from(count.span());
        let count = self.walked(count, "count", outer);
        let count = match form::count("count", count.get_ref(), 0..=SCENARIO_ENTITIES_MAX as u64) {
            Ok(count) => usize::try_from(count).expect("at most what a machine can hold"),
            Err(wrong) => {
                self.findings.add(wrong.at(place));
                1
            }
        };
        if let Some(pid) = entries.get("pid").filter(|_| count > 1) {
            let problem =
                Problem::new(format!("one process cannot have {count} copies of a {key}")).at(place, "copies");
            self.findings.add(problem.at(pid.span().into(), "the process").help("leave out `count` or `pid`"));
            return Vec::new();
        }
        let values = entries.values().map(|value| values_in(value.get_ref())).sum::<usize>();
        self.values = self.values.saturating_add(values.saturating_mul(count));
        if self.values > VALUES_MAX {
            let problem =
                Problem::new("the copies of this scenario have too many values").at(place, "too many from here on");
            self.findings
                .add(problem.help(format!("lower the counts to at most {VALUES_MAX} values in all copies together")));
            return Vec::new();
        }
        let copies: Vec<DeTable<'i>> = (0..count).map(|nth| self.walked_table(entries.clone(), Some(nth))).collect();
        self.refuse_equal_names(&copies, place);
        let expanded = copies.into_iter().enumerate().map(|(nth, mut copy)| {
            self.expand(&mut copy, Some(nth));
            Spanned::new(at.clone(), DeValue::Table(copy))
        });
        expanded.collect()
    }

    /// Reports copies that share a name. The later check of names does not report them, because it compares spans, and
    /// copies have equal spans.
    fn refuse_equal_names(&mut self, copies: &[DeTable<'i>], count: Span) {
        let mut names = BTreeSet::new();
        let named = copies.iter().filter_map(|copy| copy.get("name"));
        let again = named
            .filter_map(|name| Some((name.get_ref().as_str()?, name.span())))
            .find(|(name, _)| !names.insert(*name));
        if let Some((name, at)) = again {
            let problem =
                Problem::new(format!("several of the {} copies have the name {}", copies.len(), quoted(name)));
            let problem = problem.at(at.into(), "one name").at(count, "several copies");
            self.findings.add(problem.help("put {i}, the number of the copy, into the name, such as name = \"vm{i}\""));
        }
    }

    fn walked_table(&mut self, mut entries: DeTable<'i>, copy: Option<usize>) -> DeTable<'i> {
        if copy.is_some() {
            for (key, value) in entries.iter_mut() {
                // `expand` converts these tables, because each may have its own `count`.
                let is_counted = COUNTED.contains(&key.get_ref().as_ref()) && value.get_ref().is_array();
                if !is_counted {
                    let taken = std::mem::replace(value, Spanned::new(value.span(), DeValue::Boolean(false)));
                    *value = self.walked(taken, key.get_ref(), copy);
                }
            }
        }
        entries
    }

    /// Returns the `value` of `key` in copy number `copy`.
    fn walked(&mut self, value: Spanned<DeValue<'i>>, key: &str, copy: Option<usize>) -> Spanned<DeValue<'i>> {
        let Some(copy) = copy.filter(|_| !VERBATIM.contains(&key)) else { return value };
        let at = value.span();
        match value.into_inner() {
            DeValue::String(text) => match Range::parse(&text) {
                Some(Ok(range)) => Spanned::new(at, self.element(range, &text, copy)),
                Some(Err(wrong)) => {
                    self.findings.add(wrong.at(at.clone().into()));
                    Spanned::new(at, DeValue::String(text))
                }
                None => Spanned::new(at, DeValue::String(numbered(&text, copy).map_or(text, Into::into))),
            },
            DeValue::Array(values) if TABLES.contains(&key) => {
                let tables = values.into_iter().map(|value| self.walked(value, "", Some(copy)));
                Spanned::new(at, DeValue::Array(tables.collect()))
            }
            DeValue::Array(values) => {
                let is_list = LISTS.contains(&key) && !values.iter().all(|value| value.get_ref().is_array());
                if is_list {
                    let values = values.into_iter().map(|value| self.walked(value, "", Some(copy)));
                    return Spanned::new(at, DeValue::Array(values.collect()));
                }
                match values.get(copy % values.len().max(1)).cloned() {
                    // The selected element replaces the list. If this element is itself a list, the copy receives all
                    // elements of the inner list.
                    Some(element) if element.get_ref().is_array() => self.list(element, copy),
                    Some(element) => self.walked(element, "", Some(copy)),
                    None => Spanned::new(at, DeValue::Array(values)),
                }
            }
            DeValue::Table(entries) => Spanned::new(at, DeValue::Table(self.walked_table(entries, Some(copy)))),
            other => Spanned::new(at, other),
        }
    }

    /// Returns the list `value` in copy number `copy`. Converts every element, and does not select one of them.
    fn list(&mut self, value: Spanned<DeValue<'i>>, copy: usize) -> Spanned<DeValue<'i>> {
        let at = value.span();
        match value.into_inner() {
            DeValue::Array(values) => {
                let walked: DeArray<'i> = values.into_iter().map(|value| self.walked(value, "", Some(copy))).collect();
                Spanned::new(at, DeValue::Array(walked))
            }
            other => Spanned::new(at, other),
        }
    }

    /// Returns the element of `range` for copy number `copy`. `text`: the text of the range.
    fn element(&self, range: Range, text: &str, copy: usize) -> DeValue<'i> {
        match self.numbers.0.get(text) {
            Some(numbers) => {
                let number = DeValue::parse(&numbers[copy % numbers.len()]).expect("digits are a number");
                number.into_inner()
            }
            None => {
                let values: Vec<String> = range.values().collect();
                DeValue::String(values[copy % values.len()].clone().into())
            }
        }
    }
}

/// Returns the number of values in `value`.
fn values_in(value: &DeValue<'_>) -> usize {
    1 + match value {
        DeValue::Array(values) => values.iter().map(|value| values_in(value.get_ref())).sum(),
        DeValue::Table(entries) => entries.values().map(|value| values_in(value.get_ref())).sum(),
        _ => 0,
    }
}

/// Returns `text` with each `{i}` and `{i:02}` replaced by the number of the copy. `None`: `text` has no placeholder.
fn numbered(text: &str, copy: usize) -> Option<String> {
    let mut rest = text;
    let mut numbered = String::new();
    let mut is_found = false;
    while let Some((before, after)) = rest.split_once("{i") {
        numbered += before;
        rest = match placeholder(after) {
            Some((width, after)) => {
                is_found = true;
                numbered += &format!("{copy:0width$}");
                after
            }
            None => {
                numbered += "{i";
                after
            }
        };
    }
    is_found.then(|| numbered + rest)
}

/// Returns the minimum width of the number in a placeholder, and the text after the placeholder. `text` starts after
/// `{i`. `None`: this is not a placeholder.
fn placeholder(text: &str) -> Option<(usize, &str)> {
    let (form, after) = text.split_once('}')?;
    let width = match form.strip_prefix(":0") {
        Some(width) => width.parse().ok().filter(|width| (1..=9).contains(width))?,
        None => form.is_empty().then_some(0)?,
    };
    Some((width, after))
}
