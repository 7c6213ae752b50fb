//! [`FtraceWriter`]: the trace of one machine in the text format of the kernel's ftrace (`/sys/kernel/tracing/trace`,
//! `trace-cmd report`). The file contains only events of the types `sched_switch`, `sched_wakeup`, `sched_wakeup_new`,
//! `sched_migrate_task`, `sched_process_exit` and `sched_process_free`, one per line.
//!
//! Source of the line format: Documentation/trace/ftrace.rst and `trace_print_context`, kernel/trace/trace_output.c,
//! v5.13. Source of the names and the order of the fields: include/trace/events/sched.h, v5.13. The file differs from a
//! kernel's trace as follows:
//!
//! - Process ids are numbered from 1 in the order of attachment, and start again from 1 after the kernel's
//!   `PID_MAX_LIMIT`, 4,194,304. The four flags (interrupts, resched, context, preemption) are dots.
//! - The target CPU of a wake-up is the CPU of the task's last run, or CPU 0 before the first run. If a task resumes on
//!   another CPU, `sched_migrate_task` precedes `sched_switch`.
//! - Priorities are the kernel's: 0 for a stop task, 99 − n for real-time priority n, and −1 for other tasks with a
//!   reservation. All other tasks have 120 plus the nice value. The nice value is the value whose weight is closest to
//!   the weight of the task.
//! - A policy may exchange the tasks of two CPUs at one instant, but a kernel cannot. In the file, one of the two CPUs
//!   therefore switches to its idle task first.
//!
//! Times are microseconds, rounded as in the kernel. A run of less than a microsecond also has a line for its start and
//! a line for its end, in order. Like a trace of a guest's kernel, the file of a guest does not show when the guest's
//! CPUs were frozen.

use crate::output::Output;
use crate::{Event, Header, Sink};
use sched::id::CPUS_MAX;
use sched::{Action, Class, CpuId, EntityId, Input, Instant, Params, Wake, Weight};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum length of a task's name, in bytes: one less than the kernel's `TASK_COMM_LEN`.
const COMM_MAX: usize = 15;
/// Maximum process id: the kernel's `PID_MAX_LIMIT` on 64-bit machines.
const PID_MAX: u64 = 4_194_304;
/// Priority of nice 0, and of the idle task.
const PRIO_DEFAULT: i32 = 120;

/// Lines before the first event.
const HEADER: &str = "\
# tracer: nop
#
#                                _-----=> irqs-off
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| /
#           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION
#              | |         |   ||||      |         |
";

/// A task.
#[derive(Debug)]
struct Task {
    pid: u64,
    comm: String,
    prio: i32,
    runnable: bool,
    /// Whether the task has exited but still occupies its CPU.
    dead: bool,
    /// CPU of the task according to the written lines.
    on: Option<CpuId>,
    /// Last CPU of the task.
    last: Option<CpuId>,
}

/// A CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Task on the CPU according to the written lines.
    shown: Option<EntityId>,
    /// Current task on the CPU.
    running: Option<EntityId>,
    /// Whether the current task yields.
    yields: bool,
}

/// Writes the trace of one machine in ftrace's text format. [`finish`](FtraceWriter::finish) reports errors.
#[derive(Debug)]
pub struct FtraceWriter<W: Write> {
    output: Output<W>,
    tasks: BTreeMap<EntityId, Task>,
    cpus: Vec<Cpu>,
    /// CPUs whose current task may differ from the task in the written lines.
    changed: Vec<CpuId>,
    born: u64,
    now: Instant,
}

impl<W: Write> FtraceWriter<W> {
    /// Writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &Header) -> FtraceWriter<W> {
        let mut output = Output::new(to);
        output.write(HEADER);
        let cpus = vec![Cpu::default(); header.cpus.min(CPUS_MAX)];
        FtraceWriter { output, tasks: BTreeMap::new(), cpus, changed: Vec::new(), born: 0, now: Instant::ZERO }
    }

    /// Flushes after the last event, and returns the inner writer.
    ///
    /// # Errors
    /// The first error of the whole run.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush();
        self.output.finish()
    }

    /// Writes `event` with its `fields`. The line names the task on `cpu`.
    fn line(&mut self, cpu: CpuId, event: &str, fields: &str) {
        let on = self.cpus.get(cpu.index()).and_then(|cpu| cpu.shown).and_then(|entity| self.tasks.get(&entity));
        let (comm, pid) = on.map_or(("<idle>", 0), |task| (task.comm.as_str(), task.pid));
        let us = (self.now.as_ns() + 500) / 1_000;
        let (seconds, us) = (us / 1_000_000, us % 1_000_000);
        let mut line = String::with_capacity(160);
        let cpu = cpu.index();
        let written = writeln!(line, "{comm:>16}-{pid:<7} [{cpu:03}] .... {seconds:>5}.{us:06}: {event}: {fields}");
        written.expect("a text takes whatever is written");
        self.output.write(&line);
    }

    /// Writes the switches since the last flush.
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
        if let Some(task) = next.and_then(|next| self.tasks.get(&next))
            && let Some(last) = task.last.filter(|&last| last != cpu)
        {
            let fields = format!("{} orig_cpu={last} dest_cpu={cpu}", named(task));
            self.line(cpu, "sched_migrate_task", &fields);
        }
        let there = self.cpus[cpu.index()];
        let prev = there.shown.and_then(|prev| self.tasks.get(&prev));
        let state = match prev {
            None => "R",
            Some(task) if task.dead => "X",
            Some(task) if !task.runnable => "S",
            Some(_) if there.yields => "R",
            Some(_) => "R+",
        };
        let idle = || (format!("swapper/{cpu}"), 0, PRIO_DEFAULT);
        let of = |task: &Task| (task.comm.clone(), task.pid, task.prio);
        let (comm, pid, prio) = prev.map_or_else(idle, of);
        let (to, to_pid, to_prio) = next.and_then(|next| self.tasks.get(&next)).map_or_else(idle, of);
        let fields = format!(
            "prev_comm={comm} prev_pid={pid} prev_prio={prio} prev_state={state} ==> \
             next_comm={to} next_pid={to_pid} next_prio={to_prio}"
        );
        self.line(cpu, "sched_switch", &fields);
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
        let cpu = task.last.unwrap_or_default();
        let fields = format!("{} target_cpu={:03}", named(task), cpu.index());
        let event = if matches!(why, Wake::New { .. }) { "sched_wakeup_new" } else { "sched_wakeup" };
        self.line(cpu, event, &fields);
    }

    fn detach(&mut self, entity: EntityId) {
        let Some(task) = self.tasks.get_mut(&entity) else { return };
        let fields = named(task);
        if let Some(cpu) = task.on {
            task.dead = true;
            self.line(cpu, "sched_process_exit", &fields);
        } else {
            let cpu = task.last.unwrap_or_default();
            self.tasks.remove(&entity);
            self.line(cpu, "sched_process_free", &fields);
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

impl<W: Write> Sink for FtraceWriter<W> {
    fn record(&mut self, at: Instant, event: &Event) {
        if self.output.has_failed() {
            return;
        }
        match *event {
            // The actions of an instant arrive one by one. Switches are therefore written only when an input, another
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

impl<W: Write> FtraceWriter<W> {
    /// Processes an event after all earlier switches have been written.
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

/// Returns the fields that name a task in all events except switches.
fn named(task: &Task) -> String {
    format!("comm={} pid={} prio={}", task.comm, task.pid, task.prio)
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
