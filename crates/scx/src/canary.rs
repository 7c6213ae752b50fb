//! [`Canary`]: a scheduler with a fault (`bpf/canary.bpf.c`), for trials of what happens then.

use crate::interface::Ending;
use crate::scheduler::{Basis, Error, Scheduler, Set, ZERO, refused};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::fmt;
use zerocopy::{Immutable, IntoBytes};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/canary.bpf.o"));
const FAULTS: &str = ".data.canary";

/// The faults: `struct canary` of `interface.h`.
#[derive(Clone, Copy, Default, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct Faults {
    /// The thread that it forgets; 0: none.
    pub victim: i32,
    /// Whether it never kicks a CPU, and gives slices without end; 0: no.
    pub never_kicks: u32,
}

/// The loaded scheduler. It ends when this value is dropped.
pub struct Canary {
    faults: MapHandle,
    scheduler: Scheduler,
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canary").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl Canary {
    /// Loads the scheduler, without a look at the one that is loaded.
    ///
    /// # Errors
    /// The kernel refuses, because another scheduler is loaded or for another reason.
    pub fn load(faults: Faults) -> Result<Canary, Error> {
        let write = |set: Set<'_>| set(FAULTS, &ZERO, faults.as_bytes());
        let scheduler = Scheduler::load_unseen(PROGRAMS, "faulty", Basis::now(), |_| {}, write)?;
        Ok(Canary { faults: scheduler.map(FAULTS)?, scheduler })
    }

    /// Changes the faults.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn change(&self, faults: Faults) -> Result<(), Error> {
        self.faults.update(&ZERO, faults.as_bytes(), MapFlags::ANY).map_err(refused("write the faults"))
    }

    /// Returns why the scheduler has ended; `None`: it has not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.scheduler.ending()
    }
}
