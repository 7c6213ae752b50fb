//! [`Books`]: the machine that counts the reservations of the kernel.

use sched::{Descriptor, EntityId, Instant, Kicks, Knobs, Machine, Params, Refused, Topology};

/// Number of the first entity with a reservation of the kernel. The dispatcher admits no client with such a number.
const FIRST: usize = 1 << 13;

/// Returns whether `e` has a reservation of the kernel.
pub(crate) fn is_reserved(e: EntityId) -> bool {
    e.index() >= FIRST
}

fn numbered(index: usize, e: EntityId) -> EntityId {
    EntityId::new(u32::try_from(index).expect("a machine has fewer entities"), e.generation())
}

/// A machine without running entities. It only admits reservations.
#[derive(Debug)]
pub(super) struct Books(Machine);

impl Books {
    pub(super) fn new(policy: &Descriptor, knobs: &Knobs, cpus: usize) -> Result<Books, Refused> {
        Machine::build(policy, Topology::new(cpus), knobs, Kicks::Delivered).map(Books)
    }

    pub(super) fn topology(&self) -> &Topology {
        self.0.topology()
    }

    pub(super) fn params(&self, e: EntityId) -> Params {
        *self.0.params(numbered(e.index() - FIRST, e))
    }

    pub(super) fn attach(&mut self, now: Instant, params: Params) -> Result<EntityId, Refused> {
        let answer = self.0.attach(now, params).map(|e| numbered(e.index() + FIRST, e));
        self.0.settle(now);
        answer
    }

    pub(super) fn adjust(&mut self, now: Instant, e: EntityId, params: Params) -> Result<(), Refused> {
        let answer = self.0.adjust(now, numbered(e.index() - FIRST, e), params);
        self.0.settle(now);
        answer
    }

    pub(super) fn detach(&mut self, now: Instant, e: EntityId) {
        self.0.detach(now, numbered(e.index() - FIRST, e));
        self.0.settle(now);
    }
}
