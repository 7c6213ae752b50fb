//! [`Layout`]: the positions of the panels, the axes and the legend of a [`Figure`].

use super::data::{Curve, Figure};
use super::pen::{Place, width};
use super::scale::{Scale, count, ends};
use crate::experiment::Kind;

/// Width of every picture. Unit: pixels.
pub(super) const WIDTH: f64 = 900.0;
pub(super) const MARGIN: f64 = 20.0;
pub(super) const ROW: f64 = 20.0;
pub(super) const SMALL: f64 = 12.0;
pub(super) const LABEL: f64 = 13.0;
/// Width of the sample line or mark in front of the text of a legend item. Unit: pixels.
pub(super) const SAMPLE: f64 = 26.0;

/// Top of the panels, below title and source. Unit: pixels.
const TOP: f64 = 68.0;
/// Height of a panel's frame by the number of columns, from 1. Unit: pixels.
const BODY: [f64; 3] = [400.0, 250.0, 190.0];
/// Height of a panel's title. Unit: pixels.
const HEAD: f64 = 22.0;
/// Distance between two columns of panels. Unit: pixels.
const GUTTER: f64 = 30.0;

/// Layout of a picture.
pub(super) struct Layout<'f> {
    pub(super) figure: &'f Figure,
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// Minimum and maximum value of a surface.
    pub(super) depth: [f64; 2],
    /// Smallest distance between two positions on the first axis. Unit: length of the axis.
    pub(super) gap: f64,
    /// Frame of each panel.
    pub(super) frames: Vec<Frame>,
    /// Number of rows of names below the first axis.
    pub(super) rows: usize,
    /// Height of the title of the first axis.
    pub(super) below: f64,
    /// Position of each item of the legend.
    pub(super) legend: Vec<(Place, Item)>,
    pub(super) height: f64,
}

/// Frame of a panel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    /// Whether the panel is in the first column, which has the labels of the second axis.
    pub(super) is_first: bool,
}

/// An item of the legend.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Item {
    /// A curve: number of a panel, and number of the curve in the panel.
    Curve(usize, usize),
    /// All values that the paper prints, in a picture of bars or boxes.
    Printed,
    /// A number that the paper prints without a position on the first axis, by its number.
    Level(usize),
    /// Colours of a surface.
    Depth,
    /// Explanation of boxes and intervals.
    Note(&'static str),
}

impl<'f> Layout<'f> {
    pub(super) fn of(figure: &'f Figure) -> Layout<'f> {
        let columns = match figure.panels.len() {
            0 | 1 => 1,
            2 | 4 => 2,
            _ => 3,
        };
        let [along, up] = figure.extent();
        let apart = if figure.log[0] { 0.025 * count(columns) } else { 0.0 };
        let x = match &figure.places {
            Some(names) => Scale::places(names),
            None if figure.log[0] => Scale::log(&along, figure.range[0]).marked_at(&along).thinned(apart),
            None => Scale::linear(&along, false, figure.range[0]),
        };
        let body = BODY[columns - 1];
        let y = vertical(figure, &up).thinned(if figure.rows.is_some() { 0.0 } else { 18.0 / body });
        let marks = y.ticks.iter().map(|(_, text)| width(text, SMALL)).fold(0.0, f64::max);
        let (left, right) = (MARGIN + LABEL + 12.0 + marks + 10.0, WIDTH - MARGIN - 8.0);
        let wide = (right - left - GUTTER * count(columns - 1)) / count(columns);
        let widest = x.ticks.iter().map(|(_, text)| width(text, SMALL) + 8.0).fold(0.0, f64::max);
        let x = if figure.places.is_some() { x } else { x.thinned(widest / wide) };
        let slot = wide / count(x.ticks.len().max(1));
        let is_narrow = |rows: &usize| widest <= slot * count(*rows);
        let rows = if figure.places.is_some() { (1..3).find(is_narrow).unwrap_or(3) } else { 1 };
        let head = if figure.panels.len() > 1 { HEAD } else { 0.0 };
        let step = head + body + 10.0 + ROW * count(rows);
        let frame = |nth: usize| {
            let (column, row) = (nth % columns, nth / columns);
            let left = left + count(column) * (wide + GUTTER);
            let top = TOP + head + count(row) * step;
            Frame { left, right: left + wide, top, bottom: top + body, is_first: column == 0 }
        };
        let frames: Vec<Frame> = (0..figure.panels.len()).map(frame).collect();
        let bottom = frames.last().map_or(TOP + body, |frame| frame.bottom);
        let below = bottom + 14.0 + ROW * count(rows);
        let (legend, end) = legend(figure, below + ROW + 14.0);
        let (low, high) = ends(figure.values()).unwrap_or((0.0, 1.0));
        let depth = figure.range[1].unwrap_or([low.min(0.0), if high > low.min(0.0) { high } else { low + 1.0 }]);
        let gap = gap(&x, along);
        Layout { figure, x, y, depth, gap, frames, rows, below, legend, height: end + MARGIN / 2.0 }
    }

    /// Returns the kind of drawing: a panel with many curves has points in place of lines and bars.
    pub(super) fn kind(&self) -> Kind {
        kind(self.figure)
    }
}

/// Returns the smallest distance between two of `values` on `scale`.
fn gap(scale: &Scale, mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.dedup();
    let shares: Vec<f64> = values.iter().map(|value| scale.share(*value)).collect();
    shares.windows(2).map(|two| two[1] - two[0]).filter(|gap| *gap > 0.0).fold(1.0, f64::min)
}

fn kind(figure: &Figure) -> Kind {
    match figure.kind {
        Kind::Lines | Kind::Bars if figure.is_crowded() => Kind::Points,
        kind => kind,
    }
}

/// Returns the scale of the second axis for values `up`.
fn vertical(figure: &Figure, up: &[f64]) -> Scale {
    if let Some((names, _)) = &figure.rows {
        return Scale::places(names);
    }
    match figure.kind {
        Kind::Cdf => Scale::linear(&[0.0, 0.5, 1.0], true, figure.range[1].or(Some([0.0, 1.0]))),
        _ if figure.log[1] => Scale::log(up, figure.range[1]),
        kind => {
            let (low, high) = ends(up.iter().copied()).unwrap_or((0.0, 1.0));
            let from_zero = kind == Kind::Bars || low >= 0.0 && low < high / 2.0 || low < 0.0 && high > 0.0;
            Scale::linear(up, from_zero, figure.range[1])
        }
    }
}

/// Returns the text of an item of the legend.
pub(super) fn item_text<'f>(figure: &'f Figure, item: &Item) -> &'f str {
    match item {
        Item::Curve(panel, nth) => &figure.panels[*panel].curves[*nth].name,
        Item::Printed => "paper",
        Item::Level(nth) => &figure.levels[*nth].name,
        Item::Depth => figure.rows.as_ref().map_or("", |(_, name)| name),
        Item::Note(text) => text,
    }
}

/// Width of the scale of colours in the legend. Unit: pixels.
pub(super) const DEPTH_WIDE: f64 = 240.0;

/// Returns the curves of the legend: each name once.
fn legend_curves(figure: &Figure) -> Vec<Item> {
    let has_columns = matches!(figure.kind, Kind::Bars | Kind::Boxes);
    let is_told = |curve: &Curve| !(has_columns && curve.is_papers && curve.column.is_some());
    let mut names: Vec<&str> = Vec::new();
    let mut items = Vec::new();
    for (nth, panel) in figure.panels.iter().enumerate() {
        for (curve, it) in panel.curves.iter().enumerate().filter(|(_, curve)| is_told(curve)) {
            if !names.contains(&it.name.as_str()) {
                names.push(&it.name);
                items.push(Item::Curve(nth, curve));
            }
        }
    }
    let has_printed = figure.panels.iter().flat_map(|panel| &panel.curves).any(|curve| !is_told(curve));
    if has_printed {
        items.push(Item::Printed);
    }
    items
}

/// Returns the items of the legend with their positions, starting at height `y`, and the height at which the legend
/// ends.
fn legend(figure: &Figure, y: f64) -> (Vec<(Place, Item)>, f64) {
    let mut items = legend_curves(figure);
    items.extend((0..figure.levels.len()).map(Item::Level));
    if items.len() == 1 {
        items.clear();
    }
    if figure.rows.is_some() {
        items.push(Item::Depth);
    }
    match figure.kind {
        Kind::Boxes => items.push(Item::Note("Boxes: quartiles and median; whiskers: 5 % to 95 %.")),
        _ if figure.has_intervals() => {
            items.push(Item::Note(
                "Medians over the seeds, with their 95 % intervals (fewer than six seeds: minimum to maximum).",
            ));
        }
        _ => {}
    }
    let mut placed: Vec<(Place, Item)> = Vec::new();
    let mut at = (MARGIN, y);
    for item in items {
        let sample = match item {
            Item::Note(_) => 0.0,
            Item::Depth => DEPTH_WIDE + 6.0,
            _ => SAMPLE + 6.0,
        };
        let wide = sample + width(item_text(figure, &item), SMALL) + 20.0;
        if at.0 > MARGIN && at.0 + wide > WIDTH - MARGIN {
            at = (MARGIN, at.1 + ROW);
        }
        placed.push((at, item));
        at.0 += wide;
    }
    let end = placed.last().map_or(y - ROW, |((_, y), _)| *y);
    (placed, end + ROW / 2.0)
}
