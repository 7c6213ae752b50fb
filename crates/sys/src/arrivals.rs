//! Arrivals: the kernel wakes a reader when a thread begins to run on a CPU.
//!
//! A watcher that is woken at every switch causes further switches: see [`switches`](crate::switches). The reader
//! therefore awaits one arrival at a time.

use crate::switches::refused_for;
use crate::wake_source::WakeSource;
use crate::{Error, Result};
use perf_event::Builder;
use perf_event::events::Software;
use rustix::fd::{AsFd, BorrowedFd};

/// The arrivals of one thread, on all CPUs. While they are awaited, the file descriptor becomes readable when the thread
/// begins to run, and also when it leaves a CPU.
#[derive(Debug)]
pub struct Arrivals {
    source: WakeSource,
}

impl Arrivals {
    /// Opens the arrivals of thread `tid`, which are not awaited yet.
    ///
    /// # Errors
    /// The thread has ended, the caller lacks permission or privilege, or the kernel has no perf events.
    pub fn of_thread(tid: u32) -> Result<Arrivals> {
        let raw = i32::try_from(tid).map_err(|_| Error::Gone(tid))?;
        let mut builder = Builder::new(Software::DUMMY);
        // Every record reaches the watermark, because it is longer than a byte.
        builder.context_switch(true).wakeup_watermark(1).observe_pid(raw).any_cpu();
        let begun = WakeSource::open(&builder).map(|source| Arrivals { source });
        begun.map_err(|error| refused_for(tid, error, format!("await that thread {tid} begins to run")))
    }

    /// Awaits arrivals from now on. Allocates memory only on failure.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resume(&mut self) -> Result<()> {
        let resumed = self.source.enable();
        resumed
            .map_err(|error| Error::from(error, "await that a thread begins to run", "use a thread that has not ended"))
    }

    /// Awaits no further arrivals. The reader may receive one more wake-up, for an earlier arrival. Allocates memory only
    /// on failure.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pause(&mut self) -> Result<()> {
        let paused = self.source.disable();
        paused.map_err(|error| {
            Error::from(error, "stop awaiting that a thread begins to run", "use a thread that has not ended")
        })
    }
}

impl AsFd for Arrivals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};
    use crate::event::Waiting;
    use crate::{affinity, clock, memory};
    use sched::{CpuSet, Instant, Nanos};

    fn arrivals_of(child: &Child) -> Option<(Arrivals, Waiting)> {
        let arrivals = match Arrivals::of_thread(child.pid()) {
            Ok(arrivals) => arrivals,
            Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
                eprintln!("SKIPPED: {refused}");
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let waiting = Waiting::new().unwrap();
        waiting.add(&arrivals, 7).unwrap();
        Some((arrivals, waiting))
    }

    fn await_one(arrivals: &mut Arrivals, waiting: &Waiting) {
        arrivals.resume().unwrap();
        assert_eq!(waiting.next(clock::now() + Nanos::s(5)).unwrap(), Some(7));
        arrivals.pause().unwrap();
    }

    /// Runs `watch` with a child on the CPU of the child, where an agent runs, too.
    fn beside_a_child(watch: impl FnOnce(&Child) + Send) {
        let child = Child::start(Work::Spin { busy: Nanos::us(500), idle: Nanos::us(500) }).unwrap();
        let cpus = CpuSet::one(affinity::get(child.pid()).unwrap().first().unwrap());
        affinity::set(child.pid(), &cpus).unwrap();
        let watch = || {
            affinity::set(crate::thread::current(), &cpus).unwrap();
            watch(&child);
        };
        std::thread::scope(|scope| scope.spawn(watch).join().unwrap());
    }

    #[test]
    fn an_arrival_is_reported_only_while_it_is_awaited() {
        beside_a_child(|child| {
            let Some((mut arrivals, waiting)) = arrivals_of(child) else { return };
            assert_eq!(waiting.next(clock::now() + Nanos::ms(20)).unwrap(), None, "nothing is awaited yet");
            // Cause more switches than the buffer has room for.
            (0..400).for_each(|_| await_one(&mut arrivals, &waiting));
            // Discard a wake-up for an arrival between the last wake-up and the pause.
            let _ = waiting.next(Instant::ZERO).unwrap();
            assert_eq!(waiting.next(clock::now() + Nanos::ms(20)).unwrap(), None, "nothing is awaited any more");
        });
        assert!(matches!(Arrivals::of_thread(u32::MAX >> 2), Err(Error::Gone(_))));
    }

    #[test]
    fn arrivals_cause_no_page_faults() {
        beside_a_child(|child| {
            // Other tests of this process fork, and the next write to each page of this thread then causes a fault.
            let causes_none = |_| {
                let Some((mut arrivals, waiting)) = arrivals_of(child) else { return true };
                await_one(&mut arrivals, &waiting);
                let before = memory::page_faults();
                (0..3).for_each(|_| await_one(&mut arrivals, &waiting));
                memory::page_faults() == before
            };
            assert!((0..20).any(causes_none));
        });
    }
}
