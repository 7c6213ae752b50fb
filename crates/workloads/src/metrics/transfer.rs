//! Transfers over a network, or to or from a disk.

use super::gauge::{Fact, Gauge};
use super::reading::{Reading, ratio};
use sched::Instant;

/// A gauge in which every completed job is a block.
#[derive(Debug)]
pub(super) struct Transfer {
    /// Size of a block. Unit: bytes.
    bytes: u64,
    came: Option<Instant>,
    over: Instant,
    there: u64,
    blocks: u64,
}

impl Transfer {
    pub(super) fn new(bytes: u64) -> Transfer {
        Transfer { bytes, came: None, over: Instant::ZERO, there: 0, blocks: 0 }
    }
}

impl Gauge for Transfer {
    fn note(&mut self, at: Instant, _: &str, fact: Fact) {
        match fact {
            Fact::Came => {
                self.came.get_or_insert(at);
                self.there += 1;
            }
            Fact::Left => {
                self.there -= 1;
                self.over = at;
            }
            Fact::Done => self.blocks += 1,
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant) {
        self.came = self.came.map(|came| came.max(at));
        self.blocks = 0;
    }

    fn read(&mut self, end: Instant) -> Reading {
        let unfinished = self.there > 0 || self.came.is_none();
        let over = if unfinished { end } else { self.over };
        let took = over.saturating_since(self.came.unwrap_or(over));
        let bytes = self.blocks.saturating_mul(self.bytes);
        let mut reading = Reading::default();
        // One byte per nanosecond is a million thousandths of a megabyte per second.
        reading.add("mb_per_s_milli", ratio(bytes, 1_000_000, took.as_ns()));
        reading.add("mbit_per_s_milli", ratio(bytes, 8_000_000, took.as_ns()));
        reading.add("blocks", self.blocks);
        reading.time("took_ns", took);
        reading.add("unfinished", u64::from(unfinished));
        reading
    }
}
