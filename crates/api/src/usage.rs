//! [`Usage`]: the CPU time of VMs, as the kernel counts it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// CPU time of threads, and their waits for a CPU, as `/proc/PID/schedstat` has them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct CpuTime {
    /// CPU time. Unit: ns.
    pub ran_ns: u64,
    /// Time in which a thread was runnable and had no CPU. A guest sees this time of its vCPUs as steal time. Unit: ns.
    pub waited_ns: u64,
    /// Number of times that a thread received a CPU. `waited_ns` divided by it is the mean scheduling latency: the time from
    /// a wake-up, or from a preemption, until the thread runs.
    pub dispatches: u64,
}

impl CpuTime {
    /// Returns what came since `before`; zero where `before` has more.
    pub fn since(&self, before: &CpuTime) -> CpuTime {
        CpuTime {
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            dispatches: self.dispatches.saturating_sub(before.dispatches),
        }
    }

    /// Adds the CPU time of another thread.
    pub fn add(&mut self, other: &CpuTime) {
        self.ran_ns += other.ran_ns;
        self.waited_ns += other.waited_ns;
        self.dispatches += other.dispatches;
    }
}

/// The CPU time of all VMs that run, by one reading.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Usages {
    /// Time of the reading, by the clock of the host that never jumps. Unit: ns.
    pub at_ns: u64,
    /// The VMs, by name.
    pub vms: Vec<Usage>,
}

/// The CPU time of a VM since its threads have started. Threads that have ended do not count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Id of the VM.
    pub id: String,
    /// Pid of its process.
    pub pid: u32,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// CPU time of the vCPUs.
    pub of_vcpus: CpuTime,
    /// CPU time of all other threads.
    pub of_others: CpuTime,
}

/// The CPU time of each thread of a VM.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadUsages {
    /// Time of the reading, by the clock of the host that never jumps. Unit: ns.
    pub at_ns: u64,
    /// The threads, by tid.
    pub threads: Vec<ThreadUsage>,
}

/// The CPU time of a thread: since its start, or during an [`Observation`](crate::Observation).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadUsage {
    /// Tid of the thread.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// Whether the thread runs a vCPU, according to its name or to the monitor of the VM.
    pub is_vcpu: bool,
    /// The CPU on which the thread runs, or has run last.
    pub cpu: usize,
    /// CPU time.
    #[serde(flatten)]
    pub time: CpuTime,
}
