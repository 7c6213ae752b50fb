//! Freezing processes of this host through control groups.
//!
//! Version 1 is preferred: Tactus creates a group of its own below the group of a process, and freezing this group does
//! not affect a freeze by another program. A hierarchy that is not mounted is mounted privately. Version 2 serves only
//! where version 1 is not available, and only for a group that contains no other process.

use crate::kernel::Joined;
use crate::table::FreezerGroup;
use sys::cgroup::{Hierarchy, Version};
use sys::thread::Thread;
use sys::{Error, Result, freezer};

/// The remedy for a process that cannot have a hard limit.
const REMEDY: &str = "start the process in a scope of its own (systemd-run --scope), or use a soft limit";
/// Controller of version 1.
const CONTROLLER: &str = "freezer";

/// An open control group through which processes are frozen.
#[derive(Debug)]
pub struct Freezer {
    freezer: freezer::Freezer,
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

/// Returns the path of the group of thread `tid` in version 2 that freezes with all threads of the process: the group of
/// the thread, or the nearest group above that is not threaded.
fn domain_of(hierarchy: &Hierarchy, tid: u32) -> Result<String> {
    let mut path = hierarchy.path_of(tid)?;
    while hierarchy.open(&path)?.is_threaded() {
        path = parent_of(&path).to_string();
    }
    Ok(path)
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

/// See [`Kernel::freezer_group`](crate::kernel::Kernel::freezer_group).
pub(super) fn group_for(leader: &Thread) -> Result<FreezerGroup> {
    let pid = leader.tid();
    if own(pid)?.is_some() {
        return Ok(FreezerGroup::Own { first: leader.identity() });
    }
    let hierarchy = Hierarchy::two().map_err(|error| unavailable(pid, error.reason()))?;
    let group = hierarchy.open(&domain_of(&hierarchy, pid)?)?;
    if !group.has("cgroup.freeze") {
        return Err(unavailable(pid, "it is in the root control group".to_string()));
    }
    Ok(FreezerGroup::Found { id: group.id()? })
}

/// See [`Kernel::open_freezer`](crate::kernel::Kernel::open_freezer).
pub(super) fn open(group: FreezerGroup, leader: &Thread) -> Result<Freezer> {
    let pid = leader.tid();
    let (hierarchy, path, opened) = match group.name() {
        Some(name) => {
            let hierarchy = own(pid)?.ok_or_else(|| unavailable(pid, "its group cannot be changed".to_string()))?;
            let present = hierarchy.path_of(pid)?;
            let opened = hierarchy.open(&present)?.create_lasting(&name)?;
            (hierarchy, format!("{}/{name}", present.trim_end_matches('/')), opened)
        }
        None => {
            let hierarchy = Hierarchy::two()?;
            let path = domain_of(&hierarchy, pid)?;
            let opened = hierarchy.open(&path)?;
            if group != (FreezerGroup::Found { id: opened.id()? }) {
                return Err(unavailable(pid, "another program has just moved it to another control group".to_string()));
            }
            (hierarchy, path, opened)
        }
    };
    Ok(Freezer { freezer: freezer::Freezer::open(opened)?, hierarchy, path })
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
        self.freezer.group().add_process(pid)?;
        if let Err(gone) = leader.status() {
            // The pid may have been reused: a later process goes back.
            let _ = self.hierarchy.open(parent).and_then(|parent| parent.add_process(pid));
            return Err(gone);
        }
        Ok(Joined::Moved)
    }

    /// See [`Kernel::freezer_processes`](crate::kernel::Kernel::freezer_processes).
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        self.freezer.group().all_processes()
    }

    /// See [`Kernel::is_freezing`](crate::kernel::Kernel::is_freezing).
    pub(super) fn is_freezing(&self) -> Result<bool> {
        if self.is_own() { Ok(false) } else { self.freezer.is_freezing() }
    }

    pub(super) fn freeze(&self) -> Result<()> {
        self.freezer.freeze()
    }

    pub(super) fn thaw(&self) -> Result<()> {
        self.freezer.thaw()
    }
}

/// Returns the hierarchy of `group`, and the paths of the groups that `group` denotes: none after its removal.
fn found(group: FreezerGroup) -> Result<(Hierarchy, Vec<String>)> {
    let hierarchy = match group {
        FreezerGroup::Own { .. } => Hierarchy::one_or_mount(CONTROLLER)?,
        FreezerGroup::Found { .. } => Hierarchy::two()?,
    };
    let name = group.name();
    let paths = hierarchy.find(|found, id| match (&name, group) {
        (Some(name), _) => found == name,
        (None, FreezerGroup::Found { id: wanted }) => id == wanted,
        (None, FreezerGroup::Own { .. }) => false,
    })?;
    Ok((hierarchy, paths))
}

/// Returns `outcome`, or success if another process has removed `group` meanwhile.
fn unless_removed(group: FreezerGroup, outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(_) if found(group)?.1.is_empty() => Ok(()),
        outcome => outcome,
    }
}

/// See [`Kernel::thaw_group`](crate::kernel::Kernel::thaw_group).
pub(super) fn thaw(group: FreezerGroup) -> Result<()> {
    let (hierarchy, paths) = found(group)?;
    unless_removed(group, paths.iter().try_for_each(|path| freezer::thaw(&hierarchy.open(path)?)))
}

/// See [`Kernel::remove_group`](crate::kernel::Kernel::remove_group).
pub(super) fn remove(group: FreezerGroup) -> Result<()> {
    let Some(name) = group.name() else { return Ok(()) };
    let (hierarchy, paths) = found(group)?;
    let remove = |path: &String| {
        let child = hierarchy.open(parent_of(path))?.adopt(&name)?;
        freezer::thaw(&child)?;
        child.remove()
    };
    // A group may contain another of the same name. Remove the inner group first.
    unless_removed(group, paths.iter().rev().try_for_each(remove))
}
