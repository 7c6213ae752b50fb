//! Timers of the CPU time of threads.

use crate::tasks::{CpuTimer, Place, Thread};
use crate::world::World;
use sched::{CpuId, Instant, Nanos};

/// Minimum CPU time between two expiries.
const LEAST: Nanos = Nanos::us(10);

impl World {
    /// Sets or clears the timer of thread `tid`. The values are the pid of the daemon, the CPU of the agent that the timer
    /// wakes, and the CPU time until its expiry.
    pub(super) fn set_cpu_timer(&mut self, tid: u32, timer: Option<(u32, CpuId, Nanos)>) {
        let (now, late) = (self.now(), self.lateness());
        let thread = self.tasks.thread(tid);
        thread.charge(now);
        thread.cpu_timer = timer.map(|(daemon, cpu, every)| {
            let due = thread.account.usage.ran + every;
            CpuTimer { daemon, cpu, due, at: due + late, every }
        });
        self.cpu_timers.retain(|&it| it != tid);
        if timer.is_some() {
            self.cpu_timers.push(tid);
        }
    }

    /// Returns the instant when the next of these timers expires, if its thread keeps its CPU until then.
    pub(super) fn next_cpu_timer(&self) -> Instant {
        let expiry = |thread: &Thread| {
            let Place::On(_) = thread.account.place else { return None };
            let left = thread.cpu_timer?.at.saturating_sub(thread.account.usage.ran);
            Some(thread.account.since.saturating_add(left))
        };
        let timers = self.cpu_timers.iter().filter_map(|&tid| expiry(self.tasks.get(tid)?));
        timers.min().unwrap_or(Instant::NEVER)
    }

    /// Wakes the agents whose timers have expired.
    pub(super) fn ring_cpu_timers(&mut self) {
        let now = self.now();
        for at in 0..self.cpu_timers.len() {
            let Some(thread) = self.tasks.get_mut(self.cpu_timers[at]) else { continue };
            thread.charge(now);
            let ran = thread.account.usage.ran;
            let Some(timer) = thread.cpu_timer.as_mut().filter(|timer| timer.at <= ran) else { continue };
            let late = ran.saturating_sub(timer.due);
            timer.due += timer.every;
            timer.at = timer.due.max(ran + LEAST);
            let (daemon, cpu) = (timer.daemon, timer.cpu);
            self.late += late;
            if let Some(agent) = self.agent_of(daemon, cpu) {
                self.ring(agent);
            }
        }
    }
}
