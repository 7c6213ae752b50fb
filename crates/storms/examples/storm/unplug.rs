//! Rounds in which a CPU goes offline while `tactus run` keeps a promise, and comes back.

use crate::judge::Picture;
use crate::run_under_test::{On, Promise, RunUnderTest};
use crate::strike::{BEGIN, END, PROMISED, as_before, below, is_changed};
use crate::victims::{Victims, within};
use anyhow::{Context, Result, bail, ensure};
use sched::{CpuId, Nanos};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use sys::{affinity, clock, cpus};

/// Time after which the daemon must have noticed that a CPU is gone or is back.
const FOLLOWED: Nanos = Nanos::ms(500);

/// The parameters of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unplugging {
    /// Index of the victim with the promise.
    pub(crate) victim: usize,
    promise: Promise,
    /// Time from the first effect of the promise until the CPU goes offline.
    instant: Nanos,
    /// Time for which the CPU is offline.
    absence: Nanos,
}

impl Unplugging {
    /// Returns round `number` of the storm with seed `seed`; `victims` is the number of victims.
    pub(crate) fn of(seed: u64, number: u32, victims: usize) -> Unplugging {
        let mut below = below(seed, number);
        let period = [Nanos::ms(5), Nanos::ms(10), Nanos::ms(40)][below(3) as usize];
        let on = [On::Any, On::Last, On::Two][below(3) as usize];
        let slice = period.scale(1 + below(5), 10);
        // A hard limit is kept on one CPU only.
        let promise = Promise { slice, period, is_hard: below(2) == 1 && on != On::Two, on };
        let victim = below(victims as u64) as usize;
        let absence = FOLLOWED + Nanos::us(below(200_000));
        Unplugging { victim, promise, instant: Nanos::us(below(100_000)), absence }
    }

    /// Runs the round: starts a daemon, removes the last CPU, adds it again, ends the daemon, and checks all values.
    /// Returns the duration of the restoration.
    pub(crate) fn run(&self, tactus: &Path, victims: &Victims) -> Result<Nanos> {
        let last = cpus::online()?.iter().last().context("there is a CPU")?;
        let before = victims.0.iter().map(|victim| Ok(Picture::of(victim.pid())?)).collect::<Result<Vec<Picture>>>()?;
        let chosen = &victims.0[self.victim];
        let mut run = RunUnderTest::begin(tactus, chosen, self.promise, &[])?;
        run.wait_until_it_keeps(None, BEGIN, || is_changed(chosen, &before[self.victim]))?;
        clock::sleep(self.instant);
        let offline = Offline::begin(last.index())?;
        clock::sleep(self.absence);
        self.check_end(&mut run)?;
        offline.end()?;
        // A promise for the removed CPU alone may end at any instant.
        let may_end = self.promise.on == On::Last;
        let is_kept = || is_changed(chosen, &before[self.victim]) || may_end;
        if !within(FOLLOWED, is_kept) {
            let has_ended = within(END, || run.has_ended());
            let state = if has_ended { "the run has ended" } else { "the run goes on without it" };
            bail!("the promise has ended, {state}; tactus said:\n{}", run.said());
        }
        let agents = run.agents();
        let has_places = || {
            let places = agents.iter().filter_map(|&tid| affinity::get(tid).ok().filter(|place| place.len() == 1));
            let places: BTreeSet<CpuId> = places.filter_map(|place| place.first()).collect();
            places.len() == agents.len()
        };
        let are_back = within(FOLLOWED, || run.has_ended() || has_places());
        ensure!(are_back, "an agent is not on its CPU again; tactus said:\n{}", run.said());
        self.check_end(&mut run)?;
        if let Ok(core) = run.core() {
            // The core may be ending already.
            let _ = core.kill();
        }
        let took = as_before(&run, victims, &before, self.victim, PROMISED, || false)
            .with_context(|| format!("tactus said:\n{}", run.said()))?;
        run.all_end_within(END)?;
        Ok(took)
    }

    /// Checks that the run has not ended, or has ended because the promise was for the removed CPU alone.
    fn check_end(&self, run: &mut RunUnderTest) -> Result<()> {
        let (is_over, said) = (run.has_ended(), run.said());
        ensure!(
            !is_over || self.promise.on == On::Last && said.contains("may run on CPUs"),
            "the promise did not survive that a CPU was removed; tactus said:\n{said}"
        );
        Ok(())
    }
}

impl fmt::Display for Unplugging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unplugging { promise, instant, absence, .. } = self;
        write!(f, "{promise}; CPU removed after {instant} for {absence}")
    }
}

/// A CPU that is offline. Dropping this value brings it back.
struct Offline {
    switch: String,
}

impl Offline {
    fn begin(cpu: usize) -> Result<Offline> {
        let switch = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        fs::write(&switch, "0").with_context(|| format!("cannot remove CPU {cpu}"))?;
        Ok(Offline { switch })
    }

    fn end(self) -> Result<()> {
        fs::write(&self.switch, "1").context("the CPU does not come back")
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // After `end`, the CPU is online already, and this write has no effect.
        let _ = fs::write(&self.switch, "1");
    }
}
