//! [`Rates`]: what each VM has used, received, waited for and missed between two samples.

use super::super::views::promise;
use super::order::Order;
use super::sample::Sample;
use api::{CpuTime, Desired, Host, Kind, Phase, Usage, Vm};
use serde::Serialize;
use std::cmp::Reverse;

const MILLION: u128 = 1_000_000;

/// What the VMs have used between two samples. The schema of `tactus top --json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rates {
    /// Time between the samples. Unit: ns.
    pub(super) span_ns: u64,
    pub(super) vms: Vec<Rate>,
    /// The host at the second sample.
    pub(super) host: Host,
    /// Sum of the promises in force. Unit: parts per million of a CPU.
    pub(super) promised_ppm: u64,
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
    /// Mean time from a wake-up, or from a preemption, until such a thread ran. `None`: none received a CPU. Unit: ns.
    pub(super) latency_ns: Option<u64>,
    /// CPU time of the other threads, if there are vCPUs.
    pub(super) others_ppm: Option<u64>,
    /// Numbers of judged and missed periods.
    pub(super) judged: u64,
    pub(super) missed: u64,
    pub(super) kind: Kind,
    /// The desired state.
    pub(super) desired: Desired,
    /// The promise in force. `None`: no promise is in force.
    pub(super) granted_ppm: Option<u64>,
    /// What keeps the promise.
    pub(super) mechanism: Option<String>,
    /// Reason why the desired state is not in force, and its remedy.
    pub(super) reason: Option<String>,
    pub(super) remedy: Option<String>,
    /// CPU time that was due, and that was delivered, in the periods that ended. Unit: ns.
    pub(super) due_ns: u64,
    pub(super) delivered_ns: u64,
    /// The delivered CPU time in parts per million of the due time. `None`: no time was due.
    pub(super) delivered_of_due_ppm: Option<u64>,
    /// The delivered CPU time as a share of one CPU.
    pub(super) delivered_ppm: Option<u64>,
    /// Numbers of judged and missed periods since the promise was put in force.
    pub(super) judged_in_all: u64,
    pub(super) missed_in_all: u64,
}

impl Rates {
    pub(super) fn between(before: &Sample, after: &Sample) -> Rates {
        let span_ns = after.usages.at_ns.saturating_sub(before.usages.at_ns);
        let vms: Vec<Rate> = after.vms.iter().map(|vm| rate(before, after, vm, span_ns)).collect();
        let promised_ppm = vms.iter().filter_map(|vm| vm.granted_ppm).sum();
        Rates { span_ns, vms, host: after.host.clone(), promised_ppm }
    }

    pub(super) fn sort(&mut self, order: Order) {
        self.vms.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
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
    let share = |of: fn(&Usage) -> u64| ppm(of(now?).saturating_sub(of(was?)), span_ns);
    let time = now.zip(was).map(|(now, was)| main(now).since(&main(was)));
    // The counters begin again with a new promise.
    let earlier = before.vm(&vm.id).map(|vm| vm.measured).filter(|was| was.judged <= vm.measured.judged);
    let measured = vm.measured.since(&earlier.unwrap_or_default());
    let is_due = measured.due_ns > 0;
    Rate {
        id: vm.id.clone(),
        name: vm.name.clone(),
        state: vm.state.phase.word().to_string(),
        promise: promise(&vm.desired),
        vcpus: now.map(|now| now.vcpus).filter(|vcpus| *vcpus > 0),
        used_ppm: share(|usage| main(usage).ran_ns),
        waited_ppm: share(|usage| main(usage).waited_ns),
        latency_ns: time.and_then(|time| time.waited_ns.checked_div(time.dispatches)),
        others_ppm: now.filter(|now| now.vcpus > 0).and_then(|_| share(|usage| usage.of_others.ran_ns)),
        judged: measured.judged,
        missed: measured.missed,
        kind: vm.kind,
        desired: vm.desired.clone(),
        granted_ppm: granted_ppm(vm),
        mechanism: vm.state.mechanism.clone(),
        reason: vm.state.reason.clone(),
        remedy: vm.state.remedy.clone(),
        due_ns: measured.due_ns,
        delivered_ns: measured.delivered_ns,
        delivered_of_due_ppm: ppm(measured.delivered_ns, measured.due_ns),
        delivered_ppm: ppm(measured.delivered_ns, span_ns).filter(|_| is_due),
        judged_in_all: vm.measured.judged,
        missed_in_all: vm.measured.missed,
    }
}

/// Returns the promise in force as a share of one CPU.
fn granted_ppm(vm: &Vm) -> Option<u64> {
    let is_in_force = matches!(vm.state.phase, Phase::Kept | Phase::NotKept);
    let promise = vm.desired.promise.as_ref().filter(|_| is_in_force)?;
    ppm(promise.slice_ns, promise.period_ns)
}

/// Returns `part` in parts per million of `whole`; `None`: `whole` is zero.
fn ppm(part: u64, whole: u64) -> Option<u64> {
    u64::try_from((u128::from(part) * MILLION).checked_div(whole.into())?).ok()
}

/// Returns the CPU time of the vCPUs, or of all threads if none has the name of a vCPU.
fn main(usage: &Usage) -> CpuTime {
    if usage.vcpus > 0 { usage.of_vcpus } else { usage.of_others }
}
