//! One fault per round: the target, the type, and the checks after the fault.

use crate::judge::{Change, Picture};
use crate::run_under_test::{On, Promise, RunUnderTest};
use crate::victims::{Victim, Victims, after, within};
use anyhow::{Context, Result, bail, ensure};
use daemon::live::StalledThread;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sched::Nanos;
use std::fmt;
use std::path::Path;
use sys::clock;
use sys::process::Process;

/// Time within which every thread must have its original values.
pub(crate) const PROMISED: Nanos = Nanos::s(1);
/// Maximum time to wait for a daemon to start, in a guest on a busy host.
pub(crate) const BEGIN: Nanos = Nanos::s(10);
/// Maximum time to wait, after the fault, for the other processes of the run to end. Tactus does not promise this time.
pub(crate) const END: Nanos = Nanos::s(5);
/// Time after the restoration in which the values must not change.
const REST: Nanos = Nanos::ms(50);
/// Time from the start of the service to the earliest stall of a thread. By then, a guest on a busy host keeps the promise.
pub(crate) const STALL: Nanos = Nanos::s(3);
/// Minimum time for which the promise is kept while the front end is stopped: longer than the guardian's patience.
const KEPT: Nanos = Nanos::ms(500);

/// The target of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Core,
    /// The agent with this number, modulo the number of agents. The signal is sent to its thread.
    Agent(u64),
    Guardian,
    FrontEnd,
    /// A thread of the core, which stalls by itself.
    Thread(StalledThread),
}

/// The type of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Kill,
    Stop,
}

/// The parameters of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// Index of the victim with the promise.
    pub(crate) victim: usize,
    promise: Promise,
    target: Target,
    how: How,
    /// Time from the first effect of the promise to the fault.
    instant: Nanos,
    /// After a fault of the guardian: time from the instant at which the promise is kept again until the core is
    /// killed.
    next: Nanos,
}

impl Round {
    /// Returns round `number` of the storm with seed `seed`; `victim` is the number of victims.
    pub(crate) fn of(seed: u64, number: u32, victim: usize) -> Round {
        let mut below = below(seed, number);
        let period = [Nanos::ms(5), Nanos::ms(10), Nanos::ms(40)][below(3) as usize];
        let promise = Promise { slice: period.scale(1 + below(5), 10), period, is_hard: below(2) == 1, on: On::Any };
        let target = match below(8) {
            0 | 1 => Target::Core,
            2 => Target::Agent(below(64)),
            3 | 4 => Target::Guardian,
            5 | 6 => Target::FrontEnd,
            _ => Target::Thread(StalledThread::ALL[below(StalledThread::ALL.len() as u64) as usize].0),
        };
        let how = if below(2) == 1 { How::Stop } else { How::Kill };
        let victim = below(victim as u64) as usize;
        Round { victim, promise, target, how, instant: Nanos::us(below(100_000)), next: Nanos::us(below(50_000)) }
    }

    /// Runs the round: starts a daemon, injects the fault, and checks all values. Returns the duration of the
    /// restoration.
    pub(crate) fn run(&self, tactus: &Path, victims: &Victims) -> Result<Nanos> {
        let before = victims.0.iter().map(|victim| Ok(Picture::of(victim.pid())?)).collect::<Result<Vec<Picture>>>()?;
        let chosen = &victims.0[self.victim];
        let stall = self.stall();
        let fault: Vec<&str> = stall.iter().flat_map(|stall| ["--stall", stall]).collect();
        let mut run = RunUnderTest::begin(tactus, chosen, self.promise, &fault)?;
        run.wait_until_it_keeps(None, BEGIN, || is_changed(chosen, &before[self.victim]))?;
        let end = |run: &RunUnderTest, limit: Nanos| as_before(run, victims, &before, self.victim, limit, || false);
        let took = if let Target::Thread(thread) = self.target {
            // The service began before the promise was kept, so the thread has stalled after this time. A check before
            // it could find a process that is already in its group and has no other value of Tactus yet.
            clock::sleep(STALL + self.instant);
            end(&run, thread.restored_within())
        } else {
            clock::sleep(self.instant);
            match self.target {
                Target::Guardian => self.strike_guardian(&mut run, victims, &before),
                Target::FrontEnd => self.strike_front_end(&run, victims, &before),
                Target::Agent(number) => self.strike_agent(&run, number).and_then(|()| end(&run, PROMISED)),
                Target::Core | Target::Thread(_) => strike(&run.core()?, self.how).and_then(|()| end(&run, PROMISED)),
            }
        };
        let took = took.with_context(|| format!("tactus said:\n{}", run.said()))?;
        run.all_end_within(END)?;
        clock::sleep(REST);
        let changed = changes(victims, &before)?;
        ensure!(changed.is_empty(), "all was as before, and {REST} later it is not:\n{}", lines_of(&changed));
        Ok(took)
    }

    /// Returns the option for a thread that stalls.
    fn stall(&self) -> Option<String> {
        let Target::Thread(thread) = self.target else { return None };
        let (_, name) = StalledThread::ALL.into_iter().find(|(it, _)| *it == thread)?;
        Some(format!("{name}:{}us", (STALL + self.instant).as_ns() / 1_000))
    }

    /// Injects the fault into the front end. After its death, the core restores all values. While it is stopped, the
    /// promise is kept, until the core is killed.
    fn strike_front_end(&self, run: &RunUnderTest, victims: &Victims, before: &[Picture]) -> Result<Nanos> {
        let (front_end, core) = (run.front_end()?, run.core()?);
        strike(&front_end, self.how)?;
        if self.how == How::Stop {
            clock::sleep(KEPT + self.next);
            ensure!(!core.has_ended(), "the core has ended while its front end is stopped");
            // A process that was already confined to one CPU may have a changed value during its turns only.
            let is_kept = || is_changed(&victims.0[self.victim], &before[self.victim]);
            ensure!(within(PROMISED, is_kept), "the promise is not kept");
            strike(&core, How::Kill)?;
        }
        let took = as_before(run, victims, before, self.victim, PROMISED, || false)?;
        if self.how == How::Stop {
            front_end.cont()?;
        }
        Ok(took)
    }

    fn strike_agent(&self, run: &RunUnderTest, number: u64) -> Result<()> {
        let agents = run.agents();
        ensure!(!agents.is_empty(), "the core has no agents any more");
        let agent = agents[number as usize % agents.len()];
        let core = run.core()?;
        Ok(match self.how {
            How::Kill => core.kill_by(agent),
            How::Stop => core.stop_by(agent),
        }?)
    }

    /// Injects the fault into the guardian. Checks that all values are restored or another guardian runs. Then kills
    /// the core to test the new guardian.
    fn strike_guardian(&self, run: &mut RunUnderTest, victims: &Victims, before: &[Picture]) -> Result<Nanos> {
        let struck = run.guardian(None).context("there is no guardian")?;
        let process = Process::open_as(struck)?;
        strike(&process, self.how)?;
        let first = as_before(run, victims, before, self.victim, PROMISED, || run.guardian(Some(struck)).is_some())?;
        let is_kept = || is_changed(&victims.0[self.victim], &before[self.victim]);
        run.wait_until_it_keeps(Some(struck), BEGIN, is_kept)?;
        ensure!(process.ends_within(END), "the guardian that was struck is still there after {END}");
        clock::sleep(self.next);
        strike(&run.core()?, How::Kill)?;
        Ok(first.max(as_before(run, victims, before, self.victim, PROMISED, || false)?))
    }
}

/// Returns the random numbers of round `number` of the storm with seed `seed`: a function of the exclusive upper limit.
pub(crate) fn below(seed: u64, number: u32) -> impl FnMut(u64) -> u64 {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    chance.set_stream(u64::from(number));
    move |limit| chance.next_u64() % limit
}

/// Waits until all values are restored, or `or` returns true, for at most `limit`. `chosen` is the index of the
/// victim with the promise. Returns the elapsed time.
///
/// Each process may need up to [`END`] longer to be in its original control group again. Linux moves a process only
/// after an RCU grace period (`rcu_sync_enter`, called by `cgroup_procs_write_start`, kernel/cgroup/cgroup.c, v7.2).
/// Beside the busy victims, a grace period may take over a second. The limit was a second until this was seen.
pub(crate) fn as_before(
    run: &RunUnderTest,
    victims: &Victims,
    before: &[Picture],
    chosen: usize,
    limit: Nanos,
    or: impl Fn() -> bool,
) -> Result<Nanos> {
    let mut last = Ok(Vec::new());
    let took = after(limit, || {
        if or() {
            last = Ok(Vec::new());
            return true;
        }
        // Check the victim with the promise first. The values of the other victims rarely change, and a check of all
        // victims takes long.
        let chosen_now = Picture::of(victims.0[chosen].pid());
        if chosen_now.is_ok_and(|now| before[chosen].changes(&now).iter().any(|it| !it.is_membership())) {
            return false;
        }
        last = changes(victims, before);
        last.as_ref().is_ok_and(|all| all.iter().all(|(_, it)| it.is_membership()))
    });
    let Some(took) = took else {
        let states = run.states();
        let left = changes(victims, before)?;
        last?;
        bail!("not as before after {limit}; then:\n{}\n{states}", lines_of(&left))
    };
    let is_moved_back = || or() || changes(victims, before).is_ok_and(|all| all.is_empty());
    let rest = limit.saturating_sub(took) + END;
    if after(rest, is_moved_back).is_none() {
        let left = changes(victims, before)?;
        bail!(
            "a process is not in its control group after {}; then:\n{}\n{}",
            took + rest,
            lines_of(&left),
            run.states()
        );
    }
    Ok(took)
}

/// Returns whether a value of the victim has changed.
pub(crate) fn is_changed(victim: &Victim, before: &Picture) -> bool {
    Picture::of(victim.pid()).is_ok_and(|now| !before.changes(&now).is_empty())
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Round { promise, target, how, instant, .. } = self;
        write!(f, "{promise}; {how:?} {target:?} after {instant}")
    }
}

fn strike(process: &Process, how: How) -> Result<()> {
    Ok(match how {
        How::Kill => process.kill(),
        How::Stop => process.stop(),
    }?)
}

/// Returns the changed values of all victims.
fn changes<'f>(victims: &'f Victims, before: &[Picture]) -> Result<Vec<(&'f Victim, Change)>> {
    let mut all = Vec::new();
    for (victim, before) in victims.0.iter().zip(before) {
        let now = Picture::of(victim.pid()).with_context(|| format!("{} did not survive", victim.name()))?;
        all.extend(before.changes(&now).into_iter().map(|change| (victim, change)));
    }
    Ok(all)
}

fn lines_of(changes: &[(&Victim, Change)]) -> String {
    let lines: Vec<String> = changes.iter().map(|(victim, change)| format!("{}: {change}", victim.name())).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_the_same_whenever_it_is_made_and_no_two_are_alike() {
        assert_eq!(Round::of(7, 3, 9), Round::of(7, 3, 9));
        assert_ne!(Round::of(7, 3, 9), Round::of(7, 4, 9));
        assert_ne!(Round::of(7, 3, 9), Round::of(8, 3, 9));
    }

    #[test]
    fn a_storm_strikes_every_target_in_every_way() {
        let rounds: Vec<Round> = (0..200).map(|number| Round::of(1, number, 9)).collect();
        for how in [How::Kill, How::Stop] {
            for is_hard in [false, true] {
                let some = || rounds.iter().filter(|round| round.how == how && round.promise.is_hard == is_hard);
                assert!(some().any(|round| round.target == Target::Core));
                assert!(some().any(|round| round.target == Target::Guardian));
                assert!(some().any(|round| matches!(round.target, Target::Agent(_))));
                assert!(some().any(|round| round.target == Target::FrontEnd));
            }
        }
        for (thread, _) in StalledThread::ALL {
            assert!(rounds.iter().any(|round| round.target == Target::Thread(thread)));
        }
        for victim in 0..9 {
            assert!(rounds.iter().any(|round| round.victim == victim));
        }
        assert!(rounds.iter().all(|round| round.promise.slice < round.promise.period));
    }
}
