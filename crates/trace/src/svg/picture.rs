//! [`Picture`]: what to draw, and how large.

use crate::timeline::Timeline;
use crate::world::WorldTimeline;
use sched::Instant;

/// The narrowest picture; narrower ones are drawn at this width. Unit: pixels.
pub const WIDTH_LEAST: u32 = 360;
/// The widest picture; wider ones are drawn at this width. Unit: pixels.
pub const WIDTH_MOST: u32 = 10_000;
/// The most pictures side by side; further ones are left out.
pub const PANELS_MOST: usize = 8;

/// How to draw a timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// The title above the picture.
    pub title: String,
    /// The left edge.
    pub from: Instant,
    /// The right edge.
    pub to: Instant,
    /// The width in pixels. Range: [`WIDTH_LEAST`] … [`WIDTH_MOST`].
    pub width: u32,
    /// The most entities to draw: the first by id of those attached between `from` and `to`.
    pub rows_most: usize,
    /// Whether to draw a row per CPU, too.
    pub cpus: bool,
}

impl Picture {
    /// All of `timeline`, 960 pixels wide, at most 40 entities.
    #[must_use]
    pub fn whole(timeline: &Timeline, title: &str) -> Picture {
        let (from, to) = (timeline.from, timeline.to);
        Picture { title: title.to_string(), from, to, width: 960, rows_most: 40, cpus: false }
    }

    /// All of `world`, 1100 pixels wide, at most 40 entities, with a row per CPU.
    #[must_use]
    pub fn whole_world(world: &WorldTimeline, title: &str) -> Picture {
        let (from, to) = (world.from, world.to);
        Picture { title: title.to_string(), from, to, width: 1100, rows_most: 40, cpus: true }
    }
}
