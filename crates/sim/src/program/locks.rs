//! Locks: tasks acquire locks, sleep or spin while they wait, and hand locks over. For the spin locks of a guest,
//! [`Spinning`] defines the order of the waiters and how they wait.

use super::ObjectId;
use super::shared::{self, WaitMode};
use super::task_state::Waiting;
use super::tasks::StepOutcome;
use crate::cpus::Cpus;
use crate::driver::Driver;
use crate::guest::Spinning;
use crate::outbox::Message;
use sched::{CpuId, EntityId, Instant, Nanos, Wake};
use trace::Event;

impl Driver<'_> {
    pub(super) fn lock(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> StepOutcome {
        let out_of_order = self.hands_on_out_of_order(id);
        let object = self.tasks.object(id);
        if object.owner().is_none() && (object.waiters.is_empty() || out_of_order) {
            object.give(Some(entity));
            self.tasks.of(entity).holds += 1;
            return StepOutcome::Next;
        }
        object.waiters.push_back((entity, 0));
        self.begin_wait(entity, id);
        self.spin_or_block(cpu, entity, id)
    }

    /// Makes `entity`, which waits for a lock or at a barrier, spin on its CPU or block.
    pub(super) fn spin_or_block(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> StepOutcome {
        let limit = match self.tasks.object(id).wait_mode() {
            WaitMode::Sleep => return self.block_task(cpu),
            WaitMode::Spin => self.spin_limit(id),
            // No exit interrupts the spin: pause-loop exiting applies to kernels alone (Intel SDM, volume 3C,
            // instructions that cause VM exits conditionally).
            WaitMode::SpinThenSleep(spin) => Some(spin),
        };
        let now = self.cpus.now;
        let progress = &mut self.cpus.task(entity).progress;
        progress.is_spinning = true;
        progress.left = limit;
        progress.go_on_spinning(now);
        self.cpus.cpus[cpu.index()].done = limit.map_or(Instant::NEVER, |limit| now.saturating_add(limit));
        self.cpus.arm(cpu);
        StepOutcome::Wait
    }

    /// Returns whether a waiter on a CPU can acquire a lock ahead of earlier waiters.
    fn hands_on_out_of_order(&mut self, id: ObjectId) -> bool {
        match self.tasks.object(id).wait_mode() {
            WaitMode::Sleep => false,
            WaitMode::Spin => self.guest.is_some_and(|guest| guest.spinning == Spinning::Unfair),
            WaitMode::SpinThenSleep(_) => true,
        }
    }

    /// Lets `waiter` continue, which has acquired its lock or passed its barrier on behalf of `waker`.
    pub(super) fn admit(&mut self, waiter: EntityId, waker: EntityId) {
        if self.cpus.task(waiter).progress.is_spinning {
            self.end_spin(waiter);
        } else {
            self.grant(waiter, waker, false);
        }
    }

    /// Returns the time for which a task spins before its vCPU exits or halts. `None`: no limit.
    fn spin_limit(&mut self, id: ObjectId) -> Option<Nanos> {
        let guest = self.guest?;
        if let Spinning::Paravirt { limit } = guest.spinning
            && self.tasks.object(id).is_lock()
        {
            // A waiter that observes a preempted owner halts at once.
            let owner = self.tasks.object(id).owner().and_then(|owner| self.cpus.task(owner).last_cpu);
            let futile = guest.shows_preempted && owner.is_some_and(|cpu| self.cpus.cpus[cpu.index()].absent);
            return Some(if futile { Nanos::ns(1) } else { limit });
        }
        guest.pause_loop.map(|pause_loop| pause_loop.window)
    }

    /// Handles a spin of the task on `cpu` that has reached its limit.
    pub(crate) fn spin_on(&mut self, cpu: CpuId, entity: EntityId) {
        let now = self.cpus.now;
        let Waiting::Object(id) = self.tasks.of(entity).waiting else { return };
        if matches!(self.tasks.object(id).wait_mode(), WaitMode::SpinThenSleep(_)) {
            // As in futex(2), the waiter does not block if the lock is free.
            self.try_again(entity);
            if self.cpus.is_spinning(entity) {
                self.cpus.task(entity).progress.give_up_spinning(now);
                self.block_task(cpu);
            }
            return;
        }
        let Some(guest) = self.guest else { return };
        let halts = matches!(guest.spinning, Spinning::Paravirt { .. }) && self.tasks.object(id).is_lock();
        // A halted waiter continues after a kick. A waiter that runs before the kick spins for its limit again.
        let limit = match guest.spinning {
            Spinning::Paravirt { limit } if halts => Some(limit),
            _ => guest.pause_loop.map(|pause_loop| pause_loop.window),
        };
        self.cpus.task(entity).progress.left = limit;
        let again = limit.filter(|_| !halts);
        self.cpus.cpus[cpu.index()].done = again.map_or(Instant::NEVER, |window| now.saturating_add(window));
        self.cpus.arm(cpu);
        self.cpus.outbox.send(Message::Spin { cpu, halts });
    }

    pub(super) fn unlock(&mut self, entity: EntityId, id: ObjectId) -> StepOutcome {
        if self.tasks.object(id).owner() != Some(entity) {
            let cpu = self.cpus.task(entity).last_cpu.unwrap_or_default();
            return self.not_held(cpu, entity, id, "unlocks");
        }
        self.hand_on(entity, id);
        StepOutcome::Next
    }

    pub(super) fn not_held(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId, does: &str) -> StepOutcome {
        self.gives_back(cpu, entity, id, does);
        StepOutcome::Wait
    }

    /// Releases a lock of `owner`. The first waiter, if any, acquires the lock. With [`Spinning::Unfair`], a spin lock
    /// goes to the first waiter on a CPU that is not absent. An [`Object::AdaptiveMutex`] goes to the first waiter that
    /// spins on such a CPU, or else to the first sleeping waiter.
    pub(super) fn hand_on(&mut self, owner: EntityId, id: ObjectId) {
        self.tasks.of(owner).holds -= 1;
        let out_of_order = self.hands_on_out_of_order(id);
        let cpus = &self.cpus;
        let object = shared::at(&mut self.tasks.objects, id);
        object.give(None);
        let is_spin_lock = object.is_spin_lock();
        let place = if out_of_order {
            let first = |is: fn(&Cpus, EntityId) -> bool| object.waiters.iter().position(|&(it, _)| is(cpus, it));
            first(Cpus::is_present).or_else(|| first(|cpus, waiter| !cpus.is_spinning(waiter)))
        } else {
            (!object.waiters.is_empty()).then_some(0)
        };
        let Some((next, _)) = place.and_then(|place| object.waiters.remove(place)) else { return };
        object.give(Some(next));
        self.tasks.of(next).holds += 1;
        if is_spin_lock && self.guest.is_some_and(|guest| matches!(guest.spinning, Spinning::Paravirt { .. })) {
            let absent = self.cpus.seat_of(next).is_some_and(|cpu| self.cpus.cpus[cpu.index()].absent);
            // If the vCPU of the next waiter is absent, the owner kicks this vCPU by a hypercall.
            self.tasks.of(owner).owes += if absent { self.cpus.costs.hypercall } else { Nanos::ZERO };
        }
        self.admit(next, owner);
    }

    /// Makes `entity`, which has a CPU again, acquire the lock for which `entity` spins, if the lock is free and waiters
    /// can acquire it out of order.
    pub(crate) fn try_again(&mut self, entity: EntityId) {
        let Waiting::Object(id) = self.tasks.of(entity).waiting else { return };
        let out_of_order = self.hands_on_out_of_order(id);
        let object = self.tasks.object(id);
        if object.owner().is_some() || !object.is_lock() || !out_of_order {
            return;
        }
        object.give(Some(entity));
        object.waiters.retain(|&(waiter, _)| waiter != entity);
        self.tasks.of(entity).holds += 1;
        self.end_spin(entity);
    }

    /// Ends the spin of a task that acquires its lock or passes its barrier. The task continues at once if it runs,
    /// otherwise when it runs again.
    pub(super) fn end_spin(&mut self, entity: EntityId) {
        let now = self.cpus.now;
        let waited = now.since(self.tasks.of(entity).since);
        self.end_wait(entity);
        self.cpus.task(entity).progress.end_spinning(now);
        self.show(|| Event::SpinWait { entity, waited });
        if self.guest.is_some_and(|guest| guest.spin_report.is_some_and(|least| waited >= least)) {
            let cpu = self.cpus.task(entity).last_cpu.unwrap_or_default();
            self.cpus.outbox.send(Message::SpinReport { cpu, waited });
        }
        let Some(cpu) = self.cpus.seat_of(entity) else { return };
        if self.cpus.cpus[cpu.index()].absent {
            // With paravirtual locks, the vCPU of the waiter may have halted and is kicked. Otherwise, the waiter
            // continues when its vCPU has a CPU again.
            if self.guest.is_some_and(|guest| matches!(guest.spinning, Spinning::Paravirt { .. })) {
                self.cpus.outbox.send(Message::WakeUp { cpu, why: Wake::Interrupt });
            }
            return;
        }
        self.cpus.cpus[cpu.index()].done = now.max(self.cpus.cpus[cpu.index()].paid());
        // A task whose time slice ended at this instant continues when it is picked again.
        if self.machine.running(cpu) == Some(entity) {
            self.cpus.arm(cpu);
        }
    }
}
