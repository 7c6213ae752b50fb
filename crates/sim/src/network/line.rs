//! [`Line`]: a wire, a switch or a disk. Packets pass the line one after the other and take no CPU time.

use crate::program::{Draws, Length};
use sched::{Instant, Nanos};
use std::collections::VecDeque;

/// A second. Unit: ns.
const SECOND: u64 = 1_000_000_000;

/// A line that serves packets first come, first served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Name of the line.
    pub name: String,
    /// Service time per packet, independent of the packet's size, such as the seek time of a disk.
    pub service: Length,
    /// Bandwidth. The transfer time is added to `service`. Unit: bytes per second. Range: 1 …. `None`: unlimited.
    pub bandwidth: Option<u64>,
    /// Latency after service and transfer. Later packets follow without waiting for the latency, and may overtake if
    /// the latency is random.
    pub latency: Length,
    /// Maximum number of waiting packets. Further packets are dropped. `None`: unlimited.
    pub room: Option<u32>,
}

impl Line {
    /// Creates a line without delays or limits.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Line {
        let nothing = Length::Fixed(Nanos::ZERO);
        Line { name: name.into(), service: nothing, bandwidth: None, latency: nothing, room: None }
    }
}

/// A line in use.
#[derive(Debug)]
pub(crate) struct Running {
    line: Line,
    draws: Draws,
    /// Instant at which the last packet leaves the line's service.
    free: Instant,
    /// Instants at which the packets that wait or are in service leave the service. Used only for a line with limited
    /// room.
    ends: VecDeque<Instant>,
}

impl Running {
    /// Creates line number `number` of a world. `seed` determines the random lengths of the line.
    ///
    /// # Panics
    /// The bandwidth of the line is zero.
    pub(crate) fn new(line: Line, seed: u64, number: u64) -> Running {
        assert!(line.bandwidth != Some(0), "something passes a line");
        // The random numbers of a line are independent of the random numbers of all tasks.
        let draws = Draws::new(seed, u64::MAX - number);
        Running { line, draws, free: Instant::ZERO, ends: VecDeque::new() }
    }

    /// Accepts a packet of `bytes`. Returns the instant at which the packet arrives at the other end. `None`: no room
    /// for the packet.
    pub(crate) fn take(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if let Some(room) = self.line.room {
            while self.ends.front().is_some_and(|end| *end <= now) {
                self.ends.pop_front();
            }
            // One of the packets is in service.
            if self.ends.len() > room as usize {
                return None;
            }
        }
        let passing = self.line.bandwidth.map_or(Nanos::ZERO, |rate| Nanos::ns(SECOND).scale(bytes, rate));
        let service = self.draws.length(self.line.service);
        self.free = self.free.max(now).saturating_add(service).saturating_add(passing);
        if self.line.room.is_some() {
            self.ends.push_back(self.free);
        }
        Some(self.free.saturating_add(self.draws.length(self.line.latency)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Instant = Instant::ZERO;

    #[test]
    fn packets_pass_one_after_the_other_and_are_on_their_way_together() {
        let line = Line {
            service: Nanos::us(5).into(),
            bandwidth: Some(1_000_000),
            latency: Nanos::us(300).into(),
            ..Line::new("wire")
        };
        let mut line = Running::new(line, 1, 0);
        assert_eq!(line.take(T0, 10), Some(T0 + Nanos::us(5 + 10 + 300)));
        assert_eq!(line.take(T0, 20), Some(T0 + Nanos::us(15 + 5 + 20 + 300)));
        assert_eq!(line.take(T0 + Nanos::ms(1), 0), Some(T0 + Nanos::us(1_305)));
    }

    #[test]
    fn a_packet_without_room_is_dropped() {
        let line = Line { service: Nanos::us(10).into(), room: Some(2), ..Line::new("disk") };
        let mut line = Running::new(line, 1, 0);
        let taken: Vec<bool> = (0..5).map(|_| line.take(T0, 1).is_some()).collect();
        assert_eq!(taken, [true, true, true, false, false], "one is dealt with, two wait");
        assert!(line.take(T0 + Nanos::us(10), 1).is_some(), "one is done");
    }
}
