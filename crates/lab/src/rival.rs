//! [`Rival`]: a world in which a claim is false, so that a check must miss there. `World`: the results that expressions read.

use crate::experiment::Point;
use crate::results::Row;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// A world in which the claim is false. It changes the results of the points that match `of`. At least one of `is`,
/// `set` and `shuffled` is present.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rival {
    /// Name of the rival: `eevdf`, `a constant grade of 2`.
    pub name: String,
    /// Points whose results change; empty: all points.
    #[serde(default)]
    pub of: Point,
    /// Values of axes: the results of the point with these values replace the results.
    #[serde(default)]
    pub is: Point,
    /// Metrics that a constant predictor gives: constants replace them.
    #[serde(default)]
    pub set: Point,
    /// Axes over which the results are shuffled: each point has the results of a random point that differs at most in
    /// these axes. The seed determines the order.
    #[serde(default)]
    pub shuffled: Vec<String>,
}

impl Rival {
    /// Returns whether the rival changes nothing by its definition.
    pub(crate) fn is_empty(&self) -> bool {
        self.is.is_empty() && self.set.is_empty() && self.shuffled.is_empty()
    }
}

/// The results that an expression reads: the measured results, or those of a rival's world. The world records the
/// points that were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    rival: Option<Rival>,
    read: Arc<Mutex<Read>>,
}

/// The points that an expression read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// For each point that was read, as experiment and number: the number of the point with its results.
    answers: BTreeMap<(String, usize), usize>,
    /// Points whose results any seed may use: the points with the results, and those among which a rival shuffles.
    sources: BTreeSet<(String, usize)>,
    /// Whether a result differs from the measured result.
    has_changed: bool,
}

impl Read {
    /// Returns the points that were read, as pairs of experiment and number of the point.
    pub(crate) fn points(&self) -> impl Iterator<Item = (&str, usize)> {
        self.answers.keys().map(|(experiment, nth)| (experiment.as_str(), *nth))
    }

    /// Returns the points whose results any seed may use, as pairs of experiment and number of the point.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, usize)> {
        self.sources.iter().map(|(experiment, nth)| (experiment.as_str(), *nth))
    }

    /// Returns whether the rival's world equals the measured world for this expression.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_changed
    }

    /// Returns whether two points that were read have the results of the same point. A comparison of these points is a
    /// comparison of a point with itself.
    pub(crate) fn compares_a_point_with_itself(&self) -> bool {
        let mut sources: Vec<(&str, usize)> =
            self.answers.iter().map(|((experiment, _), source)| (experiment.as_str(), *source)).collect();
        sources.sort_unstable();
        sources.windows(2).any(|two| two[0] == two[1])
    }
}

impl World {
    pub(crate) fn of(rival: &Rival) -> World {
        World { rival: Some(rival.clone()), ..World::default() }
    }

    /// Returns the points that were read so far.
    pub(crate) fn read(&self) -> Read {
        self.read.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Returns the metrics with which the point number `nth` of `experiment` answers for `seed`, counted from 0.
    ///
    /// # Errors
    /// The point of the rival does not exist, or was not run with the seed.
    pub(crate) fn answer(&self, experiment: &str, rows: &[Row], nth: usize, seed: usize) -> Result<Point, String> {
        let rival = self.rival.as_ref().filter(|rival| matches(&rows[nth].point, &rival.of));
        let Source { candidates, place } = rival.map_or_else(
            || Ok(Source { candidates: vec![nth], place: 0 }),
            |rival| Source::of(rival, experiment, rows, nth),
        )?;
        let source =
            if candidates.len() > 1 { shuffle(&candidates, experiment, seed)[place] } else { candidates[place] };
        let not_run = || format!("`{experiment}` was not run with seed {}", seed + 1);
        let mut metrics = rows[source].of_seed(seed).ok_or_else(not_run)?.clone();
        for (name, constant) in rival.iter().flat_map(|rival| &rival.set) {
            let metric = metrics.get_mut(name).ok_or_else(|| format!("`{experiment}` has no metric `{name}`"))?;
            *metric = constant.clone();
        }
        let mut read = self.read.lock().expect("no thread panics while it holds the lock");
        read.has_changed |= source != nth || rows[nth].of_seed(seed).is_some_and(|measured| *measured != metrics);
        read.answers.insert((experiment.to_string(), nth), source);
        read.sources.extend(candidates.into_iter().map(|candidate| (experiment.to_string(), candidate)));
        Ok(metrics)
    }
}

/// The points among which a rival shuffles results; without a shuffle, one point.
struct Source {
    /// Numbers of the points.
    candidates: Vec<usize>,
    /// Place in the shuffled order of the point whose results are used.
    place: usize,
}

impl Source {
    /// Returns the points whose results replace those of point number `nth`.
    fn of(rival: &Rival, experiment: &str, rows: &[Row], nth: usize) -> Result<Source, String> {
        let mut point = rows[nth].point.clone();
        for (axis, value) in &rival.is {
            // A point without the axis belongs to another experiment, and keeps its results.
            if let Some(own) = point.get_mut(axis) {
                *own = value.clone();
            }
        }
        let found = rows.iter().position(|other| other.point == point);
        let shown = || crate::experiment::shown(&point);
        let found = found.ok_or_else(|| format!("`{experiment}` has no point {} for the rival", shown()))?;
        let is_peer = |other: &Row| {
            matches(&other.point, &rival.of)
                && other
                    .point
                    .iter()
                    .all(|(axis, value)| rival.shuffled.contains(axis) || point.get(axis) == Some(value))
        };
        let candidates: Vec<usize> = (0..rows.len()).filter(|&other| is_peer(&rows[other])).collect();
        match candidates.iter().position(|&other| other == found) {
            Some(place) if !rival.shuffled.is_empty() => Ok(Source { candidates, place }),
            _ => Ok(Source { candidates: vec![found], place: 0 }),
        }
    }
}

/// Returns `numbers` in a random order that `seed` determines.
fn shuffle(numbers: &[usize], experiment: &str, seed: usize) -> Vec<usize> {
    let rank = |number: &usize| {
        let mut hash = blake3::Hasher::new();
        hash.update(b"shuffled").update(experiment.as_bytes());
        hash.update(&(seed as u64).to_le_bytes()).update(&(*number as u64).to_le_bytes());
        *hash.finalize().as_bytes()
    };
    let mut order = numbers.to_vec();
    order.sort_by_key(rank);
    order
}

/// Returns whether `point` has all values of `of`.
fn matches(point: &Point, of: &Point) -> bool {
    of.iter().all(|(axis, value)| point.get(axis) == Some(value))
}
