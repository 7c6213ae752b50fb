//! The directory that the daemon, its guardian and `tactus release` share. The directory contains the table of
//! originals, and a lock that admits one dispatcher per user.

use crate::linux::lower_all;
use crate::table::Table;
use crate::{Explanation, guardian};
use sched::Nanos;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use sys::shared::{self, HostLock, HostLocked, Lock, Locked, Words};
use sys::thread::{self, Identity, State, Thread};
use sys::{clock, kernel, privileges};

/// File name of the table of originals.
const TABLE: &str = "table";
/// File name of a table under construction.
const DRAFT: &str = "table.new";
/// File name of the lock. Only the process that holds the lock may dispatch or restore.
const LOCK: &str = "tactus.lock";
/// File name of the measurement of the mechanisms.
const MEASUREMENT: &str = "mechanisms.json";
/// File name of the socket of a resident core.
const SOCKET: &str = "core.sock";
/// Name of the host lock.
const HOST: &str = "tactus-dispatcher";

/// Maximum time to wait for the lock. A guardian that holds the lock restores all threads in less time.
const RESTORING: Nanos = Nanos::s(1);

/// The directory that the daemon, its guardian and `tactus release` share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    path: PathBuf,
}

/// The default directory of a user other than root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserDirectory {
    /// ID of the user.
    pub user: u32,
    /// Group of the user's session.
    pub group: u32,
    /// The directory, which need not exist.
    pub directory: Directory,
}

/// Reason why this process must not dispatch or restore.
#[derive(Debug)]
pub enum Refused {
    /// Another process dispatches or restores. The value is the pid in the lock file, if the file has a pid.
    Held(Option<u32>),
    /// The directory or the lock cannot be used.
    Failed(sys::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Held(Some(pid)) => write!(f, "another dispatcher runs on this host, as process {pid}"),
            Refused::Held(None) => f.write_str("another dispatcher is starting or ending on this host"),
            Refused::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for Explanation {
    fn from(refused: Refused) -> Explanation {
        let why = refused.to_string();
        match refused {
            Refused::Held(Some(pid)) => Explanation::new(why, format!("wait for its end, or end it (kill {pid})")),
            Refused::Held(None) => Explanation::new(why, "try again"),
            Refused::Failed(error) => error.into(),
        }
    }
}

impl Directory {
    /// Returns the default directory of this user: `/run/tactus` for root, `tactus` in `$XDG_RUNTIME_DIR` for other
    /// users.
    ///
    /// # Errors
    /// `$XDG_RUNTIME_DIR` is not set to an absolute path.
    pub fn usual() -> Result<Directory, Explanation> {
        if privileges::user() == 0 {
            return Ok(Directory::at("/run/tactus"));
        }
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let none = || {
            let why = "there is no directory for state that must outlive the dispatcher";
            Explanation::new(why, "run as root, or in a user session with XDG_RUNTIME_DIR")
        };
        Ok(Directory::at(own.ok_or_else(none)?.join("tactus")))
    }

    /// Returns the default directories of the users with a session on this host, in the order of their IDs, without the
    /// directory of root. `run` is the directory of volatile state, usually `/run`. Only names are read: the directories
    /// are under the control of their users.
    #[must_use]
    pub fn of_users(run: &Path) -> Vec<UserDirectory> {
        use std::os::unix::fs::MetadataExt;
        let sessions = std::fs::read_dir(run.join("user")).into_iter().flatten().flatten();
        let of = |entry: std::fs::DirEntry| {
            let user: u32 = entry.file_name().to_str()?.parse().ok()?;
            // Does not follow symbolic links.
            let found = entry.metadata().ok().filter(|found| found.is_dir() && found.uid() == user && user != 0)?;
            Some(UserDirectory { user, group: found.gid(), directory: Directory::at(entry.path().join("tactus")) })
        };
        let mut all: Vec<UserDirectory> = sessions.filter_map(of).collect();
        all.sort_by_key(|found| found.user);
        all
    }

    /// Returns the pid of the process that dispatches on this host, whatever its directory; `None` without a dispatcher.
    #[must_use]
    pub fn dispatcher() -> Option<u32> {
        HostLock::holder(HOST)
    }

    /// Returns the directory at `path`, which need not exist yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Directory {
        Directory { path: path.into() }
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the [measurement](crate::doctor::Measurement) of the mechanisms, which need not exist.
    #[must_use]
    pub fn measurement(&self) -> PathBuf {
        self.path.join(MEASUREMENT)
    }

    /// Returns the path of the socket of the [resident core](crate::live::run_resident) that a service starts.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// Creates the directory, if it does not exist, for this user alone.
    ///
    /// # Errors
    /// The directory cannot be created, or other users may change it.
    pub fn create(&self) -> Result<(), Explanation> {
        Ok(shared::own_directory(&self.path)?)
    }

    /// Locks the directory until the returned lock is dropped, so that no other process dispatches or restores. If the
    /// holder is a guardian, or the lock file has no pid, waits up to 1 s. A guardian that holds the lock restores the
    /// threads of a dead dispatcher. If the holder was killed and cannot end, because its donors wait for CPU time, ends
    /// its loans and waits, too.
    ///
    /// # Errors
    /// Another process holds the lock, or the directory is not usable.
    pub fn lock(&self) -> Result<Lock, Refused> {
        let end = clock::now() + RESTORING;
        loop {
            let passes = |holder: Option<u32>| holder.is_none_or(|pid| is_guardian(pid) || lower_if_ending(pid));
            match self.try_lock() {
                Err(Refused::Held(holder)) if passes(holder) && clock::now() < end => clock::sleep(Nanos::ms(5)),
                outcome => return outcome,
            }
        }
    }

    /// Acquires the right to dispatch on this host until the returned lock is dropped, whatever the directory. Two
    /// dispatchers would promise the time of the same CPUs. Waits up to 1 s for a holder that is ending.
    ///
    /// # Errors
    /// Another process dispatches, or there are too many open files.
    pub fn lock_host() -> Result<HostLock, Refused> {
        let end = clock::now() + RESTORING;
        loop {
            match HostLock::try_hold(HOST).map_err(Refused::Failed)? {
                HostLocked::Ours(lock) => return Ok(lock),
                HostLocked::Held(holder) => {
                    if clock::now() >= end || !holder.is_none_or(lower_if_ending) {
                        return Err(Refused::Held(holder));
                    }
                    clock::sleep(Nanos::ms(5));
                }
            }
        }
    }

    /// Locks the directory like [`lock`](Directory::lock), without waiting.
    ///
    /// # Errors
    /// The errors of [`lock`](Directory::lock).
    pub(crate) fn try_lock(&self) -> Result<Lock, Refused> {
        shared::own_directory(&self.path).map_err(Refused::Failed)?;
        match Lock::try_lock(&self.path.join(LOCK)) {
            Ok(Locked::Ours(lock)) => Ok(lock),
            Ok(Locked::Held(holder)) => Err(Refused::Held(holder)),
            Err(error) => Err(Refused::Failed(error)),
        }
    }

    /// Creates a table of `rows` rows for this boot and this process. The table replaces an existing table, and appears
    /// completely or not at all.
    ///
    /// # Errors
    /// There is no space, or the directory cannot be used.
    pub fn create_table(&self, rows: usize, _held: &Lock) -> Result<Table, Explanation> {
        shared::own_directory(&self.path)?;
        let draft = self.path.join(DRAFT);
        // An existing draft is from a process that died while it created its table. That process had not changed any
        // thread yet.
        remove(&draft)?;
        let words = Words::create(&draft, Table::words(rows))?;
        let daemon = Thread::open(std::process::id())?.identity();
        let table = Table::create(Box::new(words), &kernel::boot_id()?, daemon);
        let renamed = std::fs::rename(&draft, self.path.join(TABLE));
        renamed.map_err(|error| {
            Explanation::new(format!("cannot create {}: {error}", self.path.join(TABLE).display()), "")
        })?;
        Ok(table)
    }

    /// Returns the existing table; `None` if no table exists.
    ///
    /// # Errors
    /// The table cannot be opened, or this program cannot read it.
    pub fn open_table(&self) -> Result<Option<Table>, Explanation> {
        let path = self.path.join(TABLE);
        let words = match Words::open(&path, 1) {
            Ok(words) => words,
            Err(error) if error.errno() == Some(NO_ENTRY) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let remedy = "remove it, once no thread is left at a wrong real-time priority, stopped or frozen";
        let unreadable = |error| Explanation::new(format!("{} cannot be read: {error}", path.display()), remedy);
        Table::open(Box::new(words)).map(Some).map_err(unreadable)
    }

    /// Removes the table, if a table exists. Processes that have the table open keep access to it.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn remove_table(&self, _held: &Lock) -> Result<(), Explanation> {
        remove(&self.path.join(TABLE))
    }

    /// Removes the table if the table belongs to the daemon with identity `daemon`, and not to a later daemon.
    ///
    /// # Errors
    /// The table cannot be read, or the directory cannot be written.
    pub fn remove_table_of(&self, daemon: Identity, held: &Lock) -> Result<(), Explanation> {
        match self.open_table()? {
            Some(table) if table.daemon() == daemon => self.remove_table(held),
            _ => Ok(()),
        }
    }
}

/// Returns whether process `pid` is a guardian. A guardian that holds the lock restores threads.
fn is_guardian(pid: u32) -> bool {
    thread::status(pid).is_ok_and(|status| status.name == guardian::NAME)
}

/// Returns whether process `pid` was killed and has not ended. If so, ends its loans, because its donors may wait for CPU
/// time behind the threads that inherit from them.
fn lower_if_ending(pid: u32) -> bool {
    let ends = |first: &Thread| first.status().is_ok_and(|status| status.state == State::Dead);
    let first = Thread::open(pid).ok().filter(ends);
    if let Some(first) = &first {
        // The call fails if the process has ended in the meantime.
        let _ = lower_all(first.identity());
    }
    first.is_some()
}

/// Error number ENOENT.
const NO_ENTRY: i32 = 2;

/// Removes a file if it exists.
fn remove(path: &Path) -> Result<(), Explanation> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Explanation::new(format!("cannot remove {}: {error}", path.display()), "make its directory writable"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Beating;

    #[test]
    fn a_table_is_made_found_by_others_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::at(place.path().join("tactus"));
        assert!(directory.open_table().unwrap().is_none(), "there is not even a directory");
        let lock = directory.lock().unwrap();
        assert!(directory.open_table().unwrap().is_none());
        std::fs::write(directory.path().join(DRAFT), "half of one").unwrap();
        let table = directory.create_table(8, &lock).unwrap();
        let found = directory.open_table().unwrap().unwrap();
        assert_eq!((found.capacity(), found.boot()), (8, kernel::boot_id().unwrap()));
        assert_eq!(found.daemon(), Thread::open(std::process::id()).unwrap().identity());
        directory.remove_table_of(Identity { tid: 1, start_time: 1 }, &lock).unwrap();
        assert!(directory.open_table().unwrap().is_some(), "it is another's");
        directory.remove_table_of(table.daemon(), &lock).unwrap();
        directory.remove_table(&lock).unwrap();
        assert!(directory.open_table().unwrap().is_none());
        table.beat(Beating::Guardian);
        assert_eq!(found.beats(Beating::Guardian), 1);
    }

    #[test]
    fn a_second_dispatcher_gets_the_pid_of_the_first() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::at(place.path().join("tactus"));
        let _first = directory.lock().unwrap();
        let reason = Explanation::from(directory.lock().unwrap_err());
        let me = std::process::id();
        assert_eq!(reason.reason, format!("another dispatcher runs on this host, as process {me}"));
        assert!(reason.remedy.contains(&format!("kill {me}")));
    }

    #[test]
    fn only_directories_of_their_users_are_directories_of_users() {
        use std::os::unix::fs::{chown, symlink};
        let run = tempfile::tempdir().unwrap();
        let user = run.path().join("user");
        assert_eq!(Directory::of_users(run.path()), [], "there is no directory of sessions");
        for name in ["1001", "70", "0", "1002", "guest"] {
            std::fs::create_dir_all(user.join(name)).unwrap();
        }
        symlink(user.join("1001"), user.join("1003")).unwrap();
        if privileges::user() != 0 {
            return eprintln!("SKIPPED: only root can give a directory to another user");
        }
        for (name, owner) in [("1001", 1001), ("70", 70), ("1002", 70), ("guest", 1001)] {
            chown(user.join(name), Some(owner), Some(owner)).unwrap();
        }
        let found = Directory::of_users(run.path());
        let found: Vec<(u32, u32, &Path)> = found.iter().map(|it| (it.user, it.group, it.directory.path())).collect();
        let [first, second] = ["70", "1001"].map(|name| user.join(name).join("tactus"));
        assert_eq!(found, [(70, 70, &*first), (1001, 1001, &*second)]);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_path() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::at(place.path());
        std::fs::write(place.path().join(TABLE), [7; 4096]).unwrap();
        let reason = directory.open_table().unwrap_err();
        let path = place.path().join(TABLE).display().to_string();
        assert!(reason.reason.contains(&path) && reason.reason.contains("does not start like"), "{reason:?}");
        std::fs::write(place.path().join(TABLE), [7; 7]).unwrap();
        assert!(directory.open_table().unwrap_err().reason.contains("is not of the length"));
        assert!(Directory::at("/dev/null").lock().is_err());
    }
}
