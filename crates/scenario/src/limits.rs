//! The limits of a scenario.

/// The most entities one scenario may have. A file of a few bytes can ask for any number, and each takes about half
/// a kilobyte before it runs.
pub const SCENARIO_ENTITIES_MAX: usize = workloads::TASKS_MAX;
/// The deepest that groups may be nested: far deeper than control groups are in practice.
pub const GROUP_DEPTH_MAX: usize = 64;
/// The most hosts: a rack holds about as many.
pub const HOSTS_MAX: usize = 64;

const _: () = assert!(SCENARIO_ENTITIES_MAX <= sched::id::ENTITIES_MAX, "a machine can hold every scenario");
