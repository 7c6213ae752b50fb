//! [`Cpus`]: the CPUs of the host, and what is promised of each.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The CPUs of the host that are online, and what is promised of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Cpus {
    /// Part of each CPU that may be promised. Unit: percent. Absent: the service has no core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promisable_percent: Option<u32>,
    /// The CPUs, by number.
    pub cpus: Vec<Cpu>,
    /// Parts of promises for which the kernel chooses the CPU (`SCHED_DEADLINE`).
    pub anywhere: Vec<PromisedPart>,
}

/// A CPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Cpu {
    /// Number of the CPU.
    pub cpu: usize,
    /// Number of its core within the package.
    pub core: u32,
    /// Number of its package.
    pub package: u32,
    /// Number of its last-level cache. Absent: the kernel does not report caches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc: Option<u32>,
    /// Number of its NUMA node. Absent: the kernel has no NUMA nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Sum of the promised parts of the CPU. Unit: parts per million of the CPU.
    pub promised_ppm: u64,
    /// The parts, in the order of the VMs' names.
    pub promises: Vec<PromisedPart>,
}

/// The part of a promise on one CPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PromisedPart {
    /// Id of the VM.
    pub vm: String,
    /// The part: slice by period. Unit: parts per million of a CPU.
    pub ppm: u64,
}
