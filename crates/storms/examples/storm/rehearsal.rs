//! Tests of the judge before the storm. The storm changes each process as a daemon does, and the judge must detect the
//! change. After the change is reverted, the judge must detect no change.

use crate::judge::Picture;
use crate::victims::{Victim, Victims, within};
use anyhow::{Result, ensure};
use sched::{CpuSet, Nanos};
use sys::attributes::{self, Attributes};
use sys::process::Process;
use sys::{Error, affinity};

/// Maximum time to wait for a change to take effect in the kernel.
const TIME: Nanos = Nanos::s(2);

/// Tests the judge on every victim.
pub(crate) fn rehearse(victims: &Victims) -> Result<()> {
    for victim in &victims.0 {
        let before = Picture::of(victim.pid())?;
        let changes = before.changes(&Picture::of(victim.pid())?);
        ensure!(changes.is_empty(), "{}: nothing was done, and the judge saw {}", victim.name(), changes[0]);
        // A process with several threads or children is not raised or pinned, because its new threads and children
        // would keep the changed values.
        if before.tids().count() == 1 {
            raise(victim, &before)?;
        }
        stop(victim, &before)?;
    }
    Ok(())
}

/// Raises and pins a process with one thread, and reverts both.
fn raise(victim: &Victim, before: &Picture) -> Result<()> {
    let tid = victim.pid();
    let (was, cpus) = (attributes::get(tid)?, affinity::get(tid)?);
    attributes::set(tid, Attributes::raised(2))?;
    let raised = before.changes(&Picture::of(tid)?);
    attributes::set(tid, was)?;
    ensure!(!raised.is_empty(), "{} was raised, and the judge did not see it", victim.name());
    let one: CpuSet = cpus.iter().next().into_iter().collect();
    if one != cpus {
        affinity::set(tid, &one)?;
        let pinned = before.changes(&Picture::of(tid)?);
        affinity::set(tid, &cpus)?;
        ensure!(!pinned.is_empty(), "{} was pinned, and the judge did not see it", victim.name());
    }
    restored(victim, before)
}

/// Stops a running process, or continues a stopped process, and reverts the change.
fn stop(victim: &Victim, before: &Picture) -> Result<()> {
    let process = Process::open(victim.pid())?;
    let is_stopped = before.leader_is_stopped();
    let turn = |to_stop: bool| if to_stop { process.stop() } else { process.cont() };
    turn(!is_stopped)?;
    let seen = within(TIME, || Picture::of(victim.pid()).is_ok_and(|now| !before.changes(&now).is_empty()));
    turn(is_stopped)?;
    ensure!(seen, "{} was stopped or continued, and the judge did not see it", victim.name());
    restored(victim, before)
}

fn restored(victim: &Victim, before: &Picture) -> Result<()> {
    let mut last = Err(Error::Gone(victim.pid()));
    let is_as_before = within(TIME, || {
        last = Picture::of(victim.pid()).map(|now| before.changes(&now));
        last.as_ref().is_ok_and(Vec::is_empty)
    });
    match last {
        _ if is_as_before => Ok(()),
        Ok(changes) => anyhow::bail!("{}: all was undone, and the judge still saw {}", victim.name(), changes[0]),
        Err(error) => Err(error.into()),
    }
}
