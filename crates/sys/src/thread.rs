//! Identity of threads: their state under /proc, and handles that never refer to a later thread with the same tid.

use crate::{Error, Result, exists, file};
use rustix::fd::OwnedFd;
use sched::{CpuSet, Nanos};
use std::io;
use std::path::PathBuf;

/// Flag of a kernel thread. Source: `PF_KTHREAD`, include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// State of a thread, as /proc reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The thread runs or waits for a CPU.
    Runnable,
    /// The thread sleeps interruptibly, or is in a state that this type does not list.
    Sleeping,
    /// The thread sleeps uninterruptibly: it waits for a disk, or a freezer holds it.
    Uninterruptible,
    /// The thread is stopped by a signal.
    Stopped,
    /// A tracer has stopped the thread.
    Traced,
    /// The thread has ended and is not reaped yet, or is about to end.
    Dead,
}

impl State {
    /// Returns the state for a letter of /proc/TID/stat. Source: `task_state_array`, fs/proc/array.c.
    pub(crate) fn of(letter: u8) -> State {
        match letter {
            b'R' => State::Runnable,
            b'D' => State::Uninterruptible,
            b'T' => State::Stopped,
            b't' => State::Traced,
            b'Z' | b'X' | b'x' => State::Dead,
            _ => State::Sleeping,
        }
    }
}

/// Name of the file with the timer slack of a thread.
const SLACK: &str = "timerslack_ns";

/// The status of a thread in /proc, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Name of the thread; at most 15 bytes for a user thread.
    pub name: String,
    /// State of the thread.
    pub state: State,
    /// Pid of the parent of the thread's process.
    pub parent: u32,
    /// Whether the thread is a kernel thread.
    pub is_kernel: bool,
    /// Start time of the thread, in clock ticks since boot. The start time, the tid and the boot ID together identify a
    /// thread permanently.
    pub start_time: u64,
    /// CPU of the thread; for a thread that does not run, its last CPU.
    pub cpu: usize,
    /// Effective priority of the thread, including priority inheritance, as in field 18 of /proc/TID/stat: −2 … −100
    /// for the real-time priorities 1 … 99, −101 for SCHED_DEADLINE, 0 … 39 for nice −20 … 19.
    pub priority: i32,
}

/// Identity of a thread until the machine reboots. A later thread with the same tid has another start time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// ID of the thread (tid).
    pub tid: u32,
    /// Start time of the thread, in clock ticks since boot.
    pub start_time: u64,
}

/// The start time of a thread whose start time is not read yet. No thread starts with the machine.
const UNKNOWN: u64 = 0;

/// The owner of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// Real user ID.
    pub real: u32,
    /// Effective user ID.
    pub effective: u32,
}

/// A handle to a thread: the thread's open directory under /proc. Once the thread has ended, the directory is empty,
/// even if the tid has been reused.
#[derive(Debug)]
pub struct Thread {
    identity: Identity,
    directory: OwnedFd,
}

impl Thread {
    /// Opens thread `tid`.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn open(tid: u32) -> Result<Thread> {
        // The path contains `task`, because the files directly in /proc/PID report sums over all threads of the
        // process.
        let path = format!("/proc/{tid}/task/{tid}");
        let identity = Identity { tid, start_time: UNKNOWN };
        let directory = file::directory(&path).map_err(|error| problem(error, identity, ""))?;
        let mut thread = Thread { identity, directory };
        thread.identity.start_time = thread.status()?.start_time;
        Ok(thread)
    }

    /// Opens the thread with this identity, but never a later thread with the same tid.
    ///
    /// # Errors
    /// The thread has ended. Its tid may have been reused.
    pub fn open_as(identity: Identity) -> Result<Thread> {
        let thread = Thread::open(identity.tid)?;
        if thread.identity == identity { Ok(thread) } else { Err(Error::Gone(identity.tid)) }
    }

    /// Returns the tid of the thread.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.identity.tid
    }

    /// Returns the identity of the thread, which is unique until the machine reboots.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns whether the thread has not ended yet. If the thread still exists, all earlier calls by its tid have
    /// reached this thread. A thread whose status cannot be read counts as not ended.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match self.status() {
            Ok(status) => status.state != State::Dead,
            Err(error) => !matches!(error, Error::Gone(_)),
        }
    }

    /// Returns the current status of the thread.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn status(&self) -> Result<Status> {
        parse(&self.read("stat")?).ok_or_else(|| self.malformed("stat", "the status of a thread"))
    }

    /// Returns the kernel function in which the thread waits; `None` if it does not wait, or if the caller may not know
    /// (CAP_SYS_PTRACE). Source: /proc/TID/wchan, proc_pid_wchan(5).
    #[must_use]
    pub fn waits_in(&self) -> Option<String> {
        self.read("wchan").ok().filter(|function| !matches!(function.as_str(), "" | "0"))
    }

    /// Returns the pid of the thread's process.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn process(&self) -> Result<u32> {
        let status = self.read("status")?;
        let number = field(&status, "Tgid:").and_then(|mut words| words.next()?.parse().ok());
        number.ok_or_else(|| self.malformed("status", "a list with a Tgid"))
    }

    /// Returns the CPUs in the mask of the thread, including CPUs that are offline.
    ///
    /// # Errors
    /// The thread has ended.
    pub(crate) fn cpus_allowed(&self) -> Result<CpuSet> {
        let status = self.read("status")?;
        let list = field(&status, "Cpus_allowed_list:").map(|mut words| words.next().unwrap_or_default().to_string());
        let cpus = list.and_then(|list| list.parse().ok());
        cpus.ok_or_else(|| self.malformed("status", "a list with Cpus_allowed_list"))
    }

    /// Returns the owner of the thread.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn owner(&self) -> Result<Owner> {
        let status = self.read("status")?;
        let ids = field(&status, "Uid:").and_then(|mut words| {
            let mut id = || words.next()?.parse().ok();
            Some(Owner { real: id()?, effective: id()? })
        });
        ids.ok_or_else(|| self.malformed("status", "a list with a Uid"))
    }

    /// Returns the command line of the thread's process: the program and its arguments. A kernel thread, and a process that
    /// has ended, has none. Bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn command_line(&self) -> Result<Vec<String>> {
        let bytes =
            file::bytes_in(&self.directory, "cmdline").map_err(|error| problem(error, self.identity, "cmdline"))?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.split_terminator('\0').map(str::to_string).collect())
    }

    /// Returns the CPU time that the thread may use at real-time priority between two sleeps (RLIMIT_RTTIME); `None`:
    /// no limit. Beyond this limit, the kernel signals the process, which usually ends it (SIGXCPU).
    ///
    /// # Errors
    /// The thread has ended.
    pub fn realtime_limit(&self) -> Result<Option<Nanos>> {
        let limits = self.read("limits")?;
        let mut words = field(&limits, "Max realtime timeout").unwrap_or_else(|| "".split_ascii_whitespace());
        let limit = match words.next() {
            Some("unlimited") => Some(None),
            word => word.and_then(|us| us.parse::<u64>().ok()).map(|us| Some(Nanos::ns(us.saturating_mul(1_000)))),
        };
        limit.ok_or_else(|| self.malformed("limits", "a list with a realtime timeout"))
    }

    /// Returns how often the thread has given up its CPU to wait (voluntary context switches). The end of a time slice,
    /// a preemption and the throttling of a real-time thread do not count.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn sleeps(&self) -> Result<u64> {
        let status = self.read("status")?;
        let number = field(&status, "voluntary_ctxt_switches:").and_then(|mut words| words.next()?.parse().ok());
        number.ok_or_else(|| self.malformed("status", "a list with voluntary_ctxt_switches"))
    }

    /// Returns the timer slack of the thread, zero in the real-time classes and SCHED_DEADLINE.
    ///
    /// # Errors
    /// The thread has ended, or this process lacks CAP_SYS_NICE.
    pub fn slack(&self) -> Result<Nanos> {
        let read = std::fs::read_to_string(self.slack_path());
        let text = read.map_err(|error| problem(error, self.identity, SLACK))?;
        // The file was opened by tid, and the tid may have been reused.
        self.status()?;
        let ns = text.trim().parse().map_err(|_| self.malformed(SLACK, "a number of nanoseconds"))?;
        Ok(Nanos::ns(ns))
    }

    /// Sets the timer slack of the thread. The kernel ignores the call in the real-time classes and SCHED_DEADLINE.
    ///
    /// # Errors
    /// The thread has ended, or this process lacks CAP_SYS_NICE.
    pub fn set_slack(&self, slack: Nanos) -> Result<()> {
        let wrote = std::fs::write(self.slack_path(), slack.as_ns().to_string());
        wrote.map_err(|error| problem(error, self.identity, SLACK))?;
        self.status().map(drop)
    }

    /// The file is in the directory of a process, which the kernel also shows for each thread.
    fn slack_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{SLACK}", self.tid()))
    }

    /// Returns the tids of all threads of the thread's process, in ascending order.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn siblings(&self) -> Result<Vec<u32>> {
        file::numbers_in(&self.directory, "..").map_err(|error| problem(error, self.identity, ".."))
    }

    /// Returns the pids of the thread's child processes, in ascending order. An ended child is included until it is
    /// reaped. If processes start or end during the call, the kernel may omit other processes. Repeat the call for a
    /// complete list.
    ///
    /// # Errors
    /// The thread has ended, or the kernel lacks CONFIG_PROC_CHILDREN.
    pub fn children(&self) -> Result<Vec<u32>> {
        let text = self.read("children")?;
        let mut children: Vec<u32> = text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect();
        children.sort_unstable();
        Ok(children)
    }

    /// Returns the thread's directory under /proc.
    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    fn read(&self, name: &str) -> Result<String> {
        file::read_in(&self.directory, name).map_err(|error| problem(error, self.identity, name))
    }

    fn malformed(&self, name: &str, wanted: &'static str) -> Error {
        Error::Malformed { path: path(self.tid(), name), wanted }
    }
}

/// Returns the path of the file `name` of thread `tid`.
pub(crate) fn path(tid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{tid}/task/{tid}/{name}"))
}

/// Returns whether a thread that the kernel does not find, according to a call, has ended: no thread has its tid, or a
/// later one has. Otherwise, a filter of system calls has answered in place of the kernel.
fn has_ended(identity: Identity) -> bool {
    let has_other = || Thread::open(identity.tid).is_ok_and(|thread| thread.identity != identity);
    !exists(identity.tid) || identity.start_time != UNKNOWN && has_other()
}

/// Converts an I/O error on the file `name` of a thread into an [`Error`].
pub(crate) fn problem(error: io::Error, identity: Identity, name: &str) -> Error {
    let tid = identity.tid;
    let is_there = || PathBuf::from(format!("/proc/{tid}")).exists();
    // A file is missing if the thread has ended. Only the file `children` may be missing for a living thread.
    match error.raw_os_error() {
        Some(libc::ESRCH) if has_ended(identity) => Error::Gone(tid),
        Some(libc::ENOENT) if name != "children" || !is_there() => Error::Gone(tid),
        Some(libc::EMFILE | libc::ENFILE) => {
            let remedy = "raise the limit of open files (ulimit -n): each thread takes up to five";
            Error::NotPermitted { what: format!("open {}", path(tid, name).display()), source: error, remedy }
        }
        _ => {
            let remedy = "choose a thread of this user, or run as root, with /proc mounted without hidepid";
            Error::from(error, format!("read {}", path(tid, name).display()), remedy)
        }
    }
}

/// Returns the words after `name` in a file with the format of /proc/TID/status.
pub(crate) fn field<'t>(text: &'t str, name: &str) -> Option<std::str::SplitAsciiWhitespace<'t>> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::split_ascii_whitespace)
}

/// Parses the content of /proc/TID/stat. The name ends at the last closing parenthesis, because the name may contain
/// parentheses and spaces.
fn parse(text: &str) -> Option<Status> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Status {
        name: name.to_string(),
        state: State::of(*fields.first()?.as_bytes().first()?),
        parent: u32::try_from(number(1)?).ok()?,
        is_kernel: number(6)? & KERNEL_THREAD != 0,
        start_time: number(19)?,
        cpu: usize::try_from(number(36)?).ok()?,
        priority: fields.get(15)?.parse().ok()?,
    })
}

/// Returns the current status of thread `tid`.
///
/// # Errors
/// The thread has ended.
pub fn status(tid: u32) -> Result<Status> {
    Thread::open(tid)?.status()
}

/// Returns the exit code of the ended and unreaped process `pid`, in the form of waitpid(2); `None` if the process is in
/// another state, or the kernel withholds the code. Source: field 52 of proc_pid_stat(5).
pub(crate) fn exit_code(pid: u32) -> Option<i32> {
    let text = file::read(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    if State::of(*fields.first()?.as_bytes().first()?) != State::Dead {
        return None;
    }
    fields.get(49)?.parse().ok()
}

/// Returns the tids of the threads of process `pid`, in ascending order.
///
/// # Errors
/// The process has ended.
pub fn threads(pid: u32) -> Result<Vec<u32>> {
    Thread::open(pid)?.siblings()
}

/// Returns the tids of all threads in the PID namespace of /proc, by process.
///
/// # Errors
/// /proc cannot be read.
pub fn all() -> Result<Vec<u32>> {
    let failed = |error| Error::from(error, "list the processes in /proc", "mount /proc");
    let host = file::directory("/proc").map_err(failed)?;
    let pids = file::numbers_in(&host, ".").map_err(failed)?;
    // A process that has just ended has no threads.
    let threads = |pid: u32| file::numbers_in(&host, &format!("{pid}/task")).unwrap_or_default();
    Ok(pids.into_iter().flat_map(threads).collect())
}

/// Returns the pids of all processes in the PID namespace of /proc, in ascending order.
///
/// # Errors
/// /proc cannot be read.
pub fn processes() -> Result<Vec<u32>> {
    let failed = |error| Error::from(error, "list the processes in /proc", "mount /proc");
    let host = file::directory("/proc").map_err(failed)?;
    let mut pids = file::numbers_in(&host, ".").map_err(failed)?;
    pids.sort_unstable();
    Ok(pids)
}

/// Returns the pid of the parent of process `pid`. This call does not wait for a process inside execve(2), as a read of
/// /proc/PID/stat does (up to 32 ms observed on Linux 6.18 while the process waits for a busy CPU).
///
/// # Errors
/// The process has ended.
pub fn parent(pid: u32) -> Result<u32> {
    let failed = |error| problem(error, Identity { tid: pid, start_time: UNKNOWN }, "status");
    let directory = file::directory(format!("/proc/{pid}")).map_err(failed)?;
    let status = file::read_in(directory, "status").map_err(failed)?;
    let number = field(&status, "PPid:").and_then(|mut words| words.next()?.parse().ok());
    number.ok_or_else(|| Error::Malformed { path: path(pid, "status"), wanted: "a list with a PPid" })
}

/// Returns the pids of the children of process `pid`, in ascending order. An ended child is included until it is
/// reaped.
///
/// # Errors
/// The process has ended, or the kernel lacks CONFIG_PROC_CHILDREN.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for tid in threads(pid)? {
        match Thread::open(tid).and_then(|thread| thread.children()) {
            Ok(children) => all.extend(children),
            // The thread has just ended, and its children have another parent now.
            Err(Error::Gone(_)) => {}
            Err(error) => return Err(error),
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Returns the tid of the calling thread.
#[must_use]
pub fn current() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Sets the name of the calling thread. The name of the first thread is the name of the process in process lists. The
/// kernel keeps at most 15 bytes.
pub fn set_name(name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        // The name is only informative, and the kernel accepts every name.
        let _ = rustix::thread::set_name(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};

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
    fn a_child_is_found_with_its_parent_owner_and_threads() {
        let child = Child::start(Work::Sleep).unwrap();
        let thread = Thread::open(child.pid()).unwrap();
        assert_eq!((thread.tid(), thread.process().unwrap()), (child.pid(), child.pid()));
        assert_eq!(
            (thread.status().unwrap().parent, parent(child.pid()).unwrap()),
            (std::process::id(), std::process::id())
        );
        assert_eq!(thread.siblings().unwrap(), [child.pid()]);
        assert_eq!(thread.owner().unwrap(), Thread::open(current()).unwrap().owner().unwrap());
        assert_eq!(thread.realtime_limit().unwrap(), crate::privileges::realtime_limit());
        assert!(children(std::process::id()).unwrap().contains(&child.pid()));
        assert!(Thread::open_as(thread.identity()).unwrap().is_there());
    }

    #[test]
    fn a_handle_of_an_ended_thread_does_not_reach_a_later_thread_with_its_number() {
        let child = Child::start(Work::Sleep).unwrap();
        let held = Thread::open(child.pid()).unwrap();
        let meter = held.meter().unwrap();
        let later = Identity { start_time: held.identity().start_time + 1, ..held.identity() };
        assert!(matches!(Thread::open_as(later), Err(Error::Gone(_))));
        drop(child);
        assert!(!held.is_there());
        let [status, parent] = [held.status().err(), parent(held.tid()).err()];
        for gone in [status, parent, held.siblings().err(), held.children().err(), held.process().err()] {
            assert!(matches!(gone, Some(Error::Gone(tid)) if tid == held.tid()), "{gone:?}");
        }
        assert!(matches!(meter.read(), Err(Error::Gone(_))));
        assert!(matches!(held.meter(), Err(Error::Gone(_))));
    }

    #[test]
    fn a_thread_that_is_not_the_first_of_its_process_is_one_too() {
        let (said, hear) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let second = std::thread::spawn(move || {
            set_name("the second one of all");
            said.send(current()).unwrap();
            let _ = stopped.recv();
        });
        let tid = hear.recv().unwrap();
        let thread = Thread::open(tid).unwrap();
        assert_eq!(thread.status().unwrap().name, "the second one ");
        assert_eq!(Thread::open(current()).unwrap().waits_in(), None, "it runs");
        // Without the privilege or kallsyms, the kernel does not tell.
        while thread.status().unwrap().state != State::Sleeping {
            crate::clock::sleep(sched::Nanos::us(100));
        }
        assert!(thread.waits_in().is_none_or(|function| function.contains("futex")), "{:?}", thread.waits_in());
        assert_eq!(thread.process().unwrap(), std::process::id());
        assert!(threads(std::process::id()).unwrap().contains(&tid));
        assert!(thread.siblings().unwrap().contains(&std::process::id()));
        drop(stop);
        second.join().unwrap();
    }

    #[test]
    fn kernel_threads_and_missing_threads_are_distinguished() {
        let me = status(current()).unwrap();
        assert!(!me.is_kernel && me.start_time > 0);
        // Thread 2 is kthreadd if the tests run in the initial PID namespace.
        match status(2) {
            Ok(second) if second.name == "kthreadd" => assert!(second.is_kernel),
            _ => eprintln!("SKIPPED: process 2 is not kthreadd here, so no kernel thread is seen"),
        }
        for missing in [0, u32::MAX, u32::MAX >> 2] {
            assert!(matches!(status(missing), Err(Error::Gone(tid)) if tid == missing));
        }
    }
}
