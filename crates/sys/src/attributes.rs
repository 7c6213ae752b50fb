//! How the kernel schedules a thread: `sched_setattr` and `sched_getattr`, each change read back.

use crate::{Error, Result};
use rustix::io::Errno;
use sched::Nanos;
use std::fmt;

/// `SCHED_FLAG_RESET_ON_FORK`, include/uapi/linux/sched.h.
const RESET_ON_FORK: u64 = 0x01;
/// `SCHED_FLAG_RECLAIM`, there.
const RECLAIM: u64 = 0x02;

/// `struct sched_attr`, include/uapi/linux/sched/types.h: its first version, 48 bytes, which every kernel since 3.14 takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Raw {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = 48;

/// A scheduling class with what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// SCHED_OTHER.
    Other {
        /// Range: −20 … 19.
        nice: i32,
    },
    /// SCHED_BATCH.
    Batch {
        /// Range: −20 … 19.
        nice: i32,
    },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo {
        /// Range: 1 … 99.
        priority: u32,
    },
    /// SCHED_RR.
    RoundRobin {
        /// Range: 1 … 99.
        priority: u32,
    },
    /// SCHED_DEADLINE.
    Deadline {
        /// CPU time in every period. Range: 1 µs … `deadline`.
        runtime: Nanos,
        /// From the beginning of a period to when the runtime must have been delivered. Range: `runtime` … `period`.
        deadline: Nanos,
        /// Range: 100 µs … 4.19 s, unless the kernel was told otherwise.
        period: Nanos,
        /// Whether it may use what others leave (GRUB).
        reclaim: bool,
    },
    /// SCHED_EXT: a BPF scheduler's.
    Ext {
        /// Range: −20 … 19.
        nice: i32,
    },
    /// A class that these sources do not know.
    Unknown(u32),
}

/// How a thread is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attributes {
    /// Its class.
    pub policy: Policy,
    /// Whether what it forks begins as SCHED_OTHER.
    pub reset_on_fork: bool,
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy {
            Policy::Other { nice } => write!(f, "SCHED_OTHER, nice {nice}")?,
            Policy::Batch { nice } => write!(f, "SCHED_BATCH, nice {nice}")?,
            Policy::Idle => f.write_str("SCHED_IDLE")?,
            Policy::Fifo { priority } => write!(f, "SCHED_FIFO {priority}")?,
            Policy::RoundRobin { priority } => write!(f, "SCHED_RR {priority}")?,
            Policy::Deadline { runtime, deadline, period, reclaim } => {
                write!(f, "SCHED_DEADLINE {runtime} by {deadline} every {period}")?;
                if reclaim {
                    f.write_str(", reclaiming")?;
                }
            }
            Policy::Ext { nice } => write!(f, "SCHED_EXT, nice {nice}")?,
            Policy::Unknown(number) => write!(f, "class {number}")?,
        }
        if self.reset_on_fork { f.write_str(", reset on fork") } else { Ok(()) }
    }
}

impl Attributes {
    /// Of this class, and so are those it forks.
    #[must_use]
    pub const fn of(policy: Policy) -> Attributes {
        Attributes { policy, reset_on_fork: false }
    }

    /// SCHED_FIFO of this priority; what it forks begins as SCHED_OTHER.
    #[must_use]
    pub const fn raised(priority: u32) -> Attributes {
        Attributes { policy: Policy::Fifo { priority }, reset_on_fork: true }
    }

    fn to_raw(self) -> Raw {
        let mut raw = Raw { size: SIZE, flags: if self.reset_on_fork { RESET_ON_FORK } else { 0 }, ..Raw::default() };
        match self.policy {
            Policy::Other { nice } => (raw.policy, raw.nice) = (0, nice),
            Policy::Fifo { priority } => (raw.policy, raw.priority) = (1, priority),
            Policy::RoundRobin { priority } => (raw.policy, raw.priority) = (2, priority),
            Policy::Batch { nice } => (raw.policy, raw.nice) = (3, nice),
            Policy::Idle => raw.policy = 5,
            Policy::Deadline { runtime, deadline, period, reclaim } => {
                raw.policy = 6;
                (raw.runtime, raw.deadline, raw.period) = (runtime.as_ns(), deadline.as_ns(), period.as_ns());
                raw.flags |= if reclaim { RECLAIM } else { 0 };
            }
            Policy::Ext { nice } => (raw.policy, raw.nice) = (7, nice),
            Policy::Unknown(number) => raw.policy = number,
        }
        raw
    }

    fn from_raw(raw: Raw) -> Attributes {
        let Raw { nice, priority, .. } = raw;
        let policy = match raw.policy {
            0 => Policy::Other { nice },
            1 => Policy::Fifo { priority },
            2 => Policy::RoundRobin { priority },
            3 => Policy::Batch { nice },
            5 => Policy::Idle,
            6 => Policy::Deadline {
                runtime: Nanos::ns(raw.runtime),
                deadline: Nanos::ns(raw.deadline),
                period: Nanos::ns(raw.period),
                reclaim: raw.flags & RECLAIM != 0,
            },
            7 => Policy::Ext { nice },
            other => Policy::Unknown(other),
        };
        Attributes { policy, reset_on_fork: raw.flags & RESET_ON_FORK != 0 }
    }
}

/// How thread `tid` is scheduled.
///
/// # Errors
/// It is gone.
pub fn get(tid: u32) -> Result<Attributes> {
    let mut raw = Raw::default();
    // SAFETY: the kernel writes at most SIZE bytes into `raw`, which is that large and any bytes are a value of.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut raw, SIZE, 0) };
    if done == 0 {
        return Ok(Attributes::from_raw(raw));
    }
    Err(Error::of(last_error(), tid, format!("to read how thread {tid} is scheduled"), ""))
}

/// Schedules thread `tid` so, and reads back what is in force.
///
/// # Errors
/// It is gone or not ours, we lack the privilege, SCHED_DEADLINE's admission refuses, or the kernel kept something else.
pub fn set(tid: u32, wanted: Attributes) -> Result<()> {
    apply(tid, wanted)?;
    let kept = get(tid)?;
    if kept == wanted {
        return Ok(());
    }
    Err(Error::NotKept { what: format!("thread {tid} as {wanted}"), kept: kept.to_string() })
}

/// The same without reading back: one system call, for the path between a timer and a dispatch.
///
/// # Errors
/// As [`set`], but for what the kernel kept.
pub fn apply(tid: u32, wanted: Attributes) -> Result<()> {
    let raw = wanted.to_raw();
    // SAFETY: the kernel reads `size` bytes of `raw`, which is that large.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const raw, 0) };
    if done == 0 {
        return Ok(());
    }
    let what = format!("to schedule thread {tid} as {wanted}");
    let right = match wanted.policy {
        Policy::Deadline { .. } => {
            "right would be CAP_SYS_NICE, and a thread that may run on every CPU of its cpuset (no taskset)"
        }
        Policy::Fifo { .. } | Policy::RoundRobin { .. } => {
            "right would be CAP_SYS_NICE, and a control group with real-time runtime (cpu.rt_runtime_us) where the kernel has RT_GROUP_SCHED"
        }
        _ => "right would be a thread of this user, or CAP_SYS_NICE",
    };
    match last_error() {
        Errno::BUSY => Err(Error::NotPermitted {
            what,
            right: "right would be less: SCHED_DEADLINE has promised too much already",
        }),
        errno => Err(Error::of(errno, tid, what, right)),
    }
}

fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_survives_the_kernels_form() {
        let spans = (Nanos::ms(1), Nanos::ms(5), Nanos::ms(10));
        let all = [
            Policy::Other { nice: -20 },
            Policy::Batch { nice: 19 },
            Policy::Idle,
            Policy::Fifo { priority: 99 },
            Policy::RoundRobin { priority: 1 },
            Policy::Deadline { runtime: spans.0, deadline: spans.1, period: spans.2, reclaim: true },
            Policy::Ext { nice: 3 },
            Policy::Unknown(42),
        ];
        for policy in all {
            for reset_on_fork in [false, true] {
                let attributes = Attributes { policy, reset_on_fork };
                assert_eq!(Attributes::from_raw(attributes.to_raw()), attributes);
            }
        }
    }

    #[test]
    fn a_thread_is_made_idle_and_who_is_gone_is_gone() {
        std::thread::spawn(|| {
            let me = crate::thread::current();
            let before = get(me).unwrap();
            assert!(
                matches!(before.policy, Policy::Other { .. } | Policy::Batch { .. } | Policy::Ext { .. }),
                "{before}"
            );
            set(me, Attributes::of(Policy::Idle)).unwrap();
            assert_eq!(get(me).unwrap().policy, Policy::Idle);
        })
        .join()
        .unwrap();
        assert!(matches!(get(u32::MAX >> 2), Err(Error::Gone(_))));
        assert!(matches!(set(u32::MAX >> 2, Attributes::of(Policy::Idle)), Err(Error::Gone(_))));
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let me = crate::thread::current();
        let before = get(me).unwrap();
        let no_such = set(me, Attributes::of(Policy::Fifo { priority: 100 })).unwrap_err();
        assert!(matches!(no_such, Error::Call { .. } | Error::NotPermitted { .. }), "{no_such}");
        assert_eq!(get(me).unwrap(), before, "nothing changed");
    }
}
