//! Shares of the CPUs for processes of this host, through control groups.
//!
//! Version 1 is preferred where its cpu controller is mounted: Tactus creates a group of its own below the group of a
//! process, so that limits of other programs stay in force. In version 2, a group with processes cannot have groups with
//! controllers below it. Tactus then sets weight and cap of the group of the process itself, or of the scope of its VM. The
//! group must contain no other process.

use crate::kernel::CpuShare;
use crate::table::{Bandwidth, Change, ControlGroup};
use sys::cgroup::{Group, Hierarchy};
use sys::thread::Thread;
use sys::{Error, Result};

/// Controller of version 1.
pub(super) const CONTROLLER: &str = "cpu";
/// The remedy for a process that cannot have a share.
const REMEDY: &str =
    "start the process in a scope of its own with this controller (systemd-run --scope --property=CPUWeight=100)";
/// The period of quotas of at least 10 %, and the period of smaller quotas. A shorter period limits bursts. In each period,
/// the kernel allows at least 1 ms. Unit: microseconds.
const QUOTA_PERIOD_US: [u64; 2] = [10_000, 100_000];
/// Minimum quota. Unit: microseconds.
const QUOTA_LEAST_US: u64 = 1_000;
/// The weight of an ordinary group in version 1, for a weight of 100.
const SHARES_PER_HUNDRED: u64 = 1_024;

/// An open group through which processes have a share.
#[derive(Debug)]
pub(super) enum Share {
    /// A group of version 1 that Tactus has created.
    Own(Group),
    /// A group of version 2, and the changes of its weight and cap.
    Found(Group, Option<Change<u64>>, Option<Change<Bandwidth>>),
}

impl Share {
    pub(super) fn group(&self) -> &Group {
        match self {
            Share::Own(group) | Share::Found(group, ..) => group,
        }
    }

    /// See [`Kernel::set_share`](crate::kernel::Kernel::set_share).
    pub(super) fn set(&self, wanted: CpuShare) -> Result<()> {
        match self {
            Share::Own(group) => {
                if let Some(weight) = wanted.weight {
                    group.write("cpu.shares", &(u64::from(weight) * SHARES_PER_HUNDRED / 100).max(2).to_string())?;
                }
                if let Some(percent) = wanted.cap_percent {
                    let (quota_us, period_us) = quota_of(percent);
                    group.write("cpu.cfs_period_us", &period_us.to_string())?;
                    group.write("cpu.cfs_quota_us", &quota_us.to_string())?;
                }
            }
            Share::Found(group, weight, cap) => {
                if let Some(change) = weight {
                    group.write("cpu.weight", &change.after.to_string())?;
                }
                if let Some(change) = cap {
                    group.write("cpu.max", &text_of(change.after))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns quota and period of a cap, in microseconds.
fn quota_of(percent: u32) -> (u64, u64) {
    let period = QUOTA_PERIOD_US[usize::from(percent < 10)];
    ((u64::from(percent) * period / 100).max(QUOTA_LEAST_US), period)
}

/// Returns the error that process `pid` cannot have a share.
fn no_share(pid: u32, why: String) -> Error {
    Error::Absent { what: format!("a weight or a cap for process {pid}"), why, remedy: REMEDY }
}

/// Returns the error that a group of the freezer has no share.
pub(super) fn senseless(group: &Group) -> Error {
    let (what, why) = (format!("a share of {}", group.path().display()), "the group only freezes".to_string());
    Error::Absent { what, why, remedy: "use a group that was opened for a share" }
}

/// See [`Kernel::share_group`](crate::kernel::Kernel::share_group).
pub(super) fn group_for(leader: &Thread, wanted: CpuShare) -> Result<ControlGroup> {
    let pid = leader.tid();
    let Ok(hierarchy) = Hierarchy::one(CONTROLLER) else { return group_in_place(leader, wanted) };
    if !hierarchy.group_of(pid)?.is_writable() {
        return Err(no_share(pid, "its group cannot be changed".to_string()));
    }
    Ok(ControlGroup::Share { first: leader.identity() })
}

fn group_in_place(leader: &Thread, wanted: CpuShare) -> Result<ControlGroup> {
    let pid = leader.tid();
    let hierarchy = Hierarchy::two().map_err(|error| no_share(pid, error.reason()))?;
    let group = hierarchy.open(&hierarchy.share_path_of(pid)?)?;
    if !group.has("cpu.weight") {
        return Err(no_share(pid, format!("its control group {} lacks the cpu controller", group.path().display())));
    }
    let weight = match wanted.weight.map(u64::from) {
        Some(after) => Some(Change { before: weight_of(&group)?, after }),
        None => None,
    };
    if weight.is_some_and(|weight| weight.before == 0) {
        return Err(no_share(pid, "its control group has no weight (cpu.idle)".to_string()));
    }
    let cap = match wanted.cap_percent.map(quota_of) {
        Some((quota_us, period_us)) => {
            let (before, after) = (bandwidth_of(&group)?, Bandwidth { quota_us: Some(quota_us), period_us });
            // A lower cap of another program stays in force.
            after.is_below(&before).then_some(Change { before, after })
        }
        None => None,
    };
    Ok(ControlGroup::FoundShare { id: group.id()?, weight, cap })
}

/// Opens `group`, which [`group_for`] has returned for `leader`. Returns the hierarchy of the group and the path in it.
pub(super) fn open(group: ControlGroup, leader: &Thread) -> Result<(Hierarchy, String, Share)> {
    let pid = leader.tid();
    if let Some(name) = group.name() {
        let hierarchy = Hierarchy::one(CONTROLLER)?;
        let present = hierarchy.path_of(pid)?;
        let opened = hierarchy.open(&present)?.create_lasting(&name)?;
        return Ok((hierarchy, format!("{}/{name}", present.trim_end_matches('/')), Share::Own(opened)));
    }
    let hierarchy = Hierarchy::two()?;
    let ControlGroup::FoundShare { id: wanted, weight, cap } = group else { return Err(moved(pid)) };
    // A process that was started meanwhile does not change the group.
    for path in hierarchy.share_paths_of(pid)? {
        if let Ok(opened) = hierarchy.open(&path)
            && opened.id()? == wanted
        {
            return Ok((hierarchy, path, Share::Found(opened, weight, cap)));
        }
    }
    Err(moved(pid))
}

fn moved(pid: u32) -> Error {
    no_share(pid, "another program has just moved it to another control group".to_string())
}

/// Restores the weight and the cap of a group of version 2, unless another program has changed them since.
pub(super) fn restore(group: &Group, weight: Option<Change<u64>>, cap: Option<Change<Bandwidth>>) -> Result<()> {
    if let Some(Change { before, after }) = weight
        && weight_of(group)? == after
    {
        group.write("cpu.weight", &before.to_string())?;
    }
    if let Some(Change { before, after }) = cap
        && bandwidth_of(group)? == after
    {
        group.write("cpu.max", &text_of(before))?;
    }
    Ok(())
}

/// Returns the weight of a group of version 2; zero if the group is idle (`cpu.idle`).
fn weight_of(group: &Group) -> Result<u64> {
    let malformed = || Error::Malformed { path: group.path().join("cpu.weight"), wanted: "a number" };
    group.read("cpu.weight")?.trim().parse().map_err(|_| malformed())
}

/// Returns the bandwidth of a group of version 2.
fn bandwidth_of(group: &Group) -> Result<Bandwidth> {
    let text = group.read("cpu.max")?;
    let parsed = text.trim().split_once(' ').and_then(|(quota, period)| {
        let quota_us = if quota == "max" { None } else { Some(quota.parse().ok()?) };
        Some(Bandwidth { quota_us, period_us: period.parse().ok()? })
    });
    parsed.ok_or_else(|| Error::Malformed { path: group.path().join("cpu.max"), wanted: "a quota and a period" })
}

/// Returns a bandwidth as `cpu.max` has it.
fn text_of(bandwidth: Bandwidth) -> String {
    let quota = bandwidth.quota_us.map_or("max".to_string(), |quota| quota.to_string());
    format!("{quota} {}", bandwidth.period_us)
}
