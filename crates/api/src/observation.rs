//! [`Observation`]: what the threads of a VM did for some time, and what ran instead of them.

use crate::{Histogram, Measured, ThreadUsage};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// Range of the length of an observation. Unit: ms.
pub const LENGTH_MS: RangeInclusive<u64> = 10..=30_000;

/// What the threads of a VM did for some time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Observation {
    /// Start of the observation, by the clock of the host that never jumps. Unit: ns.
    pub from_ns: u64,
    /// Length of the observation. Unit: ns.
    pub length_ns: u64,
    /// The threads that the VM had at the start, by tid.
    pub threads: Vec<ObservedThread>,
    /// Measurements of the promise in this time, for each CPU of the promise. Empty: no promise is in force.
    pub promise: Vec<Measured>,
    /// Time in which the cap of the VM's control group, or of a group above it, kept threads of the group from running.
    /// Absent: there is no cap. Unit: ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Time for which a hypervisor below this host took its CPUs, summed over all CPUs. Absent: the kernel does not count
    /// it. Unit: ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_ns: Option<u64>,
    /// Reason why the waits of each thread, and what ran instead, are not known. Absent: they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
    /// Number of context switches that were lost, because the service did not read them in time.
    pub lost: u64,
}

/// What a thread of a VM did for some time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ObservedThread {
    /// The CPU time of the thread in this time.
    #[serde(flatten)]
    pub usage: ThreadUsage,
    /// The waits for a CPU that ended in this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// The threads that ran while the thread waited, the longest first.
    pub instead: Vec<Instead>,
}

/// Waits of a thread for a CPU.
///
/// A wait after a preemption is exact. The kernel reports only the sum of the waits after wake-ups, about every 10 ms; each
/// of them counts with the mean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Waits {
    /// Number of waits.
    pub count: u64,
    /// Median. Unit: ns.
    pub p50_ns: u64,
    /// 99th percentile. Unit: ns.
    pub p99_ns: u64,
    /// The longest wait. Unit: ns.
    pub longest_ns: u64,
    /// Numbers of waits by length, as in [`BOUNDS_NS`](crate::BOUNDS_NS).
    pub histogram: Histogram,
}

/// A thread that ran while a thread of the VM waited for the same CPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Instead {
    /// Tid of the thread; 0: the CPU was idle, because a cap or a freezer kept the thread of the VM from running.
    pub tid: u32,
    /// Name of the thread. Absent: the thread has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Pid of its process. Absent: the thread has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How long the thread ran meanwhile. Unit: ns.
    pub ran_ns: u64,
}
