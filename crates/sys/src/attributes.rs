//! Scheduling attributes of a thread: `sched_setattr` and `sched_getattr`.

use crate::{Error, Result};
use rustix::io::Errno;
use rustix::process::{Pid, getpriority_process};
use sched::Nanos;
use std::fmt;
use std::sync::OnceLock;

/// `SCHED_FLAG_RESET_ON_FORK`, include/uapi/linux/sched.h.
const RESET_ON_FORK: u64 = 0x01;
/// `SCHED_FLAG_RECLAIM`, include/uapi/linux/sched.h.
const RECLAIM: u64 = 0x02;
/// `SCHED_FLAG_DL_OVERRUN`, include/uapi/linux/sched.h.
const OVERRUN: u64 = 0x04;

/// The first version of `struct sched_attr`, include/uapi/linux/sched/types.h: 48 bytes. Every kernel since 3.14
/// accepts this version.
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

/// A scheduling class with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// SCHED_OTHER.
    Other {
        /// Nice value. Range: −20 … 19.
        nice: i32,
    },
    /// SCHED_BATCH.
    Batch {
        /// Nice value. Range: −20 … 19.
        nice: i32,
    },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo {
        /// Real-time priority. Range: 1 … 99.
        priority: u32,
    },
    /// SCHED_RR.
    RoundRobin {
        /// Real-time priority. Range: 1 … 99.
        priority: u32,
    },
    /// SCHED_DEADLINE.
    Deadline {
        /// CPU time in every period. Range: 1024 ns … `deadline`.
        runtime: Nanos,
        /// Relative deadline: time from the start of a period until the runtime must be delivered. Range: `runtime` …
        /// `period`.
        deadline: Nanos,
        /// Period of the reservation. Range: 100 µs … 4.19 s, unless the kernel is configured otherwise.
        period: Nanos,
        /// Whether the thread may use bandwidth that other threads leave unused (GRUB).
        reclaim: bool,
        /// Whether the thread receives SIGXCPU when it overruns its runtime.
        overrun: bool,
    },
    /// SCHED_EXT, the class of BPF schedulers.
    Ext {
        /// Nice value. Range: −20 … 19.
        nice: i32,
    },
    /// A class that this crate does not support.
    Unknown(u32),
}

/// Scheduling attributes of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attributes {
    /// Scheduling class of the thread.
    pub policy: Policy,
    /// Reset-on-fork: children of a real-time or SCHED_DEADLINE thread start as SCHED_OTHER, and children of a thread
    /// with a negative nice value start at nice 0.
    pub reset_on_fork: bool,
    /// Custom time slice of a thread of SCHED_OTHER or SCHED_BATCH; `None`: the kernel's default. Kernels before Linux
    /// 6.12 neither report nor keep a custom slice.
    pub slice: Option<Nanos>,
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy {
            Policy::Other { nice } => write!(f, "SCHED_OTHER, nice {nice}")?,
            Policy::Batch { nice } => write!(f, "SCHED_BATCH, nice {nice}")?,
            Policy::Idle => f.write_str("SCHED_IDLE")?,
            Policy::Fifo { priority } => write!(f, "SCHED_FIFO {priority}")?,
            Policy::RoundRobin { priority } => write!(f, "SCHED_RR {priority}")?,
            Policy::Deadline { runtime, deadline, period, reclaim, overrun } => {
                write!(f, "SCHED_DEADLINE {runtime} by {deadline} every {period}")?;
                if reclaim {
                    f.write_str(", reclaiming")?;
                }
                if overrun {
                    f.write_str(", with overrun signals")?;
                }
            }
            Policy::Ext { nice } => write!(f, "SCHED_EXT, nice {nice}")?,
            Policy::Unknown(number) => write!(f, "class {number}")?,
        }
        if let Some(slice) = self.slice {
            write!(f, ", slices of {slice}")?;
        }
        if self.reset_on_fork { f.write_str(", reset on fork") } else { Ok(()) }
    }
}

impl Attributes {
    /// Returns attributes of class `policy` with the kernel's default time slice and without reset-on-fork: children
    /// inherit the class.
    #[must_use]
    pub const fn of(policy: Policy) -> Attributes {
        Attributes { policy, reset_on_fork: false, slice: None }
    }

    /// Returns the nice value of a thread with these attributes; `None` if its class has no nice value.
    #[must_use]
    pub const fn nice(&self) -> Option<i32> {
        match self.policy {
            Policy::Other { nice } | Policy::Batch { nice } | Policy::Ext { nice } => Some(nice),
            _ => None,
        }
    }

    /// Returns the same attributes with another nice value, or unchanged if the class has no nice value.
    #[must_use]
    pub const fn with_nice(self, nice: i32) -> Attributes {
        let policy = match self.policy {
            Policy::Other { .. } => Policy::Other { nice },
            Policy::Batch { .. } => Policy::Batch { nice },
            Policy::Ext { .. } => Policy::Ext { nice },
            policy => policy,
        };
        Attributes { policy, ..self }
    }

    /// Returns SCHED_FIFO at priority `priority`, with reset-on-fork: children start as SCHED_OTHER.
    #[must_use]
    pub const fn raised(priority: u32) -> Attributes {
        Attributes { reset_on_fork: true, ..Attributes::of(Policy::Fifo { priority }) }
    }

    /// Returns SCHED_DEADLINE with `runtime` in every `period`, with reset-on-fork: without it, a thread of this class
    /// cannot fork.
    #[must_use]
    pub const fn reserved(runtime: Nanos, period: Nanos) -> Attributes {
        let policy = Policy::Deadline { runtime, deadline: period, period, reclaim: false, overrun: false };
        Attributes { reset_on_fork: true, ..Attributes::of(policy) }
    }

    fn to_raw(self) -> Raw {
        let mut raw = Raw { size: SIZE, flags: if self.reset_on_fork { RESET_ON_FORK } else { 0 }, ..Raw::default() };
        match self.policy {
            Policy::Other { nice } => (raw.policy, raw.nice) = (0, nice),
            Policy::Fifo { priority } => (raw.policy, raw.priority) = (1, priority),
            Policy::RoundRobin { priority } => (raw.policy, raw.priority) = (2, priority),
            Policy::Batch { nice } => (raw.policy, raw.nice) = (3, nice),
            Policy::Idle => raw.policy = 5,
            Policy::Deadline { runtime, deadline, period, reclaim, overrun } => {
                raw.policy = 6;
                (raw.runtime, raw.deadline, raw.period) = (runtime.as_ns(), deadline.as_ns(), period.as_ns());
                raw.flags |= if reclaim { RECLAIM } else { 0 } | if overrun { OVERRUN } else { 0 };
            }
            Policy::Ext { nice } => (raw.policy, raw.nice) = (7, nice),
            Policy::Unknown(number) => raw.policy = number,
        }
        if matches!(self.policy, Policy::Other { .. } | Policy::Batch { .. }) {
            raw.runtime = self.slice.map_or(0, Nanos::as_ns);
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
                overrun: raw.flags & OVERRUN != 0,
            },
            7 => Policy::Ext { nice },
            other => Policy::Unknown(other),
        };
        let shares = matches!(policy, Policy::Other { .. } | Policy::Batch { .. });
        let slice = (shares && raw.runtime > 0).then(|| Nanos::ns(raw.runtime));
        Attributes { policy, reset_on_fork: raw.flags & RESET_ON_FORK != 0, slice }
    }
}

/// Returns the attributes of thread `tid`.
///
/// # Errors
/// The thread has ended.
pub fn get(tid: u32) -> Result<Attributes> {
    let mut found = read(tid)?;
    // Since Linux 6.12, the kernel reports a time slice for every thread of SCHED_OTHER and SCHED_BATCH. Keep only a
    // custom slice.
    if found.slice.is_some() && found.slice == usual_slice() {
        found.slice = None;
    }
    Ok(found)
}

/// Returns the nice value of thread `tid`. A real-time thread has one, too, which [`get`] does not show: the thread has
/// this nice value when it becomes an ordinary thread again.
///
/// # Errors
/// The thread has ended.
pub fn nice(tid: u32) -> Result<i32> {
    let remedy = "use a kernel without a system call filter that refuses getpriority";
    let what = || format!("read the nice value of thread {tid}");
    let pid = Pid::from_raw(tid.cast_signed());
    getpriority_process(pid).map_err(|error| Error::of_existing(error, tid, what(), remedy))
}

/// The time slice of [`run_promptly`], the shortest that the kernel keeps (`__setparam_fair`, kernel/sched/syscalls.c, Linux
/// 6.18).
const SHORT: Nanos = Nanos::us(100);

/// Requests a short time slice for the calling thread, if it is in SCHED_OTHER. The thread then preempts threads with longer
/// slices soon after it wakes (PREEMPT_SHORT, kernel/sched/features.h), and receives no more CPU time than before. Needs no
/// privilege. Linux before 6.12 ignores it.
///
/// # Errors
/// A system call filter refuses it.
pub fn run_promptly() -> Result<()> {
    let me = crate::thread::current();
    match get(me)? {
        mine @ Attributes { policy: Policy::Other { .. }, .. } => apply(me, Attributes { slice: Some(SHORT), ..mine }),
        _ => Ok(()),
    }
}

fn read(tid: u32) -> Result<Attributes> {
    let mut raw = Raw::default();
    // SAFETY: the kernel writes at most SIZE bytes into `raw`, which has this size, and any bytes are a valid value.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut raw, SIZE, 0) };
    if done == 0 {
        return Ok(Attributes::from_raw(raw));
    }
    let remedy = "use a kernel with sched_getattr, without a system call filter that refuses it";
    Err(Error::of_existing(last_error(), tid, format!("read how thread {tid} is scheduled"), remedy))
}

/// Finds out the default time slice of this kernel, which [`get`] needs. The first call starts an ordinary thread and waits
/// for its end, so a caller with a real-time priority makes it when no other thread waits for the caller.
pub fn prepare() {
    let _ = usual_slice();
}

/// Returns the default time slice, as the kernel reports it for a thread of this process that requests no slice.
fn usual_slice() -> Option<Nanos> {
    static USUAL: OnceLock<Option<Nanos>> = OnceLock::new();
    let ask = || {
        let me = crate::thread::current();
        let (mine, nice) = (read(me).ok()?, nice(me).ok()?);
        // This change needs no privilege, not even from a real-time class. With a higher nice value, this thread would wait
        // long for a busy CPU, and the caller waits for this thread.
        let usual = Attributes { policy: Policy::Batch { nice }, slice: None, ..mine };
        apply(me, usual).ok()?;
        read(me).ok()?.slice
    };
    *USUAL.get_or_init(|| {
        // A SCHED_DEADLINE thread cannot fork. If the caller is one, the new thread does not start.
        std::thread::Builder::new().spawn(ask).ok()?.join().ok().flatten()
    })
}

/// Sets the attributes of thread `tid` and reads back the values in force. The uclamp values of the thread do not
/// change.
///
/// # Errors
/// The thread has ended, the caller lacks permission or privilege, SCHED_DEADLINE's admission control refuses, or the
/// kernel applied another value.
pub fn set(tid: u32, wanted: Attributes) -> Result<()> {
    apply(tid, wanted)?;
    let kept = get(tid)?;
    if kept == wanted {
        return Ok(());
    }
    let remedy = "use values that this kernel supports";
    Err(Error::NotKept { what: format!("schedule thread {tid} as {wanted}"), kept: kept.to_string(), remedy })
}

/// Sets the attributes of thread `tid` without reading the values back. Needs one system call, and is meant for the
/// path between a timer and a dispatch. Otherwise like [`set`].
///
/// # Errors
/// The errors of [`set`], except that a value other than the requested value is not detected.
pub fn apply(tid: u32, wanted: Attributes) -> Result<()> {
    let raw = wanted.to_raw();
    // SAFETY: the kernel reads `size` bytes of `raw`, which has this size.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const raw, 0) };
    if done == 0 {
        return Ok(());
    }
    let what = format!("schedule thread {tid} as {wanted}");
    let errno = last_error();
    let remedy = match wanted.policy {
        Policy::Deadline { .. } if errno == Errno::BUSY => {
            "reduce the runtime per period: SCHED_DEADLINE has reserved too much already"
        }
        Policy::Deadline { .. } => {
            "run with CAP_SYS_NICE, use runtime ≤ deadline ≤ period from 100us to 4.19s, and let the thread run on every CPU \
             of its cpuset (no taskset)"
        }
        Policy::Fifo { .. } | Policy::RoundRobin { .. } => {
            // RLIMIT_RTPRIO permits the class, but not the way back: clearing reset-on-fork requires the capability.
            // Source: user_check_sched_setscheduler, kernel/sched/syscalls.c, Linux 6.18.
            "run with CAP_SYS_NICE (RLIMIT_RTPRIO is not enough), use a priority from 1 to 99, and with RT_GROUP_SCHED a \
             control group with real-time runtime (cpu.rt_runtime_us)"
        }
        Policy::Ext { .. } => "use a kernel with CONFIG_SCHED_CLASS_EXT",
        _ => "use a thread of this user and a nice value from -20 to 19; run with CAP_SYS_NICE to lower it",
    };
    match errno {
        // The kernel refuses the values (EINVAL) or the reservation (EBUSY). Both refusals have a remedy.
        Errno::BUSY | Errno::INVAL => Err(Error::NotPermitted { what, source: errno.into(), remedy }),
        errno => Err(Error::of_existing(errno, tid, what, remedy)),
    }
}

fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};

    #[test]
    fn a_thread_that_runs_promptly_has_a_short_slice_and_its_nice_value() {
        let inside = || {
            let me = crate::thread::current();
            let nice_5 = Attributes::of(Policy::Other { nice: 5 });
            set(me, nice_5).unwrap();
            let usual = usual_slice();
            run_promptly().unwrap();
            let promptly = get(me).unwrap();
            if usual.is_some() {
                assert_eq!(promptly, Attributes { slice: Some(SHORT), ..nice_5 });
            } else {
                eprintln!("SKIPPED: this kernel reports no slices");
                assert_eq!(promptly, nice_5);
            }
        };
        std::thread::spawn(inside).join().unwrap();
    }

    #[test]
    fn every_class_survives_the_kernels_form() {
        let spans = (Nanos::ms(1), Nanos::ms(5), Nanos::ms(10));
        let all = [
            Policy::Other { nice: -20 },
            Policy::Batch { nice: 19 },
            Policy::Idle,
            Policy::Fifo { priority: 99 },
            Policy::RoundRobin { priority: 1 },
            Policy::Deadline { runtime: spans.0, deadline: spans.1, period: spans.2, reclaim: true, overrun: true },
            Policy::Ext { nice: 3 },
            Policy::Unknown(42),
        ];
        for policy in all {
            for reset_on_fork in [false, true] {
                let attributes = Attributes { reset_on_fork, ..Attributes::of(policy) };
                assert_eq!(Attributes::from_raw(attributes.to_raw()), attributes);
            }
        }
    }

    #[test]
    fn a_thread_is_made_batch_and_back_and_idle() {
        let child = Child::start(Work::Sleep).unwrap();
        let before = get(child.pid()).unwrap();
        assert!(matches!(before.policy, Policy::Other { .. } | Policy::Batch { .. } | Policy::Ext { .. }), "{before}");
        set(child.pid(), Attributes::of(Policy::Batch { nice: 7 })).unwrap();
        assert_eq!(get(child.pid()).unwrap(), Attributes::of(Policy::Batch { nice: 7 }));
        match set(child.pid(), before) {
            Err(refused @ Error::NotPermitted { .. }) => eprintln!("SKIPPED: {refused}"),
            other => other.unwrap(),
        }
        set(child.pid(), Attributes::of(Policy::Idle)).unwrap();
        assert_eq!(get(child.pid()).unwrap().policy, Policy::Idle);
        for missing in [u32::MAX, u32::MAX >> 2] {
            assert!(matches!(get(missing), Err(Error::Gone(_)) | Err(Error::Call { .. })));
        }
        assert!(matches!(set(u32::MAX >> 2, Attributes::of(Policy::Idle)), Err(Error::Gone(_))));
    }

    #[test]
    fn a_slice_of_a_threads_own_survives_a_time_in_another_class() {
        let child = Child::start(Work::Sleep).unwrap();
        let tid = child.pid();
        let own = Attributes { slice: Some(Nanos::us(700)), ..Attributes::of(Policy::Batch { nice: 3 }) };
        match set(tid, own) {
            Err(Error::NotKept { kept, .. }) => eprintln!("SKIPPED: this kernel keeps no slices: {kept}"),
            other => {
                other.unwrap();
                set(tid, Attributes::of(Policy::Idle)).unwrap();
                match set(tid, own) {
                    // The kernel treats SCHED_IDLE as nice 20, so the return to nice 3 may need permission.
                    Err(refused @ Error::NotPermitted { .. }) => return eprintln!("SKIPPED: {refused}"),
                    other => other.unwrap(),
                }
                assert_eq!(get(tid).unwrap(), own);
                let usual = Attributes { slice: None, ..own };
                set(tid, usual).unwrap();
                assert_eq!(get(tid).unwrap(), usual);
            }
        }
    }

    #[test]
    fn every_class_that_is_permitted_is_read_back() {
        let child = Child::start(Work::Sleep).unwrap();
        let tid = child.pid();
        let before = get(tid).unwrap();
        let (runtime, deadline, period) = (Nanos::us(200), Nanos::ms(5), Nanos::ms(10));
        let wanted = [
            Attributes::raised(1),
            Attributes::of(Policy::RoundRobin { priority: 1 }),
            Attributes::of(Policy::Deadline { runtime, deadline, period, reclaim: false, overrun: true }),
        ];
        for wanted in wanted {
            match set(tid, wanted) {
                Ok(()) => assert_eq!(get(tid).unwrap(), wanted),
                Err(refused @ Error::NotPermitted { .. }) => {
                    eprintln!("SKIPPED: {refused}");
                    assert_eq!(get(tid).unwrap(), before, "nothing changed");
                }
                Err(other) => panic!("{other}"),
            }
            let back = if wanted.reset_on_fork { Attributes { reset_on_fork: true, ..before } } else { before };
            set(tid, before).or_else(|_| set(tid, back)).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_is_an_error_with_the_remedy() {
        let child = Child::start(Work::Sleep).unwrap();
        let before = get(child.pid()).unwrap();
        let no_such = set(child.pid(), Attributes::of(Policy::Fifo { priority: 100 })).unwrap_err().to_string();
        assert!(no_such.contains("SCHED_FIFO 100") && no_such.contains("a priority from 1 to 99"), "{no_such}");
        let too_short = Nanos::ns(100);
        let policy = Policy::Deadline {
            runtime: too_short,
            deadline: too_short,
            period: too_short,
            reclaim: false,
            overrun: false,
        };
        let refused = set(child.pid(), Attributes::of(policy)).unwrap_err().to_string();
        assert!(refused.contains("from 100us to 4.19s"), "{refused}");
        assert_eq!(get(child.pid()).unwrap(), before, "nothing changed");
    }
}
