//! The interpreter: a task on its CPU does what its program says, until that takes time or it has to wait.

use super::shared::{self, Held, Shared};
use super::standing::{Standing, Waiting};
use super::{Code, Length, Object, ObjectId, Op, TimerMode};
use crate::guest::Spinning;
use crate::host::Host;
use sched::{CpuId, EntityId, Input, Instant, Nanos, Wake};
use std::sync::Arc;
use trace::Event;

/// Steps that one task may do at one instant: a program that does more uses no time at all.
const STEPS_MOST: u32 = 1_000_000;

/// What comes of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The next step, at once.
    On,
    /// Time passes, on the CPU or off it.
    Later,
}

/// The tasks of an application.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Crowd {
    /// How many there are.
    pub(crate) there: u32,
    /// How many of them wait for an object.
    pub(crate) waiting: u32,
    /// How many of them wait for their children.
    pub(crate) joining: u32,
    /// Whether all of it is being ended.
    pub(crate) is_over: bool,
}

/// The tasks of a machine that follow programs, and what they share.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// By entity index.
    pub(crate) standings: Vec<Option<Box<Standing>>>,
    pub(crate) objects: Vec<Shared>,
    pub(crate) applications: Vec<Crowd>,
    /// Tasks ever begun.
    pub(crate) begun: u64,
    pub(crate) seed: u64,
}

impl Tasks {
    pub(crate) fn of(&mut self, entity: EntityId) -> &mut Standing {
        self.standings[entity.index()].as_mut().expect("it follows a program")
    }

    pub(crate) fn follows(&self, entity: EntityId) -> bool {
        self.standings.get(entity.index()).is_some_and(Option::is_some)
    }

    /// Adds the objects of an application.
    pub(crate) fn share(&mut self, objects: &[(String, Object)]) {
        self.objects.extend(objects.iter().map(|(name, object)| Shared::new(name, *object)));
    }

    fn object(&mut self, id: ObjectId) -> &mut Shared {
        shared::at(&mut self.objects, id)
    }
}

impl Host<'_> {
    /// Whoever runs on `cpu` goes on in its program.
    pub(crate) fn advance(&mut self, cpu: CpuId, entity: EntityId) {
        let code = Arc::clone(&self.tasks.of(entity).code);
        for _ in 0..STEPS_MOST {
            let standing = self.tasks.of(entity);
            let op = &code.ops[standing.next as usize];
            standing.next += 1;
            if self.step_of(cpu, entity, op) == Then::Later {
                return;
            }
        }
        let why = format!("{} goes round in circles without using any time", self.name_of(entity));
        self.get_stuck(why, "a loop that runs or sleeps in every round");
        self.rest(cpu);
    }

    fn step_of(&mut self, cpu: CpuId, entity: EntityId, op: &Op) -> Then {
        let now = self.floor.now;
        match *op {
            Op::Run(length) => {
                let seed = self.tasks.seed;
                let time = self.tasks.of(entity).draw(length, seed);
                if time.is_zero() { Then::On } else { self.burst(cpu, entity, time) }
            }
            Op::Sleep(length) => {
                let seed = self.tasks.seed;
                let time = self.tasks.of(entity).draw(length, seed);
                if time.is_zero() { Then::On } else { self.sleep_until(cpu, entity, now.saturating_add(time)) }
            }
            Op::Timer { timer, period, mode } => self.timer(cpu, entity, timer, period, mode),
            Op::Lock(id) => self.lock(cpu, entity, id),
            Op::Unlock(id) => self.unlock(entity, id),
            Op::Wait { condition, mutex } => {
                if self.tasks.object(mutex).owner() != Some(entity) {
                    return self.not_held(cpu, entity, mutex, "waits with");
                }
                self.hand_on(entity, mutex);
                self.tasks.of(entity).retakes = Some(mutex);
                self.wait_for(cpu, entity, condition, 0)
            }
            Op::Signal(id) => self.signal(entity, id, 1),
            Op::Broadcast(id) => self.signal(entity, id, usize::MAX),
            Op::Barrier(id) => self.barrier(cpu, entity, id),
            Op::Take(id) if self.tasks.object(id).take() => Then::On,
            Op::Take(id) => self.wait_for(cpu, entity, id, 0),
            Op::Post(id) => self.post(entity, id),
            Op::Send { pipe, bytes } => self.send(cpu, entity, pipe, bytes),
            Op::Receive { pipe, bytes } => self.receive(cpu, entity, pipe, bytes),
            Op::Yield => {
                let progress = &mut self.floor.task(entity).progress;
                progress.left = Some(Nanos::ZERO);
                progress.begun = false;
                self.floor.cpus[cpu.index()].done = Instant::NEVER;
                self.input(Input::Yield { cpu });
                Then::Later
            }
            Op::Fork(ref child) => {
                self.fork(entity, child);
                Then::On
            }
            Op::Join if self.tasks.of(entity).children == 0 => Then::On,
            Op::Join => {
                let standing = self.tasks.of(entity);
                standing.waiting = Waiting::Children;
                let application = standing.application as usize;
                self.tasks.applications[application].joining += 1;
                self.check_application(application);
                self.rest(cpu)
            }
            Op::Ask(ref params) => {
                let params = sched::Params { group: self.machine().params(entity).group, ..**params };
                // As a program whose system call fails, it goes on as before; who watches sees that nothing changed.
                let _ = self.adjust(entity, params);
                Then::On
            }
            Op::JobBegins(deadline) => {
                let deadline = deadline.map_or(Instant::NEVER, |deadline| now.saturating_add(deadline));
                self.tasks.of(entity).deadline = deadline;
                self.floor.counts.releases += 1;
                self.show(|| Event::Release { entity, deadline });
                Then::On
            }
            Op::JobEnds => {
                let late = now > self.tasks.of(entity).deadline;
                self.floor.counts.completions += 1;
                self.floor.counts.misses += u64::from(late);
                self.show(|| Event::Complete { entity });
                Then::On
            }
            Op::Woke => {
                let late = now.saturating_since(self.tasks.of(entity).due);
                self.show(|| Event::Woke { entity, late });
                Then::On
            }
            Op::Enter { level, times, after } => {
                let standing = self.tasks.of(entity);
                match times {
                    0 => standing.next = after,
                    _ => standing.rounds[usize::from(level)] = times,
                }
                Then::On
            }
            Op::Again { level, to } => {
                let standing = self.tasks.of(entity);
                let rounds = &mut standing.rounds[usize::from(level)];
                if *rounds != u64::MAX {
                    *rounds -= 1;
                }
                if *rounds > 0 {
                    standing.next = to;
                }
                Then::On
            }
            Op::Exit => self.exit(cpu, entity),
        }
    }

    // ---- Time ----

    fn burst(&mut self, cpu: CpuId, entity: EntityId, time: Nanos) -> Then {
        self.floor.task(entity).progress.left = Some(time);
        self.floor.cpus[cpu.index()].done = self.floor.now.saturating_add(time);
        self.floor.arm(cpu);
        Then::Later
    }

    /// Whoever runs on `cpu` waits for something.
    fn rest(&mut self, cpu: CpuId) -> Then {
        let running = &mut self.floor.cpus[cpu.index()];
        running.done = Instant::NEVER;
        if let Some(entity) = running.entity {
            self.floor.task(entity).progress.begun = false;
        }
        self.input(Input::Block { cpu });
        Then::Later
    }

    fn sleep_until(&mut self, cpu: CpuId, entity: EntityId, at: Instant) -> Then {
        let standing = self.tasks.of(entity);
        standing.waiting = Waiting::Time;
        standing.due = at;
        let slack = self.floor.costs.timer_slack;
        self.floor.releases.set(entity.index(), at.round_up(slack));
        self.rest(cpu)
    }

    fn timer(&mut self, cpu: CpuId, entity: EntityId, timer: u8, period: Nanos, mode: TimerMode) -> Then {
        let now = self.floor.now;
        let standing = self.tasks.of(entity);
        let timer = usize::from(timer);
        if standing.timers.len() <= timer {
            standing.timers.resize(timer + 1, standing.began);
        }
        let mut end = standing.timers[timer].saturating_add(period);
        match mode {
            TimerMode::Relative => end = end.max(now),
            TimerMode::Absolute => {}
            TimerMode::Skipping => {
                let passed = now.saturating_since(end).as_ns() / period.as_ns();
                end = end.saturating_add(period.saturating_mul(passed));
                if end < now {
                    end = end.saturating_add(period);
                }
            }
        }
        standing.timers[timer] = end;
        if end <= now {
            self.tasks.of(entity).due = end;
            return Then::On;
        }
        self.sleep_until(cpu, entity, end)
    }

    /// The sleep of `entity` is over.
    pub(crate) fn awake(&mut self, entity: EntityId) {
        let standing = self.tasks.of(entity);
        let first = standing.next == 0;
        let parent = standing.parent;
        standing.waiting = Waiting::Nothing;
        self.rouse(entity, if first { Wake::New { parent } } else { Wake::Timer });
    }

    /// Whoever waited goes on as soon as it has a CPU.
    fn rouse(&mut self, entity: EntityId, why: Wake) {
        let progress = &mut self.floor.task(entity).progress;
        progress.left = Some(Nanos::ZERO);
        progress.woke = true;
        if !progress.paused {
            self.input(Input::Wake { entity, why });
        }
    }

    // ---- Waiting for one another ----

    /// `entity`, which runs on `cpu`, waits for an object.
    fn wait_for(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId, bytes: u64) -> Then {
        self.tasks.object(id).waiters.push_back((entity, bytes));
        self.begin_wait(entity, id);
        self.rest(cpu)
    }

    fn begin_wait(&mut self, entity: EntityId, id: ObjectId) {
        let now = self.floor.now;
        let standing = self.tasks.of(entity);
        standing.waiting = Waiting::Object(id);
        standing.since = now;
        let application = standing.application as usize;
        self.tasks.applications[application].waiting += 1;
        self.check_cycle(entity, id);
        self.check_application(application);
    }

    fn end_wait(&mut self, entity: EntityId) {
        let standing = self.tasks.of(entity);
        standing.waiting = Waiting::Nothing;
        let application = standing.application as usize;
        self.tasks.applications[application].waiting -= 1;
    }

    /// `entity` has what it waited for, from `waker`.
    fn grant(&mut self, entity: EntityId, waker: EntityId, sync: bool) {
        self.end_wait(entity);
        self.rouse(entity, Wake::By { waker, sync });
    }

    fn lock(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> Then {
        let anybody = self.hands_on_to_anybody();
        let object = self.tasks.object(id);
        if object.owner().is_none() && (object.waiters.is_empty() || anybody) {
            object.give(Some(entity));
            self.tasks.of(entity).holds += 1;
            return Then::On;
        }
        let spins = object.spins();
        self.tasks.object(id).waiters.push_back((entity, 0));
        self.begin_wait(entity, id);
        if spins { self.spin(cpu, entity, id) } else { self.rest(cpu) }
    }

    /// `entity`, which waits for an object, does so on its CPU.
    fn spin(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> Then {
        let limit = self.spin_limit(id);
        let now = self.floor.now;
        let progress = &mut self.floor.task(entity).progress;
        progress.is_spinning = true;
        progress.left = limit;
        progress.go_on_spinning(now);
        self.floor.cpus[cpu.index()].done = limit.map_or(Instant::NEVER, |limit| now.saturating_add(limit));
        self.floor.arm(cpu);
        Then::Later
    }

    fn hands_on_to_anybody(&self) -> bool {
        self.guest.is_some_and(|guest| guest.spinning == Spinning::Unfair)
    }

    /// How long a spinner spins before something else happens.
    fn spin_limit(&mut self, id: ObjectId) -> Option<Nanos> {
        let guest = self.guest?;
        if let Spinning::Paravirt { limit } = guest.spinning
            && self.tasks.object(id).is_lock()
        {
            // Who sees that the owner does not run need not wait for it on a CPU.
            let owner = self.tasks.object(id).owner().and_then(|owner| self.floor.task(owner).last_cpu);
            let futile = guest.shows_preempted && owner.is_some_and(|cpu| self.floor.cpus[cpu.index()].absent);
            return Some(if futile { Nanos::ns(1) } else { limit });
        }
        guest.pause_loop.map(|pause_loop| pause_loop.window)
    }

    /// Who spins on `cpu` has done so for long.
    pub(crate) fn spin_on(&mut self, cpu: CpuId, entity: EntityId) {
        let now = self.floor.now;
        let Some(guest) = self.guest else { return };
        let Waiting::Object(id) = self.tasks.of(entity).waiting else { return };
        let halts = matches!(guest.spinning, Spinning::Paravirt { .. }) && self.tasks.object(id).is_lock();
        let again = if halts { None } else { guest.pause_loop.map(|pause_loop| pause_loop.window) };
        self.floor.task(entity).progress.left = again;
        self.floor.cpus[cpu.index()].done = again.map_or(Instant::NEVER, |window| now.saturating_add(window));
        self.floor.arm(cpu);
        self.floor.spinners.push((cpu, halts));
    }

    fn unlock(&mut self, entity: EntityId, id: ObjectId) -> Then {
        if self.tasks.object(id).owner() != Some(entity) {
            let cpu = self.floor.task(entity).last_cpu.unwrap_or_default();
            return self.not_held(cpu, entity, id, "unlocks");
        }
        self.hand_on(entity, id);
        Then::On
    }

    fn not_held(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId, does: &str) -> Then {
        self.gives_back(cpu, entity, id, does);
        Then::Later
    }

    /// `owner` gives a lock to who waits for it next.
    fn hand_on(&mut self, owner: EntityId, id: ObjectId) {
        self.tasks.of(owner).holds -= 1;
        let anybody = self.hands_on_to_anybody();
        let floor = &self.floor;
        let object = shared::at(&mut self.tasks.objects, id);
        object.give(None);
        let spins = object.spins();
        let place = if spins && anybody {
            object.waiters.iter().position(|&(waiter, _)| floor.is_present(waiter))
        } else {
            (!object.waiters.is_empty()).then_some(0)
        };
        let Some((next, _)) = place.and_then(|place| object.waiters.remove(place)) else { return };
        object.give(Some(next));
        self.tasks.of(next).holds += 1;
        if spins { self.end_spin(next) } else { self.grant(next, owner, false) }
    }

    /// Whoever runs on `cpu` from now on may find the lock free that it has been spinning for.
    pub(crate) fn try_again(&mut self, entity: EntityId) {
        let Waiting::Object(id) = self.tasks.of(entity).waiting else { return };
        let object = self.tasks.object(id);
        if object.owner().is_some() || !object.is_lock() {
            return;
        }
        object.give(Some(entity));
        object.waiters.retain(|&(waiter, _)| waiter != entity);
        self.tasks.of(entity).holds += 1;
        self.end_spin(entity);
    }

    /// A spinner has its lock. Where it runs it goes on at once; otherwise when it runs again.
    fn end_spin(&mut self, entity: EntityId) {
        let now = self.floor.now;
        let waited = now.since(self.tasks.of(entity).since);
        self.end_wait(entity);
        self.floor.task(entity).progress.end_spinning(now);
        self.show(|| Event::SpinWait { entity, waited });
        if self.guest.is_some_and(|guest| guest.spin_report.is_some_and(|least| waited >= least)) {
            let cpu = self.floor.task(entity).last_cpu.unwrap_or_default();
            self.floor.reports.push((cpu, waited));
        }
        let Some(cpu) = self.floor.seat_of(entity) else { return };
        if self.floor.cpus[cpu.index()].absent {
            // Who halted to wait is kicked; who was preempted goes on when its vCPU does.
            self.floor.calls.push((cpu, Wake::Interrupt));
        } else {
            self.floor.cpus[cpu.index()].done = now.max(self.floor.cpus[cpu.index()].paid());
            self.floor.arm(cpu);
        }
    }

    fn signal(&mut self, waker: EntityId, id: ObjectId, most: usize) -> Then {
        for _ in 0..most {
            let Some((waiter, _)) = self.tasks.object(id).waiters.pop_front() else { break };
            let mutex = self.tasks.of(waiter).retakes.take().expect("who waits for a condition has a mutex");
            let object = self.tasks.object(mutex);
            if object.owner().is_none() {
                object.give(Some(waiter));
                self.tasks.of(waiter).holds += 1;
                self.grant(waiter, waker, false);
            } else {
                object.waiters.push_back((waiter, 0));
                self.tasks.of(waiter).waiting = Waiting::Object(mutex);
            }
        }
        Then::On
    }

    fn barrier(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> Then {
        let object = self.tasks.object(id);
        let Held::Barrier { parties, spins } = object.held else { unreachable!("a barrier is one") };
        if object.waiters.len() + 1 < parties as usize {
            if !spins {
                return self.wait_for(cpu, entity, id, 0);
            }
            object.waiters.push_back((entity, 0));
            self.begin_wait(entity, id);
            return self.spin(cpu, entity, id);
        }
        while let Some((waiter, _)) = self.tasks.object(id).waiters.pop_front() {
            if spins { self.end_spin(waiter) } else { self.grant(waiter, entity, false) }
        }
        Then::On
    }

    fn post(&mut self, waker: EntityId, id: ObjectId) -> Then {
        let object = self.tasks.object(id);
        match object.waiters.pop_front() {
            Some((waiter, _)) => self.grant(waiter, waker, false),
            None => object.post(),
        }
        Then::On
    }

    fn send(&mut self, cpu: CpuId, entity: EntityId, pipe: ObjectId, bytes: u64) -> Then {
        self.tasks.object(pipe).writers.push_back((entity, bytes));
        self.pass(cpu, entity, pipe)
    }

    fn receive(&mut self, cpu: CpuId, entity: EntityId, pipe: ObjectId, bytes: u64) -> Then {
        self.tasks.object(pipe).waiters.push_back((entity, bytes));
        self.pass(cpu, entity, pipe)
    }

    /// `entity` wants to read or write: whoever can, does.
    fn pass(&mut self, cpu: CpuId, entity: EntityId, pipe: ObjectId) -> Then {
        let mut went = false;
        while let Some(next) = self.tasks.object(pipe).pass() {
            if next == entity { went = true } else { self.grant(next, entity, true) }
        }
        if went {
            return Then::On;
        }
        self.begin_wait(entity, pipe);
        self.rest(cpu)
    }

    // ---- Coming and going ----

    fn fork(&mut self, parent: EntityId, child: &Arc<super::code::Recipe>) {
        let group = self.machine().params(parent).group;
        let application = self.tasks.of(parent).application;
        let params = sched::Params { group, ..child.params };
        let code = Arc::clone(&child.code);
        // As a fork that fails: the parent goes on without the child.
        if self.begin_task(&child.name, params, code, child.delay, application, Some(parent)).is_ok() {
            self.tasks.of(parent).children += 1;
        }
    }

    fn exit(&mut self, cpu: CpuId, entity: EntityId) -> Then {
        self.detach(entity);
        if self.stuck.is_some() {
            self.floor.cpus[cpu.index()].done = Instant::NEVER;
        }
        Then::Later
    }

    /// A task ends, or is taken away: it waits for nothing any more, and its parent may have waited for it.
    pub(crate) fn leave_application(&mut self, entity: EntityId) {
        let standing = self.tasks.of(entity);
        let (holds, parent, application) = (standing.holds, standing.parent, standing.application as usize);
        let waiting = std::mem::replace(&mut standing.waiting, Waiting::Nothing);
        if holds > 0 && !self.tasks.applications[application].is_over {
            let held = self.tasks.objects.iter().find(|object| object.owner() == Some(entity));
            let what = held.map_or(String::new(), |object| format!("{} `{}`", object.noun(), object.name));
            let why = format!("{} ends while it holds {what}", self.name_of(entity));
            self.get_stuck(why, "an unlock before its end");
        }
        let crowd = &mut self.tasks.applications[application];
        crowd.there -= 1;
        match waiting {
            Waiting::Object(id) => {
                crowd.waiting -= 1;
                self.tasks.object(id).forget(entity);
            }
            Waiting::Children => crowd.joining -= 1,
            Waiting::Nothing | Waiting::Time => {}
        }
        self.tasks.standings[entity.index()] = None;
        if let Some(parent) = parent {
            self.end_of_child(parent, entity);
        }
        self.check_application(application);
    }

    fn end_of_child(&mut self, parent: EntityId, child: EntityId) {
        // Its place may have been taken by another since.
        if !self.machine.is_attached(parent) || !self.tasks.follows(parent) {
            return;
        }
        let standing = self.tasks.of(parent);
        standing.children = standing.children.saturating_sub(1);
        if standing.waiting == Waiting::Children && standing.children == 0 {
            standing.waiting = Waiting::Nothing;
            let application = standing.application as usize;
            self.tasks.applications[application].joining -= 1;
            self.rouse(parent, Wake::By { waker: child, sync: false });
        }
    }

    /// Adds a task that follows `code`; it wakes after `delay`.
    pub(crate) fn begin_task(
        &mut self,
        name: &str,
        params: sched::Params,
        code: Arc<Code>,
        delay: Length,
        application: u32,
        parent: Option<EntityId>,
    ) -> Result<EntityId, sched::Refused> {
        let entity = self.attach_blocked(name, params, crate::Workload::Program)?;
        let number = self.tasks.begun;
        self.tasks.begun += 1;
        self.tasks.applications[application as usize].there += 1;
        if self.tasks.standings.len() <= entity.index() {
            self.tasks.standings.resize_with(entity.index() + 1, || None);
        }
        let mut standing = Standing::new(code, number, application, parent);
        standing.name = name.into();
        let seed = self.tasks.seed;
        let delay = standing.draw(delay, seed);
        standing.began = self.floor.now.saturating_add(delay);
        self.tasks.standings[entity.index()] = Some(Box::new(standing));
        if delay.is_zero() {
            self.rouse(entity, Wake::New { parent });
        } else {
            self.tasks.of(entity).waiting = Waiting::Time;
            let at = self.floor.now.saturating_add(delay).round_up(self.floor.costs.timer_slack);
            self.floor.releases.set(entity.index(), at);
        }
        Ok(entity)
    }
}
