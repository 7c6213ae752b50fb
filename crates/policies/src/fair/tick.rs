//! The tick, and wake-up preemption. At a tick, a CPU picks again if a time slice has expired or a task is too far
//! ahead.
//!
//! A CPU ticks while a tick can have an effect. That is the case while a task waits on any CPU or a delayed node is
//! queued on this CPU. A CPU also ticks while its task belongs to a group with a quota. All CPUs tick at the same
//! instants, the multiples of the tick period.

use super::node::NodeId;
use super::rule::{Arrival, Rule, Verdict};
use super::{Fair, TICK};
use sched::{Alarm, AlarmOwner, Class, CpuId, Cx, EntityId, Nanos, Running};

const fn tick_of(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: TICK }
}

impl<R: Rule> Fair<R> {
    // ---- The tick ----

    /// Handles a tick on `cpu`.
    pub(super) fn tick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.charge_current(cpu, cx);
        self.cpus[cpu.index()].ticks_in_case = false;
        if let Some(e) = self.cpus[cpu.index()].current {
            self.tick_chain(e, cpu, cx);
        }
        if self.cpus.len() > 1 && self.queues.root(cpu).tasks.all > 0 {
            self.plan_balance(cpu, cx);
            self.call_idle(cpu, cx);
            self.arm_other_ticks(cpu, cx);
        }
        self.arm_tick(cpu, cx);
    }

    /// At a tick, checks the current node of every level. Kicks `cpu` if a time slice is used up or a node is too far
    /// ahead.
    fn tick_chain(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        let mut at = Some(NodeId::task(e));
        while let Some(id) = at {
            self.queues.update_share(id);
            match R::verdict(&self.queues, id) {
                Verdict::Stays => {}
                Verdict::Expired => {
                    cx.kick(cpu);
                    // A node whose time slice is used up must not be preferred as a buddy.
                    self.queues.clear_buddies(id);
                }
                Verdict::Ahead => cx.kick(cpu),
            }
            at = self.queues.above(id);
        }
    }

    // ---- Setting the tick ----

    /// Sets the tick of `cpu` if the tick can have an effect and is not set.
    pub(super) fn arm_tick(&self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.needs_tick(cpu) && cx.alarm_at(tick_of(cpu)).is_none() {
            let at = cx.now().next_tick(self.queues.tunables.tick, Nanos::ZERO);
            cx.set_alarm(tick_of(cpu), cpu, at);
        }
    }

    /// Sets the tick of `cpu`, which is about to pick while a task may wait in its queue. If a more urgent class takes
    /// the CPU before this class picks, the tick handles the waiting task.
    pub(super) fn tick_in_case(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if cx.alarm_at(tick_of(cpu)).is_none() {
            self.arm_tick(cpu, cx);
            self.cpus[cpu.index()].ticks_in_case = true;
        }
    }

    /// Called when this class picks for `cpu`. Sets the tick if it is needed, and clears an unneeded tick that
    /// `tick_in_case` has set.
    pub(super) fn settle_tick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if core::mem::take(&mut self.cpus[cpu.index()].ticks_in_case) && !self.needs_tick(cpu) {
            cx.clear_alarm(tick_of(cpu));
        }
        self.arm_tick(cpu, cx);
    }

    fn needs_tick(&self, cpu: CpuId) -> bool {
        let tasks = self.queues.root(cpu).tasks.all;
        match self.cpus[cpu.index()].current {
            Some(e) => {
                let queue = self.queues.node(NodeId::task(e)).queue;
                tasks >= 2
                    || self.queues.root(cpu).delayed > 0
                    || self.queues.overloaded > 0
                    || self.queues.is_limited(queue)
            }
            None => tasks >= 1,
        }
    }

    /// Sets the ticks of all busy CPUs if tasks wait on `cpu`. The busy CPUs then compare their loads with the load of
    /// `cpu`.
    fn arm_other_ticks(&self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.queues.root(cpu).tasks.all >= 2 {
            let busy = cx.topology().iter().filter(|&other| self.cpus[other.index()].current.is_some());
            busy.for_each(|other| self.arm_tick(other, cx));
        }
    }

    // ---- Wake-up preemption ----

    /// Kicks the CPU on which `e` has become runnable, if that CPU must pick again.
    pub(super) fn check_preempt(&mut self, e: EntityId, arrival: Arrival, cx: &mut Cx<'_>) {
        let (cpu, id) = (self.tasks[e.index()].cpu, NodeId::task(e));
        if self.queues.is_throttled(self.queues.node(id).queue) {
            return;
        }
        match cx.running(cpu) {
            Running::Idle | Running::Below => {
                cx.kick(cpu);
                self.tick_in_case(cpu, cx);
            }
            Running::Above => {}
            Running::Mine { entity, .. } if entity == e => {}
            Running::Mine { entity, .. } => self.check_preempt_current(id, entity, arrival, cx),
        }
    }

    fn check_preempt_current(&mut self, id: NodeId, current: EntityId, arrival: Arrival, cx: &mut Cx<'_>) {
        let cpu = self.tasks[current.index()].cpu;
        let (e, running) = (self.tasks[id.entity_index().expect("a task")].id, NodeId::task(current));
        let greeted = R::greet(&mut self.queues, id, running, arrival);
        if cx.kicked(cpu) {
            return;
        }
        if self.queues.node(running).idle && !self.queues.node(id).idle {
            R::preempted(&mut self.queues, id, running);
            cx.kick(cpu);
            return;
        }
        if matches!(cx.params(e).class, Class::Batch | Class::Idle) || !self.queues.tunables.wakeup_preemption {
            return;
        }
        self.charge_current(cpu, cx);
        let (wakee, ahead) = self.queues.siblings(id, running);
        if R::preempts(&mut self.queues, wakee, ahead, greeted) {
            R::preempted(&mut self.queues, wakee, ahead);
            cx.kick(cpu);
        }
    }
}
