//! [`SamplesReport`]: the CPU time of every VM, interval by interval.

use scenario::SamplesSpec;
use serde::Serialize;

/// CPU time of every VM, interval by interval.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SamplesReport {
    /// Interval between two samples. Unit: nanoseconds.
    pub interval_ns: u64,
    /// The VMs of all hosts, in the order of the scenario.
    pub vms: Vec<SampledVm>,
}

/// CPU time of a VM.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SampledVm {
    /// Name of the VM.
    pub name: String,
    /// CPU time of all vCPUs of the VM in each whole sample since the start of the run. The CPU time of a sample that
    /// ends at a switch is scaled to the interval. Unit: nanoseconds.
    pub cpu_ns: Vec<u64>,
}

impl SamplesReport {
    /// Returns the report of the samples of `vms`.
    pub(crate) fn new(spec: SamplesSpec, vms: Vec<run::SampledVm>) -> SamplesReport {
        let vms = vms.into_iter().map(|run::SampledVm { name, cpu_ns }| SampledVm { name, cpu_ns });
        SamplesReport { interval_ns: spec.interval.as_ns(), vms: vms.collect() }
    }
}
