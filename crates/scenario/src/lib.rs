//! [`Scenario`]: machines, their entities with requested parameters and workloads, and a length. Scenarios are read
//! from TOML, or from XML files of SimSo; `docs/scenarios.md` is the manual.
//!
//! After the TOML has been parsed, reading has two stages. `file` reads the values of a file one by one, and `check`
//! compares the values with each other. Neither stage stops at the first error.

mod application;
mod asked;
mod check;
mod checked;
mod coordination;
mod copies;
pub mod costs;
pub mod devices;
mod file;
mod form;
mod guest;
mod homes;
mod kind;
mod level;
mod limits;
mod manager;
mod mechanism;
mod network;
mod policy;
pub mod rtapp;
mod samples;
pub mod simso;
mod spec;
mod tables;
pub mod taskset;
#[cfg(test)]
mod tests;
mod tree;
pub mod vary;
mod work;

use input::files::{Files, NoFiles};
use input::problem::{Findings, Problem, Problems};
use input::source::Span;
use input::syntax;
use std::sync::Arc;

pub use coordination::CoordinationPlaces;
pub use limits::{GROUP_DEPTH_MAX, HOSTS_MAX, SCENARIO_ENTITIES_MAX};
pub use mechanism::Mechanism;
pub use samples::{SAMPLES_MAX, SampledAt, SamplesSpec};
pub use sim::{Costs, JobEnd, Periodic, Workload};
pub use spec::{AppSpec, EntitySpec, Group, GuestSpec, ManagerSpec, PolicyChoice, Real, Scenario, Target};

impl Scenario {
    /// Reads a scenario from `bytes`, the contents of the file `name`. The scenario must not refer to other files.
    ///
    /// # Errors
    /// The errors of [`with_files`](Scenario::with_files), or the scenario refers to another file.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Scenario, Problems> {
        Scenario::with_files(name, bytes, Arc::new(NoFiles))
    }

    /// Reads a scenario from `bytes`, the contents of the file `name`. Reads the files to which the scenario refers
    /// from `files`; their paths are relative to the directory of `name`. The file may also be an XML file of SimSo
    /// ([`simso`]).
    ///
    /// # Errors
    /// The errors in the file, each with its span and its remedy. A TOML syntax error is reported alone. Checks that
    /// need valid values are omitted after other errors.
    pub fn with_files(name: &str, bytes: Vec<u8>, files: Arc<dyn Files>) -> Result<Scenario, Problems> {
        let source = input::text::decode(name, bytes)?;
        if simso::is_simso(source.text()) {
            return simso::read(&source);
        }
        let mut findings = Findings::with_files(&source, files);
        let document = is_no_json(source.text()).and_then(|()| syntax::parse(source.text()));
        let document = document.map_err(|problem| problem.within(&source))?;
        let numbers = copies::Numbers::of(&document);
        let document = copies::expand(document, &numbers, &mut findings);
        let file = file::File::read(&document, &mut findings);
        let scenario = check::check(file, &mut findings);
        findings.finish()?;
        Ok(scenario.expect("a scenario without findings is complete"))
    }
}

/// Checks that the text is not JSON. The error of the TOML parser for the first bracket of JSON is not helpful.
fn is_no_json(text: &str) -> Result<(), Problem> {
    let start = text.len() - text.trim_start().len();
    if !text[start..].starts_with('{') {
        return Ok(());
    }
    let problem = Problem::new("this is JSON, but a scenario is TOML").at(Span { start, end: start + 1 }, "here");
    Err(problem.help("use a scenario with `workload = { rt-app = \"FILE\" }` to run a file of rt-app"))
}
