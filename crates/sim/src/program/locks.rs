//! Locks: tasks acquire locks, sleep or spin while they wait, and hand locks over. For the spin locks of a guest,
//! [`Spinning`] defines the order of the waiters and how they wait.

use super::ObjectId;
use super::shared;
use super::task_state::Waiting;
use super::tasks::StepOutcome;
use crate::driver::Driver;
use crate::guest::Spinning;
use crate::outbox::Message;
use sched::{CpuId, EntityId, Instant, Nanos, Wake};
use trace::Event;

impl Driver<'_> {
    pub(super) fn lock(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> StepOutcome {
        let out_of_order = self.hands_on_out_of_order();
        let object = self.tasks.object(id);
        if object.owner().is_none() && (object.waiters.is_empty() || out_of_order) {
            object.give(Some(entity));
            self.tasks.of(entity).holds += 1;
            return StepOutcome::Next;
        }
        let spins = object.spins();
        self.tasks.object(id).waiters.push_back((entity, 0));
        self.begin_wait(entity, id);
        if spins { self.spin(cpu, entity, id) } else { self.block_task(cpu) }
    }

    /// Makes `entity`, which waits for an object, spin on its CPU.
    pub(super) fn spin(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> StepOutcome {
        let limit = self.spin_limit(id);
        let now = self.cpus.now;
        let progress = &mut self.cpus.task(entity).progress;
        progress.is_spinning = true;
        progress.left = limit;
        progress.go_on_spinning(now);
        self.cpus.cpus[cpu.index()].done = limit.map_or(Instant::NEVER, |limit| now.saturating_add(limit));
        self.cpus.arm(cpu);
        StepOutcome::Wait
    }

    fn hands_on_out_of_order(&self) -> bool {
        self.guest.is_some_and(|guest| guest.spinning == Spinning::Unfair)
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
        let Some(guest) = self.guest else { return };
        let Waiting::Object(id) = self.tasks.of(entity).waiting else { return };
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
    /// goes to the first waiter on a CPU that is not absent.
    pub(super) fn hand_on(&mut self, owner: EntityId, id: ObjectId) {
        self.tasks.of(owner).holds -= 1;
        let out_of_order = self.hands_on_out_of_order();
        let cpus = &self.cpus;
        let object = shared::at(&mut self.tasks.objects, id);
        object.give(None);
        let spins = object.spins();
        let place = if spins && out_of_order {
            object.waiters.iter().position(|&(waiter, _)| cpus.is_present(waiter))
        } else {
            (!object.waiters.is_empty()).then_some(0)
        };
        let Some((next, _)) = place.and_then(|place| object.waiters.remove(place)) else { return };
        object.give(Some(next));
        self.tasks.of(next).holds += 1;
        if spins && self.guest.is_some_and(|guest| matches!(guest.spinning, Spinning::Paravirt { .. })) {
            let absent = self.cpus.seat_of(next).is_some_and(|cpu| self.cpus.cpus[cpu.index()].absent);
            // If the vCPU of the next waiter is absent, the owner kicks this vCPU by a hypercall.
            self.tasks.of(owner).owes += if absent { self.cpus.costs.hypercall } else { Nanos::ZERO };
        }
        if spins { self.end_spin(next) } else { self.grant(next, owner, false) }
    }

    /// Makes `entity`, which has a CPU again, acquire the lock for which `entity` spins, if the lock is free.
    pub(crate) fn try_again(&mut self, entity: EntityId) {
        let Waiting::Object(id) = self.tasks.of(entity).waiting else { return };
        let object = self.tasks.object(id);
        if object.owner().is_some() || !object.is_lock() {
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
