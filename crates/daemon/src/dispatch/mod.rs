//! [`Dispatcher`]: carries out the machine's actions on a kernel. The caller decides when and on which thread the
//! dispatcher runs, so the dispatcher works on a simulated host as well.
//!
//! Every CPU has an *agent*. The agent takes a [turn](Dispatcher::turn) when a slice or a period ends, when a client
//! blocks or wakes, or when another thread of the daemon wakes this agent. A turn charges the running client, passes
//! inputs to the machine, and sets the level of every client on the CPU:
//!
//! | state of the client | level of its threads |
//! |---|---|
//! | running | raised |
//! | blocked, with budget left or after the end of its period | raised; wake-ups are awaited |
//! | blocked, without budget | original; wake-ups are awaited |
//! | waiting or depleted | original; frozen if the limit is hard |
//!
//! The threads of a client share its slices by turns (`siblings.rs`).
//!
//! The dispatcher reports to the machine that a client blocks or wakes. Only the machine's actions `Run` and `Stop`
//! start and stop the client.
//!
//! If a scheduler for promises is loaded into the kernel, it dispatches clients in place of their agents (`in_kernel.rs`).
//!
//! The machine allocates promised time only. In the remaining time, the kernel schedules the threads at their original
//! level.

mod adjust;
mod admit;
mod adopt;
mod client;
mod clients;
mod cpu;
mod cpu_timer;
mod dismissal;
mod dispatcher;
mod enclosure;
mod following;
mod handover;
mod in_kernel;
mod interference;
mod journal;
mod kept;
mod kernel_kept;
mod leaving;
mod loans;
mod member;
mod ordered;
mod parking;
mod per_cpu;
mod promises;
mod recent;
mod refusal;
mod request;
mod role;
mod room;
mod scan;
mod share;
mod siblings;
mod turn;
mod upcoming;
mod withheld;

pub use admit::Admission;
pub use dispatcher::{Dismissed, Dispatcher};
pub use enclosure::{Enclosure, enclose, release_groups};
pub use following::moved_threads;
pub use handover::FormerClient;
pub use in_kernel::KernelPeriods;
pub(crate) use journal::EVENTS_MOST;
pub use kept::{Judgement, KeptRecord};
pub(crate) use kernel_kept::is_reserved;
pub use kernel_kept::{FormerReservations, KernelKept};
pub use loans::{Offer, begin_loans};
pub use member::{Former, Level, RaiseBy};
pub use promises::Promises;
pub use refusal::Refusal;
pub use request::{KeptBy, Others, PERIOD_LEAST, PERIOD_LONGEST, PromiseRequest, SLICE_LEAST};
pub use role::Role;
pub use room::{Alternatives, HeldPromise, NoRoom};
pub use scan::{Found, Known, Scanned, THREADS_MOST, ended, find, scan, scan_beating};
pub use share::share;
pub use turn::{Next, Signals};
