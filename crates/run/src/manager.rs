//! A workload manager. Every few seconds, the manager compares the assigned CPU time of each VM with its consumed CPU
//! time, and changes the assignment.
//!
//! Source: Cherkasova, Gupta and Vahdat, "Comparison of the three CPU schedulers in Xen", 2007, section 3. The paper
//! assigns shares for short intervals (5 s), in modes that prevent a VM from using more than its share. After each
//! interval, its manager adjusts each share by the difference between assigned and consumed time. Such a controller
//! tolerates a scheduler error of 1–2 %. The rule of this module is an integral controller: the deficit of a VM against
//! its target, times the gain, is added to its assignment. A constant error of the scheduler (consumed time differs
//! from assigned time) therefore shifts the assignment, and a varying error keeps the assignment changing.

use scenario::{ManagerSpec, Scenario};
use sched::{Action, EntityId, GroupId, GroupParams, Instant, Nanos, Params, Reservation};
use sim::World;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use trace::{Event, MachineId, Sink};

/// CPU time that each entity on a host has consumed so far.
#[derive(Debug, Default)]
pub(crate) struct Consumed {
    sums: BTreeMap<EntityId, Nanos>,
    /// Running entities, with the instants from which on their CPU time is not yet included in `sums`.
    running: BTreeMap<EntityId, Instant>,
}

impl Consumed {
    fn by(&self, entity: EntityId, now: Instant) -> Nanos {
        let sum = self.sums.get(&entity).copied().unwrap_or_default();
        self.running.get(&entity).map_or(sum, |&since| sum + now.since(since))
    }
}

impl Sink for Consumed {
    fn record(&mut self, at: Instant, event: &Event) {
        match *event {
            Event::Action(Action::Run { entity, .. }) => {
                self.running.insert(entity, at);
            }
            Event::Action(Action::Stop { entity, .. }) => {
                if let Some(since) = self.running.remove(&entity) {
                    *self.sums.entry(entity).or_default() += at.since(since);
                }
            }
            _ => {}
        }
    }
}

/// The assigned and the consumed CPU time of one VM in one interval. Unit: millionths of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Assigned share of a CPU.
    pub assigned_ppm: u64,
    /// Consumed share of a CPU.
    pub consumed_ppm: u64,
}

/// The results of a managed VM.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Managed {
    /// All intervals of the VM.
    pub intervals: Vec<Interval>,
    /// Number of assignments that the policy refused. After a refusal, the VM keeps its assignment.
    pub refused: u64,
    /// Current assignment as computed by the controller, before rounding to the precision that the policy accepts.
    wanted_ppm: u64,
    /// Current assignment as accepted by the policy.
    assigned_ppm: u64,
    /// CPU time consumed before the current interval.
    before: Nanos,
    /// Start of the current interval. `None`: at that instant, a vCPU of the VM was absent.
    since: Option<Instant>,
}

/// Ids of the groups and entities on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostIds<'h> {
    pub(crate) machine: MachineId,
    pub(crate) groups: &'h [GroupId],
    pub(crate) entities: &'h [Option<EntityId>],
}

/// A workload manager in a run.
#[derive(Debug)]
pub(crate) struct Manager {
    scenario: Arc<Scenario>,
    spec: ManagerSpec,
    consumed: Rc<RefCell<Consumed>>,
    vms: Vec<Managed>,
    /// Instant of the manager's next turn.
    pub(crate) next: Instant,
}

impl Manager {
    /// Returns the manager of `scenario`, if the scenario has a manager. The manager reads the consumption of VMs from
    /// `consumed`, a sink of the host.
    pub(crate) fn of(scenario: &Arc<Scenario>, consumed: &Rc<RefCell<Consumed>>) -> Option<Manager> {
        let spec = scenario.manager.clone()?;
        let vms = spec.targets.iter().map(|_| Managed::default()).collect();
        let (scenario, consumed) = (Arc::clone(scenario), Rc::clone(consumed));
        Some(Manager { scenario, spec, consumed, vms, next: Instant::ZERO })
    }

    pub(crate) fn into_vms(self) -> Vec<Managed> {
        self.vms
    }

    /// Ends an interval, and assigns each VM its share for the next interval.
    pub(crate) fn turn(&mut self, host: HostIds<'_>, world: &mut World<'_>) {
        let now = self.next;
        self.next = now + self.spec.interval;
        for index in 0..self.vms.len() {
            let vcpus = &self.scenario.entities[self.spec.targets[index].vcpus.clone()];
            let there = vcpus.iter().all(|vcpu| vcpu.arrival <= now && vcpu.leaves.is_none_or(|leaves| now < leaves));
            // A vCPU whose arrival is the end of the run is never attached.
            let ids: Option<Vec<EntityId>> =
                host.entities[self.spec.targets[index].vcpus.clone()].iter().copied().collect();
            match ids.filter(|_| there) {
                Some(ids) => self.manage(index, &ids, (host, now), world),
                None => self.vms[index].since = None,
            }
        }
    }

    fn manage(&mut self, index: usize, ids: &[EntityId], (host, now): (HostIds<'_>, Instant), world: &mut World<'_>) {
        let target = &self.spec.targets[index];
        let so_far = ids.iter().fold(Nanos::ZERO, |sum, &id| sum + self.consumed.borrow().by(id, now));
        let vm = &mut self.vms[index];
        let (before, since) = (vm.before, vm.since.replace(now));
        vm.before = so_far;
        let wanted_ppm = match since {
            None => {
                vm.assigned_ppm = asked(&self.scenario, target.vcpus.clone());
                vm.wanted_ppm = vm.assigned_ppm;
                bounded(&self.spec, target.target_ppm)
            }
            Some(since) => {
                let consumed_ppm = ppm(so_far - before, now.since(since));
                vm.intervals.push(Interval { assigned_ppm: vm.assigned_ppm, consumed_ppm });
                next(&self.spec, vm.wanted_ppm, target.target_ppm, consumed_ppm)
            }
        };
        match assign(&self.scenario, target.vcpus.start, wanted_ppm, ids, host, world) {
            Some(assigned_ppm) => (vm.wanted_ppm, vm.assigned_ppm) = (wanted_ppm, assigned_ppm),
            // The VM keeps its assignment. The next turn continues from this assignment.
            None => vm.refused += 1,
        }
    }
}

/// Returns the share of a CPU that the scenario assigns to a VM. This is the sum of the shares of its slices, or its
/// cap if the VM has no slices.
fn asked(scenario: &Scenario, vcpus: Range<usize>) -> u64 {
    let vcpus = &scenario.entities[vcpus];
    let slices = vcpus.iter().filter_map(|vcpu| vcpu.params.reservation);
    let slices: Vec<u64> = slices.map(|reservation| ppm(reservation.slice, reservation.period)).collect();
    let cap = vcpus[0].group.and_then(|at| scenario.groups[at].params.cap_percent);
    match cap {
        Some(percent) if slices.is_empty() => u64::from(percent) * 10_000,
        _ => slices.iter().sum(),
    }
}

/// Assigns `ppm` millionths of a CPU to the VM whose first vCPU is `first`. Sets the slices of the VM, or its cap if
/// the VM has no slices. Returns the assigned share after rounding. `None`: the policy refuses the share.
fn assign(
    scenario: &Scenario,
    first: usize,
    ppm: u64,
    ids: &[EntityId],
    host: HostIds<'_>,
    world: &mut World<'_>,
) -> Option<u64> {
    let (mut assigned_ppm, mut before) = (0, Vec::with_capacity(ids.len()));
    for (spec, &id) in scenario.entities[first..].iter().zip(ids) {
        let group = spec.group.map_or(GroupId::ROOT, |group| host.groups[group]);
        let Some(reservation) = spec.params.reservation else {
            let at = spec.group?;
            let percent = u32::try_from((ppm + 5_000) / 10_000).unwrap_or(u32::MAX).max(1);
            let params = GroupParams { cap_percent: Some(percent), ..scenario.groups[at].params };
            world.adjust_group(host.machine, host.groups[at], params).ok()?;
            return Some(u64::from(percent) * 10_000);
        };
        let share = u128::from(reservation.period.as_ns()) * u128::from(ppm) / (1_000_000 * ids.len() as u128);
        let most = reservation.deadline.map_or(reservation.period, |deadline| deadline.min(reservation.period));
        let slice = Nanos::ns(u64::try_from(share).unwrap_or(u64::MAX)).clamp(Nanos::ns(1), most);
        let params = Params { group, reservation: Some(Reservation { slice, ..reservation }), ..spec.params };
        let old = *world.machine(host.machine).machine().params(id);
        if world.adjust(host.machine, id, params).is_err() {
            for (id, old) in before.into_iter().rev() {
                world.adjust(host.machine, id, old).expect("what was granted once is granted again");
            }
            return None;
        }
        before.push((id, old));
        assigned_ppm += self::ppm(slice, reservation.period);
    }
    Some(assigned_ppm)
}

fn ppm(part: Nanos, whole: Nanos) -> u64 {
    let (part, whole) = (u128::from(part.as_ns()), u128::from(whole.as_ns()).max(1));
    u64::try_from((part * 1_000_000 + whole / 2) / whole).unwrap_or(u64::MAX)
}

/// Returns the next assignment of a VM, computed by the controller with the gain and the bounds of `spec`.
fn next(spec: &ManagerSpec, assigned_ppm: u64, target_ppm: u64, consumed_ppm: u64) -> u64 {
    let step = |off: u64| off.saturating_mul(spec.gain_percent) / 100;
    let assigned_ppm = match target_ppm >= consumed_ppm {
        true => assigned_ppm.saturating_add(step(target_ppm - consumed_ppm)),
        false => assigned_ppm.saturating_sub(step(consumed_ppm - target_ppm)),
    };
    bounded(spec, assigned_ppm)
}

fn bounded(spec: &ManagerSpec, ppm: u64) -> u64 {
    ppm.clamp(spec.least_ppm, spec.most_ppm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use input::source::Span;

    #[test]
    fn what_was_consumed_too_little_or_too_much_is_made_up_for_within_the_bounds() {
        let spec = |gain_percent| ManagerSpec {
            interval: Nanos::s(5),
            gain_percent,
            least_ppm: 10_000,
            most_ppm: 500_000,
            targets: Vec::new(),
            place: Span::default(),
        };
        assert_eq!(next(&spec(100), 200_000, 200_000, 150_000), 250_000);
        assert_eq!(next(&spec(50), 200_000, 200_000, 260_000), 170_000);
        assert_eq!(next(&spec(100), 200_000, 200_000, 200_000), 200_000);
        assert_eq!(next(&spec(100), 450_000, 400_000, 100_000), 500_000);
        assert_eq!(next(&spec(100), 20_000, 20_000, 900_000), 10_000);
    }
}
