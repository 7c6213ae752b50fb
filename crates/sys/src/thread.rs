//! Who a thread is: ids that are not mistaken for those who had them before, and what the kernel says of them.

use crate::{Error, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

/// Set in a thread's flags for one that belongs to the kernel. Source: `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What a thread is doing, as /proc says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It runs or waits for a CPU.
    Runnable,
    /// It waits for something else.
    Sleeping,
    /// It is stopped by a signal.
    Stopped,
    /// It is stopped by a tracer.
    Traced,
    /// It has ended and is not reaped yet, or is just ending.
    Dead,
}

/// What /proc says of a thread at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// What it is doing.
    pub state: State,
    /// The process that began its process.
    pub parent: u32,
    /// Whether it belongs to the kernel.
    pub is_kernel: bool,
    /// When it began, in clock ticks since the machine did. With the tid and the boot, it names a thread for good.
    pub start_time: u64,
    /// The CPU it runs or last ran on.
    pub cpu: usize,
}

/// What /proc says of thread `tid` now.
///
/// # Errors
/// It is gone.
pub fn status(tid: u32) -> Result<Status> {
    let path = PathBuf::from(format!("/proc/{tid}/stat"));
    let text = read(&path, tid)?;
    parse(&text).ok_or(Error::File { path, what: "is not the status of a thread".to_string() })
}

fn read(path: &PathBuf, tid: u32) -> Result<String> {
    let mut text = String::new();
    match File::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => Ok(text),
        // A thread may end between the opening and the reading.
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => {
            Err(Error::Gone(tid))
        }
        Err(error) => Err(Error::File { path: path.clone(), what: error.to_string() }),
    }
}

/// The fields of /proc/TID/stat, counted from the closing parenthesis of the name, which may hold anything.
fn parse(text: &str) -> Option<Status> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let state = match *fields.first()? {
        "R" => State::Runnable,
        "T" => State::Stopped,
        "t" => State::Traced,
        "Z" | "X" | "x" => State::Dead,
        _ => State::Sleeping,
    };
    Some(Status {
        name: name.to_string(),
        state,
        parent: u32::try_from(number(1)?).ok()?,
        is_kernel: number(6)? & KERNEL_THREAD != 0,
        start_time: number(19)?,
        cpu: usize::try_from(number(36)?).ok()?,
    })
}

/// The process that thread `tid` belongs to.
///
/// # Errors
/// It is gone.
pub fn process_of(tid: u32) -> Result<u32> {
    let path = PathBuf::from(format!("/proc/{tid}/status"));
    let text = read(&path, tid)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).ok_or(Error::File { path, what: "has no Tgid".to_string() })
}

/// The threads of process `pid`, ascending.
///
/// # Errors
/// It is gone.
pub fn threads(pid: u32) -> Result<Vec<u32>> {
    let path = PathBuf::from(format!("/proc/{pid}/task"));
    let entries = fs::read_dir(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::Gone(pid),
        _ => Error::File { path: path.clone(), what: error.to_string() },
    })?;
    let mut tids: Vec<u32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    Ok(tids)
}

/// The processes that threads of process `pid` have begun and that are there, ascending.
///
/// # Errors
/// It is gone.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for tid in threads(pid)? {
        // A thread that has just ended has no children.
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
        all.extend(text.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    all.sort_unstable();
    Ok(all)
}

/// What this start of the machine is called.
///
/// # Errors
/// The kernel does not say.
pub fn boot_id() -> Result<String> {
    let path = PathBuf::from("/proc/sys/kernel/random/boot_id");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_string()),
        Err(error) => Err(Error::File { path, what: error.to_string() }),
    }
}

/// A process that is not mistaken for a later one of the same pid.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    handle: OwnedFd,
}

impl Process {
    /// Takes hold of process `pid`.
    ///
    /// # Errors
    /// It is gone.
    pub fn open(pid: u32) -> Result<Process> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Error::Gone(pid))?;
        match rustix::process::pidfd_open(raw, PidfdFlags::empty()) {
            Ok(handle) => Ok(Process { pid, handle }),
            // Not the first thread of a process: a thread, or nobody.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::SRCH) => Err(Error::Gone(pid)),
            Err(errno) => Err(Error::of(errno, pid, format!("to open process {pid}"), "")),
        }
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut polled = [rustix::event::PollFd::new(&self.handle, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }))
            .is_ok_and(|ready| ready > 0)
    }

    /// Stops it: it does not run until it is continued.
    ///
    /// # Errors
    /// It is gone, or not ours.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP, "to stop")
    }

    /// Ends a stop.
    ///
    /// # Errors
    /// It is gone, or not ours.
    pub fn cont(&self) -> Result<()> {
        self.signal(Signal::CONT, "to continue")
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// It is gone, or not ours.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM, "to end")
    }

    /// Ends it.
    ///
    /// # Errors
    /// It is gone, or not ours.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL, "to kill")
    }

    fn signal(&self, signal: Signal, what: &str) -> Result<()> {
        let sent = rustix::process::pidfd_send_signal(self.handle.as_fd(), signal);
        let right = "right would be a process of this user, or more privilege";
        sent.map_err(|errno| Error::of(errno, self.pid, format!("{what} process {}", self.pid), right))
    }
}

/// The id of the calling thread.
#[must_use]
pub fn current() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_name_may_hold_anything() {
        let after = "S 7 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0";
        let status = parse(&format!("42 (a) b (c d)) {after}\n")).unwrap();
        assert_eq!((status.name.as_str(), status.state, status.parent), ("a) b (c d)", State::Sleeping, 7));
        assert_eq!((status.start_time, status.cpu, status.is_kernel), (12345, 3, false));
        assert_eq!(parse("42 (cut"), None);
        assert_eq!(parse("42 (cut) S 1 2"), None);
    }

    #[test]
    fn a_process_is_found_stopped_continued_and_gone() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let process = Process::open(pid).unwrap();
        assert_eq!((process.pid(), process.has_ended()), (pid, false));
        assert_eq!(process_of(pid).unwrap(), pid);
        assert_eq!(threads(pid).unwrap(), [pid]);
        assert!(children(std::process::id()).unwrap().contains(&pid));
        process.stop().unwrap();
        let within_a_second = |wanted: State| {
            let is_so = |_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                status(pid).unwrap().state == wanted
            };
            (0..200).any(is_so)
        };
        assert!(within_a_second(State::Stopped));
        process.cont().unwrap();
        assert!(within_a_second(State::Sleeping));
        process.kill().unwrap();
        child.wait().unwrap();
        assert!(process.has_ended());
        assert!(matches!(process.cont(), Err(Error::Gone(gone)) if gone == pid));
        assert!(matches!(status(pid), Err(Error::Gone(gone)) if gone == pid));
    }

    #[test]
    fn kernel_threads_and_nobody_are_told_apart() {
        let me = status(current()).unwrap();
        assert!(!me.is_kernel && me.start_time > 0);
        // kthreadd, where the tests see the host's processes.
        if let Ok(second) = status(2)
            && second.name == "kthreadd"
        {
            assert!(second.is_kernel);
        }
        assert!(matches!(Process::open(0), Err(Error::Gone(0))));
        assert!(matches!(Process::open(u32::MAX), Err(Error::Gone(u32::MAX))));
    }
}
