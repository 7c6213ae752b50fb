//! The metrics of applications: an application may have a [`Metric`], and [`Metrics`], a [`Sink`](trace::Sink) of a
//! machine's events, measures the applications of the machine.
//!
//! The name of a task identifies its application: the task has the name of the application, or `name/role`. All metrics
//! are computed from reports of tasks, events of tasks, and packets. Reports are starts and ends of jobs, late wake-ups
//! and skipped timer expirations. Events are arrival, wake-up, block and departure. Metrics therefore do not depend on
//! policies or on the simulator.
//!
//! To add a metric, add a file here with a `Gauge`, a variant of [`Metric`] that creates the gauge, and a row in
//! `docs/report.md`.

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

/// The metric of an application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Metric {
    /// A film: shown and dropped frames, frames per second, duration, and its sound.
    Film(Film),
    /// Sound alone: the underruns of its buffer.
    Sound(Sound),
    /// Pictures at a fixed rate, as in a game: the regularity of the pictures, and the sound.
    Beats {
        /// Time from one picture to the next.
        period: Nanos,
        /// Sound of the application, if any.
        sound: Option<Sound>,
    },
    /// Answers to a user: the duration of each answer.
    Responses,
    /// Time from the arrival of the first task to the end of the last.
    Completion {
        /// Duration on an otherwise idle machine. `None`: unknown.
        alone: Option<Nanos>,
    },
    /// Rounds of a parallel program.
    Rounds {
        /// Duration of a round on an otherwise idle machine.
        alone: Nanos,
        /// Amount of data that a round moves in memory. Unit: bytes. Zero: bandwidth is not measured.
        bytes: u64,
        /// Floating-point operations of a round. Zero: operations are not counted.
        flops: u64,
    },
    /// Batches that are due at a fixed interval: the time from the due instant to the completion of each batch.
    Batches {
        /// Time from one batch to the next.
        interval: Nanos,
        /// Number of records per batch. Zero: records are not counted.
        records: u64,
    },
    /// Requests to a server: their number, and the duration of each.
    Requests,
    /// Transferred data, block by block.
    Transfer {
        /// Size of a block. Unit: bytes.
        bytes: u64,
    },
    /// Operations on files.
    Operations(Operations),
    /// The quality of telephone calls.
    Calls(voip::Phone),
    /// Load: the mean number of runnable tasks.
    Contention {
        /// Requested mean number of runnable tasks. Unit: thousandths.
        asked_milli: u64,
    },
    /// Delays from the expiration of timers until the waiting threads run.
    Wakeups,
    /// Start-up times of an application, launch by launch.
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

    /// Returns the name of the metric in a report.
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
