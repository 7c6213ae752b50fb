//! Policies compared with schedulability theory, on random sets and on the boundaries of the theorems. Every test
//! prints a failing set with its seed. `TACTUS_TEST_SEED` selects the first seed.

mod demand;
mod gfb;
mod poris;
mod poris_waste;
mod supply;

use fuzz::Dice;
use sched::{Action, Descriptor, EntityId, Instant, Knobs, Nanos, Params, Topology};
use sim::{Costs, JobEnd, Periodic, Workload};
use std::collections::{BTreeMap, VecDeque};
use trace::{Event, Sink};

/// Returns the first seed of a test: `TACTUS_TEST_SEED`, or 0.
fn first_seed() -> u64 {
    let given = std::env::var("TACTUS_TEST_SEED").ok();
    given.map_or(0, |seed| seed.parse().expect("TACTUS_TEST_SEED is a number"))
}

/// Returns a policy by its name.
fn policy(name: &str) -> &'static Descriptor {
    policies::find(name).expect("it is registered")
}

/// Returns the default knobs of `policy` with these changes, each a knob and a word or a number.
fn knobs(policy: &Descriptor, changes: &[(&str, &str)]) -> Knobs {
    let mut knobs = policy.defaults();
    for &(name, value) in changes {
        match value.parse() {
            Ok(number) => knobs.set(name, number).expect("it is in range"),
            Err(_) => knobs.set_word(name, value).expect("it is one of its words"),
        }
    }
    knobs
}

/// A periodic task. All times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Task {
    work: u64,
    period: u64,
    /// Time from a release to the deadline of the job. Range: 1 … `period`.
    deadline: u64,
    /// Instant of the first release.
    phase: u64,
}

/// Divisors of [`HYPERPERIOD`].
const PERIODS: [u64; 18] = [4, 5, 6, 8, 9, 10, 12, 15, 18, 20, 24, 30, 36, 40, 60, 72, 90, 120];
/// A common multiple of all periods, in the unit of the set.
const HYPERPERIOD: u64 = 360;

/// Splits `total` into `n` random parts, each above zero. `total` must be at least `n`.
fn split(total: u64, n: u64, dice: &mut Dice) -> Vec<u64> {
    let weights: Vec<u64> = (0..n).map(|_| 1 + dice.below(1_000)).collect();
    let sum: u64 = weights.iter().sum();
    let mut parts: Vec<u64> = weights.iter().map(|w| (total * w / sum).max(1)).collect();
    let used: u64 = parts.iter().sum();
    let largest = parts.iter_mut().max().expect("there are some");
    *largest = (*largest + total).checked_sub(used).filter(|&part| part > 0).expect("the largest part has room");
    parts
}

/// Finds the first job of each entity that misses its deadline.
#[derive(Default)]
struct Misses {
    open: BTreeMap<EntityId, VecDeque<Instant>>,
    first: Option<(EntityId, Instant)>,
}

impl Misses {
    fn miss(&mut self, entity: EntityId, deadline: Instant) {
        if self.first.is_none_or(|(_, earlier)| deadline < earlier) {
            self.first = Some((entity, deadline));
        }
    }
}

impl Sink for Misses {
    fn record(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Release { entity, deadline } => self.open.entry(*entity).or_default().push_back(*deadline),
            Event::Complete { entity } => {
                let deadline = self.open.get_mut(entity).and_then(VecDeque::pop_front).expect("a job is open");
                if at > deadline {
                    self.miss(*entity, deadline);
                }
            }
            Event::End => {
                for (entity, open) in std::mem::take(&mut self.open) {
                    open.into_iter().filter(|&deadline| deadline < at).for_each(|late| self.miss(entity, late));
                }
            }
            _ => {}
        }
    }
}

/// Runs the jobs of `tasks` through `end`. Returns the earliest missed deadline, with its task. A deadline at `end` is
/// missed if the job has not completed at `end`.
fn first_miss(
    policy: &'static Descriptor,
    knobs: &Knobs,
    cpus: usize,
    tasks: &[Task],
    params: impl Fn(&Task) -> Params,
    end: u64,
) -> Option<(EntityId, Instant)> {
    let mut misses = Misses::default();
    let mut host = sim::Driver::new(policy, Topology::new(cpus), knobs, Costs::NONE).expect("these knobs go together");
    host.watch(&mut misses);
    for task in tasks {
        let jobs = Periodic {
            phase: Nanos::ns(task.phase),
            deadline: Nanos::ns(task.deadline),
            end: JobEnd::Yield,
            ..Periodic::new(Nanos::ns(task.period), Nanos::ns(task.work))
        };
        host.attach("task", params(task), Workload::Periodic(jobs)).expect("the policy refuses no task of the set");
    }
    host.finish(Instant::ZERO + Nanos::ns(end + 1));
    drop(host);
    misses.first
}

/// Intervals in which each entity had a CPU, in order of time.
#[derive(Default)]
struct Runs {
    open: BTreeMap<EntityId, Instant>,
    of: BTreeMap<EntityId, Vec<(u64, u64)>>,
}

impl Runs {
    fn close(&mut self, entity: EntityId, from: Instant, to: Instant) {
        if from < to {
            self.of.entry(entity).or_default().push((from.as_ns(), to.as_ns()));
        }
    }

    /// Returns the intervals of `entity`.
    fn of(&self, entity: EntityId) -> &[(u64, u64)] {
        self.of.get(&entity).map_or(&[], Vec::as_slice)
    }
}

impl Sink for Runs {
    fn record(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Action(Action::Run { entity, .. }) => {
                self.open.insert(*entity, at);
            }
            Event::Action(Action::Stop { entity, .. }) => {
                if let Some(from) = self.open.remove(entity) {
                    self.close(*entity, from, at);
                }
            }
            Event::End => {
                for (entity, from) in std::mem::take(&mut self.open) {
                    self.close(entity, from, at);
                }
            }
            _ => {}
        }
    }
}
