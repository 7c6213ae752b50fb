//! [`Machine`]: the costs of scheduling on the machines that the papers used for their measurements, and on a current
//! machine. Each machine is a file in `costs/`, with a source for every figure. `docs/costs.md` describes the use of
//! these machines.

use input::duration;
use input::problem::{Problem, Problems, Wrong, quoted, right_instead};
use input::source::{Source, Span};
use sched::Nanos;
use sched::id::CPUS_MAX;
use serde::{Deserialize, Serialize};
use sim::{Costs, Handling};
use std::sync::LazyLock;

/// Name and cost file of each machine, grouped by paper. `epyc` belongs to no paper.
const FILES: [(&str, &str); 12] = [
    ("m1", include_str!("../../../costs/m1.toml")),
    ("m2", include_str!("../../../costs/m2.toml")),
    ("m3", include_str!("../../../costs/m3.toml")),
    ("p4-fig10", include_str!("../../../costs/p4-fig10.toml")),
    ("p4-fig11", include_str!("../../../costs/p4-fig11.toml")),
    ("bsp-xeon", include_str!("../../../costs/bsp-xeon.toml")),
    ("piii", include_str!("../../../costs/piii.toml")),
    ("cortex-a15", include_str!("../../../costs/cortex-a15.toml")),
    ("poris-1", include_str!("../../../costs/poris-1.toml")),
    ("poris-2", include_str!("../../../costs/poris-2.toml")),
    ("i7-7660u", include_str!("../../../costs/i7-7660u.toml")),
    ("epyc", include_str!("../../../costs/epyc.toml")),
];

static MACHINES: LazyLock<Vec<Machine>> = LazyLock::new(|| {
    let read = |(name, text)| Machine::read(name, text).unwrap_or_else(|problems| panic!("{problems}"));
    FILES.map(read).into()
});

/// The basis of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The figure is stated in the paper that names the machine, or was fitted to the results of the paper.
    Paper,
    /// The figure was measured or documented. The source names the document, or the measurement and its hardware.
    Measured,
    /// The figure is assumed. The source gives the reason for the assumption.
    Assumed,
}

/// A number and its source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Figure {
    /// Key of the figure, as in the cost file.
    pub key: &'static str,
    /// Value as text: `3.8us`, `2000`.
    pub value: String,
    /// Basis of the figure.
    pub basis: Basis,
    /// Source of the value, or reason for the assumption. Never empty.
    pub source: String,
}

/// A machine with its properties and its costs of scheduling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Name of the machine in a scenario.
    pub name: &'static str,
    /// Paper, if any, and hardware of the machine, in one line.
    pub title: String,
    /// Number of CPUs. Range: 1 to [`CPUS_MAX`].
    pub cpus: usize,
    /// Number of hardware threads per core. Divides `llc`.
    pub smt: usize,
    /// Number of CPUs that share a last-level cache. Divides `cpus`.
    pub llc: usize,
    /// Clock rate of the CPUs. Unit: MHz.
    pub clock_mhz: u64,
    /// Ticks of the machine's kernel per second, if known.
    pub hz: Option<u64>,
    /// Costs of scheduling.
    pub costs: Costs,
    /// Every number of the machine, with its source: first the properties, then the costs.
    pub figures: Vec<Figure>,
}

impl Machine {
    /// Returns the assumed costs of the machine by their keys in a scenario.
    pub fn assumed_costs(&self) -> impl Iterator<Item = (&'static str, Nanos)> {
        let Costs {
            context_switch,
            cache_refill,
            kick,
            tick,
            timer_resolution,
            timer_slack,
            exit,
            hypercall,
            // No machine has costs of jobs.
            handling: _,
        } = self.costs;
        let costs = [
            ("context_switch", context_switch),
            ("cache_refill", cache_refill),
            ("kick", kick),
            ("tick", tick),
            ("timer_resolution", timer_resolution),
            ("timer_slack", timer_slack),
            ("exit", exit),
            ("hypercall", hypercall),
        ];
        let is_assumed =
            |key: &str| self.figures.iter().any(|figure| figure.key == key && figure.basis == Basis::Assumed);
        costs.into_iter().filter(move |(key, _)| is_assumed(key))
    }
}

/// Returns all machines, grouped by paper.
#[must_use]
pub fn machines() -> &'static [Machine] {
    &MACHINES
}

/// Returns the machine with this `name`.
///
/// # Errors
/// No machine has this name. The problem lists all machines, and suggests the most similar name, if any.
pub fn machine(name: &str) -> Result<&'static Machine, Problems> {
    find(name).map_err(|wrong| wrong.anywhere(None).into())
}

/// Returns the machine with this `name`, or an error about the name.
pub(crate) fn find(name: &str) -> Result<&'static Machine, Wrong> {
    machines().iter().find(|machine| machine.name == name).ok_or_else(|| {
        let names: Vec<&str> = machines().iter().map(|machine| machine.name).collect();
        let message = format!("there are no costs of a machine {}", quoted(name));
        Wrong::new(message, "unknown machine", right_instead(name, &names))
    })
}

/// A figure as written in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<T> {
    value: toml::Spanned<T>,
    basis: Basis,
    source: toml::Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    machine: MachineTable,
    costs: CostTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineTable {
    cpus: Entry<u64>,
    smt: Entry<u64>,
    llc: Entry<u64>,
    clock_mhz: Entry<u64>,
    hz: Option<Entry<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostTable {
    context_switch: Entry<String>,
    cache_refill: Entry<String>,
    kick: Entry<String>,
    tick: Entry<String>,
    timer_resolution: Entry<String>,
    timer_slack: Entry<String>,
    exit: Entry<String>,
    hypercall: Entry<String>,
}

/// A cost file while it is read, with the figures so far.
struct Reading {
    source: Source,
    figures: Vec<Figure>,
}

impl Reading {
    fn problem(&self, span: std::ops::Range<usize>, message: String, right: &str) -> Problems {
        let problem = Problem::new(message).at(Span::from(span), "here").help(format!("use {right}"));
        problem.within(&self.source).into()
    }

    fn take<T: ToString>(&mut self, key: &'static str, entry: &Entry<T>) -> Result<(), Problems> {
        let source = entry.source.get_ref();
        if source.trim().is_empty() {
            let right = "the measurement and its hardware, or the reason for the assumption";
            return Err(self.problem(entry.source.span(), format!("`{key}` has no source"), right));
        }
        let (value, source) = (entry.value.get_ref().to_string(), source.clone());
        self.figures.push(Figure { key, value, basis: entry.basis, source });
        Ok(())
    }

    fn number(&mut self, key: &'static str, entry: &Entry<u64>, most: u64) -> Result<u64, Problems> {
        let value = *entry.value.get_ref();
        if !(1..=most).contains(&value) {
            return Err(self.problem(entry.value.span(), format!("`{key}` is out of range"), &format!("1 to {most}")));
        }
        self.take(key, entry)?;
        Ok(value)
    }

    fn count(&mut self, key: &'static str, entry: &Entry<u64>) -> Result<usize, Problems> {
        let count = self.number(key, entry, CPUS_MAX as u64)?;
        Ok(usize::try_from(count).expect("no more than CPUs"))
    }

    fn time(&mut self, key: &'static str, entry: &Entry<String>) -> Result<sched::Nanos, Problems> {
        let time = duration::parse(key, entry.value.get_ref())
            .map_err(|wrong| Problems::from(wrong.at(entry.value.span().into()).within(&self.source)))?;
        self.take(key, entry)?;
        Ok(time)
    }
}

impl Machine {
    /// Reads `text`, the file of the machine `name`.
    ///
    /// # Errors
    /// The file is not valid TOML, a key is missing or unknown, a value is invalid, or a figure has no source.
    pub fn read(name: &'static str, text: &str) -> Result<Machine, Problems> {
        let mut reading = Reading { source: Source::new(format!("costs/{name}.toml"), text), figures: Vec::new() };
        let file: File = toml::from_str(text).map_err(|error| {
            let right = "a title, and of each key under [machine] and [costs] its value, basis and source";
            reading.problem(error.span().unwrap_or_default(), error.message().to_string(), right)
        })?;
        let MachineTable { cpus, smt, llc, clock_mhz, hz } = &file.machine;
        let last = llc.value.span();
        let (cpus, smt, llc) = (reading.count("cpus", cpus)?, reading.count("smt", smt)?, reading.count("llc", llc)?);
        if cpus % llc != 0 || llc % smt != 0 {
            let message = "`llc` does not divide `cpus`, or is not divided by `smt`".to_string();
            return Err(reading.problem(last, message, "whole caches of whole cores"));
        }
        let clock_mhz = reading.number("clock_mhz", clock_mhz, 100_000)?;
        let hz = hz.as_ref().map(|hz| reading.number("hz", hz, 100_000)).transpose()?;
        let table = &file.costs;
        let costs = Costs {
            context_switch: reading.time("context_switch", &table.context_switch)?,
            cache_refill: reading.time("cache_refill", &table.cache_refill)?,
            kick: reading.time("kick", &table.kick)?,
            tick: reading.time("tick", &table.tick)?,
            timer_resolution: reading.time("timer_resolution", &table.timer_resolution)?,
            timer_slack: reading.time("timer_slack", &table.timer_slack)?,
            exit: reading.time("exit", &table.exit)?,
            hypercall: reading.time("hypercall", &table.hypercall)?,
            handling: Handling::NONE,
        };
        let Reading { figures, .. } = reading;
        Ok(Machine { name, title: file.title, cpus, smt, llc, clock_mhz, hz, costs, figures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn m1() -> &'static str {
        FILES[0].1
    }

    /// Returns the error for `text`, with its position.
    fn said(text: &str) -> String {
        Machine::read("m1", text).expect_err("it is wrong").to_string()
    }

    #[test]
    fn every_file_is_embedded_and_right() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../costs");
        let files = std::fs::read_dir(directory).expect("the directory is there");
        let files: BTreeSet<String> =
            files.map(|file| file.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(files, machines().iter().map(|machine| format!("{}.toml", machine.name)).collect());
    }

    #[test]
    fn every_figure_has_its_source() {
        for machine in machines() {
            let keys: Vec<&str> = machine.figures.iter().map(|figure| figure.key).collect();
            let least = 12 + usize::from(machine.hz.is_some());
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), least, "{}: {keys:?}", machine.name);
            for figure in &machine.figures {
                assert!(figure.source.len() > 5, "{}: {figure:?}", machine.name);
            }
        }
    }

    #[test]
    fn assumed_costs_are_those_whose_basis_is_an_assumption() {
        let costs =
            ["context_switch", "cache_refill", "kick", "tick", "timer_resolution", "timer_slack", "exit", "hypercall"];
        for machine in machines() {
            let is_assumed = |figure: &&Figure| figure.basis == Basis::Assumed && costs.contains(&figure.key);
            let right: BTreeSet<&str> = machine.figures.iter().filter(is_assumed).map(|figure| figure.key).collect();
            let found: BTreeSet<&str> = machine.assumed_costs().map(|(key, _)| key).collect();
            assert_eq!(found, right, "{}", machine.name);
        }
    }

    #[test]
    fn a_figure_without_a_source_is_refused() {
        let source = m1().lines().find(|line| line.starts_with("source")).expect("there are sources");
        let none = m1().replacen(&format!("{source}\n"), "", 1);
        assert!(said(&none).contains("missing field `source`"), "{}", said(&none));
        let empty = m1().replacen(source, "source = \" \"", 1);
        assert!(said(&empty).starts_with("costs/m1.toml:6:10: `cpus` has no source"), "{}", said(&empty));
    }

    #[test]
    fn a_key_that_is_missing_unknown_or_out_of_range_is_refused() {
        for (was, is, right) in [
            ("[costs.kick]", "[costs.kicks]", "unknown field `kicks`"),
            ("basis = \"paper\"", "basis = \"rumour\"", "unknown variant `rumour`"),
            ("value = \"10us\"", "value = \"10\"", "`10` is not a length of time"),
            ("value = 2000", "value = 0", "`clock_mhz` is out of range"),
            ("[machine.llc]\nvalue = 1", "[machine.llc]\nvalue = 2", "`llc` does not divide `cpus`"),
        ] {
            assert!(m1().contains(was), "{was}");
            let wrong = said(&m1().replacen(was, is, 1));
            assert!(wrong.contains(right), "{wrong}");
        }
        let (without, _) = m1().split_once("\n[costs.hypercall]").expect("it is the last");
        assert!(said(without).contains("missing field `hypercall`"));
    }

    #[test]
    fn a_name_that_does_not_exist_is_corrected() {
        let problems = machine("m4").expect_err("there is none").to_string();
        assert!(problems.contains("no costs of a machine `m4`") && problems.contains("m3"), "{problems}");
        assert_eq!(machine("m3").expect("there is one").costs.timer_resolution, sched::Nanos::ms(1));
    }
}
