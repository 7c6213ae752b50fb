//! [`World`]: the results that expressions read: the measured results, or those of a [`Wrong`] world.

use crate::experiment::Point;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wrong world. When an expression reads a point that matches `of`, it reads the point with the values of `is`
/// instead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// Points that are replaced.
    pub of: Point,
    /// Points whose results replace the results of `of`.
    pub is: Point,
}

/// The points whose results an expression reads: the requested points or, in a wrong world, their replacements.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    wrong: Option<Wrong>,
    /// Whether a requested point was replaced.
    swapped: Arc<AtomicBool>,
}

impl World {
    pub(crate) fn of(wrong: &Wrong) -> World {
        World { wrong: Some(wrong.clone()), ..World::default() }
    }

    /// Returns the rule of the wrong world. `None`: expressions read the measured results.
    pub(crate) fn wrong(&self) -> Option<&Wrong> {
        self.wrong.as_ref()
    }

    /// Records that a requested point was replaced.
    pub(crate) fn mark_swapped(&self) {
        self.swapped.store(true, Ordering::Relaxed);
    }

    /// Returns whether no point was replaced.
    pub(crate) fn is_idle(&self) -> bool {
        !self.swapped.load(Ordering::Relaxed)
    }
}
