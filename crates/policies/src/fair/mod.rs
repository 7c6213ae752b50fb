//! Linux's fair class, except for the order of its run queues. A [`Rule`] supplies that order: `cfs` and `eevdf` are
//! the two rules.
//!
//! A task waits in the queue of its group on one CPU. The group's entity on that CPU waits in the queue above; the
//! topmost queue is the CPU's root queue. The parts that do not depend on the order within a queue are mainly in these
//! modules:
//! - `chain`: enqueue and dequeue at all levels.
//! - `node`, `runqueue` and `transitions`: the state of nodes and queues.
//! - `bandwidth`: quotas.
//! - `placement`: the choice of a CPU for a woken or forked task.
//! - `balance`: load balancing; `groups`: the imbalance of busy CPUs; `pelt` and `averages`: decayed averages.
//! - `tick`: ticks and wake-up preemption.
//!
//! The class may share its CPUs with a more urgent and a less urgent class.
//!
//! The class differs from the kernel as follows. At a wake-up and a fork, loads are the weights that are runnable now,
//! not decayed averages. All CPUs of a cache are searched for an idle CPU. An idle CPU that is kicked by another CPU's tick searches for work at
//! once. Load balancing migrates no running task. Entities of real-time classes count as SCHED_OTHER if this class runs
//! them; reservations are ignored. A runnable task that moves to another class and comes back keeps its vruntime
//! distance from `min_vruntime`. The kernel before v6.6 drops this distance for the task that is furthest behind.
//!
//! Source: torvalds/linux kernel/sched/fair.c, core.c, v5.13 and later.

mod averages;
mod balance;
mod bandwidth;
mod bounds;
mod chain;
mod domain;
mod flips;
mod groups;
mod node;
mod order;
mod pelt;
mod placement;
mod quota;
#[cfg(test)]
mod record;
mod rule;
mod runqueue;
mod tick;
mod transitions;
mod tunables;
#[cfg(test)]
pub(crate) mod world;

pub(crate) use bounds::{conserving, quota};
pub(crate) use node::{NICE_0, Node, NodeId};
pub(crate) use order::Order;
#[cfg(test)]
pub(crate) use quota::{PERIOD, SLACK};
pub(crate) use rule::{Arrival, Rule, Verdict};
pub(crate) use runqueue::{Buddy, Leaving, Placing, RunQueue, RunQueues, SHARES_LEAST};
pub(crate) use tunables::{KNOBS, Tunables, or_default, with_own};

use domain::{Balancing, Level};
use flips::Flips;
use node::load_of;
use pelt::Averages;
use quota::Bandwidth;
use runqueue::SHARES_MOST;
use sched::queue::Lists;
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, CpuId, CpuSet, Cx, Decision, EntityId, GroupChange, GroupId, GroupParams,
    Instant, Nanos, Params, Policy, Position, Refused, State, StopReason, Stopped, Topology, Wake,
};
/// The alarm slots of the class.
pub(crate) const ALARMS: AlarmSlots = AlarmSlots {
    cpu: &[AlarmKind::Tick, AlarmKind::Timer],
    group: &[AlarmKind::Timer, AlarmKind::Timer],
    ..AlarmSlots::NONE
};

/// Alarm slot of a CPU for its tick.
const TICK: u8 = 0;
/// Alarm slot of a CPU for the balance after a tick.
const BALANCE: u8 = 1;

/// The state of an entity, in addition to its node.
#[derive(Clone, Copy)]
struct Task {
    id: EntityId,
    /// Whether `id` is attached. If not, `id` was the last entity with this index.
    member: bool,
    /// CPU in whose queues the entity is, or was last.
    cpu: CpuId,
    /// Another CPU whose cache may be warm, such as the CPU on which the entity last woke another task.
    recent_cpu: CpuId,
    flips: Flips,
    /// Instant at which the entity last ran on `cpu`; `None` if it has not run there since it was assigned to `cpu`.
    ran_at: Option<Instant>,
    /// Whether the entity is held because a group above it is throttled.
    held: bool,
    /// Whether the entity has returned from another class and has not been runnable in this class since. Until then,
    /// `recent_cpu` is its CPU before it left this class.
    returns: bool,
    averages: Averages,
    /// Whether the averages of the entity have started.
    started: bool,
    /// Whether the averages of `cpu` include those of the entity.
    counted: bool,
}

/// The state of a CPU, in addition to its queues.
struct Cpu {
    /// Task that runs on the CPU.
    current: Option<EntityId>,
    /// Number of the CPU's next decision, beginning with 1. A put and a pick at one instant belong to the same
    /// decision.
    turn: u64,
    /// Instant at which the CPU's last task was put back.
    put_at: Instant,
    /// Instant since which the CPU has had no task to run; `None`: the CPU has a task, or a task woke there.
    idle_since: Option<Instant>,
    average_idle: Nanos,
    /// Whether the tick of another CPU kicked this CPU to pull tasks.
    called: bool,
    /// Whether the tick is set only because a more urgent class might take the CPU.
    ticks_in_case: bool,
    averages: Averages,
    /// Balancing state of each scheduling domain.
    balancing: Vec<Balancing>,
}

pub(crate) struct Fair<R: Rule> {
    queues: RunQueues<R>,
    /// State of each task, by entity index.
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// Bandwidth of each group, by group index.
    bandwidths: Vec<Bandwidth>,
    /// Runnable tasks of each CPU, in the order in which a pull examines them. A task moves to the end when it is
    /// enqueued or picked, or is examined and not moved.
    recency: Lists,
    levels: Vec<Level>,
    /// CPUs whose last pick found no task to run.
    idle: CpuSet,
    /// Whether members of a group are queued on different CPUs if possible; see the policy `balance`.
    apart: bool,
}

impl<R: Rule> Fair<R> {
    pub(crate) fn new(host: &Topology, tunables: Tunables, rule: R) -> Fair<R> {
        let levels = Level::all(host, tunables.imbalance);
        let cpu = || Cpu {
            current: None,
            turn: 1,
            put_at: Instant::ZERO,
            idle_since: Some(Instant::ZERO),
            average_idle: tunables.migration_cost.saturating_mul(2),
            called: false,
            ticks_in_case: false,
            averages: Averages::NONE,
            balancing: levels.iter().map(Balancing::new).collect(),
        };
        Fair {
            queues: RunQueues::new(host.cpus, tunables, rule),
            tasks: Vec::new(),
            cpus: host.iter().map(|_| cpu()).collect(),
            bandwidths: vec![Bandwidth::unlimited(GroupId::ROOT)],
            recency: Lists::new(host.cpus),
            levels,
            idle: host.all(),
            apart: false,
        }
    }

    /// Makes the class queue members of a group on different CPUs if possible.
    pub(crate) fn keeping_siblings_apart(self) -> Fair<R> {
        Fair { apart: true, ..self }
    }

    /// Returns the CPU in whose queues `e` is, or was last.
    pub(crate) fn cpu_of(&self, e: EntityId) -> CpuId {
        self.tasks[e.index()].cpu
    }

    fn is_member(&self, e: EntityId) -> bool {
        self.tasks.get(e.index()).is_some_and(|task| task.member && task.id == e)
    }

    fn is_runnable(&self, e: EntityId) -> bool {
        self.queues.node(NodeId::task(e)).is_runnable()
    }

    /// Dequeues `e` if it is delayed.
    fn finish_sleeper(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.queues.node(NodeId::task(e)).delayed {
            self.finish(NodeId::task(e), cx);
        }
    }

    /// Sets the initial position of the forked `e` on its parent's CPU, then assigns `e` to the selected CPU. If the
    /// class has no task `parent`, the position is set on the selected CPU.
    fn fork(&mut self, e: EntityId, parent: Option<EntityId>, cx: &mut Cx<'_>) {
        let id = NodeId::task(e);
        let why = Wake::New { parent };
        let Some(parent) = parent.filter(|&parent| self.is_member(parent)) else {
            let cpu = self.select(e, why, cx);
            self.assign(e, cpu, cx);
            self.charge_current(cpu, cx);
            R::place_forked(&mut self.queues, id, None);
            return;
        };
        let made_on = self.tasks[parent.index()].cpu;
        self.charge_current(made_on, cx);
        self.assign(e, made_on, cx);
        let queue = self.queues.node(id).queue;
        let current = self.queues.queue(queue).current;
        let sibling = Some(NodeId::task(parent)).filter(|&parent| self.queues.node(parent).queue == queue);
        let from = sibling.or(current).map(|from| self.queues.node(from).vruntime);
        R::place_forked(&mut self.queues, id, from);
        if let Some(current) = current
            && R::let_pass(&mut self.queues, id, current)
        {
            cx.kick(made_on);
        }
        R::detach_clock(&mut self.queues, id);
        let cpu = self.select(e, why, cx);
        self.assign(e, cpu, cx);
    }

    /// Moves `e`, which waits on a CPU that its affinity excludes, to an allowed CPU.
    fn evict(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let to = self.idlest(e, self.tasks[e.index()].cpu, cx);
        self.migrate(e, to, cx);
        self.check_preempt(e, Arrival::Other, cx);
    }

    /// Moves `e` to the queue of its new group, on the same CPU.
    fn change_group(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.finish_sleeper(e, cx);
        let cpu = self.tasks[e.index()].cpu;
        let queue = self.queues.queue_of(cx.params(e).group, cpu);
        if self.cpus[cpu.index()].current == Some(e) {
            self.switch_queue(e, queue, cx);
        } else if self.is_runnable(e) {
            self.requeue(e, queue, cx);
            self.check_preempt(e, Arrival::Other, cx);
        } else {
            R::move_sleeper(&mut self.queues, NodeId::task(e), queue);
        }
    }

    /// Changes the weight of `e`, which may be in any state.
    fn change_weight(&mut self, e: EntityId, weight: u64, idle: bool, cx: &mut Cx<'_>) {
        let (cpu, id) = (self.tasks[e.index()].cpu, NodeId::task(e));
        self.charge_current(cpu, cx);
        let before = *self.queues.node(id);
        R::reweigh(&mut self.queues, id, weight);
        self.queues.node_mut(id).idle = idle;
        self.reweigh_averages(e, before.weight, cx.now());
        if !before.is_runnable() {
            return;
        }
        self.queues.recount_idle(id, before.idle);
        if self.queues.root(cpu).tasks.all < 2 {
            return;
        }
        if self.cpus[cpu.index()].current != Some(e) {
            self.check_preempt(e, Arrival::Other, cx);
        } else if weight < before.weight {
            cx.kick(cpu);
        }
    }
}

fn shares_of(params: &GroupParams) -> u64 {
    u64::from(params.weight.as_linux()).clamp(SHARES_LEAST, SHARES_MOST)
}

impl<R: Rule> Policy for Fair<R> {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let cpu = cx.last_cpu(e);
        // Ids are unique: an entity with the same id returns from another class.
        let before = self.tasks.get(e.index()).filter(|task| task.id == e);
        let (returns, recent_cpu) = (before.is_some(), before.map_or(cpu, |task| task.cpu));
        let (averages, started) = before.map_or((Averages::NONE, false), |task| (task.averages, task.started));
        let task = Task {
            id: e,
            member: true,
            cpu,
            recent_cpu,
            flips: Flips::NONE,
            ran_at: None,
            held: false,
            returns,
            averages,
            started,
            counted: false,
        };
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, Task { member: false, ..task });
        }
        self.tasks[e.index()] = task;
        self.recency.reserve(e);
        let queue = self.queues.queue_of(cx.params(e).group, cpu);
        if returns {
            self.queues.reopen_task(e, queue, cx.params(e));
        } else {
            self.queues.open_task(e, queue, cx.params(e));
        }
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.finish_sleeper(e, cx);
        assert!(!self.is_runnable(e), "{e} leaves blocked");
        self.uncount_averages(e, cx.now());
        R::leave_class(&mut self.queues, NodeId::task(e), cx.state(e) == State::Blocked);
        self.tasks[e.index()].member = false;
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if cx.params(e).group != old.group {
            self.change_group(e, cx);
        }
        let (weight, idle) = load_of(cx.params(e));
        if load_of(old) != (weight, idle) {
            self.change_weight(e, weight, idle, cx);
        }
        R::ask(&mut self.queues, NodeId::task(e), cx.params(e));
        let cpu = self.tasks[e.index()].cpu;
        if cx.may_run(e, cpu) {
            return Ok(());
        }
        self.finish_sleeper(e, cx);
        if self.is_runnable(e) && self.cpus[cpu.index()].current != Some(e) {
            self.evict(e, cx);
        }
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.group_params(g);
        match change {
            GroupChange::Created { parent } => {
                self.queues.open_group(g, Some(parent), shares_of(&params));
                if self.bandwidths.len() <= g.index() {
                    self.bandwidths.resize(g.index() + 1, Bandwidth::unlimited(g));
                }
                self.bandwidths[g.index()] = Bandwidth::unlimited(g);
                if params.quota.is_some() {
                    self.set_quota(g, params.quota, cx);
                }
            }
            GroupChange::Params { old } => {
                if g == GroupId::ROOT {
                    let unlimited = params.quota.is_none();
                    return unlimited.then_some(()).ok_or(Refused::Unsupported {
                        reason: "the root group has no quota",
                        remedy: "use a quota on a group below it",
                    });
                }
                self.queues.set_shares(g, shares_of(&params));
                for cpu in cx.topology().iter() {
                    self.queues.update_shares_from(NodeId::part(self.queues.queue_of(g, cpu)));
                }
                if params.quota != old.quota {
                    self.set_quota(g, params.quota, cx);
                }
            }
            GroupChange::Removed => {
                for cpu in cx.topology().iter() {
                    let part = NodeId::part(self.queues.queue_of(g, cpu));
                    if self.queues.node(part).delayed {
                        self.finish(part, cx);
                    }
                }
                self.bandwidths[g.index()] = Bandwidth::unlimited(g);
            }
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        let stays = !matches!(why, Wake::New { .. }) && cx.may_run(e, self.tasks[e.index()].cpu);
        if !stays {
            self.finish_sleeper(e, cx);
        }
        let (placing, arrival) = if let Wake::New { parent } = why {
            self.fork(e, parent, cx);
            (Placing::Keep, Arrival::Forked)
        } else {
            // A delayed task is still in its queue and wakes there.
            if !self.queues.node(NodeId::task(e)).delayed {
                let cpu = self.select(e, why, cx);
                if cpu != self.tasks[e.index()].cpu {
                    R::detach_clock(&mut self.queues, NodeId::task(e));
                    self.assign(e, cpu, cx);
                }
            }
            // A task that ran or waited in another class has not slept, so its vruntime is kept.
            let returns = std::mem::take(&mut self.tasks[e.index()].returns) && why == Wake::Resumed;
            (if returns { Placing::Keep } else { Placing::Credit }, Arrival::Woken)
        };
        self.note_wake_up(self.tasks[e.index()].cpu, cx.now());
        self.enqueue(e, placing, cx);
        self.check_preempt(e, arrival, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.dequeue(e, Leaving::Halt, cx);
    }

    /// Charges `e` for its CPU time in another class. If `e` returns to this class and may be put on its previous CPU
    /// in this class, moves `e` back there. A change of CPU in the other class then has no effect on the queues of this
    /// class.
    fn owe(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        let id = NodeId::task(e);
        let Task { recent_cpu: home, cpu, returns, .. } = self.tasks[e.index()];
        if returns && home != cpu && self.may_be_put(e, home, cx) {
            R::detach_clock(&mut self.queues, id);
            self.assign(e, home, cx);
            R::come_back(&mut self.queues, id);
        }
        self.charge_current(self.tasks[e.index()].cpu, cx);
        self.queues.owe(id, ran);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        self.charge_chain(e, ran, cx);
    }

    fn yield_to(&mut self, _from: EntityId, to: EntityId, cx: &mut Cx<'_>) -> bool {
        if !self.is_member(to) || !self.is_runnable(to) || !cx.is_waiting(to) {
            return false;
        }
        self.queues.set_buddy(Buddy::Next, NodeId::task(to));
        let cpu = self.tasks[to.index()].cpu;
        if cpu != cx.here() {
            cx.kick(cpu);
        }
        true
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        match (alarm.owner, alarm.slot) {
            (AlarmOwner::Cpu(cpu), BALANCE) => self.balance_busy(cpu, cx),
            (AlarmOwner::Cpu(cpu), _) => self.tick(cpu, cx),
            (AlarmOwner::Group(g), quota::PERIOD) => self.end_period(g.index(), cx),
            (AlarmOwner::Group(g), quota::SLACK) => self.end_slack(g.index(), cx),
            _ => unreachable!("{alarm:?} is never set"),
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        let state = &mut self.cpus[cpu.index()];
        assert_eq!(state.current, Some(e), "the stopped entity was picked");
        state.current = None;
        state.put_at = cx.now();
        let turn = state.turn;
        match prev.why {
            StopReason::Blocked => self.dequeue(e, Leaving::Sleep, cx),
            StopReason::Yielded if self.queues.root(cpu).tasks.all > 1 => R::yielded(&mut self.queues, NodeId::task(e)),
            StopReason::Yielded | StopReason::Expired | StopReason::Kicked => {}
        }
        self.switch_out_chain(e, turn, cx);
        self.note_task(e, cx.now());
        if prev.why != StopReason::Blocked && !cx.may_run(e, cpu) {
            self.evict(e, cx);
        }
        self.tick_in_case(cpu, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let state = &mut self.cpus[cpu.index()];
        if state.put_at != cx.now() {
            // No task was put back at this instant, so no task continues.
            state.turn += 1;
        }
        let turn = state.turn;
        state.turn += 1;
        let mut chosen = self.choose(cpu, turn, cx);
        if chosen.is_none() {
            self.pull_for_idle(cpu, cx);
            chosen = self.choose(cpu, turn, cx);
        }
        let state = &mut self.cpus[cpu.index()];
        state.called = false;
        let Some(e) = chosen else {
            state.idle_since.get_or_insert(cx.now());
            self.idle.insert(cpu);
            return Decision::IDLE;
        };
        state.idle_since = None;
        self.idle.remove(cpu);
        self.switch_in_chain(e, turn);
        self.look_at_later(e, cpu);
        self.cpus[cpu.index()].current = Some(e);
        self.note_task(e, cx.now());
        self.settle_tick(cpu, cx);
        Decision::forever(e)
    }

    fn position(&self, e: EntityId) -> Option<Position> {
        R::position(&self.queues, NodeId::task(e), self.tasks[e.index()].cpu).map(Position::Fair)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let id = NodeId::task(e);
        let node = self.queues.node(id);
        show("vruntime", node.vruntime.as_ns());
        show("weight", node.weight.cast_signed());
        show("sum_exec", node.sum_exec.as_ns().cast_signed());
        show("cpu", i64::try_from(self.tasks[e.index()].cpu.index()).expect("a CPU number is small"));
        R::inspect(&self.queues, id, show);
    }
}
