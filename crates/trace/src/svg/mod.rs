//! [`Picture`]: a timeline as a self-contained SVG picture. The picture has a row per entity with a bar per run,
//! coloured by CPU, and marks for arrivals, releases, deadlines and misses. If a picture has too many bars, its rows
//! are drawn by column instead, so the size of the file is bounded.

mod bars;
mod canvas;
mod contents;
mod legend;
mod panel;
mod picture;
mod plot;
mod rows;
mod section;
mod style;
mod world;

use crate::timeline::Timeline;
use contents::{Contents, alone, beside};
use section::Section;
use style::about;

pub use bars::{Bar, Bars};
pub use picture::{PANELS_MOST, Picture, WIDTH_LEAST, WIDTH_MOST};
pub use world::{AlignedWorlds, aligned_worlds, worlds_side_by_side};

impl Picture {
    /// Draws the picture as a complete SVG document.
    #[must_use]
    pub fn render(&self, timeline: &Timeline) -> String {
        alone(&self.title, self.one(timeline), "")
    }

    /// Returns the contents of a picture of one machine.
    fn one<'t>(&'t self, timeline: &'t Timeline) -> Contents<'t> {
        let about = about(timeline, false);
        Contents { picture: self, about, sections: vec![Section::one(self, timeline)], more: 0 }
    }
}

/// Draws several pictures in one document, from left to right, each under its own title, with one legend. For example,
/// the pictures can show the same VMs under two policies. Pictures of equal width that cover equal lengths of time have
/// the same scale. Pictures beyond [`PANELS_MOST`] are omitted.
#[must_use]
pub fn side_by_side(title: &str, pictures: &[(&Picture, &Timeline)]) -> String {
    beside(title, pictures.iter().take(PANELS_MOST).map(|(picture, timeline)| picture.one(timeline)).collect(), "")
}
