//! [`TracedKernel`]: the kernel of a real guest, as the trace of its scheduler shows it.

use crate::detector::Note;
use crate::kernel::Kernel;
use crate::wake_up::{TaskName, WakeUp};
use crate::wire::{Source, Sources};
use rustc_hash::FxHashMap;
use sched::{Class, CpuId, EntityId, Instant, Nanos, Params, Position, Wake, Weight};

/// The tid of the idle tasks.
const IDLE: u32 = 0;

/// An event of a kernel's trace. A task that an event names for the first time exists from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traced {
    /// Another task runs on a CPU (`sched:sched_switch`).
    Switch {
        /// The CPU.
        cpu: CpuId,
        /// Tid of the task that ran; 0: the CPU was idle.
        from: u32,
        /// Whether this task blocks (`prev_state`), instead of waiting for a CPU.
        blocks: bool,
        /// Tid of the task that runs from now on; 0: the CPU is idle.
        to: u32,
    },
    /// A task wakes (`sched:sched_waking`).
    Wake {
        /// Tid of the task.
        tid: u32,
        /// Tid of the task that wakes it; `None`: an interrupt does.
        waker: Option<u32>,
        /// Source of the interrupt, if it is known.
        source: Option<Source>,
        /// CPU on which the task ran last (`target_cpu`): the kernel has not chosen the next one yet.
        cpu: CpuId,
    },
    /// The running task sets the timer that will wake it (`timer:hrtimer_start` with the function `hrtimer_wakeup`).
    Timer {
        /// Tid of the task.
        tid: u32,
        /// Expiry on the guest's CLOCK_MONOTONIC.
        expiry: Instant,
    },
    /// A task begins (`task:task_newtask`).
    Begin {
        /// Tid of the task.
        tid: u32,
        /// Tid of the task that forks it.
        parent: u32,
    },
    /// A task has ended: its last switch is over.
    End {
        /// Tid of the task.
        tid: u32,
    },
    /// The parameters of a task are known, or have changed.
    Params {
        /// Tid of the task.
        tid: u32,
        /// Its class.
        class: Class,
        /// Its weight.
        weight: Weight,
        /// Number of CPUs that its affinity allows.
        allowed: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Task {
    id: EntityId,
    tid: u32,
    params: Params,
    allowed: usize,
    state: TaskState,
    cpu: CpuId,
    /// CPU time until the last switch.
    charged: Nanos,
    /// Expiry of the timer that will wake the task, and the sources that have woken it last.
    expiry: Option<Instant>,
    sources: Sources,
    /// The wake-up after which the task waits for the first time, or runs. `None`: it was preempted since, or the trace lacks the
    /// wake-up.
    woke: Option<Woke>,
}

/// A wake-up.
#[derive(Clone, Copy, Debug)]
struct Woke {
    slept_on: CpuId,
    due: Instant,
    at: Instant,
    source: Option<Source>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TaskState {
    /// The task has not run or woken since the trace began.
    Unknown,
    Blocked,
    Waiting,
    /// The task runs since this instant.
    Runs(Instant),
}

/// The tasks of a guest, from its trace. A trace may lack events: an event that contradicts the state before it replaces this
/// state.
#[derive(Clone, Debug)]
pub struct TracedKernel {
    now: Instant,
    /// The tasks by index, and their indices by tid.
    tasks: Vec<Option<Task>>,
    indices: FxHashMap<u32, usize>,
    /// Indices without a task, and the generation of the next task at each index.
    free: Vec<usize>,
    generations: Vec<u32>,
    running: Vec<Option<EntityId>>,
}

impl TracedKernel {
    /// The kernel of a guest with `cpus` CPUs, which are idle, without tasks.
    #[must_use]
    pub fn new(cpus: usize) -> TracedKernel {
        TracedKernel {
            now: Instant::ZERO,
            tasks: Vec::new(),
            indices: FxHashMap::default(),
            free: Vec::new(),
            generations: Vec::new(),
            running: vec![None; cpus],
        }
    }

    /// Processes an event at `at` on the guest's CLOCK_MONOTONIC, and passes its notes for the detector to `note`, each when
    /// the kernel has the state after it. Events on CPUs that the guest lacks are ignored. Time does not go back.
    pub fn process(&mut self, at: Instant, event: Traced, mut note: impl FnMut(&TracedKernel, Note)) {
        self.now = self.now.max(at);
        match event {
            Traced::Switch { cpu, from, blocks, to } if cpu.index() < self.running.len() => {
                self.stop(cpu, &mut note);
                if from != IDLE && blocks {
                    let task = self.task(from);
                    // A wake-up may precede the switch of the task that it wakes.
                    task.state = TaskState::Blocked;
                    let id = task.id;
                    note(self, Note::Stopped(id));
                }
                if to != IDLE {
                    self.run(cpu, to, &mut note);
                }
            }
            Traced::Wake { tid, waker, source, cpu } if tid != IDLE && cpu.index() < self.running.len() => {
                self.wake(tid, waker, source, cpu, &mut note);
            }
            Traced::Timer { tid, expiry } if tid != IDLE => self.task(tid).expiry = Some(expiry),
            Traced::Begin { tid, parent } if tid != IDLE => {
                self.end(tid, &mut note);
                let parent = (parent != IDLE).then(|| self.task(parent).id);
                let task = self.task(tid);
                task.state = TaskState::Waiting;
                let id = task.id;
                note(self, Note::Woke(id, Wake::New { parent }));
            }
            Traced::End { tid } => self.end(tid, &mut note),
            Traced::Params { tid, class, weight, allowed } if tid != IDLE => {
                let task = self.task(tid);
                (task.params.class, task.params.weight, task.allowed) = (class, weight, allowed);
                let id = task.id;
                note(self, Note::Adjusted(id));
            }
            _ => {}
        }
    }

    /// Advances to `at` without an event, so that running tasks are charged until then.
    pub fn advance(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    /// Returns the expiry of the timer that will wake the task. `None`: the task has set no timer since its last wake-up.
    #[must_use]
    pub fn expiry(&self, task: EntityId) -> Option<Instant> {
        self.get(task)?.expiry
    }

    /// Returns the tid of the task. `None`: the task has ended.
    #[must_use]
    pub fn tid(&self, task: EntityId) -> Option<u32> {
        self.get(task).map(|task| task.tid)
    }

    /// Returns the sources of interrupts that have woken the task.
    #[must_use]
    pub fn sources(&self, task: EntityId) -> Sources {
        self.get(task).map(|task| task.sources).unwrap_or_default()
    }

    /// Returns the wake-up since which the running task has not been preempted, without the name of the task. `None`: it was preempted, or
    /// the trace lacks its wake-up.
    #[must_use]
    pub fn wake_up(&self, task: EntityId) -> Option<WakeUp> {
        let Task { tid, state, cpu, woke, .. } = *self.get(task)?;
        let Woke { slept_on, due, at, source } = woke?;
        let TaskState::Runs(ran) = state else { return None };
        let [slept_on, vcpu] = [slept_on, cpu].map(|cpu| u16::try_from(cpu.index()).ok());
        let (slept_on, vcpu) = (slept_on?, vcpu?);
        Some(WakeUp { slept_on, vcpu, tid, name: TaskName::default(), source, due, woken: at, ran })
    }

    fn get(&self, e: EntityId) -> Option<&Task> {
        self.tasks.get(e.index())?.as_ref().filter(|task| task.id == e)
    }

    fn existing(&self, e: EntityId) -> &Task {
        self.get(e).expect("the task exists")
    }

    /// Returns the task with this tid, which exists from now on.
    fn task(&mut self, tid: u32) -> &mut Task {
        let index = match self.indices.get(&tid) {
            Some(&known) => known,
            None => self.begin(tid),
        };
        self.tasks[index].as_mut().expect("an index has a task")
    }

    /// Adds a task, and returns its index.
    fn begin(&mut self, tid: u32) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.generations.push(0);
            self.tasks.len() - 1
        });
        self.indices.insert(tid, index);
        self.tasks[index] = Some(Task {
            id: EntityId::new(u32::try_from(index).expect("tids have 32 bits"), self.generations[index]),
            tid,
            params: Params::default(),
            allowed: self.running.len(),
            state: TaskState::Unknown,
            cpu: CpuId::new(0),
            charged: Nanos::ZERO,
            expiry: None,
            sources: Sources::default(),
            woke: None,
        });
        index
    }

    /// Stops the task that runs on `cpu`, which waits from now on.
    fn stop(&mut self, cpu: CpuId, note: &mut impl FnMut(&TracedKernel, Note)) {
        let Some(e) = self.running[cpu.index()].take() else { return };
        let now = self.now;
        let Some(task) = self.tasks[e.index()].as_mut().filter(|task| task.id == e) else { return };
        if let TaskState::Runs(since) = task.state {
            task.charged += now.saturating_since(since);
            (task.state, task.woke) = (TaskState::Waiting, None);
        }
        note(self, Note::Stopped(e));
    }

    fn run(&mut self, cpu: CpuId, tid: u32, note: &mut impl FnMut(&TracedKernel, Note)) {
        let task = self.task(tid);
        let (id, state, before) = (task.id, task.state, task.cpu);
        if let TaskState::Runs(_) = state {
            // Its last switch is lost.
            self.stop(before, note);
        }
        if matches!(state, TaskState::Unknown | TaskState::Blocked) {
            // Its wake-up is lost, or was before the trace began.
            self.wake(tid, None, None, cpu, note);
            self.task(tid).woke = None;
        }
        let now = self.now;
        let task = self.task(tid);
        (task.state, task.cpu) = (TaskState::Runs(now), cpu);
        self.running[cpu.index()] = Some(id);
        note(self, Note::Runs(id, cpu));
    }

    fn wake(
        &mut self,
        tid: u32,
        waker: Option<u32>,
        source: Option<Source>,
        cpu: CpuId,
        note: &mut impl FnMut(&TracedKernel, Note),
    ) {
        let now = self.now;
        let waker = waker.filter(|&waker| waker != IDLE).map(|waker| self.task(waker).id);
        let task = self.task(tid);
        if matches!(task.state, TaskState::Waiting | TaskState::Runs(_)) {
            // The timer of a task that wakes before it has slept wakes it no more.
            task.expiry = None;
            return;
        }
        let by_timer = waker.is_none() && task.expiry.is_some_and(|expiry| expiry <= now);
        let source = if by_timer { Some(Source::Timer) } else { source };
        task.sources = source.map_or(task.sources, |source| task.sources.with(source));
        let due = if by_timer { task.expiry.unwrap_or(now) } else { now };
        task.woke = Some(Woke { slept_on: cpu, due, at: now, source });
        (task.state, task.cpu, task.expiry) = (TaskState::Waiting, cpu, None);
        let id = task.id;
        let why = match waker {
            Some(waker) => Wake::By { waker, sync: false },
            None if by_timer => Wake::Timer,
            None => Wake::Interrupt,
        };
        note(self, Note::Woke(id, why));
    }

    fn end(&mut self, tid: u32, note: &mut impl FnMut(&TracedKernel, Note)) {
        let Some(index) = self.indices.remove(&tid) else { return };
        let Some(task) = self.tasks[index].take() else { return };
        // The task runs until its last switch, which is of no interest.
        self.running.iter_mut().filter(|running| **running == Some(task.id)).for_each(|running| *running = None);
        self.generations[index] = (self.generations[index] + 1) % u32::MAX;
        self.free.push(index);
        note(self, Note::Left(task.id));
    }
}

impl Kernel for TracedKernel {
    fn now(&self) -> Instant {
        self.now
    }

    fn cpus(&self) -> usize {
        self.running.len()
    }

    fn allowed(&self, task: EntityId) -> usize {
        self.existing(task).allowed
    }

    fn has(&self, task: EntityId) -> bool {
        self.get(task).is_some()
    }

    fn is_blocked(&self, task: EntityId) -> bool {
        matches!(self.existing(task).state, TaskState::Blocked | TaskState::Unknown)
    }

    fn is_waiting(&self, task: EntityId) -> bool {
        self.existing(task).state == TaskState::Waiting
    }

    fn running(&self, cpu: CpuId) -> Option<EntityId> {
        self.running[cpu.index()]
    }

    fn last_cpu(&self, task: EntityId) -> CpuId {
        self.existing(task).cpu
    }

    fn charged(&self, task: EntityId) -> Nanos {
        let task = self.existing(task);
        match task.state {
            TaskState::Runs(since) => task.charged + self.now.saturating_since(since),
            _ => task.charged,
        }
    }

    fn params(&self, task: EntityId) -> &Params {
        &self.existing(task).params
    }

    /// A trace has no virtual run times and deadlines.
    fn position(&self, _: EntityId) -> Option<Position> {
        None
    }

    fn is_interactive(&self, _: EntityId) -> bool {
        false
    }
}
