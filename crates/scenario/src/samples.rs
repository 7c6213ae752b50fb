//! `[samples]`: the interval between reports of every VM's CPU time.

use super::form;
use input::problem::{Findings, Problem};
use input::source::Placed;
use input::table::Table;
use sched::Nanos;

/// Keys of `[samples]`.
pub(crate) const SAMPLES_KEYS: &[&str] = &["interval", "at"];

/// Maximum number of samples per VM.
pub const SAMPLES_MAX: u64 = 1_000_000;

/// Settings of the reports of every VM's CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SamplesSpec {
    /// Time from one sample to the next. Above zero, and large enough that the run has at most [`SAMPLES_MAX`] samples.
    /// Default: 1 s.
    pub interval: Nanos,
    /// End of a sample; default [`SampledAt::Clock`].
    pub at: SampledAt,
}

/// The end of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SampledAt {
    /// At the end of its interval.
    #[default]
    Clock,
    /// At the first start or end of an execution after the interval, like XenMon, which reads a trace of executions.
    /// Source: `xenbaked.c`, `advance_next_datapoint`, recalled from memory.
    Switches,
}

/// Reads the optional `[samples]`.
pub(super) fn read(top: &Table<'_, '_>, findings: &mut Findings) -> Option<Placed<SamplesSpec>> {
    let table = top.table("samples", ("[samples]", SAMPLES_KEYS), findings)?;
    let interval = table.read("interval", |value| form::time_above_zero("interval", value), findings).value();
    let words = [("clock", SampledAt::Clock), ("switches", SampledAt::Switches)];
    let at = table.read("at", |value| form::word("at", value, &words, "\"clock\" or \"switches\""), findings).value();
    let spec = SamplesSpec { interval: interval.unwrap_or(Nanos::s(1)), at: at.unwrap_or_default() };
    Some(Placed { value: spec, at: table.at })
}

/// Checks the settings of the samples against the length of the run.
pub(super) fn check(typed: Placed<SamplesSpec>, length: Option<Placed<Nanos>>, findings: &mut Findings) -> SamplesSpec {
    let least = length.map_or(0, |length| length.value.as_ns().div_ceil(SAMPLES_MAX));
    if typed.value.interval.as_ns() < least {
        let problem = Problem::new(format!("there are more than {SAMPLES_MAX} samples"));
        let right = format!("use an interval from {least} ns on, or a shorter run");
        findings.add(problem.at(typed.at, "too often").help(right));
    }
    typed.value
}
