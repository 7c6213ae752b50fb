//! The tracks of a timeline viewer: which tracks there are, and which slices, instants, arrows and counters they have.
//! A [`Pen`] writes them in the format of a file. All formats have the same contents, because the contents follow from
//! the facts in [`machine`] and [`world`] alone.

mod machine;
mod world;

use crate::span::Span;
use crate::{Header, Inconsistent, WorldHeader};
use sched::Instant;
use std::fmt::Display;

pub(crate) use machine::{Places, Tracks};
pub(crate) use world::{FIRST_TRACK, WorldTracks};

/// A writer of tracks in one format.
pub(crate) trait Pen {
    /// Writes the part of the file of a world that precedes everything else.
    fn begin(&mut self, header: &WorldHeader);

    /// Writes a process, a set of tracks.
    fn process(&mut self, process: &Process<'_>);

    /// Writes a track.
    fn track(&mut self, track: &Track<'_>);

    /// Returns a new track number.
    fn next_track(&mut self) -> u64;

    /// Writes a slice. On each track, slices are in order of time and do not overlap.
    fn slice(&mut self, place: Place, slice: &Slice<'_>);

    /// Writes an instant.
    fn instant(&mut self, place: Place, name: &str, at: Instant, args: Args<'_>);

    /// Writes a counter of the track `of`, whose name is `owner`. Returns the number of the track of its values.
    fn counter(&mut self, of: Place, owner: &str, counter: Counter) -> u64;

    /// Writes a value of a counter. `place` has the number that [`counter`](Pen::counter) returned.
    fn count(&mut self, place: Place, owner: &str, counter: Counter, at: Instant, value: i64);

    /// Stores an error, unless the pen already has an error.
    fn fail(&mut self, error: Inconsistent);

    /// Returns whether the pen has an error. It then writes nothing more.
    fn has_failed(&self) -> bool;
}

/// The numbers of a track and its process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) process: u32,
    pub(crate) track: u64,
}

/// A set of tracks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process<'a> {
    pub(crate) number: u32,
    pub(crate) name: &'a str,
    /// Position among the processes.
    pub(crate) rank: usize,
    /// Number of the process above: for a guest, the process of its host.
    pub(crate) parent: Option<u32>,
    /// Header of the machine, for the process with the CPUs of this machine.
    pub(crate) header: Option<&'a Header>,
}

/// A track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a> {
    pub(crate) place: Place,
    pub(crate) name: &'a str,
    /// Position among the tracks of the process.
    pub(crate) rank: u64,
    /// Number of the track above. `None`: the track is directly in its process.
    pub(crate) parent: Option<u64>,
}

/// A slice.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a> {
    pub(crate) name: &'a str,
    pub(crate) category: &'static str,
    /// Name of a colour of chrome://tracing.
    pub(crate) colour: Option<&'static str>,
    pub(crate) span: Span,
    pub(crate) args: Args<'a>,
    /// Track and instant of the wake-up from which an arrow leads to the start of this slice.
    pub(crate) woken: Option<(Place, Instant)>,
}

/// Names and values of the details of a slice or instant.
pub(crate) type Args<'a> = &'a [(&'static str, Arg<'a>)];

/// The value of a detail.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    Number(u64),
    Truth(bool),
    /// Text without quotes, backslashes and control characters.
    Text(&'a dyn Display),
}

/// A number of an entity that changes over time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Counter {
    /// Wake-up latency, at the start of each first run after a wake-up, in nanoseconds.
    Latency,
    /// Unused part of the slice of a reservation, in nanoseconds.
    Remaining,
    /// Balance of the policy, in the unit of the policy.
    Credit,
}

impl Counter {
    /// Returns the name of the counter.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Counter::Latency => "latency",
            Counter::Remaining => "remaining",
            Counter::Credit => "credit",
        }
    }

    /// Returns whether the values are nanoseconds.
    pub(crate) const fn is_time(self) -> bool {
        matches!(self, Counter::Latency | Counter::Remaining)
    }
}
