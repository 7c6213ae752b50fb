//! [`Host`]: the driver of a one-level machine in virtual time: CPUs that run entities, workloads that release
//! jobs, and the costs of both.
//!
//! At one instant, in this order: bursts and slices that end (by CPU), releases (by entity), kicks that arrive (by
//! CPU), alarms (by number), then one decision. Nothing else orders events, so the same calls give the same run.

use crate::calendar::Calendar;
use crate::costs::Costs;
use crate::workload::{JobEnd, Progress, Workload};
use sched::{
    Action, Alarm, CpuId, Descriptor, EntityId, GroupId, GroupParams, Input, Instant, Kicks, Knobs, Machine, Nanos,
    Params, Refused, State, Wake,
};
use trace::{Event, Sink};

/// What a CPU is doing.
#[derive(Clone, Copy, Debug)]
struct Running {
    entity: Option<EntityId>,
    /// When the burst is done if nobody interferes; NEVER if it never is.
    done: Instant,
    /// When the costs of the dispatch are paid.
    paid: Instant,
    /// The end of the slice.
    until: Instant,
    /// Who ran here last.
    last: Option<EntityId>,
}

const IDLE: Running =
    Running { entity: None, done: Instant::NEVER, paid: Instant::ZERO, until: Instant::NEVER, last: None };

/// What an entity is about.
#[derive(Clone, Copy, Debug)]
struct Task {
    id: EntityId,
    progress: Progress,
    last_cpu: Option<CpuId>,
}

/// Totals of a run, under the names of the EDF oracle table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Jobs released.
    pub releases: u64,
    /// Jobs completed.
    pub completions: u64,
    /// Jobs completed after their deadline.
    pub misses: u64,
    /// Times an entity was taken off its CPU with work left.
    pub preemptions: u64,
    /// Times a job (or a hog) began or resumed running.
    pub dispatches: u64,
    /// Times a job (or a hog) resumed on another CPU than the one it was taken off.
    pub migrations: u64,
}

/// A simulated one-level host.
pub struct Host<'a> {
    machine: Machine,
    costs: Costs,
    now: Instant,
    /// Whether something was reported at `now` that has not been decided about.
    unsettled: bool,
    cpus: Vec<Running>,
    tasks: Vec<Option<Task>>,
    alarm_names: Vec<Option<(Alarm, CpuId)>>,
    ends: Calendar,
    releases: Calendar,
    kicks: Calendar,
    alarms: Calendar,
    counts: Counts,
    sinks: Vec<&'a mut dyn Sink>,
    actions: Vec<Action>,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("now", &self.now).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<'a> Host<'a> {
    /// An idle host at time zero.
    ///
    /// # Errors
    /// The policy does not work with these knobs on this host.
    pub fn new(policy: &Descriptor, host: sched::Host, knobs: &Knobs, costs: Costs) -> Result<Host<'a>, Refused> {
        let kicks = if costs.kick.is_zero() { Kicks::Immediate } else { Kicks::Delivered };
        Ok(Host::around(Machine::build(policy, host, knobs, kicks)?, costs))
    }

    /// A host around a machine that nothing has happened to yet.
    #[must_use]
    pub fn around(machine: Machine, costs: Costs) -> Host<'a> {
        let cpus = machine.host().cpus;
        Host {
            machine,
            costs,
            now: Instant::ZERO,
            unsettled: false,
            cpus: vec![IDLE; cpus],
            tasks: Vec::new(),
            alarm_names: Vec::new(),
            ends: Calendar::new(cpus),
            releases: Calendar::new(1),
            kicks: Calendar::new(cpus),
            alarms: Calendar::new(1),
            counts: Counts::default(),
            sinks: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Shows everything that happens from now on to `sink`.
    pub fn watch(&mut self, sink: &'a mut dyn Sink) {
        self.sinks.push(sink);
    }

    /// The current instant.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The machine inside.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Totals so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    #[inline]
    fn show(&mut self, event: impl FnOnce() -> Event) {
        if !self.sinks.is_empty() {
            let event = event();
            for sink in &mut self.sinks {
                sink.record(self.now, &event);
            }
        }
    }

    #[inline]
    fn input(&mut self, input: Input) {
        self.unsettled = true;
        self.show(|| input.into());
        self.machine.input(self.now, input);
    }

    // ---- Membership ----

    /// Creates a group.
    ///
    /// # Errors
    /// The policy refuses it.
    pub fn create_group(&mut self, name: &str, params: GroupParams, parent: GroupId) -> Result<GroupId, Refused> {
        self.unsettled = true;
        let group = self.machine.create_group(self.now, params, parent)?;
        self.show(|| Event::GroupCreated { group, name: name.to_string(), parent, params });
        Ok(group)
    }

    /// Changes what is asked for a group.
    ///
    /// # Errors
    /// The policy refuses it; nothing has changed.
    pub fn adjust_group(&mut self, group: GroupId, params: GroupParams) -> Result<(), Refused> {
        self.unsettled = true;
        self.machine.adjust_group(self.now, group, params)?;
        self.show(|| Event::GroupAdjusted { group, params });
        Ok(())
    }

    /// Adds an entity and starts its workload.
    ///
    /// # Errors
    /// The policy refuses it; nothing has changed.
    pub fn attach(&mut self, name: &str, params: Params, workload: Workload) -> Result<EntityId, Refused> {
        self.unsettled = true;
        let entity = self.machine.attach(self.now, params)?;
        self.show(|| Event::Attach { entity, name: name.to_string(), params: Box::new(params) });
        if self.tasks.len() <= entity.index() {
            self.tasks.resize(entity.index() + 1, None);
            self.releases.reserve(self.tasks.len());
        }
        let task = Task { id: entity, progress: Progress::new(workload), last_cpu: None };
        self.tasks[entity.index()] = Some(task);
        match workload {
            Workload::Hog => self.wake(entity, Wake::New { parent: None }),
            Workload::Periodic(jobs) => {
                let first = (self.now + jobs.phase).round_up(self.costs.timer_slack);
                self.releases.set(entity.index(), first);
            }
            Workload::Scripted => {}
        }
        Ok(entity)
    }

    /// Removes an entity, whatever it is doing.
    pub fn detach(&mut self, entity: EntityId) {
        self.unsettled = true;
        self.machine.detach(self.now, entity);
        self.show(|| Event::Detach { entity });
        self.releases.clear(entity.index());
        self.tasks[entity.index()] = None;
    }

    /// Changes what is asked for an entity.
    ///
    /// # Errors
    /// The policy refuses it; nothing has changed.
    pub fn adjust(&mut self, entity: EntityId, params: Params) -> Result<(), Refused> {
        self.unsettled = true;
        self.machine.adjust(self.now, entity, params)?;
        self.show(|| Event::Adjust { entity, params: Box::new(params) });
        Ok(())
    }

    /// Stops an entity until it is resumed; jobs go on being released.
    pub fn pause(&mut self, entity: EntityId) {
        self.save_burst(entity);
        self.task(entity).progress.paused = true;
        self.input(Input::Pause { entity });
    }

    /// Ends a pause.
    pub fn resume(&mut self, entity: EntityId) {
        let progress = &mut self.task(entity).progress;
        progress.paused = false;
        if progress.wants_cpu() && self.machine.state(entity) == State::Blocked {
            self.wake(entity, Wake::Resumed);
        }
    }

    /// Wakes a scripted entity (or any blocked one).
    pub fn wake(&mut self, entity: EntityId, why: Wake) {
        self.task(entity).progress.woke = true;
        self.input(Input::Wake { entity, why });
    }

    /// Blocks whoever runs on `cpu`: the end of a scripted burst.
    pub fn block(&mut self, cpu: CpuId) {
        self.input(Input::Block { cpu });
    }

    /// Makes whoever runs on `cpu` yield.
    pub fn yield_now(&mut self, cpu: CpuId) {
        self.input(Input::Yield { cpu });
    }

    /// Makes whoever runs on `cpu` yield to another entity.
    pub fn yield_to(&mut self, cpu: CpuId, to: EntityId) {
        self.input(Input::YieldTo { cpu, to });
    }

    fn task(&mut self, entity: EntityId) -> &mut Task {
        self.tasks[entity.index()].as_mut().expect("it is attached")
    }

    // ---- Time ----

    /// Lets everything before `end` happen; then it is `end`.
    pub fn run_until(&mut self, end: Instant) {
        assert!(end >= self.now, "time never goes back");
        loop {
            let next = if self.unsettled { self.now } else { self.next() };
            if next >= end {
                break;
            }
            self.now = next;
            self.instant();
        }
        self.now = end;
    }

    /// Ends the run: lets everything before `end` happen and tells the watchers that it is over.
    pub fn finish(&mut self, end: Instant) {
        self.run_until(end);
        self.show(|| Event::End);
    }

    #[inline]
    fn next(&self) -> Instant {
        let timers = self.ends.first().0.min(self.releases.first().0);
        timers.min(self.kicks.first().0).min(self.alarms.first().0)
    }

    #[inline]
    fn instant(&mut self) {
        let now = self.now;
        while self.ends.first().0 == now {
            self.end_of(CpuId::new(self.ends.first().1));
        }
        while self.releases.first().0 == now {
            self.release(self.releases.first().1);
        }
        while self.kicks.first().0 == now {
            let cpu = self.kicks.first().1;
            self.kicks.clear(cpu);
            self.input(Input::Kicked { cpu: CpuId::new(cpu) });
        }
        while self.alarms.first().0 == now {
            self.alarm(self.alarms.first().1);
        }
        self.settle();
    }

    /// The burst or the slice on `cpu` ends; a burst goes first.
    #[inline]
    fn end_of(&mut self, cpu: CpuId) {
        self.ends.clear(cpu.index());
        let running = self.cpus[cpu.index()];
        if running.done > self.now {
            self.input(Input::Expire { cpu });
            return;
        }
        let entity = running.entity.expect("an idle CPU has nothing to end");
        self.complete(cpu, entity);
    }

    fn complete(&mut self, cpu: CpuId, entity: EntityId) {
        let now = self.now;
        self.show(|| Event::Complete { entity });
        let progress = &mut self.task(entity).progress;
        let Workload::Periodic(jobs) = progress.workload else { panic!("only jobs are completed") };
        let late = now > progress.released + jobs.deadline;
        progress.open -= 1;
        progress.begun = false;
        progress.left = Some(jobs.work);
        progress.released += jobs.period;
        let open = progress.open;
        self.counts.completions += 1;
        self.counts.misses += u64::from(late);
        self.cpus[cpu.index()].done = Instant::NEVER;
        if open == 0 {
            self.input(Input::Block { cpu });
            return;
        }
        match jobs.end {
            JobEnd::Yield => self.input(Input::Yield { cpu }),
            JobEnd::Silent => self.begin(cpu, entity),
        }
        self.arm(cpu);
    }

    #[inline]
    fn release(&mut self, index: usize) {
        let now = self.now;
        let slack = self.costs.timer_slack;
        let task = self.tasks[index].as_mut().expect("only who is attached releases jobs");
        let (entity, progress) = (task.id, &mut task.progress);
        let Workload::Periodic(jobs) = progress.workload else { panic!("only jobs are released") };
        // The release that was due, which the timer may have delivered late.
        let due =
            if progress.woke { progress.released + jobs.period.saturating_mul(progress.open.into()) } else { now };
        if progress.open == 0 {
            progress.released = due;
            progress.left = Some(jobs.work);
        }
        progress.woke = true;
        progress.open += 1;
        let wakes = progress.open == 1 && !progress.paused;
        self.counts.releases += 1;
        self.releases.set(index, (due + jobs.period).round_up(slack));
        self.show(|| Event::Release { entity, deadline: due + jobs.deadline });
        if wakes {
            self.input(Input::Wake { entity, why: Wake::Timer });
        }
    }

    fn alarm(&mut self, number: usize) {
        self.alarms.clear(number);
        let (alarm, on) = self.alarm_names[number].expect("it was set");
        let running = &mut self.cpus[on.index()];
        if !self.costs.tick.is_zero() && running.done != Instant::NEVER {
            running.done += self.costs.tick;
            self.arm(on);
        }
        self.input(Input::Alarm { alarm });
    }

    // ---- Decisions ----

    #[inline]
    fn settle(&mut self) {
        self.unsettled = false;
        let mut actions = std::mem::take(&mut self.actions);
        actions.clear();
        actions.extend_from_slice(self.machine.settle(self.now));
        for &action in &actions {
            self.show(|| action.into());
            self.carry_out(action);
        }
        self.actions = actions;
    }

    #[inline]
    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Stop { cpu, entity } => self.stop(cpu, entity),
            Action::Run { cpu, entity, until } => self.run(cpu, entity, until),
            Action::Extend { cpu, until } => {
                self.cpus[cpu.index()].until = until;
                let entity = self.cpus[cpu.index()].entity.expect("who goes on runs");
                if !self.task(entity).progress.begun {
                    self.begin(cpu, entity);
                }
                self.arm(cpu);
            }
            Action::Kick { cpu } => self.kicks.set(cpu.index(), self.now + self.costs.kick),
            Action::Held { .. } => {}
            Action::SetAlarm { alarm, number, on, at } => self.set_alarm(alarm, number, on, at),
            Action::ClearAlarm { number, .. } => {
                if number < self.alarm_names.len() {
                    self.alarms.clear(number);
                }
            }
        }
    }

    fn set_alarm(&mut self, alarm: Alarm, number: usize, on: CpuId, at: Instant) {
        if self.alarm_names.len() <= number {
            self.alarm_names.resize(number + 1, None);
            self.alarms.reserve(number + 1);
        }
        self.alarm_names[number] = Some((alarm, on));
        self.alarms.set(number, at);
    }

    /// Notes how far the burst of `entity` came, if it runs.
    fn save_burst(&mut self, entity: EntityId) {
        if let State::Running(cpu) = self.machine.state(entity) {
            let running = self.cpus[cpu.index()];
            let left = self.left(running);
            self.task(entity).progress.left = left;
        }
    }

    /// The work left of what runs: its end less now, not counting dispatch costs still unpaid.
    fn left(&self, running: Running) -> Option<Nanos> {
        (running.done != Instant::NEVER).then(|| running.done.since(self.now.max(running.paid)))
    }

    #[inline]
    fn stop(&mut self, cpu: CpuId, entity: EntityId) {
        let running = std::mem::replace(&mut self.cpus[cpu.index()], Running { last: Some(entity), ..IDLE });
        self.ends.clear(cpu.index());
        let left = self.left(running);
        let blocked = !self.machine.is_attached(entity) || self.machine.state(entity) == State::Blocked;
        let Some(task) = self.tasks[entity.index()].as_mut().filter(|task| task.id == entity) else { return };
        if !blocked && task.progress.begun {
            task.progress.left = left;
            self.counts.preemptions += 1;
        }
    }

    #[inline]
    fn run(&mut self, cpu: CpuId, entity: EntityId, until: Instant) {
        let last_here = self.cpus[cpu.index()].last;
        let mut cost = Nanos::ZERO;
        if last_here != Some(entity) {
            cost += self.costs.context_switch;
        }
        let task = self.tasks[entity.index()].as_mut().expect("it is attached");
        let moved = task.last_cpu.is_some_and(|last| last != cpu);
        if moved {
            cost += self.costs.cache_refill;
            self.counts.migrations += u64::from(task.progress.begun);
        }
        task.last_cpu = Some(cpu);
        let paid = self.now + cost;
        self.cpus[cpu.index()] = Running { entity: Some(entity), done: Instant::NEVER, paid, until, last: last_here };
        self.begin(cpu, entity);
        self.arm(cpu);
    }

    /// The current burst of `entity` begins or goes on, on `cpu`.
    #[inline]
    fn begin(&mut self, cpu: CpuId, entity: EntityId) {
        let progress = &mut self.tasks[entity.index()].as_mut().expect("it is attached").progress;
        progress.begun = true;
        let from = self.cpus[cpu.index()].paid.max(self.now);
        self.cpus[cpu.index()].done = match (progress.workload, progress.left) {
            (Workload::Periodic(_), Some(left)) => from.saturating_add(left),
            _ => Instant::NEVER,
        };
        self.counts.dispatches += 1;
    }

    #[inline]
    fn arm(&mut self, cpu: CpuId) {
        let running = &self.cpus[cpu.index()];
        self.ends.set(cpu.index(), running.done.min(running.until));
    }
}
