//! [`Experiment`]: a figure or table of a paper, as a template of scenarios with axes and metrics.
//!
//! The file is TOML; `docs/experiments.md` explains each key.

use crate::compute;
use crate::evidence::{self, Given, Rules, Written};
use crate::printed::Printed;
use crate::problem::{Problem, read};
use indexmap::IndexMap;
use run::sweep::Sweep;
use serde::Deserialize;
use std::path::{Path, PathBuf};

pub use crate::picture::{Axis, Kind, Plot};
pub use run::sweep::{Point, Value, point_shown as shown};

/// Default number of seeds of an experiment.
pub const SEEDS: u32 = 5;

/// The size at which an experiment is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// The usual points and lengths, which run in reasonable time.
    #[default]
    Usual,
    /// The experiment at the size of the paper.
    Full,
    /// A few of the usual points, to check that results equal the recorded results.
    Smoke,
}

/// Content of an experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name of the experiment: the name of its file, without the extension.
    #[serde(skip)]
    pub name: String,
    /// Path of the file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Figure or table of the paper: `Fig 2a`.
    pub figure: String,
    /// What the figure or table shows, in our words.
    pub title: String,
    /// Claims that the experiment tests.
    pub claims: Vec<String>,
    /// Template of the experiment's scenario: a file in `scenarios/`.
    pub scenario: String,
    /// Constants for the template, as the file contains them.
    #[serde(default)]
    with: IndexMap<String, Written>,
    /// Constants for the template, with their evidence.
    #[serde(skip)]
    pub set: IndexMap<String, Given>,
    /// Parameters of the paper that the template or an expression uses. A constant with the same name replaces a
    /// parameter.
    #[serde(skip)]
    pub parameters: IndexMap<String, Given>,
    /// Scale of all assumed costs of the machines, in percent. `None`: the costs are unchanged.
    #[serde(skip)]
    pub(crate) costs_percent: Option<f64>,
    /// Axes. Each value of one axis is combined with each value of all other axes.
    #[serde(default)]
    pub sweep: Sweep,
    /// Settings that vary together. Each element is combined with each point of the sweep.
    #[serde(default)]
    pub point: Vec<Point>,
    /// Number of seeds; by default [`SEEDS`].
    #[serde(default)]
    pub seeds: Option<u32>,
    /// Start of the measurement by Xen's performance monitor (`domains` in the expressions); `None`: no monitor.
    #[serde(default)]
    pub xenmon: Option<String>,
    /// Whether a policy may refuse a request of the scenario. After a refusal, `refused` is true in the expressions,
    /// and the report is absent.
    #[serde(default)]
    pub may_refuse: bool,
    /// Condition for a live run to count, as an expression over the report; a run that does not count is repeated.
    /// `None`: every run counts.
    #[serde(default)]
    pub counts: Option<String>,
    /// Metrics: name → expression over the report.
    pub metrics: IndexMap<String, String>,
    /// Values that replace the usual values at the size of the paper.
    #[serde(default)]
    pub full: Changes,
    /// Values of each axis in the smoke set. Without this key, the experiment is not in the smoke set.
    #[serde(default)]
    pub smoke: Option<IndexMap<String, Vec<Value>>>,
    /// Pictures of the measurements.
    #[serde(default)]
    pub plot: Vec<Plot>,
    /// Gantt charts.
    #[serde(default)]
    pub schedule: Vec<Schedule>,
    /// Text of the file.
    #[serde(skip)]
    text: String,
    /// Text of the template.
    #[serde(skip)]
    pub template: String,
}

/// Values that replace the usual values of an experiment at the size of the paper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Constants that replace the usual constants, as the file contains them.
    #[serde(default)]
    with: IndexMap<String, Written>,
    /// Constants that replace the usual constants, with their evidence.
    #[serde(skip)]
    pub set: IndexMap<String, Given>,
    /// Values of axes that replace the usual values.
    #[serde(default)]
    pub sweep: Sweep,
    /// Number of seeds that replaces the usual number.
    #[serde(default)]
    pub seeds: Option<u32>,
}

/// A Gantt chart of the run with the first seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Name of the chart's file.
    pub name: String,
    /// Title of the chart.
    pub title: String,
    /// Point of the experiment that the chart shows.
    #[serde(rename = "where")]
    pub point: Point,
    /// Start of the chart's time span.
    pub from: String,
    /// End of the chart's time span.
    pub to: String,
}

impl Experiment {
    /// Reads the experiment in the file at `path`, and its template in `directory`, the directory of the paper.
    /// `rules`, `parameters` and `printed` are those of the paper.
    pub(crate) fn read(
        path: &Path,
        directory: &Path,
        rules: &Rules,
        parameters: &IndexMap<String, Given>,
        printed: &Printed,
    ) -> Result<Experiment, Problem> {
        let mut experiment = Experiment::parse(path, read(path)?, rules)?;
        experiment.plot.iter_mut().try_for_each(|plot| plot.refer(path, printed))?;
        let template = read(&directory.join("scenarios").join(&experiment.scenario))?;
        let mut experiment = Experiment { template, ..experiment };
        let used = compute::variables(&experiment.template, experiment.expressions());
        let axes: Vec<String> = experiment.axes().into_iter().cloned().collect();
        let is_used = |name: &String| used.contains(name) && !experiment.set.contains_key(name) && !axes.contains(name);
        experiment.parameters =
            parameters.iter().filter(|(name, _)| is_used(name)).map(|(name, it)| (name.clone(), it.clone())).collect();
        experiment.checked()
    }

    /// Returns the experiment with this `text`, `template` and `parameters` of the paper. `path` is the file that
    /// contained the text. The text is that of [`text`](Experiment::text), without references to rules. Its plots
    /// have no printed numbers.
    ///
    /// # Errors
    /// The text is not a valid experiment.
    pub fn from_texts(
        path: &Path,
        text: String,
        template: String,
        parameters: IndexMap<String, Given>,
    ) -> Result<Experiment, Problem> {
        let experiment = Experiment::parse(path, text, &Rules::default())?;
        Experiment { template, parameters, ..experiment }.checked()
    }

    /// Parses `text` without the template.
    fn parse(path: &Path, text: String, rules: &Rules) -> Result<Experiment, Problem> {
        let right = "an experiment as docs/experiments.md describes it";
        let refuse = |why: String| Problem::wrong(path, why, right);
        let mut experiment: Experiment =
            toml::from_str(&text).map_err(|why| refuse(why.to_string().trim_end().to_string()))?;
        let given = |with: &IndexMap<String, Written>| {
            evidence::all(with.clone(), rules).map_err(|why| refuse(format!("a constant is incomplete: {why}")))
        };
        experiment.set = given(&experiment.with)?;
        experiment.full.set = given(&experiment.full.with)?;
        experiment.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        experiment.path = path.to_path_buf();
        experiment.text = text;
        Ok(experiment)
    }

    /// Returns the text of the experiment, in which constants have the evidence of rules.
    ///
    /// # Errors
    /// The text cannot be formatted.
    pub fn text(&self) -> Result<String, Problem> {
        let refuse = |why: String| Problem::wrong(&self.path, why, "an experiment as docs/experiments.md describes it");
        let mut table: toml::Table = self.text.parse().map_err(|why| refuse(format!("{why}")))?;
        let resolved =
            |given: &IndexMap<String, Given>| toml::Value::try_from(given).map_err(|why| refuse(format!("{why}")));
        if !self.set.is_empty() {
            table.insert("with".to_string(), resolved(&self.set)?);
        }
        if let Some(full) =
            table.get_mut("full").and_then(toml::Value::as_table_mut).filter(|it| it.contains_key("with"))
        {
            full.insert("with".to_string(), resolved(&self.full.set)?);
        }
        toml::to_string(&table).map_err(|why| refuse(format!("{why}")))
    }

    /// Returns the expressions of the experiment: metrics, then the condition of a live run.
    fn expressions(&self) -> impl Iterator<Item = &String> {
        self.metrics.values().chain(&self.counts)
    }

    fn checked(self) -> Result<Experiment, Problem> {
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), Problem> {
        let refuse = |what: String, right: &str| Err(Problem::wrong(&self.path, what, right));
        if self.metrics.is_empty() {
            return refuse("nothing is measured: [metrics] is empty".into(), "at least one metric");
        }
        let counts = self.counts.iter().map(|expression| ("counts", expression));
        for (name, expression) in self.metrics.iter().map(|(name, it)| (name.as_str(), it)).chain(counts) {
            if let Err(why) = compute::compiles(expression) {
                return refuse(format!("the metric `{name}`: {why}"), "an expression over `report` and its views");
            }
        }
        if let Some((axis, _)) =
            self.sweep.axes.iter().chain(&self.full.sweep.axes).find(|(_, values)| values.is_empty())
        {
            return refuse(format!("the axis `{axis}` has no values"), "at least one value");
        }
        let axes: Vec<&String> = self.axes();
        let known = |axis: &String| axes.contains(&axis);
        if let Some(name) = self.set.keys().chain(self.full.set.keys()).find(|name| known(name)) {
            return refuse(format!("`{name}` is a constant and an axis"), "one of them");
        }
        let smoke = self.smoke.iter().flat_map(|smoke| smoke.keys());
        let swept = self
            .full
            .sweep
            .axes
            .keys()
            .filter(|axis| !self.sweep.axes.contains_key(*axis))
            .chain(smoke.filter(|axis| !known(axis)));
        let plotted = self.plot.iter().flat_map(Plot::axes);
        let scheduled = self.schedule.iter().flat_map(|schedule| schedule.point.keys());
        let mut named = swept.chain(plotted.chain(scheduled).filter(|axis| !known(axis)));
        if let Some(axis) = named.next() {
            let names: Vec<&str> = axes.iter().map(|axis| axis.as_str()).collect();
            return refuse(format!("there is no axis `{axis}`"), &format!("one of {}", names.join(", ")));
        }
        if let Some(plot) = self.plot.iter().find(|plot| !self.metrics.contains_key(&plot.y)) {
            return refuse(format!("the plot `{}` shows `{}`, which is not measured", plot.name, plot.y), "a metric");
        }
        let has_axis =
            |plot: &&Plot| plot.kind.is_distribution() || known(&plot.x) || self.metrics.contains_key(&plot.x);
        if let Some(plot) = self.plot.iter().find(|plot| !has_axis(plot)) {
            let what = format!(
                "the x axis of the plot `{}` is `{}`, which is neither an axis nor a metric",
                plot.name, plot.x
            );
            return refuse(what, &format!("one of {}", self.names()));
        }
        let is_plain =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if let Some(name) = self.pictures().find(|name| !is_plain(name)) {
            return refuse(format!("`{name}` is no name for a picture"), "letters, digits and hyphens: `fig-2a`");
        }
        let points = [Extent::Usual, Extent::Full].map(|extent| self.points(extent)).concat();
        self.plot.iter().try_for_each(|plot| plot.check(&self.path, &points))?;
        self.schedule.iter().try_for_each(|schedule| schedule.window(self).map(drop))
    }

    /// Returns the names of the experiment's axes and metrics.
    fn names(&self) -> String {
        let names: Vec<&str> = self.axes().into_iter().chain(self.metrics.keys()).map(String::as_str).collect();
        names.join(", ")
    }

    /// Returns the names of the experiment's pictures: plots, then schedules.
    pub fn pictures(&self) -> impl Iterator<Item = &str> {
        let plots = self.plot.iter().map(|plot| plot.name.as_str());
        plots.chain(self.schedule.iter().map(|schedule| schedule.name.as_str()))
    }

    /// Returns all axes: the axes of the points, then the axes of the sweep, each in the order of the file.
    #[must_use]
    pub fn axes(&self) -> Vec<&String> {
        let mut axes: Vec<&String> = self.point.iter().flat_map(|point| point.keys()).collect();
        axes.extend(self.sweep.axes.keys());
        let mut seen = Vec::new();
        axes.retain(|axis| {
            !seen.contains(axis) && {
                seen.push(axis);
                true
            }
        });
        axes
    }

    /// Returns every point of the experiment: first the whole sweep for the first element of `point`, then for the
    /// second, and so on.
    #[must_use]
    pub fn points(&self, extent: Extent) -> Vec<Point> {
        let mut sweep = self.sweep.clone();
        if extent == Extent::Full {
            sweep.axes.extend(self.full.sweep.axes.clone());
        }
        let mut points = sweep.points(&self.point);
        if extent == Extent::Smoke {
            let Some(smoke) = &self.smoke else { return Vec::new() };
            points.retain(|point| smoke.iter().all(|(axis, values)| values.contains(&point[axis])));
        }
        points
    }

    /// Returns the number of seeds of the experiment.
    #[must_use]
    pub fn seeds(&self, extent: Extent) -> u32 {
        match extent {
            Extent::Full => self.full.seeds.or(self.seeds).unwrap_or(SEEDS),
            Extent::Usual => self.seeds.unwrap_or(SEEDS),
            Extent::Smoke => 1,
        }
    }

    /// Returns the experiment with another value of its parameter `name`.
    pub(crate) fn with(&self, name: &str, value: &Value) -> Experiment {
        let mut changed = self.clone();
        let own = [&mut changed.set, &mut changed.parameters];
        for given in own.into_iter().filter_map(|all| all.get_mut(name)) {
            given.value = value.clone();
        }
        changed
    }

    /// Returns the experiment with all assumed costs of the machines scaled to `percent`.
    pub(crate) fn with_costs(&self, percent: f64) -> Experiment {
        Experiment { costs_percent: Some(percent), ..self.clone() }
    }

    /// Returns whether an expression of the experiment reads the variable `name`.
    pub(crate) fn reads(&self, name: &str) -> bool {
        let environment = compute::environment();
        let mut expressions = self.metrics.values().chain(&self.counts);
        // Without a valid expression, the variable counts as read.
        expressions.any(|it| {
            environment.compile_expression(it).map_or(true, |it| it.undeclared_variables(false).contains(name))
        })
    }

    /// Returns the constants of the experiment's template: the parameters of the paper, then its own constants.
    #[must_use]
    pub fn constants(&self, extent: Extent) -> Point {
        let of_full = self.full.set.iter().filter(|_| extent == Extent::Full);
        let given = self.parameters.iter().chain(&self.set).chain(of_full);
        given.map(|(name, given)| (name.clone(), given.value.clone())).collect()
    }
}
