//! Traces: one schema of events for simulated and real runs, and the formats for storage and display.
//!
//! | to | use |
//! |---|---|
//! | keep a run in memory | [`Trace`] |
//! | store a run in a human-readable text file, and read it back | [`TextWriter`], [`text::read`], [`text::Reader`] |
//! | open a long run in a viewer | [`PerfettoWriter`] (ui.perfetto.dev), [`ChromeWriter`] (also chrome://tracing) |
//! | read a run with tools for kernel traces | [`FtraceWriter`]; as values: [`kernel_events`] |
//! | get the states of entities and the outcomes of jobs | [`Timeline`]; in constant memory: [`follow::Follower`] |
//! | check that a machine decides as in the trace | [`replay::replay`], [`replay::Replay`] |
//! | draw a run in a terminal or a test | [`Gantt`] |
//! | draw a run for a report or a page | [`svg::Picture`], [`svg::side_by_side`] |
//!
//! The counterparts for a world of several machines, hosts and guests, are [`WorldTrace`], [`WorldTextWriter`],
//! [`text::read_world`], [`WorldChromeWriter`], [`WorldTimeline`], [`Gantt::render_world`] and
//! [`svg::Picture::render_world`].
//!
//! Writers are [`Sink`]s: a writer processes events as they arrive, and reports errors at the end.

mod account;
mod axis;
pub mod chrome;
mod counts;
mod durations;
pub mod event;
pub mod follow;
pub mod ftrace;
pub mod gantt;
mod grid;
mod job;
pub mod kernel_events;
mod machine_id;
mod names;
mod output;
pub mod perfetto;
pub mod replay;
mod row_budget;
mod span;
pub mod svg;
pub mod text;
pub mod timeline;
mod tracks;
pub mod world;

pub use account::Account;
pub use chrome::{ChromeWriter, WorldChromeWriter};
pub use counts::Counts;
pub use durations::Durations;
pub use event::{Event, Header, Request, Sink, Trace};
pub use follow::Inconsistent;
pub use ftrace::FtraceWriter;
pub use gantt::Gantt;
pub use job::Job;
pub use kernel_events::{KernelEvent, KernelEventKind, KernelEvents, KernelSink, KernelTask};
pub use machine_id::{MACHINES_MAX, MachineId};
pub use perfetto::PerfettoWriter;
pub use text::{TextError, TextWriter, WorldTextWriter};
pub use timeline::{Timeline, TimelineBuilder};
pub use world::{
    Links, MachineHeader, WorldHeader, WorldSink, WorldTimeline, WorldTimelineBuilder, WorldTrace, WorldWatch,
};
