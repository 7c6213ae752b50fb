//! [`CoordinationGot`]: what came of the coordination of a guest and its host.

use super::{percent, ppm, short};
use sched::Nanos;
use serde::Serialize;
use sim::coordination::{Coordinated, Coordination, Protocol};

/// What came of the coordination of a guest and its host. Times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CoordinationGot {
    /// How they spoke.
    pub protocol: &'static str,
    /// How often the guest told its host something else than before, by whatever means.
    pub hints: u64,
    /// The same in a thousand seconds, so that it stays a whole number.
    pub hints_per_1000_s: u64,
    /// How often by a hypercall.
    pub hypercalls: u64,
    /// CPU time of the guest that these took.
    pub hypercalls_ns: u64,
    /// How often a vCPU was boosted.
    pub boosts: u64,
    /// CPU time that its vCPUs got boosted.
    pub boosted_ns: u64,
    /// The same in millionths of the run.
    pub boosted_ppm: u64,
    /// Boosts that were not given, or ended, because the budget was used up.
    pub over_budget: u64,
    /// Boosts that ended because they lasted too long.
    pub over_limit: u64,
    /// Boosts that the host's policy refused.
    pub refused: u64,
}

impl CoordinationGot {
    /// What came of `with` in a run of `length`.
    #[must_use]
    pub fn new(with: &Coordination, got: &Coordinated, length: Nanos) -> CoordinationGot {
        let of_second = u128::from(got.hints) * 1_000_000_000_000 / u128::from(length.as_ns().max(1));
        CoordinationGot {
            protocol: Protocol::ALL.iter().find(|(_, it)| *it == with.protocol).map_or("", |(name, _)| name),
            hints: got.hints,
            hints_per_1000_s: u64::try_from(of_second).unwrap_or(u64::MAX),
            hypercalls: got.hypercalls,
            hypercalls_ns: got.cost.as_ns(),
            boosts: got.boosts,
            boosted_ns: got.boosted.as_ns(),
            boosted_ppm: ppm(got.boosted, length),
            over_budget: got.over_budget,
            over_limit: got.over_limit,
            refused: got.refused,
        }
    }

    /// In a line or two.
    pub(super) fn told(&self) -> String {
        let CoordinationGot { protocol, hints, hypercalls, boosts, over_budget, over_limit, refused, .. } = *self;
        let rate = self.hints_per_1000_s;
        let mut text = format!(
            "coordinated by {protocol}: {hints} hints, {}.{:03} a second; {hypercalls} hypercalls, which took {}; {boosts} boosts, \
             {} of the run",
            rate / 1000,
            rate % 1000,
            short(self.hypercalls_ns),
            percent(self.boosted_ppm),
        );
        text += &format!(" ({})\n", short(self.boosted_ns));
        if over_budget + over_limit + refused > 0 {
            text += &format!(
                "boosts denied: {over_budget} beyond the budget, {over_limit} too long, {refused} by the host's policy\n"
            );
        }
        text
    }
}
