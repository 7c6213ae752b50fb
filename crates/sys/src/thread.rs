//! Who a thread is: what the kernel says of it, and a hold on it that no later thread of the same number answers to.

use crate::usage::{Meter, StateMeter};
use crate::{Error, Result, file};
use rustix::fd::OwnedFd;
use std::io;
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
    /// It waits for something else and cannot be interrupted: a disk, or a freezer.
    Uninterruptible,
    /// It is stopped by a signal.
    Stopped,
    /// It is stopped by a tracer.
    Traced,
    /// It has ended and is not reaped yet, or is just ending.
    Dead,
}

impl State {
    /// The state that this letter of /proc/TID/stat stands for. Source: `task_state_array`, fs/proc/array.c.
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

/// What /proc says of a thread at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Its name, at most 15 bytes for a user's thread.
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

/// Names a thread for as long as the machine runs: a number that is given to another thread comes with another start time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Its number.
    pub tid: u32,
    /// When it began, in clock ticks since the machine did.
    pub start_time: u64,
}

/// Whose a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// The real user.
    pub real: u32,
    /// The user it acts as.
    pub effective: u32,
}

/// A thread held by its directory under /proc: once it has ended nothing is found there any more, even when its number has
/// been given to another.
#[derive(Debug)]
pub struct Thread {
    identity: Identity,
    directory: OwnedFd,
}

impl Thread {
    /// Takes hold of thread `tid`.
    ///
    /// # Errors
    /// It is gone.
    pub fn open(tid: u32) -> Result<Thread> {
        // Below `task`, so that what is read is of the thread alone and not summed over its process.
        let path = format!("/proc/{tid}/task/{tid}");
        let directory = file::directory(&path).map_err(|error| problem(error, tid, ""))?;
        let mut thread = Thread { identity: Identity { tid, start_time: 0 }, directory };
        thread.identity.start_time = thread.status()?.start_time;
        Ok(thread)
    }

    /// Takes hold of the thread that was `identity`, and of no other.
    ///
    /// # Errors
    /// It is gone, whoever has its number now.
    pub fn open_as(identity: Identity) -> Result<Thread> {
        let thread = Thread::open(identity.tid)?;
        if thread.identity == identity { Ok(thread) } else { Err(Error::Gone(identity.tid)) }
    }

    /// Its number.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.identity.tid
    }

    /// What names it for as long as the machine runs.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether it has not ended yet. What was done by its number before this says yes was done to it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.status().is_ok_and(|status| status.state != State::Dead)
    }

    /// What /proc says of it now.
    ///
    /// # Errors
    /// It is gone.
    pub fn status(&self) -> Result<Status> {
        parse(&self.read("stat")?).ok_or_else(|| self.malformed("stat", "the status of a thread"))
    }

    /// The process it belongs to.
    ///
    /// # Errors
    /// It is gone.
    pub fn process(&self) -> Result<u32> {
        let status = self.read("status")?;
        let number = field(&status, "Tgid:").and_then(|mut words| words.next()?.parse().ok());
        number.ok_or_else(|| self.malformed("status", "a list with a Tgid"))
    }

    /// Whose it is.
    ///
    /// # Errors
    /// It is gone.
    pub fn owner(&self) -> Result<Owner> {
        let status = self.read("status")?;
        let ids = field(&status, "Uid:").and_then(|mut words| {
            let mut id = || words.next()?.parse().ok();
            Some(Owner { real: id()?, effective: id()? })
        });
        ids.ok_or_else(|| self.malformed("status", "a list with a Uid"))
    }

    /// The threads of its process, ascending.
    ///
    /// # Errors
    /// It is gone.
    pub fn siblings(&self) -> Result<Vec<u32>> {
        file::numbers_in(&self.directory, "..").map_err(|error| problem(error, self.tid(), ".."))
    }

    /// The processes that it has begun and that are there, ascending. The kernel may leave some out that begin or end
    /// while it is asked; who must have all asks again.
    ///
    /// # Errors
    /// It is gone, or the kernel is without CONFIG_PROC_CHILDREN.
    pub fn children(&self) -> Result<Vec<u32>> {
        let text = self.read("children")?;
        let mut children: Vec<u32> = text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect();
        children.sort_unstable();
        Ok(children)
    }

    /// Its CPU time, held open.
    ///
    /// # Errors
    /// It is gone, or the kernel has no schedstat.
    pub fn meter(&self) -> Result<Meter> {
        Meter::of(self.tid(), &self.directory)
    }

    /// Its state, held open.
    ///
    /// # Errors
    /// It is gone.
    pub fn state_meter(&self) -> Result<StateMeter> {
        StateMeter::of(self.tid(), &self.directory)
    }

    fn read(&self, name: &str) -> Result<String> {
        file::read_in(&self.directory, name).map_err(|error| problem(error, self.tid(), name))
    }

    fn malformed(&self, name: &str, wanted: &'static str) -> Error {
        Error::Malformed { path: path(self.tid(), name), wanted }
    }
}

/// Where the file of this name about thread `tid` lies.
pub(crate) fn path(tid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{tid}/task/{tid}/{name}"))
}

/// What became of reading `name` about thread `tid`.
pub(crate) fn problem(error: io::Error, tid: u32, name: &str) -> Error {
    let is_there = || PathBuf::from(format!("/proc/{tid}")).exists();
    // A directory that is held and whose thread has ended is empty; one of a living thread may lack a single file.
    match error.raw_os_error() {
        Some(libc::ESRCH) => Error::Gone(tid),
        Some(libc::ENOENT) if name != "children" || !is_there() => Error::Gone(tid),
        Some(libc::EMFILE | libc::ENFILE) => {
            let right = "a higher limit of open files (ulimit -n): each thread that is held takes up to five";
            Error::NotPermitted { what: format!("open {}", path(tid, name).display()), source: error, right }
        }
        _ => {
            let right = "a thread of this user, or root, where /proc is not mounted with hidepid";
            Error::from(error, format!("read {}", path(tid, name).display()), right)
        }
    }
}

/// The words behind `name` in a file of the form of /proc/TID/status.
pub(crate) fn field<'t>(text: &'t str, name: &str) -> Option<std::str::SplitAsciiWhitespace<'t>> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::split_ascii_whitespace)
}

/// The fields of /proc/TID/stat, counted from the closing parenthesis of the name, which may hold anything.
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
    })
}

/// What /proc says of thread `tid` now.
///
/// # Errors
/// It is gone.
pub fn status(tid: u32) -> Result<Status> {
    Thread::open(tid)?.status()
}

/// The threads of process `pid`, ascending.
///
/// # Errors
/// It is gone.
pub fn threads(pid: u32) -> Result<Vec<u32>> {
    Thread::open(pid)?.siblings()
}

/// The processes that threads of process `pid` have begun and that are there, ascending.
///
/// # Errors
/// It is gone, or the kernel is without CONFIG_PROC_CHILDREN.
pub fn children(pid: u32) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for tid in threads(pid)? {
        match Thread::open(tid).and_then(|thread| thread.children()) {
            Ok(children) => all.extend(children),
            // A thread that has just ended has no children.
            Err(Error::Gone(_)) => {}
            Err(error) => return Err(error),
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// The id of the calling thread.
#[must_use]
pub fn current() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Names the calling thread, and its process if it is the first: what stands in lists of processes. At most 15 bytes are kept.
pub fn set_name(name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        // It is for people who look; the kernel refuses nothing of that length.
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
        assert_eq!(thread.status().unwrap().parent, std::process::id());
        assert_eq!(thread.siblings().unwrap(), [child.pid()]);
        assert_eq!(thread.owner().unwrap(), Thread::open(current()).unwrap().owner().unwrap());
        assert!(children(std::process::id()).unwrap().contains(&child.pid()));
        assert!(Thread::open_as(thread.identity()).unwrap().is_there());
    }

    #[test]
    fn who_has_ended_is_not_mistaken_for_a_later_one_of_its_number() {
        let child = Child::start(Work::Sleep).unwrap();
        let held = Thread::open(child.pid()).unwrap();
        let meter = held.meter().unwrap();
        let later = Identity { start_time: held.identity().start_time + 1, ..held.identity() };
        assert!(matches!(Thread::open_as(later), Err(Error::Gone(_))));
        drop(child);
        assert!(!held.is_there());
        for gone in [held.status().err(), held.siblings().err(), held.children().err(), held.process().err()] {
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
        assert_eq!(thread.process().unwrap(), std::process::id());
        assert!(threads(std::process::id()).unwrap().contains(&tid));
        assert!(thread.siblings().unwrap().contains(&std::process::id()));
        drop(stop);
        second.join().unwrap();
    }

    #[test]
    fn kernel_threads_and_nobody_are_told_apart() {
        let me = status(current()).unwrap();
        assert!(!me.is_kernel && me.start_time > 0);
        // kthreadd, where the tests see the host's processes.
        match status(2) {
            Ok(second) if second.name == "kthreadd" => assert!(second.is_kernel),
            _ => eprintln!("SKIPPED: process 2 is not kthreadd here, so no kernel thread is seen"),
        }
        for nobody in [0, u32::MAX, u32::MAX >> 2] {
            assert!(matches!(status(nobody), Err(Error::Gone(tid)) if tid == nobody));
        }
    }
}
