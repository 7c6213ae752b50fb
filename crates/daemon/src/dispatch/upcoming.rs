//! [`Upcoming`]: the next turns of an agent.
//!
//! To arm the timer that expires first costs an agent more than to arm a later timer, because the kernel then programs the
//! timer device of the CPU: 2.2 us instead of 0.6 us on a virtual machine with Linux 6.18. An agent therefore arms a timer
//! for the turn after the next in advance. The instant of this turn is a guess where it depends on the next turn: a slice
//! that begins in the next turn ends about one slice later.

use super::dispatcher::{Dispatcher, Due};
use crate::kernel::Kernel;
use sched::{AlarmOwner, CpuId, Instant, Nanos};

/// Minimum and maximum interval between polls for wake-ups that this host does not report.
const POLL: (Nanos, Nanos) = (Nanos::us(100), Nanos::ms(1));
/// Minimum time from a turn to the turn at the end of the time slice, so that the client runs between the two turns.
const SLEEP_LEAST: Nanos = Nanos::us(10);
/// Time by which a guess is late on average. A turn before the end of a slice would be of no use.
const GUESS_LATE: Nanos = Nanos::ns(1_500);

/// The instants of the next turn and of the turn after that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Upcoming {
    pub(super) at: Instant,
    /// [`Instant::NEVER`] if no such turn is expected.
    pub(super) then: Instant,
}

impl Upcoming {
    fn none() -> Upcoming {
        Upcoming { at: Instant::NEVER, then: Instant::NEVER }
    }

    fn add(&mut self, turn: Instant) {
        if turn < self.at {
            (self.at, self.then) = (turn, self.at);
        } else if turn > self.at {
            self.then = self.then.min(turn);
        }
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// Returns the next turns of `cpu`, after a turn that began at `begun`.
    pub(super) fn upcoming(&mut self, cpu: CpuId, begun: Instant) -> Upcoming {
        let now = self.now();
        let here = &mut self.cpus[cpu.index()];
        // The turn at the end of the slice starts after a pause that is at least as long as this turn was. Otherwise a
        // client with many threads would cause turns without a pause.
        let turn = now.saturating_since(begun);
        here.cost.turn = turn;
        let earliest = now.saturating_add(turn.max(SLEEP_LEAST));
        let running = here.dispatched().and_then(|e| self.clients.get(e));
        let mut upcoming = Upcoming::none();
        if running.is_none_or(|client| client.timed.is_none()) {
            upcoming.add(here.until().saturating_add(here.cost.usual).max(earliest));
        }
        match running.filter(|client| client.is_shared()) {
            None => here.turn_ends = Instant::NEVER,
            Some(client) if here.turn_ends == Instant::NEVER => here.turn_ends = now.saturating_add(client.turn()),
            Some(_) => {}
        }
        upcoming.add(here.turn_ends.max(earliest));
        for due in self.alarms.iter().flatten().filter(|due| due.on == cpu) {
            upcoming.add(due.at);
        }
        for (e, client) in self.clients.iter_on(cpu) {
            if !client.is_blocked || client.is_in_kernel {
                continue;
            }
            let left = self.left_of(e);
            if left <= 0 && self.deadline(e) > now {
                upcoming.add(self.deadline(e));
            } else if !client.reports_wakeups {
                let look = Nanos::ns(left.max(0).unsigned_abs()).max(POLL.0).min(POLL.1);
                upcoming.add(now.saturating_add(look));
            }
        }
        self.guess(cpu, &mut upcoming);
        upcoming
    }

    /// Adds the turns that follow if the next turn begins a period of a client of `cpu`, and no other client runs then.
    fn guess(&self, cpu: CpuId, upcoming: &mut Upcoming) {
        let (here, at) = (&self.cpus[cpu.index()], upcoming.at);
        let is_next = |due: &&Due| due.on == cpu && due.at == at;
        let Some(due) = self.alarms.iter().flatten().find(is_next) else { return };
        let AlarmOwner::Entity(e) = due.alarm.owner else { return };
        let Some(client) = self.clients.get(e).filter(|client| !client.is_blocked) else { return };
        let begins = at.saturating_add(here.cost.delay);
        if here.until() == Instant::NEVER {
            // An overrun of the last slice shortens the next.
            let overrun = Nanos::ns(self.left_of(e).min(0).unsigned_abs());
            let slice = client.reservation.slice.saturating_sub(overrun);
            upcoming.add(begins.saturating_add(slice + here.cost.usual + GUESS_LATE));
        }
        // The period of a client that has slept begins with the turn.
        let from = if client.has_unreported_sleep { begins.saturating_add(GUESS_LATE) } else { at };
        upcoming.add(from.saturating_add(client.reservation.period));
    }
}
