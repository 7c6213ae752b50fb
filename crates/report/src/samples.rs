//! [`SamplesReport`]: what every VM got, interval by interval.

use scenario::SamplesSpec;
use serde::Serialize;

/// What every VM got, interval by interval.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SamplesReport {
    /// From one sample to the next. Unit: nanoseconds.
    pub interval_ns: u64,
    /// The VMs of all hosts, in the order of the file.
    pub vms: Vec<SampledVm>,
}

/// What a VM got.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SampledVm {
    /// Its name.
    pub name: String,
    /// CPU time of all its vCPUs in each whole sample since the start of the run; of those that end with switches, per interval. Unit: nanoseconds.
    pub cpu_ns: Vec<u64>,
}

impl SamplesReport {
    /// What was seen of `vms`.
    pub(crate) fn new(spec: SamplesSpec, vms: Vec<run::SampledVm>) -> SamplesReport {
        let vms = vms.into_iter().map(|run::SampledVm { name, cpu_ns }| SampledVm { name, cpu_ns });
        SamplesReport { interval_ns: spec.interval.as_ns(), vms: vms.collect() }
    }
}
