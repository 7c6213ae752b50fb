//! [`Figure`]: the data of a plot, before drawing.

use super::scale::count;
use crate::experiment::Kind;

/// Maximum number of curves in a panel that lines or bars can show legibly.
pub(super) const CURVES_MOST: usize = 6;

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
    /// Labels of the rows of a surface, from bottom to top, and the name of the metric that its colours show.
    pub(super) rows: Option<(Vec<String>, String)>,
    pub(super) log: [bool; 2],
    pub(super) range: [Option<[f64; 2]>; 2],
    /// Panels with the same axes.
    pub(super) panels: Vec<Panel>,
    pub(super) levels: Vec<Level>,
}

/// A part of a figure with axes of its own.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Panel {
    /// Values of the axes that distinguish panels; empty if there is one panel.
    pub(super) title: String,
    pub(super) curves: Vec<Curve>,
    /// Cells of a surface.
    pub(super) cells: Vec<Cell>,
}

/// A curve, measured or printed in the paper.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    /// Number of the colour. A measured curve and the curve of the paper for the same values have the same colour and
    /// mark. Curves of the same name in several panels have the same colour.
    pub(super) colour: usize,
    /// Number of the curve among the measured curves of its panel. `None`: the paper prints a curve that is not
    /// measured.
    pub(super) column: Option<usize>,
    pub(super) is_papers: bool,
    pub(super) marks: Vec<Mark>,
}

/// A value with its interval, a box with its whiskers, or a bin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Quartiles of a box.
    pub(super) quartiles: [f64; 2],
    /// Ends of a bin on the first axis.
    pub(super) bin: Option<[f64; 2]>,
}

impl Mark {
    pub(super) fn plain(x: f64, y: f64) -> Mark {
        Mark { x, y, low: y, high: y, quartiles: [y, y], bin: None }
    }
}

/// A number of the paper that is a position on one axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Level {
    pub(super) name: String,
    pub(super) value: f64,
    /// Axis on which the number has its position: 0 for a vertical line, 1 for a horizontal line.
    pub(super) axis: usize,
    /// Number of the colour of the curve that the number is about; `None`: no particular curve.
    pub(super) colour: Option<usize>,
}

/// A value of a surface, by column and row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cell {
    pub(super) column: usize,
    pub(super) row: usize,
    /// Median over the seeds; `None`: nothing was measured.
    pub(super) value: Option<f64>,
}

impl Figure {
    /// Returns the cumulative distribution of each of `samples`, which are named lists of numbers. `label` names the
    /// numbers, with their unit.
    #[must_use]
    pub fn of_samples(title: &str, about: &str, label: &str, samples: Vec<(String, Vec<f64>)>) -> Figure {
        let curve = |(colour, (name, values)): (usize, (String, Vec<f64>))| Curve {
            name,
            colour,
            column: Some(colour),
            is_papers: false,
            marks: steps(values),
        };
        Figure {
            title: title.to_string(),
            about: about.to_string(),
            kind: Kind::Cdf,
            labels: [label.to_string(), "fraction".to_string()],
            places: None,
            rows: None,
            log: [false; 2],
            range: [None; 2],
            panels: vec![Panel { curves: samples.into_iter().enumerate().map(curve).collect(), ..Panel::default() }],
            levels: Vec::new(),
        }
    }

    /// Returns the positions of all marks along the first axis, and the ends of their intervals along the second axis.
    pub(super) fn extent(&self) -> [Vec<f64>; 2] {
        let marks = || self.panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.marks);
        let along = marks().flat_map(|mark| mark.bin.unwrap_or([mark.x, mark.x]));
        let up = marks().flat_map(|mark| [mark.low, mark.high]);
        let levels = |axis| self.levels.iter().filter(move |level| level.axis == axis).map(|level| level.value);
        [along.chain(levels(0)).collect(), up.chain(levels(1)).collect()]
    }

    /// Returns all values of a surface.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.panels.iter().flat_map(|panel| &panel.cells).filter_map(|cell| cell.value)
    }

    /// Returns whether a panel has more measured curves than lines or bars can show legibly.
    pub(super) fn is_crowded(&self) -> bool {
        let measured = |panel: &Panel| panel.curves.iter().filter(|curve| !curve.is_papers).count();
        self.panels.iter().any(|panel| measured(panel) > CURVES_MOST)
    }

    /// Returns whether the figure has intervals over the seeds.
    #[must_use]
    pub fn has_intervals(&self) -> bool {
        let mut marks = self.panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.marks);
        matches!(self.kind, Kind::Lines | Kind::Points | Kind::Bars) && marks.any(|mark| mark.low < mark.high)
    }
}

/// Returns the steps of the cumulative distribution of `values`.
pub(super) fn steps(mut values: Vec<f64>) -> Vec<Mark> {
    values.sort_by(f64::total_cmp);
    let size = count(values.len());
    // If there are too many values, only every n-th value and the last value have a step.
    let every = values.len().div_ceil(CDF_MOST).max(1);
    let is_kept = |nth: usize| nth.is_multiple_of(every) || nth + 1 == values.len();
    let kept = values.iter().enumerate().filter(|(nth, _)| is_kept(*nth));
    kept.map(|(nth, value)| Mark::plain(*value, count(nth + 1) / size)).collect()
}

/// Maximum number of steps of a drawn CDF.
const CDF_MOST: usize = 400;
