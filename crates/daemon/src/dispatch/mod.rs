//! [`Dispatcher`]: carries out the machine's actions on a kernel. Its caller decides when and on which thread it runs, so it
//! works on a simulated host as well.
//!
//! On every CPU an *agent* takes a [turn](Dispatcher::turn) when a slice or a period ends, when a blocked client wakes, or when
//! another agent calls it. A turn charges the running client, passes inputs to the machine, and sets the level of every client
//! on that CPU:
//!
//! | state of the client | level of its threads |
//! |---|---|
//! | running | raised |
//! | blocked, with budget left or a new period | raised, and awaited |
//! | blocked, without budget | original |
//! | waiting, or throttled | original; stopped if the limit is hard |
//!
//! The dispatcher reports that a client blocks or wakes. Only the machine's actions `Run` and `Stop` start and stop it.
//!
//! The machine hands out promised time only. In the remaining time the kernel schedules threads at their original level.

mod admit;
mod adopt;
mod client;
mod cpu;
mod journal;
mod leaving;

pub use admit::{PERIOD_LEAST, PromiseRequest, Refusal, SLICE_LEAST};
pub use adopt::{Found, Known, find};

use crate::Explanation;
use crate::kernel::{Kernel, priority};
use crate::table::Table;
pub use client::Level;
use client::{Client, Clients, give_back_cpus};
use cpu::CpuState;
pub(crate) use journal::EVENTS_MOST;
use journal::{Journal, Ledger};
use leaving::Leaving;
use sched::{
    Action, Alarm, AlarmOwner, CpuId, CpuSet, Descriptor, EntityId, Input, Instant, Kicks, Knobs, Machine, Nanos,
    Refused, State, Topology, Wake,
};
use std::sync::Arc;
use trace::Event;

/// Shortest and longest interval to poll for a wake-up that this host does not report.
const POLL: (Nanos, Nanos) = (Nanos::us(100), Nanos::ms(1));
/// The shortest sleep of an agent while a client has budget left: the agent must leave the CPU for the client to run.
const SLEEP_LEAST: Nanos = Nanos::us(10);
/// A client that is alone on its CPU and has used up so many slices in a row probably uses up the next, too. The sentinel, which
/// costs a switch or two per slice, is then not used until the client blocks.
const USED_UP: u32 = 8;
/// How many missed periods are reported one by one.
const PERIODS_TOLD_MOST: u64 = 1_000;

/// Signals that an agent has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// No raised thread wants the CPU.
    pub quiet: bool,
}

/// The next step of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// The time of its next turn, by the kernel's clock, unless it is called earlier.
    pub at: Instant,
    /// The CPUs whose agents it must call now.
    pub call: CpuSet,
}

/// A pending alarm.
#[derive(Clone, Copy, Debug)]
struct Due {
    alarm: Alarm,
    on: CpuId,
    at: Instant,
}

/// A client that is not served any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dismissed {
    /// Its entity.
    pub entity: EntityId,
    /// Its name.
    pub name: String,
    /// Why; `None`: it has ended, or was dismissed.
    pub trouble: Option<Explanation>,
}

/// Carries out the machine's actions on a kernel.
pub struct Dispatcher<K: Kernel> {
    kernel: K,
    table: Arc<Table>,
    machine: Machine,
    /// Time zero of the machine, by the kernel's clock.
    epoch: Instant,
    clients: Clients<K::Thread>,
    trees: usize,
    /// By number.
    alarms: Vec<Option<Due>>,
    /// CPUs whose agents are to be called.
    call: CpuSet,
    /// CPUs whose agents were called to pick again.
    kicked: CpuSet,
    cpus: Vec<CpuState>,
    /// There is no guardian, so no client is served.
    suspended: bool,
    journal: Journal,
    actions: Vec<Action>,
    left: Vec<Dismissed>,
    /// Dismissed clients whose threads may be in forks, by number.
    leaving: Vec<Option<Leaving>>,
}

impl<K: Kernel> std::fmt::Debug for Dispatcher<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("machine", &self.machine).field("table", &self.table).finish_non_exhaustive()
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// A dispatcher without promises, for CPUs `0..cpus`.
    ///
    /// # Errors
    /// The policy does not work with these knobs.
    pub fn new(
        kernel: K,
        table: Arc<Table>,
        policy: &Descriptor,
        knobs: &Knobs,
        cpus: usize,
    ) -> Result<Dispatcher<K>, Refused> {
        let machine = Machine::build(policy, Topology::new(cpus), knobs, Kicks::Delivered)?;
        let epoch = kernel.now();
        Ok(Dispatcher {
            kernel,
            table,
            machine,
            epoch,
            clients: Clients::new(),
            trees: 0,
            alarms: Vec::new(),
            call: CpuSet::EMPTY,
            kicked: CpuSet::EMPTY,
            cpus: vec![CpuState::idle(); cpus],
            suspended: false,
            journal: Journal::new(),
            actions: Vec::with_capacity(64),
            left: Vec::new(),
            leaving: Vec::new(),
        })
    }

    /// The table of originals.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The machine inside.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Time zero of the [journal](Dispatcher::read_journal), by the kernel's clock.
    #[must_use]
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Exchanges the events since the last call for an empty list. Returns the number of lost events.
    pub fn read_journal(&mut self, events: &mut Vec<(Instant, Event)>) -> u64 {
        self.journal.exchange(events)
    }

    /// The clients that have left since the last call.
    pub fn take_dismissed(&mut self) -> Vec<Dismissed> {
        std::mem::take(&mut self.left)
    }

    /// The state of client `e`, by the actions carried out so far. `None`: it is not served (any more).
    #[must_use]
    pub fn state(&self, e: EntityId) -> Option<State> {
        self.clients.get(e).map(|client| self.state_of(e, client))
    }

    /// The end of the time slice on `cpu`, by the actions carried out so far; [`Instant::NEVER`] if there is none.
    #[must_use]
    pub fn until(&self, cpu: CpuId) -> Instant {
        self.cpus[cpu.index()].until()
    }

    /// The level of the threads of client `e` since the last turn of its CPU. `None`: it is not served (any more).
    #[must_use]
    pub fn level(&self, e: EntityId) -> Option<Level> {
        self.clients.get(e).map(|client| client.level)
    }

    /// Whether this host reports wake-ups of `e`. Otherwise they are detected late.
    #[must_use]
    pub fn reports_wakeups(&self, e: EntityId) -> bool {
        self.clients.get(e).is_some_and(|client| client.reports_wakeups)
    }

    /// The interval to scan for new threads: the shortest period of the clients whose forks this host does not report.
    #[must_use]
    pub fn looking(&self) -> Option<Nanos> {
        let untold = self.clients.iter().filter(|(_, client)| !client.reports_forks);
        untold.map(|(_, client)| client.reservation.period).min()
    }

    // ---- A turn ----

    /// A turn of the agent of `cpu`: passes inputs to the machine and carries out its decisions.
    pub fn turn(&mut self, cpu: CpuId, signals: Signals) -> Next {
        let now = self.now();
        self.measure(cpu, now);
        if signals.quiet {
            self.block(cpu, now);
        }
        self.detect_wakeups(cpu, now);
        if self.until(cpu) <= now {
            self.cpus[cpu.index()].end_slice();
            self.input(now, Input::Expire { cpu });
        }
        self.fire_alarms(cpu, now);
        if self.kicked.remove(cpu) {
            self.input(now, Input::Kicked { cpu });
        }
        self.settle(Some(cpu), now);
        self.apply(cpu, now);
        self.dismiss_troubled(now);
        Next { at: self.epoch.saturating_add(self.next(cpu, now).since(Instant::ZERO)), call: self.take_calls() }
    }

    /// The machine's time.
    fn now(&self) -> Instant {
        Instant::ZERO + self.kernel.now().saturating_since(self.epoch)
    }

    fn take_calls(&mut self) -> CpuSet {
        std::mem::replace(&mut self.call, CpuSet::EMPTY)
    }

    fn input(&mut self, now: Instant, input: Input) {
        self.journal.note(now, Event::from(input));
        self.machine.input(now, input);
    }

    /// Charges the running client of `cpu` for its CPU time.
    fn measure(&mut self, cpu: CpuId, now: Instant) {
        let here = &mut self.cpus[cpu.index()];
        let Some(client) = here.dispatched().and_then(|e| self.clients.get_mut(e)) else { return };
        let since = client.read(&self.kernel, &self.table);
        let (until, cost) = (here.until(), &mut here.cost);
        let mut time = since.ran;
        if since.ended {
            // A thread that ends between two turns takes its CPU time along: charge at most the time that no other thread used.
            time = time.max(now.saturating_since(cost.begun).saturating_sub(cost.ran));
        }
        if until <= now {
            let slept = cost.learn(now.saturating_since(cost.begun).saturating_sub(cost.ran + time));
            client.slices_used_up = if slept { 0 } else { client.slices_used_up.saturating_add(1) };
        }
        // Never more than the time that has passed, as the machine requires.
        cost.ran = (cost.ran + time).min(now.saturating_since(cost.begun));
        self.input(now, Input::Ran { cpu, time });
    }

    /// Blocks the running client of `cpu`, if there is one.
    fn block(&mut self, cpu: CpuId, now: Instant) {
        let here = &mut self.cpus[cpu.index()];
        let Some(client) = here.dispatched().and_then(|e| self.clients.get_mut(e)) else { return };
        here.end_slice();
        client.is_blocked = true;
        client.ledger = client.ledger.map(Ledger::interrupted);
        client.slices_used_up = 0;
        // A thread that is not raised any more would be runnable and quiet, again and again.
        client.trouble = client.trouble.take().or_else(|| client.release_changed_threads(&self.kernel));
        self.input(now, Input::Block { cpu });
    }

    /// Wakes the blocked clients of `cpu` that have been dispatched by the kernel since.
    fn detect_wakeups(&mut self, cpu: CpuId, now: Instant) {
        for at in 0..self.clients.slots() {
            let Some((e, client)) = self.clients.at(at, cpu) else { continue };
            if !client.is_blocked {
                continue;
            }
            let since = client.read(&self.kernel, &self.table);
            if !since.ran.is_zero() {
                self.journal.note(now, Event::Background { entity: e, time: since.ran });
            }
            if since.dispatched {
                self.wake(e, now);
            }
        }
    }

    fn wake(&mut self, e: EntityId, now: Instant) {
        self.input(now, Input::Wake { entity: e, why: Wake::Resumed });
        let (deadline, left) = (self.deadline(e), self.left_of(e));
        let Some(client) = self.clients.get_mut(e) else { return };
        client.is_blocked = false;
        // A period that started during its sleep does not count as runnable throughout.
        let fresh = deadline == now.saturating_add(client.reservation.period);
        client.ledger = Some(match client.ledger {
            Some(ledger) if !fresh => ledger.interrupted(),
            _ => Ledger::begin(left, fresh),
        });
    }

    /// Passes the due alarms of `cpu` to the machine.
    fn fire_alarms(&mut self, cpu: CpuId, now: Instant) {
        for number in 0..self.alarms.len() {
            let Some(due) = self.alarms[number].filter(|due| due.on == cpu && due.at <= now) else { continue };
            self.alarms[number] = None;
            match due.alarm.owner {
                AlarmOwner::Entity(e) if self.clients.get(e).is_some() => self.end_period(e, due.alarm, now),
                _ => self.input(now, Input::Alarm { alarm: due.alarm }),
            }
        }
    }

    /// Ends a period of `e`, and starts another.
    fn end_period(&mut self, e: EntityId, alarm: Alarm, now: Instant) {
        let (deadline, left) = (self.deadline(e), self.left_of(e));
        if let Some((ledger, slice)) =
            self.clients.get(e).and_then(|client| Some((client.ledger?, client.reservation.slice)))
        {
            let (due, delivered) = ledger.end(left, slice);
            self.journal.note(now, Event::Period { entity: e, due, delivered, throughout: ledger.throughout });
        }
        self.input(now, Input::Alarm { alarm });
        let (next, left) = (self.deadline(e), self.left_of(e));
        let Some(client) = self.clients.get_mut(e) else { return };
        let awake = !client.is_blocked;
        client.ledger = Some(Ledger::begin(left, awake));
        // Periods that passed completely before the agent came.
        let passed = next.saturating_since(deadline).as_ns() / client.reservation.period.as_ns();
        let slice = client.reservation.slice;
        for _ in 1..passed.min(PERIODS_TOLD_MOST) {
            let missed = Event::Period { entity: e, due: slice, delivered: Nanos::ZERO, throughout: awake };
            self.journal.note(now, missed);
        }
    }

    // ---- Promise state ----

    fn left_of(&self, e: EntityId) -> i64 {
        self.machine.promise(e).map_or(0, |promise| promise.remaining)
    }

    /// The end of its current period.
    fn deadline(&self, e: EntityId) -> Instant {
        self.machine.promise(e).map_or(Instant::NEVER, |promise| promise.deadline)
    }

    // ---- Decisions ----

    fn state_of(&self, e: EntityId, client: &Client<K::Thread>) -> State {
        if client.is_blocked {
            State::Blocked
        } else if self.cpus[client.cpu.index()].dispatched() == Some(e) {
            State::Running(client.cpu)
        } else {
            State::Waiting
        }
    }

    /// Has the machine decide, repeatedly while it kicks this CPU itself.
    fn settle(&mut self, here: Option<CpuId>, now: Instant) {
        loop {
            self.actions.clear();
            self.actions.extend_from_slice(self.machine.settle(now));
            let mut again = None;
            for at in 0..self.actions.len() {
                let action = self.actions[at];
                self.journal.note(now, Event::from(action));
                match action {
                    Action::Kick { cpu } if Some(cpu) == here => again = Some(cpu),
                    Action::Kick { cpu } => {
                        self.kicked.insert(cpu);
                        self.call.insert(cpu);
                    }
                    Action::SetAlarm { alarm, on, at } => self.set_alarm(Due { alarm, on, at }, here),
                    Action::ClearAlarm { alarm } => {
                        if let Some(slot) = self.alarms.get_mut(self.machine.alarm_number(alarm)) {
                            *slot = None;
                        }
                    }
                    Action::Run { cpu, entity, until } => {
                        self.cpus[cpu.index()].run(entity, until, now);
                        if let Some(client) = self.clients.get_mut(entity) {
                            client.is_dispatched = true;
                        }
                    }
                    Action::Extend { cpu, until } => self.cpus[cpu.index()].extend(until, now),
                    Action::Stop { cpu, entity } => self.cpus[cpu.index()].stop(entity),
                    // It waits, for its next period.
                    Action::Held { .. } => {}
                }
            }
            let Some(cpu) = again else { return };
            self.input(now, Input::Kicked { cpu });
        }
    }

    fn set_alarm(&mut self, due: Due, here: Option<CpuId>) {
        let number = self.machine.alarm_number(due.alarm);
        if self.alarms.len() <= number {
            self.alarms.resize(number + 1, None);
        }
        self.alarms[number] = Some(due);
        if Some(due.on) != here {
            self.call.insert(due.on);
        }
    }

    /// The wanted level of a client's threads, and whether they are stopped.
    fn wanted(&self, e: EntityId, client: &Client<K::Thread>, now: Instant) -> (Level, bool) {
        let several = self.clients.on(client.cpu) > 1;
        match self.state_of(e, client) {
            _ if self.suspended => (Level::Original, false),
            State::Running(_) if several => (Level::Raised(priority::AMONG_OTHERS), false),
            State::Running(_) => (Level::Raised(priority::RAISED), false),
            State::Blocked if self.left_of(e) > 0 || self.deadline(e) <= now => {
                (Level::Raised(priority::RAISED), false)
            }
            State::Blocked => (Level::Original, false),
            State::Waiting => (Level::Original, client.is_hard()),
        }
    }

    /// Sets the levels of the clients of `cpu`: first the lowered ones, then the raised ones.
    fn apply(&mut self, cpu: CpuId, now: Instant) {
        for down in [true, false] {
            for at in 0..self.clients.slots() {
                let Some((e, _)) = self.clients.at(at, cpu) else { continue };
                let Some(client) = self.clients.get(e) else { continue };
                let (level, stopped) = self.wanted(e, client, now);
                let awaited = client.is_blocked && !self.suspended;
                let Some(client) = self.clients.get_mut(e) else { continue };
                if down != (level == Level::Original) {
                    continue;
                }
                if std::mem::take(&mut client.is_dispatched) {
                    let time = client.read(&self.kernel, &self.table).ran;
                    if !time.is_zero() {
                        self.journal.note(now, Event::Background { entity: e, time });
                    }
                }
                if client.awaited != awaited {
                    client.set_awaited(awaited, &self.kernel);
                }
                if client.level != level {
                    client.set_level(level, &self.kernel);
                }
                if client.stopped != stopped {
                    client.set_stopped(stopped, &self.kernel, &self.table);
                }
            }
        }
        let running = self.cpus[cpu.index()].dispatched().filter(|_| !self.suspended);
        let running = running.and_then(|e| self.clients.get(e));
        let may_sleep = |client: &Client<K::Thread>| client.slices_used_up < USED_UP || self.clients.on(cpu) > 1;
        self.kernel.await_quiet(cpu, running.is_some_and(may_sleep));
    }

    /// The time of the next turn of `cpu`.
    fn next(&mut self, cpu: CpuId, begun: Instant) -> Instant {
        let now = self.now();
        let here = &mut self.cpus[cpu.index()];
        // With sleeps shorter than a turn, a client with many threads would cause nothing but turns.
        let turn = now.saturating_since(begun);
        here.cost.turn = turn;
        let sleep = turn.max(SLEEP_LEAST);
        let mut next = here.until().saturating_add(here.cost.usual).max(now.saturating_add(sleep));
        for due in self.alarms.iter().flatten().filter(|due| due.on == cpu) {
            next = next.min(due.at);
        }
        for (e, client) in self.clients.iter().filter(|(_, client)| client.cpu == cpu) {
            if !client.is_blocked {
                continue;
            }
            let left = self.left_of(e);
            if left <= 0 && self.deadline(e) > now {
                next = next.min(self.deadline(e));
            } else if !client.reports_wakeups {
                let look = Nanos::ns(left.max(0).unsigned_abs()).max(POLL.0).min(POLL.1);
                next = next.min(now.saturating_add(look));
            }
        }
        next
    }

    // ---- Dismissal ----

    /// Stops serving, and restores all threads: there is no guardian.
    pub fn suspend(&mut self) -> CpuSet {
        self.suspended = true;
        let now = self.now();
        for cpu in (0..self.machine.topology().cpus).map(CpuId::new) {
            self.apply(cpu, now);
        }
        for (_, client) in self.clients.iter() {
            let confined = CpuSet::one(client.cpu);
            for member in &client.members {
                give_back_cpus(&self.kernel, &member.thread, &confined, &member.original.affinity);
            }
        }
        self.machine.topology().all()
    }

    /// Serves all clients again. Returns the CPUs whose agents are to be called.
    pub fn resume(&mut self) -> CpuSet {
        for (_, client) in self.clients.iter() {
            for member in client.members.iter().filter(|member| !member.is_released) {
                // A thread that another process has moved meanwhile stays there, and is released when it blocks.
                if self.kernel.affinity(&member.thread).is_ok_and(|now| now == member.original.affinity) {
                    let _ = self.kernel.set_affinity(&member.thread, &CpuSet::one(client.cpu));
                }
            }
        }
        self.suspended = false;
        self.machine.topology().all()
    }

    /// Dismisses `e` and restores its threads. Returns the CPUs whose agents are to be called.
    pub fn dismiss(&mut self, e: EntityId) -> CpuSet {
        let now = self.now();
        self.leave(e, now);
        self.settle(None, now);
        self.take_calls()
    }

    /// Dismisses all clients.
    pub fn dismiss_all(&mut self) {
        let entities: Vec<EntityId> = self.clients.iter().map(|(e, _)| e).collect();
        for e in entities {
            self.dismiss(e);
        }
    }

    fn leave(&mut self, e: EntityId, now: Instant) {
        self.adopt_orphans(e);
        let Some(mut client) = self.clients.remove(e) else { return };
        let time = client.read(&self.kernel, &self.table).ran;
        match self.state_of(e, &client) {
            State::Running(cpu) => self.input(now, Input::Ran { cpu, time }),
            _ if !time.is_zero() => self.journal.note(now, Event::Background { entity: e, time }),
            _ => {}
        }
        client.set_awaited(false, &self.kernel);
        self.give_back(&client);
        self.call.insert(client.cpu);
        self.kicked.insert(client.cpu);
        self.cpus[client.cpu.index()].stop(e);
        self.machine.detach(now, e);
        self.journal.note(now, Event::Detach { entity: e });
        self.left.push(Dismissed { entity: e, name: client.name, trouble: client.trouble });
    }

    /// Dismisses the clients that cannot be served, and those without threads.
    fn dismiss_troubled(&mut self, now: Instant) {
        loop {
            let mut over =
                self.clients.iter().filter(|(_, client)| client.trouble.is_some() || client.members.is_empty());
            let Some(e) = over.next().map(|(e, _)| e) else { return };
            drop(over);
            self.adopt_orphans(e);
            if self.clients.get(e).is_some_and(|client| client.trouble.is_none() && !client.members.is_empty()) {
                // All known threads have ended, and children of them go on.
                continue;
            }
            self.leave(e, now);
            self.settle(None, now);
        }
    }
}
