//! [`Account`]: the constant bandwidth server of one entity: what is left of its slice, and until when.

use crate::admission::Utilisation;
use sched::{Instant, Limit, Nanos, Reservation};

/// Whether an entity uses its share of a CPU (GRUB).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Activity {
    /// It is runnable.
    Contending,
    /// It is blocked, and its share is in use until this instant: what it has left lasts until the deadline from then on.
    NonContending(Instant),
    /// Its share is free.
    Inactive,
}

/// What the wake-up rule makes of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// It may run.
    Ready,
    /// It has to wait until this instant.
    Throttled(Instant),
}

/// What is kept of an entity's reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) slice: Nanos,
    pub(super) relative_deadline: Nanos,
    pub(super) period: Nanos,
    /// What is left of the slice; below zero after an overrun.
    pub(super) left: i64,
    pub(super) deadline: Instant,
    /// Until when it is throttled, if it is: its slice was used up, or given up.
    pub(super) throttled: Option<Instant>,
    /// The beginning of the first period, if one was asked for: its periods are bound to it.
    start: Option<Instant>,
    /// Whether it has woken.
    begun: bool,
    /// Whether it waits for its first period.
    first: bool,
    /// Whether its next period could have begun while it slept, and begins when it wakes.
    lapsed: bool,
    /// Whether it shares in what others leave.
    pub(super) reclaims: bool,
    pub(super) activity: Activity,
    /// Its share of a CPU, as admitted: of the period, or of the time to the deadline.
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

    /// Takes over what is asked now. What is left and the deadline stay until they are renewed, but nothing above a new slice.
    pub(super) fn renegotiate(&mut self, asked: &Reservation, share: Utilisation) {
        let new = Account::open(asked, share);
        let Account { deadline, throttled, activity, first, lapsed, .. } = *self;
        let (left, begun) = (self.left.min(new.whole()), self.begun && self.start == new.start);
        *self = Account { left, deadline, throttled, activity, first, lapsed, begun, ..new };
    }

    fn whole(&self) -> i64 {
        i64::try_from(self.slice.as_ns()).unwrap_or(i64::MAX)
    }

    /// A new instance: a whole slice, due a relative deadline from `now` on.
    fn renew(&mut self, now: Instant) {
        self.left = self.whole();
        self.deadline = now.saturating_add(self.relative_deadline);
    }

    /// When the period after the current one begins.
    pub(super) fn next_period(&self) -> Instant {
        self.deadline.saturating_add(self.period.saturating_sub(self.relative_deadline))
    }

    /// Whether what is left is more than its share of the time until the deadline.
    fn overflows(&self, now: Instant) -> bool {
        let left = u128::from(self.left.max(0).unsigned_abs());
        let ahead = u128::from(self.deadline.saturating_since(now).as_ns());
        left * u128::from(self.relative_deadline.as_ns()) > ahead * u128::from(self.slice.as_ns())
    }

    /// Leaves it no more than its share of the time until the deadline.
    fn shrink(&mut self, now: Instant) {
        let ahead = self.deadline.saturating_since(now);
        let fits = ahead.scale(self.slice.as_ns(), self.relative_deadline.as_ns());
        self.left = i64::try_from(fits.as_ns()).unwrap_or(i64::MAX);
    }

    // ---- The wake-up rule ----

    /// The entity, which is not throttled, wakes.
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

    /// It wakes for the first time.
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

    /// Its periods are bound to a start: it has what fits of the period that contains `now`.
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

    /// The end of a throttling: a whole slice for each period until something is left.
    pub(super) fn replenish(&mut self, now: Instant) {
        self.add_periods(now);
        if self.deadline < now {
            self.reset(now);
        }
    }

    /// The same of who is behind and catches up: its deadline may lie in the past.
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

    /// Behind by more than a period: those that have passed are lost.
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

    /// The end of a throttling of who sleeps: its next period begins when it wakes. Until when it is still throttled,
    /// if it has more than a slice to pay off.
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

    /// When its share is free if it blocks now: what it has left lasts until the deadline from then on (the 0-lag time).
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
