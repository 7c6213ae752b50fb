//! [`ManagedVm`]: a VM or a process of the scenario, and what is desired for it.

use api::{Desired, Kind, Limit, Mechanism, Promise, Source, State};
use scenario::Scenario;
use sched::{GroupParams, Params, Reservation, Weight};

/// A VM, a task or an application of the scenario.
#[derive(Debug)]
pub(crate) struct ManagedVm {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Its vCPUs, or the task itself: entities of the scenario. Empty: an application, which has tasks of its own.
    pub(crate) members: Vec<usize>,
    /// The group of a VM, among the groups of the scenario.
    pub(crate) group: Option<usize>,
    /// Weight in the scenario, which has a finer scale than [`Desired::weight`].
    pub(crate) weight: Weight,
    pub(crate) desired: Desired,
    pub(crate) source: Option<Source>,
    pub(crate) generation: u64,
    /// Whether it has arrived, and has not left.
    pub(crate) is_present: bool,
    /// The state as it was last reported in an event.
    pub(crate) reported: Option<State>,
}

impl ManagedVm {
    fn new(name: &str, kind: Kind, members: Vec<usize>, group: Option<usize>, scenario: &Scenario) -> ManagedVm {
        let params: Vec<&Params> = members.iter().map(|&index| &scenario.entities[index].params).collect();
        let of_group = group.map(|group| &scenario.groups[group].params);
        let weight = of_group.map(|group| group.weight).or(params.first().map(|it| it.weight)).unwrap_or_default();
        let reservations = params.iter().map(|params| params.reservation);
        let desired = Desired {
            promise: promise(reservations, of_group.is_some_and(|group| group.gang)),
            weight: (weight != Weight::NORMAL).then(|| in_percent(weight)),
            cap_percent: of_group.and_then(cap),
            paused: false,
        };
        let source = (!desired.is_empty()).then_some(Source::Scenario);
        let (generation, is_present, reported) = (0, false, None);
        let name = name.to_string();
        ManagedVm { name, kind, members, group, weight, desired, source, generation, is_present, reported }
    }

    /// Returns the VMs, the tasks that are no vCPUs and the applications of the first host of a scenario.
    pub(crate) fn all_of(scenario: &Scenario) -> Vec<ManagedVm> {
        let mut all: Vec<ManagedVm> = Vec::new();
        for (name, vcpus) in scenario.vms() {
            let group = scenario.groups.iter().position(|group| group.name == name);
            all.push(ManagedVm::new(name, Kind::Simulated, vcpus.collect(), group, scenario));
        }
        let is_vcpu: Vec<usize> = all.iter().flat_map(|vm| vm.members.iter().copied()).collect();
        for (index, entity) in scenario.entities.iter().enumerate().filter(|(index, _)| !is_vcpu.contains(index)) {
            all.push(ManagedVm::new(&entity.name, Kind::Process, vec![index], None, scenario));
        }
        for application in &scenario.applications {
            all.push(ManagedVm::new(&application.name, Kind::Process, Vec::new(), None, scenario));
        }
        all
    }

    /// Returns the id in the interface. A process has it once it has a pid.
    pub(crate) fn id(&self, pid: u32) -> String {
        if self.kind == Kind::Process { format!("pid:{pid}") } else { self.name.clone() }
    }

    /// Returns the weight that is in force while `desired` is.
    pub(crate) fn weight_of(&self, desired: &Desired) -> Weight {
        match desired.weight.filter(|_| !desired.paused) {
            None => Weight::NORMAL,
            Some(weight) if weight == in_percent(self.weight) => self.weight,
            Some(weight) => Weight::cgroup(weight).expect("the values were checked"),
        }
    }
}

/// Returns the promise that equal reservations of all CPUs of a VM make; `None`: a CPU has none, or there is no CPU.
pub(crate) fn promise(reservations: impl Iterator<Item = Option<Reservation>>, gang: bool) -> Option<Promise> {
    let reservations: Vec<Reservation> = reservations.collect::<Option<_>>()?;
    let first = reservations.first()?;
    Some(Promise {
        slice_ns: reservations.iter().map(|reservation| reservation.slice.as_ns()).sum(),
        period_ns: first.period.as_ns(),
        cpus: u16::try_from(reservations.len()).ok()?,
        gang,
        limit: if first.limit == sched::Limit::Hard { Limit::Hard } else { Limit::Soft },
        mechanism: Mechanism::Auto,
    })
}

/// Returns a weight in the scale of control groups, in which an ordinary group has 100.
fn in_percent(weight: Weight) -> u32 {
    ((u64::from(weight.as_linux()) * 100 + 512) / 1_024).clamp(1, u64::from(api::WEIGHT_MOST)) as u32
}

/// Returns the cap of a group. Unit: percent of a CPU.
fn cap(group: &GroupParams) -> Option<u32> {
    let of_quota = || {
        let quota = group.quota?;
        let percent = quota.quota.as_ns().saturating_mul(100) / quota.period.as_ns();
        Some(u32::try_from(percent).unwrap_or(u32::MAX).clamp(1, api::CAP_MOST))
    };
    group.cap_percent.or_else(of_quota)
}
