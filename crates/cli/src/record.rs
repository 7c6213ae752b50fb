//! Recording a run: a trace in a file, and the timeline of a window to draw.

use crate::args::Output;
use crate::failure::{Failure, usage};
use crate::output::Draft;
use crate::picture;
use anyhow::Context;
use report::RunDescription;
use sched::{Instant, Nanos};
use std::fs::File;
use std::path::Path;
use trace::{ChromeWriter, Event, Header, Sink, TextWriter, Timeline, TimelineBuilder};

/// The formats of a trace, by file extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Text,
    Chrome,
}

impl Form {
    /// The format for the name of `file`.
    pub(crate) fn of(file: &Path) -> Result<Form, Failure> {
        match file.extension().and_then(|end| end.to_str()) {
            Some("txt") => Ok(Form::Text),
            Some("json") => Ok(Form::Chrome),
            _ => Err(usage(
                format!("`{}` says no form for the trace", file.display()),
                "use a name that ends in .txt (text) or .json (Perfetto, chrome://tracing)",
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
}

impl TraceFile {
    pub(crate) fn create(path: &Path, header: &Header) -> Result<TraceFile, Failure> {
        let (form, draft, file) = begin(path)?;
        let writer = match form {
            Form::Text => Writer::Text(TextWriter::new(file, header)),
            Form::Chrome => Writer::Chrome(Box::new(ChromeWriter::new(file, header))),
        };
        Ok(TraceFile { draft, writer })
    }

    /// Completes the file; it is not in place yet.
    pub(crate) fn finish(self) -> anyhow::Result<Draft> {
        let outcome = match self.writer {
            Writer::Text(writer) => writer.finish(),
            Writer::Chrome(writer) => writer.finish(),
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
        }
    }
}

/// Starts to write a trace to `path`, in the format for its name.
pub(crate) fn begin(path: &Path) -> Result<(Form, Draft, File), Failure> {
    let form = Form::of(path)?;
    let mut draft = Draft::create(path)?;
    let file = draft.file().try_clone().context("cannot write the trace")?;
    Ok((form, draft, file))
}

/// A window of time to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

impl Window {
    /// The requested window of `run`, or the most informative one for a picture of `width` characters.
    pub(crate) fn asked(run: &RunDescription, args: &Output, width: u16) -> Result<Window, Failure> {
        let end = Instant::ZERO + run.length;
        let moment = |text: &Option<String>| match text {
            Some(text) => input::duration::moment(text).map(|time| Some(Instant::ZERO + time)),
            None => Ok(None),
        };
        let (from, to) = (moment(&args.gantt_from)?, moment(&args.gantt_to)?);
        let names = run.entities.iter().map(|entity| entity.name.as_str());
        let telling = Window::telling(run, picture::cells(names, width) as u64);
        let from = from.unwrap_or(telling.from);
        // Moving the start alone keeps the length.
        let to = to.unwrap_or(from.saturating_add(telling.to.since(telling.from))).min(end);
        if from >= to {
            let reason = format!("the picture from {from} to {to} shows nothing");
            let right = format!("use --gantt-from before --gantt-to, both from 0s to {end}");
            return Err(usage(reason, &right));
        }
        Ok(Window { from, to })
    }

    /// The most informative window of `run` for `cells` columns: from the start to at least ten of the shortest periods after
    /// the last arrival, with columns of a round length, so that slices and periods fill whole columns.
    pub(crate) fn telling(run: &RunDescription, cells: u64) -> Window {
        let periods = run.entities.iter().flat_map(|entity| {
            let promised = entity.params.reservation.map(|reservation| reservation.period);
            promised.into_iter().chain(entity.job_period)
        });
        let shortest = periods.min().unwrap_or(Nanos::ms(30));
        let last = run.entities.iter().map(|entity| entity.arrival).max().unwrap_or(Instant::ZERO);
        let least = last.saturating_add(shortest.saturating_mul(10)).as_ns().min(run.length.as_ns());
        let to = Instant::ZERO.saturating_add(round(least.div_ceil(cells.max(1))).saturating_mul(cells));
        Window { from: Instant::ZERO, to: to.min(Instant::ZERO + run.length) }
    }
}

/// The least length from `ns` up that is 1, 2 or 5 times a power of ten.
fn round(ns: u64) -> Nanos {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let steps = powers.flat_map(|power| [1, 2, 5].map(|times| power.saturating_mul(times)));
    Nanos::ns(steps.into_iter().find(|&step| step >= ns).unwrap_or(ns))
}

/// Records up to the end of a window only, so that a long run takes no more memory.
pub(crate) struct Watch {
    /// `None` once the window is over.
    builder: TimelineBuilder,
    to: Instant,
    over: bool,
}

impl Watch {
    pub(crate) fn new(header: &Header, window: Window) -> Watch {
        Watch { builder: TimelineBuilder::new(header), to: window.to, over: false }
    }

    /// Whether the window is over.
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
