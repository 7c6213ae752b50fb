//! Timers of the CPU time of a thread: a file descriptor becomes readable when the thread has used a given CPU time.

use crate::switches::refused_for;
use crate::wake_source::WakeSource;
use crate::{Error, Result};
use perf_event::Builder;
use perf_event::events::Software;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::ioctl::{Setter, ioctl, opcode};
use sched::Nanos;

/// `PERF_EVENT_IOC_PERIOD`, include/uapi/linux/perf_event.h.
const SET_PERIOD: rustix::ioctl::Opcode = opcode::write::<u64>(b'$', 4);

/// A timer of the CPU time of one thread, on all CPUs. The timer expires about 10 us late, because an interrupt wakes
/// its reader. Linux rounds times below 10 us up (`perf_swevent_start_hrtimer`, kernel/events/core.c, 6.18).
#[derive(Debug)]
pub struct CpuTimer {
    source: WakeSource,
    is_set: bool,
}

impl CpuTimer {
    /// Creates a timer for thread `tid` that is not set.
    ///
    /// # Errors
    /// The thread has ended, the caller lacks permission or privilege (CAP_PERFMON), or the kernel has no perf events.
    pub fn of_thread(tid: u32) -> Result<CpuTimer> {
        let raw = i32::try_from(tid).map_err(|_| Error::Gone(tid))?;
        let mut builder = Builder::new(Software::TASK_CLOCK);
        // An interrupt in a system call of the thread counts only if the kernel is included.
        builder.include_kernel().sample_period(u64::from(u32::MAX)).wakeup_events(1).observe_pid(raw).any_cpu();
        let begun = WakeSource::open(&builder).map(|source| CpuTimer { source, is_set: false });
        begun.map_err(|error| refused_for(tid, error, format!("set a timer of the CPU time of thread {tid}")))
    }

    /// Sets the timer: the file descriptor becomes readable when the thread has used `time` from now on, and again
    /// after each further `time`. Allocates memory only on failure.
    ///
    /// # Errors
    /// `time` is zero, or the kernel refuses.
    pub fn set(&mut self, time: Nanos) -> Result<()> {
        let failed =
            |error: std::io::Error| Error::from(error, "set a timer of CPU time", "use a time of at least 1 ns");
        // SAFETY: the kernel reads a 64-bit number, which `Setter` passes by address.
        let outcome = unsafe { ioctl(self.as_fd(), Setter::<SET_PERIOD, u64>::new(time.as_ns())) };
        outcome.map_err(|errno| failed(errno.into()))?;
        if !self.is_set {
            self.source.enable().map_err(failed)?;
            self.is_set = true;
        }
        Ok(())
    }

    /// Clears the timer. The file descriptor may stay readable after an earlier expiry.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn clear(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_set) {
            let cleared = self.source.disable();
            cleared.map_err(|error| {
                Error::from(error, "clear a timer of CPU time", "use the timer of a thread that has not ended")
            })?;
        }
        Ok(())
    }
}

impl AsFd for CpuTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};
    use crate::clock;
    use crate::event::Waiting;
    use crate::usage::Meter;
    use sched::Instant;

    fn timer_of(child: &Child) -> Option<(CpuTimer, Waiting, Meter)> {
        let timer = match CpuTimer::of_thread(child.pid()) {
            Ok(timer) => timer,
            Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
                eprintln!("SKIPPED: {refused}");
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let waiting = Waiting::new().unwrap();
        waiting.add_edges(&timer, 1).unwrap();
        Some((timer, waiting, Meter::open(child.pid()).unwrap()))
    }

    #[test]
    fn a_timer_counts_the_cpu_time_of_a_thread_that_sleeps() {
        let child = Child::start(Work::Spin { busy: Nanos::us(200), idle: Nanos::us(400) }).unwrap();
        let Some((mut timer, waiting, meter)) = timer_of(&child) else { return };
        assert_eq!(waiting.next(clock::now() + Nanos::ms(20)).unwrap(), None, "it is not set");
        for time in [Nanos::ms(1), Nanos::us(500), Nanos::ms(5)] {
            for _ in 0..5 {
                let begun = (clock::now(), meter.read().unwrap().ran);
                timer.set(time).unwrap();
                assert_eq!(waiting.next(begun.0 + Nanos::s(5)).unwrap(), Some(1));
                let ran = meter.read().unwrap().ran - begun.1;
                // The meter lags behind by a tick at most while the thread runs on another CPU.
                assert!(ran + Nanos::ms(10) >= time, "{ran} of {time}");
                assert!(clock::now().since(begun.0) >= time, "the thread sleeps meanwhile");
            }
        }
        timer.clear().unwrap();
        let _ = waiting.next(Instant::ZERO).unwrap();
        assert_eq!(waiting.next(clock::now() + Nanos::ms(20)).unwrap(), None, "it is cleared");
        timer.set(Nanos::ms(1)).unwrap();
        assert_eq!(waiting.next(clock::now() + Nanos::s(5)).unwrap(), Some(1), "it is set again");
    }

    #[test]
    fn a_timer_is_set_again_and_again_and_its_thread_may_end() {
        let child = Child::start(Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO }).unwrap();
        let Some((mut timer, waiting, _)) = timer_of(&child) else { return };
        // More expiries than the buffer has room for.
        for _ in 0..600 {
            timer.set(Nanos::us(20)).unwrap();
            assert_eq!(waiting.next(clock::now() + Nanos::s(5)).unwrap(), Some(1));
        }
        let (tid, begun) = (child.pid(), clock::now());
        drop(child);
        while clock::now().since(begun) < Nanos::ms(20) {
            let _ = waiting.next(clock::now() + Nanos::ms(20)).unwrap();
        }
        timer.clear().unwrap();
        let again = CpuTimer::of_thread(tid);
        assert!(matches!(again, Err(Error::Gone(_))), "{again:?}");
    }
}
