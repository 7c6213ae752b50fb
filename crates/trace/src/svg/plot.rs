//! [`Plot`]: where an instant is on a picture, and how finely a row is drawn.

use super::canvas::Px;
use super::section::Section;
use crate::grid::Grid;
use crate::timeline::{Row, State, Timeline};
use sched::{CpuId, Instant};

/// The most bars that are drawn one by one; with more, rows are drawn by the column.
const BARS_MOST: usize = 1500;
/// The most columns of all rows together, when rows are drawn by the column.
const COLUMNS_MOST: usize = 16_000;

/// The width of a column: wide enough for its colour to be seen.
const COLUMN: Px = Px::of(2);

/// As much of `width` as whole columns fill, so that their edges are sharp.
pub(super) fn whole_columns(width: Px) -> Px {
    Px::hundredths(width.as_hundredths() / COLUMN.as_hundredths() * COLUMN.as_hundredths())
}

/// A stretch of time laid out from left to right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) from: Instant,
    pub(super) to: Instant,
    pub(super) left: Px,
    pub(super) width: Px,
    /// The columns by which rows are drawn; `None`: span by span.
    pub(super) columns: Option<Grid>,
    /// Whether the CPUs are vCPUs.
    pub(super) is_guest: bool,
}

/// The columns by which all rows of a picture `width` wide are drawn: these sections', of `grid`. `None`: span by span.
pub(super) fn columns(grid: Grid, sections: &[Section<'_>], width: Px) -> Option<Grid> {
    let (from, to) = (grid.from(), grid.to());
    let drawn = |row: &&Row| row.spans_in(from, to).iter().filter(|span| span.state != State::Blocked).count();
    let (mut bars, mut lines) = (0, 0);
    for section in sections {
        let spans: usize = section.rows.iter().map(drawn).sum();
        bars += spans * if section.cpus > 0 { 2 } else { 1 };
        lines += section.rows.len() + section.cpus;
    }
    let most = usize::try_from(width.as_hundredths() / COLUMN.as_hundredths()).expect("a plot has a width");
    let most = most.min(COLUMNS_MOST / lines.max(1)).max(1);
    if bars > BARS_MOST { Grid::new(from, to, most) } else { None }
}

impl Plot<'_> {
    /// What a CPU is called.
    pub(super) fn cpu(&self, cpu: CpuId) -> String {
        if self.is_guest { format!("vCPU {cpu}") } else { format!("CPU {cpu}") }
    }

    /// Where `at` is; at the edge if it is beyond.
    pub(super) fn x(&self, at: Instant) -> Px {
        let length = u128::from(self.to.since(self.from).as_ns());
        let offset = u128::from(at.clamp(self.from, self.to).since(self.from).as_ns());
        let width = u128::try_from(self.width.as_hundredths()).expect("a plot has a width");
        self.left + Px::hundredths(i64::try_from(offset * width / length).expect("a place within the width"))
    }

    /// Whether `at` is shown, the edges included.
    pub(super) fn shows(&self, at: Instant) -> bool {
        self.from <= at && at <= self.to
    }

    /// Cells of about `pixels` pixels, to draw no more than one mark in each.
    pub(super) fn cells_of(&self, pixels: i64) -> Grid {
        let cells = (self.width.as_hundredths() / (pixels * 100)).max(1);
        let cells = usize::try_from(cells).expect("a plot has a width");
        Grid::new(self.from, self.to, cells).expect("a plot has a length")
    }

    /// Whether so many marks, `pixels` pixels wide each, have room side by side.
    pub(super) fn has_room_for(&self, marks: usize, pixels: i64) -> bool {
        let pixels = usize::try_from(pixels).expect("a mark has a width");
        let width = usize::try_from(self.width.as_hundredths() / 100).expect("a plot has a width");
        marks.saturating_mul(pixels) <= width
    }
}
