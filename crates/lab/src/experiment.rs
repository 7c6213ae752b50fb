//! [`Experiment`]: a figure or table, as a scenario, what is varied in it, and what is measured.
//!
//! The file is TOML; `docs/experiments.md` explains each key.

use crate::compute;
use crate::problem::{Problem, read};
use indexmap::IndexMap;
use run::sweep::Sweep;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use run::sweep::{Point, Value, point_shown as shown};

/// With how many seeds an experiment is played unless it says otherwise.
pub const SEEDS: u32 = 5;

/// How much of an experiment is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// What can be played in a while.
    #[default]
    Usual,
    /// As large as in the paper.
    Full,
    /// A few points of the usual, to see that results are what was recorded.
    Smoke,
}

/// What a file of an experiment says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Where it is from: the name of its file, without the ending.
    #[serde(skip)]
    pub name: String,
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// The figure or table of the paper: `Fig 2a`.
    pub figure: String,
    /// What it shows, in our words.
    pub title: String,
    /// The claims that rest on it.
    pub claims: Vec<String>,
    /// The template of its scenario: a file in `scenarios/`.
    pub scenario: String,
    /// Constants for the template.
    #[serde(default)]
    pub with: Point,
    /// Axes: each value of one with each of all others.
    #[serde(default)]
    pub sweep: Sweep,
    /// Settings that belong together; each with each of the sweep.
    #[serde(default)]
    pub point: Vec<Point>,
    /// With how many seeds; [`SEEDS`].
    #[serde(default)]
    pub seeds: Option<u32>,
    /// Whether Xen's performance monitor watches (`domains` in the expressions), and from when on.
    #[serde(default)]
    pub xenmon: Option<String>,
    /// Whether a policy may refuse what the scenario asks for; then `refused` is true in the expressions and there is no report.
    #[serde(default)]
    pub may_refuse: bool,
    /// What is measured: name → expression over the report.
    pub metrics: IndexMap<String, String>,
    /// What is different as large as in the paper.
    #[serde(default)]
    pub full: Changes,
    /// Which of the values of an axis are in the smoke set; without it, the experiment is not in it.
    #[serde(default)]
    pub smoke: Option<IndexMap<String, Vec<Value>>>,
    /// Pictures of what was measured.
    #[serde(default)]
    pub plot: Vec<Plot>,
    /// Gantt charts.
    #[serde(default)]
    pub schedule: Vec<Schedule>,
    /// The template's text.
    #[serde(skip)]
    pub template: String,
}

/// What is different in an experiment as large as in the paper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Other constants.
    #[serde(default)]
    pub with: Point,
    /// Other values of axes.
    #[serde(default)]
    pub sweep: Sweep,
    /// Another number of seeds.
    #[serde(default)]
    pub seeds: Option<u32>,
}

/// A figure: numbers over an axis, a curve for each value of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Its file's name: `fig-2a`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How it is drawn.
    #[serde(default)]
    pub kind: Kind,
    /// The axis or metric along which it goes; of a [`Kind::Cdf`] and a [`Kind::Distribution`], its title alone.
    pub x: String,
    /// The metric that it shows.
    pub y: String,
    /// What is written at the axes, with units; the names of axis and metric.
    #[serde(default)]
    pub labels: Option<[String; 2]>,
    /// The axes whose values have curves of their own.
    #[serde(default)]
    pub curves: Vec<String>,
    /// Which points alone it shows.
    #[serde(default, rename = "where")]
    pub only: Point,
    /// Which axes of the picture are logarithmic.
    #[serde(default)]
    pub log: Vec<Axis>,
    /// What the metric is divided by, for its unit in the picture.
    #[serde(default)]
    pub unit: Option<f64>,
    /// Where the axes of the picture begin and end, if not with the values: `[low, high]`.
    #[serde(default)]
    pub range: IndexMap<Axis, [f64; 2]>,
    /// What the paper prints: curve → its points.
    #[serde(default)]
    pub paper: IndexMap<String, Vec<[f64; 2]>>,
}

/// An axis of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// From left to right.
    X,
    /// Upwards.
    Y,
}

/// How a figure is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Medians with intervals, joined by lines.
    #[default]
    Lines,
    /// The same as bars.
    Bars,
    /// A box for each value of the axis: quartiles over the seeds, or over the values of a metric that is a list.
    Boxes,
    /// How much of a metric that is a list lies below each value.
    Cdf,
    /// A metric that is a list of pairs, drawn as it is.
    Distribution,
}

/// A Gantt chart of the run with the first seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Its file's name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Of which point.
    #[serde(rename = "where")]
    pub point: Point,
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
}

impl Experiment {
    /// Reads the file at `path`, and the template it names, of the paper in `directory`.
    pub(crate) fn read(path: &Path, directory: &Path) -> Result<Experiment, Problem> {
        let text = read(path)?;
        let mut experiment: Experiment = toml::from_str(&text).map_err(|why| {
            Problem::wrong(path, why.to_string().trim_end(), "an experiment as docs/experiments.md describes it")
        })?;
        experiment.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        experiment.path = path.to_path_buf();
        experiment.template = read(&directory.join("scenarios").join(&experiment.scenario))?;
        experiment.check()?;
        Ok(experiment)
    }

    fn check(&self) -> Result<(), Problem> {
        let refuse = |what: String, right: &str| Err(Problem::wrong(&self.path, what, right));
        if self.metrics.is_empty() {
            return refuse("nothing is measured: [metrics] is empty".into(), "at least one metric");
        }
        for (name, expression) in &self.metrics {
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
            let what =
                format!("the plot `{}` goes along `{}`, which is neither an axis nor a metric", plot.name, plot.x);
            return refuse(what, &format!("one of {}", self.names()));
        }
        let is_plain =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if let Some(name) = self.pictures().find(|name| !is_plain(name)) {
            return refuse(format!("`{name}` is no name for a picture"), "letters, digits and hyphens: `fig-2a`");
        }
        self.schedule.iter().try_for_each(|schedule| schedule.window(self).map(drop))
    }

    /// The names of its axes, and of its metrics.
    fn names(&self) -> String {
        let names: Vec<&str> = self.axes().into_iter().chain(self.metrics.keys()).map(String::as_str).collect();
        names.join(", ")
    }

    /// The names of its pictures: plots, then schedules.
    pub fn pictures(&self) -> impl Iterator<Item = &str> {
        let plots = self.plot.iter().map(|plot| plot.name.as_str());
        plots.chain(self.schedule.iter().map(|schedule| schedule.name.as_str()))
    }

    /// All that is varied, in the order of the file: the axes of the points, then those of the sweep.
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

    /// Every point of it: all of the sweep for the first of its points, then for the next.
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

    /// With how many seeds it is played.
    #[must_use]
    pub fn seeds(&self, extent: Extent) -> u32 {
        match extent {
            Extent::Full => self.full.seeds.or(self.seeds).unwrap_or(SEEDS),
            Extent::Usual => self.seeds.unwrap_or(SEEDS),
            Extent::Smoke => 1,
        }
    }

    /// The constants of its template.
    #[must_use]
    pub fn constants(&self, extent: Extent) -> Point {
        let mut with = self.with.clone();
        if extent == Extent::Full {
            with.extend(self.full.with.clone());
        }
        with
    }
}
