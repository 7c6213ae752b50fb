//! [`Scheduler`]: the schedulers of SimSo that a file may name, and the policies in their place.

use crate::PolicyChoice;
use input::knobs::{KnobSetting, KnobValue};
use input::source::Span;

/// The order of the jobs under a scheduler of SimSo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The earliest absolute deadline first.
    Deadline,
    /// The greatest number in the field `priority` first.
    Priority,
    /// The shortest period first.
    Period,
}

/// A scheduler of SimSo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduler {
    /// Name of the class.
    pub(super) class: &'static str,
    pub(super) order: Order,
    /// Whether the scheduler is for one processor. Jobs of equal priority then run in the order of their activations.
    pub(super) is_mono: bool,
}

/// The schedulers that a file may name.
pub(super) const SCHEDULERS: &[Scheduler] = &[
    Scheduler { class: "simso.schedulers.EDF", order: Order::Deadline, is_mono: false },
    Scheduler { class: "simso.schedulers.EDF_mono", order: Order::Deadline, is_mono: true },
    Scheduler { class: "simso.schedulers.FP", order: Order::Priority, is_mono: false },
    Scheduler { class: "simso.schedulers.RM", order: Order::Period, is_mono: false },
    Scheduler { class: "simso.schedulers.RM_mono", order: Order::Period, is_mono: true },
];

/// Returns the policy that schedules as SimSo's schedulers of this order.
pub(super) fn policy(order: Order, place: Span) -> PolicyChoice {
    let (name, knobs): (&str, &[(&str, &str)]) = match order {
        Order::Deadline => ("edf", &[("enforce", "none"), ("placement", "global")]),
        Order::Priority | Order::Period => ("rt", &[("rt-throttling", "off")]),
    };
    let setting = |&(name, value): &(&str, &str)| KnobSetting {
        name: name.to_string(),
        value: KnobValue::Text(value.to_string()),
        place: None,
    };
    PolicyChoice { name: name.to_string(), place, knobs: knobs.iter().map(setting).collect() }
}
