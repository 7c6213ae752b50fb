//! Writes the trace of a run to a file, in the formats of `tactus sim --trace` and `--ftrace`. The run is repeated.

use crate::failure::wrong;
use crate::repeat::Finished;
use input::problem::Problems;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use run::{Observers, Progress, Run};
use std::fs::File;
use std::io;
use std::path::Path;
use tempfile::NamedTempFile;
use trace::{ChromeWriter, FtraceWriter, PerfettoWriter, TextWriter, WorldChromeWriter, WorldTextWriter};

/// The format of a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text with all events.
    Text,
    /// JSON for chrome://tracing and Perfetto.
    Chrome,
    /// Perfetto's native format.
    Perfetto,
    /// Context switches and wake-ups of the first host, as ftrace prints them.
    Ftrace,
}

impl Format {
    /// Returns the format for the extension of `path`, as in the command.
    pub(crate) fn of(py: Python<'_>, path: &Path) -> PyResult<Format> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("txt") => Ok(Format::Text),
            Some("json") => Ok(Format::Chrome),
            Some("pftrace") => Ok(Format::Perfetto),
            _ => {
                let reason = format!("`{}` does not name a format of traces", path.display());
                Err(wrong(
                    py,
                    reason,
                    "use a name that ends in .txt (text), .pftrace (Perfetto) or .json (chrome://tracing)",
                ))
            }
        }
    }
}

/// Repeats a run and writes its trace to `path`. The file appears complete or not at all.
pub(crate) fn write(py: Python<'_>, finished: &Finished, format: Format, path: &Path) -> PyResult<()> {
    let unwritten = |why: io::Error| PyOSError::new_err(format!("{}: {why}", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let draft = NamedTempFile::new_in(folder).map_err(unwritten)?;
    let file = draft.reopen().map_err(unwritten)?;
    finished.repeat(py, |run, goes_on| record(run, format, file, goes_on))?.map_err(unwritten)?;
    // A temporary file is readable by its owner alone.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    draft.as_file().set_permissions(mode).map_err(unwritten)?;
    draft.persist(path).map(drop).map_err(|why| unwritten(why.error))
}

fn record(
    run: &Run,
    format: Format,
    file: File,
    goes_on: &mut dyn FnMut(Progress) -> bool,
) -> Result<io::Result<()>, Problems> {
    let header = run.header()?;
    let first = &header.machines[0].header;
    let is_alone = header.machines.len() == 1;
    Ok(match format {
        Format::Ftrace => {
            let mut writer = FtraceWriter::new(file, first);
            run.play_while(Observers::none().host(&mut writer), goes_on)?;
            writer.finish().map(drop)
        }
        Format::Text if is_alone => {
            let mut writer = TextWriter::new(file, first);
            run.play_while(Observers::none().host(&mut writer), goes_on)?;
            writer.finish().map(drop)
        }
        Format::Text => {
            let mut writer = WorldTextWriter::new(file, &header);
            run.play_while(Observers::none().world(&mut writer), goes_on)?;
            writer.finish().map(drop)
        }
        Format::Chrome if is_alone => {
            let mut writer = ChromeWriter::new(file, first);
            run.play_while(Observers::none().host(&mut writer), goes_on)?;
            writer.finish().map(drop)
        }
        Format::Chrome => {
            let mut writer = WorldChromeWriter::new(file, &header);
            run.play_while(Observers::none().world(&mut writer), goes_on)?;
            writer.finish().map(drop)
        }
        Format::Perfetto => {
            let mut writer = PerfettoWriter::new(file, &header);
            run.play_while(Observers::none().world(&mut writer), goes_on)?;
            writer.finish().map(drop)
        }
    })
}
