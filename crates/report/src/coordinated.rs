//! [`CoordinationGot`]: the results of the coordination of a guest and its host, in one run and over several runs.

use crate::got::ppm;
use crate::short::{percent, short};
use crate::spreads::{Form, Spreads, cell};
use coordination::{Coordinated, Coordination, Protocol};
use measure::statistics::Spread;
use sched::Nanos;
use serde::Serialize;

/// Results of the coordination of a guest and its host over several runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CoordinationSpreads {
    /// Protocol of the guest and its host.
    pub protocol: &'static str,
    /// Number of runs in which the guest and its host coordinated. The medians are over these runs.
    pub runs: usize,
    /// Median over the runs of each number of a [`CoordinationGot`], by the name of its field.
    #[serde(flatten)]
    pub got: Spreads,
}

impl CoordinationSpreads {
    /// Returns the medians over several runs; `None`: the guest and its host coordinate in no run.
    pub(super) fn new<'g>(runs: impl Iterator<Item = &'g CoordinationGot>) -> Option<CoordinationSpreads> {
        let runs: Vec<&CoordinationGot> = runs.collect();
        let protocol = runs.first()?.protocol;
        let numbers = |nth: usize| runs.iter().map(|got| got.numbers()[nth].1).collect::<Vec<u64>>();
        let names = runs[0].numbers().map(|(name, _)| name);
        let spread = |(nth, name): (usize, &str)| (name.to_string(), Spread::of(&numbers(nth)));
        Some(CoordinationSpreads {
            protocol,
            runs: runs.len(),
            got: names.into_iter().enumerate().map(spread).collect(),
        })
    }

    /// Returns the numbers as text of one or two lines.
    pub(super) fn text(&self) -> String {
        let said = |name: &str, form| cell(self.got[name], form);
        let mut text = format!(
            "coordinated by {}: {} hints, {} per second; {} hypercalls taking {}; {} boosts, {} of the run\n",
            self.protocol,
            said("hints", Form::Count),
            said("hints_per_1000_s", Form::Thousandths),
            said("hypercalls", Form::Count),
            said("hypercalls_ns", Form::Time),
            said("boosts", Form::Count),
            said("boosted_ppm", Form::Percent),
        );
        let denied = ["over_budget", "over_limit", "refused"];
        if denied.iter().any(|name| self.got[*name].high > 0) {
            let [budget, limit, refused] = denied.map(|name| said(name, Form::Count));
            text += &format!(
                "boosts denied: {budget} over the budget, {limit} over the limit, {refused} refused by the host's policy\n"
            );
        }
        text
    }
}

/// Results of the coordination of a guest and its host. Times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CoordinationGot {
    /// Protocol of the guest and its host.
    pub protocol: &'static str,
    /// Number of new requests that the guest sent to its host, by any mechanism.
    pub hints: u64,
    /// Number of new requests per thousand seconds. This unit expresses rates below one per second as whole numbers.
    pub hints_per_1000_s: u64,
    /// Number of hypercalls.
    pub hypercalls: u64,
    /// CPU time that the guest spent in hypercalls.
    pub hypercalls_ns: u64,
    /// Number of boosts of the guest's vCPUs.
    pub boosts: u64,
    /// CPU time that the guest's vCPUs received while boosted.
    pub boosted_ns: u64,
    /// Boosted CPU time in millionths of the length of the run.
    pub boosted_ppm: u64,
    /// Number of boosts that were not granted, or ended, because the budget was used up.
    pub over_budget: u64,
    /// Number of boosts that ended because they exceeded the maximum duration.
    pub over_limit: u64,
    /// Number of boosts that the host's policy refused.
    pub refused: u64,
}

impl CoordinationGot {
    /// Returns the results of the coordination `with` in a run of length `length`.
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

    fn numbers(&self) -> [(&'static str, u64); 10] {
        let Self { hints, hints_per_1000_s, hypercalls, hypercalls_ns, boosts, boosted_ns, boosted_ppm, .. } = *self;
        [
            ("hints", hints),
            ("hints_per_1000_s", hints_per_1000_s),
            ("hypercalls", hypercalls),
            ("hypercalls_ns", hypercalls_ns),
            ("boosts", boosts),
            ("boosted_ns", boosted_ns),
            ("boosted_ppm", boosted_ppm),
            ("over_budget", self.over_budget),
            ("over_limit", self.over_limit),
            ("refused", self.refused),
        ]
    }

    /// Returns the numbers as text of one or two lines.
    pub(super) fn text(&self) -> String {
        let CoordinationGot { protocol, hints, hypercalls, boosts, over_budget, over_limit, refused, .. } = *self;
        let rate = self.hints_per_1000_s;
        let mut text = format!(
            "coordinated by {protocol}: {hints} hints, {}.{:03} per second; {hypercalls} hypercalls taking {}; {boosts} boosts, \
             {} of the run",
            rate / 1000,
            rate % 1000,
            short(self.hypercalls_ns),
            percent(self.boosted_ppm),
        );
        text += &format!(" ({})\n", short(self.boosted_ns));
        if over_budget + over_limit + refused > 0 {
            text += &format!(
                "boosts denied: {over_budget} over the budget, {over_limit} over the limit, {refused} refused by the host's policy\n"
            );
        }
        text
    }
}
