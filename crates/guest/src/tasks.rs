//! [`Tasks`]: what the trace does not say about tasks: their class, nice value and affinity, and whether they are threads of the kernel.

use coordination::Traced;
use rustc_hash::FxHashMap;
use sched::{Class, CpuSet, RtPriority, Weight};
use sys::attributes::{self, Attributes, Policy};
use sys::{affinity, thread};

/// The tid of the thread that begins all other threads of the kernel (kthreadd).
const KERNEL_PARENT: u32 = 2;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Params {
    class: Class,
    weight: Weight,
    allowed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Whether this is no task of a user: a thread of the kernel, or the agent.
    is_apart: bool,
    has_run: bool,
    params: Option<Params>,
}

/// The tasks of the guest. Threads of the kernel are no tasks of the detector: they work for others, and their timers are
/// no timers of users. While one of them or the agent runs, its CPU counts as idle.
#[derive(Debug)]
pub(crate) struct Tasks {
    known: FxHashMap<u32, Known>,
    online: CpuSet,
}

impl Tasks {
    /// Reads which tasks exist. `agent`: tid of the agent, which is no task: each of its turns would be news.
    pub(crate) fn scan(online: CpuSet, agent: u32) -> Result<Tasks, sys::Error> {
        let mut tasks = Tasks { known: FxHashMap::default(), online };
        tasks.known.insert(agent, Known { is_apart: true, has_run: false, params: None });
        for tid in thread::all()? {
            tasks.look_up(tid);
        }
        Ok(tasks)
    }

    /// Returns whether the trace of `tid` concerns the detector.
    pub(crate) fn is_task(&mut self, tid: u32) -> bool {
        let known = match self.known.get(&tid) {
            Some(known) => *known,
            None => self.look_up(tid),
        };
        !known.is_apart
    }

    fn look_up(&mut self, tid: u32) -> Known {
        let known = |is_apart| Known { is_apart, has_run: true, params: None };
        match thread::status(tid) {
            Ok(status) => *self.known.entry(tid).or_insert(known(status.is_kernel)),
            // It has ended meanwhile. Threads of the kernel hardly end, so it was one of a user.
            Err(_) => known(false),
        }
    }

    /// A task begins, with the parameters of its parent.
    pub(crate) fn begin(&mut self, tid: u32, parent: u32) {
        let is_apart = parent == KERNEL_PARENT;
        self.known.insert(tid, Known { is_apart, has_run: true, params: None });
    }

    pub(crate) fn end(&mut self, tid: u32) {
        self.known.remove(&tid);
    }

    pub(crate) fn ran(&mut self, tid: u32) {
        if let Some(known) = self.known.get_mut(&tid) {
            known.has_run = true;
        }
    }

    /// Reads the parameters of all tasks that have run since the last call. Calls `changed` with each change. `original` returns
    /// the attributes of a task without what the agent has changed.
    pub(crate) fn refresh(&mut self, original: impl Fn(u32) -> Option<Attributes>, mut changed: impl FnMut(Traced)) {
        for (&tid, known) in &mut self.known {
            if known.is_apart || !std::mem::take(&mut known.has_run) {
                continue;
            }
            let attributes = original(tid).map_or_else(|| attributes::get(tid), Ok);
            let (Ok(attributes), Ok(mask)) = (attributes, affinity::get(tid)) else { continue };
            let (class, weight) = class_and_weight(attributes);
            let params = Params { class, weight, allowed: mask.and(&self.online).len() };
            if known.params.replace(params) != Some(params) {
                changed(Traced::Params { tid, class, weight, allowed: params.allowed });
            }
        }
    }
}

fn class_and_weight(attributes: Attributes) -> (Class, Weight) {
    let priority = |priority: u32| u8::try_from(priority).ok().and_then(RtPriority::new);
    let class = match attributes.policy {
        Policy::Batch { .. } => Class::Batch,
        Policy::Idle => Class::Idle,
        Policy::Fifo { priority: number } => priority(number).map_or(Class::Normal, Class::Fifo),
        Policy::RoundRobin { priority: number } => priority(number).map_or(Class::Normal, Class::RoundRobin),
        // A task with a reservation precedes all real-time priorities.
        Policy::Deadline { .. } => priority(99).map_or(Class::Normal, Class::Fifo),
        Policy::Other { .. } | Policy::Ext { .. } | Policy::Unknown(_) => Class::Normal,
    };
    (class, attributes.nice().and_then(Weight::nice).unwrap_or(Weight::NORMAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::child::{Child, Work};

    #[test]
    fn parameters_are_read_again_after_a_run() {
        let child = Child::start(Work::Sleep).unwrap();
        let tid = child.pid();
        let mut tasks = Tasks::scan(affinity::get(tid).unwrap(), 1).unwrap();
        let changes = |tasks: &mut Tasks| {
            let mut found = Vec::new();
            tasks.refresh(|_| None, |change| found.push(change));
            found.retain(|change| matches!(change, Traced::Params { tid: of, .. } if *of == tid));
            found
        };
        assert_eq!(changes(&mut tasks).len(), 1);
        attributes::set(tid, Attributes::of(Policy::Other { nice: 7 })).unwrap();
        assert_eq!(changes(&mut tasks), [], "it has not run");
        tasks.ran(tid);
        let weight = Weight::nice(7).unwrap();
        assert!(matches!(changes(&mut tasks)[..], [Traced::Params { weight: now, .. }] if now == weight));
        tasks.ran(tid);
        tasks.refresh(
            |_| Some(Attributes::of(Policy::Other { nice: 7 })),
            |change| assert!(!matches!(change, Traced::Params { tid: of, .. } if of == tid)),
        );
    }

    #[test]
    fn threads_of_the_kernel_are_no_tasks() {
        let mut tasks = Tasks::scan(CpuSet::ALL, 4_000_003).unwrap();
        assert!(tasks.is_task(std::process::id()) && !tasks.is_task(4_000_003));
        tasks.begin(4_000_001, KERNEL_PARENT);
        tasks.begin(4_000_002, std::process::id());
        assert!(!tasks.is_task(4_000_001) && tasks.is_task(4_000_002));
        tasks.end(4_000_001);
        assert!(tasks.is_task(4_000_001), "another task has the tid");
    }
}
