//! Shared state of processes: words in a file that outlive every process, and an exclusive lock.

use crate::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Maximum size of a file of words, in bytes: far above the size of any created file, and small enough to map.
const LARGEST: u64 = 64 << 20;
/// The remedy for a file that cannot be created or opened.
const REMEDY: &str = "use a directory of this user, on a writable file system with free space";

/// Words in a mapped file. A store of one process is visible to all processes that map the file, and survives the
/// process.
///
/// The space of the file is allocated at creation. The file must not be truncated while it is open. The file belongs to
/// this user alone, and this crate never truncates it.
pub struct Words {
    begin: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the memory stays mapped until the value is dropped, and all accesses are atomic.
unsafe impl Send for Words {}
// SAFETY: as for `Send`.
unsafe impl Sync for Words {}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("count", &self.count).finish()
    }
}

/// Opens a file. Does not follow a symbolic link.
fn open(path: &Path, flags: OFlags, what: &str) -> Result<OwnedFd> {
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let explained = |errno: Errno| Error::from(errno, format!("{what} {}", path.display()), REMEDY);
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(explained)
}

impl Words {
    /// Creates the file `path` with `count` zeroed words. Only this user may open the file.
    ///
    /// # Errors
    /// The file exists already, cannot be created, or there is no space.
    pub fn create(path: &Path, count: usize) -> Result<Words> {
        let file = open(path, OFlags::CREATE | OFlags::EXCL, "make")?;
        Words::fill(path, &file, count).inspect_err(|_| {
            // This call has just created the file.
            let _ = std::fs::remove_file(path);
        })
    }

    fn fill(path: &Path, file: &OwnedFd, count: usize) -> Result<Words> {
        let explained = |errno: Errno| Error::from(errno, format!("fill {}", path.display()), REMEDY);
        let bytes = (count as u64).checked_mul(8).filter(|bytes| (1..=LARGEST).contains(bytes));
        let bytes = bytes.ok_or_else(|| explained(Errno::FBIG))?;
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes).map_err(explained)?;
        Words::map(path, file, count)
    }

    /// Opens the file `path` with all its words. The file must belong to this user and have at least `least` words.
    ///
    /// # Errors
    /// The file does not exist, or does not meet these conditions.
    pub fn open(path: &Path, least: usize) -> Result<Words> {
        let file = open(path, OFlags::NONBLOCK, "open")?;
        let explained = |errno: Errno| Error::from(errno, format!("open {}", path.display()), REMEDY);
        let malformed = |wanted| Error::Malformed { path: path.to_path_buf(), wanted };
        let found = rustix::fs::fstat(&file).map_err(explained)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(malformed("a regular file"));
        }
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(malformed("a file of this user"));
        }
        let bytes = u64::try_from(found.st_size).unwrap_or(0);
        let count = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        if bytes > LARGEST || count < least.max(1) {
            return Err(malformed("of the length of a file of shared words"));
        }
        // Allocate all space now: access to a hole would allocate space later, when the file system may be full.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(explained)?;
        Words::map(path, &file, count)
    }

    fn map(path: &Path, file: impl AsFd, count: usize) -> Result<Words> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the mapping is new, at an address of the kernel's choice, and the file has this number of bytes and
        // is not truncated.
        let begin = unsafe { rustix::mm::mmap(std::ptr::null_mut(), count * 8, access, flags, file, 0) };
        let begin = begin.map_err(|errno| Error::from(errno, format!("map {}", path.display()), REMEDY))?;
        let begin = NonNull::new(begin.cast()).expect("the kernel maps nothing at zero that it was not told to");
        Ok(Words { begin, count })
    }
}

impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: this number of words is mapped, aligned to a page, until `self` is dropped; any bits are a valid
        // value.
        unsafe { std::slice::from_raw_parts(self.begin.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no reference into it is left.
        let _ = unsafe { rustix::mm::munmap(self.begin.as_ptr().cast(), self.count * 8) };
    }
}

/// An exclusive file lock. The process holds the lock until it drops this value or ends.
#[derive(Debug)]
pub struct Lock {
    // Closing all descriptors of the file unlocks it.
    file: File,
}

/// The result of an attempt to lock a file.
#[derive(Debug)]
pub enum Locked {
    /// This process holds the lock.
    Ours(Lock),
    /// Another process holds the lock. The value is the pid in the file. Until the process has recorded its pid, the
    /// file is empty or has the pid of an earlier holder.
    Held(Option<u32>),
}

impl Lock {
    /// Locks the file `path` without waiting, and writes the pid of this process into the file. Creates the file if it
    /// does not exist.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn try_lock(path: &Path) -> Result<Locked> {
        let mut file = File::from(open(path, OFlags::CREATE | OFlags::NONBLOCK, "open")?);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let holder = (&mut file).take(32).read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Ok(Locked::Held(holder));
            }
            Err(errno) => return Err(Error::from(errno, format!("lock {}", path.display()), REMEDY)),
        }
        let written = file.set_len(0).and_then(|()| file.rewind());
        let written = written.and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| Error::from(error, format!("write {}", path.display()), REMEDY))?;
        Ok(Locked::Ours(Lock { file }))
    }

    /// Returns the lock that an earlier program of this process has passed on as `descriptor`.
    #[must_use]
    pub fn inherited(descriptor: OwnedFd) -> Lock {
        Lock { file: File::from(descriptor) }
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Maximum number of processes that learn the pid of the holder of a host lock.
const WAITING_MOST: i32 = 4096;

/// A lock that one process of the host holds, whichever user it runs for. The lock is an abstract Unix socket, so its
/// scope is the network namespace of the process. The kernel releases the lock when its process ends.
#[derive(Debug)]
pub struct HostLock {
    socket: OwnedFd,
}

/// The result of an attempt to hold a host lock.
#[derive(Debug)]
pub enum HostLocked {
    /// This process holds the lock.
    Ours(HostLock),
    /// Another process holds the lock. The value is its pid, if the kernel reports it.
    Held(Option<u32>),
}

impl HostLock {
    /// Returns the pid of the process that holds the lock `name`. `None`: no process holds the lock, or the kernel does
    /// not report its pid.
    #[must_use]
    pub fn holder(name: &str) -> Option<u32> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let asking = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
        // The holder accepts no connection. The kernel nevertheless reports its pid to a connected socket.
        net::connect(&asking, &address).ok()?;
        let holder = net::sockopt::socket_peercred(&asking).ok()?;
        Some(holder.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Acquires the lock `name` without waiting.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn try_hold(name: &str) -> Result<HostLocked> {
        let failed = |errno: Errno| Error::from(errno, format!("hold the host lock {name}"), REMEDY);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(failed)?;
        let own = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
        match net::bind(&own, &address) {
            Ok(()) => {
                net::listen(&own, WAITING_MOST).map_err(failed)?;
                Ok(HostLocked::Ours(HostLock { socket: own }))
            }
            Err(Errno::ADDRINUSE) => Ok(HostLocked::Held(HostLock::holder(name))),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Returns the lock that an earlier program of this process has passed on as `descriptor`.
    #[must_use]
    pub fn inherited(descriptor: OwnedFd) -> HostLock {
        HostLock { socket: descriptor }
    }
}

impl AsFd for HostLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Creates the directory `path` for this user alone, if it does not exist.
///
/// # Errors
/// The directory cannot be created, `path` is no directory, or other users may change its content.
pub fn own_directory(path: &Path) -> Result<()> {
    let explained = |errno: Errno| Error::from(errno, format!("make the directory {}", path.display()), REMEDY);
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(explained(errno)),
    }
    // Do not follow a symbolic link, because its owner may redirect it.
    let found = rustix::fs::lstat(path).map_err(explained)?;
    let is_ours = FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && found.st_uid == rustix::process::geteuid().as_raw()
        && found.st_mode & (Mode::WGRP | Mode::WOTH).as_raw_mode() == 0;
    let wanted = "a directory of this user without write permission for other users";
    if is_ours { Ok(()) } else { Err(Error::Malformed { path: PathBuf::from(path), wanted }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use sched::Nanos;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::Ordering;

    #[test]
    fn a_host_lock_has_one_holder_and_names_it() {
        let name = format!("tactus-test-{}", std::process::id());
        let HostLocked::Ours(held) = HostLock::try_hold(&name).unwrap() else { panic!("no other process holds it") };
        for _ in 0..300 {
            let again = HostLock::try_hold(&name).unwrap();
            assert!(matches!(again, HostLocked::Held(Some(pid)) if pid == std::process::id()), "{again:?}");
        }
        assert_eq!(HostLock::holder(&name), Some(std::process::id()));
        drop(held);
        assert_eq!(HostLock::holder(&name), None);
        assert!(matches!(HostLock::try_hold(&name).unwrap(), HostLocked::Ours(_)));
    }

    #[test]
    fn words_are_shared_and_stay() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("words");
        let made = Words::create(&path, 3).unwrap();
        assert!(made.iter().all(|word| word.load(Ordering::Acquire) == 0));
        let opened = Words::open(&path, 3).unwrap();
        made[2].store(7, Ordering::Release);
        assert_eq!((opened.len(), opened[2].load(Ordering::Acquire)), (3, 7));
        drop(made);
        std::fs::remove_file(&path).unwrap();
        opened[0].store(8, Ordering::Release);
        assert_eq!(
            opened[0].load(Ordering::Acquire),
            8,
            "a file whose name is gone is still there for processes that have it open"
        );
    }

    #[test]
    fn the_file_belongs_to_this_user_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("words");
        let words = Words::create(&path, 1).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = Words::create(&path, 1).unwrap_err();
        assert_eq!(again.errno(), Some(libc::EEXIST), "{again}");
        drop(words);
        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        for refused in [Words::open(&link, 1).map(|_| ()), Lock::try_lock(&link).map(|_| ())] {
            assert_eq!(refused.unwrap_err().errno(), Some(libc::ELOOP));
        }
    }

    #[test]
    fn what_is_no_file_of_words_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("words");
        assert_eq!(Words::open(&path, 1).unwrap_err().errno(), Some(libc::ENOENT));
        std::fs::write(&path, [0; 23]).unwrap();
        assert_eq!(Words::open(&path, 2).unwrap().len(), 2);
        let short = Words::open(&path, 3).unwrap_err().to_string();
        assert!(short.contains("words is not of the length"), "{short}");
        std::fs::write(&path, []).unwrap();
        assert!(matches!(Words::open(&path, 0), Err(Error::Malformed { .. })));
        File::options().write(true).open(&path).unwrap().set_len(LARGEST + 8).unwrap();
        assert!(matches!(Words::open(&path, 1), Err(Error::Malformed { .. })));
        assert!(Words::open(Path::new("/dev/null"), 1).is_err());
        let nothing = place.path().join("nothing");
        assert!(Words::create(&nothing, 0).is_err() && Words::create(&nothing, usize::MAX).is_err());
        assert!(!nothing.exists(), "what could not be filled is not left");
    }

    #[test]
    fn one_process_holds_a_lock_and_others_get_its_pid() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        std::fs::write(&path, "a longer text than a pid, of a process that has ended\n").unwrap();
        let Locked::Ours(lock) = Lock::try_lock(&path).unwrap() else { panic!("the lock is free") };
        assert!(matches!(Lock::try_lock(&path).unwrap(), Locked::Held(Some(pid)) if pid == std::process::id()));
        drop(lock);
        // A child that another test forks has a copy of the descriptor until it executes its program.
        let end = clock::now() + Nanos::s(20);
        while !matches!(Lock::try_lock(&path).unwrap(), Locked::Ours(_)) {
            assert!(clock::now() < end, "the lock is not released");
            clock::sleep(Nanos::ms(1));
        }
    }

    #[test]
    fn a_directory_is_made_for_us_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("own");
        for _ in 0..2 {
            own_directory(&path).unwrap();
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o770)).unwrap();
        for refused in [&path, &link, Path::new("/dev/null")] {
            let error = own_directory(refused).unwrap_err().to_string();
            assert!(
                error.contains("is not a directory of this user without write permission for other users"),
                "{error}"
            );
        }
    }
}
