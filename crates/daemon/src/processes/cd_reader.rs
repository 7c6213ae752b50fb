//! A program that reads a track of a CD at the pace of its drive, for live experiments: the workload `cd_reader` of
//! scenarios with real CPU time. The drive is computed from the clock.

use sched::{Instant, Nanos};
use sys::clock;

/// A drive and the program that reads from it. The workload `cd_reader` explains the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CdReader {
    /// Number of turns of the disc.
    pub turns: u64,
    /// Duration of a turn. Range: above zero.
    pub turn: Nanos,
    /// Capacity of the drive's buffer, in turns. Minimum: 1.
    pub buffer: u64,
    /// Duration of a seek back after a stop.
    pub seek: Nanos,
    /// CPU time to process the data of a turn.
    pub work: Nanos,
}

/// The state of the drive. Only the reader empties the buffer, so the state at the next request follows from the clock.
#[derive(Debug)]
struct Drive {
    of: CdReader,
    begun: Instant,
    /// End of the turn that the head reads now, or has read if the buffer was full then.
    turn_ends: Instant,
    buffered: u64,
    /// Whether the head holds the data of a turn because the buffer is full.
    is_stopped: bool,
}

impl Drive {
    fn new(of: CdReader, begun: Instant) -> Drive {
        Drive { of, begun, turn_ends: begun.saturating_add(of.turn), buffered: 0, is_stopped: false }
    }

    /// Takes the data of a turn from the buffer. Returns the instant at which the data is available.
    fn take(&mut self, now: Instant) -> Instant {
        let CdReader { turn, buffer, seek, .. } = self.of;
        while !self.is_stopped && self.turn_ends <= now {
            if self.buffered < buffer {
                self.buffered += 1;
                self.turn_ends = self.turn_ends.saturating_add(turn);
            } else {
                self.is_stopped = true;
            }
        }
        if self.buffered == 0 {
            let available = self.turn_ends;
            self.turn_ends = available.saturating_add(turn);
            return available;
        }
        self.buffered -= 1;
        if self.is_stopped {
            self.is_stopped = false;
            self.buffered += 1;
            let next = self.turn_ends.saturating_add(turn);
            self.turn_ends = if next < now { self.turn_from(now.saturating_add(seek)) } else { next };
        }
        now
    }

    /// Returns the end of the first turn that ends at `from` or later.
    fn turn_from(&self, from: Instant) -> Instant {
        let turns = from.saturating_since(self.begun).as_ns().div_ceil(self.of.turn.as_ns());
        self.begun.saturating_add(self.of.turn.saturating_mul(turns))
    }
}

impl CdReader {
    /// Reads all turns. Returns the elapsed time.
    #[must_use]
    pub fn read(self) -> Nanos {
        let begun = clock::now();
        let mut drive = Drive::new(self, begun);
        for _ in 0..self.turns {
            clock::sleep_until(drive.take(clock::now()));
            let until = clock::thread_time().saturating_add(self.work);
            while clock::thread_time() < until {
                std::hint::spin_loop();
            }
        }
        clock::now().since(begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::at_ns(ms * 1_000_000)
    }

    #[test]
    fn a_reader_that_keeps_up_waits_for_each_turn_and_a_late_reader_for_a_seek() {
        let (turn, seek) = (Nanos::ms(20), Nanos::ms(100));
        let mut drive = Drive::new(CdReader { turns: 9, turn, buffer: 2, seek, work: Nanos::ZERO }, at(0));
        assert_eq!([1, 21, 41].map(|now| drive.take(at(now))), [20, 40, 60].map(at));
        // Turns end at 80 and 100 ms. The buffer is full when the third turn ends at 120 ms: the drive stops.
        assert_eq!([150, 150, 150].map(|now| drive.take(at(now))), [150, 150, 150].map(at));
        // The drive has continued at 150 ms: it seeks until 250 ms, and the next turn ends at 260 ms.
        assert_eq!(drive.take(at(150)), at(260));
        // A stop that is shorter than a turn costs no seek: turns end at 280, 300, 320 and 340 ms.
        assert_eq!([325, 325, 325].map(|now| drive.take(at(now))), [325, 325, 325].map(at));
        assert_eq!(drive.take(at(330)), at(340));
    }
}
