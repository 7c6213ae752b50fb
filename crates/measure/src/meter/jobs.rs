//! [`Jobs`]: what became of an entity's jobs.

use sched::{Instant, Nanos};
use std::collections::VecDeque;

/// What became of the jobs of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jobs {
    /// Jobs released.
    pub releases: u64,
    /// Jobs completed.
    pub completions: u64,
    /// Jobs completed after their deadline.
    pub misses: u64,
    /// Jobs not completed whose deadline had passed when the run or the entity's stay ended.
    pub unfinished_late: u64,
    /// How much too late the worst completed job was; zero if none was.
    pub worst_lateness: Nanos,
}

impl Jobs {
    /// The same of both together.
    pub(super) fn add(&mut self, other: &Jobs) {
        self.releases += other.releases;
        self.completions += other.completions;
        self.misses += other.misses;
        self.unfinished_late += other.unfinished_late;
        self.worst_lateness = self.worst_lateness.max(other.worst_lateness);
    }
}

/// Moments at equal distances.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: Instant,
    apart: Nanos,
    count: u64,
}

impl Stretch {
    /// The one after the last, if it were longer.
    fn next(&self) -> Instant {
        self.first.saturating_add(self.apart.saturating_mul(self.count))
    }
}

/// The deadlines, or the releases, of the jobs not completed yet, in order of release. Equal distances take no room, however many.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments(VecDeque<Stretch>);

impl Moments {
    pub(super) fn push(&mut self, moment: Instant) {
        match self.0.back_mut() {
            Some(last) if last.count == 1 && moment >= last.first => {
                last.apart = moment.since(last.first);
                last.count = 2;
            }
            Some(last) if last.next() == moment => last.count += 1,
            _ => self.0.push_back(Stretch { first: moment, apart: Nanos::ZERO, count: 1 }),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Instant> {
        let stretch = self.0.front_mut()?;
        let moment = stretch.first;
        if stretch.count == 1 {
            self.0.pop_front();
        } else {
            stretch.first = stretch.first.saturating_add(stretch.apart);
            stretch.count -= 1;
        }
        Some(moment)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many lie before `now`.
    pub(super) fn before(&self, now: Instant) -> u64 {
        let count = |stretch: &Stretch| match now.saturating_since(stretch.first).as_ns() {
            0 => 0,
            past if stretch.apart.is_zero() => stretch.count.min(past.saturating_mul(stretch.count)),
            past => past.div_ceil(stretch.apart.as_ns()).min(stretch.count),
        };
        self.0.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_out_as_they_went_in() {
        let given: Vec<u64> = vec![10, 20, 30, 35, 36, 36, 36, 5, 9, 100, 100];
        let mut moments = Moments::default();
        for &at in &given {
            moments.push(Instant::at_ns(at));
        }
        for now in 0..=101 {
            let right = given.iter().filter(|&&at| at < now).count() as u64;
            assert_eq!(moments.before(Instant::at_ns(now)), right, "before {now}");
        }
        let found: Vec<u64> = std::iter::from_fn(|| moments.pop()).map(Instant::as_ns).collect();
        assert_eq!(found, given);
        assert!(moments.0.is_empty());
    }

    #[test]
    fn a_million_periods_late_take_no_room() {
        let mut moments = Moments::default();
        (0..1_000_000).for_each(|i| moments.push(Instant::at_ns(7 + 3 * i)));
        assert_eq!(moments.0.len(), 1);
        assert_eq!(moments.before(Instant::NEVER), 1_000_000);
    }
}
