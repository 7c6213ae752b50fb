//! The interpreter: executes the program of a task on its CPU until a step takes time or waits.

use super::shared::Held;
use super::task_state::{TaskState, Waiting};
use super::tasks::{STEPS_MOST, StepOutcome};
use super::{CodeId, Length, ObjectId, Op};
use crate::driver::Driver;
use sched::{CpuId, EntityId, Input, Instant, Nanos, Wake};
use trace::Event;

/// Maximum number of tasks of a machine. The limit stops a program that forks without end. Source: the usual `pid_max`,
/// Documentation/admin-guide/sysctl/kernel.rst of Linux.
const TASKS_MOST: u32 = 32_768;

impl Driver<'_> {
    /// Executes the program of the task on `cpu`.
    pub(crate) fn advance(&mut self, cpu: CpuId, entity: EntityId) {
        if self.tasks.goes_round_at(self.cpus.now) {
            let why = format!("{} and others wake each other without using any time", self.name_of(entity));
            self.get_stuck(why, "give one of them a step that runs or sleeps in every round");
            self.block_task(cpu);
            return;
        }
        for _ in 0..STEPS_MOST {
            self.tasks.steps += 1;
            let state = self.tasks.of(entity);
            let (code, next) = (state.code, state.next);
            state.next += 1;
            let op = self.tasks.library.op(code, next);
            if self.step_of(cpu, entity, op) == StepOutcome::Wait {
                return;
            }
        }
        let why = format!("{} loops without using any time", self.name_of(entity));
        self.get_stuck(why, "run or sleep in every round of the loop");
        self.block_task(cpu);
    }

    fn step_of(&mut self, cpu: CpuId, entity: EntityId, op: Op) -> StepOutcome {
        let now = self.cpus.now;
        match op {
            Op::Run(length) => {
                let seed = self.tasks.seed;
                let time = self.tasks.of(entity).draw(length, seed);
                if time.is_zero() { StepOutcome::Next } else { self.burst(cpu, entity, time) }
            }
            Op::Sleep(length) => {
                let seed = self.tasks.seed;
                let time = self.tasks.of(entity).draw(length, seed);
                if time.is_zero() { StepOutcome::Next } else { self.sleep_until(cpu, entity, now.saturating_add(time)) }
            }
            Op::Timer { timer, period, mode } => self.timer(cpu, entity, timer, period, mode),
            Op::RunUntil { timer, period, grain } => self.run_until_beat(cpu, entity, timer, period, grain),
            Op::DropLate { timer, period, late, level, after } => {
                self.drop_late(entity, (timer, period), late, (level, after))
            }
            Op::Resume { timer, pause } if *self.timer_of(entity, timer) < now => {
                self.step_of(cpu, entity, Op::Sleep(pause))
            }
            Op::Resume { .. } => StepOutcome::Next,
            Op::Lock(id) => self.lock(cpu, entity, id),
            Op::Unlock(id) => self.unlock(entity, id),
            Op::Wait { condition, mutex } => self.wait_on(cpu, entity, condition, mutex),
            Op::Signal(id) => self.signal(entity, id, 1),
            Op::Broadcast(id) => self.signal(entity, id, usize::MAX),
            Op::Barrier(id) => self.barrier(cpu, entity, id),
            Op::Take(id) if self.tasks.object(id).take() => StepOutcome::Next,
            Op::Take(id) => self.wait_for(cpu, entity, id, 0),
            Op::Post(id) => self.post(entity, id),
            Op::Send { pipe, bytes } => self.send(cpu, entity, pipe, bytes),
            Op::Receive { pipe, bytes } => self.receive(cpu, entity, pipe, bytes),
            Op::Fetch(ring) => self.fetch(cpu, entity, ring),
            Op::Handle(ring) => self.handle(cpu, entity, ring),
            Op::SendOn(ring) => self.send_on(entity, ring),
            Op::Yield => self.give_way(cpu, entity),
            Op::Fork(recipe) => self.fork(cpu, entity, recipe),
            Op::Join => self.join(cpu, entity),
            Op::Ask(wish) => self.ask(entity, wish),
            Op::EnterGroup(group) => self.enter_group(entity, group),
            Op::JobBegins(deadline) => self.begin_job(entity, deadline),
            Op::JobEnds => self.end_job(entity),
            Op::Jobs(_) => self.job_step(cpu, entity),
            Op::Woke => self.record_lateness(entity),
            Op::Enter { level, times, after } => {
                let state = self.tasks.of(entity);
                match times {
                    0 => state.next = after,
                    _ => state.rounds[usize::from(level)] = times,
                }
                StepOutcome::Next
            }
            Op::Again { level, to } => {
                let state = self.tasks.of(entity);
                let rounds = &mut state.rounds[usize::from(level)];
                if *rounds != u64::MAX {
                    *rounds -= 1;
                }
                if *rounds > 0 {
                    state.next = to;
                }
                StepOutcome::Next
            }
            Op::Exit => self.exit(cpu, entity),
            Op::Quit => self.quit(cpu, entity),
        }
    }

    // ---- Jobs and requests of tasks ----

    fn begin_job(&mut self, entity: EntityId, deadline: Option<Nanos>) -> StepOutcome {
        let deadline = deadline.map_or(Instant::NEVER, |deadline| self.cpus.now.saturating_add(deadline));
        self.tasks.of(entity).deadline = deadline;
        self.cpus.counts.releases += 1;
        self.show(|| Event::Release { entity, deadline });
        StepOutcome::Next
    }

    fn end_job(&mut self, entity: EntityId) -> StepOutcome {
        let deadline = std::mem::replace(&mut self.tasks.of(entity).deadline, Instant::NEVER);
        self.cpus.count_completion(self.cpus.now.saturating_since(deadline));
        self.show(|| Event::Complete { entity });
        StepOutcome::Next
    }

    fn record_lateness(&mut self, entity: EntityId) -> StepOutcome {
        let late = self.cpus.now.saturating_since(self.tasks.of(entity).due);
        self.show(|| Event::Woke { entity, late });
        StepOutcome::Next
    }

    fn ask(&mut self, entity: EntityId, wish: u32) -> StepOutcome {
        let group = self.machine().params(entity).group;
        let params = sched::Params { group, ..*self.tasks.library.wish(wish) };
        // A refusal is ignored, like a failed system call whose result is not checked.
        let _ = self.adjust(entity, params);
        StepOutcome::Next
    }

    /// Changes the group of a task. If the policy refuses the change, the task keeps its group, as after a failed
    /// system call.
    fn enter_group(&mut self, entity: EntityId, group: u32) -> StepOutcome {
        let application = self.tasks.of(entity).application as usize;
        let group = self.tasks.applications[application].groups[group as usize];
        let params = *self.machine().params(entity);
        if params.group != group {
            let _ = self.adjust(entity, sched::Params { group, ..params });
        }
        StepOutcome::Next
    }

    // ---- Time ----

    pub(super) fn burst(&mut self, cpu: CpuId, entity: EntityId, time: Nanos) -> StepOutcome {
        let time = time + std::mem::take(&mut self.tasks.of(entity).owes);
        self.cpus.task(entity).progress.left = Some(time);
        self.cpus.cpus[cpu.index()].done = self.cpus.now.saturating_add(time);
        self.cpus.arm(cpu);
        StepOutcome::Wait
    }

    fn give_way(&mut self, cpu: CpuId, entity: EntityId) -> StepOutcome {
        let progress = &mut self.cpus.task(entity).progress;
        progress.left = Some(Nanos::ZERO);
        progress.begun = false;
        self.cpus.cpus[cpu.index()].done = Instant::NEVER;
        self.input(Input::Yield { cpu });
        StepOutcome::Wait
    }

    /// Blocks the task on `cpu`.
    pub(super) fn block_task(&mut self, cpu: CpuId) -> StepOutcome {
        let running = &mut self.cpus.cpus[cpu.index()];
        running.done = Instant::NEVER;
        if let Some(entity) = running.entity {
            self.cpus.task(entity).progress.begun = false;
        }
        self.input(Input::Block { cpu });
        StepOutcome::Wait
    }

    pub(super) fn sleep_until(&mut self, cpu: CpuId, entity: EntityId, at: Instant) -> StepOutcome {
        let state = self.tasks.of(entity);
        state.waiting = Waiting::Time;
        state.due = at;
        self.set_timer(entity, at);
        self.block_task(cpu)
    }

    /// Ends the sleep of `entity`, or processes its due jobs.
    pub(crate) fn awake(&mut self, entity: EntityId) {
        if self.jobs_due(entity) {
            return;
        }
        let state = self.tasks.of(entity);
        let first = state.next == 0;
        let parent = state.parent;
        state.waiting = Waiting::Nothing;
        self.wake_task(entity, if first { Wake::New { parent } } else { Wake::Timer });
    }

    /// Wakes a blocked task, unless the task is paused.
    pub(super) fn wake_task(&mut self, entity: EntityId, why: Wake) {
        let progress = &mut self.cpus.task(entity).progress;
        progress.left = Some(Nanos::ZERO);
        progress.woke = true;
        if !progress.paused {
            self.input(Input::Wake { entity, why });
        }
    }

    // ---- Objects ----

    /// Makes `entity`, which runs on `cpu`, wait for an object.
    pub(super) fn wait_for(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId, bytes: u64) -> StepOutcome {
        self.tasks.object(id).waiters.push_back((entity, bytes));
        self.begin_wait(entity, id);
        self.block_task(cpu)
    }

    pub(super) fn begin_wait(&mut self, entity: EntityId, id: ObjectId) {
        let now = self.cpus.now;
        let state = self.tasks.of(entity);
        state.waiting = Waiting::Object(id);
        state.since = now;
        let application = state.application as usize;
        self.tasks.applications[application].waiting += 1;
        self.check_cycle(entity, id);
        self.check_application(application);
    }

    pub(super) fn end_wait(&mut self, entity: EntityId) {
        let state = self.tasks.of(entity);
        state.waiting = Waiting::Nothing;
        let application = state.application as usize;
        self.tasks.applications[application].waiting -= 1;
    }

    /// Grants `entity` the object for which `entity` waits, on behalf of `waker`.
    pub(super) fn grant(&mut self, entity: EntityId, waker: EntityId, sync: bool) {
        self.end_wait(entity);
        self.wake_task(entity, Wake::By { waker, sync });
    }

    fn wait_on(&mut self, cpu: CpuId, entity: EntityId, condition: ObjectId, mutex: ObjectId) -> StepOutcome {
        if self.tasks.object(mutex).owner() != Some(entity) {
            return self.not_held(cpu, entity, mutex, "waits with");
        }
        self.hand_on(entity, mutex);
        self.tasks.of(entity).retakes = Some(mutex);
        self.wait_for(cpu, entity, condition, 0)
    }

    fn signal(&mut self, waker: EntityId, id: ObjectId, most: usize) -> StepOutcome {
        for _ in 0..most {
            let Some((waiter, _)) = self.tasks.object(id).waiters.pop_front() else { break };
            let mutex = self.tasks.of(waiter).retakes.take().expect("a waiter for a condition has a mutex");
            let object = self.tasks.object(mutex);
            if object.owner().is_none() {
                object.give(Some(waiter));
                self.tasks.of(waiter).holds += 1;
                self.grant(waiter, waker, false);
            } else {
                object.waiters.push_back((waiter, 0));
                self.tasks.of(waiter).waiting = Waiting::Object(mutex);
                self.check_cycle(waiter, mutex);
            }
        }
        StepOutcome::Next
    }

    fn barrier(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> StepOutcome {
        let object = self.tasks.object(id);
        let Held::Barrier { parties, .. } = object.held else { unreachable!("a barrier is one") };
        if object.waiters.len() + 1 < parties as usize {
            object.waiters.push_back((entity, 0));
            self.begin_wait(entity, id);
            return self.spin_or_block(cpu, entity, id);
        }
        while let Some((waiter, _)) = self.tasks.object(id).waiters.pop_front() {
            self.admit(waiter, entity);
        }
        StepOutcome::Next
    }

    fn post(&mut self, waker: EntityId, id: ObjectId) -> StepOutcome {
        let object = self.tasks.object(id);
        match object.waiters.pop_front() {
            Some((waiter, _)) => self.grant(waiter, waker, false),
            None => object.post(),
        }
        StepOutcome::Next
    }

    fn send(&mut self, cpu: CpuId, entity: EntityId, pipe: ObjectId, bytes: u64) -> StepOutcome {
        let object = self.tasks.object(pipe);
        object.writers.push_back((entity, bytes));
        if matches!(object.held, Held::Port { .. }) {
            self.leave_by(cpu, entity, pipe)
        } else {
            self.pass(cpu, entity, pipe)
        }
    }

    fn receive(&mut self, cpu: CpuId, entity: EntityId, pipe: ObjectId, bytes: u64) -> StepOutcome {
        let object = self.tasks.object(pipe);
        object.waiters.push_back((entity, bytes));
        if matches!(object.held, Held::Inbox { .. }) {
            self.read(cpu, entity, pipe)
        } else {
            self.pass(cpu, entity, pipe)
        }
    }

    /// Reads or writes for each task at the pipe that can continue, in turn. `entity` blocks if it cannot continue.
    fn pass(&mut self, cpu: CpuId, entity: EntityId, pipe: ObjectId) -> StepOutcome {
        let mut went = false;
        while let Some(next) = self.tasks.object(pipe).pass() {
            if next == entity { went = true } else { self.grant(next, entity, true) }
        }
        if went {
            return StepOutcome::Next;
        }
        self.begin_wait(entity, pipe);
        self.block_task(cpu)
    }

    /// Continues the tasks at a pipe that waited behind `gone`, which has left.
    fn pass_on_to(&mut self, pipe: ObjectId, gone: EntityId) {
        while let Some(next) = self.tasks.object(pipe).pass() {
            self.end_wait(next);
            self.wake_task(next, Wake::By { waker: gone, sync: false });
        }
    }

    // ---- Fork and exit ----

    fn fork(&mut self, cpu: CpuId, parent: EntityId, recipe: u32) -> StepOutcome {
        if self.tasks.applications.iter().map(|crowd| crowd.there).sum::<u32>() >= TASKS_MOST {
            let why = format!("{} forks, but there are {TASKS_MOST} tasks already", self.name_of(parent));
            self.get_stuck(why, "let the children end, or fork fewer children");
            return self.block_task(cpu);
        }
        let child = self.tasks.library.recipe(recipe).clone();
        let group = self.machine().params(parent).group;
        let application = self.tasks.of(parent).application;
        let params = sched::Params { group, ..child.params };
        // As after a failed fork, the parent continues without the child.
        if self.begin_task(&child.name, params, child.code, child.delay, application, Some(parent)).is_ok() {
            self.tasks.of(parent).children += 1;
        }
        StepOutcome::Next
    }

    fn join(&mut self, cpu: CpuId, entity: EntityId) -> StepOutcome {
        let state = self.tasks.of(entity);
        if state.children == 0 {
            return StepOutcome::Next;
        }
        state.waiting = Waiting::Children;
        let application = state.application as usize;
        self.tasks.applications[application].joining += 1;
        self.check_application(application);
        self.block_task(cpu)
    }

    fn exit(&mut self, cpu: CpuId, entity: EntityId) -> StepOutcome {
        self.detach(entity);
        if self.stuck.is_some() {
            self.cpus.cpus[cpu.index()].done = Instant::NEVER;
        }
        StepOutcome::Wait
    }

    /// Ends all tasks of the application of `entity`, and `entity` last.
    fn quit(&mut self, cpu: CpuId, entity: EntityId) -> StepOutcome {
        let application = self.tasks.of(entity).application;
        self.stop_but(application, Some(entity));
        self.exit(cpu, entity)
    }

    /// Removes an ended or detached task from the queues of objects, and reports its end to its parent.
    pub(crate) fn leave_application(&mut self, entity: EntityId) {
        if self.tasks.has_rings {
            self.hand_back(entity);
        }
        let state = self.tasks.of(entity);
        let (holds, parent, application) = (state.holds, state.parent, state.application as usize);
        let waiting = std::mem::replace(&mut state.waiting, Waiting::Nothing);
        if holds > 0 && !self.tasks.applications[application].is_over {
            let held = self.tasks.objects.iter().find(|object| object.owner() == Some(entity));
            let what = held.map_or(String::new(), |object| format!("{} `{}`", object.noun(), object.name));
            let why = format!("{} ends while it holds {what}", self.name_of(entity));
            self.get_stuck(why, "put an unlock before its end");
        }
        let crowd = &mut self.tasks.applications[application];
        crowd.there -= 1;
        match waiting {
            Waiting::Object(id) => {
                crowd.waiting -= 1;
                self.tasks.object(id).forget(entity);
                self.pass_on_to(id, entity);
            }
            Waiting::Outside(id) => {
                self.tasks.object(id).forget(entity);
                // Tasks queued behind the removed task may need fewer bytes, and can then continue.
                self.let_through(id);
            }
            Waiting::Children => crowd.joining -= 1,
            Waiting::Nothing | Waiting::Time => {}
        }
        self.tasks.states[entity.index()] = None;
        if let Some(parent) = parent {
            self.end_of_child(parent, entity);
        }
        self.check_application(application);
    }

    fn end_of_child(&mut self, parent: EntityId, child: EntityId) {
        // The parent may have left, and another entity may have received its index.
        if !self.machine.is_attached(parent) || !self.tasks.follows(parent) {
            return;
        }
        let state = self.tasks.of(parent);
        state.children = state.children.saturating_sub(1);
        if state.waiting == Waiting::Children && state.children == 0 {
            state.waiting = Waiting::Nothing;
            let application = state.application as usize;
            self.tasks.applications[application].joining -= 1;
            self.wake_task(parent, Wake::By { waker: child, sync: false });
        }
    }

    /// Adds a task that executes `code` and wakes after `delay`.
    pub(crate) fn begin_task(
        &mut self,
        name: &str,
        params: sched::Params,
        code: CodeId,
        delay: Length,
        application: u32,
        parent: Option<EntityId>,
    ) -> Result<EntityId, sched::Refused> {
        let entity = self.attach_blocked(name, params, crate::Workload::Program)?;
        let number = self.tasks.begun;
        self.tasks.begun += 1;
        self.tasks.applications[application as usize].there += 1;
        if self.tasks.states.len() <= entity.index() {
            self.tasks.states.resize_with(entity.index() + 1, || None);
        }
        let mut state = TaskState::new(code, number, application, parent);
        state.name = name.into();
        let seed = self.tasks.seed;
        let delay = state.draw(delay, seed);
        state.began = self.cpus.now.saturating_add(delay);
        self.tasks.states[entity.index()] = Some(Box::new(state));
        self.prepare_jobs(entity);
        if delay.is_zero() {
            if !self.jobs_due(entity) {
                self.wake_task(entity, Wake::New { parent });
            }
        } else {
            self.tasks.of(entity).waiting = Waiting::Time;
            self.set_start(entity, self.cpus.now.saturating_add(delay));
        }
        Ok(entity)
    }
}
