//! The machines of hosts in a world.

use trace::MachineId;

/// Machine of the host of a scenario, or of the first of several hosts.
pub(crate) const HOST: MachineId = MachineId(0);

/// Returns the machine of host number `host`. Hosts precede guests.
#[expect(clippy::cast_possible_truncation, reason = "there are few hosts")]
pub(crate) fn machine_of_host(host: usize) -> MachineId {
    MachineId(host as u32)
}
