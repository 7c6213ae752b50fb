//! Collects the data of a [`Figure`] from the measurements and the printed numbers.

use super::bins;
use super::data::{CURVES_MOST, Cell, Curve, Figure, Level, Mark, Panel, steps};
use super::scale::{count, shown};
use crate::compute::quantile;
use crate::experiment::{Axis, Experiment, Kind, Plot, Point, Value};
use crate::judge::interval;
use crate::picture::is_at;
use crate::problem::Problem;
use crate::results::{Results, Row};
use indexmap::IndexMap;

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
        let rows: Vec<&Row> = rows.iter().filter(|row| plot.shows(&row.point)).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let up = plot.rows.as_ref().map(|axis| values(axis, &rows));
        let making = Making { experiment, plot, places: places(plot, &rows), rows: up };
        let groups = making.groups(&rows);
        let panels = if plot.kind == Kind::Surface { making.surfaces(&groups)? } else { making.panels(&groups)? };
        let below = plot.rows.as_ref().unwrap_or(&plot.y);
        let label = |nth: usize, name: &str| {
            plot.labels.as_ref().map_or_else(|| name.replace('_', " "), |labels| labels[nth].clone())
        };
        let texts = |values: &Vec<&Value>| values.iter().map(|value| named(value)).collect::<Vec<String>>();
        Ok(Some(Figure {
            title: plot.title.clone(),
            about: format!("{}, {paper}", experiment.figure),
            kind: plot.kind,
            labels: [label(0, &plot.x), label(1, below)],
            log: [plot.log.contains(&Axis::X) && making.places.is_none(), plot.log.contains(&Axis::Y)],
            range: [Axis::X, Axis::Y].map(|axis| plot.range.get(&axis).copied()),
            places: making.places.as_ref().map(texts),
            rows: making.rows.as_ref().map(|rows| (texts(rows), plot.y.replace('_', " "))),
            levels: levels(plot, &panels),
            panels,
        }))
    }
}

/// Returns the numbers of the paper that are positions on one axis. A number with the name of a curve has its colour.
fn levels(plot: &Plot, panels: &[Panel]) -> Vec<Level> {
    let curves = || panels.iter().flat_map(|panel| &panel.curves);
    let mut all = Vec::new();
    for (axis, lines) in plot.lines.iter().enumerate() {
        for (name, value) in lines {
            let colour = curves().find(|curve| curve.name == *name).map(|curve| curve.colour);
            all.push(Level { name: format!("{name} (paper)"), value: *value, axis, colour });
        }
    }
    all
}

struct Making<'p> {
    experiment: &'p Experiment,
    plot: &'p Plot,
    /// Values of the first axis that are drawn side by side.
    places: Option<Vec<&'p Value>>,
    /// Values of the second axis of a surface.
    rows: Option<Vec<&'p Value>>,
}

/// The points of a measured curve.
struct Group<'p> {
    /// Name of the curve in the file of the experiment: the values of its axes.
    key: String,
    panel: String,
    name: String,
    rows: Vec<&'p Row>,
}

/// Returns the values of `axis`, each once, in the order of the points.
fn values<'p>(axis: &str, rows: &[&'p Row]) -> Vec<&'p Value> {
    let mut all: Vec<&Value> = Vec::new();
    for value in rows.iter().filter_map(|row| row.point.get(axis)) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Returns the values of the first axis that are drawn side by side. `None`: positions are numbers, because the figure
/// shows a distribution, or because the axis is numeric and the kind has no columns.
fn places<'p>(plot: &Plot, rows: &[&'p Row]) -> Option<Vec<&'p Value>> {
    let values = values(&plot.x, rows);
    let are_numbers = values.iter().all(|value| value.is_number());
    let is_numeric = plot.kind.is_distribution() || are_numbers && !plot.kind.has_columns();
    (!is_numeric).then_some(values)
}

/// Formats a value of an axis for a picture.
fn named(value: &Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_string(),
        (_, Some(number)) => shown(number),
        _ => value.to_string(),
    }
}

/// Units at the end of the names of axes.
const UNITS: [&str; 4] = ["_ns", "_us", "_ms", "_s"];

/// Formats a value of `axis` for the name of a curve or a panel. A Boolean is formatted as the name of the axis, with
/// `not` before it if the value is false. A number has the name of its axis, and the unit in this name.
fn label(axis: &str, value: &Value) -> String {
    let name = axis.replace('_', " ");
    match value.as_bool() {
        Some(true) => name,
        Some(false) => format!("not {name}"),
        None if value.is_number() => match UNITS.iter().find(|unit| axis.ends_with(*unit)) {
            Some(unit) => {
                let name = axis.trim_end_matches(unit).replace('_', " ");
                format!("{name} {} {}", named(value), unit.trim_start_matches('_'))
            }
            None => format!("{name} {}", named(value)),
        },
        None => named(value),
    }
}

/// Returns the number of `name` in `names`, and adds it if it is new.
fn numbered(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|other| other == name).unwrap_or_else(|| {
        names.push(name.to_string());
        names.len() - 1
    })
}

impl<'p> Making<'p> {
    fn refuse(&self, what: &str, right: &str) -> Problem {
        let what = format!("the plot `{}` {what}", self.plot.name);
        Problem::wrong(&self.experiment.path, what, right)
    }

    /// Returns the groups of points that form curves, in the order of the points.
    fn groups(&self, rows: &[&'p Row]) -> Vec<Group<'p>> {
        let mut by_key: IndexMap<String, Vec<&Row>> = IndexMap::new();
        for row in rows {
            let values = self.plot.curves.iter().filter_map(|axis| row.point.get(axis));
            let keys: Vec<String> = values.map(named).filter(|key| !key.is_empty()).collect();
            by_key.entry(keys.join(", ")).or_default().push(row);
        }
        let panels = self.panel_axes(by_key.len());
        let group = |(key, rows): (String, Vec<&'p Row>)| {
            let point = &rows[0].point;
            let axes = self.plot.curves.iter().filter_map(|axis| Some((axis, point.get(axis)?)));
            let (panel, own): (Vec<_>, Vec<_>) = axes.partition(|(axis, _)| panels.contains(axis));
            let joined =
                |texts: Vec<String>| texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
            let panel = joined(panel.into_iter().map(|(axis, value)| label(axis, value)).collect());
            let name = joined(own.into_iter().map(|(axis, value)| label(axis, value)).collect());
            let name = if name.is_empty() { MEASURED.to_string() } else { name };
            Group { key, panel, name, rows }
        };
        by_key.into_iter().map(group).collect()
    }

    /// Returns the axes that distinguish panels, if there are this many `curves`.
    fn panel_axes(&self, curves: usize) -> Vec<&String> {
        if self.plot.kind == Kind::Surface {
            return self.plot.curves.iter().collect();
        }
        let is_split = self.plot.panels.is_empty() && curves > CURVES_MOST && self.plot.curves.len() > 1;
        if is_split { vec![&self.plot.curves[0]] } else { self.plot.panels.iter().collect() }
    }

    /// Returns the panels with their measured and printed curves.
    fn panels(&self, groups: &[Group<'_>]) -> Result<Vec<Panel>, Problem> {
        let mut panels: IndexMap<&str, Panel> = IndexMap::new();
        let mut names: Vec<String> = Vec::new();
        for group in groups {
            let marks = match self.plot.kind {
                Kind::Cdf => self.cdf(&group.rows)?,
                Kind::Distribution => self.distribution(&group.rows)?,
                Kind::Points if !group.rows[0].point.contains_key(&self.plot.x) => self.runs(&group.rows)?,
                _ => self.along(&group.rows)?,
            };
            let panel = panels.entry(&group.panel).or_default();
            panel.title.clone_from(&group.panel);
            let column = Some(panel.curves.len());
            let colour = numbered(&mut names, &group.name);
            panel.curves.push(Curve { name: group.name.clone(), colour, column, is_papers: false, marks });
        }
        let measured: Vec<Panel> = panels.values().cloned().collect();
        let is_lonely = self.plot.curves.is_empty() && self.plot.printed.len() == 1;
        for (key, points) in &self.plot.printed {
            let marks =
                points.iter().filter_map(|(position, number)| Some(Mark::plain(self.place(position)?, *number)));
            let marks: Vec<Mark> = marks.collect();
            let same = groups.iter().position(|group| group.key == *key).or(is_lonely.then_some(0));
            let Some(group) = same.map(|nth| &groups[nth]) else {
                let colour = numbered(&mut names, &format!("{key} (paper)"));
                let name = format!("{key} (paper)");
                let curve = Curve { name, colour, column: None, is_papers: true, marks };
                panels.values_mut().for_each(|panel| panel.curves.push(curve.clone()));
                continue;
            };
            let alone = if group.name == MEASURED { "paper".to_string() } else { format!("{} (paper)", group.name) };
            let panel = measured.iter().find(|panel| panel.title == group.panel);
            let same = panel.and_then(|panel| panel.curves.iter().find(|curve| curve.name == group.name));
            let (colour, column) = same.map_or((0, None), |curve| (curve.colour, curve.column));
            panels[group.panel.as_str()].curves.push(Curve { name: alone, colour, column, is_papers: true, marks });
        }
        Ok(panels.into_values().collect())
    }

    /// Returns a panel with the cells of a surface for each group.
    fn surfaces(&self, groups: &[Group<'_>]) -> Result<Vec<Panel>, Problem> {
        let (columns, rows) = (self.places.as_deref().unwrap_or_default(), self.rows.as_deref().unwrap_or_default());
        let axis = self.plot.rows.as_deref().unwrap_or_default();
        let panel = |group: &Group<'_>| {
            let mut cells = Vec::new();
            for row in &group.rows {
                let place = |all: &[&Value], axis: &str| {
                    let value = row.point.get(axis)?;
                    all.iter().position(|other| *other == value)
                };
                if let (Some(column), Some(nth)) = (place(columns, &self.plot.x), place(rows, axis)) {
                    cells.push(Cell { column, row: nth, value: quantile(self.values(row)?, 0.5).ok() });
                }
            }
            Ok(Panel { title: group.panel.clone(), curves: Vec::new(), cells })
        };
        groups.iter().map(panel).collect()
    }

    /// Returns the place of a printed number on the first axis; `None`: nothing was measured at its position.
    fn place(&self, position: &str) -> Option<f64> {
        match &self.places {
            Some(places) => places.iter().position(|value| is_at(value, position)).map(count),
            None => position.parse().ok(),
        }
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
                return Mark { low, high, quartiles: [at(0.25), at(0.75)], ..Mark::plain(*x, at(0.5)) };
            }
            let few = values.len() <= measure::statistics::RUNS_MAX;
            let (y, low, high) = if few { interval(values) } else { (at(0.5), at(0.025), at(0.975)) };
            Mark { low, high, ..Mark::plain(*x, y) }
        };
        Ok(at.iter().map(mark).collect())
    }

    /// Returns a mark for each run whose position and height are metrics.
    fn runs(&self, rows: &[&Row]) -> Result<Vec<Mark>, Problem> {
        let unit = self.plot.unit.unwrap_or(1.0);
        let mut marks = Vec::new();
        for row in rows {
            for seed in &row.seeds {
                let run = Row { point: Point::new(), seeds: vec![seed.clone()] };
                let (x, y) = (self.all(&run, &self.plot.x)?, self.all(&run, &self.plot.y)?);
                if let ([x], [y]) = (x.as_slice(), y.as_slice()) {
                    marks.push(Mark::plain(*x, y / unit));
                }
            }
        }
        Ok(marks)
    }

    /// Returns the position of `row` on the first axis: the value of an axis, or the median of a metric.
    fn x(&self, row: &Row) -> Result<Option<f64>, Problem> {
        if let Some(value) = row.point.get(&self.plot.x) {
            let place = |places: &Vec<&Value>| places.iter().position(|other| *other == value).map(count);
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

    /// Returns the pairs of the metric, in bins if the plot has bins. Without bins, pairs of several seeds with the same
    /// first number become one pair with the median of the second numbers.
    fn distribution(&self, rows: &[&Row]) -> Result<Vec<Mark>, Problem> {
        let unit = self.plot.unit.unwrap_or(1.0);
        let mut seeds: Vec<Vec<(f64, f64)>> = Vec::new();
        for measured in rows.iter().flat_map(|row| &row.seeds) {
            let pairs = measured.get(&self.plot.y).and_then(Value::as_array);
            let mut own = Vec::new();
            for pair in pairs.into_iter().flatten() {
                let number = |nth: usize| pair.get(nth).and_then(Value::as_f64);
                let (Some(x), Some(y)) = (number(0), number(1)) else {
                    let what = format!("shows `{}`, and {pair} is no pair of numbers", self.plot.y);
                    return Err(self.refuse(&what, "a list of pairs: [[1, 10], [2, 40]]"));
                };
                own.push((x, y / unit));
            }
            seeds.push(own);
        }
        if let Some(number) = self.plot.bins {
            let is_log = self.plot.log.contains(&Axis::X);
            return Ok(bins::densities(&seeds, number, is_log));
        }
        let mut at = seeds.concat();
        at.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let same = at.chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq());
        let middle = |pairs: &[(f64, f64)]| {
            let (one, other) = (pairs[(pairs.len() - 1) / 2], pairs[pairs.len() / 2]);
            Mark::plain(one.0, f64::midpoint(one.1, other.1))
        };
        Ok(same.map(middle).collect())
    }
}

/// Name of a curve whose panel has no other curve.
const MEASURED: &str = "measured";
