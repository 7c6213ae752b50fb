//! [`ChromeWriter`], [`WorldChromeWriter`]: the Chrome trace-event format (JSON), which ui.perfetto.dev and chrome://tracing open.
//!
//! Of one machine, two processes: `host`, with a track per CPU whose slices are named by entity; and `entities`, with a track per
//! entity that shows whether it was `running`, `waiting`, `held` or `blocked`. An arrow leads from every wake-up to the run it led
//! to. Releases, completions and missed deadlines are instants on the entity's track. The header is in `otherData`.
//!
//! Of a world, the same for each host, in processes named after it, and one process for each guest: first a track per vCPU,
//! which shows its task, and as `frozen` the time for which it was frozen; then a track per task, where that time is `stolen`. Below
//! each CPU of a machine with guests, a second track shows the task that ran there in a guest: `vm: task`.
//!
//! Slices are written when they end, so only current slices are in memory. On each track slices come in order of time. An instant
//! or an arrow comes after the slice that holds it, perhaps much later.
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

/// The process whose tracks are the CPUs. 0 is taken by the idle task in some readers.
const HOST: u32 = 1;
/// The process whose tracks are the entities.
const ENTITIES: u32 = 2;
/// The track of CPU 0; all track numbers differ from each other and from those of the processes.
const FIRST_CPU: u64 = 1_000;
/// The track of the first entity, above that of the last CPU.
const FIRST_ENTITY: u64 = 10_000;

/// Writes a trace as Chrome trace events. [`finish`](ChromeWriter::finish) completes the file.
#[derive(Debug)]
pub struct ChromeWriter<W: Write> {
    follower: Follower,
    tracks: Tracks,
    pen: Pen<W>,
}

impl<W: Write> ChromeWriter<W> {
    /// Writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &Header) -> ChromeWriter<W> {
        let follower = Follower::new(header);
        let mut pen = Pen::new(to, FIRST_ENTITY);
        let Header { policy, cpus, seed } = header;
        let policy = json(policy);
        // The seed is a text because some readers take numbers for floats.
        pen.begin(format_args!("\"policy\":{policy},\"cpus\":{cpus},\"seed\":\"{seed}\""));
        pen.process(HOST, "\"host\"", 0);
        pen.process(ENTITIES, "\"entities\"", 1);
        for cpu in 0..follower.cpus() {
            pen.track(HOST, FIRST_CPU + cpu as u64, &format!("\"CPU {cpu}\""), cpu as u64);
        }
        let tracks = Tracks::new(Places { cpus: HOST, first_cpu: FIRST_CPU, entities: ENTITIES });
        ChromeWriter { follower, tracks, pen }
    }

    /// Ends the current slices, completes the file, and returns the writer.
    ///
    /// # Errors
    /// The first error of the whole run: one of the writer's own, or `InvalidData` with an
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
