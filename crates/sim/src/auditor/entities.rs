//! The auditor's record of each entity, from the inputs and actions of its machine.

use super::jobs::Jobs;
use super::reservations::Periods;
use sched::{CpuId, EntityId, Instant, Nanos, Params};

/// Position of an entity that is not in the list of waiting entities.
const NOWHERE: usize = usize::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Blocked,
    Waiting,
    Running(CpuId),
}

#[derive(Debug)]
pub(super) struct Entity {
    pub(super) id: EntityId,
    pub(super) params: Params,
    pub(super) state: State,
    /// Bits of the reasons why the entity is held. Zero: the entity is not held.
    pub(super) held: u8,
    /// CPU of the entity's current or last run. `None` before the first run, and after a change of its parameters.
    pub(super) last: Option<CpuId>,
    /// Instant since which the entity waits without being held.
    pub(super) waits_since: Instant,
    waiting_at: usize,
    /// Charged CPU time of the entity: its finished runs, and its current run up to the last charge.
    pub(super) ran: Nanos,
    /// CPU time of the entity at the last mark.
    pub(super) marked: Nanos,
    pub(super) jobs: Jobs,
    pub(super) periods: Option<Periods>,
}

impl Entity {
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_at != NOWHERE
    }
}

/// All attached entities, by index, with the list of entities that wait and are not held.
#[derive(Debug, Default)]
pub(super) struct Entities {
    slots: Vec<Option<Entity>>,
    waiting: Vec<EntityId>,
}

impl Entities {
    pub(super) fn add(&mut self, id: EntityId, params: Params) {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(Entity {
            id,
            params,
            state: State::Blocked,
            held: 0,
            last: None,
            waits_since: Instant::NEVER,
            waiting_at: NOWHERE,
            ran: Nanos::ZERO,
            marked: Nanos::ZERO,
            jobs: Jobs::default(),
            periods: None,
        });
    }

    pub(super) fn remove(&mut self, id: EntityId) -> Option<Entity> {
        self.leave_waiting(id);
        self.get(id)?;
        self.slots[id.index()].take()
    }

    pub(super) fn get(&self, id: EntityId) -> Option<&Entity> {
        self.slots.get(id.index())?.as_ref().filter(|entity| entity.id == id)
    }

    pub(super) fn get_mut(&mut self, id: EntityId) -> Option<&mut Entity> {
        self.slots.get_mut(id.index())?.as_mut().filter(|entity| entity.id == id)
    }

    /// Returns the entity in the slot of `id`, of any generation.
    pub(super) fn occupant(&self, id: EntityId) -> Option<EntityId> {
        Some(self.slots.get(id.index())?.as_ref()?.id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entity> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entity> {
        self.slots.iter_mut().flatten()
    }

    /// Returns the entities that wait and are not held.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Entity> {
        self.waiting.iter().filter_map(|&id| self.get(id))
    }

    /// Adds `id` to the waiting entities. Returns whether `id` has just begun to wait.
    pub(super) fn join_waiting(&mut self, id: EntityId, now: Instant) -> bool {
        let at = self.waiting.len();
        let Some(entity) = self.get_mut(id).filter(|entity| !entity.is_waiting()) else { return false };
        entity.waits_since = now;
        entity.waiting_at = at;
        self.waiting.push(id);
        true
    }

    /// Removes `id` from the waiting entities. Returns the instant since which the entity waited.
    pub(super) fn leave_waiting(&mut self, id: EntityId) -> Option<Instant> {
        let entity = self.get_mut(id).filter(|entity| entity.is_waiting())?;
        let at = std::mem::replace(&mut entity.waiting_at, NOWHERE);
        let since = std::mem::replace(&mut entity.waits_since, Instant::NEVER);
        self.waiting.swap_remove(at);
        if let Some(&moved) = self.waiting.get(at) {
            self.get_mut(moved).expect("a waiting entity is attached").waiting_at = at;
        }
        Some(since)
    }
}
