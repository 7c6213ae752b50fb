//! Coordination of guests with their host: passes events to detector, protocol and coordinator, and adjusts vCPUs.

use super::World;
use super::guest_coordination::GuestCoordination;
use crate::outbox::Message;
use coordination::{Boost, Coordinated, Coordination, Coordinator, Detector, Note, ProtocolState};
use sched::{CpuId, EntityId, Instant, Params};
use trace::{Event, MachineId};

impl World<'_> {
    pub(super) fn coordinate_with(&mut self, host: MachineId, guest: MachineId, of: &[EntityId], with: Coordination) {
        let params = |&vcpu: &EntityId| (vcpu, *self.machines[host.index()].machine.params(vcpu));
        self.coordination[guest.index()] = Some(Box::new(GuestCoordination {
            with,
            host,
            vcpus: of.iter().map(params).collect(),
            traced: vec![false; of.len()],
            protocol_states: vec![ProtocolState::default(); of.len()],
            detector: Detector::new(with.detector, of.len()),
            coordinator: Coordinator::new(with, of.len(), self.now),
            tick: Instant::NEVER,
            totals: Coordinated::default(),
        }));
        self.coordinates = true;
        self.machines[host.index()].coordinate();
        self.machines[guest.index()].coordinate();
    }

    /// Returns the totals of the coordination of `guest` with its host. `None`: no coordination.
    #[must_use]
    pub fn coordinated(&self, guest: MachineId) -> Option<Coordinated> {
        let guest_state = self.coordination[guest.index()].as_ref()?;
        let mut coordinator = guest_state.coordinator.clone();
        coordinator.advance(self.now);
        let Coordinator { boosted, over_budget, over_limit, .. } = coordinator;
        Some(Coordinated { boosted, over_budget, over_limit, ..guest_state.totals })
    }

    fn coordination_of(&mut self, guest: usize) -> &mut GuestCoordination {
        self.coordination[guest].as_mut().expect("its caller has seen that it coordinates")
    }

    /// Returns the guest and the CPU of vCPU `number`.
    fn place_of(&self, number: usize) -> (usize, usize) {
        let (guest, cpu) = self.vcpus[number].place();
        (guest.index(), cpu.index())
    }

    // ---- In the guest ----

    /// Processes the notes and exits of a guest that has settled, and reports the choices of its scheduler.
    pub(super) fn coordinate(&mut self, guest: usize) {
        self.read_notes(guest);
        let now = self.now;
        self.coordination_of(guest).coordinator.advance(now);
        while let Some(cpu) = self.machines[guest].cpus.outbox.take(Message::exit) {
            let guest_state = self.coordination_of(guest);
            let state = &mut guest_state.protocol_states[cpu.index()];
            state.on_exit(&guest_state.with, false);
            state.on_interrupt(&guest_state.with, true);
        }
        for cpu in 0..self.coordination_of(guest).protocol_states.len() {
            self.process_report(guest, cpu);
            self.carry_out(guest, cpu);
        }
        self.schedule(guest);
    }

    fn read_notes(&mut self, guest: usize) {
        let machine = &mut self.machines[guest];
        let mut notes = machine.cpus.outbox.take_notes();
        let guest_state = self.coordination[guest].as_mut().expect("it coordinates");
        for note in notes.drain(..) {
            guest_state.detector.note(&machine.machine, note);
        }
        machine.cpus.outbox.reuse_notes(notes);
    }

    /// Reports the guest's current choice for a CPU to the protocol, unless the CPU is frozen.
    fn process_report(&mut self, guest: usize, cpu: usize) {
        let machine = &mut self.machines[guest];
        let guest_state = self.coordination[guest].as_mut().expect("it coordinates");
        let on = CpuId::new(cpu);
        if machine.machine.is_frozen(on) {
            return;
        }
        let choice = guest_state.choice(machine, on);
        let report = guest_state.protocol_states[cpu].on_pick(
            &guest_state.with,
            choice,
            guest_state.coordinator.granted(cpu).is_some(),
        );
        guest_state.totals.hints += u64::from(report.hint);
        if report.call {
            let cost = machine.cpus.costs.hypercall;
            guest_state.totals.hypercalls += 1;
            guest_state.totals.cost += cost;
            machine.cpus.delay(on, cost);
        }
    }

    // ---- On the host ----

    /// Processes the dispatches, stops and exits of vCPUs on a host that has settled.
    pub(super) fn coordinate_host(&mut self, host: usize) {
        let now = self.now;
        let mut notes = self.machines[host].cpus.outbox.take_notes();
        for note in notes.drain(..) {
            let (Note::Runs(entity, _) | Note::Stopped(entity)) = note else { continue };
            let Some((guest, cpu)) = self.coordinated_vcpu(host, entity) else { continue };
            let coordinator = &mut self.coordination_of(guest).coordinator;
            coordinator.advance(now);
            coordinator.set_running(cpu, matches!(note, Note::Runs(..)));
            self.schedule(guest);
        }
        self.machines[host].cpus.outbox.reuse_notes(notes);
        while let Some(on) = self.machines[host].cpus.outbox.take(Message::exit) {
            let vcpu = self.machines[host].machine.running(on);
            let vcpu = vcpu.and_then(|vcpu| self.coordinated_vcpu(host, vcpu));
            // A vCPU that has not entered its guest yet cannot exit.
            let is_present = |&(guest, cpu): &(usize, usize)| !self.machines[guest].machine.is_frozen(CpuId::new(cpu));
            if let Some((guest, cpu)) = vcpu.filter(is_present) {
                self.apply_event(guest, cpu, |state, with| state.on_exit(with, false));
            }
        }
    }

    /// Returns the guest and the CPU of an entity that is a vCPU of a coordinating guest.
    fn coordinated_vcpu(&self, host: usize, entity: EntityId) -> Option<(usize, usize)> {
        let number = self.vcpu_of[host].get(entity.index()).copied().flatten()? as usize;
        let (guest, cpu) = self.place_of(number);
        self.coordination[guest].is_some().then_some((guest, cpu))
    }

    /// Applies an event of the protocol to a vCPU.
    fn apply_event(&mut self, guest: usize, cpu: usize, event: impl FnOnce(&mut ProtocolState, &Coordination)) {
        let now = self.now;
        let guest_state = self.coordination_of(guest);
        guest_state.coordinator.advance(now);
        event(&mut guest_state.protocol_states[cpu], &guest_state.with);
        self.carry_out(guest, cpu);
        self.schedule(guest);
    }

    /// Injects an interrupt into vCPU `number`, which has no CPU.
    pub(super) fn inject(&mut self, number: usize) {
        let (guest, cpu) = self.place_of(number);
        self.apply_event(guest, cpu, |state, with| state.on_interrupt(with, false));
    }

    /// Records that vCPU `number` has lost its CPU or leaves its guest for an interrupt.
    pub(super) fn exit(&mut self, number: usize) {
        let (guest, cpu) = self.place_of(number);
        let pending = self.machines[guest].cpus.deferred.iter().any(|(on, _)| on.index() == cpu);
        self.apply_event(guest, cpu, |state, with| state.on_exit(with, pending));
    }

    /// Records that vCPU `number` halts.
    pub(super) fn halt_coordinated(&mut self, number: usize) {
        let (guest, cpu) = self.place_of(number);
        let now = self.now;
        let guest_state = self.coordination_of(guest);
        guest_state.coordinator.advance(now);
        guest_state.coordinator.record_sleep(cpu);
        self.apply_event(guest, cpu, ProtocolState::on_halt);
    }

    /// Reviews the boosts of a guest: at a tick, at the end of a window, and when the budget is used up or a limit is
    /// reached.
    pub(super) fn review(&mut self, guest: usize) {
        let now = self.now;
        self.reviews.clear(guest);
        // An entity may have left since the last visit.
        self.read_notes(guest);
        let guest_state = self.coordination_of(guest);
        guest_state.coordinator.advance(now);
        if guest_state.tick <= now {
            guest_state.tick = Instant::NEVER;
        }
        for cpu in 0..self.coordination_of(guest).protocol_states.len() {
            let machine = &mut self.machines[guest];
            machine.cpus.now = now;
            let guest_state = self.coordination[guest].as_mut().expect("it coordinates");
            let on = CpuId::new(cpu);
            if !machine.machine.is_frozen(on) {
                if let Some(entity) = machine.machine.running(on) {
                    guest_state.detector.review(&machine.machine, entity);
                }
                guest_state.protocol_states[cpu].on_exit(&guest_state.with, false);
            }
            self.process_report(guest, cpu);
            self.carry_out(guest, cpu);
        }
        // Work that became due at this instant requires a visit.
        let number = self.places[guest].number;
        if self.guests.get(number) > now {
            self.guests.set(number, self.machines[guest].next());
        }
        self.schedule(guest);
        assert!(self.reviews.get(guest) > now, "the review is done");
    }

    /// Grants a vCPU the boost that is due, or ends its boost if none is due.
    fn carry_out(&mut self, guest: usize, cpu: usize) {
        let guest_state = self.coordination[guest].as_mut().expect("it coordinates");
        guest_state.coordinator.request(cpu, guest_state.protocol_states[cpu].request);
        let (granted, due) = (guest_state.coordinator.granted(cpu), guest_state.coordinator.due(cpu));
        if granted == due {
            return;
        }
        let host = guest_state.host;
        let refused = !self.adjust_vcpu(guest, cpu, due);
        if refused {
            // An earlier boost of the vCPU may still be in force. End the boost.
            assert!(self.adjust_vcpu(guest, cpu, None), "what was granted once is granted again");
        }
        let guest_state = self.coordination_of(guest);
        guest_state.coordinator.grant(cpu, if refused { None } else { due }, refused);
        guest_state.totals.boosts += u64::from(granted.is_none() && !refused);
        guest_state.totals.refused += u64::from(refused);
        self.schedule_visit(host);
    }

    /// Requests a boost of a vCPU, or its end, from the host's policy. Returns whether the policy grants the request.
    fn adjust_vcpu(&mut self, guest: usize, cpu: usize, boost: Option<Boost>) -> bool {
        let guest_state = self.coordination[guest].as_mut().expect("it coordinates");
        let (entity, base) = guest_state.vcpus[cpu];
        let params = boost.map_or(base, |boost| boost.over(base));
        let machine = &mut self.machines[guest_state.host.index()];
        machine.cpus.now = self.now;
        let stays = *machine.machine.params(entity) == params;
        // A boost that changes no parameter does not count.
        let boosted = params != base;
        let traced = std::mem::replace(&mut guest_state.traced[cpu], boosted);
        if traced != boosted || (boosted && !stays) {
            machine.show(|| Event::Boosted { entity, boosted });
        }
        stays || machine.adjust(entity, params).is_ok()
    }

    /// Sets the parameters that an entity has without a boost. If the entity is boosted, its boost is applied to the
    /// new parameters, or ends if the policy refuses the boost.
    pub(super) fn rebase(&mut self, host: MachineId, entity: EntityId, params: Params) {
        let Some((guest, cpu)) = self.coordinated_vcpu(host.index(), entity) else { return };
        let now = self.now;
        let guest_state = self.coordination_of(guest);
        guest_state.coordinator.advance(now);
        guest_state.vcpus[cpu].1 = params;
        let granted = guest_state.coordinator.granted(cpu);
        if granted.is_some() && !self.adjust_vcpu(guest, cpu, granted) {
            assert!(self.adjust_vcpu(guest, cpu, None), "it has just been granted");
            let guest_state = self.coordination_of(guest);
            guest_state.coordinator.grant(cpu, None, true);
            guest_state.totals.refused += 1;
        }
        self.schedule(guest);
    }

    fn schedule(&mut self, guest: usize) {
        let now = self.now;
        let guest_state = self.coordination_of(guest);
        if !guest_state.coordinator.is_used() {
            guest_state.tick = Instant::NEVER;
        } else if guest_state.tick == Instant::NEVER {
            guest_state.tick = now.saturating_add(guest_state.with.tick);
        }
        let next = guest_state.coordinator.next().min(guest_state.tick);
        self.reviews.set(guest, next);
    }
}
