//! [`Results`]: the measurements of every experiment, point and seed.

use crate::experiment::Point;
use crate::problem::{Problem, read};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// Name of the file with the recorded results, in the directory of a paper.
pub const RECORDED: &str = "measured.json";

/// Measurements of one run, by name. A measurement is a number, a Boolean, a string, a list of numbers or of pairs, or
/// null.
pub type Measured = IndexMap<String, serde_json::Value>;

/// A point with its measurements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The point.
    pub point: Point,
    /// Measurements with the seeds 1, 2, ….
    pub seeds: Vec<Measured>,
}

impl Row {
    /// Returns whether the measurements depend on the seed.
    #[must_use]
    pub fn is_by_chance(&self) -> bool {
        self.seeds.windows(2).any(|two| two[0] != two[1])
    }

    /// Returns the measurements with this seed, counted from 0. If the measurements do not depend on the seed, a seed
    /// that was not run has the same measurements.
    #[must_use]
    pub fn of_seed(&self, seed: usize) -> Option<&Measured> {
        self.seeds.get(seed).or_else(|| self.seeds.first().filter(|_| !self.is_by_chance()))
    }
}

/// Measurements of a paper's experiments.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Version of the program that measured the results.
    pub version: String,
    /// Description of the machine of live results; `None`: the results are simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Points of each experiment, in order.
    pub experiments: IndexMap<String, Vec<Row>>,
}

impl Results {
    /// Returns the numbers of seeds with which the points of these experiments were measured.
    #[must_use]
    pub fn seeds<'r>(experiments: impl IntoIterator<Item = &'r Vec<Row>>) -> BTreeSet<usize> {
        experiments.into_iter().flatten().map(|row| row.seeds.len()).collect()
    }

    /// Returns the greatest value of the numeric measurement `name`; `None` if no run has such a measurement.
    pub(crate) fn greatest(&self, name: &str) -> Option<f64> {
        let runs = self.experiments.values().flatten().flat_map(|row| &row.seeds);
        runs.filter_map(|run| run.get(name)?.as_f64()).max_by(f64::total_cmp)
    }

    /// Reads results from the file at `path`, in the format of [`to_text`](Results::to_text).
    ///
    /// # Errors
    /// The file cannot be read, or has an invalid format.
    pub fn read(path: &Path) -> Result<Results, Problem> {
        serde_json::from_str(&read(path)?)
            .map_err(|why| Problem::wrong(path, why.to_string(), "what `tactus lab run all --record` writes"))
    }

    /// Formats the results as text, with a line for each point, so that a diff shows which points changed.
    ///
    /// # Panics
    /// Never panics, because all results can be converted to JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        let machine = self.machine.as_ref().map_or(String::new(), |it| format!("\"machine\": {},\n", json(it)));
        let mut text = format!("{{\n\"version\": {},\n{machine}\"experiments\": {{", json(&self.version));
        for (nth, (name, rows)) in self.experiments.iter().enumerate() {
            text += if nth > 0 { ",\n" } else { "\n" };
            text += &format!("{}: [\n", json(name));
            let lines: Vec<String> = rows.iter().map(json).collect();
            text += &lines.join(",\n");
            text += "\n]";
        }
        text + "\n}\n}\n"
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("all of it can be JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let measured = |number: f64| Measured::from([("wait".to_string(), number.into())]);
        let row = |policy: &str| Row {
            point: Point::from([("policy".to_string(), policy.into())]),
            seeds: vec![measured(0.1 + 0.2), measured(1e300)],
        };
        let experiments = IndexMap::from([("b".to_string(), vec![row("x"), row("y")]), ("a".to_string(), vec![])]);
        let results = Results { version: "1".into(), machine: Some("one CPU".into()), experiments };
        let directory = tempfile::tempdir().expect("there is room");
        let path = directory.path().join("measured.json");
        std::fs::write(&path, results.to_text()).expect("it is written");
        assert_eq!(Results::read(&path).expect("it is read"), results);
        assert_eq!(results.to_text().lines().count(), 13);
    }
}
