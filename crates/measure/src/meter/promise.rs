//! [`Promise`]: the fulfilment of a reservation, period by period.

use sched::{Instant, Nanos, Reservation};
use trace::Durations;

/// The fulfilment of a reservation.
///
/// Periods follow one another from the requested start of the reservation, or from the instant of the request if no
/// later start was requested. Without a requested start, a new sequence of periods begins when the entity wakes after a
/// sleep that began no later than the current period. The first wake-up therefore begins a period.
///
/// A period is evaluated if the entity was runnable (waiting, running or held) throughout. The period is a miss if less
/// than the slice was delivered by its end. A period in which the entity slept is not evaluated, because the sleep may
/// be the reason for a missed slice.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Promise {
    /// Number of periods that ended.
    pub periods: u64,
    /// Number of ended periods in which the entity was runnable throughout.
    pub judged: u64,
    /// Number of periods in which the entity was runnable throughout and received less than the slice.
    pub misses: u64,
    /// Missing amount in each missed period.
    pub shortfalls: Durations,
    /// Maximum total amount missing from all slices due since the reservation was made. Counted only until the entity
    /// sleeps.
    pub worst_debt: Nanos,
    /// Adaptation times, from each change of the reservation to the end of the first period in which the new slice was
    /// delivered. Counted only until the entity sleeps.
    pub changes: Durations,
    /// Number of times that the promise stopped being kept, as judged by the driver that enforces the reservation.
    pub breaches: u64,
    /// Instant at which the promise first stopped being kept.
    pub first_breach: Option<Instant>,
}

impl Promise {
    /// Adds the results of `other`: sums, and the maximum of the debt.
    pub(super) fn add(&mut self, other: &Promise) {
        self.periods += other.periods;
        self.judged += other.judged;
        self.misses += other.misses;
        self.shortfalls.add(&other.shortfalls);
        self.worst_debt = self.worst_debt.max(other.worst_debt);
        self.changes.add(&other.changes);
        self.breaches += other.breaches;
        self.first_breach = self.first_breach.into_iter().chain(other.first_breach).min();
    }

    /// Returns the missing amount in the worst period.
    #[must_use]
    pub fn worst_shortfall(&self) -> Nanos {
        self.shortfalls.longest()
    }

    /// Records the end of a period in which the CPU time `due` was due.
    pub(super) fn end(&mut self, due: Nanos, delivered: Nanos, throughout: bool) {
        self.periods += 1;
        if throughout {
            self.judge(due, delivered, 1);
        }
    }

    /// Records that the promise is `kept` from `now` on.
    pub(super) fn judge_promise(&mut self, kept: bool, now: Instant) {
        if !kept {
            self.breaches += 1;
            self.first_breach.get_or_insert(now);
        }
    }

    fn judge(&mut self, slice: Nanos, delivered: Nanos, periods: u64) {
        self.judged += periods;
        if delivered < slice {
            self.misses += periods;
            self.shortfalls.record_often(slice - delivered, periods);
        }
    }
}

/// The state of an entity during a time span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    Blocked,
    Waiting,
    Running,
}

/// A reservation under observation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) reservation: Reservation,
    /// End of the current period. Before the first period: its start.
    end: Instant,
    /// Instant up to which all time is accounted for.
    upto: Instant,
    delivered: Nanos,
    throughout: bool,
    started: bool,
    /// Instant from which the entity has been blocked. `None`: the entity is not blocked.
    blocked: Option<Instant>,
    /// Delivered minus due time since the reservation was made; `None` once the entity has slept.
    balance: Option<i128>,
    /// Instant of the change to this reservation; `None` once a period has delivered the new slice.
    changed: Option<Instant>,
}

impl Watch {
    /// Observes `reservation`, made now. The first period begins at the requested start, or now if there is no later
    /// start.
    pub(super) fn new(reservation: Reservation, now: Instant) -> Watch {
        let end = reservation.start.unwrap_or(now).max(now);
        Watch {
            reservation,
            end,
            upto: now,
            delivered: Nanos::ZERO,
            throughout: true,
            started: false,
            blocked: Some(now),
            balance: Some(0),
            changed: None,
        }
    }

    /// Observes `reservation`, which replaces another reservation now. `blocked`: the entity is blocked.
    pub(super) fn changed(reservation: Reservation, blocked: bool, now: Instant) -> Watch {
        let blocked = blocked.then_some(now);
        Watch { blocked, changed: Some(now), ..Watch::new(reservation, now) }
    }

    /// Adds `periods` that have ended, with `delivered` in total, to the balance. The balance ends if the entity was
    /// not runnable throughout.
    fn weigh(&mut self, delivered: Nanos, periods: u64, sum: &mut Promise) {
        let Some(balance) = self.balance.as_mut().filter(|_| self.throughout) else {
            self.balance = None;
            return;
        };
        let due = i128::from(self.reservation.slice.as_ns()) * i128::from(periods);
        *balance += i128::from(delivered.as_ns()) - due;
        sum.worst_debt = sum.worst_debt.max(Nanos::ns(u64::try_from(-*balance).unwrap_or(0)));
        let (kept, end) = (delivered >= self.reservation.slice, self.upto);
        if let Some(since) = self.changed.filter(|_| kept) {
            sum.changes.record(end.since(since));
            self.changed = None;
        }
    }

    /// Accounts for the time until `now`. The entity was in state `doing` throughout this time.
    #[inline]
    pub(super) fn advance(&mut self, doing: Doing, now: Instant, sum: &mut Promise) {
        // Usually the entity continues as before, within one period.
        if now < self.end && (doing == Doing::Blocked) == self.blocked.is_some() {
            let time = now.since(self.upto);
            if doing == Doing::Running {
                self.delivered += time;
            }
            self.throughout &= doing != Doing::Blocked || time.is_zero();
            self.upto = now;
            return;
        }
        self.advance_across(doing, now, sum);
    }

    /// Accounts like [`advance`](Watch::advance), but also across a block, a wake-up or the end of a period.
    fn advance_across(&mut self, doing: Doing, now: Instant, sum: &mut Promise) {
        match (doing, self.blocked) {
            (Doing::Blocked, None) => self.blocked = Some(self.upto),
            (Doing::Waiting | Doing::Running, Some(since)) => self.wake(since, sum),
            _ => {}
        }
        while self.upto < now {
            if self.started && self.is_fresh() {
                self.skip(doing, now, sum);
                if self.upto == now {
                    return;
                }
            }
            let to = self.end.min(now);
            let time = to.since(self.upto);
            if doing == Doing::Running {
                self.delivered += time;
            }
            self.throughout &= doing != Doing::Blocked || time.is_zero();
            self.upto = to;
            if to == self.end {
                self.close(sum);
            }
        }
        // A period that ends exactly now is closed, too: events at this instant belong to the next period.
        if self.end == now {
            self.close(sum);
        }
    }

    /// Records the wake-up of the entity, which has been blocked since `since`. Without a requested start, a new period
    /// begins now if the sleep began no later than the current period began.
    fn wake(&mut self, since: Instant, sum: &mut Promise) {
        self.blocked = None;
        if self.end == self.upto {
            self.close(sum);
        }
        let Reservation { start, period, .. } = self.reservation;
        if start.is_none() && since.saturating_add(period) <= self.end {
            self.end = self.upto.saturating_add(period);
            self.throughout = true;
        }
    }

    /// Returns whether no part of the current period has passed.
    fn is_fresh(&self) -> bool {
        self.upto.saturating_add(self.reservation.period) == self.end
    }

    /// Skips whole periods in one step, because many short periods may pass between two events.
    fn skip(&mut self, doing: Doing, now: Instant, sum: &mut Promise) {
        let Reservation { slice, period, .. } = self.reservation;
        let periods = now.since(self.upto).as_ns() / period.as_ns();
        if periods == 0 {
            return;
        }
        sum.periods += periods;
        if doing != Doing::Blocked {
            let delivered = if doing == Doing::Running { period } else { Nanos::ZERO };
            sum.judge(slice, delivered, periods);
        }
        let delivered = if doing == Doing::Running { period.saturating_mul(periods) } else { Nanos::ZERO };
        self.throughout = doing != Doing::Blocked;
        self.upto = self.upto.saturating_add(period.saturating_mul(periods));
        self.weigh(delivered, periods, sum);
        self.throughout = true;
        self.end = self.upto.saturating_add(period);
    }

    /// Ends the current period, or begins the first period.
    fn close(&mut self, sum: &mut Promise) {
        if self.started {
            sum.periods += 1;
            if self.throughout {
                sum.judge(self.reservation.slice, self.delivered, 1);
            }
            self.weigh(self.delivered, 1, sum);
        }
        self.started = true;
        self.end = self.end.saturating_add(self.reservation.period);
        self.delivered = Nanos::ZERO;
        self.throughout = true;
    }
}
