//! [`Descriptor`]: the static description of a policy. Command line, documentation, law tests, fuzz targets, goldens
//! and benchmarks are derived from the descriptor.

use crate::alarm::AlarmSlots;
use crate::explanation::Explanation;
use crate::params::{Refused, Topology};
use crate::policy::Policy;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Constructor of a policy for a machine with this topology.
pub type Build = fn(&Topology, &Knobs) -> Result<Box<dyn Policy>, Refused>;

/// The registry entry of a policy.
#[derive(Clone, Copy)]
pub struct Descriptor {
    /// Name of the policy on the command line. The policy's file or folder has the same name, with `_` in place of `-`.
    pub name: &'static str,
    /// One-line description of the policy.
    pub title: &'static str,
    /// Source of the policy's rule.
    pub source: &'static str,
    /// Strengths of the policy, in one sentence.
    pub good_for: &'static str,
    /// Weaknesses of the policy, in one sentence.
    pub bad_at: &'static str,
    /// Source code of the policy's file. The leading `//!` lines are its essay.
    pub text: &'static str,
    /// Which waiting entities an idle CPU finds, and the longest time until the CPU finds them. Law 11.
    pub conserving: fn(&LoadBounds<'_>) -> Conserving,
    /// Longest wait of an entity. `None`: unbounded, which is permitted only under strict priorities or overload. Law
    /// 12.
    pub starvation: fn(&LoadBounds<'_>) -> Option<Nanos>,
    /// Parameters that the policy guarantees, with the bound of each guarantee.
    pub guarantees: Guarantees,
    /// Alarm slots that the policy uses.
    pub alarms: AlarmSlots,
    /// Knobs of the policy.
    pub knobs: &'static [Knob],
    /// Constructor of the policy.
    pub build: Build,
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Descriptor {
    /// Returns the essay that heads the policy's file.
    #[must_use]
    pub fn essay(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("//!"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }

    /// Returns the knobs at their default values.
    #[must_use]
    pub fn defaults(&self) -> Knobs {
        Knobs { values: self.knobs.iter().map(|knob| (knob, knob.default)).collect() }
    }
}

/// A bound that holds under a load; `None`: no guarantee.
pub type Bound = fn(&LoadBounds<'_>) -> Option<Nanos>;

/// The guarantees of a policy. Unless stated otherwise, they hold for a driver that delivers every event without delay.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Guarantees {
    /// Largest difference between the CPU time of an entity and its weighted share, at any time and in any order of
    /// arrival. The bound holds on one CPU, without groups, among entities that are always runnable. CPU time and share
    /// are counted from the last change in the set of competing entities.
    pub shares: Bound,
    /// Maximum part of the slice that an entity with an admitted reservation can lack at the end of a period. The bound
    /// holds for periods in which the entity is runnable throughout. Periods follow one another from the start of the
    /// reservation, or else from the first wake-up of the entity. In the second case, a wake-up begins a new sequence
    /// if the entity has been blocked since the start of the current period or longer. Members of a gang may differ:
    /// see `gang_periods`.
    pub reservations: Bound,
    /// Whether the members of a gang share their periods. The periods follow one another from the start of the first
    /// member's reservation, or else from the attachment of this member. A sleep moves none of them. A member that is
    /// attached later begins with the next period of its siblings.
    pub gang_periods: bool,
    /// Excess in the bound on the CPU time of a group with a quota. In any span, this time is at most the span times
    /// quota per quota period, plus twice the quota, plus the excess. Add the driver's delay per CPU.
    pub quota: Bound,
    /// Bound within which the policy enforces the cap of a group.
    pub cap: fn(&LoadBounds<'_>) -> Option<CapBound>,
}

/// The bound of a cap. The CPU time of the members in any span is at most the sum of three terms. The terms are the cap
/// times the span, `rounding` for each `period` in the span, and `burst`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapBound {
    /// Interval of accounting. Above zero.
    pub period: Nanos,
    /// Maximum time that rounding adds in each interval.
    pub rounding: Nanos,
    /// Maximum CPU time by which the members can be ahead of the cap. Add the driver's delay per member.
    pub burst: Nanos,
}

impl Guarantees {
    /// Guarantees of a policy that guarantees nothing.
    pub const NOTHING: Guarantees =
        Guarantees { shares: |_| None, reservations: |_| None, gang_periods: false, quota: |_| None, cap: |_| None };
}

/// Which waiting entities an idle CPU finds, and how long the CPU takes to find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conserving {
    /// A CPU may idle although an entity waits.
    Never,
    /// A CPU finds entities that last ran on this CPU or are confined to this CPU.
    PerCpu {
        /// Longest time until the CPU finds the entity.
        slack: Nanos,
    },
    /// A CPU finds entities that may run on this CPU and last ran under the same cache.
    Domain {
        /// Longest time until the CPU finds the entity.
        slack: Nanos,
    },
    /// A CPU finds every entity that may run on this CPU.
    Global {
        /// Longest time until the CPU finds the entity.
        slack: Nanos,
    },
}

/// The load under which a policy states its bounds.
#[derive(Clone, Copy, Debug)]
pub struct LoadBounds<'a> {
    /// Topology of the machine.
    pub host: &'a Topology,
    /// Knobs of the policy.
    pub knobs: &'a Knobs,
    /// Largest number of entities.
    pub entities: u64,
    /// Smallest weight of an entity or group, in Linux's scale (1024 = normal).
    pub weight_least: u64,
    /// Largest weight of an entity or group, in Linux's scale.
    pub weight_most: u64,
    /// Depth of the group tree; 0 when every entity is in the root.
    pub group_depth: u32,
    /// Whether any group is a gang.
    pub has_gangs: bool,
    /// Whether any entity has a real-time class.
    pub has_rt: bool,
    /// Whether any entity has a reservation.
    pub has_reservations: bool,
    /// Whether any group has a quota or a cap.
    pub has_limits: bool,
    /// Whether entities are paused, or parameters such as weights, affinities and groups change, during the run.
    pub has_changes: bool,
    /// Whether entities block and wake, rather than run throughout.
    pub has_sleepers: bool,
    /// Whether the affinity of any entity excludes a CPU.
    pub has_affinity: bool,
    /// Largest warp of an entity; zero without warps.
    pub warp_most: Nanos,
}

impl<'a> LoadBounds<'a> {
    /// Returns a load of `entities` entities of normal weight, in no group, with default parameters. The entities never
    /// block or change.
    #[must_use]
    pub const fn of_hogs(host: &'a Topology, knobs: &'a Knobs, entities: u64) -> LoadBounds<'a> {
        LoadBounds {
            host,
            knobs,
            entities,
            weight_least: 1024,
            weight_most: 1024,
            group_depth: 0,
            has_gangs: false,
            has_rt: false,
            has_reservations: false,
            has_limits: false,
            has_changes: false,
            has_sleepers: false,
            has_affinity: false,
            warp_most: Nanos::ZERO,
        }
    }
}

/// A tunable value of a policy, stored as a whole number.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Name of the knob: `--knob NAME=VALUE`, `[policy.knobs]`.
    pub name: &'static str,
    /// Notation of the knob's value.
    pub unit: Unit,
    /// Default value of the knob.
    pub default: i64,
    /// Smallest value of the knob.
    pub least: i64,
    /// Largest value of the knob.
    pub most: i64,
    /// Effect of the knob.
    pub help: &'static str,
    /// Source of the knob.
    pub source: &'static str,
}

/// The notation of a knob's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A duration; the value is in nanoseconds.
    Time,
    /// A plain number.
    Count,
    /// Percent.
    Percent,
    /// The words `off` and `on`.
    Switch,
    /// A word from this list; the value is its index.
    Choice(&'static [&'static str]),
}

impl Knob {
    /// Concatenates `shared`, knobs of several policies, and `own`, knobs of one policy. Panics at compile time unless
    /// `N` is the number of all knobs.
    #[must_use]
    pub const fn join<const N: usize>(shared: &[Knob], own: &[Knob]) -> [Knob; N] {
        assert!(shared.len() + own.len() == N, "the lengths add up");
        let mut all = [if shared.is_empty() { own[0] } else { shared[0] }; N];
        let mut n = 1;
        while n < N {
            all[n] = if n < shared.len() { shared[n] } else { own[n - shared.len()] };
            n += 1;
        }
        all
    }

    /// Declares a knob whose value is a duration. `range`: its smallest and largest value.
    #[must_use]
    pub const fn time(name: &'static str, default: Nanos, range: (Nanos, Nanos), help: &'static str) -> Knob {
        let (default, least, most) = (default.as_ns(), range.0.as_ns(), range.1.as_ns());
        Knob::new(name, Unit::Time, [default.cast_signed(), least.cast_signed(), most.cast_signed()], help)
    }

    /// Declares a knob whose value is a plain number. `values`: `[default, least, most]`.
    #[must_use]
    pub const fn count(name: &'static str, values: [i64; 3], help: &'static str) -> Knob {
        Knob::new(name, Unit::Count, values, help)
    }

    /// Declares a knob whose value is a percentage. `values`: `[default, least, most]`.
    #[must_use]
    pub const fn percent(name: &'static str, values: [i64; 3], help: &'static str) -> Knob {
        Knob::new(name, Unit::Percent, values, help)
    }

    /// Declares a switch: `off` or `on`.
    #[must_use]
    pub const fn switch(name: &'static str, default: bool, help: &'static str) -> Knob {
        Knob::new(name, Unit::Switch, [default as i64, 0, 1], help)
    }

    /// Declares a choice from `words`; the first word is the default.
    #[must_use]
    pub const fn choice(name: &'static str, words: &'static [&'static str], help: &'static str) -> Knob {
        Knob::new(name, Unit::Choice(words), [0, 0, words.len().cast_signed() as i64 - 1], help)
    }

    /// Sets the source of the knob.
    #[must_use]
    pub const fn from(self, source: &'static str) -> Knob {
        Knob { source, ..self }
    }

    const fn new(name: &'static str, unit: Unit, [default, least, most]: [i64; 3], help: &'static str) -> Knob {
        Knob { name, unit, default, least, most, help, source: "" }
    }

    /// Formats a value of the knob: `30ms`, `on`, `soft`.
    #[must_use]
    pub fn show(&self, value: i64) -> String {
        match self.unit {
            Unit::Time => Nanos::ns(value.unsigned_abs()).to_string(),
            Unit::Count => value.to_string(),
            Unit::Percent => alloc::format!("{value}%"),
            Unit::Switch => if value == 0 { "off" } else { "on" }.to_string(),
            Unit::Choice(words) => {
                usize::try_from(value).ok().and_then(|i| words.get(i)).copied().unwrap_or("?").to_string()
            }
        }
    }

    /// Returns the valid values as a string: `1ms to 1s`, `off or on`.
    #[must_use]
    pub fn range(&self) -> String {
        match self.unit {
            Unit::Switch => "off or on".to_string(),
            Unit::Choice(words) => words.join(" or "),
            _ => alloc::format!("{} to {}", self.show(self.least), self.show(self.most)),
        }
    }
}

/// The values of a policy's knobs.
#[derive(Clone, Default, Debug)]
pub struct Knobs {
    values: Vec<(&'static Knob, i64)>,
}

impl Knobs {
    /// Sets one knob.
    ///
    /// # Errors
    /// No knob has this name, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: i64) -> Result<(), KnobError> {
        let names = || self.values.iter().map(|(knob, _)| knob.name).collect();
        let Some(at) = self.values.iter().position(|(knob, _)| knob.name == name) else {
            return Err(KnobError::Unknown { name: name.to_string(), known: names() });
        };
        let knob = self.values[at].0;
        if !(knob.least..=knob.most).contains(&value) {
            return Err(KnobError::OutOfRange { name: knob.name, range: knob.range() });
        }
        self.values[at].1 = value;
        Ok(())
    }

    /// Sets a [`Unit::Choice`] knob by its word.
    ///
    /// # Errors
    /// No knob has this name, or `word` is not one of its choices.
    pub fn set_word(&mut self, name: &str, word: &str) -> Result<(), KnobError> {
        let choices = self.values.iter().find(|(knob, _)| knob.name == name).map(|(knob, _)| knob.unit);
        let value = match choices {
            Some(Unit::Choice(words)) => words.iter().position(|&choice| choice == word),
            _ => None,
        };
        self.set(name, value.map_or(i64::MAX, |value| value.cast_signed() as i64))
    }

    /// Returns the knobs and their values, in the descriptor's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Knob, i64)> + '_ {
        self.values.iter().copied()
    }

    /// Returns a knob's value. Panics when the policy's descriptor does not declare the knob.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        let found = self.values.iter().find(|(knob, _)| knob.name == name);
        found.unwrap_or_else(|| panic!("no knob {name} in the descriptor")).1
    }

    /// Returns a [`Unit::Time`] knob's value.
    #[must_use]
    pub fn time(&self, name: &str) -> Nanos {
        Nanos::ns(self.get(name).unsigned_abs())
    }

    /// Returns a [`Unit::Switch`] knob's value.
    #[must_use]
    pub fn on(&self, name: &str) -> bool {
        self.get(name) != 0
    }

    /// Returns a [`Unit::Choice`] knob's word.
    #[must_use]
    pub fn word(&self, name: &str) -> &'static str {
        let value = self.get(name);
        match self.iter().find(|(knob, _)| knob.name == name) {
            Some((Knob { unit: Unit::Choice(words), .. }, _)) => words[usize::try_from(value).unwrap_or(0)],
            _ => panic!("{name} is not a choice"),
        }
    }
}

/// The reason why a knob could not be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KnobError {
    /// A knob that does not exist.
    Unknown {
        /// Requested name of the knob.
        name: String,
        /// Names of the existing knobs.
        known: Vec<&'static str>,
    },
    /// A value outside the range.
    OutOfRange {
        /// The name of the knob.
        name: &'static str,
        /// Valid range of the knob.
        range: String,
    },
}

impl KnobError {
    /// Returns the reason, and the remedy.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        match self {
            KnobError::Unknown { name, known } if known.is_empty() => Explanation::new(
                alloc::format!("there is no knob `{name}`: this policy has none"),
                "leave the knob out",
            ),
            KnobError::Unknown { name, known } => Explanation::new(
                alloc::format!("there is no knob `{name}`"),
                alloc::format!("use one of {}", known.join(", ")),
            ),
            KnobError::OutOfRange { name, range } => Explanation::new(
                alloc::format!("value of knob `{name}` is out of range"),
                alloc::format!("use {range}"),
            ),
        }
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.explain().fmt(f)
    }
}

impl core::error::Error for KnobError {}
