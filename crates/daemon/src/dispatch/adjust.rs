//! Changes of promises at run time.

use super::client::Client;
use super::dispatcher::Dispatcher;
use super::journal::Ledger;
use super::kept::KeptRecord;
use super::refusal::{Refusal, would_fit};
use super::request::{KeptBy, Others, PromiseRequest};
use crate::kernel::Kernel;
use sched::{CpuSet, EntityId, GroupId, Instant, Nanos, Params, Reservation};
use trace::Event;

/// A change of a promise for which there is room.
struct Change {
    /// The clients that change.
    entities: Vec<EntityId>,
    gang: Option<GroupId>,
    /// New reservation of each client.
    part: Reservation,
    /// CPUs of the clients.
    affinity: CpuSet,
    /// Name of the promise.
    name: String,
}

impl<K: Kernel> Dispatcher<K> {
    /// Changes the promise that `e` is part of to `slice` in every `period`, on as many CPUs as before. The limit of
    /// the promise stays, and each client stays on its CPU. The policy decides when the first new period begins. The
    /// first new periods of a gang begin together. Also returns the CPUs whose agents must be woken.
    ///
    /// # Errors
    /// The change is refused; nothing has changed.
    pub fn adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> (Result<(), Refusal>, CpuSet) {
        let answer = self.try_adjust(e, slice, period);
        (answer, self.take_calls())
    }

    /// Returns whether [`adjust`](Dispatcher::adjust) would change the promise, without changing it.
    ///
    /// # Errors
    /// The change would be refused.
    pub fn would_adjust(&self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        self.plan(e, slice, period).map(drop)
    }

    /// Returns a change for which there is room.
    fn plan(&self, e: EntityId, slice: Nanos, period: Nanos) -> Result<Change, Refusal> {
        let client = self.clients.get(e).ok_or(Refusal::NoPromise)?;
        let (tree, limit, gang) = (client.tree, client.reservation.limit, client.gang);
        let by = KeptBy::Dispatcher(client.by);
        // The promises of a gang change together.
        let is_changed = |client: &Client<K>| client.tree == tree || (gang.is_some() && client.gang == gang);
        let clients = || self.clients.iter().filter(|(_, client)| is_changed(client));
        let entities: Vec<EntityId> = clients().map(|(e, _)| e).collect();
        let cpus = clients().filter(|(_, client)| client.tree == tree).count();
        let full = client.name.as_str();
        let name =
            full.rsplit_once('/').filter(|_| entities.len() > 1 || gang.is_some()).map_or(full, |(name, _)| name);
        let affinity: CpuSet = clients().map(|(_, client)| client.cpu).collect();
        let reservation = Reservation { limit, ..Reservation::new(slice, period) };
        // The last member of a gang stays in its gang.
        let (gang_of_many, others) = (gang.is_some() && entities.len() > 1, Others::Later);
        let request =
            PromiseRequest { by, cpus, gang: gang_of_many, others, affinity, ..PromiseRequest::new(name, reservation) };
        let part = request.per_cpu()?;
        let all = entities.len();
        let slice = Nanos::ns(slice.as_ns().div_ceil(cpus as u64)).saturating_mul(all as u64);
        let request = PromiseRequest { reservation: Reservation { slice, ..reservation }, cpus: all, ..request };
        // The CPUs have room for a smaller promise, even if interfering threads take more than when it was made.
        let is_smaller = |was: Reservation| {
            let wide = |time: Nanos| u128::from(time.as_ns());
            part.period >= was.period && wide(part.slice) * wide(was.period) <= wide(was.slice) * wide(part.period)
        };
        if !clients().all(|(_, client)| is_smaller(client.reservation)) {
            self.check_change(&request, part, &is_changed)?;
        }
        Ok(Change { entities, gang, part, affinity, name: request.name })
    }

    fn try_adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        let now = self.now();
        let Change { entities, gang, part, affinity, name } = self.plan(e, slice, period)?;
        let group = match gang {
            Some(_) => Some(self.create_gang(&name, now)?),
            None => None,
        };
        // The copy of the machine has admitted the change with the time that is withheld for the new periods.
        self.release_withheld(&affinity, now);
        for &e in &entities {
            self.charge_until_now(e, now);
            self.change(e, GroupId::ROOT, part, now);
        }
        if let Some(group) = group {
            self.form_gang(group, &entities, part, now);
        }
        for e in entities {
            self.begin_adjusted(e, part, now);
        }
        self.withhold(&affinity, now);
        self.remove_gang_if_empty(gang, now);
        self.settle(None, now);
        Ok(())
    }

    /// Checks on a copy of the machine whether the clients that `is_changed` selects may change to `request`, with the
    /// reservation `part` per CPU. The CPU time of these clients counts as free.
    fn check_change(
        &self,
        request: &PromiseRequest,
        part: Reservation,
        is_changed: &dyn Fn(&Client<K>) -> bool,
    ) -> Result<(), Refusal> {
        let mut room = self.no_room(request.clone(), request.affinity, (0, None));
        let changed: Vec<usize> =
            self.clients.iter().filter(|(_, client)| is_changed(client)).map(|(_, client)| client.tree).collect();
        room.held.retain(|held| !changed.contains(&held.promise));
        would_fit(room, part)
    }

    /// Changes the reservation and the group of `e`.
    fn change(&mut self, e: EntityId, group: GroupId, reservation: Reservation, now: Instant) {
        let was = *self.machine.params(e);
        let params = Params { reservation: Some(reservation), affinity: self.machine.allowed(e), group, ..was };
        let answer = self.machine.adjust(now, e, params);
        assert!(answer.is_ok(), "a copy of the machine has admitted the change: {answer:?}");
    }

    /// Makes the gang `group` of `entities`, which have just left their gang. The policy has postponed the first new
    /// period of each of them. The periods of the gang begin when all of them can begin.
    fn form_gang(&mut self, group: GroupId, entities: &[EntityId], part: Reservation, now: Instant) {
        let begins = |&e: &EntityId| match self.machine.promise(e) {
            Some(promise) if promise.remaining <= 0 => promise.deadline,
            _ => now,
        };
        let start = entities.iter().map(begins).max();
        for &e in entities {
            self.change(e, group, Reservation { start, ..part }, now);
            if let Some(client) = self.clients.get_mut(e) {
                client.gang = Some(group);
            }
        }
    }

    fn begin_adjusted(&mut self, e: EntityId, reservation: Reservation, now: Instant) {
        let params = *self.machine.params(e);
        self.journal.note(now, Event::Adjust { entity: e, params: Box::new(params) });
        let Some(client) = self.clients.get_mut(e) else { return };
        client.reservation = reservation;
        // The current period has two reservations.
        client.ledger = client.ledger.map(Ledger::interrupted);
        if !std::mem::replace(&mut client.kept, KeptRecord::new(reservation.period)).is_kept() {
            self.journal.note(now, Event::Kept { entity: e, kept: true, missed: 0, of: 0 });
        }
        client.slices_used_up = 0;
        self.call.insert(client.cpu);
        self.kicked.insert(client.cpu);
    }
}
