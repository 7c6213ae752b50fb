//! [`Picture`]: the contents and the size of a picture.

use crate::timeline::Timeline;
use crate::world::WorldTimeline;
use sched::Instant;

/// Minimum width of a picture. Narrower pictures are drawn at this width. Unit: pixels.
pub const WIDTH_LEAST: u32 = 360;
/// Maximum width of a picture. Wider pictures are drawn at this width. Unit: pixels.
pub const WIDTH_MOST: u32 = 10_000;
/// Maximum number of pictures side by side. Further pictures are omitted.
pub const PANELS_MOST: usize = 8;

/// Settings of a drawing of a timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// Title above the picture.
    pub title: String,
    /// Left edge of the picture.
    pub from: Instant,
    /// Right edge of the picture.
    pub to: Instant,
    /// Width of the picture. Unit: pixels. Range: [`WIDTH_LEAST`] to [`WIDTH_MOST`].
    pub width: u32,
    /// Maximum number of entities to draw. Of the entities attached between `from` and `to`, those with the lowest ids
    /// are drawn.
    pub rows_most: usize,
    /// Whether to draw a row per CPU.
    pub cpus: bool,
}

impl Picture {
    /// Returns the settings for all of `timeline`: 960 pixels wide, at most 40 entities.
    #[must_use]
    pub fn whole(timeline: &Timeline, title: &str) -> Picture {
        let (from, to) = (timeline.from, timeline.to);
        Picture { title: title.to_string(), from, to, width: 960, rows_most: 40, cpus: false }
    }

    /// Returns the settings for all of `world`: 1100 pixels wide, at most 40 entities, with a row per CPU.
    #[must_use]
    pub fn whole_world(world: &WorldTimeline, title: &str) -> Picture {
        let (from, to) = (world.from, world.to);
        Picture { title: title.to_string(), from, to, width: 1100, rows_most: 40, cpus: true }
    }
}
