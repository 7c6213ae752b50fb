//! [`Ordered`]: what was ordered from a scheduler in the kernel.

use orders::Order;
use sched::{CpuId, GroupId, Reservation};
use std::collections::BTreeMap;

/// What was ordered for a client.
#[derive(Debug)]
pub(super) struct Ordered {
    pub(super) promise: i32,
    pub(super) cpu: CpuId,
    pub(super) reservation: Reservation,
    pub(super) gang: Option<GroupId>,
    /// The tids of the members, and whether they are helpers.
    pub(super) members: BTreeMap<u32, bool>,
}

/// The scheduler in the kernel.
#[derive(Debug, Default)]
pub(super) struct InKernel {
    /// Whether it is loaded.
    pub(super) is_loaded: bool,
    /// Number of promises ordered so far.
    pub(super) promises: i32,
    /// Orders for clients that have left.
    pub(super) orders: Vec<Order>,
}

impl InKernel {
    /// Notes that a client leaves.
    pub(super) fn leave(&mut self, ordered: Option<Ordered>) {
        self.orders.extend(ordered.map(|ordered| Order::End { promise: ordered.promise }));
    }
}
