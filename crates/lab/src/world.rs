//! [`World`]: the results that expressions see, as measured or in a [`Wrong`] world.

use crate::experiment::Point;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wrong world: wherever an experiment is asked for points like `of`, those that differ from them as in `is` answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// Which points.
    pub of: Point,
    /// The points whose results stand in place of theirs.
    pub is: Point,
}

/// The points whose results an expression gets: the points that it asks for or, in a wrong world, others.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    wrong: Option<Wrong>,
    /// Whether others have answered.
    swapped: Arc<AtomicBool>,
}

impl World {
    pub(crate) fn of(wrong: &Wrong) -> World {
        World { wrong: Some(wrong.clone()), ..World::default() }
    }

    /// Its rule; `None`: everything is as measured.
    pub(crate) fn wrong(&self) -> Option<&Wrong> {
        self.wrong.as_ref()
    }

    /// Notes that others have answered.
    pub(crate) fn mark_swapped(&self) {
        self.swapped.store(true, Ordering::Relaxed);
    }

    /// Whether no point has been replaced by another.
    pub(crate) fn is_idle(&self) -> bool {
        !self.swapped.load(Ordering::Relaxed)
    }
}
