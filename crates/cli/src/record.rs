//! Recording of a run: a trace in a file, and the timeline of a window to draw.

use crate::failure::{Failure, usage};
use crate::output::Draft;
use crate::window::Window;
use anyhow::Context;
use sched::Instant;
use std::fs::File;
use std::path::Path;
use trace::{
    ChromeWriter, Event, Header, MachineHeader, MachineId, PerfettoWriter, Sink, TextWriter, Timeline, TimelineBuilder,
    WorldHeader, WorldSink,
};

/// The formats of a trace, by file extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Text,
    Chrome,
    Perfetto,
}

impl Form {
    /// Returns the format for the name of `file`.
    pub(crate) fn of(file: &Path) -> Result<Form, Failure> {
        match file.extension().and_then(|end| end.to_str()) {
            Some("txt") => Ok(Form::Text),
            Some("json") => Ok(Form::Chrome),
            Some("pftrace") => Ok(Form::Perfetto),
            _ => Err(usage(
                format!("`{}` does not name a format of traces", file.display()),
                "use a name that ends in .txt (text), .pftrace (Perfetto) or .json (chrome://tracing)",
            )),
        }
    }
}

/// A trace under construction.
pub(crate) struct TraceFile {
    draft: Draft,
    writer: Writer,
}

enum Writer {
    Text(TextWriter<File>),
    Chrome(Box<ChromeWriter<File>>),
    Perfetto(Box<PerfettoWriter<File>>),
}

/// The machine of a trace of one machine.
const ALONE: MachineId = MachineId(0);

impl TraceFile {
    pub(crate) fn create(path: &Path, header: &Header) -> Result<TraceFile, Failure> {
        let (form, draft, file) = begin(path)?;
        let writer = match form {
            Form::Text => Writer::Text(TextWriter::new(file, header)),
            Form::Chrome => Writer::Chrome(Box::new(ChromeWriter::new(file, header))),
            Form::Perfetto => {
                let alone = MachineHeader { name: "host".to_string(), header: header.clone(), host: None };
                let world = WorldHeader { machines: vec![alone] };
                Writer::Perfetto(Box::new(PerfettoWriter::new(file, &world)))
            }
        };
        Ok(TraceFile { draft, writer })
    }

    /// Completes the file without moving it to its target.
    pub(crate) fn finish(self) -> anyhow::Result<Draft> {
        let outcome = match self.writer {
            Writer::Text(writer) => writer.finish(),
            Writer::Chrome(writer) => writer.finish(),
            Writer::Perfetto(writer) => writer.finish(),
        };
        outcome.context("cannot write the trace")?;
        Ok(self.draft)
    }
}

impl Sink for TraceFile {
    fn record(&mut self, at: Instant, event: &Event) {
        match &mut self.writer {
            Writer::Text(writer) => writer.record(at, event),
            Writer::Chrome(writer) => writer.record(at, event),
            Writer::Perfetto(writer) => writer.record(ALONE, at, event),
        }
    }
}

/// Starts to write a trace to `path`, in the format for its extension.
pub(crate) fn begin(path: &Path) -> Result<(Form, Draft, File), Failure> {
    let form = Form::of(path)?;
    let mut draft = Draft::create(path)?;
    let file = draft.file().try_clone().context("cannot write the trace")?;
    Ok((form, draft, file))
}

/// Recorder of a timeline that stops at the end of a window, so that its memory does not grow with the length of the
/// run.
pub(crate) struct Watch {
    /// Builder of the timeline. It receives no events after the end of the window.
    builder: TimelineBuilder,
    to: Instant,
    over: bool,
}

impl Watch {
    pub(crate) fn new(header: &Header, window: Window) -> Watch {
        Watch { builder: TimelineBuilder::new(header), to: window.to, over: false }
    }

    /// Returns whether the run has reached the end of the window.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn finish(self) -> anyhow::Result<Timeline> {
        self.builder.finish().context("the run contradicts itself")
    }
}

impl Sink for Watch {
    fn record(&mut self, at: Instant, event: &Event) {
        if self.over {
            return;
        }
        if at >= self.to {
            self.over = true;
            self.builder.record(self.to, &Event::End);
        } else {
            self.builder.record(at, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{CpuId, Input, Nanos};

    #[test]
    fn the_trace_of_one_machine_is_written_in_the_form_that_its_name_asks_for() {
        let folder = tempfile::tempdir().expect("there is room");
        let header = Header { policy: "edf".to_string(), cpus: 1, seed: 0 };
        for (name, begin) in [("a.txt", &b"tactus-trace 1 policy"[..]), ("a.json", b"{\"display"), ("a.pftrace", b"\n")]
        {
            let path = folder.path().join(name);
            let Ok(mut file) = TraceFile::create(&path, &header) else { panic!("it can be written") };
            file.record(Instant::ZERO, &Event::Input(Input::Kicked { cpu: CpuId::new(0) }));
            file.record(Instant::ZERO + Nanos::ms(1), &Event::End);
            file.finish().and_then(Draft::keep).expect("it was written");
            let bytes = std::fs::read(&path).expect("it is there");
            assert!(bytes.starts_with(begin), "{name}: {bytes:?}");
            let names_its_tracks = name == "a.txt" || bytes.windows(5).any(|part| part == b"CPU 0");
            assert!(names_its_tracks, "{name}: {bytes:?}");
        }
        assert!(TraceFile::create(&folder.path().join("a.xml"), &header).is_err());
    }
}
