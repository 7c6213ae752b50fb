//! Freeze and thaw of the CPUs of a guest. Due work of an absent CPU waits until the CPU returns.

use crate::cpus::Deferred;
use crate::driver::Driver;
use crate::outbox::Message;
use sched::{CpuId, EntityId, Input, Instant, Nanos, State, Wake};

impl Driver<'_> {
    /// Freezes `cpu`. `preempted`: the host took the physical CPU away or handles an interrupt on it. Otherwise the
    /// vCPU has halted or has not booted yet.
    pub(crate) fn freeze(&mut self, cpu: CpuId, preempted: bool) {
        let shown = preempted && self.guest.is_some_and(|guest| guest.shows_preempted);
        self.pass_on(Input::Freeze { cpu, preempted: shown });
        // Work that arrives at the instant of the halt wakes the vCPU again.
        if !preempted && self.machine.picks_once_thawed(cpu) {
            self.cpus.outbox.send(Message::WakeUp { cpu, why: Wake::Interrupt });
        }
        self.cpus.leave(cpu);
    }

    /// Thaws `cpu`: its task continues, then deferred work follows. The guest receives `stolen` as the steal time of
    /// the absence.
    pub(crate) fn thaw(&mut self, cpu: CpuId, stolen: Nanos) {
        self.input(Input::Thaw { cpu, stolen });
        self.cpus.come(cpu);
        self.cpus.outbox.send(Message::Idle { cpu });
        // Makes a single pass over the list, because much work may be deferred. Work that is deferred during the pass
        // is for other CPUs.
        let (mut at, mut kept) = (0, 0);
        while at < self.cpus.deferred.len() {
            let (on, what) = self.cpus.deferred[at];
            at += 1;
            if on == cpu {
                self.catch_up(cpu, what);
            } else {
                self.cpus.deferred[kept] = (on, what);
                kept += 1;
            }
        }
        self.cpus.deferred.truncate(kept);
    }

    /// Makes a deferred release, kick or alarm due now. Processes a deferred departure or notice at once.
    fn catch_up(&mut self, cpu: CpuId, what: Deferred) {
        let now = self.cpus.now;
        match what {
            Deferred::Release(entity) => {
                if self.cpus.tasks[entity.index()].is_some_and(|task| task.id == entity) {
                    self.cpus.releases.set(entity.index(), now);
                }
            }
            // Another kick to this CPU is already in flight.
            Deferred::Kick if self.cpus.kicks.get(cpu.index()) != Instant::NEVER => {}
            Deferred::Kick => self.cpus.kicks.set(cpu.index(), now),
            // The alarm has been set again in the meantime.
            Deferred::Alarm(number) if self.cpus.alarms.get(number) != Instant::NEVER => {}
            Deferred::Alarm(number) => self.cpus.alarms.set(number, now),
            Deferred::Departure(entity) if self.machine.is_attached(entity) => self.detach(entity),
            Deferred::Departure(_) => {}
            Deferred::Notice(object) => self.let_through(object),
        }
    }

    /// Removes an entity. An entity on an absent CPU leaves when the CPU returns, and the host is asked to run the
    /// vCPU.
    pub(crate) fn dismiss(&mut self, entity: EntityId) {
        match self.machine.state(entity) {
            State::Running(cpu) if self.cpus.defer(cpu, Deferred::Departure(entity), Wake::Interrupt) => {}
            _ => self.detach(entity),
        }
    }
}
