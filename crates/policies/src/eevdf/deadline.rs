//! The order of the run queues: of the eligible entities, the entity with the earliest virtual deadline is first.

use super::tunables::{Protection, Requests, SLICE_LEAST, SLICE_MOST};
use crate::fair::{Arrival, Buddy, Leaving, Node, NodeId, Order, Placing, Rule, RunQueue, RunQueues};
use sched::queue::Summary;
use sched::{Nanos, Params, Virtual};

/// The rule: of the eligible nodes, the node with the earliest virtual deadline is first.
#[derive(Debug)]
pub(super) struct EarliestDeadline(pub(super) Requests);

/// The EEVDF state of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Requested time slice.
    slice: Nanos,
    /// Virtual time at which the time slice of the node is used up.
    deadline: Virtual,
    /// Whether `deadline` is relative to the node's vruntime, because the node is between queues.
    relative: bool,
    /// Lag of the node behind the average when it left its queue.
    lag: i64,
    /// Whether the node is between queues and its vruntime holds only its debt: the CPU time used in another class.
    owes: bool,
    /// Whether the node is new and has not been placed yet.
    initial: bool,
    /// End of the protection after a pick: either the node's deadline at the pick, until the deadline changes, or a
    /// value of the node's clock.
    protection: Option<Virtual>,
}

/// The EEVDF state of a queue: the sums over the nodes in its tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    weight: u64,
    /// Sum of weight times vruntime, relative to `min_vruntime`.
    moment: i128,
}

/// The minima over the nodes of a subtree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremes {
    least_vruntime: Virtual,
    shortest_slice: Nanos,
}

impl Summary for Extremes {
    fn join(self, other: Extremes) -> Extremes {
        Extremes {
            least_vruntime: self.least_vruntime.min(other.least_vruntime),
            shortest_slice: self.shortest_slice.min(other.shortest_slice),
        }
    }
}

/// The maximum by which yields postpone a deadline: years, but far below the range of the clock.
const PUT_OFF_MOST: i64 = 1 << 60;

type Queues = RunQueues<EarliestDeadline>;

/// Returns `distance · from / to`, rounded towards zero.
fn rescaled(distance: i64, from: u64, to: u64) -> i64 {
    let scaled = i128::from(distance) * i128::from(from) / i128::from(to);
    i64::try_from(scaled).expect("a lag is at most a few slices of the lightest weight")
}

impl Queues {
    // ---- The average ----

    /// Returns the current node of `queue`, if the node is still queued.
    fn running(&self, queue: usize) -> Option<&Node<Request>> {
        self.queue(queue).current.map(|id| self.node(id)).filter(|node| node.queued)
    }

    /// Returns the sum of weight times vruntime of `queue`, relative to `min_vruntime`, and the sum of the weights.
    fn balance(&self, queue: usize) -> (i128, u64) {
        let RunQueue { min_vruntime, own: Waiting { weight, moment }, .. } = *self.queue(queue);
        let running = self.running(queue);
        running.map_or((moment, weight), |node| {
            let ahead = i128::from(node.vruntime.ahead_of(min_vruntime));
            (moment + ahead * i128::from(node.weight), weight + node.weight)
        })
    }

    /// Returns V: the weighted average vruntime of `queue`; if no node is queued, `min_vruntime`.
    fn average(&self, queue: usize) -> Virtual {
        let (moment, weight) = self.balance(queue);
        let min = self.queue(queue).min_vruntime;
        if weight == 0 {
            return min;
        }
        let ahead = moment.div_euclid(i128::from(weight));
        min.moved(i64::try_from(ahead).expect("an average is not beyond the numbers it is made of"))
    }

    /// Returns whether `vruntime` is not ahead of the average of `queue`. The result is exact and needs no division.
    fn is_eligible_at(&self, queue: usize, vruntime: Virtual) -> bool {
        let (moment, weight) = self.balance(queue);
        i128::from(vruntime.ahead_of(self.queue(queue).min_vruntime)) * i128::from(weight) <= moment
    }

    fn is_eligible(&self, id: NodeId) -> bool {
        let node = self.node(id);
        self.is_eligible_at(node.queue, node.vruntime)
    }

    /// Returns the lag of `id`, which is queued, behind the average.
    fn lag(&self, id: NodeId) -> i64 {
        let node = self.node(id);
        self.average(node.queue).ahead_of(node.vruntime)
    }

    /// Stores the lag of `id`, which is queued, limited to two time slices or a tick, whichever is longer.
    fn keep_lag(&mut self, id: NodeId) {
        let most = self.node(id).own.slice.saturating_mul(2).max(self.tunables.tick);
        let most = self.scaled(most, id).as_ns().cast_signed();
        self.node_mut(id).own.lag = self.lag(id).clamp(-most, most);
    }

    /// Advances `min_vruntime` to the least vruntime of the nodes in `queue`; `min_vruntime` never decreases.
    fn advance(&mut self, queue: usize) {
        let running = self.running(queue).map(|node| node.vruntime);
        let waiting = self.summary(queue).map(|extremes| extremes.least_vruntime);
        let Some(least) = running.into_iter().chain(waiting).min() else { return };
        let queue = self.queue_mut(queue);
        let by = least.ahead_of(queue.min_vruntime);
        if by > 0 {
            queue.own.moment -= i128::from(by) * i128::from(queue.own.weight);
            queue.min_vruntime = least;
        }
    }

    // ---- Deadlines ----

    /// Returns the time slice of `id` in virtual time.
    fn virtual_slice(&self, id: NodeId) -> Nanos {
        self.scaled(self.node(id).own.slice, id)
    }

    /// Starts the next time slice if the current time slice is used up. Returns whether it started a time slice.
    fn renew(&mut self, id: NodeId) -> bool {
        let slice = self.virtual_slice(id);
        let node = self.node_mut(id);
        let is_over = node.vruntime >= node.own.deadline;
        if is_over {
            node.own.deadline = node.vruntime.plus(slice);
        }
        is_over
    }

    /// Returns the shortest requested time slice in `queue`; `None` if no node is queued.
    fn shortest_slice(&self, queue: usize) -> Option<Nanos> {
        let running = self.running(queue).map(|node| node.own.slice);
        running.into_iter().chain(self.summary(queue).map(|extremes| extremes.shortest_slice)).min()
    }

    /// Sets the requested time slice of `id`, whose deadline does not change.
    fn set_slice(&mut self, id: NodeId, slice: Nanos) {
        if self.node(id).own.slice != slice {
            self.node_mut(id).own.slice = slice;
            self.resummarise(id);
        }
    }

    // ---- Placing ----

    /// Sets the clock of `id`, which is about to be queued, so that its lag is the same as when the node left its
    /// queue. The average then includes the node's own weight.
    fn place(&mut self, id: NodeId) {
        let Node { queue, weight, own, vruntime, .. } = *self.node(id);
        let debt = if own.owes { vruntime.ahead_of(Virtual::ZERO) } else { 0 };
        let (_, others) = self.balance(queue);
        let lag = if self.rule.0.place_lag && others > 0 { rescaled(own.lag, others + weight, others) } else { 0 };
        let vruntime = self.average(queue).moved(-lag).moved(debt);
        let slice = self.virtual_slice(id);
        let halves = own.initial && self.rule.0.place_deadline_initial;
        let deadline = if own.relative {
            vruntime.moved(own.deadline.as_ns())
        } else {
            vruntime.plus(if halves { slice.scale(1, 2) } else { slice })
        };
        let node = self.node_mut(id);
        node.vruntime = vruntime;
        node.own = Request { deadline, relative: false, initial: false, owes: false, ..own };
    }

    /// Limits the lag of a node that stayed queued to pay a debt, so that no time is owed to the node afterwards.
    fn forget_credit(&mut self, id: NodeId) {
        if self.rule.0.delay_zero {
            let own = &mut self.node_mut(id).own;
            own.lag = own.lag.min(0);
        }
    }

    // ---- Protection ----

    /// Returns whether `id`, current or just put back, is still protected.
    fn is_protected(&self, id: NodeId) -> bool {
        let node = self.node(id);
        match self.rule.0.protection {
            Protection::Deadline => node.own.protection == Some(node.own.deadline),
            Protection::Shortest => node.own.protection.is_some_and(|until| until > node.vruntime),
        }
    }

    /// Returns whether `id` currently excludes all other nodes from being picked.
    fn bars_others(&self, id: NodeId) -> bool {
        // In v6.17, a node is protected for a limited time even without run-to-parity.
        let counts = self.rule.0.run_to_parity || self.rule.0.protection == Protection::Shortest;
        counts && self.is_protected(id) && self.is_eligible(id)
    }

    /// Returns the end of the protection of `id` if the protection begins now and lasts at most `most`.
    fn protection(&self, id: NodeId, most: Nanos) -> Virtual {
        let node = self.node(id);
        if most < node.own.slice {
            node.own.deadline.min(node.vruntime.plus(self.scaled(most, id)))
        } else {
            node.own.deadline
        }
    }

    fn protect(&mut self, id: NodeId) {
        let until = match self.rule.0.protection {
            Protection::Deadline => self.node(id).own.deadline,
            Protection::Shortest if self.rule.0.run_to_parity => {
                let shortest = self.shortest_slice(self.node(id).queue);
                self.protection(id, shortest.expect("it is queued itself"))
            }
            Protection::Shortest => self.protection(id, self.rule.0.least_quantum),
        };
        self.node_mut(id).own.protection = Some(until);
    }

    // ---- Picking ----

    /// Returns whether the woken node may end the protection of `running`, its sibling.
    fn is_short(&self, wakee: NodeId, running: NodeId) -> bool {
        let (new, old) = (&self.node(wakee).own, &self.node(running).own);
        self.rule.0.preempt_short
            && new.slice < old.slice
            && self.is_eligible(wakee)
            && (new.deadline < old.deadline || !self.is_eligible(running))
    }

    fn eligible_buddy(&self, queue: usize) -> Option<NodeId> {
        if !self.rule.0.pick_buddy && !self.rule.0.next_buddy {
            return None;
        }
        self.buddy(queue, Buddy::Next).filter(|&id| self.node(id).is_runnable() && self.is_eligible(id))
    }

    /// Returns the node of `queue` that should run: a node of the tree, or `running`. `running` need not be in the tree
    /// and may be protected (`in_peace`).
    fn best(&self, queue: usize, running: Option<NodeId>, in_peace: bool) -> NodeId {
        if let Some(buddy) = self.eligible_buddy(queue) {
            return buddy;
        }
        let running = running.filter(|&id| self.node(id).queued && self.is_eligible(id));
        if let Some(id) = running
            && in_peace
            && self.bars_others(id)
        {
            return id;
        }
        let (moment, weight) = self.balance(queue);
        let min = self.queue(queue).min_vruntime;
        // This test is the same as that of `is_eligible_at`.
        let eligible = |it: Extremes| i128::from(it.least_vruntime.ahead_of(min)) * i128::from(weight) <= moment;
        let waits = self.first_where(queue, eligible);
        let earlier = |a: NodeId, b: NodeId| self.node(a).own.deadline < self.node(b).own.deadline;
        match (running, waits) {
            (Some(running), Some(waits)) => {
                if earlier(running, waits) {
                    running
                } else {
                    waits
                }
            }
            (one, other) => one.or(other).expect("the node with the least vruntime is eligible"),
        }
    }

    /// Adds `id` to the sums of its queue, or subtracts `id` from the sums.
    fn weigh(&mut self, id: NodeId, enters: bool) {
        let Node { queue, weight, vruntime, .. } = *self.node(id);
        let queue = self.queue_mut(queue);
        let moment = i128::from(vruntime.ahead_of(queue.min_vruntime)) * i128::from(weight);
        let waiting = &mut queue.own;
        if enters {
            waiting.weight += weight;
            waiting.moment += moment;
        } else {
            waiting.weight -= weight;
            waiting.moment -= moment;
        }
    }
}

impl Order for EarliestDeadline {
    type Node = Request;
    type Queue = Waiting;
    type Key = (Virtual, u64);
    type Summary = Extremes;

    const NODE: Request = Request {
        slice: Nanos::ZERO,
        deadline: Virtual::ZERO,
        relative: false,
        lag: 0,
        owes: false,
        initial: false,
        protection: None,
    };
    const QUEUE: Waiting = Waiting { weight: 0, moment: 0 };

    fn order(node: &Node<Request>, arrival: u64) -> ((Virtual, u64), Extremes) {
        let extremes = Extremes { least_vruntime: node.vruntime, shortest_slice: node.own.slice };
        ((node.own.deadline, arrival), extremes)
    }
}

impl Rule for EarliestDeadline {
    // ---- Joining and leaving ----

    fn pushed(queues: &mut Queues, id: NodeId) {
        queues.weigh(id, true);
    }

    fn pulled(queues: &mut Queues, id: NodeId) {
        queues.weigh(id, false);
    }

    /// Marks a forked task as new and without lag; `join` places it.
    fn place_forked(queues: &mut Queues, id: NodeId, _from: Option<Virtual>) {
        let own = &mut queues.node_mut(id).own;
        (own.lag, own.relative, own.initial) = (0, false, true);
    }

    /// Moves a sleeping node to another queue. The node keeps its lag.
    fn move_sleeper(queues: &mut Queues, id: NodeId, queue: usize) {
        queues.node_mut(id).queue = queue;
    }

    /// Charges CPU time that the node used in another class. If the node is not queued, its vruntime holds this debt.
    fn owe(queues: &mut Queues, id: NodeId, ran: Nanos) {
        let node = queues.node_mut(id);
        if !node.queued && !std::mem::replace(&mut node.own.owes, true) {
            node.vruntime = Virtual::ZERO;
        }
        queues.run_clock(id, ran, true);
        if queues.node(id).queued {
            queues.renew(id);
        }
    }

    fn join(queues: &mut Queues, id: NodeId, _placing: Placing) {
        queues.place(id);
        queues.count_in(id);
        if queues.queue(queues.node(id).queue).current != Some(id) {
            queues.push(id);
        }
    }

    /// Dequeues a node. With `delay-dequeue`, a node that blocks with a debt stays queued until it is picked, which is
    /// not before the debt is paid.
    fn leave(queues: &mut Queues, id: NodeId, leaving: Leaving) -> bool {
        queues.clear_buddies(id);
        let Node { queue, delayed, .. } = *queues.node(id);
        if leaving == Leaving::Sleep && queues.rule.0.delay_dequeue && !delayed && !queues.is_eligible(id) {
            queues.set_delayed(id, true);
            return false;
        }
        queues.keep_lag(id);
        if queues.queue(queue).current != Some(id) {
            queues.pull(id);
        }
        queues.count_out(id);
        let keeps_deadline = leaving == Leaving::Move && queues.rule.0.place_rel_deadline;
        let node = queues.node_mut(id);
        node.own.protection = None;
        if keeps_deadline {
            node.own.deadline = Virtual::ZERO.moved(node.own.deadline.ahead_of(node.vruntime));
            node.own.relative = true;
        }
        if delayed {
            queues.set_delayed(id, false);
            queues.forget_credit(id);
        }
        queues.advance(queue);
        true
    }

    /// Resumes a delayed node. With `delay-zero`, if the node is owed time, sets its lag to zero and places it again.
    fn resume(queues: &mut Queues, id: NodeId) {
        queues.set_delayed(id, false);
        queues.keep_lag(id);
        if queues.rule.0.delay_zero && queues.node(id).own.lag > 0 {
            queues.pull(id);
            queues.forget_credit(id);
            queues.place(id);
            queues.push(id);
        }
    }

    /// Changes the weight of a node. The lag in CPU time and the average do not change.
    fn reweigh(queues: &mut Queues, id: NodeId, weight: u64) {
        let Node { queue, weight: old, queued, own, .. } = *queues.node(id);
        if !queued {
            queues.set_weight(id, weight);
            let own = &mut queues.node_mut(id).own;
            own.lag = rescaled(own.lag, old, weight);
            if own.relative {
                own.deadline = Virtual::ZERO.moved(rescaled(own.deadline.as_ns(), old, weight));
            }
            return;
        }
        let average = queues.average(queue);
        let moved = |point: Virtual| average.moved(rescaled(point.ahead_of(average), old, weight));
        let waits = queues.is_in_tree(id);
        if waits {
            queues.pull(id);
        }
        queues.set_weight(id, weight);
        let node = queues.node_mut(id);
        node.vruntime = moved(node.vruntime);
        node.own.deadline = moved(own.deadline);
        node.own.protection = own.protection.map(moved);
        if waits {
            queues.push(id);
        }
        queues.advance(queue);
    }

    fn ask(queues: &mut Queues, id: NodeId, params: &Params) {
        let asked = params.latency.filter(|_| queues.rule.0.asked_slices);
        let slice = asked.map_or(queues.rule.0.base_slice, |slice| slice.clamp(SLICE_LEAST, SLICE_MOST));
        queues.set_slice(id, slice);
    }

    /// Sets the request of a group to the shortest time slice requested in it.
    fn resize(queues: &mut Queues, id: NodeId) {
        let base = queues.rule.0.base_slice;
        let shortest = id.own_queue().and_then(|own| queues.shortest_slice(own));
        queues.set_slice(id, shortest.filter(|_| queues.rule.0.group_slices).unwrap_or(base));
    }

    // ---- Running and stopping ----

    fn charge(queues: &mut Queues, id: NodeId, ran: Nanos) -> bool {
        queues.run_clock(id, ran, true);
        let is_over = queues.renew(id);
        let queue = queues.node(id).queue;
        queues.advance(queue);
        if queues.queue(queue).nodes < 2 {
            return false;
        }
        is_over
            || match queues.rule.0.protection {
                Protection::Deadline => {
                    queues.rule.0.preempt_short && !queues.is_protected(id) && !queues.is_eligible(id)
                }
                Protection::Shortest => !queues.is_protected(id),
            }
    }

    fn next_of(queues: &Queues, queue: usize, turn: u64) -> NodeId {
        assert!(queues.queue(queue).current.is_none(), "the current node has been put back");
        let ran = queues.queue(queue).put_back;
        let ran = ran.filter(|&id| queues.node(id).put_in == turn && queues.node(id).queue == queue);
        queues.best(queue, ran, true)
    }

    fn started(queues: &mut Queues, id: NodeId, goes_on: bool) {
        // A throttled group entity may be made current and is then stopped at once.
        if !goes_on && queues.node(id).queued {
            queues.protect(id);
        }
    }

    /// Postpones the deadline by a time slice, and ends the protection.
    fn yielded(queues: &mut Queues, id: NodeId) {
        queues.clear_buddies(id);
        let slice = queues.virtual_slice(id);
        let node = queues.node_mut(id);
        if node.own.deadline.ahead_of(node.vruntime) < PUT_OFF_MOST {
            node.own.deadline = node.own.deadline.plus(slice);
        }
        node.own.protection = None;
    }

    // ---- Wake-up preemption ----

    fn greet(queues: &mut Queues, id: NodeId, _running: NodeId, arrival: Arrival) -> bool {
        let is_preferred = queues.rule.0.next_buddy && arrival != Arrival::Forked;
        if is_preferred {
            queues.set_buddy(Buddy::Next, id);
        }
        is_preferred
    }

    fn preempts(queues: &mut Queues, wakee: NodeId, running: NodeId, _greeted: bool) -> bool {
        let queue = queues.node(wakee).queue;
        let is_short = queues.is_short(wakee, running);
        let preempts = queues.best(queue, Some(running), !is_short) == wakee;
        if is_short && !preempts {
            let protection = match queues.rule.0.protection {
                Protection::Deadline => None,
                // The woken node does not run next, but the protection of `running` ends after the shortest time slice
                // from now.
                Protection::Shortest => {
                    let shortest = queues.shortest_slice(queue).expect("both are queued");
                    let until = queues.protection(running, shortest);
                    queues.node(running).own.protection.map(|before| before.min(until))
                }
            };
            queues.node_mut(running).own.protection = protection;
        }
        preempts
    }

    /// Ends the protection of `running` and of the group entities above it, up to the common queue.
    fn preempted(queues: &mut Queues, wakee: NodeId, running: NodeId) {
        let (_, last) = queues.siblings(wakee, running);
        let mut at = Some(running);
        while let Some(id) = at {
            queues.node_mut(id).own.protection = None;
            at = queues.above(id).filter(|_| id != last);
        }
    }

    fn inspect(queues: &Queues, id: NodeId, show: &mut dyn FnMut(&'static str, i64)) {
        let node = queues.node(id);
        show("slice", node.own.slice.as_ns().cast_signed());
        show("deadline", node.own.deadline.as_ns());
        show("lag", if node.queued { queues.lag(id) } else { node.own.lag });
        show("delayed", i64::from(node.delayed));
    }
}
