//! [`replay`]: compares the decisions of the port of `edf` in the kernel with those of the Rust policy.
//!
//! The machine of the policy receives the recorded events at the recorded instants. When a CPU of the kernel has chosen, the machine chooses
//! for this CPU, too: compared are the promise, its deadline and its remaining slice. A kick of the machine takes effect
//! at the next choice of the kernel, as late as that comes, and so does the end of a slice. A choice that does not come is a
//! difference.
//!
//! ```text
//!   wake, sleep, yield, period ──▶ machine ──▶ its choice ──▶ equal?
//!   time that was charged      ──▶   ▲                          ▲
//!   choice of a CPU            ──────┴──────────────────────────┘
//! ```
//!
//! Two CPUs of the kernel act at once, and one of them cannot know what the other one has done some microseconds before. A
//! difference that follows from such a pair of events is *attributed* (`attribution.rs`). All others are faults.

mod attribution;
mod comparison;
mod lived;
mod machine;
mod span;

pub use comparison::{Choice, Comparison, Difference, Kind};

use crate::recording::{Record, Recording, What};
use attribution::{Events, Pair, Subject, attributed};
use comparison::LATE_MOST;
use input::problem::Problems;
use lived::Lived;
use machine::Replayed;
use sched::{Instant, Nanos};
use span::spans;
use std::collections::BTreeSet;

/// Maximum number of differences that are listed.
const LISTED_MOST: usize = 20;

/// Replays a recording.
///
/// # Errors
/// The policy has no port, or refuses a promise of the recording.
pub fn replay(recording: &Recording) -> Result<Comparison, Problems> {
    let records = &recording.records;
    let lived = Lived::new(records, recording.header.cpus);
    let spans = spans(records, &lived);
    let mut replay = Replay {
        events: Events { records, spans: &spans, lived: &lived },
        replayed: Replayed::new(&recording.header)?,
        chosen: vec![None; recording.header.cpus],
        reported: BTreeSet::new(),
        found: Vec::new(),
        comparison: Comparison {
            policy: recording.header.policy.clone(),
            cpus: recording.header.cpus,
            records: records.len() as u64,
            longest_silence_ns: lived.longest_silence_ns(),
            length_ns: records.first().zip(records.last()).map_or(0, |(first, last)| last.at_ns - first.at_ns),
            ..Comparison::default()
        },
    };
    for at in 0..records.len() {
        replay.step(at)?;
    }
    Ok(replay.finish())
}

struct Replay<'a> {
    events: Events<'a>,
    replayed: Replayed,
    /// The promise that each CPU has chosen last, until it runs.
    chosen: Vec<Option<i32>>,
    /// What was due and is reported: instants of CPUs and of promises.
    reported: BTreeSet<(Instant, bool, usize)>,
    found: Vec<Difference>,
    comparison: Comparison,
}

impl Replay<'_> {
    /// Applies the record at this index.
    fn step(&mut self, index: usize) -> Result<(), Problems> {
        let Record { at_ns, cpu, promise, what, .. } = self.events.records[index];
        let now = Instant::at_ns(at_ns);
        self.replayed.advance(now);
        self.find_late(index, now);
        match what {
            What::Begin { slice_ns, period_ns, is_hard, home, gang } => {
                let (slice, period) = (Nanos::ns(slice_ns), Nanos::ns(period_ns));
                self.replayed.begin(promise, machine::reservation(slice, period, is_hard), home, gang, index)?;
                self.comparison.promises += 1;
            }
            What::Wake | What::Sleep | What::Renew | What::Yield => {
                if !self.replayed.happens(promise, what) {
                    self.differ(index, cpu, Kind::State, &[promise]);
                }
            }
            What::Run => self.run(index, cpu, promise),
            What::Stop => self.replayed.stop(promise),
            // The policy knows of it already.
            What::Move => self.replayed.come(promise),
            What::Beat => {}
            What::Choice { deadline_ns, left_ns } => {
                self.chosen[cpu] = Some(promise);
                let kernel = (promise != 0).then_some(Choice { promise, deadline_ns, left_ns });
                self.choice(index, cpu, kernel);
            }
        }
        self.replayed.settle();
        Ok(())
    }

    fn run(&mut self, index: usize, cpu: usize, promise: i32) {
        self.replayed.run(promise);
        let chosen = self.chosen[cpu].filter(|chosen| *chosen != 0);
        if let Some(chosen) = chosen.filter(|chosen| *chosen != promise) {
            self.comparison.choices += 1;
            self.differ(index, cpu, Kind::Run { runs: promise, chosen }, &[promise, chosen]);
        }
        self.chosen[cpu] = None;
    }

    fn choice(&mut self, index: usize, cpu: usize, kernel: Option<Choice>) {
        let policy = self.replayed.choose(cpu);
        let promises: Vec<i32> = [kernel, policy].iter().flatten().map(|choice| choice.promise).collect();
        if promises.is_empty() {
            return;
        }
        self.comparison.choices += 1;
        if kernel == policy {
            self.replayed.agree(&promises, index);
        } else {
            self.differ(index, cpu, Kind::Choice { kernel, policy }, &promises);
        }
    }

    /// Finds choices and periods that have been due for too long at `now`.
    fn find_late(&mut self, index: usize, now: Instant) {
        let lived = self.events.lived;
        let is_late = |since: Instant| lived.between(since.as_ns(), now.as_ns()) > LATE_MOST;
        for cpu in 0..self.chosen.len() {
            if let Some((since, promise)) = self.replayed.late_choice(cpu, is_late)
                && self.reported.insert((since, true, cpu))
            {
                self.comparison.choices += 1;
                self.differ(index, cpu, Kind::NoChoice { since_ns: since.as_ns() }, &[promise]);
            }
        }
        for (since, promise, home) in self.replayed.late_periods(is_late) {
            if self.reported.insert((since, false, promise.unsigned_abs() as usize)) {
                self.comparison.choices += 1;
                self.differ(index, home, Kind::NoPeriod { since_ns: since.as_ns() }, &[promise]);
            }
        }
    }

    fn differ(&mut self, index: usize, cpu: usize, kind: Kind, promises: &[i32]) {
        let since = promises.iter().map(|promise| self.replayed.agreed(*promise)).min().unwrap_or(0);
        let mut pair = attributed(self.events, &Subject { index, kind, promises, since });
        if let Some(pair) = pair {
            self.replayed.dispute(promises, pair);
        } else if let Some((promise, earlier)) = self.disputed(kind) {
            self.replayed.dispute(&[promise], earlier);
            pair = Some(earlier);
        }
        let Record { number, at_ns, .. } = self.events.records[index];
        let pair = pair.map(|(one, other)| (self.events.records[one].number, self.events.records[other].number));
        let Comparison { differences, attributed, unattributed, .. } = &mut self.comparison;
        *differences += 1;
        *if pair.is_some() { attributed } else { unattributed } += 1;
        let since = self.events.records[since].number;
        self.found.push(Difference { number, at_ns, cpu, kind, pair, since });
    }

    /// The account of a promise differs up to the end of its period, in each choice that depends on it. Returns the promise, and
    /// the two records from which the first of these differences follows.
    fn disputed(&self, kind: Kind) -> Option<(i32, Pair)> {
        let Kind::Choice { kernel, policy } = kind else { return None };
        let earlier = |choice: &Choice| Some((choice.promise, self.replayed.disputed(choice)?));
        [kernel, policy].iter().flatten().find_map(earlier)
    }

    fn finish(mut self) -> Comparison {
        self.found.sort_by_key(|difference| difference.pair.is_some());
        self.found.truncate(LISTED_MOST);
        self.comparison.listed = self.found;
        self.comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Header;

    /// A promise of 1 ms in this period begins on CPU 0.
    fn begin(promise: i32, period_ms: u64) -> (u64, usize, i32, What) {
        let (slice_ns, period_ns) = (1_000_000, period_ms * 1_000_000);
        (0, 0, promise, What::Begin { slice_ns, period_ns, is_hard: false, home: 0, gang: 0 })
    }

    fn choice(deadline_us: u64, left_us: i64) -> What {
        What::Choice { deadline_ns: deadline_us * 1_000, left_ns: left_us * 1_000 }
    }

    /// CPU 0 chooses promise 7, just after promise 8 wakes, which has an earlier deadline. It wakes on CPU `waker`. Promise 7 then runs
    /// without the machine, and owes this time when it sleeps. At its wake-up, the rest of its slice is too large for the
    /// rest of its period by the account of the machine, but not by that of the kernel.
    fn with_a_wake_up_on(waker: usize) -> Comparison {
        let events = [
            begin(7, 10),
            begin(8, 5),
            (10, 0, 7, What::Wake),
            (11, waker, 8, What::Wake),
            (12, 0, 7, choice(10_010, 1_000)),
            (13, 0, 7, What::Run),
            (33, 0, 8, choice(5_011, 1_000)),
            (33, 0, 7, What::Stop),
            (34, 0, 8, What::Run),
            (60, 0, 8, What::Stop),
            (60, 0, 8, What::Sleep),
            (61, 0, 7, choice(10_010, 980)),
            (62, 0, 7, What::Run),
            (63, 0, 7, What::Stop),
            (64, 0, 7, What::Sleep),
            (110, 0, 7, What::Wake),
            (112, 0, 7, choice(10_010, 979)),
        ];
        let record = |(number, (at_us, cpu, promise, what)): (usize, (u64, usize, i32, What))| Record {
            number: number as u64,
            at_ns: at_us * 1_000,
            took_ns: 0,
            cpu,
            promise,
            what,
        };
        let records = events.into_iter().enumerate().map(record).collect();
        replay(&Recording::new(Header::new("edf", 2), records)).unwrap()
    }

    #[test]
    fn a_difference_that_follows_from_an_attributed_one_is_attributed_to_the_same_records() {
        let comparison = with_a_wake_up_on(1);
        assert_eq!((comparison.differences, comparison.attributed), (2, 2), "{comparison:?}");
        assert_eq!(comparison.listed[1].pair, comparison.listed[0].pair);
    }

    #[test]
    fn a_difference_that_follows_from_an_unattributed_one_is_not_attributed() {
        let comparison = with_a_wake_up_on(0);
        assert_eq!((comparison.differences, comparison.unattributed), (2, 2), "{comparison:?}");
    }
}
