//! Promises on this host: a core process, and the client of the process that has started it, the front end.
//!
//! The *core* has the threads that schedule: an agent and a sentinel per CPU, and the keeper, around one
//! [`Dispatcher`](crate::dispatch::Dispatcher). The core also starts the guardian. The *command thread* of the core
//! carries out the commands of the front end, which arrive through a socket.
//!
//! ```text
//!   front end                core                                        guardian, standby
//!   Client ──commands──▶ command thread ─▶ dispatcher ◀─ agents, keeper       │
//!          ◀──replies───                       └─▶ table of originals ◀───────┘
//! ```
//!
//! The core never waits for the front end: the journal is bounded, and only the command thread writes into the socket.
//! When the socket is closed, the keeper restores all threads at once, and the core ends. The command thread, which has
//! ordinary priority, may wait long for a CPU on a busy host.
//!
//! A *resident core* is no child of its front end: front ends connect to its [`Entrance`], one after another, and the
//! promises stay while there is none. A new front end takes the place of the present one, and reads the [`Roster`].
//!
//! A thread that holds the dispatcher's lock runs at the priority of an agent. A holder at ordinary priority could be
//! preempted, and would then delay every agent.

mod agent;
mod channel;
mod client;
mod commands;
mod connection;
mod core;
mod core_locks;
mod entrance;
mod failure;
mod fault;
mod front_ends;
mod handover;
mod in_kernel;
mod keeper;
mod kernel_kept;
mod message;
mod resident_options;
mod roster;
mod setup;
mod shared;
mod take_over;
mod turn_timers;

pub use client::{Client, serve};
pub use connection::VERSION;
pub use core::{run_core, run_resident};
pub use core_locks::CoreLocks;
pub use entrance::Entrance;
pub use failure::Failure;
pub use fault::{Fault, FaultKind, StalledThread};
pub use handover::{FormerProgram, HANDOVER_VERSION, Handover, Replacement};
pub use message::{News, ProcessId, PromiseInForce, Roster, ShareInForce};
pub use resident_options::ResidentOptions;
pub use setup::{AdmissionPolicy, Setup};

/// The hidden command that runs a process as the core.
pub const COMMAND: &str = "core";
