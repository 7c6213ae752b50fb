//! [`Panel`]: a picture without its legend.

use super::canvas::{Canvas, Px};
use super::legend::Legend;

/// A picture without its legend.
pub(super) struct Panel {
    pub(super) canvas: Canvas,
    pub(super) legend: Legend,
    pub(super) width: Px,
    pub(super) height: Px,
}

impl Panel {
    pub(super) fn place(&self, canvas: &mut Canvas, x: Px, y: Px) {
        canvas.open_at(x, y);
        canvas.append(&self.canvas);
        canvas.close();
    }
}
