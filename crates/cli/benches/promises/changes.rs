//! Measures how soon a changed promise is in force: the time from the call that changes the promise until the agent of
//! its CPU has taken a turn.

use crate::ours::{admit, setup};
use crate::{Promise, cpu, hog, hogs};
use daemon::live;
use daemon::table::{Beating, Table};
use sched::{Limit, Nanos};
use sys::clock;

/// The promise changes between these two.
const SLICES: [Nanos; 2] = [Nanos::ms(2), Nanos::ms(3)];
const PERIOD: Nanos = Nanos::ms(10);
/// Interval between two changes. It has no common factor with the period, so that the changes fall on all phases.
const INTERVAL: Nanos = Nanos::us(13_300);
/// Maximum time to wait for a turn.
const PATIENCE: Nanos = Nanos::s(1);

/// Changes a promise `count` times. Returns the time of each change, in ascending order.
pub(crate) fn measure(count: usize) -> Result<Vec<Nanos>, String> {
    let others = hogs();
    let child = hog();
    let setup = setup(None)?;
    let directory = setup.directory.clone();
    let measured = live::serve(&setup, |front| {
        let e = admit(front, Promise { period: PERIOD, slice: SLICES[0] }, Limit::Soft, child.pid())?;
        let table = directory.open_table().map_err(|reason| reason.to_string())?.ok_or("there is no table")?;
        let mut times = Vec::with_capacity(count);
        for nth in 1..=count {
            clock::sleep(INTERVAL);
            let (begun, before) = (clock::now(), beats(&table));
            front.adjust(e, SLICES[nth % 2], PERIOD).map_err(|refusal| refusal.to_string())?;
            // The agent may have taken its turn before the call has returned.
            while beats(&table) == before {
                if clock::now() > begun.saturating_add(PATIENCE) {
                    return Err(format!("change {nth} is not in force after {PATIENCE}"));
                }
                clock::sleep(Nanos::us(20));
            }
            times.push(clock::now().saturating_since(begun));
        }
        times.sort_unstable();
        Ok(times)
    });
    drop(others);
    measured.map_err(|failure| format!("{failure:?}"))?
}

fn beats(table: &Table) -> u64 {
    table.beats(Beating::Agent(cpu()))
}
