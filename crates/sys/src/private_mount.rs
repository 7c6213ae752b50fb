//! File systems that this process mounts for itself.
//!
//! A private mount is not visible to other processes, and ends with the last process that has it. It does not end earlier,
//! because the end of a mount waits for an RCU grace period (`namespace_unlock`, fs/namespace.c, v7.2), which takes over a
//! second on a host with busy real-time threads. A restoration must not wait for it, and neither must the end of a process
//! for which another process waits. A process therefore passes its mount to the processes that it starts.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Maximum number of further attempts to mount a hierarchy of control groups. The kernel waits for 10 ms in each.
const FURTHER_MOST: u32 = 50;

/// Type and flag of a file system.
type Name = (&'static str, Option<String>);

/// The private mounts of this process.
static MOUNTS: Mutex<BTreeMap<Name, OwnedFd>> = Mutex::new(BTreeMap::new());

/// Opens the root of the private mount of the file system of type `kind` with this flag. The first call mounts the file
/// system, with `attributes` and without execution of programs.
pub(crate) fn open(kind: &'static str, flag: Option<&str>, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let name = (kind, flag.map(str::to_string));
    let mut mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mount) = mounts.get(&name) {
        return mount.try_clone();
    }
    let mount = mount_again_if_busy(kind, flag, attributes)?;
    let root = mount.try_clone()?;
    mounts.insert(name, mount);
    Ok(root)
}

/// Lets the children of this process inherit the private mount of the file system of type `kind` with this flag. Returns
/// the number of its descriptor; `None` if this process has no such mount.
pub(crate) fn pass_on(kind: &'static str, flag: Option<&str>) -> Option<i32> {
    let mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mount = mounts.get(&(kind, flag.map(str::to_string)))?;
    fcntl_setfd(mount, FdFlags::empty()).ok()?;
    Some(mount.as_raw_fd())
}

/// Makes the inherited mount the private mount of the file system of type `kind` with this flag.
pub(crate) fn take_over(kind: &'static str, flag: Option<&str>, mount: OwnedFd) {
    let mut mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    mounts.insert((kind, flag.map(str::to_string)), mount);
}

/// While the kernel still removes an earlier mount of a hierarchy, Linux answers EBUSY: the call restarts, and finds its
/// file system context used up (`cgroup1_get_tree`, kernel/cgroup/cgroup-v1.c; `vfs_cmd_create`, fs/fsopen.c; seen in 6.18).
fn mount_again_if_busy(kind: &str, flag: Option<&str>, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let mut mounted = mount(kind, flag, attributes);
    for _ in 0..FURTHER_MOST {
        if !matches!(&mounted, Err(error) if error.raw_os_error() == Some(libc::EBUSY)) {
            break;
        }
        mounted = mount(kind, flag, attributes);
    }
    mounted
}

fn mount(kind: &str, flag: Option<&str>, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    if let Some(flag) = flag {
        fsconfig_set_flag(context.as_fd(), flag)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = attributes | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, StatxFlags, statx};

    const NOSUID: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID;

    fn id(mount: &OwnedFd) -> u64 {
        statx(mount, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).unwrap().stx_mnt_id
    }

    #[test]
    fn a_file_system_is_mounted_once_per_process() {
        // Few hosts mount this controller.
        let opened = || open("cgroup", Some("net_prio"), NOSUID);
        let (first, second) = match (opened(), opened()) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(error), _) | (_, Err(error)) => return eprintln!("SKIPPED: {error}"),
        };
        let of_process = id(&first);
        assert_eq!(id(&second), of_process);
        drop((first, second));
        assert_eq!(id(&opened().unwrap()), of_process);
        let another = mount_again_if_busy("cgroup", Some("net_prio"), NOSUID).unwrap();
        let of_another = id(&another);
        assert_ne!(of_another, of_process, "two mounts have two IDs");
        let number = pass_on("cgroup", Some("net_prio")).unwrap();
        assert_eq!(id(&crate::launch::inherited(number).unwrap()), of_process);
        take_over("cgroup", Some("net_prio"), another);
        assert_eq!(id(&opened().unwrap()), of_another);
        assert_eq!(pass_on("cgroup", Some("devices")), None);
    }

    #[test]
    fn a_hierarchy_is_mounted_again_while_the_kernel_removes_its_earlier_mount() {
        let mounted = || mount_again_if_busy("cgroup", Some("net_cls"), NOSUID);
        if let Err(error) = mounted() {
            return eprintln!("SKIPPED: {error}");
        }
        for nth in 0..20 {
            let again = mounted();
            assert!(again.is_ok(), "mount {nth}: {}", again.unwrap_err());
        }
    }
}
