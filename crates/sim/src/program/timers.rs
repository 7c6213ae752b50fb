//! The timers of a task. A beat is the end of a period of a timer. A task waits for a beat, works until a beat, or
//! skips beats.

use super::TimerMode;
use super::tasks::StepOutcome;
use crate::driver::Driver;
use sched::{CpuId, EntityId, Instant, Nanos};
use trace::Event;

impl Driver<'_> {
    /// Returns the end of the last period of a timer of `entity`.
    pub(super) fn timer_of(&mut self, entity: EntityId, timer: u8) -> &mut Instant {
        let state = self.tasks.of(entity);
        let timer = usize::from(timer);
        if state.timers.len() <= timer {
            state.timers.reserve_exact(timer + 1 - state.timers.len());
            state.timers.resize(timer + 1, state.began);
        }
        &mut state.timers[timer]
    }

    /// Makes the task on `cpu` sleep until the current period of its timer ends.
    pub(super) fn timer(
        &mut self,
        cpu: CpuId,
        entity: EntityId,
        timer: u8,
        period: Nanos,
        mode: TimerMode,
    ) -> StepOutcome {
        let now = self.cpus.now;
        let last = self.timer_of(entity, timer);
        let end = last.saturating_add(period);
        let passed = match mode {
            TimerMode::Skipping => now.saturating_since(end).as_ns().div_ceil(period.as_ns()),
            TimerMode::Relative | TimerMode::CatchingUp { .. } | TimerMode::Absolute => 0,
        };
        let end = match mode {
            TimerMode::Relative => end.max(now),
            TimerMode::CatchingUp { most } if now.saturating_since(end) > most => now,
            TimerMode::CatchingUp { .. } => end,
            TimerMode::Absolute | TimerMode::Skipping => end.saturating_add(period.saturating_mul(passed)),
        };
        *last = end;
        if passed > 0 {
            self.show(|| Event::Skipped { entity, beats: passed });
        }
        if end <= now {
            self.tasks.of(entity).due = end;
            return StepOutcome::Next;
        }
        self.sleep_until(cpu, entity, end)
    }

    /// Makes the task on `cpu` use CPU time until the current period of its timer ends.
    pub(super) fn run_until_beat(
        &mut self,
        cpu: CpuId,
        entity: EntityId,
        timer: u8,
        period: Nanos,
        grain: Nanos,
    ) -> StepOutcome {
        let now = self.cpus.now;
        let last = self.timer_of(entity, timer);
        let end = last.saturating_add(period);
        if end <= now {
            *last = end;
            return StepOutcome::Next;
        }
        // After the burst, the task reads the clock again.
        self.tasks.of(entity).next -= 1;
        self.burst(cpu, entity, grain.min(end.since(now)))
    }

    /// Skips the rounds of the loop of `entity` whose beats are more than `late` ago. `level` and `after` are the level
    /// and the end of the loop.
    pub(super) fn drop_late(
        &mut self,
        entity: EntityId,
        (timer, period): (u8, Nanos),
        late: Nanos,
        (level, after): (u8, u32),
    ) -> StepOutcome {
        let now = self.cpus.now;
        let last = self.timer_of(entity, timer);
        let behind = now.saturating_since(last.saturating_add(late));
        let passed = behind.as_ns().div_ceil(period.as_ns()).saturating_sub(1);
        if passed == 0 {
            return StepOutcome::Next;
        }
        let state = self.tasks.of(entity);
        let left = &mut state.rounds[usize::from(level)];
        let beats = passed.min(*left);
        if *left != u64::MAX {
            *left -= beats;
        }
        if *left == 0 {
            state.next = after;
        }
        let last = &mut state.timers[usize::from(timer)];
        *last = last.saturating_add(period.saturating_mul(beats));
        self.show(|| Event::Skipped { entity, beats });
        StepOutcome::Next
    }
}
