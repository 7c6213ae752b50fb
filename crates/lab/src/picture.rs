//! [`Plot`]: the definition of a figure in the file of an experiment.

use crate::printed::Printed;
use crate::problem::Problem;
use indexmap::IndexMap;
use run::sweep::{Point, Value};
use serde::{Deserialize, Serialize};
use std::path::Path;

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
    /// Axis of the experiment along the vertical axis of a [`Kind::Surface`].
    #[serde(default)]
    pub rows: Option<String>,
    /// Labels of the axes, with units; by default the names of axis and metric.
    #[serde(default)]
    pub labels: Option<[String; 2]>,
    /// Axes whose values have separate curves.
    #[serde(default)]
    pub curves: Vec<String>,
    /// Axes of `curves` whose values have separate panels. By default, a figure with many curves has a panel for each
    /// value of the first axis of `curves`.
    #[serde(default)]
    pub panels: Vec<String>,
    /// Axes whose points form one curve together. Only kinds that show a distribution can do so, and plots whose
    /// positions are a metric.
    #[serde(default)]
    pub pools: Vec<String>,
    /// Points that the figure shows: for each axis, a value or a list of values; by default all points.
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
    /// Number of bins of a [`Kind::Distribution`]: per power of ten if the horizontal axis is logarithmic, otherwise of
    /// the whole range. `None`: no bins.
    #[serde(default)]
    pub bins: Option<u32>,
    /// Curves that the paper prints: curve → series or numbers in `printed.toml`.
    #[serde(default)]
    pub paper: IndexMap<String, Marked>,
    /// Numbers that the paper prints without a position on the horizontal axis: name → number in `printed.toml`. Each
    /// is a horizontal line.
    #[serde(default)]
    pub levels: IndexMap<String, String>,
    /// Numbers that the paper prints as positions on the horizontal axis: name → number in `printed.toml`. Each is a
    /// vertical line.
    #[serde(default)]
    pub positions: IndexMap<String, String>,
    /// The points of the curves in `paper`: curve → position and number. Filled by [`refer`](Plot::refer).
    #[serde(skip)]
    pub printed: IndexMap<String, Vec<(String, f64)>>,
    /// The numbers in `positions` and in `levels`. Filled by [`refer`](Plot::refer).
    #[serde(skip)]
    pub lines: [IndexMap<String, f64>; 2],
}

/// References to the printed numbers of a curve.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Marked {
    /// A series, with its positions: `table-1/bvt`.
    Series(String),
    /// Numbers at other positions than in their series: position → number.
    Numbers(IndexMap<String, String>),
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
    /// Medians with intervals, joined by lines. A panel with many curves has points without lines.
    #[default]
    Lines,
    /// Medians with intervals, without lines.
    Points,
    /// Medians with intervals, as bars. A panel with many curves has points instead.
    Bars,
    /// A box for each value of the axis: quartiles over the seeds, or over the values of a metric that is a list.
    Boxes,
    /// The cumulative distribution of the values of a list metric.
    Cdf,
    /// The pairs of a metric that is a list of pairs. Pairs with the same first number are drawn as their median.
    Distribution,
    /// Medians as colours, over two axes of the experiment.
    Surface,
}

impl Kind {
    /// Returns whether positions on the horizontal axis come from the values of the metric.
    #[must_use]
    pub fn is_distribution(self) -> bool {
        matches!(self, Kind::Cdf | Kind::Distribution)
    }

    /// Returns whether the values of the horizontal axis are drawn side by side, at equal distances.
    #[must_use]
    pub fn has_columns(self) -> bool {
        matches!(self, Kind::Bars | Kind::Boxes | Kind::Surface)
    }
}

/// Returns whether `value` of an axis is the position `text` of a printed number.
#[must_use]
pub fn is_at(value: &Value, text: &str) -> bool {
    match (value.as_str(), value.as_f64(), text.parse::<f64>()) {
        (Some(name), _, _) => name == text,
        (_, Some(number), Ok(position)) => number.total_cmp(&position).is_eq(),
        _ => value.as_bool().is_some_and(|is_on| text == if is_on { "true" } else { "false" }),
    }
}

impl Plot {
    /// Returns whether the figure shows `point`.
    #[must_use]
    pub fn shows(&self, point: &Point) -> bool {
        self.only.iter().all(|(axis, wanted)| {
            let value = point.get(axis);
            wanted.as_array().map_or(value == Some(wanted), |all| value.is_some_and(|value| all.contains(value)))
        })
    }

    /// Returns the axes of the experiment that the keys of the figure name, except for `x`.
    pub(crate) fn axes(&self) -> impl Iterator<Item = &String> {
        self.curves.iter().chain(self.only.keys()).chain(&self.rows).chain(&self.pools)
    }

    /// Finds the printed numbers of the figure in `printed`. `path` is the file of the experiment.
    ///
    /// # Errors
    /// A reference is to no printed number.
    pub fn refer(&mut self, path: &Path, printed: &Printed) -> Result<(), Problem> {
        let wrong = |why: Problem| self.wrong(path, &format!("has an invalid reference\n{why}"), "a printed number");
        let mut curves = IndexMap::new();
        for (curve, marked) in &self.paper {
            let points: Vec<(String, f64)> = match marked {
                Marked::Series(reference) => {
                    let series = printed.series(reference).map_err(wrong)?;
                    series.iter().map(|(position, number)| (position.clone(), *number)).collect()
                }
                Marked::Numbers(numbers) => {
                    let number = |(position, reference): (&String, &String)| {
                        Ok((position.clone(), printed.number(reference).map_err(wrong)?))
                    };
                    numbers.iter().map(number).collect::<Result<_, Problem>>()?
                }
            };
            curves.insert(curve.clone(), points);
        }
        let number_of =
            |(name, reference): (&String, &String)| Ok((name.clone(), printed.number(reference).map_err(wrong)?));
        let all = |lines: &IndexMap<String, String>| lines.iter().map(number_of).collect::<Result<_, Problem>>();
        self.lines = [all(&self.positions)?, all(&self.levels)?];
        self.printed = curves;
        Ok(())
    }

    /// Returns the references to the printed numbers of the figure: series and numbers.
    pub fn references(&self) -> impl Iterator<Item = &String> {
        let marked = self.paper.values().flat_map(|marked| match marked {
            Marked::Series(reference) => vec![reference],
            Marked::Numbers(numbers) => numbers.values().collect(),
        });
        marked.chain(self.positions.values()).chain(self.levels.values())
    }

    /// Checks the figure against the `points` of its experiment. `path` is the file of the experiment.
    ///
    /// # Errors
    /// A key contradicts another key or the points, or a curve pools an axis without need.
    pub(crate) fn check(&self, path: &Path, points: &[Point]) -> Result<(), Problem> {
        if (self.kind == Kind::Surface) != self.rows.is_some() {
            return Err(self.wrong(path, "needs `rows` if it is a surface, and only then", "rows = \"AXIS\""));
        }
        if self.bins == Some(0) || self.bins.is_some() && self.kind != Kind::Distribution {
            return Err(self.wrong(path, "has bins without a distribution", "bins above 0, with a distribution"));
        }
        if let Some(axis) = self.panels.iter().find(|axis| !self.curves.contains(axis)) {
            let what = format!("has panels for `{axis}`, which is not in `curves`");
            return Err(self.wrong(path, &what, "an axis of `curves`"));
        }
        if !self.positions.is_empty() && self.kind.has_columns() {
            return Err(self.wrong(path, "has `positions` on an axis without numbers", "`levels`, or lines"));
        }
        let shown: Vec<&Point> = points.iter().filter(|point| self.shows(point)).collect();
        if shown.is_empty() {
            return Err(self.wrong(path, "shows no point", "`where` with values of the axes"));
        }
        self.check_pools(path, &shown)?;
        self.check_positions(path, &shown)
    }

    fn check_pools(&self, path: &Path, shown: &[&Point]) -> Result<(), Problem> {
        let pooled = self.pooled(shown);
        let is_metric = !shown[0].contains_key(&self.x);
        let may_pool = self.kind.is_distribution() || self.kind == Kind::Boxes || is_metric;
        for axis in &pooled {
            if !may_pool {
                let right = format!("`{axis}` in `curves`, or a value of it in `where`");
                return Err(self.wrong(path, &format!("pools the axis `{axis}` without naming it"), &right));
            }
            if !self.pools.contains(axis) {
                let right = format!("`{axis}` in `curves`, `where` or `pools`");
                return Err(self.wrong(path, &format!("pools the axis `{axis}` without naming it"), &right));
            }
        }
        if let Some(axis) = self.pools.iter().find(|axis| !pooled.contains(axis)) {
            let what = format!("names `{axis}` in `pools`, and no curve pools it");
            return Err(self.wrong(path, &what, "only axes that curves pool"));
        }
        Ok(())
    }

    /// Returns the axes in which points of one curve at one position differ.
    fn pooled(&self, shown: &[&Point]) -> Vec<String> {
        let along = if self.kind.is_distribution() { None } else { Some(&self.x) };
        let own: Vec<&String> = self.curves.iter().chain(&self.rows).chain(along).collect();
        let mut first: IndexMap<Vec<Option<&Value>>, &Point> = IndexMap::new();
        let mut pooled: Vec<String> = Vec::new();
        for point in shown {
            let key = own.iter().map(|axis| point.get(*axis)).collect();
            let other = *first.entry(key).or_insert(point);
            let differs = |(axis, value): &(&String, &Value)| other.get(*axis) != Some(*value);
            for (axis, _) in point.iter().filter(differs) {
                if !pooled.contains(axis) {
                    pooled.push(axis.clone());
                }
            }
        }
        pooled
    }

    /// Checks that each printed number has a position on the horizontal axis.
    fn check_positions(&self, path: &Path, shown: &[&Point]) -> Result<(), Problem> {
        let values: Vec<&Value> = shown.iter().filter_map(|point| point.get(&self.x)).collect();
        let are_numbers = self.kind.is_distribution() || values.iter().all(|value| value.is_number());
        for (position, _) in self.printed.values().flatten() {
            let is_number = are_numbers && !self.kind.has_columns() && position.parse::<f64>().is_ok();
            if !is_number && !values.iter().any(|value| is_at(value, position)) {
                let what = format!("has no position `{position}` for a printed number");
                return Err(self.wrong(path, &what, &format!("values of `{}` as positions", self.x)));
            }
        }
        Ok(())
    }

    fn wrong(&self, path: &Path, what: &str, right: &str) -> Problem {
        Problem::wrong(path, format!("the plot `{}` {what}", self.name), right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(text: &str) -> Plot {
        toml::from_str(&format!("name = \"p\"\ntitle = \"t\"\ny = \"m\"\n{text}")).expect("it is a plot")
    }

    fn points() -> Vec<Point> {
        let values = [("bvt", 1, 5), ("bvt", 2, 5), ("bvt", 2, 6), ("sedf", 1, 5), ("sedf", 2, 5)];
        let point = |(policy, weight, period): (&str, u32, u32)| {
            Point::from([
                ("policy".to_string(), policy.into()),
                ("weight".to_string(), weight.into()),
                ("period".to_string(), period.into()),
            ])
        };
        values.map(point).to_vec()
    }

    fn said(text: &str) -> String {
        plot(text).check(Path::new("e.toml"), &points()).expect_err(text).to_string()
    }

    #[test]
    fn a_plot_that_pools_an_unnamed_axis_is_refused() {
        for text in [
            "x = \"weight\"\ncurves = [\"policy\"]",
            "x = \"weight\"\ncurves = [\"policy\"]\npools = [\"period\"]",
            "x = \"weight\"\ncurves = [\"policy\"]\nkind = \"bars\"",
        ] {
            let said = said(text);
            assert!(said.contains("pools the axis `period`") && said.contains("`period` in `curves`"), "{said}");
        }
        for text in [
            "x = \"weight\"\ncurves = [\"policy\", \"period\"]",
            "x = \"weight\"\ncurves = [\"policy\"]\nwhere = { period = 5 }",
            "x = \"weight\"\ncurves = [\"policy\"]\nwhere = { policy = [\"sedf\"] }",
        ] {
            plot(text).check(Path::new("e.toml"), &points()).unwrap_or_else(|problem| panic!("{problem}"));
        }
    }

    #[test]
    fn kinds_that_show_a_distribution_pool_the_axes_that_they_name() {
        for start in ["kind = \"boxes\"\nx = \"weight\"", "kind = \"points\"\nx = \"m\"", "kind = \"cdf\"\nx = \"m\""] {
            let unnamed = said(&format!("{start}\ncurves = [\"policy\"]"));
            assert!(unnamed.contains("pools the axis") && unnamed.contains("`pools`"), "{unnamed}");
        }
        let named = "kind = \"cdf\"\nx = \"m\"\ncurves = [\"policy\"]\npools = [\"weight\", \"period\"]";
        plot(named).check(Path::new("e.toml"), &points()).unwrap_or_else(|problem| panic!("{problem}"));
        let idle = said("kind = \"boxes\"\nx = \"weight\"\ncurves = [\"policy\", \"period\"]\npools = [\"period\"]");
        assert!(idle.contains("no curve pools it"), "{idle}");
    }

    #[test]
    fn keys_that_contradict_each_other_are_refused() {
        let good = "x = \"weight\"\ncurves = [\"policy\", \"period\"]";
        for (more, what) in [
            ("kind = \"surface\"", "needs `rows`"),
            ("rows = \"period\"", "needs `rows`"),
            ("bins = 4", "has bins"),
            ("kind = \"bars\"\npositions = { bound = \"a/s/1\" }", "has `positions`"),
            ("panels = [\"weight\"]", "panels for `weight`"),
            ("where = { policy = \"credit\" }", "shows no point"),
        ] {
            let said = said(&format!("{good}\n{more}"));
            assert!(said.contains(what), "{said}");
        }
    }

    #[test]
    fn a_printed_number_without_a_position_is_refused() {
        let text = "[a]\nplace = \"A\"\npage = 1\nunit = \"\"\nwhat = \"w\"\n[a.series.s]\n1 = 2\n3 = 4\nx = 5\n";
        let printed = Printed::from_text(Path::new("printed.toml"), text).expect("it is valid");
        let mut plot = plot("x = \"weight\"\ncurves = [\"policy\", \"period\"]\npaper = { bvt = \"a/s\" }");
        plot.levels.insert("bound".to_string(), "a/s/3".to_string());
        plot.refer(Path::new("e.toml"), &printed).unwrap_or_else(|problem| panic!("{problem}"));
        assert!((plot.lines[1]["bound"] - 4.0).abs() < 1e-12);
        let said = plot.check(Path::new("e.toml"), &points()).expect_err("x is no weight").to_string();
        assert!(said.contains("no position `x`") && said.contains("values of `weight`"), "{said}");
        plot.printed["bvt"].truncate(2);
        assert!(plot.check(Path::new("e.toml"), &points()).is_ok(), "a line has room for 3");
        plot.kind = Kind::Bars;
        assert!(plot.check(Path::new("e.toml"), &points()).is_err(), "no bar has the position 3");
        plot.paper.insert("bvt".to_string(), Marked::Series("a/t".to_string()));
        let said = plot.refer(Path::new("e.toml"), &printed).expect_err("there is no series t").to_string();
        assert!(said.contains("the plot `p`") && said.contains("no series `t`"), "{said}");
    }
}
