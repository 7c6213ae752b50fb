//! Pictures of worlds: each host, and its guests as blocks below the host.

use super::canvas::Px;
use super::contents::{Contents, aligned, alone, beside};
use super::picture::{PANELS_MOST, Picture};
use super::section::Section;
use crate::row_budget::RowBudget;
use crate::world::WorldTimeline;

/// Style for dark pages, which replaces the colours of the light picture. Text in bars, which has font size 10, keeps
/// its colour.
const STYLE: &str = "<style>@media (prefers-color-scheme: dark) {
.tactus-world [fill=\"#ffffff\"] { fill: #0d1117 }
.tactus-world rect[fill=\"#f6f8fa\"] { fill: #161b22; stroke: #30363d }
.tactus-world [fill=\"#1f2328\"]:not([font-size=\"10\"]) { fill: #e6edf3 }
.tactus-world text[fill=\"#ffffff\"] { fill: #ffffff }
.tactus-world [fill=\"#656d76\"] { fill: #9198a1 }
.tactus-world [fill=\"#c4cad1\"] { fill: #484f58 }
.tactus-world [stroke=\"#1f2328\"] { stroke: #e6edf3 }
.tactus-world [stroke=\"#57606a\"] { stroke: #9198a1 }
.tactus-world [stroke=\"#d0d7de\"] { stroke: #3d444d }
.tactus-world [stroke=\"#eaeef2\"] { stroke: #21262d }
}</style>
";

impl Picture {
    /// Draws each host, and its guests as blocks below the host, in a complete SVG document for light and dark pages.
    /// All machines share `rows_most` rows for entities, and another `rows_most` rows for CPUs, by max-min fairness.
    /// The picture states the number of omitted machines.
    #[must_use]
    pub fn render_world(&self, world: &WorldTimeline) -> String {
        alone(&self.title, self.all(world), STYLE)
    }

    /// Returns the contents of a picture of a world.
    fn all<'t>(&'t self, world: &'t WorldTimeline) -> Contents<'t> {
        let RowBudget { shares, more } = RowBudget::of(world, (self.from, self.to), self.rows_most, self.cpus);
        let sections = shares.iter().map(|share| Section::within(self, world, share)).collect();
        let machines = world.machines.len();
        let about = format!("{machines} machine{}", if machines == 1 { "" } else { "s" });
        Contents { picture: self, about, sections, more }
    }
}

/// Draws several pictures of worlds in one document, like [`side_by_side`](super::side_by_side) for machines.
#[must_use]
pub fn worlds_side_by_side(title: &str, pictures: &[(&Picture, &WorldTimeline)]) -> String {
    beside(title, pictures.iter().take(PANELS_MOST).map(|(picture, world)| picture.all(world)).collect(), STYLE)
}

/// Pictures of worlds, one document each, whose plots have equal edges.
#[derive(Clone, PartialEq, Debug)]
pub struct AlignedWorlds {
    /// An SVG document for each world.
    pub documents: Vec<String>,
    /// Left edge of the plot of each document. Unit: pixels.
    pub plot_left: f64,
    /// Width of the plot of each document. Unit: pixels.
    pub plot_width: f64,
}

/// Draws several pictures of worlds as documents of their own, for a page that shows them one below the other. Pictures
/// of equal width have equal plots, so an instant has one position in all of them.
#[must_use]
pub fn aligned_worlds(pictures: &[(Picture, &WorldTimeline)]) -> AlignedWorlds {
    let contents: Vec<(&str, Contents<'_>)> =
        pictures.iter().map(|(picture, world)| (picture.title.as_str(), picture.all(world))).collect();
    let (documents, (left, width)) = aligned(&contents, STYLE);
    let pixels = |length: Px| length.as_hundredths() as f64 / 100.0;
    AlignedWorlds { documents, plot_left: pixels(left), plot_width: pixels(width) }
}
