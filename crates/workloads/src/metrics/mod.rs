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
mod gauge;
mod grade;
mod launches;
mod operations;
mod picture;
mod reading;
pub(crate) mod requests;
mod responses;
mod rounds;
mod sound;
mod transfer;
pub mod voip;
mod wakeups;

pub use follow::{FlowNames, Metrics};
pub use grade::Grade;
pub use operations::Operations;
pub use picture::Film;
pub use reading::{Named, Reading};
pub use sound::Sound;

use gauge::Gauge;
use sched::Nanos;

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

#[cfg(test)]
mod tests;
