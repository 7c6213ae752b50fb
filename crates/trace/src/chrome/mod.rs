//! [`ChromeWriter`], [`WorldChromeWriter`]: writers of the Chrome trace-event format (JSON) for ui.perfetto.dev and
//! chrome://tracing.
//!
//! The file of one machine has two processes. `host` has a track per CPU. Each slice of these tracks has the name of
//! the entity that ran or, in a guest, the name `frozen`. `entities` has a track per entity that shows the entity's
//! state: `running`, `waiting`, `held`, `blocked` or, in a guest, `stolen`. An arrow leads from every wake-up to the
//! run that follows. Releases, completions and missed deadlines are instants on the entity's track. The header is in
//! `otherData`.
//!
//! The file of a world has these two processes for each host, named after the host, and one process for each guest. A
//! guest has a track per vCPU, which shows tasks and `frozen` time, followed by a track per task, which shows frozen
//! time as `stolen`. Below each CPU of a machine with guests, a second track shows the guests' tasks that ran on this
//! CPU: `vm: task`.
//!
//! A slice is written when the slice ends, so only unfinished slices are in memory. On each track, slices are in order
//! of time. In the file, the slices at both ends of an arrow precede the arrow, with any number of other events in
//! between. An instant may precede or follow the slice that contains it.
//!
//! Times are microseconds with three decimals, exact to the nanosecond. In readers that use 64-bit floats, times are
//! exact up to 2^43 µs (101 days).

mod pen;
mod world;

use crate::follow::Follower;
use crate::output::Output;
use crate::{Event, Header, Sink};
use pen::{Pen, Places, Tracks, json};
use sched::Instant;
use std::io::{self, Write};

pub use world::WorldChromeWriter;

/// Number of the process whose tracks are the CPUs. Some readers use 0 for the idle task.
const HOST: u32 = 1;
/// Number of the process whose tracks are the entities.
const ENTITIES: u32 = 2;
/// Number of CPU 0's track. All track numbers differ from each other and from the numbers of the processes.
const FIRST_CPU: u64 = 1_000;
/// Number of the first entity's track, above the track number of the last CPU.
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
        // The seed is a string, because some readers convert numbers to floats.
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
    /// The first error of the whole run: an error of the inner writer, or `InvalidData` that contains an
    /// [`Inconsistent`](crate::Inconsistent).
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
