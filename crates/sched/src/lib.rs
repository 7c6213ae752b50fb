//! The scheduling core of Tactus.
//!
//! A [`Policy`] decides which entity runs. A [`Machine`] keeps the state of all entities (blocked, waiting, held,
//! running), turns [`Input`]s into [`Action`]s and asserts the laws. Both are independent of clocks, kernels and
//! drivers.
//!
//! Read [`policy`] first, then [`machine`].
#![no_std]

extern crate alloc;

mod alarm;
mod alarms;
mod answers;
mod cx;
pub mod descriptor;
mod entity;
mod explanation;
pub mod id;
pub mod machine;
pub mod params;
pub mod policy;
pub mod queue;
mod source;
pub mod time;
mod truth;

pub use alarm::{Alarm, AlarmKind, AlarmOwner, AlarmSlots};
pub use answers::{FairPosition, Position, PromiseState};
pub use cx::{AlarmBase, Cx, Running};
pub use descriptor::{
    Bound, Build, CapBound, Conserving, Descriptor, Guarantees, Knob, KnobError, Knobs, LoadBounds, Unit,
};
pub use entity::{Held, State};
pub use explanation::Explanation;
pub use id::{CpuId, CpuSet, EntityId, GroupId};
pub use machine::{Action, Input, Kicks, Machine};
pub use params::{Class, GroupParams, Limit, Params, Quota, Refused, Reservation, RtPriority, Topology, Warp, Weight};
pub use policy::{Decision, GroupChange, Notice, Policy, StopReason, Stopped, Wake};
pub use source::{MadePolicy, PolicySource};
pub use time::{Instant, Nanos, Virtual};
