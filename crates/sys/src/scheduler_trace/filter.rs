//! The filters of the tracepoints, in the language of the kernel (Documentation/trace/events.rst, v6.18).

/// Begins of the names of threads of the kernel that block often, and tell the reader nothing.
const QUIET: [&str; 3] = ["kworker/", "ksoftirqd/", "rcu_"];
/// The parts of `prev_state` that are states in which a thread does not wait for a CPU (`TASK_REPORT`,
/// include/linux/sched.h, v7.2; the next bit is that of a preempted thread).
pub(super) const BLOCKED: u64 = 0xff;

/// Returns the filter for names other than [`QUIET`] ones.
pub(super) fn of_loud(field: &str) -> String {
    QUIET.map(|name| format!("!({field} ~ \"{name}*\")")).join(" && ")
}

/// Returns the filter for the switches from a thread that blocks, other than the reader and busy threads of the kernel.
pub(super) fn of_blocks(reader: u32) -> String {
    let is_loud = of_loud("prev_comm");
    format!("prev_state & {BLOCKED} && prev_pid != 0 && prev_pid != {reader} && {is_loud}")
}

/// Returns the filter without the switches of the reader that tell nothing: the thread that it preempts goes on afterwards, and between
/// the reader and the idle thread, no thread runs.
pub(super) fn of_news(reader: u32) -> String {
    format!("!(next_pid == {reader} && !(prev_state & {BLOCKED})) && !(prev_pid == {reader} && next_pid == 0)")
}
