//! The rule of BMQ: changes of the boost, and the resulting level, in four versions.

use crate::project_c::{self, Expired, Kind, Layout, Level, Rule, Task, Yielder};
use sched::{Instant, Knobs, Nanos, Position};

/// The boost, from −`reach` (best) to `reach`.
pub(super) type Boost = i32;

/// A version of the code. Source: kernel/sched/bmq.h and alt_core.c of Project C for these kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Upto512,
    V513,
    V66,
    V612,
}

/// The effect of a sleep on the boost: a sleep that is longer than `above` improves it by its length in units of 2^`shift`
/// ns, at most by `most`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub(super) above: Nanos,
    pub(super) shift: u32,
    pub(super) most: Boost,
}

/// The settings of BMQ.
#[derive(Debug)]
pub(super) struct Bmq {
    version: Version,
    slice: Nanos,
    rest_least: Nanos,
    /// Best boost that a normal entity can reach.
    best: Boost,
    interactive: Boost,
    /// Whether the length of a sleep counts only as a boolean (6.12).
    sleep_is_bool: bool,
}

impl Bmq {
    pub(super) fn new(knobs: &Knobs) -> Bmq {
        let version = match knobs.word("version") {
            "5.12" => Version::Upto512,
            "6.6" => Version::V66,
            "6.12" => Version::V612,
            _ => Version::V513,
        };
        // Units are decimal up to 5.12 and binary from 5.13 on: `4 << 20`, `100 << 10`.
        let (unit, small_unit) = if version == Version::Upto512 { (1_000_000, 1_000) } else { (1 << 20, 1 << 10) };
        let boost = |knob: &str| Boost::try_from(knobs.get(knob)).expect("its range is small");
        Bmq {
            version,
            slice: Nanos::ns(project_c::slice_ms(knobs) * unit),
            rest_least: Nanos::ns(100 * small_unit),
            best: boost("min-boost"),
            interactive: boost("interactive-boost"),
            sleep_is_bool: knobs.on("sleep-is-bool"),
        }
    }

    /// Returns the limit of the boost in both directions. Source: MAX_PRIORITY_ADJ, include/linux/sched/prio.h.
    pub(super) fn reach(&self) -> Boost {
        if self.is_6() { 12 } else { 7 }
    }

    fn is_6(&self) -> bool {
        matches!(self.version, Version::V66 | Version::V612)
    }

    /// Returns the best boost that a task of `kind` can reach; `None`: its boost never improves.
    pub(super) fn best_of(&self, kind: Kind) -> Option<Boost> {
        match kind {
            Kind::Normal => Some(self.best.max(-self.reach())),
            Kind::Batch => Some(0),
            Kind::Idle if self.version != Version::V612 => Some(0),
            Kind::Idle | Kind::Stop | Kind::Fifo(_) | Kind::RoundRobin(_) => None,
        }
    }

    /// Returns the length below which a run counts as short and improves the boost. From 6.12 on, all runs do.
    pub(super) fn short_run(&self, boost: Boost) -> Nanos {
        if self.version == Version::V612 {
            return Nanos::ns(u64::MAX);
        }
        let shift = if self.is_6() { (14 - boost) / 2 } else { 8 - boost };
        Nanos::ns(self.slice.as_ns() >> shift)
    }

    /// Returns the length above which a run worsens the boost: in 6.6 only.
    pub(super) fn long_run(&self) -> Nanos {
        if self.version == Version::V66 { self.slice } else { Nanos::ns(u64::MAX) }
    }

    /// Returns the effect of a sleep.
    pub(super) fn sleep(&self) -> Sleep {
        if self.version != Version::V612 {
            return Sleep { above: self.slice, shift: 0, most: 1 };
        }
        // The code shifts a boolean in this version, and 1 >> 22 is zero.
        let most = if self.sleep_is_bool { 0 } else { 2 * self.reach() };
        Sleep { above: Nanos::ZERO, shift: 22, most }
    }

    /// Returns whether the best boost of its kind also applies to a task whose boost is better: from 6.12 on.
    pub(super) fn clamps(&self) -> bool {
        self.version == Version::V612
    }

    fn raise(&self, task: &mut Task<Boost>, steps: Boost) {
        let Some(best) = self.best_of(task.kind) else { return };
        if self.clamps() {
            task.state = (task.state - steps).max(best);
        } else if task.state > best {
            task.state -= steps;
        }
    }

    fn lower(&self, task: &mut Task<Boost>) {
        task.state = (task.state + 1).min(self.reach());
    }
}

impl Rule for Bmq {
    type TaskState = Boost;

    fn layout(&self) -> Layout {
        // The stop level and Project C's levels 0 to 126.
        Layout { fixed: 128, turn_shift: None }
    }

    fn slice(&self) -> Nanos {
        self.slice
    }

    fn rest_least(&self) -> Nanos {
        self.rest_least
    }

    fn priorities_each(&self) -> usize {
        if self.is_6() { 4 } else { 1 }
    }

    fn first_state(&self, _nice: i32, _now: Instant) -> Boost {
        0
    }

    fn forked(&self, _child: &Task<Boost>, &parent: &Boost, _now: Instant) -> Boost {
        match self.version {
            Version::Upto512 | Version::V513 if parent < 0 => parent + self.reach(),
            Version::Upto512 | Version::V513 | Version::V66 => self.reach(),
            Version::V612 => parent,
        }
    }

    fn level(&self, task: &Task<Boost>, _now: Instant) -> Level {
        // The rank plus its offset is above zero: nice starts at −20, boosts start at −7 or −12.
        let rank = task.nice + task.state;
        let level = if self.is_6() { 32 + (32 + rank) / 2 } else { 50 + (127 + rank) / 2 };
        1 + Level::try_from(level).expect("levels are above zero")
    }

    fn expired(&self, task: &mut Task<Boost>, how: Expired, _now: Instant) {
        if how == Expired::Queued {
            self.lower(task);
        }
    }

    fn blocks(&self, task: &mut Task<Boost>, run: Nanos) {
        if run < self.short_run(task.state) {
            self.raise(task, 1);
        } else if run > self.long_run() && !task.kind.is_real_time() {
            self.lower(task);
        }
    }

    fn wakes(&self, task: &mut Task<Boost>, slept: Nanos) {
        let Sleep { above, shift, most } = self.sleep();
        if slept > above {
            let steps = (slept.as_ns() >> shift).min(u64::from(most.unsigned_abs()));
            self.raise(task, Boost::try_from(steps).expect("it is small"));
        }
    }

    fn yields(&self, task: &mut Task<Boost>, _now: Instant) -> Yielder {
        task.state = self.reach();
        if self.version == Version::V612 { Yielder::GoesLast } else { Yielder::Stays }
    }

    fn interactive(&self, task: &Task<Boost>) -> bool {
        task.state <= self.interactive
    }

    fn position(&self, state: &Boost) -> Option<Position> {
        Some(Position::Boost(*state))
    }

    fn show(&self, state: &Boost, show: &mut dyn FnMut(&'static str, i64)) {
        show("boost", i64::from(*state));
    }
}
