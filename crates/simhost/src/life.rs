//! [`Life`]: records whether the acts of a process still have an effect. [`Memory`]: words that outlive the processes
//! that write them.

use daemon::kernel::Cells;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A fault of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process is killed (SIGKILL).
    Crash,
    /// The process is stopped and performs no further act (SIGSTOP).
    Hang,
}

const WELL: u8 = 0;
const CRASHED: u8 = 1;
const HUNG: u8 = 2;

/// Counts the acts of a process, and makes the process fail instead of performing a given act.
#[derive(Debug)]
pub(super) struct Life {
    acts: AtomicU64,
    fails_before: AtomicU64,
    way: AtomicU8,
    state: AtomicU8,
}

impl Life {
    pub(super) fn new() -> Arc<Life> {
        let (acts, fails_before) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Arc::new(Life { acts, fails_before, way: AtomicU8::new(WELL), state: AtomicU8::new(WELL) })
    }

    /// Makes the process fail instead of performing act number `act`, counted from zero.
    pub(super) fn fails_at(&self, act: u64, fault: Fault) {
        self.way.store(if fault == Fault::Crash { CRASHED } else { HUNG }, Ordering::Relaxed);
        self.fails_before.store(act, Ordering::Relaxed);
    }

    /// Returns the number of acts of the process so far.
    pub(super) fn acts(&self) -> u64 {
        self.acts.load(Ordering::Relaxed)
    }

    /// Counts an act. Returns whether the act has an effect.
    pub(super) fn act(&self) -> bool {
        if self.fault().is_some() {
            return false;
        }
        if self.acts.fetch_add(1, Ordering::Relaxed) < self.fails_before.load(Ordering::Relaxed) {
            return true;
        }
        self.state.store(self.way.load(Ordering::Relaxed), Ordering::Relaxed);
        false
    }

    pub(super) fn fail(&self, fault: Fault) {
        // A crash is final: a crashed process cannot hang.
        let state = if fault == Fault::Crash { CRASHED } else { HUNG };
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| (old != CRASHED).then_some(state)).ok();
    }

    /// Continues the process after a stop.
    pub(super) fn goes_on(&self) {
        self.state.compare_exchange(HUNG, WELL, Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        match self.state.load(Ordering::Relaxed) {
            WELL => None,
            CRASHED => Some(Fault::Crash),
            _ => Some(Fault::Hang),
        }
    }
}

/// Words that several processes share. The words exist as long as a process or the world refers to them.
#[derive(Clone, Debug)]
pub struct Memory(Arc<[AtomicU64]>);

impl Memory {
    /// Returns `words` words, all zero.
    #[must_use]
    pub fn new(words: usize) -> Memory {
        Memory((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn mapped(&self, life: Arc<Life>) -> Mapping {
        Mapping { words: Arc::clone(&self.0), life }
    }
}

/// The memory as mapped into one process. Each store is an act of this process.
#[derive(Debug)]
pub struct Mapping {
    words: Arc<[AtomicU64]>,
    life: Arc<Life>,
}

impl Cells for Mapping {
    fn len(&self) -> usize {
        self.words.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Acquire)
    }

    fn store(&self, at: usize, value: u64) {
        if self.life.act() {
            self.words[at].store(value, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_outlives_its_writer_and_ignores_stores_of_a_failed_process() {
        let memory = Memory::new(2);
        let (life, other) = (Life::new(), Life::new());
        life.fails_at(1, Fault::Crash);
        let (failing, well) = (memory.mapped(Arc::clone(&life)), memory.mapped(other));
        failing.store(0, 7);
        failing.store(1, 8);
        failing.store(0, 9);
        assert_eq!((well.load(0), well.load(1), well.len()), (7, 0, 2));
        assert_eq!(life.fault(), Some(Fault::Crash));
        well.store(1, 3);
        assert_eq!(failing.load(1), 3);
    }

    #[test]
    fn a_hang_ends_and_a_crash_does_not() {
        let life = Life::new();
        life.fail(Fault::Hang);
        assert!(!life.act());
        life.goes_on();
        assert!(life.act());
        life.fail(Fault::Crash);
        life.fail(Fault::Hang);
        life.goes_on();
        assert_eq!((life.fault(), life.acts()), (Some(Fault::Crash), 1));
    }
}
