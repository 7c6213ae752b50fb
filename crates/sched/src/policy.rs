//! The [`Policy`] trait: who runs next, and until when. Read this first.
//!
//! A policy is told facts and is asked for decisions; it never looks at a clock, a kernel or a driver.
//! The life of an entity, as a policy sees it:
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
//! At one instant the machine passes on all facts, then calls [`Policy::plan`] once, then [`Policy::pick`]
//! for each CPU in need.

use crate::cx::Cx;
use crate::id::{CpuId, EntityId, GroupId};
use crate::params::{GroupParams, Params, Refused};
use crate::standing::{Position, PromiseState};
use crate::time::{Instant, Nanos};

/// A scheduling policy. Pure: no clock, no IO, no randomness, no floats, no iteration over hash maps, and no
/// allocation outside [`attach`](Policy::attach), [`detach`](Policy::detach), [`adjust`](Policy::adjust) and
/// [`group`](Policy::group).
pub trait Policy: Send {
    /// `e` joins, blocked. Admission speaks here.
    ///
    /// # Errors
    /// The wish cannot be met; the policy is as it was before.
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused>;

    /// `e` leaves; it is blocked and never mentioned again.
    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>);

    /// What is asked for `e` was `old` and is now `cx.params(e)`. `e` may be blocked, waiting or running; if it
    /// runs, it has just been charged. A CPU that `e` may no longer run on is kicked by the machine.
    ///
    /// # Errors
    /// The wish cannot be met; the policy is as it was before, and the machine restores `old`.
    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused>;

    /// A group was created or changed, or is about to go (it is empty then).
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

    /// `e`, which is blocked here, has used `ran` of CPU time elsewhere, and pays for it here. For policies that are part of another.
    fn owe(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    /// `e` has used `ran` of CPU time since it was last charged. Comes before `put`, `adjust` and `detach`, and
    /// whenever the policy pulls it with [`Cx::take_ran`]'s result. Never zero.
    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>);

    /// `from`, running, asks that `to` run in its place. Says whether it will; `from` yields afterwards if so.
    fn yield_to(&mut self, _from: EntityId, _to: EntityId, _cx: &mut Cx<'_>) -> bool {
        false
    }

    /// An alarm this policy set has gone off, perhaps late. It is no longer set.
    fn alarm(&mut self, alarm: Alarm, _cx: &mut Cx<'_>) {
        unreachable!("a policy that sets no alarm got {alarm:?}");
    }

    /// Choices that concern several CPUs, once per instant, before any `pick`. May kick further CPUs.
    fn plan(&mut self, _cx: &mut Cx<'_>) {}

    /// `prev.entity` has just stopped running on `cpu`: it is blocked, or waits again.
    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>);

    /// Who runs on `cpu` now, and until when. The one chosen must be waiting, not held, and allowed on `cpu`.
    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision;

    /// Whether the policy takes `e` for an interactive entity.
    fn interactive(&self, _e: EntityId) -> bool {
        false
    }

    /// The current period of the promise of `e`; `None` where the policy keeps no promise for it.
    fn promise(&self, _e: EntityId) -> Option<PromiseState> {
        None
    }

    /// The place of `e` in the order of the policy; `None` where that order is not one of [`Position`].
    fn position(&self, _e: EntityId) -> Option<Position> {
        None
    }

    /// Shows what the policy keeps about `e`, as named whole numbers, for tables and tests.
    fn inspect(&self, _e: EntityId, _show: &mut dyn FnMut(&'static str, i64)) {}
}

/// A decision: who runs, and until when.
#[must_use = "a decision that is not carried out loses the entity"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Who; `None`: nobody, the CPU idles.
    pub run: Option<EntityId>,
    /// The end of the slice, later than now; [`Instant::NEVER`] for no end. Ignored when idle.
    pub until: Instant,
}

impl Decision {
    /// Nobody runs.
    pub const IDLE: Decision = Decision { run: None, until: Instant::NEVER };

    /// `e` runs until it stops of its own accord or is kicked.
    pub const fn forever(e: EntityId) -> Decision {
        Decision { run: Some(e), until: Instant::NEVER }
    }

    /// `e` runs at most until `until`.
    pub const fn until(e: EntityId, until: Instant) -> Decision {
        Decision { run: Some(e), until }
    }
}

/// Why an entity wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// It runs for the first time, forked by `parent` if it has one.
    New {
        /// Who forked it.
        parent: Option<EntityId>,
    },
    /// Another entity woke it.
    By {
        /// Who.
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

/// What happens to an entity that need not be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// An interrupt or a packet has come for it.
    Interrupt,
    /// Its guest says that it has waited this long for a spin lock.
    SpinWait {
        /// How long.
        waited: Nanos,
    },
}

/// Who stopped running, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Who.
    pub entity: EntityId,
    /// Why.
    pub why: StopReason,
}

/// Why an entity stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// It waits for something other than a CPU. It is blocked.
    Blocked,
    /// It gave its turn away. It is waiting.
    Yielded,
    /// Its slice ended. It is waiting.
    Expired,
    /// Its CPU was kicked. It is waiting.
    Kicked,
}

/// What happened to a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupChange<'a> {
    /// It is new; its parameters are `cx.group_params(g)`.
    Created {
        /// The group above it.
        parent: GroupId,
    },
    /// Its parameters were `old` and are now `cx.group_params(g)`.
    Params {
        /// What they were.
        old: &'a GroupParams,
    },
    /// It goes; it has no members and no subgroups.
    Removed,
}

/// Whose alarm it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlarmOwner {
    /// The policy's own.
    Policy,
    /// A CPU's.
    Cpu(CpuId),
    /// An entity's; goes with it.
    Entity(EntityId),
    /// A group's; goes with it.
    Group(GroupId),
}

/// An alarm: one of the slots the policy's descriptor declares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Alarm {
    /// Whose.
    pub owner: AlarmOwner,
    /// Which of the slots declared for that kind of owner, from 0.
    pub slot: u8,
}

/// Whether an alarm reaches an idle CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlarmKind {
    /// Goes off whatever the CPU does.
    Timer,
    /// A periodic tick: cleared when its CPU idles. Only CPUs have ticks.
    Tick,
}

/// The alarm slots a policy uses, per kind of owner.
#[derive(Clone, Copy, Debug)]
pub struct AlarmSlots {
    /// The policy's own.
    pub policy: &'static [AlarmKind],
    /// Each CPU's.
    pub cpu: &'static [AlarmKind],
    /// Each entity's.
    pub entity: &'static [AlarmKind],
    /// Each group's.
    pub group: &'static [AlarmKind],
}

impl AlarmSlots {
    /// A policy that sets no alarm.
    pub const NONE: AlarmSlots = AlarmSlots { policy: &[], cpu: &[], entity: &[], group: &[] };
}

/// Why an entity that could run is kept from running by its policy: neither waiting nor blocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Held {
    /// A quota is used up (CFS bandwidth, RT throttling).
    Throttled = 1,
    /// Above its cap (Credit).
    Parked = 2,
    /// Its reservation is used up and hard.
    Depleted = 4,
    /// Its siblings lag (strict co-scheduling).
    CoStopped = 8,
}

impl Held {
    /// Every reason, in the order of their bits.
    pub const ALL: [Held; 4] = [Held::Throttled, Held::Parked, Held::Depleted, Held::CoStopped];

    /// The name a trace uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Held::Throttled => "throttled",
            Held::Parked => "parked",
            Held::Depleted => "depleted",
            Held::CoStopped => "co-stopped",
        }
    }
}
