//! [`Jitter`]: the estimator of RFC 3550, section 6.4.1, as in its appendix A.8.

use sched::{Instant, Nanos};

/// How much the time that packets are under way changes from one to the next: J += (|D| − J) / 16 for each packet that comes, where D is
/// the difference to the one that came before it. Kept in sixteenths of a nanosecond, as the appendix keeps it in sixteenths of its clock.
#[derive(Clone, Copy, Default, Debug)]
pub struct Jitter {
    /// How long the last one was under way.
    transit: Option<u64>,
    sixteenths: u64,
    sum: u64,
    packets: u64,
}

impl Jitter {
    /// A packet that came, in the order of coming.
    pub fn packet(&mut self, sent: Instant, arrived: Instant) {
        let transit = arrived.saturating_since(sent).as_ns();
        if let Some(last) = self.transit.replace(transit) {
            let difference = transit.abs_diff(last);
            self.sixteenths = self.sixteenths.saturating_add(difference) - ((self.sixteenths + 8) >> 4);
            self.sum = self.sum.saturating_add(self.sixteenths >> 4);
            self.packets += 1;
        }
    }

    /// The estimate now.
    #[must_use]
    pub fn now(self) -> Nanos {
        Nanos::ns(self.sixteenths >> 4)
    }

    /// The mean of all estimates so far; zero if there was none.
    #[must_use]
    pub fn mean(self) -> Nanos {
        Nanos::ns(self.sum.checked_div(self.packets).unwrap_or(0))
    }
}
