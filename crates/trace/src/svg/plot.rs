//! [`Plot`]: the position of an instant in a picture, and the resolution of rows.

use super::canvas::Px;
use crate::grid::Grid;
use crate::timeline::Timeline;
use sched::{CpuId, Instant};

/// Width of a column: the minimum at which a colour is visible.
pub(super) const COLUMN: Px = Px::of(2);

/// Returns `width` rounded down to whole columns, so that the edges of columns are sharp.
pub(super) fn whole_columns(width: Px) -> Px {
    Px::hundredths(width.as_hundredths() / COLUMN.as_hundredths() * COLUMN.as_hundredths())
}

/// The horizontal layout of an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) from: Instant,
    pub(super) to: Instant,
    pub(super) left: Px,
    pub(super) width: Px,
    /// Columns of rows that are drawn by column. `None`: the rows are drawn span by span.
    pub(super) columns: Option<Grid>,
    /// Whether the CPUs are vCPUs.
    pub(super) is_guest: bool,
}

impl Plot<'_> {
    /// Returns the label of a CPU.
    pub(super) fn cpu(&self, cpu: CpuId) -> String {
        if self.is_guest { format!("vCPU {cpu}") } else { format!("CPU {cpu}") }
    }

    /// Returns the position of `at`, clamped to the edges.
    pub(super) fn x(&self, at: Instant) -> Px {
        let length = u128::from(self.to.since(self.from).as_ns());
        let offset = u128::from(at.clamp(self.from, self.to).since(self.from).as_ns());
        let width = u128::try_from(self.width.as_hundredths()).expect("a plot has a width");
        self.left + Px::hundredths(i64::try_from(offset * width / length).expect("a place within the width"))
    }

    /// Returns whether the plot shows `at`, including the edges.
    pub(super) fn shows(&self, at: Instant) -> bool {
        self.from <= at && at <= self.to
    }

    /// Returns cells of about `pixels` pixels. Each cell has room for one mark.
    pub(super) fn cells_of(&self, pixels: i64) -> Grid {
        let cells = (self.width.as_hundredths() / (pixels * 100)).max(1);
        let cells = usize::try_from(cells).expect("a plot has a width");
        Grid::new(self.from, self.to, cells).expect("a plot has a length")
    }

    /// Returns whether `marks` marks of `pixels` pixels fit side by side.
    pub(super) fn has_room_for(&self, marks: usize, pixels: i64) -> bool {
        let pixels = usize::try_from(pixels).expect("a mark has a width");
        let width = usize::try_from(self.width.as_hundredths() / 100).expect("a plot has a width");
        marks.saturating_mul(pixels) <= width
    }
}
