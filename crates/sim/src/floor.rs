//! [`Floor`]: what happens on the CPUs in virtual time: who runs, when a burst or a slice ends, what is released,
//! and what each change costs.

use crate::calendar::Calendar;
use crate::costs::Costs;
use crate::workload::Progress;
use sched::{Action, Alarm, CpuId, EntityId, Instant, Nanos};

/// What a CPU is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) entity: Option<EntityId>,
    /// When the burst is done if nobody interferes; NEVER if it never is.
    pub(crate) done: Instant,
    /// When the costs of the dispatch are paid.
    paid: Instant,
    /// The end of the slice.
    until: Instant,
    /// Who ran here last.
    last: Option<EntityId>,
}

impl Running {
    /// The current burst begins or goes on.
    #[inline]
    fn begin(&mut self, progress: &mut Progress, now: Instant) {
        progress.begun = true;
        self.done = match progress.left {
            Some(left) => self.paid.max(now).saturating_add(left),
            None => Instant::NEVER,
        };
    }
}

const IDLE: Running =
    Running { entity: None, done: Instant::NEVER, paid: Instant::ZERO, until: Instant::NEVER, last: None };

/// What an entity is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) id: EntityId,
    pub(crate) progress: Progress,
    pub(crate) last_cpu: Option<CpuId>,
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

/// The CPUs, the entities on them, and everything that is due.
#[derive(Debug)]
pub(crate) struct Floor {
    pub(crate) now: Instant,
    pub(crate) costs: Costs,
    pub(crate) counts: Counts,
    pub(crate) cpus: Vec<Running>,
    pub(crate) tasks: Vec<Option<Task>>,
    /// Bursts and slices, by CPU.
    pub(crate) ends: Calendar,
    /// By entity.
    pub(crate) releases: Calendar,
    /// Kicks under way, by CPU.
    pub(crate) kicks: Calendar,
    /// By the machine's number of the alarm.
    pub(crate) alarms: Calendar,
    alarm_names: Vec<Option<(Alarm, CpuId)>>,
    /// CPUs that stopped in this settle before anything was due there; those that run nobody else have no end.
    stopped: Vec<CpuId>,
}

impl Floor {
    pub(crate) fn new(cpus: usize, costs: Costs) -> Floor {
        Floor {
            now: Instant::ZERO,
            costs,
            counts: Counts::default(),
            cpus: vec![IDLE; cpus],
            tasks: Vec::new(),
            ends: Calendar::new(cpus),
            releases: Calendar::new(1),
            kicks: Calendar::new(cpus),
            alarms: Calendar::new(1),
            alarm_names: Vec::new(),
            stopped: Vec::with_capacity(cpus),
        }
    }

    pub(crate) fn task(&mut self, entity: EntityId) -> &mut Task {
        self.tasks[entity.index()].as_mut().expect("it is attached")
    }

    /// When the next thing is due.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.ends.next().min(self.releases.next()).min(self.kicks.next().min(self.alarms.next()))
    }

    /// The alarm of this number goes off: it takes its time from whoever runs there.
    pub(crate) fn take_alarm(&mut self, number: usize) -> Alarm {
        self.alarms.clear(number);
        let (alarm, on) = self.alarm_names[number].expect("it was set");
        let running = &mut self.cpus[on.index()];
        if !self.costs.tick.is_zero() && running.done != Instant::NEVER {
            running.done += self.costs.tick;
            self.arm(on);
        }
        alarm
    }

    #[inline]
    pub(crate) fn carry_out(&mut self, action: &Action) {
        // The two that are almost all there is, ahead of a jump that no processor predicts.
        if let Action::Run { cpu, entity, until } = *action {
            return self.run(cpu, entity, until);
        }
        match *action {
            Action::Run { .. } => {}
            Action::Stop { cpu, entity } => self.stop(cpu, entity),
            Action::Extend { cpu, until } => {
                self.cpus[cpu.index()].until = until;
                let entity = self.cpus[cpu.index()].entity.expect("who goes on runs");
                if !self.task(entity).progress.begun {
                    self.go_on(cpu, entity);
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

    /// Notes how far the burst that runs on `cpu` came.
    pub(crate) fn save_burst(&mut self, cpu: CpuId) {
        let entity = self.cpus[cpu.index()].entity.expect("who has a burst to save runs");
        let left = self.left(&self.cpus[cpu.index()]);
        self.task(entity).progress.left = left;
    }

    /// After all actions of an instant: a CPU that stopped and runs nobody has nothing due.
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

    /// The work left of what runs: its end less now, not counting dispatch costs still unpaid.
    fn left(&self, running: &Running) -> Option<Nanos> {
        (running.done != Instant::NEVER).then(|| running.done.since(self.now.max(running.paid)))
    }

    #[inline]
    fn stop(&mut self, cpu: CpuId, entity: EntityId) {
        let left = self.left(&self.cpus[cpu.index()]);
        let running = &mut self.cpus[cpu.index()];
        // Mostly its burst has just ended, and nothing is due any more.
        if running.done.min(running.until) != Instant::NEVER {
            self.stopped.push(cpu);
        }
        running.entity = None;
        running.last = Some(entity);
        running.done = Instant::NEVER;
        let Some(task) = self.tasks[entity.index()].as_mut().filter(|task| task.id == entity) else { return };
        if !task.progress.begun || task.progress.paused {
            return; // Its burst is over, or somebody paused it.
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
        if running.last != Some(entity) {
            cost += self.costs.context_switch;
        }
        let task = self.tasks[entity.index()].as_mut().expect("it is attached");
        if task.last_cpu != Some(cpu) {
            let moved = task.last_cpu.replace(cpu).is_some();
            self.counts.migrations += u64::from(moved && task.progress.begun);
            if moved {
                cost += self.costs.cache_refill;
            }
        }
        running.entity = Some(entity);
        running.paid = self.now + cost;
        running.until = until;
        self.counts.dispatches += 1;
        running.begin(&mut task.progress, self.now);
        self.ends.set(cpu.index(), running.done.min(running.until));
    }

    /// The next job of `entity` begins, while it runs on `cpu`.
    pub(crate) fn go_on(&mut self, cpu: CpuId, entity: EntityId) {
        let task = self.tasks[entity.index()].as_mut().expect("it is attached");
        self.counts.dispatches += 1;
        self.cpus[cpu.index()].begin(&mut task.progress, self.now);
    }

    #[inline]
    pub(crate) fn arm(&mut self, cpu: CpuId) {
        let running = &self.cpus[cpu.index()];
        self.ends.set(cpu.index(), running.done.min(running.until));
    }
}
