//! Drawing of a [`Layout`].

use super::data::{Cell, Curve, Mark, Panel};
use super::layout::{DEPTH_WIDE, Frame, Item, LABEL, Layout, MARGIN, ROW, SAMPLE, SMALL, item_text};
use super::pen::{AXIS, Anchor, Drawn, GRID, INK, MUTED, Pen, Place, colour, depth, width};
use super::scale::{count, shown};
use crate::experiment::Kind;
use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

/// Maximum number of marks that are drawn on a curve. A curve with more points is drawn as a line without marks.
const MARKS_MOST: usize = 40;
/// Number of the mark for values that the paper prints, over bars and boxes.
const PRINTED: usize = 3;
/// Maximum distance between neighbours that are drawn beside each other. Unit: pixels.
const ASIDE_MOST: f64 = 8.0;
/// Number of steps of the scale of colours in the legend.
const DEPTH_STEPS: usize = 24;

impl Layout<'_> {
    pub(super) fn draw<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Drawn<B> {
        pen.fill()?;
        pen.text((MARGIN, 26.0), &self.figure.title, 18.0, INK, Anchor::Start)?;
        pen.text((MARGIN, 48.0), &self.figure.about, SMALL, MUTED, Anchor::Start)?;
        for (panel, frame) in self.figure.panels.iter().zip(&self.frames) {
            Area { layout: self, panel, frame: *frame }.draw(pen)?;
        }
        let (Some(first), Some(last)) = (self.frames.first(), self.frames.last()) else { return Ok(()) };
        let right = self.frames.iter().map(|frame| frame.right).fold(0.0, f64::max);
        let middle = f64::midpoint(first.left, right);
        pen.text((middle, self.below), &self.figure.labels[0], LABEL, INK, Anchor::Middle)?;
        let beside = (MARGIN + 2.0, f64::midpoint(first.top, last.bottom));
        pen.text(beside, &self.figure.labels[1], LABEL, INK, Anchor::Upwards)?;
        self.legend.iter().try_for_each(|(at, item)| self.item(pen, *at, item))
    }

    fn item<B: DrawingBackend>(&self, pen: &Pen<'_, B>, (x, y): Place, item: &Item) -> Drawn<B> {
        let sample = [(x, y), (x + SAMPLE, y)];
        let middle = (x + SAMPLE / 2.0, y);
        let text = item_text(self.figure, item);
        match item {
            Item::Curve(panel, nth) => {
                let curve = &self.figure.panels[*panel].curves[*nth];
                let colour_of = colour(curve.colour);
                match self.kind() {
                    Kind::Bars => pen.block((x + 6.0, y - 6.0), (x + 20.0, y + 6.0), colour_of)?,
                    Kind::Boxes => pen.frame((x + 6.0, y - 6.0), (x + 20.0, y + 6.0), colour_of, 2.0)?,
                    Kind::Points => {}
                    Kind::Cdf if curve.is_papers => {}
                    _ if curve.is_papers => pen.dashes(&sample, colour_of, 1.4)?,
                    _ => pen.line(&sample, colour_of, 1.8)?,
                }
                if has_marks(self.kind(), curve) {
                    pen.mark(curve.colour, middle, colour_of, curve.is_papers)?;
                }
            }
            Item::Printed => pen.mark(PRINTED, middle, INK, true)?,
            Item::Level(nth) => pen.dashes(&sample, self.figure.levels[*nth].colour.map_or(INK, colour), 1.4)?,
            Item::Depth => return self.depth_scale(pen, (x, y), text),
            Item::Note(_) => return pen.text((x, y), text, SMALL, MUTED, Anchor::Start),
        }
        pen.text((x + SAMPLE + 6.0, y), text, SMALL, INK, Anchor::Start)
    }

    /// Draws the scale of the colours of a surface, with its ends.
    fn depth_scale<B: DrawingBackend>(&self, pen: &Pen<'_, B>, (x, y): Place, text: &str) -> Drawn<B> {
        let [low, high] = self.depth;
        let (from, to) = (x + 40.0, x + DEPTH_WIDE - 50.0);
        let step = (to - from) / count(DEPTH_STEPS);
        for nth in 0..DEPTH_STEPS {
            let left = from + step * count(nth);
            let share = count(nth) / count(DEPTH_STEPS - 1);
            pen.block((left, y - 6.0), (left + step + 0.5, y + 6.0), depth(share))?;
        }
        pen.frame((from, y - 6.0), (to, y + 6.0), AXIS, 1.0)?;
        pen.text((from - 6.0, y), &shown(low), SMALL, MUTED, Anchor::End)?;
        pen.text((to + 6.0, y), &shown(high), SMALL, MUTED, Anchor::Start)?;
        pen.text((x + DEPTH_WIDE + 6.0, y), text, SMALL, INK, Anchor::Start)
    }
}

/// Returns whether the points of `curve` have marks.
fn has_marks(kind: Kind, curve: &Curve) -> bool {
    let may_have = matches!(kind, Kind::Lines | Kind::Distribution);
    kind == Kind::Points
        || kind == Kind::Cdf && curve.is_papers
        || may_have && curve.marks.len() <= MARKS_MOST && curve.marks.iter().all(|it| it.bin.is_none())
}

/// A panel in its frame.
struct Area<'a, 'f> {
    layout: &'a Layout<'f>,
    panel: &'a Panel,
    frame: Frame,
}

impl Area<'_, '_> {
    fn at(&self, x: f64, y: f64) -> Place {
        let Frame { left, right, top, bottom, .. } = self.frame;
        let (along, up) = (self.layout.x.share(x), self.layout.y.share(y));
        (left + along * (right - left), bottom - up * (bottom - top))
    }

    fn draw<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Drawn<B> {
        let kind = self.layout.kind();
        self.axes(pen)?;
        self.panel.cells.iter().try_for_each(|cell| self.cell(pen, cell))?;
        self.levels(pen)?;
        let (papers, measured): (Vec<&Curve>, Vec<&Curve>) =
            self.panel.curves.iter().partition(|curve| curve.is_papers);
        // Curves of the paper are drawn before measured curves, so that full marks are visible inside the paper's
        // hollow marks. In figures with bars or boxes, the marks of the paper are drawn last, on top of them.
        let columns = matches!(kind, Kind::Bars | Kind::Boxes);
        let curves = if columns { [measured, papers] } else { [papers, measured] };
        for curve in curves.into_iter().flatten() {
            match kind {
                Kind::Bars | Kind::Boxes if curve.is_papers => self.printed(pen, curve)?,
                Kind::Bars => self.bars(pen, curve)?,
                Kind::Boxes => self.boxes(pen, curve)?,
                Kind::Cdf => self.steps(pen, curve)?,
                Kind::Points => self.points(pen, curve)?,
                Kind::Lines | Kind::Distribution => self.lines(pen, curve)?,
                Kind::Surface => {}
            }
        }
        pen.frame((self.frame.left, self.frame.top), (self.frame.right, self.frame.bottom), AXIS, 1.0)
    }

    fn axes<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Drawn<B> {
        let Layout { figure, x: along, y: up, rows, .. } = self.layout;
        let Frame { left, right, top, bottom, is_first } = self.frame;
        let has_grid = figure.rows.is_none();
        for (value, text) in &up.ticks {
            let (_, y) = self.at(0.0, *value);
            if has_grid {
                pen.line(&[(left, y), (right, y)], GRID, 1.0)?;
            }
            if is_first {
                pen.text((left - 8.0, y), text, SMALL, MUTED, Anchor::End)?;
            }
        }
        let room = (right - left) / count(along.ticks.len().max(1)) * count(*rows) - 6.0;
        for (nth, (value, text)) in along.ticks.iter().enumerate() {
            let (x, _) = self.at(*value, 0.0);
            if figure.places.is_none() {
                pen.line(&[(x, top), (x, bottom)], GRID, 1.0)?;
            }
            pen.line(&[(x, bottom), (x, bottom + 5.0)], AXIS, 1.0)?;
            let y = bottom + 16.0 + ROW * 0.8 * count(nth % rows);
            let text = if figure.places.is_some() { fit(text, room) } else { text.clone() };
            pen.text((x, y), &text, SMALL, MUTED, Anchor::Middle)?;
        }
        if figure.panels.len() > 1 {
            let title = fit(&self.panel.title, right - left);
            pen.text((left, top - 11.0), &title, SMALL, INK, Anchor::Start)?;
        }
        Ok(())
    }

    /// Draws the numbers of the paper that are positions on one axis.
    fn levels<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Drawn<B> {
        let scales = [&self.layout.x, &self.layout.y];
        let shown = self.layout.figure.levels.iter().filter(|level| scales[level.axis].holds(level.value));
        for level in shown {
            let (x, y) = self.at(level.value, level.value);
            let ends = if level.axis == 0 {
                [(x, self.frame.bottom), (x, self.frame.top)]
            } else {
                [(self.frame.left, y), (self.frame.right, y)]
            };
            pen.dashes(&ends, level.colour.map_or(INK, colour), 1.4)?;
        }
        Ok(())
    }

    /// Returns the marks of a curve that lie within the range of the horizontal axis.
    fn marks(&self, curve: &Curve) -> Vec<Mark> {
        curve.marks.iter().copied().filter(|mark| self.layout.x.holds(mark.x)).collect()
    }

    fn lines<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        let (marks, colour_of) = (self.marks(curve), colour(curve.colour));
        if marks.iter().any(|mark| mark.bin.is_some()) {
            return self.bins(pen, &marks, colour_of);
        }
        let points: Vec<Place> = marks.iter().map(|mark| self.at(mark.x, mark.y)).collect();
        if curve.is_papers {
            pen.dashes(&points, colour_of, 1.4)?;
        } else if self.layout.kind() == Kind::Distribution {
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

    /// Draws the outline of bins. The outline ends where there is no bin.
    fn bins<B: DrawingBackend>(&self, pen: &Pen<'_, B>, marks: &[Mark], colour: RGBColor) -> Drawn<B> {
        let ends: Vec<[f64; 2]> = marks.iter().filter_map(|mark| mark.bin).collect();
        let bins: Vec<(&Mark, [f64; 2])> = marks.iter().zip(ends).collect();
        for piece in bins.chunk_by(|(_, one), (_, other)| one[1].total_cmp(&other[0]).is_eq()) {
            let sides = piece.iter().flat_map(|(mark, [from, to])| [self.at(*from, mark.y), self.at(*to, mark.y)]);
            let line: Vec<Place> = sides.collect();
            pen.line(&line, colour, 1.8)?;
        }
        Ok(())
    }

    fn points<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        let (colour_of, aside) = (colour(curve.colour), self.aside(curve));
        for mark in self.marks(curve) {
            let (x, y) = self.at(mark.x, mark.y);
            let x = if self.layout.figure.places.is_some() { self.column(curve, mark.x).0 } else { x + aside };
            self.interval(pen, x, &mark, colour_of)?;
            pen.mark(curve.colour, (x, y), colour_of, curve.is_papers)?;
        }
        Ok(())
    }

    /// Returns the horizontal distance of the points of `curve` from their position. Points of many curves over an axis are
    /// drawn beside each other, so that all are visible.
    fn aside(&self, curve: &Curve) -> f64 {
        let curves = self.panel.curves.iter().filter(|curve| !curve.is_papers).count();
        let Some(column) = curve.column.filter(|_| self.layout.figure.kind == Kind::Lines) else { return 0.0 };
        let gap = self.layout.gap * (self.frame.right - self.frame.left);
        let each = (gap * 0.7 / count(curves)).min(ASIDE_MOST);
        (count(column) - count(curves.saturating_sub(1)) / 2.0) * each
    }

    /// Draws the interval from the low end of a mark to its high end, at `x` in the picture.
    fn interval<B: DrawingBackend>(&self, pen: &Pen<'_, B>, x: f64, mark: &Mark, colour: RGBColor) -> Drawn<B> {
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
            return marks
                .iter()
                .try_for_each(|mark| pen.mark(curve.colour, self.at(mark.x, mark.y), colour(curve.colour), true));
        }
        let mut points = Vec::new();
        let mut before = 0.0;
        for mark in &marks {
            points.extend([self.at(mark.x, before), self.at(mark.x, mark.y)]);
            before = mark.y;
        }
        if let Some(last) = points.last().copied() {
            points.push((self.frame.right, last.1));
        }
        pen.line(&points, colour(curve.colour), 1.8)
    }

    /// Returns the horizontal middle and the width of the bar, box or point of `curve` at position `place`.
    fn column(&self, curve: &Curve, place: f64) -> (f64, f64) {
        let curves = self.panel.curves.iter().filter(|curve| !curve.is_papers).count().max(1);
        let slot = (self.frame.right - self.frame.left) / count(self.layout.x.ticks.len().max(1));
        let each = (slot * 0.8 / count(curves)).min(60.0);
        let (middle, _) = self.at(place, 0.0);
        let Some(column) = curve.column else { return (middle, each) };
        (middle + (count(column) - count(curves - 1) / 2.0) * each, each * 0.86)
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

    /// Draws the values that the paper prints, over bars or boxes. A curve that is not measured has its own colour.
    fn printed<B: DrawingBackend>(&self, pen: &Pen<'_, B>, curve: &Curve) -> Drawn<B> {
        let is_own = curve.column.is_none();
        let (mark_of, colour_of) = if is_own { (curve.colour, colour(curve.colour)) } else { (PRINTED, INK) };
        for mark in self.marks(curve) {
            let (x, _) = self.column(curve, mark.x);
            pen.mark(mark_of, (x, self.at(mark.x, mark.y).1), colour_of, true)?;
        }
        Ok(())
    }

    /// Draws a cell of a surface. A cell without a value has a dash.
    fn cell<B: DrawingBackend>(&self, pen: &Pen<'_, B>, cell: &Cell) -> Drawn<B> {
        let Frame { left, right, top, bottom, .. } = self.frame;
        let wide = (right - left) / count(self.layout.x.ticks.len().max(1));
        let high = (bottom - top) / count(self.layout.y.ticks.len().max(1));
        let (x, y) = self.at(count(cell.column), count(cell.row));
        let Some(value) = cell.value else { return pen.text((x, y), "–", SMALL, MUTED, Anchor::Middle) };
        let [least, most] = self.layout.depth;
        let share = ((value - least) / (most - least)).clamp(0.0, 1.0);
        pen.block((x - wide / 2.0, y - high / 2.0), (x + wide / 2.0, y + high / 2.0), depth(share))
    }
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
        let at = |x: f64| Mark::plain(x, 1.0);
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
