//! [`PerfettoWriter`]: writer of Perfetto's native format (protocol buffers) for ui.perfetto.dev and trace_processor.
//!
//! A machine is a track with its name; its description has the policy, the number of CPUs and the seed. Below it are
//! these tracks:
//!
//! - a track per CPU. Its slices have the name of the entity that ran or, in a guest, the name `frozen`. If the machine
//!   has guests, a track below each CPU shows the tasks of guests that ran on this CPU: `vm: task`.
//! - a track per entity. Its slices are the states of the entity: `running`, `waiting`, `held`, `blocked` or, in a
//!   guest, `stolen`. Releases, completions, missed deadlines and wake-ups that led to a run are instants. The
//!   entities of a host are below the track `host: entities`.
//! - a track per guest, below the track of its host: a VM with its vCPUs and its tasks.
//!
//! A flow leads from each wake-up to the first run that follows, on the track of a CPU.
//!
//! Below the track of an entity are its counters. A counter has the last value until its next value.
//!
//! | counter | value | unit | new value |
//! |---|---|---|---|
//! | `latency` | wake-up latency | ns | at the first run after each wake-up |
//! | `remaining` | unused part of the slice of a reservation | ns | after a settle that changed the value |
//! | `credit` | balance of the policy | unit of the policy | after a settle that changed the value |
//!
//! Waits that do not begin with a wake-up have slices, but no counter. `remaining` and `credit` are the policy's own
//! values, as of the last charge: the [`Account`] of the entity. The simulator reports accounts. A live
//! run has only the counter `latency`.
//!
//! Times are nanoseconds since the start of the run. A slice is written when the slice ends, so readers must sort by
//! time; events of one track at one instant are in order. The packets of a file are independent of each other.

mod messages;
mod pen;
#[cfg(test)]
mod tests;

use crate::tracks::WorldTracks;
use crate::{Account, Event, MachineId, WorldHeader, WorldSink};
use pen::ProtobufPen;
use sched::{EntityId, Instant};
use std::io::{self, Write};

/// Writes the trace of a world in Perfetto's native format. [`finish`](PerfettoWriter::finish) completes the file.
#[derive(Debug)]
pub struct PerfettoWriter<W: Write>(WorldTracks<ProtobufPen<W>>);

impl<W: Write> PerfettoWriter<W> {
    /// Creates a writer and writes the names of the tracks. `to` need not be buffered.
    pub fn new(to: W, header: &WorldHeader) -> PerfettoWriter<W> {
        PerfettoWriter(WorldTracks::new(ProtobufPen::new(to), header))
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

impl<W: Write> WorldSink for PerfettoWriter<W> {
    fn record(&mut self, id: MachineId, at: Instant, event: &Event) {
        self.0.record(id, at, event);
    }

    fn reads_accounts(&self) -> bool {
        true
    }

    fn account(&mut self, id: MachineId, at: Instant, entity: EntityId, account: &Account) {
        self.0.account(id, at, entity, account);
    }
}
