//! Run queues. Each kind keeps any number of queues over one table of entities, so an entity is in at most one
//! of them, and room is made at attach only: queueing never allocates.
//!
//! - [`Lists`]: first in, first out, with insertion anywhere.
//! - [`Levels`]: a list per priority, and the best non-empty one at once.
//! - [`Heaps`]: the least key at once; the cheapest where nothing else is asked.
//! - [`Trees`]: all in order of key, with neighbours, and with a summary of each subtree where one is wanted.

mod heaps;
mod levels;
mod lists;
mod trees;

pub use heaps::Heaps;
pub use levels::Levels;
pub use lists::Lists;
pub use trees::{Summary, Trees};
