//! [`GuestCoordination`]: the world's record of a guest that coordinates with its host.

use crate::driver::Driver;
use crate::program::Waiting;
use coordination::{Boost, Coordinated, Coordination, Coordinator, Detector, GuestChoice, Protocol, ProtocolState};
use sched::{CpuId, EntityId, Instant, Params, State};
use trace::MachineId;

/// The coordination of a guest and its host.
#[derive(Debug)]
pub(super) struct GuestCoordination {
    pub(super) with: Coordination,
    pub(super) host: MachineId,
    /// Entity of each CPU of the guest, and the entity's parameters without a boost.
    pub(super) vcpus: Vec<(EntityId, Params)>,
    /// Whether the trace shows the vCPU as boosted, by CPU.
    pub(super) traced: Vec<bool>,
    pub(super) protocol_states: Vec<ProtocolState>,
    pub(super) detector: Detector,
    pub(super) coordinator: Coordinator,
    /// Instant of the next tick, at which running boosted vCPUs exit. NEVER if no boosted vCPU runs.
    pub(super) tick: Instant,
    pub(super) totals: Coordinated,
}

impl GuestCoordination {
    /// Returns the choice of the guest's scheduler for `cpu`: the boost for the running task, whether this task must
    /// not be preempted, and whether urgent tasks wait or sleep on `cpu`.
    pub(super) fn choice(&self, machine: &Driver<'_>, cpu: CpuId) -> GuestChoice {
        let runs = machine.machine.running(cpu);
        let of_class = |e: EntityId| Boost::like(machine.machine.params(e).class);
        let task_boost = runs.and_then(|e| of_class(e).or(self.detector.is_urgent(e).then_some(self.with.boost)));
        let waits = |&e: &EntityId| machine.machine.state(e) == State::Waiting && machine.machine.last_cpu(e) == cpu;
        // Only protocol S0 reports sleeping tasks.
        let sleeps = self.with.protocol == Protocol::S0
            && self.detector.asleep().any(|e| machine.machine.is_attached(e) && machine.machine.last_cpu(e) == cpu);
        let reports_locks = matches!(self.with.protocol, Protocol::RfcV1 | Protocol::RfcV2);
        GuestChoice {
            runs: runs.is_some(),
            task_boost,
            waits: self.detector.awake().iter().any(waits),
            sleeps,
            locked: reports_locks && runs.is_some_and(|e| is_locked(machine, e)),
        }
    }
}

/// Returns whether `e` must not be preempted because it holds a spin lock or spins for one.
fn is_locked(machine: &Driver<'_>, e: EntityId) -> bool {
    let Some(Some(state)) = machine.tasks.states.get(e.index()) else { return false };
    if let Waiting::Object(id) = state.waiting
        && machine.tasks.objects[id.0 as usize].is_spin_lock()
    {
        return true;
    }
    state.holds > 0 && machine.tasks.objects.iter().any(|object| object.is_spin_lock() && object.owner() == Some(e))
}
