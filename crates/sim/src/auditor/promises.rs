//! [`Promises`]: the guarantees of a policy as numbers, with the delays of a driver added.

use super::limits::LimitTolerance;
use sched::{CapBound, Conserving, LoadBounds, Nanos, PolicySource};

/// The delays caused by the driver rather than by the policy.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// Maximum delay of a kick, an alarm or the end of a slice.
    pub late: Nanos,
    /// Maximum time by which a time slice exceeds the length that the policy chose.
    pub turn: Nanos,
}

/// The guarantees that a run must keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// Law 11: the slack within which an idle CPU picks a waiting entity, and which waiting entities count. `Never`:
    /// not checked.
    pub conserving: Conserving,
    /// Time that the driver takes to deliver kicks and alarms, added to the slack.
    pub allowance: Nanos,
    /// Law 12: the longest wait of an entity, including delays of the driver. `None`: not checked.
    pub starvation: Option<Nanos>,
    /// Tolerances for quotas and caps. A tolerance of `None` disables its check.
    pub limits: LimitTolerance,
    /// Whether a late job is a finding. Late jobs are always counted.
    pub deadlines: bool,
    /// Shortfall of a reservation above which a period is a finding. `None`: shortfalls are not findings. Shortfalls
    /// are always counted.
    pub reservations: Option<Nanos>,
    /// Whether the members of a gang share their periods: see [`Guarantees::gang_periods`](sched::Guarantees).
    pub gang_periods: bool,
}

impl Promises {
    /// No guarantees of a policy. The laws of the machine itself are always checked.
    pub const NONE: Promises = Promises {
        conserving: Conserving::Never,
        allowance: Nanos::ZERO,
        starvation: None,
        limits: LimitTolerance { quota: None, cap: None },
        deadlines: false,
        reservations: None,
        gang_periods: false,
    };

    /// Returns the guarantees of `policy` under `load`, on a driver with these delays. Late jobs and shortfalls of
    /// reservations are not findings.
    #[must_use]
    pub fn of(policy: &dyn PolicySource, load: &LoadBounds<'_>, delays: Delays) -> Promises {
        // In the worst case, another CPU has already taken the work for which a CPU was kicked, and a further CPU is
        // kicked. Each kick has the maximum delay.
        let allowance = delays.late.saturating_mul(4);
        let turns = delays.turn.saturating_mul(16 * load.entities);
        Promises {
            conserving: policy.conserving(load),
            allowance,
            starvation: policy.starvation(load).map(|bound| bound.saturating_add(turns)),
            limits: limits(policy, load, delays.late),
            gang_periods: policy.guarantees().gang_periods,
            ..Promises::NONE
        }
    }
}

fn limits(policy: &dyn PolicySource, load: &LoadBounds<'_>, late: Nanos) -> LimitTolerance {
    let late_each = |times: u64| late.saturating_mul(times);
    let quota =
        (policy.guarantees().quota)(load).map(|beyond| beyond.saturating_add(late_each(load.host.cpus as u64 + 1)));
    let cap = (policy.guarantees().cap)(load)
        .map(|cap| CapBound { burst: cap.burst.saturating_add(late_each(load.entities)), ..cap });
    LimitTolerance { quota, cap }
}
