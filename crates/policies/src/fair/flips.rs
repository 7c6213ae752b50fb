//! [`Flips`]: a measure of the number of wake-up partners of a task.

use sched::{EntityId, Instant, Nanos};

/// Minimum time between two halvings of the count of wake-up partners. Source: `record_wakee`.
const FLIP_DECAY: Nanos = Nanos::s(1);

/// The number of times that a task woke a task other than its previous wakee, halved at most once per second. If waker
/// and wakee both have many wake-up partners, the wakee is not pulled to the CPU of its waker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flips {
    pub(super) count: u64,
    decayed: Instant,
    last: Option<EntityId>,
}

impl Flips {
    pub(super) const NONE: Flips = Flips { count: 0, decayed: Instant::ZERO, last: None };

    pub(super) fn record(&mut self, wakee: EntityId, now: Instant) {
        if now.since(self.decayed) > FLIP_DECAY {
            self.count /= 2;
            self.decayed = now;
        }
        if self.last != Some(wakee) {
            self.last = Some(wakee);
            self.count += 1;
        }
    }
}
