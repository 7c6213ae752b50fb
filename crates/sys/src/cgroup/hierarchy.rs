//! [`Hierarchy`]: a mounted hierarchy of control groups, and the paths of groups in it.

use super::{Group, REMEDY, Version};
use crate::thread::Thread;
use crate::{Error, Result, file, private_mount};
use procfs::process::Process;
use rustix::fd::OwnedFd;
use rustix::mount::MountAttrFlags;
use std::io;
use std::path::{Path, PathBuf};

const MOUNTED: &str = "mount a control group hierarchy (/sys/fs/cgroup), or run with the privilege to mount one";

/// Type of the file system of version 1.
const KIND: &str = "cgroup";

/// A hierarchy of control groups, held open.
#[derive(Debug)]
pub struct Hierarchy {
    version: Version,
    /// The requested controller; empty in version 2.
    controller: String,
    root: OwnedFd,
    /// Mount point of the hierarchy.
    at: PathBuf,
    /// Path, in the hierarchy, of the group that is mounted at the mount point.
    prefix: String,
}

impl Hierarchy {
    /// Returns the mounted hierarchy of version 1 with `controller`.
    ///
    /// # Errors
    /// The hierarchy is not mounted.
    pub fn one(controller: &str) -> Result<Hierarchy> {
        Hierarchy::mounted(Version::One, controller)
    }

    /// Returns the mounted hierarchy of version 2.
    ///
    /// # Errors
    /// The hierarchy is not mounted.
    pub fn two() -> Result<Hierarchy> {
        Hierarchy::mounted(Version::Two, "")
    }

    /// Returns the hierarchy of version 1 with `controller`. If the hierarchy is not mounted, mounts it privately. The
    /// private mount is not visible to other processes, and ends with this process.
    ///
    /// # Errors
    /// The kernel lacks the hierarchy, or the caller lacks the privilege to mount it.
    pub fn one_or_mount(controller: &str) -> Result<Hierarchy> {
        let Err(missing) = Hierarchy::one(controller) else { return Hierarchy::one(controller) };
        let mounted = private_mount::open(KIND, Some(controller), MountAttrFlags::MOUNT_ATTR_NOSUID);
        let root = mounted.map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Error::from(error, format!("mount the cgroup hierarchy of {controller}"), "run with CAP_SYS_ADMIN")
            }
            _ => missing,
        })?;
        let at = PathBuf::from(format!("(cgroup {controller})"));
        Ok(Hierarchy { version: Version::One, controller: controller.to_string(), root, at, prefix: "/".to_string() })
    }

    /// Lets the children of this process inherit the private mount of [`Hierarchy::one_or_mount`]. Returns the number of
    /// its descriptor; `None` if this process has no such mount.
    #[must_use]
    pub fn pass_on_mount(controller: &str) -> Option<i32> {
        private_mount::pass_on(KIND, Some(controller))
    }

    /// Makes the inherited descriptor `number` the private mount of [`Hierarchy::one_or_mount`].
    ///
    /// # Errors
    /// The descriptor was not inherited.
    pub fn take_over_mount(controller: &str, number: i32) -> Result<()> {
        private_mount::take_over(KIND, Some(controller), crate::launch::inherited(number)?);
        Ok(())
    }

    fn mounted(version: Version, controller: &str) -> Result<Hierarchy> {
        let what = match version {
            Version::One => format!("the cgroup hierarchy of {controller}"),
            Version::Two => "the unified cgroup hierarchy".to_string(),
        };
        let mounts = Process::myself().and_then(|me| me.mountinfo());
        let mounts =
            mounts.map_err(|error| Error::from(io::Error::other(error), "read /proc/self/mountinfo", REMEDY))?;
        let found = mounts.into_iter().find(|mount| match version {
            Version::One => mount.fs_type == "cgroup" && mount.super_options.contains_key(controller),
            Version::Two => mount.fs_type == "cgroup2",
        });
        let Some(mount) = found else {
            return Err(Error::Absent { what, why: "it is mounted nowhere".to_string(), remedy: MOUNTED });
        };
        let at = mount.mount_point;
        let root =
            file::directory(&at).map_err(|error| Error::from(error, format!("open {}", at.display()), REMEDY))?;
        Ok(Hierarchy { version, controller: controller.to_string(), root, at, prefix: mount.root })
    }

    /// Returns the version of the hierarchy.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the mount point of the hierarchy.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Returns the path of the group of thread `tid`.
    ///
    /// # Errors
    /// The thread has ended, or belongs to no group of this hierarchy.
    pub fn path_of(&self, tid: u32) -> Result<String> {
        Ok(self.line_of(tid)?.1)
    }

    /// Returns the path of the group of version 2 that contains all threads of the process of thread `tid`: the group of
    /// the thread, or the nearest group above that is not threaded.
    ///
    /// # Errors
    /// The thread has ended, or its group lies outside the mount.
    pub fn domain_path_of(&self, tid: u32) -> Result<String> {
        let mut path = self.path_of(tid)?;
        while self.open(&path)?.is_threaded() {
            path.truncate(path.rfind('/').unwrap_or(0).max(1));
        }
        Ok(path)
    }

    /// Returns the path of the group of version 2 whose weight and bandwidth are those of the process of thread `tid`: the
    /// unit of systemd around the process (a scope or a service), if it contains no processes but those of the
    /// [domain](Hierarchy::domain_path_of), or else the domain. libvirt makes groups below the scope of a VM. Such a group
    /// competes with no other group, so that its weight has no effect.
    ///
    /// # Errors
    /// The thread has ended, or its group lies outside the mount.
    pub fn share_path_of(&self, tid: u32) -> Result<String> {
        let domain = self.domain_path_of(tid)?;
        let Some(unit) = unit_around(&domain) else { return Ok(domain) };
        let sorted = |path: &str| -> Result<Vec<u32>> {
            let mut all = self.open(path)?.all_processes()?;
            all.sort_unstable();
            Ok(all)
        };
        // A unit outside the mount cannot have the share.
        let is_alone = sorted(unit).is_ok_and(|of_unit| sorted(&domain).is_ok_and(|of_domain| of_unit == of_domain));
        Ok(if is_alone { unit.to_string() } else { domain })
    }

    /// Returns the paths that [`share_path_of`](Hierarchy::share_path_of) may return, now or a moment ago.
    ///
    /// # Errors
    /// The thread has ended, or its group lies outside the mount.
    pub fn share_paths_of(&self, tid: u32) -> Result<Vec<String>> {
        let domain = self.domain_path_of(tid)?;
        let unit = unit_around(&domain).filter(|unit| *unit != domain).map(str::to_string);
        Ok(unit.into_iter().chain([domain]).collect())
    }

    /// Returns whether this hierarchy has no other controller than the requested one. In a hierarchy with several
    /// controllers, a new group affects all of them.
    ///
    /// # Errors
    /// The calling thread belongs to no group of this hierarchy.
    pub fn is_exclusive(&self) -> Result<bool> {
        Ok(self.line_of(crate::thread::current())?.0 == self.controller)
    }

    /// Returns the controllers of this hierarchy and the path of the group of thread `tid`.
    fn line_of(&self, tid: u32) -> Result<(String, String)> {
        let thread = Thread::open(tid)?;
        let text = file::read(format!("/proc/{tid}/task/{tid}/cgroup"));
        let text = if thread.is_there() { text? } else { return Err(Error::Gone(tid)) };
        let own = |line: &str| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_own = controllers.split(',').any(|found| found == self.controller);
            is_own.then(|| (controllers.to_string(), path.to_string()))
        };
        text.lines().find_map(own).ok_or_else(|| Error::Absent {
            what: format!("the group of thread {tid} in {}", self.at.display()),
            why: "the thread is in no group of this hierarchy".to_string(),
            remedy: MOUNTED,
        })
    }

    /// Returns the paths of the groups that `is_wanted` selects by their names and [IDs](Group::id). Groups that start
    /// or end during the call may be missing.
    ///
    /// # Errors
    /// The mount point cannot be read.
    pub fn find(&self, is_wanted: impl Fn(&str, u64) -> bool) -> Result<Vec<String>> {
        let (mut found, mut waiting) = (Vec::new(), vec![self.prefix.trim_end_matches('/').to_string()]);
        while let Some(path) = waiting.pop() {
            let root = path == self.prefix.trim_end_matches('/');
            let children = self.open(if path.is_empty() { "/" } else { &path }).and_then(|group| group.children());
            let children = match children {
                Ok(children) => children,
                Err(error) if root => return Err(error),
                // The group has just been removed.
                Err(_) => continue,
            };
            for (name, id) in children {
                let child = format!("{path}/{name}");
                if is_wanted(&name, id) {
                    found.push(child.clone());
                }
                waiting.push(child);
            }
        }
        Ok(found)
    }

    /// Opens the group at `path`.
    ///
    /// # Errors
    /// The group does not exist, or lies outside the mount.
    pub fn open(&self, path: &str) -> Result<Group> {
        let inside = if self.prefix == "/" { Some(path) } else { path.strip_prefix(self.prefix.as_str()) };
        let inside = inside.filter(|inside| !inside.starts_with("/..")).map(|inside| inside.trim_matches('/'));
        let Some(inside) = inside else {
            return Err(Error::Absent {
                what: format!("the group {path}"),
                why: format!("{} shows the groups below {} only", self.at.display(), self.prefix),
                remedy: "run outside of this container",
            });
        };
        let name = if inside.is_empty() { "." } else { inside };
        let path = if inside.is_empty() { self.at.clone() } else { self.at.join(inside) };
        Group::at(&self.root, name, path, self.version)
    }

    /// Opens the group of thread `tid`.
    ///
    /// # Errors
    /// The thread has ended, or its group lies outside the mount.
    pub fn group_of(&self, tid: u32) -> Result<Group> {
        self.open(&self.path_of(tid)?)
    }
}

/// Returns the path of the innermost unit of systemd that `path` is in: `path` itself or a group above it.
fn unit_around(path: &str) -> Option<&str> {
    let is_unit = |group: &&Path| group.extension().is_some_and(|kind| kind == "scope" || kind == "service");
    Path::new(path).ancestors().find(is_unit).and_then(Path::to_str)
}

/// Returns the paths of the groups above the group `path`, the root first. The root has only itself.
#[must_use]
pub fn paths_above(path: &str) -> Vec<String> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    std::iter::once("/").chain(ends.map(|at| &path[..at])).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_vm_is_the_innermost_scope_or_service_around_it() {
        let scope = "/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope";
        assert_eq!(unit_around(&format!("{scope}/libvirt")), Some(scope));
        assert_eq!(unit_around(scope), Some(scope));
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/vm.scope";
        assert_eq!(unit_around(user), Some(user));
        for none in ["/", "/machine/qemu-1-vm1.libvirt-qemu", "/machine.slice"] {
            assert_eq!(unit_around(none), None);
        }
    }
}
