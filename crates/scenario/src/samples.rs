//! `[samples]`: how often it is told what every VM got.

use super::form;
use input::problem::{Findings, Problem};
use input::source::Placed;
use input::table::Table;
use sched::Nanos;

/// The keys of `[samples]`.
pub(crate) const SAMPLES_KEYS: &[&str] = &["interval", "at"];

/// The most samples of each VM.
pub const SAMPLES_MAX: u64 = 1_000_000;

/// How often the CPU time of every VM is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SamplesSpec {
    /// From one sample to the next. Above zero, and such that there are at most [`SAMPLES_MAX`]; default 1 s.
    pub interval: Nanos,
    /// When a sample ends; default [`SampledAt::Clock`].
    pub at: SampledAt,
}

/// When a sample ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SampledAt {
    /// When its interval is over.
    #[default]
    Clock,
    /// With the first beginning or end of a turn after that, as those of XenMon do, which reads a trace of them. Source: as remembered of
    /// `xenbaked.c`, `advance_next_datapoint`.
    Switches,
}

/// `[samples]`, if it is there.
pub(super) fn read(top: &Table<'_, '_>, findings: &mut Findings) -> Option<Placed<SamplesSpec>> {
    let table = top.table("samples", ("[samples]", SAMPLES_KEYS), findings)?;
    let interval = table.read("interval", |value| form::time_above_zero("interval", value), findings).value();
    let words = [("clock", SampledAt::Clock), ("switches", SampledAt::Switches)];
    let at = table.read("at", |value| form::word("at", value, &words, "\"clock\" or \"switches\""), findings).value();
    let spec = SamplesSpec { interval: interval.unwrap_or(Nanos::s(1)), at: at.unwrap_or_default() };
    Some(Placed { value: spec, at: table.at })
}

/// What was typed, in a run of this length.
pub(super) fn check(typed: Placed<SamplesSpec>, length: Option<Placed<Nanos>>, findings: &mut Findings) -> SamplesSpec {
    let least = length.map_or(0, |length| length.value.as_ns().div_ceil(SAMPLES_MAX));
    if typed.value.interval.as_ns() < least {
        let problem = Problem::new(format!("there are more than {SAMPLES_MAX} samples"));
        let right = format!("use an interval from {least} ns on, or a shorter run");
        findings.add(problem.at(typed.at, "too often").help(right));
    }
    typed.value
}
