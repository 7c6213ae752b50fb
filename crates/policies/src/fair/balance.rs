//! Load balancing: moves waiting tasks to CPUs with less load.
//!
//! A CPU about to idle pulls a task, unless its idle times are too short on average (`migration-cost`). A CPU that
//! ticks while tasks wait in its queue kicks idle CPUs, which then pull. At intervals, a busy CPU compares its load
//! with that of other CPUs, and pulls half the difference; see `groups`. In v3.17, the load is the weight that is
//! runnable now. A CPU pulls from the nearest CPUs first: the hardware threads of its core, the cores of its cache, then
//! the whole machine.
//!
//! Source: kernel/sched/fair.c (`newidle_balance`, `nohz_balancer_kick`, `load_balance`, `detach_tasks`), v5.13 and
//! v6.17, simplified: CPU capacities and NUMA distances are ignored, and running tasks are not migrated. A kicked idle
//! CPU always searches for tasks, regardless of the balancing interval of its domain.

use super::domain::{Balancing, Level, PINNED_MOST, span};
use super::groups::Amount;
use super::node::NodeId;
use super::rule::{Arrival, Rule};
use super::runqueue::Buddy;
use super::tunables::{CACHE_NICE_TRIES, MIGRATE_MOST};
use super::{BALANCE, Fair};
use sched::{Alarm, AlarmOwner, CpuId, CpuSet, Cx, EntityId, Instant, Nanos, Running};

/// Time from a tick to the balance of a busy CPU. The kernel balances in a softirq after the tick, mostly after the
/// other CPUs have switched tasks at the same tick. On Linux 6.18 with two CPUs, tasks moved 5 to 18 µs after that
/// switch, in all of the 8 moves whose switch was recorded. This time decides only the order.
const AFTER_TICK: Nanos = Nanos::us(10);

/// One in so many balances precedes the switches of other CPUs at the same tick. Such a balance finds a waiting task
/// that is not cache-hot, and moves the task one balance earlier. Of 68 moves in 10 s of three hogs on Linux 6.18 with
/// two CPUs, 6 came this early.
const EARLY_ONE_IN: u64 = 11;

/// One in so many balances of a busy CPU is a tick late. On Linux 6.18 with two CPUs and HZ=250, 4 of 125 intervals
/// between balances were a tick too long.
const LATE_ONE_IN: u64 = 31;

/// The order of a balance and the ticks, in which CPUs race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Race {
    /// The balance follows the switches of other CPUs at its tick.
    After,
    /// The balance precedes these switches.
    Before,
    /// The balance is a tick late.
    Late,
}

impl Race {
    /// Returns the order at the tick of `cpu` at this instant. The order is pseudorandom, but the same in every run.
    const fn at(cpu: CpuId, at: Instant) -> Race {
        // The finaliser of SplitMix64 spreads neighbouring instants over all numbers.
        let mut n = at.as_ns().wrapping_add(cpu.index() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^= n >> 31;
        if n.is_multiple_of(LATE_ONE_IN) {
            return Race::Late;
        }
        if (n / LATE_ONE_IN).is_multiple_of(EARLY_ONE_IN) { Race::Before } else { Race::After }
    }
}

/// Returns the alarm at which `cpu` balances.
const fn balance_of(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: BALANCE }
}

/// A pull: source, destination and amount.
struct Pull {
    from: CpuId,
    to: CpuId,
    level: usize,
    amount: Amount,
    /// Whether the destination has no task to run.
    idle: bool,
}

/// The result of a pull.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pulled {
    moved: usize,
    /// Whether a task was left because the task was cache-hot or too heavy, so that it may move at a later pull.
    left: bool,
    /// Whether affinities or quotas prevented the move of every examined task.
    pinned: bool,
}

/// Whether a task may be pulled.
#[derive(PartialEq, Eq)]
enum Fit {
    Yes,
    /// Not yet: the task is cache-hot or too heavy.
    Reluctant,
    /// No: the task runs.
    Runs,
    /// No: the affinity of the task excludes the CPU, or the quota of its group is used up there.
    Pinned,
}

impl<R: Rule> Fair<R> {
    // ---- CPUs without work ----

    /// Pulls at most one task for `cpu`, which has no task to run. Tries nearer domains first, and in each domain CPUs
    /// with more tasks first. Unless a tick has kicked `cpu`, pulls only if another CPU has two tasks and `cpu` idles
    /// for long enough on average.
    pub(super) fn pull_for_idle(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let called = core::mem::take(&mut self.cpus[cpu.index()].called);
        let idles_long = self.cpus[cpu.index()].average_idle >= self.queues.tunables.migration_cost;
        if !called && (self.queues.overloaded == 0 || !idles_long) {
            return;
        }
        for level in 0..self.levels.len() {
            let pulled = self.pull_from_busiest(cpu, level, cx);
            let balancing = &mut self.cpus[cpu.index()].balancing[level];
            if pulled.moved > 0 {
                balancing.failed = 0;
                return;
            }
            if called && pulled.left {
                balancing.failed += 1;
            }
        }
    }

    /// Tries the CPUs of a domain, in descending order of the number of tasks, until a task is pulled.
    fn pull_from_busiest(&mut self, to: CpuId, level: usize, cx: &mut Cx<'_>) -> Pulled {
        let mut tried = CpuSet::one(to);
        let mut left = false;
        loop {
            let others = span(cx.topology(), to, self.levels[level].span).filter(|&cpu| !tried.contains(cpu));
            let busy = others.filter(|&cpu| self.can_spare(cpu, cx));
            let tasks = |cpu: CpuId| (self.queues.root(cpu).tasks.all, self.load(cpu), usize::MAX - cpu.index());
            let Some(from) = busy.max_by_key(|&cpu| tasks(cpu)) else {
                return Pulled { moved: 0, left, pinned: false };
            };
            tried.insert(from);
            let pulled = self.pull(&Pull { from, to, level, amount: Amount::Tasks(1), idle: true }, cx);
            left |= pulled.left;
            if pulled.moved > 0 {
                return pulled;
            }
        }
    }

    /// Returns whether `cpu` would still be busy after the loss of one fair task.
    fn can_spare(&self, cpu: CpuId, cx: &Cx<'_>) -> bool {
        let tasks = self.queues.root(cpu).tasks.all;
        tasks >= 2 || tasks == 1 && cx.running(cpu) == Running::Above
    }

    /// At a tick of `cpu`, kicks idle CPUs: for each task that waits on `cpu`, one CPU on which the task may run.
    pub(super) fn call_idle(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.idle.is_empty() || !self.can_spare(cpu, cx) {
            return;
        }
        let mut at = self.recency.first(cpu.index());
        for _ in 0..MIGRATE_MOST.min(self.recency.len(cpu.index())) {
            let e = at.expect("no further than there are tasks");
            at = self.recency.next(e);
            let group = cx.params(e).group;
            let takes = |&to: &CpuId| {
                let throttled = self.queues.is_throttled(self.queues.queue_of(group, to));
                self.is_idle(to, cx) && !cx.kicked(to) && self.may_be_put(e, to, cx) && !throttled
            };
            let taker = if cx.is_waiting(e) { self.idle.iter().find(takes) } else { None };
            match taker {
                Some(to) => {
                    self.cpus[to.index()].called = true;
                    cx.kick(to);
                }
                None => self.look_at_later(e, cpu),
            }
        }
    }

    /// Moves `e` to the end of the list of tasks that a pull from `cpu` examines.
    pub(super) fn look_at_later(&mut self, e: EntityId, cpu: CpuId) {
        self.recency.remove(e);
        self.recency.push_back(cpu.index(), e);
    }

    // ---- Busy CPUs ----

    /// At a tick of `cpu` while a fair task is runnable on `cpu`, sets the alarm for the balance if the balancing
    /// interval of a domain has expired.
    pub(super) fn plan_balance(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if !(0..self.levels.len()).any(|level| self.is_due(cpu, level, cx)) {
            return;
        }
        match Race::at(cpu, cx.now()) {
            Race::Before => self.balance_busy(cpu, cx),
            Race::After => cx.set_alarm(balance_of(cpu), cpu, cx.now().saturating_add(AFTER_TICK)),
            Race::Late => {}
        }
    }

    fn is_due(&self, cpu: CpuId, level: usize, cx: &Cx<'_>) -> bool {
        let Balancing { last, interval, .. } = self.cpus[cpu.index()].balancing[level];
        cx.now() >= last.saturating_add(self.busy_interval(interval))
    }

    /// After a tick of `cpu`, balances the domains whose balancing interval has expired, if a fair task is still
    /// runnable on `cpu`.
    pub(super) fn balance_busy(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.queues.root(cpu).tasks.all == 0 {
            return;
        }
        for level in 0..self.levels.len() {
            if self.is_due(cpu, level, cx) && self.balances_for_group(cpu, level, cx) {
                self.balance(cpu, level, cx);
                // Intervals are counted from tick to tick.
                let (now, tick) = (cx.now().as_ns(), self.queues.tunables.tick.as_ns());
                self.cpus[cpu.index()].balancing[level].last = Instant::at_ns(now / tick * tick);
            }
        }
    }

    /// Returns the balancing interval of a busy CPU: `interval` times `busy-factor`. With `off_beat`, the result is one
    /// tick shorter, so that successive balances do not always find the same tasks waiting. The interval is at most
    /// 100 ms per CPU of the host. Source: `get_sd_balance_interval` and `update_max_interval`, kernel/sched/fair.c,
    /// v5.10 and later.
    fn busy_interval(&self, interval: Nanos) -> Nanos {
        let tunables = &self.queues.tunables;
        let long = interval.saturating_mul(tunables.busy_factor).min(Nanos::ms(100 * self.cpus.len() as u64));
        if tunables.off_beat { long.saturating_sub(tunables.tick).max(tunables.tick) } else { long }
    }

    /// Returns whether `cpu`, which is busy, balances for its whole group: `cpu` is the first CPU of the group, and no
    /// other CPU of the group idles.
    fn balances_for_group(&self, cpu: CpuId, level: usize, cx: &Cx<'_>) -> bool {
        let mut group = span(cx.topology(), cpu, self.levels[level].group);
        let first = group.next();
        first == Some(cpu) && !group.any(|other| self.is_idle(other, cx))
    }

    fn balance(&mut self, cpu: CpuId, level: usize, cx: &mut Cx<'_>) {
        let mut except = CpuSet::EMPTY;
        let averages = self.queues.tunables.averages;
        loop {
            let found = if averages {
                self.imbalance(cpu, level, &except, cx)
            } else {
                self.imbalance_of_weights(cpu, level, cx)
            };
            let shortest = self.levels[level].interval();
            let Some((from, amount)) = found else {
                let most = if except.is_empty() { shortest.saturating_mul(2) } else { PINNED_MOST };
                self.cpus[cpu.index()].balancing[level].balanced(most);
                return;
            };
            let pulled = self.pull(&Pull { from, to: cpu, level, amount, idle: false }, cx);
            if !pulled.pinned || !averages {
                let failed = pulled.moved == 0 && (averages || pulled.left);
                self.cpus[cpu.index()].balancing[level].unbalanced(shortest, failed);
                return;
            }
            // Another CPU may have tasks that may move.
            except.insert(from);
        }
    }

    /// Returns the CPU from which `cpu` is to pull in v3.17, and the load.
    fn imbalance_of_weights(&self, cpu: CpuId, level: usize, cx: &Cx<'_>) -> Option<(CpuId, Amount)> {
        let Level { span: size, group, imbalance } = self.levels[level];
        let local = self.group_load(cpu, group, cx);
        let firsts = span(cx.topology(), cpu, size).step_by(group);
        let others = firsts.filter(|first| first.index() / group != cpu.index() / group);
        let busy = others.map(|first| self.group_load(first, group, cx)).filter(|sum| sum.source.is_some());
        let busiest = busy.reduce(|best, other| if other.average > best.average { other } else { best })?;
        let amount = Amount::Load(busiest.average.saturating_sub(local.average) * busiest.cpus / 2);
        let from = busiest.source.expect("filtered");
        (busiest.average * 100 > local.average * imbalance).then_some((from, amount))
    }

    fn group_load(&self, first: CpuId, group: usize, cx: &Cx<'_>) -> GroupLoad {
        let cpus = span(cx.topology(), first, group);
        let (count, load) = cpus.fold((0, 0), |(count, load), cpu| (count + 1, load + self.load(cpu)));
        let sources = span(cx.topology(), first, group).filter(|&cpu| self.can_spare(cpu, cx));
        let source = sources.max_by_key(|&cpu| (self.load(cpu), usize::MAX - cpu.index()));
        GroupLoad { average: load / count, cpus: count, source }
    }

    // ---- Pulling ----

    /// Moves waiting tasks, in the order of `recency`.
    fn pull(&mut self, pull: &Pull, cx: &mut Cx<'_>) -> Pulled {
        let &Pull { from, to, level, amount, idle } = pull;
        let mut pulled = Pulled { moved: 0, left: false, pinned: true };
        let mut wanted = amount.value();
        for _ in 0..MIGRATE_MOST.min(self.recency.len(from.index())) {
            let Some(e) = self.recency.first(from.index()) else { break };
            if wanted == 0 || idle && !self.can_spare(from, cx) {
                break;
            }
            let quantity = self.quantity(e, amount, cx);
            // Each failure doubles the maximum load of a task that may move.
            let shift = self.cpus[to.index()].balancing[level].failed.min(63);
            let mut fit = self.fit(e, pull, cx);
            if fit == Fit::Yes && quantity >> shift > wanted {
                fit = Fit::Reluctant;
            }
            pulled.pinned &= fit == Fit::Pinned;
            if fit != Fit::Yes {
                pulled.left |= fit == Fit::Reluctant;
                self.look_at_later(e, from);
                continue;
            }
            self.migrate(e, to, cx);
            pulled.moved += 1;
            wanted = wanted.saturating_sub(quantity);
            if !idle {
                self.check_preempt(e, Arrival::Other, cx);
            }
        }
        pulled
    }

    /// Returns the contribution of `e` to the amount to pull.
    fn quantity(&mut self, e: EntityId, amount: Amount, cx: &Cx<'_>) -> u64 {
        self.note_task(e, cx.now());
        match amount {
            Amount::Tasks(_) => 1,
            Amount::Load(_) if self.queues.tunables.averages => self.movable_load(e),
            Amount::Load(_) => self.queues.root_load(NodeId::task(e)).max(1),
            Amount::Util(_) => self.tasks[e.index()].averages.util,
        }
    }

    fn fit(&self, e: EntityId, pull: &Pull, cx: &Cx<'_>) -> Fit {
        let queue = self.queues.queue_of(cx.params(e).group, pull.to);
        if !self.may_be_put(e, pull.to, cx) || self.queues.is_throttled(queue) {
            return Fit::Pinned;
        }
        if !cx.is_waiting(e) {
            return Fit::Runs;
        }
        let tries = self.cpus[pull.to.index()].balancing[pull.level].failed;
        if tries <= CACHE_NICE_TRIES && self.is_hot(e, pull, cx) { Fit::Reluctant } else { Fit::Yes }
    }

    /// Returns whether `e` is cache-hot.
    fn is_hot(&self, e: EntityId, pull: &Pull, cx: &Cx<'_>) -> bool {
        let id = NodeId::task(e);
        let (node, tunables) = (self.queues.node(id), &self.queues.tunables);
        if node.idle || cx.topology().share_core(pull.from, pull.to) {
            return false;
        }
        let buddy = |which| self.queues.buddy(node.queue, which) == Some(id);
        let busy = self.queues.root(pull.to).tasks.all > 0;
        if tunables.cache_hot_buddy && busy && (buddy(Buddy::Next) || buddy(Buddy::Last)) {
            return true;
        }
        self.tasks[e.index()].ran_at.is_some_and(|at| cx.now().since(at) < tunables.migration_cost)
    }
}

/// The load of the CPUs of a balanced group.
#[derive(Clone, Copy)]
struct GroupLoad {
    average: u64,
    cpus: u64,
    /// Most loaded CPU of the group that has a task to spare.
    source: Option<CpuId>,
}
