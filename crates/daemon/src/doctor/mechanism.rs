//! [`Mechanism`]: the enforcement mechanisms.

/// A kernel facility that grants CPU time, withholds it, or observes its use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum Mechanism {
    /// Dispatching by real-time priorities that the threads inherit. Tactus uses this mechanism.
    Inheritance,
    /// Dispatching by real-time priorities that are set. Tactus uses this mechanism for threads that cannot inherit.
    Fifo,
    /// SCHED_DEADLINE reservations.
    Deadline,
    /// CPU affinity.
    Affinity,
    /// The freezer of cgroup version 1. Tactus uses this mechanism for hard limits.
    FreezerOne,
    /// The freezer of cgroup version 2. Tactus uses this mechanism for hard limits where version 1 is not available.
    FreezerTwo,
    /// Records of context switches.
    Switches,
    /// CPU bandwidth limits of control groups.
    Quota,
    /// CPU weights of control groups.
    Weight,
    /// A scheduler written in BPF.
    SchedExt,
}

impl Mechanism {
    /// All mechanisms, in the order of the trials.
    pub const ALL: [Mechanism; 10] = [
        Mechanism::Inheritance,
        Mechanism::Fifo,
        Mechanism::Deadline,
        Mechanism::Affinity,
        Mechanism::FreezerOne,
        Mechanism::FreezerTwo,
        Mechanism::Switches,
        Mechanism::Quota,
        Mechanism::Weight,
        Mechanism::SchedExt,
    ];

    /// Returns the name of the mechanism.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Inheritance => "inherited FIFO",
            Mechanism::Fifo => "SCHED_FIFO",
            Mechanism::Deadline => "SCHED_DEADLINE",
            Mechanism::Affinity => "affinity",
            Mechanism::FreezerOne => "freezer, cgroup v1",
            Mechanism::FreezerTwo => "freezer, cgroup v2",
            Mechanism::Switches => "switch events",
            Mechanism::Quota => "CPU quota",
            Mechanism::Weight => "CPU weight",
            Mechanism::SchedExt => "sched_ext",
        }
    }
}
