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

/// Starts the guard of this process. It ends soon after this process.
pub(crate) fn start() -> Result<(), Failure> {
    let failed = |error| Failure::Io("start the guard", error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.arg("--guard").arg(std::process::id().to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().map(drop).map_err(failed)
}

/// Waits for the end of the agent, and restores the tasks that it has left.
pub(crate) fn guard(agent: u32) -> Result<(), Failure> {
    // A signal for the whole group would end the guard, too.
    process::leave_session()?;
    process::ignore_requests();
    if let Ok(process) = Process::open(agent) {
        let waiting = Waiting::new()?;
        waiting.add(&process, 0)?;
        waiting.next(Instant::NEVER)?;
    }
    clock::sleep(RELEASED);
    restore()
}

/// Restores the tasks that an agent has left, if no agent runs.
pub(crate) fn restore() -> Result<(), Failure> {
    restore_left();
    Ok(())
}
