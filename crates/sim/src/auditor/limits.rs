//! Quotas and caps: the CPU time of a group in any interval is at most its rate times the interval, plus a burst.
//!
//! Every CPU that runs a member fills a bucket, and the bucket drains at the rate of the limit. The content must never
//! exceed the burst. This check covers every interval of every length and start.
//!
//! A quota (Linux) applies to the members and to all groups below. A cap (Xen) applies to the members alone, because
//! domains do not nest. The root group is not checked, because it has neither a quota nor a cap.

use sched::{CapBound, GroupParams, Instant, Nanos};

/// The tolerance for limits. A limit per period permits its amount at the end of one period and again at the beginning
/// of the next period. A short interval may therefore contain twice the amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitTolerance {
    /// Tolerated excess over twice the quota. `None`: quotas are not checked.
    pub quota: Option<Nanos>,
    /// Bound for caps. `None`: caps are not checked.
    pub cap: Option<CapBound>,
}

/// A limit in force: `amount` in every `period`.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    amount: u64,
    period: u64,
    /// Content in units of 1/`period` nanoseconds, so that draining is exact.
    level: u128,
    burst: u128,
}

impl Bucket {
    fn new(amount: Nanos, period: Nanos, burst: Nanos) -> Bucket {
        let (amount, period) = (amount.as_ns(), period.as_ns());
        Bucket { amount, period, level: 0, burst: u128::from(burst.as_ns()) * u128::from(period) }
    }

    /// Adds a run of `running` members for `time`. Returns whether the bucket has just overflowed.
    fn elapse(&mut self, running: u32, time: Nanos) -> bool {
        let time = u128::from(time.as_ns());
        let full = self.level > self.burst;
        let filled = self.level + time * u128::from(running) * u128::from(self.period);
        self.level = filled.saturating_sub(time * u128::from(self.amount));
        self.level > self.burst && !full
    }

    fn over(&self) -> Nanos {
        let over = self.level.saturating_sub(self.burst) / u128::from(self.period);
        Nanos::ns(u64::try_from(over).unwrap_or(u64::MAX))
    }
}

/// The limits of one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    quota: Option<Bucket>,
    cap: Option<Bucket>,
    /// Number of running members, subgroups included, and number of running members outside subgroups.
    running: u32,
    own_running: u32,
    seen: Instant,
}

impl Limits {
    pub(super) fn new(params: &GroupParams, tolerance: &LimitTolerance, now: Instant) -> Limits {
        let mut limits = Limits { quota: None, cap: None, running: 0, own_running: 0, seen: now };
        limits.ask(params, tolerance);
        limits
    }

    /// Sets the limits of the group; the buckets start empty.
    pub(super) fn ask(&mut self, params: &GroupParams, tolerance: &LimitTolerance) {
        self.quota = params.quota.zip(tolerance.quota).map(|(limit, tolerance)| {
            Bucket::new(limit.quota, limit.period, limit.quota.saturating_mul(2) + tolerance)
        });
        self.cap = params.cap_percent.zip(tolerance.cap).map(|(percent, tolerance)| {
            let amount = tolerance.period.scale(u64::from(percent), 100) + tolerance.rounding;
            Bucket::new(amount, tolerance.period, tolerance.burst)
        });
    }

    /// Advances to `now`. From then on, `change` more members run. Of these members, `own` are not in subgroups.
    /// Returns the exceeded limit and the excess.
    pub(super) fn elapse(&mut self, now: Instant, change: i32, own: i32) -> Option<(&'static str, Nanos)> {
        let time = now.since(std::mem::replace(&mut self.seen, now));
        let (running, own_running) = (self.running, self.own_running);
        self.running = running.saturating_add_signed(change);
        self.own_running = own_running.saturating_add_signed(own);
        let judge = |bucket: &mut Option<Bucket>, running, what| {
            let bucket = bucket.as_mut()?;
            bucket.elapse(running, time).then(|| (what, bucket.over()))
        };
        let quota = judge(&mut self.quota, running, "quota");
        let cap = judge(&mut self.cap, own_running, "cap");
        quota.or(cap)
    }
}
