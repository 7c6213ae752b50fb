//! The matrix: rows are time slots, columns are CPUs, and a gang is placed in one row.

use sched::{CpuId, CpuSet, EntityId};

/// The cell of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) cpu: CpuId,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    place: Option<Place>,
    /// Whether the entity is waiting or running.
    runnable: bool,
}

/// The entity in each cell, and the rows with a runnable entity.
#[derive(Debug)]
pub(super) struct Matrix {
    cpus: usize,
    /// Entity of each cell, row by row.
    cells: Vec<Option<EntityId>>,
    /// Number of runnable entities of each row.
    runnable: Vec<u32>,
    /// Bit set of the rows with a runnable entity.
    active: Vec<u64>,
    /// Number of leading rows that have no free cell.
    full_before: usize,
    /// Cell of each entity, by index.
    members: Vec<Member>,
}

impl Matrix {
    pub(super) fn new(cpus: usize) -> Matrix {
        Matrix {
            cpus,
            cells: Vec::new(),
            runnable: Vec::new(),
            active: Vec::new(),
            full_before: 0,
            members: Vec::new(),
        }
    }

    /// Reserves memory for `e`, which has no cell yet.
    pub(super) fn reserve(&mut self, e: EntityId) {
        if self.members.len() <= e.index() {
            self.members.resize(e.index() + 1, Member { place: None, runnable: false });
        }
        assert!(self.members[e.index()].place.is_none(), "{e} is new");
    }

    fn rows(&self) -> usize {
        self.runnable.len()
    }

    pub(super) fn place(&self, e: EntityId) -> Place {
        self.members[e.index()].place.expect("an attached entity has a cell")
    }

    /// Returns the entity in a cell.
    pub(super) fn at(&self, row: usize, cpu: CpuId) -> Option<EntityId> {
        self.cells.get(row * self.cpus + cpu.index()).copied().flatten()
    }

    /// Returns whether an entity in `row` is runnable.
    pub(super) fn is_active(&self, row: usize) -> bool {
        self.runnable.get(row).is_some_and(|&count| count > 0)
    }

    /// Returns the next active row after `row` in cyclic order, or the first active row if `row` is `None`. Returns
    /// `row` itself if no other row is active, and `None` if no row is active.
    pub(super) fn next_active(&self, row: Option<usize>) -> Option<usize> {
        let after = row.map_or(0, |row| row + 1);
        let masked = |word: usize, mask: u64| {
            let bits = self.active.get(word)? & mask;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        };
        let later = || (after / 64 + 1..self.active.len()).find_map(|word| masked(word, u64::MAX));
        let from_start = || (0..self.active.len()).find_map(|word| masked(word, u64::MAX));
        masked(after / 64, u64::MAX << (after % 64)).or_else(later).or_else(from_start)
    }

    /// Records whether `e` is runnable.
    pub(super) fn set_runnable(&mut self, e: EntityId, runnable: bool) {
        let was = std::mem::replace(&mut self.members[e.index()].runnable, runnable);
        assert_ne!(was, runnable, "a change of {e} is recorded once");
        let row = self.place(e).row;
        self.count(row, runnable);
    }

    fn count(&mut self, row: usize, more: bool) {
        let count = &mut self.runnable[row];
        *count = if more { *count + 1 } else { *count - 1 };
        let bit = 1 << (row % 64);
        if *count > 0 { self.active[row / 64] |= bit } else { self.active[row / 64] &= !bit }
    }

    /// Removes `e` from its cell.
    pub(super) fn remove(&mut self, e: EntityId) {
        let Some(Place { row, cpu }) = self.members[e.index()].place.take() else { return };
        self.cells[row * self.cpus + cpu.index()] = None;
        self.full_before = self.full_before.min(row);
        if self.members[e.index()].runnable {
            self.count(row, false);
        }
    }

    /// Places `gang` in the first row that has room for all members. No member has a cell yet; `gang` lists each member
    /// with its allowed CPUs. If even an empty row lacks a free CPU for a member, that member is placed in another row.
    pub(super) fn seat(&mut self, gang: &[(EntityId, CpuSet)]) {
        let mut rest = gang.to_vec();
        while !rest.is_empty() {
            let row = (self.full_before..self.rows()).find(|&row| self.fit(row, &rest).len() == rest.len());
            let row = row.unwrap_or_else(|| {
                // Even an empty row may have too few cells for the gang.
                let empty = (self.full_before..self.rows()).find(|&row| self.is_empty(row));
                empty.unwrap_or_else(|| self.add_row())
            });
            let seated = self.fit(row, &rest);
            assert!(!seated.is_empty(), "an affinity contains a CPU");
            for &(e, cpu) in &seated {
                self.sit(e, Place { row, cpu });
            }
            rest.retain(|(e, _)| seated.iter().all(|(other, _)| other != e));
        }
        while self.full_before < self.rows() && self.is_full(self.full_before) {
            self.full_before += 1;
        }
    }

    /// Returns an assignment of free CPUs of `row` to members of `gang`. The member with the fewest free CPUs is
    /// assigned first, so that many members fit.
    fn fit(&self, row: usize, gang: &[(EntityId, CpuSet)]) -> Vec<(EntityId, CpuId)> {
        let mut free: CpuSet = (0..self.cpus).map(CpuId::new).filter(|&cpu| self.at(row, cpu).is_none()).collect();
        let mut order: Vec<_> = gang.iter().map(|(e, allowed)| (allowed.and(&free).len(), *e, allowed)).collect();
        order.sort_by_key(|&(choice, e, _)| (choice, e.index()));
        let mut seated = Vec::new();
        for (_, e, allowed) in order {
            if let Some(cpu) = allowed.and(&free).first() {
                free.remove(cpu);
                seated.push((e, cpu));
            }
        }
        seated
    }

    fn is_empty(&self, row: usize) -> bool {
        self.cells[row * self.cpus..(row + 1) * self.cpus].iter().all(Option::is_none)
    }

    fn is_full(&self, row: usize) -> bool {
        self.cells[row * self.cpus..(row + 1) * self.cpus].iter().all(Option::is_some)
    }

    fn add_row(&mut self) -> usize {
        self.cells.resize(self.cells.len() + self.cpus, None);
        self.runnable.push(0);
        self.active.resize(self.rows().div_ceil(64), 0);
        self.rows() - 1
    }

    fn sit(&mut self, e: EntityId, place: Place) {
        let cell = &mut self.cells[place.row * self.cpus + place.cpu.index()];
        assert!(cell.is_none(), "a cell holds one entity");
        *cell = Some(e);
        self.members[e.index()].place = Some(place);
        if self.members[e.index()].runnable {
            self.count(place.row, true);
        }
    }
}
