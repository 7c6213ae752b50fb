//! [`Options`]: all parameters of a fuzz run, drawn from its seed.

use super::dice::Dice;
use super::driver::Lateness;
use sched::{Descriptor, Knobs, LoadBounds, Nanos, Topology, Unit};
use std::fmt;

/// Maximum depth of groups.
pub(super) const GROUP_DEPTH: u32 = 3;
/// Weights from a sixteenth to sixteen times the normal weight, in Linux's scale.
pub(super) const WEIGHTS: [u32; 7] = [64, 335, 1024, 1024, 1024, 3121, 16_384];

/// Maximum warp of an entity.
pub(super) const WARP_MOST: Nanos = Nanos::ms(100);

/// The parameters of a fuzz run, drawn from the seed. `steps` and `entities` are reduced when a failing run is shrunk.
#[derive(Clone, Debug)]
pub struct Options {
    /// Descriptor of the policy.
    pub policy: &'static Descriptor,
    /// Seed of all other values.
    pub seed: u64,
    /// Number of rounds of inputs.
    pub steps: u64,
    /// Maximum number of entities at a time.
    pub entities: u64,
    /// Number of CPUs, if fixed rather than drawn.
    pub cpus: Option<usize>,
    /// Topology of the machine.
    pub host: Topology,
    /// Knobs of the policy.
    pub knobs: Knobs,
    /// Maximum delays of the driver. If the maximum delay of kicks is zero, kicks are immediate.
    pub lateness: Lateness,
    /// Whether some entities have a restricted affinity.
    pub affinities: bool,
    /// Whether parameters change during the run.
    pub changes: bool,
    /// Whether entities are attached and detached during the run.
    pub arrivals: bool,
    /// Whether entities block.
    pub blocks: bool,
    /// Whether entities are paused.
    pub pauses: bool,
    /// Whether entities yield, including directed yields.
    pub yields: bool,
    /// Whether the machine has groups below the root.
    pub groups: bool,
    /// Whether some groups have quotas and caps.
    pub limits: bool,
    /// Whether some entities are real-time.
    pub real_time: bool,
    /// Whether some entities have reservations.
    pub reservations: bool,
}

impl Options {
    /// Returns the options that this seed determines.
    ///
    /// # Panics
    /// The policy's descriptor declares a knob whose range is empty.
    #[must_use]
    pub fn draw(policy: &'static Descriptor, seed: u64) -> Options {
        let mut dice = Dice::new(seed);
        let cpus: usize = dice.choose(&[1, 2, 4, 16]).expect("there are four");
        let smt = dice.choose(&[1, 1, 2]).filter(|&smt| cpus.is_multiple_of(smt)).unwrap_or(1);
        let llc = dice.choose(&[cpus, cpus, cpus.div_ceil(2)]).filter(|llc| llc.is_multiple_of(smt)).unwrap_or(cpus);
        let half = |dice: &mut Dice| dice.one_in(2);
        let host = Topology { cpus, smt, llc };
        let knobs = draw_knobs(policy, &host, &mut dice);
        let late = |dice: &mut Dice| if dice.one_in(2) { Nanos::ZERO } else { dice.span(Nanos::ms(2)) };
        let mut options = Options {
            policy,
            seed,
            steps: 400 + dice.below(1_600),
            entities: 1 + dice.span(Nanos::ns(60)).as_ns(),
            cpus: None,
            host,
            knobs,
            lateness: Lateness {
                kick: if half(&mut dice) { Nanos::ZERO } else { Nanos::us(1 + dice.below(20)) },
                alarm: late(&mut dice),
                slice: late(&mut dice),
            },
            affinities: half(&mut dice),
            changes: half(&mut dice),
            arrivals: half(&mut dice),
            blocks: !dice.one_in(4),
            pauses: half(&mut dice),
            yields: half(&mut dice),
            groups: half(&mut dice),
            limits: half(&mut dice),
            real_time: half(&mut dice),
            reservations: half(&mut dice),
        };
        match dice.below(8) {
            0 => options.calm(),
            1 => {
                options.calm();
                options.lateness = Lateness::default();
            }
            _ => {}
        }
        options
    }

    /// Keeps every entity attached, runnable, unchanged and without a restricted affinity. Some guarantees can be
    /// checked only in such runs.
    fn calm(&mut self) {
        (self.affinities, self.changes, self.arrivals) = (false, false, false);
        (self.blocks, self.pauses, self.yields) = (false, false, false);
    }

    /// Returns whether no entity has a restricted affinity, and no entity arrives, leaves, changes, blocks, yields or
    /// is paused after the start.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        !(self.affinities || self.changes || self.arrivals || self.blocks || self.pauses || self.yields)
    }

    /// Returns the maximum shortfall of a slice that the policy guarantees. `None`: the policy guarantees nothing, or
    /// the driver is late.
    #[must_use]
    pub fn reservation_bound(&self) -> Option<Nanos> {
        let punctual = self.lateness == Lateness::default();
        punctual.then(|| (self.policy.guarantees.reservations)(&self.load())).flatten()
    }

    /// Returns the load for which the policy states its bounds.
    #[must_use]
    pub fn load(&self) -> LoadBounds<'_> {
        let weights = || WEIGHTS.iter().copied().map(u64::from);
        LoadBounds {
            host: &self.host,
            knobs: &self.knobs,
            entities: self.entities,
            weight_least: weights().min().unwrap_or(1),
            weight_most: weights().max().unwrap_or(1),
            group_depth: if self.groups { GROUP_DEPTH } else { 0 },
            has_gangs: self.groups,
            has_rt: self.real_time,
            has_reservations: self.reservations,
            has_limits: self.groups && self.limits,
            has_changes: self.changes || self.pauses || self.arrivals,
            has_sleepers: self.blocks || self.pauses || self.arrivals,
            has_affinity: self.affinities,
            warp_most: WARP_MOST,
        }
    }

    /// Returns these options on a machine with `cpus` CPUs.
    #[must_use]
    pub fn on(mut self, cpus: usize) -> Options {
        self.host = Topology { cpus, smt: 1, llc: cpus };
        self.cpus = Some(cpus);
        self.knobs = possible(self.policy, &self.host, self.knobs);
        self
    }

    /// Returns these options with other numbers of steps and entities, if given.
    #[must_use]
    pub fn with(mut self, steps: Option<u64>, entities: Option<u64>) -> Options {
        self.steps = steps.unwrap_or(self.steps);
        self.entities = entities.unwrap_or(self.entities).max(1);
        self
    }
}

/// Draws the knobs: most knobs keep their defaults, and some take another value in their range.
pub(super) fn draw_knobs(policy: &'static Descriptor, host: &Topology, dice: &mut Dice) -> Knobs {
    let mut knobs = policy.defaults();
    if dice.one_in(2) {
        return knobs;
    }
    for knob in policy.knobs {
        if !dice.one_in(3) {
            continue;
        }
        let value = match knob.unit {
            Unit::Switch | Unit::Choice(_) => {
                let values = (knob.most - knob.least + 1).unsigned_abs();
                knob.least + i64::try_from(dice.below(values)).expect("a choice is small")
            }
            // Values within a factor of four of the default keep the bounds meaningful.
            Unit::Time | Unit::Count | Unit::Percent => {
                let quarters = i64::try_from(1 + dice.below(16)).expect("it is small");
                (knob.default.saturating_mul(quarters) / 4).clamp(knob.least, knob.most)
            }
        };
        knobs.set(knob.name, value).expect("it is in range");
    }
    possible(policy, host, knobs)
}

/// Returns `knobs`, or the defaults if the policy refuses `knobs`.
fn possible(policy: &Descriptor, host: &Topology, knobs: Knobs) -> Knobs {
    if (policy.build)(host, &knobs).is_ok() { knobs } else { policy.defaults() }
}

impl fmt::Display for Options {
    /// Writes every option, then the command line that replays the run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Topology { cpus, smt, llc } = self.host;
        write!(f, "{}: cpus {cpus}, smt {smt}, llc {llc}, entities {}", self.policy.name, self.entities)?;
        let Lateness { kick, alarm, slice } = self.lateness;
        write!(f, ", steps {}, late kicks {kick}, alarms {alarm}, slices {slice}", self.steps)?;
        let switches = [
            ("affinities", self.affinities),
            ("changes", self.changes),
            ("arrivals", self.arrivals),
            ("blocks", self.blocks),
            ("pauses", self.pauses),
            ("yields", self.yields),
            ("groups", self.groups),
            ("limits", self.limits),
            ("real-time", self.real_time),
            ("reservations", self.reservations),
        ];
        for (name, _) in switches.iter().filter(|(_, on)| *on) {
            write!(f, ", {name}")?;
        }
        for (knob, value) in self.knobs.iter().filter(|(knob, value)| knob.default != *value) {
            write!(f, ", {}={}", knob.name, knob.show(value))?;
        }
        write!(f, "\nreplay: cargo xtask fuzz --policy {} --seed {}", self.policy.name, self.seed)?;
        write!(f, " --steps {} --entities {}", self.steps, self.entities)?;
        self.cpus.map_or(Ok(()), |cpus| write!(f, " --cpus {cpus}"))
    }
}
