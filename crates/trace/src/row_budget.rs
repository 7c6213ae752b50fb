//! [`RowBudget`]: the machines of a world that a picture shows, and the number of rows for each.

use crate::machine_id::MachineId;
use crate::timeline::Row;
use crate::world::WorldTimeline;
use sched::Instant;

/// Number of rows that must be free to show a machine. For a machine with fewer entities, one free row per entity
/// suffices.
const ROWS_LEAST: usize = 3;

/// The rows of one machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) machine: MachineId,
    /// Number of ancestors of the machine: 0 for a host.
    pub(crate) depth: usize,
    /// Maximum number of drawn entities.
    pub(crate) rows: usize,
    /// Number of drawn CPUs.
    pub(crate) cpus: usize,
}

/// The rows of a picture of a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowBudget {
    /// Rows of each selected machine. The guests of a host follow the host.
    pub(crate) shares: Vec<Share>,
    /// Number of omitted machines.
    pub(crate) more: usize,
}

impl RowBudget {
    /// Selects the machines that fit into `rows_most` rows, and divides the rows among these machines by their number
    /// of entities attached within `from..to`. The first machine is selected even if it does not fit. If `cpus` is
    /// true, divides another `rows_most` rows among the machines by their number of CPUs.
    pub(crate) fn of(world: &WorldTimeline, (from, to): (Instant, Instant), rows_most: usize, cpus: bool) -> RowBudget {
        let tree = world.header.tree();
        let rows_of = |id: MachineId| world.machines[id.index()].rows.iter();
        let rows: Vec<usize> =
            tree.iter().map(|&(id, _)| rows_of(id).filter(|row: &&Row| row.is_in(from, to)).count()).collect();
        let cpus_of = |id: MachineId| if cpus { world.machines[id.index()].cpus.len() } else { 0 };
        let cpus: Vec<usize> = tree.iter().map(|&(id, _)| cpus_of(id)).collect();
        let mut room = rows_most;
        let fits = |wanted: &&usize| {
            // A machine without entities needs a row for its name.
            let fits = room.checked_sub((**wanted).clamp(1, ROWS_LEAST));
            room = fits.unwrap_or(0);
            fits.is_some()
        };
        let shown = rows.iter().take_while(fits).count().max(1).min(tree.len());
        let (rows, cpus) = (shares(&rows[..shown], rows_most), shares(&cpus[..shown], rows_most));
        let share = |((&(machine, depth), rows), cpus)| Share { machine, depth, rows, cpus };
        let shares = tree.iter().zip(rows).zip(cpus).map(share).collect();
        RowBudget { shares, more: tree.len() - shown }
    }
}

/// Divides `room` rows among the demands in `wanted` by max-min fairness. The shares of equal demands differ by at most
/// one row.
fn shares(wanted: &[usize], room: usize) -> Vec<usize> {
    let given = |level: usize| wanted.iter().map(|&wish| wish.min(level)).sum::<usize>();
    let most = wanted.iter().copied().max().unwrap_or(0).min(room);
    let level = (0..=most).rev().find(|&level| given(level) <= room).unwrap_or(0);
    let mut rest = room - given(level);
    let share = |&wish: &usize| {
        let extra = usize::from(wish > level && rest > 0);
        rest -= extra;
        wish.min(level) + extra
    };
    wanted.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_by_max_min_fairness() {
        assert_eq!(shares(&[10, 1, 10], 11), [5, 1, 5]);
        assert_eq!(shares(&[10, 1, 10], 12), [6, 1, 5]);
        assert_eq!(shares(&[2, 3], 100), [2, 3]);
        assert_eq!(shares(&[5, 5, 5], 2), [1, 1, 0]);
        assert_eq!(shares(&[5, 0], 0), [0, 0]);
        assert!(shares(&[], 7).is_empty());
    }
}
