//! [`ChromeWriter`], [`WorldChromeWriter`]: writers of the Chrome trace-event format (JSON) for ui.perfetto.dev and
//! chrome://tracing.
//!
//! The file of one machine has two processes. `host` has a track per CPU whose slices are named by entity. `entities`
//! has a track per entity that shows its state: `running`, `waiting`, `held` or `blocked`. An arrow leads from every
//! wake-up to its run. Releases, completions and missed deadlines are instants on the entity's track. The header is in
//! `otherData`.
//!
//! The file of a world has the same processes for each host, named after it, and one process for each guest. A guest
//! first has a track per vCPU, which shows its task, and `frozen` time. Then it has a track per task, where frozen time
//! is `stolen`. Below each CPU of a machine with guests, a second track shows the task that ran there in a guest: `vm:
//! task`.
//!
//! Slices are written when they end, so only current slices are in memory. On each track, slices are in order of time.
//! An instant or an arrow follows the slice that contains it, possibly much later.
//!
//! Times are microseconds with three decimals: exact to the nanosecond, up to 2^53 ns (104 days) in readers that use floats.

mod pen;
mod world;

use crate::follow::Follower;
use crate::output::Output;
use crate::{Event, Header, Sink};
use pen::{Pen, Places, Tracks, json};
use sched::Instant;
use std::io::{self, Write};

pub use world::WorldChromeWriter;

/// Process whose tracks are the CPUs. Some readers use 0 for the idle task.
const HOST: u32 = 1;
/// Process whose tracks are the entities.
const ENTITIES: u32 = 2;
/// Track of CPU 0. All track numbers differ from each other and from the numbers of the processes.
const FIRST_CPU: u64 = 1_000;
/// Track of the first entity, above the track of the last CPU.
const FIRST_ENTITY: u64 = 10_000;

/// Writes a trace as Chrome trace events. [`finish`](ChromeWriter::finish) completes the file.
#[derive(Debug)]
pub struct ChromeWriter<W: Write> {
    follower: Follower,
    tracks: Tracks,
    pen: Pen<W>,
}

impl<W: Write> ChromeWriter<W> {
    /// Creates a writer and writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &Header) -> ChromeWriter<W> {
        let follower = Follower::new(header);
        let mut pen = Pen::new(to, FIRST_ENTITY);
        let Header { policy, cpus, seed } = header;
        let policy = json(policy);
        // The seed is a text, because some readers treat numbers as floats.
        pen.begin(format_args!("\"policy\":{policy},\"cpus\":{cpus},\"seed\":\"{seed}\""));
        pen.process(HOST, "\"host\"", 0);
        pen.process(ENTITIES, "\"entities\"", 1);
        for cpu in 0..follower.cpus() {
            pen.track(HOST, FIRST_CPU + cpu as u64, &format!("\"CPU {cpu}\""), cpu as u64);
        }
        let tracks = Tracks::new(Places { cpus: HOST, first_cpu: FIRST_CPU, entities: ENTITIES });
        ChromeWriter { follower, tracks, pen }
    }

    /// Ends the current slices, completes the file, and returns the inner writer.
    ///
    /// # Errors
    /// The first error of the whole run: an error of the inner writer, or `InvalidData` with an
    /// [`Inconsistent`](crate::Inconsistent) inside.
    pub fn finish(mut self) -> io::Result<W> {
        let (pen, tracks) = (&mut self.pen, &mut self.tracks);
        self.follower.finish(&mut |fact| tracks.write(pen, &fact));
        self.pen.finish()
    }
}

impl<W: Write> Sink for ChromeWriter<W> {
    fn record(&mut self, at: Instant, event: &Event) {
        if self.pen.output.has_failed() {
            return;
        }
        let moves_on = at > self.follower.now();
        let left = if moves_on { self.tracks.leaving() } else { Vec::new() };
        let (pen, tracks) = (&mut self.pen, &mut self.tracks);
        if let Err(error) = self.follower.observe(at, event, &mut |fact| tracks.write(pen, &fact)) {
            fail(&mut self.pen.output, error);
        }
        self.tracks.forget(&left);
    }
}

fn fail<W: Write>(output: &mut Output<W>, error: crate::Inconsistent) {
    output.fail(io::Error::new(io::ErrorKind::InvalidData, error));
}
