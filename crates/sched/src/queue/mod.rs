//! Run queues. Each type keeps any number of queues over one table of entities, so an entity is in at most one of these
//! queues. Memory is allocated only when an entity or a group is added, so that enqueueing never allocates.
//!
//! - [`Lists`]: FIFO lists, with insertion at any position.
//! - [`Levels`]: a list per priority, with the most urgent occupied list in O(1).
//! - [`Heaps`]: the minimum key in O(1); the cheapest type if no other operation is needed.
//! - [`Trees`]: all entities in ascending order of key, and optionally a summary of each queue.

mod heaps;
mod levels;
mod lists;
mod trees;

pub use heaps::Heaps;
pub use levels::Levels;
pub use lists::Lists;
pub use trees::{Summary, Trees};
