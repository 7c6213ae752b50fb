//! [`GuestCoordination`]: what the world keeps of a guest that coordinates with its host.

use crate::coordination::{Boost, Coordinated, Coordination, Coordinator, Detector, Protocol, Seat, Sight};
use crate::driver::Driver;
use crate::program::Waiting;
use sched::{CpuId, EntityId, Instant, Params, State};
use trace::MachineId;

/// A guest and its host.
#[derive(Debug)]
pub(super) struct GuestCoordination {
    pub(super) with: Coordination,
    pub(super) host: MachineId,
    /// By CPU of the guest: its entity, and the entity's parameters without a boost.
    pub(super) vcpus: Vec<(EntityId, Params)>,
    /// Whether a boost of it is recorded in the trace, by CPU.
    pub(super) told: Vec<bool>,
    pub(super) seats: Vec<Seat>,
    pub(super) detector: Detector,
    pub(super) coordinator: Coordinator,
    /// When a boosted vCPU that runs exits next.
    pub(super) tick: Instant,
    pub(super) came_of_it: Coordinated,
}

impl GuestCoordination {
    /// What the guest's scheduler runs and keeps waiting on a CPU.
    pub(super) fn sight(&self, machine: &Driver<'_>, cpu: CpuId) -> Sight {
        let runs = machine.machine.running(cpu);
        let of_class = |e: EntityId| Boost::like(machine.machine.params(e).class);
        let worth = runs.and_then(|e| of_class(e).or(self.detector.is_urgent(e).then_some(self.with.boost)));
        let waits = |&e: &EntityId| machine.machine.state(e) == State::Waiting && machine.machine.last_cpu(e) == cpu;
        // Only protocol S0 reports sleeping tasks.
        let sleeps = self.with.protocol == Protocol::S0
            && self.detector.asleep().any(|e| machine.machine.is_attached(e) && machine.machine.last_cpu(e) == cpu);
        let minds_locks = matches!(self.with.protocol, Protocol::RfcV1 | Protocol::RfcV2);
        Sight {
            runs: runs.is_some(),
            worth,
            waits: self.detector.awake().iter().any(waits),
            sleeps,
            locked: minds_locks && runs.is_some_and(|e| is_locked(machine, e)),
        }
    }
}

/// Whether `e` must not be preempted: it holds a spin lock or spins for one.
fn is_locked(machine: &Driver<'_>, e: EntityId) -> bool {
    let Some(Some(state)) = machine.tasks.states.get(e.index()) else { return false };
    if let Waiting::Object(id) = state.waiting
        && machine.tasks.objects[id.0 as usize].is_spin_lock()
    {
        return true;
    }
    state.holds > 0 && machine.tasks.objects.iter().any(|object| object.is_spin_lock() && object.owner() == Some(e))
}
