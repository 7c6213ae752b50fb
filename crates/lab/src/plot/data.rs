//! [`Figure`]: the data of a plot, before drawing.

use super::scale::{count, shown};
use crate::compute::quantile;
use crate::experiment::{Axis, Experiment, Kind, Plot, Point, Value};
use crate::judge::interval;
use crate::problem::Problem;
use crate::results::{Results, Row};
use indexmap::IndexMap;

/// Data of a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Title of the figure.
    pub title: String,
    /// Number of the figure in the paper, and name of the paper.
    pub about: String,
    pub(super) kind: Kind,
    pub(super) labels: [String; 2],
    /// Labels of the positions on the first axis, if the axis is not numeric.
    pub(super) places: Option<Vec<String>>,
    pub(super) log: [bool; 2],
    pub(super) range: [Option<[f64; 2]>; 2],
    pub(super) curves: Vec<Curve>,
}

/// A curve, measured or printed in the paper.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Curve {
    /// Name of the curve in the file of the experiment: the values of its axes.
    key: String,
    pub(super) name: String,
    /// Number of the colour. A measured curve and the curve of the paper for the same values have the same colour and
    /// mark.
    pub(super) colour: usize,
    pub(super) is_papers: bool,
    pub(super) marks: Vec<Mark>,
}

/// A value with its interval, or a box with its whiskers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) quartiles: [f64; 2],
}

impl Mark {
    fn plain(x: f64, y: f64) -> Mark {
        Mark { x, y, low: y, high: y, quartiles: [y, y] }
    }
}

/// Fraction of the values beyond the end of each whisker of a box.
const WHISKERS: f64 = 0.05;

impl Figure {
    /// Returns the figure of `plot` in `experiment`, from `results`. `paper` is the name of the paper. `None`: the
    /// experiment was not run.
    ///
    /// # Errors
    /// The plot cannot show the measurements.
    pub fn of(paper: &str, experiment: &Experiment, plot: &Plot, results: &Results) -> Result<Option<Figure>, Problem> {
        let rows = results.experiments.get(&experiment.name).map_or(&[][..], Vec::as_slice);
        let is_shown = |row: &&Row| plot.only.iter().all(|(axis, value)| row.point.get(axis) == Some(value));
        let rows: Vec<&Row> = rows.iter().filter(is_shown).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let making = Making { experiment, plot, places: places(plot, &rows) };
        let mut curves = making.measured(&rows)?;
        curves.extend(making.printed(&curves));
        let label = |nth: usize, name: &str| {
            plot.labels.as_ref().map_or_else(|| name.replace('_', " "), |labels| labels[nth].clone())
        };
        Ok(Some(Figure {
            title: plot.title.clone(),
            about: format!("{}, {paper}", experiment.figure),
            kind: plot.kind,
            labels: [label(0, &plot.x), label(1, &plot.y)],
            log: [plot.log.contains(&Axis::X) && making.places.is_none(), plot.log.contains(&Axis::Y)],
            range: [Axis::X, Axis::Y].map(|axis| plot.range.get(&axis).copied()),
            places: making.places,
            curves,
        }))
    }

    /// Returns the cumulative distribution of each of `samples`, which are named lists of numbers. `label` names the
    /// numbers, with their unit.
    #[must_use]
    pub fn of_samples(title: &str, about: &str, label: &str, samples: Vec<(String, Vec<f64>)>) -> Figure {
        let curve = |(colour, (name, values)): (usize, (String, Vec<f64>))| Curve {
            key: name.clone(),
            name,
            colour,
            is_papers: false,
            marks: steps(values),
        };
        Figure {
            title: title.to_string(),
            about: about.to_string(),
            kind: Kind::Cdf,
            labels: [label.to_string(), "fraction".to_string()],
            places: None,
            log: [false; 2],
            range: [None; 2],
            curves: samples.into_iter().enumerate().map(curve).collect(),
        }
    }

    /// Returns the positions of all marks along the first axis, and the ends of their intervals along the second axis.
    pub(super) fn extent(&self) -> [Vec<f64>; 2] {
        let marks = || self.curves.iter().flat_map(|curve| &curve.marks);
        [marks().map(|mark| mark.x).collect(), marks().flat_map(|mark| [mark.low, mark.high]).collect()]
    }
}

/// Returns the steps of the cumulative distribution of `values`.
fn steps(mut values: Vec<f64>) -> Vec<Mark> {
    values.sort_by(f64::total_cmp);
    let size = count(values.len());
    // If there are too many values, only every n-th value and the last value have a step.
    let every = values.len().div_ceil(CDF_MOST).max(1);
    let is_kept = |nth: usize| nth.is_multiple_of(every) || nth + 1 == values.len();
    let kept = values.iter().enumerate().filter(|(nth, _)| is_kept(*nth));
    kept.map(|(nth, value)| Mark::plain(*value, count(nth + 1) / size)).collect()
}

struct Making<'p> {
    experiment: &'p Experiment,
    plot: &'p Plot,
    places: Option<Vec<String>>,
}

/// Returns the labels of the positions on the first axis: the values of the axis. `None`: positions are numbers,
/// because the figure shows a distribution, or because the axis is numeric and the figure has no bars or boxes.
fn places(plot: &Plot, rows: &[&Row]) -> Option<Vec<String>> {
    if matches!(plot.kind, Kind::Cdf | Kind::Distribution) {
        return None;
    }
    let values: Vec<&Value> = rows.iter().filter_map(|row| row.point.get(&plot.x)).collect();
    let are_numbers = values.iter().all(|value| value.is_number());
    if are_numbers && !matches!(plot.kind, Kind::Bars | Kind::Boxes) {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    for value in values {
        let name = named(value);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names)
}

/// Formats a value of an axis for a picture.
fn named(value: &Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_string(),
        (_, Some(number)) => shown(number),
        _ => value.to_string(),
    }
}

/// Formats a value of `axis` for the name of a curve. A Boolean is formatted as the name of the axis, with `not` before
/// it if the value is false.
fn label(axis: &str, value: &Value) -> String {
    match value.as_bool() {
        Some(true) => axis.replace('_', " "),
        Some(false) => format!("not {}", axis.replace('_', " ")),
        None => named(value),
    }
}

impl Making<'_> {
    fn refuse(&self, what: &str, right: &str) -> Problem {
        let what = format!("the plot `{}` {what}", self.plot.name);
        Problem::wrong(&self.experiment.path, what, right)
    }

    /// Returns the measured curves, in the order of the points.
    fn measured(&self, rows: &[&Row]) -> Result<Vec<Curve>, Problem> {
        let mut by_key: IndexMap<String, (String, Vec<&Row>)> = IndexMap::new();
        for row in rows {
            let values = self.plot.curves.iter().filter_map(|axis| Some((axis, row.point.get(axis)?)));
            let (keys, names): (Vec<String>, Vec<String>) = values
                .map(|(axis, value)| (named(value), label(axis, value)))
                .filter(|(key, _)| !key.is_empty())
                .unzip();
            let (_, rows) = by_key.entry(keys.join(", ")).or_insert_with(|| (names.join(", "), Vec::new()));
            rows.push(row);
        }
        let curve = |(colour, (key, (name, rows))): (usize, (String, (String, Vec<&Row>)))| {
            let marks = match self.plot.kind {
                Kind::Lines | Kind::Bars | Kind::Boxes => self.along(&rows)?,
                Kind::Cdf => self.cdf(&rows)?,
                Kind::Distribution => self.distribution(&rows)?,
            };
            let name = if name.is_empty() { "measured".to_string() } else { name };
            Ok(Curve { key, name, colour, is_papers: false, marks })
        };
        by_key.into_iter().enumerate().map(curve).collect()
    }

    /// Returns the curves with values from the paper. Each has the colour of the measured curve of the same name or,
    /// without such a curve, a colour of its own.
    fn printed(&self, measured: &[Curve]) -> Vec<Curve> {
        let mut colours = measured.len();
        let lonely = self.plot.curves.is_empty() && self.plot.paper.len() == 1;
        let curve = |(key, points): (&String, &Vec<[f64; 2]>)| {
            let same = measured.iter().position(|curve| curve.key == *key).or(lonely.then_some(0));
            let colour = same.unwrap_or_else(|| {
                colours += 1;
                colours - 1
            });
            let name = same.map_or(key, |nth| &measured[nth].name);
            let name = if lonely { "paper".to_string() } else { format!("{name} (paper)") };
            let marks = points.iter().map(|[x, y]| Mark::plain(self.place(*x), *y)).collect();
            Curve { key: key.clone(), name, colour, is_papers: true, marks }
        };
        self.plot.paper.iter().map(curve).collect()
    }

    /// Returns the position of a number on the first axis. This is the index of its label, or the number itself if the
    /// axis has no such label.
    fn place(&self, x: f64) -> f64 {
        let places = self.places.as_deref().unwrap_or_default();
        places.iter().position(|name| *name == shown(x)).map_or(x, count)
    }

    /// Returns a mark for each value of the first axis, computed from all seeds.
    fn along(&self, rows: &[&Row]) -> Result<Vec<Mark>, Problem> {
        let mut at: Vec<(f64, Vec<f64>)> = Vec::new();
        for row in rows {
            let Some(x) = self.x(row)? else { continue };
            let values = self.values(row)?;
            match at.iter_mut().find(|(other, _)| other.total_cmp(&x).is_eq()) {
                Some((_, all)) => all.extend(values),
                None => at.push((x, values)),
            }
        }
        at.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        at.retain(|(_, values)| !values.is_empty());
        let mark = |(x, values): &(f64, Vec<f64>)| {
            let at = |q| quantile(values.clone(), q).unwrap_or(f64::NAN);
            if self.plot.kind == Kind::Boxes {
                let (low, high) = (at(WHISKERS), at(1.0 - WHISKERS));
                return Mark { x: *x, y: at(0.5), low, high, quartiles: [at(0.25), at(0.75)] };
            }
            let few = values.len() <= measure::statistics::RUNS_MAX;
            let (y, low, high) = if few { interval(values) } else { (at(0.5), at(0.025), at(0.975)) };
            Mark { x: *x, y, low, high, quartiles: [y, y] }
        };
        Ok(at.iter().map(mark).collect())
    }

    /// Returns the position of `row` on the first axis: the value of an axis, or the median of a metric.
    fn x(&self, row: &Row) -> Result<Option<f64>, Problem> {
        if let Some(value) = row.point.get(&self.plot.x) {
            let place = |places: &Vec<String>| places.iter().position(|name| *name == named(value)).map(count);
            return Ok(self.places.as_ref().map_or(value.as_f64(), place));
        }
        let values = self.all(row, &self.plot.x)?;
        Ok(quantile(values, 0.5).ok())
    }

    /// Returns the values of the plotted metric at `row`: one number for each seed, or several for boxes.
    fn values(&self, row: &Row) -> Result<Vec<f64>, Problem> {
        let is_list = |measured: &Point| measured.get(&self.plot.y).is_some_and(Value::is_array);
        if self.plot.kind != Kind::Boxes && row.seeds.iter().any(is_list) {
            let what = format!("shows `{}`, which is a list, as a number", self.plot.y);
            return Err(
                self.refuse(&what, "kind = \"boxes\", \"cdf\" or \"distribution\", or a metric that is a number")
            );
        }
        let unit = self.plot.unit.unwrap_or(1.0);
        Ok(self.all(row, &self.plot.y)?.into_iter().map(|value| value / unit).collect())
    }

    /// Returns all numbers of the metric `name` at `row`, from all seeds.
    fn all(&self, row: &Row, name: &str) -> Result<Vec<f64>, Problem> {
        let mut all = Vec::new();
        for value in row.seeds.iter().filter_map(|measured| measured.get(name)) {
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for value in list.iter().filter(|value| !value.is_null()) {
                let number = value.as_f64().or_else(|| value.as_bool().map(|it| f64::from(u8::from(it))));
                let wrong = || self.refuse(&format!("shows `{name}`, and {value} is no number"), "a list of numbers");
                all.push(number.ok_or_else(wrong)?);
            }
        }
        Ok(all)
    }

    /// Returns the cumulative distribution of the values of all seeds.
    fn cdf(&self, rows: &[&Row]) -> Result<Vec<Mark>, Problem> {
        let unit = self.plot.unit.unwrap_or(1.0);
        let mut values = Vec::new();
        for row in rows {
            values.extend(self.all(row, &self.plot.y)?.into_iter().map(|value| value / unit));
        }
        Ok(steps(values))
    }

    /// Returns the pairs of the metric. Pairs of several seeds with the same first number become one pair with the
    /// median of the second numbers.
    fn distribution(&self, rows: &[&Row]) -> Result<Vec<Mark>, Problem> {
        let unit = self.plot.unit.unwrap_or(1.0);
        let mut at: Vec<(f64, f64)> = Vec::new();
        for measured in rows.iter().flat_map(|row| &row.seeds) {
            let pairs = measured.get(&self.plot.y).and_then(Value::as_array);
            for pair in pairs.into_iter().flatten() {
                let number = |nth: usize| pair.get(nth).and_then(Value::as_f64);
                let (Some(x), Some(y)) = (number(0), number(1)) else {
                    let what = format!("shows `{}`, and {pair} is no pair of numbers", self.plot.y);
                    return Err(self.refuse(&what, "a list of pairs: [[1, 10], [2, 40]]"));
                };
                at.push((x, y / unit));
            }
        }
        at.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let same = at.chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq());
        let middle = |pairs: &[(f64, f64)]| {
            let (one, other) = (pairs[(pairs.len() - 1) / 2], pairs[pairs.len() / 2]);
            Mark::plain(one.0, f64::midpoint(one.1, other.1))
        };
        Ok(same.map(middle).collect())
    }
}

/// Maximum number of steps of a drawn CDF.
const CDF_MOST: usize = 400;
