//! The limits of a scenario.

/// Maximum number of entities of one scenario. The limit bounds memory use. A small file can request any number of
/// entities, and each entity takes about half a kilobyte before the run starts.
pub const SCENARIO_ENTITIES_MAX: usize = workloads::TASKS_MAX;
/// Maximum depth of nested groups, far above the depth of control groups in practice.
pub const GROUP_DEPTH_MAX: usize = 64;
/// Maximum number of hosts: about as many as in a rack.
pub const HOSTS_MAX: usize = 64;

const _: () = assert!(SCENARIO_ENTITIES_MAX <= sched::id::ENTITIES_MAX, "a machine can hold every scenario");
