//! Named workloads: each a few documented parameters that become an [`Application`], and a metric of its own.
//!
//! | workload | after | its metric |
//! |---|---|---|
//! | [`Periodic`] | periodic tasks whose work or phase is random | its jobs |
//! | [`Cyclictest`] | cyclictest of rt-tests | how late each thread runs after its timer ([`Step::Woke`]) |
//! | [`Hackbench`] | hackbench, `perf bench sched messaging` | one job of the parent: from the start to when all have ended |
//! | [`Startup`] | launching an application again and again | one job of the launcher for each launch |
//! | [`ForkJoin`] | OpenMP's parallel regions | one job of the first thread for each round |

mod cyclictest;
mod fork_join;
mod hackbench;
mod periodic;
mod startup;
#[cfg(test)]
mod tests;

pub use cyclictest::Cyclictest;
pub use fork_join::{ForkJoin, Waits};
pub use hackbench::{Channel, Hackbench};
pub use periodic::{Periodic, Phase};
pub use startup::Startup;

use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Step, TaskSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One of the workloads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Named {
    /// Periodic jobs, random ones.
    Periodic(Periodic),
    /// Threads that only sleep and wake.
    Cyclictest(Cyclictest),
    /// Groups of senders and receivers.
    Hackbench(Hackbench),
    /// Launches of an application.
    Startup(Startup),
    /// Threads that meet after each round.
    ForkJoin(ForkJoin),
}

impl Named {
    /// The most tasks it ever has at once, itself included; `u64::MAX` beyond that.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        match self {
            Named::Periodic(_) => 1,
            Named::Cyclictest(it) => u64::from(it.threads),
            Named::Hackbench(it) => it.tasks(),
            Named::Startup(_) => 2,
            Named::ForkJoin(it) => u64::from(it.threads),
        }
    }

    /// How many steps all its tasks have together, about.
    #[must_use]
    pub fn steps(&self) -> u64 {
        match self {
            Named::Periodic(_) => 5,
            Named::Cyclictest(it) => 3 * u64::from(it.threads),
            // A receiver has a handful; the senders of a group have two for each receiver, together.
            Named::Hackbench(it) => 8 * u64::from(it.groups) * u64::from(it.fds),
            Named::Startup(it) => 2 * u64::from(it.waits) + 8,
            Named::ForkJoin(it) => u64::from(it.threads) * (4 * u64::from(it.locks) + 8),
        }
    }

    /// Its tasks and what they share; `params` are asked for each of them.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        match self {
            Named::Periodic(it) => it.application(params),
            Named::Cyclictest(it) => it.application(params),
            Named::Hackbench(it) => it.application(params),
            Named::Startup(it) => it.application(params),
            Named::ForkJoin(it) => it.application(params),
        }
    }
}

/// `application` as that of somebody called `name`: tasks are told apart by their names. One that is alone at the beginning has the
/// name itself, all others have it before their own: `name/thread-1`.
#[must_use]
pub fn called(name: &str, application: &Application) -> Application {
    let mut renamed = Renamed { name, known: BTreeMap::new() };
    let is_alone = application.tasks.len() == 1;
    let tasks = application.tasks.iter().map(|task| {
        let task_renamed = renamed.task(task);
        if is_alone { TaskSpec { name: name.to_string(), ..task_renamed } } else { task_renamed }
    });
    Application { tasks: tasks.collect(), objects: application.objects.clone() }
}

/// Tasks that have their new name. Whom several tasks fork stays one.
struct Renamed<'n> {
    name: &'n str,
    known: BTreeMap<*const TaskSpec, Arc<TaskSpec>>,
}

impl Renamed<'_> {
    fn task(&mut self, task: &TaskSpec) -> TaskSpec {
        let steps = self.steps(&task.steps);
        TaskSpec { name: format!("{}/{}", self.name, task.name), params: task.params, delay: task.delay, steps }
    }

    fn steps(&mut self, steps: &[Step]) -> Vec<Step> {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &Step) -> Step {
        match step {
            Step::Repeat { times, body } => Step::Repeat { times: *times, body: self.steps(body) },
            Step::Fork(child) => {
                if let Some(known) = self.known.get(&Arc::as_ptr(child)) {
                    return Step::Fork(Arc::clone(known));
                }
                let renamed = Arc::new(self.task(child));
                self.known.insert(Arc::as_ptr(child), Arc::clone(&renamed));
                Step::Fork(renamed)
            }
            other => other.clone(),
        }
    }
}

/// The shortest that `length` can be.
#[must_use]
pub fn least(length: Length) -> Nanos {
    match length {
        Length::Fixed(time) => time,
        Length::Uniform { least, .. } | Length::AtLeast { least, .. } => least,
        Length::Exponential { .. } => Nanos::ZERO,
    }
}

/// Whether `length` is never above zero.
fn is_nothing(length: Length) -> bool {
    match length {
        Length::Fixed(time)
        | Length::Uniform { most: time, .. }
        | Length::Exponential { mean: time }
        | Length::AtLeast { mean: time, .. } => time.is_zero(),
    }
}

/// `length` in `parts` that are as long as each other but for a nanosecond, and as long as it together.
fn parts(length: Length, parts: u32) -> impl Iterator<Item = Length> {
    let part = move |time: Nanos, number: u32| {
        let (whole, rest) = (time.as_ns() / u64::from(parts), time.as_ns() % u64::from(parts));
        Nanos::ns(whole + u64::from(u64::from(number) < rest))
    };
    (0..parts).map(move |number| match length {
        Length::Fixed(time) => Length::Fixed(part(time, number)),
        Length::Uniform { least, most } => {
            let least = part(least, number);
            Length::Uniform { least, most: part(most, number).max(least) }
        }
        Length::Exponential { mean } => Length::Exponential { mean: part(mean, number) },
        Length::AtLeast { least, mean } => {
            let least = part(least, number);
            Length::AtLeast { least, mean: part(mean, number).max(least) }
        }
    })
}
