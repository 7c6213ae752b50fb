//! The quality of a telephone call over a packet network, computed from the sending and arrival times of its packets.
//!
//! [`Call`] processes packets in order of sending. [`Call::read`] returns jitter (RFC 3550), lost packets, packets that
//! arrived too late to be played, and the mean opinion score (ITU-T G.107). The module performs no I/O. Its caller
//! reports the times of the packets.

mod e_model;
mod jitter;
mod playout;

pub use e_model::{Codec, Line, Quality, rate};
pub use jitter::Jitter;
pub use playout::Playout;

use super::reading::{Reading, ratio};
use sched::{Instant, Nanos};

/// The coding of speech, and the receiver's treatment of packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Phone {
    /// Coding of speech.
    pub codec: Codec,
    /// Duration of speech in a packet. Source of the default: 20 ms, RFC 3551, section 4.2. Range: above zero.
    pub packet: Nanos,
    /// Time for which the play-out buffer holds the first packet, and the maximum by which the transit time of a later
    /// packet may exceed that of the first. Default: 60 ms, three packets. Range: any.
    pub buffer: Nanos,
}

impl Default for Phone {
    fn default() -> Phone {
        Phone { codec: Codec::G711, packet: Nanos::ms(20), buffer: Nanos::ms(60) }
    }
}

/// One direction of a call.
#[derive(Clone, Debug)]
pub struct Call {
    phone: Phone,
    jitter: Jitter,
    playout: Playout,
    /// Transit time of each packet that arrived.
    under_way: Vec<u64>,
}

impl Call {
    /// Creates a call without packets.
    #[must_use]
    pub fn new(phone: Phone) -> Call {
        Call { phone, jitter: Jitter::default(), playout: Playout::new(phone.buffer), under_way: Vec::new() }
    }

    /// Records the sending and arrival times of the next packet, in the order of sending. Packets must arrive in this
    /// order, because [`Jitter`] depends on the order of arrival. `None`: the packet was lost.
    pub fn packet(&mut self, sent: Instant, arrived: Option<Instant>) {
        self.playout.packet(sent, arrived);
        if let Some(arrived) = arrived {
            self.jitter.packet(sent, arrived);
            self.under_way.push(arrived.saturating_since(sent).as_ns());
        }
    }

    /// Returns the quality of the call. The delay from mouth to ear is the speech duration of a packet, plus the
    /// transit time of the first packet, plus the buffer time. The delay of an echo canceller is not included.
    #[must_use]
    pub fn quality(&self) -> Quality {
        let Playout { packets, .. } = self.playout;
        let missing = self.playout.lost + self.playout.discarded;
        let delay = self.phone.packet.saturating_add(self.playout.delay());
        rate(&Line {
            codec: self.phone.codec,
            one_way_ms: delay.as_ns() as f64 / 1e6,
            loss_percent: 100.0 * missing as f64 / packets.max(1) as f64,
            ..Line::default()
        })
    }

    /// Returns the values of the call for a report.
    #[must_use]
    pub fn read(&self) -> Reading {
        let Playout { packets, lost, discarded, .. } = self.playout;
        let quality = self.quality();
        let mean = mean(self.under_way.iter().copied());
        let mut reading = Reading::default();
        reading.add("mos_milli", quality.mos_milli());
        reading.add("r_milli", quality.r_milli());
        reading.add("packets", packets);
        reading.time("jitter_ns", self.jitter.now());
        reading.time("jitter_mean_ns", self.jitter.mean());
        reading.add("lost_ppm", ratio(lost, 1_000_000, packets));
        reading.add("discarded_ppm", ratio(discarded, 1_000_000, packets));
        reading.add("delay_mean_ns", mean);
        reading.add("delay_deviation_ns", self::mean(self.under_way.iter().map(|delay| delay.abs_diff(mean))));
        reading
    }
}

/// Returns the mean, rounded down. Returns zero if there are no values.
fn mean(of: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = of.len() as u128;
    let sum: u128 = of.map(u128::from).sum();
    sum.checked_div(count).map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
