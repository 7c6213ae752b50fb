//! [`Jitter`]: the estimator of RFC 3550, section 6.4.1, as in its appendix A.8.

use sched::{Instant, Nanos};

/// The smoothed change of the transit time from one packet to the next: J += (|D| − J) / 16 for each packet that
/// arrives. D is the difference between the transit times of this packet and of the packet that arrived before it. The
/// estimate is stored in sixteenths of a nanosecond; the appendix stores the estimate in sixteenths of its clock unit.
#[derive(Clone, Copy, Default, Debug)]
pub struct Jitter {
    /// Transit time of the last packet.
    transit: Option<u64>,
    sixteenths: u64,
    sum: u64,
    packets: u64,
}

impl Jitter {
    /// Records the next packet. As in the RFC, packets must be recorded in order of arrival.
    pub fn packet(&mut self, sent: Instant, arrived: Instant) {
        let transit = arrived.saturating_since(sent).as_ns();
        if let Some(last) = self.transit.replace(transit) {
            let difference = transit.abs_diff(last);
            self.sixteenths = self.sixteenths.saturating_add(difference) - ((self.sixteenths + 8) >> 4);
            self.sum = self.sum.saturating_add(self.sixteenths >> 4);
            self.packets += 1;
        }
    }

    /// Returns the current estimate.
    #[must_use]
    pub fn now(self) -> Nanos {
        Nanos::ns(self.sixteenths >> 4)
    }

    /// Returns the mean of all estimates so far. Zero before the first estimate.
    #[must_use]
    pub fn mean(self) -> Nanos {
        Nanos::ns(self.sum.checked_div(self.packets).unwrap_or(0))
    }
}
