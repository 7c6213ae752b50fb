//! What happened: one schema of events for simulated and real runs, and the forms it is kept and shown in.

pub mod event;
mod output;
pub mod text;

pub use event::{Event, Header, Sink, Trace};
pub use text::{TextError, TextWriter};
