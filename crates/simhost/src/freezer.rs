//! Freezer groups: a hierarchy of version 1. A frozen thread runs to the end of its fork. A killed process in a frozen
//! group ends after the thaw. Source: kernel/cgroup/legacy_freezer.c, v6.18.

use crate::group::{Group, ROOT};
use crate::world::World;

impl World {
    /// Creates a group below `parent`. Returns its number. If the group exists, returns the number of the existing group.
    pub(super) fn create_group(&mut self, parent: u64, name: &str) -> u64 {
        if let Some((&number, _)) = self.groups.iter().find(|(_, it)| it.parent == parent && it.name == name) {
            return number;
        }
        self.groups_seen += 1;
        let group = Group { parent, name: name.to_string(), is_frozen: false, is_by_others: false };
        self.groups.insert(self.groups_seen, group);
        self.groups_seen
    }

    /// Creates a group below the root on behalf of a process other than Tactus. Returns its number.
    pub fn create_group_of_others(&mut self, name: &str) -> u64 {
        let number = self.create_group(ROOT, name);
        self.groups.entry(number).and_modify(|group| group.is_by_others = true);
        number
    }

    /// Moves process `pid` to the group with this number, or to the root group if the number is zero, on behalf of a
    /// process other than Tactus.
    pub fn move_to_group(&mut self, pid: u32, number: u64) {
        self.note(|| format!("another process moves {pid} to group {number}"));
        if let Some(process) = self.tasks.processes.get_mut(&pid) {
            process.group_by_others = number;
            self.set_group(pid, number);
        }
    }

    /// Freezes or thaws a group on behalf of a process other than Tactus.
    pub fn freeze_by_others(&mut self, number: u64, is_frozen: bool) {
        self.note(|| format!("another process sets the freezer of group {number} to {is_frozen}"));
        self.set_group_frozen(number, is_frozen);
    }

    /// Returns the names of the groups that Tactus has created.
    #[must_use]
    pub fn groups_of_tactus(&self) -> Vec<&str> {
        self.groups.values().filter(|group| !group.is_by_others).map(|group| group.name.as_str()).collect()
    }

    /// Returns whether process `pid` is frozen.
    #[must_use]
    pub fn is_frozen(&self, pid: u32) -> bool {
        let mut number = self.tasks.processes.get(&pid).map_or(ROOT, |process| process.group);
        while let Some(group) = self.groups.get(&number) {
            if group.is_frozen {
                return true;
            }
            number = group.parent;
        }
        false
    }

    /// Returns whether the threads of process `pid` cannot run, because the process is stopped or frozen.
    pub(super) fn is_held(&self, pid: u32) -> bool {
        self.is_stopped(pid) || self.is_frozen(pid)
    }

    /// Returns the pids of the processes in the group.
    pub(super) fn processes_in(&self, number: u64) -> Vec<u32> {
        let inside = self.tasks.processes.iter().filter(|(_, it)| it.group == number && !it.has_ended);
        inside.map(|(&pid, _)| pid).collect()
    }

    /// Returns whether group `number` is the group `above`, or below it.
    pub(super) fn is_within(&self, number: u64, above: u64) -> bool {
        let parent = |number: &u64| self.groups.get(number).map(|group| group.parent);
        std::iter::successors(Some(number), parent).any(|it| it == above)
    }

    pub(super) fn set_group_frozen(&mut self, number: u64, is_frozen: bool) {
        let processes: Vec<u32> = self.tasks.processes.keys().copied().collect();
        let before: Vec<(u32, bool)> = processes.into_iter().map(|pid| (pid, self.is_held(pid))).collect();
        if let Some(group) = self.groups.get_mut(&number) {
            group.is_frozen = is_frozen;
        }
        before.into_iter().for_each(|(pid, was_held)| self.hold(pid, was_held));
    }

    pub(super) fn set_group(&mut self, pid: u32, number: u64) {
        let was_held = self.is_held(pid);
        if let Some(process) = self.tasks.processes.get_mut(&pid) {
            process.group = number;
            self.hold(pid, was_held);
        }
    }

    /// Removes an empty group. Returns whether the group was empty.
    pub(super) fn remove_group(&mut self, number: u64) -> bool {
        let has_children = self.groups.values().any(|group| group.parent == number);
        let is_empty = !has_children && self.processes_in(number).is_empty();
        if is_empty {
            self.groups.remove(&number);
        }
        is_empty
    }
}
