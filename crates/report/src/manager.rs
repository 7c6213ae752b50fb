//! [`ManagerReport`]: the CPU time that a workload manager assigned, the consumed CPU time, and whether the assignment
//! settled.

use measure::statistics::Spread;
use run::manager::Managed;
use scenario::ManagerSpec;
use serde::Serialize;

/// Maximum error that a controller tolerates, in millionths of the target. Source: `xen-three-2007`, section 3,
/// "typically, 1–2%".
const ERROR_MOST_PPM: u64 = 20_000;

/// Results of a workload manager.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ManagerReport {
    /// Interval between two adjustments by the manager. Unit: nanoseconds.
    pub interval_ns: u64,
    /// VMs that the manager managed.
    pub vms: Vec<ManagedVm>,
}

/// A managed VM. "The last half" means the last half of the VM's intervals.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ManagedVm {
    /// Name of the VM.
    pub name: String,
    /// Target consumption of the VM, in millionths of a CPU.
    pub target_ppm: u64,
    /// Assignment in each interval of the VM's presence, in millionths of a CPU.
    pub assigned_ppm: Vec<u64>,
    /// Consumption in each interval of the VM's presence, in millionths of a CPU.
    pub consumed_ppm: Vec<u64>,
    /// Mean distance between target and consumption in the last half, in millionths of the target.
    pub error_ppm: u64,
    /// Mean distance between assignment and consumption in the last half, in millionths of the target.
    pub allocation_error_ppm: u64,
    /// Difference between the maximum and the minimum assignment in the last half, in millionths of a CPU.
    pub amplitude_ppm: u64,
    /// Whether the consumption in every interval of the last half was within 2 % of the target. `false` without
    /// intervals.
    pub settled: bool,
    /// Number of assignments that the policy refused.
    pub refused: u64,
}

/// Results of a workload manager over several runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ManagerSummary {
    /// Interval between two adjustments by the manager. Unit: nanoseconds.
    pub interval_ns: u64,
    /// VMs that the manager managed.
    pub vms: Vec<ManagedSpreads>,
}

/// A managed VM over several runs: medians of the numbers of a [`ManagedVm`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ManagedSpreads {
    /// Name of the VM.
    pub name: String,
    /// Target consumption of the VM, in millionths of a CPU.
    pub target_ppm: u64,
    /// Number of runs in which the VM was managed. The medians are over these runs.
    pub runs: usize,
    /// Number of runs in which the VM settled.
    pub settled_runs: usize,
    /// Median of [`ManagedVm::error_ppm`] over the runs.
    pub error_ppm: Spread,
    /// Median of [`ManagedVm::allocation_error_ppm`] over the runs.
    pub allocation_error_ppm: Spread,
    /// Median of [`ManagedVm::amplitude_ppm`] over the runs.
    pub amplitude_ppm: Spread,
    /// Median of [`ManagedVm::refused`] over the runs.
    pub refused: Spread,
}

impl ManagerSummary {
    /// Returns the summary of the `managers` of runs that differ only in their seed; `None`: the runs have no manager.
    pub(crate) fn new<'r>(managers: impl Iterator<Item = &'r ManagerReport>) -> Option<ManagerSummary> {
        let managers: Vec<&ManagerReport> = managers.collect();
        let first = managers.first()?;
        let vm = |(nth, vm): (usize, &ManagedVm)| {
            let of: Vec<&ManagedVm> = managers.iter().filter_map(|manager| manager.vms.get(nth)).collect();
            let over =
                |number: fn(&ManagedVm) -> u64| Spread::of(&of.iter().map(|vm| number(vm)).collect::<Vec<u64>>());
            ManagedSpreads {
                name: vm.name.clone(),
                target_ppm: vm.target_ppm,
                runs: of.len(),
                settled_runs: of.iter().filter(|vm| vm.settled).count(),
                error_ppm: over(|vm| vm.error_ppm),
                allocation_error_ppm: over(|vm| vm.allocation_error_ppm),
                amplitude_ppm: over(|vm| vm.amplitude_ppm),
                refused: over(|vm| vm.refused),
            }
        };
        let vms = first.vms.iter().enumerate().map(vm).collect();
        Some(ManagerSummary { interval_ns: first.interval_ns, vms })
    }
}

impl ManagerReport {
    pub(crate) fn new(spec: &ManagerSpec, vms: &[Managed]) -> ManagerReport {
        let vm = |(target, vm): (&scenario::Target, &Managed)| {
            let late = &vm.intervals[vm.intervals.len() / 2..];
            let of_target = |ppm: u64| ppm.saturating_mul(1_000_000) / target.target_ppm;
            let mean = |sum: u64| sum / (late.len() as u64).max(1);
            let errors: Vec<u64> =
                late.iter().map(|it| of_target(it.consumed_ppm.abs_diff(target.target_ppm))).collect();
            let missed = late.iter().map(|it| of_target(it.consumed_ppm.abs_diff(it.assigned_ppm))).sum();
            let most = late.iter().map(|it| it.assigned_ppm).max().unwrap_or(0);
            let least = late.iter().map(|it| it.assigned_ppm).min().unwrap_or(0);
            ManagedVm {
                name: target.name.clone(),
                target_ppm: target.target_ppm,
                assigned_ppm: vm.intervals.iter().map(|it| it.assigned_ppm).collect(),
                consumed_ppm: vm.intervals.iter().map(|it| it.consumed_ppm).collect(),
                error_ppm: mean(errors.iter().sum()),
                allocation_error_ppm: mean(missed),
                amplitude_ppm: most - least,
                settled: !late.is_empty() && errors.iter().all(|&error| error <= ERROR_MOST_PPM),
                refused: vm.refused,
            }
        };
        let vms = spec.targets.iter().zip(vms).map(vm).collect();
        ManagerReport { interval_ns: spec.interval.as_ns(), vms }
    }
}
