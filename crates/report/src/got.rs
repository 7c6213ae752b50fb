//! [`Got`]: what an entity or a group got.

use crate::asked::Asked;
use measure::{Measures, Member};
use sched::{Instant, Nanos};
use serde::Serialize;
use trace::Durations;

/// An entity's part in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Entity {
    /// What people call it.
    pub name: String,
    /// How many tasks of one name it stands for: they were forked one after the other. Their results are added up.
    #[serde(skip_serializing_if = "is_one")]
    pub instances: u64,
    /// The VM or other group it is in.
    pub group: Option<String>,
    /// The host it is on, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When it, or the first of them, came. Unit: nanoseconds since the start.
    pub came_ns: u64,
    /// When it, or the last of them, left; `None`: it stayed.
    pub left_ns: Option<u64>,
    /// How many changes of its reservation the policy refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub changes_refused: u64,
    /// What it asked for.
    pub asked: Asked,
    /// What the policy says it promised it, in millionths of a CPU; `None` if it promises nothing.
    pub granted_ppm: Option<u64>,
    /// What it got; its `delivered_ppm` is of one CPU while it was there.
    #[serde(flatten)]
    pub got: Got,
}

/// A group's part in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupGot {
    /// What people call it.
    pub name: String,
    /// How many entities were in it and its subgroups.
    pub entities: u64,
    /// What was asked for it.
    pub asked: Asked,
    /// What its members got together, those of its subgroups too; its `delivered_ppm` is of one CPU.
    #[serde(flatten)]
    pub got: Got,
    /// Of a group that is marked as a gang.
    #[serde(flatten)]
    pub siblings: Option<SiblingDelays>,
}

/// How long members of a gang wanted to run, and did not, while others of it ran; see [`measure::Siblings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SiblingDelays {
    /// How often.
    pub sibling_delays: u64,
    /// For how long in all.
    pub sibling_delay_total_ns: u64,
    /// The median.
    pub sibling_delay_p50_ns: u64,
    /// The 99th percentile.
    pub sibling_delay_p99_ns: u64,
    /// The longest.
    pub sibling_delay_max_ns: u64,
}

impl SiblingDelays {
    /// Those of `delays`.
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

/// What an entity got. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Got {
    /// CPU time.
    pub delivered_ns: u64,
    /// The same in millionths of what there was.
    pub delivered_ppm: u64,
    /// Jobs released.
    pub releases: u64,
    /// Jobs completed.
    pub completions: u64,
    /// Jobs completed after their deadline.
    pub misses: u64,
    /// Jobs not completed though their deadline had passed.
    pub unfinished_late: u64,
    /// How much too late the worst completed job was.
    pub worst_lateness_ns: u64,
    /// Periods of reservations that ended.
    pub periods: u64,
    /// Those in which the entity was runnable throughout.
    pub periods_judged: u64,
    /// Those of the judged in which less than the slice was delivered.
    pub periods_missed: u64,
    /// How much was missing in the worst of them.
    pub worst_shortfall_ns: u64,
    /// The median of what was missing in these.
    pub shortfall_p50_ns: u64,
    /// Its 90th percentile.
    pub shortfall_p90_ns: u64,
    /// Its 99th percentile.
    pub shortfall_p99_ns: u64,
    /// How much was ever missing of all slices due since the reservation was made.
    pub worst_debt_ns: u64,
    /// Changes of a reservation that have become effective.
    pub changes: u64,
    /// The longest time that took.
    pub change_max_ns: u64,
    /// Times from being woken or taken off a CPU to running.
    pub waits: u64,
    /// Their sum.
    pub wait_total_ns: u64,
    /// Their median.
    pub wait_p50_ns: u64,
    /// Their 99th percentile.
    pub wait_p99_ns: u64,
    /// The longest.
    pub wait_max_ns: u64,
    /// Those of them that began when it was woken; in a live run, what a process of ours measured itself.
    pub wakeups: u64,
    /// Their median.
    pub wakeup_p50_ns: u64,
    /// Their 99th percentile.
    pub wakeup_p99_ns: u64,
    /// The longest.
    pub wakeup_max_ns: u64,
    /// Jobs whose response was measured, from release to completion: all that were completed.
    pub responses: u64,
    /// The median of that.
    pub response_p50_ns: u64,
    /// Its 99th percentile.
    pub response_p99_ns: u64,
    /// The longest.
    pub response_max_ns: u64,
    /// In a guest, time on a CPU that was frozen.
    pub stolen_ns: u64,
    /// Times it waited for a spin lock.
    pub spins: u64,
    /// The CPU time that took.
    pub spun_ns: u64,
    /// Time it was runnable, but held by the policy.
    pub held_ns: u64,
    /// Times a job began or resumed running.
    pub dispatches: u64,
    /// Times it was taken off its CPU with work left.
    pub preemptions: u64,
    /// Times it resumed on another CPU than the one it was taken off.
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

    /// Jobs that were late, whether they were completed or not.
    #[must_use]
    pub fn late_jobs(&self) -> u64 {
        self.misses + self.unfinished_late
    }
}

/// `part` in millionths of `whole`, rounded; 0 of nothing.
pub(crate) fn ppm(part: Nanos, whole: Nanos) -> u64 {
    if whole.is_zero() {
        return 0;
    }
    let (part, whole) = (u128::from(part.as_ns()), u128::from(whole.as_ns()));
    u64::try_from((part * 1_000_000 + whole / 2) / whole).expect("no entity gets more than a few thousand CPUs")
}

/// How long it was there, as far as that was measured.
pub(crate) fn there(member: &Member, (from, end): (Instant, Instant)) -> Nanos {
    member.left.unwrap_or(end).saturating_since(member.came.max(from))
}

/// `name`, or `name ×20` of twenty.
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
