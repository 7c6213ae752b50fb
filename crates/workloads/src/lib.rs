//! Named workloads: each a few documented parameters that become an [`Application`], and a metric of its own.
//!
//! | workload | after | its metric |
//! |---|---|---|
//! | [`Periodic`] | periodic tasks whose work or phase is random | its jobs |
//! | [`Cyclictest`] | cyclictest of rt-tests | how late each thread runs after its timer ([`Step::Woke`]) |
//! | [`Hackbench`] | hackbench, `perf bench sched messaging` | one job of the parent: from the start to when all have ended |
//! | [`Startup`] | launching an application again and again | one job of the launcher for each launch |
//! | [`ForkJoin`] | OpenMP's parallel regions | one job of the first thread for each round |
//! | [`Video`], [`Audio`], [`Game`], [`Web`] | what people look at, listen to and click | [`Metric`]: film, sound, beats, responses |
//! | [`Bsp`], [`Stream`] | `patterns`, STREAM | [`Metric`]: rounds, bandwidth |
//! | [`Parsec`], [`Build`] | PARSEC, a kernel's build | [`Metric`]: completion |
//! | [`MicroBatch`] | Spark Streaming | [`Metric`]: batches |
//! | [`WebServer`], [`Search`] | httperf's web server, a search that is spread out | [`Metric`]: requests |
//! | [`Iperf`], [`Dd`] | iperf, dd | [`Metric`]: transfer |
//! | [`Postmark`], [`Filebench`] | small files of a mail server, filebench's personalities | [`Metric`]: transactions, operations |
//! | [`CdReader`] | ripping a CD | [`Metric`]: completion |
//! | [`Voip`] | telephone calls | [`Metric`]: calls |
//! | [`LoadPlayback`] | host load trace playback | [`Metric`]: contention |

mod audio;
mod bsp;
mod build;
mod cd_reader;
mod cyclictest;
mod dd;
mod filebench;
mod fork_join;
mod game;
mod hackbench;
mod iperf;
mod load_playback;
pub mod metrics;
mod micro_batch;
pub mod network;
mod parsec;
mod periodic;
mod postmark;
mod search;
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
pub use startup::Startup;
pub use stream::Stream;
pub use video::{Frames, Video};
pub use voip::Voip;
pub use web::Web;
pub use web_server::{Arrivals, WebServer};

use crate::metrics::Metric;
use crate::network::Plan;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Step, TaskGroup, TaskSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One of the workloads.
#[derive(Clone, PartialEq, Debug)]
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
    /// A film.
    Video(Video),
    /// Sound alone.
    Audio(Audio),
    /// A game.
    Game(Game),
    /// Somebody who browses.
    Web(Web),
    /// A bulk-synchronous program.
    Bsp(Bsp),
    /// A program that synchronises as one of PARSEC.
    Parsec(Parsec),
    /// A stream in small batches.
    MicroBatch(MicroBatch),
    /// Many short compilers.
    Build(Build),
    /// Memory streaming.
    Stream(Stream),
    /// A trace of load.
    LoadPlayback(LoadPlayback),
    /// A web server and its clients.
    WebServer(WebServer),
    /// Bulk transfers over the network.
    Iperf(Iperf),
    /// Reading or writing a disk, block by block.
    Dd(Dd),
    /// Small files of a mail server.
    Postmark(Postmark),
    /// Threads of a file server.
    Filebench(Filebench),
    /// A drive that has to be kept up with.
    CdReader(CdReader),
    /// Telephone calls.
    Voip(Voip),
    /// A search that is spread out.
    Search(Search),
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
            Named::Video(it) => u64::from(it.threads) + u64::from(it.sound.is_some()),
            Named::Audio(_) | Named::Web(_) => 1,
            Named::Game(it) => 1 + u64::from(it.sound.is_some()),
            Named::Bsp(it) => u64::from(it.nodes) + it.places.len() as u64,
            Named::Parsec(it) => u64::from(it.threads),
            Named::MicroBatch(it) => it.lanes() + u64::from(!it.places.is_empty()),
            Named::Build(it) => 1 + u64::from(it.jobs),
            Named::Stream(it) => u64::from(it.threads),
            Named::LoadPlayback(it) => it.workers(),
            Named::WebServer(it) => u64::from(it.clients),
            Named::Iperf(it) => u64::from(it.streams),
            Named::Dd(_) => 1,
            Named::Postmark(_) => 2,
            Named::Filebench(it) => u64::from(it.threads) + 1,
            Named::CdReader(_) => 3,
            Named::Voip(it) => u64::from(it.calls),
            Named::Search(it) => 1 + it.leaves.len() as u64,
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
            Named::MicroBatch(it) if it.places.is_empty() => u64::from(it.workers) * (2 * u64::from(it.stages) + 5),
            Named::Bsp(it) => 16 * self.tasks().saturating_mul(1 + it.places.len() as u64),
            Named::LoadPlayback(it) => it.workers().saturating_mul(2 * it.loads_milli.len() as u64),
            Named::WebServer(it) => it.steps(),
            // A round has a hundred jobs of ten transactions, each of which may miss the cache.
            Named::Postmark(_) => 16_384,
            Named::Filebench(it) => it.steps(),
            Named::Search(it) => 16 + 8 * it.leaves.len() as u64,
            other => 16 * other.tasks(),
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
            Named::Video(it) => it.application(params),
            Named::Audio(it) => it.application(params),
            Named::Game(it) => it.application(params),
            Named::Web(it) => it.application(params),
            Named::Bsp(it) => it.application(params),
            Named::Parsec(it) => it.application(params),
            Named::MicroBatch(it) => it.application(params),
            Named::Build(it) => it.application(params),
            Named::Stream(it) => it.application(params),
            Named::LoadPlayback(it) => it.application(params),
            Named::WebServer(_)
            | Named::Iperf(_)
            | Named::Dd(_)
            | Named::Postmark(_)
            | Named::Filebench(_)
            | Named::CdReader(_)
            | Named::Voip(_)
            | Named::Search(_) => self.plan(params).application,
        }
    }

    /// The same with all that runs on other machines, and what connects them.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        match self {
            Named::WebServer(it) => it.plan(params),
            Named::Iperf(it) => it.plan(params),
            Named::Dd(it) => it.plan(params),
            Named::Postmark(it) => it.plan(params),
            Named::Filebench(it) => it.plan(params),
            Named::CdReader(it) => it.plan(params),
            Named::Voip(it) => it.plan(params),
            Named::Search(it) => it.plan(params),
            Named::Bsp(it) => it.plan(params),
            Named::MicroBatch(it) => it.plan(params),
            other => Plan::alone(other.application(params)),
        }
    }

    /// What it is measured by, beside its jobs; `None`: by those alone.
    #[must_use]
    pub fn metric(&self) -> Option<Metric> {
        Some(match self {
            Named::Periodic(_) | Named::Hackbench(_) | Named::ForkJoin(_) => return None,
            Named::Cyclictest(_) => Metric::Wakeups,
            Named::Startup(_) => Metric::Launches,
            Named::Video(it) => Metric::Film(it.film()),
            Named::Audio(it) => Metric::Sound(it.sound()),
            Named::Game(it) => Metric::Beats { period: it.period(), sound: it.sound.map(|sound| sound.sound()) },
            Named::Web(_) => Metric::Responses,
            Named::Bsp(it) => Metric::Rounds { alone: it.alone(), bytes: 0, flops: it.flops_of_all() },
            Named::Parsec(it) => Metric::Completion { alone: Some(it.alone()) },
            Named::MicroBatch(it) => Metric::Batches { interval: it.interval, records: it.records },
            Named::Build(it) => Metric::Completion { alone: it.alone() },
            Named::Stream(it) => {
                let bytes = it.bytes.saturating_mul(u64::from(it.threads));
                Metric::Rounds { alone: it.pass, bytes, flops: 0 }
            }
            Named::LoadPlayback(it) => Metric::Contention { asked_milli: it.mean_milli() },
            Named::WebServer(_) | Named::Search(_) => Metric::Requests,
            Named::Iperf(_) => Metric::Transfer { bytes: Iperf::BLOCK },
            Named::Dd(it) => Metric::Transfer { bytes: it.block },
            Named::Postmark(it) => Metric::Operations(it.operations()),
            Named::Filebench(it) => Metric::Operations(it.operations()),
            Named::CdReader(it) => Metric::Completion { alone: Some(it.alone()) },
            Named::Voip(it) => Metric::Calls(it.phone),
        })
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
    Application { tasks: tasks.collect(), groups: groups(name, application), ..shared(application) }
}

/// `application` as a part of that of somebody called `name`: all tasks have the name before their own.
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
