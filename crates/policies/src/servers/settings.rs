//! [`Settings`]: the differences between the policies that use servers, the knobs that they share, and their guarantee.

use super::account::Kind;
use sched::{Knob, LoadBounds, Nanos};

/// The order of urgency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The earlier deadline is more urgent.
    EarliestDeadline,
    /// The shorter relative deadline is more urgent.
    DeadlineMonotonic,
}

/// The choice between two equally urgent entities if one of them has just run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ties {
    /// The entity that has not just run.
    Turn,
    /// The entity that has just run.
    Stay,
}

/// The instant from which the periods of a reservation without a `start` are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grid {
    /// The attachment of the entity.
    Seen,
    /// The start of the machine.
    Boot,
}

/// The settings of the policies that use servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    /// Whether each entity is assigned to one CPU.
    pub(crate) partitioned: bool,
    /// Whether an entity with a soft limit continues when its budget is used up.
    pub(crate) extratime: bool,
    /// Maximum time until the CPU picks again; zero: until the budget is used up.
    pub(crate) quantum: Nanos,
    /// Whether a deadline before the end of the period is accepted.
    pub(crate) constrained: bool,
    /// Period of an entity without a reservation.
    pub(crate) default_period: Nanos,
    pub(crate) default_budget: Nanos,
    pub(crate) ties: Ties,
    pub(crate) grid: Grid,
    /// Whether a reservation that does not fit is refused.
    pub(crate) closed: bool,
}

pub(crate) const EXTRATIME: &str = "an entity with a soft limit continues when its budget is used up";

pub(crate) const GRID: Knob = Knob::choice(
    "grid",
    &["seen", "boot"],
    "periods count from the attachment of an entity, or from the start of the machine",
)
.from("boot: rt_update_deadline, xen/common/sched/rt.c, and RT-Xen 2, where deadlines count from 0");
pub(crate) const ADMISSION: Knob = Knob::switch("admission", false, "a reservation that does not fit is refused")
    .from("on: rt_try_set_utilization, Xen at 04584da792 (not at c447b7308b); RT-Xen: an analysis in advance");
pub(crate) const DEFAULT_PERIOD: Knob = Knob::time(
    "default-period",
    Nanos::ms(10),
    (Nanos::us(10), Nanos::s(10)),
    "the period of an entity without a reservation",
)
.from("RTDS_DEFAULT_PERIOD, xen/common/sched/rt.c");
pub(crate) const DEFAULT_BUDGET: Knob = Knob::time(
    "default-budget",
    Nanos::ms(4),
    (Nanos::us(10), Nanos::s(10)),
    "the budget of an entity without a reservation",
)
.from("RTDS_DEFAULT_BUDGET, xen/common/sched/rt.c");

/// Returns the maximum part of a budget that can be missing. If each entity is assigned to one CPU, or the host has one
/// CPU, and the reservations fit, every budget is delivered in every period. This holds only if all entities are
/// runnable after the last entity was attached. An entity that blocks defers its budget or waits for the next period.
/// With `grid = boot`, the first period may be short. A sporadic budget has no periods.
pub(crate) fn reservations(load: &LoadBounds<'_>, settings: &Settings) -> Option<Nanos> {
    let steady = !load.has_changes && !load.has_sleepers;
    let own_cpu = settings.partitioned || load.host.cpus == 1;
    let periods = settings.grid == Grid::Seen && settings.kind != Kind::Sporadic;
    (settings.closed && steady && own_cpu && periods).then_some(Nanos::ZERO)
}
