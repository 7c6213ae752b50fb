//! [`Clients`]: the clients of a dispatcher, by entity and by CPU.

use super::client::Client;
use crate::kernel::Kernel;
use sched::{CpuId, EntityId};

/// The clients. A turn visits the clients of its CPU only, so these have a list per CPU.
pub(super) struct Clients<K: Kernel> {
    /// Indexed by entity.
    slots: Vec<Option<(EntityId, Client<K>)>>,
    /// The clients of each CPU, in the order of their slots.
    on: Vec<Vec<EntityId>>,
}

impl<K: Kernel> Clients<K> {
    pub(super) fn new(cpus: usize) -> Clients<K> {
        Clients { slots: Vec::new(), on: vec![Vec::new(); cpus] }
    }

    pub(super) fn insert(&mut self, e: EntityId, client: Client<K>) {
        if self.slots.len() <= e.index() {
            self.slots.resize_with(e.index() + 1, || None);
        }
        self.list(e, client.cpu);
        self.slots[e.index()] = Some((e, client));
    }

    pub(super) fn remove(&mut self, e: EntityId) -> Option<Client<K>> {
        let slot = self.slots.get_mut(e.index())?;
        let (_, client) = slot.take_if(|(id, _)| *id == e)?;
        self.unlist(e, client.cpu);
        Some(client)
    }

    /// Makes `e` a client of CPU `to`.
    pub(super) fn move_to(&mut self, e: EntityId, to: CpuId) {
        let Some(client) = self.get_mut(e) else { return };
        let from = std::mem::replace(&mut client.cpu, to);
        self.unlist(e, from);
        self.list(e, to);
    }

    fn list(&mut self, e: EntityId, cpu: CpuId) {
        let here = &mut self.on[cpu.index()];
        here.insert(here.partition_point(|other| other.index() < e.index()), e);
    }

    fn unlist(&mut self, e: EntityId, cpu: CpuId) {
        self.on[cpu.index()].retain(|other| *other != e);
    }

    pub(super) fn get(&self, e: EntityId) -> Option<&Client<K>> {
        self.slots.get(e.index())?.as_ref().filter(|(id, _)| *id == e).map(|(_, client)| client)
    }

    pub(super) fn get_mut(&mut self, e: EntityId) -> Option<&mut Client<K>> {
        self.slots.get_mut(e.index())?.as_mut().filter(|(id, _)| *id == e).map(|(_, client)| client)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (EntityId, &Client<K>)> {
        self.slots.iter().flatten().map(|(e, client)| (*e, client))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (EntityId, &mut Client<K>)> {
        self.slots.iter_mut().flatten().map(|(e, client)| (*e, client))
    }

    /// Returns the clients of `cpu`.
    pub(super) fn iter_on(&self, cpu: CpuId) -> impl Iterator<Item = (EntityId, &Client<K>)> {
        self.on[cpu.index()].iter().filter_map(|e| Some((*e, self.get(*e)?)))
    }

    /// Returns the number of clients of `cpu`.
    pub(super) fn count_on(&self, cpu: CpuId) -> usize {
        self.on[cpu.index()].len()
    }

    /// Returns the entity of client number `at`, below [`Clients::count_on`], of `cpu`.
    pub(super) fn entity_on(&self, cpu: CpuId, at: usize) -> Option<EntityId> {
        self.on[cpu.index()].get(at).copied()
    }

    /// Returns client number `at`, below [`Clients::count_on`], of `cpu`.
    pub(super) fn nth_on(&mut self, cpu: CpuId, at: usize) -> Option<(EntityId, &mut Client<K>)> {
        let e = self.entity_on(cpu, at)?;
        Some((e, self.get_mut(e)?))
    }
}
