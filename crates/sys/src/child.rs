//! Child processes for trials. A child ends when its handle is dropped, when the thread that forked it ends, or after
//! about a minute.

use crate::attributes::{self, Attributes, Policy};
use crate::event::{Bell, Waiting};
use crate::process::Process;
use crate::{Error, Result, clock};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use sched::{Instant, Nanos};

/// Activity of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// The child sleeps.
    Sleep,
    /// The child alternates between using a CPU and sleeping.
    Spin {
        /// Busy time. This is elapsed time, not CPU time.
        busy: Nanos,
        /// Sleep time; zero for a hog.
        idle: Nanos,
    },
}

/// Maximum lifetime of a child.
const LIFE: Nanos = Nanos::s(60);
/// Maximum time for which `drop` waits for a killed child. A killed child ends at once unless it is frozen.
const END: Nanos = Nanos::s(2);

/// A child process.
#[derive(Debug)]
pub struct Child {
    process: Process,
}

impl Child {
    /// Forks a child. A child of a real-time thread runs in SCHED_OTHER. The kernel kills the child when the calling
    /// thread ends.
    ///
    /// # Errors
    /// There are too many processes or open files.
    pub fn start(work: Work) -> Result<Child> {
        let parent = rustix::process::getpid();
        let (ready, waiting) = (Bell::new()?, Waiting::new()?);
        let end = clock::now().saturating_add(LIFE);
        // SAFETY: until its exit, the child (`live`) makes only system calls and calculations. The child neither
        // allocates memory nor takes a lock that another thread of the parent may hold.
        let pid = unsafe { libc::fork() };
        match pid {
            0 => live(work, parent, end, &ready),
            -1 => {
                let error = std::io::Error::last_os_error();
                Err(Error::from(error, "start a child process", "use fewer processes, or raise the limit (ulimit -u)"))
            }
            _ => {
                // The child is not reaped yet, so its pid is not reused.
                let child = Child { process: Process::open(pid.unsigned_abs())? };
                // Wait until the child has asked to be killed at the end of this thread, or has ended.
                waiting.add(&ready, 0)?;
                waiting.add(&child.process, 1)?;
                waiting.next(Instant::NEVER)?;
                Ok(child)
            }
        }
    }

    /// Returns the pid of the child, which is the tid of its only thread.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the process handle of the child, to send signals.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child may have ended already. The kernel may withhold the CPU from a SCHED_DEADLINE thread for good, and such a
        // thread does not end when it is killed (Linux 6.18). Other children keep their class: an observer compares it.
        if attributes::get(self.pid()).is_ok_and(|it| matches!(it.policy, Policy::Deadline { .. })) {
            let _ = attributes::set(self.pid(), Attributes::of(Policy::Other { nice: 0 }));
        }
        let _ = self.process.kill();
        if self.process.ends_within(END) {
            let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
            let _ = waitpid(pid, WaitOptions::NOHANG);
        }
    }
}

/// Runs the child between fork and exit. The calls must neither allocate memory nor take a lock.
fn live(work: Work, parent: Pid, end: Instant, ready: &Bell) -> ! {
    // A hog forked by a real-time thread must not be a real-time thread itself. Leaving a real-time class requires no
    // privilege.
    // SAFETY: the calls take a number, and a parameter that outlives them.
    unsafe {
        if matches!(libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR) {
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &libc::sched_param { sched_priority: 0 });
        }
    }
    let ends_with_parent = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    ready.ring();
    // SAFETY: both calls take numbers only. The child needs no handler and no file of the parent; an inherited pipe
    // would keep its reader waiting for the child.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
    }
    let mut now = clock::now();
    // Check the parent, because the kernel sends no signal if the parent ended before this function armed the signal.
    while ends_with_parent && now < end && rustix::process::getppid() == Some(parent) {
        let rest = match work {
            Work::Sleep => Nanos::s(1),
            Work::Spin { busy, idle } => {
                let until = now.saturating_add(busy.max(Nanos::us(1)));
                while clock::now() < until {
                    std::hint::spin_loop();
                }
                idle
            }
        };
        if !rest.is_zero() {
            clock::sleep(rest);
        }
        now = clock::now();
    }
    // SAFETY: the call ends the process without running any code of the parent.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::{self, Attributes, Policy};
    use crate::thread;

    #[test]
    fn a_child_of_a_real_time_thread_is_none_itself() {
        let begun = std::thread::spawn(|| {
            attributes::set(thread::current(), Attributes::of(Policy::Fifo { priority: 1 }))?;
            let child = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::ms(1) })?;
            attributes::get(child.pid())
        });
        match begun.join().unwrap() {
            Err(refused @ Error::NotPermitted { .. }) => eprintln!("SKIPPED: {refused}"),
            other => assert!(matches!(other.unwrap().policy, Policy::Other { .. })),
        }
    }

    #[test]
    fn a_child_ends_with_its_handle() {
        let child = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::ZERO }).unwrap();
        let pid = child.pid();
        assert!(thread::status(pid).is_ok());
        drop(child);
        assert!(matches!(thread::status(pid), Err(Error::Gone(_))));
    }

    #[test]
    fn a_child_ends_with_the_thread_that_began_it() {
        let process = std::thread::spawn(|| {
            let child = Child::start(Work::Sleep).unwrap();
            let process = Process::open(child.pid()).unwrap();
            assert!(!process.has_ended());
            std::mem::forget(child);
            process
        });
        let process = process.join().unwrap();
        assert!(process.ends_within(Nanos::s(5)));
        let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
        waitpid(pid, WaitOptions::NOHANG).unwrap();
    }
}
