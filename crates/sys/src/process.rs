//! A process held by a pidfd: signals reach only this process, and a caller can wait for its end.

use crate::thread::{Identity, Thread};
use crate::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use sched::Nanos;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The first version of `struct pidfd_info`. Source: include/uapi/linux/pidfd.h, Linux 6.13.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// pid, tgid, ppid, and the real, effective, saved and file system IDs of user and group.
    ids: [u32; 11],
    exit_code: i32,
}

/// PIDFD_GET_INFO for the size of [`PidfdInfo`]. Source: as there, `_IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: u64 = (3 << 30) | ((size_of::<PidfdInfo>() as u64) << 16) | (0xff << 8) | 11;
/// The exit code of a reaped process. Source: as there, since Linux 6.15.
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// A handle to a process, which never refers to a later process with the same pid. The file descriptor becomes readable
/// when the process ends.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    handle: OwnedFd,
}

impl Process {
    /// Opens process `pid`.
    ///
    /// # Errors
    /// The process has ended, or `pid` is the tid of a thread other than the first thread of a process.
    pub fn open(pid: u32) -> Result<Process> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Error::Gone(pid))?;
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(handle) => Ok(Process { pid, handle }),
            // For a thread other than the first, the kernel returns EINVAL, or ENOENT since Linux 6.9.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) if !is_first_thread(pid) => Err(Error::Gone(pid)),
            Err(errno) => {
                Err(Error::of_existing(errno, pid, format!("open process {pid}"), "a kernel that allows pidfd_open"))
            }
        }
    }

    /// Opens the process with this identity, but never a later process with the same pid.
    ///
    /// # Errors
    /// The process has ended. Its pid may have been reused.
    pub fn open_as(identity: Identity) -> Result<Process> {
        let process = Process::open(identity.tid)?;
        // Compare the identity after the process is opened: a later process with the same pid has another start time.
        Thread::open_as(identity)?;
        Ok(process)
    }

    /// Returns the pid of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ends_within(Nanos::ZERO)
    }

    /// Waits up to `limit` for the end of the process. Returns whether the process has ended.
    #[must_use]
    pub fn ends_within(&self, limit: Nanos) -> bool {
        let end = crate::clock::now().saturating_add(limit);
        loop {
            let left = crate::clock::timespec(end.saturating_since(crate::clock::now()).as_ns());
            let mut polled = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    // A filter of system calls can forbid the call. Callers that wait in a loop must not spin then.
                    crate::clock::sleep_until(end);
                    return self.is_reaped();
                }
            }
        }
    }

    /// Reaps the process, a child of this process, if it has ended. Returns false while it has not ended.
    #[must_use]
    pub fn reap(&self) -> bool {
        // The call fails if the child was reaped before.
        !matches!(waitid(WaitId::PidFd(self.handle.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
    }

    /// Returns how the process ended. `None`: the process has not ended, or the kernel does not report the end to this
    /// process. Linux reports the end of a reaped process since version 6.15.
    #[must_use]
    pub fn exit_status(&self) -> Option<ExitStatus> {
        if !self.has_ended() {
            return None;
        }
        // Until the parent reaps the process, /proc has its exit code, and the pid is not reused.
        let of_zombie = crate::thread::exit_code(self.pid).filter(|_| self.is_unreaped());
        of_zombie.or_else(|| self.reaped_exit_code()).map(ExitStatus::from_raw)
    }

    /// Returns whether the process exists, or has ended and is not reaped yet.
    fn is_unreaped(&self) -> bool {
        self.test().is_ok()
    }

    /// Returns whether the process has ended and is reaped.
    fn is_reaped(&self) -> bool {
        self.test().is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
    }

    /// Returns the answer of the kernel to a signal that is not sent.
    fn test(&self) -> io::Result<()> {
        // SAFETY: the call takes numbers only. Signal 0 is not sent.
        match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.handle.as_raw_fd(), 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the exit code of a reaped process, in the form of waitpid(2).
    fn reaped_exit_code(&self) -> Option<i32> {
        let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: the kernel writes at most as many bytes as the request states, which is the size of `info`.
        let answer = unsafe { libc::ioctl(self.handle.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
        (answer == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }

    /// Stops the process: none of its threads runs until the process is continued. The parent of the process is
    /// notified.
    ///
    /// # Errors
    /// The process has ended, or the caller lacks permission.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP, "stop")
    }

    /// Continues the process after a stop.
    ///
    /// # Errors
    /// The process has ended, or the caller lacks permission.
    pub fn cont(&self) -> Result<()> {
        self.signal(Signal::CONT, "continue")
    }

    /// Stops the process like [`Process::stop`], by a signal to its thread `tid`.
    ///
    /// # Errors
    /// The thread has ended, belongs to another process, or the caller lacks permission.
    pub fn stop_by(&self, tid: u32) -> Result<()> {
        self.signal_thread(tid, libc::SIGSTOP, "stop")
    }

    /// Kills the process like [`Process::kill`], by a signal to its thread `tid`.
    ///
    /// # Errors
    /// The thread has ended, belongs to another process, or the caller lacks permission.
    pub fn kill_by(&self, tid: u32) -> Result<()> {
        self.signal_thread(tid, libc::SIGKILL, "kill")
    }

    fn signal_thread(&self, tid: u32, signal: i32, verb: &str) -> Result<()> {
        if self.has_ended() {
            return Err(Error::Gone(self.pid));
        }
        // SAFETY: the call takes numbers only.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, self.pid, tid, signal) };
        if sent == 0 {
            return Ok(());
        }
        let what = format!("{verb} process {} by its thread {tid}", self.pid);
        Err(Error::of(
            std::io::Error::last_os_error(),
            tid,
            what,
            "choose a process of this user, or run with CAP_KILL",
        ))
    }

    /// Requests the end of the process (SIGTERM).
    ///
    /// # Errors
    /// The process has ended, or the caller lacks permission.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM, "end")
    }

    /// Kills the process (SIGKILL).
    ///
    /// # Errors
    /// The process has ended, or the caller lacks permission.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL, "kill")
    }

    fn signal(&self, signal: Signal, verb: &str) -> Result<()> {
        let sent = pidfd_send_signal(&self.handle, signal);
        let remedy = "choose a process of this user, or run with CAP_KILL";
        sent.map_err(|errno| Error::of(errno, self.pid, format!("{verb} process {}", self.pid), remedy))
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Moves this process to a session of its own, so that signals of the terminal do not reach it.
///
/// # Errors
/// This process is the leader of a process group.
pub fn leave_session() -> Result<()> {
    let left = rustix::process::setsid();
    let remedy = "start it from another process that is no process group leader, not from a shell";
    left.map(|_| ()).map_err(|errno| Error::from(errno, "leave the session of this process", remedy))
}

/// Returns whether `pid` is a living process, and not another thread of a process.
fn is_first_thread(pid: u32) -> bool {
    Thread::open(pid).and_then(|thread| thread.process()).is_ok_and(|process| process == pid)
}

/// Ignores requests of a terminal or another process to end or stop: SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP,
/// SIGTTIN, SIGTTOU, SIGUSR1 and SIGUSR2. Also ignores SIGPIPE and SIGXCPU. SIGKILL and SIGSTOP cannot be ignored.
pub fn ignore_requests() {
    let signals = [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGXCPU,
    ];
    signals.into_iter().for_each(|signal| answer(signal, libc::SIG_IGN));
}

/// Ignores the signals of a terminal (SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU), in this process and its
/// children.
pub fn ignore_terminal() {
    let signals = [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    signals.into_iter().for_each(|signal| answer(signal, libc::SIG_IGN));
}

/// Runs `arrange`, which may install a handler of SIGHUP. If SIGHUP was ignored before, as under nohup, ignores SIGHUP
/// again.
pub fn heeding_nohup<T>(arrange: impl FnOnce() -> T) -> T {
    let mut found = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call changes no disposition, and the kernel fills the buffer if the call succeeds.
    let is_ignored = unsafe {
        libc::sigaction(libc::SIGHUP, std::ptr::null(), found.as_mut_ptr()) == 0
            && found.assume_init().sa_sigaction == libc::SIG_IGN
    };
    let done = arrange();
    if is_ignored {
        answer(libc::SIGHUP, libc::SIG_IGN);
    }
    done
}

/// Prepares the execution of another program in this process, which installs its handlers later: until then, SIGHUP is
/// ignored, and SIGINT and SIGTERM end the process.
pub fn leave_signals_to_next_program() {
    answer(libc::SIGHUP, libc::SIG_IGN);
    answer(libc::SIGINT, libc::SIG_DFL);
    answer(libc::SIGTERM, libc::SIG_DFL);
}

/// Sets the disposition of `signal` to `how`: SIG_IGN or SIG_DFL.
fn answer(signal: i32, how: libc::sighandler_t) {
    // SAFETY: the call takes numbers only, and installs no handler.
    unsafe {
        libc::signal(signal, how);
    }
}

/// Excludes this process and its later children from the choice of the kernel's OOM killer.
///
/// # Errors
/// The caller lacks CAP_SYS_RESOURCE.
pub fn avoid_oom_kill() -> Result<()> {
    crate::file::write("/proc/self/oom_score_adj", "-1000")
}

/// Makes the kernel kill this process when the thread that forked it ends, even while this process is stopped.
///
/// # Errors
/// `parent`, the process of the forking thread, has already ended.
pub fn end_with(parent: u32) -> Result<()> {
    let set = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    set.map_err(|errno| Error::of(errno, parent, format!("end with process {parent}"), "use a kernel with prctl"))?;
    // The kernel sends no signal if the parent ended before the call.
    let found = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if found == Some(parent) { Ok(()) } else { Err(Error::Gone(parent)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};
    use crate::thread::State;

    #[test]
    fn a_process_is_stopped_continued_and_gone() {
        let child = Child::start(Work::Sleep).unwrap();
        let thread = Thread::open(child.pid()).unwrap();
        let process = Process::open_as(thread.identity()).unwrap();
        assert!(!process.has_ended());
        let within_a_second = |wanted: State| {
            let is_so = |_| {
                crate::clock::sleep(Nanos::ms(2));
                thread.status().unwrap().state == wanted
            };
            (0..500).any(is_so)
        };
        process.stop().unwrap();
        assert!(within_a_second(State::Stopped));
        process.cont().unwrap();
        assert!(within_a_second(State::Sleeping));
        process.kill().unwrap();
        assert!(process.ends_within(Nanos::s(5)));
        drop(child);
        assert!(matches!(process.cont(), Err(Error::Gone(pid)) if pid == process.pid()));
        assert!(matches!(Process::open_as(thread.identity()), Err(Error::Gone(_))));
    }

    #[test]
    fn a_signal_to_a_thread_is_one_to_its_process_and_to_no_other() {
        let child = Child::start(Work::Sleep).unwrap();
        let thread = Thread::open(child.pid()).unwrap();
        let process = child.process();
        assert!(matches!(process.kill_by(std::process::id()), Err(Error::Gone(_))));
        process.stop_by(child.pid()).unwrap();
        assert!((0..500).any(|_| {
            crate::clock::sleep(Nanos::ms(2));
            thread.status().unwrap().state == State::Stopped
        }));
        process.kill_by(child.pid()).unwrap();
        assert!(process.ends_within(Nanos::s(5)));
        assert!(matches!(process.stop_by(child.pid()), Err(Error::Gone(_))));
    }

    #[test]
    fn the_end_of_a_process_is_known_before_and_after_it_is_reaped() {
        let child = Child::start(Work::Sleep).unwrap();
        let process = Process::open(child.pid()).unwrap();
        assert_eq!(process.exit_status(), None, "it has not ended");
        process.kill().unwrap();
        assert!(process.ends_within(Nanos::s(5)));
        let killed = Some(ExitStatus::from_raw(libc::SIGKILL));
        assert_eq!(process.exit_status(), killed, "it is not reaped yet");
        drop(child);
        match process.exit_status() {
            None => eprintln!("SKIPPED: this kernel does not report the end of a reaped process"),
            found => assert_eq!(found, killed),
        }
        let mut shell = std::process::Command::new("sh").args(["-c", "read -r line; exit 7"]).spawn().unwrap();
        let process = Process::open(shell.id()).unwrap();
        let status = shell.wait().unwrap();
        assert!(process.exit_status().is_none_or(|found| found == status));
    }

    #[test]
    fn the_end_of_a_process_other_than_the_parent_has_no_effect() {
        // The call arms the signal before it fails. Disarm the signal, because the thread that forked this process may
        // end before the tests.
        let undo = || rustix::process::set_parent_process_death_signal(None).unwrap();
        assert!(matches!(end_with(u32::MAX), Err(Error::Gone(u32::MAX))));
        undo();
    }

    #[test]
    fn a_missing_process_is_reported_as_gone() {
        for missing in [0, u32::MAX, u32::MAX >> 2] {
            assert!(matches!(Process::open(missing), Err(Error::Gone(pid)) if pid == missing));
        }
        let second = std::thread::spawn(|| Process::open(crate::thread::current()).err()).join().unwrap();
        assert!(matches!(second, Some(Error::Gone(_))), "{second:?}");
    }
}
