//! [`ChromeWriter`], [`WorldChromeWriter`]: writers of the Chrome trace-event format (JSON) for ui.perfetto.dev and
//! chrome://tracing.
//!
//! The file of one machine has two processes. `host` has a track per CPU. Each slice of these tracks has the name of
//! the entity that ran or, in a guest, the name `frozen`. `entities` has a track per entity that shows the entity's
//! state: `running`, `waiting`, `held`, `blocked` or, in a guest, `stolen`. An arrow leads from every wake-up to the
//! run that follows. At the start of this run, the counter `latency of NAME` has the wake-up latency in nanoseconds.
//! Waits after a preemption are slices alone. Releases, completions and missed deadlines are instants on the entity's
//! track. The header is in `otherData`.
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

use crate::follow::Follower;
use crate::tracks::{FIRST_TRACK, Pen, Place, Places, Process, Track, Tracks, WorldTracks};
use crate::{Event, Header, MachineId, Sink, WorldHeader, WorldSink};
use pen::{JsonPen, json};
use sched::Instant;
use std::io::{self, Write};

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
    pen: JsonPen<W>,
}

impl<W: Write> ChromeWriter<W> {
    /// Creates a writer and writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &Header) -> ChromeWriter<W> {
        let follower = Follower::new(header);
        let mut pen = JsonPen::new(to, FIRST_ENTITY);
        let Header { policy, cpus, seed } = header;
        let policy = json(policy);
        // The seed is a string, because some readers convert numbers to floats.
        pen.begin_with(format_args!("\"policy\":{policy},\"cpus\":{cpus},\"seed\":\"{seed}\""));
        for (number, name, rank) in [(HOST, "host", 0), (ENTITIES, "entities", 1)] {
            pen.process(&Process { number, name, rank, parent: None, header: None });
        }
        for cpu in 0..follower.cpus() as u64 {
            let place = Place { process: HOST, track: FIRST_CPU + cpu };
            pen.track(&Track { place, name: &format!("CPU {cpu}"), rank: cpu, parent: None });
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
        if self.pen.has_failed() {
            return;
        }
        let moves_on = at > self.follower.now();
        let left = if moves_on { self.tracks.leaving() } else { Vec::new() };
        let (pen, tracks) = (&mut self.pen, &mut self.tracks);
        if let Err(error) = self.follower.observe(at, event, &mut |fact| tracks.write(pen, &fact)) {
            self.pen.fail(error);
        }
        self.tracks.forget(&left);
    }
}

/// Writes the trace of a world as Chrome trace events. [`finish`](WorldChromeWriter::finish) completes the file.
#[derive(Debug)]
pub struct WorldChromeWriter<W: Write>(WorldTracks<JsonPen<W>>);

impl<W: Write> WorldChromeWriter<W> {
    /// Creates a writer and writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &WorldHeader) -> WorldChromeWriter<W> {
        WorldChromeWriter(WorldTracks::new(JsonPen::new(to, FIRST_TRACK), header))
    }

    /// Ends the current slices, completes the file, and returns the inner writer.
    ///
    /// # Errors
    /// The first error of the whole run: an error of the inner writer, or `InvalidData` that contains an
    /// [`Inconsistent`](crate::Inconsistent).
    pub fn finish(self) -> io::Result<W> {
        self.0.finish().finish()
    }
}

impl<W: Write> WorldSink for WorldChromeWriter<W> {
    fn record(&mut self, id: MachineId, at: Instant, event: &Event) {
        self.0.record(id, at, event);
    }
}
