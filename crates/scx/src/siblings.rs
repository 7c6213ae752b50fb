//! [`Siblings`]: how much of their time the threads of a gang run together, by the kernel's own events.

use crate::interface::{Event, Kind};
use sched::{Instant, Nanos};
use serde::Serialize;
use trace::Durations;

/// The time for which threads of a gang have run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Together {
    /// The threads.
    pub tids: Vec<i32>,
    /// Time in which at least one of them ran. Unit: ns.
    pub any_ns: u64,
    /// Time in which all of them ran. Unit: ns.
    pub all_ns: u64,
    /// Number of times that all of them ran, after a time in which none did.
    pub starts: u64,
    /// Time from the start of the first one to that of the last one: the 99th percentile. Unit: ns.
    pub skew_p99_ns: u64,
    /// The maximum. Unit: ns.
    pub skew_max_ns: u64,
}

impl Together {
    /// Adds another time of the same threads. The skews are then the larger ones.
    pub fn add(&mut self, other: &Together) {
        self.any_ns += other.any_ns;
        self.all_ns += other.all_ns;
        self.starts += other.starts;
        self.skew_p99_ns = self.skew_p99_ns.max(other.skew_p99_ns);
        self.skew_max_ns = self.skew_max_ns.max(other.skew_max_ns);
    }
}

/// The threads of a gang.
#[derive(Clone, Debug)]
pub struct Siblings {
    tids: Vec<i32>,
    runs: Vec<bool>,
    upto: Instant,
    any: Nanos,
    all: Nanos,
    /// When the first of them began to run; `None`: none runs, or all have run since then.
    started: Option<Instant>,
    skews: Durations,
}

impl Siblings {
    /// Creates the account of a gang. No thread of it runs yet.
    #[must_use]
    pub fn new(tids: Vec<i32>) -> Siblings {
        let runs = vec![false; tids.len()];
        let (any, all) = (Nanos::ZERO, Nanos::ZERO);
        Siblings { tids, runs, upto: Instant::ZERO, any, all, started: None, skews: Durations::default() }
    }

    /// Accounts for the time up to an event, if it is the begin or the end of a run of a sibling. Events of two CPUs may come in
    /// the wrong order if they are close together: the earlier one then counts as simultaneous.
    pub fn note(&mut self, event: &Event) {
        let Some(at) = self.tids.iter().position(|tid| *tid == event.tid) else { return };
        let runs = match event.kind {
            Kind::Run { .. } => true,
            Kind::Stop | Kind::Sleep | Kind::Detach => false,
            _ => return,
        };
        self.advance(event.at);
        let ran_any = self.runs.contains(&true);
        self.runs[at] = runs;
        if !ran_any && runs {
            self.started = Some(self.upto);
        }
        if self.runs.iter().all(|runs| *runs)
            && let Some(started) = self.started.take()
        {
            self.skews.record(self.upto.since(started));
        }
        if !self.runs.contains(&true) {
            self.started = None;
        }
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.saturating_since(self.upto);
        self.upto = self.upto.max(now);
        if self.runs.contains(&true) {
            self.any += passed;
        }
        if self.runs.iter().all(|runs| *runs) {
            self.all += passed;
        }
    }

    /// Returns how the threads have run up to `now`.
    #[must_use]
    pub fn together(&mut self, now: Instant) -> Together {
        self.advance(now);
        Together {
            tids: self.tids.clone(),
            any_ns: self.any.as_ns(),
            all_ns: self.all.as_ns(),
            starts: self.skews.count(),
            skew_p99_ns: self.skews.percentile(99).as_ns(),
            skew_max_ns: self.skews.longest().as_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::CpuId;

    #[test]
    fn the_time_of_siblings_counts_once_while_one_runs_and_as_common_while_all_run() {
        let mut siblings = Siblings::new(vec![7, 9]);
        let mut note = |us: u64, tid: i32, kind: Kind| {
            siblings.note(&Event { at: Instant::ZERO + Nanos::us(us), tid, kind });
        };
        let run = || Kind::Run { cpu: CpuId::new(0) };
        note(10, 7, run());
        note(12, 9, run());
        note(11, 8, Kind::Stop); // No sibling.
        note(20, 7, Kind::Stop);
        note(25, 9, Kind::Stop);
        // One of them alone, and then both with a start that comes too early in the buffer.
        note(40, 9, run());
        note(45, 9, Kind::Sleep);
        note(60, 9, run());
        note(59, 7, run());
        let together = siblings.together(Instant::ZERO + Nanos::us(70));
        assert_eq!((together.any_ns, together.all_ns), (15_000 + 5_000 + 10_000, 8_000 + 10_000));
        assert_eq!((together.starts, together.skew_p99_ns, together.skew_max_ns), (2, 2_000, 2_000));
    }
}
