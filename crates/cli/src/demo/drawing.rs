//! The window and the size of the demo's drawings, and the files that the demo writes.

use crate::window::Window;
use sched::{Instant, Nanos};

/// Width of the drawing: one cell per millisecond.
pub(super) const CELLS: usize = 84;
/// Number of rows in the drawing: the two VMs with deadlines, and three batch VMs.
pub(super) const ROWS_MOST: usize = 5;
/// Maximum number of rows in the picture: all VMs of the simulated demo.
pub(super) const PICTURE_ROWS_MOST: usize = 14;
/// File of the picture.
pub(super) const PICTURE: &str = "demo.svg";
/// File of the trace.
pub(super) const TRACE: &str = "demo.json";

pub(super) const SCENARIO: &str = include_str!("../../../../scenarios/demo.toml");

/// Returns the window to draw. It starts in the middle of the run, when the effects of the start are over.
pub(super) fn window(length: Nanos) -> Window {
    let from = Instant::ZERO + Nanos::ms(length.as_ns() / 2_000_000 / 100 * 100);
    Window { from, to: from + Nanos::ms(CELLS as u64) }
}
