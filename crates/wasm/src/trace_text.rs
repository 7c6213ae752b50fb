//! [`TraceText`]: the trace of a run as text.

use sched::Instant;
use trace::{Event, MachineId, Sink, TextWriter, WorldHeader, WorldSink, WorldTextWriter};

/// Writes the trace of a run as text, as `tactus sim --trace` does.
#[derive(Debug)]
pub(crate) enum TraceText {
    /// The trace of the only machine.
    One(TextWriter<Vec<u8>>),
    /// The traces of several machines.
    World(WorldTextWriter<Vec<u8>>),
}

impl TraceText {
    pub(crate) fn new(header: &WorldHeader) -> TraceText {
        match header.machines.as_slice() {
            [alone] => TraceText::One(TextWriter::new(Vec::new(), &alone.header)),
            _ => TraceText::World(WorldTextWriter::new(Vec::new(), header)),
        }
    }

    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        let bytes = match self {
            TraceText::One(writer) => writer.finish(),
            TraceText::World(writer) => writer.finish(),
        };
        String::from_utf8(bytes.expect("memory can be written to")).expect("a trace is text")
    }
}

impl WorldSink for TraceText {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        match self {
            TraceText::One(writer) => writer.record(at, event),
            TraceText::World(writer) => writer.record(machine, at, event),
        }
    }
}
