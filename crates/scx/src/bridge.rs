//! [`Bridge`]: turns the events of threads into inputs of a machine, and the decisions of the machine into commands.
//!
//! The kernel decides when a thread wakes, runs and sleeps. The machine decides which thread a CPU should run. Both can
//! differ for some time: a thread may sleep before the kernel has dispatched it, or a real-time thread may preempt it.
//! The machine hears of a wake-up, a sleep and a yield. A preemption by a real-time thread only reduces the CPU time that
//! the machine charges.
//!
//! All inputs of a turn have the instant of the turn, as those of the daemon have. If the bridge in the kernel has chosen a thread by
//! itself, because no other thread waited, the events up to this choice are a turn of their own, at the instant of the choice.

use crate::interface::{About, Command, Event, Kind};
use crate::promised::{Receipts, Received};
use rustc_hash::FxHashMap;
use sched::{
    Action, Alarm, Class, CpuId, CpuSet, EntityId, Input, Instant, Machine, Nanos, Params, Refused, Reservation, State,
    Wake, Weight,
};
use std::collections::{BTreeMap, BTreeSet};

/// SCHED_BATCH and SCHED_IDLE. Source: include/uapi/linux/sched.h.
const BATCH: u32 = 3;
const IDLE: u32 = 5;

/// A thread that the bridge manages.
#[derive(Clone, Copy, Debug)]
struct Thread {
    entity: EntityId,
    /// Since when the thread runs; `None`: the thread does not run.
    since: Option<Instant>,
    /// CPU time that is not charged yet, without the time since `since`.
    ran: Nanos,
    /// The parent of a thread that has not run yet.
    parent: Option<EntityId>,
    is_new: bool,
}

/// The alarms of the policy, by instant.
#[derive(Debug, Default)]
struct Alarms {
    by_instant: BTreeSet<(Instant, Alarm)>,
    all: BTreeMap<Alarm, Instant>,
}

impl Alarms {
    fn set(&mut self, alarm: Alarm, at: Instant) {
        self.clear(alarm);
        self.all.insert(alarm, at);
        self.by_instant.insert((at, alarm));
    }

    fn clear(&mut self, alarm: Alarm) {
        if let Some(at) = self.all.remove(&alarm) {
            self.by_instant.remove(&(at, alarm));
        }
    }

    fn next(&self) -> Instant {
        self.by_instant.first().map_or(Instant::NEVER, |(at, _)| *at)
    }

    /// Removes and returns an alarm that is due.
    fn take(&mut self, now: Instant) -> Option<Alarm> {
        let (_, alarm) = *self.by_instant.first().filter(|(at, _)| *at <= now)?;
        self.clear(alarm);
        Some(alarm)
    }
}

/// Which threads the bridge manages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All threads. A thread runs only by a decision of the policy.
    All,
    /// The threads of some processes. A thread runs by a decision of the policy while its reservation has CPU time left in the
    /// present period. Otherwise, it competes with all other threads of the host.
    Promised,
}

/// What the policy has refused: a thread that it does not admit, or a change of a thread.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The thread.
    pub tid: i32,
    /// The reason.
    pub reason: Refused,
}

/// The user side of the bridge, without a kernel.
#[derive(Debug)]
pub struct Bridge {
    machine: Machine,
    mode: Mode,
    /// CPUs that are online.
    online: CpuSet,
    threads: FxHashMap<i32, Thread>,
    /// The thread of each entity, by index.
    tids: Vec<i32>,
    /// The thread that each CPU was told to run, or that the kernel has chosen for it.
    told: Vec<Option<i32>>,
    /// CPUs whose choice in the kernel is not known: a batch and a choice of the kernel have crossed.
    crossed: CpuSet,
    /// Number of batches that the kernel has applied, modulo 2³².
    batches: u32,
    /// Instant of the latest turn.
    last: Instant,
    alarms: Alarms,
    /// Reservations of threads, by tid, and what the threads have received.
    promises: BTreeMap<i32, Reservation>,
    receipts: Receipts,
    commands: Vec<Command>,
    refusals: Vec<Refusal>,
    /// Whether the thread of each event of a turn was managed before the turn.
    known: Vec<bool>,
}

impl Bridge {
    /// Creates a bridge without threads, on the CPUs that are online. A thread in `promises` has this reservation.
    #[must_use]
    pub fn new(machine: Machine, mode: Mode, online: CpuSet, promises: BTreeMap<i32, Reservation>) -> Bridge {
        let told = vec![None; machine.topology().cpus];
        Bridge {
            machine,
            mode,
            online,
            threads: FxHashMap::default(),
            tids: Vec::new(),
            told,
            crossed: CpuSet::EMPTY,
            batches: 0,
            last: Instant::ZERO,
            alarms: Alarms::default(),
            promises,
            receipts: Receipts::default(),
            commands: Vec::new(),
            refusals: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Returns the machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the number of managed threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Returns and removes the refusals since the last call.
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Notes that the kernel has applied `batches` batches, modulo 2³².
    pub fn applied(&mut self, batches: u32) {
        self.batches = batches;
    }

    /// Applies the events since the last turn, in a turn at `now`. Events of threads that are not managed have no effect.
    pub fn apply(&mut self, now: Instant, events: &[Event]) {
        let mut rest = events;
        while let Some(at) = rest.iter().position(|event| matches!(event.kind, Kind::Choice { .. })) {
            let (turn, later) = rest.split_at(at + 1);
            let at = turn[at].at.clamp(self.last, now);
            self.apply_turn(at, turn);
            self.decide(at);
            rest = later;
        }
        self.apply_turn(now, rest);
    }

    fn apply_turn(&mut self, now: Instant, events: &[Event]) {
        self.last = now;
        if events.is_empty() {
            return;
        }
        // The policy charges running threads at a wake-up. Their CPU time is known only after the ends of all runs.
        let mut known = std::mem::take(&mut self.known);
        known.clear();
        known.extend(events.iter().map(|event| self.account(event)));
        self.charge_all(now);
        for (event, is_accounted) in events.iter().zip(&known) {
            self.report(now, event, *is_accounted);
        }
        self.known = known;
    }

    /// Accounts for the begin or the end of a run. Returns whether the thread is managed.
    fn account(&mut self, event: &Event) -> bool {
        let Some(thread) = self.threads.get_mut(&event.tid) else { return false };
        match event.kind {
            Kind::Run { .. } | Kind::Choice { .. } => thread.since = Some(event.at),
            Kind::Stop | Kind::Sleep => {
                if let Some(since) = thread.since.take() {
                    thread.ran += event.at.saturating_since(since);
                }
            }
            _ => {}
        }
        true
    }

    fn charge_all(&mut self, now: Instant) {
        for cpu in 0..self.told.len() {
            self.charge(now, CpuId::new(cpu));
        }
    }

    fn report(&mut self, now: Instant, event: &Event, is_accounted: bool) {
        let Event { tid, ref kind, .. } = *event;
        self.receipts.note(event);
        // A thread that was attached by an earlier event of this turn.
        if !is_accounted {
            self.account(event);
        }
        match *kind {
            Kind::Attach { parent, ref about } => self.attach(now, tid, parent, about),
            Kind::Detach => self.detach(now, tid),
            Kind::Wake { waker } => self.wake(now, tid, waker),
            Kind::Sleep => self.sleep(now, tid),
            Kind::Yield => {
                if let Some(cpu) = self.cpu_of(tid) {
                    self.charge(now, cpu);
                    self.machine.input(now, Input::Yield { cpu });
                }
            }
            Kind::Change(ref about) => self.change(now, tid, about),
            Kind::Choice { cpu, batches } => {
                if let Some(told) = self.told.get_mut(cpu.index()) {
                    *told = Some(tid);
                }
                if batches != self.batches {
                    self.crossed.insert(cpu);
                }
            }
            // The account is all; and only the port of `edf` reports periods.
            Kind::Run { .. } | Kind::Stop | Kind::Periods(_) => {}
        }
    }

    /// Decides, in a turn at `now`. Returns the commands for the kernel.
    pub fn settle(&mut self, now: Instant) -> &[Command] {
        self.decide(now);
        self.commands.clear();
        for cpu in 0..self.told.len() {
            let cpu = CpuId::new(cpu);
            let running = self.machine.running(cpu).filter(|&entity| self.is_ahead(entity));
            let wanted = running.map(|entity| self.tids[entity.index()]);
            if wanted != self.told[cpu.index()] || self.crossed.contains(cpu) {
                self.told[cpu.index()] = wanted;
                self.commands.push(Command::Run { cpu, tid: wanted });
            }
        }
        self.crossed = CpuSet::EMPTY;
        self.commands.extend(self.refusals.iter().filter(|it| !self.threads.contains_key(&it.tid)).map(released));
        &self.commands
    }

    fn decide(&mut self, now: Instant) {
        self.charge_all(now);
        for cpu in 0..self.told.len() {
            let cpu = CpuId::new(cpu);
            if self.machine.running(cpu).is_some() && self.machine.until(cpu) <= now {
                self.machine.input(now, Input::Expire { cpu });
            }
        }
        while let Some(alarm) = self.alarms.take(now) {
            self.machine.input(now, Input::Alarm { alarm });
        }
        self.machine.settle(now);
        for index in 0..self.machine.actions().len() {
            let action = self.machine.actions()[index];
            self.carry_out(now, action);
        }
    }

    /// Returns the instant of the next turn, if no event comes before.
    #[must_use]
    pub fn next(&self) -> Instant {
        let ends = (0..self.told.len()).map(|cpu| self.machine.until(CpuId::new(cpu)));
        ends.fold(self.alarms.next(), Instant::min)
    }

    /// Returns what the threads with reservations have received up to the latest turn, by tid.
    pub fn received(&mut self) -> BTreeMap<i32, Received> {
        self.receipts.received(self.last)
    }

    fn attach(&mut self, now: Instant, tid: i32, parent: i32, about: &About) {
        self.detach(now, tid);
        let params = self.params(tid, about, Params::default());
        match self.machine.attach(now, params) {
            Ok(entity) => {
                if self.tids.len() <= entity.index() {
                    self.tids.resize(entity.index() + 1, 0);
                }
                self.tids[entity.index()] = tid;
                let parent = self.threads.get(&parent).map(|parent| parent.entity);
                let thread = Thread { entity, since: None, ran: Nanos::ZERO, parent, is_new: true };
                self.threads.insert(tid, thread);
            }
            Err(reason) => self.refusals.push(Refusal { tid, reason }),
        }
    }

    fn detach(&mut self, now: Instant, tid: i32) {
        if let Some(cpu) = self.cpu_of(tid) {
            self.charge(now, cpu);
        }
        if let Some(thread) = self.threads.remove(&tid) {
            self.machine.detach(now, thread.entity);
        }
    }

    fn wake(&mut self, now: Instant, tid: i32, waker: i32) {
        let waker = self.threads.get(&waker).map(|waker| waker.entity);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if self.machine.state(thread.entity) != State::Blocked {
            return;
        }
        let is_first = std::mem::take(&mut thread.is_new);
        if is_first && let Some(reservation) = self.machine.params(thread.entity).reservation {
            // The first period of the policy begins now, too.
            self.receipts.begin(tid, reservation, now);
        }
        let parent = thread.parent.take().filter(|&parent| self.machine.is_attached(parent));
        let why = match waker.filter(|&waker| waker != thread.entity) {
            _ if is_first => Wake::New { parent },
            Some(waker) => Wake::By { waker, sync: false },
            None => Wake::Interrupt,
        };
        self.machine.input(now, Input::Wake { entity: thread.entity, why });
    }

    fn sleep(&mut self, now: Instant, tid: i32) {
        let Some(entity) = self.threads.get(&tid).map(|thread| thread.entity) else { return };
        match self.machine.state(entity) {
            State::Blocked => {}
            State::Waiting => self.machine.input(now, Input::Pause { entity }),
            State::Running(cpu) => {
                self.charge(now, cpu);
                self.machine.input(now, Input::Block { cpu });
            }
        }
    }

    fn change(&mut self, now: Instant, tid: i32, about: &About) {
        let Some(entity) = self.threads.get(&tid).map(|thread| thread.entity) else { return };
        if let Some(cpu) = self.cpu_of(tid) {
            self.charge(now, cpu);
        }
        let present = *self.machine.params(entity);
        let wanted = self.params(tid, about, present);
        if wanted != present
            && let Err(reason) = self.machine.adjust(now, entity, wanted)
        {
            // The change is in force in the kernel, so the policy cannot go on with the old values.
            self.detach(now, tid);
            self.refusals.push(Refusal { tid, reason });
        }
    }

    fn carry_out(&mut self, now: Instant, action: Action) {
        match action {
            Action::Run { entity, .. } => {
                // Earlier CPU time was not the machine's choice.
                if let Some(thread) = self.threads.get_mut(&self.tids[entity.index()]) {
                    thread.ran = Nanos::ZERO;
                    thread.since = thread.since.map(|since| since.max(now));
                }
            }
            Action::SetAlarm { alarm, at, .. } => self.alarms.set(alarm, at),
            Action::ClearAlarm { alarm } => self.alarms.clear(alarm),
            // The kicks are immediate, and `settle` compares the threads of the CPUs.
            Action::Stop { .. } | Action::Extend { .. } | Action::Kick { .. } | Action::Held { .. } => {}
        }
    }

    /// Charges the CPU time of the thread that the machine runs on `cpu`.
    fn charge(&mut self, now: Instant, cpu: CpuId) {
        let Some(entity) = self.machine.running(cpu) else { return };
        let Some(thread) = self.threads.get_mut(&self.tids[entity.index()]) else { return };
        let mut time = std::mem::take(&mut thread.ran);
        if let Some(since) = &mut thread.since {
            time += now.saturating_since(*since);
            *since = now.max(*since);
        }
        if !time.is_zero() {
            self.machine.input(now, Input::Ran { cpu, time });
        }
    }

    /// Returns whether a thread that the machine runs is ahead of the threads that are not managed.
    fn is_ahead(&self, entity: EntityId) -> bool {
        self.mode == Mode::All || self.machine.promise(entity).is_some_and(|promise| promise.remaining > 0)
    }

    /// Returns the CPU on which the machine runs a thread.
    fn cpu_of(&self, tid: i32) -> Option<CpuId> {
        match self.machine.state(self.threads.get(&tid)?.entity) {
            State::Running(cpu) => Some(cpu),
            State::Blocked | State::Waiting => None,
        }
    }

    fn params(&self, tid: i32, about: &About, present: Params) -> Params {
        let class = match about.policy {
            BATCH => Class::Batch,
            IDLE => Class::Idle,
            _ => Class::Normal,
        };
        let weight = Weight::nice(about.nice).unwrap_or_default();
        let weight = if class == Class::Idle { Weight::IDLE } else { weight };
        let affinity = if about.mask.is_empty() { self.online } else { about.mask.and(&self.online) };
        let reservation = self.promises.get(&tid).copied();
        Params { weight, class, affinity, reservation, ..present }
    }
}

fn released(refusal: &Refusal) -> Command {
    Command::Release { tid: refusal.tid }
}

#[cfg(test)]
mod tests;
