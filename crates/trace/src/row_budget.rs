//! [`RowBudget`]: which machines of a world a picture shows, and how many rows of each.

use crate::machine_id::MachineId;
use crate::timeline::Row;
use crate::world::WorldTimeline;
use sched::Instant;

/// A machine is shown only if it gets as many rows, or all it wants.
const ROWS_LEAST: usize = 3;

/// What a machine gets of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) machine: MachineId,
    /// How many machines stand above it.
    pub(crate) depth: usize,
    /// How many entities are drawn at most.
    pub(crate) rows: usize,
    /// How many CPUs are drawn.
    pub(crate) cpus: usize,
}

/// Who is in a picture of a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowBudget {
    /// Each host, followed by its guests.
    pub(crate) shares: Vec<Share>,
    /// How many machines have no room.
    pub(crate) more: usize,
}

impl RowBudget {
    /// The machines that share `rows_most` rows of entities that are there in `from..to`, and as many of CPUs, if these are
    /// wanted, too.
    pub(crate) fn of(world: &WorldTimeline, (from, to): (Instant, Instant), rows_most: usize, cpus: bool) -> RowBudget {
        let tree = world.header.tree();
        let rows_of = |id: MachineId| world.machines[id.index()].rows.iter();
        let rows: Vec<usize> =
            tree.iter().map(|&(id, _)| rows_of(id).filter(|row: &&Row| row.is_in(from, to)).count()).collect();
        let cpus_of = |id: MachineId| if cpus { world.machines[id.index()].cpus.len() } else { 0 };
        let cpus: Vec<usize> = tree.iter().map(|&(id, _)| cpus_of(id)).collect();
        let mut room = rows_most;
        let fits = |wanted: &&usize| {
            // A machine without entities needs a line for its name.
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

/// What each gets of `room` who wants so much: nobody gets less than another that wants as much, but for the last one.
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
    fn room_is_shared_evenly_among_those_who_want_it() {
        assert_eq!(shares(&[10, 1, 10], 11), [5, 1, 5]);
        assert_eq!(shares(&[10, 1, 10], 12), [6, 1, 5]);
        assert_eq!(shares(&[2, 3], 100), [2, 3]);
        assert_eq!(shares(&[5, 5, 5], 2), [1, 1, 0]);
        assert_eq!(shares(&[5, 0], 0), [0, 0]);
        assert!(shares(&[], 7).is_empty());
    }
}
