//! [`Experiment`]: a figure or table of a paper, as a template of scenarios with axes and metrics.
//!
//! The file is TOML; `docs/experiments.md` explains each key.

use crate::compute;
use crate::problem::{Problem, read};
use indexmap::IndexMap;
use run::sweep::Sweep;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
    /// Constants for the template.
    #[serde(default)]
    pub with: Point,
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
    pub text: String,
    /// Text of the template.
    #[serde(skip)]
    pub template: String,
}

/// Values that replace the usual values of an experiment at the size of the paper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Constants that replace the usual constants.
    #[serde(default)]
    pub with: Point,
    /// Values of axes that replace the usual values.
    #[serde(default)]
    pub sweep: Sweep,
    /// Number of seeds that replaces the usual number.
    #[serde(default)]
    pub seeds: Option<u32>,
}

/// A figure: a metric over an axis, with a curve for each combination of the values of other axes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Name of the figure's file: `fig-2a`.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Type of the figure.
    #[serde(default)]
    pub kind: Kind,
    /// The axis of the experiment, or the metric, along the horizontal axis. For [`Kind::Cdf`] and
    /// [`Kind::Distribution`], only the default label of the horizontal axis.
    pub x: String,
    /// Metric that the figure shows.
    pub y: String,
    /// Labels of the axes, with units; by default the names of axis and metric.
    #[serde(default)]
    pub labels: Option<[String; 2]>,
    /// Axes whose values have separate curves.
    #[serde(default)]
    pub curves: Vec<String>,
    /// Points that the figure shows; by default all points.
    #[serde(default, rename = "where")]
    pub only: Point,
    /// Logarithmic axes of the picture.
    #[serde(default)]
    pub log: Vec<Axis>,
    /// Divisor of the metric, for the unit of the picture.
    #[serde(default)]
    pub unit: Option<f64>,
    /// Range of the picture's axes, `[low, high]`; by default the range of the values.
    #[serde(default)]
    pub range: IndexMap<Axis, [f64; 2]>,
    /// Values that the paper prints: curve → its points.
    #[serde(default)]
    pub paper: IndexMap<String, Vec<[f64; 2]>>,
}

/// An axis of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// The horizontal axis, from left to right.
    X,
    /// The vertical axis, upwards.
    Y,
}

/// Type of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Medians with intervals, joined by lines.
    #[default]
    Lines,
    /// Medians with intervals, as bars.
    Bars,
    /// A box for each value of the axis: quartiles over the seeds, or over the values of a metric that is a list.
    Boxes,
    /// The cumulative distribution of the values of a list metric.
    Cdf,
    /// The pairs of a metric that is a list of pairs. Pairs with the same first number are drawn as their median.
    Distribution,
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
    pub(crate) fn read(path: &Path, directory: &Path) -> Result<Experiment, Problem> {
        let experiment = Experiment::parse(path, read(path)?)?;
        let template = read(&directory.join("scenarios").join(&experiment.scenario))?;
        Experiment { template, ..experiment }.checked()
    }

    /// Returns the experiment with this `text` and `template`. `path` is the file that contained the text.
    ///
    /// # Errors
    /// The text is not a valid experiment.
    pub fn from_texts(path: &Path, text: String, template: String) -> Result<Experiment, Problem> {
        Experiment { template, ..Experiment::parse(path, text)? }.checked()
    }

    /// Parses `text` without the template.
    fn parse(path: &Path, text: String) -> Result<Experiment, Problem> {
        let experiment: Experiment = toml::from_str(&text).map_err(|why| {
            Problem::wrong(path, why.to_string().trim_end(), "an experiment as docs/experiments.md describes it")
        })?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Experiment { name, path: path.to_path_buf(), text, ..experiment })
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
        let smoke = self.smoke.iter().flat_map(|smoke| smoke.keys());
        let swept = self
            .full
            .sweep
            .axes
            .keys()
            .filter(|axis| !self.sweep.axes.contains_key(*axis))
            .chain(smoke.filter(|axis| !known(axis)));
        let plotted = self.plot.iter().flat_map(|plot| plot.curves.iter().chain(plot.only.keys()));
        let scheduled = self.schedule.iter().flat_map(|schedule| schedule.point.keys());
        let mut named = swept.chain(plotted.chain(scheduled).filter(|axis| !known(axis)));
        if let Some(axis) = named.next() {
            let names: Vec<&str> = axes.iter().map(|axis| axis.as_str()).collect();
            return refuse(format!("there is no axis `{axis}`"), &format!("one of {}", names.join(", ")));
        }
        if let Some(plot) = self.plot.iter().find(|plot| !self.metrics.contains_key(&plot.y)) {
            return refuse(format!("the plot `{}` shows `{}`, which is not measured", plot.name, plot.y), "a metric");
        }
        let has_axis = |plot: &&Plot| {
            matches!(plot.kind, Kind::Cdf | Kind::Distribution) || known(&plot.x) || self.metrics.contains_key(&plot.x)
        };
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

    /// Returns the constants of the experiment's template.
    #[must_use]
    pub fn constants(&self, extent: Extent) -> Point {
        let mut with = self.with.clone();
        if extent == Extent::Full {
            with.extend(self.full.with.clone());
        }
        with
    }
}
