//! Control groups: where they are mounted, groups of our own below those that are there, and moving tasks in and back.

use crate::thread::Thread;
use crate::{Error, Result, file};
use procfs::process::Process;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, mkdirat, unlinkat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen};
use std::io;
use std::path::{Path, PathBuf};

const RIGHT: &str = "root, or a control group that is delegated to this user, where groups are not mounted read-only";
const MOUNTED: &str = "a mounted control group hierarchy (/sys/fs/cgroup), or the privilege to mount one";

/// The two kinds of hierarchies there are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// One hierarchy for each controller.
    One,
    /// One for all.
    Two,
}

/// A tree of control groups, held open.
#[derive(Debug)]
pub struct Hierarchy {
    version: Version,
    /// The controller it was asked for; empty in version 2.
    controller: String,
    root: OwnedFd,
    /// Where it is mounted.
    at: PathBuf,
    /// The path of the group that lies there.
    prefix: String,
}

impl Hierarchy {
    /// The tree of version 1 that has `controller`, where it is mounted.
    ///
    /// # Errors
    /// It is not mounted.
    pub fn one(controller: &str) -> Result<Hierarchy> {
        Hierarchy::find(Version::One, controller)
    }

    /// The tree of version 2, where it is mounted.
    ///
    /// # Errors
    /// It is not mounted.
    pub fn two() -> Result<Hierarchy> {
        Hierarchy::find(Version::Two, "")
    }

    /// The tree of version 1 that has `controller`, mounted for this handle alone where it is mounted nowhere. The mount is
    /// in nobody's file system and ends with the handle.
    ///
    /// # Errors
    /// It is not there, or we lack the privilege to mount it.
    pub fn one_or_mount(controller: &str) -> Result<Hierarchy> {
        let Err(missing) = Hierarchy::one(controller) else { return Hierarchy::one(controller) };
        let mount = || -> io::Result<OwnedFd> {
            let context = fsopen("cgroup", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_flag(context.as_fd(), controller)?;
            fsconfig_create(context.as_fd())?;
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
        };
        let root = mount().map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Error::from(error, format!("mount the cgroup hierarchy of {controller}"), "CAP_SYS_ADMIN")
            }
            _ => missing,
        })?;
        let at = PathBuf::from(format!("(cgroup {controller})"));
        Ok(Hierarchy { version: Version::One, controller: controller.to_string(), root, at, prefix: "/".to_string() })
    }

    fn find(version: Version, controller: &str) -> Result<Hierarchy> {
        let what = match version {
            Version::One => format!("the cgroup hierarchy of {controller}"),
            Version::Two => "the unified cgroup hierarchy".to_string(),
        };
        let mounts = Process::myself().and_then(|me| me.mountinfo());
        let mounts =
            mounts.map_err(|error| Error::from(io::Error::other(error), "read /proc/self/mountinfo", RIGHT))?;
        let found = mounts.into_iter().find(|mount| match version {
            Version::One => mount.fs_type == "cgroup" && mount.super_options.contains_key(controller),
            Version::Two => mount.fs_type == "cgroup2",
        });
        let Some(mount) = found else {
            return Err(Error::Absent { what, why: "it is mounted nowhere".to_string(), right: MOUNTED });
        };
        let at = mount.mount_point;
        let root = file::directory(&at).map_err(|error| Error::from(error, format!("open {}", at.display()), RIGHT))?;
        Ok(Hierarchy { version, controller: controller.to_string(), root, at, prefix: mount.root })
    }

    /// Which kind it is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where it is mounted.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The path of the group that thread `tid` is in.
    ///
    /// # Errors
    /// It is gone, or it is in no group of this tree.
    pub fn path_of(&self, tid: u32) -> Result<String> {
        let thread = Thread::open(tid)?;
        let text = file::read(format!("/proc/{tid}/task/{tid}/cgroup"));
        let text = if thread.is_there() { text? } else { return Err(Error::Gone(tid)) };
        let own = |line: &str| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|found| found == self.controller).then(|| path.to_string())
        };
        text.lines().find_map(own).ok_or_else(|| Error::Absent {
            what: format!("the group of thread {tid} in {}", self.at.display()),
            why: "the thread is in no group of this hierarchy".to_string(),
            right: MOUNTED,
        })
    }

    /// The group at `path`.
    ///
    /// # Errors
    /// There is none, or it lies outside of what is mounted here.
    pub fn open(&self, path: &str) -> Result<Group> {
        let inside = if self.prefix == "/" { Some(path) } else { path.strip_prefix(self.prefix.as_str()) };
        let inside = inside.filter(|inside| !inside.starts_with("/..")).map(|inside| inside.trim_matches('/'));
        let Some(inside) = inside else {
            return Err(Error::Absent {
                what: format!("the group {path}"),
                why: format!("{} shows the groups below {} only", self.at.display(), self.prefix),
                right: "to be run outside of this container",
            });
        };
        let name = if inside.is_empty() { "." } else { inside };
        let path = if inside.is_empty() { self.at.clone() } else { self.at.join(inside) };
        Group::at(&self.root, name, path, self.version)
    }

    /// The group that thread `tid` is in.
    ///
    /// # Errors
    /// It is gone, or its group lies outside of what is mounted here.
    pub fn group_of(&self, tid: u32) -> Result<Group> {
        self.open(&self.path_of(tid)?)
    }
}

/// A control group, held open.
#[derive(Debug)]
pub struct Group {
    directory: OwnedFd,
    /// What to call it.
    path: PathBuf,
    version: Version,
}

impl Group {
    fn at(parent: impl AsFd, name: &str, path: PathBuf, version: Version) -> Result<Group> {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        match file::open_in(parent, name, flags) {
            Ok(directory) => Ok(Group { directory: directory.into(), path, version }),
            Err(error) => Err(Error::from(error, format!("open the control group {}", path.display()), RIGHT)),
        }
    }

    /// Its path, for people.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which kind of tree it is in.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether it has a control file of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.directory, name, AtFlags::empty()).is_ok()
    }

    /// What its control file `name` says.
    ///
    /// # Errors
    /// It has no such file.
    pub fn read(&self, name: &str) -> Result<String> {
        let said = file::read_in(&self.directory, name);
        said.map_err(|error| Error::from(error, format!("read {}", self.path.join(name).display()), RIGHT))
    }

    /// Writes `text` into its control file `name`.
    ///
    /// # Errors
    /// It has no such file, we lack the right to it, or the kernel refuses what is written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let done = file::write_in(&self.directory, name, text);
        done.map_err(|error| Error::from(error, format!("write `{text}` to {}", self.path.join(name).display()), RIGHT))
    }

    /// The numbers in its control file `name`, one to a line.
    ///
    /// # Errors
    /// It has no such file.
    pub fn numbers(&self, name: &str) -> Result<Vec<u32>> {
        Ok(self.read(name)?.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
    }

    /// What stands behind `key` in its control file `name`, as `cpu.stat` and `cgroup.events` have it.
    ///
    /// # Errors
    /// It has no such file, or that has no such key.
    pub fn keyed(&self, name: &str, key: &str) -> Result<u64> {
        let text = self.read(name)?;
        let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok());
        found.ok_or_else(|| Error::Malformed { path: self.path.join(name), wanted: "a list with the key asked for" })
    }

    /// The processes in it.
    ///
    /// # Errors
    /// It is gone.
    pub fn processes(&self) -> Result<Vec<u32>> {
        self.numbers("cgroup.procs")
    }

    /// The threads in it.
    ///
    /// # Errors
    /// It is gone.
    pub fn threads(&self) -> Result<Vec<u32>> {
        self.numbers(self.thread_file())
    }

    fn thread_file(&self) -> &'static str {
        if self.version == Version::One { "tasks" } else { "cgroup.threads" }
    }

    /// Makes this group, of version 2 and empty, one for single threads of the processes in the group above. Nothing is to be
    /// done in version 1.
    ///
    /// # Errors
    /// Something is in it, or the group above has controllers that cannot tell threads apart.
    pub fn make_threaded(&self) -> Result<()> {
        if self.version == Version::One { Ok(()) } else { self.write("cgroup.type", "threaded") }
    }

    /// Another handle of it.
    ///
    /// # Errors
    /// It is gone, or there are too many open files.
    pub fn again(&self) -> Result<Group> {
        Group::at(&self.directory, ".", self.path.clone(), self.version)
    }

    /// Moves process `pid`, with all its threads, into this group.
    ///
    /// # Errors
    /// It is gone, or may not be moved.
    pub fn add_process(&self, pid: u32) -> Result<()> {
        self.add("cgroup.procs", pid, "process")
    }

    /// Moves thread `tid` alone into this group.
    ///
    /// # Errors
    /// It is gone or may not be moved; in version 2 both groups must be threaded, in one domain.
    pub fn add_thread(&self, tid: u32) -> Result<()> {
        self.add(self.thread_file(), tid, "thread")
    }

    fn add(&self, name: &str, number: u32, noun: &str) -> Result<()> {
        let right = "a process of this user and a group that is delegated to it, or root; in version 2 a group without \
            controllers for those below it; with RT_GROUP_SCHED real-time runtime in a group for real-time threads";
        let what = || format!("move {noun} {number} into {}", self.path.display());
        file::write_in(&self.directory, name, &number.to_string()).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EBUSY | libc::EOPNOTSUPP) => {
                Error::NotPermitted { what: what(), source: error, right }
            }
            _ => Error::of(error, number, what(), right),
        })
    }

    /// Makes a group of our own below this one. Whatever is in it when it is [removed](OwnGroup::remove) or dropped goes
    /// back into this one.
    ///
    /// # Errors
    /// There is one of that name, or we lack the right to make it.
    pub fn create(&self, name: &str) -> Result<OwnGroup> {
        let path = self.path.join(name);
        let what = || format!("make the control group {}", path.display());
        mkdirat(&self.directory, name, Mode::from_raw_mode(0o755))
            .map_err(|errno| Error::from(errno, what(), RIGHT))?;
        self.adopt(name)
    }

    /// Takes over a group of our own that an earlier run has left below this one.
    ///
    /// # Errors
    /// There is none.
    pub fn adopt(&self, name: &str) -> Result<OwnGroup> {
        let group = Group::at(&self.directory, name, self.path.join(name), self.version)?;
        let parent = self.again()?;
        Ok(OwnGroup { group, parent, name: name.to_string(), removed: false })
    }

    /// The names of the groups below this one.
    ///
    /// # Errors
    /// It is gone.
    pub fn names(&self) -> Result<Vec<String>> {
        let listed = file::directories_in(&self.directory);
        listed.map_err(|error| Error::from(error, format!("list {}", self.path.display()), RIGHT))
    }
}

/// A control group that we made. It is gone when it is dropped, and what was in it is back in the group above.
#[derive(Debug)]
pub struct OwnGroup {
    group: Group,
    parent: Group,
    name: String,
    removed: bool,
}

impl OwnGroup {
    /// Moves what is in it into the group above, and removes it.
    ///
    /// # Errors
    /// Something in it cannot be moved, or begins new processes faster than we move them.
    pub fn remove(mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> Result<()> {
        if self.removed {
            return Ok(());
        }
        let mut refused = None;
        // What is in it may fork while it is moved, and what has ended may take a while to leave.
        for _ in 0..200 {
            refused = self.give_back().err();
            match unlinkat(&self.parent.directory, self.name.as_str(), AtFlags::REMOVEDIR) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {
                    self.removed = true;
                    return Ok(());
                }
                Err(rustix::io::Errno::BUSY) => crate::clock::sleep(sched::Nanos::ms(5)),
                Err(errno) => {
                    let what = format!("remove the control group {}", self.group.path.display());
                    return Err(Error::from(errno, what, RIGHT));
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
    /// Moves what is in it now into the group above: no more than that, where only some threads of a process are in it.
    fn give_back(&self) -> Result<()> {
        let is_threaded = || self.group.read("cgroup.type").is_ok_and(|kind| kind.trim() == "threaded");
        let by_thread = self.group.version == Version::One || is_threaded();
        let all = if by_thread { self.group.threads()? } else { self.group.processes()? };
        for number in all {
            match if by_thread { self.parent.add_thread(number) } else { self.parent.add_process(number) } {
                // It has ended meanwhile.
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
        // There is nobody left to tell; who wants to know removes it.
        let _ = self.clear();
    }
}
