//! [`RtApp`]: an unchanged file of [rt-app](https://github.com/scheduler-tools/rt-app), version 1.0, as an application
//! of the simulator.
//!
//! The conversion follows the manual of rt-app (doc/tutorial.txt) and, where the manual is unclear, its source code
//! (src/rt-app_parse_config.c, src/rt-app.c). `docs/scenarios.md` lists the properties without an effect in a
//! simulation, and the differences from rt-app.
//!
//! The conversion has three stages: `json` reads values, `file` reads threads and events, `program` creates tasks.
//! `locks`, `forks` and `waits` find threads that would wait or multiply forever.

mod asked;
mod conditions;
mod event;
mod file;
mod forks;
mod groups;
mod json;
mod locks;
mod object;
mod pace;
mod program;
mod waits;

#[cfg(test)]
pub(crate) use file::{SETTINGS, THREAD_KEYS, WITHOUT_EFFECT};

use input::files::{Files, Unreadable};
use input::problem::{Findings, Problem, Problems, quoted};
use sched::{Nanos, Params};
use sim::Application;

/// The application that a file of rt-app describes.
#[derive(Clone, Debug)]
pub struct RtApp {
    /// Threads of the application and their shared objects.
    pub application: Application,
    /// Maximum duration of the threads. `None`: the threads run until they end.
    pub duration: Option<Nanos>,
    /// Upper bound on the number of threads that exist at one time, including forked threads.
    pub threads: usize,
    /// Number of events of all initial threads together. The events of equal threads count once per thread.
    pub(crate) events: u64,
    /// Parameters that threads request at their start or later, each with the name of the thread.
    pub(crate) asked: Vec<(String, Params)>,
}

impl RtApp {
    /// Reads the file `name` from `files`.
    ///
    /// # Errors
    /// The file cannot be read, or the errors of [`from_bytes`](RtApp::from_bytes).
    pub fn read(name: &str, files: &dyn Files) -> Result<RtApp, Problems> {
        match files.read(name) {
            Ok(bytes) => RtApp::from_bytes(name, bytes),
            Err(Unreadable::NotAFile) => {
                let problem = Problem::new(format!("{} is no file", quoted(name)));
                Err(problem.help("use the path of a JSON file of rt-app").into())
            }
            Err(why) => Err(input::text::unreadable(name, &why).into()),
        }
    }

    /// Reads the contents of the file `name`.
    ///
    /// # Errors
    /// The errors in the file, each with its span and its remedy. A syntax error is reported alone. If keys or values
    /// are invalid, locks, forks and waits are not checked.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<RtApp, Problems> {
        let source = input::text::decode(name, bytes)?;
        let mut findings = Findings::new(&source);
        let document = json::parse(source.text()).map_err(|problem| problem.within(&source))?;
        let app = file::File::read(&document, &mut findings).and_then(|mut file| {
            if !findings.is_empty() {
                return None;
            }
            for thread in &mut file.threads {
                locks::check(thread, &mut findings);
            }
            let forks = forks::Forks::check(&file.threads, file.duration, &mut findings)?;
            waits::check(&file.threads, &forks, &mut findings);
            let (application, asked) = program::application(&file, &forks, &mut findings);
            let of = |thread: &file::Thread<'_>| thread.instances.value.saturating_mul(thread.events() as u64);
            let events = file.threads.iter().map(of).fold(0, u64::saturating_add);
            Some(RtApp { application, duration: file.duration, threads: forks.count, events, asked })
        });
        findings.finish()?;
        Ok(app.expect("a file without findings is complete"))
    }
}
