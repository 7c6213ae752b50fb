//! [`SamplesReport`]: what every VM got, interval by interval.

use crate::samples::Sampler;
use crate::scenario::Scenario;
use sched::{EntityId, Instant};
use serde::Serialize;

/// What every VM got, interval by interval.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SamplesReport {
    /// From one sample to the next. Unit: nanoseconds.
    pub interval_ns: u64,
    /// The VMs of the host, in the order of the file.
    pub vms: Vec<SampledVm>,
}

/// What a VM got.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SampledVm {
    /// Its name.
    pub name: String,
    /// CPU time of all its vCPUs in each whole interval since the start of the run. Unit: nanoseconds.
    pub cpu_ns: Vec<u64>,
}

impl SamplesReport {
    /// What `sampler` saw in a run of `scenario`, where `vcpus` says who its entities were.
    pub(crate) fn new(scenario: &Scenario, vcpus: &[Option<EntityId>], sampler: Sampler) -> SamplesReport {
        let interval_ns = scenario.samples.map_or(0, |spec| spec.interval.as_ns());
        let vms: Vec<(&str, Vec<EntityId>)> =
            scenario.vms().map(|(name, range)| (name, vcpus[range].iter().flatten().copied().collect())).collect();
        let ids: Vec<Vec<EntityId>> = vms.iter().map(|(_, ids)| ids.clone()).collect();
        let got = sampler.of(&ids, Instant::ZERO + scenario.length);
        let vm =
            |((name, _), cpu_ns): (&(&str, Vec<EntityId>), Vec<u64>)| SampledVm { name: (*name).to_string(), cpu_ns };
        SamplesReport { interval_ns, vms: vms.iter().zip(got).map(vm).collect() }
    }
}
