//! Traces in ftrace's text format. Each host and each guest has a separate file, because a kernel records only its own
//! tasks.

use crate::failure::{Failure, usage};
use crate::output::Draft;
use anyhow::Context;
use sched::Instant;
use std::fs::File;
use std::path::{Path, PathBuf};
use trace::{Event, FtraceWriter, MachineId, Sink, WorldHeader, WorldSink};

/// The files under construction, by machine.
pub(crate) struct FtraceFiles(Vec<(Draft, FtraceWriter<File>)>);

impl FtraceFiles {
    /// Creates the trace of the first host in `path`, and the traces of all other machines in the same directory.
    pub(crate) fn create(path: &Path, header: &WorldHeader) -> Result<FtraceFiles, Failure> {
        let mut files = Vec::with_capacity(header.machines.len());
        for (number, machine) in header.machines.iter().enumerate() {
            let path = if number > 0 { beside(path, &machine.name) } else { path.to_path_buf() };
            let mut draft = Draft::create(&path)?;
            let file = draft.file().try_clone().context("cannot write the trace")?;
            files.push((draft, FtraceWriter::new(file, &machine.header)));
        }
        Ok(FtraceFiles(files))
    }

    /// Completes the files without moving them to their targets.
    pub(crate) fn finish(self) -> anyhow::Result<Vec<Draft>> {
        let finish = |(draft, writer): (Draft, FtraceWriter<File>)| {
            writer.finish().context("cannot write the trace")?;
            Ok(draft)
        };
        self.0.into_iter().map(finish).collect()
    }
}

impl WorldSink for FtraceFiles {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        if let Some((_, writer)) = self.0.get_mut(machine.index()) {
            writer.record(at, event);
        }
    }
}

/// Checks whether `path` is a valid name for the files.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|end| end == "txt") {
        return Ok(());
    }
    let reason = format!("`{}` does not end in .txt", path.display());
    Err(usage(reason, "use a name that ends in .txt, as readers of ftrace's text require"))
}

/// Returns the path of a machine's file: `run.web.txt` for the machine `web` beside `run.txt`. Readers check the
/// extension.
fn beside(path: &Path, machine: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{machine}.txt"))
}
