//! The table of originals: what every thread was before anything was done to it, in memory that outlives the daemon.
//!
//! A row is written first and then committed by the store of one word; who reads the table sees all of a row or none of it.
//! Rows are laid out when the table is made, so that nothing has to be had from anybody when a thread is to be recorded.
//!
//! One process records (the daemon); any may read, clear a stop, and forget.

mod row;
#[cfg(test)]
mod tests;

use crate::kernel::Cells;
use row::{
    OF_AFFINITY, OF_ATTRIBUTES, OF_CONFINED, OF_LEADER, OF_STOPPED, OF_THREAD, OF_USE, ROW, entry_of, identity_of,
    words_of, words_of_attributes,
};
use sched::CpuSet;
use sched::id::CPUS_MAX;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use sys::attributes::Attributes;
use sys::thread::Identity;

/// `TACTUSTB`: stored last, so that a table whose making was cut off is none.
const MAGIC: u64 = u64::from_be_bytes(*b"TACTUSTB");
/// What the layout below is called. A table of another version is not understood.
const VERSION: u64 = 1;

// The head, in words.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 1;
const AT_ROWS: usize = 2;
const AT_FINISHED: usize = 3;
const AT_DAEMON: usize = 4;
/// Odd while the guardian's identity is being written; zero before it ever was.
const AT_GUARDIAN_SEQUENCE: usize = 6;
const AT_GUARDIAN: usize = 7;
const AT_AGENTS: usize = 9;
const AT_GUARDIAN_BEATS: usize = 10;
const AT_BOOT_LENGTH: usize = 11;
const AT_BOOT: usize = 12;
/// A boot id is a UUID of 36 letters.
const BOOT_WORDS: usize = 5;
const BOOT_BYTES: usize = BOOT_WORDS * 8;
/// On lines of the cache of their own, away from what the agents do not write.
const AT_AGENT_BEATS: usize = 64;
const HEAD: usize = AT_AGENT_BEATS + CPUS_MAX;

/// What a thread was before anything was done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Original {
    /// How it was scheduled.
    pub attributes: Attributes,
    /// The CPUs it might run on.
    pub affinity: CpuSet,
}

/// A thread to which something is done, or is about to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which.
    pub thread: Identity,
    /// The first thread of its process.
    pub leader: Identity,
    /// What it was.
    pub original: Original,
    /// The CPUs that we let it run on.
    pub confined: CpuSet,
}

impl Entry {
    /// Whether it is the first thread of its process: the one whose row says whether the process is stopped.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.thread == self.leader
    }
}

/// Where a thread stands in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Row(usize);

/// Who beats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beating {
    /// The agent of this CPU (its place among the CPUs that have one). Range: below [`CPUS_MAX`].
    Agent(usize),
    /// The guardian.
    Guardian,
}

impl Beating {
    fn at(self) -> usize {
        match self {
            Beating::Agent(nth) => {
                assert!(nth < CPUS_MAX, "there are at most as many agents as CPUs");
                AT_AGENT_BEATS + nth
            }
            Beating::Guardian => AT_GUARDIAN_BEATS,
        }
    }
}

/// There is no row left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full {
    /// How many rows there are.
    pub capacity: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.capacity;
        write!(
            f,
            "the table of originals is full: it holds {capacity} threads, and none is touched that could not be restored; \
             right would be promises to processes with at most {capacity} threads together"
        )
    }
}

impl std::error::Error for Full {}

/// Why some memory is not a table of originals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTable {
    /// It does not begin like one, or its making was cut off.
    Foreign,
    /// It was written by another version of this program.
    Version(u64),
    /// It does not hold as many rows as it says.
    Cut,
}

impl fmt::Display for NotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotTable::Foreign => f.write_str("it does not begin as a table of originals does"),
            NotTable::Version(found) => write!(
                f,
                "it is a table of originals of version {found}; right would be the program that wrote it, this one reads \
                 version {VERSION}"
            ),
            NotTable::Cut => f.write_str("it is shorter than the table of originals that it says it is"),
        }
    }
}

impl std::error::Error for NotTable {}

/// The table, as one of those who share it sees it.
pub struct Table {
    cells: Box<dyn Cells>,
    rows: usize,
    /// Rows that are not in use, of whoever records. Never longer than it was made.
    free: Mutex<Vec<usize>>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("words", &self.cells.len()).field("rows", &self.rows).finish()
    }
}

impl Table {
    /// How many words a table of that many rows takes.
    #[must_use]
    pub const fn words(rows: usize) -> usize {
        HEAD + rows * ROW
    }

    /// Makes an empty table in `cells`, whatever is in them: of the start of the machine that is called `boot`, and of the
    /// daemon that was `daemon`.
    ///
    /// # Panics
    /// `cells` are fewer than [`Table::words`] of one row, or `boot` is longer than 40 bytes.
    #[must_use]
    pub fn create(cells: Box<dyn Cells>, boot: &str, daemon: Identity) -> Table {
        assert!(cells.len() >= Table::words(1), "a table has a row at least");
        assert!(boot.len() <= BOOT_BYTES, "a boot id has at most {BOOT_BYTES} bytes");
        let rows = (cells.len() - HEAD) / ROW;
        for at in 0..cells.len() {
            cells.store(at, 0);
        }
        let table = Table { cells, rows, free: Mutex::new((0..rows).rev().collect()) };
        table.cells.store(AT_VERSION, VERSION);
        table.cells.store(AT_ROWS, rows as u64);
        table.store_identity(AT_DAEMON, daemon);
        table.cells.store(AT_BOOT_LENGTH, boot.len() as u64);
        for (nth, bytes) in boot.as_bytes().chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            table.cells.store(AT_BOOT + nth, u64::from_le_bytes(word));
        }
        table.cells.store(AT_MAGIC, MAGIC);
        table
    }

    /// The table that is in `cells`.
    ///
    /// # Errors
    /// There is none that this program understands.
    pub fn open(cells: Box<dyn Cells>) -> Result<Table, NotTable> {
        if cells.len() <= AT_VERSION || cells.load(AT_MAGIC) != MAGIC {
            return Err(NotTable::Foreign);
        }
        let version = cells.load(AT_VERSION);
        if version != VERSION {
            return Err(NotTable::Version(version));
        }
        if cells.len() < HEAD {
            return Err(NotTable::Cut);
        }
        let most = (cells.len() - HEAD) / ROW;
        let rows = usize::try_from(cells.load(AT_ROWS)).ok().filter(|&rows| rows <= most).ok_or(NotTable::Cut)?;
        let mut free = Vec::with_capacity(rows);
        free.extend((0..rows).rev().filter(|row| cells.load(HEAD + row * ROW + OF_USE).is_multiple_of(2)));
        Ok(Table { cells, rows, free: Mutex::new(free) })
    }

    /// How many threads it can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.rows
    }

    /// Writes a thread down, not stopped. When this returns, whoever restores will find it; before, nothing may be done to
    /// it.
    ///
    /// A thread that is to be confined to other CPUs is written down again first, and its former row forgotten when that is
    /// done: two rows of one thread are restored one after the other, and one of them fits.
    ///
    /// # Errors
    /// There is no row left.
    pub fn record(&self, entry: &Entry) -> Result<Row, Full> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let row = Row(free.pop().ok_or(Full { capacity: self.rows })?);
        let at = self.at(row);
        self.cells.store(at + OF_STOPPED, 0);
        self.store_identity(at + OF_THREAD, entry.thread);
        self.store_identity(at + OF_LEADER, entry.leader);
        self.store_all(at + OF_ATTRIBUTES, &words_of_attributes(entry.original.attributes));
        self.store_all(at + OF_AFFINITY, &words_of(&entry.original.affinity));
        self.store_all(at + OF_CONFINED, &words_of(&entry.confined));
        let uses = self.cells.load(at + OF_USE);
        self.cells.store(at + OF_USE, (uses | 1).wrapping_add(2));
        Ok(row)
    }

    /// Forgets a thread: it is what it was, or is gone. Its row is used again.
    pub fn forget(&self, row: Row) {
        let at = self.at(row);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = self.cells.load(at + OF_USE);
        if uses % 2 == 1 {
            self.cells.store(at + OF_USE, uses - 1);
            free.push(row.0);
        }
    }

    /// Says that we have stopped the process of the leader in `row`: before that is done, and that it is over after that.
    pub fn set_stopped(&self, row: Row, stopped: bool) {
        self.cells.store(self.at(row) + OF_STOPPED, u64::from(stopped));
    }

    /// Whether we have stopped the process of the leader in `row`, or are about to.
    #[must_use]
    pub fn is_stopped(&self, row: Row) -> bool {
        self.cells.load(self.at(row) + OF_STOPPED) != 0
    }

    /// The threads that are written down, and whether we have stopped the process of each (said with its leader), in the
    /// order of their rows.
    #[must_use]
    pub fn entries(&self) -> Vec<(Row, Entry, bool)> {
        let read =
            |row| self.read(row).and_then(|words| entry_of(&words)).map(|(entry, stopped)| (row, entry, stopped));
        (0..self.rows).map(Row).filter_map(read).collect()
    }

    /// How many rows are in use and cannot be understood: somebody else has written into the table.
    #[must_use]
    pub fn damaged(&self) -> usize {
        (0..self.rows).map(Row).filter_map(|row| self.read(row)).filter(|words| entry_of(words).is_none()).count()
    }

    /// One more beat of `who`, who alone says so.
    pub fn beat(&self, who: Beating) {
        self.cells.store(who.at(), self.beats(who).wrapping_add(1));
    }

    /// How often `who` has beaten.
    #[must_use]
    pub fn beats(&self, who: Beating) -> u64 {
        self.cells.load(who.at())
    }

    /// Says how many agents beat from now on; none while they are not to be watched. Each is watched from its first beat on,
    /// so it beats once before it does anything to anybody.
    ///
    /// # Panics
    /// They are more than there can be CPUs.
    pub fn set_agents(&self, count: usize) {
        assert!(count <= CPUS_MAX, "there are at most as many agents as CPUs");
        self.cells.store(AT_AGENTS, count as u64);
    }

    /// How many agents beat.
    #[must_use]
    pub fn agents(&self) -> usize {
        usize::try_from(self.cells.load(AT_AGENTS)).map_or(CPUS_MAX, |count| count.min(CPUS_MAX))
    }

    /// Says who the guardian is.
    pub fn set_guardian(&self, guardian: Identity) {
        let sequence = self.cells.load(AT_GUARDIAN_SEQUENCE) | 1;
        self.cells.store(AT_GUARDIAN_SEQUENCE, sequence);
        self.store_identity(AT_GUARDIAN, guardian);
        self.cells.store(AT_GUARDIAN_SEQUENCE, sequence.wrapping_add(1).max(2));
    }

    /// Who the guardian is; none where none has said so yet.
    #[must_use]
    pub fn guardian(&self) -> Option<Identity> {
        let sequence = self.cells.load(AT_GUARDIAN_SEQUENCE);
        let guardian = self.load_identity(AT_GUARDIAN);
        let is_whole = sequence != 0 && sequence.is_multiple_of(2) && self.cells.load(AT_GUARDIAN_SEQUENCE) == sequence;
        guardian.filter(|_| is_whole)
    }

    /// Who the daemon is or was. A number that can be none of a thread comes back as 0, which is nobody's.
    #[must_use]
    pub fn daemon(&self) -> Identity {
        self.load_identity(AT_DAEMON).unwrap_or(Identity { tid: 0, start_time: 0 })
    }

    /// What the start of the machine is called in which it was made.
    #[must_use]
    pub fn boot(&self) -> String {
        let length =
            usize::try_from(self.cells.load(AT_BOOT_LENGTH)).map_or(BOOT_BYTES, |length| length.min(BOOT_BYTES));
        let bytes: Vec<u8> = (0..BOOT_WORDS).flat_map(|nth| self.cells.load(AT_BOOT + nth).to_le_bytes()).collect();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Says that everything is what it was, and that nothing will be done any more.
    pub fn finish(&self) {
        self.cells.store(AT_FINISHED, 1);
    }

    /// Whether everything is what it was, and nothing will be done any more.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cells.load(AT_FINISHED) != 0
    }

    fn at(&self, row: Row) -> usize {
        HEAD + row.0 * ROW
    }

    /// The words of a row that is in use, as they were at one moment.
    fn read(&self, row: Row) -> Option<[u64; ROW]> {
        let at = self.at(row);
        loop {
            let uses = self.cells.load(at + OF_USE);
            if uses.is_multiple_of(2) {
                return None;
            }
            let words = std::array::from_fn(|nth| self.cells.load(at + nth));
            // It was not forgotten and used again meanwhile.
            if self.cells.load(at + OF_USE) == uses {
                return Some(words);
            }
        }
    }

    fn store_all(&self, at: usize, words: &[u64]) {
        for (nth, &word) in words.iter().enumerate() {
            self.cells.store(at + nth, word);
        }
    }

    fn store_identity(&self, at: usize, identity: Identity) {
        self.store_all(at, &[u64::from(identity.tid), identity.start_time]);
    }

    fn load_identity(&self, at: usize) -> Option<Identity> {
        identity_of(&[self.cells.load(at), self.cells.load(at + 1)])
    }
}
