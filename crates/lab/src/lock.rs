//! [`Ledger`]: the first value of every bound and parameter, and every later change, so that no bound changes unnoticed.
//!
//! `evidence.lock` contains the first value of each entry, and whether it was set before the first measurement.
//! `changes.toml` contains the changes since then. The last value of each entry must be its current value.

use crate::evidence::{Given, Kind};
use crate::problem::{Problem, read};
use indexmap::IndexMap;
use scenario::costs::{Basis, Figure, Machine};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name of the file with the first values.
pub const LOCK: &str = "evidence.lock";

/// Name of the file with the changes.
pub const CHANGES: &str = "changes.toml";

/// Current bounds and parameters by their keys.
pub type Entries<'g> = IndexMap<String, &'g Given>;

/// When an entry was set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Before the first measurement, in this commit or an earlier one.
    Before(String),
    /// After the first measurement.
    After,
}

/// First value of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// Value, kind and origin, as [`Given`] displays them.
    pub is: String,
    /// When the value was set.
    pub set: Set,
}

/// A change of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Key of the entry.
    pub entry: String,
    /// Value, kind and origin before the change.
    pub old: String,
    /// Value, kind and origin after the change; `removed` if the entry was removed.
    pub new: String,
    /// Reason for the change.
    pub reason: String,
    /// Whether a result that the entry judges or influences was known before the change.
    pub seen: bool,
}

/// New value of an entry that was removed.
const REMOVED: &str = "removed";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangesText {
    #[serde(default)]
    change: Vec<Change>,
}

/// The first values and the changes of the entries in one directory.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    directory: PathBuf,
    locked: IndexMap<String, Locked>,
    changes: Vec<Change>,
}

impl Ledger {
    /// Reads the lock and the changes in `directory`. An absent file has no entries.
    ///
    /// # Errors
    /// A file cannot be read, or has invalid content.
    pub fn read(directory: &Path) -> Result<Ledger, Problem> {
        fn parsed<T: Default + for<'de> Deserialize<'de>>(path: &Path) -> Result<T, Problem> {
            if !path.exists() {
                return Ok(T::default());
            }
            let right = "the format in docs/experiments.md";
            toml::from_str(&read(path)?).map_err(|why| Problem::wrong(path, why.to_string().trim_end(), right))
        }
        let locked = parsed(&directory.join(LOCK))?;
        let changes: ChangesText = parsed(&directory.join(CHANGES))?;
        Ok(Ledger { directory: directory.to_path_buf(), locked, changes: changes.change })
    }

    /// Returns the changes of the entry `key`, in order.
    pub fn changes<'l>(&'l self, key: &'l str) -> impl Iterator<Item = &'l Change> {
        self.changes.iter().filter(move |change| change.entry == key)
    }

    /// Returns whether the entry was changed when a result was known.
    #[must_use]
    pub fn was_changed_after_a_look(&self, key: &str) -> bool {
        self.changes(key).any(|change| change.seen)
    }

    /// Returns whether the entry was set before the first measurement and never changed after a result was known.
    #[must_use]
    pub fn was_set_before(&self, key: &str) -> bool {
        let is_before = |locked: &Locked| matches!(locked.set, Set::Before(_));
        self.locked.get(key).is_some_and(is_before) && !self.was_changed_after_a_look(key)
    }

    /// Returns the number of recorded changes.
    #[must_use]
    pub fn changed(&self) -> usize {
        self.changes.len()
    }

    /// Returns every commit that precedes the first measurement of an entry.
    pub fn commits(&self) -> impl Iterator<Item = &str> {
        self.locked.values().filter_map(|locked| match &locked.set {
            Set::Before(commit) => Some(commit.as_str()),
            Set::After => None,
        })
    }

    /// Checks that the last value of each entry is its current value in `given`, the entries by key.
    ///
    /// # Errors
    /// An entry is not locked, or differs from its last value. The problem lists all such entries.
    pub fn check(&self, given: &Entries<'_>) -> Result<(), Problem> {
        let mut wrong = Vec::new();
        for (key, given) in given {
            let is = given.to_string();
            match self.last(key) {
                None => wrong.push(format!("`{key}` is not locked")),
                Some(last) if last != is => {
                    wrong.push(format!("`{key}` is \"{is}\", and its last value is \"{last}\""))
                }
                Some(_) => {}
            }
        }
        for key in self.locked.keys().filter(|key| !given.contains_key(*key)) {
            if self.last(key) != Some(REMOVED) {
                wrong.push(format!("`{key}` does not exist any more"));
            }
        }
        wrong.extend(self.broken());
        if wrong.is_empty() {
            return Ok(());
        }
        let right = format!("a [[change]] in {CHANGES} for each change; `tactus lab lock` for new entries");
        Err(Problem::wrong(&self.directory.join(LOCK), wrong.join("\n  "), right))
    }

    /// Returns the last value of the entry.
    fn last<'l>(&'l self, key: &'l str) -> Option<&'l str> {
        let first = self.locked.get(key)?;
        Some(self.changes(key).last().map_or(first.is.as_str(), |change| change.new.as_str()))
    }

    /// Returns the changes whose old value is not the value before them, or that have no reason.
    fn broken(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (nth, change) in self.changes.iter().enumerate() {
            let before = self.changes[..nth].iter().rfind(|other| other.entry == change.entry).map(|it| &it.new);
            let before = before.or(self.locked.get(&change.entry).map(|locked| &locked.is));
            if before != Some(&change.old) {
                let is = before.map_or("not locked".to_string(), |before| format!("\"{before}\""));
                wrong
                    .push(format!("a change of `{}` is from \"{}\", and the value was {is}", change.entry, change.old));
            }
            if change.reason.trim().is_empty() {
                wrong.push(format!("a change of `{}` has no reason", change.entry));
            }
        }
        wrong
    }

    /// Adds the entries of `given` that are not locked, as set at `set`. Returns the text of the lock and the number of
    /// added entries. If a change of the entry is recorded, the old value of the first change is locked.
    #[must_use]
    pub fn with_new(&self, given: &Entries<'_>, set: &Set) -> (String, usize) {
        let mut locked = self.locked.clone();
        for (key, given) in given.iter().filter(|(key, _)| !self.locked.contains_key(*key)) {
            let is = self.changes(key).next().map_or_else(|| given.to_string(), |change| change.old.clone());
            locked.insert(key.clone(), Locked { is, set: set.clone() });
        }
        let mut text = String::from(HEAD);
        for (key, Locked { is, set }) in &locked {
            let set = match set {
                Set::Before(commit) => format!("{{ before = {} }}", quoted(commit)),
                Set::After => "\"after\"".to_string(),
            };
            writeln!(text, "{} = {{ is = {}, set = {set} }}", quoted(key), quoted(is)).expect("a text has room");
        }
        (text, locked.len() - self.locked.len())
    }
}

/// Directory of the ledger of the machines' costs, beside the papers.
pub const MACHINES: &str = "machines";

/// Returns every figure of the machines that scenarios use, by its key in the ledger.
#[must_use]
pub fn machines() -> IndexMap<String, Given> {
    let figures =
        scenario::costs::machines().iter().flat_map(|machine| machine.figures.iter().map(move |it| (machine, it)));
    let given = |(machine, figure): (&Machine, &Figure)| {
        let kind = match figure.basis {
            Basis::Paper => Kind::Paper,
            Basis::Measured => Kind::Source,
            Basis::Assumed => Kind::Assumed,
        };
        let (origin, reason) = (figure.source.clone(), figure.source.clone());
        let given = Given { value: figure.value.clone().into(), kind, origin, reason, range: None };
        (format!("{} · {}", machine.name, figure.key), given)
    };
    figures.map(given).collect()
}

const HEAD: &str = "\
# The first value of every bound and parameter: value, kind, origin, and when it was set. `before` names the commit that
# precedes the first measurement. `tactus lab lock` adds entries; changes.toml has the later changes. Edit no entry.
";

/// Formats `text` as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}
