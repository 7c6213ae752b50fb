//! [`ToFile`]: the file of `--record`.

use super::run::{Failure, Run};
use input::problem::{Problem, Problems};
use scx::recorder::Recorder;
use scx::recording::{Header, Record, Writer};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use sys::attributes::{self, Policy};

/// The best nice value.
const NICE_LEAST: i32 = -20;

/// A recording, while it is written.
pub(super) struct ToFile {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    unread: Vec<Record>,
}

impl ToFile {
    /// Creates the file.
    pub(super) fn create(path: &Path, policy: &str) -> Result<ToFile, Failure> {
        let cpus = Run::host().map_err(Problems::from)?.cpus;
        let begun = File::create(path).and_then(|file| Writer::begin(BufWriter::new(file), Header::new(policy, cpus)));
        let writer = begun.map_err(failed(path))?;
        Ok(ToFile { path: path.to_path_buf(), writer, unread: Vec::new() })
    }

    /// Lets this thread keep up with the records beside threads that always run: it competes at the best nice value.
    pub(super) fn hurry() -> Result<(), Failure> {
        let me = sys::thread::current();
        let before = attributes::get(me)?;
        if let Policy::Other { .. } = before.policy {
            attributes::apply(me, before.with_nice(NICE_LEAST))?;
        }
        Ok(())
    }

    /// Writes the unread records.
    pub(super) fn append(&mut self, recorder: &Recorder) -> Result<(), Failure> {
        recorder.read(&mut self.unread)?;
        for record in self.unread.drain(..) {
            self.writer.write(&record).map_err(failed(&self.path))?;
        }
        Ok(())
    }

    /// Ends the recording with the records so far, of which some are still on their way until `finish` has ended the scheduler.
    /// Returns their number.
    pub(super) fn end(mut self, recorder: &Recorder, finish: impl FnOnce()) -> Result<u64, Failure> {
        let total = recorder.count()?;
        finish();
        recorder.read(&mut self.unread)?;
        self.unread.retain(|record| record.number < total);
        for record in &self.unread {
            self.writer.write(record).map_err(failed(&self.path))?;
        }
        match self.writer.end(total).map_err(failed(&self.path))? {
            0 => Ok(total),
            lost => Err(Failure::Incomplete(lost)),
        }
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| {
        let problem = Problem::new(format!("{}: {error}", path.display()));
        Failure::Input(Problems::from(problem.help("use a path in a folder with free space that you may write to")))
    }
}
