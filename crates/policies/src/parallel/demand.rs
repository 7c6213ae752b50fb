//! [`Demand`]: the VMs that are co-scheduled now, and the lengths of their co-scheduling intervals.

use sched::{GroupId, Instant, Nanos};

/// The state of one VM.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Length of the current or last interval.
    length: Nanos,
    /// Instant of the end of the last interval.
    ended: Option<Instant>,
    on: Option<Instant>,
}

/// An estimate of the duration of lock contention in each VM, from the reports of its long spin waits.
///
/// A report of a long spin wait starts an interval of co-scheduling, unless an interval is in progress. Co-scheduling
/// should end the spin waits of the VM. The interval was too short if the next reported wait began within the interval,
/// or within one interval length after its end. If the interval was too short, the next interval is twice as long;
/// otherwise it is a quarter shorter, within bounds. A wait is reported when the wait ends, which may be long after its
/// beginning.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    threshold: Nanos,
    first: Nanos,
    least: Nanos,
    most: Nanos,
    /// State of each VM, by group index.
    episodes: Vec<Episode>,
}

impl Demand {
    /// Creates an estimate that counts waits of `threshold` or more. The length of the first interval is `first`. The
    /// length of every interval is between `least` and `most`.
    pub(crate) fn new(threshold: Nanos, first: Nanos, least: Nanos, most: Nanos) -> Demand {
        let most = most.max(least);
        Demand { threshold, first: first.max(least).min(most), least, most, episodes: Vec::new() }
    }

    fn fresh(&self) -> Episode {
        Episode { length: self.first, ended: None, on: None }
    }

    /// Makes room for a new group.
    pub(crate) fn reserve(&mut self, g: GroupId) {
        let fresh = self.fresh();
        if self.episodes.len() <= g.index() {
            self.episodes.resize(g.index() + 1, fresh);
        }
        self.episodes[g.index()] = fresh;
    }

    /// Returns whether the VM `g` is being co-scheduled.
    pub(crate) fn is_on(&self, g: GroupId) -> bool {
        self.episodes[g.index()].on.is_some()
    }

    /// Records that a vCPU of the VM `g` has spun for a lock for `waited`. If this report starts an interval of
    /// co-scheduling, returns the end of the interval.
    pub(crate) fn report(&mut self, g: GroupId, waited: Nanos, now: Instant) -> Option<Instant> {
        let (least, most) = (self.least, self.most);
        let episode = &mut self.episodes[g.index()];
        if waited < self.threshold || episode.on.is_some() {
            return None;
        }
        if let Some(ended) = episode.ended {
            let too_short = now.saturating_since(ended.saturating_add(waited)) < episode.length;
            let next = if too_short { episode.length.saturating_mul(2) } else { episode.length.scale(3, 4) };
            episode.length = next.max(least).min(most);
        }
        let until = now.saturating_add(episode.length);
        episode.on = Some(until);
        Some(until)
    }

    /// Ends the interval of `g`.
    pub(crate) fn end(&mut self, g: GroupId) {
        let episode = &mut self.episodes[g.index()];
        episode.ended = episode.on.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Nanos::ms(ms)
    }

    /// Returns the lengths, in milliseconds, of the intervals that the reports at these instants start.
    fn lengths(demand: &mut Demand, reports: &[u64]) -> Vec<Option<u64>> {
        let vm = GroupId::new(1, 0);
        demand.reserve(vm);
        let mut until: Option<Instant> = None;
        let report = |&ms: &u64| {
            if until.is_some_and(|until| until <= at(ms)) {
                demand.end(vm);
                until = None;
            }
            let begun = demand.report(vm, Nanos::ms(1), at(ms));
            until = begun.or(until);
            begun.map(|begun| begun.since(at(ms)).as_ns() / 1_000_000)
        };
        reports.iter().map(report).collect()
    }

    #[test]
    fn intervals_grow_while_they_are_too_short_and_shrink_when_they_are_not() {
        let mut demand = Demand::new(Nanos::us(450), Nanos::ms(30), Nanos::ms(10), Nanos::ms(100));
        let reports = [0, 10, 31, 92, 200, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000];
        let expected = [30, 0, 60, 100, 100, 75, 56, 42, 31, 23, 17, 13, 10, 10];
        assert_eq!(lengths(&mut demand, &reports).iter().map(|ms| ms.unwrap_or(0)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_wait_that_began_before_an_interval_was_over_shows_that_it_was_too_short() {
        for (waited, next) in [(60, 60), (10, 23)] {
            let mut demand = Demand::new(Nanos::us(450), Nanos::ms(30), Nanos::ms(10), Nanos::ms(100));
            assert_eq!(lengths(&mut demand, &[0]), [Some(30)]);
            let vm = GroupId::new(1, 0);
            demand.end(vm);
            let until = demand.report(vm, Nanos::ms(waited), at(90));
            assert_eq!(until.map(|until| until.since(at(90)).as_ns().div_ceil(1_000_000)), Some(next), "{waited} ms");
        }
    }

    #[test]
    fn short_waits_do_not_count() {
        let mut demand = Demand::new(Nanos::ms(2), Nanos::ms(30), Nanos::ms(10), Nanos::ms(100));
        assert_eq!(lengths(&mut demand, &[0]), [None]);
        assert!(!demand.is_on(GroupId::new(1, 0)));
    }
}
