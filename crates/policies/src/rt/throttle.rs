//! Throttling: real-time entities use no more than their runtime of each period of a CPU.
//!
//! The time used is looked at whenever it is charged, at each tick at the latest; what was used beyond the runtime
//! is carried into the next period, so the long-run share is exact.

use super::Rt;
use sched::{Alarm, AlarmOwner, CpuId, Cx, EntityId, Held, Instant, Nanos};

/// The end of the period; one for all CPUs, as in the kernel.
pub(super) const PERIOD: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };

/// How much of which period; `None` where there is no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) period: Nanos,
    pub(super) runtime: Nanos,
    /// Whether a CPU borrows what others have left.
    pub(super) shared: bool,
}

/// What is kept of a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// The time real-time entities have used in this period.
    used: Nanos,
    /// How much they may use: what was borrowed is here, what was lent is not.
    runtime: Nanos,
}

impl Limit {
    pub(super) fn budget(&self) -> Budget {
        Budget { used: Nanos::ZERO, runtime: self.runtime }
    }
}

impl Rt {
    /// Counts running time of `cpu` against its runtime.
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

    /// A more urgent class has used the time of `cpu`, which is then not real-time entities' to use.
    pub(crate) fn count_above(&mut self, cpu: CpuId, ran: Nanos, cx: &Cx<'_>) {
        if self.limit.is_some() && cx.alarm_at(PERIOD).is_some() {
            self.budgets[cpu.index()].used += ran;
        }
    }

    /// Moves to `cpu` its part of the runtime that each other CPU has left, up to a whole period.
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

    /// Sets the end of the period, a multiple of it, unless it is set.
    pub(super) fn start_period(&mut self, cx: &mut Cx<'_>) {
        if let Some(limit) = self.limit
            && cx.alarm_at(PERIOD).is_none()
        {
            let end = cx.now().next_tick(limit.period, Nanos::ZERO);
            self.period_end = end;
            cx.set_alarm(PERIOD, CpuId::default(), end);
        }
    }

    /// A period (or several, if the alarm is late) is over.
    pub(super) fn end_period(&mut self, cx: &mut Cx<'_>) {
        let limit = self.limit.expect("only a limit has periods");
        let late = cx.now().saturating_since(self.period_end);
        let periods = 1 + late.as_ns() / limit.period.as_ns();
        let mut in_use = false;
        for cpu in cx.topology().iter() {
            // What runs now used the period that is over.
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
        // Whoever waits elsewhere may be welcome here, too.
        if self.queues.anybody_waits() {
            cx.kick(cpu);
        }
    }
}
