//! [`Lived`]: the time in which a recorded kernel went on.
//!
//! A virtual machine stands still at times, or one of its CPUs does: it is not emulated, or keeps all interrupts off. None of its timers
//! fires meanwhile, and it records nothing. A decision that was due then is not late. Which CPU has the timer of a promise is not
//! recorded, so a time counts if all CPUs go on.

use crate::recording::Record;
use sched::Nanos;

/// Maximum time without a record of a CPU that counts. While the CPU goes on, its timer, which fires every 100 us, makes a
/// record if there is no other one (`bpf/record.h`).
///
/// Set after a recording with two such times of more than 0.4 ms within 3.4 ms, in which both CPUs began no period.
pub(super) const SILENCE_MOST: Nanos = Nanos::us(200);

/// The time of a recording without its silence.
pub(super) struct Lived {
    /// The clock of each record, the time until then that counts, and the instant until which the time after it counts. Unit: ns.
    records: Vec<(u64, u64, u64)>,
    longest_silence_ns: u64,
}

impl Lived {
    pub(super) fn new(records: &[Record], cpus: usize) -> Lived {
        let mut lived = Lived { records: Vec::with_capacity(records.len()), longest_silence_ns: 0 };
        // A CPU without a record so far has not begun to record.
        let mut heard: Vec<Option<u64>> = vec![None; cpus];
        for record in records {
            // The clocks of two CPUs may differ by less than the time of a record.
            let at = lived.records.last().map_or(record.at_ns, |&(last, ..)| record.at_ns.max(last));
            let sum = lived.until(at);
            if let Some(own) = heard.get_mut(record.cpu)
                && let Some(before) = own.replace(at)
            {
                lived.longest_silence_ns = lived.longest_silence_ns.max(at - before);
            }
            let first = heard.iter().flatten().min().copied().unwrap_or(at);
            lived.records.push((at, sum, first + SILENCE_MOST.as_ns()));
        }
        lived
    }

    /// Returns the time from `begin` to `end` that counts. Unit of the clocks: ns.
    pub(super) fn between(&self, begin_ns: u64, end_ns: u64) -> Nanos {
        Nanos::ns(self.until(end_ns).saturating_sub(self.until(begin_ns)))
    }

    fn until(&self, at_ns: u64) -> u64 {
        let next = self.records.partition_point(|&(at, ..)| at <= at_ns);
        let Some(&(at, sum, end)) = next.checked_sub(1).and_then(|last| self.records.get(last)) else { return 0 };
        sum + at_ns.min(end).saturating_sub(at)
    }

    /// Returns the longest time without a record of a CPU. Unit: ns.
    pub(super) fn longest_silence_ns(&self) -> u64 {
        self.longest_silence_ns
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
        let lived = Lived::new(&[100, 150, 149, 300, 2_300, 2_310].map(record), 1);
        let between = |begin: u64, end: u64| lived.between(begin * 1_000, end * 1_000).as_ns() / 1_000;
        assert_eq!([between(100, 300), between(120, 150), between(150, 300)], [200, 30, 150]);
        assert_eq!([between(300, 2_300), between(400, 2_310), between(300, 450)], [200, 110, 150]);
        assert_eq!([between(0, 100), between(2_310, 9_000), between(50, 60)], [0, 200, 0]);
        assert_eq!(lived.longest_silence_ns(), 2_000_000);
    }

    #[test]
    fn time_counts_while_all_cpus_go_on() {
        let record = |(us, cpu): (u64, usize)| Record {
            number: us,
            at_ns: us * 1_000,
            took_ns: 0,
            cpu,
            promise: 0,
            what: What::Beat,
        };
        // CPU 1 stands still from 100 us to 900 us.
        let beats = [(0, 0), (100, 1), (150, 0), (300, 0), (450, 0), (600, 0), (750, 0), (900, 1), (1_000, 0)];
        let lived = Lived::new(&beats.map(record), 2);
        let between = |begin: u64, end: u64| lived.between(begin * 1_000, end * 1_000).as_ns() / 1_000;
        assert_eq!([between(0, 300), between(300, 900), between(900, 1_000)], [300, 0, 50]);
        assert_eq!(lived.longest_silence_ns(), 800_000);
    }
}
