//! What applications are judged by: each has a [`Metric`] of its own, and [`Metrics`] measures it, as a [`Sink`](trace::Sink) of the
//! machine on which it runs.
//!
//! An application's tasks are known by their names: its own, or `name/role`. What they tell of themselves (jobs that begin and end,
//! beats left out) and what happens to them (they come, wake, block and go) is enough for all of them, so that a metric knows
//! nothing of policies or of the simulator.
//!
//! To add one: a file here with a `Gauge`, a variant of [`Metric`] that makes it, and a row in `docs/report.md`.

mod batches;
mod beats;
mod calls;
mod completion;
mod contention;
mod follow;
mod grade;
mod launches;
mod operations;
mod picture;
pub(crate) mod requests;
mod responses;
mod rounds;
mod sound;
mod transfer;
pub mod voip;
mod wakeups;

pub use follow::{FlowNames, Metrics};
pub use grade::Grade;
pub use picture::Film;
pub use sound::Sound;

use sched::{Instant, Nanos};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt::Debug;

/// What an application is measured by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Metric {
    /// A film: frames shown and dropped, frames per second, length; and its sound.
    Film(Film),
    /// Sound alone: how often the buffer ran empty.
    Sound(Sound),
    /// A picture at every beat, as a game has: how regularly they come; and its sound.
    Beats {
        /// From one to the next.
        period: Nanos,
        /// The sound, if there is some.
        sound: Option<Sound>,
    },
    /// Answers to a user: how long each takes.
    Responses,
    /// From the coming of the first task to the end of the last.
    Completion {
        /// The same on a machine that has nothing else to do; `None`: unknown.
        alone: Option<Nanos>,
    },
    /// Rounds of a parallel program.
    Rounds {
        /// What a round takes on a machine that has nothing else to do.
        alone: Nanos,
        /// How much memory it moves in one; zero: it is not about memory.
        bytes: u64,
        /// Its floating-point operations in one; zero: they are not counted.
        flops: u64,
    },
    /// Batches that are due at every beat: how long after it each is done.
    Batches {
        /// From one to the next.
        interval: Nanos,
        /// How many records each has; zero: they are not counted.
        records: u64,
    },
    /// Requests to a server: how many, and how long each takes.
    Requests,
    /// What is transferred, block by block.
    Transfer {
        /// Of each block.
        bytes: u64,
    },
    /// What is done with files.
    Operations(Operations),
    /// Telephone calls: how they sound.
    Calls(voip::Phone),
    /// Load: how many tasks are runnable in the mean.
    Contention {
        /// How many there should be. Unit: thousandths.
        asked_milli: u64,
    },
    /// How late threads come to run after their timers.
    Wakeups,
    /// How long an application takes to start, launch by launch.
    Launches,
}

/// How the jobs of a program that works on files are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operations {
    /// Whether an operation is called a transaction, which has several and no duration of its own.
    pub is_transactions: bool,
    /// So many jobs …. Range: 1 ….
    pub jobs: u64,
    /// … are so many operations. Range: 1 ….
    pub operations: u64,
    /// All there are; `None`: without end.
    pub most: Option<u64>,
    /// What they read. Unit: bytes.
    pub read: u64,
    /// What they write. Unit: bytes.
    pub written: u64,
}

impl Metric {
    fn gauge(self) -> Box<dyn Gauge> {
        match self {
            Metric::Film(film) => Box::new(picture::Picture::new(film)),
            Metric::Sound(sound) => Box::new(sound::Buffer::new(sound)),
            Metric::Beats { period, sound } => Box::new(beats::Beats::new(period, sound)),
            Metric::Responses => Box::<responses::Responses>::default(),
            Metric::Completion { alone } => Box::new(completion::Completion::new(alone)),
            Metric::Rounds { alone, bytes, flops } => Box::new(rounds::Rounds::new(alone, bytes, flops)),
            Metric::Batches { interval, records } => Box::new(batches::Batches::new(interval, records)),
            Metric::Requests => Box::<requests::Requests>::default(),
            Metric::Transfer { bytes } => Box::new(transfer::Transfer::new(bytes)),
            Metric::Operations(operations) => Box::new(operations::Counted::new(operations)),
            Metric::Calls(phone) => Box::new(calls::Calls::new(phone)),
            Metric::Contention { asked_milli } => Box::new(contention::Contention::new(asked_milli)),
            Metric::Wakeups => Box::<wakeups::Wakeups>::default(),
            Metric::Launches => Box::<launches::Launches>::default(),
        }
    }

    /// What it is called in a report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Metric::Film(_) => "film",
            Metric::Sound(_) => "sound",
            Metric::Beats { .. } => "beats",
            Metric::Responses => "responses",
            Metric::Completion { .. } => "completion",
            Metric::Rounds { bytes: 0, .. } => "rounds",
            Metric::Rounds { .. } => "bandwidth",
            Metric::Batches { .. } => "batches",
            Metric::Requests => "requests",
            Metric::Transfer { .. } => "transfer",
            Metric::Operations(Operations { is_transactions: true, .. }) => "transactions",
            Metric::Operations(_) => "operations",
            Metric::Calls(_) => "calls",
            Metric::Contention { .. } => "contention",
            Metric::Wakeups => "wakeups",
            Metric::Launches => "launches",
        }
    }
}

/// What a task of an application does, or what happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fact {
    /// It is there.
    Came,
    /// It is gone.
    Left,
    /// It could run now.
    Awake,
    /// It waits for something else than a CPU.
    Asleep,
    /// A job of it begins.
    Begins,
    /// Its job is done.
    Done,
    /// It runs, so long after the time to which it slept.
    Late(Nanos),
    /// A packet has come for it, over this link of its application.
    Arrived {
        /// Which.
        link: u32,
        /// How long it was on its way.
        took: Nanos,
    },
    /// A packet for it was dropped.
    Lost {
        /// Of which link.
        link: u32,
    },
    /// It has left out so many beats.
    LeftOut(u64),
}

/// Measures one application.
trait Gauge: Debug {
    /// Something happened to its task `role`: what comes after `/` in the task's name; empty for a task that has the name alone.
    fn note(&mut self, at: Instant, role: &str, fact: Fact);

    /// Counting begins at `at`: earlier events no longer change any number. A gauge whose tasks are not there has nothing to forget.
    fn begin(&mut self, at: Instant);

    /// What is known at the end of the run.
    fn read(&mut self, end: Instant) -> Reading;
}

/// What a metric says: numbers with names, in the order in which people want to see them.
///
/// A name ends in its unit: `_ns`, `_ppm` (millionths), `_milli` (thousandths); others are counts, and `grade` is a [`Grade`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reading {
    /// The numbers.
    pub values: Named<u64>,
    /// The same over time: a number for each second since the application came, the last one begun included.
    pub series: Named<Vec<u64>>,
    /// How often each class of a value occurred, in ascending order; empty classes are left out.
    pub histograms: Named<Vec<(u64, u64)>>,
}

impl Reading {
    /// The number called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.0.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    fn add(&mut self, name: &'static str, value: u64) {
        self.values.0.push((name, value));
    }

    fn time(&mut self, name: &'static str, time: Nanos) {
        self.add(name, time.as_ns());
    }

    /// All of another reading behind this one.
    fn extend(&mut self, other: Reading) {
        self.values.0.extend(other.values.0);
        self.series.0.extend(other.series.0);
        self.histograms.0.extend(other.histograms.0);
    }
}

/// Things with names, in order. JSON: an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named<T>(pub Vec<(&'static str, T)>);

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named(Vec::new())
    }
}

impl<T> Named<T> {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// `part` of `whole` in parts of `unit`, rounded down; 0 of nothing. Larger than all numbers: the largest.
fn ratio(part: u64, unit: u64, whole: u64) -> u64 {
    let parts = (u128::from(part) * u128::from(unit)).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// How many per second, in thousandths, `count` in `time` are.
fn per_second(count: u64, time: Nanos) -> u64 {
    // Rounded: a frame time is a whole number of nanoseconds, and 24 of 41,666,667 ns are 24 in a second.
    let half = ratio(count, 2_000_000_000_000, time.as_ns());
    half.div_ceil(2)
}

#[cfg(test)]
mod tests;
