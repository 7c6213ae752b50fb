//! [`SwitchTable`]: `sched_switch` and `sched_wakeup` of the first host in columns, with the names of LISA's columns.

use arrow_array::builder::{Float64Builder, Int16Builder, StringDictionaryBuilder, UInt16Builder, UInt32Builder};
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use sched::{CpuId, Instant};
use std::sync::Arc;
use trace::{Event, Header, KernelEvent, KernelEventKind, KernelEvents, KernelSink, KernelTask, Sink, WorldHeader};

/// Comm, process id and priority of a task, in columns.
#[derive(Default)]
struct Tasks {
    comm: StringDictionaryBuilder<Int32Type>,
    pid: UInt32Builder,
    prio: Int16Builder,
}

impl Tasks {
    fn push(&mut self, comm: &str, task: &KernelTask<'_>) {
        self.comm.append_value(comm);
        self.pid.append_value(u32::try_from(task.pid).unwrap_or(u32::MAX));
        self.prio.append_value(i16::try_from(task.prio).unwrap_or(i16::MAX));
    }
}

/// Columns of every event: instant, and the CPU with its task.
#[derive(Default)]
struct Places {
    time: Float64Builder,
    cpu: UInt32Builder,
    current: Tasks,
}

impl Places {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a run have at most 53 bits")]
    fn push(&mut self, event: &KernelEvent<'_>) {
        self.time.append_value(((event.at.as_ns() + 500) / 1_000) as f64 / 1e6);
        self.cpu.append_value(number(event.cpu));
        self.current.push(event.current.comm.unwrap_or("<idle>"), &event.current);
    }

    fn columns(&mut self) -> Vec<(&'static str, ArrayRef)> {
        vec![
            ("Time", Arc::new(self.time.finish())),
            ("__comm", Arc::new(self.current.comm.finish())),
            ("__pid", Arc::new(self.current.pid.finish())),
            ("__cpu", Arc::new(self.cpu.finish())),
        ]
    }
}

/// The two frames.
#[derive(Default)]
struct Frames {
    switches: Places,
    prev: Tasks,
    prev_state: UInt16Builder,
    next: Tasks,
    wakeups: Places,
    woken: Tasks,
    target: UInt32Builder,
}

impl KernelSink for Frames {
    fn record(&mut self, event: &KernelEvent<'_>) {
        match &event.kind {
            KernelEventKind::Switch { prev, prev_state, next } => {
                let idle = format!("swapper/{}", event.cpu);
                self.switches.push(event);
                self.prev.push(prev.comm.unwrap_or(&idle), prev);
                self.prev_state.append_value(state(prev_state));
                self.next.push(next.comm.unwrap_or(&idle), next);
            }
            KernelEventKind::Wakeup { task, is_new: false, target } => {
                self.wakeups.push(event);
                self.woken.push(task.comm.unwrap_or_default(), task);
                self.target.append_value(number(*target));
            }
            KernelEventKind::Wakeup { .. }
            | KernelEventKind::Migrate { .. }
            | KernelEventKind::Exit { .. }
            | KernelEventKind::Free { .. } => {}
        }
    }
}

/// Records the frames of the first host.
pub(crate) struct SwitchTable(KernelEvents<Frames>);

impl SwitchTable {
    pub(crate) fn new(header: &WorldHeader) -> SwitchTable {
        let header: &Header = &header.machines[0].header;
        SwitchTable(KernelEvents::new(Frames::default(), header))
    }

    /// Returns `sched_switch` and `sched_wakeup`.
    pub(crate) fn finish(self) -> [RecordBatch; 2] {
        let mut frames = self.0.finish();
        let mut switches = frames.switches.columns();
        let state: ArrayRef = Arc::new(frames.prev_state.finish());
        switches.extend(task_columns(["prev_comm", "prev_pid", "prev_prio"], &mut frames.prev));
        switches.push(("prev_state", state));
        switches.extend(task_columns(["next_comm", "next_pid", "next_prio"], &mut frames.next));
        let mut wakeups = frames.wakeups.columns();
        wakeups.extend(task_columns(["comm", "pid", "prio"], &mut frames.woken));
        wakeups.push(("target_cpu", Arc::new(frames.target.finish())));
        [switches, wakeups].map(batch)
    }
}

impl Sink for SwitchTable {
    fn record(&mut self, at: Instant, event: &Event) {
        self.0.record(at, event);
    }
}

fn number(cpu: CpuId) -> u32 {
    u32::try_from(cpu.index()).unwrap_or(u32::MAX)
}

/// Returns the number of a task's state in the kernel's binary events. Source: `__trace_sched_switch_state`,
/// include/trace/events/sched.h, v5.13.
fn state(text: &str) -> u16 {
    match text {
        "S" => 0x1,
        "X" => 0x10,
        "R+" => 0x100,
        _ => 0x0,
    }
}

fn task_columns(names: [&'static str; 3], tasks: &mut Tasks) -> [(&'static str, ArrayRef); 3] {
    let [comm, pid, prio] = names;
    [(comm, Arc::new(tasks.comm.finish())), (pid, Arc::new(tasks.pid.finish())), (prio, Arc::new(tasks.prio.finish()))]
}

fn batch(columns: Vec<(&'static str, ArrayRef)>) -> RecordBatch {
    let field = |(name, column): &(&'static str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(schema, columns).expect("the columns have one length")
}
