//! Quotas: a group's CPU time per quota period (`cpu.max`), over all CPUs.
//!
//! At the beginning of every quota period, the group's pool is refilled to the quota. A CPU that runs tasks of the
//! group takes bandwidth slices, by default of 5 ms, from the pool. When a slice is used up and the pool is empty, the
//! group is throttled on that CPU. The group entity of that CPU leaves the queue above, and all tasks below the group
//! entity are held. The tasks are released when new quota covers the debt of the CPU and one nanosecond more. New quota
//! comes from the next period, or is returned by another CPU. CPU time is charged at ticks and switches, so a CPU may
//! exceed its bandwidth slice by up to one tick. The excess is a debt, which is paid from the next quota that the CPU
//! receives. When the group becomes idle on a CPU, the CPU keeps 1 ms of its bandwidth slice and returns the rest to
//! the pool. A slack timer distributes the returned quota to throttled queues.
//!
//! Source: kernel/sched/fair.c (CFS bandwidth), v5.13; Documentation/scheduler/sched-bwc.

use super::Fair;
use super::node::NodeId;
use super::quota::{PERIOD, SLACK};
use super::rule::Rule;
use super::runqueue::{Leaving, Placing, Tasks};
use sched::{Cx, EntityId, GroupId, Nanos, Quota, Running};

/// Part of its bandwidth slice that a CPU keeps when the group becomes idle on the CPU. Source: `min_cfs_rq_runtime`.
const KEPT: Nanos = Nanos::ms(1);
/// Delay from the return of quota to its distribution. During the delay, other CPUs can return quota, too. Source:
/// `cfs_bandwidth_slack_period`.
const SLACK_PERIOD: Nanos = Nanos::ms(5);
/// The slack timer is not used if the next refill is due within this time after the timer's expiry. Source:
/// `min_bandwidth_expiration`.
const REFILL_NEAR: Nanos = Nanos::ms(2);

impl<R: Rule> Fair<R> {
    // ---- Requests ----

    /// Sets the quota of a group, or removes it. Afterwards, no CPU has a debt, and no queue of the group is throttled.
    /// With a quota, the pool is full.
    pub(super) fn set_quota(&mut self, g: GroupId, quota: Option<Quota>, cx: &mut Cx<'_>) {
        let bandwidth = &mut self.bandwidths[g.index()];
        bandwidth.quota = quota;
        bandwidth.pool = quota.map_or(Nanos::ZERO, |quota| quota.quota);
        let (period, slack) = (bandwidth.alarm(PERIOD), bandwidth.alarm(SLACK));
        for cpu in cx.topology().iter() {
            let at = self.queues.queue_of(g, cpu);
            let queue = self.queues.queue_mut(at);
            queue.limited = quota.is_some();
            queue.remaining = 0;
        }
        while let Some(queue) = self.pop_throttled(g.index()) {
            self.unthrottle(queue, cx);
        }
        if quota.is_some() {
            self.start_period(g.index(), cx);
            cx.topology().iter().for_each(|cpu| self.arm_tick(cpu, cx));
        } else {
            cx.clear_alarm(period);
            cx.clear_alarm(slack);
        }
    }

    // ---- Charges ----

    /// Charges `ran` to the quota of the group of queue `at`.
    pub(super) fn account(&mut self, at: usize, ran: Nanos, cx: &mut Cx<'_>) {
        let queue = self.queues.queue_mut(at);
        if !queue.limited {
            return;
        }
        queue.remaining -= ran.as_ns().cast_signed();
        if queue.remaining > 0 || queue.throttled {
            return;
        }
        let runs = queue.current.is_some();
        if !self.take(at, self.queues.tunables.bandwidth_slice, cx) && runs {
            cx.kick(self.queues.queue(at).cpu);
        }
    }

    /// Takes quota from the pool until queue `at` has `target` or the pool is empty. Returns whether the queue now has
    /// quota left.
    fn take(&mut self, at: usize, target: Nanos, cx: &mut Cx<'_>) -> bool {
        let group = self.queues.queue(at).group;
        self.start_period(group, cx);
        let bandwidth = &mut self.bandwidths[group];
        let queue = self.queues.queue_mut(at);
        if !bandwidth.pool.is_zero() {
            assert!(queue.remaining <= 0, "a queue with quota left takes none");
            let taken = bandwidth.pool.min(target + Nanos::ns(queue.remaining.unsigned_abs()));
            bandwidth.pool -= taken;
            bandwidth.idle = false;
            queue.remaining += taken.as_ns().cast_signed();
        }
        queue.remaining > 0
    }

    /// Throttles queue `at`, which its first node has just joined, if the group has no quota left.
    pub(super) fn check_enqueue(&mut self, at: usize, cx: &mut Cx<'_>) {
        let queue = self.queues.queue(at);
        if !queue.limited || queue.current.is_some() || queue.throttled {
            return;
        }
        self.account(at, Nanos::ZERO, cx);
        if self.queues.queue(at).remaining <= 0 {
            self.throttle(at, cx);
        }
    }

    /// Throttles queue `at`, whose current node has just been put back, if the group's quota is used up.
    pub(super) fn check_used_up(&mut self, at: usize, cx: &mut Cx<'_>) {
        let queue = self.queues.queue(at);
        if queue.limited && !queue.throttled && queue.remaining <= 0 {
            self.throttle(at, cx);
        }
    }

    /// Moves the unused quota of queue `at`, except 1 ms, to the pool if the queue has no node left.
    pub(super) fn return_quota(&mut self, at: usize, cx: &mut Cx<'_>) {
        let queue = self.queues.queue_mut(at);
        let kept = KEPT.as_ns().cast_signed();
        if !queue.limited || queue.nodes > 0 || queue.remaining <= kept {
            return;
        }
        let returned = Nanos::ns((queue.remaining - kept).unsigned_abs());
        queue.remaining = kept;
        let bandwidth = &mut self.bandwidths[queue.group];
        bandwidth.pool += returned;
        if bandwidth.pool <= self.queues.tunables.bandwidth_slice || bandwidth.first.is_none() {
            return;
        }
        let (slack, period) = (bandwidth.alarm(SLACK), bandwidth.alarm(PERIOD));
        let soon = cx.now() + SLACK_PERIOD + REFILL_NEAR;
        let refill_near = cx.alarm_at(period).is_none_or(|at| at < soon);
        if !refill_near && cx.alarm_at(slack).is_none() {
            let at = cx.now() + SLACK_PERIOD;
            cx.set_alarm(slack, cx.here(), at);
        }
    }

    // ---- Periods ----

    /// Starts the refill timer if the timer is not running.
    fn start_period(&mut self, group: usize, cx: &mut Cx<'_>) {
        let bandwidth = &mut self.bandwidths[group];
        let Some(Quota { period, .. }) = bandwidth.quota else { return };
        let alarm = bandwidth.alarm(PERIOD);
        if cx.alarm_at(alarm).is_none() {
            bandwidth.boundary = cx.now().next_tick(period, Nanos::ns(bandwidth.boundary.as_ns()));
            cx.set_alarm(alarm, cx.here(), bandwidth.boundary);
        }
    }

    /// Ends a quota period. If no CPU has taken quota in this period, refills stop until a CPU takes quota.
    pub(super) fn end_period(&mut self, group: usize, cx: &mut Cx<'_>) {
        let bandwidth = &mut self.bandwidths[group];
        let quota = bandwidth.quota.expect("only a group with a quota has periods");
        if bandwidth.idle && bandwidth.first.is_none() {
            return;
        }
        bandwidth.pool = quota.quota;
        if bandwidth.first.is_none() {
            bandwidth.idle = true;
        } else {
            self.distribute(group, cx);
            self.bandwidths[group].idle = false;
        }
        self.start_period(group, cx);
    }

    /// Handles the expiry of the slack timer.
    pub(super) fn end_slack(&mut self, group: usize, cx: &mut Cx<'_>) {
        let bandwidth = &self.bandwidths[group];
        let refill_near = cx.alarm_at(bandwidth.alarm(PERIOD)).is_none_or(|at| at < cx.now() + REFILL_NEAR);
        if !refill_near && bandwidth.pool > self.queues.tunables.bandwidth_slice {
            self.distribute(group, cx);
        }
    }

    /// Gives each throttled queue enough quota to cover its debt and one nanosecond more, in the order of throttling,
    /// until the pool is empty.
    fn distribute(&mut self, group: usize, cx: &mut Cx<'_>) {
        while let Some(at) = self.bandwidths[group].first {
            let queue = self.queues.queue_mut(at);
            assert!(queue.remaining <= 0, "a throttled queue has no quota left");
            let owed = Nanos::ns(queue.remaining.unsigned_abs() + 1);
            let bandwidth = &mut self.bandwidths[group];
            let paid = owed.min(bandwidth.pool);
            bandwidth.pool -= paid;
            queue.remaining += paid.as_ns().cast_signed();
            if queue.remaining <= 0 {
                return;
            }
            self.pop_throttled(group);
            self.unthrottle(at, cx);
        }
    }

    // ---- Throttling ----

    /// Throttles the group of queue `at` on the CPU of the queue, unless the pool covers the debt of the queue and one
    /// nanosecond more.
    fn throttle(&mut self, at: usize, cx: &mut Cx<'_>) {
        if self.take(at, Nanos::ns(1), cx) {
            return;
        }
        self.push_throttled(at);
        self.each_task(at, &mut |fair, e| fair.hold(e, cx));
        let tasks = self.queues.queue(at).tasks;
        let part = NodeId::part(at);
        if self.queues.node(part).queued {
            self.leave_chain(part, Leaving::Halt, tasks, cx);
        }
        self.queues.queue_mut(at).throttled = true;
    }

    /// Unthrottles the group of queue `at` on the CPU of the queue: the group entity of that CPU rejoins the queue
    /// above.
    fn unthrottle(&mut self, at: usize, cx: &mut Cx<'_>) {
        let cpu = self.queues.queue(at).cpu;
        self.charge_current(cpu, cx);
        self.queues.queue_mut(at).throttled = false;
        let tasks = self.queues.queue(at).tasks;
        if self.queues.queue(at).nodes == 0 {
            return;
        }
        let placing = if self.queues.tunables.place_unthrottled { Placing::Credit } else { Placing::Keep };
        self.join_chain(NodeId::part(at), placing, tasks, cx);
        if self.queues.is_throttled(at) {
            return;
        }
        self.each_task(at, &mut |fair, e| fair.release(e, cx));
        if self.queues.root(cpu).tasks == Tasks::default() {
            return;
        }
        if matches!(cx.running(cpu), Running::Idle | Running::Below) {
            cx.kick(cpu);
        }
        self.arm_tick(cpu, cx);
    }

    /// Calls `act` for every runnable task in `queue` and below it, except in and below throttled queues below it.
    fn each_task(&mut self, queue: usize, act: &mut dyn FnMut(&mut Fair<R>, EntityId)) {
        let current = self.queues.queue(queue).current.filter(|&id| self.queues.node(id).queued);
        let mut at = current.or_else(|| self.queues.first(queue));
        let mut in_tree = current.is_none();
        while let Some(id) = at {
            match id.entity_index() {
                Some(_) if self.queues.node(id).delayed => {}
                Some(index) => {
                    let e = self.tasks[index].id;
                    act(self, e);
                }
                None => self.each_task(id.own_queue().expect("it is no task"), act),
            }
            at = if in_tree { self.queues.next(id) } else { self.queues.first(queue) };
            in_tree = true;
        }
    }

    fn push_throttled(&mut self, at: usize) {
        let bandwidth = &mut self.bandwidths[self.queues.queue(at).group];
        match bandwidth.last {
            Some(last) => self.queues.queue_mut(last).next_throttled = Some(at),
            None => bandwidth.first = Some(at),
        }
        bandwidth.last = Some(at);
        self.queues.queue_mut(at).next_throttled = None;
    }

    fn pop_throttled(&mut self, group: usize) -> Option<usize> {
        let bandwidth = &mut self.bandwidths[group];
        let first = bandwidth.first?;
        bandwidth.first = self.queues.queue(first).next_throttled;
        if bandwidth.first.is_none() {
            bandwidth.last = None;
        }
        Some(first)
    }
}
