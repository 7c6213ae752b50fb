//! [`Rates`]: what each VM has used, waited for and missed between two samples.

use super::super::views::promise;
use super::order::Order;
use crate::failure::Failure;
use api::{Client, CpuTime, Usage, Usages, Vm};
use serde::Serialize;
use std::cmp::Reverse;

const MILLION: u128 = 1_000_000;

/// The VMs and their CPU time at one instant.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    vms: Vec<Vm>,
    usages: Usages,
}

impl Sample {
    pub(super) fn read(client: &Client) -> Result<Sample, Failure> {
        Ok(Sample { vms: client.list()?.vms, usages: client.usages()? })
    }

    fn usage(&self, id: &str) -> Option<&Usage> {
        self.usages.vms.iter().find(|usage| usage.id == id)
    }

    fn vm(&self, id: &str) -> Option<&Vm> {
        self.vms.iter().find(|vm| vm.id == id)
    }
}

/// What the VMs have used between two samples.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rates {
    /// Time between the samples. Unit: ns.
    pub(super) span_ns: u64,
    pub(super) vms: Vec<Rate>,
}

/// What a VM has used between two samples. Shares are those of one CPU, in parts per million; `None`: not known yet, or the
/// VM does not run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rate {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) state: String,
    /// The desired promise in words; empty: none.
    pub(super) promise: String,
    pub(super) vcpus: Option<u32>,
    /// CPU time of the vCPUs; of all threads, if none has the name of a vCPU.
    pub(super) used_ppm: Option<u64>,
    /// Time in which such a thread was runnable without a CPU.
    pub(super) waited_ppm: Option<u64>,
    /// CPU time of the other threads, if there are vCPUs.
    pub(super) others_ppm: Option<u64>,
    /// Numbers of judged and missed periods.
    pub(super) judged: u64,
    pub(super) missed: u64,
}

impl Rates {
    pub(super) fn between(before: &Sample, after: &Sample) -> Rates {
        let span_ns = after.usages.at_ns.saturating_sub(before.usages.at_ns);
        let vms = after.vms.iter().map(|vm| rate(before, after, vm, span_ns)).collect();
        Rates { span_ns, vms }
    }

    pub(super) fn sort(&mut self, order: Order) {
        self.vms.sort_by(|one, other| one.name.cmp(&other.name));
        match order {
            Order::Name => {}
            Order::Used => self.vms.sort_by_key(|vm| Reverse(vm.used_ppm)),
            Order::Waited => self.vms.sort_by_key(|vm| Reverse(vm.waited_ppm)),
            Order::Missed => self.vms.sort_by_key(|vm| Reverse(vm.missed)),
        }
    }
}

fn rate(before: &Sample, after: &Sample, vm: &Vm, span_ns: u64) -> Rate {
    let now = after.usage(&vm.id);
    let was = before.usage(&vm.id).filter(|was| now.is_some_and(|now| now.pid == was.pid));
    let share = |of: fn(&Usage) -> u64| {
        let ran = of(now?).saturating_sub(of(was?));
        u64::try_from((u128::from(ran) * MILLION).checked_div(span_ns.into())?).ok()
    };
    // The counters begin again with a new promise.
    let earlier = before.vm(&vm.id).map(|vm| vm.measured).filter(|was| was.judged <= vm.measured.judged);
    let earlier = earlier.unwrap_or_default();
    Rate {
        id: vm.id.clone(),
        name: vm.name.clone(),
        state: vm.state.phase.word().to_string(),
        promise: promise(&vm.desired),
        vcpus: now.map(|now| now.vcpus).filter(|vcpus| *vcpus > 0),
        used_ppm: share(|usage| main(usage).ran_ns),
        waited_ppm: share(|usage| main(usage).waited_ns),
        others_ppm: now.filter(|now| now.vcpus > 0).and_then(|_| share(|usage| usage.of_others.ran_ns)),
        judged: vm.measured.judged - earlier.judged,
        missed: vm.measured.missed.saturating_sub(earlier.missed),
    }
}

/// Returns the CPU time of the vCPUs, or of all threads if none has the name of a vCPU.
fn main(usage: &Usage) -> CpuTime {
    if usage.vcpus > 0 { usage.of_vcpus } else { usage.of_others }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use api::{Desired, Kind, Measured, Phase, State};

    /// Returns a sample of one VM: its pid, the CPU time and waits of its vCPUs in ms, and its judged and missed periods.
    pub(in super::super) fn sample(at_ms: u64, pid: u32, times: (u64, u64), periods: (u64, u64)) -> Sample {
        let time = |(ran, waited): (u64, u64)| CpuTime { ran_ns: ran * 1_000_000, waited_ns: waited * 1_000_000 };
        let of_others = time((times.0 / 10, 0));
        let usage = Usage { id: "vm1".into(), pid, vcpus: 2, of_vcpus: time(times), of_others };
        let measured = Measured { periods: periods.0, judged: periods.0, missed: periods.1, ..Measured::default() };
        let vm = Vm {
            id: "vm1".into(),
            name: "vm1".into(),
            kind: Kind::Qemu,
            process: None,
            vcpus: Vec::new(),
            generation: 0,
            desired: Desired::default(),
            source: None,
            state: State { phase: Phase::Kept, mechanism: None, reason: None, remedy: None },
            measured,
        };
        Sample { vms: vec![vm], usages: Usages { at_ns: at_ms * 1_000_000, vms: vec![usage] } }
    }

    #[test]
    fn shares_are_those_of_one_cpu_between_two_samples() {
        let (before, after) = (sample(0, 7, (1_000, 50), (100, 4)), sample(2_000, 7, (4_000, 250), (300, 7)));
        let rates = Rates::between(&before, &after);
        let vm = &rates.vms[0];
        assert_eq!((vm.used_ppm, vm.waited_ppm, vm.others_ppm), (Some(1_500_000), Some(100_000), Some(150_000)));
        assert_eq!((vm.vcpus, vm.judged, vm.missed), (Some(2), 200, 3));
        let unnamed = |mut sample: Sample| {
            sample.usages.vms[0].vcpus = 0;
            sample
        };
        let vm = &Rates::between(&unnamed(before), &unnamed(after)).vms[0];
        assert_eq!((vm.vcpus, vm.used_ppm, vm.others_ppm), (None, Some(150_000), None), "vCPUs are not known");
    }

    #[test]
    fn nothing_is_known_of_another_process_or_without_time_between() {
        let (before, after) = (sample(0, 7, (1_000, 50), (100, 4)), sample(2_000, 8, (500, 2), (3, 1)));
        let vm = &Rates::between(&before, &after).vms[0];
        assert_eq!((vm.used_ppm, vm.waited_ppm), (None, None));
        assert_eq!((vm.judged, vm.missed), (3, 1), "the counters have begun again");
        assert_eq!(Rates::between(&before, &before).vms[0].used_ppm, None);
    }
}
