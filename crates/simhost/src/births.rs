//! Forks: immediate forks, and forks that take CPU time. During a fork that takes CPU time, the parent may lose its
//! CPU.

use crate::fork::{Birth, Kind};
use crate::masks::Masks;
use crate::setting::Setting;
use crate::tasks::{INIT, Process};
use crate::world::World;
use sched::Nanos;
use sim::Workload;
use sys::attributes::{Attributes, Policy};
use sys::thread::Owner;

impl World {
    /// Starts a process as a child of init. Returns its pid; `None` if all tids are in use.
    pub fn start(&mut self, name: &str, owner: Owner, workload: Workload) -> Option<u32> {
        let setting = Setting { attributes: Attributes::of(Policy::Other { nice: 0 }), affinity: self.cpus() };
        let parent = if self.tasks.births == 0 { 0 } else { INIT };
        let process = Process::new(parent, owner, self.cpus());
        self.tasks.births += 1;
        self.begin(name, process, (setting, setting), workload)
    }

    /// Forks a child process from thread `parent`. Returns its pid; `None` if all tids are in use. Panics if the thread
    /// does not exist.
    pub fn fork(&mut self, parent: u32, workload: Workload) -> Option<u32> {
        let birth = self.birth(parent, Kind::Process, workload, Nanos::ZERO);
        self.bear(parent, birth)
    }

    /// Starts a thread in the process of thread `by`. Returns its tid; `None` if all tids are in use. Panics if `by`
    /// does not exist.
    pub fn clone_thread(&mut self, by: u32, workload: Workload) -> Option<u32> {
        let birth = self.birth(by, Kind::Thread, workload, Nanos::ZERO);
        self.bear(by, birth)
    }

    /// Sets the name of thread `tid`.
    pub fn rename(&mut self, tid: u32, name: &str) {
        self.note(|| format!("{tid} is named {name}"));
        if let Some(thread) = self.tasks.get_mut(tid) {
            thread.name = name.to_string();
        }
    }

    /// Starts a fork of thread `by` that takes `takes` of CPU time. A stop or freeze of the thread takes effect only after
    /// the fork. If the thread has no work during the fork, the thread sleeps uninterruptibly, as if it waited for memory.
    /// Panics if the thread does not exist.
    pub fn begin_birth(&mut self, by: u32, kind: Kind, workload: Workload, takes: Nanos) {
        let birth = self.birth(by, kind, workload, takes);
        self.note(|| format!("{by} begins to begin a {kind:?}"));
        self.tasks.thread(by).birth_begun = Some(birth);
        self.forking.push(by);
    }

    /// Returns whether thread `tid` is inside a fork.
    #[must_use]
    pub fn is_forking(&self, tid: u32) -> bool {
        self.tasks.get(tid).is_some_and(|thread| thread.birth_begun.is_some())
    }

    /// Returns whether a thread with the mark `tag` is inside a fork.
    #[must_use]
    pub fn is_any_forking(&self, tag: usize) -> bool {
        self.forking.iter().any(|&tid| self.mark_of(tid) == Some(tag))
    }

    fn birth(&mut self, by: u32, kind: Kind, workload: Workload, takes: Nanos) -> Birth {
        // The kernel assigns the tid, and counts the birth, long before the end of the fork.
        self.tasks.births += 1;
        let until = self.had(by).0 + takes;
        let thread = self.tasks.thread(by);
        let settings = (thread.setting.of_child(), thread.untouched.of_child());
        Birth { kind, settings, masks: thread.masks, workload, until }
    }

    fn bear(&mut self, by: u32, birth: Birth) -> Option<u32> {
        let Birth { kind, settings, masks, workload, .. } = birth;
        let thread = self.tasks.thread(by);
        let (name, pid, tag) = (thread.name.clone(), thread.process, thread.tag);
        let Process { owner, is_kernel, is_privileged, refuses, cpuset, is_orphan, group, group_by_others, .. } =
            self.tasks.processes[&pid];
        let (born, process) = if kind == Kind::Process {
            let new = Process { is_kernel, is_privileged, refuses, is_orphan, ..Process::new(pid, owner, cpuset) };
            let child = self.begin(&name, Process { group, group_by_others, ..new }, settings, workload)?;
            (child, child)
        } else {
            let tid = self.tasks.number(self.tick())?;
            self.attach(tid, pid, &name, settings, workload);
            (tid, pid)
        };
        if self.is_held(process) {
            self.pause(born);
        }
        self.tasks.thread(born).tag = tag;
        let others = self.tasks.living.iter().filter_map(|&tid| self.tasks.get(tid)).filter(|it| it.tag == tag);
        let is_ambiguous = others.into_iter().any(|it| it.masks.is_ambiguous || it.masks.untouched != masks.untouched);
        // A parent that Tactus has confined during the fork looks like the origin of a single CPU.
        let confined = masks.confined.or(self.tasks.thread(by).masks.confined);
        self.tasks.thread(born).masks = Masks { is_ambiguous, is_set: false, confined, ..masks };
        // The cpuset may have changed during the fork.
        self.apply_cpuset(born);
        self.note(|| format!("{by} begins {kind:?} {born}"));
        Some(born)
    }

    /// Finishes the forks that have consumed their CPU time.
    pub(super) fn end_births(&mut self) {
        for by in std::mem::take(&mut self.forking) {
            if self.tasks.get(by).is_none_or(|thread| thread.entity.is_none()) {
                continue;
            }
            let had = self.had(by).0;
            let thread = self.tasks.thread(by);
            match thread.birth_begun.take_if(|birth| birth.until <= had) {
                Some(birth) => {
                    self.bear(by, birth);
                    self.stop_at_last(by);
                }
                None if thread.birth_begun.is_some() => self.forking.push(by),
                None => {}
            }
        }
    }

    /// Applies a stop or a freeze that was delayed until the end of a fork.
    fn stop_at_last(&mut self, tid: u32) {
        if self.process_of(tid).is_some_and(|(pid, _)| self.is_held(pid)) {
            self.pause(tid);
        }
    }
}
