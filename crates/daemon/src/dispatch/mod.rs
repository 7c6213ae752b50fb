//! [`Dispatcher`]: has a kernel do what the machine decides. It is told what happened on a CPU and does what is to be done
//! there; who calls it, when and on what thread is not its business, so it runs on a simulated host as well.
//!
//! On every CPU an *agent* takes a [turn](Dispatcher::turn) when a slice or a period ends, when a sleeper wakes, or when
//! another agent calls it. A turn measures what who runs there has had, tells the machine what happened, and brings the
//! threads of every client on that CPU to where they belong:
//!
//! | the machine says | the threads are |
//! |---|---|
//! | runs | raised |
//! | sleeps, and has time left or a new period | raised, and waited for |
//! | sleeps, and has used its slice | as they were |
//! | waits, or has used its slice | as they were; stopped where the limit is hard |
//!
//! Time that was not promised is not the machine's: in it, threads that are as they were get what their kernel gives them.

mod admit;
mod adopt;
mod client;
mod journal;
mod leaving;

pub use admit::{PERIOD_LEAST, Refusal, SLICE_LEAST, Wish};
pub use adopt::{Found, Known, find};

use crate::Reason;
use crate::kernel::{Kernel, priority};
use crate::table::Table;
use client::{Client, Clients, Level, give_back_cpus};
pub(crate) use journal::EVENTS_MOST;
use journal::{Journal, Ledger};
use leaving::Leaving;
use sched::{
    Action, Alarm, AlarmOwner, CpuId, CpuSet, Descriptor, EntityId, Input, Instant, Kicks, Knobs, Machine, Nanos,
    Refused, State, Topology, Wake,
};
use std::sync::Arc;
use trace::Event;

/// How often somebody whose wake-up this host does not tell of is looked at, at most and at least.
const LOOK: (Nanos, Nanos) = (Nanos::us(100), Nanos::ms(1));
/// The shortest time an agent sleeps while somebody has slice left: it has to leave the CPU for that one to run.
const NAP: Nanos = Nanos::us(10);
/// Who has used so many slices in a row without sleeping, alone on its CPU, is taken to use the next as well: the sentinel,
/// which takes a switch or two for each slice, rests until it does not.
const USED_UP: u32 = 8;
/// What a switch of thread and an interrupt take beside a turn, at most.
const SWITCH_MOST: Nanos = Nanos::us(20);
/// How many periods that passed unseen are told one by one.
const PERIODS_TOLD_MOST: u64 = 1_000;

/// What an agent has heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    /// Nobody who was raised wants the CPU.
    pub quiet: bool,
}

/// What an agent is to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// When it takes its next turn, by the kernel's clock, unless it is called before.
    pub at: Instant,
    /// Whose agents it is to call now.
    pub call: CpuSet,
}

/// An alarm that is set.
#[derive(Clone, Copy, Debug)]
struct Due {
    alarm: Alarm,
    on: CpuId,
    at: Instant,
}

/// What turns on a CPU cost who runs there.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    usual: Nanos,
    /// When the current slice began.
    begun: Instant,
    /// What was delivered of it.
    ran: Nanos,
    /// How long the last turn took.
    turn: Nanos,
}

impl Cost {
    fn begin(&mut self, now: Instant) {
        (self.begun, self.ran) = (now, Nanos::ZERO);
    }

    /// One more slice of which so much was lost. Says whether that was more than a turn takes: then who had it slept.
    fn learn(&mut self, lost: Nanos) -> bool {
        let most = self.turn.saturating_mul(2) + SWITCH_MOST;
        let slept = lost > most;
        let lost = lost.min(most);
        self.usual = Nanos::ns((self.usual.as_ns() * 7 + lost.as_ns()) / 8);
        slept
    }
}

/// Somebody who was promised something and is not served any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Who.
    pub entity: EntityId,
    /// What people call it.
    pub name: String,
    /// Why; none: it has ended, or was sent away.
    pub trouble: Option<Reason>,
}

/// Has a kernel do what the machine decides.
pub struct Dispatcher<K: Kernel> {
    kernel: K,
    table: Arc<Table>,
    machine: Machine,
    /// The machine's zero, by the kernel's clock.
    epoch: Instant,
    clients: Clients<K::Thread>,
    trees: usize,
    /// By number.
    alarms: Vec<Option<Due>>,
    /// Whose agents are to be called.
    call: CpuSet,
    /// Whose agents were called to pick again.
    kicked: CpuSet,
    /// By CPU, what turns there cost who runs: the time from the beginning of its slice in which it had no CPU. The timer at
    /// the end of a slice is set later by that.
    costs: Vec<Cost>,
    /// Nobody is served: there is no guardian.
    suspended: bool,
    journal: Journal,
    actions: Vec<Action>,
    left: Vec<Left>,
    /// Who was sent away and may still be beginning others, by number.
    leaving: Vec<Option<Leaving>>,
}

impl<K: Kernel> std::fmt::Debug for Dispatcher<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("machine", &self.machine).field("table", &self.table).finish_non_exhaustive()
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// One that has promised nothing yet, on CPUs `0..cpus`.
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
            costs: vec![Cost::default(); cpus],
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

    /// Since when time is counted in what is [read](Dispatcher::read_journal), by the kernel's clock.
    #[must_use]
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Exchanges what has happened since the last time for an empty list. Says how many events were lost.
    pub fn read_journal(&mut self, events: &mut Vec<(Instant, Event)>) -> u64 {
        self.journal.exchange(events)
    }

    /// Who is not served any more, since this was last asked.
    pub fn take_left(&mut self) -> Vec<Left> {
        std::mem::take(&mut self.left)
    }

    /// Whether this host tells when `e` wakes. Where it does not, its wake-ups are noticed late.
    #[must_use]
    pub fn is_seen(&self, e: EntityId) -> bool {
        self.clients.get(e).is_some_and(|client| client.is_seen)
    }

    /// How often what is new has to be looked for: once in the shortest period of those of whom this host does not tell.
    #[must_use]
    pub fn looking(&self) -> Option<Nanos> {
        let untold = self.clients.iter().filter(|(_, client)| !client.is_told);
        untold.map(|(_, client)| client.dealt.period).min()
    }

    // ---- A turn ----

    /// The agent of `cpu` has woken: tells the machine what happened there and does what is to be done.
    pub fn turn(&mut self, cpu: CpuId, heard: Heard) -> Next {
        let now = self.now();
        self.measure(cpu, now);
        if heard.quiet && self.machine.running(cpu).is_some() {
            self.block(cpu, now);
        }
        self.notice_wakes(cpu, now);
        if self.machine.until(cpu) <= now {
            self.input(now, Input::Expire { cpu });
        }
        self.go_off(cpu, now);
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

    /// Has who runs on `cpu` pay for what it has had.
    fn measure(&mut self, cpu: CpuId, now: Instant) {
        let Some(client) = self.machine.running(cpu).and_then(|e| self.clients.get_mut(e)) else { return };
        let since = client.read(&self.kernel, &self.table);
        let cost = &mut self.costs[cpu.index()];
        let mut time = since.ran;
        if since.ended {
            // Who ends between two turns takes what it had had along: at most what nobody else was seen to have.
            time = time.max(now.saturating_since(cost.begun).saturating_sub(cost.ran));
        }
        if self.machine.until(cpu) <= now {
            let slept = cost.learn(now.saturating_since(cost.begun).saturating_sub(cost.ran + time));
            client.used_up = if slept { 0 } else { client.used_up.saturating_add(1) };
        }
        // Never more than has passed, as the machine counts it.
        cost.ran = (cost.ran + time).min(now.saturating_since(cost.begun));
        self.input(now, Input::Ran { cpu, time });
    }

    /// Who runs on `cpu` sleeps.
    fn block(&mut self, cpu: CpuId, now: Instant) {
        if let Some(client) = self.machine.running(cpu).and_then(|e| self.clients.get_mut(e)) {
            client.ledger = client.ledger.map(Ledger::interrupted);
            client.used_up = 0;
            // Who is not raised any more wants the CPU and is quiet, over and over again.
            client.trouble = client.trouble.take().or_else(|| client.let_changed_go(&self.kernel));
        }
        self.input(now, Input::Block { cpu });
    }

    /// Finds those of `cpu` who slept and have been on a CPU since.
    fn notice_wakes(&mut self, cpu: CpuId, now: Instant) {
        for at in 0..self.clients.slots() {
            let Some((e, client)) = self.clients.at(at, cpu) else { continue };
            if self.machine.state(e) != State::Blocked {
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
        // A period that it slept into is not one in which it wanted to run throughout.
        let fresh = deadline == now.saturating_add(client.dealt.period);
        client.ledger = Some(match client.ledger {
            Some(ledger) if !fresh => ledger.interrupted(),
            _ => Ledger::begin(left, fresh),
        });
    }

    /// The alarms of `cpu` that are due go off.
    fn go_off(&mut self, cpu: CpuId, now: Instant) {
        for number in 0..self.alarms.len() {
            let Some(due) = self.alarms[number].filter(|due| due.on == cpu && due.at <= now) else { continue };
            self.alarms[number] = None;
            match due.alarm.owner {
                AlarmOwner::Entity(e) if self.clients.get(e).is_some() => self.end_period(e, due.alarm, now),
                _ => self.input(now, Input::Alarm { alarm: due.alarm }),
            }
        }
    }

    /// A period of `e` ends, and another begins.
    fn end_period(&mut self, e: EntityId, alarm: Alarm, now: Instant) {
        let (deadline, left) = (self.deadline(e), self.left_of(e));
        if let Some((ledger, slice)) = self.clients.get(e).and_then(|client| Some((client.ledger?, client.dealt.slice)))
        {
            let (due, delivered) = ledger.end(left, slice);
            self.journal.note(now, Event::Period { entity: e, due, delivered, throughout: ledger.throughout });
        }
        self.input(now, Input::Alarm { alarm });
        let (next, left) = (self.deadline(e), self.left_of(e));
        let awake = self.machine.state(e) != State::Blocked;
        let Some(client) = self.clients.get_mut(e) else { return };
        client.ledger = Some(Ledger::begin(left, awake));
        // Periods that passed altogether before the agent came.
        let passed = next.saturating_since(deadline).as_ns() / client.dealt.period.as_ns();
        let slice = client.dealt.slice;
        for _ in 1..passed.min(PERIODS_TOLD_MOST) {
            let missed = Event::Period { entity: e, due: slice, delivered: Nanos::ZERO, throughout: awake };
            self.journal.note(now, missed);
        }
    }

    // ---- What the policy keeps ----

    fn left_of(&self, e: EntityId) -> i64 {
        self.machine.promise(e).map_or(0, |promise| promise.remaining)
    }

    /// The end of its current period.
    fn deadline(&self, e: EntityId) -> Instant {
        self.machine.promise(e).map_or(Instant::NEVER, |promise| promise.deadline)
    }

    // ---- What is decided ----

    /// Decides, and decides again for every call to this CPU itself.
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
                    Action::SetAlarm { alarm, number, on, at } => self.set_alarm(number, Due { alarm, on, at }, here),
                    Action::ClearAlarm { number, .. } => {
                        if let Some(slot) = self.alarms.get_mut(number) {
                            *slot = None;
                        }
                    }
                    Action::Run { cpu, entity, .. } => {
                        self.costs[cpu.index()].begin(now);
                        if let Some(client) = self.clients.get_mut(entity) {
                            client.begins = true;
                        }
                    }
                    Action::Extend { cpu, .. } => self.costs[cpu.index()].begin(now),
                    Action::Stop { .. } | Action::Held { .. } => {}
                }
            }
            let Some(cpu) = again else { return };
            self.input(now, Input::Kicked { cpu });
        }
    }

    fn set_alarm(&mut self, number: usize, due: Due, here: Option<CpuId>) {
        if self.alarms.len() <= number {
            self.alarms.resize(number + 1, None);
        }
        self.alarms[number] = Some(due);
        if Some(due.on) != here {
            self.call.insert(due.on);
        }
    }

    /// Where a client's threads belong, and whether they are stopped there.
    fn wanted(&self, e: EntityId, client: &Client<K::Thread>, now: Instant) -> (Level, bool) {
        let several = self.clients.on(client.cpu) > 1;
        match self.machine.state(e) {
            _ if self.suspended => (Level::Own, false),
            State::Running(_) if several => (Level::Raised(priority::AMONG_OTHERS), false),
            State::Running(_) => (Level::Raised(priority::RAISED), false),
            State::Blocked if self.left_of(e) > 0 || self.deadline(e) <= now => {
                (Level::Raised(priority::RAISED), false)
            }
            State::Blocked => (Level::Own, false),
            State::Waiting => (Level::Own, client.is_hard()),
        }
    }

    /// Brings the threads of the clients of `cpu` to where they belong: first down, then up.
    fn apply(&mut self, cpu: CpuId, now: Instant) {
        for down in [true, false] {
            for at in 0..self.clients.slots() {
                let Some((e, _)) = self.clients.at(at, cpu) else { continue };
                let Some(client) = self.clients.get(e) else { continue };
                let (level, stopped) = self.wanted(e, client, now);
                let awaited = self.machine.state(e) == State::Blocked && !self.suspended;
                let Some(client) = self.clients.get_mut(e) else { continue };
                if down != (level == Level::Own) {
                    continue;
                }
                if std::mem::take(&mut client.begins) {
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
        let running = self.machine.running(cpu).filter(|_| !self.suspended).and_then(|e| self.clients.get(e));
        let may_sleep = |client: &Client<K::Thread>| client.used_up < USED_UP || self.clients.on(cpu) > 1;
        self.kernel.await_quiet(cpu, running.is_some_and(may_sleep));
    }

    /// When the agent of `cpu` has something to do.
    fn next(&mut self, cpu: CpuId, begun: Instant) -> Instant {
        let now = self.now();
        let cost = self.costs[cpu.index()].usual;
        // Were turns longer than naps, whoever has many threads would have nothing but turns.
        let turn = now.saturating_since(begun);
        self.costs[cpu.index()].turn = turn;
        let nap = turn.max(NAP);
        let mut next = self.machine.until(cpu).saturating_add(cost).max(now.saturating_add(nap));
        for due in self.alarms.iter().flatten().filter(|due| due.on == cpu) {
            next = next.min(due.at);
        }
        for (e, client) in self.clients.iter().filter(|(_, client)| client.cpu == cpu) {
            if self.machine.state(e) != State::Blocked {
                continue;
            }
            let left = self.left_of(e);
            if left <= 0 && self.deadline(e) > now {
                next = next.min(self.deadline(e));
            } else if !client.is_seen {
                let look = Nanos::ns(left.max(0).unsigned_abs()).max(LOOK.0).min(LOOK.1);
                next = next.min(now.saturating_add(look));
            }
        }
        next
    }

    // ---- Coming and going ----

    /// Nobody is served from here on, and everybody is what it was: there is no guardian.
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

    /// Everybody is served again. Says whose agents are to be called.
    pub fn resume(&mut self) -> CpuSet {
        for (_, client) in self.clients.iter() {
            for member in client.members.iter().filter(|member| !member.is_let_go) {
                // Where somebody else has sent it meanwhile it stays, and is let go when it sleeps.
                if self.kernel.affinity(&member.thread).is_ok_and(|now| now == member.original.affinity) {
                    let _ = self.kernel.set_affinity(&member.thread, &CpuSet::one(client.cpu));
                }
            }
        }
        self.suspended = false;
        self.machine.topology().all()
    }

    /// Sends `e` away: it is what it was. Says whose agents are to be called.
    pub fn dismiss(&mut self, e: EntityId) -> CpuSet {
        let now = self.now();
        self.leave(e, now);
        self.settle(None, now);
        self.take_calls()
    }

    /// Sends everybody away.
    pub fn dismiss_all(&mut self) {
        let everybody: Vec<EntityId> = self.clients.iter().map(|(e, _)| e).collect();
        for e in everybody {
            self.dismiss(e);
        }
    }

    fn leave(&mut self, e: EntityId, now: Instant) {
        self.take_in_left(e);
        let Some(mut client) = self.clients.remove(e) else { return };
        let time = client.read(&self.kernel, &self.table).ran;
        match self.machine.state(e) {
            State::Running(cpu) => self.input(now, Input::Ran { cpu, time }),
            _ if !time.is_zero() => self.journal.note(now, Event::Background { entity: e, time }),
            _ => {}
        }
        client.set_awaited(false, &self.kernel);
        self.give_back(&client);
        self.call.insert(client.cpu);
        self.kicked.insert(client.cpu);
        self.machine.detach(now, e);
        self.journal.note(now, Event::Detach { entity: e });
        self.left.push(Left { entity: e, name: client.name, trouble: client.trouble });
    }

    /// Those that cannot be served any more, and those of whom nothing is left.
    fn dismiss_troubled(&mut self, now: Instant) {
        loop {
            let mut over =
                self.clients.iter().filter(|(_, client)| client.trouble.is_some() || client.members.is_empty());
            let Some(e) = over.next().map(|(e, _)| e) else { return };
            drop(over);
            self.take_in_left(e);
            if self.clients.get(e).is_some_and(|client| client.trouble.is_none() && !client.members.is_empty()) {
                // All of whom it was known are gone, and whom they have begun go on.
                continue;
            }
            self.leave(e, now);
            self.settle(None, now);
        }
    }
}
