//! [`Detector`]: finds the urgent tasks of a guest from the data of the guest's own kernel. The data are the instants
//! of wake-ups and blocks on the guest's clock, the charged CPU time, the parameters of the tasks, and the state of the
//! guest's policy. The detector has no data about the host.

use crate::ewma::Ewma;
use crate::kernel::Kernel;
use crate::lavd::{Lavd, Woken};
use crate::ule::Ule;
use crate::{Boost, Coordination, GuestChoice, Protocol, Rule};
use sched::{CpuId, EntityId, FairPosition, Instant, Nanos, Position, Wake};

/// An event of the guest's kernel that the detector reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// An entity was woken.
    Woke(EntityId, Wake),
    /// An entity began to run on a CPU.
    Runs(EntityId, CpuId),
    /// An entity stopped running.
    Stopped(EntityId),
    /// The parameters of an entity changed.
    Adjusted(EntityId),
    /// An entity has left.
    Left(EntityId),
}

/// The state of a rule for a task.
#[derive(Clone, Copy, Debug)]
enum RuleState {
    Nothing,
    /// Whether the task was interactive at its wake-up.
    AtWakeUp(bool),
    /// Deadline of the task at its wake-up, if the deadline had passed or was less than a slice ahead (BFS).
    Deadline(Option<Instant>),
    Ule(Ule),
    Lavd(Lavd),
    Ewma(Ewma),
}

#[derive(Clone, Copy, Debug)]
struct Task {
    id: EntityId,
    runnable: bool,
    /// Instant at which the task blocked.
    blocked: Option<Instant>,
    /// Charged time at the start of the burst, and charged time that the rule has already accounted.
    burst_start: Nanos,
    accounted: Nanos,
    parent: Option<EntityId>,
    rule_state: RuleState,
    urgent: bool,
}

impl Task {
    fn new(rule: Rule, id: EntityId) -> Task {
        let rule_state = match rule {
            Rule::Class | Rule::Bmq => RuleState::Nothing,
            Rule::Cfs => RuleState::AtWakeUp(false),
            Rule::Bfs => RuleState::Deadline(None),
            Rule::Ule => RuleState::Ule(Ule::default()),
            Rule::Lavd => RuleState::Lavd(Lavd::default()),
            Rule::Ewma => RuleState::Ewma(Ewma::default()),
        };
        Task {
            id,
            runnable: false,
            blocked: None,
            burst_start: Nanos::ZERO,
            accounted: Nanos::ZERO,
            parent: None,
            rule_state,
            urgent: false,
        }
    }
}

/// The urgent tasks of a guest.
#[derive(Debug)]
pub struct Detector {
    rule: Rule,
    /// State of the tasks, by entity index.
    tasks: Vec<Option<Task>>,
    /// The task on each CPU, according to the notes read so far.
    running: Vec<Option<EntityId>>,
    /// The urgent and runnable tasks.
    awake: Vec<EntityId>,
    /// Sum of the criticality of all tasks, and number of these tasks (LAVD).
    critical: (u64, u64),
}

impl Detector {
    /// A detector for a guest with `cpus` CPUs, which knows no task.
    #[must_use]
    pub fn new(rule: Rule, cpus: usize) -> Detector {
        Detector { rule, tasks: Vec::new(), running: vec![None; cpus], awake: Vec::new(), critical: (0, 0) }
    }

    /// Returns whether `e` is urgent.
    pub fn is_urgent(&self, e: EntityId) -> bool {
        self.get(e).is_some_and(|task| task.urgent)
    }

    /// Returns all urgent tasks.
    pub fn urgent(&self) -> impl Iterator<Item = EntityId> {
        self.tasks.iter().flatten().filter(|task| task.urgent).map(|task| task.id)
    }

    /// Returns the urgent tasks that are asleep.
    pub fn asleep(&self) -> impl Iterator<Item = EntityId> {
        self.tasks.iter().flatten().filter(|task| task.urgent && !task.runnable).map(|task| task.id)
    }

    /// Returns the choice of the guest's scheduler for `cpu`: the boost for the running task, and whether urgent tasks wait
    /// or sleep on `cpu`. `locked`: whether the running task must not be preempted.
    #[must_use]
    pub fn choice(&self, kernel: &impl Kernel, with: &Coordination, cpu: CpuId, locked: bool) -> GuestChoice {
        let runs = kernel.running(cpu);
        let of_class = |e: EntityId| Boost::like(kernel.params(e).class);
        let task_boost = runs.and_then(|e| of_class(e).or(self.is_urgent(e).then_some(with.boost)));
        let waits = |&e: &EntityId| kernel.is_waiting(e) && kernel.last_cpu(e) == cpu;
        // Only protocol S0 reports sleeping tasks.
        let sleeps = with.protocol == Protocol::S0 && self.asleep().any(|e| kernel.has(e) && kernel.last_cpu(e) == cpu);
        GuestChoice { runs: runs.is_some(), task_boost, waits: self.awake.iter().any(waits), sleeps, locked }
    }

    fn get(&self, e: EntityId) -> Option<&Task> {
        self.tasks.get(e.index())?.as_ref().filter(|task| task.id == e)
    }

    fn task(&mut self, e: EntityId) -> &mut Task {
        if self.tasks.len() <= e.index() {
            self.tasks.resize(e.index() + 1, None);
        }
        let rule = self.rule;
        let task = &mut self.tasks[e.index()];
        if task.is_none_or(|task| task.id != e) {
            *task = Some(Task::new(rule, e));
        }
        task.as_mut().expect("it is there now")
    }

    // ---- Events ----

    /// Processes an event of this instant, after the `kernel` has settled.
    pub fn note(&mut self, kernel: &impl Kernel, note: Note) {
        match note {
            Note::Runs(e, cpu) => self.running[cpu.index()] = Some(e),
            Note::Stopped(e) => {
                self.running.iter_mut().filter(|running| **running == Some(e)).for_each(|running| *running = None);
                if kernel.has(e) && kernel.is_blocked(e) {
                    self.blocked(kernel, e);
                    self.sort(kernel, e);
                }
            }
            Note::Woke(e, why) if kernel.has(e) => self.woke(kernel, e, why),
            Note::Adjusted(e) if kernel.has(e) => self.sort(kernel, e),
            Note::Left(e) => self.left(e),
            Note::Woke(..) | Note::Adjusted(_) => {}
        }
    }

    /// Reviews the running task `e`: its burst may have become too long.
    pub fn review(&mut self, kernel: &impl Kernel, e: EntityId) {
        // The guest's kernel knows only the charged time.
        let charged = kernel.charged(e);
        let task = self.task(e);
        let (burst, more) = (charged.saturating_sub(task.burst_start), charged.saturating_sub(task.accounted));
        task.accounted = charged;
        match &mut task.rule_state {
            RuleState::Ewma(ewma) => ewma.runs(burst),
            RuleState::Ule(ule) => ule.ran(more),
            RuleState::Nothing | RuleState::AtWakeUp(_) | RuleState::Deadline(_) | RuleState::Lavd(_) => {}
        }
        self.sort(kernel, e);
    }

    fn woke(&mut self, kernel: &impl Kernel, e: EntityId, why: Wake) {
        let now = kernel.now();
        if self.task(e).runnable {
            // The task blocked and woke at the same instant.
            self.blocked(kernel, e);
        }
        let from = match why {
            Wake::New { parent: Some(parent) } => Some(parent),
            Wake::By { waker, .. } => Some(waker),
            _ => None,
        };
        let giver = from.and_then(|from| self.get(from)).map(|giver| giver.rule_state);
        if let (Some(from), Some(RuleState::Lavd(_))) = (from, giver)
            && let RuleState::Lavd(lavd) = &mut self.task(from).rule_state
        {
            lavd.wakes(now);
        }
        let behind = self.rule == Rule::Cfs && is_behind(kernel, &self.running, e);
        let charged = kernel.charged(e);
        let task = self.task(e);
        let slept = task.blocked.take().map(|since| now.saturating_since(since));
        (task.runnable, task.burst_start, task.accounted) = (true, charged, charged);
        match &mut task.rule_state {
            RuleState::Nothing => {}
            RuleState::AtWakeUp(interactive) => *interactive = behind,
            RuleState::Deadline(woke) => *woke = near_deadline(kernel, e),
            RuleState::Ule(ule) => match (why, giver, slept) {
                (Wake::New { parent: Some(parent) }, Some(RuleState::Ule(giver)), None) => {
                    *ule = giver.child();
                    task.parent = Some(parent);
                }
                _ => ule.slept(slept.unwrap_or(Nanos::ZERO)),
            },
            RuleState::Lavd(lavd) => {
                let (allowed, cpus) = (kernel.allowed(e), kernel.cpus());
                let weight = u64::from(kernel.params(e).weight.as_linux());
                let giver = if let Some(RuleState::Lavd(giver)) = giver { Some(giver.criticality) } else { None };
                let (before, is_new) = (lavd.criticality, lavd.criticality == 0);
                lavd.woken(Woken { weight, why, allowed, cpus }, giver);
                let now = lavd.criticality;
                self.critical.0 = self.critical.0 - before + now;
                self.critical.1 += u64::from(is_new);
            }
            RuleState::Ewma(ewma) => {
                if let Some(slept) = slept {
                    ewma.slept(slept);
                }
            }
        }
        self.sort(kernel, e);
    }

    fn blocked(&mut self, kernel: &impl Kernel, e: EntityId) {
        let (now, charged) = (kernel.now(), kernel.charged(e));
        let task = self.task(e);
        if !std::mem::replace(&mut task.runnable, false) {
            return;
        }
        task.blocked = Some(now);
        let (burst, more) = (charged.saturating_sub(task.burst_start), charged.saturating_sub(task.accounted));
        match &mut task.rule_state {
            RuleState::Nothing | RuleState::AtWakeUp(_) | RuleState::Deadline(_) => {}
            RuleState::Ule(ule) => ule.ran(more),
            RuleState::Lavd(lavd) => lavd.waits(now, burst),
            RuleState::Ewma(ewma) => ewma.ran(burst),
        }
    }

    fn left(&mut self, e: EntityId) {
        self.awake.retain(|&other| other != e);
        if self.get(e).is_none() {
            return;
        }
        let Some(task) = self.tasks[e.index()].take() else { return };
        match task.rule_state {
            RuleState::Ule(child) => {
                if let Some(parent) = task.parent.filter(|&parent| self.get(parent).is_some())
                    && let RuleState::Ule(ule) = &mut self.task(parent).rule_state
                {
                    ule.merge_child(&child);
                }
            }
            RuleState::Lavd(lavd) if lavd.criticality > 0 => {
                self.critical.0 -= lavd.criticality;
                self.critical.1 -= 1;
            }
            _ => {}
        }
    }

    /// Decides whether `e` is urgent now, and updates the list of urgent and runnable tasks.
    fn sort(&mut self, kernel: &impl Kernel, e: EntityId) {
        let params = kernel.params(e);
        let by_class =
            params.class.rt_priority().is_some() || params.class == sched::Class::Stop || params.reservation.is_some();
        let (sum, count) = self.critical;
        let nice = params.weight.nearest_nice();
        let rule = self.rule;
        let task = self.task(e);
        task.urgent = by_class
            || match task.rule_state {
                RuleState::Nothing => rule == Rule::Bmq && kernel.is_interactive(e),
                RuleState::AtWakeUp(interactive) => interactive,
                // If the deadline has changed, the task has begun a new slice, and the wake-up no longer counts.
                RuleState::Deadline(woke) => woke.is_some() && woke == deadline(kernel, e),
                RuleState::Ule(ule) => ule.is_interactive(nice),
                RuleState::Lavd(lavd) => lavd.criticality.saturating_mul(count) > sum,
                RuleState::Ewma(ewma) => ewma.is_interactive(),
            };
        let is_awake = task.urgent && task.runnable;
        match self.awake.iter().position(|&other| other == e) {
            Some(at) if !is_awake => drop(self.awake.swap_remove(at)),
            None if is_awake => self.awake.push(e),
            _ => {}
        }
    }
}

/// Returns whether `e`, which has just woken, is far enough behind to count as interactive (CFS). Either `e` would
/// preempt the running task, or `e` is behind the minimum of its queue by at least a quarter of the latency.
fn is_behind(kernel: &impl Kernel, running: &[Option<EntityId>], e: EntityId) -> bool {
    let position = |of| match kernel.position(of) {
        Some(Position::Fair(position)) => Some(position),
        _ => None,
    };
    let Some(FairPosition { vruntime, min_vruntime, wakeup_granularity, latency, cpu }) = position(e) else {
        return false;
    };
    let signed = |time: Nanos| time.as_ns().cast_signed();
    // The task that had the CPU at the wake-up. The task may have lost the CPU since.
    let current = running.get(cpu.index()).copied().flatten();
    let current = current.filter(|&it| it != e && kernel.has(it) && !kernel.is_blocked(it));
    let ahead = current.and_then(position).map(|current| current.vruntime.ahead_of(vruntime));
    ahead.is_some_and(|ahead| ahead > signed(wakeup_granularity))
        || min_vruntime.ahead_of(vruntime) >= signed(latency) / 4
}

/// Returns the deadline of `e` at its wake-up, if the deadline has passed or is less than a slice ahead (BFS).
fn near_deadline(kernel: &impl Kernel, e: EntityId) -> Option<Instant> {
    let Some(Position::Deadline { deadline, slice }) = kernel.position(e) else { return None };
    (deadline < kernel.now().saturating_add(slice)).then_some(deadline)
}

/// Returns the virtual deadline of `e` (BFS).
fn deadline(kernel: &impl Kernel, e: EntityId) -> Option<Instant> {
    match kernel.position(e) {
        Some(Position::Deadline { deadline, .. }) => Some(deadline),
        _ => None,
    }
}
