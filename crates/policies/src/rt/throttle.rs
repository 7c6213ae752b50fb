//! Throttling: on each CPU, real-time entities use at most their runtime per period.
//!
//! The used time is checked at every charge. While a real-time entity runs, the interval between two charges is at most
//! a tick. An overrun counts in the next period, so the long-run share is exact.

use super::budget::{Budget, Limit, PERIOD};
use super::class::Rt;
use sched::{CpuId, Cx, EntityId, Held, Instant, Nanos};

impl Rt {
    /// Charges `ran` to the runtime of `cpu`. Throttles the CPU if its runtime is used up and the CPU cannot borrow
    /// enough.
    pub(super) fn count(&mut self, cpu: CpuId, ran: Nanos, cx: &mut Cx<'_>) {
        let Some(limit) = self.limit else { return };
        self.budgets[cpu.index()].used += ran;
        let Budget { used, runtime } = self.budgets[cpu.index()];
        if used <= runtime || runtime >= limit.period || self.queues.is_shut(cpu) {
            return;
        }
        self.borrow(cpu, limit);
        if used <= self.budgets[cpu.index()].runtime {
            return;
        }
        self.queues.set_shut(cpu, true);
        self.start_period(cx);
        if let Some(e) = self.queues.running(cpu) {
            self.hold(e, cx);
        }
        for e in self.queues.waiting_on(cpu) {
            self.tasks[e.index()].held = true;
            cx.hold(e, Held::Throttled);
        }
    }

    /// Charges the time for which a deadline entity ran on `cpu` to the runtime of `cpu`.
    pub(crate) fn count_above(&mut self, cpu: CpuId, ran: Nanos, cx: &Cx<'_>) {
        if self.limit.is_some() && cx.alarm_at(PERIOD).is_some() {
            self.budgets[cpu.index()].used += ran;
        }
    }

    /// If CPUs may borrow, transfers to `cpu` its part of the unused runtime of each other CPU. The runtime of `cpu`
    /// grows to at most a period.
    fn borrow(&mut self, cpu: CpuId, limit: Limit) {
        if !limit.shared {
            return;
        }
        let cpus = self.budgets.len() as u64;
        for other in (0..self.budgets.len()).filter(|&other| other != cpu.index()) {
            let Budget { used, runtime } = self.budgets[other];
            let wanted = limit.period.saturating_sub(self.budgets[cpu.index()].runtime);
            let part = runtime.saturating_sub(used).scale(1, cpus).min(wanted);
            self.budgets[other].runtime = runtime.saturating_sub(part);
            self.budgets[cpu.index()].runtime += part;
        }
    }

    pub(super) fn hold(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.tasks[e.index()].held = true;
        cx.hold(e, Held::Throttled);
    }

    pub(super) fn release(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if core::mem::take(&mut self.tasks[e.index()].held) {
            cx.release(e, Held::Throttled);
        }
    }

    /// Sets the alarm at the end of the period, unless the alarm is set. Periods end at multiples of their length.
    pub(super) fn start_period(&mut self, cx: &mut Cx<'_>) {
        if let Some(limit) = self.limit
            && cx.alarm_at(PERIOD).is_none()
        {
            let end = cx.now().next_tick(limit.period, Nanos::ZERO);
            self.period_end = end;
            cx.set_alarm(PERIOD, CpuId::default(), end);
        }
    }

    /// Ends a period, or several periods if the alarm is late.
    pub(super) fn end_period(&mut self, cx: &mut Cx<'_>) {
        let limit = self.limit.expect("the period timer runs only with a limit");
        let late = cx.now().saturating_since(self.period_end);
        let periods = 1 + late.as_ns() / limit.period.as_ns();
        let mut in_use = false;
        for cpu in cx.topology().iter() {
            // The current run counts in the period that has ended.
            let ran = self.queues.running(cpu).and_then(|_| cx.take_ran(cpu));
            self.budgets[cpu.index()].used += ran.map_or(Nanos::ZERO, |(_, ran)| ran);
            if self.queues.is_shut(cpu) {
                self.borrow(cpu, limit);
            }
            let budget = &mut self.budgets[cpu.index()];
            budget.used = budget.used.saturating_sub(budget.runtime.saturating_mul(periods));
            let Budget { used, runtime } = *budget;
            if self.queues.is_shut(cpu) && used < runtime {
                self.unthrottle(cpu, cx);
            }
            in_use |= !used.is_zero() || self.queues.is_shut(cpu) || self.queues.running(cpu).is_some();
        }
        self.period_end = Instant::NEVER;
        if in_use {
            self.start_period(cx);
        }
    }

    fn unthrottle(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.set_shut(cpu, false);
        for e in self.queues.waiting_on(cpu) {
            self.tasks[e.index()].held = false;
            cx.release(e, Held::Throttled);
        }
        // An entity that waits on another CPU may also be able to run on this CPU.
        if self.queues.has_waiting() {
            cx.kick(cpu);
        }
    }
}
