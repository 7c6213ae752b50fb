//! [`Vcpu`]: the parameters of one entity, and its state in its period.

use super::queues::Score;
use sched::{CpuId, Instant, Limit, Nanos, PromiseState, Refused, Reservation, Weight};

/// The bounds of periods and slices. Source: PERIOD_MIN, PERIOD_MAX and SLICE_MIN, xen/common/sched_sedf.c.
pub(super) const PERIOD_MIN: Nanos = Nanos::us(10);
const PERIOD_MAX: Nanos = Nanos::s(10);
pub(super) const SLICE_MIN: Nanos = Nanos::us(5);

/// The parameters of an entity, in SEDF's terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    /// Whether it has a reservation; if not, slice and period follow from weights.
    pub(super) reserved: bool,
    pub(super) slice: Nanos,
    pub(super) period: Nanos,
    /// Whether it may have extra time.
    pub(super) extra: bool,
    /// The price of a quantum of extra time.
    pub(super) price: Score,
    pub(super) weight: Weight,
}

impl Request {
    /// The price of a quantum at extra weight 1; the same as with 1/128 of a CPU reserved.
    const EQUAL: Score = 1 << 17;

    pub(super) fn reserved(
        reservation: &Reservation,
        by_utilisation: bool,
        weight: Weight,
    ) -> Result<Request, Refused> {
        let Reservation { slice, period, limit, .. } = *reservation;
        if period < PERIOD_MIN || period > PERIOD_MAX {
            return Err(Refused::OutOfRange { what: "period", least: PERIOD_MIN, most: PERIOD_MAX });
        }
        if slice < SLICE_MIN {
            return Err(Refused::OutOfRange { what: "slice", least: SLICE_MIN, most: period });
        }
        let price = if by_utilisation { inverse_utilisation(period, slice) } else { Request::EQUAL };
        Ok(Request { reserved: true, slice, period, extra: limit == Limit::Soft, price, weight })
    }

    /// Without a reservation: extra time by `weight` if `weighed`, otherwise equally.
    pub(super) fn unreserved(period: Nanos, weighed: bool, weight: Weight) -> Request {
        // Xen's weights are a quarter of Linux's. No quantum is free.
        let price = (4 * Request::EQUAL / Score::from(weight.as_linux())).max(1);
        let price = if weighed { price } else { Request::EQUAL };
        Request { reserved: false, slice: Nanos::ZERO, period, extra: true, price, weight }
    }
}

/// `1024 · period / slice`: also the score of a compensation for a lost part of a slice.
fn inverse_utilisation(period: Nanos, slice: Nanos) -> Score {
    1024 * Score::from(period.as_ns()) / Score::from(slice.as_ns())
}

/// The rule for a woken entity: `short` in the period in which it blocked, `long` later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unblock {
    /// Short: the next period, and compensation. Long: a period from now.
    Extra,
    /// Both: the next whole period on the old grid.
    Isochronous,
    /// Short: the next period. Long: a period from now.
    Conservative,
    /// Short: the next period. Long: a short period from now, by its latency.
    Atropos,
    /// Short: the rest of the slice, less the time it was blocked. Long: a period from now.
    Resume,
}

/// The kind of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// The slice.
    Slice,
    /// Extra time, as a compensation.
    Penalty,
    /// Extra time.
    Utilisation,
}

/// The state of an entity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vcpu {
    pub(super) home: CpuId,
    pub(super) request: Request,
    /// The current period: shorter than that of the reservation after a wake-up by `atropos`.
    pub(super) period: Nanos,
    pub(super) slice: Nanos,
    /// The end of its period; undefined until it `has_woken`.
    pub(super) deadline: Instant,
    /// Whether it has woken yet.
    pub(super) has_woken: bool,
    /// The used part of its slice.
    pub(super) used: Nanos,
    /// The kind of the current run.
    pub(super) turn: Turn,
    /// CPU time since it was picked.
    pub(super) ran: Nanos,
    /// When it last blocked.
    pub(super) blocked_at: Option<Instant>,
    /// Whether it is to be compensated for a lost slice.
    pub(super) wants_penalty: bool,
    /// The lost part of its slice that has not been compensated.
    pub(super) lost: Nanos,
    pub(super) penalty_score: Score,
    /// Its score while it is not queued for extra time; the queue holds the score of queued entities.
    pub(super) extra_score: Score,
}

impl Vcpu {
    pub(super) fn new(home: CpuId, request: Request) -> Vcpu {
        Vcpu {
            home,
            request,
            period: request.period,
            slice: request.slice,
            deadline: Instant::ZERO,
            has_woken: false,
            used: Nanos::ZERO,
            turn: Turn::Slice,
            ran: Nanos::ZERO,
            blocked_at: None,
            wants_penalty: false,
            lost: Nanos::ZERO,
            penalty_score: 0,
            extra_score: 0,
        }
    }

    /// The current period. A vCPU without a reservation has a period and, unless it has a weight, no slice.
    pub(super) fn promise(&self) -> PromiseState {
        let signed = |time: Nanos| time.as_ns().cast_signed();
        let deadline = if self.has_woken { self.deadline } else { Instant::NEVER };
        PromiseState {
            slice: self.slice,
            period: self.period,
            deadline,
            remaining: signed(self.slice) - signed(self.used),
        }
    }

    /// The beginning of its period, or the start of the clock if the period would begin before.
    pub(super) fn begin(&self) -> Instant {
        Instant::at_ns(self.deadline.as_ns().saturating_sub(self.period.as_ns()))
    }

    /// The slice is used up; an overrun counts as used in the next period. A shortened period is doubled.
    pub(super) fn next_period(&mut self) {
        self.used -= self.slice;
        if self.period < self.request.period {
            (self.period, self.slice) = (self.period.saturating_mul(2), self.slice.saturating_mul(2));
            if self.period > self.request.period || self.slice > self.request.slice {
                (self.period, self.slice) = (self.request.period, self.request.slice);
            }
        }
        self.deadline += self.period;
    }

    /// Without a reservation: advances to the first period that begins after `now`.
    pub(super) fn skip_to_period_after(&mut self, now: Instant) {
        self.deadline += self.period;
        if self.begin() <= now {
            let whole = now.since(self.begin()).as_ns() / self.period.as_ns() + 1;
            self.deadline += self.period.saturating_mul(whole);
        }
    }

    /// The deadline has passed, or more than the slice was used. Advances to the first period that ends at `now` or
    /// later, but at least to the next one, with a full slice.
    pub(super) fn miss(&mut self, now: Instant) {
        self.deadline += self.period;
        let behind = now.saturating_since(self.deadline);
        self.deadline += behind.round_up(self.period);
        self.used = Nanos::ZERO;
    }

    // ---- Wake-ups ----

    /// The entity wakes in the period in which it blocked. Returns whether it is to be queued for compensation.
    pub(super) fn unblock_short(&mut self, unblock: Unblock, quantum: Nanos, now: Instant) -> bool {
        let unused = self.slice.saturating_sub(self.used);
        if let (Unblock::Resume, Some(blocked_at)) = (unblock, self.blocked_at) {
            let used = self.used + now.since(blocked_at);
            if used + quantum <= self.slice {
                self.used = used;
                return false;
            }
        }
        self.deadline += self.period;
        self.used = Nanos::ZERO;
        if unblock != Unblock::Extra || self.blocked_at.is_none() {
            return false;
        }
        self.lost = unused;
        if unused.is_zero() {
            return false;
        }
        self.penalty_score = inverse_utilisation(self.period, unused);
        self.wants_penalty = true;
        true
    }

    /// The entity wakes after the period in which it blocked.
    pub(super) fn unblock_long(&mut self, unblock: Unblock, latency: Option<Nanos>, now: Instant) {
        self.used = Nanos::ZERO;
        if unblock == Unblock::Isochronous {
            let behind = now.since(self.deadline).round_up(self.period);
            self.deadline += behind + self.period;
            return;
        }
        if let (Unblock::Atropos, Some(latency)) = (unblock, latency) {
            self.shorten(latency);
        }
        self.deadline = now + self.period;
    }

    /// Makes the period as short as `latency`, and the slice in proportion.
    fn shorten(&mut self, latency: Nanos) {
        let Request { slice, period, .. } = self.request;
        if slice.is_zero() {
            return;
        }
        // Rounded up, so that the slice is not below the minimum.
        let least = Nanos::ns(SLICE_MIN.scale(period.as_ns(), slice.as_ns()).as_ns() + 1).max(PERIOD_MIN);
        let short = latency.max(least);
        if short < period {
            (self.period, self.slice) = (short, slice.scale(short.as_ns(), period.as_ns()));
        }
    }

    // ---- Compensation ----

    /// It has run as a compensation: the compensation ends when all lost time has run, or (`at_once`) after one
    /// quantum.
    pub(super) fn compensate(&mut self, at_once: bool) {
        self.lost = self.lost.saturating_sub(self.ran);
        if at_once || self.lost.is_zero() {
            self.lost = Nanos::ZERO;
            self.wants_penalty = false;
        } else {
            self.penalty_score = inverse_utilisation(self.period, self.lost);
        }
    }
}
