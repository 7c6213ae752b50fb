//! The CPU time delivered to a thread, from the kernel's records of its context switches.

use crate::Promise;
use sched::{Instant, Nanos};
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock;
use sys::switches::{Record, Switches, Turn, Wake};

/// Priority of the recorder, above that of the agents: with short periods on a slow CPU, they and their client leave no time for others.
pub(crate) const RECORDER: u32 = 99;
/// Number of phases that are tried, for each part of the period that is as long as the slice. With the next phase, a fourth of a
/// hundredth of the slice is in another period.
///
/// Set after a look at results with 50 phases: with 9 ms in 10 ms, a slice that was complete less than 0.1 ms before the end of its
/// period counted as missed.
const PHASES: u64 = 400;

/// Number of periods, and number of periods in which less than the slice was delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) periods: u64,
    pub(crate) missed: u64,
    /// Number of missed periods in which more than a hundredth of the slice was missing.
    pub(crate) clearly: u64,
    /// Maximum missing time.
    pub(crate) worst: Nanos,
}

impl Tally {
    pub(crate) fn missed_percent(&self) -> f64 {
        self.missed as f64 * 100.0 / self.periods.max(1) as f64
    }
}

/// The intervals in which a thread was on a CPU, in order.
pub(crate) type Stretches = Vec<(Instant, Instant)>;

/// Records the intervals in which the thread is on a CPU, until `over` is set. Fails if the kernel loses records.
pub(crate) fn record(mut switches: Switches, over: &AtomicBool) -> Result<Stretches, String> {
    let (mut stretches, mut since) = (Vec::with_capacity(1 << 16), None);
    while !over.load(Ordering::Relaxed) {
        clock::sleep(Nanos::ms(2));
        while let Some(record) = switches.next_record() {
            match record {
                Record::Lost(count) => return Err(format!("{count} switches were lost")),
                Record::Switch(switch) if switch.turn == Turn::In => since = Some(switch.at),
                Record::Switch(switch) => stretches.extend(since.take().map(|since| (since, switch.at))),
            }
        }
    }
    Ok(stretches)
}

/// Watches thread `tid`.
pub(crate) fn watch(tid: u32) -> sys::Result<Switches> {
    Switches::of_thread(tid, Wake::Seldom)
}

/// Counts whole periods and missed ones like [`judge`], with the phase of the periods that misses fewest: it is not known.
pub(crate) fn judge_any_phase(stretches: &Stretches, promise: Promise, begun: Instant, end: Instant) -> Tally {
    let phases = promise.period.as_ns() * PHASES / promise.slice.as_ns();
    let phase = |part: u64| begun.saturating_add(Nanos::ns(promise.period.as_ns() * part / phases));
    let all = (0..phases).map(|part| judge(stretches, promise, phase(part), end));
    // A phase that misses fewer periods by a microsecond may miss more of them clearly.
    all.min_by_key(|tally| (tally.clearly, tally.missed)).unwrap_or_default()
}

/// Counts the whole periods from `begun` to `end`, and the missed periods among them.
pub(crate) fn judge(stretches: &Stretches, promise: Promise, begun: Instant, end: Instant) -> Tally {
    let (mut tally, mut over, mut at) = (Tally::default(), Nanos::ZERO, 0);
    let mut from = begun;
    while from.saturating_add(promise.period) <= end {
        let to = from.saturating_add(promise.period);
        while at < stretches.len() && stretches[at].1 <= from {
            at += 1;
        }
        let mut delivered = Nanos::ZERO;
        for (since, until) in stretches[at..].iter().take_while(|(since, _)| *since < to) {
            delivered += (*until).min(to).saturating_since((*since).max(from));
        }
        let due = promise.slice.saturating_sub(over);
        tally.periods += 1;
        let missing = due.saturating_sub(delivered);
        tally.missed += u64::from(!missing.is_zero());
        tally.clearly += u64::from(missing > promise.slice.scale(1, 100));
        tally.worst = tally.worst.max(missing);
        over = delivered.saturating_sub(due);
        from = to;
    }
    tally
}
