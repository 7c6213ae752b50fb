//! The limits of real-time threads on this machine: throttling, the fair servers, and the runtime of control groups.

use crate::cgroup::{Group, Hierarchy};
use crate::{Error, Result, cpus, file, kernel, private_mount};
use rustix::fd::OwnedFd;
use rustix::mount::MountAttrFlags;
use sched::{CpuId, Nanos};
use std::io;

/// CPU time per period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bandwidth {
    /// CPU time in every period. `None`: no limit.
    pub runtime: Option<Nanos>,
    /// Length of the period.
    pub period: Nanos,
}

impl Bandwidth {
    /// Converts two numbers of microseconds; a runtime of −1 means no limit.
    fn of(runtime_us: i64, period_us: u64) -> Bandwidth {
        let us = |us: u64| Nanos::ns(us.saturating_mul(1_000));
        Bandwidth { runtime: u64::try_from(runtime_us).ok().map(us), period: us(period_us) }
    }
}

/// Returns the limit of real-time throttling: the maximum CPU time per period of all real-time threads of a CPU
/// together. The same limit bounds SCHED_DEADLINE's admission.
///
/// # Errors
/// The kernel does not report the limit.
pub fn throttling() -> Result<Bandwidth> {
    let runtime = file::value("/proc/sys/kernel/sched_rt_runtime_us", "a number of microseconds, or -1")?;
    let period = file::value("/proc/sys/kernel/sched_rt_period_us", "a number of microseconds")?;
    Ok(Bandwidth::of(runtime, period))
}

/// Returns the time slice of SCHED_RR.
///
/// # Errors
/// The kernel does not report the slice.
pub fn round_robin_slice() -> Result<Nanos> {
    Ok(Nanos::ms(file::value("/proc/sys/kernel/sched_rr_timeslice_ms", "a number of milliseconds")?))
}

/// Returns the shortest and the longest period of SCHED_DEADLINE.
///
/// # Errors
/// The kernel does not report the periods. Kernels before Linux 5.4 do not limit the periods.
pub fn deadline_periods() -> Result<(Nanos, Nanos)> {
    let us = |name: &str| -> Result<Nanos> {
        let us: u64 =
            file::value(format!("/proc/sys/kernel/sched_deadline_period_{name}_us"), "a number of microseconds")?;
        Ok(Nanos::ns(us.saturating_mul(1_000)))
    };
    Ok((us("min")?, us("max")?))
}

/// The fair server of a CPU, which reserves CPU time for ordinary threads even while real-time threads are runnable
/// (since Linux 6.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairServer {
    /// CPU of the server.
    pub cpu: CpuId,
    /// Bandwidth of the server; zero if the server is disabled.
    pub bandwidth: Bandwidth,
}

/// Returns the fair servers of all online CPUs from debugfs. Debugfs need not be mounted.
///
/// # Errors
/// The kernel has no fair servers, or access is refused.
pub fn fair_servers() -> Result<Vec<FairServer>> {
    let debug = debugfs()?;
    let mut servers = Vec::new();
    for cpu in cpus::online()?.iter() {
        let number = |name: &str| {
            let path = format!("sched/fair_server/cpu{cpu}/{name}");
            let text = file::read_in(&debug, &path).map_err(|error| not_shown(error, &path))?;
            let wanted = "a number of nanoseconds";
            let path = std::path::Path::new("/sys/kernel/debug").join(path);
            text.trim().parse::<u64>().map_err(|_| Error::Malformed { path, wanted })
        };
        let bandwidth =
            Bandwidth { runtime: Some(Nanos::ns(number("runtime")?)), period: Nanos::ns(number("period")?) };
        servers.push(FairServer { cpu, bandwidth });
    }
    Ok(servers)
}

/// Returns whether the kernel ends the runtime of a SCHED_DEADLINE thread by a timer (scheduler feature HRTICK_DL); if not,
/// a tick ends it.
///
/// # Errors
/// Access to debugfs is refused.
pub fn has_deadline_timer() -> Result<bool> {
    let features = file::read_in(debugfs()?, "sched/features").map_err(|error| not_shown(error, "sched/features"))?;
    Ok(features.split_whitespace().any(|feature| feature == "HRTICK_DL"))
}

fn not_shown(error: io::Error, path: &str) -> Error {
    let what = || format!("read /sys/kernel/debug/{path}");
    match (error.kind(), kernel::lockdown()) {
        (io::ErrorKind::NotFound, _) => Error::Absent {
            what: "the fair server".to_string(),
            why: format!("this kernel has no {path} in debugfs"),
            remedy: "use Linux 6.12 or newer with CONFIG_DEBUG_FS",
        },
        (io::ErrorKind::PermissionDenied, Some(_)) => {
            Error::from(error, what(), "use a kernel that is not locked down (/sys/kernel/security/lockdown)")
        }
        _ => Error::from(error, what(), "run as root, on a kernel that is not locked down"),
    }
}

/// Opens debugfs at its mount point. If debugfs is not mounted, mounts debugfs privately.
fn debugfs() -> Result<OwnedFd> {
    if std::path::Path::new("/sys/kernel/debug/sched").is_dir()
        && let Ok(directory) = file::directory("/sys/kernel/debug")
    {
        return Ok(directory);
    }
    let mounted = private_mount::open("debugfs", None, MountAttrFlags::MOUNT_ATTR_RDONLY);
    mounted.map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => Error::Absent {
            what: "debugfs".to_string(),
            why: "this kernel is without it".to_string(),
            remedy: "use a kernel with CONFIG_DEBUG_FS",
        },
        _ => Error::from(error, "mount debugfs", "run with CAP_SYS_ADMIN, or mount debugfs at /sys/kernel/debug"),
    })
}

/// The bandwidth of real-time threads in a control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupRuntime {
    /// Path of the group.
    pub group: String,
    /// CPU time of the group's real-time threads together, on each CPU. Zero: the group cannot have real-time threads.
    pub bandwidth: Bandwidth,
}

/// Returns the real-time bandwidth of the control group of thread `tid`. `None` if the kernel does not group real-time
/// threads (no RT_GROUP_SCHED).
///
/// # Errors
/// The thread has ended, or its group cannot be read.
pub fn of_group(tid: u32) -> Result<Option<GroupRuntime>> {
    let group = match Hierarchy::one("cpu").and_then(|hierarchy| hierarchy.group_of(tid)) {
        Ok(group) => group,
        // Real-time groups exist only in cgroup version 1.
        Err(Error::Absent { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !group.has("cpu.rt_runtime_us") {
        return Ok(None);
    }
    GroupRuntime::of(&group).map(Some)
}

impl GroupRuntime {
    /// Reads the real-time bandwidth of `group`.
    ///
    /// # Errors
    /// The kernel does not group real-time threads.
    pub fn of(group: &Group) -> Result<GroupRuntime> {
        Ok(GroupRuntime { group: group.path().display().to_string(), bandwidth: in_group(group)? })
    }

    /// Returns whether the group can have real-time threads.
    #[must_use]
    pub fn has_runtime(&self) -> bool {
        self.bandwidth.runtime != Some(Nanos::ZERO)
    }
}

/// Returns the real-time bandwidth of `group`.
///
/// # Errors
/// The kernel does not group real-time threads.
pub fn in_group(group: &Group) -> Result<Bandwidth> {
    let number = |name: &str| {
        let malformed = || Error::Malformed { path: group.path().join(name), wanted: "a number of microseconds" };
        group.read(name)?.trim().parse::<i64>().map_err(|_| malformed())
    };
    Ok(Bandwidth::of(number("cpu.rt_runtime_us")?, number("cpu.rt_period_us")?.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_none() {
        assert_eq!(Bandwidth::of(-1, 1_000_000), Bandwidth { runtime: None, period: Nanos::s(1) });
        assert_eq!(Bandwidth::of(950_000, 1_000_000).runtime, Some(Nanos::ms(950)));
    }

    #[test]
    fn throttling_is_read() {
        let throttling = throttling().unwrap();
        assert!(throttling.period > Nanos::ZERO);
        assert!(throttling.runtime.is_none_or(|runtime| runtime <= throttling.period));
        assert!(round_robin_slice().unwrap() > Nanos::ZERO);
        match deadline_periods() {
            Ok((shortest, longest)) => assert!(shortest < longest),
            Err(error) => eprintln!("SKIPPED: {error}"),
        }
    }

    #[test]
    fn fair_servers_are_read_or_it_is_said_why_not() {
        match fair_servers() {
            Ok(servers) => {
                assert_eq!(servers.len(), cpus::online().unwrap().len());
                assert!(servers.iter().all(|server| server.bandwidth.runtime <= Some(server.bandwidth.period)));
            }
            Err(error) => eprintln!("SKIPPED: {error}"),
        }
    }

    #[test]
    fn a_new_group_has_no_real_time_runtime() {
        let me = crate::thread::current();
        let Ok(Some(mine)) = of_group(me) else {
            return eprintln!("SKIPPED: this kernel does not group real-time threads");
        };
        assert!(mine.bandwidth.period > Nanos::ZERO);
        let home = Hierarchy::one("cpu").unwrap().group_of(me).unwrap();
        match home.create(&format!("tactus-test-rt-{}", std::process::id())) {
            Ok(group) => {
                assert_eq!(in_group(&group).unwrap().runtime, Some(Nanos::ZERO));
                group.remove().unwrap();
            }
            Err(error) => eprintln!("SKIPPED: {error}"),
        }
    }
}
