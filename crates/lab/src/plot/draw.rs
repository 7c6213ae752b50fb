//! Layout and drawing of a [`Figure`].

use super::data::{Curve, Figure, Mark};
use super::pen::{AXIS, Anchor, Drawn, GRID, INK, MUTED, Pen, Place, colour, width};
use super::scale::{Scale, count};
use crate::experiment::Kind;
use plotters::prelude::DrawingBackend;

/// Width of every picture, and height of its frame. Unit: pixels.
pub(super) const WIDTH: f64 = 900.0;
const BODY: f64 = 400.0;

const MARGIN: f64 = 20.0;
/// Top of the frame, below title and source. Unit: pixels.
const TOP: f64 = 68.0;
const ROW: f64 = 20.0;
const SMALL: f64 = 12.0;
const LABEL: f64 = 13.0;
/// Maximum number of marks that are drawn on a curve. A curve with more points is drawn as a line without marks.
const MARKS_MOST: usize = 40;

/// Layout of a picture.
pub(super) struct Layout<'f> {
    figure: &'f Figure,
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    bottom: f64,
    /// Number of rows of names below the first axis.
    rows: usize,
    /// Position of each item of the legend.
    legend: Vec<(Place, Item)>,
    pub(super) height: f64,
}

/// An item of the legend.
#[derive(Clone, PartialEq, Debug)]
enum Item {
    /// A curve, by its number.
    Curve(usize),
    /// All values that the paper prints, in a picture of bars or boxes.
    Printed,
    /// Explanation of boxes and intervals.
    Note(&'static str),
}

impl<'f> Layout<'f> {
    pub(super) fn of(figure: &'f Figure) -> Layout<'f> {
        let [along, up] = figure.extent();
        let x = match &figure.places {
            Some(names) => Scale::places(names),
            None if figure.log[0] => Scale::log(&along, figure.range[0]).marked_at(&along),
            None => Scale::linear(&along, false, figure.range[0]),
        };
        let y = match figure.kind {
            Kind::Cdf => Scale::linear(&[0.0, 1.0], true, figure.range[1].or(Some([0.0, 1.0]))),
            _ if figure.log[1] => Scale::log(&up, figure.range[1]),
            kind => {
                let (low, high) = super::scale::ends(up.iter().copied()).unwrap_or((0.0, 1.0));
                let from_zero = kind == Kind::Bars || low >= 0.0 && low < high / 2.0 || low < 0.0 && high > 0.0;
                Scale::linear(&up, from_zero, figure.range[1])
            }
        };
        let marks = y.ticks.iter().map(|(_, text)| width(text, SMALL)).fold(0.0, f64::max);
        let (left, right) = (MARGIN + LABEL + 12.0 + marks + 10.0, WIDTH - MARGIN - 8.0);
        let slot = (right - left) / count(x.ticks.len().max(1));
        let widest = x.ticks.iter().map(|(_, text)| width(text, SMALL) + 8.0).fold(0.0, f64::max);
        let is_narrow = |rows: &usize| widest <= slot * count(*rows);
        let rows = if figure.places.is_some() { (1..3).find(is_narrow).unwrap_or(3) } else { 1 };
        let bottom = TOP + BODY;
        let begin = bottom + 10.0 + ROW * count(rows) + ROW + 18.0;
        let (legend, end) = legend(figure, begin);
        Layout { figure, x, y, left, right, bottom, rows, legend, height: end + MARGIN / 2.0 }
    }

    fn at(&self, x: f64, y: f64) -> Place {
        (self.left + self.x.share(x) * (self.right - self.left), self.bottom - self.y.share(y) * (self.bottom - TOP))
    }

    pub(super) fn draw<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Drawn<B> {
        pen.fill()?;
        pen.text((MARGIN, 26.0), &self.figure.title, 18.0, INK, Anchor::Start)?;
        pen.text((MARGIN, 48.0), &self.figure.about, SMALL, MUTED, Anchor::Start)?;
        self.axes(pen)?;
        let (papers, measured): (Vec<&Curve>, Vec<&Curve>) =
            self.figure.curves.iter().partition(|curve| curve.is_papers);
        // Curves of the paper are drawn before measured curves, so that full marks are visible inside the paper's
        // hollow marks. In figures with bars or boxes, the marks of the paper are drawn last, on top of them.
        let columns = matches!(self.figure.kind, Kind::Bars | Kind::Boxes);
        let curves = if columns { [measured, papers] } else { [papers, measured] };
        for curve in curves.into_iter().flatten() {
            match self.figure.kind {
                Kind::Bars | Kind::Boxes if curve.is_papers => self.printed(pen, curve)?,
                Kind::Bars => self.bars(pen, curve)?,
                Kind::Boxes => self.boxes(pen, curve)?,
                Kind::Cdf => self.steps(pen, curve)?,
                Kind::Lines | Kind::Distribution => self.lines(pen, curve)?,
            }
        }
        for (at, item) in &self.legend {
            self.item(pen, *at, item)?;
        }
        Ok(())
    }

    fn axes<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Drawn<B> {
        let Layout { left, right, bottom, .. } = *self;
        for (value, text) in &self.y.ticks {
            let (_, y) = self.at(0.0, *value);
            pen.line(&[(left, y), (right, y)], GRID, 1.0)?;
            pen.text((left - 8.0, y), text, SMALL, MUTED, Anchor::End)?;
        }
        let room = (right - left) / count(self.x.ticks.len().max(1)) * count(self.rows) - 6.0;
        for (nth, (value, text)) in self.x.ticks.iter().enumerate() {
            let (x, _) = self.at(*value, 0.0);
            if self.figure.places.is_none() {
                pen.line(&[(x, TOP), (x, bottom)], GRID, 1.0)?;
            }
            pen.line(&[(x, bottom), (x, bottom + 5.0)], AXIS, 1.0)?;
            let y = bottom + 16.0 + ROW * 0.8 * count(nth % self.rows);
            let text = if self.figure.places.is_some() { fit(text, room) } else { text.clone() };
            pen.text((x, y), &text, SMALL, MUTED, Anchor::Middle)?;
        }
        pen.frame((left, TOP), (right, bottom), AXIS, 1.0)?;
        let middle = f64::midpoint(left, right);
        let below = bottom + 14.0 + ROW * count(self.rows);
        pen.text((middle, below), &self.figure.labels[0], LABEL, INK, Anchor::Middle)?;
        let beside = (MARGIN + 2.0, f64::midpoint(TOP, bottom));
        pen.text(beside, &self.figure.labels[1], LABEL, INK, Anchor::Upwards)
    }

    /// Returns the marks of a curve that lie within the range of the horizontal axis.
    fn marks(&self, curve: &Curve) -> Vec<Mark> {
        curve.marks.iter().copied().filter(|mark| self.x.holds(mark.x)).collect()
    }

    fn lines<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        let (marks, colour_of) = (self.marks(curve), colour(curve.colour));
        let points: Vec<Place> = marks.iter().map(|mark| self.at(mark.x, mark.y)).collect();
        if curve.is_papers {
            pen.dashes(&points, colour_of, 1.4)?;
        } else if self.figure.kind == Kind::Distribution {
            for piece in pieces(&marks).map(|piece| &points[piece]) {
                match piece {
                    [alone] => pen.dot(*alone, colour_of)?,
                    piece => pen.line(piece, colour_of, 1.8)?,
                }
            }
        } else {
            pen.line(&points, colour_of, 1.8)?;
        }
        if marks.len() > MARKS_MOST {
            let up = marks.iter().map(|mark| self.at(mark.x, mark.high));
            let back = marks.iter().rev().map(|mark| self.at(mark.x, mark.low));
            let is_wide = marks.iter().any(|mark| mark.low < mark.high);
            return if is_wide { pen.band(&up.chain(back).collect::<Vec<_>>(), colour_of) } else { Ok(()) };
        }
        for (mark, at) in marks.iter().zip(points) {
            self.interval(pen, at.0, mark, colour_of)?;
            pen.mark(curve.colour, at, colour_of, curve.is_papers)?;
        }
        Ok(())
    }

    /// Draws the interval from the low end of a mark to its high end, at `x` in the picture.
    fn interval<B: DrawingBackend>(
        &self,
        pen: &Pen<'_, B>,
        x: f64,
        mark: &Mark,
        colour: plotters::style::RGBColor,
    ) -> Drawn<B> {
        if mark.low >= mark.high {
            return Ok(());
        }
        let ((_, low), (_, high)) = (self.at(mark.x, mark.low), self.at(mark.x, mark.high));
        pen.line(&[(x, low), (x, high)], colour, 1.2)?;
        pen.line(&[(x - 4.0, low), (x + 4.0, low)], colour, 1.2)?;
        pen.line(&[(x - 4.0, high), (x + 4.0, high)], colour, 1.2)
    }

    fn steps<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        let marks = self.marks(curve);
        if curve.is_papers {
            let points: Vec<Place> = marks.iter().map(|mark| self.at(mark.x, mark.y)).collect();
            return pen.dashes(&points, colour(curve.colour), 1.4);
        }
        let mut points = Vec::new();
        let mut before = 0.0;
        for mark in &marks {
            points.extend([self.at(mark.x, before), self.at(mark.x, mark.y)]);
            before = mark.y;
        }
        if let Some(last) = points.last().copied() {
            points.push((self.right, last.1));
        }
        pen.line(&points, colour(curve.colour), 1.8)
    }

    /// Returns the horizontal middle and the width of the bar or box of `curve` at position `place`.
    fn column(&self, curve: &Curve, place: f64) -> (f64, f64) {
        let curves = self.figure.curves.iter().filter(|curve| !curve.is_papers).count().max(1);
        let slot = (self.right - self.left) / count(self.x.ticks.len().max(1));
        let each = (slot * 0.8 / count(curves)).min(60.0);
        let (middle, _) = self.at(place, 0.0);
        if curve.colour >= curves {
            return (middle, each);
        }
        (middle + (count(curve.colour) - count(curves - 1) / 2.0) * each, each * 0.86)
    }

    fn bars<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        for mark in self.marks(curve) {
            let (x, wide) = self.column(curve, mark.x);
            let ((_, from), (_, to)) = (self.at(mark.x, 0.0), self.at(mark.x, mark.y));
            pen.block((x - wide / 2.0, from.min(to)), (x + wide / 2.0, from.max(to)), colour(curve.colour))?;
            self.interval(pen, x, &mark, INK)?;
        }
        Ok(())
    }

    fn boxes<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        for mark in self.marks(curve) {
            let (x, wide) = self.column(curve, mark.x);
            let (half, colour_of) = (wide.min(36.0) / 2.0, colour(curve.colour));
            let height = |value| self.at(mark.x, value).1;
            let (first, third) = (height(mark.quartiles[0]), height(mark.quartiles[1]));
            pen.line(&[(x, height(mark.low)), (x, first)], colour_of, 1.2)?;
            pen.line(&[(x, third), (x, height(mark.high))], colour_of, 1.2)?;
            for end in [mark.low, mark.high] {
                pen.line(&[(x - half / 2.0, height(end)), (x + half / 2.0, height(end))], colour_of, 1.2)?;
            }
            let corners = [(x - half, first), (x + half, first), (x + half, third), (x - half, third)];
            pen.band(&corners, colour_of)?;
            pen.frame((x - half, third), (x + half, first), colour_of, 1.4)?;
            pen.line(&[(x - half, height(mark.y)), (x + half, height(mark.y))], colour_of, 2.4)?;
        }
        Ok(())
    }

    /// Draws the values that the paper prints, over bars or boxes.
    fn printed<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        for mark in self.marks(curve) {
            let (x, _) = self.column(curve, mark.x);
            pen.mark(PRINTED, (x, self.at(mark.x, mark.y).1), INK, true)?;
        }
        Ok(())
    }

    fn item<B: DrawingBackend>(&self, pen: &Pen<'_, B>, (x, y): Place, item: &Item) -> Drawn<B> {
        let sample = [(x, y), (x + SAMPLE, y)];
        let middle = (x + SAMPLE / 2.0, y);
        let text = item_text(self.figure, item);
        match item {
            Item::Curve(nth) => {
                let curve = &self.figure.curves[*nth];
                let colour_of = colour(curve.colour);
                match self.figure.kind {
                    Kind::Bars => pen.block((x + 6.0, y - 6.0), (x + 20.0, y + 6.0), colour_of)?,
                    Kind::Boxes => pen.frame((x + 6.0, y - 6.0), (x + 20.0, y + 6.0), colour_of, 2.0)?,
                    _ if curve.is_papers => pen.dashes(&sample, colour_of, 1.4)?,
                    _ => pen.line(&sample, colour_of, 1.8)?,
                }
                let has_marks = matches!(self.figure.kind, Kind::Lines | Kind::Distribution);
                if has_marks && curve.marks.len() <= MARKS_MOST {
                    pen.mark(curve.colour, middle, colour_of, curve.is_papers)?;
                }
            }
            Item::Printed => pen.mark(PRINTED, middle, INK, true)?,
            Item::Note(_) => return pen.text((x, y), text, SMALL, MUTED, Anchor::Start),
        }
        pen.text((x + SAMPLE + 6.0, y), text, SMALL, INK, Anchor::Start)
    }
}

/// Number of the mark for values that the paper prints, over bars and boxes.
const PRINTED: usize = 3;
/// Width of the sample line or mark in front of the text of a legend item. Unit: pixels.
const SAMPLE: f64 = 26.0;

fn item_text<'f>(figure: &'f Figure, item: &Item) -> &'f str {
    match item {
        Item::Curve(nth) => &figure.curves[*nth].name,
        Item::Printed => "paper",
        Item::Note(text) => text,
    }
}

/// Returns the items of the legend with their positions, starting at height `y`, and the height at which the legend
/// ends.
fn legend(figure: &Figure, y: f64) -> (Vec<(Place, Item)>, f64) {
    let columns = matches!(figure.kind, Kind::Bars | Kind::Boxes);
    let mut items = Vec::new();
    if figure.curves.len() > 1 {
        let is_told = |curve: &Curve| !(columns && curve.is_papers);
        items.extend((0..figure.curves.len()).filter(|nth| is_told(&figure.curves[*nth])).map(Item::Curve));
        if columns && figure.curves.iter().any(|curve| curve.is_papers) {
            items.push(Item::Printed);
        }
    }
    let has_intervals = figure.curves.iter().flat_map(|curve| &curve.marks).any(|mark| mark.low < mark.high);
    match figure.kind {
        Kind::Boxes => items.push(Item::Note("Boxes: quartiles and median; whiskers: 5 % to 95 %.")),
        Kind::Lines | Kind::Bars if has_intervals => {
            items.push(Item::Note(
                "Medians over the seeds, with their 95 % intervals (fewer than six seeds: minimum to maximum).",
            ));
        }
        _ => {}
    }
    let mut placed: Vec<(Place, Item)> = Vec::new();
    let mut at = (MARGIN, y);
    for item in items {
        let sample = if matches!(item, Item::Note(_)) { 0.0 } else { SAMPLE + 6.0 };
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

/// Returns the ranges of consecutive `marks` that a line joins. A line ends at a gap of more than 1.5 times the
/// smallest gap.
fn pieces(marks: &[Mark]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let steps = marks.windows(2).map(|two| two[1].x - two[0].x);
    let gap = steps.fold(f64::INFINITY, f64::min) * 1.5;
    let mut from = 0;
    let ends = (1..=marks.len()).filter(move |&end| end == marks.len() || marks[end].x - marks[end - 1].x > gap);
    ends.map(move |end| std::mem::replace(&mut from, end)..end)
}

/// Shortens `text` to at most `room` pixels.
fn fit(text: &str, room: f64) -> String {
    if width(text, SMALL) <= room {
        return text.to_string();
    }
    let mut kept = text.to_string();
    while kept.pop().is_some() && width(&format!("{kept}…"), SMALL) > room {}
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_joined_where_there_is_no_gap_between_them() {
        let at = |x: f64| Mark { x, y: 1.0, low: 1.0, high: 1.0, quartiles: [1.0, 1.0] };
        let marks: Vec<Mark> = [1.0, 2.0, 3.0, 7.0, 9.0, 10.0].into_iter().map(at).collect();
        assert_eq!(pieces(&marks).collect::<Vec<_>>(), [0..3, 3..4, 4..6]);
        assert!(pieces(&marks[..1]).eq(std::iter::once(0..1)));
        assert_eq!(pieces(&[]).count(), 0);
    }

    #[test]
    fn what_has_no_room_is_cut() {
        assert_eq!(fit("short", 100.0), "short");
        let cut = fit("streamcluster and more", 60.0);
        assert!(cut.ends_with('…') && width(&cut, SMALL) <= 60.0, "{cut}");
    }
}
