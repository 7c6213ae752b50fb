//! [`Enclosure`]: the control groups through which the processes of a client with a hard limit freeze.
//!
//! The first move of a process into a group takes some 10 ms, because the kernel waits for an RCU grace period. A caller
//! therefore [encloses](enclose) the processes without holding the dispatcher, before the promise is made. Later
//! children of these processes start in the groups.

use super::refusal::Refusal;
use super::scan::processes_of;
use crate::kernel::{Joined, Kernel};
use crate::table::{ControlGroup, Row, Table};
use sys::thread::Identity;

/// Maximum number of scans for processes that are not in the groups yet.
const SCANS_MOST: usize = 100;

/// An open control group, and its row in the table.
#[derive(Debug)]
struct Held<F> {
    row: Row,
    group: ControlGroup,
    freezer: F,
    /// Whether Tactus has frozen the group.
    is_frozen: bool,
}

/// The control groups of a client. A client without a hard limit has none.
pub struct Enclosure<K: Kernel> {
    groups: Vec<Held<K::Freezer>>,
}

impl<K: Kernel> std::fmt::Debug for Enclosure<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enclosure").field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// Puts process `pid` and its descendants into groups through which they can be frozen. Nothing is frozen yet. Takes
/// some 10 ms, so no caller may hold the dispatcher. Calls `beat` before each process. If no promise follows,
/// [release](release_groups) the rows of the enclosure.
///
/// # Errors
/// A process cannot be frozen, or must not be frozen, because other processes would freeze with it. After an error, no
/// process is in a group of Tactus.
pub fn enclose<K: Kernel>(kernel: &K, table: &Table, pid: u32, beat: &dyn Fn()) -> Result<Enclosure<K>, Refusal> {
    let mut enclosure = Enclosure::none();
    match enclosure.fill(kernel, table, pid, &K::freezer_group, beat).and_then(|()| keep_ready(kernel, table)) {
        Ok(()) => Ok(enclosure),
        Err(refused) => {
            release_groups(kernel, table, &enclosure.rows(), beat);
            Err(refused)
        }
    }
}

/// Removes the groups in these rows of `table`, and forgets the rows. A group that cannot be removed stays in the table,
/// for the restoration at the end of the daemon. Calls `beat` before each group.
pub fn release_groups<K: Kernel>(kernel: &K, table: &Table, rows: &[Row], beat: &dyn Fn()) {
    for (row, group, _) in table.groups().into_iter().filter(|(row, ..)| rows.contains(row)) {
        beat();
        if kernel.remove_group(group).is_ok() {
            table.forget(row);
        }
    }
}

/// Creates an empty group of Tactus and freezes it, unless there is one. While no group of version 1 is frozen, Linux
/// skips the checks for freezing, and patches its code when the first group freezes and when the last group thaws: each
/// takes 100 us instead of 10 us (`freezer_active`, kernel/cgroup/legacy_freezer.c, v6.18).
fn keep_ready<K: Kernel>(kernel: &K, table: &Table) -> Result<(), Refusal> {
    let me = kernel.open_as(table.daemon())?;
    let group = kernel.freezer_group(&me);
    let Ok(group @ ControlGroup::Own { .. }) = group else { return Ok(()) };
    if table.groups().iter().any(|(_, found, _)| *found == group) {
        return Ok(());
    }
    let row = table.record_group(group).map_err(Refusal::Full)?;
    if kernel.open_freezer(group, &me).and_then(|freezer| kernel.freeze(&freezer)).is_err() {
        // Hard limits also work without this group, at a higher cost.
        release_groups(kernel, table, &[row], &|| {});
    }
    Ok(())
}

/// Returns the group for a process, by its first thread.
type GroupFor<'f, K> = &'f dyn Fn(&K, &<K as Kernel>::Thread) -> sys::Result<ControlGroup>;

impl<K: Kernel> Enclosure<K> {
    /// Returns the open groups.
    pub(super) fn groups(&self) -> impl ExactSizeIterator<Item = &K::Freezer> {
        self.groups.iter().map(|held| &held.freezer)
    }

    /// Returns the enclosure of a client without a hard limit.
    #[must_use]
    pub fn none() -> Enclosure<K> {
        Enclosure { groups: Vec::new() }
    }

    /// Returns the rows of the groups.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.groups.iter().map(|held| held.row).collect()
    }

    /// Moves the processes of the tree into the groups, until a scan finds no process outside.
    /// `group_for` returns the group for a process. Calls `beat` before each process.
    pub(super) fn fill(
        &mut self,
        kernel: &K,
        table: &Table,
        pid: u32,
        group_for: GroupFor<'_, K>,
        beat: &dyn Fn(),
    ) -> Result<(), Refusal> {
        let root = kernel.identity(&kernel.open(pid)?);
        for _ in 0..SCANS_MOST {
            let (processes, mut is_moved) = (processes_of(kernel, root, beat), false);
            for &process in &processes {
                beat();
                match kernel
                    .open_as(process)
                    .map_err(Refusal::from)
                    .and_then(|it| self.take_in(kernel, table, &it, group_for))
                {
                    Ok(joined) => is_moved |= joined == Joined::Moved,
                    Err(Refusal::Gone(_)) if process != root => {}
                    Err(refused) => return Err(refused),
                }
            }
            if !is_moved {
                return self.contain_only(kernel, pid, &processes, beat);
            }
        }
        let reason = "the process forks faster than Tactus can move its children to a control group";
        Err(Refusal::Unsupported { reason, remedy: "try again when it forks less" })
    }

    fn take_in(
        &mut self,
        kernel: &K,
        table: &Table,
        process: &K::Thread,
        group_for: GroupFor<'_, K>,
    ) -> Result<Joined, Refusal> {
        for held in &self.groups {
            match kernel.join_freezer(&held.freezer, process)? {
                Joined::Elsewhere => {}
                joined => return Ok(joined),
            }
        }
        let group = group_for(kernel, process)?;
        // The group is in the table before it exists.
        let row = table.record_group(group).map_err(Refusal::Full)?;
        let opened = kernel.open_freezer(group, process);
        let freezer = opened.inspect_err(|_| release_groups(kernel, table, &[row], &|| {}))?;
        self.groups.push(Held { row, group, freezer, is_frozen: false });
        let joined = self.groups.last().map(|held| kernel.join_freezer(&held.freezer, process));
        Ok(joined.transpose()?.unwrap_or(Joined::Elsewhere))
    }

    /// Checks that the groups that existed before contain no process but `processes`.
    fn contain_only(&self, kernel: &K, pid: u32, processes: &[Identity], beat: &dyn Fn()) -> Result<(), Refusal> {
        for held in self.groups.iter().filter(|held| held.group.name().is_none()) {
            let inside = kernel.freezer_processes(&held.freezer)?;
            let is_strange = |found: &&u32| !processes.iter().any(|process| process.tid == **found);
            // A process of the tree may have started after the scan, so scan again.
            let now = processes.first().map(|&root| processes_of(kernel, root, beat)).unwrap_or_default();
            let other = inside.iter().filter(is_strange).find(|found| !now.iter().any(|it| it.tid == **found));
            if let Some(other) = other.filter(|&&other| kernel.open(other).is_ok()) {
                return Err(Refusal::NotPermitted(not_alone(pid, *other, held.group)));
            }
        }
        Ok(())
    }

    /// Freezes or thaws the groups. A group that another program has frozen stays frozen. The table states a freeze
    /// before it begins, and a thaw afterwards.
    ///
    /// # Errors
    /// A group has been removed.
    pub fn set_frozen(&mut self, is_frozen: bool, kernel: &K, table: &Table) -> sys::Result<()> {
        let mut outcome = Ok(());
        for held in &mut self.groups {
            let set = if is_frozen { held.freeze::<K>(kernel, table) } else { held.thaw::<K>(kernel, table) };
            outcome = outcome.and(set);
        }
        outcome
    }
}

/// Returns the error that process `other` is in the same group as process `pid`.
fn not_alone(pid: u32, other: u32, group: ControlGroup) -> sys::Error {
    let (what, effect, remedy) = if group.is_share() {
        ("a weight or a cap", "would share it", "start the process in a scope of its own (systemd-run --scope)")
    } else {
        (
            "a hard limit",
            "would freeze, too",
            "start the process in a scope of its own (systemd-run --scope), or use a soft limit",
        )
    };
    let what = format!("{what} for process {pid}");
    let why = format!("process {other} is in the same control group, and {effect}");
    sys::Error::Absent { what, why, remedy }
}

impl<F> Held<F> {
    fn freeze<K: Kernel<Freezer = F>>(&mut self, kernel: &K, table: &Table) -> sys::Result<()> {
        if self.is_frozen || kernel.is_freezing(&self.freezer)? {
            return Ok(());
        }
        table.set_frozen(self.row, true);
        self.is_frozen = true;
        kernel.freeze(&self.freezer)
    }

    fn thaw<K: Kernel<Freezer = F>>(&mut self, kernel: &K, table: &Table) -> sys::Result<()> {
        if self.is_frozen {
            kernel.thaw(&self.freezer)?;
            self.is_frozen = false;
            table.set_frozen(self.row, false);
        }
        Ok(())
    }
}
