//! Limits on the skew between the vCPUs of a VM, on top of proportional share: the common part of `cosched-strict` and
//! `cosched-relaxed`.
//!
//! [`Order`] selects the next entity, [`Gangs`] tracks the skew, and [`Seats`] assigns CPUs to the vCPUs that must
//! start together.

mod gangs;
mod order;
mod seats;
#[cfg(test)]
mod tests;

pub(crate) use gangs::Rule;
use gangs::{Doing, Gangs, Vcpu};
use order::{MEMORY, Order, Virtual, runners};
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, Conserving, CpuId, CpuSet, Cx, Decision, Descriptor, EntityId,
    GroupChange, GroupId, Guarantees, Held, Knob, Knobs, LoadBounds, Nanos, Params, Policy, Refused, Running, State,
    StopReason, Stopped, Topology, Wake,
};
use seats::Seats;

/// The part of the descriptor that both policies share.
pub(crate) const SHARED: Descriptor = Descriptor {
    name: "",
    title: "",
    source: "",
    good_for: "",
    bad_at: "",
    text: "",
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    starvation,
    guarantees: Guarantees { shares, ..Guarantees::NOTHING },
    alarms: AlarmSlots { policy: &[AlarmKind::Timer], group: &[AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[],
    build: |_, _| unreachable!("the shared part is no policy"),
};

/// The maximum length of a time slice.
pub(crate) const QUANTUM: Knob =
    Knob::time("quantum", Nanos::ms(50), (Nanos::us(100), Nanos::s(10)), "the longest time slice")
        .from("ESX: 50 ms; as the time slice of every vCPU (assumed)");

/// The lead beyond which a running entity is preempted.
pub(crate) const MARGIN: Knob = Knob::time(
    "margin",
    Nanos::ms(1),
    (Nanos::ZERO, Nanos::s(1)),
    "the lead in weighted CPU time above which an entity is preempted",
)
.from("no value is published (assumed)");

/// Returns the maximum lead of one entity over another at any weights, in CPU time at normal weight.
fn spread(load: &LoadBounds<'_>) -> Nanos {
    let quantum = load.knobs.time(QUANTUM.name);
    quantum.scale(1024, load.weight_least.max(1))
}

/// Returns the maximum deviation from the weighted share. At the start and at the end of any interval, no entity leads
/// another entity by more than a quantum at the minimum weight.
fn shares(load: &LoadBounds<'_>) -> Option<Nanos> {
    Some(spread(load).saturating_mul(3).scale(load.weight_most, 1024))
}

/// Returns the maximum wait of an entity. Before the entity runs, every other entity may have to run until its virtual
/// time exceeds that of the waiting entity. The other entity may lag by the remembered lead, two quanta at the minimum
/// weight and the margin. An entity of the maximum weight takes longest to make up this lag. Two further quanta are
/// added per entity.
fn starvation(load: &LoadBounds<'_>) -> Option<Nanos> {
    let (quantum, margin) = (load.knobs.time(QUANTUM.name), load.knobs.time(MARGIN.name));
    let lead = quantum.saturating_mul(MEMORY).saturating_add(spread(load).saturating_mul(2)).saturating_add(margin);
    let each = lead.scale(load.weight_most, 1024).saturating_add(quantum.saturating_mul(2));
    Some(each.saturating_mul(load.entities))
}

/// The alarm that checks again whether a stopped VM can be started.
const START: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };
/// The minimum time between two checks without other events.
const LOOK_LEAST: Nanos = Nanos::us(10);

/// Returns the alarm for the instant at which a vCPU of the VM crosses a threshold.
const fn crossing(g: GroupId) -> Alarm {
    Alarm { owner: AlarmOwner::Group(g), slot: 0 }
}

/// The CPUs that a VM could receive now.
struct Free {
    all: CpuSet,
    /// CPUs of `all` that idle, run a lower class, or run a vCPU of the VM.
    idle: CpuSet,
    /// Time until the VM may receive more CPUs; `None`: only an event can free more CPUs.
    next: Option<Nanos>,
}

/// The state of the scheduler.
#[derive(Debug)]
pub(crate) struct Skewed {
    quantum: Nanos,
    margin: Virtual,
    order: Order,
    gangs: Gangs,
    /// VMs that are stopped as a whole.
    stopped: Vec<GroupId>,
    /// vCPU for which each CPU is reserved. The vCPU starts together with its siblings.
    reserved: Vec<Option<EntityId>>,
    seats: Seats,
    /// vCPUs that must start, in ascending order of weighted CPU time. The vector is kept only to reuse its memory.
    starting: Vec<EntityId>,
}

impl Skewed {
    /// Builds a policy with this rule and these thresholds.
    pub(crate) fn build(
        host: &Topology,
        knobs: &Knobs,
        rule: Rule,
        threshold: Nanos,
        resume: Nanos,
    ) -> Box<dyn Policy> {
        let quantum = knobs.time(QUANTUM.name);
        Box::new(Skewed {
            quantum,
            margin: Order::lead(knobs.time(MARGIN.name)),
            order: Order::new(quantum),
            gangs: Gangs::new(rule, threshold, resume),
            stopped: Vec::new(),
            reserved: vec![None; host.cpus],
            seats: Seats::new(host.cpus),
            starting: Vec::new(),
        })
    }

    // ---- Skew ----

    /// Sets the state of `e`. Before that, updates the skews in the VM of `e`.
    fn set_state(&mut self, e: EntityId, doing: Doing, cx: &mut Cx<'_>) {
        let vm = self.gangs.of(e).vm;
        if let Some(g) = vm {
            self.gangs.advance(g, cx.now());
        }
        self.gangs.vcpu(e).doing = doing;
        if let Some(g) = vm {
            self.watch(g, cx);
        }
    }

    /// Sets the alarm for the next crossing of a threshold by a vCPU in `g`.
    fn watch(&self, g: GroupId, cx: &mut Cx<'_>) {
        let (next, set) = (self.gangs.next_crossing(g), cx.alarm_at(crossing(g)));
        // An alarm that is due but late is not postponed.
        if next == set || set.is_some_and(|at| at <= cx.now()) {
            return;
        }
        match next {
            Some(at) => cx.set_alarm(crossing(g), cx.here(), at),
            None => cx.clear_alarm(crossing(g)),
        }
    }

    fn hold(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.gangs.vcpu(e).held = true;
        cx.hold(e, Held::CoStopped);
        if self.gangs.of(e).doing == Doing::Waits {
            self.order.push_stopped(e);
        }
    }

    /// Ends the co-stop of `e`, if `e` is co-stopped. Enqueues `e` if `e` waits.
    fn release(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if !core::mem::replace(&mut self.gangs.vcpu(e).held, false) {
            return;
        }
        cx.release(e, Held::CoStopped);
        if self.gangs.of(e).doing == Doing::Waits {
            self.order.push_waiting(e);
        }
    }

    /// Stops every running vCPU in `g` whose lead has reached the threshold. Resumes the stopped vCPUs whose lead has
    /// dropped to `resume` or less.
    fn judge_leaders(&mut self, g: GroupId, cx: &mut Cx<'_>) {
        for n in 0..self.gangs.members(g).len() {
            let e = self.gangs.members(g)[n];
            let Vcpu { doing, held, skew, .. } = self.gangs.of(e);
            if !held && doing == Doing::Runs && skew >= self.gangs.threshold {
                self.hold(e, cx);
            } else if held && doing == Doing::Waits && skew <= self.gangs.resume {
                self.release(e, cx);
                self.call_for(e, cx);
            }
        }
    }

    /// Stops all runnable vCPUs of `g` until the vCPUs that must start can start together.
    fn stop(&mut self, g: GroupId, cx: &mut Cx<'_>) {
        self.gangs.set_stopped(g, true);
        self.stopped.push(g);
        for n in 0..self.gangs.members(g).len() {
            let e = self.gangs.members(g)[n];
            let Vcpu { doing, skew, .. } = self.gangs.of(e);
            // A vCPU at half the threshold or above also counts as lagging. Otherwise such vCPUs would soon stop the VM
            // again, one after another.
            self.gangs.vcpu(e).lags = doing != Doing::Idle && skew >= self.gangs.threshold.scale(1, 2);
            self.unseat(e);
            if doing != Doing::Idle {
                self.hold(e, cx);
            }
        }
    }

    // ---- Starting together ----

    fn unseat(&mut self, e: EntityId) {
        if let Some(cpu) = self.gangs.vcpu(e).seat.take() {
            self.reserved[cpu.index()] = None;
        }
    }

    /// Returns the maximum weighted CPU time among the vCPUs of `g` that must start. All these vCPUs take precedence
    /// over an entity with more.
    fn mark(&self, g: GroupId, cx: &Cx<'_>) -> Virtual {
        self.gangs.must_start(g).map(|e| self.had_by_now(e, cx)).max().unwrap_or(0)
    }

    /// Returns the weighted CPU time of `e`, including the time that has not been charged.
    fn had_by_now(&self, e: EntityId, cx: &Cx<'_>) -> Virtual {
        let State::Running(cpu) = cx.state(e) else { return self.order.had(e) };
        match cx.running(cpu) {
            Running::Mine { entity, since } if entity == e => {
                self.order.reaches(e, cx.now().saturating_since(since), 0).0
            }
            _ => self.order.had(e),
        }
    }

    /// Starts every stopped VM that can receive its CPUs, in ascending order of [`mark`](Skewed::mark).
    fn start_stopped(&mut self, cx: &mut Cx<'_>) {
        let mut stopped = core::mem::take(&mut self.stopped);
        stopped.sort_unstable_by_key(|&g| (self.mark(g, cx), g.index()));
        let mut look: Option<Nanos> = None;
        stopped.retain(|&g| match self.start(g, cx) {
            Ok(()) => false,
            Err(next) => {
                look = look.into_iter().chain(next).min();
                true
            }
        });
        self.stopped = stopped;
        match look {
            Some(next) => cx.set_alarm(START, cx.here(), cx.now() + next.max(LOOK_LEAST)),
            None => cx.clear_alarm(START),
        }
    }

    /// Starts `g`, if enough CPUs are available for the maximum number of vCPUs that could start together. Otherwise
    /// returns the time until more CPUs may be available, or `None` if only an event can free more CPUs.
    fn start(&mut self, g: GroupId, cx: &mut Cx<'_>) -> Result<(), Option<Nanos>> {
        let mut starting = core::mem::take(&mut self.starting);
        starting.clear();
        starting.extend(self.gangs.must_start(g));
        starting.sort_unstable_by_key(|&e| (self.had_by_now(e, cx), e.index()));
        let at_best = self.seats.assign(&starting, &cx.topology().all(), &CpuSet::EMPTY, cx);
        let Free { all, idle, next } = self.free_for(g, cx);
        let seated = self.seats.assign(&starting, &all, &idle, cx);
        self.starting = starting;
        if seated < at_best {
            return Err(next);
        }
        self.gangs.advance(g, cx.now());
        for cpu in cx.topology().iter() {
            if let Some(e) = self.seats.owner(cpu) {
                self.gangs.vcpu(e).seat = Some(cpu);
                self.reserved[cpu.index()] = Some(e);
                cx.kick(cpu);
            }
        }
        self.gangs.set_stopped(g, false);
        self.release_all(g, cx);
        self.watch(g, cx);
        Ok(())
    }

    /// Releases all vCPUs in `g`, which has just been started. The lag of each vCPU restarts at half the threshold or
    /// less. If the lag restarted at the threshold, a vCPU would stop the VM again as soon as another starting VM took
    /// its CPU. VMs would then stop each other without progress. If there are fewer CPUs than vCPUs that must start,
    /// some of these vCPUs receive no CPU. Their lag restarts from zero.
    fn release_all(&mut self, g: GroupId, cx: &mut Cx<'_>) {
        for n in 0..self.gangs.members(g).len() {
            let e = self.gangs.members(g)[n];
            let (limit, all) = (self.gangs.threshold.scale(1, 2), self.gangs.rule == Rule::All);
            let vcpu = self.gangs.vcpu(e);
            let left_out = vcpu.seat.is_none() && (vcpu.lags || all);
            vcpu.skew = if left_out { Nanos::ZERO } else { vcpu.skew.min(limit) };
            let seated = vcpu.seat.is_some();
            vcpu.lags = false;
            self.release(e, cx);
            if !seated && self.order.waits(e) {
                self.call_for(e, cx);
            }
        }
    }

    /// Returns the CPUs that `g` could receive now. Waiting entities with a weighted CPU time of at most
    /// [`mark`](Skewed::mark) take precedence.
    fn free_for(&self, g: GroupId, cx: &Cx<'_>) -> Free {
        let mark = self.mark(g, cx);
        let mut free = Free { all: CpuSet::EMPTY, idle: CpuSet::EMPTY, next: None };
        for cpu in cx.topology().iter().filter(|cpu| self.reserved[cpu.index()].is_none()) {
            match cx.running(cpu) {
                Running::Mine { entity, since } if self.gangs.of(entity).vm != Some(g) => {
                    let ran = cx.now().saturating_since(since);
                    let (had, wait) = self.order.reaches(entity, ran, mark + self.margin);
                    if had > mark + self.margin {
                        free.all.insert(cpu);
                    } else {
                        free.next = free.next.into_iter().chain([wait]).min();
                    }
                }
                Running::Idle | Running::Below | Running::Mine { .. } => {
                    free.all.insert(cpu);
                    free.idle.insert(cpu);
                }
                Running::Above => {}
            }
        }
        for (_, e) in self.order.waiting().take_while(|&(had, _)| had <= mark) {
            if self.gangs.of(e).seat.is_some() {
                continue;
            }
            let takes = free.idle.iter().chain(free.all.iter()).find(|&cpu| cx.may_run(e, cpu));
            if let Some(cpu) = takes {
                free.all.remove(cpu);
                free.idle.remove(cpu);
            }
        }
        free
    }

    // ---- Proportional share ----

    /// Kicks a CPU for `e`, which waits: an idle CPU, or the CPU of the entity with the maximum weighted CPU time. That
    /// entity must lead `e` by more than the margin. Siblings do not preempt each other; otherwise a vCPU that lagged
    /// and was just started would lag again.
    fn call_for(&self, e: EntityId, cx: &mut Cx<'_>) {
        if let Some(idle) = cx.idle_cpu_for(e) {
            return cx.kick(idle);
        }
        let mark = self.order.had(e) + self.margin;
        let called = |cpu: CpuId| cx.kicked(cpu) || self.reserved[cpu.index()].is_some();
        let vm = self.gangs.of(e).vm;
        let sibling = |other| vm.is_some() && self.gangs.of(other).vm == vm;
        let victims = runners(cx).filter(|&(cpu, other, _)| cx.may_run(e, cpu) && !called(cpu) && !sibling(other));
        let had = victims.map(|(cpu, other, ran)| (self.order.reaches(other, ran, mark).0, cpu));
        if let Some((_, cpu)) = had.filter(|&(had, _)| had > mark).max_by_key(|&(had, cpu)| (had, cpu.index())) {
            cx.kick(cpu);
        }
    }

    /// Kicks an idle CPU for a waiting entity. This is necessary because the CPU `picking`, which may have been kicked
    /// for the waiting entity, may pick another entity.
    fn call_for_stranded(&self, picking: CpuId, cx: &mut Cx<'_>) {
        let idle = |cpu: CpuId| cpu != picking && cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        if self.order.waiting_is_empty() || !cx.topology().iter().any(idle) {
            return;
        }
        let unseated = self.order.waiting().map(|(_, e)| e).filter(|&e| self.gangs.of(e).seat.is_none());
        if let Some(idle) = unseated.into_iter().find_map(|e| cx.idle_cpu_for(e)) {
            cx.kick(idle);
        }
    }

    /// Returns the entity to run on `cpu`: the entity for which the CPU is reserved, otherwise the entity with the
    /// minimum weighted CPU time.
    fn choose(&mut self, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        if let Some(e) = self.reserved[cpu.index()].take() {
            self.gangs.vcpu(e).seat = None;
            if self.order.waits(e) && cx.may_run(e, cpu) {
                return Some(e);
            }
        }
        let mut waiting = self.order.waiting().map(|(_, e)| e);
        waiting.find(|&e| self.gangs.of(e).seat.is_none() && cx.may_run(e, cpu))
    }

    // ---- Membership ----

    fn join(&mut self, e: EntityId, g: GroupId, cx: &mut Cx<'_>) {
        if g == GroupId::ROOT || !cx.group_params(g).gang {
            return;
        }
        self.gangs.join(e, g, cx.now());
        let members = self.gangs.members(g).len();
        self.starting.reserve(members.saturating_sub(self.starting.len()));
        if self.gangs.is_stopped(g) && self.gangs.of(e).doing != Doing::Idle {
            self.hold(e, cx);
        }
        self.watch(g, cx);
    }

    fn leave(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.unseat(e);
        let Some(g) = self.gangs.of(e).vm else { return };
        self.gangs.leave(e, g, cx.now());
        self.watch(g, cx);
        self.release(e, cx);
        if self.order.waits(e) {
            self.call_for(e, cx);
        }
    }

    /// Adds the members of group `g` to its gang, or removes them, after the gang mark of `g` changed.
    fn mark_changed(&mut self, g: GroupId, cx: &mut Cx<'_>) {
        let mut members: Vec<EntityId> = cx.members(g).collect();
        members.sort_unstable_by_key(|e| e.index());
        for e in members {
            if cx.group_params(g).gang { self.join(e, g, cx) } else { self.leave(e, cx) }
        }
    }
}

impl Policy for Skewed {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let Params { weight, group, .. } = *cx.params(e);
        self.order.reserve(e, weight.as_linux(), cx);
        self.gangs.reserve(e);
        self.join(e, group, cx);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.leave(e, cx);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let Params { weight, group, affinity, .. } = *cx.params(e);
        self.order.set_weight(e, weight.as_linux());
        if old.group != group {
            self.leave(e, cx);
            self.join(e, group, cx);
        }
        if old.affinity != affinity {
            self.unseat(e);
            if self.order.waits(e) {
                self.call_for(e, cx);
            }
            if let Some(g) = self.gangs.of(e).vm {
                self.gangs.advance(g, cx.now());
                self.watch(g, cx);
            }
        }
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        match change {
            GroupChange::Created { .. } => {
                self.gangs.reserve_vm(g);
                self.stopped.reserve(g.index() + 1);
            }
            GroupChange::Params { old } if g != GroupId::ROOT && old.gang != cx.group_params(g).gang => {
                self.mark_changed(g, cx);
            }
            GroupChange::Params { .. } => {}
            GroupChange::Removed => self.stopped.retain(|&other| other != g),
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.order.wake(e);
        self.set_state(e, Doing::Waits, cx);
        if self.gangs.of(e).vm.is_some_and(|g| self.gangs.is_stopped(g)) {
            return self.hold(e, cx);
        }
        self.order.push_waiting(e);
        self.call_for(e, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.rest(e, cx);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.order.charge(e, ran);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        // The other alarm, `START`, only causes a check in `plan`.
        let AlarmOwner::Group(g) = alarm.owner else { return };
        self.gangs.advance(g, cx.now());
        match self.gangs.rule {
            Rule::Leader => self.judge_leaders(g, cx),
            Rule::All | Rule::Lagging if self.gangs.lags(g) => self.stop(g, cx),
            Rule::All | Rule::Lagging => {}
        }
        self.watch(g, cx);
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        if !self.stopped.is_empty() {
            self.start_stopped(cx);
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        match prev.why {
            StopReason::Blocked => return self.rest(e, cx),
            StopReason::Yielded => self.order.give_way(e),
            StopReason::Expired | StopReason::Kicked => {}
        }
        self.set_state(e, Doing::Waits, cx);
        if self.gangs.of(e).held {
            return self.order.push_stopped(e);
        }
        self.order.push_waiting(e);
        if self.reserved[cpu.index()].is_some_and(|owner| owner != e) && self.gangs.of(e).seat.is_none() {
            // A vCPU that starts with its siblings preempted the entity, possibly without having received less CPU time
            // than the entity. In return, the entity may preempt another entity.
            self.call_for(e, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        if !self.stopped.is_empty() && cx.alarm_at(START).is_none_or(|at| at > cx.now()) {
            // After all CPUs have picked, a check determines the instant at which a VM can be started.
            cx.set_alarm(START, cpu, cx.now() + Nanos::ns(1));
        }
        let Some(e) = self.choose(cpu, cx) else {
            self.call_for_stranded(cpu, cx);
            return Decision::IDLE;
        };
        self.order.advance_clock(e, cx);
        self.order.remove(e);
        self.set_state(e, Doing::Runs, cx);
        self.call_for_stranded(cpu, cx);
        Decision::until(e, cx.now() + self.quantum)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let Vcpu { vm, held, skew, .. } = self.gangs.of(e);
        show("had-us", i64::try_from((self.order.had(e) >> 32) / 1000).unwrap_or(i64::MAX));
        show("gang", i64::from(vm.is_some()));
        show("skew-us", i64::try_from(skew.as_ns() / 1000).unwrap_or(i64::MAX));
        show("co-stopped", i64::from(held));
    }
}

impl Skewed {
    /// Removes `e`, which is no longer runnable, from its queue. Ends its reservation of a CPU and its co-stop.
    fn rest(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.order.remove(e);
        self.unseat(e);
        self.gangs.vcpu(e).lags = false;
        self.set_state(e, Doing::Idle, cx);
        self.release(e, cx);
    }
}
