//! The machines of hosts in a world.

use trace::MachineId;

/// The host of a scenario, or the first of several.
pub(crate) const HOST: MachineId = MachineId(0);

/// The machine of host number `host`: hosts come first.
#[expect(clippy::cast_possible_truncation, reason = "there are few hosts")]
pub(crate) fn machine_of_host(host: usize) -> MachineId {
    MachineId(host as u32)
}
