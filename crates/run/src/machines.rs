//! The machine ids of hosts in a world.

use trace::MachineId;

/// Id of the host of a scenario, or of the first of several hosts.
pub(crate) const HOST: MachineId = MachineId(0);

/// Returns the machine id of host number `host`. The ids of hosts precede those of guests.
#[expect(clippy::cast_possible_truncation, reason = "there are few hosts")]
pub(crate) fn machine_of_host(host: usize) -> MachineId {
    MachineId(host as u32)
}
