//! [`Kernel`]: the bridge in the kernel.

use crate::interface::{Batch, COMMANDS_MAX, Command, Ending, Event, Report, Settings};
use crate::scheduler::{Basis, Error, Scheduler, Set, ZERO, refused};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};
use sched::Instant;
use std::fmt;
use zerocopy::IntoBytes;

/// The programs, compiled by the build script.
static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bridge.bpf.o"));

/// The loaded bridge. It ends when this value is dropped or when the process ends, and all threads then return to the
/// kernel's fair class.
pub struct Kernel {
    /// Position of the program that applies commands.
    apply: usize,
    batches: MapHandle,
    scheduler: Scheduler,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Loads the bridge and begins. `processes` are the managed processes; none: all. `is_conserving`: the policy always lets a
    /// CPU run a thread that last ran there, if no other thread is runnable. Until the first batch, the bridge
    /// dispatches by itself.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub fn load(processes: &[u32], is_conserving: bool, basis: Basis) -> Result<Kernel, Error> {
        let settings = Settings {
            manages_all: u32::from(processes.is_empty()),
            own_pid: std::process::id(),
            is_conserving: u32::from(is_conserving),
        };
        let write = |set: Set<'_>| {
            set("settings", &ZERO, settings.as_bytes())?;
            processes.iter().try_for_each(|process| set("processes", process.as_bytes(), &1_u32.to_ne_bytes()))
        };
        let scheduler = Scheduler::load(PROGRAMS, "bridge", basis, |_| {}, write)?;
        Ok(Kernel { apply: scheduler.position("bridge_apply"), batches: scheduler.map("batches")?, scheduler })
    }

    /// Waits for events from `now`, the present time, until `end`.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait(&self, now: Instant, end: Instant) -> Result<(), Error> {
        self.scheduler.wait(now, end)
    }

    /// Adds the unread events to `to`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self, to: &mut Vec<Event>) -> Result<(), Error> {
        self.scheduler.read(to)
    }

    /// Returns why the bridge has ended; `None`: it has not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.scheduler.ending()
    }

    /// Applies commands, and confirms that the user side lives.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn apply(&self, commands: &[Command]) -> Result<Report, Error> {
        let mut report = Report::default();
        let mut batches = commands.chunks(COMMANDS_MAX);
        // Without commands, an empty batch is a sign of life.
        let mut next = Some(batches.next().unwrap_or_default());
        while let Some(commands) = next {
            next = batches.next();
            let batch = Batch::new(commands, next.is_some());
            let written = self.batches.update(&ZERO, batch.as_bytes(), MapFlags::ANY);
            written.map_err(refused("write commands"))?;
            let input = ProgramInput { context_in: Some(report.as_mut_bytes()), ..ProgramInput::default() };
            self.scheduler.program(self.apply).test_run(input).map_err(refused("apply commands"))?;
        }
        Ok(report)
    }
}
