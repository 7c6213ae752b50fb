//! [`Playout`]: the buffer that plays packets at an even pace.

use sched::{Instant, Nanos};

/// A buffer of fixed length: the first packet that comes is held back for that long, and every other is played as long after it as it
/// was sent after it. What is not there by then is discarded when it comes; what never comes is lost.
#[derive(Clone, Copy, Debug)]
pub struct Playout {
    holds: Nanos,
    /// From the sending of any packet to its playing.
    delay: Option<Nanos>,
    /// Packets sent.
    pub packets: u64,
    /// Those of them that never came.
    pub lost: u64,
    /// Those that came too late to be played.
    pub discarded: u64,
}

impl Playout {
    /// A buffer that holds back the first packet for `holds`.
    #[must_use]
    pub fn new(holds: Nanos) -> Playout {
        Playout { holds, delay: None, packets: 0, lost: 0, discarded: 0 }
    }

    /// The next packet, in the order of sending.
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

    /// From the sending of a packet to its playing; zero while none has come.
    #[must_use]
    pub fn delay(&self) -> Nanos {
        self.delay.unwrap_or(Nanos::ZERO)
    }
}
