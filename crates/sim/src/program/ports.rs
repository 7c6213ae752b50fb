//! Ports, inboxes, and rings that tasks serve: the endpoints of the network in programs.
//!
//! Data arrives in memory at once, even while a guest has no physical CPU. An interrupt notifies the waiting task on
//! the CPU on which the task last ran. An absent CPU of a guest takes the interrupt when the CPU returns.

use super::ObjectId;
use super::ring::Notify;
use super::serving::Notified;
use super::shared::Held;
use super::task_state::Waiting;
use super::tasks::StepOutcome;
use crate::cpus::Deferred;
use crate::driver::Driver;
use crate::network::Packet;
use crate::outbox::Traffic;
use sched::{CpuId, EntityId, Notice, State, Wake};
use trace::Event;

impl Driver<'_> {
    // ---- Steps of tasks ----

    /// Makes `entity`, the last task in the queue of `port`, send or wait.
    pub(super) fn leave_by(&mut self, cpu: CpuId, entity: EntityId, port: ObjectId) -> StepOutcome {
        let mut went = false;
        while let Some(next) = self.send_next(port) {
            went |= next == entity;
        }
        if went { StepOutcome::Next } else { self.wait_outside(cpu, entity, port) }
    }

    /// Sends for the task that has waited longest at `port`, if the port has room.
    fn send_next(&mut self, port: ObjectId) -> Option<EntityId> {
        let object = self.tasks.object(port);
        let &(entity, bytes) = object.writers.front()?;
        let Held::Port { window, unread } = &mut object.held else { unreachable!("a port is one") };
        if bytes > *window - *unread {
            return None;
        }
        // A window of the maximum size never fills.
        *unread += if *window == u64::MAX { 0 } else { bytes };
        object.writers.pop_front();
        self.cpus.outbox.ship(Traffic::Sent { port, entity, bytes });
        Some(entity)
    }

    /// Makes `entity`, the last task in the queue of `inbox`, read or wait.
    pub(super) fn read(&mut self, cpu: CpuId, entity: EntityId, inbox: ObjectId) -> StepOutcome {
        let mut went = false;
        while let Some(next) = self.read_next(inbox) {
            went |= next == entity;
        }
        if went { StepOutcome::Next } else { self.wait_outside(cpu, entity, inbox) }
    }

    /// Reads for the task that has waited longest at `inbox`, if the inbox has enough bytes.
    fn read_next(&mut self, inbox: ObjectId) -> Option<EntityId> {
        let (object, outbox) = (&mut self.tasks.objects[inbox.0 as usize], &mut self.cpus.outbox);
        let &(entity, bytes) = object.waiters.front()?;
        let Held::Inbox { filled, parts, .. } = &mut object.held else { unreachable!("an inbox is one") };
        if bytes > *filled {
            return None;
        }
        *filled -= bytes;
        object.waiters.pop_front();
        let mut rest = bytes;
        while rest > 0 {
            let (flow, there) = parts.front_mut().expect("it holds what it is filled with");
            let (flow, part) = (*flow, rest.min(*there));
            *there -= part;
            if *there == 0 {
                parts.pop_front();
            }
            rest -= part;
            outbox.ship(Traffic::Read { entity, flow, bytes: part });
        }
        Some(entity)
    }

    /// Makes `entity` take the next packet from `ring`, or wait.
    pub(super) fn fetch(&mut self, cpu: CpuId, entity: EntityId, ring: ObjectId) -> StepOutcome {
        let (object, outbox) = (&mut self.tasks.objects[ring.0 as usize], &mut self.cpus.outbox);
        let Held::Ring(serving) = &mut object.held else { unreachable!("a ring is one") };
        serving.server = Some(entity);
        if serving.ring.passes && serving.left == 0 {
            outbox.ship(Traffic::Pass { entity });
            serving.left = serving.waiting.len();
        }
        serving.left = serving.left.saturating_sub(1);
        if let Some(packet) = serving.waiting.pop_front() {
            serving.handled.push((entity, packet));
            return StepOutcome::Next;
        }
        object.waiters.push_back((entity, 0));
        self.wait_outside(cpu, entity, ring)
    }

    /// Makes `entity` handle the packet that `entity` has taken from `ring`.
    pub(super) fn handle(&mut self, cpu: CpuId, entity: EntityId, ring: ObjectId) -> StepOutcome {
        let Held::Ring(serving) = &self.tasks.object(ring).held else { unreachable!("a ring is one") };
        let handled = serving.handled.iter().find(|&&(handler, _)| handler == entity);
        let cost = handled.and_then(|(_, packet)| packet.cost).unwrap_or(serving.ring.cost);
        let seed = self.tasks.seed;
        let time = self.tasks.of(entity).draw(cost, seed);
        if time.is_zero() { StepOutcome::Next } else { self.burst(cpu, entity, time) }
    }

    /// Forwards the packet from `ring` that `entity` has handled.
    pub(super) fn send_on(&mut self, entity: EntityId, ring: ObjectId) -> StepOutcome {
        let Held::Ring(serving) = &mut self.tasks.object(ring).held else { unreachable!("a ring is one") };
        let at = serving.handled.iter().position(|&(handler, _)| handler == entity).expect("it has taken one");
        let (_, packet) = serving.handled.remove(at);
        let (packet, later) = (Packet { cost: None, ..packet }, serving.ring.passes);
        self.cpus.outbox.ship(Traffic::Onward { entity, packet, later });
        self.show(|| Event::Served { entity });
        StepOutcome::Next
    }

    /// Puts the packet that `entity` handles back into its ring, for another server, because `entity` ends.
    pub(super) fn hand_back(&mut self, entity: EntityId) {
        self.cpus.outbox.ship(Traffic::Pass { entity });
        for id in
            (0..self.tasks.objects.len()).map(|at| ObjectId(u32::try_from(at).expect("there are fewer than 2^32")))
        {
            let Held::Ring(serving) = &mut self.tasks.object(id).held else { continue };
            if serving.hand_back(entity) {
                self.let_through(id);
            }
        }
    }

    fn wait_outside(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId) -> StepOutcome {
        let now = self.cpus.now;
        let state = self.tasks.of(entity);
        state.waiting = Waiting::Outside(id);
        state.since = now;
        self.block_task(cpu)
    }

    // ---- Arrivals ----

    /// Puts a packet into a ring. `None`: no room. Otherwise returns the notification of the server, if a notification
    /// is due.
    pub(crate) fn put(&mut self, ring: ObjectId, packet: Packet) -> Option<Option<Notified>> {
        let object = self.tasks.object(ring);
        let Held::Ring(serving) = &mut object.held else { panic!("a hop is a ring") };
        if serving.waiting.len() >= serving.ring.room as usize {
            return None;
        }
        serving.waiting.push_back(packet);
        let tells = !object.waiters.is_empty() || serving.ring.notify == Notify::Always;
        if !tells || serving.is_noticed {
            return Some(None);
        }
        serving.is_noticed = true;
        Some(Some(Notified { delay: serving.ring.delay, kick: serving.ring.kick }))
    }

    /// Puts bytes of `flow` into an inbox. Returns whether the inbox has room for the bytes.
    pub(crate) fn deliver(&mut self, inbox: ObjectId, flow: u32, bytes: u64) -> bool {
        let Held::Inbox { room, filled, parts } = &mut self.tasks.object(inbox).held else {
            panic!("a flow ends in an inbox")
        };
        if bytes > *room - *filled {
            return false;
        }
        *filled += bytes;
        match parts.back_mut() {
            Some((last, there)) if *last == flow => *there += bytes,
            _ => parts.push_back((flow, bytes)),
        }
        true
    }

    /// Frees room for `bytes` at a port.
    pub(crate) fn make_room(&mut self, port: ObjectId, bytes: u64) {
        let Held::Port { window, unread } = &mut self.tasks.object(port).held else {
            panic!("a flow begins at a port")
        };
        if *window != u64::MAX {
            *unread = unread.checked_sub(bytes).expect("no more is read than was sent");
        }
    }

    /// Notifies the task that has waited longest for `id`, by an interrupt to the CPU on which the task last ran. If no
    /// task waits, notifies the busy server of a ring with [`Notify::Always`].
    pub(crate) fn notify(&mut self, id: ObjectId) {
        let object = self.tasks.object(id);
        let server = match &mut object.held {
            Held::Ring(serving) => {
                serving.is_noticed = false;
                serving.server.filter(|_| serving.ring.notify == Notify::Always)
            }
            _ => None,
        };
        let waiter = object.waiters.front().or(object.writers.front()).map(|&(entity, _)| entity);
        let Some(notified) = waiter.or(server).filter(|notified| self.machine.is_attached(*notified)) else { return };
        let home = match self.machine.state(notified) {
            State::Running(cpu) => cpu,
            _ => self.cpus.tasks[notified.index()]
                .and_then(|it| it.last_cpu)
                .unwrap_or_else(|| self.machine.last_cpu(notified)),
        };
        // A notice for `id` that is already deferred on this CPU covers this notice, too.
        if self.cpus.deferred.contains(&(home, Deferred::Notice(id)))
            || self.cpus.defer(home, Deferred::Notice(id), Wake::Interrupt)
        {
            return;
        }
        self.cpus.interrupt(home);
        if waiter.is_none() {
            self.notice(notified, Notice::Interrupt);
        }
        self.let_through(id);
    }

    /// Wakes the tasks that wait for `id` and can continue.
    pub(crate) fn let_through(&mut self, id: ObjectId) {
        loop {
            let object = self.tasks.object(id);
            let next = match &mut object.held {
                Held::Ring(serving) => match (object.waiters.front(), serving.waiting.front()) {
                    (Some(&(entity, _)), Some(&packet)) => {
                        object.waiters.pop_front();
                        serving.waiting.pop_front();
                        serving.handled.push((entity, packet));
                        serving.server = Some(entity);
                        Some(entity)
                    }
                    _ => None,
                },
                Held::Inbox { .. } => self.read_next(id),
                _ => self.send_next(id),
            };
            let Some(entity) = next else { return };
            self.tasks.of(entity).waiting = Waiting::Nothing;
            self.wake_task(entity, Wake::Interrupt);
        }
    }
}
