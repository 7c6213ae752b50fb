//! Throttling: real-time entities use no more than their runtime of each period of a CPU.
//!
//! The time used is looked at whenever it is charged, at each tick at the latest; what was used beyond the runtime
//! is carried into the next period, so the long-run share is exact.

use super::Rt;
use sched::{Alarm, CpuId, Cx, EntityId, Held, Instant, Nanos, Of};

/// The end of the period; one for all CPUs, as in the kernel.
pub(super) const PERIOD: Alarm = Alarm { of: Of::Policy, slot: 0 };

/// How much of which period; `None` where there is no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) period: Nanos,
    pub(super) runtime: Nanos,
}

impl Rt {
    /// Counts running time of `cpu` against its runtime.
    pub(super) fn count(&mut self, cpu: CpuId, ran: Nanos, cx: &mut Cx<'_>) {
        let Some(limit) = self.limit else { return };
        let here = &mut self.cpus[cpu.index()];
        here.used += ran;
        if here.used > limit.runtime && !here.throttled {
            here.throttled = true;
            self.start_period(cx);
            if let Some(e) = self.cpus[cpu.index()].running {
                self.hold(e, cx);
            }
            for e in self.queues.iter(cpu.index()) {
                self.tasks[e.index()].held = true;
                cx.hold(e, Held::Throttled);
            }
            self.update(cpu);
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
        for cpu in 0..self.cpus.len() {
            // What runs now used the period that is over.
            let ran = self.cpus[cpu].running.and_then(|_| cx.take_ran(CpuId::new(cpu)));
            let here = &mut self.cpus[cpu];
            here.used += ran.map_or(Nanos::ZERO, |(_, ran)| ran);
            here.used = here.used.saturating_sub(limit.runtime.saturating_mul(periods));
            if here.throttled && here.used < limit.runtime {
                self.unthrottle(CpuId::new(cpu), cx);
            }
            let here = &self.cpus[cpu];
            in_use |= !here.used.is_zero() || here.throttled || here.running.is_some();
        }
        self.period_end = Instant::NEVER;
        if in_use {
            self.start_period(cx);
        }
    }

    fn unthrottle(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.cpus[cpu.index()].throttled = false;
        for e in self.queues.iter(cpu.index()) {
            self.tasks[e.index()].held = false;
            cx.release(e, Held::Throttled);
        }
        self.update(cpu);
        // Whoever waits elsewhere may be welcome here, too.
        if !self.waiting.is_empty() {
            cx.kick(cpu);
        }
    }
}
