//! [`Mechanism`]: how a live run keeps a promise.

/// How a live run keeps a promise. A simulation ignores this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// The default of the host.
    Auto,
    /// By turns of threads that inherit their priority.
    Inherit,
    /// By turns of threads in SCHED_FIFO.
    Fifo,
    /// By SCHED_DEADLINE.
    Deadline,
}
