//! [`Settings`]: the settings of a named workload, each with its default.

use crate::application::{ApplicationWorkload, Selected};
use crate::length::{self, least};
use input::form::{self, vms};
use input::problem::{Findings, Problem, Wrong};
use input::table::{Given, Table};
use sched::Nanos;
use sched::id::CPUS_MAX;
use sim::program::Length;
use std::sync::Arc;
use toml::de::DeValue;

/// Maximum number of tasks of an application, and of all applications of a scenario. The limit bounds memory use. A
/// small file can request any number of tasks, and each task takes about half a kilobyte before the run starts.
pub const TASKS_MAX: usize = 1 << 20;

/// A reader of settings with defaults, which records whether a setting was wrong.
#[derive(Debug)]
pub struct Settings<'t, 'a, 'i, 'f> {
    /// Name of the workload.
    name: &'static str,
    /// A valid value of `workload`, for error messages.
    example: &'static str,
    /// Table that contains the settings.
    pub table: &'t Table<'a, 'i>,
    /// Problems found so far.
    pub findings: &'f mut Findings,
    /// Whether the table has no problem so far.
    pub right: bool,
}

impl<'t, 'a, 'i, 'f> Settings<'t, 'a, 'i, 'f> {
    /// Creates the reader for the settings of the workload `name` in `table`. `example`: a valid value of `workload`,
    /// for error messages.
    pub fn new(
        (name, example): (&'static str, &'static str),
        table: &'t Table<'a, 'i>,
        findings: &'f mut Findings,
    ) -> Settings<'t, 'a, 'i, 'f> {
        Settings { name, example, table, findings, right: true }
    }

    /// Returns `workload` if the table has no problem.
    pub fn done(&self, workload: impl ApplicationWorkload + 'static) -> Option<Selected> {
        self.right.then(|| Selected::Application(Arc::new(workload)))
    }

    /// Reads the value of `key` with `form`. `None`: the value is absent or wrong.
    pub fn read<T>(&mut self, key: &str, form: impl FnOnce(&'a DeValue<'i>) -> Result<T, Wrong>) -> Option<T> {
        match self.table.read(key, form, self.findings) {
            Given::Absent => None,
            Given::Wrong(_) => {
                self.right = false;
                None
            }
            Given::Right(placed) => Some(placed.value),
        }
    }

    /// Reads a whole number. Range: 1 to `most`.
    pub fn count(&mut self, key: &'static str, most: u64, default: u64) -> u64 {
        self.read(key, |value| form::count(key, value, 1..=most)).unwrap_or(default)
    }

    /// Reads a whole number. Range: `least` to `most`.
    pub fn few(&mut self, key: &'static str, least: u64, most: u32, default: u32) -> u32 {
        let read = self.read(key, |value| form::count(key, value, least..=u64::from(most)));
        read.and_then(|count| u32::try_from(count).ok()).unwrap_or(default)
    }

    /// Reads a duration, which may be zero or random.
    pub fn length(&mut self, key: &'static str, default: Length) -> Length {
        self.read(key, |value| length::length(key, value)).unwrap_or(default)
    }

    /// Reads a required duration above zero, which may be random. Reports an error if the key is absent.
    pub fn required(&mut self, key: &'static str) -> Length {
        let of = self.name;
        if self.table.read(key, |_| Ok(()), self.findings).is_absent() {
            let problem =
                Problem::new(format!("the workload `{of}` has no {key}")).at(self.table.at, format!("no {key}"));
            self.findings.add(problem.help(format!("use {}", self.example)));
            self.right = false;
        }
        self.above_zero(key, Length::Fixed(Nanos::ZERO))
    }

    /// Reads a duration above zero.
    pub fn time(&mut self, key: &'static str, default: Nanos) -> Nanos {
        self.read(key, |value| form::time_above_zero(key, value)).unwrap_or(default)
    }

    /// Reads a number of repetitions. Returns `default` if the key is absent.
    pub fn times(&mut self, key: &'static str, default: Option<u64>) -> Option<u64> {
        self.read(key, |value| form::count(key, value, 1..=ROUNDS_MAX)).or(default)
    }

    /// Reads a number of tasks.
    pub fn tasks(&mut self, key: &'static str, default: u32) -> u32 {
        self.few(key, 1, TASKS_MAX as u32, default)
    }

    /// Reports a problem of the setting `key`, such as a contradiction with another setting.
    pub fn wrong(&mut self, wrong: Wrong, key: &str) {
        let at = self.table.get(key).map_or(self.table.at, |(_, at)| at);
        self.findings.add(wrong.at(at));
        self.right = false;
    }

    /// Reads a duration above zero, which may be random.
    pub fn above_zero(&mut self, key: &'static str, default: Length) -> Length {
        self.read(key, |value| length::length_above_zero(key, value)).unwrap_or(default)
    }
}

/// Maximum number of rounds, loops or launches: the largest integer of TOML.
pub const ROUNDS_MAX: u64 = i64::MAX as u64;

/// The number of parts on the application's own machine, or the VMs of the parts.
pub(crate) enum Where {
    Here(u32),
    Vms(Vec<String>),
}

/// Reads `nodes = 4` or `nodes = ["vm2", "vm3"]`. A list has at most `most` VMs.
pub(crate) fn places(settings: &mut Settings<'_, '_, '_, '_>, key: &'static str, here: u32, most: usize) -> Where {
    let read = settings.read(key, |value| match value {
        DeValue::Array(names) if names.len() > most => Err(Wrong::new(
            format!("there are {} VMs in `{key}`", names.len()),
            "too many",
            format!("use at most {most}"),
        )),
        DeValue::Array(_) => vms(key, value).map(Where::Vms),
        _ => form::count(key, value, 1..=TASKS_MAX as u64)
            .map(|count| Where::Here(u32::try_from(count).unwrap_or(u32::MAX))),
    });
    read.unwrap_or(Where::Here(here))
}

/// Reports an error for each of `keys` in the table, because these keys are valid only for `what`.
pub(crate) fn only(settings: &mut Settings<'_, '_, '_, '_>, keys: &[&str], what: &str) {
    for key in keys {
        if settings.table.get(key).is_some() {
            let right = format!("use {what}, or leave `{key}` out");
            settings.wrong(Wrong::new(format!("`{key}` is for {what}"), "not here", right), key);
        }
    }
}

/// Reports an error if `work` never fits into `period`.
pub(crate) fn fits(settings: &mut Settings<'_, '_, '_, '_>, work: Length, period: Nanos, what: &str) {
    let least = least(work);
    if settings.right && least > period {
        let message = format!("the work ({least}) is longer than {what} ({period})");
        settings.wrong(Wrong::new(message, "too long", format!("use at most {period}")), "work");
    }
}

pub(crate) fn percent(settings: &mut Settings<'_, '_, '_, '_>, key: &'static str, default: u64) -> u64 {
    settings.read(key, |value| form::count(key, value, 0..=100)).unwrap_or(default)
}

/// Maximum number of clients. Outside, each client and the source of requests have their own CPU.
pub(crate) const CLIENTS_MAX: u32 = CPUS_MAX as u32 - 1;
