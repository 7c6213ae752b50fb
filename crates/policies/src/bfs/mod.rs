//! BFS: one run queue for all CPUs; the task with the earliest virtual deadline runs.
//!
//! BFS is Con Kolivas's scheduler for desktops with few CPUs. Each task has a time slice and a virtual deadline. The
//! deadline is set when the task receives a new time slice. A higher nice value gives a later deadline. Of the runnable
//! tasks, the task with the earliest deadline runs. BFS does not estimate which tasks are interactive. A task that
//! sleeps keeps its deadline and the rest of its time slice. After a sleep, this deadline is early compared with the
//! deadlines of tasks that ran in the meantime. A task that blocks receives a new time slice and a new deadline only if
//! its time slice is used up.
//!
//! ```text
//! one CPU, a and b nice 0 from 0; c nice -10 at 13 for 1 ms (binary-milliseconds = off)
//! 0     6     12 13 14    19
//! aaaaaabbbbbba  c  aaaaa bbbbbb
//! ```
//!
//! **Classes.** From the most to the least urgent, the order is: stop class; SCHED_FIFO and SCHED_RR by priority;
//! SCHED_ISO; normal and batch; idle. A task of a more urgent class always runs first. SCHED_ISO needs no privilege.
//! SCHED_ISO tasks rank above normal tasks until an account of real-time and isochronous ticks exceeds 70 % of its
//! maximum. If every CPU runs only real-time and SCHED_ISO tasks, the account exceeds this limit after 3.5 s. From then
//! on, SCHED_ISO tasks count as normal, until the account falls below 62 %. At 70 %, a tick during such a task adds 100
//! units to the account, and a tick during any other task removes 71 units. In the long run, SCHED_ISO tasks therefore
//! receive at most about 41 % of the CPU time at their own rank. Batch tasks receive a new deadline at each preemption.
//! Idle tasks run only when no other task is runnable.
//!
//! **Time slice and deadline.** Each tick deducts the CPU time of the running task from its time slice. A task that has
//! used up its time slice receives a new time slice and a new deadline, `offset(nice)` after the current time. The
//! offset at nice 0 is 41 ms, at nice −20 it is 6 ms, and at nice 19 it is 250 ms. A deadline does not change while its
//! task waits. The shares of tasks that never block are therefore about inversely proportional to the squares of their
//! offsets (sched-BFS.txt). Beside a task of nice 0, a task of nice 19 receives 3 % of the CPU time.
//!
//! **Wake-up.** For a woken task, BFS chooses an idle CPU in its affinity. The choice prefers a core without a busy
//! thread, then a CPU near the task's last CPU and a cache without a busy CPU. If no CPU idles, the woken task is
//! compared with the least urgent running task. This is the task with the latest deadline in the least urgent class
//! that runs. If the woken task is more urgent, it preempts that task. A synchronous wake-up, whose waker is about to
//! sleep, preempts no task.
//!
//! **Several CPUs.** A task that is preempted or yields is *sticky* on its CPU; each CPU has at most one sticky task.
//! When another CPU compares deadlines, it multiplies the time until the sticky task's deadline by 2, 4 or 16,
//! depending on its distance. A sticky task whose deadline lies ahead is therefore less likely to migrate. Apart from
//! this rule, every CPU picks the earliest deadline in the most urgent class with a waiting task.
//!
//! **Ticks.** A task that was dispatched in the first half of a tick period is preempted early. It is preempted at the
//! first tick at which at most half a tick period of its time slice is left. Otherwise the task would run until the
//! next tick and exceed its time slice by half a tick period or more.
//!
//! Differences from the kernel: the kernel scans one list for the earliest deadline. Here a tree holds the deadlines,
//! and sticky tasks are compared separately, with the same result. A wake-up does not kick a CPU that has been kicked
//! and has not picked yet. If a preempted task may run on another CPU that is idle, that CPU is kicked. A weight is
//! converted to the nearest nice value. The kernel promotes a task of the idle class that has a pending signal or holds
//! a lock; this policy does not. CPU frequencies are not modelled.
//!
//! Source: kernel/sched/bfs.c, v0.428 to v0.446 (Kolivas); Documentation/scheduler/sched-BFS.txt.

mod deadlines;
mod isochronous;
mod parts;
mod queue;
mod rank;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use deadlines::Lengths;
use isochronous::Account;
use queue::{DeadlineQueues, Distance};
use rank::Rank;
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, Class, Conserving, CpuId, Cx, Decision, Descriptor, EntityId, Guarantees,
    Instant, Knob, Knobs, Nanos, Params, Policy, Position, Refused, Running, State, StopReason, Stopped, Topology,
    Wake,
};
pub(crate) use shape::{Parts, Shape, Yields};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "bfs",
    title: "one run queue; the earliest virtual deadline runs",
    source: "kernel/sched/bfs.c, v0.428 to v0.446 (Con Kolivas)",
    good_for: "short response times on few CPUs, without tuning",
    bad_at: "many CPUs, shares by group, and reservations",
    text: include_str!("mod.rs"),
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    starvation: |_| None, // Real-time, isochronous and idle classes have strict priorities.
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots { cpu: &[AlarmKind::Tick], ..AlarmSlots::NONE },
    knobs: &[
        Knob::time(
            "rr-interval",
            Nanos::ms(6),
            (Nanos::ms(1), Nanos::s(1)),
            "the length of a time slice, in the milliseconds of bfs.c",
        )
        .from("rr_interval, 0.428 and later"),
        Knob::switch("binary-milliseconds", true, "a millisecond is 1,024 us in time slices and 2^20 ns in deadlines")
            .from("MS_TO_US and MS_TO_NS, bfs.c"),
        Knob::choice("ratios", &["later", "early"], "the ratio of nice -20: 128 (later) or 100 (early)")
            .from("prio_ratios: 128 in 0.428 and later, 100 in 2.6.31"),
        Knob::switch("scale-interval", false, "the interval is multiplied by 1 + log2(CPUs)")
            .from("sched_init_smp before 0.428; sched-BFS.txt still states it"),
        Knob::percent("iso-cpu", [70, 0, 100], "the part of real-time and ISO ticks above which ISO counts as normal")
            .from("sched_iso_cpu"),
        Knob::time(
            "tick",
            Nanos::ms(1),
            (Nanos::us(500), Nanos::ms(10)),
            "the period of the scheduler tick of each CPU",
        )
        .from("HZ = 1000"),
        Knob::choice(
            "locality",
            &["distance", "cache", "none"],
            "the rule by which other CPUs rank a sticky task lower",
        )
        .from("locality_diff: 1, 2, 4 in 0.44x; 0, 1, 2 before; none: no sticky tasks"),
        Knob::switch("expired-first", false, "tasks past their deadline run first, in order of arrival")
            .from("sched-BFS.txt, not in the code of 0.428 and later"),
    ],
    build,
};

/// Minimum remainder of a time slice; a smaller remainder counts as used up. Source: `RESCHED_US`, bfs.c.
const RESCHEDULE: Nanos = Nanos::us(100);

#[derive(Clone, Copy, Debug)]
struct Task {
    class: Class,
    nice: i32,
    slice: Nanos,
    deadline: Instant,
    /// Whether the task has received its first time slice.
    begun: bool,
    /// Whether the task was interactive at its last wake-up.
    interactive: bool,
    /// Whether the affinity excludes some CPUs.
    restricted: bool,
}

/// The entity that a CPU runs or ran last.
#[derive(Clone, Copy, Debug)]
struct Current {
    rank: Rank,
    deadline: Instant,
    nice: i32,
    /// Whether the entity was dispatched in the first half of a tick period.
    dither: bool,
}

pub(crate) struct Bfs {
    lengths: Lengths,
    tick: Nanos,
    locality: Locality,
    expired_first: bool,
    queue: DeadlineQueues,
    shape: Shape,
    /// State of each entity, by index.
    tasks: Vec<Task>,
    /// Entity that each CPU runs or ran last.
    current: Vec<Current>,
    /// SCHED_ISO account of each run queue.
    accounts: Vec<Account>,
    /// Number of entities whose affinity excludes some CPU.
    restricted: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Locality {
    Distance,
    Cache,
    None,
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let locality = match knobs.word("locality") {
        "distance" => Locality::Distance,
        "cache" => Locality::Cache,
        _ => Locality::None,
    };
    let lengths = Lengths::new(knobs, host.cpus);
    let expired_first = knobs.on("expired-first");
    Ok(Box::new(Bfs { locality, expired_first, ..Bfs::new(host, knobs, lengths, Shape::Global) }))
}

const fn ticker(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

impl Bfs {
    /// Creates a scheduler of this shape without sticky entities. `knobs` must contain `tick` and `iso-cpu`.
    pub(crate) fn new(host: &Topology, knobs: &Knobs, lengths: Lengths, shape: Shape) -> Bfs {
        let tick = knobs.time("tick");
        let current = Current { rank: Rank::IDLE, deadline: Instant::NEVER, nice: 0, dither: false };
        let sizes = match &shape {
            Shape::Global => vec![host.cpus],
            Shape::Parts(parts) => {
                let queues = parts.queue_of.iter().max().map_or(1, |last| last + 1);
                (0..queues).map(|queue| parts.queue_of.iter().filter(|&&of| of == queue).count()).collect()
            }
        };
        let percent = knobs.get("iso-cpu").unsigned_abs();
        Bfs {
            lengths,
            tick,
            locality: Locality::None,
            expired_first: false,
            queue: DeadlineQueues::new(sizes.len(), host.cpus),
            shape,
            tasks: Vec::new(),
            current: vec![current; host.cpus],
            accounts: sizes.into_iter().map(|cpus| Account::new(tick, cpus, percent)).collect(),
            restricted: 0,
        }
    }

    fn queue_of(&self, cpu: CpuId) -> usize {
        match &self.shape {
            Shape::Global => 0,
            Shape::Parts(parts) => parts.queue_of[cpu.index()],
        }
    }

    fn task(&mut self, e: EntityId) -> &mut Task {
        &mut self.tasks[e.index()]
    }

    /// Returns the current rank of `e`. The account of `queue` decides the rank of isochronous entities.
    fn rank(&self, e: EntityId, queue: usize) -> Rank {
        match self.tasks[e.index()].class {
            Class::Stop => Rank(0),
            Class::Fifo(priority) | Class::RoundRobin(priority) => Rank(100 - priority.number()),
            Class::Isochronous if !self.accounts[queue].is_refractory() => Rank(Rank::ISO),
            Class::Isochronous | Class::Normal | Class::Batch => Rank::NORMAL,
            Class::Idle => Rank::IDLE,
        }
    }

    fn counts_slices(&self, e: EntityId) -> bool {
        !matches!(self.tasks[e.index()].class, Class::Stop | Class::Fifo(_))
    }

    /// Sets a full time slice and a new deadline for `e`.
    fn refill(&mut self, e: EntityId, now: Instant) {
        let offset = self.lengths.offset(self.tasks[e.index()].nice);
        let slice = self.lengths.slice;
        let task = self.task(e);
        (task.slice, task.deadline, task.begun) = (slice, now.saturating_add(offset), true);
    }

    /// Returns the distance from `from` to `cpu` according to the knob `locality`.
    fn distance(&self, host: &Topology, from: CpuId, cpu: CpuId) -> Distance {
        let steps = if host.share_core(from, cpu) {
            0
        } else if host.share_cache(from, cpu) {
            1
        } else {
            2
        };
        match self.locality {
            Locality::Distance => [1, 2, 4][steps],
            Locality::Cache => [0, 1, 2][steps],
            Locality::None => 0,
        }
    }

    /// Enqueues `e`, which is runnable, in the run queue of `cpu`. `taken_off`: `e` has just been stopped on `cpu`.
    fn enqueue(&mut self, e: EntityId, cpu: CpuId, taken_off: bool, cx: &Cx<'_>) {
        let deadline = self.tasks[e.index()].deadline;
        // With `expired-first`, entities past their deadline are ordered by arrival.
        let key = if self.expired_first && deadline <= cx.now() { Instant::ZERO } else { deadline };
        let sticky = (taken_off && self.locality != Locality::None).then_some(cpu);
        let queue = self.queue_of(cpu);
        self.queue.push(queue, e, self.rank(e, queue), key, sticky);
    }

    /// Enqueues `e`. Kicks the best idle CPU, or the CPU that runs the least urgent entity if `e` preempts that entity.
    fn enqueue_and_call(&mut self, e: EntityId, sync: bool, cx: &mut Cx<'_>) {
        let idle = if cx.idle_cpu_for(e).is_some() { self.best_idle(e, cx) } else { None };
        let last = Some(cx.last_cpu(e)).filter(|&last| cx.may_run(e, last));
        let near = idle.or(last).or_else(|| cx.allowed(e).first()).expect("an affinity contains a CPU");
        self.enqueue(e, near, false, cx);
        match idle {
            Some(idle) => cx.kick(idle),
            None => self.preempt(e, near, sync, cx),
        }
    }

    /// Returns the best idle CPU for `e` that has not been kicked: the CPU with the minimum sum of three penalties. The
    /// penalty for the distance from the last CPU of `e` is 0, 1, 2 or 8. The penalty for another busy CPU of the same
    /// cache is 4, and for another busy thread of the same core 16.
    fn best_idle(&self, e: EntityId, cx: &Cx<'_>) -> Option<CpuId> {
        let host = cx.topology();
        let idles = |cpu: CpuId| cx.running(cpu) == Running::Idle;
        let busy_sibling =
            |cpu: CpuId| host.iter().any(|other| other != cpu && host.share_core(cpu, other) && !idles(other));
        let busy_cache =
            |cpu: CpuId| host.iter().any(|other| other != cpu && host.share_cache(cpu, other) && !idles(other));
        let last = cx.last_cpu(e);
        let flags = |cpu: CpuId| {
            let near = match (cpu == last, host.share_core(cpu, last), host.share_cache(cpu, last)) {
                (true, ..) => 0,
                (_, true, _) => 1,
                (_, _, true) => 2,
                _ => 8,
            };
            near + 4 * u32::from(busy_cache(cpu)) + 16 * u32::from(busy_sibling(cpu))
        };
        let open = host.iter().filter(|&cpu| idles(cpu) && !cx.kicked(cpu) && cx.may_run(e, cpu));
        open.min_by_key(|&cpu| (flags(cpu), cpu != last, cpu.index()))
    }

    /// Kicks the CPU that runs the least urgent entity, if that entity is less urgent than `e`, which waits in the
    /// queue of `near`. Does nothing at a `sync` wake-up or for an `e` of the idle class.
    fn preempt(&self, e: EntityId, near: CpuId, sync: bool, cx: &mut Cx<'_>) {
        let rank = self.rank(e, self.queue_of(near));
        if sync || rank == Rank::IDLE {
            return;
        }
        let runs = |cpu: CpuId| match cx.running(cpu) {
            Running::Mine { .. } => Some((self.current[cpu.index()].rank, self.current[cpu.index()].deadline, cpu)),
            Running::Below => Some((Rank::IDLE, Instant::NEVER, cpu)),
            Running::Idle | Running::Above => None,
        };
        let open = cx.topology().iter().filter(|&cpu| cx.may_run(e, cpu) && !cx.kicked(cpu));
        let Some((worst, deadline, cpu)) = open.filter_map(runs).max_by_key(|&(rank, deadline, _)| (rank, deadline))
        else {
            return;
        };
        let earlier = rank == worst && rank.tree().is_some() && self.tasks[e.index()].deadline < deadline;
        if rank < worst || earlier {
            cx.kick(cpu);
        }
    }

    /// If a waiting entity may run on an idle CPU other than `picking`, kicks that CPU. `picking` may have been kicked
    /// for that entity, but picked another entity.
    fn call_for_stranded(&self, picking: CpuId, cx: &mut Cx<'_>) {
        let idle = |cpu: CpuId| cpu != picking && cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        if self.queue.is_empty() || !cx.topology().iter().any(idle) {
            return;
        }
        let waiting = self.queue.iter().filter_map(|e| Some((e, cx.idle_cpu_for(e)?)));
        let open = waiting.filter(|&(e, idle)| !self.is_kept_off(e, idle, cx)).map(|(_, idle)| idle).next();
        if let Some(idle) = open {
            cx.kick(idle);
        }
    }

    /// Gives a forked child its parent's deadline and half of the remainder of the parent's time slice. If less than
    /// 200 µs remain, the child receives a new time slice and a new deadline instead, and the parent's time slice ends.
    fn fork(&mut self, e: EntityId, parent: EntityId, cx: &mut Cx<'_>) {
        if let State::Running(cpu) = cx.state(parent)
            && let Some((ran_by, ran)) = cx.take_ran(cpu)
        {
            self.pay(ran_by, ran);
        }
        let Task { slice, deadline, .. } = self.tasks[parent.index()];
        let half = Nanos::ns(slice.as_ns() / 2);
        let task = self.task(e);
        (task.slice, task.deadline, task.begun) = (half, deadline, true);
        self.task(parent).slice = half;
        if slice < RESCHEDULE.saturating_mul(2) {
            self.refill(e, cx.now());
            self.task(parent).slice = Nanos::ZERO;
            if let State::Running(cpu) = cx.state(parent) {
                cx.kick(cpu);
            }
        }
    }

    fn pay(&mut self, e: EntityId, ran: Nanos) {
        let task = self.task(e);
        task.slice = task.slice.saturating_sub(ran);
    }
}

impl Policy for Bfs {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let fresh = Task {
            class: params.class,
            nice: params.weight.nearest_nice(),
            slice: Nanos::ZERO,
            deadline: Instant::ZERO,
            begun: false,
            interactive: false,
            restricted: !cx.may_run_anywhere(e),
        };
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, fresh);
        }
        self.tasks[e.index()] = fresh;
        self.queue.reserve(e);
        self.restricted += usize::from(fresh.restricted);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.restricted -= usize::from(self.tasks[e.index()].restricted);
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let restricted = !cx.may_run_anywhere(e);
        let was = core::mem::replace(&mut self.task(e).restricted, restricted);
        self.restricted = self.restricted + usize::from(restricted) - usize::from(was);
        let waits = self.queue.remove(e);
        let nice = params.weight.nearest_nice();
        let (before, after) = (self.lengths.offset(self.tasks[e.index()].nice), self.lengths.offset(nice));
        let task = self.task(e);
        let shifted = task.deadline.saturating_add(after).as_ns().saturating_sub(before.as_ns());
        (task.class, task.nice) = (params.class, nice);
        if task.begun {
            task.deadline = Instant::at_ns(shifted);
        }
        match cx.state(e) {
            State::Running(cpu) => cx.kick(cpu),
            State::Waiting if waits => {
                self.enqueue_and_call(e, false, cx);
            }
            State::Waiting | State::Blocked => {}
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        let now = cx.now();
        match why {
            Wake::New { parent: Some(parent) } if self.tasks[parent.index()].begun => self.fork(e, parent, cx),
            _ if !self.tasks[e.index()].begun => self.refill(e, now),
            _ => {}
        }
        let soon = now.saturating_add(self.lengths.slice);
        let task = self.task(e);
        task.interactive = task.deadline < soon;
        self.enqueue_and_call(e, matches!(why, Wake::By { sync: true, .. }), cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.queue.remove(e);
        self.forget_yield(e);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.pay(e, ran);
    }

    fn yield_to(&mut self, from: EntityId, to: EntityId, cx: &mut Cx<'_>) -> bool {
        if !self.queue.contains(to) {
            return false;
        }
        if let State::Running(cpu) = cx.state(from)
            && let Some((ran_by, ran)) = cx.take_ran(cpu)
        {
            self.pay(ran_by, ran);
        }
        let giver = self.tasks[from.index()];
        self.queue.remove(to);
        let task = self.task(to);
        task.deadline = task.deadline.min(giver.deadline);
        task.slice = task.slice.max(giver.slice);
        self.task(from).slice = Nanos::ZERO;
        self.enqueue(to, cx.here(), false, cx);
        true
    }

    /// Handles a tick: charges the time slice and updates the SCHED_ISO account.
    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let AlarmOwner::Cpu(cpu) = alarm.owner else { unreachable!("only CPUs have alarms here") };
        let now = cx.now();
        cx.set_alarm(ticker(cpu), cpu, now.next_tick(self.tick, Nanos::ZERO));
        let queue = self.queue_of(cpu);
        let was_refractory = self.accounts[queue].is_refractory();
        let Running::Mine { entity: e, .. } = cx.running(cpu) else { return };
        let urgent = self.current[cpu.index()].rank.0 <= Rank::ISO;
        self.accounts[queue].tick(urgent);
        if let Some((ran_by, ran)) = cx.take_ran(cpu) {
            self.pay(ran_by, ran);
        }
        if !was_refractory && self.accounts[queue].is_refractory() && self.tasks[e.index()].class == Class::Isochronous
        {
            cx.kick(cpu);
        }
        if !self.counts_slices(e) {
            return;
        }
        let half = Nanos::ns(self.tick.as_ns() / 2);
        let dither = self.current[cpu.index()].dither;
        if dither && self.tasks[e.index()].slice <= half {
            self.task(e).slice = Nanos::ZERO;
            cx.kick(cpu);
        } else if !dither && self.tasks[e.index()].slice < RESCHEDULE {
            cx.kick(cpu);
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        let task = self.tasks[e.index()];
        // This test applies to a blocking entity, too: schedule() of bfs.c calls check_deadline before it tests for a
        // block.
        if self.counts_slices(e) && task.slice < RESCHEDULE {
            self.refill(e, cx.now());
        }
        if prev.why == StopReason::Blocked {
            return;
        }
        if task.class == Class::Batch && task.slice >= RESCHEDULE && prev.why != StopReason::Yielded {
            let left = task.slice;
            self.refill(e, cx.now());
            self.task(e).slice = left;
        }
        if prev.why == StopReason::Yielded {
            self.yielded(e, cpu, cx.now());
        }
        if cx.may_run(e, cpu) {
            self.enqueue(e, cpu, true, cx);
        } else {
            let first = cx.allowed(e).first().expect("an affinity contains a CPU");
            self.enqueue(e, first, false, cx);
        }
        if let Some(idle) = cx.idle_cpu_for(e).filter(|&idle| idle != cpu) {
            cx.kick(idle);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let host = *cx.topology();
        let best = match &self.shape {
            Shape::Global => self.queue.best(cpu, cx, |from| self.distance(&host, from, cpu)),
            Shape::Parts(parts) => self.best_of_parts(parts, cpu, cx),
        };
        if let Some(e) = best {
            self.queue.remove(e);
        }
        if let Shape::Parts(parts) = &mut self.shape {
            parts.ignored_yields[cpu.index()] = None;
        }
        if self.restricted > 0 || matches!(self.shape, Shape::Parts(_)) {
            self.call_for_stranded(cpu, cx);
        }
        let Some(e) = best else { return Decision::IDLE };
        let now = cx.now();
        let since_tick = Nanos::ns(now.as_ns() % self.tick.as_ns());
        self.current[cpu.index()] = Current {
            rank: self.rank(e, self.queue_of(cpu)),
            nice: self.tasks[e.index()].nice,
            deadline: self.tasks[e.index()].deadline,
            dither: since_tick < Nanos::ns(self.tick.as_ns() / 2),
        };
        if cx.alarm_at(ticker(cpu)).is_none() {
            cx.set_alarm(ticker(cpu), cpu, now.next_tick(self.tick, Nanos::ZERO));
        }
        Decision::forever(e)
    }

    fn interactive(&self, e: EntityId) -> bool {
        self.tasks[e.index()].interactive
    }

    fn position(&self, e: EntityId) -> Option<Position> {
        Some(Position::Deadline { deadline: self.tasks[e.index()].deadline, slice: self.lengths.slice })
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let task = &self.tasks[e.index()];
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        show("deadline", signed(task.deadline.as_ns()));
        show("slice", signed(task.slice.as_ns()));
        show("rank", i64::from(self.rank(e, 0).0));
        show("nice", i64::from(task.nice));
        show("rr-interval", signed(self.lengths.slice.as_ns()));
    }
}
