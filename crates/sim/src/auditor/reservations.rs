//! Reservations: a slice in every period for an entity that is runnable throughout.

use sched::{Instant, Nanos, Reservation};

/// What became of an entity's reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeriodCounts {
    /// Periods in which the entity wanted to run throughout.
    pub judged: u64,
    /// Those of them in which it got less than its slice.
    pub missed: u64,
    /// The most that was lacking in one period.
    pub shortfall: Nanos,
}

/// What an entity does between two events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// It does not want to run, or gave its time away.
    Resting,
    /// It wants to run.
    Wanting,
    /// It runs.
    Running,
}

/// An entity's periods, one after the other from the first on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods {
    pub(super) counts: PeriodCounts,
    slice: Nanos,
    period: Nanos,
    /// When the current period begins.
    start: Instant,
    /// Whether the start was asked for: else a period of which the entity wanted nothing begins when it wakes.
    fixed: bool,
    /// Since when it does not want to run, if it does not.
    resting: Option<Instant>,
    /// Delivered in the current period.
    delivered: Nanos,
    /// Whether the entity wanted to run at every moment of it so far.
    throughout: bool,
    /// Until when all is accounted for.
    seen: Instant,
}

impl Periods {
    /// The first period begins at the reservation's start, or now; `counts` are of earlier reservations.
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

    /// The current period does not count: something was changed in it, or given away.
    pub(super) fn spoil(&mut self) {
        self.throughout = false;
    }

    /// From `seen` to `now` the entity was `doing` this. Gives the worst shortfall of the periods that ended.
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
            // Whole periods of the same need no loop.
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

    /// The current period ends; the next one begins clean.
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
