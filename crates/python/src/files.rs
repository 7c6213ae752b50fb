//! Writes the trace of a run to a file, in the formats of `tactus sim --trace` and `--ftrace`. The run is repeated.

use crate::failure::{input_error, internal_error, without_panic, wrong};
use input::problem::Problems;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use run::{Observers, Run};
use std::fs::File;
use std::io;
use std::path::Path;
use trace::{ChromeWriter, FtraceWriter, TextWriter, WorldChromeWriter, WorldTextWriter};

/// The format of a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text with all events.
    Text,
    /// JSON for Perfetto.
    Chrome,
    /// Context switches and wake-ups of the first host, as ftrace prints them.
    Ftrace,
}

impl Format {
    /// Returns the format for the extension of `path`, as in the command.
    pub(crate) fn of(py: Python<'_>, path: &Path) -> PyResult<Format> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("txt") => Ok(Format::Text),
            Some("json") => Ok(Format::Chrome),
            _ => {
                let reason = format!("`{}` does not name a format of traces", path.display());
                Err(wrong(py, reason, "use a name that ends in .txt (text) or .json (Perfetto)"))
            }
        }
    }
}

/// Repeats `run` and writes its trace to `path`.
pub(crate) fn write(py: Python<'_>, run: &Run, format: Format, path: &Path, replay: &str) -> PyResult<()> {
    let unwritten = |why: io::Error| PyOSError::new_err(format!("{}: {why}", path.display()));
    let file = File::create(path).map_err(unwritten)?;
    match py.detach(|| without_panic(|| record(run, format, file))) {
        Err(message) => Err(internal_error(py, &message, replay)),
        Ok(Err(why)) => Err(input_error(py, &why)),
        Ok(Ok(written)) => written.map_err(unwritten),
    }
}

fn record(run: &Run, format: Format, file: File) -> Result<io::Result<()>, Problems> {
    let header = run.header()?;
    let first = &header.machines[0].header;
    let is_alone = header.machines.len() == 1;
    Ok(match format {
        Format::Ftrace => {
            let mut writer = FtraceWriter::new(file, first);
            run.play(Observers::none().host(&mut writer))?;
            writer.finish().map(drop)
        }
        Format::Text if is_alone => {
            let mut writer = TextWriter::new(file, first);
            run.play(Observers::none().host(&mut writer))?;
            writer.finish().map(drop)
        }
        Format::Text => {
            let mut writer = WorldTextWriter::new(file, &header);
            run.play(Observers::none().world(&mut writer))?;
            writer.finish().map(drop)
        }
        Format::Chrome if is_alone => {
            let mut writer = ChromeWriter::new(file, first);
            run.play(Observers::none().host(&mut writer))?;
            writer.finish().map(drop)
        }
        Format::Chrome => {
            let mut writer = WorldChromeWriter::new(file, &header);
            run.play(Observers::none().world(&mut writer))?;
            writer.finish().map(drop)
        }
    })
}
