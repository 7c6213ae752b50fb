//! [`Account`]: the constant bandwidth server of one entity, with its remaining slice and its deadline.

use crate::admission::Utilisation;
use sched::{Instant, Limit, Nanos, PromiseState, Reservation};

/// Whether an entity's share of a CPU is in use (GRUB).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Activity {
    /// The entity is runnable.
    Contending,
    /// The entity is blocked. Its share is in use until this instant, the 0-lag time.
    NonContending(Instant),
    /// The share of the entity is free.
    Inactive,
}

/// The result of the wake-up rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// The entity may run.
    Ready,
    /// The entity is throttled until this instant.
    Throttled(Instant),
}

/// The state of a reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) slice: Nanos,
    pub(super) relative_deadline: Nanos,
    pub(super) period: Nanos,
    /// Remaining slice; negative after an overrun.
    pub(super) left: i64,
    pub(super) deadline: Instant,
    /// End of the throttling; `None` if the entity is not throttled.
    pub(super) throttled: Option<Instant>,
    /// Start of the first period, if the reservation names a start: all periods are bound to this instant.
    start: Option<Instant>,
    /// Whether the entity has woken yet.
    begun: bool,
    /// Whether the entity waits for its first period.
    first: bool,
    /// Whether the entity was blocked when its next period could have begun, so that the period begins at the wake-up.
    lapsed: bool,
    /// Whether the entity reclaims unused bandwidth.
    pub(super) reclaims: bool,
    pub(super) activity: Activity,
    /// Admitted share of a CPU, relative to the period or to the deadline.
    pub(super) share: Utilisation,
}

impl Account {
    pub(super) fn open(asked: &Reservation, share: Utilisation) -> Account {
        Account {
            slice: asked.slice,
            relative_deadline: asked.relative_deadline(),
            period: asked.period,
            left: 0,
            deadline: Instant::ZERO,
            throttled: None,
            start: asked.start,
            begun: false,
            first: false,
            lapsed: false,
            reclaims: asked.limit == Limit::Soft,
            activity: Activity::Inactive,
            share,
        }
    }

    /// Applies a changed reservation. The remaining slice and the deadline stay until the next replenishment, but the
    /// remaining slice is cut to the new slice.
    pub(super) fn renegotiate(&mut self, asked: &Reservation, share: Utilisation) {
        let new = Account::open(asked, share);
        let Account { deadline, throttled, activity, first, lapsed, .. } = *self;
        let (left, begun) = (self.left.min(new.whole()), self.begun && self.start == new.start);
        *self = Account { left, deadline, throttled, activity, first, lapsed, begun, ..new };
    }

    fn whole(&self) -> i64 {
        i64::try_from(self.slice.as_ns()).unwrap_or(i64::MAX)
    }

    /// Starts a new instance at `now`: a full slice, which is due one relative deadline later.
    fn renew(&mut self, now: Instant) {
        self.left = self.whole();
        self.deadline = now.saturating_add(self.relative_deadline);
    }

    /// Returns the state of the promise in the current period.
    pub(super) fn promise(&self) -> PromiseState {
        let deadline = if self.begun { self.deadline } else { Instant::NEVER };
        PromiseState { slice: self.slice, period: self.period, deadline, remaining: self.left }
    }

    /// Returns the beginning of the next period.
    pub(super) fn next_period(&self) -> Instant {
        self.deadline.saturating_add(self.period.saturating_sub(self.relative_deadline))
    }

    /// Returns whether the remaining slice exceeds the entity's share of the time until the deadline.
    fn overflows(&self, now: Instant) -> bool {
        let left = u128::from(self.left.max(0).unsigned_abs());
        let ahead = u128::from(self.deadline.saturating_since(now).as_ns());
        left * u128::from(self.relative_deadline.as_ns()) > ahead * u128::from(self.slice.as_ns())
    }

    /// Cuts the remaining slice to the entity's share of the time until the deadline.
    fn shrink(&mut self, now: Instant) {
        let ahead = self.deadline.saturating_since(now);
        let fits = ahead.scale(self.slice.as_ns(), self.relative_deadline.as_ns());
        self.left = i64::try_from(fits.as_ns()).unwrap_or(i64::MAX);
    }

    // ---- The wake-up rule ----

    /// Applies the wake-up rule to the entity, which is not throttled.
    pub(super) fn wake(&mut self, now: Instant) -> Woken {
        if !core::mem::replace(&mut self.begun, true) {
            return self.begin(now);
        }
        if core::mem::take(&mut self.lapsed) {
            self.deadline = now.saturating_add(self.relative_deadline);
            return Woken::Ready;
        }
        if self.start.is_some() {
            return self.wake_bound(now);
        }
        let constrained = self.relative_deadline < self.period;
        let late = self.deadline < now;
        if constrained && late && now < self.next_period() {
            self.left = self.left.min(0);
            return Woken::Throttled(self.next_period());
        }
        if late || self.overflows(now) {
            match constrained && !late {
                true => self.shrink(now),
                false => self.renew(now),
            }
        }
        Woken::Ready
    }

    /// Applies the rule for the first wake-up of the entity.
    fn begin(&mut self, now: Instant) -> Woken {
        match self.start {
            Some(start) if start > now => {
                self.first = true;
                Woken::Throttled(start)
            }
            Some(start) => {
                self.renew(start);
                self.wake_bound(now)
            }
            None => {
                self.renew(now);
                Woken::Ready
            }
        }
    }

    /// Applies the wake-up rule with periods bound to a start. The entity keeps at most the part of its slice that fits
    /// the rest of the period that contains `now`.
    fn wake_bound(&mut self, now: Instant) -> Woken {
        if self.deadline < now {
            self.left = self.whole();
            let behind = now.since(self.deadline).saturating_add(self.relative_deadline);
            let periods = behind.as_ns() / self.period.as_ns();
            self.deadline = self.deadline.saturating_add(self.period.saturating_mul(periods));
            if self.deadline < now {
                self.left = 0;
                return Woken::Throttled(self.next_period());
            }
        }
        if self.overflows(now) {
            self.shrink(now);
        }
        Woken::Ready
    }

    // ---- The budget ----

    pub(super) fn charge(&mut self, used: Nanos) {
        self.left = self.left.saturating_sub_unsigned(used.as_ns());
    }

    /// Ends a throttling: adds slices and periods until the remaining slice is positive. If the deadline has then
    /// passed, resets the entity.
    pub(super) fn replenish(&mut self, now: Instant) {
        self.add_periods(now);
        if self.deadline < now {
            self.reset(now);
        }
    }

    /// Ends the throttling of an entity that lags and catches up; its deadline may be in the past.
    pub(super) fn go_on(&mut self, now: Instant) {
        self.add_periods(now);
    }

    fn add_periods(&mut self, now: Instant) {
        let due = self.throttled.take().unwrap_or(now);
        if core::mem::take(&mut self.first) {
            self.renew(due);
        } else if self.left <= 0 {
            let whole = self.whole();
            let periods = -self.left / whole + 1;
            self.left += periods * whole;
            self.deadline = self.deadline.saturating_add(self.period.saturating_mul(periods.unsigned_abs()));
        }
    }

    /// Resets an entity that lags by more than a period: the missed periods are lost.
    fn reset(&mut self, now: Instant) {
        match self.start {
            Some(_) => {
                let passed = now.since(self.deadline).as_ns().div_ceil(self.period.as_ns());
                self.deadline = self.deadline.saturating_add(self.period.saturating_mul(passed));
                self.left = self.whole();
            }
            None => self.renew(now),
        }
    }

    /// Ends the throttling of a blocked entity: its next period begins at its wake-up. If the entity owes a slice or
    /// more, returns the end of the continued throttling. An entity with a start, or before its first period, is
    /// replenished at once.
    pub(super) fn lapse(&mut self, now: Instant) -> Option<Instant> {
        if self.start.is_some() || self.first {
            self.replenish(now);
            return None;
        }
        self.left = self.left.min(0) + self.whole();
        self.lapsed = self.left > 0;
        if !self.lapsed {
            self.deadline = self.deadline.saturating_add(self.period);
        }
        self.throttled = (!self.lapsed).then(|| self.next_period());
        self.throttled
    }

    /// Returns the instant at which the share of the entity is free if the entity blocks now. From this instant on (the
    /// 0-lag time), the remaining slice would last until the deadline at the reserved rate.
    pub(super) fn zero_lag(&self) -> Instant {
        let (span, slice) = (u128::from(self.share.span().as_ns()), u128::from(self.slice.as_ns()));
        let product = u128::from(self.left.unsigned_abs()) * span;
        let ns = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        let deadline = self.deadline.as_ns();
        Instant::at_ns(match self.left > 0 {
            true => deadline.saturating_sub(ns(product / slice)),
            false => deadline.saturating_add(ns(product.div_ceil(slice))),
        })
    }
}
