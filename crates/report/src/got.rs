//! [`Got`]: the CPU time, delays and jobs of an entity or a group in a run.

use crate::asked::Asked;
use measure::{Measures, Member};
use sched::{Instant, Nanos};
use serde::Serialize;
use trace::Durations;

/// The mechanism that has served an entity of a live run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ServedBy {
    /// Name of the mechanism.
    pub name: &'static str,
    /// Reason for this mechanism.
    pub reason: String,
    /// Reason why other threads of the entity were raised by SCHED_FIFO. `None`: no threads were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
}

/// The results of an entity in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Entity {
    /// Display name of the entity.
    pub name: String,
    /// Number of tasks with this name. The results are those of all these tasks together.
    #[serde(skip_serializing_if = "is_one")]
    pub instances: u64,
    /// VM or other group of the entity.
    pub group: Option<String>,
    /// Host of the entity, if the run has several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Arrival of the entity, or of its first instance. Unit: nanoseconds since the start of the run.
    pub came_ns: u64,
    /// Departure of the entity, or of its last instance; `None`: the entity stayed. Unit: nanoseconds since the start
    /// of the run.
    pub left_ns: Option<u64>,
    /// Number of changes of the entity's reservation that the policy refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub changes_refused: u64,
    /// Requested parameters of the entity.
    pub asked: Asked,
    /// CPU time that the policy guarantees the entity, in millionths of a CPU; `None` without a guarantee.
    pub granted_ppm: Option<u64>,
    /// The mechanism that has served the entity. `None` in a simulation, and without a promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<ServedBy>,
    /// Results of the entity. `delivered_ppm` is relative to one CPU during the presence of the entity.
    #[serde(flatten)]
    pub got: Got,
}

/// The results of a group in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupGot {
    /// Display name of the group.
    pub name: String,
    /// Number of entities in the group and its subgroups.
    pub entities: u64,
    /// Requested parameters of the group.
    pub asked: Asked,
    /// Results of all members of the group, including members of its subgroups. `delivered_ppm` is relative to one CPU.
    #[serde(flatten)]
    pub got: Got,
    /// Sibling delays of a group that is marked as a gang.
    #[serde(flatten)]
    pub siblings: Option<SiblingDelays>,
    /// Start skews of a gang whose members have reservations.
    #[serde(flatten)]
    pub starts: Option<StartSkews>,
}

/// Times between the starts of the members of a gang in its periods; see [`measure::Siblings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StartSkews {
    /// Number of periods with a start skew.
    pub start_skews: u64,
    /// Median start skew. Unit: nanoseconds.
    pub start_skew_p50_ns: u64,
    /// 99th percentile of the start skews. Unit: nanoseconds.
    pub start_skew_p99_ns: u64,
    /// Maximum start skew. Unit: nanoseconds.
    pub start_skew_max_ns: u64,
}

impl StartSkews {
    /// Returns the statistics of `skews`.
    #[must_use]
    pub fn new(skews: &Durations) -> StartSkews {
        StartSkews {
            start_skews: skews.count(),
            start_skew_p50_ns: skews.percentile(50).as_ns(),
            start_skew_p99_ns: skews.percentile(99).as_ns(),
            start_skew_max_ns: skews.longest().as_ns(),
        }
    }
}

/// Times for which members of a gang waited while other members ran; see [`measure::Siblings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SiblingDelays {
    /// Number of sibling delays.
    pub sibling_delays: u64,
    /// Sum of all sibling delays. Unit: nanoseconds.
    pub sibling_delay_total_ns: u64,
    /// Median sibling delay. Unit: nanoseconds.
    pub sibling_delay_p50_ns: u64,
    /// 99th percentile of the sibling delays. Unit: nanoseconds.
    pub sibling_delay_p99_ns: u64,
    /// Maximum sibling delay. Unit: nanoseconds.
    pub sibling_delay_max_ns: u64,
}

impl SiblingDelays {
    /// Returns the statistics of `delays`.
    #[must_use]
    pub fn new(delays: &Durations) -> SiblingDelays {
        SiblingDelays {
            sibling_delays: delays.count(),
            sibling_delay_total_ns: delays.total().as_ns(),
            sibling_delay_p50_ns: delays.percentile(50).as_ns(),
            sibling_delay_p99_ns: delays.percentile(99).as_ns(),
            sibling_delay_max_ns: delays.longest().as_ns(),
        }
    }
}

/// Results of an entity. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Got {
    /// CPU time delivered.
    pub delivered_ns: u64,
    /// CPU time delivered, in millionths of the time of one CPU during the presence of the entity. The fields of totals
    /// and groups state their own reference.
    pub delivered_ppm: u64,
    /// Number of jobs released.
    pub releases: u64,
    /// Number of jobs completed.
    pub completions: u64,
    /// Number of jobs completed after their deadline.
    pub misses: u64,
    /// Number of jobs that were not completed at the end of the run although their deadline had passed.
    pub unfinished_late: u64,
    /// Maximum lateness of a completed job; 0 if no completed job was late.
    pub worst_lateness_ns: u64,
    /// Number of reservation periods that ended.
    pub periods: u64,
    /// Number of evaluated periods: the periods in which the entity was runnable or held all the time.
    pub periods_judged: u64,
    /// Number of evaluated periods in which the entity received less than the slice.
    pub periods_missed: u64,
    /// Maximum CPU time by which the delivered time was below the slice, over the missed periods.
    pub worst_shortfall_ns: u64,
    /// Median of the CPU time by which the delivered time was below the slice, over the missed periods.
    pub shortfall_p50_ns: u64,
    /// 90th percentile of the CPU time by which the delivered time was below the slice, over the missed periods.
    pub shortfall_p90_ns: u64,
    /// 99th percentile of the CPU time by which the delivered time was below the slice, over the missed periods.
    pub shortfall_p99_ns: u64,
    /// Maximum difference, at the end of a period, between the sum of all slices due since the reservation was made and
    /// the delivered time.
    pub worst_debt_ns: u64,
    /// Number of changes of a reservation that have become effective.
    pub changes: u64,
    /// Maximum time from a change of a reservation until the change became effective.
    pub change_max_ns: u64,
    /// Number of times that the promise stopped being kept (live runs only).
    #[serde(skip_serializing_if = "is_zero")]
    pub breaches: u64,
    /// Instant at which the promise first stopped being kept. Unit: nanoseconds since the start of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_breach_ns: Option<u64>,
    /// Number of waits. A wait lasts from a wake-up or loss of the CPU until the entity runs, and includes held time.
    pub waits: u64,
    /// Sum of all waits.
    pub wait_total_ns: u64,
    /// Median wait.
    pub wait_p50_ns: u64,
    /// 99th percentile of the waits.
    pub wait_p99_ns: u64,
    /// Maximum wait.
    pub wait_max_ns: u64,
    /// Number of waits that began at a wake-up of the entity. In a live run, a worker measures these waits
    /// itself; for a command or a pid, the daemon observes them.
    pub wakeups: u64,
    /// Median wait after a wake-up.
    pub wakeup_p50_ns: u64,
    /// 99th percentile of the waits after a wake-up.
    pub wakeup_p99_ns: u64,
    /// Maximum wait after a wake-up.
    pub wakeup_max_ns: u64,
    /// Number of response times, from release to completion. Each completed job has a response time.
    pub responses: u64,
    /// Median response time.
    pub response_p50_ns: u64,
    /// 99th percentile of the response times.
    pub response_p99_ns: u64,
    /// Maximum response time.
    pub response_max_ns: u64,
    /// Time for which the entity was on a frozen CPU (tasks of guests only).
    pub stolen_ns: u64,
    /// Number of times that the entity spun for a lock or at a barrier.
    pub spins: u64,
    /// Total duration of these spins, including the time for which the entity was preempted or its CPU was frozen.
    pub spun_ns: u64,
    /// Time for which the policy held the entity.
    pub held_ns: u64,
    /// Number of times that a job of the entity began or resumed. Without jobs, number of times that the entity began
    /// to run.
    pub dispatches: u64,
    /// Number of times that the entity was preempted with work left.
    pub preemptions: u64,
    /// Number of times that the entity resumed on a CPU other than its last CPU.
    pub migrations: u64,
}

impl Got {
    pub(crate) fn new(got: &Measures, of: Nanos) -> Got {
        Got {
            delivered_ns: got.delivered.as_ns(),
            delivered_ppm: ppm(got.delivered, of),
            releases: got.jobs.releases,
            completions: got.jobs.completions,
            misses: got.jobs.misses,
            unfinished_late: got.jobs.unfinished_late,
            worst_lateness_ns: got.jobs.worst_lateness.as_ns(),
            periods: got.promise.periods,
            periods_judged: got.promise.judged,
            periods_missed: got.promise.misses,
            worst_shortfall_ns: got.promise.worst_shortfall().as_ns(),
            shortfall_p50_ns: got.promise.shortfalls.percentile(50).as_ns(),
            shortfall_p90_ns: got.promise.shortfalls.percentile(90).as_ns(),
            shortfall_p99_ns: got.promise.shortfalls.percentile(99).as_ns(),
            worst_debt_ns: got.promise.worst_debt.as_ns(),
            changes: got.promise.changes.count(),
            change_max_ns: got.promise.changes.longest().as_ns(),
            breaches: got.promise.breaches,
            first_breach_ns: got.promise.first_breach.map(Instant::as_ns),
            waits: got.waits.count(),
            wait_total_ns: got.waits.total().as_ns(),
            wait_p50_ns: got.waits.percentile(50).as_ns(),
            wait_p99_ns: got.waits.percentile(99).as_ns(),
            wait_max_ns: got.waits.longest().as_ns(),
            wakeups: got.wakeups.count(),
            wakeup_p50_ns: got.wakeups.percentile(50).as_ns(),
            wakeup_p99_ns: got.wakeups.percentile(99).as_ns(),
            wakeup_max_ns: got.wakeups.longest().as_ns(),
            responses: got.responses.count(),
            response_p50_ns: got.responses.percentile(50).as_ns(),
            response_p99_ns: got.responses.percentile(99).as_ns(),
            response_max_ns: got.responses.longest().as_ns(),
            stolen_ns: got.stolen.as_ns(),
            spins: got.spins,
            spun_ns: got.spun.as_ns(),
            held_ns: got.held.as_ns(),
            dispatches: got.dispatches,
            preemptions: got.preemptions,
            migrations: got.migrations,
        }
    }

    /// Returns the number of late jobs, completed or not.
    #[must_use]
    pub fn late_jobs(&self) -> u64 {
        self.misses + self.unfinished_late
    }
}

/// Returns `part` in millionths of `whole`, rounded; 0 if `whole` is zero.
pub(crate) fn ppm(part: Nanos, whole: Nanos) -> u64 {
    if whole.is_zero() {
        return 0;
    }
    let (part, whole) = (u128::from(part.as_ns()), u128::from(whole.as_ns()));
    u64::try_from((part * 1_000_000 + whole / 2) / whole).expect("no entity gets more than a few thousand CPUs")
}

/// Returns the measured time for which the entity was present.
pub(crate) fn there(member: &Member, (from, end): (Instant, Instant)) -> Nanos {
    member.left.unwrap_or(end).saturating_since(member.came.max(from))
}

/// Returns the display name of the entity: `name`, or `name ×20` for 20 instances.
pub(crate) fn called(entity: &Entity) -> String {
    match entity.instances {
        1 => entity.name.clone(),
        count => format!("{} ×{count}", entity.name),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one(count: &u64) -> bool {
    *count == 1
}
