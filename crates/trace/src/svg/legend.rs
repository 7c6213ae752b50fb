//! [`Legend`]: the meanings of the shapes and colours in a picture.

use super::canvas::{Anchor, Canvas, Path, Px, Type};
use super::style::{INK, MISSED, MUTED, WAITING};
use crate::names;
use std::collections::BTreeSet;

/// Colours of CPUs, each with the colour of the text on bars of this colour. Source: the colour-blind safe set of Okabe
/// and Ito (2008), without vermilion (reserved for missed deadlines) and black. Yellow is darkened for contrast with
/// the white background.
pub(super) const COLOURS: [(&str, &str); 6] = [
    ("#0072b2", "#ffffff"),
    ("#e69f00", "#1f2328"),
    ("#009e73", "#ffffff"),
    ("#cc79a7", "#1f2328"),
    ("#56b4e9", "#1f2328"),
    ("#c9b800", "#1f2328"),
];

/// Maximum number of CPUs with a legend entry of their own.
const CPUS_NAMED: usize = 12;

/// The types of drawn elements. The legend explains each of them.
#[derive(Clone, Default, Debug)]
pub(super) struct Legend {
    pub(super) cpus: BTreeSet<usize>,
    pub(super) shaded: bool,
    pub(super) waiting: bool,
    pub(super) held: bool,
    pub(super) stolen: bool,
    pub(super) arrival: bool,
    pub(super) release: bool,
    pub(super) deadline: bool,
    pub(super) period: bool,
    pub(super) missed: bool,
    /// Whether a row omits its releases and deadlines, or its periods, because they are too dense.
    pub(super) too_dense: bool,
}

/// The sample in front of an explanation.
#[derive(Clone, Copy, Debug)]
enum Sample {
    Colour(&'static str),
    Shades,
    Waiting,
    Held,
    Stolen,
    Arrival,
    Release,
    Deadline,
    Period,
    Missed,
    Nothing,
}

const ROW: Px = Px::of(20);
const SAMPLE: Px = Px::of(22);

impl Legend {
    /// Adds the explanations that another picture needs.
    pub(super) fn merge(&mut self, other: Legend) {
        self.cpus.extend(other.cpus);
        self.shaded |= other.shaded;
        self.waiting |= other.waiting;
        self.held |= other.held;
        self.stolen |= other.stolen;
        self.arrival |= other.arrival;
        self.release |= other.release;
        self.deadline |= other.deadline;
        self.period |= other.period;
        self.missed |= other.missed;
        self.too_dense |= other.too_dense;
    }

    fn items(&self) -> Vec<(Sample, String)> {
        let mut items = Vec::new();
        if self.cpus.len() <= CPUS_NAMED {
            let colour = |cpu: usize| Sample::Colour(COLOURS[cpu % COLOURS.len()].0);
            items.extend(self.cpus.iter().map(|&cpu| (colour(cpu), format!("runs on CPU {cpu}"))));
        } else {
            let (n, twice) = (COLOURS.len(), 2 * COLOURS.len());
            let several = |(cpu, colours): (usize, &(&'static str, _))| {
                (Sample::Colour(colours.0), format!("runs on CPU {cpu}, {}, {}…", cpu + n, cpu + twice))
            };
            items.extend(COLOURS.iter().enumerate().map(several));
        }
        let mut add = |wanted: bool, sample, text: &str| {
            if wanted {
                items.push((sample, text.to_string()));
            }
        };
        add(self.shaded, Sample::Shades, "runs part of the time");
        add(self.waiting, Sample::Waiting, "waits for a CPU");
        add(self.held, Sample::Held, "held");
        add(self.stolen, Sample::Stolen, "stolen: its vCPU is frozen");
        add(self.arrival, Sample::Arrival, "arrival");
        add(self.release, Sample::Release, "release");
        add(self.deadline, Sample::Deadline, "deadline");
        add(self.period, Sample::Period, "period");
        add(self.missed, Sample::Missed, "missed deadline, and its lateness");
        add(self.too_dense, Sample::Nothing, "no releases and deadlines where they are too dense");
        items
    }

    /// Draws the legend downwards from `(0, 0)`, in at most `width`. Returns the height of the legend.
    pub(super) fn draw(&self, canvas: &mut Canvas, width: Px) -> Px {
        let (mut x, mut y) = (Px::ZERO, Px::ZERO);
        for (sample, text) in self.items() {
            let columns = i64::try_from(names::columns(&text)).expect("a legend's text is short");
            let needed = SAMPLE + Px::hundredths(columns * 620) + Px::of(16);
            if x > Px::ZERO && x + needed > width {
                (x, y) = (Px::ZERO, y + ROW);
            }
            draw_sample(canvas, sample, x, y);
            let how = Type { size: 11, weight: 400, fill: MUTED, anchor: Anchor::Start };
            let indent = if let Sample::Nothing = sample { Px::ZERO } else { SAMPLE };
            canvas.text((x + indent, y + Px::of(14)), how, &text);
            x += needed;
        }
        y + ROW
    }
}

fn draw_sample(canvas: &mut Canvas, sample: Sample, x: Px, y: Px) {
    let box_at = |down: i64| (x, y + Px::of(down));
    let mut path = Path::default();
    let (top, bottom) = (y + Px::of(3), y + Px::of(17));
    let middle = x + Px::of(8);
    match sample {
        Sample::Colour(colour) => {
            canvas.block(box_at(4), (Px::of(16), Px::of(12)), &format!("rx=\"1.5\" fill=\"{colour}\""));
        }
        Sample::Shades => {
            for level in 1..=4 {
                let left = x + Px::of(4 * (level - 1));
                let attributes = format!("fill=\"{}\" fill-opacity=\"{}\"", COLOURS[0].0, shade(level));
                canvas.block((left, y + Px::of(4)), (Px::of(4), Px::of(12)), &attributes);
            }
        }
        Sample::Waiting => canvas.block(box_at(8), (Px::of(16), Px::of(5)), &format!("fill=\"{WAITING}\"")),
        Sample::Held => {
            path.line(&[(x, y + Px::of(11)), (x + Px::of(16), y + Px::of(11))]);
            canvas.path(&path, HELD_STROKE);
        }
        Sample::Stolen => canvas.block(box_at(4), (Px::of(16), Px::of(12)), STOLEN_LOOKS),
        Sample::Arrival => {
            arrival(&mut path, middle, top, bottom);
            canvas.path(&path, &format!("fill=\"{INK}\" stroke=\"{INK}\" stroke-width=\"1.5\""));
        }
        Sample::Release => {
            release(&mut path, middle, top, bottom);
            canvas.path(&path, ARROW_STROKE);
        }
        Sample::Deadline => {
            deadline(&mut path, middle, top, bottom);
            canvas.path(&path, ARROW_STROKE);
        }
        Sample::Period => {
            path.line(&[(middle, y + Px::of(8)), (middle, y + Px::of(14))]);
            canvas.path(&path, PERIOD_STROKE);
        }
        Sample::Missed => {
            cross(&mut path, x + Px::of(4), y + Px::of(10));
            path.line(&[(x + Px::of(4), y + Px::of(10)), (x + Px::of(16), y + Px::of(10))]);
            canvas.path(&path, &missed_stroke());
        }
        Sample::Nothing => {}
    }
}

/// Returns the opacity of a bar that shows a share of `level` quarters.
pub(super) fn shade(level: i64) -> &'static str {
    match level {
        0 | 1 => "0.3",
        2 => "0.5",
        3 => "0.75",
        _ => "1",
    }
}

pub(super) const ARROW_STROKE: &str = "fill=\"none\" stroke=\"#57606a\" stroke-width=\"1\"";
pub(super) const PERIOD_STROKE: &str = "fill=\"none\" stroke=\"#8c959f\" stroke-width=\"1\"";
pub(super) const HELD_STROKE: &str = "fill=\"none\" stroke=\"#57606a\" stroke-width=\"4\" stroke-dasharray=\"1.5 2.5\"";

pub(super) const STOLEN_LOOKS: &str =
    "fill=\"#8c959f\" fill-opacity=\"0.25\" stroke=\"#57606a\" stroke-width=\"0.75\" stroke-dasharray=\"2 2\"";

pub(super) fn missed_stroke() -> String {
    format!("fill=\"none\" stroke=\"{MISSED}\" stroke-width=\"2\"")
}

const HEAD: Px = Px::of(3);

/// Adds an arrow that points up.
pub(super) fn release(path: &mut Path, x: Px, top: Px, bottom: Px) {
    path.line(&[(x, bottom), (x, top)]);
    path.line(&[(x - HEAD, top + HEAD), (x, top), (x + HEAD, top + HEAD)]);
}

/// Adds an arrow that points down.
pub(super) fn deadline(path: &mut Path, x: Px, top: Px, bottom: Px) {
    path.line(&[(x, top), (x, bottom)]);
    path.line(&[(x - HEAD, bottom - HEAD), (x, bottom), (x + HEAD, bottom - HEAD)]);
}

/// Adds a heavy arrow that points up.
pub(super) fn arrival(path: &mut Path, x: Px, top: Px, bottom: Px) {
    let (width, height) = (Px::hundredths(350), Px::of(6));
    path.line(&[(x, bottom), (x, top + height)]);
    path.line(&[(x - width, top + height), (x, top), (x + width, top + height), (x - width, top + height)]);
}

pub(super) fn cross(path: &mut Path, x: Px, y: Px) {
    path.line(&[(x - HEAD, y - HEAD), (x + HEAD, y + HEAD)]);
    path.line(&[(x - HEAD, y + HEAD), (x + HEAD, y - HEAD)]);
}
