//! [`Serving`]: a ring in use, with the packets in it.

use super::ring::Ring;
use crate::network::Packet;
use sched::{EntityId, Nanos};
use std::collections::VecDeque;

/// The server of a ring is to be told that something has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notified {
    /// How much later.
    pub(crate) delay: Nanos,
    /// What it costs whoever tells it, beside the call.
    pub(crate) kick: Nanos,
}

/// A ring in use.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) ring: Ring,
    pub(super) waiting: VecDeque<Packet>,
    /// Who handles which.
    pub(super) handled: Vec<(EntityId, Packet)>,
    /// Who did so last.
    pub(super) server: Option<EntityId>,
    /// How many are left of a pass.
    pub(super) left: usize,
    /// Whether a notice is on its way.
    pub(crate) is_noticed: bool,
}

impl Serving {
    pub(crate) fn new(ring: Ring) -> Serving {
        Serving { ring, waiting: VecDeque::new(), handled: Vec::new(), server: None, left: 0, is_noticed: false }
    }

    /// What `entity` handles waits for another; whether it did.
    pub(super) fn hand_back(&mut self, entity: EntityId) -> bool {
        let at = self.handled.iter().position(|&(who, _)| who == entity);
        if let Some(at) = at {
            self.waiting.push_front(self.handled.remove(at).1);
        }
        at.is_some()
    }

    /// All that are in it.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.waiting.iter().chain(self.handled.iter().map(|(_, packet)| packet))
    }
}
