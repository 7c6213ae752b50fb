//! `tactus-guest`: the agent of Tactus in a guest. It follows the trace of the guest's scheduler, decides which tasks are
//! interactive, and publishes this and their next timers to the host, before the tasks wake.
//!
//! ```text
//! tracepoints ──▶ Follower ──▶ detector ──▶ hints ──▶ port ──▶ host
//!                                  └──▶ nice values of interactive tasks
//! ```

mod conversation;
mod failure;
mod follower;
mod guarding;
mod interrupts;
mod options;
mod port;
mod printing;
mod prioritised;
mod tasks;

use clap::Parser;
use failure::Failure;
use options::{Options, Prioritise, Work};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Returns a socket that becomes readable at SIGINT and SIGTERM.
fn requests_to_end() -> Result<UnixStream, Failure> {
    let failed = |error| Failure::Io("wait for signals", error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let end = theirs.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, end).map_err(failed)?;
    }
    Ok(ours)
}

fn run(options: &Options) -> Result<(), Failure> {
    let work = options.work();
    if options.prioritise != Prioritise::None && matches!(work, Work::Print | Work::Talk) {
        guarding::start()?;
    }
    match work {
        Work::Restore => guarding::restore(),
        Work::Guard(agent) => guarding::guard(agent),
        Work::Print => printing::print(options, &requests_to_end()?),
        Work::Talk => conversation::talk(options, &requests_to_end()?),
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of --print has ended.
        Err(Failure::Io(_, error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
