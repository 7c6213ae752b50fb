//! Changes to threads and processes by processes other than Tactus, and the values that threads would have without
//! Tactus.

use crate::life::Fault;
use crate::masks::{Masks, affinity};
use crate::setting::{Setting, is_raised, params};
use crate::tasks::{INIT, Place, Refuses};
use crate::world::World;
use sched::{CpuId, CpuSet, Nanos, Refused, State};
use std::fmt;
use sys::attributes::Attributes;
use sys::thread::{Identity, Owner};

/// A difference between a thread and the same thread without Tactus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Tid of the changed thread.
    pub tid: u32,
    /// Pid of the thread's process.
    pub pid: u32,
    /// Setting of the thread.
    pub is: Setting,
    /// Setting of the thread without Tactus.
    pub untouched: Setting,
    /// Whether the thread would follow its cpuset without Tactus, but does not.
    pub is_pinned: bool,
    /// Whether the thread inherits a priority from Tactus.
    pub is_lent: bool,
    /// Whether the process is stopped.
    pub is_stopped: bool,
    /// Whether the process would be stopped without Tactus.
    pub is_stopped_by_others: bool,
    /// Whether the process is in another freezer group than without Tactus.
    pub is_in_other_group: bool,
    /// Whether the parent of the process, or of an ancestor, has ended.
    pub is_orphan: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} of process {}", self.tid, self.pid)?;
        if self.is.attributes != self.untouched.attributes {
            write!(f, "; it is {}, not {}", self.is.attributes, self.untouched.attributes)?;
        }
        if self.is.affinity != self.untouched.affinity {
            write!(f, "; it may run on {}, not on {}", self.is.affinity, self.untouched.affinity)?;
        }
        if self.is_pinned {
            f.write_str("; it does not follow its cpuset")?;
        }
        if self.is_lent {
            f.write_str("; it inherits a priority")?;
        }
        if self.is_stopped != self.is_stopped_by_others {
            write!(f, "; it is {}", if self.is_stopped { "stopped" } else { "not stopped" })?;
        }
        if self.is_in_other_group {
            f.write_str("; it is in another freezer group")?;
        }
        Ok(())
    }
}

impl World {
    /// Changes the attributes of thread `tid` on behalf of a process other than Tactus. Has no effect if the thread has
    /// ended or the kernel refuses.
    pub fn reschedule(&mut self, tid: u32, attributes: Attributes) {
        self.note(|| format!("another process makes {tid} {attributes}"));
        let Some(thread) = self.tasks.get(tid) else { return };
        let setting = Setting { attributes, ..thread.setting };
        if params(&setting).is_some() && self.try_set(tid, setting).is_ok() {
            self.tasks.thread(tid).untouched.attributes = attributes;
        }
    }

    /// Changes the nice value of thread `tid` on behalf of a process other than Tactus. The nice value of a real-time
    /// thread has an effect when the thread becomes an ordinary thread again. Returns the attributes without Tactus;
    /// `None` if the thread has ended, or has no nice value without Tactus.
    pub fn renice(&mut self, tid: u32, nice: i32) -> Option<Attributes> {
        self.note(|| format!("another process gives {tid} nice {nice}"));
        let thread = self.tasks.get_mut(tid)?;
        thread.untouched.attributes.nice()?;
        thread.nice = nice;
        thread.untouched.attributes = thread.untouched.attributes.with_nice(nice);
        let (setting, untouched) = (thread.setting, thread.untouched.attributes);
        self.set(tid, Setting { attributes: setting.attributes.with_nice(nice), ..setting });
        Some(untouched)
    }

    /// Restricts thread `tid` to the CPUs that are in `cpus` and in the cpuset of the thread, on behalf of a process
    /// other than Tactus. Has no effect if there are no such CPUs.
    pub fn move_to(&mut self, tid: u32, cpus: &CpuSet) {
        self.note(|| format!("another process lets {tid} run on {cpus}"));
        let Some(cpuset) = self.tasks.process_of(tid).map(|process| process.cpuset) else { return };
        if cpuset.and(cpus).is_empty() {
            return;
        }
        let is_narrow = cpuset != self.cpus();
        let thread = self.tasks.thread(tid);
        let before = thread.setting.affinity;
        thread.masks = Masks { is: *cpus, untouched: *cpus, is_unseen: true, ..thread.masks };
        self.apply_cpuset(tid);
        let thread = self.tasks.thread(tid);
        let now = thread.setting.affinity;
        let Masks { is_set, confined, .. } = thread.masks;
        let is_unnoticed = confined.is_some_and(|set| now == before || now == set || (!is_set && now.len() == 1));
        thread.masks.is_ambiguous = is_unnoticed || now != *cpus || (is_narrow && now == cpuset);
    }

    /// Gives the cpuset of process `pid` these CPUs, on behalf of a process other than Tactus. Has no effect if there
    /// are no such CPUs.
    pub fn set_cpuset(&mut self, pid: u32, cpus: &CpuSet) {
        let cpus = cpus.and(&self.cpus());
        self.note(|| format!("the cpuset of {pid} has {cpus}"));
        let Some(process) = self.tasks.processes.get_mut(&pid).filter(|_| !cpus.is_empty()) else { return };
        process.cpuset = cpus;
        for tid in process.threads.clone() {
            let masks = &mut self.tasks.thread(tid).masks;
            masks.is_ambiguous |= masks.is_unseen;
            self.apply_cpuset(tid);
        }
    }

    /// Shows the affinity of thread `tid` to Tactus; `None` without such a thread.
    pub(super) fn show_affinity(&mut self, tid: u32) -> Option<CpuSet> {
        let thread = self.tasks.get_mut(tid)?;
        thread.masks.is_unseen = false;
        Some(thread.setting.affinity)
    }

    /// Computes the affinity of thread `tid` from its user masks and its cpuset.
    pub(super) fn apply_cpuset(&mut self, tid: u32) {
        let (Some(process), all) = (self.tasks.process_of(tid), self.cpus()) else { return };
        let cpuset = process.cpuset;
        let thread = self.tasks.thread(tid);
        let mask = thread.masks.untouched;
        let is_whole = !all.minus(&mask).is_empty() && cpuset.minus(&mask).is_empty();
        // Before Tactus observes the mask, its CPUs outside the cpuset are invisible.
        let is_hidden = !thread.masks.is_set && mask != CpuSet::ALL && !mask.minus(&cpuset).is_empty();
        thread.masks.is_ambiguous |= is_whole || is_hidden || mask.and(&cpuset).is_empty();
        thread.untouched.affinity = affinity(&thread.masks.untouched, &cpuset);
        let setting = Setting { affinity: affinity(&thread.masks.is, &cpuset), ..thread.setting };
        if setting != thread.setting {
            self.set(tid, setting);
        }
    }

    /// Stops process `pid` on behalf of a process other than Tactus.
    pub fn stop(&mut self, pid: u32) {
        self.note(|| format!("another process stops {pid}"));
        self.stopped_by_others(pid, true);
        if let Some((_, life)) = self.lives.iter().find(|(of, _)| *of == pid) {
            life.fail(Fault::Hang);
        }
        self.set_stopped(pid, true);
    }

    /// Continues process `pid` on behalf of a process other than Tactus.
    pub fn cont(&mut self, pid: u32) {
        self.note(|| format!("another process continues {pid}"));
        self.stopped_by_others(pid, false);
        if let Some((_, life)) = self.lives.iter().find(|(of, _)| *of == pid) {
            life.goes_on();
        }
        self.set_stopped(pid, false);
    }

    fn stopped_by_others(&mut self, pid: u32, is_stopped: bool) {
        if let Some(process) = self.tasks.processes.get_mut(&pid) {
            process.is_stopped_by_others = is_stopped && !process.is_kernel;
        }
    }

    /// Gives process `pid` another owner, with or without CAP_SYS_NICE and CAP_KILL.
    pub fn give_to(&mut self, pid: u32, owner: Owner, is_privileged: bool) {
        if let Some(process) = self.tasks.processes.get_mut(&pid) {
            (process.owner, process.is_privileged) = (owner, is_privileged);
        }
    }

    /// Makes the kernel refuse Tactus the changes in `refuses` to process `pid`.
    pub fn protect(&mut self, pid: u32, refuses: Refuses) {
        if let Some(process) = self.tasks.processes.get_mut(&pid) {
            process.refuses = refuses;
        }
    }

    /// Sets whether process `pid` reaps its children at once. Otherwise, ended children stay zombies until
    /// [`reap`](World::reap).
    pub fn set_reaps(&mut self, pid: u32, reaps: bool) {
        if let Some(process) = self.tasks.processes.get_mut(&pid) {
            process.reaps = reaps;
        }
    }

    /// Applies a setting to a thread. The setting has no new reservation.
    pub(super) fn set(&mut self, tid: u32, setting: Setting) {
        self.try_set(tid, setting).expect("an ordinary or real-time thread is never refused");
    }

    /// Applies a setting to a thread. Admission control may refuse a reservation; the thread then stays unchanged.
    pub(super) fn try_set(&mut self, tid: u32, setting: Setting) -> Result<(), Refused> {
        let now = self.host.now();
        let thread = self.tasks.thread(tid);
        thread.charge(now);
        let before = std::mem::replace(&mut thread.setting, setting);
        if let Some(entity) = thread.entity {
            let params = params(&thread.effective()).expect("it was looked at before");
            self.host.adjust(entity, params).inspect_err(|_| self.tasks.thread(tid).setting = before)?;
        }
        let thread = self.tasks.thread(tid);
        thread.nice = setting.attributes.nice().unwrap_or(thread.nice);
        if setting.attributes.policy != before.attributes.policy {
            thread.slack = setting.slack_after(thread.slack);
        }
        Ok(())
    }

    /// Sets the timer slack of thread `tid`.
    pub fn set_slack(&mut self, tid: u32, slack: Nanos) {
        let thread = self.tasks.thread(tid);
        if !slack.is_zero() && !thread.setting.has_no_slack() {
            thread.slack = slack;
        }
    }

    /// Returns the timer slack of thread `tid`.
    #[must_use]
    pub fn slack(&self, tid: u32) -> Option<Nanos> {
        self.tasks.get(tid).map(|thread| thread.slack)
    }

    /// Marks thread `tid` and its later children with `tag`.
    pub fn mark(&mut self, tid: u32, tag: usize) {
        if self.ended.len() <= tag {
            self.ended.resize(tag + 1, (Nanos::ZERO, Nanos::ZERO));
        }
        if let Some(thread) = self.tasks.get_mut(tid) {
            thread.tag = Some(tag);
        }
    }

    // ---- Inspection ----

    /// Returns the mark of thread `tid`, which may be inherited from an ancestor.
    #[must_use]
    pub fn mark_of(&self, tid: u32) -> Option<usize> {
        self.tasks.get(tid)?.tag
    }

    /// Returns the CPU time of all threads with this mark: the total, and the part at a priority that only Tactus sets.
    #[must_use]
    pub fn had_by(&self, tag: usize) -> (Nanos, Nanos) {
        let mut had = self.ended.get(tag).copied().unwrap_or_default();
        for &tid in &self.tasks.living {
            if self.mark_of(tid) == Some(tag) && self.tasks.get(tid).is_some_and(|thread| thread.entity.is_some()) {
                let (ran, raised) = self.had(tid);
                had = (had.0 + ran, had.1 + raised);
            }
        }
        had
    }

    /// Returns the CPU time of all living processes of Tactus.
    #[must_use]
    pub fn had_by_us(&self) -> Nanos {
        let of =
            |pid: u32| self.threads_of(pid).iter().map(|&tid| self.had(tid).0).fold(Nanos::ZERO, |sum, ran| sum + ran);
        self.lives.iter().map(|&(pid, _)| of(pid)).fold(Nanos::ZERO, |sum, ran| sum + ran)
    }

    /// Returns the number of threads and processes whose fork has begun so far.
    #[must_use]
    pub fn births(&self) -> u64 {
        self.tasks.births
    }

    /// Returns whether thread `tid` appeared after the first `births` threads.
    #[must_use]
    pub fn is_seen_after(&self, tid: u32, births: u64) -> bool {
        self.tasks.get(tid).is_some_and(|thread| thread.birth >= births)
    }

    /// Returns the number of threads and processes that have appeared so far.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.tasks.seen
    }

    /// Returns the sum of the lateness of all timers so far.
    #[must_use]
    pub fn late(&self) -> Nanos {
        self.late
    }

    /// Returns the tids of the threads that have not ended, in the order of their start.
    #[must_use]
    pub fn living(&self) -> &[u32] {
        &self.tasks.living
    }

    /// Returns whether process `pid` exists and has not ended.
    #[must_use]
    pub fn is_alive(&self, pid: u32) -> bool {
        self.tasks.processes.get(&pid).is_some_and(|process| !process.has_ended)
    }

    /// Returns whether process `pid` is stopped.
    #[must_use]
    pub fn is_stopped(&self, pid: u32) -> bool {
        self.tasks.processes.get(&pid).is_some_and(|process| process.is_stopped)
    }

    /// Returns the pid of the process of thread `tid`, and whether the thread has not ended.
    #[must_use]
    pub fn process_of(&self, tid: u32) -> Option<(u32, bool)> {
        self.tasks.get(tid).map(|thread| (thread.process, thread.entity.is_some()))
    }

    /// Returns the pid of the parent of process `pid`.
    #[must_use]
    pub fn parent_of(&self, pid: u32) -> Option<u32> {
        self.tasks.processes.get(&pid).map(|process| process.parent)
    }

    /// Returns the owner of process `pid`.
    #[must_use]
    pub fn owner_of(&self, pid: u32) -> Option<Owner> {
        self.tasks.processes.get(&pid).map(|process| process.owner)
    }

    /// Returns the tids of the threads of process `pid`, in ascending order.
    #[must_use]
    pub fn threads_of(&self, pid: u32) -> &[u32] {
        self.tasks.processes.get(&pid).map_or(&[], |process| &process.threads)
    }

    /// Returns the pids of the children of process `pid` that are not reaped yet, in ascending order.
    #[must_use]
    pub fn children_of(&self, pid: u32) -> &[u32] {
        self.tasks.processes.get(&pid).map_or(&[], |process| &process.children)
    }

    /// Returns the tid of the thread that runs on `cpu`.
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Option<u32> {
        let on =
            |tid: &&u32| self.tasks.get(**tid).is_some_and(|thread| thread.account.place == Place::On(cpu.index()));
        self.tasks.living.iter().find(on).copied()
    }

    /// Returns whether thread `tid` runs or waits for a CPU.
    #[must_use]
    pub fn is_runnable(&self, tid: u32) -> bool {
        let entity = self.tasks.get(tid).and_then(|thread| thread.entity);
        entity.is_some_and(|entity| self.host.machine().state(entity) != State::Blocked)
    }

    /// Returns the setting of thread `tid` without Tactus.
    #[must_use]
    pub fn untouched(&self, tid: u32) -> Option<Setting> {
        self.tasks.get(tid).map(|thread| thread.untouched)
    }

    /// Returns whether no observer can tell or restore the affinity of thread `tid` without Tactus: another process has
    /// set the affinity that the thread had already, the thread was forked by one of several threads with different
    /// masks, or the mask was the whole cpuset or had other CPUs.
    #[must_use]
    pub fn is_ambiguous(&self, tid: u32) -> bool {
        self.tasks.get(tid).is_some_and(|thread| thread.masks.is_ambiguous)
    }

    /// Returns the setting of thread `tid`.
    #[must_use]
    pub fn setting(&self, tid: u32) -> Option<Setting> {
        self.tasks.get(tid).map(|thread| thread.setting)
    }

    /// Returns whether the thread with this identity exists and has not ended.
    #[must_use]
    pub fn is_there(&self, thread: Identity) -> bool {
        self.tasks.get(thread.tid).is_some_and(|there| there.identity == thread && there.entity.is_some())
    }

    /// Returns the CPU time of thread `tid`: the total, and the part at a priority that only Tactus sets.
    #[must_use]
    pub fn had(&self, tid: u32) -> (Nanos, Nanos) {
        let Some(thread) = self.tasks.get(tid) else { return (Nanos::ZERO, Nanos::ZERO) };
        let account = &thread.account;
        let open = match account.place {
            Place::On(_) => self.now().since(account.since),
            _ => Nanos::ZERO,
        };
        let raised = if is_raised(&thread.effective().attributes) { open } else { Nanos::ZERO };
        (account.usage.ran + open, account.raised + raised)
    }

    fn descends_from_orphan(&self, pid: u32) -> bool {
        let mut next = Some(pid);
        while let Some(process) = next.and_then(|pid| self.tasks.processes.get(&pid)) {
            if process.is_orphan {
                return true;
            }
            next = Some(process.parent);
        }
        false
    }

    /// Returns all differences between the host and its state without Tactus, except in init and in Tactus's own
    /// processes.
    #[must_use]
    pub fn differences(&self) -> Vec<Difference> {
        let mut found = Vec::new();
        for &tid in &self.tasks.living {
            let Some(thread) = self.tasks.get(tid).filter(|thread| thread.entity.is_some()) else { continue };
            let process = &self.tasks.processes[&thread.process];
            let is_ours = self.lives.iter().any(|(pid, _)| *pid == thread.process);
            let is_same = thread.setting == thread.untouched && process.is_stopped == process.is_stopped_by_others;
            let is_lent = self.is_lent(tid);
            let follows = |mask: &CpuSet| self.cpus().minus(mask).is_empty();
            let is_pinned = follows(&thread.masks.untouched) && !follows(&thread.masks.is);
            let is_in_other_group = process.group != process.group_by_others;
            let is_changed = !is_same || is_lent || is_pinned || is_in_other_group;
            if is_changed && !is_ours && thread.process != INIT {
                found.push(Difference {
                    tid,
                    pid: thread.process,
                    is: thread.setting,
                    untouched: thread.untouched,
                    is_pinned,
                    is_lent,
                    is_stopped: process.is_stopped,
                    is_stopped_by_others: process.is_stopped_by_others,
                    is_in_other_group,
                    is_orphan: self.descends_from_orphan(thread.process),
                });
            }
        }
        found
    }
}
