//! [`Table`]: a TOML table whose keys are read by name. Unknown keys and invalid values are reported, and reading
//! continues.

use crate::form;
use crate::problem::{Findings, Problem, Wrong, nearest, quoted, right_instead};
use crate::source::{Placed, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The value of a key in a table.
#[derive(Clone, Copy, Debug)]
pub enum Given<T> {
    /// No value.
    Absent,
    /// An unreadable value, which is already reported.
    Wrong(Span),
    /// A valid value.
    Right(Placed<T>),
}

impl<T> Given<T> {
    /// Returns the valid value with its span, if there is one.
    pub fn right(self) -> Option<Placed<T>> {
        if let Given::Right(placed) = self { Some(placed) } else { None }
    }

    /// Returns the valid value without its span, if there is one.
    pub fn value(self) -> Option<T> {
        self.right().map(|placed| placed.value)
    }

    /// Returns a reference to the valid value, if there is one.
    pub fn value_ref(&self) -> Option<&T> {
        if let Given::Right(placed) = self { Some(&placed.value) } else { None }
    }

    /// Returns the span of the value, whether valid or invalid.
    pub fn at(&self) -> Option<Span> {
        match *self {
            Given::Absent => None,
            Given::Wrong(at) => Some(at),
            Given::Right(ref placed) => Some(placed.at),
        }
    }

    /// Returns whether the key has no value.
    pub fn is_absent(&self) -> bool {
        matches!(self, Given::Absent)
    }
}

/// The name of a table, its keys, and remedies for keys that belong in other tables.
#[derive(Clone, Copy, Debug)]
pub struct TableForm<'k> {
    /// Name of the table in a sentence: `[[vm]]`.
    pub what: &'k str,
    /// Keys of the table, in the order of the manual.
    pub keys: &'k [&'k str],
    /// Remedy for a key that belongs in another table. `None`: the key belongs in no other table.
    pub elsewhere: fn(&str) -> Option<&'static str>,
}

impl<'k> From<(&'k str, &'k [&'k str])> for TableForm<'k> {
    fn from((what, keys): (&'k str, &'k [&'k str])) -> TableForm<'k> {
        TableForm { what, keys, elsewhere: |_| None }
    }
}

/// A TOML table with its span.
#[derive(Debug)]
pub struct Table<'a, 'i> {
    entries: &'a DeTable<'i>,
    /// Span of the table's header, or of its braces.
    pub at: Span,
    /// Keys that the user probably meant by unknown keys, each with the span of the unknown key.
    misspelt: Vec<(&'a str, Span)>,
}

impl<'a, 'i> Table<'a, 'i> {
    /// Creates a table of `entries`. Reports the entries whose keys `form` does not contain.
    pub fn new(
        entries: &'a DeTable<'i>,
        at: Span,
        form: impl Into<TableForm<'a>>,
        findings: &mut Findings,
    ) -> Table<'a, 'i> {
        let TableForm { what, keys, elsewhere } = form.into();
        let mut table = Table::all(entries, at);
        for (key, _) in entries.iter().filter(|(key, _)| !keys.contains(&key.get_ref().as_ref())) {
            let (name, at) = (key.get_ref(), key.span().into());
            findings.add_at(at, || {
                let problem = Problem::new(format!("{what} has no key {}", quoted(name))).at(at, "unknown key");
                problem.help(elsewhere(name).map_or_else(|| right_instead(name, keys), str::to_string))
            });
            table.misspelt.extend(nearest(name, keys.iter().copied()).map(|key| (key, at)));
        }
        table
    }

    /// Creates a table of `entries` with any keys.
    pub fn all(entries: &'a DeTable<'i>, at: Span) -> Table<'a, 'i> {
        Table { entries, at, misspelt: Vec::new() }
    }

    /// Returns the table that is the value of `key`.
    pub fn table(&self, key: &str, form: impl Into<TableForm<'a>>, findings: &mut Findings) -> Option<Table<'a, 'i>> {
        self.table_or((key, &format!("a table, [{key}]")), form, findings)
    }

    /// Returns the table that is the value of `key`, for a caller that has tried other formats of the value. `right`
    /// lists these formats and the table.
    pub fn table_or(
        &self,
        (key, right): (&str, &str),
        form: impl Into<TableForm<'a>>,
        findings: &mut Findings,
    ) -> Option<Table<'a, 'i>> {
        let (value, at) = self.get(key)?;
        match value.as_table() {
            Some(entries) => Some(Table::new(entries, at, form, findings)),
            None => {
                findings.add(form::mistyped(key, value, right).at(at));
                None
            }
        }
    }

    /// Returns the tables that are the value of `key`, written as `[[key]]`.
    pub fn tables(&self, key: &str, form: impl Into<TableForm<'a>>, findings: &mut Findings) -> Vec<Table<'a, 'i>> {
        let form = form.into();
        let Some((value, at)) = self.get(key) else { return Vec::new() };
        let right = format!("[[{key}]], one for each");
        let Some(values) = value.as_array() else {
            findings.add(form::mistyped(key, value, right).at(at));
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(values.len());
        for value in values {
            let at = value.span().into();
            match value.get_ref().as_table() {
                Some(entries) => tables.push(Table::new(entries, at, form, findings)),
                None => findings.add(form::mistyped(key, value.get_ref(), &right).at(at)),
            }
        }
        tables
    }

    /// Returns the raw value of `key`, and the span of the value.
    pub fn get(&self, key: &str) -> Option<(&'a DeValue<'i>, Span)> {
        self.entries.get(key).map(|value| (Spanned::get_ref(value), value.span().into()))
    }

    /// Returns every key and value with their spans, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (Placed<&'a str>, Placed<&'a DeValue<'i>>)> {
        self.entries.iter().map(|(key, value)| {
            let name = Placed { value: key.get_ref().as_ref(), at: key.span().into() };
            (name, Placed { value: value.get_ref(), at: value.span().into() })
        })
    }

    /// Reads the value of `key` with `form`.
    pub fn read<T>(
        &self,
        key: &str,
        form: impl FnOnce(&'a DeValue<'i>) -> Result<T, Wrong>,
        findings: &mut Findings,
    ) -> Given<T> {
        let Some((value, at)) = self.get(key) else {
            // A misspelt key is already reported, so the intended key is not reported as missing.
            let typed = self.misspelt.iter().find(|(meant, _)| *meant == key);
            return typed.map_or(Given::Absent, |&(_, at)| Given::Wrong(at));
        };
        match form(value) {
            Ok(value) => Given::Right(Placed { value, at }),
            Err(wrong) => {
                findings.add(wrong.at(at));
                Given::Wrong(at)
            }
        }
    }
}
