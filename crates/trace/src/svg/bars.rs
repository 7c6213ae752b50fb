//! [`Bars`]: a picture of stacked bars, each of which is a time that consists of parts.

use super::canvas::{Anchor, Canvas, Px, Type};
use super::contents::shell;
use super::legend::COLOURS;
use super::style::{BODY, FONT_SMALL, INK, MARGIN, MUTED, NAME_MOST, WAITING, fit, pretty, wide};
use sched::Nanos;

/// Width of the picture, and height of a bar and of its row.
const WIDTH: Px = Px::of(960);
const BAR: Px = Px::of(16);
const ROW: Px = Px::of(24);
/// Room for the total at the right of a bar.
const TOTAL: Px = Px::of(70);
/// Width of a legend's sample with its gap.
const SAMPLE: Px = Px::of(22);

/// A bar: its label, and its parts in the order of [`Bars::parts`].
#[derive(Clone, Debug)]
pub struct Bar {
    /// Text at the left of the bar.
    pub label: String,
    /// Further text, which is shown as a tooltip.
    pub about: String,
    /// The parts.
    pub parts: Vec<Nanos>,
}

/// Stacked bars, from top to bottom. All have one scale.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Text at the top.
    pub title: String,
    /// Text below it.
    pub about: String,
    /// The meanings of the parts. The last one, of at most seven, is grey.
    pub parts: Vec<String>,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// Draws the picture as a complete SVG document.
    #[must_use]
    pub fn render(&self) -> String {
        let mut canvas = Canvas::default();
        let how = |size, weight, fill| Type { size, weight, fill, anchor: Anchor::Start };
        canvas.text((MARGIN, Px::of(30)), how(17, 600, INK), &self.title);
        canvas.text((MARGIN, Px::of(49)), how(12, 400, MUTED), &self.about);
        let labels: Vec<String> = self.bars.iter().map(|bar| fit(&bar.label, NAME_MOST)).collect();
        let left = labels.iter().map(|label| wide(label, 700)).max().unwrap_or_default() + MARGIN + Px::of(10);
        let width = WIDTH - left - TOTAL - MARGIN;
        let longest = self.bars.iter().map(Bar::total).max().unwrap_or_default().max(Nanos::ns(1));
        let mut y = BODY;
        for (bar, label) in self.bars.iter().zip(&labels) {
            let end = Type { size: FONT_SMALL, weight: 400, fill: INK, anchor: Anchor::End };
            canvas.text((left - Px::of(10), y + Px::of(12)), end, label);
            self.draw(&mut canvas, bar, (left, y), width, longest);
            y += ROW;
        }
        y = self.legend(&mut canvas, y + Px::of(10));
        shell(&self.title, (WIDTH, y + MARGIN), "", "", &canvas.into_text())
    }

    /// Draws a bar, and its total.
    fn draw(&self, canvas: &mut Canvas, bar: &Bar, (left, y): (Px, Px), width: Px, longest: Nanos) {
        let place = |time: Nanos| {
            let of_longest = u128::from(time.as_ns()) * width.as_hundredths().unsigned_abs() as u128;
            Px::hundredths(i64::try_from(of_longest / u128::from(longest.as_ns())).expect("it is within the width"))
        };
        let mut begin = Nanos::ZERO;
        for (nth, (part, what)) in bar.parts.iter().zip(&self.parts).enumerate() {
            let (from, to) = (place(begin), place(begin + *part));
            begin += *part;
            if to > from {
                let label = format!("{}: {what}: {}", bar.about, pretty(rounded(*part)));
                let attributes = format!("fill=\"{}\"", self.colour(nth));
                canvas.labelled_block((left + from, y), (to - from, BAR), &attributes, &label);
            }
        }
        let how = Type { size: FONT_SMALL, weight: 400, fill: MUTED, anchor: Anchor::Start };
        canvas.text((left + place(begin) + Px::of(6), y + Px::of(12)), how, &pretty(rounded(bar.total())));
    }

    fn colour(&self, nth: usize) -> &'static str {
        if nth + 1 == self.parts.len() { WAITING } else { COLOURS[nth % COLOURS.len()].0 }
    }

    /// Draws the meanings of the colours from `y` on. Returns the end.
    fn legend(&self, canvas: &mut Canvas, mut y: Px) -> Px {
        let mut x = MARGIN;
        for (nth, part) in self.parts.iter().enumerate() {
            let needed = SAMPLE + wide(part, 620) + Px::of(16);
            if x > MARGIN && x + needed > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + Px::of(20));
            }
            canvas.block(
                (x, y + Px::of(4)),
                (Px::of(16), Px::of(12)),
                &format!("rx=\"1.5\" fill=\"{}\"", self.colour(nth)),
            );
            let how = Type { size: FONT_SMALL, weight: 400, fill: MUTED, anchor: Anchor::Start };
            canvas.text((x + SAMPLE, y + Px::of(14)), how, part);
            x += needed;
        }
        y + Px::of(20)
    }
}

/// Returns a time with its three first digits.
fn rounded(time: Nanos) -> Nanos {
    let mut unit = 1;
    while time.as_ns() / unit >= 1_000 {
        unit *= 10;
    }
    Nanos::ns(time.as_ns() / unit * unit)
}

impl Bar {
    fn total(&self) -> Nanos {
        self.parts.iter().fold(Nanos::ZERO, |sum, part| sum + *part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_one_scale_and_each_part_is_named() {
        let bar = |label: &str, ms: [u64; 3]| Bar {
            label: label.to_string(),
            about: format!("<{label}>"),
            parts: ms.map(Nanos::ms).to_vec(),
        };
        let bars = Bars {
            title: "vm1".to_string(),
            about: "2 wake-ups".to_string(),
            parts: ["waits", "path", "rest"].map(str::to_string).to_vec(),
            bars: vec![bar("a", [6, 0, 2]), bar("b", [1, 1, 2])],
        };
        let svg = bars.render();
        let widths: Vec<f64> = svg
            .lines()
            .filter(|line| line.contains("<title>&lt;"))
            .map(|line| line.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(widths.len(), 5, "a part without a length is not drawn: {svg}");
        let total: f64 = widths[..2].iter().sum();
        for (width, of_total) in widths.iter().zip([0.75, 0.25, 0.125, 0.125, 0.25]) {
            assert!((width / total - of_total).abs() < 0.001, "{widths:?}");
        }
        assert!(svg.contains("&lt;b&gt;: rest: 2 ms") && svg.contains(">8 ms<") && svg.contains(">path<"), "{svg}");
        assert_eq!([999, 1_239, 47_164_956].map(|ns| pretty(rounded(Nanos::ns(ns)))), ["999 ns", "1.23 µs", "47.1 ms"]);
        let none = Bars { bars: Vec::new(), ..bars };
        assert!(none.render().contains("2 wake-ups"));
    }
}
