//! [`FtraceWriter`]: the trace of one machine in the text format of the kernel's ftrace (`/sys/kernel/tracing/trace`,
//! `trace-cmd report`). The file contains only events of the types `sched_switch`, `sched_wakeup`, `sched_wakeup_new`,
//! `sched_migrate_task`, `sched_process_exit` and `sched_process_free`, one per line.
//! [`kernel_events`](crate::kernel_events) explains how these events differ from a kernel's.
//!
//! Source of the line format: Documentation/trace/ftrace.rst and `trace_print_context`, kernel/trace/trace_output.c,
//! v5.13. The four flags (interrupts, resched, context, preemption) are dots.
//!
//! Times are microseconds, rounded as in the kernel. A run of less than a microsecond also has a line for its start and
//! a line for its end, in order.

use crate::kernel_events::{KernelEvent, KernelEventKind, KernelEvents, KernelSink, KernelTask};
use crate::output::Output;
use crate::{Event, Header, Sink};
use sched::{CpuId, Instant};
use std::fmt::Write as _;
use std::io::{self, Write};

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

/// Writes the trace of one machine in ftrace's text format. [`finish`](FtraceWriter::finish) reports errors.
#[derive(Debug)]
pub struct FtraceWriter<W: Write>(KernelEvents<Lines<W>>);

impl<W: Write> FtraceWriter<W> {
    /// Writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &Header) -> FtraceWriter<W> {
        let mut output = Output::new(to);
        output.write(HEADER.as_bytes());
        FtraceWriter(KernelEvents::new(Lines { output }, header))
    }

    /// Flushes after the last event, and returns the inner writer.
    ///
    /// # Errors
    /// The first error of the whole run.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish().output.finish()
    }
}

impl<W: Write> Sink for FtraceWriter<W> {
    fn record(&mut self, at: Instant, event: &Event) {
        self.0.record(at, event);
    }
}

/// Writes a line per event.
#[derive(Debug)]
struct Lines<W: Write> {
    output: Output<W>,
}

impl<W: Write> KernelSink for Lines<W> {
    fn record(&mut self, event: &KernelEvent<'_>) {
        let (comm, pid) = (event.current.comm.unwrap_or("<idle>"), event.current.pid);
        let us = (event.at.as_ns() + 500) / 1_000;
        let (seconds, us) = (us / 1_000_000, us % 1_000_000);
        let mut line = String::with_capacity(160);
        let cpu = event.cpu.index();
        let (name, fields) = (name(&event.kind), fields(event.cpu, &event.kind));
        let written = writeln!(line, "{comm:>16}-{pid:<7} [{cpu:03}] .... {seconds:>5}.{us:06}: {name}: {fields}");
        written.expect("a text takes whatever is written");
        self.output.write(line.as_bytes());
    }

    fn is_over(&self) -> bool {
        self.output.has_failed()
    }
}

fn name(kind: &KernelEventKind<'_>) -> &'static str {
    match kind {
        KernelEventKind::Switch { .. } => "sched_switch",
        KernelEventKind::Wakeup { is_new: false, .. } => "sched_wakeup",
        KernelEventKind::Wakeup { is_new: true, .. } => "sched_wakeup_new",
        KernelEventKind::Migrate { .. } => "sched_migrate_task",
        KernelEventKind::Exit { .. } => "sched_process_exit",
        KernelEventKind::Free { .. } => "sched_process_free",
    }
}

fn fields(cpu: CpuId, kind: &KernelEventKind<'_>) -> String {
    match kind {
        KernelEventKind::Switch { prev, prev_state, next } => {
            let comm = |task: &KernelTask<'_>| task.comm.map_or_else(|| format!("swapper/{cpu}"), str::to_string);
            format!(
                "prev_comm={} prev_pid={} prev_prio={} prev_state={prev_state} ==> \
                 next_comm={} next_pid={} next_prio={}",
                comm(prev),
                prev.pid,
                prev.prio,
                comm(next),
                next.pid,
                next.prio
            )
        }
        KernelEventKind::Wakeup { task, target, .. } => format!("{} target_cpu={:03}", named(task), target.index()),
        KernelEventKind::Migrate { task, from, to } => format!("{} orig_cpu={from} dest_cpu={to}", named(task)),
        KernelEventKind::Exit { task } | KernelEventKind::Free { task } => named(task),
    }
}

/// Returns the fields that name a task in all events except switches.
fn named(task: &KernelTask<'_>) -> String {
    format!("comm={} pid={} prio={}", task.comm.unwrap_or_default(), task.pid, task.prio)
}
