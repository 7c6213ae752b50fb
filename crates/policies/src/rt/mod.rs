//! The real-time classes of Linux, SCHED_FIFO and SCHED_RR: the highest priority runs.
//!
//! Every CPU has a list for each of the priorities 1 to 99; the first of the highest list runs, and goes on until it
//! blocks, yields, or somebody of a higher priority comes. SCHED_RR shares a list in turns of 100 ms.
//!
//! ```text
//! a FIFO 10 from 0, b FIFO 20 from 20 to 60 ms, f fair, one CPU; 5 ms a letter
//! 0         50        100               950       1000
//! aaaabbbbbbbbaaaaaaaa        …         ffffffffffaaaa
//! ```
//!
//! **Lists** (sched(7)). Who wakes goes last in its list; who is preempted goes first; who yields goes last. Who waits and
//! is given a higher priority goes last in its new list, with a lower one first; with the same one it stays. A
//! turn of SCHED_RR is counted down at ticks; at its end the entity goes last, with a fresh turn, if there is anybody
//! else in its list, and goes on with a fresh turn otherwise.
//!
//! **Several CPUs.** The entities of the highest priorities run, as far as they are free to move: who wakes stays on its
//! CPU unless somebody at least as urgent is there; else it goes to the CPU whose most urgent entity is least
//! urgent, if that is less urgent than it is. A CPU that leaves somebody waiting *pushes* the most urgent of them to
//! such a CPU; a CPU about to run something less urgent *pulls* the most urgent that waits elsewhere. After
//! every decision, nobody waits while a CPU it may use runs somebody less urgent.
//!
//! **Throttling.** Once real-time entities have used more than 0.95 s of a second on a CPU, those that are there are held
//! until the second is over, and the CPU is left to less urgent classes. Time used beyond is counted in the next
//! second. CPUs do not borrow from each other. Who is held does not move; who wakes on a throttled CPU is held there.
//!
//! Differences from the kernel: idle CPUs count as less urgent than those that run a fair task, in the search for the least urgent
//! CPU; seconds begin at multiples of a second; push looks further than the first that cannot be pushed, so that the
//! rule holds with affinities, too; SCHED_DEADLINE is not here.
//!
//! Source: torvalds/linux kernel/sched/rt.c, cpupri.c, v5.13; sched(7).

mod balance;
#[cfg(test)]
mod tests;
mod throttle;
mod urgency;

use sched::queue::Levels;
use sched::{
    Alarm, AlarmKind, AlarmSlots, Class, CpuId, CpuSet, Cx, EntityId, Host, Instant, Knob, Knobs, Nanos, Of, Params,
    Policy, Refused, Slice, State, Stopped, Wake, Why,
};
use throttle::{Limit, PERIOD};
use urgency::{Level, OTHER, PRIORITIES, Urgency};

/// What the class can be tuned by; whoever composes it adds a time named `tick`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::time("rr-slice", Nanos::ms(100), (Nanos::us(100), Nanos::s(10)), "a turn of SCHED_RR, counted in ticks")
        .from("sched_rr_timeslice_ms, kernel/sched/rt.c"),
    Knob::switch("rt-throttling", true, "whether real-time entities are held to a runtime")
        .from("sched_rt_runtime_us, kernel/sched/rt.c; off: -1"),
    Knob::time("rt-period", Nanos::s(1), (Nanos::ms(1), Nanos::s(100)), "the period of throttling")
        .from("sched_rt_period_us, kernel/sched/rt.c"),
    Knob::time("rt-runtime", Nanos::ms(950), (Nanos::us(1), Nanos::s(100)), "how much of it a CPU gives, if less")
        .from("sched_rt_runtime_us, kernel/sched/rt.c"),
];

/// Its alarm slots.
pub(crate) const ALARMS: AlarmSlots =
    AlarmSlots { policy: &[AlarmKind::Timer], cpu: &[AlarmKind::Tick], ..AlarmSlots::NONE };

const fn ticker(cpu: CpuId) -> Alarm {
    Alarm { of: Of::Cpu(cpu), slot: 0 }
}

/// Whether real-time entities are throttled at all.
pub(crate) fn is_limited(knobs: &Knobs) -> bool {
    knobs.on("rt-throttling") && knobs.time("rt-runtime") < knobs.time("rt-period")
}

/// What is kept of an entity.
#[derive(Clone, Copy, Debug)]
struct Task {
    level: Level,
    /// The CPU on whose lists it is, or where it was last.
    home: CpuId,
    /// What is left of its turn, in ticks; `None`: SCHED_FIFO.
    ticks_left: Option<u64>,
    /// Whether its turn is over and the next of its list is to run.
    turn_over: bool,
    /// Whether it is held because its CPU is throttled.
    held: bool,
}

/// What is kept of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    running: Option<EntityId>,
    /// The time real-time entities have used in this period.
    used: Nanos,
    throttled: bool,
}

/// The class. It may be alone on a machine, or the most urgent class of a composition.
#[derive(Debug)]
pub(crate) struct Rt {
    queues: Levels,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    urgency: Urgency,
    /// The CPUs on which somebody waits.
    waiting: CpuSet,
    limit: Option<Limit>,
    period_end: Instant,
    tick: Nanos,
    turn: u64,
}

impl Rt {
    /// The class on `host`, with these knobs and `tick`.
    pub(crate) fn new(host: &Host, knobs: &Knobs) -> Rt {
        let (tick, period, runtime) = (knobs.time("tick"), knobs.time("rt-period"), knobs.time("rt-runtime"));
        let limited = is_limited(knobs);
        Rt {
            queues: Levels::new(host.cpus, PRIORITIES),
            tasks: Vec::new(),
            cpus: vec![Cpu::default(); host.cpus],
            urgency: Urgency::new(host.cpus),
            waiting: CpuSet::EMPTY,
            limit: limited.then_some(Limit { period, runtime }),
            period_end: Instant::NEVER,
            tick,
            turn: knobs.time("rr-slice").as_ns().div_ceil(tick.as_ns()),
        }
    }

    /// `e`, which is attached and blocked for all the class knows, runs on `cpu` already.
    pub(crate) fn adopt(&mut self, e: EntityId, cpu: CpuId) {
        self.cpus[cpu.index()].running = Some(e);
        self.tasks[e.index()].home = cpu;
        self.update(cpu);
    }

    // ---- Queues ----

    fn queue_of(&self, e: EntityId) -> Option<CpuId> {
        self.queues.place(e).map(|(queue, _)| CpuId::new(queue))
    }

    /// The level of who runs on `cpu`.
    fn running_level(&self, cpu: CpuId) -> Level {
        self.cpus[cpu.index()].running.map_or(OTHER, |e| self.tasks[e.index()].level)
    }

    /// Notes how urgent `cpu` is now.
    fn update(&mut self, cpu: CpuId) {
        let queued = self.queues.best(cpu.index());
        match queued {
            Some(_) => self.waiting.insert(cpu),
            None => self.waiting.remove(cpu),
        };
        let level = queued.unwrap_or(OTHER).min(self.running_level(cpu));
        self.urgency.set(cpu, (!self.cpus[cpu.index()].throttled).then_some(level));
    }

    /// Takes `e` out of its list.
    fn unqueue(&mut self, e: EntityId) {
        if let Some(cpu) = self.queue_of(e) {
            self.queues.remove(e);
            self.update(cpu);
        }
    }

    /// Puts `e`, which waits, first in its list on `cpu`.
    fn queue_first(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.push_front(cpu.index(), self.tasks[e.index()].level, e);
        self.queued(e, cpu, cx);
    }

    /// Puts `e`, which waits, last in its list on `cpu`.
    fn queue_last(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queues.push_back(cpu.index(), self.tasks[e.index()].level, e);
        self.queued(e, cpu, cx);
    }

    fn queued(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.tasks[e.index()].home = cpu;
        match self.cpus[cpu.index()].throttled {
            true => self.hold(e, cx),
            false => self.release(e, cx),
        }
        self.update(cpu);
    }

    /// Finds a CPU for `e`, puts it last in its list there, and calls the CPU if it is more urgent than who runs.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let cpu = self.place(e, cx);
        self.enqueue_on(e, cpu, cx);
    }

    fn enqueue_on(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queue_last(e, cpu, cx);
        if !self.cpus[cpu.index()].throttled && self.tasks[e.index()].level < self.running_level(cpu) {
            cx.kick(cpu);
        }
    }

    // ---- Changes and ticks ----

    /// Takes over class and priority of `e`.
    fn configure(&mut self, e: EntityId, cx: &Cx<'_>) -> Result<(), Refused> {
        let params = cx.params(e);
        let Some(priority) = params.class.rt_priority() else {
            return Err(Refused::Unsupported(
                "only real-time entities can be here; right would be class fifo or rr with a priority from 1 to 99",
            ));
        };
        let task = &mut self.tasks[e.index()];
        task.level = PRIORITIES - usize::from(priority.number());
        let takes_turns = matches!(params.class, Class::RoundRobin(_));
        if takes_turns != task.ticks_left.is_some() {
            task.ticks_left = takes_turns.then_some(self.turn);
            task.turn_over = false;
        }
        Ok(())
    }

    /// `e` waits on `cpu`, and its priority was at `old`.
    fn reposition(&mut self, e: EntityId, cpu: CpuId, old: Level, cx: &mut Cx<'_>) {
        let level = self.tasks[e.index()].level;
        if !cx.may_run(e, cpu) {
            self.unqueue(e);
            self.enqueue(e, cx);
            return;
        }
        if level != old {
            self.queues.remove(e);
            match level < old {
                true => self.queue_last(e, cpu, cx),
                false => self.queue_first(e, cpu, cx),
            }
        }
        self.push_one(e, cx);
    }

    fn tick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let Some(e) = self.cpus[cpu.index()].running else { return };
        if let Some((_, ran)) = cx.take_ran(cpu) {
            self.count(cpu, ran, cx);
        }
        let task = &mut self.tasks[e.index()];
        if let Some(left) = &mut task.ticks_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                *left = self.turn;
                if self.queues.is_occupied(cpu.index(), task.level) {
                    task.turn_over = true;
                    cx.kick(cpu);
                }
            }
        }
        self.start_ticker(e, cpu, cx);
    }

    /// Sets the ticker of `cpu`, on which `e` runs, if it is needed and not set.
    fn start_ticker(&self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        let needed = self.limit.is_some() || self.tasks[e.index()].ticks_left.is_some();
        if needed && cx.alarm_at(ticker(cpu)).is_none() {
            cx.set_alarm(ticker(cpu), cpu, cx.now().next_tick(self.tick, Nanos::ZERO));
        }
    }
}

impl Policy for Rt {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let task = Task { level: 0, home: cx.last_cpu(e), ticks_left: None, turn_over: false, held: false };
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, task);
        }
        self.tasks[e.index()] = task;
        self.configure(e, cx)?;
        self.queues.reserve(e);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        assert!(self.queue_of(e).is_none(), "{e} leaves blocked");
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let old = self.tasks[e.index()].level;
        self.configure(e, cx)?;
        if let Some(cpu) = self.queue_of(e) {
            self.reposition(e, cpu, old, cx);
        } else if let State::Running(cpu) = cx.state(e) {
            self.update(cpu);
            self.start_ticker(e, cpu, cx);
            if self.tasks[e.index()].level > old && !self.waiting.is_empty() {
                cx.kick(cpu);
            }
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.unqueue(e);
        self.release(e, cx);
    }

    fn charge(&mut self, _e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        self.count(cx.here(), ran, cx);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        match alarm {
            PERIOD => self.end_period(cx),
            Alarm { of: Of::Cpu(cpu), .. } => self.tick(cpu, cx),
            _ => unreachable!("{alarm:?} is never set"),
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        assert_eq!(self.cpus[cpu.index()].running.take(), Some(e), "who stops was picked");
        self.update(cpu);
        let turn_over = core::mem::take(&mut self.tasks[e.index()].turn_over);
        if prev.why == Why::Blocked {
            self.release(e, cx);
        } else if !cx.may_run(e, cpu) {
            self.enqueue(e, cx);
        } else if prev.why == Why::Yielded || turn_over {
            self.queue_last(e, cpu, cx);
        } else {
            self.queue_first(e, cpu, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Slice {
        if self.cpus[cpu.index()].throttled {
            return Slice::IDLE;
        }
        self.pull(cpu, self.queues.best(cpu.index()).unwrap_or(OTHER), cx);
        let Some(e) = self.queues.first(cpu.index()) else { return Slice::IDLE };
        self.queues.remove(e);
        self.cpus[cpu.index()].running = Some(e);
        self.update(cpu);
        self.start_ticker(e, cpu, cx);
        self.start_period(cx);
        self.push(cpu, cx);
        Slice::forever(e)
    }

    fn interactive(&self, _e: EntityId) -> bool {
        true
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let task = &self.tasks[e.index()];
        let signed = |n: usize| i64::try_from(n).expect("it is small");
        show("rt-priority", signed(PRIORITIES - task.level));
        show("cpu", signed(task.home.index()));
        show("throttled", i64::from(task.held));
        if let Some(left) = task.ticks_left {
            show("turn", self.tick.saturating_mul(left).as_ns().cast_signed());
        }
    }
}
