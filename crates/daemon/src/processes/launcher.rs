//! [`Launcher`]: starts commands and workers, which then wait at their gates.

use super::program::find;
use super::run_process::{RunProcess, Worker};
use super::work::Work;
use super::worker_report::JOBS_MAX;
use crate::Explanation;
use sched::Nanos;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use sys::launch as begin;

/// The standard output of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// The standard output of this process.
    Inherited,
    /// The standard error of this process, whose standard output has another use.
    ToStandardError,
    /// The result of the process ([`Outcome::output`](super::Outcome::output)).
    Captured,
}

/// Starts the processes of a run.
#[derive(Clone, Debug)]
pub struct Launcher {
    executable: PathBuf,
}

impl Launcher {
    /// Returns a launcher for `executable`, a program whose commands `work` and `launch` call [`work`](super::work())
    /// and [`launch`](super::launch()).
    #[must_use]
    pub fn of(executable: PathBuf) -> Launcher {
        Launcher { executable }
    }

    /// Starts the command `argv` under the name `name`. The command waits at its gate, and inherits standard input and
    /// standard error.
    ///
    /// # Errors
    /// The program does not exist, or there are too many processes. Nothing was started.
    pub fn command(&self, name: &str, argv: &[String], output: Output) -> Result<RunProcess, Explanation> {
        let path = std::env::var_os("PATH");
        find(argv.first().map_or("", String::as_str), path.as_deref())?;
        let (gate, handle) = io::pipe().map_err(|error| no_process(name, &error))?;
        let mut command = Command::new(&self.executable);
        let number = begin::inherit(&mut command, gate.into());
        command.args(["launch", "--gate", &number.to_string()]);
        command.arg("--").args(argv);
        match output {
            Output::Inherited => {}
            Output::ToStandardError => {
                let copy = io::stderr().as_fd().try_clone_to_owned().map_err(|error| no_process(name, &error))?;
                command.stdout(Stdio::from(copy));
            }
            Output::Captured => drop(command.stdout(Stdio::piped())),
        }
        let child = command.spawn().map_err(|error| no_process(name, &error))?;
        RunProcess::new(name, child, OwnedFd::from(handle), None)
    }

    /// Starts a worker that does `work` under the name `name` and waits at its gate. The worker reports every job
    /// within `length`, up to [`JOBS_MAX`] jobs. The worker ends with the calling thread.
    ///
    /// # Errors
    /// The period or work is zero, there are too many processes, or the worker is not ready within ten seconds.
    pub fn work(&self, name: &str, work: Work, length: Nanos) -> Result<RunProcess, Explanation> {
        let mut command = Command::new(&self.executable);
        command.arg("work");
        if let Work::Periodic(jobs) = work {
            if jobs.period.is_zero() || jobs.work.is_zero() {
                return Err(Explanation::new(
                    format!("the period or work of `{name}` is zero"),
                    "use a period and work above zero",
                ));
            }
            let records = (length.as_ns() / jobs.period.as_ns()).saturating_add(2).min(JOBS_MAX);
            let options = [("--period-ns", jobs.period), ("--work-ns", jobs.work), ("--phase-ns", jobs.phase)];
            command.args(options.into_iter().flat_map(|(option, time)| [option.to_string(), time.as_ns().to_string()]));
            command.args(["--records", &records.to_string()]);
        }
        let begun = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = begun.map_err(|error| no_process(name, &error))?;
        let handle = child.stdin.take().expect("it was asked to be a pipe");
        let output = child.stdout.take().expect("it was asked to be a pipe");
        let mut process = RunProcess::new(name, child, OwnedFd::from(handle), Some(Worker { output, work }))?;
        process.await_readiness()?;
        Ok(process)
    }
}

fn no_process(name: &str, error: &io::Error) -> Explanation {
    Explanation::new(
        format!("cannot start `{name}`: {error}"),
        "reduce the number of processes and open files, or raise the limits (ulimit -a)",
    )
}
