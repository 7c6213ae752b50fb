//! Changes of promises at run time.

use super::dispatcher::Dispatcher;
use super::journal::Ledger;
use super::kept::KeptRecord;
use super::refusal::Refusal;
use super::request::PromiseRequest;
use crate::kernel::Kernel;
use sched::{CpuSet, EntityId, Instant, Nanos, Params, Refused, Reservation};
use trace::Event;

impl<K: Kernel> Dispatcher<K> {
    /// Changes the promise that `e` is part of to `slice` in every `period`, on as many CPUs as before. The limit of
    /// the promise stays, and each client stays on its CPU. The policy decides when the first new period begins. Also
    /// returns the CPUs whose agents must be woken, even after a refusal.
    ///
    /// # Errors
    /// The change is refused; nothing has changed, except that a client on several CPUs may begin a new period.
    pub fn adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> (Result<(), Refusal>, CpuSet) {
        let answer = self.try_adjust(e, slice, period);
        (answer, self.take_calls())
    }

    fn try_adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        let now = self.now();
        let client = self.clients.get(e).ok_or(Refusal::NoPromise)?;
        let (tree, limit) = (client.tree, client.reservation.limit);
        if client.gang.is_some() {
            return Err(Refusal::Unsupported {
                reason: "the promise is to a gang, whose slice and period do not change",
                remedy: "end the promise, and make a new one",
            });
        }
        let clients = || self.clients.iter().filter(|(_, client)| client.tree == tree);
        let entities: Vec<EntityId> = clients().map(|(e, _)| e).collect();
        let full = client.name.as_str();
        let name = full.rsplit_once('/').filter(|_| entities.len() > 1).map_or(full, |(name, _)| name).to_string();
        let affinity = clients().map(|(_, client)| client.cpu).collect();
        let reservation = Reservation { limit, ..Reservation::new(slice, period) };
        let request = PromiseRequest { name, reservation, cpus: entities.len(), gang: false, affinity };
        let part = request.per_cpu()?;
        let before: Vec<Params> = entities.iter().map(|&e| *self.machine.params(e)).collect();
        for (nth, (&e, was)) in entities.iter().zip(&before).enumerate() {
            self.charge_until_now(e, now);
            let params = Params { reservation: Some(part), affinity: self.machine.allowed(e), ..*was };
            if let Err(refused) = self.machine.adjust(now, e, params) {
                for (&e, was) in entities.iter().zip(&before).take(nth) {
                    let again = self.machine.adjust(now, e, *was);
                    assert!(again.is_ok(), "an earlier promise fits again: {again:?}");
                }
                self.settle(None, now);
                return Err(self.no_room_for_change(request, refused, tree));
            }
        }
        for e in entities {
            self.begin_adjusted(e, part, now);
        }
        self.settle(None, now);
        Ok(())
    }

    /// Returns the refusal of `request` for promise number `promise`, whose own CPU time counts as free.
    fn no_room_for_change(&self, request: PromiseRequest, refused: Refused, promise: usize) -> Refusal {
        let Refused::Utilisation { free_ppm, on, .. } = refused else { return Refusal::Promise(refused) };
        let own = request.affinity;
        let mut room = self.no_room(request, own, (free_ppm, on));
        room.held.retain(|held| held.promise != promise);
        Refusal::NoRoom(Box::new(room))
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
