//! [`Pen`]: draws the lines, marks and text of a picture, at positions in picture pixels. A bitmap may have several
//! pixels per picture pixel.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::prelude::{Color, DrawingArea, DrawingBackend, IntoFont, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, FontTransform, IntoTextStyle, ShapeStyle, register_font};
use std::sync::Once;

/// Colours of text, secondary text, frames, grid lines and the background.
pub(super) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub(super) const MUTED: RGBColor = RGBColor(0x65, 0x6d, 0x76);
pub(super) const AXIS: RGBColor = RGBColor(0x8c, 0x95, 0x9f);
pub(super) const GRID: RGBColor = RGBColor(0xea, 0xee, 0xf2);
pub(super) const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// Colours of curves that colour-blind people can distinguish: the set of Okabe and Ito (2008), with yellow darkened
/// for contrast against white and [`INK`] in place of black.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xb3, 0xa1, 0x00),
    INK,
];

/// Returns the colour of curve number `nth`. The colours repeat, alternately in a paler and in their full tone.
pub(super) fn colour(nth: usize) -> RGBColor {
    let full = COLOURS[nth % COLOURS.len()];
    let is_pale = (nth / COLOURS.len()) % 2 == 1;
    let paler = |part: u8| part.midpoint(0xff);
    if is_pale { RGBColor(paler(full.0), paler(full.1), paler(full.2)) } else { full }
}

/// Colours of the low and the high end of a surface. The low end is visible against [`PAPER`].
const DEPTH: [RGBColor; 2] = [RGBColor(0xf0, 0xf4, 0xf8), RGBColor(0x0b, 0x2a, 0x5b)];

/// Returns the colour of a surface at `share` of its range, from 0 to 1: light to dark.
pub(super) fn depth(share: f64) -> RGBColor {
    let [low, high] = DEPTH;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two parts of colours")]
    let part = |low: u8, high: u8| (f64::from(low) + (f64::from(high) - f64::from(low)) * share + 0.5) as u8;
    RGBColor(part(low.0, high.0), part(low.1, high.1), part(low.2, high.2))
}

/// Size of hollow marks relative to full marks. Hollow marks are larger, so that both are visible at the same position.
const HOLLOW: f64 = 1.5;

/// A position in a picture.
pub(super) type Place = (f64, f64);
pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

const FAMILY: &str = "sans-serif";
/// Ratio of the font size in plotters to the size of the letters. The font size includes the room above and below the
/// letters.
const SIZE: f64 = 1.24;

/// Registers the font with plotters, once.
fn with_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let taken = register_font(FAMILY, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
        assert!(taken.is_ok(), "the font is a good one");
    });
}

/// Returns the width of `text` in letters of `size`.
pub(super) fn width(text: &str, size: f64) -> f64 {
    with_font();
    let measured = (FAMILY, size * SIZE).into_font().box_size(text);
    f64::from(measured.expect("the font is there").0)
}

/// Alignment of text relative to its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
    /// Centred on the position, and read upwards.
    Upwards,
}

/// Drawing primitives of a picture.
pub(super) struct Pen<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    /// Number of bitmap pixels per picture pixel.
    scale: f64,
    /// Downward correction of horizontal text: in bitmaps, plotters draws text too high. 0 in SVG documents. Unit: size
    /// of the text.
    low: f64,
}

/// Value of `low` in bitmaps.
const BITMAP_LOW: f64 = 0.2;

impl<'a, B: DrawingBackend> Pen<'a, B> {
    pub(super) fn new(area: &'a DrawingArea<B, Shift>, scale: u32) -> Pen<'a, B> {
        with_font();
        // In SVG documents, the viewer centres text, so no correction is needed.
        let low = if scale > 1 { BITMAP_LOW } else { 0.0 };
        Pen { area, scale: f64::from(scale), low }
    }

    fn at(&self, (x, y): Place) -> (i32, i32) {
        (self.length(x), self.length(y))
    }

    #[expect(clippy::cast_possible_truncation, reason = "a picture is small")]
    fn length(&self, length: f64) -> i32 {
        libm::round(length * self.scale) as i32
    }

    fn stroke(&self, colour: RGBColor, width: f64) -> ShapeStyle {
        colour.stroke_width(self.length(width).max(1).unsigned_abs())
    }

    pub(super) fn fill(&self) -> Drawn<B> {
        self.area.fill(&PAPER)
    }

    pub(super) fn line(&self, points: &[Place], colour: RGBColor, width: f64) -> Drawn<B> {
        let points: Vec<_> = points.iter().map(|point| self.at(*point)).collect();
        if points.len() < 2 {
            return Ok(());
        }
        let stroke = self.stroke(colour, width);
        if self.low == 0.0 {
            return self.area.draw(&PathElement::new(points, stroke));
        }
        // In bitmaps, plotters extends the outer edge of a sharp corner far beyond the corner, so each segment is a
        // separate path.
        points.windows(2).try_for_each(|two| self.area.draw(&PathElement::new(two.to_vec(), stroke)))
    }

    /// Draws a small mark, for a value that no line joins to other values.
    pub(super) fn dot(&self, at: Place, colour: RGBColor) -> Drawn<B> {
        self.area.draw(&Circle::new(self.at(at), self.length(1.5), colour.filled()))
    }

    /// Draws a dashed line through `points`.
    pub(super) fn dashes(&self, points: &[Place], colour: RGBColor, width: f64) -> Drawn<B> {
        for dash in dashes(points, 6.0, 4.0) {
            self.line(&dash, colour, width)?;
        }
        Ok(())
    }

    /// Fills the area within `points` with a transparent colour.
    pub(super) fn band(&self, points: &[Place], colour: RGBColor) -> Drawn<B> {
        let points: Vec<_> = points.iter().map(|point| self.at(*point)).collect();
        self.area.draw(&Polygon::new(points, colour.mix(0.18).filled()))
    }

    pub(super) fn block(&self, from: Place, to: Place, colour: RGBColor) -> Drawn<B> {
        self.area.draw(&Rectangle::new([self.at(from), self.at(to)], colour.filled()))
    }

    pub(super) fn frame(&self, from: Place, to: Place, colour: RGBColor, width: f64) -> Drawn<B> {
        let corners = [from, (to.0, from.1), to, (from.0, to.1), from];
        self.line(&corners, colour, width)
    }

    pub(super) fn text(&self, at: Place, text: &str, size: f64, colour: RGBColor, anchor: Anchor) -> Drawn<B> {
        let (across, turn) = match anchor {
            Anchor::Start => (HPos::Left, FontTransform::None),
            Anchor::Middle => (HPos::Center, FontTransform::None),
            Anchor::End => (HPos::Right, FontTransform::None),
            Anchor::Upwards => (HPos::Center, FontTransform::Rotate270),
        };
        let at = if anchor == Anchor::Upwards { at } else { (at.0, at.1 + self.low * size) };
        let font = (FAMILY, size * SIZE * self.scale).into_font().transform(turn);
        let style = font.into_text_style(self.area).color(&colour).pos(Pos::new(across, VPos::Center));
        self.area.draw_text(text, &style, self.at(at))
    }

    /// Draws the mark of curve number `nth`. Marks of values that a paper prints are hollow.
    pub(super) fn mark(&self, nth: usize, at: Place, colour: RGBColor, is_hollow: bool) -> Drawn<B> {
        let shape: &[Place] = match nth % 6 {
            0 => {
                let radius = self.length(if is_hollow { 3.6 * HOLLOW } else { 3.6 });
                if is_hollow {
                    self.area.draw(&Circle::new(self.at(at), radius, PAPER.filled()))?;
                    return self.area.draw(&Circle::new(self.at(at), radius, self.stroke(colour, 1.4)));
                }
                return self.area.draw(&Circle::new(self.at(at), radius, colour.filled()));
            }
            1 => &[(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)],
            2 => &[(0.0, -4.6), (4.3, 3.0), (-4.3, 3.0)],
            3 => &[(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)],
            4 => &[(0.0, 4.6), (4.3, -3.0), (-4.3, -3.0)],
            _ => &[(-4.0, -1.6), (0.0, -4.6), (4.0, -1.6), (2.6, 3.6), (-2.6, 3.6)],
        };
        let times = if is_hollow { HOLLOW } else { 1.0 };
        let mut corners: Vec<Place> = shape.iter().map(|(x, y)| (at.0 + x * times, at.1 + y * times)).collect();
        let points: Vec<_> = corners.iter().map(|corner| self.at(*corner)).collect();
        self.area.draw(&Polygon::new(points, if is_hollow { PAPER.filled() } else { colour.filled() }))?;
        if is_hollow {
            corners.push(corners[0]);
            self.line(&corners, colour, 1.4)?;
        }
        Ok(())
    }
}

/// Returns the dashes of the line through `points`. Dashes have the length `on` and are `off` apart.
fn dashes(points: &[Place], on: f64, off: f64) -> Vec<Vec<Place>> {
    let mut all: Vec<Vec<Place>> = Vec::new();
    let (mut is_on, mut left) = (true, on);
    let mut dash: Vec<Place> = points.first().copied().into_iter().collect();
    for two in points.windows(2) {
        let ((x, y), to) = (two[0], two[1]);
        let length = libm::hypot(to.0 - x, to.1 - y);
        let mut gone = 0.0;
        while length - gone > left {
            gone += left;
            let at = (x + (to.0 - x) * gone / length, y + (to.1 - y) * gone / length);
            if is_on {
                dash.push(at);
                all.push(std::mem::take(&mut dash));
            } else {
                dash = vec![at];
            }
            is_on = !is_on;
            left = if is_on { on } else { off };
        }
        left -= length - gone;
        if is_on {
            dash.push(to);
        }
    }
    all.push(dash);
    all.retain(|dash| dash.len() > 1);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_into_dashes_around_its_corners() {
        let corner = [(0.0, 0.0), (8.0, 0.0), (8.0, 8.0)];
        assert_eq!(
            dashes(&corner, 6.0, 4.0),
            [vec![(0.0, 0.0), (6.0, 0.0)], vec![(8.0, 2.0), (8.0, 8.0)]],
            "6 on, 4 off around the corner, 6 on"
        );
        assert_eq!(dashes(&corner[..1], 6.0, 4.0), Vec::<Vec<Place>>::new());
    }

    #[test]
    fn curves_that_are_many_have_colours_of_their_own() {
        let all: std::collections::BTreeSet<_> = (0..16).map(colour).map(|RGBColor(r, g, b)| (r, g, b)).collect();
        assert_eq!(all.len(), 16);
    }

    #[test]
    fn text_is_measured_without_a_font_of_the_system() {
        assert!(width("wide", 12.0) > width("i", 12.0));
        assert!((width("throughput", 24.0) / width("throughput", 12.0) - 2.0).abs() < 0.1);
    }
}
