//! [`Lived`]: the time in which a recorded kernel went on.
//!
//! A virtual machine stands still at times: its CPUs are not emulated, or the kernel keeps all interrupts off. No timer fires
//! meanwhile, and no CPU records anything. A decision that was due then is not late.

use crate::recording::Record;
use sched::Nanos;

/// Maximum time without a record that counts. While the kernel goes on, a timer makes a record every 100 us (`bpf/record.h`).
///
/// Set after a recording with two such times of more than 0.4 ms within 3.4 ms, in which both CPUs began no period.
pub(super) const SILENCE_MOST: Nanos = Nanos::us(200);

/// The time of a recording without its silence.
pub(super) struct Lived {
    /// The clock of each record, and the time until then that counts. Unit: ns.
    records: Vec<(u64, u64)>,
}

impl Lived {
    pub(super) fn new(records: &[Record]) -> Lived {
        let mut lived: Vec<(u64, u64)> = Vec::with_capacity(records.len());
        for record in records {
            let next = match lived.last() {
                // The clocks of two CPUs may differ by less than the time of a record.
                Some(&(at, sum)) => {
                    (record.at_ns.max(at), sum + record.at_ns.saturating_sub(at).min(SILENCE_MOST.as_ns()))
                }
                None => (record.at_ns, 0),
            };
            lived.push(next);
        }
        Lived { records: lived }
    }

    /// Returns the time from `begin` to `end` that counts. Unit of the clocks: ns.
    pub(super) fn between(&self, begin_ns: u64, end_ns: u64) -> Nanos {
        Nanos::ns(self.until(end_ns).saturating_sub(self.until(begin_ns)))
    }

    fn until(&self, at_ns: u64) -> u64 {
        let next = self.records.partition_point(|&(at, _)| at <= at_ns);
        let Some(&(at, sum)) = next.checked_sub(1).and_then(|last| self.records.get(last)) else { return 0 };
        sum + (at_ns - at).min(SILENCE_MOST.as_ns())
    }

    /// Returns the longest time without a record. Unit: ns.
    pub(super) fn longest_silence_ns(&self) -> u64 {
        self.records.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::What;

    #[test]
    fn silence_counts_as_a_part_of_its_length() {
        let record =
            |us: u64| Record { number: us, at_ns: us * 1_000, took_ns: 0, cpu: 0, promise: 7, what: What::Wake };
        let lived = Lived::new(&[100, 150, 149, 300, 2_300, 2_310].map(record));
        let between = |begin: u64, end: u64| lived.between(begin * 1_000, end * 1_000).as_ns() / 1_000;
        assert_eq!([between(100, 300), between(120, 150), between(150, 300)], [200, 30, 150]);
        assert_eq!([between(300, 2_300), between(400, 2_310), between(300, 450)], [200, 110, 150]);
        assert_eq!([between(0, 100), between(2_310, 9_000), between(50, 60)], [0, 200, 0]);
        assert_eq!(lived.longest_silence_ns(), 2_000_000);
    }
}
