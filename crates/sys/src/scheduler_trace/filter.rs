//! The filters of the tracepoints, in the language of the kernel (Documentation/trace/events.rst, v6.18).

/// Maximum length of a filter: less than a page. A longer one is left out, and more is recorded.
const TEXT_MOST: usize = 4_000;
/// Bits of `common_flags`: the record was made by the handler of an interrupt, or by a soft interrupt (`enum trace_flag_type`,
/// include/linux/trace_events.h, v7.2).
pub(super) const IN_INTERRUPT: u64 = 1 << 3;
pub(super) const IN_SOFT_INTERRUPT: u64 = 1 << 4;
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

/// Returns the filter for wake-ups of these threads.
pub(super) fn of_threads(woken: &[u32]) -> String {
    let each: Vec<String> = woken.iter().map(|tid| format!("pid == {tid}")).collect();
    Some(each.join(" || ")).filter(|text| text.len() <= TEXT_MOST).unwrap_or_default()
}

/// Returns the filter for wake-ups of the threads in `woken`, of which there is at least one: those in an interrupt, and those by other threads than
/// the ones in `except`.
pub(super) fn of_wake_ups(woken: &[u32], except: &[u32]) -> String {
    let of_woken = of_threads(woken);
    if of_woken.is_empty() || except.is_empty() {
        return of_woken;
    }
    // While an interrupt is handled, the thread that it interrupts counts as the running one.
    let others: Vec<String> = except.iter().map(|tid| format!("common_pid != {tid}")).collect();
    let interrupted = format!("common_flags & {}", IN_INTERRUPT | IN_SOFT_INTERRUPT);
    let whole = format!("({of_woken}) && ({interrupted} || ({}))", others.join(" && "));
    if whole.len() <= TEXT_MOST { whole } else { of_woken }
}
