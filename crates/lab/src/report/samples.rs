//! [`SamplesReport`]: what every VM got, interval by interval.

use crate::samples::Sampler;
use crate::scenario::{SamplesSpec, Scenario};
use sched::{EntityId, Instant};
use serde::Serialize;
use std::ops::Range;

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
    /// What was seen in a run of `scenario` by a sampler on each host, where `vcpus` says who its entities were.
    pub(crate) fn new(
        spec: SamplesSpec,
        scenario: &Scenario,
        vcpus: &[Option<EntityId>],
        mut samplers: Vec<Sampler>,
    ) -> SamplesReport {
        let end = Instant::ZERO + scenario.length;
        samplers.iter_mut().for_each(|sampler| sampler.end(end));
        let vm = |(name, range): (&str, Range<usize>)| {
            let host = scenario.entities[range.start].host;
            let ids: Vec<EntityId> = vcpus[range].iter().flatten().copied().collect();
            SampledVm { name: name.to_string(), cpu_ns: samplers[host].of(&ids) }
        };
        SamplesReport { interval_ns: spec.interval.as_ns(), vms: scenario.vms().map(vm).collect() }
    }
}
