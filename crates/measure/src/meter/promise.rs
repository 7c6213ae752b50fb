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
        self.ended(EndedPeriods { due, delivered, throughout, count: 1 });
    }

    /// Records that the promise is `kept` from `now` on.
    pub(super) fn judge_promise(&mut self, kept: bool, now: Instant) {
        if !kept {
            self.breaches += 1;
            self.first_breach.get_or_insert(now);
        }
    }
}

/// Equal periods of a reservation that have ended one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedPeriods {
    /// CPU time that was due in each period.
    pub due: Nanos,
    /// CPU time that was delivered in each period.
    pub delivered: Nanos,
    /// Whether the entity was runnable (waiting, running or held) throughout.
    pub throughout: bool,
    /// Number of the periods.
    pub count: u64,
}

/// What receives the periods of a [`PeriodWatch`].
pub trait PeriodSink {
    /// Records periods that have ended.
    fn ended(&mut self, periods: EndedPeriods);

    /// Records the amount that is missing from all slices due since the reservation was made, at the end of a period.
    fn owed(&mut self, _debt: Nanos) {}

    /// Records the time from a change of the reservation to the end of the first period in which the new slice was
    /// delivered.
    fn adapted(&mut self, _time: Nanos) {}
}

impl PeriodSink for Promise {
    fn ended(&mut self, EndedPeriods { due, delivered, throughout, count }: EndedPeriods) {
        self.periods += count;
        if !throughout {
            return;
        }
        self.judged += count;
        if delivered < due {
            self.misses += count;
            self.shortfalls.record_often(due - delivered, count);
        }
    }

    fn owed(&mut self, debt: Nanos) {
        self.worst_debt = self.worst_debt.max(debt);
    }

    fn adapted(&mut self, time: Nanos) {
        self.changes.record(time);
    }
}

/// The state of an entity during a time span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// The entity sleeps.
    Blocked,
    /// The entity is runnable and has no CPU.
    Waiting,
    /// The entity has a CPU.
    Running,
}

/// A reservation under observation. Its periods are those of [`Promise`].
#[derive(Clone, Copy, Debug)]
pub struct PeriodWatch {
    reservation: Reservation,
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

impl PeriodWatch {
    /// Observes `reservation`, made now. The first period begins at the requested start, or now if there is no later
    /// start.
    #[must_use]
    pub fn new(reservation: Reservation, now: Instant) -> PeriodWatch {
        let end = reservation.start.unwrap_or(now).max(now);
        PeriodWatch {
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
    #[must_use]
    pub fn changed(reservation: Reservation, blocked: bool, now: Instant) -> PeriodWatch {
        let blocked = blocked.then_some(now);
        PeriodWatch { blocked, changed: Some(now), ..PeriodWatch::new(reservation, now) }
    }

    /// Adds `periods` that have ended, with `delivered` in total, to the balance. The balance ends if the entity was
    /// not runnable throughout.
    fn weigh(&mut self, delivered: Nanos, periods: u64, sum: &mut impl PeriodSink) {
        let Some(balance) = self.balance.as_mut().filter(|_| self.throughout) else {
            self.balance = None;
            return;
        };
        let due = i128::from(self.reservation.slice.as_ns()) * i128::from(periods);
        *balance += i128::from(delivered.as_ns()) - due;
        sum.owed(Nanos::ns(u64::try_from(-*balance).unwrap_or(0)));
        let (kept, end) = (delivered >= self.reservation.slice, self.upto);
        if let Some(since) = self.changed.filter(|_| kept) {
            sum.adapted(end.since(since));
            self.changed = None;
        }
    }

    /// Accounts for the time until `now`. The entity was in state `doing` throughout this time.
    #[inline]
    pub fn advance(&mut self, doing: Doing, now: Instant, sum: &mut impl PeriodSink) {
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

    /// Accounts like [`advance`](PeriodWatch::advance), but also across a block, a wake-up or the end of a period.
    fn advance_across(&mut self, doing: Doing, now: Instant, sum: &mut impl PeriodSink) {
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
    fn wake(&mut self, since: Instant, sum: &mut impl PeriodSink) {
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
    fn skip(&mut self, doing: Doing, now: Instant, sum: &mut impl PeriodSink) {
        let Reservation { slice, period, .. } = self.reservation;
        let periods = now.since(self.upto).as_ns() / period.as_ns();
        if periods == 0 {
            return;
        }
        let delivered = if doing == Doing::Running { period } else { Nanos::ZERO };
        sum.ended(EndedPeriods { due: slice, delivered, throughout: doing != Doing::Blocked, count: periods });
        let delivered = delivered.saturating_mul(periods);
        self.throughout = doing != Doing::Blocked;
        self.upto = self.upto.saturating_add(period.saturating_mul(periods));
        self.weigh(delivered, periods, sum);
        self.throughout = true;
        self.end = self.upto.saturating_add(period);
    }

    /// Ends the current period, or begins the first period.
    fn close(&mut self, sum: &mut impl PeriodSink) {
        if self.started {
            let (due, delivered, throughout) = (self.reservation.slice, self.delivered, self.throughout);
            sum.ended(EndedPeriods { due, delivered, throughout, count: 1 });
            self.weigh(self.delivered, 1, sum);
        }
        self.started = true;
        self.end = self.end.saturating_add(self.reservation.period);
        self.delivered = Nanos::ZERO;
        self.throughout = true;
    }
}
