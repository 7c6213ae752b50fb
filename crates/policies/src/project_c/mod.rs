//! The common engine of BMQ and PDS (Project C): a multi-level run queue per CPU, time slices, placement, stealing.
//!
//! BMQ and PDS differ in the rule for the level of an entity; see [`Rule`]. The running entity stays in its list. A CPU
//! picks again if it does not run the first entity of its run queue. Therefore an entity that is enqueued at the tail
//! of the running entity's level does not preempt.
//!
//! Source: kernel/sched/alt_core.c, Project C v5.13-r3.

mod balance;
mod queues;
mod rule;
mod task;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use balance::STEAL_MOST;
pub(crate) use queues::{Layout, Level};
pub(crate) use rule::{Expired, Rule, Yielder};
pub(crate) use task::{Kind, Task};

use queues::Queues;
use sched::{
    Conserving, CpuId, CpuSet, Cx, Decision, EntityId, Instant, Knob, Knobs, LoadBounds, Nanos, Params, Policy,
    Position, Refused, State, StopReason, Stopped, Topology, Wake,
};

pub(crate) const SLICE: Knob =
    Knob::choice("slice", &["4ms", "2ms"], "the length of a time slice, in \"ms\" of 2^20 ns")
        .from("sched_timeslice=, alt_core.c");
pub(crate) const YIELD: Knob = Knob::choice(
    "yield",
    &["give-up", "ignored", "skip"],
    "the effect of a yield: loss of the boost or deadline; no effect; or the next entity runs once",
)
.from("sched_yield_type 1, 0 and 2, alt_core.c");
pub(crate) const ONE_BETTER: Knob = Knob::switch(
    "place-one-better",
    true,
    "a woken entity may go to a CPU that runs the same or the next better level; off: only to a worse level",
)
.from("select_task_rq, alt_core.c; off: the probable intention of the code");
pub(crate) const TICK: Knob = Knob::time(
    "tick",
    Nanos::ms(1),
    (Nanos::ZERO, Nanos::ms(10)),
    "the period of the scheduler tick, which ends a time slice that is almost used up; 0: no ticks",
)
.from("scheduler_task_tick, alt_core.c; CONFIG_HZ");
pub(crate) const DEADLINE_IS_FIFO: Knob = Knob::switch(
    "deadline-is-fifo",
    true,
    "a reservation is SCHED_DEADLINE, which runs as SCHED_FIFO 99; off: reservations are ignored",
)
.from("__sched_setscheduler, alt_core.c");

/// Returns the length of a time slice in the "ms" of the source, which are 2^20 ns in most versions.
pub(crate) fn slice_ms(knobs: &Knobs) -> u64 {
    if knobs.word(SLICE.name) == "2ms" { 2 } else { 4 }
}

/// Returns the time until an idle CPU finds waiting work. A CPU that becomes idle steals waiting entities. The CPU
/// examines only half of a queue, skips entities that must not run on it, and does not search again later. With
/// restricted affinities, there is therefore no bound.
pub(crate) fn conserving(load: &LoadBounds<'_>) -> Conserving {
    let alone = load.host.cpus == 1;
    // An entity that lets the next entity run once waits ahead of the running entity, where no CPU searches.
    let skips = load.knobs.word(YIELD.name) == "skip";
    match alone || !(load.has_affinity || skips) {
        true => Conserving::Global { slack: Nanos::ZERO },
        false => Conserving::Never,
    }
}

/// Returns whether any entity may be real-time.
pub(crate) fn has_real_time(load: &LoadBounds<'_>) -> bool {
    load.has_rt || load.has_reservations && load.knobs.on(DEADLINE_IS_FIFO.name)
}

/// The minimum time for which a timer is set. Source: hrtick_start, alt_core.c.
pub(crate) const TIMER_LEAST: Nanos = Nanos::us(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Yields {
    GiveUp,
    Ignored,
    Skip,
}

impl Yields {
    pub(crate) fn of(knobs: &Knobs) -> Yields {
        match knobs.word(YIELD.name) {
            "ignored" => Yields::Ignored,
            "skip" => Yields::Skip,
            _ => Yields::GiveUp,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    yields: Yields,
    one_better: bool,
    /// Period of the tick; zero: the CPU has no ticks.
    tick: Nanos,
    deadline_is_fifo: bool,
}

/// The state of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    running: Option<EntityId>,
    /// Entity that stopped on the CPU but may continue. If picked again, the entity counts as never stopped.
    previous: Option<EntityId>,
    /// Instant at which the CPU switched to the running entity.
    last_switch: Instant,
    /// Entity that yielded and lets another entity run once.
    skip: Option<EntityId>,
    /// Entity to be pushed to an idle core when the entity stops.
    push: Option<EntityId>,
}

/// The scheduler of BMQ or PDS, depending on the rule `R`.
#[derive(Debug)]
pub(crate) struct Engine<R: Rule> {
    rule: R,
    settings: Settings,
    queues: Queues,
    tasks: Vec<Task<R::TaskState>>,
    cpus: Vec<Cpu>,
    /// Idle CPUs that found no entity while another CPU had a pending kick.
    lookers: CpuSet,
}

impl<R: Rule> Engine<R> {
    pub(crate) fn new(rule: R, host: &Topology, knobs: &Knobs) -> Engine<R> {
        Engine {
            settings: Settings {
                yields: Yields::of(knobs),
                one_better: knobs.on(ONE_BETTER.name),
                tick: knobs.time(TICK.name),
                deadline_is_fifo: knobs.on(DEADLINE_IS_FIFO.name),
            },
            queues: Queues::new(host, rule.layout()),
            rule,
            tasks: Vec::new(),
            cpus: vec![Cpu::default(); host.cpus],
            lookers: CpuSet::EMPTY,
        }
    }

    fn task(&mut self, e: EntityId) -> &mut Task<R::TaskState> {
        &mut self.tasks[e.index()]
    }

    /// Returns the level at which `e` is queued.
    fn level(&self, e: EntityId, now: Instant) -> Level {
        let task = &self.tasks[e.index()];
        let real_time = task.kind.real_time_level(self.rule.priorities_each());
        real_time.unwrap_or_else(|| self.rule.level(task, now))
    }

    // ---- Queues ----

    /// Enqueues `e`, which waits, at the tail of its level on `cpu`.
    fn enqueue(&mut self, e: EntityId, cpu: CpuId, cx: &Cx<'_>) {
        self.queues.turn(cpu, cx.now());
        self.task(e).home = cpu;
        self.queues.enqueue(cpu, self.level(e, cx.now()), e);
    }

    /// Enqueues `e` like [`enqueue`](Engine::enqueue), and kicks the CPU if it does not run the first entity of its
    /// queue.
    fn enqueue_and_call(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.enqueue(e, cpu, cx);
        self.call(cpu, cx);
    }

    /// Moves `e`, which is queued, to the tail of its level.
    fn requeue(&mut self, e: EntityId, now: Instant) {
        let cpu = self.tasks[e.index()].home;
        self.queues.turn(cpu, now);
        self.queues.requeue(self.level(e, now), e);
    }

    /// Kicks `cpu` if the CPU does not run the first entity of its queue.
    fn call(&self, cpu: CpuId, cx: &mut Cx<'_>) {
        if self.queues.first(cpu) != self.cpus[cpu.index()].running {
            cx.kick(cpu);
        }
    }

    /// Moves `e`, which is queued and does not run, to the queue of `cpu`.
    fn move_to(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.dequeue(e);
        self.enqueue_and_call(e, cpu, cx);
    }

    // ---- Slices ----

    /// If the time slice of `e` is almost used up, starts a new time slice and applies the rule for a used-up slice. A
    /// queued `e` then moves to the tail of its level, except in the stop class and SCHED_FIFO.
    fn check_slice(&mut self, e: EntityId, how: Expired, now: Instant) {
        if self.tasks[e.index()].slice >= self.rule.rest_least() {
            return;
        }
        let slice = self.rule.slice();
        let task = &mut self.tasks[e.index()];
        task.slice = slice;
        if !task.kind.is_real_time() {
            self.rule.expired(task, how, now);
        }
        if how == Expired::Queued && self.tasks[e.index()].kind.takes_turns() {
            self.requeue(e, now);
        }
    }

    /// Returns the end of a time slice with the remainder `left`: the instant at which `left` is used up. With ticks,
    /// the time slice ends earlier if an earlier tick finds `left` almost used up. Without an earlier tick, the end is
    /// at least 10 µs from now.
    fn end_of_slice(&self, now: Instant, left: Nanos) -> Instant {
        let end = now + left.max(TIMER_LEAST);
        if self.settings.tick.is_zero() {
            return end;
        }
        let sure = now + left.saturating_sub(self.rule.rest_least());
        end.min(sure.next_tick(self.settings.tick, Nanos::ZERO))
    }

    /// Halves the remaining time slice of `parent`; its new child `child` receives the other half. If a half counts as
    /// used up, the child receives a full time slice, and the slice of a running parent ends.
    fn fork(&mut self, parent: EntityId, child: EntityId, cx: &mut Cx<'_>) {
        let (now, whole) = (cx.now(), self.rule.slice());
        let on = match cx.state(parent) {
            State::Running(cpu) => Some(cpu),
            State::Waiting | State::Blocked => None,
        };
        if let Some((e, ran)) = on.and_then(|cpu| cx.take_ran(cpu)) {
            self.charge(e, ran, cx);
        }
        let half = Nanos::ns(self.tasks[parent.index()].slice.as_ns() / 2);
        self.task(parent).slice = half;
        let Task { home, state, .. } = self.tasks[parent.index()];
        let too_little = half < self.rule.rest_least();
        if let Some(cpu) = on {
            match too_little {
                true => cx.kick(cpu),
                false => cx.cut(cpu, self.end_of_slice(now, half)),
            }
        }
        let task = &mut self.tasks[child.index()];
        task.slice = if too_little { whole } else { half };
        task.home = home;
        task.state = self.rule.forked(task, &state, now);
    }

    // ---- The running entity ----

    fn yielded(&mut self, e: EntityId, cpu: CpuId, now: Instant) {
        match self.settings.yields {
            Yields::GiveUp if self.tasks[e.index()].kind.is_real_time() => {}
            Yields::GiveUp => {
                if self.rule.yields(&mut self.tasks[e.index()], now) == Yielder::GoesLast {
                    self.requeue(e, now);
                }
            }
            Yields::Skip if self.queues.len(cpu) > 1 => self.cpus[cpu.index()].skip = Some(e),
            Yields::Skip | Yields::Ignored => {}
        }
    }

    fn blocked(&mut self, e: EntityId, cpu: CpuId, now: Instant) {
        let run = now.since(self.cpus[cpu.index()].last_switch);
        self.rule.blocks(&mut self.tasks[e.index()], run);
        self.queues.dequeue(e);
        self.check_slice(e, Expired::Blocked, now);
    }

    /// Returns the entity that `cpu` should run according to its queue. An entity that lets another entity run once is
    /// skipped if another entity waits.
    fn choose(&mut self, cpu: CpuId) -> Option<EntityId> {
        let skipped = self.cpus[cpu.index()].skip.take();
        let first = self.queues.first(cpu)?;
        let next = (skipped == Some(first)).then(|| self.queues.next(first)).flatten();
        Some(next.unwrap_or(first))
    }
}

impl<R: Rule> Policy for Engine<R> {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let (params, now) = (cx.params(e), cx.now());
        let nice = params.weight.nearest_nice();
        let task = Task {
            kind: Kind::of(params, self.settings.deadline_is_fifo),
            nice,
            slice: self.rule.slice(),
            last_ran: now,
            home: cx.last_cpu(e),
            state: self.rule.first_state(nice, now),
        };
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, task);
        }
        self.tasks[e.index()] = task;
        self.queues.reserve(e);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        assert!(self.queues.queue_of(e).is_none(), "{e} leaves blocked");
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = cx.params(e);
        let (kind, nice) = (Kind::of(params, self.settings.deadline_is_fifo), params.weight.nearest_nice());
        let task = self.task(e);
        (task.kind, task.nice) = (kind, nice);
        let Some(cpu) = self.queues.queue_of(e) else { return Ok(()) };
        // If the running entity's affinity now excludes the CPU, the machine kicks the CPU, and the entity moves when
        // it stops.
        if cx.is_waiting(e) && !cx.may_run(e, cpu) {
            let to = cx.allowed(e).first().expect("an affinity contains a CPU");
            self.move_to(e, to, cx);
            return Ok(());
        }
        self.queues.turn(cpu, cx.now());
        if self.level(e, cx.now()) != self.queues.level_of(e) {
            self.requeue(e, cx.now());
            self.call(cpu, cx);
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        let now = cx.now();
        match why {
            Wake::New { parent: Some(parent) } => self.fork(parent, e, cx),
            Wake::New { parent: None } => {
                let nice = self.tasks[e.index()].nice;
                self.task(e).state = self.rule.first_state(nice, now);
            }
            Wake::By { .. } | Wake::Interrupt | Wake::Timer | Wake::Resumed => {
                let slept = now.since(self.tasks[e.index()].last_ran);
                self.rule.wakes(&mut self.tasks[e.index()], slept);
            }
        }
        let cpu = self.place(e, cx);
        self.enqueue_and_call(e, cpu, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.queues.dequeue(e).expect("a waiting entity is queued");
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        let task = self.task(e);
        task.slice = task.slice.saturating_sub(ran);
        task.last_ran = cx.now();
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let (e, now) = (prev.entity, cx.now());
        let slot = &mut self.cpus[cpu.index()];
        assert_eq!(slot.running.take(), Some(e), "the stopped entity was picked");
        let push = slot.push.take();
        slot.previous = None;
        self.queues.turn(cpu, now);
        if prev.why == StopReason::Blocked {
            self.blocked(e, cpu, now);
            return;
        }
        if prev.why == StopReason::Yielded {
            self.yielded(e, cpu, now);
        }
        if prev.why != StopReason::Yielded || self.settings.yields != Yields::Ignored {
            self.check_slice(e, Expired::Queued, now);
        }
        if !cx.may_run(e, cpu) {
            let to = cx.allowed(e).first().expect("an affinity contains a CPU");
            self.move_to(e, to, cx);
        } else if push != Some(e) || !self.push(e, cpu, cx) {
            self.cpus[cpu.index()].previous = Some(e);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let now = cx.now();
        self.queues.turn(cpu, now);
        let chosen = match self.choose(cpu) {
            None if self.steal(cpu, cx) => self.queues.first(cpu),
            chosen => chosen,
        };
        let Some(e) = chosen else {
            self.look_again_later(cpu, cx);
            self.balance_cores(cpu, cx);
            return Decision::IDLE;
        };
        let slot = &mut self.cpus[cpu.index()];
        slot.running = Some(e);
        if slot.previous.take() != Some(e) {
            slot.last_switch = now;
            self.task(e).last_ran = now;
        }
        self.let_look_again(cpu, cx);
        Decision::until(e, self.end_of_slice(now, self.tasks[e.index()].slice))
    }

    fn interactive(&self, e: EntityId) -> bool {
        self.rule.interactive(&self.tasks[e.index()])
    }

    fn position(&self, e: EntityId) -> Option<Position> {
        self.rule.position(&self.tasks[e.index()].state)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let signed = |n: usize| i64::try_from(n).expect("it is small");
        let task = &self.tasks[e.index()];
        if self.queues.queue_of(e).is_some() {
            show("level", signed(self.queues.level_of(e)) - 1); // -1 is the stop level, 0 the level of priority 99.
        }
        show("cpu", signed(task.home.index()));
        show("nice", i64::from(task.nice));
        show("slice", task.slice.as_ns().cast_signed());
        self.rule.show(&task.state, show);
    }
}
