//! Privileges and limits of this process.

use crate::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use sched::Nanos;

/// A capability that a part of Tactus needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Capability {
    /// CAP_SYS_NICE: real-time classes, SCHED_DEADLINE, affinities and classes of other users' threads.
    Nice,
    /// CAP_SYS_PTRACE: reading the state of other users' processes.
    Ptrace,
    /// CAP_KILL: stopping other users' processes.
    Kill,
    /// CAP_IPC_LOCK: locked memory.
    LockMemory,
    /// CAP_PERFMON: recording the context switches of other users' threads.
    Perfmon,
    /// CAP_BPF: schedulers for sched_ext.
    Bpf,
    /// CAP_SYS_RESOURCE: raising limits.
    Resource,
    /// CAP_SYS_ADMIN: mounts, and operations without a capability of their own.
    Admin,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 8] = [
        Capability::Nice,
        Capability::Ptrace,
        Capability::Kill,
        Capability::LockMemory,
        Capability::Perfmon,
        Capability::Bpf,
        Capability::Resource,
        Capability::Admin,
    ];

    /// Returns the name of the capability in the kernel.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Capability::Nice => "CAP_SYS_NICE",
            Capability::Ptrace => "CAP_SYS_PTRACE",
            Capability::Kill => "CAP_KILL",
            Capability::LockMemory => "CAP_IPC_LOCK",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
            Capability::Resource => "CAP_SYS_RESOURCE",
            Capability::Admin => "CAP_SYS_ADMIN",
        }
    }

    fn bit(self) -> CapabilitySet {
        match self {
            Capability::Nice => CapabilitySet::SYS_NICE,
            Capability::Ptrace => CapabilitySet::SYS_PTRACE,
            Capability::Kill => CapabilitySet::KILL,
            Capability::LockMemory => CapabilitySet::IPC_LOCK,
            Capability::Perfmon => CapabilitySet::PERFMON,
            Capability::Bpf => CapabilitySet::BPF,
            Capability::Resource => CapabilitySet::SYS_RESOURCE,
            Capability::Admin => CapabilitySet::SYS_ADMIN,
        }
    }
}

/// Returns the capabilities of the calling thread.
///
/// # Errors
/// The kernel does not report the capabilities.
pub fn held() -> Result<Vec<Capability>> {
    let sets = capabilities(None).map_err(|errno| {
        Error::from(errno, "read the capabilities of this thread", "use a kernel with capabilities")
    })?;
    Ok(Capability::ALL.into_iter().filter(|one| sets.effective.contains(one.bit())).collect())
}

/// Returns the effective user ID of this process.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the real user ID of this process.
#[must_use]
pub fn real_user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Returns the highest real-time priority without CAP_SYS_NICE (RLIMIT_RTPRIO). `None`: no limit.
#[must_use]
pub fn priority_limit() -> Option<u64> {
    getrlimit(Resource::Rtprio).current
}

/// Returns the maximum time for which a real-time thread may run without sleeping before it receives SIGXCPU
/// (RLIMIT_RTTIME). `None`: no limit.
#[must_use]
pub fn realtime_limit() -> Option<Nanos> {
    getrlimit(Resource::Rttime).current.map(|us| Nanos::ns(us.saturating_mul(1_000)))
}

/// Returns the number of bytes that may be locked without CAP_IPC_LOCK (RLIMIT_MEMLOCK). `None`: no limit.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Raises the limit of open files (RLIMIT_NOFILE) to its maximum. Children inherit the raised limit.
///
/// # Errors
/// The kernel refuses the new limit.
pub fn raise_file_limit() -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map_err(|errno| {
        let what = format!("have more files open than {}", current.map_or("any".to_string(), |most| most.to_string()));
        Error::from(errno, what, "raise the limit (ulimit -n)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_what_proc_says() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mut words = crate::thread::field(&status, "CapEff:").unwrap();
        let mask = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let held = held().unwrap();
        // Bit numbers as in include/uapi/linux/capability.h.
        for (capability, bit) in [(Capability::Nice, 23), (Capability::Perfmon, 38), (Capability::Resource, 24)] {
            assert_eq!(held.contains(&capability), mask & (1 << bit) != 0, "{}", capability.name());
        }
        assert!(held.is_sorted());
    }

    #[test]
    fn the_limit_of_files_is_raised_to_its_maximum() {
        let before = getrlimit(Resource::Nofile);
        raise_file_limit().unwrap();
        let raised = getrlimit(Resource::Nofile);
        assert_eq!((raised.current, raised.maximum), (before.maximum, before.maximum));
        setrlimit(Resource::Nofile, before).unwrap();
    }
}
