//! Reservations: checks that an entity receives its slice in every period throughout which the entity is runnable.

use sched::{Instant, Nanos, Reservation};

/// Counts of an entity's reserved periods.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeriodCounts {
    /// Number of periods in which the entity was runnable throughout, without a yield or a change of its parameters.
    pub judged: u64,
    /// Number of these periods in which the entity received less than its slice.
    pub missed: u64,
    /// Maximum shortfall in one period.
    pub shortfall: Nanos,
}

/// The state of an entity between two events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// The entity is not runnable.
    Resting,
    /// The entity is ready to run, but does not run.
    Wanting,
    /// The entity runs.
    Running,
}

/// The sequence of an entity's periods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods {
    pub(super) counts: PeriodCounts,
    slice: Nanos,
    period: Nanos,
    /// Start of the current period.
    start: Instant,
    /// Whether the start is fixed, by a request or by the gang. Otherwise, a new period begins at the wake-up of an
    /// entity that has not been runnable in the current period.
    fixed: bool,
    /// Instant since which the entity is not runnable. `None`: the entity is runnable.
    resting: Option<Instant>,
    /// CPU time delivered in the current period.
    delivered: Nanos,
    /// Whether the current period counts: the entity has been runnable without interruption, and neither a yield nor a
    /// change of its parameters has occurred.
    throughout: bool,
    /// Instant up to which time is counted.
    seen: Instant,
}

impl Periods {
    /// Begins the first period at the requested start, or now if no start after `now` is requested. `counts` holds the
    /// counts from earlier reservations.
    pub(super) fn new(reservation: &Reservation, now: Instant, counts: PeriodCounts) -> Periods {
        let start = reservation.start.unwrap_or(now).max(now);
        Periods {
            counts,
            slice: reservation.slice,
            period: reservation.period,
            start,
            fixed: reservation.start.is_some(),
            resting: Some(now),
            delivered: Nanos::ZERO,
            throughout: true,
            seen: now,
        }
    }

    /// Returns the start of the first period that begins at or after `now`.
    pub(super) fn next_start(&self, now: Instant) -> Instant {
        let begun = now.saturating_since(self.start).as_ns().div_ceil(self.period.as_ns());
        self.start.saturating_add(self.period.saturating_mul(begun))
    }

    /// Excludes the current period from the counts, because of a change or a yield during the period.
    pub(super) fn spoil(&mut self) {
        self.throughout = false;
    }

    /// Counts the time from `seen` to `now`, during which the entity was in state `doing`. Returns the largest
    /// shortfall of the ended periods.
    pub(super) fn elapse(&mut self, doing: Doing, now: Instant) -> Option<Nanos> {
        match (doing, self.resting) {
            (Doing::Resting, None) => self.resting = Some(self.seen),
            (Doing::Wanting | Doing::Running, Some(since)) => {
                self.resting = None;
                if !self.fixed && since <= self.start {
                    (self.start, self.throughout) = (self.seen, true);
                }
            }
            _ => {}
        }
        let mut from = std::mem::replace(&mut self.seen, now).max(self.start);
        let mut worst = None;
        while now >= self.start.saturating_add(self.period) {
            let end = self.start.saturating_add(self.period);
            self.account(doing, end.since(from));
            worst = worst.max(self.close());
            (self.start, from) = (end, end);
            // Whole periods in the same state need no loop.
            let whole = now.since(end).as_ns() / self.period.as_ns();
            if whole > 1 {
                worst = worst.max(self.repeat(doing, whole - 1));
                self.start += self.period.saturating_mul(whole - 1);
                from = self.start;
            }
        }
        if now > from {
            self.account(doing, now.since(from));
        }
        worst
    }

    fn account(&mut self, doing: Doing, time: Nanos) {
        match doing {
            Doing::Running => self.delivered += time,
            Doing::Resting if !time.is_zero() => self.throughout = false,
            Doing::Resting | Doing::Wanting => {}
        }
    }

    /// Ends the current period and begins the next period. Returns the shortfall of the ended period, if any.
    fn close(&mut self) -> Option<Nanos> {
        let delivered = std::mem::replace(&mut self.delivered, Nanos::ZERO);
        if !std::mem::replace(&mut self.throughout, true) {
            return None;
        }
        self.counts.judged += 1;
        let lacking = self.slice.saturating_sub(delivered);
        if lacking.is_zero() {
            return None;
        }
        self.counts.missed += 1;
        self.counts.shortfall = self.counts.shortfall.max(lacking);
        Some(lacking)
    }

    fn repeat(&mut self, doing: Doing, times: u64) -> Option<Nanos> {
        match doing {
            Doing::Resting => None,
            Doing::Running => {
                self.counts.judged += times;
                None
            }
            Doing::Wanting => {
                self.counts.judged += times;
                self.counts.missed += times;
                self.counts.shortfall = self.counts.shortfall.max(self.slice);
                Some(self.slice)
            }
        }
    }
}
