//! The slots of entities and groups. Each group has a linked list of its members.

use crate::entity::State;
use crate::id::{CpuId, GroupId};
use crate::params::GroupParams;
use crate::time::Nanos;

/// The null link.
pub(super) const NO_ENTITY: u32 = u32::MAX;

/// The state of an entity that changes with every decision. The parameters are stored apart, in `Truth::params`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    pub(crate) state: State,
    /// Reasons for which the entity is held, as [`Held`](crate::entity::Held) bits.
    pub(crate) held: u8,
    pub(super) held_reported: u8,
    pub(super) hold_listed: bool,
    pub(crate) class: u8,
    /// Whether affinity and confinement allow the entity on every CPU.
    pub(crate) anywhere: bool,
    pub(super) attached: bool,
    /// CPU on which the entity runs or last ran.
    pub(crate) cpu: CpuId,
    /// CPU time charged to the entity since its attachment. Law 5.
    pub(crate) charged: Nanos,
    pub(super) next_member: u32,
    pub(super) prev_member: u32,
}

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(super) generation: u32,
    pub(super) attached: bool,
    pub(crate) params: GroupParams,
    pub(crate) parent: Option<GroupId>,
    pub(super) children: u32,
    pub(super) first_member: u32,
}
