//! The kernel timers that release jobs and end sleeps. The resolution of the timers delays the expiry of a timer, and
//! the timer slack delays the timer further.
//!
//! As in Linux, the slack is a window that begins at the expiry. The kernel programs the timer for the end of the
//! window. The timer fires earlier only if another timer interrupt of its CPU arrives within the window. Source:
//! kernel/time/hrtimer.c, `hrtimer_set_expires_range_ns` and `__hrtimer_run_queues`.

use crate::costs::Costs;
use crate::driver::Driver;
use sched::{Class, CpuId, EntityId, Instant, Nanos};

impl Driver<'_> {
    /// Sets the timer of `entity`, which releases its next job or ends its sleep at `due`. If `due` and the slack have
    /// passed, the timer fires now.
    pub(crate) fn set_timer(&mut self, entity: EntityId, due: Instant) {
        let has_slack = self.has_slack(entity);
        self.set_timer_with(entity, due, has_slack);
    }

    /// Sets the timer that starts `entity` at `due`. The start has no slack, because no task sleeps until then.
    pub(crate) fn set_start(&mut self, entity: EntityId, due: Instant) {
        self.set_timer_with(entity, due, false);
    }

    fn set_timer_with(&mut self, entity: EntityId, due: Instant, has_slack: bool) {
        let Costs { timer_resolution, timer_slack, .. } = self.cpus.costs;
        let slack = if has_slack { timer_slack } else { Nanos::ZERO };
        let end = due.round_up(timer_resolution).saturating_add(slack);
        self.cpus.task(entity).has_slack = has_slack;
        self.cpus.releases.set(entity.index(), end.max(self.cpus.now));
    }

    /// Returns whether timers of `entity` have slack. Timers of real-time tasks and of tasks with a reservation have
    /// none. Source: `hrtimer_nanosleep`, kernel/time/hrtimer.c; prctl(2), PR_SET_TIMERSLACK.
    fn has_slack(&self, entity: EntityId) -> bool {
        if self.cpus.costs.timer_slack.is_zero() {
            return false;
        }
        let params = self.machine.params(entity);
        let is_real_time = matches!(params.class, Class::Fifo(_) | Class::RoundRobin(_) | Class::Stop);
        !is_real_time && params.reservation.is_none()
    }

    /// Handles a timer interrupt on `cpu`: makes the timers of `cpu` that have expired due now.
    ///
    /// The kernel keeps the timers of a CPU in the order of the ends of their slack. The interrupt therefore stops at
    /// the first timer that has not expired, and later timers wait for its interrupt.
    #[inline]
    pub(crate) fn fire_expired_timers(&mut self, cpu: CpuId) {
        let slack = self.cpus.costs.timer_slack;
        if !slack.is_zero() && self.cpus.releases.next() <= self.cpus.now.saturating_add(slack) {
            self.fire_timers_of(cpu);
        }
    }

    fn fire_timers_of(&mut self, cpu: CpuId) {
        let timers = 0..self.cpus.tasks.len();
        let mut first_unexpired = Instant::NEVER;
        for index in timers.clone() {
            if let Some((false, end)) = self.timer_on(cpu, index) {
                first_unexpired = first_unexpired.min(end);
            }
        }
        for index in timers {
            if self.timer_on(cpu, index).is_some_and(|(has_expired, end)| has_expired && end < first_unexpired) {
                self.cpus.releases.set(index, self.cpus.now);
            }
        }
    }

    /// Returns whether the timer of the entity with this index has expired, and the end of its slack. `None`: the slack
    /// ends now or more than a slack later, or the timer is not on `cpu`, the CPU on which the entity last ran.
    fn timer_on(&self, cpu: CpuId, index: usize) -> Option<(bool, Instant)> {
        let end = self.cpus.releases.get(index);
        if end <= self.cpus.now || end > self.cpus.now.saturating_add(self.cpus.costs.timer_slack) {
            return None;
        }
        let task = self.cpus.tasks[index].as_ref()?;
        let home = task.last_cpu.unwrap_or_else(|| self.machine.last_cpu(task.id));
        (home == cpu).then_some((task.has_slack, end))
    }
}
