//! [`Settings`]: the settings of a named workload, each with its default.

use super::SCENARIO_ENTITIES_MAX;
use super::table::{Given, Table};
use super::{form, length, work};
use input::problem::{Findings, Problem, Wrong};
use sched::Nanos;
use sim::program::Length;
use toml::de::DeValue;

/// Reads settings with a default, and remembers whether any was wrong.
pub(super) struct Settings<'t, 'a, 'i, 'f> {
    pub(super) table: &'t Table<'a, 'i>,
    pub(super) findings: &'f mut Findings,
    pub(super) right: bool,
}

impl<'t, 'a, 'i, 'f> Settings<'t, 'a, 'i, 'f> {
    pub(super) fn new(table: &'t Table<'a, 'i>, findings: &'f mut Findings) -> Settings<'t, 'a, 'i, 'f> {
        Settings { table, findings, right: true }
    }

    pub(super) fn read<T>(&mut self, key: &str, form: impl FnOnce(&'a DeValue<'i>) -> Result<T, Wrong>) -> Option<T> {
        match self.table.read(key, form, self.findings) {
            Given::Absent => None,
            Given::Wrong(_) => {
                self.right = false;
                None
            }
            Given::Right(placed) => Some(placed.value),
        }
    }

    pub(super) fn count(&mut self, key: &'static str, most: u64, default: u64) -> u64 {
        self.read(key, |value| form::count(key, value, 1..=most)).unwrap_or(default)
    }

    pub(super) fn few(&mut self, key: &'static str, least: u64, most: u32, default: u32) -> u32 {
        let read = self.read(key, |value| form::count(key, value, least..=u64::from(most)));
        read.and_then(|count| u32::try_from(count).ok()).unwrap_or(default)
    }

    pub(super) fn length(&mut self, key: &'static str, default: Length) -> Length {
        self.read(key, |value| length::length(key, value)).unwrap_or(default)
    }

    /// A length that has to be there.
    pub(super) fn required(&mut self, key: &'static str, of: &'static str) -> Length {
        if self.table.read(key, |_| Ok(()), self.findings).is_absent() {
            let problem =
                Problem::new(format!("the workload `{of}` has no {key}")).at(self.table.at, format!("no {key}"));
            self.findings.add(problem.help(format!("use {}", work::example(of))));
            self.right = false;
        }
        self.above_zero(key, Length::Fixed(Nanos::ZERO))
    }

    pub(super) fn time(&mut self, key: &'static str, default: Nanos) -> Nanos {
        self.read(key, |value| form::time_above_zero(key, value)).unwrap_or(default)
    }

    /// How often; not given: as `default`.
    pub(super) fn times(&mut self, key: &'static str, default: Option<u64>) -> Option<u64> {
        self.read(key, |value| form::count(key, value, 1..=ROUNDS_MAX)).or(default)
    }

    /// How many tasks.
    pub(super) fn tasks(&mut self, key: &'static str, default: u32) -> u32 {
        self.few(key, 1, SCENARIO_ENTITIES_MAX as u32, default)
    }

    /// What makes no sense together with something else.
    pub(super) fn wrong(&mut self, wrong: Wrong, key: &str) {
        let at = self.table.get(key).map_or(self.table.at, |(_, at)| at);
        self.findings.add(wrong.at(at));
        self.right = false;
    }

    pub(super) fn above_zero(&mut self, key: &'static str, default: Length) -> Length {
        self.read(key, |value| length::length_above_zero(key, value)).unwrap_or(default)
    }
}

/// The most rounds, loops or launches: TOML counts no further.
pub(super) const ROUNDS_MAX: u64 = i64::MAX as u64;
