//! Detection of stolen CPU time: a hypervisor may take a CPU away without reporting steal time.
//!
//! A thread with the highest priority on the CPU sleeps from one instant to the next. If this thread wakes late, the
//! CPU was absent for at least the lateness, and no scheduler could have kept a promise.

use crate::cpu;
use sched::{CpuSet, Instant, Nanos};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes};
use sys::{Result, affinity, clock, thread};

/// Interval between the wake-ups of the witness.
const STEP: Nanos = Nanos::us(500);
/// Minimum lateness that counts as an absent CPU.
const LATE: Nanos = Nanos::us(200);
/// Priority of the witness, above that of the agents.
const PRIORITY: u32 = 99;

/// Watches one CPU.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// Intervals in which the CPU was absent.
    gaps: Mutex<Vec<(Instant, Instant)>>,
    over: AtomicBool,
}

impl Witness {
    /// Watches the CPU in the calling thread until [`end`](Witness::end) is called.
    pub(crate) fn watch(&self) -> Result<()> {
        let me = thread::current();
        affinity::set(me, &CpuSet::one(cpu()))?;
        attributes::set(me, Attributes::raised(PRIORITY))?;
        clock::set_slack(Nanos::ns(1))?;
        while !self.over.load(Ordering::Relaxed) {
            let due = clock::now().saturating_add(STEP);
            clock::sleep_until(due);
            let came = clock::now();
            if came.saturating_since(due) > LATE {
                self.gaps.lock().expect("no thread panics with it").push((due, came));
            }
        }
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Returns the total length of the gaps that overlap the interval from `from` to `to`, including the parts of the
    /// gaps outside the interval.
    pub(crate) fn away(&self, from: Instant, to: Instant) -> Nanos {
        let gaps = self.gaps.lock().expect("no thread panics with it");
        let touching = gaps.iter().filter(|(begun, ended)| *begun < to && *ended > from);
        touching.fold(Nanos::ZERO, |sum, (begun, ended)| sum + ended.since(*begun))
    }
}
