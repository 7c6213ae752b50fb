//! [`Cpus`]: the CPUs of a machine in virtual time. It holds their entities, the ends of bursts and time slices, due
//! work, and the costs of switches. A CPU of a guest may be absent. Work that becomes due during the absence is
//! deferred.

use crate::calendar::Calendar;
use crate::costs::{Costs, Handling};
use crate::outbox::{Message, Outbox};
use crate::program::ObjectId;
use crate::workload::{Progress, Workload};
use sched::{Action, Alarm, CpuId, EntityId, Instant, Machine, Nanos, Wake};
use trace::Counts;

/// The state of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) entity: Option<EntityId>,
    /// Instant at which the burst ends, unless a stop or an interrupt delays the end. NEVER if the burst has no end.
    pub(crate) done: Instant,
    /// Instant at which the costs of the dispatch are paid.
    paid: Instant,
    /// End of the time slice.
    until: Instant,
    /// The entity that last ran on the CPU.
    last: Option<EntityId>,
    /// Whether the CPU is frozen, because its vCPU is not in the guest (guests only).
    pub(crate) absent: bool,
    /// Instant of the CPU's last thaw (guests only).
    came: Instant,
    /// End of the last interrupt that the CPU handles.
    interrupted: Instant,
}

impl Running {
    /// Begins or resumes the current burst.
    #[inline]
    fn begin(&mut self, progress: &mut Progress, now: Instant) {
        progress.begun = true;
        self.done = match progress.left {
            Some(left) => self.paid.max(now).saturating_add(left),
            None => Instant::NEVER,
        };
    }

    /// Returns the instant from which the entity makes progress. This instant is later than `now` while the entity pays
    /// for a switch or an interrupt.
    pub(crate) fn paid(&self) -> Instant {
        self.paid
    }

    /// Returns the end of the burst or of the time slice, whichever is earlier. NEVER if the CPU is absent.
    #[inline]
    fn due(&self) -> Instant {
        if self.absent { Instant::NEVER } else { self.done.min(self.until) }
    }
}

const IDLE: Running = Running {
    entity: None,
    done: Instant::NEVER,
    paid: Instant::ZERO,
    until: Instant::NEVER,
    last: None,
    absent: false,
    came: Instant::ZERO,
    interrupted: Instant::ZERO,
};

/// An entity: its progress, its last CPU and its switch cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) id: EntityId,
    pub(crate) progress: Progress,
    pub(crate) last_cpu: Option<CpuId>,
    /// Whether the timer that releases the next job or ends the sleep of the entity is set to the end of its slack.
    pub(crate) has_slack: bool,
    /// Time that a CPU needs to switch to the entity.
    pub(crate) switch: Nanos,
}

/// The CPUs, the entities on them, and the calendars of due work.
#[derive(Debug)]
pub(crate) struct Cpus {
    pub(crate) now: Instant,
    pub(crate) costs: Costs,
    pub(crate) counts: Counts,
    /// Instant at which the only CPU began to handle the last events of jobs ([`Handling`]). NEVER before the first.
    handling_began: Instant,
    pub(crate) cpus: Vec<Running>,
    pub(crate) tasks: Vec<Option<Task>>,
    /// Ends of bursts and slices, by CPU.
    pub(crate) ends: Calendar,
    /// Releases of jobs and ends of sleeps, by entity.
    pub(crate) releases: Calendar,
    /// Kicks in flight, by CPU.
    pub(crate) kicks: Calendar,
    /// Alarms, by their number in the machine.
    pub(crate) alarms: Calendar,
    alarm_names: Vec<Option<(Alarm, CpuId)>>,
    /// CPUs whose entity stopped in this settle while an end of its burst or slice was set. If such a CPU stays idle,
    /// this end is cleared.
    stopped: Vec<CpuId>,
    /// Messages to the rest of the world.
    pub(crate) outbox: Outbox,
    /// Due work of absent CPUs, in the order of the due instants (guests only).
    pub(crate) deferred: Vec<(CpuId, Deferred)>,
    /// Spinning entities that have just received a CPU. The lock for which an entity spins may be free.
    pub(crate) resumed_spinners: Vec<EntityId>,
    /// Number of idle CPUs that are about to halt (guests only).
    pub(crate) halting: u32,
    /// CPU to which a vCPU of this guest last yielded (guests only).
    pub(crate) last_yielded_to: usize,
    /// Whether the machine is a guest.
    pub(crate) is_guest: bool,
}

/// An event of the jobs of a task that interrupts its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobEvent {
    /// A job is activated at its release.
    Released,
    /// A job is completed or aborted.
    Ended,
    /// A job is activated at the end of its predecessor.
    Succeeded,
}

/// Due work of an absent CPU, deferred until the CPU returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deferred {
    /// A release or the end of a sleep of this entity.
    Release(EntityId),
    /// A kick.
    Kick,
    /// The alarm with this number.
    Alarm(usize),
    /// The departure of this entity.
    Departure(EntityId),
    /// A notice that waiters for this object of the machine may continue.
    Notice(ObjectId),
}

impl Cpus {
    pub(crate) fn new(cpus: usize, costs: Costs) -> Cpus {
        Cpus {
            now: Instant::ZERO,
            costs,
            counts: Counts::default(),
            handling_began: Instant::NEVER,
            cpus: vec![IDLE; cpus],
            tasks: Vec::new(),
            ends: Calendar::new(cpus),
            releases: Calendar::new(1),
            kicks: Calendar::new(cpus),
            alarms: Calendar::new(1),
            alarm_names: Vec::new(),
            stopped: Vec::with_capacity(cpus),
            outbox: Outbox::default(),
            deferred: Vec::new(),
            resumed_spinners: Vec::new(),
            halting: 0,
            last_yielded_to: 0,
            is_guest: false,
        }
    }

    /// Counts a completed job. `lateness`: time from the deadline to the completion; zero for a job that is on time.
    #[inline]
    pub(crate) fn count_completion(&mut self, lateness: Nanos) {
        let counts = &mut self.counts;
        counts.completions += 1;
        counts.misses += u64::from(!lateness.is_zero());
        counts.worst_lateness = counts.worst_lateness.max(lateness);
    }

    pub(crate) fn task(&mut self, entity: EntityId) -> &mut Task {
        self.tasks[entity.index()].as_mut().expect("it is attached")
    }

    /// Returns the instant of the next due work.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.ends.next().min(self.releases.next()).min(self.kicks.next().min(self.alarms.next()))
    }

    /// Takes a due alarm by its number. The burst on the alarm's CPU pays the cost of a tick. Returns the alarm and its
    /// CPU. `None`: the alarm is deferred, because its CPU is absent.
    pub(crate) fn take_alarm(&mut self, number: usize) -> Option<(Alarm, CpuId)> {
        self.alarms.clear(number);
        let (alarm, on) = self.alarm_names[number].expect("it was set");
        if self.defer(on, Deferred::Alarm(number), Wake::Timer) {
            return None;
        }
        self.delay(on, self.costs.tick);
        self.interrupt(on);
        Some((alarm, on))
    }

    /// Interrupts `cpu`. In a guest, the interrupt causes an exit and its cost, unless the CPU thawed at this instant.
    pub(crate) fn interrupt(&mut self, cpu: CpuId) {
        if self.is_guest {
            if self.cpus[cpu.index()].came == self.now {
                return;
            }
            self.delay(cpu, self.costs.exit);
        }
        self.outbox.send_exit(cpu);
    }

    /// Delays the end of the burst on `cpu` by `time`. Has no effect on a burst without an end.
    pub(crate) fn delay(&mut self, cpu: CpuId, time: Nanos) {
        let running = &mut self.cpus[cpu.index()];
        if !time.is_zero() && running.done != Instant::NEVER {
            running.done += time;
            self.arm(cpu);
        }
    }

    /// Handles an interrupt of length `time` on `cpu` of a host, after the end of earlier interrupts. The entity on the
    /// CPU loses this time. Returns the end of the interrupt.
    pub(crate) fn handle_interrupt(&mut self, cpu: CpuId, time: Nanos) -> Instant {
        let now = self.now;
        let running = &mut self.cpus[cpu.index()];
        running.interrupted = running.interrupted.max(now) + time;
        let done = running.interrupted;
        if time.is_zero() {
            return done;
        }
        let Some(entity) = running.entity else { return done };
        let is_vcpu =
            matches!(self.tasks[entity.index()].as_ref().map(|it| it.progress.workload), Some(Workload::Vcpu));
        let running = &mut self.cpus[cpu.index()];
        if is_vcpu {
            // The vCPU leaves its guest for the interrupt, and pays for the exit and the entry.
            if running.done == Instant::NEVER {
                self.outbox.send(Message::Leave { vcpu: entity });
                running.done = now + self.costs.exit;
            }
            running.done += time;
            running.paid = running.done;
        } else {
            running.paid = running.paid.max(now) + time;
            if running.done != Instant::NEVER {
                running.done += time;
            }
        }
        self.arm(cpu);
        done
    }

    /// Interrupts the CPU of `entity` to handle an event of its jobs ([`Handling`]). Returns the entity on the CPU, whose
    /// burst is delayed. `None`: handling takes no time, or the CPU is idle.
    pub(crate) fn handle_job_event(&mut self, entity: EntityId, event: JobEvent) -> Option<EntityId> {
        let Handling { save, load, activation, termination, decision } = self.costs.handling;
        if self.costs.handling == Handling::NONE {
            return None;
        }
        let now = self.now;
        let cpu = self.task(entity).last_cpu.unwrap_or(CpuId::new(0));
        let running = &mut self.cpus[cpu.index()];
        let left = (running.done != Instant::NEVER).then(|| running.done.since(running.paid.max(now)));
        // At the end of an interruption, SimSo 0.8.5 first processes a deadline, then begins to load a context, then
        // processes a release. If decisions take no time, the load begins last.
        let continues = match event {
            JobEvent::Released if decision.is_zero() => now <= running.interrupted,
            JobEvent::Released => now < running.interrupted || self.handling_began == now,
            JobEvent::Ended | JobEvent::Succeeded => now <= running.interrupted,
        };
        if !continues {
            self.handling_began = now;
            running.interrupted = if running.entity.is_some() { running.paid.max(now) + save } else { now };
        }
        running.interrupted += decision + if event == JobEvent::Ended { termination } else { activation };
        running.paid = running.interrupted + load;
        if let Some(left) = left {
            running.done = running.paid + left;
            self.arm(cpu);
        }
        self.cpus[cpu.index()].entity
    }

    /// Makes the burst of a task on a CPU end as soon as the costs of its dispatch are paid.
    pub(crate) fn restart_burst(&mut self, entity: EntityId) {
        let Some(cpu) = self.seat_of(entity) else { return };
        let running = &mut self.cpus[cpu.index()];
        running.done = running.paid;
        self.arm(cpu);
    }

    /// If `cpu` is absent, defers `what` and asks the host to run the vCPU. Returns whether the work is deferred.
    #[inline]
    pub(crate) fn defer(&mut self, cpu: CpuId, what: Deferred, why: Wake) -> bool {
        if !self.is_guest || !self.cpus[cpu.index()].absent {
            return false;
        }
        self.deferred.push((cpu, what));
        self.outbox.send(Message::WakeUp { cpu, why });
        true
    }

    /// Makes `cpu` absent: from now on, its task makes no progress, and no burst or slice ends.
    pub(crate) fn leave(&mut self, cpu: CpuId) {
        if let Some(entity) = self.cpus[cpu.index()].entity {
            let left = self.left(&self.cpus[cpu.index()]);
            let unpaid = self.cpus[cpu.index()].paid.saturating_since(self.now);
            let now = self.now;
            let task = self.task(entity);
            task.progress.pause_spinning(now);
            if left.is_some() {
                task.progress.left = left.map(|left| left + unpaid);
            }
        }
        self.cpus[cpu.index()].absent = true;
        self.ends.clear(cpu.index());
    }

    /// Ends the absence of `cpu`: its task continues. The time slice of the task may have ended during the absence.
    pub(crate) fn come(&mut self, cpu: CpuId) {
        let now = self.now;
        self.cpus[cpu.index()].absent = false;
        self.cpus[cpu.index()].came = now;
        if let Some(entity) = self.cpus[cpu.index()].entity {
            let running = &mut self.cpus[cpu.index()];
            running.paid = now;
            running.until = running.until.max(now);
            let task = self.tasks[entity.index()].as_mut().expect("a running entity is attached");
            running.begin(&mut task.progress, now);
            task.progress.go_on_spinning(now);
            if task.progress.is_spinning {
                self.resumed_spinners.push(entity);
            }
            self.arm(cpu);
        }
    }

    #[inline]
    pub(crate) fn carry_out(&mut self, action: &Action, machine: &Machine) {
        // `Run` is the most frequent action, and processors predict the jump of the match badly. A test for `Run`
        // therefore precedes the match.
        if let Action::Run { cpu, entity, until } = *action {
            return self.run(cpu, entity, until);
        }
        match *action {
            Action::Run { .. } => {}
            Action::Stop { cpu, entity } => self.stop(cpu, entity),
            Action::Extend { cpu, until } => {
                self.cpus[cpu.index()].until = until;
                let entity = self.cpus[cpu.index()].entity.expect("an extended entity runs");
                if !self.task(entity).progress.begun {
                    self.go_on(cpu, entity);
                    if matches!(self.task(entity).progress.workload, Workload::Vcpu) {
                        self.outbox.send(Message::Enter { vcpu: entity });
                    }
                }
                self.arm(cpu);
            }
            Action::Kick { cpu } => self.kicks.set(cpu.index(), self.now + self.costs.kick),
            Action::Held { .. } => {}
            Action::SetAlarm { alarm, on, at } => self.set_alarm(alarm, machine.alarm_number(alarm), on, at),
            Action::ClearAlarm { alarm } => {
                let number = machine.alarm_number(alarm);
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

    /// Saves the progress of the burst on `cpu`.
    pub(crate) fn save_burst(&mut self, cpu: CpuId) {
        let entity = self.cpus[cpu.index()].entity.expect("an entity with a burst runs");
        let left = self.left(&self.cpus[cpu.index()]);
        self.task(entity).progress.left = left;
    }

    /// Clears the end of the burst or slice of each CPU whose entity stopped and on which no other entity runs. Called
    /// after all actions of a settle.
    #[inline]
    pub(crate) fn clear_idle(&mut self) {
        for i in 0..self.stopped.len() {
            let cpu = self.stopped[i].index();
            if self.cpus[cpu].entity.is_none() {
                self.ends.clear(cpu);
            }
        }
        self.stopped.clear();
    }

    /// Returns the remaining work of a burst, without unpaid costs of the switch. `None`: the burst has no end, or the
    /// CPU is absent.
    fn left(&self, running: &Running) -> Option<Nanos> {
        if running.absent {
            return None;
        }
        (running.done != Instant::NEVER).then(|| running.done.since(self.now.max(running.paid)))
    }

    #[inline]
    fn stop(&mut self, cpu: CpuId, entity: EntityId) {
        let left = self.left(&self.cpus[cpu.index()]);
        let running = &mut self.cpus[cpu.index()];
        // Usually the burst has just ended, and nothing is due any more.
        if running.done.min(running.until) != Instant::NEVER {
            self.stopped.push(cpu);
        }
        let pays = running.done != Instant::NEVER;
        running.entity = None;
        running.last = Some(entity);
        running.done = Instant::NEVER;
        if self.is_guest {
            self.outbox.send(Message::Idle { cpu });
        }
        let Some(task) = self.tasks[entity.index()].as_mut().filter(|task| task.id == entity) else { return };
        task.progress.pause_spinning(self.now);
        if matches!(task.progress.workload, Workload::Vcpu) {
            // A vCPU that still pays for its entry is not in its guest yet.
            if !pays {
                self.outbox.send(Message::Leave { vcpu: entity });
            }
            self.counts.preemptions += u64::from(task.progress.begun);
            return;
        }
        if !task.progress.begun || task.progress.paused {
            return; // The burst has ended, or the entity is paused.
        }
        if left.is_some() {
            task.progress.left = left;
        }
        self.counts.preemptions += 1;
    }

    #[inline]
    fn run(&mut self, cpu: CpuId, entity: EntityId, until: Instant) {
        let running = &mut self.cpus[cpu.index()];
        let mut cost = Nanos::ZERO;
        let task = self.tasks[entity.index()].as_mut().expect("it is attached");
        if running.last != Some(entity) {
            cost += task.switch;
        }
        if task.last_cpu != Some(cpu) {
            let moved = task.last_cpu.replace(cpu).is_some();
            self.counts.migrations += u64::from(moved && task.progress.begun);
            if moved {
                cost += self.costs.cache_refill;
            }
        }
        running.entity = Some(entity);
        running.paid = running.interrupted.max(self.now) + cost + self.costs.handling.load;
        running.until = until;
        self.counts.dispatches += 1;
        running.begin(&mut task.progress, self.now);
        if task.progress.is_spinning {
            task.progress.go_on_spinning(running.paid);
            self.resumed_spinners.push(entity);
        } else if matches!(task.progress.workload, Workload::Vcpu) {
            if running.paid == self.now && self.costs.exit.is_zero() {
                self.outbox.send(Message::Enter { vcpu: entity });
            } else {
                running.paid += self.costs.exit;
                running.done = running.paid;
            }
        }
        self.ends.set(cpu.index(), running.due());
    }

    /// Returns whether the task on `cpu` still spins. With `halts`, the task must also have spun for the limit after
    /// which it halts its vCPU.
    pub(crate) fn spins_on(&self, cpu: CpuId, halts: bool) -> bool {
        let running = &self.cpus[cpu.index()];
        let task = running.entity.and_then(|entity| self.tasks[entity.index()].as_ref());
        let spins = task.is_some_and(|task| task.progress.is_spinning);
        spins && !running.absent && (!halts || running.done == Instant::NEVER)
    }

    /// Returns whether a burst with an end runs on `cpu`, and `cpu` is not absent.
    pub(crate) fn is_at_work(&self, cpu: CpuId) -> bool {
        let running = &self.cpus[cpu.index()];
        !running.absent && running.done != Instant::NEVER
    }

    /// Returns the CPU of `entity`. `None`: the entity has no CPU.
    pub(crate) fn seat_of(&self, entity: EntityId) -> Option<CpuId> {
        let cpu = self.tasks[entity.index()].as_ref()?.last_cpu?;
        (self.cpus[cpu.index()].entity == Some(entity)).then_some(cpu)
    }

    /// Returns whether `entity` spins, on a CPU or preempted.
    pub(crate) fn is_spinning(&self, entity: EntityId) -> bool {
        self.tasks[entity.index()].as_ref().is_some_and(|task| task.progress.is_spinning)
    }

    /// Returns whether `entity` runs on a CPU that is not absent.
    pub(crate) fn is_present(&self, entity: EntityId) -> bool {
        self.seat_of(entity).is_some_and(|cpu| !self.cpus[cpu.index()].absent)
    }

    /// Begins the next burst of `entity`, which keeps `cpu`. Counts a dispatch.
    pub(crate) fn go_on(&mut self, cpu: CpuId, entity: EntityId) {
        let task = self.tasks[entity.index()].as_mut().expect("it is attached");
        self.counts.dispatches += 1;
        self.cpus[cpu.index()].begin(&mut task.progress, self.now);
    }

    #[inline]
    pub(crate) fn arm(&mut self, cpu: CpuId) {
        let due = self.cpus[cpu.index()].due();
        self.ends.set(cpu.index(), due);
    }
}
