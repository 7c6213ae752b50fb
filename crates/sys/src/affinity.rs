//! The CPUs that a thread may run on.

use crate::thread::Thread;
use crate::{Error, Result};
use rustix::process::Pid;
use rustix::thread::CpuSet as Mask;
use sched::{CpuId, CpuSet};

const REMEDY: &str = "choose a thread of this user or run with CAP_SYS_NICE; use CPUs that are online and in its cpuset, and \
    all of those for a thread under SCHED_DEADLINE";

/// Maximum number of attempts to read a mask twice between two changes.
const ATTEMPTS: usize = 5;

fn pid(tid: u32) -> Result<Option<Pid>> {
    i32::try_from(tid).ok().and_then(Pid::from_raw).map(Some).ok_or(Error::Gone(tid))
}

/// Returns the CPUs that thread `tid` may run on.
///
/// # Errors
/// The thread has ended.
pub fn get(tid: u32) -> Result<CpuSet> {
    let mask = rustix::thread::sched_getaffinity(pid(tid)?);
    let mask =
        mask.map_err(|errno| Error::of_existing(errno, tid, format!("read the affinity of thread {tid}"), REMEDY))?;
    let cpus = (0..Mask::MAX_CPU.min(sched::id::CPUS_MAX)).filter(|&cpu| mask.is_set(cpu));
    // The iterator ends at the last CPU of the mask, without a look at the thousand bits behind it.
    Ok(cpus.take(mask.count() as usize).map(CpuId::new).collect())
}

/// Returns the CPUs of the mask of thread `tid` that are offline or about to go offline. [`get`] omits these CPUs
/// (`sched_getaffinity`, kernel/sched/syscalls.c, 6.18). /proc/TID/status has the whole mask (`task_cpus_allowed`,
/// fs/proc/array.c).
///
/// # Errors
/// The thread has ended.
pub fn inactive(tid: u32) -> Result<CpuSet> {
    let thread = Thread::open(tid)?;
    let mut active = get(tid)?;
    for _ in 0..ATTEMPTS {
        let mask = thread.cpus_allowed()?;
        let again = get(tid)?;
        if again == active {
            return Ok(mask.minus(&active));
        }
        // Another process has changed the mask between the calls.
        active = again;
    }
    Ok(CpuSet::EMPTY)
}

/// Restricts thread `tid` to `cpus`, and reads back the CPUs in force.
///
/// # Errors
/// The thread has ended, the caller lacks permission, the thread's cpuset has none of `cpus`, or the kernel applied
/// another set.
pub fn set(tid: u32, cpus: &CpuSet) -> Result<()> {
    let mut mask = Mask::new();
    for cpu in cpus.iter().filter(|cpu| cpu.index() < Mask::MAX_CPU) {
        mask.set(cpu.index());
    }
    let what = || format!("run thread {tid} on CPUs {cpus}");
    rustix::thread::sched_setaffinity(pid(tid)?, &mask)
        .map_err(|errno| Error::of_existing(errno, tid, what(), REMEDY))?;
    let kept = get(tid)?;
    if kept == *cpus {
        Ok(())
    } else {
        Err(Error::NotKept {
            what: what(),
            kept: format!("CPUs {kept}"),
            remedy: "choose CPUs that are online and in its cpuset",
        })
    }
}

/// Confines the calling thread to `cpu` again if it runs on another CPU. Linux moves the threads of a CPU that goes
/// offline, and does not move them back when the CPU is online again. Returns whether the thread runs on `cpu`.
#[must_use]
pub fn keep_to(cpu: CpuId) -> bool {
    let is_there = || rustix::thread::sched_getcpu() == cpu.index();
    // The call fails while the CPU is offline.
    is_there() || (set(crate::thread::current(), &CpuSet::one(cpu)).is_ok() && is_there())
}

/// Lets thread `tid` run on all CPUs of its cpuset, now and after later changes of the cpuset. Linux remembers the CPUs
/// of the last [`set`] (`user_cpus_ptr`, since 6.2) and applies them again whenever the cpuset changes. This call
/// remembers all CPUs, which has the same effect as a thread whose affinity was never set.
///
/// # Errors
/// The thread has ended, or the caller lacks permission.
pub fn follow_cpuset(tid: u32) -> Result<()> {
    let mut mask = Mask::new();
    (0..Mask::MAX_CPU).for_each(|cpu| mask.set(cpu));
    rustix::thread::sched_setaffinity(pid(tid)?, &mask)
        .map_err(|errno| Error::of_existing(errno, tid, format!("run thread {tid} on all CPUs of its cpuset"), REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_to_its_cpu_after_another_thread_has_moved_it() {
        std::thread::spawn(|| {
            let me = crate::thread::current();
            let all = get(me).unwrap();
            let (first, last) = (all.first().unwrap(), all.iter().last().unwrap());
            set(me, &CpuSet::one(first)).unwrap();
            assert!(keep_to(last));
            assert_eq!(get(me).unwrap(), CpuSet::one(last));
            assert!(!keep_to(CpuId::new(sched::id::CPUS_MAX - 1)));
            assert_eq!(get(me).unwrap(), CpuSet::one(last), "nothing changed");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_is_moved_and_moved_back() {
        std::thread::spawn(|| {
            let me = crate::thread::current();
            let all = get(me).unwrap();
            let first = CpuSet::one(all.first().unwrap());
            set(me, &first).unwrap();
            assert_eq!(get(me).unwrap(), first);
            assert_eq!(inactive(me).unwrap(), CpuSet::EMPTY);
            set(me, &all).unwrap();
            assert_eq!(get(me).unwrap(), all);
            assert!(set(me, &CpuSet::EMPTY).is_err());
            assert_eq!(get(me).unwrap(), all, "nothing changed");
            set(me, &first).unwrap();
            follow_cpuset(me).unwrap();
            assert!(first.minus(&get(me).unwrap()).is_empty());
            assert_eq!(get(me).unwrap(), crate::cpus::cpuset(me).unwrap().map_or(all, |cpuset| cpuset.cpus));
        })
        .join()
        .unwrap();
        assert!(matches!(get(u32::MAX), Err(Error::Gone(_))));
        assert!(matches!(inactive(u32::MAX), Err(Error::Gone(_))));
        assert!(matches!(follow_cpuset(u32::MAX), Err(Error::Gone(_))));
    }
}
