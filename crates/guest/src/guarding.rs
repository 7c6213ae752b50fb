//! The guard of an agent that raises tasks: a process that restores them when the agent is killed.

use crate::failure::Failure;
use crate::prioritised::restore_left;
use sched::{Instant, Nanos};
use std::process::{Command, Stdio};
use sys::clock;
use sys::event::Waiting;
use sys::process::{self, Process};

/// Time in which the kernel releases the lock of an agent that has ended.
const RELEASED: Nanos = Nanos::ms(10);

/// Starts the guard of this process, which ends soon after this process.
pub(crate) fn start() -> Result<(), Failure> {
    let failed = |error| Failure::Io("start the guard", error);
    // The file may have been replaced by an upgrade.
    let mut command = Command::new("/proc/self/exe");
    command.arg("--guard").arg(std::process::id().to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().map(drop).map_err(failed)
}

/// Waits for the end of the agent, and restores the tasks that it has left.
pub(crate) fn guard(agent: u32) -> Result<(), Failure> {
    // A signal for the whole group would end the guard, too.
    process::leave_session()?;
    process::ignore_requests();
    match Process::open(agent) {
        Ok(process) => {
            let waiting = Waiting::new()?;
            waiting.add(&process, 0)?;
            waiting.next(Instant::NEVER)?;
        }
        Err(sys::Error::Gone(_)) => {}
        Err(error) => return Err(error.into()),
    }
    clock::sleep(RELEASED);
    // The next agent may have restored them already.
    restore_left();
    Ok(())
}

/// Restores the tasks that an agent has left, if no agent runs.
pub(crate) fn restore() -> Result<(), Failure> {
    if restore_left() {
        return Ok(());
    }
    Err(Failure::Refused("another agent runs, and restores its tasks itself".to_string(), "end it first"))
}
