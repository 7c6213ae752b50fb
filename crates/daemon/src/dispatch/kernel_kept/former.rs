//! [`FormerReservations`]: the reservations of a program that is replaced, as data.

use super::account::Account;
use sched::{EntityId, Instant, Nanos};
use serde::{Deserialize, Serialize};

/// The reservations of the former program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FormerReservations {
    pub(super) trees: Vec<FormerTree>,
    pub(super) threads: Vec<FormerThread>,
}

/// The process tree of a promise. A thread is its tid and its start time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FormerTree {
    pub(super) promise: usize,
    pub(super) name: String,
    pub(super) root: u32,
    pub(super) known: Vec<(u32, u64)>,
    pub(super) has_warned: bool,
}

/// A reserved thread.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FormerThread {
    pub(super) entity: EntityId,
    pub(super) promise: usize,
    pub(super) name: String,
    /// Number of the row of the thread in the table.
    pub(super) row: usize,
    pub(super) account: Account,
    pub(super) ran: Nanos,
    pub(super) sleeps: u64,
    pub(super) was_runnable: bool,
    pub(super) rests_until: Option<Instant>,
}
