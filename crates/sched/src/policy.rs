//! The [`Policy`] trait: which entity runs next, and until when. Read this first.
//!
//! A machine tells a policy facts and asks it for decisions. A policy never reads a clock, a kernel or a driver. The
//! life cycle of an entity, as a policy sees it:
//!
//! ```text
//! attach                         it exists, blocked
//!   wake                         it is waiting: it must come out of some later `pick`
//!     pick → run it              the machine runs it
//!       charge                   it has used this much CPU
//!     put(Expired | Kicked | Yielded)   it is waiting again
//!     put(Blocked)               it is blocked again
//!   sleep                        it was waiting and is blocked now (paused, stopped)
//! detach                         it is gone: blocked when it goes, and never mentioned again
//! ```
//!
//! At one instant the machine passes on all facts. Then it calls [`Policy::plan`] once, and [`Policy::pick`] for each
//! CPU that needs a decision.

use crate::alarm::Alarm;
use crate::answers::{Position, PromiseState};
use crate::cx::Cx;
use crate::id::{CpuId, EntityId, GroupId};
use crate::params::{GroupParams, Params, Refused};
use crate::time::{Instant, Nanos};

/// A scheduling policy. Pure: no clock, no IO, no randomness, no floats, no iteration over hash maps, and no
/// allocation outside [`attach`](Policy::attach), [`detach`](Policy::detach), [`adjust`](Policy::adjust) and
/// [`group`](Policy::group).
pub trait Policy: Send {
    /// `e` joins, blocked. Admission control happens here.
    ///
    /// # Errors
    /// The policy cannot meet the request, and its state has not changed.
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused>;

    /// `e` leaves. It is blocked and never mentioned again.
    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>);

    /// The parameters of `e` changed from `old` to `cx.params(e)`. `e` may be blocked, waiting or running; if it runs,
    /// it has just been charged. The machine kicks a CPU on which `e` may no longer run.
    ///
    /// # Errors
    /// The policy cannot meet the request, and its state has not changed. The machine restores `old`.
    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused>;

    /// A group was created or changed, or is about to be removed (then it is empty).
    ///
    /// # Errors
    /// As for [`adjust`](Policy::adjust).
    fn group(&mut self, _g: GroupId, _change: GroupChange<'_>, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        Ok(())
    }

    /// `e` was blocked and is waiting now.
    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>);

    /// Something happened to `e`, which is already waiting or running.
    fn event(&mut self, _e: EntityId, _what: Notice, _cx: &mut Cx<'_>) {}

    /// `e` was waiting and is blocked now (paused, stopped).
    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>);

    /// `e`, which is blocked in this policy, has used `ran` of CPU time elsewhere and is charged for it here. For
    /// policies that are part of another.
    fn owe(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    /// `e` has used `ran` of CPU time since it was last charged. Comes before `put`, `adjust` and `detach`, and
    /// whenever the policy pulls it with [`Cx::take_ran`]'s result. Never zero.
    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>);

    /// `from`, running, yields to `to`. Returns whether `to` will run; if so, `from` yields afterwards.
    fn yield_to(&mut self, _from: EntityId, _to: EntityId, _cx: &mut Cx<'_>) -> bool {
        false
    }

    /// An alarm this policy set has gone off, perhaps late. It is no longer set.
    fn alarm(&mut self, alarm: Alarm, _cx: &mut Cx<'_>) {
        unreachable!("a policy that sets no alarm got {alarm:?}");
    }

    /// Decides for several CPUs together, once per instant, before any `pick`. May kick further CPUs.
    fn plan(&mut self, _cx: &mut Cx<'_>) {}

    /// `prev.entity` has just stopped running on `cpu`: it is blocked, or waits again.
    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>);

    /// Which entity runs on `cpu` now, and until when. The entity must be waiting, not held, and allowed on `cpu`.
    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision;

    /// Whether the policy classifies `e` as interactive.
    fn interactive(&self, _e: EntityId) -> bool {
        false
    }

    /// The current period of the reservation of `e`; `None` if the policy keeps no reservation for it.
    fn promise(&self, _e: EntityId) -> Option<PromiseState> {
        None
    }

    /// The position of `e` in the order of the policy; `None` if that order is not one of [`Position`].
    fn position(&self, _e: EntityId) -> Option<Position> {
        None
    }

    /// Shows the policy's state of `e` as named whole numbers, for tables and tests.
    fn inspect(&self, _e: EntityId, _show: &mut dyn FnMut(&'static str, i64)) {}
}

/// A decision: which entity runs, and until when.
#[must_use = "a decision that is not carried out loses the entity"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The entity; `None`: the CPU idles.
    pub run: Option<EntityId>,
    /// The end of the time slice, later than now; [`Instant::NEVER`] for no end. Ignored when idle.
    pub until: Instant,
}

impl Decision {
    /// The CPU idles.
    pub const IDLE: Decision = Decision { run: None, until: Instant::NEVER };

    /// `e` runs until it blocks, yields or is kicked.
    pub const fn forever(e: EntityId) -> Decision {
        Decision { run: Some(e), until: Instant::NEVER }
    }

    /// `e` runs at most until `until`.
    pub const fn until(e: EntityId, until: Instant) -> Decision {
        Decision { run: Some(e), until }
    }
}

/// The cause of a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// It runs for the first time, forked by `parent` if it has one.
    New {
        /// The entity that forked it.
        parent: Option<EntityId>,
    },
    /// Another entity woke it.
    By {
        /// The waking entity.
        waker: EntityId,
        /// Whether the waker is about to block.
        sync: bool,
    },
    /// An interrupt or a packet.
    Interrupt,
    /// A timer of its own.
    Timer,
    /// It had been paused.
    Resumed,
}

/// An event for an entity that need not be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// An interrupt or a packet has come for it.
    Interrupt,
    /// Its guest reports that it has waited this long for a spin lock.
    SpinWait {
        /// The length of the wait.
        waited: Nanos,
    },
}

/// An entity that stopped running, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// The entity.
    pub entity: EntityId,
    /// The reason.
    pub why: StopReason,
}

/// The reason why an entity stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// It waits for something other than a CPU. It is blocked.
    Blocked,
    /// It yielded. It is waiting.
    Yielded,
    /// Its time slice ended. It is waiting.
    Expired,
    /// Its CPU was kicked. It is waiting.
    Kicked,
}

/// A change of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupChange<'a> {
    /// It is new; its parameters are `cx.group_params(g)`.
    Created {
        /// The group above it.
        parent: GroupId,
    },
    /// Its parameters were `old` and are now `cx.group_params(g)`.
    Params {
        /// The previous parameters.
        old: &'a GroupParams,
    },
    /// It is removed; it has no members and no subgroups.
    Removed,
}
