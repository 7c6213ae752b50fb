//! [`Playout`]: the buffer that plays packets at a constant rate.

use sched::{Instant, Nanos};

/// A buffer of fixed length, in time. The buffer holds the first packet for this length of time. All packets are played
/// at the intervals at which they were sent. A packet that arrives after its playing time is discarded; a packet that
/// never arrives is lost.
#[derive(Clone, Copy, Debug)]
pub struct Playout {
    holds: Nanos,
    /// Time from the sending of a packet to its playout, equal for all packets.
    delay: Option<Nanos>,
    /// Number of sent packets.
    pub packets: u64,
    /// Number of packets that never arrived.
    pub lost: u64,
    /// Number of packets that arrived too late to be played.
    pub discarded: u64,
}

impl Playout {
    /// Creates a buffer that holds the first packet for `holds`.
    #[must_use]
    pub fn new(holds: Nanos) -> Playout {
        Playout { holds, delay: None, packets: 0, lost: 0, discarded: 0 }
    }

    /// Records the next packet, in the order of sending. `arrived` is `None` for a lost packet.
    pub fn packet(&mut self, sent: Instant, arrived: Option<Instant>) {
        self.packets += 1;
        let Some(arrived) = arrived else {
            self.lost += 1;
            return;
        };
        let under_way = arrived.saturating_since(sent);
        let delay = *self.delay.get_or_insert(under_way.saturating_add(self.holds));
        self.discarded += u64::from(under_way > delay);
    }

    /// Returns the time from the sending of a packet to its playout. Zero while no packet has arrived.
    #[must_use]
    pub fn delay(&self) -> Nanos {
        self.delay.unwrap_or(Nanos::ZERO)
    }
}
