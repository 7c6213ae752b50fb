//! [`Comparison`]: the result of a replay.

use sched::Nanos;
use serde::Serialize;

/// Maximum part of the choices that may differ. Unit: percent.
const DIFFERENCES_MOST: u64 = 1;

/// Maximum time from the instant at which a choice or a period is due until it comes. Time in which a CPU of the guest stood still
/// does not count (`lived.rs`).
pub(super) const LATE_MOST: Nanos = Nanos::ms(2);

/// A choice of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Choice {
    /// The promise.
    pub promise: i32,
    /// End of its period. Unit: ns.
    pub deadline_ns: u64,
    /// Its remaining slice. Unit: ns.
    pub left_ns: i64,
}

/// How a decision of the kernel differs from that of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Another choice; `None`: no promise.
    Choice {
        /// That of the kernel.
        kernel: Option<Choice>,
        /// That of the policy.
        policy: Option<Choice>,
    },
    /// The CPU runs another promise than it has chosen.
    Run {
        /// What runs.
        runs: i32,
        /// What was chosen.
        chosen: i32,
    },
    /// The CPU has not chosen, although the policy has kicked it or its slice is over.
    NoChoice {
        /// Since when. Unit: ns.
        since_ns: u64,
    },
    /// No timer has begun the period of a promise.
    NoPeriod {
        /// When it was due. Unit: ns.
        since_ns: u64,
    },
    /// A promise wakes that is not asleep, or does not run and yields.
    State,
}

/// A difference.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Number of the record.
    pub number: u64,
    /// Clock of the record. Unit: ns.
    pub at_ns: u64,
    /// The CPU that has chosen, or should have.
    pub cpu: usize,
    /// What differs.
    #[serde(flatten)]
    pub kind: Kind,
    /// The numbers of the two records of different CPUs from which it follows; `None`: there are none.
    pub pair: Option<(u64, u64)>,
    /// Number of the record at which kernel and policy last agreed on one of the promises.
    pub since: u64,
}

/// The result of a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// The policy.
    pub policy: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of promises.
    pub promises: u64,
    /// Time from the first record to the last. Unit: ns.
    pub length_ns: u64,
    /// Longest time without a record of a CPU. Unit: ns.
    pub longest_silence_ns: u64,
    /// Number of records.
    pub records: u64,
    /// Number of choices in which the kernel or the policy has chosen a promise.
    pub choices: u64,
    /// Number of differences.
    pub differences: u64,
    /// Number of those that follow from two events at nearly the same time on different CPUs.
    pub attributed: u64,
    /// Number of the others.
    pub unattributed: u64,
    /// The first differences, those that are not attributed before the others.
    pub listed: Vec<Difference>,
}

impl Difference {
    /// Whether the difference is about this promise.
    #[must_use]
    pub fn concerns(&self, promise: i32) -> bool {
        match self.kind {
            Kind::Choice { kernel, policy } => {
                [kernel, policy].iter().flatten().any(|choice| choice.promise == promise)
            }
            Kind::Run { runs, chosen } => [runs, chosen].contains(&promise),
            Kind::NoChoice { .. } | Kind::NoPeriod { .. } | Kind::State => false,
        }
    }
}

impl Comparison {
    /// Returns whether the kernel has decided as the policy.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.choices > 0 && self.unattributed == 0 && self.differences * 100 <= self.choices * DIFFERENCES_MOST
    }
}
