//! [`Demand`]: the bursts of the threads of all VMs, for a preview of other promises.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// Range of the time for which the demand is observed. Unit: ms.
pub const DEMAND_MS: RangeInclusive<u64> = 100..=10_000;

/// The bursts of the threads of all VMs, observed for some time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Demand {
    /// Length of the observation. Unit: ns.
    pub length_ns: u64,
    /// The VMs that run, by name.
    pub vms: Vec<VmDemand>,
    /// Reason why no burst is known. Absent: they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
    /// Number of context switches that were lost, because the service did not read them in time.
    pub lost: u64,
}

/// The bursts of the threads of a VM.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VmDemand {
    /// Id of the VM.
    pub id: String,
    /// Time from the end of the observation to the end of the current period of its promise. Absent: no promise is in force, or
    /// no period has ended yet. Unit: ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_left_ns: Option<u64>,
    /// The threads that the VM had at the start, by tid.
    pub threads: Vec<ThreadDemand>,
}

/// The bursts of a thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadDemand {
    /// Tid of the thread.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// Whether the thread runs a vCPU.
    pub is_vcpu: bool,
    /// Whether the bursts were observed. A thread that slept throughout was observed, and has none.
    pub is_observed: bool,
    /// The last 1,000 bursts: time from the start of the observation to the wake-up, CPU time of the burst, and length of
    /// the sleep after it. On a real host, the wait for a CPU after a wake-up counts as sleep. A thread that never slept has
    /// one burst with no sleep. Unit: ns.
    pub bursts: Vec<[u64; 3]>,
}
