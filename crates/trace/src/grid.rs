//! [`Grid`]: an interval divided into cells, and the contents of the cells. All times are whole nanoseconds.

use sched::{Instant, Nanos};

/// The interval `from..to`, divided into cells whose lengths differ by at most one nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    from: Instant,
    length: u64,
    cells: usize,
}

impl Grid {
    /// Creates a grid of `cells` cells, or of one cell per nanosecond if the interval is shorter. Returns `None` if the
    /// interval is empty or `cells` is zero.
    pub(crate) fn new(from: Instant, to: Instant, cells: usize) -> Option<Grid> {
        let length = to.saturating_since(from).as_ns();
        let cells = cells.min(usize::try_from(length).unwrap_or(usize::MAX));
        (cells > 0).then_some(Grid { from, length, cells })
    }

    pub(crate) fn cells(&self) -> usize {
        self.cells
    }

    pub(crate) fn from(&self) -> Instant {
        self.from
    }

    pub(crate) fn to(&self) -> Instant {
        self.start_of(self.cells)
    }

    /// Returns the start of cell `index`, which is the end of the previous cell.
    pub(crate) fn start_of(&self, index: usize) -> Instant {
        let offset = u128::from(self.length) * index as u128 / self.cells as u128;
        self.from + Nanos::ns(u64::try_from(offset).expect("an offset within the length"))
    }

    /// Returns the duration of cell `index`.
    pub(crate) fn length_of(&self, index: usize) -> Nanos {
        self.start_of(index + 1).since(self.start_of(index))
    }

    /// Returns the cell that contains `at`, if any.
    pub(crate) fn cell_of(&self, at: Instant) -> Option<usize> {
        if at < self.from || at >= self.to() {
            return None;
        }
        // The last cell whose start, rounded down, is not after `at`.
        let after = u128::from(at.since(self.from).as_ns()) + 1;
        let index = (after * self.cells as u128 - 1) / u128::from(self.length);
        Some(usize::try_from(index).expect("an index below the number of cells"))
    }

    /// Returns the total duration per kind of piece in each cell. `pieces` must be in order of time and must not
    /// overlap.
    pub(crate) fn tally<K: Ord + Copy>(&self, pieces: impl Iterator<Item = (Instant, Instant, K)>) -> Vec<Tally<K>> {
        let mut tallies = vec![Tally { parts: Vec::new() }; self.cells];
        for (from, to, kind) in pieces {
            let (from, to) = (from.max(self.from), to.min(self.to()));
            let Some(mut index) = self.cell_of(from) else { continue };
            while index < self.cells && self.start_of(index) < to {
                let (start, end) = (self.start_of(index), self.start_of(index + 1));
                let part = to.min(end).saturating_since(from.max(start));
                if !part.is_zero() {
                    tallies[index].add(kind, part);
                }
                index += 1;
            }
        }
        tallies
    }
}

/// The durations per kind of piece in one cell.
#[derive(Clone, Debug)]
pub(crate) struct Tally<K> {
    /// Duration of each kind of piece. No duration is zero.
    parts: Vec<(K, Nanos)>,
}

impl<K: Ord + Copy> Tally<K> {
    fn add(&mut self, kind: K, time: Nanos) {
        match self.parts.binary_search_by_key(&kind, |&(kind, _)| kind) {
            Ok(index) => self.parts[index].1 += time,
            Err(index) => self.parts.insert(index, (kind, time)),
        }
    }

    /// Returns the total duration of the kinds that `which` selects.
    pub(crate) fn total(&self, which: impl Fn(K) -> bool) -> Nanos {
        self.parts.iter().filter(|&&(kind, _)| which(kind)).map(|&(_, time)| time).sum()
    }

    /// Returns the kind with the longest duration among the kinds that `which` selects. If several kinds have the
    /// longest duration, returns the lowest of these kinds.
    pub(crate) fn longest(&self, which: impl Fn(K) -> bool) -> Option<(K, Nanos)> {
        let candidates = self.parts.iter().copied().filter(|&(kind, _)| which(kind));
        candidates.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instant_is_in_the_cell_whose_bounds_hold_it() {
        for (length, cells) in [(1, 1), (7, 3), (10, 10), (10, 80), (1000, 7), (u64::MAX, 1000), (u64::MAX - 5, 999)] {
            let from = Instant::at_ns(u64::MAX - length);
            let grid = Grid::new(from, Instant::at_ns(u64::MAX), cells).unwrap();
            assert_eq!((grid.from(), grid.to()), (from, Instant::NEVER));
            for index in 0..grid.cells() {
                let (start, end) = (grid.start_of(index), grid.start_of(index + 1));
                assert!(start < end, "{length} in {cells}: cell {index} is empty");
                assert_eq!(grid.cell_of(start), Some(index));
                assert_eq!(grid.cell_of(Instant::at_ns(end.as_ns() - 1)), Some(index));
            }
            assert_eq!(grid.cell_of(Instant::NEVER), None);
        }
        assert!(Grid::new(Instant::at_ns(5), Instant::at_ns(5), 10).is_none());
        assert!(Grid::new(Instant::at_ns(5), Instant::at_ns(4), 10).is_none());
        assert!(Grid::new(Instant::ZERO, Instant::at_ns(4), 0).is_none());
    }

    #[test]
    fn a_piece_fills_the_cells_it_overlaps() {
        let grid = Grid::new(Instant::at_ns(10), Instant::at_ns(40), 3).unwrap();
        let at = Instant::at_ns;
        let tallies = grid.tally([(at(0), at(15), 'a'), (at(15), at(18), 'b'), (at(18), at(35), 'a')].into_iter());
        let parts: Vec<Vec<(char, u64)>> = tallies
            .iter()
            .map(|tally| tally.parts.iter().map(|&(kind, time)| (kind, time.as_ns())).collect())
            .collect();
        assert_eq!(parts, [vec![('a', 7), ('b', 3)], vec![('a', 10)], vec![('a', 5)]]);
        assert_eq!(tallies[0].total(|_| true), Nanos::ns(10));
        assert_eq!(tallies[0].longest(|kind| kind != 'a'), Some(('b', Nanos::ns(3))));
    }
}
