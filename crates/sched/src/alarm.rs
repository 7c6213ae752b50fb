//! [`Alarm`]: an instant at which a policy wants to be called, its owner, and the slots that a policy declares.

use crate::id::{CpuId, EntityId, GroupId};

/// The owner of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlarmOwner {
    /// The policy.
    Policy,
    /// A CPU.
    Cpu(CpuId),
    /// An entity; its alarms are removed with it.
    Entity(EntityId),
    /// A group; its alarms are removed with it.
    Group(GroupId),
}

/// An alarm: one of the slots the policy's descriptor declares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Alarm {
    /// Its owner.
    pub owner: AlarmOwner,
    /// The slot, from 0, among those declared for this kind of owner.
    pub slot: u8,
}

/// Whether an alarm reaches an idle CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlarmKind {
    /// Goes off whether the CPU idles or not.
    Timer,
    /// A periodic tick: cleared when its CPU idles. Only CPUs have ticks.
    Tick,
}

/// The alarm slots a policy uses, per kind of owner.
#[derive(Clone, Copy, Debug)]
pub struct AlarmSlots {
    /// The slots of the policy.
    pub policy: &'static [AlarmKind],
    /// The slots of each CPU.
    pub cpu: &'static [AlarmKind],
    /// The slots of each entity.
    pub entity: &'static [AlarmKind],
    /// The slots of each group.
    pub group: &'static [AlarmKind],
}

impl AlarmSlots {
    /// A policy that sets no alarm.
    pub const NONE: AlarmSlots = AlarmSlots { policy: &[], cpu: &[], entity: &[], group: &[] };
}
