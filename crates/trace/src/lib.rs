//! What happened: one schema of events for simulated and real runs, and the forms it is kept and shown in.

mod axis;
pub mod chrome;
pub mod event;
pub mod follow;
pub mod gantt;
mod grid;
mod names;
mod output;
pub mod svg;
pub mod text;
pub mod timeline;

pub use chrome::ChromeWriter;
pub use event::{Event, Header, Sink, Trace};
pub use follow::Inconsistent;
pub use gantt::Gantt;
pub use text::{TextError, TextWriter};
pub use timeline::{Timeline, TimelineBuilder};
