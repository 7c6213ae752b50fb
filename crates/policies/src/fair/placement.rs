//! The CPU of a woken or forked task: near its waker or its last CPU, and idle if possible.
//!
//! Source: kernel/sched/fair.c (`select_task_rq_fair` and below), v5.13, simplified. Load is the weight that is
//! runnable now, not its decayed average. The search for an idle CPU covers all CPUs of the cache.

use super::Fair;
use super::domain::span;
use super::node::NodeId;
use super::rule::Rule;
use super::tunables::SMT_IMBALANCE;
use sched::{CpuId, CpuSet, Cx, EntityId, GroupId, Instant, Running, State, Topology, Wake};

impl<R: Rule> Fair<R> {
    // ---- Load of a CPU ----

    /// Returns whether a fair task put on `cpu` would run at once. That is the case if no fair task is runnable there,
    /// no more urgent class has the CPU, and `cpu` is not a preempted vCPU.
    #[inline]
    pub(super) fn is_idle(&self, cpu: CpuId, cx: &Cx<'_>) -> bool {
        self.queues.root(cpu).tasks.all == 0
            && matches!(cx.running(cpu), Running::Idle | Running::Below)
            && !cx.preempted(cpu)
    }

    /// Returns whether `cpu` has no runnable fair task, or with `idle-class-cpus` only SCHED_IDLE tasks, and does not
    /// run a more urgent class.
    #[inline]
    fn is_as_good_as_idle(&self, cpu: CpuId, cx: &Cx<'_>) -> bool {
        let tasks = self.queues.root(cpu).tasks;
        let spare = if self.queues.tunables.idle_class_cpus { tasks.idle } else { 0 };
        tasks.all == spare && cx.running(cpu) != Running::Above
    }

    pub(super) fn load(&self, cpu: CpuId) -> u64 {
        self.queues.root(cpu).load
    }

    // ---- Allowed CPUs ----

    /// Returns whether `e` may be put in the queue of `cpu`: its affinity must allow `cpu`. If siblings are kept apart,
    /// `cpu` must have no runnable sibling of `e`, unless every allowed CPU has one.
    #[inline]
    pub(super) fn may_be_put(&self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) -> bool {
        cx.may_run(e, cpu) && (!self.apart || self.is_apart(e, cpu, cx))
    }

    fn is_apart(&self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) -> bool {
        let group = cx.params(e).group;
        if group == GroupId::ROOT {
            return true;
        }
        let runnable = cx.members(group).filter(|&other| other != e && cx.state(other) != State::Blocked);
        let taken: CpuSet = runnable.map(|sibling| self.tasks[sibling.index()].cpu).collect();
        !taken.contains(cpu) || cx.allowed(e).minus(&taken).is_empty()
    }

    // ---- Wake-up ----

    /// Returns the CPU on which `e` wakes.
    pub(super) fn select(&mut self, e: EntityId, why: Wake, cx: &Cx<'_>) -> CpuId {
        let prev = self.tasks[e.index()].cpu;
        let target = match why {
            Wake::New { .. } => return self.idlest(e, cx.here(), cx),
            Wake::By { waker, sync } => self.affine(e, waker, sync, cx),
            Wake::Interrupt | Wake::Timer | Wake::Resumed => prev,
        };
        if !self.may_be_put(e, target, cx) {
            return self.idlest(e, target, cx);
        }
        self.idle_sibling(e, prev, target, cx)
    }

    /// Returns the waker's CPU or the last CPU of `e`, whichever is better for `e`.
    fn affine(&mut self, e: EntityId, waker: EntityId, sync: bool, cx: &Cx<'_>) -> CpuId {
        let (prev, this) = (self.tasks[e.index()].cpu, cx.here());
        if self.is_member(waker) {
            self.tasks[waker.index()].flips.record(e, cx.now());
            if self.is_wide(e, waker, cx.topology()) {
                return prev;
            }
        }
        if !self.may_be_put(e, this, cx) {
            return prev;
        }
        if self.is_member(waker) {
            self.tasks[waker.index()].recent_cpu = this;
        }
        let goes_there = this != prev
            && self.affine_idle(prev, this, sync, cx).unwrap_or_else(|| self.affine_weight(e, waker, sync, cx));
        if goes_there { this } else { prev }
    }

    /// Returns whether waker and wakee have too many wake-up partners for the CPUs of one cache.
    fn is_wide(&self, e: EntityId, waker: EntityId, host: &Topology) -> bool {
        let (a, b) = (self.tasks[waker.index()].flips.count, self.tasks[e.index()].flips.count);
        let (least, most, factor) = (a.min(b), a.max(b), host.llc as u64);
        if self.queues.tunables.old_affinity {
            // In v3.17, the count of the wakee must exceed the number of CPUs of a cache. The count of the waker must
            // exceed the wakee's count times this number.
            return b > factor && a > factor * b;
        }
        least >= factor && most >= least * factor
    }

    /// Returns `Some(true)` if the waker's CPU is better because it idles or is about to idle. Returns `Some(false)` if
    /// both CPUs idle, and `None` if idleness does not decide.
    fn affine_idle(&self, prev: CpuId, this: CpuId, sync: bool, cx: &Cx<'_>) -> Option<bool> {
        if !self.queues.tunables.wake_affine_idle {
            return None;
        }
        if self.is_idle(this, cx) && cx.topology().share_cache(this, prev) {
            return Some(!self.is_idle(prev, cx));
        }
        (sync && self.queues.root(this).tasks.all == 1 && cx.running(this) != Running::Above).then_some(true)
    }

    /// Returns whether the waker's CPU is less loaded than the last CPU of `e`. `e` is blocked, so its weight is in
    /// neither load. The weight is added to the load of the waker's CPU, and need not be subtracted from the other
    /// load.
    fn affine_weight(&self, e: EntityId, waker: EntityId, sync: bool, cx: &Cx<'_>) -> bool {
        let tunables = &self.queues.tunables;
        if !tunables.wake_affine_weight {
            return false;
        }
        let (prev, this) = (self.tasks[e.index()].cpu, cx.here());
        let mut here = self.load(this);
        if sync && self.is_member(waker) {
            here = here.saturating_sub(self.queues.root_load(NodeId::task(waker)));
        }
        if tunables.old_affinity && here == 0 {
            return true;
        }
        here += self.queues.root_load(NodeId::task(e));
        let mut there = self.load(prev);
        if tunables.wake_affine_bias {
            let imbalance = if cx.topology().share_core(this, prev) { SMT_IMBALANCE } else { tunables.imbalance };
            here *= 100;
            there *= 100 + (imbalance - 100) / 2;
        }
        here < there + u64::from(sync || tunables.old_affinity)
    }

    /// Returns an idle CPU that shares the cache of `target` and may run `e`; else `target`.
    fn idle_sibling(&mut self, e: EntityId, prev: CpuId, target: CpuId, cx: &Cx<'_>) -> CpuId {
        let host = cx.topology();
        // Most CPUs are busy, so idleness is tested first.
        let good =
            |cpu| self.is_as_good_as_idle(cpu, cx) && host.share_cache(cpu, target) && self.may_be_put(e, cpu, cx);
        let recent = self.tasks[e.index()].recent_cpu;
        if let Some(cpu) = [target, prev].into_iter().find(|&cpu| good(cpu)) {
            return cpu;
        }
        if self.queues.tunables.recent_cpu && good(recent) {
            self.tasks[e.index()].recent_cpu = prev;
            return recent;
        }
        let cache = || {
            let (behind, before): (usize, usize) = (target.index() + 1, target.index());
            let all = move |from: usize, to: usize| (from..to).map(CpuId::new);
            let start = target.index() / host.llc * host.llc;
            all(behind, (start + host.llc).min(host.cpus)).chain(all(start, before))
        };
        if self.queues.tunables.whole_cores {
            return self.idle_core(e, target, cx).unwrap_or(target);
        }
        let whole_core = |&cpu: &CpuId| good(cpu) && span(host, cpu, host.smt).all(|cpu| self.is_idle(cpu, cx));
        if host.smt > 1
            && let Some(cpu) = cache().find(whole_core)
        {
            return cpu;
        }
        cache().find(|&cpu| good(cpu)).unwrap_or(target)
    }

    /// Returns the idle CPU that v3.17 selects. The CPU is in the first fully idle core that shares the cache of
    /// `target`; the search starts at the core of `target`. If there is no such core, the CPU is an idle thread of the
    /// core of `target`.
    fn idle_core(&self, e: EntityId, target: CpuId, cx: &Cx<'_>) -> Option<CpuId> {
        let host = cx.topology();
        let idles = |&cpu: &CpuId| cpu != target && self.is_as_good_as_idle(cpu, cx);
        let first_allowed = |cpu: CpuId, size: usize| span(host, cpu, size).find(|&cpu| self.may_be_put(e, cpu, cx));
        let all = span(host, target, host.llc).step_by(host.smt);
        let own = target.index() / host.smt * host.smt;
        let (behind, before) = (all.clone().filter(|cpu| cpu.index() >= own), all.filter(|cpu| cpu.index() < own));
        let whole = behind.chain(before).filter(|&core| span(host, core, host.smt).all(|cpu| idles(&cpu)));
        let found = whole.filter_map(|core| first_allowed(core, host.smt)).next();
        found.or_else(|| span(host, target, host.smt).find(|cpu| idles(cpu) && self.may_be_put(e, *cpu, cx)))
    }

    // ---- Fork ----

    /// Returns the CPU on which `e` should start or resume. First selects the cache with the most idle CPUs or, if no
    /// CPU idles, with the minimum load per CPU. The cache of `here` is preferred. In this cache, selects the best idle
    /// CPU or, if no CPU idles, the CPU with the minimum load.
    pub(super) fn idlest(&self, e: EntityId, here: CpuId, cx: &Cx<'_>) -> CpuId {
        let host = cx.topology();
        let caches = host.cpus.div_ceil(host.llc);
        let local = here.index() / host.llc;
        // The local cache is first and wins ties.
        let order = core::iter::once(local).chain((0..caches).filter(|&cache| cache != local));
        let summed = order.filter_map(|cache| self.sum_cache(e, cache, cx));
        let best = summed.reduce(|best, other| {
            let imbalance = if best.cache == local { self.queues.tunables.imbalance } else { 100 };
            if other.is_idler(&best, imbalance) { other } else { best }
        });
        let cache = best.expect("an affinity contains a CPU").cache;
        let first = CpuId::new(cache * host.llc);
        let allowed = span(host, first, host.llc).filter(|&cpu| self.may_be_put(e, cpu, cx));
        allowed.min_by_key(|&cpu| self.reluctance(cpu, here, cx)).expect("the cache has an allowed CPU")
    }

    /// Returns the sums over the CPUs of a cache on which `e` may run; `None` if no CPU of the cache may run `e`.
    fn sum_cache(&self, e: EntityId, cache: usize, cx: &Cx<'_>) -> Option<CacheSum> {
        let mut sum = CacheSum { cache, cpus: 0, idle: 0, load: 0 };
        for cpu in span(cx.topology(), CpuId::new(cache * cx.topology().llc), cx.topology().llc) {
            if self.may_be_put(e, cpu, cx) {
                sum.cpus += 1;
                sum.idle += u64::from(self.is_idle(cpu, cx));
                sum.load += self.load(cpu);
            }
        }
        (sum.cpus > 0).then_some(sum)
    }

    /// Returns a key that is minimal for the best CPU of a new task. Idle CPUs precede busy CPUs. Of two idle CPUs, the
    /// CPU with more idle threads on its core is first, then the CPU that became idle later. Busy CPUs are in ascending
    /// order of load. Among equal CPUs, `here` is first.
    fn reluctance(&self, cpu: CpuId, here: CpuId, cx: &Cx<'_>) -> (bool, usize, u64, bool, usize) {
        let idle = self.is_idle(cpu, cx);
        let threads = span(cx.topology(), cpu, cx.topology().smt).filter(|&other| !self.is_idle(other, cx)).count();
        let order = if idle {
            let since = self.cpus[cpu.index()].idle_since;
            since.map_or(u64::MAX, |since| cx.now().since(since).as_ns())
        } else {
            self.load(cpu)
        };
        (!idle, if idle { threads } else { 0 }, order, cpu != here, cpu.index())
    }

    // ---- Idle times ----

    /// Records a wake-up on `cpu`. If the CPU idled, updates its average idle time.
    pub(super) fn note_wake_up(&mut self, cpu: CpuId, now: Instant) {
        let most = self.queues.tunables.migration_cost.saturating_mul(2);
        let state = &mut self.cpus[cpu.index()];
        if let Some(since) = state.idle_since.take() {
            let (average, sample) = (state.average_idle, now.since(since).min(most));
            state.average_idle = if sample > average {
                average + (sample - average).scale(1, 8)
            } else {
                average - (average - sample).scale(1, 8)
            };
        }
    }
}

/// Sums over the CPUs of a cache on which a task may run: CPUs, idle CPUs, and load.
#[derive(Clone, Copy, Debug)]
struct CacheSum {
    cache: usize,
    cpus: u64,
    idle: u64,
    load: u64,
}

impl CacheSum {
    /// Returns whether a task should start on a CPU of this cache rather than of `best`. More idle CPUs are better. If
    /// neither cache has an idle CPU, the lower load per CPU is better, after that of this cache is multiplied by
    /// `imbalance` percent.
    fn is_idler(&self, best: &CacheSum, imbalance: u64) -> bool {
        if self.idle != best.idle {
            return self.idle > best.idle;
        }
        let product = |a: u64, b: u64, c: u64| u128::from(a) * u128::from(b) * u128::from(c);
        self.idle == 0 && product(self.load, best.cpus, imbalance) < product(best.load, self.cpus, 100)
    }
}
