//! The [`Policy`] trait: the choice of the entity that runs next, and of the end of its time slice. Read this first.
//!
//! The machine reports facts to its policy and requests decisions. A policy never reads a clock, a kernel or a driver.
//! The life cycle of an entity in the calls to a policy:
//!
//! ```text
//! attach                         the entity exists, blocked
//!   wake                         it is waiting, until `pick` returns it or `sleep` removes it
//!     pick → run it              the machine runs it
//!       charge                   it has used this amount of CPU time
//!     put(Expired | Kicked | Yielded)   it is waiting again
//!     put(Blocked)               it is blocked again
//!   sleep                        it was waiting and is now blocked (paused or detached)
//! detach                         it is blocked and removed; no later call mentions it
//! ```
//!
//! At one instant, the machine first reports all facts. The machine then calls [`Policy::plan`] once, and
//! [`Policy::pick`] for each CPU that needs a decision.

use crate::alarm::Alarm;
use crate::answers::{Position, PromiseState};
use crate::cx::Cx;
use crate::id::{CpuId, EntityId, GroupId};
use crate::params::{GroupParams, Params, Refused};
use crate::time::{Instant, Nanos};

/// A scheduling policy. A policy is pure: no clock, no IO, no randomness, no floats, no iteration over hash maps. A
/// policy allocates only in [`attach`](Policy::attach), [`detach`](Policy::detach), [`adjust`](Policy::adjust) and
/// [`group`](Policy::group).
pub trait Policy: Send {
    /// Performs admission control and adds `e`, which is blocked.
    ///
    /// # Errors
    /// The policy cannot meet the request, and its state has not changed.
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused>;

    /// Removes `e`, which is blocked. No later call mentions `e`.
    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>);

    /// Applies the change of the parameters of `e` from `old` to `cx.params(e)`. `e` may be in any state. A running `e`
    /// has just been charged, unless its CPU is frozen. If `e` runs on a CPU on which it may no longer run, the machine
    /// then kicks this CPU.
    ///
    /// # Errors
    /// The policy cannot meet the request, and its state has not changed. The machine restores `old`.
    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused>;

    /// Records that a group was created or changed, or that an empty group is about to be removed.
    ///
    /// # Errors
    /// The policy cannot meet the request, and its state has not changed.
    fn group(&mut self, _g: GroupId, _change: GroupChange<'_>, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        Ok(())
    }

    /// Enqueues `e`, which was blocked and is now waiting.
    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>);

    /// Records an event for `e`, which is not blocked.
    fn event(&mut self, _e: EntityId, _what: Notice, _cx: &mut Cx<'_>) {}

    /// Dequeues `e`, which was waiting or held and is now blocked (paused or about to be detached).
    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>);

    /// Charges `e`, which is blocked in this policy, for `ran` of CPU time used in another class. Called only if this
    /// policy is a class of a composed policy.
    fn owe(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    /// Charges the running `e` for `ran` of CPU time since the last charge. `ran` is never zero. The machine calls this
    /// function before `put` and `adjust`, before a change of a group's parameters, and when the driver reports a
    /// measurement. The policy itself calls this function with the result of [`Cx::take_ran`].
    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>);

    /// Handles a yield of the running `from` to `to`. Returns whether `to` will run. If so, the machine then makes
    /// `from` yield.
    fn yield_to(&mut self, _from: EntityId, _to: EntityId, _cx: &mut Cx<'_>) -> bool {
        false
    }

    /// Handles an alarm of this policy that has fired. The alarm may be late and is no longer set.
    fn alarm(&mut self, alarm: Alarm, _cx: &mut Cx<'_>) {
        unreachable!("a policy that sets no alarm got {alarm:?}");
    }

    /// Decides for several CPUs together, once per settle, before any `pick`. May kick further CPUs.
    fn plan(&mut self, _cx: &mut Cx<'_>) {}

    /// Takes back `prev.entity`, which has just stopped running on `cpu`. The entity is blocked or waits again.
    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>);

    /// Returns the entity that `cpu` runs now, and the end of its time slice. The entity must be waiting, not held, and
    /// allowed on `cpu`.
    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision;

    /// Returns whether the policy classifies `e` as interactive.
    fn interactive(&self, _e: EntityId) -> bool {
        false
    }

    /// Returns the state of the reservation of `e` in its current period; `None` if the policy keeps no reservation for
    /// `e`.
    fn promise(&self, _e: EntityId) -> Option<PromiseState> {
        None
    }

    /// Returns the position of `e` in the order of the policy. `None`: [`Position`] has no variant for this order.
    fn position(&self, _e: EntityId) -> Option<Position> {
        None
    }

    /// Returns the credit of `e` as of the last charge: the balance from which the policy subtracts CPU time, in the unit
    /// of the policy. Below zero after an overrun. `None`: the policy has no credits.
    fn credit(&self, _e: EntityId) -> Option<i64> {
        None
    }

    /// Passes the policy's state of `e` to `show` as named whole numbers, for tables and tests.
    fn inspect(&self, _e: EntityId, _show: &mut dyn FnMut(&'static str, i64)) {}
}

/// A decision: the entity to run, and the end of its time slice.
#[must_use = "a decision that is not carried out loses the entity"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Entity to run; `None`: the CPU idles.
    pub run: Option<EntityId>,
    /// End of the time slice, later than now; [`Instant::NEVER`] for no end. Ignored for an idle CPU.
    pub until: Instant,
}

impl Decision {
    /// The decision to let the CPU idle.
    pub const IDLE: Decision = Decision { run: None, until: Instant::NEVER };

    /// Decides that `e` runs until `e` blocks, yields or is kicked.
    pub const fn forever(e: EntityId) -> Decision {
        Decision { run: Some(e), until: Instant::NEVER }
    }

    /// Decides that `e` runs at most until `until`.
    pub const fn until(e: EntityId, until: Instant) -> Decision {
        Decision { run: Some(e), until }
    }
}

/// The cause of a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Wake {
    /// The first wake-up of the entity.
    New {
        /// Entity that forked the new entity, if any.
        parent: Option<EntityId>,
    },
    /// Another entity woke the entity.
    By {
        /// Entity that caused the wake-up.
        waker: EntityId,
        /// Whether the waker is about to block.
        sync: bool,
    },
    /// An interrupt or a packet.
    Interrupt,
    /// A timer of the entity.
    Timer,
    /// The end of a pause.
    Resumed,
}

/// An event for an entity that is not blocked, so no wake-up is needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Notice {
    /// An interrupt or a packet for the entity.
    Interrupt,
    /// A report of the entity's guest that the entity has spun for a lock or a barrier.
    SpinWait {
        /// Length of the wait.
        waited: Nanos,
    },
}

/// An entity that stopped running, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Entity that stopped running.
    pub entity: EntityId,
    /// Reason of the stop.
    pub why: StopReason,
}

/// The reason why an entity stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// The entity is blocked: it waits for something other than a CPU.
    Blocked,
    /// The entity yielded. The entity is waiting.
    Yielded,
    /// The time slice of the entity ended. The entity is waiting.
    Expired,
    /// The CPU of the entity was kicked. The entity is waiting.
    Kicked,
}

/// A change of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupChange<'a> {
    /// The group is new; its parameters are `cx.group_params(g)`.
    Created {
        /// Parent of the group.
        parent: GroupId,
    },
    /// The parameters of the group changed from `old` to `cx.group_params(g)`.
    Params {
        /// Previous parameters of the group.
        old: &'a GroupParams,
    },
    /// The group is about to be removed; it has no members and no subgroups.
    Removed,
}
