//! Wake-ups and turns of actors.

use crate::actor::{Actor, Duty, Stage};
use crate::tasks::Place;
use crate::world::World;
use sched::{CpuId, Instant, Nanos, Wake};

impl World {
    /// Arms the timer of actor `tid` for `at`, plus a simulated lateness. If `at` is NEVER, disarms the timer.
    pub fn wake_at(&mut self, tid: u32, at: Instant) {
        let late = self.lateness();
        let now = self.now();
        let Some(actor) = self.actor(tid) else { return };
        // If another event woke the actor after its timer was due, add the lateness so far to the total.
        let late_already = if actor.timer == Instant::NEVER { Nanos::ZERO } else { now.saturating_since(actor.asked) };
        actor.asked = at.max(now);
        actor.timer = actor.asked.saturating_add(late);
        self.late += late_already;
        self.next_timer = self.timers().min().unwrap_or(Instant::NEVER);
    }

    /// Wakes actor `tid` now. If the actor is in its turn, it takes another turn afterwards.
    pub fn ring(&mut self, tid: u32) {
        let Some(actor) = self.actor(tid) else { return };
        if actor.stage != Stage::Asleep {
            actor.rung = actor.stage == Stage::Taking;
            return;
        }
        actor.stage = Stage::Woken;
        self.want(tid, Wake::Timer);
    }

    /// Ends the turn of actor `tid`.
    pub fn end_turn(&mut self, tid: u32) {
        self.apply_faults();
        let Some(actor) = self.actor(tid) else { return };
        if actor.stage != Stage::Taking {
            return;
        }
        actor.stage = Stage::Asleep;
        if std::mem::take(&mut actor.rung) {
            // The actor continues without sleeping between the two turns.
            actor.stage = Stage::Woken;
            self.arrived(tid);
        } else {
            self.block(tid);
        }
    }

    fn actor(&mut self, tid: u32) -> Option<&mut Actor> {
        self.tasks.get_mut(tid)?.actor.as_mut()
    }

    fn timers(&self) -> impl Iterator<Item = Instant> {
        self.actors.iter().filter_map(|&tid| Some(self.tasks.get(tid)?.actor.as_ref()?.timer))
    }

    /// Wakes the actors whose timers have expired.
    pub(super) fn ring_timers(&mut self) {
        let now = self.now();
        for at in 0..self.actors.len() {
            let tid = self.actors[at];
            let Some(actor) = self.actor(tid) else { continue };
            if actor.timer <= now {
                actor.timer = Instant::NEVER;
                let late = now.since(actor.asked);
                self.late += late;
                self.ring(tid);
            }
        }
        self.next_timer = self.timers().min().unwrap_or(Instant::NEVER);
    }

    /// Handles the event that thread `tid` begins to run on a CPU.
    pub(super) fn arrived(&mut self, tid: u32) {
        let thread = self.tasks.thread(tid);
        let Place::On(cpu) = thread.account.place else { return };
        let awaited_by = thread.awaited_by.filter(|(_, at)| at.index() == cpu);
        self.report_entry(tid, awaited_by);
        let Some(actor) = self.actor(tid) else { return };
        if actor.stage != Stage::Woken {
            return;
        }
        match actor.duty {
            Duty::Turns => {
                actor.stage = Stage::Due;
                self.turns.push_back(tid);
            }
            Duty::Sentinel(cpu) => {
                actor.stage = Stage::Asleep;
                self.block(tid);
                let daemon = self.tasks.thread(tid).process;
                if let Some(agent) = self.agent_of(daemon, cpu) {
                    if let Some(actor) = self.actor(agent) {
                        actor.quiet = true;
                    }
                    self.ring(agent);
                }
            }
        }
    }

    /// Wakes the agent that awaits thread `tid`, which begins to run or has ended.
    pub(super) fn report_entry(&mut self, tid: u32, awaited_by: Option<(u32, CpuId)>) {
        let Some((daemon, cpu)) = awaited_by else { return };
        let Some(agent) = self.agent_of(daemon, cpu) else { return };
        if !self.entered.contains(&(daemon, cpu, tid)) {
            self.entered.push((daemon, cpu, tid));
        }
        self.ring(agent);
    }

    /// Returns an awaited thread that has begun to run or has ended since agent `tid` was last told about it. If there
    /// are more such threads, the agent takes another turn.
    pub fn take_entered(&mut self, tid: u32) -> Option<u32> {
        let &(daemon, cpu, ..) = self.agents.iter().find(|&&(_, _, agent, _)| agent == tid)?;
        let is_here = |&(of, on, _): &(u32, CpuId, u32)| (of, on) == (daemon, cpu);
        let at = self.entered.iter().position(is_here)?;
        let (.., entered) = self.entered.remove(at);
        if self.entered.iter().any(is_here) {
            self.ring(tid);
        }
        Some(entered)
    }

    /// Returns whether a sentinel has reported the CPU of agent `tid` as quiet since the last call.
    pub fn take_quiet(&mut self, tid: u32) -> bool {
        self.actor(tid).is_some_and(|actor| std::mem::take(&mut actor.quiet))
    }

    /// Returns the next actor that can take its due turn.
    pub(super) fn next_turn(&mut self) -> Option<u32> {
        let can = |world: &World, tid: u32| {
            world.tasks.get(tid).is_some_and(|thread| thread.actor.is_some_and(|actor| actor.stage == Stage::Due))
                && world.tasks.process_of(tid).is_some_and(|process| !process.is_stopped && !process.has_ended)
        };
        self.apply_faults();
        let at = (0..self.turns.len()).find(|&at| can(self, self.turns[at]))?;
        let tid = self.turns.remove(at)?;
        self.actor(tid)?.stage = Stage::Taking;
        Some(tid)
    }

    /// Starts or stops the sentinel of `cpu`, which wakes the agent of `cpu`.
    pub(super) fn await_quiet(&mut self, daemon: u32, cpu: CpuId, wanted: bool) {
        let on = |&&(of, on, ..): &&(u32, CpuId, u32, u32)| of == daemon && on == cpu;
        let Some(&(_, _, _, sentinel)) = self.agents.iter().find(on) else { return };
        let Some(actor) = self.actor(sentinel) else { return };
        match (wanted, actor.stage) {
            (true, Stage::Asleep) => {
                actor.stage = Stage::Woken;
                self.want(sentinel, Wake::Timer);
            }
            (false, Stage::Woken) => {
                actor.stage = Stage::Asleep;
                self.block(sentinel);
            }
            _ => {}
        }
    }

    pub(super) fn agent_of(&self, daemon: u32, cpu: CpuId) -> Option<u32> {
        let on = |&&(of, on, ..): &&(u32, CpuId, u32, u32)| of == daemon && on == cpu;
        self.agents.iter().find(on).map(|&(_, _, agent, _)| agent)
    }
}
