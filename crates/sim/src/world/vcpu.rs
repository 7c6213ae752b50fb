//! vCPU life cycle: halt, wake, freeze, thaw, halt polling, directed yield.

use super::World;
use super::vcpu_state::{Doing, Vcpu};
use crate::outbox::Message;
use sched::{EntityId, Nanos, Notice, State, Wake};
use trace::MachineId;

/// Maximum number of siblings to which a spinning vCPU tries to yield. Source: `kvm_vcpu_on_spin`, virt/kvm/kvm_main.c.
const YIELDS_MOST: usize = 3;

impl World<'_> {
    /// Processes the messages of a guest to its host after the guest has settled.
    #[inline]
    pub(super) fn answer_guest(&mut self, index: usize) {
        let base = self.places[index].vcpus;
        if !self.machines[index].cpus.outbox.is_empty() {
            self.pass_on(index, base);
        }
        while let Some(cpu) = self.take(index, Message::idle) {
            if self.machines[index].machine.running(cpu).is_none() {
                self.begin_halt(base + cpu.index());
            }
        }
        if self.machines[index].cpus.halting > 0 {
            self.end_halts(index);
        }
    }

    /// Processes the wake-ups, spin reports and spins that machine `index` has sent. CPU 0 is vCPU `base`.
    fn pass_on(&mut self, index: usize, base: usize) {
        while let Some((cpu, why)) = self.take(index, Message::wake_up) {
            self.call(base + cpu.index(), why);
        }
        while let Some((cpu, waited)) = self.take(index, Message::spin_report) {
            self.report(base + cpu.index(), waited);
        }
        while let Some((cpu, halts)) = self.take(index, Message::spin) {
            if self.machines[index].cpus.spins_on(cpu, halts) {
                if halts { self.halt(base + cpu.index()) } else { self.yield_for(base + cpu.index()) }
            }
        }
    }

    /// Wakes a halted vCPU that has due work. If the vCPU already waits for a CPU, the host's policy receives an
    /// interrupt notice.
    pub(super) fn call(&mut self, number: usize, why: Wake) {
        let now = self.now;
        let Vcpu { host, entity, doing, since, guest, .. } = self.vcpus[number];
        let machine = &mut self.machines[host.index()];
        machine.cpus.now = now;
        if self.coordinates
            && self.coordination[guest.index()].is_some()
            && matches!(doing, Doing::Halted | Doing::Ready)
        {
            self.inject(number);
        }
        let machine = &mut self.machines[host.index()];
        match doing {
            Doing::Halted => {
                let polling = self.machines[guest.index()].guest.expect("it is a guest").halt_polling;
                let vcpu = &mut self.vcpus[number];
                vcpu.learn(now.since(since), polling);
                vcpu.doing = Doing::Ready;
                // The halted time was not stolen.
                vcpu.since = now;
                self.machines[host.index()].wake(entity, why);
            }
            Doing::Ready => machine.notice(entity, Notice::Interrupt),
            Doing::Runs | Doing::Halts => return,
        }
        self.schedule_visit(host);
    }

    fn report(&mut self, number: usize, waited: Nanos) {
        let Vcpu { host, entity, doing, .. } = self.vcpus[number];
        if doing != Doing::Halted {
            let machine = &mut self.machines[host.index()];
            machine.cpus.now = self.now;
            machine.notice(entity, Notice::SpinWait { waited });
            self.schedule_visit(host);
        }
    }

    /// Takes the oldest message that `select` accepts from machine `index`.
    #[inline]
    fn take<T>(&mut self, index: usize, select: impl Fn(&Message) -> Option<T>) -> Option<T> {
        self.machines[index].cpus.outbox.take(select)
    }

    // ---- Halting ----

    /// Begins the halt of a vCPU that becomes idle: the vCPU leaves the guest, polls for a limited time, and halts.
    fn begin_halt(&mut self, number: usize) {
        let Vcpu { host, entity, doing, guest, poll, .. } = self.vcpus[number];
        if doing != Doing::Runs || self.machines[guest.index()].guest.expect("it is a guest").idle_polls {
            return;
        }
        let polls = !poll.is_zero() && !self.is_cpu_wanted(host, entity);
        let delay = if polls { poll } else { Nanos::ZERO } + self.machines[guest.index()].cpus.costs.exit;
        self.vcpus[number].since = self.now;
        if delay.is_zero() {
            return self.halt(number);
        }
        self.vcpus[number].doing = Doing::Halts;
        if polls && !std::mem::replace(&mut self.vcpus[number].polls, true) {
            self.polling += 1;
        }
        self.machines[guest.index()].cpus.halting += 1;
        self.halts.set(number, self.now.saturating_add(delay));
    }

    /// Halts a vCPU.
    pub(super) fn halt(&mut self, number: usize) {
        let now = self.now;
        let Vcpu { host, entity, guest, cpu, doing, .. } = self.vcpus[number];
        if doing == Doing::Halts {
            self.machines[guest.index()].cpus.halting -= 1;
            self.count_poll(number);
        } else {
            self.vcpus[number].since = now;
        }
        let it = &mut self.machines[guest.index()];
        it.cpus.now = now;
        it.freeze(cpu, false);
        self.vcpus[number].doing = Doing::Halted;
        if self.coordinates && self.coordination[guest.index()].is_some() {
            self.halt_coordinated(number);
        }
        let machine = &mut self.machines[host.index()];
        machine.cpus.now = now;
        match machine.machine.state(entity) {
            State::Running(on) => machine.block(on),
            // The vCPU yielded at this instant, and its host has not settled yet.
            _ => machine.stop_waiting(entity),
        }
        self.schedule_visit(host);
    }

    /// Counts the polling of a vCPU: the time since the vCPU became idle, except the exit, up to the polling time.
    fn count_poll(&mut self, number: usize) {
        let Vcpu { guest, since, poll, .. } = self.vcpus[number];
        let polled = self.now.since(since).saturating_sub(self.machines[guest.index()].cpus.costs.exit).min(poll);
        self.vcpus[number].polled += polled;
    }

    /// Returns whether an entity that may run on the CPU of `vcpu` waits. In this case, the vCPU does not poll
    /// (`kvm_vcpu_can_poll`).
    fn is_cpu_wanted(&self, host: MachineId, vcpu: EntityId) -> bool {
        let host = &self.machines[host.index()];
        let State::Running(on) = host.machine.state(vcpu) else { return false };
        let waits = |entity: EntityId| host.machine.state(entity) == State::Waiting && !host.machine.is_held(entity);
        host.cpus.tasks.iter().flatten().any(|task| waits(task.id) && host.machine.allowed(task.id).contains(on))
    }

    /// On a host, ends the polling of each vCPU if another entity waits for its CPU. The vCPU halts as soon as its exit
    /// is paid.
    pub(super) fn cut_polls(&mut self, host: usize) {
        if self.polling == 0 {
            return;
        }
        for number in 0..self.vcpus.len() {
            if self.vcpus[number].polls && self.vcpus[number].doing != Doing::Halts {
                self.vcpus[number].polls = false;
                self.polling -= 1;
            }
            let Vcpu { host: on, entity, guest, doing, since, .. } = self.vcpus[number];
            let earliest = since.saturating_add(self.machines[guest.index()].cpus.costs.exit).max(self.now);
            let cuts = on.index() == host && doing == Doing::Halts && self.halts.get(number) > earliest;
            if cuts && self.is_cpu_wanted(on, entity) {
                self.halts.set(number, earliest);
            }
        }
    }

    /// In a guest, cancels the halt of each vCPU that has received a task.
    fn end_halts(&mut self, index: usize) {
        let (base, cpus) = (self.places[index].vcpus, self.machines[index].machine.topology().cpus);
        for number in base..base + cpus {
            let Vcpu { doing, cpu, since, guest, .. } = self.vcpus[number];
            if doing != Doing::Halts {
                continue;
            }
            let machine = &mut self.machines[index];
            if machine.machine.running(cpu).is_some() {
                machine.cpus.halting -= 1;
                self.halts.clear(number);
                let polling = self.machines[guest.index()].guest.expect("it is a guest").halt_polling;
                self.count_poll(number);
                let vcpu = &mut self.vcpus[number];
                vcpu.learn(self.now.since(since), polling);
                vcpu.doing = Doing::Runs;
            }
        }
    }

    // ---- Decisions of the host ----

    /// Thaws vCPUs that received a CPU, and freezes vCPUs that lost a CPU.
    #[inline]
    pub(super) fn answer_host(&mut self, index: usize) {
        while let Some((entity, enters)) = self.take(index, Message::switch) {
            let number = self.vcpu_of[index].get(entity.index()).copied().flatten();
            let number = number.expect("a vCPU is linked to its guest") as usize;
            if enters { self.enter(number) } else { self.leave(number) }
        }
    }

    fn leave(&mut self, number: usize) {
        let Vcpu { guest, cpu, doing, .. } = self.vcpus[number];
        // A halted vCPU may have woken again before its host settled.
        if matches!(doing, Doing::Halted | Doing::Ready) {
            return;
        }
        let machine = &mut self.machines[guest.index()];
        machine.cpus.now = self.now;
        if doing == Doing::Halts {
            machine.cpus.halting -= 1;
            self.halts.clear(number);
        }
        // If the vCPU received its CPU at this instant, deferred departures may not be settled yet. The guest settles
        // them before the freeze.
        if machine.unsettled {
            machine.settle();
        }
        machine.freeze(cpu, true);
        if doing == Doing::Halts {
            self.count_poll(number);
        }
        let vcpu = &mut self.vcpus[number];
        vcpu.since = self.now;
        vcpu.doing = Doing::Ready;
        // A vCPU that yielded at an earlier instant kept its CPU and continued.
        vcpu.spins = vcpu.yielded == self.now;
        if self.coordinates && self.coordination[guest.index()].is_some() {
            self.exit(number);
        }
    }

    fn enter(&mut self, number: usize) {
        let Vcpu { guest, cpu, doing, since, .. } = self.vcpus[number];
        assert_eq!(doing, Doing::Ready, "a vCPU that enters was ready");
        self.vcpus[number].doing = Doing::Runs;
        self.vcpus[number].spins = false;
        self.vcpus[number].eligible = false;
        let machine = &mut self.machines[guest.index()];
        machine.cpus.now = self.now;
        let known = machine.guest.expect("it is a guest").steal == crate::guest::Steal::Known;
        machine.thaw(cpu, if known { self.now.since(since) } else { Nanos::ZERO });
        self.schedule_visit(guest);
    }

    /// Makes a spinning vCPU yield to a sibling that waits for a CPU, if any. A sibling that itself yielded because it
    /// spins is skipped every other time. Source: `kvm_vcpu_on_spin`, virt/kvm/kvm_main.c.
    fn yield_for(&mut self, number: usize) {
        let Vcpu { host, entity, guest, doing, .. } = self.vcpus[number];
        if doing != Doing::Runs {
            return;
        }
        let base = self.places[guest.index()].vcpus;
        let cpus = self.machines[guest.index()].machine.topology().cpus;
        let from = self.machines[guest.index()].cpus.last_yielded_to;
        let State::Running(on) = self.machines[host.index()].machine.state(entity) else { return };
        let mut tries = 0;
        for step in 1..=cpus {
            let place = (from + step) % cpus;
            let sibling = &mut self.vcpus[base + place];
            if base + place == number || sibling.doing != Doing::Ready {
                continue;
            }
            if sibling.spins {
                sibling.eligible = !sibling.eligible;
                // The eligibility before the toggle decides.
                if sibling.eligible {
                    continue;
                }
            }
            let to = sibling.entity;
            let machine = &mut self.machines[host.index()];
            machine.cpus.now = self.now;
            machine.yield_to(on, to);
            let went = machine.machine.running(on).is_none();
            self.schedule_visit(host);
            tries += 1;
            if went {
                self.machines[guest.index()].cpus.last_yielded_to = place;
                self.vcpus[number].yielded = self.now;
            }
            if went || tries == YIELDS_MOST {
                return;
            }
        }
    }
}
