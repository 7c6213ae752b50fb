//! Checks that threads have their original values.

use sched::CpuSet;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use sys::attributes::{self, Attributes, Policy};
use sys::thread::{self, Identity, State, Status, Thread};
use sys::{Error, Result, affinity};

/// The values of a thread that a scheduler can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Looks {
    pub(crate) attributes: Attributes,
    pub(crate) affinity: CpuSet,
    pub(crate) is_stopped: bool,
    /// Whether the thread is frozen by a freezer of version 1.
    pub(crate) is_frozen: bool,
    /// Whether the thread is in a freezer group of Tactus.
    pub(crate) is_enclosed: bool,
    /// Real-time priority that the thread inherits from Tactus.
    pub(crate) inherited: Option<u32>,
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on CPUs {}", self.attributes, self.affinity)?;
        if let Some(priority) = self.inherited {
            write!(f, ", with inherited priority {priority}")?;
        }
        if self.is_enclosed {
            f.write_str(", in a freezer group of Tactus")?;
        }
        if self.is_frozen {
            f.write_str(", frozen")?;
        }
        if self.is_stopped { f.write_str(", stopped") } else { Ok(()) }
    }
}

/// The values of the threads of a process and of its descendants, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Picture {
    /// The first thread of the process.
    leader: Identity,
    threads: BTreeMap<Identity, Looks>,
}

/// A thread whose values have changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    thread: Identity,
    /// Current values of the thread; `None` if the thread has ended.
    found: Option<Looks>,
    right: Looks,
    /// Whether the thread is new, and so must have the values of the first thread.
    is_new: bool,
}

impl Change {
    /// Returns whether the thread only still is in a freezer group of Tactus. Such a thread is not frozen.
    pub(crate) fn is_membership(&self) -> bool {
        self.found == Some(Looks { is_enclosed: true, ..self.right }) && !self.right.is_enclosed
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.thread.tid)?;
        if self.is_new {
            f.write_str(", born since,")?;
        }
        match &self.found {
            Some(found) => write!(f, " is {found}; it was {}", self.right),
            None => write!(f, " is gone; it was {}", self.right),
        }
    }
}

impl Picture {
    /// Records the values of the threads of process `pid` and its descendants.
    ///
    /// # Errors
    /// The process has ended, or the kernel does not report its threads.
    pub(crate) fn of(pid: u32) -> Result<Picture> {
        let leader = Thread::open(pid)?.identity();
        let mut threads = BTreeMap::new();
        for tid in tids(pid)? {
            match look(tid) {
                Ok(Some((identity, looks))) => drop(threads.insert(identity, looks)),
                Ok(None) | Err(Error::Gone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Picture { leader, threads })
    }

    /// Returns the differences in `now`. New threads must have the values of the first thread. Ended threads other than
    /// the first are ignored.
    pub(crate) fn changes(&self, now: &Picture) -> Vec<Change> {
        let Some(&usual) = self.threads.get(&self.leader) else { return Vec::new() };
        let mut changes = Vec::new();
        if !now.threads.contains_key(&self.leader) {
            changes.push(Change { thread: self.leader, found: None, right: usual, is_new: false });
        }
        for (&thread, &found) in &now.threads {
            let (right, is_new) = self.threads.get(&thread).map_or((usual, true), |&before| (before, false));
            if found != right {
                changes.push(Change { thread, found: Some(found), right, is_new });
            }
        }
        changes
    }

    /// Returns whether the first thread is stopped.
    pub(crate) fn leader_is_stopped(&self) -> bool {
        self.threads.get(&self.leader).is_some_and(|looks| looks.is_stopped)
    }

    /// Returns the tids of the threads in the picture, in ascending order.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.threads.keys().map(|identity| identity.tid)
    }
}

/// Returns the tids of the threads of process `pid` and of its descendants, including threads that start during the
/// scan.
fn tids(pid: u32) -> Result<BTreeSet<u32>> {
    let mut found: BTreeSet<u32> = thread::threads(pid)?.into_iter().collect();
    let (mut open, mut seen) = (vec![pid], BTreeSet::from([pid]));
    while let Some(pid) = open.pop() {
        let children = match thread::children(pid) {
            Err(Error::Gone(_)) => continue,
            other => other?,
        };
        for child in children.into_iter().filter(|&child| seen.insert(child)) {
            open.push(child);
            // A child that has ended during the scan has no threads.
            found.extend(thread::threads(child).unwrap_or_default());
        }
    }
    Ok(found)
}

/// Returns the values of thread `tid`; `None` if the thread has ended.
fn look(tid: u32) -> Result<Option<(Identity, Looks)>> {
    let thread = Thread::open(tid)?;
    let (attributes, affinity) = (attributes::get(tid)?, affinity::get(tid)?);
    let groups = std::fs::read_to_string(format!("/proc/{tid}/task/{tid}/cgroup")).unwrap_or_default();
    let is_enclosed = groups.lines().any(|line| line.contains(":freezer:") && line.contains("/tactus-"));
    // Read the state last, through the handle. If the thread still exists, the calls by tid have reached this thread.
    let Status { state, priority, .. } = thread.status()?;
    let own = match attributes.policy {
        Policy::Fifo { priority } | Policy::RoundRobin { priority } => Some(priority),
        _ => None,
    };
    // The kernel reports the real-time priorities 1 to 99 as -2 to -100.
    let effective = (-100..=-2).contains(&priority).then(|| (-1 - priority).unsigned_abs());
    let inherited = effective.filter(|_| effective != own);
    // A frozen thread waits in `__refrigerator` (kernel/freezer.c, v7.2).
    let is_frozen = state == State::Uninterruptible && thread.waits_in().is_some_and(|it| it == "__refrigerator");
    let is_stopped = state == State::Stopped;
    let looks = Looks { attributes, affinity, is_stopped, is_frozen, is_enclosed, inherited };
    Ok((state != State::Dead).then_some((thread.identity(), looks)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::victims::within;
    use sched::Nanos;
    use sys::child::{Child, Work};

    fn looks(nice: i32) -> Looks {
        let attributes = Attributes::of(Policy::Other { nice });
        let affinity = CpuSet::first_n(2);
        Looks { attributes, affinity, is_stopped: false, is_frozen: false, is_enclosed: false, inherited: None }
    }

    fn picture(threads: &[(u32, Looks)]) -> Picture {
        let identity = |tid: u32| Identity { tid, start_time: 5 };
        let leader = identity(1);
        Picture { leader, threads: threads.iter().map(|&(tid, looks)| (identity(tid), looks)).collect() }
    }

    #[test]
    fn a_new_thread_must_be_like_the_first_and_an_old_thread_like_itself() {
        let before = picture(&[(1, looks(5)), (2, looks(7)), (3, looks(5))]);
        assert_eq!(before.changes(&picture(&[(1, looks(5)), (2, looks(7)), (4, looks(5))])), []);
        let changes = before.changes(&picture(&[(1, looks(5)), (2, looks(5)), (4, looks(7))]));
        let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "thread 2 is SCHED_OTHER, nice 5 on CPUs 0-1; it was SCHED_OTHER, nice 7 on CPUs 0-1",
                "thread 4, born since, is SCHED_OTHER, nice 7 on CPUs 0-1; it was SCHED_OTHER, nice 5 on CPUs 0-1",
            ]
        );
        let changes = before.changes(&picture(&[(2, looks(7))]));
        assert_eq!(changes.len(), 1);
        assert!(changes[0].to_string().starts_with("thread 1 is gone"));
    }

    #[test]
    fn a_thread_in_a_group_of_tactus_differs_in_its_membership_only_if_all_else_is_as_before() {
        let (before, enclosed) = (picture(&[(1, looks(5))]), Looks { is_enclosed: true, ..looks(5) });
        let is_membership = |found| before.changes(&picture(&[(1, found)]))[0].is_membership();
        assert!(is_membership(enclosed));
        assert!(!is_membership(Looks { is_stopped: true, ..enclosed }) && !is_membership(looks(6)));
        assert!(!is_membership(Looks { is_frozen: true, ..enclosed }));
    }

    #[test]
    fn a_later_thread_of_the_same_number_is_a_new_one() {
        let before = picture(&[(1, looks(5)), (2, looks(7))]);
        let mut after = picture(&[(1, looks(5))]);
        after.threads.insert(Identity { tid: 2, start_time: 6 }, looks(7));
        assert!(before.changes(&after)[0].is_new);
    }

    #[test]
    fn what_is_done_to_a_process_is_seen_until_it_is_undone() {
        let child = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::ms(4) }).unwrap();
        let pid = child.pid();
        let before = Picture::of(pid).unwrap();
        assert_eq!(before.tids().collect::<Vec<_>>(), [pid]);
        let changes = || before.changes(&Picture::of(pid).unwrap());
        assert_eq!(changes(), []);
        let cpus = affinity::get(pid).unwrap();
        let one = CpuSet::one(cpus.first().unwrap());
        if one != cpus {
            affinity::set(pid, &one).unwrap();
            assert_eq!(changes().len(), 1);
            affinity::set(pid, &cpus).unwrap();
        }
        child.process().stop().unwrap();
        assert!(within(Nanos::s(2), || changes().len() == 1));
        child.process().cont().unwrap();
        assert!(within(Nanos::s(2), || changes().is_empty()));
        attributes::set(pid, Attributes::of(Policy::Other { nice: 19 })).unwrap();
        assert_eq!(changes()[0].found.unwrap().attributes.policy, Policy::Other { nice: 19 });
        drop(child);
        assert!(matches!(Picture::of(pid), Err(Error::Gone(_))));
    }
}
