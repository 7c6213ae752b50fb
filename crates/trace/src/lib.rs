//! What happened: one schema of events for simulated and real runs, and the forms it is kept and shown in.

pub mod event;
pub mod follow;
mod output;
pub mod text;
pub mod timeline;

pub use event::{Event, Header, Sink, Trace};
pub use follow::Inconsistent;
pub use text::{TextError, TextWriter};
pub use timeline::{Timeline, TimelineBuilder};
