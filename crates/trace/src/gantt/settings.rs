//! [`Gantt`], [`Glyphs`]: what to draw, and with which characters.

use crate::timeline::Timeline;
use crate::world::WorldTimeline;
use sched::Instant;

/// The characters of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glyphs {
    /// Only ASCII.
    Ascii,
    /// Box drawing and block elements, all one column wide.
    Unicode,
}

/// How to draw a timeline with characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gantt {
    /// The left edge.
    pub from: Instant,
    /// The right edge, not shown itself.
    pub to: Instant,
    /// The number of cells. Range: 1 …; fewer are drawn where there are fewer nanoseconds.
    pub width: usize,
    /// The characters.
    pub glyphs: Glyphs,
    /// The most entities to draw: the first by id of those attached between `from` and `to`.
    pub rows_most: usize,
    /// Whether to draw a row per CPU, too. Its cells show the letters of the entities.
    pub cpus: bool,
    /// Whether to explain the characters in a last line.
    pub legend: bool,
}

impl Gantt {
    /// All of `timeline`, 80 cells wide, at most 40 entities, in Unicode, with a legend.
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

    /// All of `world`, as [`whole`](Gantt::whole) of one machine, with a row per CPU.
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
