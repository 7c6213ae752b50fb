//! Reports as text tables.

pub(crate) mod applications;
pub(crate) mod gangs;
pub(crate) mod grid;
pub(crate) mod guests;
pub(crate) mod lines;
pub(crate) mod manager;
pub(crate) mod medians;
pub(crate) mod runs;
pub(crate) mod stalls;
pub(crate) mod totals;
pub(crate) mod xenmon;
