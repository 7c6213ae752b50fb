//! [`Timeline`]: which thread ran on each CPU for some time.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// Range of the length of a timeline. Unit: ms.
pub const TIMELINE_MS: RangeInclusive<u64> = 20..=1_000;

/// Which thread ran on each CPU for some time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// Start, by the clock of the host that never jumps. Unit: ns.
    pub from_ns: u64,
    /// Length. Unit: ns.
    pub length_ns: u64,
    /// The CPUs, by number.
    pub cpus: Vec<CpuTimeline>,
    /// The threads that ran.
    pub threads: Vec<RunThread>,
    /// Reason why the timeline is empty. Absent: it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
    /// Number of context switches that were lost, because the service did not read them in time, or because there were too
    /// many.
    pub lost: u64,
}

/// Which thread ran on a CPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CpuTimeline {
    /// Number of the CPU.
    pub cpu: usize,
    /// The stretches in which one thread ran, in order of time: start, end, and the thread's index in
    /// [`threads`](Timeline::threads). Unit of start and end: ns since the start of the timeline.
    pub stretches: Vec<[u64; 3]>,
}

/// A thread that ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct RunThread {
    /// Tid of the thread.
    pub tid: u32,
    /// Name of the thread. Absent: the thread has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Pid of its process. Absent: the thread has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Id of its VM. Absent: the thread is of no VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// Whether the thread runs a vCPU.
    pub is_vcpu: bool,
}
