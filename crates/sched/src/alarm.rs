//! [`Alarm`]: an instant at which a policy is called, the owner of the alarm, and the slots that a policy declares.

use crate::id::{CpuId, EntityId, GroupId};

/// The owner of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AlarmOwner {
    /// The policy.
    Policy,
    /// A CPU.
    Cpu(CpuId),
    /// An entity. The machine clears the alarms of an entity when the entity is detached.
    Entity(EntityId),
    /// A group. The machine clears the alarms of a group when the group is removed.
    Group(GroupId),
}

/// An alarm, named by its owner and one of the slots that the policy's descriptor declares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Alarm {
    /// Owner of the alarm.
    pub owner: AlarmOwner,
    /// Slot number of the alarm, from 0, among the slots declared for this type of owner.
    pub slot: u8,
}

/// The type of an alarm. The type determines whether the alarm fires on an idle CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlarmKind {
    /// A timer: fires on busy and idle CPUs.
    Timer,
    /// A periodic tick: cleared when its CPU idles. Only CPUs have ticks.
    Tick,
}

/// The alarm slots that a policy uses, by type of owner.
#[derive(Clone, Copy, Debug)]
pub struct AlarmSlots {
    /// Alarm slots of the policy.
    pub policy: &'static [AlarmKind],
    /// Alarm slots of each CPU.
    pub cpu: &'static [AlarmKind],
    /// Alarm slots of each entity.
    pub entity: &'static [AlarmKind],
    /// Alarm slots of each group.
    pub group: &'static [AlarmKind],
}

impl AlarmSlots {
    /// The slots of a policy that sets no alarm.
    pub const NONE: AlarmSlots = AlarmSlots { policy: &[], cpu: &[], entity: &[], group: &[] };
}
