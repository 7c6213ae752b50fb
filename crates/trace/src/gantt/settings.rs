//! [`Gantt`], [`Glyphs`]: the contents of a picture, and its characters.

use crate::timeline::Timeline;
use crate::world::WorldTimeline;
use sched::Instant;

/// The set of characters in a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glyphs {
    /// ASCII characters only.
    Ascii,
    /// Box drawing characters, block elements and symbols, all one column wide.
    Unicode,
}

/// Settings of a picture made of characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gantt {
    /// Left edge of the picture.
    pub from: Instant,
    /// Right edge of the picture (exclusive).
    pub to: Instant,
    /// Number of cells, at least 1. An interval of fewer nanoseconds has one cell per nanosecond.
    pub width: usize,
    /// Characters of the picture.
    pub glyphs: Glyphs,
    /// Maximum number of entities to draw. Of the entities attached between `from` and `to`, those with the lowest ids
    /// are drawn.
    pub rows_most: usize,
    /// Whether to draw a row per CPU. The cells of these rows show the letters of the entities.
    pub cpus: bool,
    /// Whether to draw a legend of the characters, below the rows.
    pub legend: bool,
}

impl Gantt {
    /// Returns the settings for all of `timeline`: 80 cells wide, at most 40 entities, in Unicode, with a legend.
    #[must_use]
    pub fn whole(timeline: &Timeline) -> Gantt {
        Gantt {
            from: timeline.from,
            to: timeline.to,
            width: 80,
            glyphs: Glyphs::Unicode,
            rows_most: 40,
            cpus: false,
            legend: true,
        }
    }

    /// Returns the settings for all of `world`, like [`whole`](Gantt::whole) for one machine, but with a row per CPU.
    #[must_use]
    pub fn whole_world(world: &WorldTimeline) -> Gantt {
        Gantt {
            from: world.from,
            to: world.to,
            width: 80,
            glyphs: Glyphs::Unicode,
            rows_most: 40,
            cpus: true,
            legend: true,
        }
    }
}
