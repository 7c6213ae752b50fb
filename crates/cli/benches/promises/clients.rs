//! The CPU time of Tactus for several kinds of clients, beside an empty loop with as many wake-ups in the same run.

use crate::expense::{Expense, Spent};
use crate::ours::{WARM_UP, admit, setup};
use crate::{Cost, Promise, floor, hogs, spread};
use daemon::live;
use sched::{CpuSet, Limit, Nanos};
use std::fmt::Write as _;
use sys::child::{Child, Work};
use sys::{affinity, clock};

/// Number of staggered clients, and the slices in their period of 10 ms: 1 to 4 %.
const MANY: usize = 20;
const SLICES: [u64; 4] = [100, 200, 300, 400];
const PERIOD: Nanos = Nanos::ms(10);

/// A sleeping client runs for [`BUSY`] in each period of this promise, and sleeps until the next period.
const SLEEPER: Promise = Promise { period: Nanos::ms(1), slice: Nanos::us(500) };
const BUSY: Nanos = Nanos::us(300);

/// Starts one process per promise, and promises. Returns what Tactus has spent in `length`.
fn expense(promises: &[(Promise, Work)], length: Nanos) -> Result<Spent, String> {
    let _others = hogs();
    live::serve(&setup(None)?, |front| {
        let mut children = Vec::new();
        for (promise, work) in promises {
            let child = Child::start(*work).map_err(|error| error.to_string())?;
            affinity::set(child.pid(), &CpuSet::one(crate::cpu())).map_err(|error| error.to_string())?;
            admit(front, *promise, Limit::Soft, child.pid())?;
            children.push(child);
            // The periods of the clients begin at different times.
            clock::sleep(PERIOD.scale(1, MANY as u64) + Nanos::us(30));
        }
        clock::sleep(WARM_UP);
        let expense = Expense::of(front.pid());
        let before = expense.read();
        clock::sleep(length);
        Ok(expense.read() - &before)
    })
    .map_err(|failure| format!("{failure:?}"))?
}

/// Measures a sleeping client `runs` times. Returns a line of the report.
pub(crate) fn sleeper(runs: usize, length: Nanos) -> Result<String, String> {
    let (mut ours, mut ratios, mut details) = (Vec::new(), Vec::new(), String::new());
    let periods = length.as_ns() as f64 / SLEEPER.period.as_ns() as f64;
    let work = Work::Spin { busy: BUSY, idle: SLEEPER.period - BUSY };
    for _ in 0..runs {
        // The client sleeps for the rest of a period, so it wakes somewhat less often than once per period.
        let Cost { time, wakes, by_name } = Cost::of(&expense(&[(SLEEPER, work)], length)?, periods);
        ours.push(time);
        ratios.push(time / floor::measure(SLEEPER.period, length));
        let _ = write!(details, "\n{:>20}{wakes:.2} wake-ups of the agent: {by_name}", "");
    }
    let (ours, ratio) = (spread(ours), spread(ratios));
    Ok(format!(
        "  a sleeping client, {BUSY} of {} every {}: {:.1} us a period ({:.1} to {:.1}), {:.2} of one wake-up of an empty loop \
         beside the hogs ({:.2} to {:.2}){details}",
        SLEEPER.slice,
        SLEEPER.period,
        ours.0 / 1e3,
        ours.1 / 1e3,
        ours.2 / 1e3,
        ratio.0,
        ratio.1,
        ratio.2
    ))
}

/// Measures many spinning clients `runs` times. Returns a line of the report.
pub(crate) fn many(runs: usize, length: Nanos) -> Result<String, String> {
    let spin = Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO };
    let promise = |nth: usize| Promise { period: PERIOD, slice: Nanos::us(SLICES[nth % SLICES.len()]) };
    let promises: Vec<(Promise, Work)> = (0..MANY).map(|nth| (promise(nth), spin)).collect();
    let (mut shares, mut ratios, mut turns, mut details) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    for _ in 0..runs {
        let spent = expense(&promises, length)?;
        let seconds = length.as_ns() as f64 / 1e9;
        let (time, wakes) = (spent.total() / seconds, spent.wakes as f64 / seconds);
        // An empty loop that wakes as often. It wakes twice per period.
        let period = Nanos::ns((2e9 / wakes) as u64);
        shares.push(time / 1e7);
        turns.push(wakes);
        ratios.push(time / wakes / floor::measure(period, length));
        let by_name = spent.by_name(seconds * 1e3);
        let _ = write!(details, "\n{:>20}{wakes:.0} turns a second; us per millisecond: {by_name}", "");
    }
    let (share, ratio, turns) = (spread(shares), spread(ratios), spread(turns));
    Ok(format!(
        "  {MANY} spinning clients, 1 to 4 % each every {PERIOD}: {:.2} % of the CPU ({:.2} to {:.2}), {:.0} turns a second, \
         {:.2} of as many wake-ups of an empty loop beside the hogs ({:.2} to {:.2}){details}",
        share.0, share.1, share.2, turns.0, ratio.0, ratio.1, ratio.2
    ))
}
