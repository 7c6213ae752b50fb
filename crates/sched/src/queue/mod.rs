//! Run queues. Each kind keeps any number of queues over one table of entities, so an entity is in at most one of them.
//! Room is made at attach only: queueing never allocates.
//!
//! - [`Lists`]: first in, first out, with insertion anywhere.
//! - [`Levels`]: a list per priority, and the best non-empty list in O(1).
//! - [`Heaps`]: the minimum key in O(1); the cheapest kind where no other operation is needed.
//! - [`Trees`]: a full order by key, with neighbours, and with a summary of each subtree on request.

mod heaps;
mod levels;
mod lists;
mod trees;

pub use heaps::Heaps;
pub use levels::Levels;
pub use lists::Lists;
pub use trees::{Summary, Trees};
