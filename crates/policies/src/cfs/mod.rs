//! CFS, the fair class of Linux v5.13: CPU time by weight, in rounds of a few milliseconds; who has slept goes first.
//!
//! Every task has a clock, its *vruntime*, that runs while the task runs, the slower the heavier the task is. On every
//! CPU, whoever's clock shows least runs next. So all clocks stay together, and CPU time is shared by weight.
//!
//! ```text
//! one CPU, tick 1ms, round 6ms: a (nice 0, weight 1024) and b (nice 5, 335), hogs from 0
//! 0         10        20        30        40        50
//! baaaaabbaaaaabbaaaaabaaaaabbaaaaabbaaaaabaaaaabbaaaaabb
//! ```
//!
//! 1. *Charge*: `vruntime += ran · 1024 / weight`. `min_vruntime` of a queue follows its least vruntime, never back.
//! 2. *Slice*: a round of 6 ms for up to 8 tasks, else 0.75 ms each, is divided by weight, at least 0.75 ms. These times,
//!    and the 1 ms of rule 7, are multiplied by 1 + ⌊log2 of min(CPUs, 8)⌋.
//! 3. *Fork*: a child starts at its parent's vruntime, or a slice after `min_vruntime` if that is later.
//! 4. *Wake*: however long it slept, a wakee's vruntime is at most half a round before `min_vruntime`.
//! 5. *Sleep, migrate*: vruntime is kept; between queues, its distance from `min_vruntime` is.
//! 6. *Tick*: who has had more than its slice, or has had its 0.75 ms and is a slice ahead of the first who waits, is
//!    stopped. Slices end at ticks only.
//! 7. *Wake-up preemption*: a wakee preempts whoever's vruntime is later by more than 1 ms on the wakee's clock.
//!    SCHED_BATCH and SCHED_IDLE never do; SCHED_IDLE gives way to all others.
//! 8. *Pick*: the least vruntime; but a buddy comes first if that is no more unfair than rule 7 allows: whoever
//!    preempted, was yielded to or is left alone in its group's slice (next), then whoever was preempted in a crowd
//!    (last); and whoever yielded (skip) lets the second go.
//! 9. *Yield*: rule 8's skip. *Yield to*: the other is made next, and whoever yields to it yields.
//! 10. *Weight*: changes at once; vruntime is kept.
//!
//! *Groups* nest: a group has a queue per CPU, and its part on a CPU waits in the queue above like a task, with the weight
//! `group's · runnable here / runnable everywhere`. *Quotas* are in `bandwidth`, the choice of a CPU in `placement`, moving
//! work in `balance`. The class may share its CPUs with a more urgent and a less urgent one.
//!
//! Buddies are as in the kernel: whoever preempts becomes the next buddy, and so does a group one of whose tasks falls
//! asleep while others are left in it; the bound of rule 8 is scaled by the weight of the first, not of the candidate.
//! Differences from the kernel: loads are weights that are runnable now, not decayed averages; all of a cache is
//! searched for an idle CPU; an idle CPU called by another's tick looks for work at once; running tasks are not moved;
//! real-time classes, where this policy is asked to run them, count as SCHED_OTHER; reservations are ignored.
//!
//! Source: torvalds/linux kernel/sched/fair.c, core.c and features.h, v5.13.

mod balance;
mod bandwidth;
mod bounds;
mod chain;
mod placement;
mod runqueue;
#[cfg(test)]
mod tests;
mod tick;
mod tunables;
mod vruntime;

use balance::{Balancing, Level};
use bandwidth::Bandwidth;
use placement::Flips;
use runqueue::{Buddy, Leaving, NodeId, Placing, RunQueues, SHARES_LEAST, SHARES_MOST};
use sched::queue::Lists;
use sched::{
    Alarm, AlarmKind, AlarmSlots, Class, CpuId, CpuSet, Cx, Descriptor, EntityId, GroupChange, GroupId, GroupParams,
    Host, Instant, Keeps, Knobs, Nanos, Of, Params, Policy, Refused, Slice, Stopped, Wake, Weight, Why,
};
use tick::Arrival;
use tunables::Tunables;

/// What the rest of the system knows of it.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "cfs",
    title: "Linux's fair class before EEVDF: least weighted CPU time first",
    source: "Linux v5.13, kernel/sched/fair.c",
    good_for: "sharing CPUs by weight, in nested groups with quotas, among tasks nobody has described",
    bad_at: "promises in time: how soon a task runs depends on how many others there are and when they slept",
    text: include_str!("mod.rs"),
    conserving: bounds::conserving,
    starvation: bounds::starvation,
    keeps: Keeps { quota: bounds::quota, ..Keeps::NOTHING },
    alarms: AlarmSlots { cpu: &[AlarmKind::Tick], group: &[AlarmKind::Timer, AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: tunables::KNOBS,
    build,
};

fn build(host: &Host, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Cfs::new(host, Tunables::new(host, knobs))))
}

/// What is known of an entity beyond its node.
#[derive(Clone, Copy)]
struct Task {
    id: EntityId,
    /// Whether `id` is attached; else it is the last one that was.
    member: bool,
    /// The CPU in whose queues it is, or was last.
    cpu: CpuId,
    /// The last CPU it woke others from: another place where its cache may be warm.
    recent_cpu: CpuId,
    flips: Flips,
    /// When it last ran, if it was on this CPU.
    ran_at: Option<Instant>,
    /// Whether it is held because a group above it is throttled.
    held: bool,
}

/// What is known of a CPU beyond its queues.
struct Cpu {
    /// Who runs here.
    current: Option<EntityId>,
    /// Counts decisions, from 1.
    turn: u64,
    /// When the current turn's loser was put back.
    put_at: Instant,
    /// Since when it has had nothing to run; `None`: it has, or a task woke here.
    idle_since: Option<Instant>,
    average_idle: Nanos,
    /// Whether another CPU's tick called it to pull work.
    called: bool,
    /// Whether its tick is set only because a more urgent class might come first.
    ticks_in_case: bool,
    /// One for each level.
    balancing: Vec<Balancing>,
}

struct Cfs {
    queues: RunQueues,
    /// By entity index.
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// By group index.
    bandwidths: Vec<Bandwidth>,
    /// The runnable tasks of each CPU, the one that ran longest ago first: the order in which they are migrated.
    recency: Lists,
    levels: Vec<Level>,
    /// The CPUs that found nothing to run.
    idle: CpuSet,
}

impl Cfs {
    fn new(host: &Host, tunables: Tunables) -> Cfs {
        let levels = Level::all(host, tunables.imbalance);
        let cpu = || Cpu {
            current: None,
            turn: 1,
            put_at: Instant::ZERO,
            idle_since: Some(Instant::ZERO),
            average_idle: tunables.migration_cost.saturating_mul(2),
            called: false,
            ticks_in_case: false,
            balancing: levels.iter().map(Balancing::new).collect(),
        };
        Cfs {
            queues: RunQueues::new(host.cpus, tunables),
            tasks: Vec::new(),
            cpus: host.iter().map(|_| cpu()).collect(),
            bandwidths: vec![Bandwidth::unlimited(GroupId::ROOT)],
            recency: Lists::new(host.cpus),
            levels,
            idle: host.all(),
        }
    }

    fn is_member(&self, e: EntityId) -> bool {
        self.tasks.get(e.index()).is_some_and(|task| task.member && task.id == e)
    }

    fn is_runnable(&self, e: EntityId) -> bool {
        self.queues.node(NodeId::task(e)).queued
    }

    /// `e` is forked: it starts behind the others of the queue it is made on, and perhaps on another CPU.
    fn fork(&mut self, e: EntityId, parent: Option<EntityId>, cx: &mut Cx<'_>) {
        let id = NodeId::task(e);
        let why = Wake::New { parent };
        let Some(parent) = parent.filter(|&parent| self.is_member(parent)) else {
            let cpu = self.select(e, why, cx);
            self.assign(e, cpu, cx);
            self.charge_current(cpu, cx);
            self.queues.place_forked(id, None);
            return;
        };
        let made_on = self.tasks[parent.index()].cpu;
        self.charge_current(made_on, cx);
        self.assign(e, made_on, cx);
        let queue = self.queues.node(id).queue;
        let current = self.queues.queue(queue).current;
        let sibling = Some(NodeId::task(parent)).filter(|&parent| self.queues.node(parent).queue == queue);
        self.queues.place_forked(id, sibling.or(current).map(|from| self.queues.node(from).vruntime));
        if self.queues.tunables.child_runs_first
            && let Some(current) = current
            && self.queues.let_pass(id, current)
        {
            cx.kick(made_on);
        }
        self.queues.detach_clock(id);
        let cpu = self.select(e, why, cx);
        self.assign(e, cpu, cx);
    }

    /// Takes `e`, which waits where it may not run any more, to where it may.
    fn evict(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let to = self.idlest(e, self.tasks[e.index()].cpu, cx);
        self.migrate(e, to, cx);
        self.check_preempt(e, Arrival::Other, cx);
    }

    /// Puts `e` into the queue of another group, on the same CPU.
    fn change_group(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let cpu = self.tasks[e.index()].cpu;
        let queue = self.queues.queue_of(cx.params(e).group, cpu);
        if self.cpus[cpu.index()].current == Some(e) {
            self.switch_queue(e, queue, cx);
        } else if self.is_runnable(e) {
            self.requeue(e, queue, cx);
            self.check_preempt(e, Arrival::Other, cx);
        } else {
            self.queues.move_sleeper(NodeId::task(e), queue);
        }
    }

    /// Rule 10.
    fn change_weight(&mut self, e: EntityId, weight: u64, idle: bool, cx: &mut Cx<'_>) {
        let (cpu, id) = (self.tasks[e.index()].cpu, NodeId::task(e));
        self.charge_current(cpu, cx);
        let before = *self.queues.node(id);
        self.queues.reweigh(id, weight);
        self.queues.node_mut(id).idle = idle;
        if !before.queued {
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

/// The weight and whether it is a SCHED_IDLE task.
fn load_of(params: &Params) -> (u64, bool) {
    match params.class {
        Class::Idle => (u64::from(Weight::IDLE.as_linux()), true),
        _ => (u64::from(params.weight.as_linux()), false),
    }
}

fn shares_of(params: &GroupParams) -> u64 {
    u64::from(params.weight.as_linux()).clamp(SHARES_LEAST, SHARES_MOST)
}

impl Policy for Cfs {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let cpu = cx.last_cpu(e);
        let task = Task { id: e, member: true, cpu, recent_cpu: cpu, flips: Flips::NONE, ran_at: None, held: false };
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, Task { member: false, ..task });
        }
        self.tasks[e.index()] = task;
        self.recency.reserve(e);
        let (weight, idle) = load_of(cx.params(e));
        self.queues.open_task(e, self.queues.queue_of(cx.params(e).group, cpu), weight, idle);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        assert!(!self.is_runnable(e), "{e} leaves blocked");
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
        let cpu = self.tasks[e.index()].cpu;
        if self.is_runnable(e) && self.cpus[cpu.index()].current != Some(e) && !cx.may_run(e, cpu) {
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
                    return unlimited.then_some(()).ok_or(Refused::Unsupported(
                        "cfs: the root group has no quota; right would be a quota on a group below it",
                    ));
                }
                self.queues.set_shares(g, shares_of(&params));
                for cpu in cx.host().iter() {
                    self.queues.update_shares_from(NodeId::part(self.queues.queue_of(g, cpu)));
                }
                if params.quota != old.quota {
                    self.set_quota(g, params.quota, cx);
                }
            }
            GroupChange::Removed => self.bandwidths[g.index()] = Bandwidth::unlimited(g),
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        let (placing, arrival) = if let Wake::New { parent } = why {
            self.fork(e, parent, cx);
            (Placing::Keep, Arrival::Forked)
        } else {
            let cpu = self.select(e, why, cx);
            if cpu != self.tasks[e.index()].cpu {
                self.queues.detach_clock(NodeId::task(e));
                self.assign(e, cpu, cx);
            }
            (Placing::Credit, Arrival::Woken)
        };
        self.note_wake_up(self.tasks[e.index()].cpu, cx.now());
        self.enqueue(e, placing, cx);
        self.check_preempt(e, arrival, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.dequeue(e, Leaving::Sleep, cx);
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
        match (alarm.of, alarm.slot) {
            (Of::Cpu(cpu), _) => self.tick(cpu, cx),
            (Of::Group(g), bandwidth::PERIOD) => self.end_period(g.index(), cx),
            (Of::Group(g), bandwidth::SLACK) => self.end_slack(g.index(), cx),
            _ => unreachable!("{alarm:?} is never set"),
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        let state = &mut self.cpus[cpu.index()];
        assert_eq!(state.current, Some(e), "who stops was picked");
        state.current = None;
        state.put_at = cx.now();
        let turn = state.turn;
        match prev.why {
            Why::Blocked => self.dequeue(e, Leaving::Sleep, cx),
            Why::Yielded if self.queues.root(cpu).tasks.all > 1 => self.queues.skip(NodeId::task(e)),
            Why::Yielded | Why::Expired | Why::Kicked => {}
        }
        self.switch_out_chain(e, turn, cx);
        if prev.why != Why::Blocked && !cx.may_run(e, cpu) {
            self.evict(e, cx);
        }
        self.tick_in_case(cpu, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Slice {
        if self.queues.root(cpu).tasks.all == 0 {
            self.pull_for_idle(cpu, cx);
        }
        let has_work = self.queues.root(cpu).tasks.all > 0;
        let state = &mut self.cpus[cpu.index()];
        state.called = false;
        if state.put_at != cx.now() {
            // Whoever ran here last has not just been put back, so nobody goes on.
            state.turn += 1;
        }
        let turn = state.turn;
        state.turn += 1;
        if !has_work {
            state.idle_since.get_or_insert(cx.now());
            self.idle.insert(cpu);
            return Slice::IDLE;
        }
        state.idle_since = None;
        self.idle.remove(cpu);
        let e = self.switch_in_chain(cpu, turn);
        self.look_at_later(e, cpu);
        self.cpus[cpu.index()].current = Some(e);
        self.settle_tick(cpu, cx);
        Slice::forever(e)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let id = NodeId::task(e);
        let node = self.queues.node(id);
        show("vruntime", node.vruntime.as_ns());
        show("weight", node.weight.cast_signed());
        show("sum_exec", node.sum_exec.as_ns().cast_signed());
        show("slice", self.queues.slice(id).as_ns().cast_signed());
        show("min_vruntime", self.queues.queue(node.queue).min_vruntime.as_ns());
        show("cpu", i64::try_from(self.tasks[e.index()].cpu.index()).expect("a CPU number is small"));
    }
}
