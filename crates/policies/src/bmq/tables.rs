//! [`Tables`]: the rule of BMQ as numbers, for a port to a language in which this crate does not run.

use super::rule::{Bmq, Boost};
use crate::project_c::{Expired, Kind, ONE_BETTER, Rule, STEAL_MOST, TIMER_LEAST, Task, Yielder, Yields};
use sched::{CpuId, Instant, Knobs, Nanos};

/// Maximum boost of all versions, in both directions.
pub const BOOST_MAX: Boost = 12;
const BOOSTS: usize = 25;
/// Number of nice values, from −20.
const NICES: usize = 40;

/// The effect of a yield, by the knob `yield`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum YieldEffect {
    /// The task loses its boost.
    GiveUp,
    /// None.
    Ignored,
    /// The next task runs once.
    Skip,
}

/// The rule of BMQ for a setting of its knobs. An index of a boost is the boost plus [`BOOST_MAX`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tables {
    /// Length of a time slice.
    pub slice: Nanos,
    /// Remainder below which a time slice counts as used up.
    pub rest_least: Nanos,
    /// Minimum time for which a timer is set.
    pub timer_least: Nanos,
    /// For each boost: the length below which a run improves the boost by one when the task blocks.
    pub short_runs: [Nanos; BOOSTS],
    /// Length above which a run worsens the boost by one when the task blocks.
    pub long_run: Nanos,
    /// Length above which a sleep improves the boost.
    pub sleep_above: Nanos,
    /// Binary logarithm of the time of sleep for each step of improvement. Unit: ns.
    pub sleep_shift: u32,
    /// Maximum number of these steps.
    pub sleep_most: u32,
    /// Whether an improvement takes a boost that is better than the best of its kind back to this best.
    pub clamps: bool,
    /// For each kind, normal, batch and idle: the best boost to which a task climbs; `None`: it does not climb.
    pub best: [Option<Boost>; 3],
    /// The worst boost.
    pub worst: Boost,
    /// The boost of a task without a parent.
    pub first: Boost,
    /// The boost after a yield.
    pub yielded: Boost,
    /// Whether a task that yields goes to the tail of its level.
    pub yielder_goes_last: bool,
    /// For each boost of the parent: the boost of a new child.
    pub children: [Boost; BOOSTS],
    /// For each nice value from −20 on, and each boost: the level. Lower levels are more urgent. Range: 1 … 127.
    pub levels: [[u8; BOOSTS]; NICES],
    /// The effect of a yield.
    pub yields: YieldEffect,
    /// Whether a woken task is placed on a CPU of the same or the next better level.
    pub one_better: bool,
    /// Maximum number of tasks in a queue that a CPU examines before it idles.
    pub steal_most: u32,
}

impl Tables {
    /// Returns the tables for these knobs of the policy `bmq`.
    #[must_use]
    pub fn new(knobs: &Knobs) -> Tables {
        let (rule, now) = (Bmq::new(knobs), Instant::ZERO);
        let of = |nice, state| Task {
            kind: Kind::Normal,
            nice,
            slice: rule.slice(),
            last_ran: now,
            home: CpuId::new(0),
            state,
        };
        // A boost beyond the limit of a version does not occur in it.
        let boost = |index: usize| {
            let boost = Boost::try_from(index).expect("it is small") - BOOST_MAX;
            boost.clamp(-rule.reach(), rule.reach())
        };
        let nice = |index: usize| i32::try_from(index).expect("it is small") - 20;
        let level = |nice, boost| u8::try_from(rule.level(&of(nice, boost), now)).expect("a level is below 128");
        let mut sunken = of(0, 0);
        (0..=2 * BOOST_MAX).for_each(|_| rule.expired(&mut sunken, Expired::Queued, now));
        let mut yielder = of(0, 0);
        let yielder_goes_last = rule.yields(&mut yielder, now) == Yielder::GoesLast;
        let sleep = rule.sleep();
        Tables {
            slice: rule.slice(),
            rest_least: rule.rest_least(),
            timer_least: TIMER_LEAST,
            short_runs: core::array::from_fn(|at| rule.short_run(boost(at))),
            long_run: rule.long_run(),
            sleep_above: sleep.above,
            sleep_shift: sleep.shift,
            sleep_most: sleep.most.unsigned_abs(),
            clamps: rule.clamps(),
            best: [Kind::Normal, Kind::Batch, Kind::Idle].map(|kind| rule.best_of(kind)),
            worst: sunken.state,
            first: rule.first_state(0, now),
            yielded: yielder.state,
            yielder_goes_last,
            children: core::array::from_fn(|at| rule.forked(&of(0, 0), &boost(at), now)),
            levels: core::array::from_fn(|at| core::array::from_fn(|to| level(nice(at), boost(to)))),
            yields: match Yields::of(knobs) {
                Yields::GiveUp => YieldEffect::GiveUp,
                Yields::Ignored => YieldEffect::Ignored,
                Yields::Skip => YieldEffect::Skip,
            },
            one_better: knobs.on(ONE_BETTER.name),
            steal_most: u32::try_from(STEAL_MOST).expect("it is small"),
        }
    }
}
