//! When the CPU was not there: a virtual machine's CPUs are taken away by its host, which need not say so as steal.
//!
//! A thread above everything else on the CPU sleeps from one instant to the next. Where even that one comes late, nobody could
//! have kept anything: what it is late by, at least, the CPU was away.

use crate::cpu;
use sched::{CpuSet, Instant, Nanos};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes};
use sys::{Result, affinity, clock, thread};

/// How often it looks.
const STEP: Nanos = Nanos::us(500);
/// Timers are late by less than this on a CPU that is there.
const LATE: Nanos = Nanos::us(200);
/// Above the agents.
const PRIORITY: u32 = 99;

/// Watches one CPU.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// From when to when it was away.
    gaps: Mutex<Vec<(Instant, Instant)>>,
    over: AtomicBool,
}

impl Witness {
    /// Watches in the calling thread, until it is over.
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
                self.gaps.lock().expect("nobody panics with it").push((due, came));
            }
        }
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// For how long it was away, at least, in whole gaps that touch `from` to `to`.
    pub(crate) fn away(&self, from: Instant, to: Instant) -> Nanos {
        let gaps = self.gaps.lock().expect("nobody panics with it");
        let touching = gaps.iter().filter(|(begun, ended)| *begun < to && *ended > from);
        touching.fold(Nanos::ZERO, |sum, (begun, ended)| sum + ended.since(*begun))
    }
}
