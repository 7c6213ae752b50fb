//! The agent of a CPU ends a slice by a timer of elapsed time, or by a timer of the client's CPU time.
//!
//! A client that is busy throughout its slice uses up the slice at an instant that is known when the slice begins. A
//! client that sleeps now and then does not. If such a client shares its CPU, the agent must know that it sleeps, so
//! that another client gets the CPU: the [sentinel](Kernel::await_quiet) reports this, at the cost of two turns per
//! sleep. A client that is alone on its CPU keeps its level while it sleeps, and no other client waits. Its sleeps are
//! therefore not reported to the machine until its period ends. A [timer of its CPU time](Kernel::set_cpu_timer) ends
//! its slice, and a client that sleeps before that costs one turn per period. A client that has not run for a whole
//! period is reported as blocked, and then costs no turns until it wakes.
//!
//! The timer counts the CPU time of one thread, so the client must have one active thread. Only a client that has slept
//! in its last slices gets the timer. For a client that uses up its slices, the timer of elapsed time is cheaper and more
//! precise, because its interrupt wakes the agent directly.

use super::client::Client;
use super::cpu::Cost;
use super::dispatcher::Dispatcher;
use super::journal::Ledger;
use super::member::{Member, Raise};
use super::turn::PERIODS_TOLD_MOST;
use crate::kernel::Kernel;
use sched::{AlarmOwner, CpuId, EntityId, Input, Instant, Nanos, Reservation};
use sys::thread::State as ThreadState;

/// Number of consecutive slices that a client, alone on its CPU, uses up before it counts as busy throughout its
/// slices: it probably uses up its next slice, too.
const USED_UP: u32 = 8;
/// Number of sleeps, without a slice that is used up in between, after which a client gets the timer. The first periods of
/// a run, which its picture shows, have fewer sleeps.
const SLEEPS: u32 = 25;
/// Maximum number of slices in a row for which a client that seems to sleep is not checked.
const UNCHECKED_MOST: u32 = 8;
/// Maximum time by which a client exceeds a slice with a timer that works.
const EXCESS_MOST: Nanos = Nanos::ms(1);
/// Minimum slice for the timer, which may be late by a tenth of this time.
const SLICE_LEAST: Nanos = Nanos::us(100);

impl<K: Kernel> Client<K> {
    /// Returns whether the client may sleep before the end of its next slice.
    pub(super) fn may_sleep(&self) -> bool {
        self.slices_used_up < USED_UP
    }

    /// Returns whether a timer of CPU time can end the slices of the client.
    fn can_be_timed(&self, kernel: &K) -> bool {
        let [member] = self.active() else { return false };
        self.has_cpu_timer
            && !self.records_sleeps
            && self.sleeps >= SLEEPS
            && self.reservation.slice >= SLICE_LEAST
            && self.reports_wakeups
            && self.gang.is_none()
            && member.is_served()
            && matches!(&member.raise, Raise::Inherit(loan) if kernel.is_lending(loan))
    }

    /// Sets the timer for a slice that began at `begun`. `left` is the remaining time of the slice.
    fn begin_timer(&mut self, begun: Instant, left: Nanos, kernel: &K) {
        let Some(thread) = self.active().first().map(|member| member.identity) else { return };
        if self.timed.is_some_and(|(timed, _)| timed != thread) {
            self.end_timer(kernel);
        }
        match kernel.set_cpu_timer(&mut self.members[0].thread, self.cpu, Some(left)) {
            Ok(()) if self.timed.is_some() => self.timed = Some((thread, begun)),
            Ok(()) => {
                self.timed = Some((thread, begun));
                (self.unchecked, self.blocked) = (0, self.times_blocked(kernel).unwrap_or(0));
            }
            Err(refused) => {
                self.end_timer(kernel);
                match refused {
                    // The keeper prepares the timer.
                    sys::Error::Busy { .. } => self.members[0].has_awaited_births = false,
                    // The next read detects the end of the thread.
                    sys::Error::Gone(_) => {}
                    _ => self.has_cpu_timer = false,
                }
            }
        }
    }

    /// Clears the timer.
    pub(super) fn end_timer(&mut self, kernel: &K) {
        let Some((thread, _)) = self.timed.take() else { return };
        if let Some(member) = self.members.iter_mut().find(|member| member.identity == thread) {
            // The call fails if the thread has ended.
            let _ = kernel.set_cpu_timer(&mut member.thread, self.cpu, None);
        }
    }

    /// Records whether the client, which has a timer, has used up its slice, or has slept in it without a report.
    pub(super) fn note_timed(&mut self, cost: &Cost, until: Instant, now: Instant, kernel: &K) {
        if let Some(excess) = cost.excess(until) {
            self.note_used_up();
            // The timer has failed: the kernel ends the perf events of a thread that executes a set-user-ID program.
            self.has_cpu_timer &= excess <= EXCESS_MOST;
        } else if cost.has_gap(now) {
            if cost.lost(now) >= self.reservation.period {
                // Whole periods may be missed.
                self.unchecked = 0;
            }
            if !self.sleeps_in_gap(cost.has_left(), kernel) {
                return;
            }
            self.sleeps = self.sleeps.saturating_add(1);
            self.has_unreported_sleep = true;
            self.ledger = self.ledger.map(Ledger::interrupted);
        }
    }

    /// Returns whether the client, which neither ran nor waited for some time, has slept. If it `has_left` the CPU, it has.
    /// Otherwise, it sleeps now or wakes just now, or a hypervisor or interrupts took the CPU. The check for this reads a
    /// file, so it is done for one in [`UNCHECKED_MOST`] slices: the client must have blocked since the last check.
    fn sleeps_in_gap(&mut self, has_left: bool, kernel: &K) -> bool {
        if has_left {
            return true;
        }
        if self.unchecked > 0 {
            self.unchecked -= 1;
            return true;
        }
        let Some(blocked) = self.times_blocked(kernel) else { return true };
        let has_slept = std::mem::replace(&mut self.blocked, blocked) != blocked;
        (self.unchecked, self.sleeps) = if has_slept { (UNCHECKED_MOST, self.sleeps) } else { (0, 0) };
        has_slept
    }

    /// Returns how often the first active thread has blocked; `None` if it has ended.
    fn times_blocked(&self, kernel: &K) -> Option<u64> {
        kernel.sleeps(&self.active().first()?.thread).ok()
    }

    /// Returns whether the client has not run in this period and sleeps.
    fn is_idle(&self, kernel: &K) -> bool {
        let is_idle = |member: &Member<K>| member.recent.in_period.is_zero() && is_asleep(&member.thread, kernel);
        self.active().iter().all(is_idle)
    }

    /// Records that the client has used up a slice.
    pub(super) fn note_used_up(&mut self) {
        (self.slices_used_up, self.sleeps) = (self.slices_used_up.saturating_add(1), 0);
    }
}

/// Returns whether the thread sleeps. A thread that waits for a CPU does not.
fn is_asleep<K: Kernel>(thread: &K::Thread, kernel: &K) -> bool {
    kernel.status(thread).is_ok_and(|status| status.state != ThreadState::Runnable)
}

impl<K: Kernel> Dispatcher<K> {
    /// Sets the timer of the running client of `cpu`, if a timer of CPU time is to end its slice, and clears the timers of
    /// the other clients.
    pub(super) fn time_slices(&mut self, cpu: CpuId, now: Instant) {
        let here = &self.cpus[cpu.index()];
        let (dispatched, until, begun) = (here.dispatched(), here.until(), here.cost.begun);
        let count = self.clients.count_on(cpu);
        for at in 0..count {
            let Some((e, client)) = self.clients.nth_on(cpu, at) else { continue };
            let is_timed = dispatched == Some(e)
                && count == 1
                && !self.suspended
                && until != Instant::NEVER
                && client.can_be_timed(&self.kernel);
            if !is_timed {
                client.end_timer(&self.kernel);
            } else if client.timed != client.active().first().map(|member| (member.identity, begun)) {
                client.begin_timer(begun, until.saturating_since(now), &self.kernel);
            }
        }
    }

    /// Notes the period of `e` that has ended, and in which the client has slept. If whole periods have passed since, and
    /// the client wants to run, the client was kept from its CPU.
    fn judge_with_sleep(&mut self, e: EntityId, now: Instant) {
        let Some(client) = self.clients.get(e) else { return };
        let Reservation { slice, period, .. } = client.reservation;
        let passed = now.saturating_since(self.deadline(e)).as_ns() / period.as_ns();
        let is_kept_away = passed > 0 && !client.active().iter().all(|it| is_asleep(&it.thread, &self.kernel));
        if let Some((due, delivered)) = client.ledger.map(|ledger| ledger.end(self.left_of(e), slice)) {
            self.judge(e, due, delivered, false, now);
        }
        for _ in 0..if is_kept_away { passed.min(PERIODS_TOLD_MOST) } else { 0 } {
            self.judge(e, slice, Nanos::ZERO, true, now);
        }
    }

    /// If the running client of `cpu` has slept without a report, and its period is over: reports the sleep to the machine,
    /// and ends the period. Without this report, the unused time of the slice would be owed to the client. A client that
    /// has slept throughout the period is blocked. If another client has come to this CPU, the sleep is reported at once.
    pub(super) fn report_sleep(&mut self, cpu: CpuId, now: Instant) {
        let Some(e) = self.cpus[cpu.index()].dispatched() else { return };
        let is_over = self.deadline(e) <= now;
        let Some(client) = self.clients.get(e).filter(|client| client.has_unreported_sleep) else { return };
        if !is_over && self.clients.count_on(cpu) == 1 {
            return;
        }
        let is_idle = is_over && client.is_idle(&self.kernel);
        if is_over {
            self.judge_with_sleep(e, now);
            // The wake-up begins a period, and sets the alarm at its end.
            for slot in &mut self.alarms {
                *slot = slot.filter(|pending| pending.alarm.owner != AlarmOwner::Entity(e));
            }
        }
        if is_idle {
            return self.block(cpu, now);
        }
        self.cpus[cpu.index()].end_slice();
        self.input(now, Input::Block { cpu });
        self.wake(e, now);
        let Some(client) = self.clients.get_mut(e) else { return };
        client.has_unreported_sleep = false;
        if is_over {
            // The client is runnable from the beginning of the new period on, as far as the agent knows.
            client.ledger = client.ledger.map(Ledger::runnable);
        }
    }
}
