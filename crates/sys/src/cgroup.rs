//! Control groups: hierarchies, groups that Tactus creates, and moves of tasks between groups.

mod hierarchy;

pub use hierarchy::{Hierarchy, paths_above};

use crate::{Error, Result, file};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, mkdirat, unlinkat};
use std::path::{Path, PathBuf};

const REMEDY: &str = "run as root, or use a control group that is delegated to this user and not mounted read-only";

/// The two versions of hierarchies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// Several hierarchies, each with controllers of its own.
    One,
    /// One unified hierarchy.
    Two,
}

/// A control group, held open.
#[derive(Debug)]
pub struct Group {
    directory: OwnedFd,
    /// Path of the group, for messages.
    path: PathBuf,
    version: Version,
}

impl Group {
    fn at(parent: impl AsFd, name: &str, path: PathBuf, version: Version) -> Result<Group> {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        match file::open_in(parent, name, flags) {
            Ok(directory) => Ok(Group { directory: directory.into(), path, version }),
            Err(error) => Err(Error::from(error, format!("open the control group {}", path.display()), REMEDY)),
        }
    }

    /// Returns the path of the group, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the version of the group's hierarchy.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether the group has a control file of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.directory, name, AtFlags::empty()).is_ok()
    }

    /// Returns the content of the group's control file `name`.
    ///
    /// # Errors
    /// The group has no such file.
    pub fn read(&self, name: &str) -> Result<String> {
        let said = file::read_in(&self.directory, name);
        said.map_err(|error| Error::from(error, format!("read {}", self.path.join(name).display()), REMEDY))
    }

    /// Writes `text` into the group's control file `name`.
    ///
    /// # Errors
    /// The file does not exist, the caller lacks permission, or the kernel refuses `text`.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let done = file::write_in(&self.directory, name, text);
        done.map_err(|error| {
            Error::from(error, format!("write `{text}` to {}", self.path.join(name).display()), REMEDY)
        })
    }

    /// Opens the group's control file `name` for reading and writing.
    pub(crate) fn open_control(&self, name: &str) -> Result<std::fs::File> {
        let opened = file::open_in(&self.directory, name, rustix::fs::OFlags::RDWR);
        opened.map_err(|error| Error::from(error, format!("open {}", self.path.join(name).display()), REMEDY))
    }

    /// Returns the numbers that the group's control file `name` lists.
    ///
    /// # Errors
    /// The group has no such file.
    pub fn numbers(&self, name: &str) -> Result<Vec<u32>> {
        Ok(self.read(name)?.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
    }

    /// Returns the value of `key` in the group's control file `name`, in the format of `cpu.stat` and `cgroup.events`.
    ///
    /// # Errors
    /// The file does not exist, or lacks the key.
    pub fn keyed(&self, name: &str, key: &str) -> Result<u64> {
        let text = self.read(name)?;
        let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok());
        found.ok_or_else(|| Error::Malformed { path: self.path.join(name), wanted: "a list with the key asked for" })
    }

    /// Returns the ID of the group, which is unique until the machine reboots: the inode number of its directory.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn id(&self) -> Result<u64> {
        let found = rustix::fs::fstat(&self.directory);
        let found = found.map_err(|errno| Error::from(errno, format!("read {}", self.path.display()), REMEDY))?;
        Ok(found.st_ino)
    }

    /// Returns whether the group of version 2 is threaded: its processes belong to the nearest ancestor that is not.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        self.read("cgroup.type").is_ok_and(|kind| kind.trim() == "threaded")
    }

    /// Returns the pids of the processes in the group.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn processes(&self) -> Result<Vec<u32>> {
        self.numbers("cgroup.procs")
    }

    /// Returns the tids of the threads in the group.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn threads(&self) -> Result<Vec<u32>> {
        self.numbers(self.thread_file())
    }

    fn thread_file(&self) -> &'static str {
        if self.version == Version::One { "tasks" } else { "cgroup.threads" }
    }

    /// Makes this empty group of version 2 threaded. Single threads of the processes in the parent group can then be
    /// moved into this group. Has no effect in version 1.
    ///
    /// # Errors
    /// The group is not empty, or the parent group has a controller that is not threaded.
    pub fn make_threaded(&self) -> Result<()> {
        if self.version == Version::One { Ok(()) } else { self.write("cgroup.type", "threaded") }
    }

    /// Opens a second handle to this group.
    ///
    /// # Errors
    /// The group has been removed, or too many files are open.
    pub fn again(&self) -> Result<Group> {
        Group::at(&self.directory, ".", self.path.clone(), self.version)
    }

    /// Moves process `pid` with all its threads into this group.
    ///
    /// # Errors
    /// The process has ended or cannot be moved.
    pub fn add_process(&self, pid: u32) -> Result<()> {
        self.add("cgroup.procs", pid, "process")
    }

    /// Moves thread `tid` alone into this group.
    ///
    /// # Errors
    /// The thread has ended or cannot be moved. In version 2, both groups must be threaded, in one domain.
    pub fn add_thread(&self, tid: u32) -> Result<()> {
        self.add(self.thread_file(), tid, "thread")
    }

    fn add(&self, name: &str, number: u32, noun: &str) -> Result<()> {
        let remedy = "run as root, or use a process of this user and a group that is delegated to it; in version 2 a group \
            without controllers for its children; with RT_GROUP_SCHED a group with real-time runtime for real-time threads";
        let what = || format!("move {noun} {number} into {}", self.path.display());
        file::write_in(&self.directory, name, &number.to_string()).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EBUSY | libc::EOPNOTSUPP) => {
                Error::NotPermitted { what: what(), source: error, remedy }
            }
            _ => Error::of(error, number, what(), remedy),
        })
    }

    /// Creates a child group that stays until it is [adopted](Group::adopt) and removed. If the child group exists, opens
    /// it.
    ///
    /// # Errors
    /// The caller lacks permission.
    pub fn create_lasting(&self, name: &str) -> Result<Group> {
        let path = self.path.join(name);
        match mkdirat(&self.directory, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Group::at(&self.directory, name, path, self.version),
            Err(errno) => Err(Error::from(errno, format!("make the control group {}", path.display()), REMEDY)),
        }
    }

    /// Returns whether this process may create groups below this group.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        rustix::fs::accessat(&self.directory, ".", rustix::fs::Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    /// Creates a child group. The tasks of the child group return to this group when the child group is
    /// [removed](OwnGroup::remove) or dropped.
    ///
    /// # Errors
    /// The name is in use, or the caller lacks permission.
    pub fn create(&self, name: &str) -> Result<OwnGroup> {
        let path = self.path.join(name);
        let what = || format!("make the control group {}", path.display());
        mkdirat(&self.directory, name, Mode::from_raw_mode(0o755))
            .map_err(|errno| Error::from(errno, what(), REMEDY))?;
        self.adopt(name)
    }

    /// Removes the child group `name` if it has neither tasks nor groups below. Returns whether the group is gone. The
    /// list of the tasks of a group (cgroup.procs) may be a second old in version 1, so the removal does not read it.
    ///
    /// # Errors
    /// The caller lacks permission.
    pub fn remove_if_empty(&self, name: &str) -> Result<bool> {
        match unlinkat(&self.directory, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(true),
            Err(rustix::io::Errno::BUSY) => Ok(false),
            Err(errno) => {
                let what = format!("remove the control group {}", self.path.join(name).display());
                Err(Error::from(errno, what, REMEDY))
            }
        }
    }

    /// Adopts a child group that an earlier run has left behind. The child group is removed when the handle is dropped.
    ///
    /// # Errors
    /// The child group does not exist.
    pub fn adopt(&self, name: &str) -> Result<OwnGroup> {
        let group = Group::at(&self.directory, name, self.path.join(name), self.version)?;
        let parent = self.again()?;
        Ok(OwnGroup::new(group, parent, name))
    }

    /// Returns the names of the child groups.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.children()?.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the names and [IDs](Group::id) of the child groups.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn children(&self) -> Result<Vec<(String, u64)>> {
        let listed = file::directories_in(&self.directory);
        listed.map_err(|error| Error::from(error, format!("list {}", self.path.display()), REMEDY))
    }

    /// Returns the pids of the processes in the group and in the groups below.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn all_processes(&self) -> Result<Vec<u32>> {
        let mut all = self.processes()?;
        for name in self.names()? {
            let Ok(child) = Group::at(&self.directory, &name, self.path.join(&name), self.version) else { continue };
            // The list above contains the processes of threaded groups.
            if !child.is_threaded() {
                all.extend(child.all_processes()?);
            }
        }
        Ok(all)
    }
}

/// A control group that Tactus created or adopted. Dropping the handle moves the tasks of the group to the parent group
/// and removes the group.
#[derive(Debug)]
pub struct OwnGroup {
    group: Group,
    parent: Group,
    name: String,
    removed: bool,
}

impl OwnGroup {
    pub(super) fn new(group: Group, parent: Group, name: &str) -> OwnGroup {
        OwnGroup { group, parent, name: name.to_string(), removed: false }
    }

    /// Moves the tasks of this group to the parent group, and removes this group.
    ///
    /// # Errors
    /// A task cannot be moved, tasks fork faster than they are moved, or the group has child groups.
    pub fn remove(mut self) -> Result<()> {
        let done = self.clear();
        // After a failure, dropping this value does not try again.
        self.removed = true;
        done
    }

    fn clear(&mut self) -> Result<()> {
        if self.removed {
            return Ok(());
        }
        let mut refused = None;
        // Tasks may fork while they are moved, and ended tasks may remain in the group for a time.
        for _ in 0..200 {
            refused = self.give_back().err();
            if let Some(denied @ Error::NotPermitted { .. }) = refused {
                return Err(denied);
            }
            match unlinkat(&self.parent.directory, self.name.as_str(), AtFlags::REMOVEDIR) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {
                    self.removed = true;
                    return Ok(());
                }
                Err(rustix::io::Errno::BUSY) if !self.group.names().unwrap_or_default().is_empty() => {
                    let what =
                        format!("remove the control group {}, which has groups below", self.group.path.display());
                    let remedy = "remove the groups below, and try again";
                    return Err(Error::NotKept { what, kept: "it, thawed".to_string(), remedy });
                }
                Err(rustix::io::Errno::BUSY) => crate::clock::sleep(sched::Nanos::ms(5)),
                Err(errno) => {
                    let what = format!("remove the control group {}", self.group.path.display());
                    return Err(Error::from(errno, what, REMEDY));
                }
            }
        }
        Err(refused.unwrap_or_else(|| Error::Call {
            what: format!("remove the control group {}", self.group.path.display()),
            source: rustix::io::Errno::BUSY.into(),
        }))
    }
}

impl OwnGroup {
    /// Moves the present tasks of this group to the parent group, once. Moves single threads if the group may contain
    /// only some of the threads of a process.
    fn give_back(&self) -> Result<()> {
        let by_thread = self.group.version == Version::One || self.group.is_threaded();
        let all = if by_thread { self.group.threads()? } else { self.group.processes()? };
        for number in all {
            match if by_thread { self.parent.add_thread(number) } else { self.parent.add_process(number) } {
                // `Gone`: the task has ended in the meantime.
                Ok(()) | Err(Error::Gone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl std::ops::Deref for OwnGroup {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // A drop cannot report an error; call `remove` to receive the error.
        let _ = self.clear();
    }
}
