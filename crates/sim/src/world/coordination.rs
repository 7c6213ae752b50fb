//! What the world does for guests that coordinate with their host: it shows detector, protocol and coordinator what happens, and
//! adjusts vCPUs. A world without such guests does nothing of this.

use super::World;
use super::guest_coordination::GuestCoordination;
use crate::coordination::{Boost, Coordinated, Coordination, Coordinator, Detector, Note, Seat};
use crate::outbox::Message;
use sched::{CpuId, EntityId, Instant, Params};
use trace::{Event, MachineId};

impl World<'_> {
    pub(super) fn coordinate_with(&mut self, host: MachineId, guest: MachineId, of: &[EntityId], with: Coordination) {
        let params = |&vcpu: &EntityId| (vcpu, *self.machines[host.index()].machine.params(vcpu));
        self.offices[guest.index()] = Some(Box::new(GuestCoordination {
            with,
            host,
            vcpus: of.iter().map(params).collect(),
            told: vec![false; of.len()],
            seats: vec![Seat::default(); of.len()],
            detector: Detector::new(with.detector, of.len()),
            coordinator: Coordinator::new(with, of.len(), self.now),
            tick: Instant::NEVER,
            came_of_it: Coordinated::default(),
        }));
        self.coordinates = true;
        self.machines[host.index()].coordinate();
        self.machines[guest.index()].coordinate();
    }

    /// What has come of the coordination of `guest` and its host by now; `None`: they do not coordinate.
    #[must_use]
    pub fn coordinated(&self, guest: MachineId) -> Option<Coordinated> {
        let office = self.offices[guest.index()].as_ref()?;
        let mut coordinator = office.coordinator.clone();
        coordinator.advance(self.now);
        let Coordinator { boosted, over_budget, over_limit, .. } = coordinator;
        Some(Coordinated { boosted, over_budget, over_limit, ..office.came_of_it })
    }

    fn office(&mut self, guest: usize) -> &mut GuestCoordination {
        self.offices[guest].as_mut().expect("its caller has seen that it coordinates")
    }

    /// The guest and the CPU of it that vCPU `number` is.
    fn place_of(&self, number: usize) -> (usize, usize) {
        let (guest, cpu) = self.vcpus[number].place();
        (guest.index(), cpu.index())
    }

    // ---- In the guest ----

    /// The guest has settled.
    pub(super) fn coordinate(&mut self, guest: usize) {
        self.read_notes(guest);
        let now = self.now;
        self.office(guest).coordinator.advance(now);
        while let Some(cpu) = self.machines[guest].cpus.outbox.take(Message::exit) {
            let office = self.office(guest);
            let seat = &mut office.seats[cpu.index()];
            seat.exits(&office.with, false);
            seat.injected(&office.with, true);
        }
        for cpu in 0..self.office(guest).seats.len() {
            self.hear(guest, cpu);
            self.carry_out(guest, cpu);
        }
        self.schedule(guest);
    }

    fn read_notes(&mut self, guest: usize) {
        let machine = &mut self.machines[guest];
        let mut notes = machine.cpus.outbox.take_notes();
        let office = self.offices[guest].as_mut().expect("it coordinates");
        for note in notes.drain(..) {
            office.detector.note(&machine.machine, note);
        }
        machine.cpus.outbox.reuse_notes(notes);
    }

    /// What the guest tells of a CPU, if that has one to tell it.
    fn hear(&mut self, guest: usize, cpu: usize) {
        let machine = &mut self.machines[guest];
        let office = self.offices[guest].as_mut().expect("it coordinates");
        let on = CpuId::new(cpu);
        if machine.machine.is_frozen(on) {
            return;
        }
        let sight = office.sight(machine, on);
        let said = office.seats[cpu].chosen(&office.with, sight, office.coordinator.given(cpu).is_some());
        office.came_of_it.hints += u64::from(said.hint);
        if said.call {
            let cost = machine.cpus.costs.hypercall;
            office.came_of_it.hypercalls += 1;
            office.came_of_it.cost += cost;
            machine.cpus.delay(on, cost);
        }
    }

    // ---- On the host ----

    /// The host has settled.
    pub(super) fn coordinate_host(&mut self, host: usize) {
        let now = self.now;
        let mut notes = self.machines[host].cpus.outbox.take_notes();
        for note in notes.drain(..) {
            let (Note::Runs(entity, _) | Note::Stopped(entity)) = note else { continue };
            let Some((guest, cpu)) = self.coordinated_vcpu(host, entity) else { continue };
            let coordinator = &mut self.office(guest).coordinator;
            coordinator.advance(now);
            coordinator.runs(cpu, matches!(note, Note::Runs(..)));
            self.schedule(guest);
        }
        self.machines[host].cpus.outbox.reuse_notes(notes);
        while let Some(on) = self.machines[host].cpus.outbox.take(Message::exit) {
            let vcpu = self.machines[host].machine.running(on);
            let vcpu = vcpu.and_then(|vcpu| self.coordinated_vcpu(host, vcpu));
            // One that has come just now was not interrupted.
            let is_present = |&(guest, cpu): &(usize, usize)| !self.machines[guest].machine.is_frozen(CpuId::new(cpu));
            if let Some((guest, cpu)) = vcpu.filter(is_present) {
                self.act(guest, cpu, |seat, with| seat.exits(with, false));
            }
        }
    }

    /// The guest and the CPU that an entity is, if it is a vCPU of a guest that coordinates.
    fn coordinated_vcpu(&self, host: usize, entity: EntityId) -> Option<(usize, usize)> {
        let number = self.vcpu_of[host].get(entity.index()).copied().flatten()? as usize;
        let (guest, cpu) = self.place_of(number);
        self.offices[guest].is_some().then_some((guest, cpu))
    }

    /// Something happens to a vCPU by the rules of its protocol.
    fn act(&mut self, guest: usize, cpu: usize, happens: impl FnOnce(&mut Seat, &Coordination)) {
        let now = self.now;
        let office = self.office(guest);
        office.coordinator.advance(now);
        happens(&mut office.seats[cpu], &office.with);
        self.carry_out(guest, cpu);
        self.schedule(guest);
    }

    /// vCPU `number`, which has no CPU, gets an interrupt.
    pub(super) fn inject(&mut self, number: usize) {
        let (guest, cpu) = self.place_of(number);
        self.act(guest, cpu, |seat, with| seat.injected(with, false));
    }

    /// vCPU `number` has lost its CPU.
    pub(super) fn exit(&mut self, number: usize) {
        let (guest, cpu) = self.place_of(number);
        let pending = self.machines[guest].cpus.deferred.iter().any(|(on, _)| on.index() == cpu);
        self.act(guest, cpu, |seat, with| seat.exits(with, pending));
    }

    /// vCPU `number` gives its CPU away.
    pub(super) fn rest(&mut self, number: usize) {
        let (guest, cpu) = self.place_of(number);
        let now = self.now;
        let office = self.office(guest);
        office.coordinator.advance(now);
        office.coordinator.sleeps(cpu);
        self.act(guest, cpu, Seat::halts);
    }

    /// A tick, the end of a window, a budget or a limit.
    pub(super) fn review(&mut self, guest: usize) {
        let now = self.now;
        self.reviews.clear(guest);
        // Somebody may have left since it was last visited.
        self.read_notes(guest);
        let office = self.office(guest);
        office.coordinator.advance(now);
        if office.tick <= now {
            office.tick = Instant::NEVER;
        }
        for cpu in 0..self.office(guest).seats.len() {
            let machine = &mut self.machines[guest];
            machine.cpus.now = now;
            let office = self.offices[guest].as_mut().expect("it coordinates");
            let on = CpuId::new(cpu);
            if !machine.machine.is_frozen(on) {
                if let Some(entity) = machine.machine.running(on) {
                    office.detector.review(&machine.machine, entity);
                }
                office.seats[cpu].exits(&office.with, false);
            }
            self.hear(guest, cpu);
            self.carry_out(guest, cpu);
        }
        // Something may have come for it at this instant that only its visit will see.
        let number = self.places[guest].number;
        if self.guests.get(number) > now {
            self.guests.set(number, self.machines[guest].next());
        }
        self.schedule(guest);
        assert!(self.reviews.get(guest) > now, "what was due has been done");
    }

    /// A vCPU gets what it is to have.
    fn carry_out(&mut self, guest: usize, cpu: usize) {
        let office = self.offices[guest].as_mut().expect("it coordinates");
        office.coordinator.wish(cpu, office.seats[cpu].wish);
        let (given, due) = (office.coordinator.given(cpu), office.coordinator.due(cpu));
        if given == due {
            return;
        }
        let host = office.host;
        let refused = !self.adjust_vcpu(guest, cpu, due);
        if refused {
            // It may still have another boost.
            assert!(self.adjust_vcpu(guest, cpu, None), "what was granted once is granted again");
        }
        let office = self.office(guest);
        office.coordinator.give(cpu, if refused { None } else { due }, refused);
        office.came_of_it.boosts += u64::from(given.is_none() && !refused);
        office.came_of_it.refused += u64::from(refused);
        self.rouse(host);
    }

    /// Asks the host's policy for a boost of a vCPU, or for what it has without one; whether that is granted.
    fn adjust_vcpu(&mut self, guest: usize, cpu: usize, boost: Option<Boost>) -> bool {
        let office = self.offices[guest].as_mut().expect("it coordinates");
        let (entity, base) = office.vcpus[cpu];
        let params = boost.map_or(base, |boost| boost.over(base));
        let machine = &mut self.machines[office.host.index()];
        machine.cpus.now = self.now;
        let stays = *machine.machine.params(entity) == params;
        // One that changes nothing is none.
        let boosted = params != base;
        let told = std::mem::replace(&mut office.told[cpu], boosted);
        if told != boosted || (boosted && !stays) {
            machine.show(|| Event::Boosted { entity, boosted });
        }
        stays || machine.adjust(entity, params).is_ok()
    }

    /// Something else is asked for an entity from outside: of a vCPU that is boosted, for when it is not.
    pub(super) fn rebase(&mut self, host: MachineId, entity: EntityId, params: Params) {
        let Some((guest, cpu)) = self.coordinated_vcpu(host.index(), entity) else { return };
        let now = self.now;
        let office = self.office(guest);
        office.coordinator.advance(now);
        office.vcpus[cpu].1 = params;
        let given = office.coordinator.given(cpu);
        if given.is_some() && !self.adjust_vcpu(guest, cpu, given) {
            assert!(self.adjust_vcpu(guest, cpu, None), "it has just been granted");
            let office = self.office(guest);
            office.coordinator.give(cpu, None, true);
            office.came_of_it.refused += 1;
        }
        self.schedule(guest);
    }

    fn schedule(&mut self, guest: usize) {
        let now = self.now;
        let office = self.office(guest);
        if !office.coordinator.is_used() {
            office.tick = Instant::NEVER;
        } else if office.tick == Instant::NEVER {
            office.tick = now.saturating_add(office.with.tick);
        }
        let next = office.coordinator.next().min(office.tick);
        self.reviews.set(guest, next);
    }
}
