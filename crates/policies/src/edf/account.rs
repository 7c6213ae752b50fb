//! The state of an entity in `edf`: its reservation, the end of its current period, and its remaining slice.

use crate::admission::Utilisation;
use sched::{CpuId, EntityId, Instant, Limit, Nanos, Reservation};

/// The knob `late`: the treatment of time not delivered by the end of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Late {
    /// The time is lost: every period begins with a full slice.
    Renew,
    /// The time is added to the next slice; an overrun is subtracted from that slice.
    Carry,
}

/// The knob `rest`: the effect of a wake-up within a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Rest {
    /// The periods continue. The remaining slice is reduced by the time for which the entity was blocked in the period,
    /// but not below its share of the rest of the period.
    #[default]
    Keep,
    /// A new period begins if the remaining slice exceeds the entity's share of the rest of the old period (CBS). If
    /// the reservation names a start, `Keep` applies.
    Renew,
}

/// The knob `enforce`: the effect of the end of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Enforce {
    /// No effect: a job runs until it completes.
    None,
    /// Each reservation is soft or hard, as its `limit` states.
    Soft,
    /// Every reservation is hard.
    Hard,
}

/// The state of a runnable entity's budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BudgetState {
    /// The entity has a remaining slice.
    Reserved,
    /// The entity competes for unreserved time.
    Background,
    /// The entity is held until its next period.
    Depleted,
}

/// The account of an entity. `period` is zero for an entity without a reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) slice: Nanos,
    pub(super) period: Nanos,
    /// End of the current period; without enforcement, the deadline of the job.
    pub(super) deadline: Instant,
    /// Remaining slice; negative after an overrun.
    pub(super) balance: i64,
    pub(super) state: BudgetState,
    pub(super) hard: bool,
    /// Whether a period of the reservation has begun.
    pub(super) has_begun: bool,
    /// Whether the entity is attached.
    pub(super) open: bool,
    /// Whether the affinity of the entity excludes some CPU.
    pub(super) restricted: bool,
    /// Whether the entity was blocked at some time in this period, so that no undelivered time is carried over.
    pub(super) slept: bool,
    /// Instant at which the entity last blocked.
    pub(super) blocked: Instant,
    /// Whether the reservation names a start, to which its periods are bound.
    pub(super) fixed: bool,
    /// CPU to which the entity is assigned, if placement is partitioned.
    pub(super) cpu: Option<CpuId>,
    /// Utilisation of the entity, as admitted.
    pub(super) utilisation: Utilisation,
}

impl Account {
    /// Creates an account with this reservation, if any. The reservation applies from `now` on.
    pub(super) fn open(asked: Option<&Reservation>, enforce: Enforce, now: Instant) -> Account {
        let mut account = Account {
            slice: Nanos::ZERO,
            period: Nanos::ZERO,
            deadline: Instant::NEVER,
            balance: 0,
            state: BudgetState::Background,
            hard: false,
            has_begun: false,
            open: true,
            restricted: false,
            slept: true,
            blocked: now,
            fixed: false,
            cpu: None,
            utilisation: Utilisation::ZERO,
        };
        if let Some(reservation) = asked {
            account.promise(reservation, enforce, now);
        }
        account
    }

    /// Applies a new reservation. Its first period begins now, or at its `start` if that is later.
    fn promise(&mut self, reservation: &Reservation, enforce: Enforce, now: Instant) {
        self.slice = reservation.slice;
        self.period = reservation.period;
        self.hard = enforce == Enforce::Hard || reservation.limit == Limit::Hard;
        self.utilisation = Utilisation::of(reservation);
        self.fixed = reservation.start.is_some();
        // A period without a slice, which ends when the first period begins.
        self.deadline = reservation.start.unwrap_or(now).max(now);
        self.balance = 0;
        if enforce == Enforce::None {
            // The first job is released at the start; without a start, at its wake-up, which sets the deadline.
            self.deadline = reservation.start.map_or(now, |start| start.saturating_add(self.period));
            return;
        }
        if self.deadline == now {
            self.renew(Late::Renew, now);
        } else {
            self.deplete();
        }
    }

    /// Moves the beginning of the first period to `due`, or later. The periods of a reservation with a start stay at
    /// multiples of the period after the start.
    pub(super) fn postpone(&mut self, due: Instant, now: Instant) {
        let starts = if self.has_begun { now } else { self.deadline };
        if due <= starts {
            return;
        }
        let grain = if self.fixed { self.period } else { Nanos::ns(1) };
        let after = grain.saturating_mul(due.since(starts).as_ns().div_ceil(grain.as_ns()));
        (self.deadline, self.balance, self.has_begun) = (starts.saturating_add(after), 0, false);
        self.deplete();
    }

    /// Returns the instant at which the used part of the slice is due at a constant rate; `None` before the first
    /// period.
    pub(super) fn used_until(&self) -> Option<Instant> {
        if !self.is_reserved() || !self.has_begun {
            return None;
        }
        let slice = i64::try_from(self.slice.as_ns()).unwrap_or(i64::MAX);
        let used = u128::from(slice.saturating_sub(self.balance).max(0).unsigned_abs());
        let due = (used * u128::from(self.period.as_ns())).div_ceil(u128::from(self.slice.as_ns().max(1)));
        let begun = self.deadline.since(Instant::ZERO).saturating_sub(self.period);
        Some((Instant::ZERO + begun).saturating_add(Nanos::ns(u64::try_from(due).unwrap_or(u64::MAX))))
    }

    pub(super) fn is_reserved(&self) -> bool {
        !self.period.is_zero()
    }

    /// Returns the first instant, at or after `now`, at which a period begins.
    pub(super) fn period_from(&self, now: Instant) -> Instant {
        if self.has_begun && self.deadline.saturating_since(now) == self.period || self.deadline == now {
            return now;
        }
        let passed = now.saturating_since(self.deadline).as_ns().div_ceil(self.period.as_ns());
        self.deadline.saturating_add(self.period.saturating_mul(passed))
    }

    /// Returns the key that orders entities: the earlier deadline first, then the lower index.
    pub(super) fn key(&self, e: EntityId) -> (Instant, usize) {
        (self.deadline, e.index())
    }

    /// Begins the period that contains `now`.
    pub(super) fn renew(&mut self, late: Late, now: Instant) {
        let passed = now.since(self.deadline).as_ns() / self.period.as_ns();
        self.deadline = self.deadline.saturating_add(self.period.saturating_mul(passed + 1));
        let owed = match late {
            Late::Renew => 0,
            Late::Carry if self.slept || passed > 0 => self.balance.min(0),
            Late::Carry => self.balance,
        };
        self.balance = self.slice.as_ns().cast_signed().saturating_add(owed);
        (self.slept, self.has_begun) = (false, true);
        self.state = if self.balance > 0 { BudgetState::Reserved } else { self.depleted() };
    }

    /// Updates the account at a wake-up. A new period begins now if the period has ended, or if the entity has been
    /// blocked since the beginning of the period or longer. If the reservation names a start, the period that contains
    /// `now` continues or begins instead. Within a period, the rule of `rest` applies.
    pub(super) fn wake(&mut self, late: Late, rest: Rest, now: Instant) {
        self.slept = true;
        let is_over = self.has_begun && self.blocked.saturating_add(self.period) <= self.deadline;
        if !self.fixed && (now >= self.deadline || is_over) {
            self.deadline = now;
        }
        if now >= self.deadline {
            self.renew(late, now);
        }
        if self.state != BudgetState::Reserved {
            return;
        }
        if self.balance <= 0 {
            // The entity blocked when its slice was used up, before it could be stopped.
            self.deplete();
            return;
        }
        if rest == Rest::Renew && !self.fixed {
            let ahead = self.deadline.since(now).scale(self.slice.as_ns(), self.period.as_ns());
            if self.balance.unsigned_abs() > ahead.as_ns() {
                self.deadline = now;
                self.renew(late, now);
            }
            return;
        }
        let begun = Instant::ZERO + self.deadline.since(Instant::ZERO).saturating_sub(self.period);
        let signed = |time: Nanos| i64::try_from(time.as_ns()).unwrap_or(i64::MAX);
        let away = signed(now.since(self.blocked.max(begun)));
        let ahead = signed(self.deadline.since(now).scale(self.slice.as_ns(), self.period.as_ns()));
        self.balance = self.balance.min(ahead.max(self.balance - away));
        if self.balance <= 0 {
            self.deplete();
        }
    }

    fn depleted(&self) -> BudgetState {
        if self.hard { BudgetState::Depleted } else { BudgetState::Background }
    }

    /// Handles the end of the slice: the entity is held until its next period, or competes for unreserved time.
    pub(super) fn deplete(&mut self) {
        self.state = self.depleted();
    }

    /// Charges `ran` to the slice, if the entity ran on reserved time.
    pub(super) fn charge(&mut self, ran: Nanos) {
        if self.state == BudgetState::Reserved {
            self.balance = self.balance.saturating_sub_unsigned(ran.as_ns());
        }
    }

    /// Returns the end of the slice if the entity runs from `now` on, rounded up to a multiple of `grain`.
    pub(super) fn slice_end(&self, now: Instant, grain: Nanos) -> Instant {
        now.saturating_add(Nanos::ns(self.balance.max(1).unsigned_abs())).round_up(grain)
    }
}
