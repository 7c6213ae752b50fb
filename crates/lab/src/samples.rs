//! CPU time of every VM, interval by interval, as a monitor samples it.
//!
//! Source: Cherkasova, Gupta and Vahdat, "Comparison of the three CPU schedulers in Xen", 2007, section 5.2: the error of an allocation is
//! judged at a time scale, by samples of one second.

use sched::{EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use trace::{Event, Sink};

/// Watches a host, and cuts what everybody gets into intervals.
#[derive(Debug)]
pub(crate) struct Sampler {
    interval: Nanos,
    running: BTreeMap<EntityId, Instant>,
    /// By interval since the start, as far as any was got. Unit: nanoseconds.
    got: BTreeMap<EntityId, Vec<u64>>,
}

impl Sampler {
    pub(crate) fn new(interval: Nanos) -> Sampler {
        Sampler { interval, running: BTreeMap::new(), got: BTreeMap::new() }
    }

    /// All is over: whoever runs has run until then.
    pub(crate) fn end(&mut self, end: Instant) {
        for (entity, since) in std::mem::take(&mut self.running) {
            self.add(entity, since, end);
        }
    }

    /// What `vcpus` got together in each of the first `count` intervals.
    pub(crate) fn of(&self, vcpus: &[EntityId], count: usize) -> Vec<u64> {
        let mut sums = vec![0; count];
        for got in vcpus.iter().filter_map(|vcpu| self.got.get(vcpu)) {
            sums.iter_mut().zip(got).for_each(|(sum, got)| *sum += got);
        }
        sums
    }

    fn add(&mut self, entity: EntityId, since: Instant, until: Instant) {
        let (interval, got) = (self.interval.as_ns(), self.got.entry(entity).or_default());
        let (mut from, until) = (since.as_ns(), until.as_ns());
        while from < until {
            let index = from / interval;
            let to = until.min((index + 1).saturating_mul(interval));
            let index = usize::try_from(index).expect("a scenario has few samples");
            if got.len() <= index {
                got.resize(index + 1, 0);
            }
            got[index] += to - from;
            from = to;
        }
    }
}

impl Sink for Sampler {
    fn record(&mut self, at: Instant, event: &Event) {
        match *event {
            Event::Run { entity, .. } => {
                self.running.insert(entity, at);
            }
            Event::Stop { entity, .. } => {
                if let Some(since) = self.running.remove(&entity) {
                    self.add(entity, since, at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_over_several_intervals_counts_in_each_and_the_last_one_that_is_not_whole_is_left_out() {
        let mut sampler = Sampler::new(Nanos::s(1));
        let (a, b) = (EntityId::new(0, 0), EntityId::new(1, 0));
        sampler.add(a, Instant::at_ns(500_000_000), Instant::at_ns(2_250_000_000));
        sampler.add(b, Instant::at_ns(900_000_000), Instant::at_ns(1_000_000_000));
        sampler.running.insert(b, Instant::at_ns(2_900_000_000));
        sampler.end(Instant::at_ns(3_400_000_000));
        assert_eq!(sampler.of(&[a, b], 3), [600_000_000, 1_000_000_000, 350_000_000]);
        assert_eq!(sampler.of(&[b], 3), [100_000_000, 0, 100_000_000]);
        assert_eq!(sampler.of(&[], 2), [0, 0]);
    }
}
