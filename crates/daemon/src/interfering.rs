//! Interfering threads: threads that run above the clients of the dispatcher, by SCHED_DEADLINE or by a real-time priority.
//! The dispatcher cannot delay such a thread, so a promise accounts for the CPU time that the thread may take.
//! [`InterferingThreads`] finds those of other programs. Tactus's own are the threads that it has reserved.

use crate::kernel::priority;
use sched::{CpuSet, Instant, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use sys::attributes::{self, Policy};
use sys::kernel::Configuration;
use sys::thread::{self, Identity, State, Thread};
use sys::{affinity, clock, realtime};

/// Time between the two reads of the CPU time of a real-time thread.
const SAMPLE: Nanos = Nanos::ms(100);
/// Time for which a list of interfering threads counts.
const VALID: Nanos = Nanos::s(1);
/// A real-time thread with less CPU time does not count: the reserve of each CPU is also for such threads. Unit: parts per
/// million of a CPU.
const LEAST: u64 = 10_000;
const MILLION: u64 = 1_000_000;
/// Maximum number of ancestors that are read.
const GENERATIONS_MOST: usize = 64;

/// The CPU time that an interfering thread may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Demand {
    /// SCHED_DEADLINE: the kernel limits the thread to `runtime` in every `period`. The two are equal if the thread also
    /// reclaims unused time.
    Reserved {
        /// CPU time in every period.
        runtime: Nanos,
        /// Length of a period.
        period: Nanos,
        /// Time by which the thread may overrun its runtime. The kernel deducts the overrun from later periods. See
        /// [`overrun`].
        overrun: Nanos,
    },
    /// A real-time priority: the thread has no limit of its own. `ppm` is the share of a CPU that it had while it was
    /// observed, in parts per million.
    Observed {
        /// Real-time priority of the thread.
        priority: u32,
        /// Observed share of a CPU. Unit: parts per million.
        ppm: u64,
    },
}

impl Demand {
    /// Returns a bound of the CPU time that the thread takes within `span`, and of its share of every longer interval.
    ///
    /// A reserved thread may use its runtime at the end of one period and again at the start of the next. In an interval
    /// of length t, it therefore takes at most ⌈(t + period − runtime) / period⌉ · runtime ≤ U·t + runtime·(2 − U), where
    /// U is its utilisation (the interference of a deferrable server: Davis and Burns 2005, "Hierarchical fixed priority
    /// pre-emptive scheduling"). An overrun is deducted later, so at most one is in addition. The bound divided by t falls as
    /// t grows.
    #[must_use]
    pub fn within(&self, span: Nanos) -> Nanos {
        let up = |share: u128, of: u128| share.div_ceil(of.max(1));
        let bound = match *self {
            Demand::Reserved { runtime, period, overrun } => {
                let (runtime, period, span) = (wide(runtime), wide(period), wide(span));
                up(runtime * span, period) + 2 * runtime - runtime * runtime / period.max(1) + wide(overrun)
            }
            Demand::Observed { ppm, .. } => up(u128::from(ppm) * wide(span), u128::from(MILLION)),
        };
        Nanos::ns(u64::try_from(bound).unwrap_or(u64::MAX)).min(span)
    }
}

/// Returns the time by which a thread may overrun its reservation on this host: a tick of the kernel, unless a timer ends the
/// runtime. A host without a known tick counts as one with 100 ticks per second.
#[must_use]
pub fn overrun() -> Nanos {
    static OVERRUN: OnceLock<Nanos> = OnceLock::new();
    *OVERRUN.get_or_init(|| match realtime::has_deadline_timer() {
        Ok(true) => Nanos::ZERO,
        _ => Nanos::ns(Nanos::s(1).as_ns() / u64::from(Configuration::read().tick_rate().unwrap_or(100).max(1))),
    })
}

fn wide(time: Nanos) -> u128 {
    u128::from(time.as_ns())
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Demand::Reserved { runtime, period, .. } if runtime == period => {
                f.write_str("SCHED_DEADLINE, without a limit")
            }
            Demand::Reserved { runtime, period, overrun } if overrun.is_zero() => {
                write!(f, "SCHED_DEADLINE, {runtime} every {period}")
            }
            Demand::Reserved { runtime, period, overrun } => {
                write!(f, "SCHED_DEADLINE, {runtime} every {period}, overruns of up to {overrun}")
            }
            Demand::Observed { priority, ppm } => {
                write!(f, "real-time priority {priority}, {}.{:02} % of a CPU", ppm / 10_000, ppm % 10_000 / 100)
            }
        }
    }
}

/// A thread that runs above the clients of the dispatcher.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterferingThread {
    /// Tid of the thread.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// CPU time that the thread may take.
    pub demand: Demand,
    /// CPUs that the thread may use.
    pub cpus: CpuSet,
}

impl fmt::Display for InterferingThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (thread {}, {})", self.name, self.tid, self.demand)
    }
}

/// A thread that runs above the clients, at one moment.
struct Candidate {
    identity: Identity,
    name: String,
    class: Policy,
    cpus: CpuSet,
    ran: Nanos,
}

/// Finds the interfering threads of other programs.
#[derive(Debug)]
pub struct InterferingThreads {
    /// Time of the last scan, and the CPU time of each real-time thread before its sample.
    sample: (Instant, BTreeMap<Identity, Nanos>),
    /// The threads of the last scan.
    found: Vec<(Identity, InterferingThread)>,
}

impl Default for InterferingThreads {
    fn default() -> InterferingThreads {
        InterferingThreads { sample: (Instant::ZERO, BTreeMap::new()), found: Vec::new() }
    }
}

impl InterferingThreads {
    /// Returns the interfering threads, without the threads for which `is_ours` returns true. Scans all threads that /proc
    /// shows, unless the last scan was less than a second ago. If there are real-time threads, a scan takes 0.1 s, and calls
    /// `pause` with short times to wait.
    pub fn look(&mut self, is_ours: impl Fn(&Identity) -> bool, pause: impl Fn(Nanos)) -> Vec<InterferingThread> {
        if clock::now() >= self.sample.0.saturating_add(VALID) || self.sample.0 == Instant::ZERO {
            self.scan(&is_ours, pause);
        }
        self.found.iter().filter(|(identity, _)| !is_ours(identity)).map(|(_, thread)| thread.clone()).collect()
    }

    /// Returns the threads of the last scan, each with its start time, for a new program of this process.
    #[must_use]
    pub fn pass_on(&self) -> Vec<(u64, InterferingThread)> {
        self.found.iter().map(|(identity, thread)| (identity.start_time, thread.clone())).collect()
    }

    /// Returns the threads that the former program of this process has found, as if they were found now.
    #[must_use]
    pub fn of_former(found: Vec<(u64, InterferingThread)>) -> InterferingThreads {
        let identity = |start_time, thread: &InterferingThread| Identity { tid: thread.tid, start_time };
        let found = found.into_iter().map(|(start_time, thread)| (identity(start_time, &thread), thread));
        InterferingThreads { sample: (clock::now(), BTreeMap::new()), found: found.collect() }
    }

    fn scan(&mut self, is_ours: &dyn Fn(&Identity) -> bool, pause: impl Fn(Nanos)) {
        let mut candidates = candidates(is_ours);
        // A share over a longer time would hide a thread that has just become busy.
        self.take_sample(&candidates);
        if candidates.iter().any(is_realtime) {
            let end = clock::now().saturating_add(SAMPLE);
            while clock::now() < end {
                pause(Nanos::ms(10));
            }
            candidates = self::candidates(is_ours);
        }
        let span = clock::now().saturating_since(self.sample.0);
        let found = candidates.iter().filter_map(|it| {
            let demand = it.demand(self.sample.1.get(&it.identity).copied(), span)?;
            let thread = InterferingThread { tid: it.identity.tid, name: it.name.clone(), demand, cpus: it.cpus };
            Some((it.identity, thread))
        });
        self.found = found.collect();
        self.sample.0 = clock::now();
    }

    fn take_sample(&mut self, candidates: &[Candidate]) {
        let realtime = candidates.iter().filter(|it| is_realtime(it));
        self.sample = (clock::now(), realtime.map(|it| (it.identity, it.ran)).collect());
    }
}

fn is_realtime(candidate: &Candidate) -> bool {
    !matches!(candidate.class, Policy::Deadline { .. })
}

impl Candidate {
    /// Returns what the thread may take; `None` if this is next to nothing. A real-time thread had the CPU time `earlier`
    /// before the time `span`.
    fn demand(&self, earlier: Option<Nanos>, span: Nanos) -> Option<Demand> {
        match self.class {
            Policy::Deadline { runtime, period, reclaim, .. } => {
                let runtime = if reclaim { period } else { runtime };
                Some(Demand::Reserved { runtime, period, overrun: overrun() })
            }
            Policy::Fifo { priority } | Policy::RoundRobin { priority } => {
                let ran = self.ran.saturating_sub(earlier?);
                let ppm = u64::try_from(wide(ran) * u128::from(MILLION) / wide(span).max(1)).unwrap_or(MILLION);
                (ppm >= LEAST).then_some(Demand::Observed { priority, ppm: ppm.min(MILLION) })
            }
            _ => None,
        }
    }
}

/// Returns whether `thread` belongs to one of `processes`, or to a child of process `core`. The guardian of a core and its
/// standby are such children.
#[must_use]
pub fn belongs(thread: &Identity, processes: &[u32], core: u32) -> bool {
    let is_one = |pid| processes.contains(&pid) || thread::status(pid).is_ok_and(|status| status.parent == core);
    Thread::open(thread.tid).and_then(|thread| thread.process()).is_ok_and(is_one)
}

/// Returns whether `thread` belongs to one of `processes` or to a descendant of one of them.
#[must_use]
pub fn descends(thread: &Identity, processes: &[u32]) -> bool {
    let mut process = Thread::open(thread.tid).and_then(|thread| thread.process()).ok();
    for _ in 0..GENERATIONS_MOST {
        match process {
            Some(pid) if processes.contains(&pid) => return true,
            Some(pid) if pid > 1 => process = thread::status(pid).ok().map(|status| status.parent),
            _ => return false,
        }
    }
    false
}

/// Returns the threads that run above the clients. Threads of the kernel do not count: they serve the host, and the reserve
/// of each CPU is for them.
fn candidates(is_ours: &dyn Fn(&Identity) -> bool) -> Vec<Candidate> {
    thread::all().unwrap_or_default().into_iter().filter_map(|tid| candidate(tid, is_ours)).collect()
}

fn candidate(tid: u32, is_ours: &dyn Fn(&Identity) -> bool) -> Option<Candidate> {
    let class = attributes::get(tid).ok()?.policy;
    let is_above = match class {
        Policy::Deadline { .. } => true,
        Policy::Fifo { priority } | Policy::RoundRobin { priority } => priority >= priority::AMONG_OTHERS,
        _ => false,
    };
    if !is_above {
        return None;
    }
    let thread = Thread::open(tid).ok()?;
    let (identity, status) = (thread.identity(), thread.status().ok()?);
    if status.is_kernel || status.state == State::Dead || is_ours(&identity) {
        return None;
    }
    let ran = thread.meter().and_then(|meter| meter.read()).map_or(Nanos::ZERO, |usage| usage.ran);
    Some(Candidate { identity, name: status.name, class, cpus: affinity::get(tid).unwrap_or(CpuSet::ALL), ran })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(runtime: Nanos, period: Nanos) -> Demand {
        Demand::Reserved { runtime, period, overrun: Nanos::ZERO }
    }

    /// The most that a thread with a reservation takes in an interval of `span`: it starts with the last runtime of a
    /// period, and goes on with the first of each later period. It overruns the first runtime.
    fn most((runtime, period, overrun): (u64, u64, u64), span: u64) -> u64 {
        let first = span.min(runtime + overrun);
        let rest = span - first;
        first + rest / period * runtime + (rest % period).min(runtime)
    }

    #[test]
    fn a_reservation_never_takes_more_than_its_bound() {
        let cases = [(1, 1, 0), (1, 2, 0), (2, 5, 1), (5, 5, 0), (1, 100, 40), (99, 100, 0), (37, 64, 20), (3, 50, 50)];
        for (runtime, period, overrun) in cases {
            let [runtime_ns, period_ns, overrun_ns] = [runtime, period, overrun].map(Nanos::ns);
            let demand = Demand::Reserved { runtime: runtime_ns, period: period_ns, overrun: overrun_ns };
            for shortest in 1..300 {
                let bound = demand.within(Nanos::ns(shortest)).as_ns();
                for span in shortest..700 {
                    let taken = most((runtime, period, overrun), span);
                    let text = format!("{runtime} every {period}, {taken} within {span}, bound {bound} per {shortest}");
                    assert!(u128::from(taken) * u128::from(shortest) <= u128::from(bound) * u128::from(span), "{text}");
                }
            }
        }
    }

    #[test]
    fn the_bound_is_the_whole_span_at_most_and_proportional_for_an_observed_share() {
        let (ms, all) = (Nanos::ms(1), Nanos::ms(10));
        assert_eq!(reserved(ms.saturating_mul(9), all).within(ms), ms);
        assert_eq!(reserved(ms, all).within(all), Nanos::us(2_900));
        assert_eq!(Demand::Observed { priority: 99, ppm: 250_000 }.within(all), Nanos::us(2_500));
    }
}
