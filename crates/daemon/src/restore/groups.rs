//! Restores the control groups of the table: thaws the freezer groups, moves the processes of all groups back and removes
//! the groups.

use super::outcome::{GroupRestored, Outcome};
use crate::kernel::Kernel;
use crate::table::{ControlGroup, Row, Table};

/// Control groups, and whether they are removed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    done: Vec<GroupRestored>,
    is_removed: bool,
}

impl Groups {
    /// Thaws all groups of `table`. Comes first in a restoration: a frozen process that no process thaws is the worst
    /// outcome. Calls `beat` before each group.
    pub(super) fn thaw_all<K: Kernel>(kernel: &K, table: &Table, beat: &dyn Fn()) -> Groups {
        let thaw = |(row, group, may_be_frozen): (Row, ControlGroup, bool)| {
            beat();
            // Another program may have frozen a group that Tactus has not frozen.
            let outcome = match may_be_frozen.then(|| kernel.thaw_group(group)) {
                None => Outcome::AsBefore,
                Some(Ok(())) => Outcome::Restored,
                Some(Err(error)) => Outcome::Failed(error.into()),
            };
            if outcome == Outcome::Restored {
                table.set_frozen(row, false);
            }
            GroupRestored { row, group, outcome }
        };
        Groups { done: table.groups().into_iter().map(thaw).collect(), is_removed: false }
    }

    /// Returns the groups in these rows of `table`, which are thawed already.
    pub(super) fn thawed(table: &Table, rows: &[Row]) -> Groups {
        let all = table.groups().into_iter().filter(|(row, ..)| rows.contains(row));
        let done = all.map(|(row, group, _)| GroupRestored { row, group, outcome: Outcome::AsBefore }).collect();
        Groups { done, is_removed: false }
    }

    /// Moves the processes of the groups to the groups above, and removes the groups that Tactus created. The first move
    /// takes some 10 ms. Calls `beat` before each group.
    pub(super) fn remove<K: Kernel>(&mut self, kernel: &K, table: &Table, beat: &dyn Fn()) {
        let frozen: Vec<Row> = table.groups().into_iter().filter(|(.., frozen)| *frozen).map(|(row, ..)| row).collect();
        for done in &mut self.done {
            beat();
            // An earlier thaw may have failed. A group that Tactus has not created is not thawed by its removal.
            let thaw = || if frozen.contains(&done.row) { kernel.thaw_group(done.group) } else { Ok(()) };
            match thaw().and_then(|()| kernel.remove_group(done.group)) {
                // A freezer group counts as restored once it is thawed.
                Ok(()) if done.group.is_share() => done.outcome = Outcome::Restored,
                Ok(()) => {}
                Err(error) => done.outcome = Outcome::Failed(error.into()),
            }
        }
        self.is_removed = true;
    }

    /// Returns whether the groups are removed, as far as possible.
    pub(super) fn are_removed(&self) -> bool {
        self.is_removed || self.done.is_empty()
    }

    /// Returns the outcomes.
    pub(super) fn done(&self) -> &[GroupRestored] {
        &self.done
    }

    /// Converts this value into the outcomes.
    pub(super) fn into_done(self) -> Vec<GroupRestored> {
        self.done
    }
}
