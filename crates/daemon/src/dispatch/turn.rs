//! A turn: the inputs that an agent reports to the machine, and the levels that the agent sets afterwards.

use super::client::Client;
use super::dispatcher::Dispatcher;
use super::journal::Ledger;
use super::kept::Judgement;
use super::member::Level;
use super::upcoming::Upcoming;
use crate::kernel::{Kernel, priority};
use sched::{Alarm, AlarmOwner, CpuId, CpuSet, EntityId, Input, Instant, Nanos, State, Wake};
use trace::Event;

/// Maximum number of periods of a client that one turn reports.
pub(super) const PERIODS_TOLD_MOST: u64 = 1_000;

/// Signals that an agent has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// Whether no raised thread wants the CPU.
    pub quiet: bool,
    /// Tid of a thread whose dispatches are awaited, and which was dispatched or has ended.
    pub entered: Option<u32>,
}

/// The next step of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// Instant of the agent's next turn, according to the kernel's clock, unless the agent is woken earlier.
    pub at: Instant,
    /// Expected instant of the turn after that; [`Instant::NEVER`] if none is expected. An agent can arm a timer for it in
    /// advance.
    pub then: Instant,
    /// CPUs whose agents this agent must wake now.
    pub call: CpuSet,
}

impl<K: Kernel> Dispatcher<K> {
    /// Runs a turn of the agent of `cpu`: passes inputs to the machine and carries out its decisions.
    pub fn turn(&mut self, cpu: CpuId, signals: Signals) -> Next {
        let now = self.now();
        if let Some(tid) = signals.entered {
            self.enter(cpu, tid, now);
        }
        self.measure(cpu, now);
        if signals.quiet {
            self.block(cpu, now);
        } else {
            self.report_sleep(cpu, now);
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
        self.follow_moved(cpu, now);
        self.dismiss_troubled(cpu, now);
        let Upcoming { at, then } = self.upcoming(cpu, now);
        let kernel_time = |at: Instant| self.epoch.saturating_add(at.since(Instant::ZERO));
        Next { at: kernel_time(at), then: kernel_time(then), call: self.take_calls() }
    }

    /// Charges the running client of `cpu` for its CPU time.
    fn measure(&mut self, cpu: CpuId, now: Instant) {
        let here = &mut self.cpus[cpu.index()];
        let Some(client) = here.dispatched().and_then(|e| self.clients.get_mut(e)) else { return };
        let since = client.read(&self.kernel, &self.table);
        let (until, cost) = (here.until(), &mut here.cost);
        let mut time = since.ran + std::mem::take(&mut client.owed);
        if since.ended {
            // The CPU time of a thread that ended between two turns is unknown. The elapsed time of the slice is an
            // upper bound, and is charged.
            time = time.max(now.saturating_since(cost.begun).saturating_sub(cost.ran));
        }
        // The client cannot have run for longer than the slice has lasted.
        cost.ran = (cost.ran + time).min(now.saturating_since(cost.begun));
        cost.count(&since);
        match client.timed {
            Some(_) => client.note_timed(cost, until, now, &self.kernel),
            None if until <= now && cost.has_gap(now) => client.slices_used_up = 0,
            None if until <= now => client.note_used_up(),
            None => {}
        }
        if until <= now {
            cost.learn(now);
        }
        if here.turn_ends <= now {
            here.turn_ends = Instant::NEVER;
            client.rotate(&self.kernel, &self.table);
        }
        self.input(now, Input::Ran { cpu, time });
    }

    /// Reports the running client of `cpu`, if any, as blocked.
    pub(super) fn block(&mut self, cpu: CpuId, now: Instant) {
        let here = &mut self.cpus[cpu.index()];
        let Some(client) = here.dispatched().and_then(|e| self.clients.get_mut(e)) else { return };
        here.end_slice();
        (client.is_blocked, client.has_unreported_sleep) = (true, false);
        client.ledger = client.ledger.map(Ledger::interrupted);
        (client.slices_used_up, client.sleeps) = (0, client.sleeps.saturating_add(1));
        // If another process has lowered a thread of the client, the sentinel reports a quiet CPU although the thread
        // is runnable. Without this release, the client would block and wake in every turn.
        client.trouble = client.trouble.take().or_else(|| client.release_changed_threads(&self.kernel));
        // The same holds for a thread that another process has moved to other CPUs.
        client.note_moved_threads(&self.kernel);
        self.input(now, Input::Block { cpu });
    }

    /// Reports a wake-up of each blocked client of `cpu` with a thread that the kernel has dispatched since the client
    /// blocked.
    fn detect_wakeups(&mut self, cpu: CpuId, now: Instant) {
        for at in 0..self.clients.count_on(cpu) {
            let Some((e, client)) = self.clients.nth_on(cpu, at) else { continue };
            if !client.is_blocked || client.is_in_kernel {
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

    pub(super) fn wake(&mut self, e: EntityId, now: Instant) {
        let (before, had_left) = (self.deadline(e), self.left_of(e));
        self.input(now, Input::Wake { entity: e, why: Wake::Resumed });
        let (deadline, left) = (self.deadline(e), self.left_of(e));
        let Some(client) = self.clients.get_mut(e) else { return };
        client.is_blocked = false;
        let fresh = deadline == now.saturating_add(client.reservation.period);
        // The periods of a gang and of a reservation with a start may have passed, or begun, during the sleep.
        let is_other = fresh || deadline != before;
        if is_other {
            client.begin_period(&self.kernel, &self.table);
            if !self.suspended {
                client.park_idle(&self.kernel);
            }
        }
        // Unless the period begins now, the client was blocked during a part of it.
        client.ledger = Some(match client.ledger {
            // In a period that does not move, the sleep has reduced the slice.
            Some(ledger) if !is_other => ledger.interrupted().reduced(had_left.saturating_sub(left)),
            _ => Ledger::begin(left, fresh),
        });
    }

    /// Passes the due alarms of `cpu` to the machine.
    fn fire_alarms(&mut self, cpu: CpuId, now: Instant) {
        for number in 0..self.alarms.len() {
            let Some(due) = self.alarms[number].filter(|due| due.on == cpu && due.at <= now) else { continue };
            self.alarms[number] = None;
            self.cpus[cpu.index()].cost.learn_delay(now.saturating_since(due.at));
            match due.alarm.owner {
                AlarmOwner::Entity(e) if self.clients.get(e).is_some() => self.end_period(e, due.alarm, now),
                _ => self.input(now, Input::Alarm { alarm: due.alarm }),
            }
        }
    }

    /// Ends a period of `e`, and starts the next period.
    fn end_period(&mut self, e: EntityId, alarm: Alarm, now: Instant) {
        let (deadline, left) = (self.deadline(e), self.left_of(e));
        if let Some((ledger, slice)) =
            self.clients.get(e).and_then(|client| Some((client.ledger?, client.reservation.slice)))
        {
            let (due, delivered) = ledger.end(left, slice);
            self.judge(e, due, delivered, ledger.throughout, now);
        }
        self.input(now, Input::Alarm { alarm });
        let (next, left) = (self.deadline(e), self.left_of(e));
        let Some(client) = self.clients.get_mut(e) else { return };
        let awake = !client.is_blocked;
        client.begin_period(&self.kernel, &self.table);
        if !self.suspended {
            client.park_idle(&self.kernel);
        }
        client.ledger = Some(Ledger::begin(left, awake));
        // The deadline moves by one period, and by one more for each whole period that passed before this turn.
        let passed = next.saturating_since(deadline).as_ns() / client.reservation.period.as_ns();
        let slice = client.reservation.slice;
        for _ in 1..passed.min(PERIODS_TOLD_MOST) {
            self.judge(e, slice, Nanos::ZERO, awake, now);
        }
    }

    /// Notes a period of `e` that has ended, and a change of the judgement about the promise.
    pub(super) fn judge(&mut self, e: EntityId, due: Nanos, delivered: Nanos, throughout: bool, now: Instant) {
        self.journal.note(now, Event::Period { entity: e, due, delivered, throughout });
        let client = self.clients.get_mut(e).filter(|_| throughout);
        if let Some(Judgement { kept, missed, of }) = client.and_then(|client| client.kept.record(delivered < due)) {
            self.journal.note(now, Event::Kept { entity: e, kept, missed, of });
        }
    }

    /// Returns the wanted level of a client's threads, and whether the client's processes must be frozen.
    fn wanted(&self, e: EntityId, client: &Client<K>, now: Instant) -> (Level, bool) {
        let (several, has_helpers) = (self.clients.count_on(client.cpu) > 1, client.has_helpers());
        // A client that is alone on its CPU has the same level whether it runs or blocks, so its agent need not set it.
        let usual = if has_helpers { priority::AMONG_OTHERS } else { priority::RAISED };
        match self.state_of(e, client) {
            _ if self.suspended || client.is_in_kernel => (Level::Original, false),
            State::Running(_) if several => (Level::Raised(priority::AMONG_OTHERS), false),
            State::Running(_) => (Level::Raised(usual), false),
            State::Blocked if self.left_of(e) > 0 || self.deadline(e) <= now => {
                (Level::Raised(if several { priority::RAISED } else { usual }), false)
            }
            State::Blocked => (Level::Original, false),
            State::Waiting => (Level::Original, client.is_hard()),
        }
    }

    /// Sets the levels of the clients of `cpu`: lowers clients first, and then raises clients.
    pub(super) fn apply(&mut self, cpu: CpuId, now: Instant) {
        for at in 0..self.clients.count_on(cpu) {
            let Some((e, client)) = self.clients.nth_on(cpu, at) else { continue };
            if std::mem::take(&mut client.is_dispatched) {
                let time = client.read(&self.kernel, &self.table).ran;
                if !time.is_zero() {
                    self.journal.note(now, Event::Background { entity: e, time });
                }
            }
        }
        for down in [true, false] {
            for at in 0..self.clients.count_on(cpu) {
                let Some(e) = self.clients.entity_on(cpu, at) else { continue };
                let Some(client) = self.clients.get(e) else { continue };
                let (level, is_frozen) = self.wanted(e, client, now);
                let awaited = client.is_blocked && !self.suspended && !client.is_in_kernel;
                let Some(client) = self.clients.get_mut(e) else { continue };
                if down != (level == Level::Original) {
                    continue;
                }
                if client.awaited != awaited {
                    client.set_awaited(awaited, &self.kernel);
                }
                // Threads that thaw queue in the order of their group, so they thaw before they are raised in
                // the order of their turns.
                if client.is_frozen && !is_frozen {
                    client.set_frozen(false, &self.kernel, &self.table);
                }
                if client.level != level {
                    client.set_level(level, &self.kernel, &self.table);
                }
                if is_frozen && !client.is_frozen {
                    client.set_frozen(true, &self.kernel, &self.table);
                }
            }
        }
        self.time_slices(cpu, now);
        let running = self.cpus[cpu.index()].dispatched().filter(|_| !self.suspended);
        let running = running.and_then(|e| self.clients.get(e));
        let is_reported =
            |client: &Client<K>| client.timed.is_none() && (client.may_sleep() || self.clients.count_on(cpu) > 1);
        self.kernel.await_quiet(cpu, running.is_some_and(is_reported));
    }
}
