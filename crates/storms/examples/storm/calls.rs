//! Rounds in which a system call of the core fails while `tactus run` keeps a promise.

use crate::judge::Picture;
use crate::run_under_test::{On, Promise, RunUnderTest};
use crate::strike::{BEGIN, END, PROMISED, STALL, as_before, below, is_changed};
use crate::victims::Victims;
use anyhow::{Context, Result, ensure};
use sched::Nanos;
use std::fmt;
use std::path::Path;
use sys::clock;
use sys::failing::{Call, Errno};

/// Time after the fault in which the core may end the promise, or continue to keep it.
const REACTS: Nanos = Nanos::s(1);

/// The parameters of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FailingCall {
    /// Index of the victim with the promise.
    pub(crate) victim: usize,
    promise: Promise,
    call: Call,
    error: Errno,
    mechanism: &'static str,
    /// Whether the core is killed at the end. Otherwise, the run is requested to end, and the core restores all values.
    is_killed: bool,
    /// Time after [`STALL`] until the call fails.
    instant: Nanos,
}

impl FailingCall {
    /// Returns round `number` of the storm with seed `seed`; `victims` is the number of victims. Consecutive rounds try all
    /// calls with one error, then all calls with the next.
    pub(crate) fn of(seed: u64, number: u32, victims: usize) -> FailingCall {
        let mut below = below(seed, number);
        let period = [Nanos::ms(5), Nanos::ms(10), Nanos::ms(40)][below(3) as usize];
        // The kernel grants no reservation to a confined thread, which some victims are.
        let mechanism = ["inherit", "fifo"][below(2) as usize];
        let promise = Promise { slice: period.scale(1 + below(5), 10), period, is_hard: below(2) == 1, on: On::Any };
        let (calls, errors) = (Call::ALL.len(), Errno::ALL.len());
        let nth = number as usize;
        let error = Errno::ALL[(nth / calls + (seed % errors as u64) as usize) % errors];
        let victim = below(victims as u64) as usize;
        let (call, is_killed, instant) = (Call::ALL[nth % calls], below(2) == 1, Nanos::us(below(100_000)));
        FailingCall { victim, promise, call, error, mechanism, is_killed, instant }
    }

    /// Runs the round: starts a daemon whose call fails, ends it unless it has ended, and checks all values. Returns the
    /// duration of the restoration.
    pub(crate) fn run(&self, tactus: &Path, victims: &Victims) -> Result<Nanos> {
        let before = victims.0.iter().map(|victim| Ok(Picture::of(victim.pid())?)).collect::<Result<Vec<Picture>>>()?;
        let chosen = &victims.0[self.victim];
        let fault = format!("{}:{}:{}us", self.call.name, self.error.name, (STALL + self.instant).as_ns() / 1_000);
        let mut run =
            RunUnderTest::begin(tactus, chosen, self.promise, &["--mechanism", self.mechanism, "--fail", &fault])?;
        run.wait_until_it_keeps(None, BEGIN, || is_changed(chosen, &before[self.victim]))?;
        // The service began before the promise was kept, so the call fails after this time.
        clock::sleep(STALL + self.instant + REACTS);
        // The process may be ending already.
        let _ = match self.is_killed {
            true => run.core().and_then(|core| Ok(core.kill()?)),
            false => run.front_end().and_then(|front_end| Ok(front_end.terminate()?)),
        };
        let took = as_before(&run, victims, &before, self.victim, PROMISED, || false)
            .with_context(|| format!("tactus said:\n{}", run.said()))?;
        run.all_end_within(END)?;
        let said = run.said();
        let is_panic = said.contains("panicked") || said.contains("overflowed");
        ensure!(!is_panic || self.call.panics_in_std(&said), "tactus said:\n{said}");
        Ok(took)
    }
}

impl fmt::Display for FailingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailingCall { promise, call, error, mechanism, is_killed, instant, .. } = self;
        let end = if *is_killed { "killed" } else { "ended" };
        write!(
            f,
            "{promise}, {mechanism}; {} fails with {} after {}, then {end}",
            call.name,
            error.name,
            STALL + *instant
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_calls_fail_with_all_errors() {
        let all = (Call::ALL.len() * Errno::ALL.len()) as u32;
        let rounds = (1..=all).map(|number| FailingCall::of(7, number, 9));
        let tried: BTreeSet<_> = rounds.map(|round| (round.call.name, round.error.name)).collect();
        assert_eq!(tried.len(), all as usize);
    }
}
