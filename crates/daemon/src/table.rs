//! The table of originals: the values of every thread before Tactus changed them, in memory that outlives the daemon.
//!
//! A row is written first and then committed by the store of one word, so a reader finds either a complete row or no
//! row. The table has its full size from the start, so that recording a thread never allocates memory.
//!
//! A row describes a thread, or a control group through which Tactus freezes processes or gives them a share of the CPUs.
//!
//! Only the daemon records threads and groups. Any process may read rows, clear stops and forget rows.

mod entry;
mod group;
mod row;
#[cfg(test)]
mod tests;

pub use entry::{Entry, Original, Reserved};
pub use group::{Bandwidth, Change, ControlGroup};

use crate::kernel::Cells;
use group::{FOUND, FOUND_FROZEN, THREAD, group_of};
use row::{
    FOLLOWS_CPUSET, GIVEN_BACK, OF_AFFINITY, OF_ATTRIBUTES, OF_CONFINED, OF_FLAGS, OF_KIND, OF_LEADER, OF_RESERVED,
    OF_THREAD, OF_USE, ROW, entry_of, identity_of, words_of, words_of_attributes, words_of_reserved,
};
use sched::CpuId;
use sched::id::CPUS_MAX;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use sys::thread::Identity;

/// `TACTUSTB`: stored last, so that an unfinished table is not recognized.
const MAGIC: u64 = u64::from_be_bytes(*b"TACTUSTB");
/// Version of the layout below. Tables of later versions are not read. Up to version 2, every row describes a thread, the
/// words that version 3 added to a row are zero, and Tactus limits a process by SIGSTOP. A table of version 1 has
/// originals in every row. Up to version 3, Tactus sets no reservation. Up to version 4, Tactus sets no share of a group of
/// version 2.
const VERSION: u64 = 5;
/// Last version of tables whose rows record stops.
const WITH_STOPS: u64 = 2;

// The header, in words.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 1;
const AT_ROWS: usize = 2;
const AT_FINISHED: usize = 3;
const AT_DAEMON: usize = 4;
/// Sequence number of the guardian's identity. Odd during a write, zero before the first write.
const AT_GUARDIAN_SEQUENCE: usize = 6;
const AT_GUARDIAN: usize = 7;
const AT_WATCHED: usize = 9;
const AT_GUARDIAN_BEATS: usize = 10;
const AT_BOOT_LENGTH: usize = 11;
const AT_BOOT: usize = 12;
const AT_KEEPER_BEATS: usize = AT_BOOT + BOOT_WORDS;
const AT_STANDBY: usize = AT_KEEPER_BEATS + 1;
const AT_COMMAND_BEATS: usize = AT_STANDBY + 2;
/// Number of words of a boot ID, which is a UUID of 36 characters.
const BOOT_WORDS: usize = 5;
const BOOT_BYTES: usize = BOOT_WORDS * 8;
/// Beats of the agents, on cache lines that contain nothing else.
const AT_AGENT_BEATS: usize = 64;
const HEAD: usize = AT_AGENT_BEATS + CPUS_MAX;

/// The index of a row in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Row(usize);

impl Row {
    /// Returns the number of the row. Another program that opens the table finds the row by this number.
    #[must_use]
    pub fn number(self) -> usize {
        self.0
    }
}

/// A process or thread whose beats the table counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beating {
    /// The agent of this CPU.
    Agent(CpuId),
    /// The keeper.
    Keeper,
    /// The command thread.
    Commands,
    /// The guardian.
    Guardian,
}

impl fmt::Display for Beating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beating::Agent(cpu) => write!(f, "the agent of CPU {cpu}"),
            Beating::Keeper => f.write_str("the keeper"),
            Beating::Commands => f.write_str("the command thread"),
            Beating::Guardian => f.write_str("the guardian"),
        }
    }
}

impl Beating {
    fn at(self) -> usize {
        match self {
            Beating::Agent(cpu) => AT_AGENT_BEATS + cpu.index(),
            Beating::Keeper => AT_KEEPER_BEATS,
            Beating::Commands => AT_COMMAND_BEATS,
            Beating::Guardian => AT_GUARDIAN_BEATS,
        }
    }
}

/// The table is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full {
    /// Number of rows of the table.
    pub capacity: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.capacity;
        write!(
            f,
            "the table of originals is full: it holds {capacity} threads, and a thread without a row could not be restored"
        )
    }
}

impl Full {
    /// Returns the remedy, in the imperative.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("make promises to processes with at most {} threads in all", self.capacity)
    }
}

impl std::error::Error for Full {}

/// Reason why memory does not contain a table that this program can read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTable {
    /// The memory has no header, or an unfinished header.
    Foreign,
    /// The table has another version.
    Version(u64),
    /// The memory has fewer rows than its header states.
    Cut,
}

impl fmt::Display for NotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotTable::Foreign => f.write_str("it does not start like a table of originals"),
            NotTable::Version(found) => write!(
                f,
                "it is a table of originals of version {found}, and this program reads version {VERSION}; use the \
                 program that wrote it"
            ),
            NotTable::Cut => f.write_str("it is shorter than the length in its header"),
        }
    }
}

impl std::error::Error for NotTable {}

/// The table, as mapped into one process.
pub struct Table {
    cells: Box<dyn Cells>,
    rows: usize,
    /// The free rows, for the process that records. The capacity of the list is the number of rows, so the list never
    /// allocates memory.
    free: Mutex<Vec<usize>>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("words", &self.cells.len()).field("rows", &self.rows).finish()
    }
}

impl Table {
    /// Returns the number of words of a table with this number of rows.
    #[must_use]
    pub const fn words(rows: usize) -> usize {
        HEAD + rows * ROW
    }

    /// Overwrites `cells` with an empty table for the boot `boot` and the daemon with identity `daemon`.
    ///
    /// # Panics
    /// `cells` has fewer words than [`Table::words`] of one row, or `boot` is longer than 40 bytes.
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

    /// Opens the table in `cells`.
    ///
    /// # Errors
    /// `cells` does not contain a table that this program can read.
    pub fn open(cells: Box<dyn Cells>) -> Result<Table, NotTable> {
        if cells.len() <= AT_VERSION || cells.load(AT_MAGIC) != MAGIC {
            return Err(NotTable::Foreign);
        }
        let version = cells.load(AT_VERSION);
        if !(1..=VERSION).contains(&version) {
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

    /// Returns the number of rows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.rows
    }

    /// Records a thread. Once this call has returned, a restoring process finds the thread, so change
    /// the thread only afterwards.
    ///
    /// To confine a thread to other CPUs, first record the thread again, and then forget the earlier row. Meanwhile a
    /// restoring process uses both rows, and only the row with the current confinement restores the affinity.
    ///
    /// # Errors
    /// The table is full.
    pub fn record(&self, entry: &Entry) -> Result<Row, Full> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let row = Row(free.pop().ok_or(Full { capacity: self.rows })?);
        let at = self.at(row);
        self.cells.store(at + OF_KIND, THREAD);
        self.store_identity(at + OF_THREAD, entry.thread);
        self.store_identity(at + OF_LEADER, entry.leader);
        self.store_all(at + OF_ATTRIBUTES, &words_of_attributes(entry.original.attributes));
        self.store_all(at + OF_AFFINITY, &words_of(&entry.original.affinity));
        self.store_all(at + OF_CONFINED, &words_of(&entry.confined));
        self.cells.store(at + OF_FLAGS, if entry.original.follows_cpuset { FOLLOWS_CPUSET } else { 0 });
        self.store_all(at + OF_RESERVED, &words_of_reserved(entry.reserved));
        self.commit(row);
        Ok(row)
    }

    /// Records a group through which Tactus will freeze processes, before the group is created or a process is moved.
    ///
    /// # Errors
    /// The table is full.
    pub fn record_group(&self, group: ControlGroup) -> Result<Row, Full> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let row = Row(free.pop().ok_or(Full { capacity: self.rows })?);
        let at = self.at(row);
        let (kind, words) = group.words();
        self.cells.store(at + OF_KIND, kind);
        self.store_all(at + OF_THREAD, &words);
        self.commit(row);
        Ok(row)
    }

    /// Marks a row that is written as in use.
    fn commit(&self, row: Row) {
        let at = self.at(row);
        let uses = self.cells.load(at + OF_USE);
        self.cells.store(at + OF_USE, (uses | 1).wrapping_add(2));
    }

    /// Forgets a restored or ended thread. Its row becomes free.
    pub fn forget(&self, row: Row) {
        let at = self.at(row);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = self.cells.load(at + OF_USE);
        if uses % 2 == 1 {
            self.cells.store(at + OF_USE, uses - 1);
            free.push(row.0);
        }
    }

    /// Records that the thread in `row` has its originals back, and that Tactus will not change the thread again under
    /// this row. The row stays for the children of the thread, which may still inherit its confinement.
    pub fn set_given_back(&self, row: Row) {
        let at = self.at(row) + OF_FLAGS;
        self.cells.store(at, self.cells.load(at) | GIVEN_BACK);
    }

    /// Returns whether the thread in `row` has its originals back.
    #[must_use]
    pub fn is_given_back(&self, row: Row) -> bool {
        self.cells.load(self.at(row) + OF_FLAGS) & GIVEN_BACK != 0
    }

    /// Records whether Tactus freezes the group in `row`. Record a freeze before the group freezes, and a thaw afterwards.
    /// Has no effect for a group that Tactus has created, because no other program freezes such a group.
    pub fn set_frozen(&self, row: Row, is_frozen: bool) {
        let at = self.at(row) + OF_KIND;
        if matches!(self.cells.load(at), FOUND | FOUND_FROZEN) {
            self.cells.store(at, if is_frozen { FOUND_FROZEN } else { FOUND });
        }
    }

    /// Returns the recorded groups in the order of their rows, and whether Tactus may have frozen them.
    #[must_use]
    pub fn groups(&self) -> Vec<(Row, ControlGroup, bool)> {
        let read = |row| self.read(row).filter(|_| !self.has_stops()).and_then(|words| group_of(&words));
        (0..self.rows).map(Row).filter_map(|row| read(row).map(|(group, is_frozen)| (row, group, is_frozen))).collect()
    }

    /// Clears the stop of the process of the leader in `row`, after the process is continued.
    pub fn clear_stop(&self, row: Row) {
        if self.has_stops() {
            self.cells.store(self.at(row) + OF_KIND, 0);
        }
    }

    /// Returns whether an earlier program, which wrote this table, has stopped the process of the leader in `row`, or was
    /// about to stop it (SIGSTOP).
    #[must_use]
    pub fn is_stopped(&self, row: Row) -> bool {
        self.has_stops() && self.cells.load(self.at(row) + OF_KIND) != 0
    }

    /// Returns whether the rows of this table record stops.
    fn has_stops(&self) -> bool {
        self.cells.load(AT_VERSION) <= WITH_STOPS
    }

    /// Returns the recorded threads in the order of their rows.
    #[must_use]
    pub fn entries(&self) -> Vec<(Row, Entry)> {
        let is_thread = |words: &[u64; ROW]| self.has_stops() || words[OF_KIND] == THREAD;
        let read = |row| self.read(row).filter(is_thread).and_then(|words| entry_of(&words));
        (0..self.rows).map(Row).filter_map(|row| read(row).map(|entry| (row, entry))).collect()
    }

    /// Returns the number of rows in use that are unreadable, because another program has written into the table.
    #[must_use]
    pub fn damaged(&self) -> usize {
        let is_readable = |words: &[u64; ROW]| match words[OF_KIND] {
            THREAD => entry_of(words).is_some(),
            _ if self.has_stops() => entry_of(words).is_some(),
            _ => group_of(words).is_some(),
        };
        (0..self.rows).map(Row).filter_map(|row| self.read(row)).filter(|words| !is_readable(words)).count()
    }

    /// Counts a beat of `side`. Only `side` may call this function.
    pub fn beat(&self, side: Beating) {
        self.cells.store(side.at(), self.beats(side).wrapping_add(1));
    }

    /// Sets the numbers of beats of all threads of the daemon to zero, for a new program of its process. The guardian watches
    /// a thread from its first beat on.
    pub fn forget_beats(&self) {
        let agents = (0..CPUS_MAX).map(|cpu| Beating::Agent(CpuId::new(cpu)));
        agents.chain([Beating::Keeper, Beating::Commands]).for_each(|side| self.cells.store(side.at(), 0));
    }

    /// Returns the number of beats of `side`.
    #[must_use]
    pub fn beats(&self, side: Beating) -> u64 {
        self.cells.load(side.at())
    }

    /// Has the guardian watch the agents of CPUs `0..cpus` and the keeper from now on; zero: neither. The guardian
    /// watches a thread from its first beat on, so an agent must beat once before the agent changes any thread, and a
    /// CPU without an agent does no harm.
    ///
    /// # Panics
    /// `cpus` exceeds [`CPUS_MAX`].
    pub fn set_watched(&self, cpus: usize) {
        assert!(cpus <= CPUS_MAX, "there are at most {CPUS_MAX} CPUs");
        self.cells.store(AT_WATCHED, cpus as u64);
    }

    /// Returns the number of CPUs whose agents the guardian watches, together with the keeper.
    #[must_use]
    pub fn watched(&self) -> usize {
        usize::try_from(self.cells.load(AT_WATCHED)).map_or(CPUS_MAX, |count| count.min(CPUS_MAX))
    }

    /// Records the identity of the guardian.
    pub fn set_guardian(&self, guardian: Identity) {
        let sequence = self.cells.load(AT_GUARDIAN_SEQUENCE) | 1;
        self.cells.store(AT_GUARDIAN_SEQUENCE, sequence);
        self.store_identity(AT_GUARDIAN, guardian);
        self.cells.store(AT_GUARDIAN_SEQUENCE, sequence.wrapping_add(1).max(2));
    }

    /// Returns the identity of the guardian; `None` before an identity is recorded, and while one is being recorded.
    #[must_use]
    pub fn guardian(&self) -> Option<Identity> {
        let sequence = self.cells.load(AT_GUARDIAN_SEQUENCE);
        let guardian = self.load_identity(AT_GUARDIAN);
        let is_whole = sequence != 0 && sequence.is_multiple_of(2) && self.cells.load(AT_GUARDIAN_SEQUENCE) == sequence;
        guardian.filter(|_| is_whole)
    }

    /// Records the identity of the guardian that stands by.
    pub fn set_standby(&self, standby: Identity) {
        self.store_identity(AT_STANDBY, standby);
    }

    /// Returns the identity of the guardian that stands by; another identity before one is recorded, and while one is
    /// being recorded.
    #[must_use]
    pub fn standby(&self) -> Option<Identity> {
        self.load_identity(AT_STANDBY)
    }

    /// Returns whether the table has the version that this program writes.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.cells.load(AT_VERSION) == VERSION
    }

    /// Returns the identity of the daemon. If the recorded tid is invalid, returns tid 0, which no thread has.
    #[must_use]
    pub fn daemon(&self) -> Identity {
        self.load_identity(AT_DAEMON).unwrap_or(Identity { tid: 0, start_time: 0 })
    }

    /// Returns the boot ID that was recorded at the creation of the table.
    #[must_use]
    pub fn boot(&self) -> String {
        let length =
            usize::try_from(self.cells.load(AT_BOOT_LENGTH)).map_or(BOOT_BYTES, |length| length.min(BOOT_BYTES));
        let bytes: Vec<u8> = (0..BOOT_WORDS).flat_map(|nth| self.cells.load(AT_BOOT + nth).to_le_bytes()).collect();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Marks the table as finished: all threads are restored, and none will be changed.
    pub fn finish(&self) {
        self.cells.store(AT_FINISHED, 1);
    }

    /// Returns whether the table is finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cells.load(AT_FINISHED) != 0
    }

    fn at(&self, row: Row) -> usize {
        HEAD + row.0 * ROW
    }

    /// Returns a consistent copy of the words of a row; `None` if the row is free.
    fn read(&self, row: Row) -> Option<[u64; ROW]> {
        let at = self.at(row);
        loop {
            let uses = self.cells.load(at + OF_USE);
            if uses.is_multiple_of(2) {
                return None;
            }
            let words = std::array::from_fn(|nth| self.cells.load(at + nth));
            // Accept the copy only if the row was not forgotten or reused during the read.
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
