//! Named workloads: each a few documented parameters that become an [`Application`], and a metric of its own.
//!
//! [`ALL`] lists them; each is one file with its parameters, its tasks, its metric and its [`WorkloadDescriptor`].

mod audio;
mod bsp;
mod build;
mod cd_reader;
mod cyclictest;
mod dd;
mod descriptor;
mod filebench;
mod fork_join;
mod game;
mod hackbench;
mod iperf;
pub mod length;
mod load_playback;
pub mod metrics;
mod micro_batch;
pub mod network;
mod parsec;
mod periodic;
mod postmark;
mod search;
mod settings;
mod startup;
mod stream;
#[cfg(test)]
mod tests;
mod video;
mod voip;
mod web;
mod web_server;

pub use audio::Audio;
pub use bsp::Bsp;
pub use build::Build;
pub use cd_reader::CdReader;
pub use cyclictest::Cyclictest;
pub use dd::Dd;
pub use descriptor::{ApplicationWorkload, ReadSettings, Selected, WorkloadDescriptor};
pub use filebench::{Filebench, Mix};
pub use fork_join::{ForkJoin, Waits};
pub use game::Game;
pub use hackbench::{Channel, Hackbench};
pub use iperf::{Direction, Iperf};
pub use load_playback::LoadPlayback;
pub use micro_batch::MicroBatch;
pub use parsec::{PROGRAMS, Parsec, Program};
pub use periodic::{Periodic, Phase};
pub use postmark::Postmark;
pub use search::Search;
pub use settings::{ROUNDS_MAX, Settings};
pub use startup::Startup;
pub use stream::Stream;
pub use video::{Frames, Video};
pub use voip::Voip;
pub use web::Web;
pub use web_server::{Arrivals, WebServer};

use sched::Nanos;
use sim::program::Length;
use sim::{Application, Step, TaskGroup, TaskSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Every workload, in the order of the manual. A new one is a file with a `WORKLOAD`, its `mod` above and its line here.
pub const ALL: &[&WorkloadDescriptor] = &[
    &periodic::WORKLOAD,
    &cyclictest::WORKLOAD,
    &hackbench::WORKLOAD,
    &startup::WORKLOAD,
    &fork_join::WORKLOAD,
    &video::WORKLOAD,
    &audio::WORKLOAD,
    &game::WORKLOAD,
    &web::WORKLOAD,
    &bsp::WORKLOAD,
    &parsec::WORKLOAD,
    &micro_batch::WORKLOAD,
    &build::WORKLOAD,
    &stream::WORKLOAD,
    &load_playback::WORKLOAD,
    &web_server::WORKLOAD,
    &iperf::WORKLOAD,
    &dd::WORKLOAD,
    &postmark::WORKLOAD,
    &filebench::WORKLOAD,
    &cd_reader::WORKLOAD,
    &voip::WORKLOAD,
    &search::WORKLOAD,
];

/// The most tasks of an application, and of all applications of a scenario. A file of a few bytes can ask for any number, and each
/// takes about half a kilobyte before it runs.
pub const TASKS_MAX: usize = 1 << 20;

/// The workload called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static WorkloadDescriptor> {
    ALL.iter().copied().find(|workload| workload.name == name)
}

/// `application` under the name `name`. A task that is alone at the beginning gets this name. All others have it before
/// their own: `name/thread-1`.
#[must_use]
pub fn called(name: &str, application: &Application) -> Application {
    let mut renamed = Renamed { name, known: BTreeMap::new() };
    let is_alone = application.tasks.len() == 1;
    let tasks = application.tasks.iter().map(|task| {
        let task_renamed = renamed.task(task);
        if is_alone { TaskSpec { name: name.to_string(), ..task_renamed } } else { task_renamed }
    });
    Application { tasks: tasks.collect(), groups: groups(name, application), ..shared(application) }
}

/// `application` as a part of the application `name`: that name precedes the names of all tasks.
#[must_use]
pub fn within(name: &str, application: &Application) -> Application {
    let mut renamed = Renamed { name, known: BTreeMap::new() };
    let tasks = application.tasks.iter().map(|task| renamed.task(task)).collect();
    Application { tasks, groups: groups(name, application), ..shared(application) }
}

/// `application` without its tasks and groups.
fn shared(application: &Application) -> Application {
    let objects = application.objects.clone();
    Application { objects, may_stall: application.may_stall, ..Application::default() }
}

/// The groups of `application` with `name` before their own.
fn groups(name: &str, application: &Application) -> Vec<TaskGroup> {
    let groups = application.groups.iter();
    groups.map(|group| TaskGroup { name: format!("{name}/{}", group.name), ..group.clone() }).collect()
}

/// Tasks under their new names. A task that several tasks fork stays one task.
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

/// `length`, unless chance decides it.
fn fixed(length: Length) -> Option<Nanos> {
    if let Length::Fixed(time) = length { Some(time) } else { None }
}

/// What `length` is in the mean.
#[must_use]
pub fn mean(length: Length) -> Nanos {
    match length {
        Length::Fixed(time) | Length::Exponential { mean: time } | Length::AtLeast { mean: time, .. } => time,
        Length::Uniform { least, most } => Nanos::ns(least.as_ns() + (most.as_ns() - least.as_ns()) / 2),
    }
}

/// Whether `length` is never above zero.
#[must_use]
pub fn is_nothing(length: Length) -> bool {
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

/// No delay.
fn at_once() -> Length {
    Length::Fixed(Nanos::ZERO)
}
