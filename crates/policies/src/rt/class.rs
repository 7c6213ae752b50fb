//! [`Rt`]: the real-time class, built on [`MostUrgent`].

use super::budget::{Budget, Limit, PERIOD};
use crate::classes::Layer;
use crate::most_urgent::{MostUrgent, Rank};
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, Class, CpuId, Cx, Decision, EntityId, Instant, Knobs, Nanos, Params,
    Policy, Refused, State, StopReason, Stopped, Topology, Wake,
};

/// The index of a priority: 0 for priority 99, 98 for priority 1.
type Level = u8;

/// The number of real-time priorities.
const PRIORITIES: Level = 99;

/// The alarm slots of the class.
pub(crate) const ALARMS: AlarmSlots =
    AlarmSlots { policy: &[AlarmKind::Timer], cpu: &[AlarmKind::Tick], ..AlarmSlots::NONE };

const fn ticker(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

/// Returns whether real-time entities are throttled.
pub(crate) fn is_limited(knobs: &Knobs) -> bool {
    knobs.on("rt-throttling") && knobs.time("rt-runtime") < knobs.time("rt-period")
}

/// The state of an entity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Remainder of the time slice, in ticks; `None`: SCHED_FIFO.
    ticks_left: Option<u64>,
    /// Whether the time slice of the entity is over, so that the next entity of its list should run.
    turn_over: bool,
    /// Whether the entity is held because its CPU is throttled.
    pub(super) held: bool,
}

/// The real-time class.
#[derive(Debug)]
pub(crate) struct Rt {
    /// The queues; a throttled CPU is shut.
    pub(super) queues: MostUrgent<Level>,
    pub(super) tasks: Vec<Task>,
    /// Budget of each CPU, if there is a limit.
    pub(super) budgets: Vec<Budget>,
    pub(super) limit: Option<Limit>,
    pub(super) period_end: Instant,
    tick: Nanos,
    turn: u64,
}

impl Rt {
    /// Creates the class on `host`. Unless `throttled`, the runtime of real-time entities is not limited.
    pub(crate) fn new(host: &Topology, knobs: &Knobs, throttled: bool) -> Rt {
        let (tick, period, runtime) = (knobs.time("tick"), knobs.time("rt-period"), knobs.time("rt-runtime"));
        let shared = knobs.on("rt-runtime-share");
        let limit = (throttled && is_limited(knobs)).then_some(Limit { period, runtime, shared });
        Rt {
            queues: MostUrgent::new(host.cpus, false),
            tasks: Vec::new(),
            budgets: limit.map_or(Vec::new(), |limit| vec![limit.budget(); host.cpus]),
            limit,
            period_end: Instant::NEVER,
            tick,
            turn: knobs.time("rr-slice").as_ns().div_ceil(tick.as_ns()),
        }
    }

    /// Holds `e`, which was just enqueued, if its CPU is throttled. Otherwise releases `e`.
    fn queued(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        match self.queues.is_shut(self.queues.home(e)) {
            true => self.hold(e, cx),
            false => self.release(e, cx),
        }
    }

    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queues.enqueue(e, cx);
        self.queued(e, cx);
    }

    // ---- Changes and ticks ----

    fn level_of(params: &Params) -> Level {
        let priority = params.class.rt_priority().expect("only real-time entities are in this class");
        PRIORITIES - priority.number()
    }

    /// Applies the class in `params` to `e`: SCHED_RR with time slices, SCHED_FIFO without.
    fn configure(&mut self, e: EntityId, params: &Params) {
        let task = &mut self.tasks[e.index()];
        let takes_turns = matches!(params.class, Class::RoundRobin(_));
        if takes_turns != task.ticks_left.is_some() {
            task.ticks_left = takes_turns.then_some(self.turn);
            task.turn_over = false;
        }
    }

    /// Changes the priority of `e`, which waits on `cpu`, to `level`.
    fn reposition(&mut self, e: EntityId, cpu: CpuId, level: Level, cx: &mut Cx<'_>) {
        let old = self.queues.urgency(e);
        if !cx.may_run(e, cpu) {
            self.queues.unqueue(e);
            self.queues.set_urgency(e, level);
            return self.enqueue(e, cx);
        }
        if level != old {
            self.queues.unqueue(e);
            self.queues.set_urgency(e, level);
            match level < old {
                true => self.queues.queue_last(e, cpu),
                false => self.queues.queue_first(e, cpu),
            }
        }
        self.queues.push_one(e, cx);
    }

    fn tick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let Some(e) = self.queues.running(cpu) else { return };
        if let Some((_, ran)) = cx.take_ran(cpu) {
            self.count(cpu, ran, cx);
        }
        let level = self.queues.urgency(e);
        let task = &mut self.tasks[e.index()];
        if let Some(left) = &mut task.ticks_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                *left = self.turn;
                if self.queues.has_equal(cpu, level) {
                    task.turn_over = true;
                    cx.kick(cpu);
                }
            }
        }
        self.start_ticker(e, cpu, cx);
    }

    /// Sets the tick of `cpu`, on which `e` runs, if the tick is needed and not set.
    fn start_ticker(&self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        let needed = self.limit.is_some() || self.tasks[e.index()].ticks_left.is_some();
        if needed && cx.alarm_at(ticker(cpu)).is_none() {
            cx.set_alarm(ticker(cpu), cpu, cx.now().next_tick(self.tick, Nanos::ZERO));
        }
    }
}

impl Layer for Rt {
    fn adopt(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.adopt(e, cpu);
        if self.queues.is_shut(cpu) {
            self.hold(e, cx);
        }
        cx.kick(cpu);
    }

    fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.take(cpu, cx);
    }
}

impl Policy for Rt {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let task = Task { ticks_left: None, turn_over: false, held: false };
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, task);
        }
        self.tasks[e.index()] = task;
        self.queues.attach(e, Rt::level_of(&params), cx.last_cpu(e));
        self.configure(e, &params);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        assert!(self.queues.queue_of(e).is_none(), "{e} leaves blocked");
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let (old, level) = (self.queues.urgency(e), Rt::level_of(&params));
        self.configure(e, &params);
        if let Some(cpu) = self.queues.queue_of(e) {
            self.reposition(e, cpu, level, cx);
            return Ok(());
        }
        self.queues.set_urgency(e, level);
        if let State::Running(cpu) = cx.state(e) {
            self.start_ticker(e, cpu, cx);
            if level > old && self.queues.has_waiting() {
                cx.kick(cpu);
            }
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queues.unqueue(e);
        self.release(e, cx);
    }

    fn charge(&mut self, _e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        self.count(cx.here(), ran, cx);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        match alarm {
            PERIOD => self.end_period(cx),
            Alarm { owner: AlarmOwner::Cpu(cpu), .. } => self.tick(cpu, cx),
            _ => unreachable!("{alarm:?} is never set"),
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        self.queues.put(cpu, e);
        let turn_over = core::mem::take(&mut self.tasks[e.index()].turn_over);
        if prev.why == StopReason::Blocked {
            return self.release(e, cx);
        }
        if !cx.may_run(e, cpu) {
            return self.enqueue(e, cx);
        }
        if prev.why == StopReason::Yielded || turn_over {
            self.queues.queue_last(e, cpu);
        } else {
            self.queues.queue_first(e, cpu);
        }
        self.queued(e, cx);
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let Some(e) = self.queues.pick(cpu, Rank::Other, cx) else { return Decision::IDLE };
        self.start_ticker(e, cpu, cx);
        self.start_period(cx);
        Decision::forever(e)
    }

    fn interactive(&self, _e: EntityId) -> bool {
        true
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let task = &self.tasks[e.index()];
        show("rt-priority", i64::from(PRIORITIES - self.queues.urgency(e)));
        show("cpu", i64::try_from(self.queues.home(e).index()).expect("it is small"));
        show("throttled", i64::from(task.held));
        if let Some(left) = task.ticks_left {
            show("turn", self.tick.saturating_mul(left).as_ns().cast_signed());
        }
    }
}
