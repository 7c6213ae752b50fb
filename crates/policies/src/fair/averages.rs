//! The decayed averages of tasks and CPUs: when they are updated, and where the averages of a task count.
//!
//! The averages of a CPU include those of all tasks that run, wait or last ran there. The averages of a task move with
//! the task. Hosts of one CPU and v3.17, whose balancing does not use these averages, keep none.
//!
//! The class differs from the kernel as follows. The kernel also keeps averages of the queues of groups. Here, a task
//! in a group counts with its present share of the load of the root queue. Time in which a vCPU is preempted counts as
//! run time.
//!
//! Source: kernel/sched/fair.c (`update_load_avg`, `attach_entity_load_avg`, `task_h_load`), v5.13 and v6.18.

use super::Fair;
use super::node::NodeId;
use super::pelt::{Averages, Signals};
use super::rule::Rule;
use sched::{CpuId, EntityId, Instant};

impl<R: Rule> Fair<R> {
    /// Returns whether averages are kept.
    #[inline]
    fn averages(&self) -> bool {
        self.cpus.len() > 1 && self.queues.tunables.averages
    }

    /// Updates the averages of `e` and of its CPU after the state of `e` may have changed.
    pub(super) fn note_task(&mut self, e: EntityId, now: Instant) {
        if !self.averages() {
            return;
        }
        let node = self.queues.node(NodeId::task(e));
        let task = &mut self.tasks[e.index()];
        let cpu = task.cpu;
        let running = self.cpus[cpu.index()].current == Some(e);
        let signals = Signals { load: u64::from(node.queued), runnable: u64::from(node.is_runnable()), running };
        task.averages.update(now, node.weight, signals);
        self.note_cpu(cpu, now);
    }

    /// Updates the averages of `cpu`.
    pub(super) fn note_cpu(&mut self, cpu: CpuId, now: Instant) {
        if !self.averages() {
            return;
        }
        let root = self.queues.root(cpu);
        let state = &mut self.cpus[cpu.index()];
        let (load, runnable, running) = (root.load, u64::from(root.tasks.all), state.current.is_some());
        state.averages.update(now, 1, Signals { load, runnable, running });
    }

    /// Counts the averages of `e`, which joins the queues of its CPU, there.
    pub(super) fn count_averages(&mut self, e: EntityId, now: Instant) {
        if !self.averages() || self.tasks[e.index()].counted {
            return;
        }
        let cpu = self.tasks[e.index()].cpu;
        self.note_cpu(cpu, now);
        let weight = self.queues.node(NodeId::task(e)).weight;
        if core::mem::replace(&mut self.tasks[e.index()].started, true) {
            self.tasks[e.index()].averages.update(now, weight, Signals::default());
        } else {
            let of_cpu = self.cpus[cpu.index()].averages;
            self.tasks[e.index()].averages.start(weight, &of_cpu);
        }
        let load = self.queues.scaled_load(NodeId::task(e), self.tasks[e.index()].averages.load);
        let task = &mut self.tasks[e.index()];
        self.cpus[cpu.index()].averages.add(&mut task.averages, weight, load);
        task.counted = true;
    }

    /// Removes the averages of `e`, which is not queued and leaves its CPU, from those of the CPU.
    pub(super) fn uncount_averages(&mut self, e: EntityId, now: Instant) {
        if !core::mem::take(&mut self.tasks[e.index()].counted) {
            return;
        }
        self.note_task(e, now);
        let task = self.tasks[e.index()];
        let load = self.queues.scaled_load(NodeId::task(e), task.averages.load);
        self.cpus[task.cpu.index()].averages.subtract(&task.averages, load);
    }

    /// Updates the averages after the weight of `e` has changed from `old`. The new weight counts for the past as well.
    pub(super) fn reweigh_averages(&mut self, e: EntityId, old: u64, now: Instant) {
        if !self.averages() || !self.tasks[e.index()].counted {
            return;
        }
        let (id, cpu) = (NodeId::task(e), self.tasks[e.index()].cpu);
        let averages = &mut self.tasks[e.index()].averages;
        averages.update(now, old, averages.signals());
        let before = averages.load;
        averages.reweigh(self.queues.node(id).weight);
        let after = averages.load;
        let [before, after] = [before, after].map(|load| self.queues.scaled_load(id, load));
        self.note_cpu(cpu, now);
        self.cpus[cpu.index()].averages.replace_load(before, after);
    }

    /// Returns the average load that `e` would take along to another CPU.
    pub(super) fn movable_load(&self, e: EntityId) -> u64 {
        let task = &self.tasks[e.index()];
        let all = self.cpus[task.cpu.index()].averages.load;
        let load = self.queues.scaled_load(NodeId::task(e), task.averages.load);
        // As in `task_h_load`, a queue counts with one unit of load more than it has.
        (load * all / (all + 1)).max(1)
    }

    /// Returns the averages of `cpu`, which are up to date.
    pub(super) fn averages_of(&self, cpu: CpuId) -> &Averages {
        &self.cpus[cpu.index()].averages
    }
}
