//! Co-scheduling of the vCPUs of a VM on top of Credit: the common part of `poris`, `poris-s`, `ps`, `rs`, `hybrid` and
//! `adaptive`.
//!
//! Each policy selects its [`Parts`]. Queues, credits, ticks and stealing are those of `credit`, in the version that
//! its knob `version` selects; the additional rules are in this module.

mod demand;
mod gangs;
#[cfg(test)]
mod tests;

use crate::credit::runqueue::Priority;
use crate::credit::{self, Credit};
pub(crate) use demand::Demand;
use gangs::Gangs;
pub(crate) use gangs::{Packing, Unit};
use sched::{
    Alarm, AlarmOwner, Conserving, CpuId, CpuSet, Cx, Decision, Descriptor, EntityId, GroupChange, GroupId, Guarantees,
    Knob, Knobs, LoadBounds, Nanos, Notice, Params, Policy, Refused, Running, State, StopReason, Stopped, Topology,
    Wake,
};

/// The part of the descriptor that all policies of this family share.
pub(crate) const SHARED: Descriptor =
    Descriptor { conserving, starvation, guarantees: Guarantees::NOTHING, ..credit::POLICY };

/// Returns the time until an idle CPU finds waiting work. With gangs there is no bound: an entity that is confined to
/// its own CPU may wait while another CPU idles.
fn conserving(load: &LoadBounds<'_>) -> Conserving {
    if load.has_gangs { Conserving::Never } else { (credit::POLICY.conserving)(load) }
}

/// Returns the maximum wait of an entity. With real-time VMs there is no bound: the highest priority is strict. A
/// co-scheduled entity keeps this priority even after it has overspent its credits.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    if load.has_gangs { None } else { (credit::POLICY.starvation)(load) }
}

/// The knob that all policies of this family have.
pub(crate) const ACCOUNTING_LOWERS: Knob = Knob::switch(
    "accounting-lowers",
    false,
    "accounting removes the real-time priority of queued and running vCPUs, as it removes a boost",
)
.from("Poris §5 states no rule; off (assumed), for queued and for running vCPUs");

/// The knob for affinity exchange, for policies that confine each co-scheduled vCPU to its own CPU.
pub(crate) const EXCHANGE: Knob = Knob::switch(
    "affinity-exchange",
    true,
    "two siblings exchange CPUs if an OVER sibling on the stealing CPU is the only obstacle to a steal",
)
.from("Poris §4.4; off: the more urgent sibling waits on its own CPU");

/// The length of time slices while real-time VMs exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortTurns {
    /// The latency that real-time VMs tolerate.
    pub(crate) latency: Nanos,
    /// The minimum length of a time slice.
    pub(crate) least: Nanos,
}

/// The events that raise the priority of a real-time VM's vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promotion {
    /// An event while the vCPU waits, or the wake-up of the vCPU.
    EventAndWake,
    /// An event while the vCPU waits; a woken vCPU is boosted as in Credit.
    Event,
}

/// The CPUs whose picks start the co-scheduling of the siblings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SignalFrom {
    /// Every CPU.
    Any,
    /// The CPU that picks the VM's first vCPU.
    First,
    /// CPU 0.
    Boot,
}

/// The *call* of a gang when a member is picked: the other waiting members move to the head of their queues, and their
/// CPUs pick again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together {
    /// Length of the short time slices in which several subgroups alternate; `None`: subgroups alternate by whole time
    /// slices.
    pub(crate) round: Option<Nanos>,
    /// Whether two siblings exchange CPUs when only the second sibling prevents the first from being stolen.
    pub(crate) exchange: bool,
    /// CPUs whose picks start the co-scheduling.
    pub(crate) from: SignalFrom,
    /// Minimum time between two calls of a gang.
    pub(crate) every: Nanos,
}

impl Together {
    /// Calls by every CPU, without a minimum time between two calls.
    pub(crate) const ALWAYS: Together =
        Together { round: None, exchange: false, from: SignalFrom::Any, every: Nanos::ZERO };
}

/// The parts of a policy of this family.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) unit: Unit,
    pub(crate) packing: Packing,
    pub(crate) short_turns: Option<ShortTurns>,
    pub(crate) promotion: Option<Promotion>,
    pub(crate) together: Option<Together>,
    /// Demand of the VMs for co-scheduling; `None`: VMs are always co-scheduled.
    pub(crate) demand: Option<Demand>,
}

/// The state of the scheduler.
#[derive(Debug)]
pub(crate) struct Parallel {
    credit: Credit,
    gangs: Gangs,
    parts: Parts,
    /// Time slice without real-time VMs.
    long_turn: Nanos,
    /// Number of entities.
    entities: usize,
    /// Number of remaining short time slices of each entity, by index.
    rounds: Vec<u32>,
    /// Whether each entity was called and has not completed its time slice of this call, by index.
    due: Vec<bool>,
}

/// Returns the alarm at the end of an interval of co-scheduling.
const fn episode(g: GroupId) -> Alarm {
    Alarm { owner: AlarmOwner::Group(g), slot: 0 }
}

impl Parallel {
    /// Builds a policy from these parts.
    pub(crate) fn build(host: &Topology, knobs: &Knobs, parts: Parts) -> Result<Box<dyn Policy>, Refused> {
        credit::check(knobs)?;
        let mut credit = Credit::new(host, knobs);
        credit.lowers_real_time = knobs.on(ACCOUNTING_LOWERS.name);
        let gangs = Gangs::new(parts.unit, parts.packing, host.cpus);
        let long_turn = credit.time_slice();
        Ok(Box::new(Parallel { credit, gangs, parts, long_turn, entities: 0, rounds: Vec::new(), due: Vec::new() }))
    }

    // ---- Membership ----

    /// Packs the gang of `head` again, without the entity `without`, and confines its members.
    fn arrange(&mut self, head: GroupId, without: Option<EntityId>, cx: &mut Cx<'_>) {
        self.gangs.arrange(head, without, cx);
        for n in 0..self.gangs.gang(head).members.len() {
            let e = self.gangs.gang(head).members[n];
            self.keep_in_place(e, cx);
        }
        self.count(cx);
    }

    /// Confines `e` to its own CPU if its gang is to be spread over CPUs and its affinity contains this CPU. Otherwise
    /// removes the confinement.
    fn keep_in_place(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let apart = self.parts.together.is_some()
            && self.gangs.head_of(e).is_some_and(|head| self.parts.demand.as_ref().is_none_or(|on| on.is_on(head)));
        let to = if apart { self.gangs.confines(e) } else { CpuSet::ALL };
        let to = if cx.params(e).affinity.and(&to).is_empty() { CpuSet::ALL } else { to };
        cx.confine(e, &to);
        self.credit.follow_affinity(e, cx);
    }

    /// Computes the time slice. With `n` vCPUs per CPU, an entity that has just run waits for `n − 1` other entities.
    fn count(&mut self, cx: &Cx<'_>) {
        let Some(short) = self.parts.short_turns else { return };
        let per_cpu = self.entities.div_ceil(cx.topology().cpus) as u64;
        let turn = if self.gangs.members() == 0 || per_cpu <= 1 {
            self.long_turn
        } else {
            short.latency.scale(1, per_cpu - 1).max(short.least)
        };
        self.credit.set_time_slice(turn);
    }

    /// Rearranges the gangs after the gang mark of a group changed.
    fn mark_changed(&mut self, cx: &mut Cx<'_>) {
        let (heads, left) = self.gangs.find_heads(cx);
        heads.into_iter().for_each(|head| self.arrange(head, None, cx));
        for e in left {
            if self.gangs.head_of(e).is_none() {
                self.leave_gang(e, cx);
            }
        }
        self.count(cx);
    }

    /// Removes the real-time priority and the confinement of `e`, which has left its gang and joined no other gang.
    fn leave_gang(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.rest(e);
        self.keep_in_place(e, cx);
    }

    // ---- The real-time priority ----

    /// Handles an event for `e`. If the policy promotes vCPUs at events, a vCPU of a real-time VM that waits UNDER
    /// receives the highest priority.
    fn promote(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let promotes = self.parts.promotion.is_some() && self.gangs.head_of(e).is_some();
        if promotes && self.credit.queues.priority(e) == Priority::Under && self.credit.queues.remove(e) {
            self.credit.queues.set_priority(e, Priority::RealTime);
            self.credit.enqueue(e, cx);
        }
    }

    /// Ends a time slice of `e`, which has stopped and waits. `e` then has one short slice fewer. When no short slice
    /// remains, a real-time `e` becomes UNDER.
    fn end_turn(&mut self, e: EntityId) {
        let rounds = &mut self.rounds[e.index()];
        *rounds = rounds.saturating_sub(1);
        if *rounds == 0 {
            self.due[e.index()] = false;
            self.lower(e);
        }
    }

    /// Clears the remaining short slices of `e`, and its real-time priority.
    fn rest(&mut self, e: EntityId) {
        (self.rounds[e.index()], self.due[e.index()]) = (0, false);
        self.lower(e);
    }

    fn lower(&mut self, e: EntityId) {
        if self.credit.queues.priority(e) == Priority::RealTime {
            self.credit.queues.set_priority(e, Priority::Under);
        }
    }

    /// Returns the gang to call when `cpu` picks `e`, or `None` if no call is due. While another member of the gang
    /// runs, or a called member has not completed its time slice, no call is due until every called subgroup has
    /// received its time slice.
    fn calls(&mut self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) -> Option<GroupId> {
        let together = self.parts.together?;
        let head = self.gangs.head_of(e)?;
        let off = self.parts.demand.as_ref().is_some_and(|demand| !demand.is_on(head));
        let gang = self.gangs.gang(head);
        let mute = match together.from {
            SignalFrom::Any => false,
            SignalFrom::First => gang.members.first() != Some(&e),
            SignalFrom::Boot => cpu != CpuId::new(0),
        };
        if off || mute || self.rounds[e.index()] > 0 {
            return None;
        }
        let turn = self.credit.time_slice().saturating_mul(gang.subgroups() as u64);
        if let Some(ago) = gang.called.map(|called| cx.now().since(called)) {
            // At the common end of several time slices, no member runs, but members of the next subgroup are due.
            let runs = |other: EntityId| other != e && matches!(cx.state(other), State::Running(_));
            let others = || gang.members.iter().any(|&other| self.due[other.index()] || runs(other));
            // At most one call per instant; otherwise two gangs would preempt each other endlessly.
            if ago.is_zero() || ago < together.every || (ago < turn && others()) {
                return None;
            }
        }
        gang.called = Some(cx.now());
        Some(head)
    }

    /// Gives all runnable members of the gang of `head` the real-time priority. Moves the waiting members to the front
    /// of their queues, subgroup by subgroup. Kicks the CPUs of these queues, except CPUs that run a member. `deciding`
    /// is about to run `chosen`, so the subgroup of `chosen` precedes the other subgroups.
    fn call_together(&mut self, head: GroupId, chosen: EntityId, deciding: CpuId, cx: &mut Cx<'_>) {
        let gang = self.gangs.gang(head);
        let (members, several, (_, start)) = (gang.members.len(), gang.subgroups() > 1, gang.subgroup_of(chosen));
        let round = self.parts.together.and_then(|together| together.round).filter(|_| several);
        let rounds = round.map_or(0, |round| self.credit.time_slice().as_ns() / round.as_ns());
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        for n in 0..members {
            let e = self.gangs.gang(head).members[(start + n) % members];
            if cx.state(e) == State::Blocked || cx.is_held(e) {
                continue;
            }
            (self.rounds[e.index()], self.due[e.index()]) = (rounds, true);
            // The chosen entity is at the head of its queue, or is being stolen.
            let waits_on = self.credit.queues.queue_of(e).filter(|_| e != chosen);
            if waits_on.is_some() {
                self.credit.queues.remove(e);
            }
            self.credit.queues.set_priority(e, Priority::RealTime);
            match waits_on {
                Some(cpu) if cpu == deciding => self.credit.queues.insert(cpu, e),
                Some(cpu) => {
                    self.credit.enqueue(e, cx);
                    if !self.runs_one_of(head, cpu, cx) {
                        cx.kick(cpu);
                    }
                }
                None => {}
            }
        }
    }

    /// Returns whether `cpu` runs a member of the gang of `head`.
    fn runs_one_of(&self, head: GroupId, cpu: CpuId, cx: &Cx<'_>) -> bool {
        matches!(cx.running(cpu), Running::Mine { entity, .. } if self.gangs.head_of(entity) == Some(head))
    }

    /// Exchanges the own CPUs of `e`, which `cpu` is about to steal, and of its sibling at the head of the queue of
    /// `cpu`. Does nothing if `e` may run on `cpu`.
    fn exchange(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        let Some(head) = self.credit.queues.first(cpu).filter(|_| !cx.may_run(e, cpu)) else { return };
        self.gangs.exchange(e, head);
        cx.confine(e, &self.gangs.confines(e));
        self.keep_in_place(head, cx);
    }

    // ---- On demand ----

    /// Handles a report from the guest of `e` that `e` has spun for `waited`.
    fn spun(&mut self, e: EntityId, waited: Nanos, cx: &mut Cx<'_>) {
        let (Some(demand), Some(head)) = (&mut self.parts.demand, self.gangs.head_of(e)) else { return };
        if let Some(until) = demand.report(head, waited, cx.now()) {
            cx.set_alarm(episode(head), cx.here(), until);
            self.keep_all_in_place(head, cx);
        }
    }

    /// Ends the co-scheduling of the VM `g`.
    fn end_episode(&mut self, g: GroupId, cx: &mut Cx<'_>) {
        if let Some(demand) = &mut self.parts.demand {
            demand.end(g);
        }
        self.keep_all_in_place(g, cx);
    }

    fn keep_all_in_place(&mut self, head: GroupId, cx: &mut Cx<'_>) {
        for n in 0..self.gangs.gang(head).members.len() {
            let e = self.gangs.gang(head).members[n];
            self.keep_in_place(e, cx);
        }
    }
}

/// Returns whether `e` may move to `cpu` after an exchange of CPUs with `first`, the entity at the head of the queue of
/// `cpu`. The two entities must be siblings of one subgroup.
fn may_exchange(e: EntityId, cpu: CpuId, first: Option<EntityId>, gangs: &Gangs, cx: &Cx<'_>) -> bool {
    let Some(sibling) = first else { return false };
    let (Some(from), Some(to)) = (gangs.place_of(e), gangs.place_of(sibling)) else { return false };
    let (one, other) = (cx.params(e), cx.params(sibling));
    let beside = gangs.gang_of(e).is_some_and(|gang| gang.subgroup_of(e) == gang.subgroup_of(sibling));
    one.group == other.group && beside && to == cpu && one.affinity.contains(to) && other.affinity.contains(from)
}

impl Policy for Parallel {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.credit.attach(e, cx)?;
        self.gangs.reserve(e);
        if self.rounds.len() <= e.index() {
            self.rounds.resize(e.index() + 1, 0);
            self.due.resize(e.index() + 1, false);
        }
        (self.rounds[e.index()], self.due[e.index()]) = (0, false);
        self.entities += 1;
        match self.gangs.head_of_group(cx.params(e).group) {
            Some(head) => self.arrange(head, None, cx),
            None => self.count(cx),
        }
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.credit.detach(e, cx);
        self.entities -= 1;
        match self.gangs.head_of(e) {
            Some(head) => self.arrange(head, Some(e), cx),
            None => self.count(cx),
        }
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let (affinity, group) = (cx.params(e).affinity, cx.params(e).group);
        if old.affinity != affinity || old.group != group {
            // Until the gang is arranged again, the own CPU of `e` may be outside the new affinity.
            cx.confine(e, &CpuSet::ALL);
        }
        self.credit.adjust(e, old, cx)?;
        let left = self.gangs.head_of(e);
        let joined = self.gangs.head_of_group(group);
        if old.affinity == affinity && left == joined {
            return Ok(());
        }
        for head in left.into_iter().chain(joined.filter(|_| joined != left)) {
            self.arrange(head, None, cx);
        }
        if joined.is_none() {
            self.leave_gang(e, cx);
        }
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if g != GroupId::ROOT {
            match change {
                GroupChange::Created { .. } => {
                    self.gangs.add_group(g, cx);
                    if let Some(demand) = &mut self.parts.demand {
                        demand.reserve(g);
                    }
                }
                GroupChange::Removed => self.gangs.remove_group(g),
                GroupChange::Params { old } if old.gang != cx.group_params(g).gang => self.mark_changed(cx),
                GroupChange::Params { .. } => {}
            }
        }
        self.credit.group(g, change, cx)
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        let promotes = self.parts.promotion == Some(Promotion::EventAndWake) && self.gangs.head_of(e).is_some();
        if promotes && self.credit.queues.priority(e) == Priority::Under {
            self.credit.queues.set_priority(e, Priority::RealTime);
        }
        self.credit.wake(e, why, cx);
    }

    fn event(&mut self, e: EntityId, what: Notice, cx: &mut Cx<'_>) {
        match what {
            Notice::Interrupt => self.promote(e, cx),
            Notice::SpinWait { waited } => self.spun(e, waited, cx),
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.credit.sleep(e, cx);
        self.rest(e);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        self.credit.charge(e, ran, cx);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        match alarm.owner {
            AlarmOwner::Group(g) => self.end_episode(g, cx),
            _ => self.credit.alarm(alarm, cx),
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        self.credit.put(cpu, prev, cx);
        if prev.why == StopReason::Blocked {
            self.rest(prev.entity);
        } else if self.credit.continues(cpu, cx).is_none() {
            self.end_turn(prev.entity);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        if let Some(slice) = self.credit.continue_stopped(cpu, cx) {
            return slice;
        }
        let stopped = self.credit.requeue_stopped(cpu, cx);
        let first = self.credit.queues.first(cpu).filter(|_| self.parts.together.is_some_and(|by| by.exchange));
        let gangs = &self.gangs;
        let may_leave = |e: EntityId, cx: &Cx<'_>| may_exchange(e, cpu, first, gangs, cx);
        let Some(e) = self.credit.choose(cpu, &may_leave, cx) else { return Decision::IDLE };
        self.exchange(e, cpu, cx);
        if let Some(head) = self.calls(e, cpu, cx) {
            self.call_together(head, e, cpu, cx);
        }
        self.credit.begin(e, cpu, stopped, cx);
        let round = self.parts.together.and_then(|together| together.round);
        let turn = round.filter(|_| self.rounds[e.index()] > 0).unwrap_or(self.credit.time_slice());
        Decision::until(e, cx.now() + turn)
    }

    fn credit(&self, e: EntityId) -> Option<i64> {
        self.credit.credit(e)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.credit.inspect(e, show);
        show("rounds", i64::from(self.rounds[e.index()]));
        show("gang", i64::from(self.gangs.head_of(e).is_some()));
        if let Some(gang) = self.gangs.gang_of(e) {
            show("subgroup", i64::try_from(gang.subgroup_of(e).0).expect("few"));
        }
    }
}
