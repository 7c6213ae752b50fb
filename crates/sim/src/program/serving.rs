//! [`Serving`]: a ring in use, with the packets in it.

use super::ring::Ring;
use crate::network::Packet;
use sched::{EntityId, Nanos};
use std::collections::VecDeque;

/// A notification of the server of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notified {
    /// Delay of the notification.
    pub(crate) delay: Nanos,
    /// CPU time that the notifying task needs in addition to the hypercall.
    pub(crate) kick: Nanos,
}

/// A ring in use.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) ring: Ring,
    pub(super) waiting: VecDeque<Packet>,
    /// Packets that servers currently handle, with the server of each.
    pub(super) handled: Vec<(EntityId, Packet)>,
    /// Task that last took a packet or began to wait for one.
    pub(super) server: Option<EntityId>,
    /// Number of remaining packets of the current pass.
    pub(super) left: usize,
    /// Whether a notice is in flight.
    pub(crate) is_noticed: bool,
}

impl Serving {
    pub(crate) fn new(ring: Ring) -> Serving {
        Serving { ring, waiting: VecDeque::new(), handled: Vec::new(), server: None, left: 0, is_noticed: false }
    }

    /// Puts the packet that `entity` handles back into the ring. Returns false if `entity` handles no packet.
    pub(super) fn hand_back(&mut self, entity: EntityId) -> bool {
        let at = self.handled.iter().position(|&(handler, _)| handler == entity);
        if let Some(at) = at {
            self.waiting.push_front(self.handled.remove(at).1);
        }
        at.is_some()
    }

    /// Returns all packets in the ring.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.waiting.iter().chain(self.handled.iter().map(|(_, packet)| packet))
    }
}
