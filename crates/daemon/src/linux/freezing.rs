//! Freezing processes of this host through control groups.
//!
//! Version 1 is preferred: Tactus creates a group of its own below the group of a process, and freezing this group does
//! not affect a freeze by another program. A hierarchy that is not mounted is mounted privately. Version 2 serves only
//! where version 1 is not available, and only for a group that contains no other process.

use super::shares::{self, Share};
use crate::kernel::{CpuShare, Joined};
use crate::table::ControlGroup;
use sys::cgroup::{Group, Hierarchy, Version};
use sys::thread::Thread;
use sys::{Error, Result, freezer};

/// The remedy for a process that cannot have a hard limit.
const REMEDY: &str = "start the process in a scope of its own (systemd-run --scope), or use a soft limit";
/// Controller of version 1.
const CONTROLLER: &str = "freezer";

/// What an open control group does.
#[derive(Debug)]
enum Held {
    Freezes(freezer::Freezer),
    Shares(Share),
}

impl Held {
    fn group(&self) -> &Group {
        match self {
            Held::Freezes(freezer) => freezer.group(),
            Held::Shares(share) => share.group(),
        }
    }

    fn freezer(&self) -> Result<&freezer::Freezer> {
        match self {
            Held::Freezes(freezer) => Ok(freezer),
            Held::Shares(share) => Err(Error::Absent {
                what: format!("the freezer of {}", share.group().path().display()),
                why: "the group serves a share of the CPUs".to_string(),
                remedy: "use a group of the freezer",
            }),
        }
    }
}

/// An open control group through which processes are frozen, or have a share of the CPUs.
#[derive(Debug)]
pub struct Freezer {
    held: Held,
    hierarchy: Hierarchy,
    /// Path of the group in its hierarchy.
    path: String,
}

/// Returns the error that process `pid` cannot have a hard limit.
fn unavailable(pid: u32, why: String) -> Error {
    Error::Absent { what: format!("a hard limit for process {pid}"), why, remedy: REMEDY }
}

/// Returns the hierarchy of version 1, if Tactus may create a group below the group of thread `tid` that affects nothing
/// but freezing.
fn own(tid: u32) -> Result<Option<Hierarchy>> {
    let Ok(hierarchy) = Hierarchy::one_or_mount(CONTROLLER) else { return Ok(None) };
    let may = hierarchy.is_exclusive()? && hierarchy.group_of(tid)?.is_writable();
    Ok(may.then_some(hierarchy))
}

/// Returns the path of the group above.
fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Returns whether the group `path` is the group `above` or below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Opens the hierarchy in which Tactus creates freezer groups, and lets the children of this process inherit its private
/// mount. Returns the number of the descriptor; `None` if the hierarchy is mounted visibly, or cannot be mounted.
pub(crate) fn pass_on_mount() -> Option<i32> {
    Hierarchy::one_or_mount(CONTROLLER).ok()?;
    Hierarchy::pass_on_mount(CONTROLLER)
}

/// Uses the private mount that this process has inherited under `number`.
pub(crate) fn take_over_mount(number: i32) -> Result<()> {
    Hierarchy::take_over_mount(CONTROLLER, number)
}

/// See [`Kernel::freezer_group`](crate::kernel::Kernel::freezer_group).
pub(super) fn group_for(leader: &Thread) -> Result<ControlGroup> {
    let pid = leader.tid();
    if own(pid)?.is_some() {
        return Ok(ControlGroup::Own { first: leader.identity() });
    }
    let hierarchy = Hierarchy::two().map_err(|error| unavailable(pid, error.reason()))?;
    let group = hierarchy.open(&hierarchy.domain_path_of(pid)?)?;
    if !group.has("cgroup.freeze") {
        return Err(unavailable(pid, "it is in the root control group".to_string()));
    }
    Ok(ControlGroup::Found { id: group.id()? })
}

/// See [`Kernel::open_freezer`](crate::kernel::Kernel::open_freezer).
pub(super) fn open(group: ControlGroup, leader: &Thread) -> Result<Freezer> {
    let pid = leader.tid();
    if group.is_share() {
        let (hierarchy, path, share) = shares::open(group, leader)?;
        return Ok(Freezer { held: Held::Shares(share), hierarchy, path });
    }
    let (hierarchy, path, opened) = match group.name() {
        Some(name) => {
            let hierarchy = own(pid)?.ok_or_else(|| unavailable(pid, "its group cannot be changed".to_string()))?;
            let present = hierarchy.path_of(pid)?;
            let opened = hierarchy.open(&present)?.create_lasting(&name)?;
            (hierarchy, format!("{}/{name}", present.trim_end_matches('/')), opened)
        }
        None => {
            let hierarchy = Hierarchy::two()?;
            let path = hierarchy.domain_path_of(pid)?;
            let opened = hierarchy.open(&path)?;
            if group != (ControlGroup::Found { id: opened.id()? }) {
                return Err(unavailable(pid, "another program has just moved it to another control group".to_string()));
            }
            (hierarchy, path, opened)
        }
    };
    Ok(Freezer { held: Held::Freezes(freezer::Freezer::open(opened)?), hierarchy, path })
}

impl Freezer {
    fn is_own(&self) -> bool {
        self.hierarchy.version() == Version::One
    }

    /// See [`Kernel::join_freezer`](crate::kernel::Kernel::join_freezer).
    pub(super) fn join(&self, leader: &Thread) -> Result<Joined> {
        let pid = leader.tid();
        let present = self.hierarchy.path_of(pid)?;
        if is_within(&present, &self.path) {
            return Ok(Joined::Already);
        }
        let parent = parent_of(&self.path);
        if !self.is_own() || present != parent {
            return Ok(Joined::Elsewhere);
        }
        self.held.group().add_process(pid)?;
        if let Err(gone) = leader.status() {
            // The pid may have been reused: a later process goes back.
            let _ = self.hierarchy.open(parent).and_then(|parent| parent.add_process(pid));
            return Err(gone);
        }
        Ok(Joined::Moved)
    }

    /// See [`Kernel::freezer_processes`](crate::kernel::Kernel::freezer_processes).
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        self.held.group().all_processes()
    }

    /// See [`Kernel::is_freezing`](crate::kernel::Kernel::is_freezing).
    pub(super) fn is_freezing(&self) -> Result<bool> {
        if self.is_own() { Ok(false) } else { self.held.freezer()?.is_freezing() }
    }

    /// See [`Kernel::set_share`](crate::kernel::Kernel::set_share).
    pub(super) fn set_share(&self, wanted: CpuShare) -> Result<()> {
        match &self.held {
            Held::Shares(share) => share.set(wanted),
            Held::Freezes(freezer) => Err(shares::senseless(freezer.group())),
        }
    }

    pub(super) fn freeze(&self) -> Result<()> {
        self.held.freezer()?.freeze()
    }

    pub(super) fn thaw(&self) -> Result<()> {
        self.held.freezer()?.thaw()
    }
}

/// Returns the hierarchy of `group`, and the paths of the groups that `group` denotes: none after its removal.
fn found(group: ControlGroup) -> Result<(Hierarchy, Vec<String>)> {
    let hierarchy = match group {
        ControlGroup::Own { .. } => Hierarchy::one_or_mount(CONTROLLER)?,
        ControlGroup::Found { .. } | ControlGroup::FoundShare { .. } => Hierarchy::two()?,
        ControlGroup::Share { .. } => Hierarchy::one(shares::CONTROLLER)?,
    };
    let name = group.name();
    let paths = hierarchy.find(|found, id| match (&name, group) {
        (Some(name), _) => found == name,
        (None, ControlGroup::Found { id: wanted } | ControlGroup::FoundShare { id: wanted, .. }) => id == wanted,
        (None, ControlGroup::Own { .. } | ControlGroup::Share { .. }) => false,
    })?;
    Ok((hierarchy, paths))
}

/// Returns `outcome`, or success if another process has removed `group` meanwhile.
fn unless_removed(group: ControlGroup, outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(_) if found(group)?.1.is_empty() => Ok(()),
        outcome => outcome,
    }
}

/// See [`Kernel::thaw_group`](crate::kernel::Kernel::thaw_group).
pub(super) fn thaw(group: ControlGroup) -> Result<()> {
    if group.is_share() {
        return Ok(());
    }
    let (hierarchy, paths) = found(group)?;
    unless_removed(group, paths.iter().try_for_each(|path| freezer::thaw(&hierarchy.open(path)?)))
}

/// See [`Kernel::remove_group`](crate::kernel::Kernel::remove_group).
pub(super) fn remove(group: ControlGroup) -> Result<()> {
    if let ControlGroup::FoundShare { weight, cap, .. } = group {
        let (hierarchy, paths) = found(group)?;
        let restore = |path: &String| shares::restore(&hierarchy.open(path)?, weight, cap);
        return unless_removed(group, paths.iter().try_for_each(restore));
    }
    let Some(name) = group.name() else { return Ok(()) };
    let (hierarchy, paths) = found(group)?;
    let remove = |path: &String| {
        let child = hierarchy.open(parent_of(path))?.adopt(&name)?;
        if !group.is_share() {
            freezer::thaw(&child)?;
        }
        child.remove()
    };
    // A group may contain another of the same name. Remove the inner group first.
    unless_removed(group, paths.iter().rev().try_for_each(remove))
}
