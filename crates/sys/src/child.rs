//! Processes of our own to try things on. Each ends with its handle, with the thread that began it, and after a minute.

use crate::event::{Bell, Waiting};
use crate::process::Process;
use crate::{Error, Result, clock};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use sched::{Instant, Nanos};

/// What such a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing.
    Sleep,
    /// Uses a CPU for a while and then sleeps for a while, over and over.
    Spin {
        /// How long it uses a CPU, by the clock.
        busy: Nanos,
        /// How long it sleeps then; zero for a hog.
        idle: Nanos,
    },
}

/// How long one lives at most.
const LIFE: Nanos = Nanos::s(60);
/// How long one that was killed is waited for. It ends at once unless it is frozen.
const END: Nanos = Nanos::s(2);

/// A process of our own.
#[derive(Debug)]
pub struct Child {
    process: Process,
}

impl Child {
    /// Begins one, in SCHED_OTHER if the calling thread is a real-time one. It must not outlive that thread, and does not.
    ///
    /// # Errors
    /// There are too many processes.
    pub fn start(work: Work) -> Result<Child> {
        let parent = rustix::process::getpid();
        let (ready, waiting) = (Bell::new()?, Waiting::new()?);
        let end = clock::now().saturating_add(LIFE);
        // SAFETY: what the child does until it exits (`live`) is made of system calls and arithmetic alone: it neither
        // allocates nor takes a lock that another thread of ours may have held.
        let pid = unsafe { libc::fork() };
        match pid {
            0 => live(work, parent, end, &ready),
            -1 => {
                let error = std::io::Error::last_os_error();
                Err(Error::from(error, "begin a child process", "fewer processes, or a higher limit (ulimit -u)"))
            }
            _ => {
                // It is not reaped yet, so the number is still its own.
                let child = Child { process: Process::open(pid.unsigned_abs())? };
                // From here on it ends with this thread, or has ended already.
                waiting.add(&ready, 0)?;
                waiting.add(&child.process, 1)?;
                waiting.next(Instant::NEVER)?;
                Ok(child)
            }
        }
    }

    /// Its pid, which is the tid of its only thread.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// It, to signal.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        if self.process.ends_within(END) {
            let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
            let _ = waitpid(pid, WaitOptions::NOHANG);
        }
    }
}

/// What the child does. It is between fork and exit, and so must call nothing that allocates or locks.
fn live(work: Work, parent: Pid, end: Instant, ready: &Bell) -> ! {
    // Who is begun by a real-time thread is not to be one, hog that it may be. The way down takes no privilege.
    // SAFETY: the calls take a number, and a parameter that outlives them.
    unsafe {
        if matches!(libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR) {
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &libc::sched_param { sched_priority: 0 });
        }
    }
    let ends_with_parent = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    ready.ring();
    // SAFETY: both calls take numbers only. Our handlers are not for the child, and it reads none of our files; were it to
    // hold them, who waits for the end of a pipe of ours would wait for the child too.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
    }
    let mut now = clock::now();
    // A parent that ended before the first line is not told of any more.
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
    // SAFETY: it ends the process without running anything of ours.
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
