//! [`Driver`]: drives one machine in virtual time. It simulates the CPUs, the workloads, and the costs of scheduling.
//!
//! At one instant, the driver processes ends of bursts and slices (by CPU), then releases (by entity), arriving kicks
//! (by CPU) and alarms (by number), then releases whose timers fire with an alarm. Then the machine settles once. The
//! order of events depends on nothing else, so equal calls give equal runs.

use crate::costs::Costs;
use crate::cpus::{Cpus, Deferred, Task};
use crate::guest::Guest;
use crate::outbox::Message;
use crate::program::Tasks;
use crate::stuck::{Stuck, Waiter};
use crate::workload::{JobEnd, Workload};
use sched::{
    CpuId, EntityId, Input, Instant, Kicks, Knobs, Machine, Nanos, Notice, PolicySource, Refused, State, Wake,
};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use trace::replay::SettleMarks;
use trace::{Account, Counts, Event, MachineId, Sink, WorldSink};

/// The sinks of a whole world.
pub(crate) type Watchers<'a> = Rc<RefCell<Vec<Box<dyn WorldSink + 'a>>>>;

/// The events with which an instant begins or continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Facts {
    /// Ends of bursts and slices: the beginning of an instant.
    Ends,
    /// Releases, then kicks and alarms.
    Releases,
    /// Alarms.
    Alarms,
}

/// One simulated machine. On its own, the machine is a host without guests. A [`World`](crate::World) joins hosts and
/// guests.
pub struct Driver<'a> {
    pub(crate) machine: Machine,
    pub(crate) cpus: Cpus,
    pub(crate) tasks: Tasks,
    /// Name of the machine.
    pub(crate) name: String,
    /// Settings of the machine as a guest. `None`: the machine is a host.
    pub(crate) guest: Option<Guest>,
    /// Reason why the machine cannot continue. `None`: the machine can continue.
    pub(crate) stuck: Option<Box<Stuck>>,
    /// Stalls of applications: all their tasks wait for each other, but the machine continues.
    pub(crate) stalls: Vec<Stuck>,
    /// Whether an input or a change awaits a settle.
    pub(crate) unsettled: bool,
    /// Number of inputs to the machine, except freezes and thaws.
    pub(crate) inputs: u64,
    /// Number of releases and alarms that [`instant`](Driver::instant) may still process.
    pub(crate) budget: u64,
    /// Events with which the current instant begins or continues.
    next_facts: Facts,
    /// The id of this machine in its world, and the sinks of the world.
    pub(crate) world: Option<(MachineId, Watchers<'a>)>,
    /// Whether a sink or the coordination of a guest reads the events.
    is_watched: bool,
    /// Whether a sink of the world reads the accounts of the policy.
    shows_accounts: bool,
    /// Marks the settles that a reader of the trace cannot derive from other events.
    marks: SettleMarks,
    sinks: Vec<Box<dyn Sink + 'a>>,
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("now", &self.cpus.now).field("counts", &self.cpus.counts).finish_non_exhaustive()
    }
}

impl<'a> Driver<'a> {
    /// Creates an idle host at time zero.
    ///
    /// # Errors
    /// The policy does not work with these knobs on this topology.
    pub fn new(
        policy: &dyn PolicySource,
        host: sched::Topology,
        knobs: &Knobs,
        costs: Costs,
    ) -> Result<Driver<'a>, Refused> {
        let kicks = if costs.kick.is_zero() { Kicks::Immediate } else { Kicks::Delivered };
        Ok(Driver::around(Machine::build(policy, host, knobs, kicks)?, costs))
    }

    /// Creates a host around a machine that has not received any input.
    #[must_use]
    pub fn around(machine: Machine, costs: Costs) -> Driver<'a> {
        let cpus = Cpus::new(machine.topology().cpus, costs);
        Driver {
            machine,
            cpus,
            tasks: Tasks::default(),
            name: "host".to_string(),
            guest: None,
            stuck: None,
            stalls: Vec::new(),
            unsettled: false,
            inputs: 0,
            budget: u64::MAX,
            next_facts: Facts::Ends,
            world: None,
            is_watched: false,
            shows_accounts: false,
            marks: SettleMarks::default(),
            sinks: Vec::new(),
        }
    }

    /// Passes all later events to `sink`.
    pub fn watch(&mut self, sink: impl Sink + 'a) {
        self.watch_boxed(Box::new(sink));
    }

    /// Passes all later events to a boxed sink, like [`watch`](Driver::watch).
    pub fn watch_boxed(&mut self, sink: Box<dyn Sink + 'a>) {
        self.sinks.push(sink);
        self.is_watched = true;
    }

    /// Passes events to the sinks of the world, as events of machine `id`.
    pub(crate) fn watch_as(&mut self, id: MachineId, watchers: &Watchers<'a>) {
        self.world = Some((id, Rc::clone(watchers)));
        self.is_watched = true;
        self.shows_accounts = watchers.borrow().iter().any(|sink| sink.reads_accounts());
    }

    /// Stops passing events to the sinks of the world.
    pub(crate) fn end_world_watch(&mut self) {
        self.world = None;
        self.shows_accounts = false;
        self.is_watched = !self.sinks.is_empty() || self.cpus.outbox.coordinates;
    }

    /// Returns whether the world has to react to events of this instant.
    #[inline]
    pub(crate) fn concerns_world(&self) -> bool {
        let outbox = &self.cpus.outbox;
        !outbox.is_empty() || outbox.has_traffic() || outbox.coordinates || self.stuck.is_some()
    }

    /// Starts to record exits and notes, for the coordination of a guest with its host.
    pub(crate) fn coordinate(&mut self) {
        self.cpus.outbox.coordinates = true;
        self.is_watched = true;
    }

    /// Returns the current instant.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.cpus.now
    }

    /// Returns the machine that this driver drives.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the counts of jobs and scheduling events so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let late: u64 = self.cpus.tasks.iter().flatten().map(|task| self.late_jobs(task)).sum();
        Counts { unfinished_late: self.cpus.counts.unfinished_late + late, ..self.cpus.counts }
    }

    /// Returns the number of open jobs of `task` whose deadline has passed. For a program, only the job that began last
    /// counts.
    pub(crate) fn late_jobs(&self, task: &Task) -> u64 {
        let now = self.cpus.now;
        match task.progress.workload {
            Workload::Periodic(jobs) => {
                let late = now.saturating_since(task.progress.released + jobs.deadline).as_ns();
                late.div_ceil(jobs.period.as_ns()).min(task.progress.open.into())
            }
            Workload::Program => self.tasks.late_jobs(task.id, now),
            Workload::Hog | Workload::Scripted | Workload::Vcpu => 0,
        }
    }

    #[inline]
    pub(crate) fn show(&mut self, event: impl FnOnce() -> Event) {
        if self.is_watched {
            let event = event();
            self.record(&event);
        }
    }

    fn record(&mut self, event: &Event) {
        if self.marks.before(self.cpus.now, event) {
            self.tell(&Event::Settled);
        }
        self.tell(event);
    }

    #[inline(always)]
    fn tell(&mut self, event: &Event) {
        let now = self.cpus.now;
        for sink in &mut self.sinks {
            sink.record(now, event);
        }
        if self.world.is_some() | self.cpus.outbox.coordinates {
            self.tell_world(event);
        }
    }

    /// Reports an event to the world: to the coordination of a guest, and to the sinks of the world.
    fn tell_world(&mut self, event: &Event) {
        let now = self.cpus.now;
        self.cpus.outbox.note(event);
        if let Some((machine, watchers)) = &self.world {
            for sink in watchers.borrow_mut().iter_mut() {
                sink.record(*machine, now, event);
            }
        }
    }

    /// Reports the accounts of all attached entities to the sinks of the world that read accounts.
    #[cold]
    fn show_accounts(&self) {
        let Some((machine, watchers)) = &self.world else { return };
        let (now, mut watchers) = (self.cpus.now, watchers.borrow_mut());
        for entity in self.cpus.tasks.iter().flatten().map(|task| task.id) {
            let account = Account::of(&self.machine, entity);
            for sink in watchers.iter_mut().filter(|sink| sink.reads_accounts()) {
                sink.account(*machine, now, entity, &account);
            }
        }
    }

    #[inline]
    pub(crate) fn input(&mut self, input: Input) {
        self.unsettled = true;
        self.pass_on(input);
    }

    /// Passes an input to the machine without requesting a settle.
    #[inline]
    pub(crate) fn pass_on(&mut self, input: Input) {
        // Freezes and thaws come from the host, not from the machine's tasks.
        self.inputs += u64::from(!matches!(input, Input::Freeze { .. } | Input::Thaw { .. }));
        if self.is_watched {
            // An input owns nothing, so there is nothing to drop.
            self.record(&ManuallyDrop::new(Event::Input(input)));
        }
        self.machine.input(self.cpus.now, input);
    }

    /// Sets the seed of random lengths.
    pub fn seed(&mut self, seed: u64) {
        self.tasks.seed = seed;
    }

    /// Returns the number of inputs to the machine, except freezes and thaws.
    #[must_use]
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// Returns the reason why the machine cannot continue. `None`: the machine can continue.
    #[must_use]
    pub fn stuck(&self) -> Option<&Stuck> {
        self.stuck.as_deref()
    }

    /// Returns the tasks that currently wait for objects.
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiter> {
        self.waiters()
    }

    /// Returns the CPU time for which `entity` has spun for locks and barriers. Time of a spin in progress counts only
    /// once the entity stops running or the spin ends.
    #[must_use]
    pub fn spun(&self, entity: EntityId) -> Nanos {
        self.cpus.tasks[entity.index()].as_ref().map_or(Nanos::ZERO, |task| task.progress.spun)
    }

    /// Pauses an entity until it is resumed. Its jobs are still released.
    pub fn pause(&mut self, entity: EntityId) {
        if let State::Running(cpu) = self.machine.state(entity) {
            self.cpus.save_burst(cpu);
            self.cpus.ends.clear(cpu.index());
        }
        self.cpus.task(entity).progress.paused = true;
        self.input(Input::Pause { entity });
    }

    /// Ends the pause of an entity. A hog, or a periodic entity with an open job, wakes.
    pub fn resume(&mut self, entity: EntityId) {
        let progress = &mut self.cpus.task(entity).progress;
        progress.paused = false;
        if progress.wants_cpu() && self.machine.state(entity) == State::Blocked {
            self.wake(entity, Wake::Resumed);
        }
    }

    /// Wakes a blocked entity, such as a scripted entity.
    pub fn wake(&mut self, entity: EntityId, why: Wake) {
        self.cpus.task(entity).progress.woke = true;
        self.input(Input::Wake { entity, why });
    }

    /// Passes a notice for `entity` to the policy.
    pub fn notice(&mut self, entity: EntityId, what: Notice) {
        self.input(Input::Event { entity, what });
    }

    /// Blocks the entity on `cpu`, at the end of a scripted burst or when a vCPU halts.
    pub fn block(&mut self, cpu: CpuId) {
        if let Some(entity) = self.machine.running(cpu) {
            self.cpus.task(entity).progress.begun = false;
            self.cpus.ends.clear(cpu.index());
        }
        self.input(Input::Block { cpu });
    }

    /// Blocks a vCPU that yielded at this instant, before its host settles.
    pub(crate) fn stop_waiting(&mut self, vcpu: EntityId) {
        self.cpus.task(vcpu).progress.begun = false;
        self.input(Input::Pause { entity: vcpu });
    }

    /// Makes the entity on `cpu` yield.
    pub fn yield_now(&mut self, cpu: CpuId) {
        self.cpus.ends.clear(cpu.index());
        self.input(Input::Yield { cpu });
    }

    /// Makes the entity on `cpu` yield to another entity. If the policy refuses, the entity keeps its CPU.
    pub fn yield_to(&mut self, cpu: CpuId, to: EntityId) {
        self.input(Input::YieldTo { cpu, to });
        if self.machine.running(cpu).is_none() {
            self.cpus.ends.clear(cpu.index());
        }
    }

    // ---- Time ----

    /// Processes every event before `end`, and advances to `end`.
    pub fn run_until(&mut self, end: Instant) {
        while self.step(end) {}
    }

    /// Processes the next instant with due work before `end`, and returns true. If no work is due before `end`,
    /// advances to `end` and returns false.
    #[inline]
    pub fn step(&mut self, end: Instant) -> bool {
        assert!(end >= self.cpus.now, "time never goes back");
        let next = self.next();
        if next >= end {
            self.cpus.now = end;
            return false;
        }
        self.cpus.now = next;
        self.whole_instant();
        true
    }

    /// Runs until `end` and ends the run for the sinks.
    pub fn finish(&mut self, end: Instant) {
        self.run_until(end);
        self.show(|| Event::End);
    }

    /// Processes all work that is due now, and settles.
    pub(crate) fn whole_instant(&mut self) {
        let budget = std::mem::replace(&mut self.budget, u64::MAX);
        let is_complete = self.instant();
        assert!(is_complete, "no instant has so much work");
        self.budget = budget;
    }

    /// Processes the work that is due now, and settles. Returns false if the budget runs out before the settle. The
    /// next call then continues this instant.
    #[inline]
    pub(crate) fn instant(&mut self) -> bool {
        if self.next_facts != Facts::Ends {
            return self.continue_instant();
        }
        while self.cpus.ends.next() == self.cpus.now {
            self.end_of(CpuId::new(self.cpus.ends.first()));
        }
        self.pass_releases()
    }

    /// Continues an incomplete instant.
    #[cold]
    fn continue_instant(&mut self) -> bool {
        match std::mem::replace(&mut self.next_facts, Facts::Ends) {
            Facts::Alarms => self.pass_alarms(),
            Facts::Ends | Facts::Releases => self.pass_releases(),
        }
    }

    /// Processes the releases, kicks and alarms that are due now, and settles.
    fn pass_releases(&mut self) -> bool {
        while self.cpus.releases.next() == self.cpus.now {
            if self.budget == 0 {
                self.next_facts = Facts::Releases;
                return false;
            }
            self.budget -= 1;
            self.release(self.cpus.releases.first());
        }
        if !self.tasks.releasing.is_empty() {
            self.release_all_due_jobs();
        }
        while self.cpus.kicks.next() == self.cpus.now {
            let cpu = CpuId::new(self.cpus.kicks.first());
            self.cpus.kicks.clear(cpu.index());
            if !self.cpus.defer(cpu, Deferred::Kick, Wake::Interrupt) {
                self.cpus.interrupt(cpu);
                self.input(Input::Kicked { cpu });
            }
        }
        self.pass_alarms()
    }

    /// Processes the alarms that are due now, and settles.
    #[inline(always)]
    fn pass_alarms(&mut self) -> bool {
        while self.cpus.alarms.next() == self.cpus.now {
            if self.budget == 0 {
                self.next_facts = Facts::Alarms;
                return false;
            }
            self.budget -= 1;
            self.alarm(self.cpus.alarms.first());
        }
        if self.cpus.releases.next() == self.cpus.now {
            return self.pass_releases();
        }
        if self.unsettled {
            self.settle();
        }
        true
    }

    /// Returns the instant of the next due work.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        if self.unsettled { self.cpus.now } else { self.cpus.next() }
    }

    /// Ends the burst or the slice on `cpu`. If both end now, the burst ends first.
    #[inline]
    fn end_of(&mut self, cpu: CpuId) {
        self.cpus.ends.clear(cpu.index());
        let running = &self.cpus.cpus[cpu.index()];
        if running.done > self.cpus.now {
            self.fire_expired_timers(cpu);
            self.input(Input::Expire { cpu });
            return;
        }
        let entity = running.entity.expect("an idle CPU has nothing to end");
        let progress = &self.cpus.task(entity).progress;
        match progress.workload {
            Workload::Program if progress.is_spinning => self.spin_on(cpu, entity),
            Workload::Program => self.advance(cpu, entity),
            Workload::Vcpu => {
                self.cpus.cpus[cpu.index()].done = Instant::NEVER;
                self.cpus.arm(cpu);
                self.cpus.outbox.send(Message::Enter { vcpu: entity });
            }
            _ => self.complete(cpu, entity),
        }
    }

    fn complete(&mut self, cpu: CpuId, entity: EntityId) {
        let now = self.cpus.now;
        self.show(|| Event::Complete { entity });
        let progress = &mut self.cpus.task(entity).progress;
        let Workload::Periodic(jobs) = &progress.workload else { panic!("only jobs are completed") };
        let lateness = now.saturating_since(progress.released + jobs.deadline);
        progress.open -= 1;
        progress.begun = false;
        progress.left = Some(jobs.work);
        progress.released += jobs.period;
        let (open, end) = (progress.open, jobs.end);
        self.cpus.count_completion(lateness);
        self.cpus.cpus[cpu.index()].done = Instant::NEVER;
        if open == 0 {
            self.input(Input::Block { cpu });
            return;
        }
        match end {
            // No event is due on `cpu` until the machine picks again, because the yield gave up the current slice.
            JobEnd::Yield => self.input(Input::Yield { cpu }),
            JobEnd::Silent => {
                self.cpus.go_on(cpu, entity);
                self.cpus.arm(cpu);
            }
        }
    }

    #[inline(always)]
    fn release(&mut self, index: usize) {
        let &Task { id, last_cpu, .. } = self.cpus.tasks[index].as_ref().expect("only attached entities release jobs");
        let home = last_cpu.unwrap_or_else(|| self.machine.last_cpu(id));
        if self.cpus.defer(home, Deferred::Release(id), Wake::Timer) {
            self.cpus.releases.clear(index);
            return;
        }
        self.cpus.interrupt(home);
        self.fire_expired_timers(home);
        self.released(id);
    }

    /// Processes the release or the end of the sleep of `entity`, which is due now.
    pub(crate) fn released(&mut self, entity: EntityId) {
        let now = self.cpus.now;
        let index = entity.index();
        let Some(task) = self.cpus.tasks[index].as_mut().filter(|task| task.id == entity) else { return };
        if matches!(task.progress.workload, Workload::Program) {
            self.cpus.releases.clear(index);
            return self.awake(entity);
        }
        let progress = &mut task.progress;
        let Workload::Periodic(jobs) = &progress.workload else { panic!("only jobs are released") };
        // The instant at which the release was due. The timer may have fired later.
        let due =
            if progress.woke { progress.released + jobs.period.saturating_mul(progress.open.into()) } else { now };
        if progress.open == 0 {
            progress.released = due;
            progress.left = Some(jobs.work);
        }
        progress.woke = true;
        progress.open += 1;
        let wakes = progress.open == 1 && !progress.paused;
        let deadline = due + jobs.deadline;
        let next = due + jobs.period;
        self.cpus.counts.releases += 1;
        // If the CPU was absent, the missed releases follow at this instant.
        self.set_timer(entity, next);
        self.show(|| Event::Release { entity, deadline });
        if wakes {
            self.input(Input::Wake { entity, why: Wake::Timer });
        }
    }

    #[inline(always)]
    fn alarm(&mut self, number: usize) {
        if let Some((alarm, cpu)) = self.cpus.take_alarm(number) {
            self.fire_expired_timers(cpu);
            self.input(Input::Alarm { alarm });
        }
    }

    // ---- Decisions ----

    #[inline]
    pub(crate) fn settle(&mut self) {
        self.unsettled = false;
        self.machine.settle(self.cpus.now);
        if self.is_watched {
            let actions = self.machine.actions().len();
            if self.marks.settled(self.cpus.now, actions) {
                self.tell(&Event::Settled);
            }
            for at in 0..actions {
                // Actions directly follow their settle, so no mark is needed before an action.
                self.tell(&ManuallyDrop::new(Event::Action(self.machine.actions()[at])));
            }
            if self.shows_accounts {
                self.show_accounts();
            }
        }
        for action in self.machine.actions() {
            self.cpus.carry_out(action, &self.machine);
        }
        self.cpus.clear_idle();
        while let Some(entity) = self.cpus.resumed_spinners.pop() {
            if self.cpus.is_present(entity) {
                self.try_again(entity);
            }
        }
    }
}
