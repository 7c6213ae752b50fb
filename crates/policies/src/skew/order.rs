//! [`Order`]: proportional share. The entity with the minimum weighted CPU time is first.

use sched::queue::Trees;
use sched::{CpuId, Cx, EntityId, Nanos, Running};

/// CPU time at normal weight, in units of 2^-32 ns. With this unit, rounding errors are negligible at any weight.
pub(super) type Virtual = u128;

/// Returns the virtual time of `ran` at this weight in Linux's scale.
fn cost(ran: Nanos, weight: u64) -> Virtual {
    ((u128::from(ran.as_ns()) * 1024) << 32) / u128::from(weight)
}

/// Returns the CPU time that corresponds to this virtual time at this weight, rounded up.
fn time(virtual_time: Virtual, weight: u64) -> Nanos {
    let wide = virtual_time.saturating_mul(u128::from(weight)).div_ceil(1024 << 32);
    u64::try_from(wide).map_or(sched::time::SPAN_MAX, Nanos::ns).min(sched::time::SPAN_MAX)
}

/// The queue of waiting entities.
const WAITING: usize = 0;
/// The queue of co-stopped entities.
const STOPPED: usize = 1;

/// The maximum lead that is remembered, in quanta.
pub(super) const MEMORY: u64 = 20;

#[derive(Clone, Copy, Debug)]
struct Share {
    had: Virtual,
    /// Weight of the entity in Linux's scale.
    weight: u64,
}

/// The order; see the module documentation.
#[derive(Debug)]
pub(super) struct Order {
    quantum: Nanos,
    /// Share of each entity, by index.
    shares: Vec<Share>,
    /// The two queues, each ordered by virtual time, then by arrival.
    queues: Trees<(Virtual, u64)>,
    /// Number of enqueues so far.
    arrivals: u64,
    /// Highest value, over all picks so far, of the minimum virtual time of the waiting, running and co-stopped
    /// entities.
    clock: Virtual,
}

impl Order {
    pub(super) fn new(quantum: Nanos) -> Order {
        Order { quantum, shares: Vec::new(), queues: Trees::new(2), arrivals: 0, clock: 0 }
    }

    /// Places the new entity `e` behind all waiting, running and co-stopped entities, so that an entity gains nothing
    /// if it is attached again.
    pub(super) fn reserve(&mut self, e: EntityId, weight: u32, cx: &Cx<'_>) {
        let queued = [WAITING, STOPPED].into_iter().flat_map(|queue| self.queues.iter(queue)).map(|((had, _), _)| had);
        let running = runners(cx).map(|(_, other, _)| self.had(other));
        let had = queued.chain(running).fold(self.clock, Virtual::max);
        let share = Share { had, weight: u64::from(weight) };
        if self.shares.len() <= e.index() {
            self.shares.resize(e.index() + 1, share);
        }
        self.shares[e.index()] = share;
        self.queues.reserve(e, (0, 0));
    }

    pub(super) fn set_weight(&mut self, e: EntityId, weight: u32) {
        self.shares[e.index()].weight = u64::from(weight);
    }

    pub(super) fn had(&self, e: EntityId) -> Virtual {
        self.shares[e.index()].had
    }

    /// Returns the virtual time of a lead of `time` at normal weight.
    pub(super) fn lead(time: Nanos) -> Virtual {
        cost(time, 1024)
    }

    /// Charges `e` for `ran`. A lead of more than [`MEMORY`] quanta over the clock arises only while no other entity
    /// can run on the CPU. The excess is dropped, so that `e` need not wait until other entities have caught up with
    /// it.
    pub(super) fn charge(&mut self, e: EntityId, ran: Nanos) {
        self.shares[e.index()].had = self.had_after(e, ran);
    }

    fn had_after(&self, e: EntityId, ran: Nanos) -> Virtual {
        let Share { had, weight } = self.shares[e.index()];
        let most = self.clock + cost(self.quantum, 1024) * u128::from(MEMORY) + cost(self.quantum, weight);
        (had + cost(ran, weight)).min(most.max(had))
    }

    /// Returns the virtual time of `e`, which has run for `ran` since the last charge. Also returns the remaining run
    /// time until the virtual time passes `mark`.
    pub(super) fn reaches(&self, e: EntityId, ran: Nanos, mark: Virtual) -> (Virtual, Nanos) {
        let had = self.had_after(e, ran);
        let lacking = (mark + 1).saturating_sub(had);
        (had, time(lacking, self.shares[e.index()].weight))
    }

    /// Updates `e` when it wakes: CPU time that it did not use while it was blocked is lost.
    pub(super) fn wake(&mut self, e: EntityId) {
        let clock = self.clock;
        let share = &mut self.shares[e.index()];
        share.had = share.had.max(clock);
    }

    /// Updates `e` when it yields. The entity that is first in the queue then runs before `e`.
    pub(super) fn give_way(&mut self, e: EntityId) {
        if let Some(((first, _), _)) = self.queues.first(WAITING) {
            let share = &mut self.shares[e.index()];
            share.had = share.had.max(first);
        }
    }

    fn push(&mut self, queue: usize, e: EntityId) {
        self.queues.remove(e);
        self.arrivals += 1;
        self.queues.push(queue, (self.had(e), self.arrivals), e);
    }

    pub(super) fn push_waiting(&mut self, e: EntityId) {
        self.push(WAITING, e);
    }

    pub(super) fn push_stopped(&mut self, e: EntityId) {
        self.push(STOPPED, e);
    }

    pub(super) fn remove(&mut self, e: EntityId) {
        self.queues.remove(e);
    }

    /// Returns whether `e` waits and is not co-stopped.
    pub(super) fn waits(&self, e: EntityId) -> bool {
        self.queues.tree_of(e) == Some(WAITING)
    }

    /// Returns the waiting entities, in ascending order of virtual time.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Virtual, EntityId)> + '_ {
        self.queues.iter(WAITING).map(|((had, _), e)| (had, e))
    }

    pub(super) fn waiting_is_empty(&self) -> bool {
        self.queues.is_empty(WAITING)
    }

    /// Advances the clock when `chosen` is picked, before the state of `chosen` changes.
    pub(super) fn advance_clock(&mut self, chosen: EntityId, cx: &Cx<'_>) {
        let queued =
            [WAITING, STOPPED].into_iter().filter_map(|queue| self.queues.first(queue)).map(|((had, _), _)| had);
        let running = runners(cx).map(|(_, e, _)| self.had(e));
        let least = queued.chain(running).fold(self.had(chosen), Virtual::min);
        self.clock = self.clock.max(least);
    }
}

/// Returns the running entities with their CPUs and the time that has not been charged.
pub(super) fn runners<'a>(cx: &'a Cx<'_>) -> impl Iterator<Item = (CpuId, EntityId, Nanos)> + 'a {
    cx.topology().iter().filter_map(|cpu| match cx.running(cpu) {
        Running::Mine { entity, since } => Some((cpu, entity, cx.now().saturating_since(since))),
        Running::Idle | Running::Above | Running::Below => None,
    })
}
