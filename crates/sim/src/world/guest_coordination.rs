//! [`GuestCoordination`]: the world's record of a guest that coordinates with its host.

use crate::driver::Driver;
use crate::program::Waiting;
use coordination::{Coordinated, Coordination, Coordinator, Detector, GuestChoice, Protocol, ProtocolState};
use sched::{CpuId, EntityId, Instant, Params};
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
        let reports_locks = matches!(self.with.protocol, Protocol::RfcV1 | Protocol::RfcV2);
        let locked = reports_locks && machine.machine.running(cpu).is_some_and(|e| is_locked(machine, e));
        self.detector.choice(&machine.machine, &self.with, cpu, locked)
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
