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
    /// Whether the entity has a reservation; otherwise slice and period follow from weights.
    pub(super) reserved: bool,
    pub(super) slice: Nanos,
    pub(super) period: Nanos,
    /// Whether the entity may receive extra time.
    pub(super) extra: bool,
    /// Price of a quantum of extra time.
    pub(super) price: Score,
    pub(super) weight: Weight,
}

impl Request {
    /// Price of a quantum at extra weight 1, equal to the price with 1/128 of a CPU reserved.
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

    /// Returns the request of an entity without a reservation. Extra time is shared by `weight` if `weighed`, otherwise
    /// equally.
    pub(super) fn unreserved(period: Nanos, weighed: bool, weight: Weight) -> Request {
        // Xen's weights are a quarter of Linux's. The price is at least 1, so that no quantum is free.
        let price = (4 * Request::EQUAL / Score::from(weight.as_linux())).max(1);
        let price = if weighed { price } else { Request::EQUAL };
        Request { reserved: false, slice: Nanos::ZERO, period, extra: true, price, weight }
    }
}

/// Returns `1024 · period / slice`. If `slice` is the lost part of a slice, the result is the score of its
/// compensation.
fn inverse_utilisation(period: Nanos, slice: Nanos) -> Score {
    1024 * Score::from(period.as_ns()) / Score::from(slice.as_ns())
}

/// The rule for a woken entity. Short: the entity wakes in the period in which it blocked. Long: the entity wakes
/// later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unblock {
    /// Short: the next period, and compensation. Long: a period from now.
    Extra,
    /// Short and long: the next whole period on the old grid.
    Isochronous,
    /// Short: the next period. Long: a period from now.
    Conservative,
    /// Short: the next period. Long: a period from now that is as short as the latency of the entity.
    Atropos,
    /// Short: the rest of the slice, minus the time for which the entity was blocked; if less than a quantum is left,
    /// the next period. Long: a period from now.
    Resume,
}

/// The kind of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dispatch {
    /// A run within the slice.
    Slice,
    /// A run in extra time, as a compensation.
    Penalty,
    /// A run in extra time that is not a compensation.
    Utilisation,
}

/// The state of an entity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vcpu {
    pub(super) home: CpuId,
    pub(super) request: Request,
    /// Length of the current period. After a wake-up under `atropos`, the period may be shorter than the period of the
    /// reservation.
    pub(super) period: Nanos,
    pub(super) slice: Nanos,
    /// End of the current period; undefined until the entity `has_woken`.
    pub(super) deadline: Instant,
    /// Whether the entity has woken since its attachment.
    pub(super) has_woken: bool,
    /// Used part of the slice.
    pub(super) used: Nanos,
    /// Kind of the current run.
    pub(super) dispatch: Dispatch,
    /// CPU time of the entity since its last pick.
    pub(super) ran: Nanos,
    /// Instant at which the entity last blocked.
    pub(super) blocked_at: Option<Instant>,
    /// Whether the entity is to be compensated for a lost slice.
    pub(super) wants_penalty: bool,
    /// Lost part of the slice that has not been compensated.
    pub(super) lost: Nanos,
    pub(super) penalty_score: Score,
    /// Score of the entity while not queued for extra time. The queue holds the scores of queued entities.
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
            dispatch: Dispatch::Slice,
            ran: Nanos::ZERO,
            blocked_at: None,
            wants_penalty: false,
            lost: Nanos::ZERO,
            penalty_score: 0,
            extra_score: 0,
        }
    }

    /// Returns the promise state of the current period. An entity without a reservation has a slice only if slices are
    /// distributed by weight.
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

    /// Returns the beginning of the current period, or the start of the clock if the period would begin before that
    /// start.
    pub(super) fn begin(&self) -> Instant {
        Instant::at_ns(self.deadline.as_ns().saturating_sub(self.period.as_ns()))
    }

    /// Starts the next period after the slice is used up. An overrun counts as used in the next period. A shortened
    /// period and its slice are doubled, up to the values of the reservation.
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

    /// Advances an entity whose slice is zero to the first period that begins after `now`.
    pub(super) fn skip_to_period_after(&mut self, now: Instant) {
        self.deadline += self.period;
        if self.begin() <= now {
            let whole = now.since(self.begin()).as_ns() / self.period.as_ns() + 1;
            self.deadline += self.period.saturating_mul(whole);
        }
    }

    /// Handles a passed deadline or an overrun of the slice. Advances to the first period that ends at `now` or later,
    /// but at least to the next period, with a full slice.
    pub(super) fn miss(&mut self, now: Instant) {
        self.deadline += self.period;
        let behind = now.saturating_since(self.deadline);
        self.deadline += behind.round_up(self.period);
        self.used = Nanos::ZERO;
    }

    // ---- Wake-ups ----

    /// Handles a wake-up in the period in which the entity blocked. Returns whether to enqueue the entity for
    /// compensation.
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

    /// Handles a wake-up after the period in which the entity blocked.
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

    /// Shortens the period to `latency`, and the slice in proportion.
    fn shorten(&mut self, latency: Nanos) {
        let Request { slice, period, .. } = self.request;
        if slice.is_zero() {
            return;
        }
        // The period is rounded up, so that the slice is not below the minimum.
        let least = Nanos::ns(SLICE_MIN.scale(period.as_ns(), slice.as_ns()).as_ns() + 1).max(PERIOD_MIN);
        let short = latency.max(least);
        if short < period {
            (self.period, self.slice) = (short, slice.scale(short.as_ns(), period.as_ns()));
        }
    }

    // ---- Compensation ----

    /// Accounts for a run as a compensation. The compensation ends when the entity has run for all its lost time, or
    /// with `at_once` after one quantum.
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
