//! [`KernelEvents`]: the events of one machine as the events of a kernel's scheduler. [`ftrace`](crate::ftrace) writes
//! these events as text.
//!
//! Source of the names and the fields of the events: include/trace/events/sched.h, v5.13. The events differ from a
//! kernel's events as follows:
//!
//! - Process ids are numbered from 1 in the order of attachment, and start again from 1 after the kernel's
//!   `PID_MAX_LIMIT`, 4,194,304.
//! - The target CPU of a wake-up is the CPU of the task's last run, or CPU 0 before the first run. If a task resumes on
//!   another CPU, a migration precedes the switch.
//! - Priorities are the kernel's: 0 for a stop task, 99 − n for real-time priority n, and −1 for other tasks with a
//!   reservation. All other tasks have 120 plus the nice value. The nice value is the value whose weight is closest to
//!   the weight of the task.
//! - A policy may exchange the tasks of two CPUs at one instant, but a kernel cannot. One of the two CPUs therefore
//!   switches to its idle task first.
//!
//! Like a trace of a guest's kernel, the events of a guest do not show when the guest's CPUs were frozen.

use crate::{Event, Header, Sink};
use sched::id::CPUS_MAX;
use sched::{Action, Class, CpuId, EntityId, Input, Instant, Params, Wake, Weight};
use std::collections::BTreeMap;

/// Maximum length of a task's name, in bytes: one less than the kernel's `TASK_COMM_LEN`.
const COMM_MAX: usize = 15;
/// Maximum process id: the kernel's `PID_MAX_LIMIT` on 64-bit machines.
const PID_MAX: u64 = 4_194_304;
/// Priority of nice 0, and of the idle task.
const PRIO_DEFAULT: i32 = 120;

/// A task as a kernel's events name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelTask<'a> {
    /// Name of the task; the idle task of a CPU is `None`.
    pub comm: Option<&'a str>,
    /// Process id; 0 for the idle task.
    pub pid: u64,
    /// Priority.
    pub prio: i32,
}

/// The type of an event of a kernel's scheduler, with its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelEventKind<'a> {
    /// `sched_switch`.
    Switch {
        /// Task that leaves the CPU.
        prev: KernelTask<'a>,
        /// State of this task: `R` runnable, `R+` preempted, `S` asleep or `X` dead.
        prev_state: &'static str,
        /// Task that the CPU runs next.
        next: KernelTask<'a>,
    },
    /// `sched_wakeup` or `sched_wakeup_new`.
    Wakeup {
        /// Task that wakes.
        task: KernelTask<'a>,
        /// Whether this is the first wake-up of the task.
        is_new: bool,
        /// CPU on which the task will wait.
        target: CpuId,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// Task that migrates.
        task: KernelTask<'a>,
        /// Previous CPU of the task.
        from: CpuId,
        /// Next CPU of the task.
        to: CpuId,
    },
    /// `sched_process_exit`: the task exits while it occupies its CPU.
    Exit {
        /// Task that exits.
        task: KernelTask<'a>,
    },
    /// `sched_process_free`: the task is removed while it does not run.
    Free {
        /// Task that is removed.
        task: KernelTask<'a>,
    },
}

/// An event of a kernel's scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelEvent<'a> {
    /// Instant of the event.
    pub at: Instant,
    /// CPU that records the event.
    pub cpu: CpuId,
    /// Task on this CPU before the event.
    pub current: KernelTask<'a>,
    /// Type of the event.
    pub kind: KernelEventKind<'a>,
}

/// A receiver of a kernel's events in order.
pub trait KernelSink {
    /// Processes the next event.
    fn record(&mut self, event: &KernelEvent<'_>);

    /// Returns whether the sink ignores all further events.
    fn is_over(&self) -> bool {
        false
    }
}

/// A task.
#[derive(Debug)]
struct Task {
    pid: u64,
    comm: String,
    prio: i32,
    runnable: bool,
    /// Whether the task has exited but still occupies its CPU.
    dead: bool,
    /// CPU of the task according to the events so far.
    on: Option<CpuId>,
    /// Last CPU of the task.
    last: Option<CpuId>,
}

/// A CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Task on the CPU according to the events so far.
    shown: Option<EntityId>,
    /// Current task on the CPU.
    running: Option<EntityId>,
    /// Whether the current task yields.
    yields: bool,
}

/// Converts the events of one machine and passes them to a sink. After the last event, call
/// [`finish`](KernelEvents::finish).
#[derive(Debug)]
pub struct KernelEvents<S> {
    sink: S,
    tasks: BTreeMap<EntityId, Task>,
    cpus: Vec<Cpu>,
    /// CPUs whose current task may differ from the task according to the events so far.
    changed: Vec<CpuId>,
    born: u64,
    now: Instant,
}

impl<S: KernelSink> KernelEvents<S> {
    /// Creates a converter for the machine with this header.
    pub fn new(sink: S, header: &Header) -> KernelEvents<S> {
        let cpus = vec![Cpu::default(); header.cpus.min(CPUS_MAX)];
        KernelEvents { sink, tasks: BTreeMap::new(), cpus, changed: Vec::new(), born: 0, now: Instant::ZERO }
    }

    /// Passes the last events to the sink, and returns the sink.
    pub fn finish(mut self) -> S {
        self.flush();
        self.sink
    }

    /// Passes an event on `cpu` to the sink.
    fn tell<'a>(&'a mut self, cpu: CpuId, kind: impl FnOnce(&Tasks<'a>) -> KernelEventKind<'a>) {
        let tasks = Tasks(&self.tasks);
        let shown = self.cpus.get(cpu.index()).and_then(|cpu| cpu.shown);
        self.sink.record(&KernelEvent { at: self.now, cpu, current: tasks.named(shown), kind: kind(&tasks) });
    }

    /// Passes on the switches since the last flush.
    fn flush(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        changed.retain(|cpu| self.cpus[cpu.index()].shown != self.cpus[cpu.index()].running);
        while !changed.is_empty() {
            let before = changed.len();
            // A task that migrates leaves its old CPU first.
            changed.retain(|&cpu| {
                let next = self.cpus[cpu.index()].running;
                let waits = next.and_then(|next| self.tasks.get(&next)).is_some_and(|next| next.on.is_some());
                if !waits {
                    self.switch(cpu, next);
                }
                waits
            });
            if changed.len() == before {
                self.switch(changed[0], None);
            }
        }
        self.changed = changed;
    }

    fn switch(&mut self, cpu: CpuId, next: Option<EntityId>) {
        let last = next.and_then(|next| self.tasks.get(&next)).and_then(|task| task.last);
        if let Some(from) = last.filter(|&last| last != cpu) {
            self.tell(cpu, |tasks| KernelEventKind::Migrate { task: tasks.named(next), from, to: cpu });
        }
        let there = self.cpus[cpu.index()];
        let prev_state = match there.shown.and_then(|prev| self.tasks.get(&prev)) {
            None => "R",
            Some(task) if task.dead => "X",
            Some(task) if !task.runnable => "S",
            Some(_) if there.yields => "R",
            Some(_) => "R+",
        };
        self.tell(cpu, |tasks| KernelEventKind::Switch {
            prev: tasks.named(there.shown),
            prev_state,
            next: tasks.named(next),
        });
        if let Some(entity) = there.shown
            && let Some(task) = self.tasks.get_mut(&entity)
        {
            task.on = None;
            if task.dead {
                self.tasks.remove(&entity);
            }
        }
        if let Some(task) = next.and_then(|next| self.tasks.get_mut(&next)) {
            (task.on, task.last) = (Some(cpu), Some(cpu));
        }
        let there = &mut self.cpus[cpu.index()];
        (there.shown, there.yields) = (next, false);
    }

    fn attach(&mut self, entity: EntityId, name: &str, params: &Params) {
        let pid = 1 + self.born % PID_MAX;
        self.born += 1;
        let (comm, prio) = (comm(name), prio(params));
        self.tasks.insert(entity, Task { pid, comm, prio, runnable: false, dead: false, on: None, last: None });
    }

    fn wake(&mut self, entity: EntityId, why: Wake) {
        let Some(task) = self.tasks.get_mut(&entity) else { return };
        task.runnable = true;
        let target = task.last.unwrap_or_default();
        let is_new = matches!(why, Wake::New { .. });
        self.tell(target, |tasks| KernelEventKind::Wakeup { task: tasks.named(Some(entity)), is_new, target });
    }

    fn detach(&mut self, entity: EntityId) {
        let Some(task) = self.tasks.get_mut(&entity) else { return };
        if let Some(cpu) = task.on {
            task.dead = true;
            self.tell(cpu, |tasks| KernelEventKind::Exit { task: tasks.named(Some(entity)) });
        } else {
            let cpu = task.last.unwrap_or_default();
            self.tell(cpu, |tasks| KernelEventKind::Free { task: tasks.named(Some(entity)) });
            self.tasks.remove(&entity);
        }
    }

    fn unready(&mut self, entity: Option<EntityId>) {
        if let Some(task) = entity.and_then(|entity| self.tasks.get_mut(&entity)) {
            task.runnable = false;
        }
    }

    fn put(&mut self, cpu: CpuId, entity: Option<EntityId>) {
        if let Some(there) = self.cpus.get_mut(cpu.index()) {
            there.running = entity;
            self.changed.push(cpu);
        }
    }
}

/// The attached tasks.
struct Tasks<'a>(&'a BTreeMap<EntityId, Task>);

impl<'a> Tasks<'a> {
    /// Returns a task, or the idle task.
    fn named(&self, entity: Option<EntityId>) -> KernelTask<'a> {
        let idle = KernelTask { comm: None, pid: 0, prio: PRIO_DEFAULT };
        entity.and_then(|entity| self.0.get(&entity)).map_or(idle, |task| KernelTask {
            comm: Some(&task.comm),
            pid: task.pid,
            prio: task.prio,
        })
    }
}

impl<S: KernelSink> Sink for KernelEvents<S> {
    fn record(&mut self, at: Instant, event: &Event) {
        if self.sink.is_over() {
            return;
        }
        match *event {
            // The actions of an instant arrive one by one. Switches are therefore passed on only when an input, another
            // event or a later action follows.
            Event::Action(Action::Stop { cpu, .. }) if at == self.now => self.put(cpu, None),
            Event::Action(Action::Run { cpu, entity, .. }) if at == self.now => self.put(cpu, Some(entity)),
            Event::Action(Action::Extend { .. } | Action::Held { .. } | Action::Kick { .. }) => {}
            Event::Action(Action::SetAlarm { .. } | Action::ClearAlarm { .. }) => {}
            _ => {
                self.flush();
                self.now = at;
                self.take(event);
            }
        }
    }
}

impl<S: KernelSink> KernelEvents<S> {
    /// Processes an event after all earlier switches have been passed on.
    fn take(&mut self, event: &Event) {
        let running = |cpu: CpuId| self.cpus.get(cpu.index()).and_then(|cpu| cpu.running);
        match *event {
            Event::Attach { entity, ref name, ref params } => self.attach(entity, name, params),
            Event::Adjust { entity, ref params } => {
                if let Some(task) = self.tasks.get_mut(&entity) {
                    task.prio = prio(params);
                }
            }
            Event::Detach { entity } => self.detach(entity),
            Event::Input(Input::Wake { entity, why }) => self.wake(entity, why),
            Event::Input(Input::Pause { entity }) => self.unready(Some(entity)),
            Event::Input(Input::Block { cpu }) => self.unready(running(cpu)),
            Event::Input(Input::Yield { cpu } | Input::YieldTo { cpu, .. }) => {
                if let Some(there) = self.cpus.get_mut(cpu.index()) {
                    there.yields = true;
                }
            }
            Event::Action(Action::Stop { cpu, .. }) => self.put(cpu, None),
            Event::Action(Action::Run { cpu, entity, .. }) => self.put(cpu, Some(entity)),
            // The kernel has no scheduling event for any other event.
            _ => {}
        }
    }
}

/// Returns a name in the kernel's format: truncated to the maximum length, with `?` in place of control characters.
fn comm(name: &str) -> String {
    let mut comm = String::with_capacity(COMM_MAX);
    for char in name.chars().map(|char| if char.is_control() { '?' } else { char }) {
        if comm.len() + char.len_utf8() > COMM_MAX {
            break;
        }
        comm.push(char);
    }
    comm
}

fn prio(params: &Params) -> i32 {
    match params.class {
        Class::Stop => 0,
        Class::Fifo(priority) | Class::RoundRobin(priority) => 99 - i32::from(priority.number()),
        _ if params.reservation.is_some() => -1,
        Class::Normal | Class::Batch | Class::Idle | Class::Isochronous => PRIO_DEFAULT + nice(params.weight),
    }
}

/// Returns the nice value whose weight is closest to `weight`.
fn nice(weight: Weight) -> i32 {
    let away = |nice: &i32| Weight::nice(*nice).map_or(u32::MAX, |it| it.as_linux().abs_diff(weight.as_linux()));
    (-20..20).min_by_key(away).unwrap_or(0)
}
