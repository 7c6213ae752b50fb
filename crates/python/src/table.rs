//! [`TraceTable`]: the events of a run in columns.
//!
//! The table consists of batches of [`ROWS`] events. A batch is converted to Arrow arrays when it is full, so exporting
//! the table copies nothing.

use arrow_array::builder::{ArrayBuilder, PrimitiveBuilder};
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{Field, Schema, SchemaRef};
use indexmap::IndexSet;
use sched::{Action, CpuId, EntityId, Input, Instant};
use std::collections::HashMap;
use std::sync::Arc;
use trace::{Event, MachineId, WorldHeader, WorldSink};

/// Number of events in a batch.
const ROWS: usize = 1 << 18;

/// Declares [`Kind`] with the names of its variants in the column `event`, in the same order.
macro_rules! kinds {
    ($($kind:ident $name:literal),+ $(,)?) => {
        /// The kind of an event.
        #[derive(Clone, Copy)]
        #[repr(i8)]
        enum Kind { $($kind),+ }

        /// Names of all kinds.
        const KINDS: &[&str] = &[$($name),+];
    };
}

kinds! {
    Wake "wake",
    Notice "notice",
    Block "block",
    Yield "yield",
    YieldTo "yield_to",
    Expire "expire",
    Kicked "kicked",
    Alarm "alarm",
    Pause "pause",
    Ran "ran",
    Freeze "freeze",
    Thaw "thaw",
    Stop "stop",
    Run "run",
    Extend "extend",
    Kick "kick",
    Held "held",
    SetAlarm "set_alarm",
    ClearAlarm "clear_alarm",
    Settled "settled",
    Group "group",
    Attach "attach",
    Adjust "adjust",
    Detach "detach",
    Refused "refused",
    Period "period",
    Woke "woke",
    Vcpu "vcpu",
    Irq "irq",
    Skipped "skipped",
    Sent "sent",
    Arrived "arrived",
    Boosted "boosted",
    Lost "lost",
    Release "release",
    Complete "complete",
    Aborted "aborted",
    Other "other",
}

/// Returns a dictionary-encoded column.
pub(crate) fn names<K: arrow_array::types::ArrowDictionaryKeyType>(
    keys: impl IntoIterator<Item = Option<K::Native>>,
    names: Vec<&str>,
) -> DictionaryArray<K> {
    let keys: PrimitiveArray<K> = keys.into_iter().collect();
    DictionaryArray::new(keys, Arc::new(StringArray::from(names)))
}

/// The columns of an event besides its time and machine.
#[derive(Clone, Copy)]
struct Row {
    kind: Kind,
    cpu: Option<CpuId>,
    entity: Option<EntityId>,
    /// The instant, duration or number of bytes that the event names.
    value: Option<u64>,
}

impl Row {
    fn of(kind: Kind) -> Row {
        Row { kind, cpu: None, entity: None, value: None }
    }
}

/// The events of a run, in columns.
pub(crate) struct TraceTable {
    machines: Vec<String>,
    /// Names of the entities, in the order of their arrival.
    entities: IndexSet<String>,
    numbers: HashMap<(MachineId, EntityId), i32>,
    /// Entity that runs on each CPU of each machine.
    running: Vec<Vec<Option<EntityId>>>,
    time: PrimitiveBuilder<UInt64Type>,
    machine: PrimitiveBuilder<Int16Type>,
    kind: PrimitiveBuilder<Int8Type>,
    cpu: PrimitiveBuilder<Int16Type>,
    entity: PrimitiveBuilder<Int32Type>,
    value: PrimitiveBuilder<Int64Type>,
    full: Vec<Columns>,
}

/// Finished columns of a batch. Names are added at the end, when all names are known.
struct Columns {
    time: PrimitiveArray<UInt64Type>,
    machine: PrimitiveArray<Int16Type>,
    kind: PrimitiveArray<Int8Type>,
    cpu: PrimitiveArray<Int16Type>,
    entity: PrimitiveArray<Int32Type>,
    value: PrimitiveArray<Int64Type>,
}

impl TraceTable {
    pub(crate) fn new(header: &WorldHeader) -> TraceTable {
        TraceTable {
            machines: header.machines.iter().map(|machine| machine.name.clone()).collect(),
            entities: IndexSet::new(),
            numbers: HashMap::new(),
            running: header.machines.iter().map(|machine| vec![None; machine.header.cpus]).collect(),
            time: PrimitiveBuilder::with_capacity(ROWS),
            machine: PrimitiveBuilder::with_capacity(ROWS),
            kind: PrimitiveBuilder::with_capacity(ROWS),
            cpu: PrimitiveBuilder::with_capacity(ROWS),
            entity: PrimitiveBuilder::with_capacity(ROWS),
            value: PrimitiveBuilder::with_capacity(ROWS),
            full: Vec::new(),
        }
    }

    fn end_batch(&mut self) {
        self.full.push(Columns {
            time: self.time.finish(),
            machine: self.machine.finish(),
            kind: self.kind.finish(),
            cpu: self.cpu.finish(),
            entity: self.entity.finish(),
            value: self.value.finish(),
        });
    }

    /// Returns the batches and their schema.
    pub(crate) fn finish(mut self) -> (Vec<RecordBatch>, SchemaRef) {
        self.end_batch();
        let machines: ArrayRef = Arc::new(StringArray::from_iter_values(&self.machines));
        let entities: ArrayRef = Arc::new(StringArray::from_iter_values(&self.entities));
        let kinds: ArrayRef = Arc::new(StringArray::from(KINDS.to_vec()));
        let mut schema = None;
        let batch = |columns: Columns| {
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("time_ns", Arc::new(columns.time)),
                ("machine", Arc::new(DictionaryArray::new(columns.machine, Arc::clone(&machines)))),
                ("event", Arc::new(DictionaryArray::new(columns.kind, Arc::clone(&kinds)))),
                ("cpu", Arc::new(columns.cpu)),
                ("entity", Arc::new(DictionaryArray::new(columns.entity, Arc::clone(&entities)))),
                ("value", Arc::new(columns.value)),
            ];
            let schema = schema.get_or_insert_with(|| {
                let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
                Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
            });
            let columns = columns.into_iter().map(|(_, column)| column).collect();
            RecordBatch::try_new(Arc::clone(schema), columns).expect("the columns have one length")
        };
        let batches = self.full.into_iter().map(batch).collect();
        (batches, schema.expect("there is at least one batch"))
    }

    /// Returns the entity on `cpu` of `machine`.
    fn on(&self, machine: MachineId, cpu: CpuId) -> Option<EntityId> {
        *self.running.get(machine.index())?.get(cpu.index())?
    }

    fn put(&mut self, machine: MachineId, cpu: CpuId, entity: Option<EntityId>) {
        if let Some(there) = self.running.get_mut(machine.index()).and_then(|cpus| cpus.get_mut(cpu.index())) {
            *there = entity;
        }
    }

    fn input(&self, machine: MachineId, input: Input) -> Row {
        let running = |kind, cpu| Row { cpu: Some(cpu), entity: self.on(machine, cpu), ..Row::of(kind) };
        let of = |kind, entity| Row { entity: Some(entity), ..Row::of(kind) };
        match input {
            Input::Wake { entity, .. } => of(Kind::Wake, entity),
            Input::Event { entity, .. } => of(Kind::Notice, entity),
            Input::Block { cpu } => running(Kind::Block, cpu),
            Input::Yield { cpu } => running(Kind::Yield, cpu),
            Input::YieldTo { cpu, to } => Row { entity: Some(to), ..running(Kind::YieldTo, cpu) },
            Input::Expire { cpu } => running(Kind::Expire, cpu),
            Input::Kicked { cpu } => running(Kind::Kicked, cpu),
            Input::Alarm { .. } => Row::of(Kind::Alarm),
            Input::Pause { entity } => of(Kind::Pause, entity),
            Input::Ran { cpu, time } => Row { value: Some(time.as_ns()), ..running(Kind::Ran, cpu) },
            Input::Freeze { cpu, .. } => running(Kind::Freeze, cpu),
            Input::Thaw { cpu, stolen } => Row { value: Some(stolen.as_ns()), ..running(Kind::Thaw, cpu) },
        }
    }

    fn action(&self, machine: MachineId, action: Action) -> Row {
        let slice = |until: Instant| (until != Instant::NEVER).then(|| until.as_ns());
        match action {
            Action::Stop { cpu, entity } => Row { kind: Kind::Stop, cpu: Some(cpu), entity: Some(entity), value: None },
            Action::Run { cpu, entity, until } => {
                Row { kind: Kind::Run, cpu: Some(cpu), entity: Some(entity), value: slice(until) }
            }
            Action::Extend { cpu, until } => {
                Row { kind: Kind::Extend, cpu: Some(cpu), entity: self.on(machine, cpu), value: slice(until) }
            }
            Action::Kick { cpu } => {
                Row { kind: Kind::Kick, cpu: Some(cpu), entity: self.on(machine, cpu), value: None }
            }
            Action::Held { entity, reasons } => {
                Row { kind: Kind::Held, cpu: None, entity: Some(entity), value: Some(u64::from(reasons)) }
            }
            Action::SetAlarm { on, at, .. } => {
                Row { kind: Kind::SetAlarm, cpu: Some(on), entity: None, value: Some(at.as_ns()) }
            }
            Action::ClearAlarm { .. } => Row::of(Kind::ClearAlarm),
        }
    }

    /// Returns the columns of `event`. `None`: the event has no row.
    fn row(&self, machine: MachineId, event: &Event) -> Option<Row> {
        let of = |kind, entity| Row { entity: Some(entity), ..Row::of(kind) };
        let plain = Row::of;
        Some(match *event {
            Event::Input(input) => self.input(machine, input),
            Event::Action(action) => self.action(machine, action),
            Event::Settled => plain(Kind::Settled),
            Event::GroupCreated { .. } | Event::GroupAdjusted { .. } | Event::GroupRemoved { .. } => plain(Kind::Group),
            Event::Attach { entity, .. } => of(Kind::Attach, entity),
            Event::Adjust { entity, .. } => of(Kind::Adjust, entity),
            Event::Detach { entity } => of(Kind::Detach, entity),
            Event::Refused(_) => plain(Kind::Refused),
            Event::Period { entity, delivered, .. } => {
                Row { value: Some(delivered.as_ns()), ..of(Kind::Period, entity) }
            }
            Event::Woke { entity, late } => Row { value: Some(late.as_ns()), ..of(Kind::Woke, entity) },
            Event::Vcpu { entity, cpu, .. } => Row { cpu: Some(cpu), ..of(Kind::Vcpu, entity) },
            Event::Irq { cpu, time } => {
                Row { kind: Kind::Irq, cpu: Some(cpu), entity: self.on(machine, cpu), value: Some(time.as_ns()) }
            }
            Event::Skipped { entity, beats } => Row { value: Some(beats), ..of(Kind::Skipped, entity) },
            Event::Sent { entity, bytes, .. } => Row { value: Some(bytes), ..of(Kind::Sent, entity) },
            Event::Arrived { bytes, .. } => Row { value: Some(bytes), ..plain(Kind::Arrived) },
            Event::Lost { bytes, .. } => Row { value: Some(bytes), ..plain(Kind::Lost) },
            Event::Boosted { entity, boosted } => Row { value: Some(boosted.into()), ..of(Kind::Boosted, entity) },
            Event::Release { entity, deadline } => Row { value: Some(deadline.as_ns()), ..of(Kind::Release, entity) },
            Event::Complete { entity } => of(Kind::Complete, entity),
            Event::Aborted { entity, .. } => of(Kind::Aborted, entity),
            Event::Background { entity, time } => Row { value: Some(time.as_ns()), ..of(Kind::Other, entity) },
            Event::Kept { entity, .. } | Event::SpinWait { entity, .. } | Event::Served { entity } => {
                of(Kind::Other, entity)
            }
            Event::End => return None,
        })
    }
}

impl WorldSink for TraceTable {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        if let Event::Attach { entity, name, .. } = event {
            // Entities of several machines, or of different times, may have one name.
            let number = self.entities.insert_full(name.clone()).0;
            self.numbers.insert((machine, *entity), i32::try_from(number).unwrap_or(i32::MAX));
        }
        let Some(row) = self.row(machine, event) else { return };
        match *event {
            Event::Action(Action::Stop { cpu, .. }) => self.put(machine, cpu, None),
            Event::Action(Action::Run { cpu, entity, .. }) => self.put(machine, cpu, Some(entity)),
            _ => {}
        }
        self.time.append_value(at.as_ns());
        self.machine.append_value(i16::try_from(machine.index()).unwrap_or(i16::MAX));
        self.kind.append_value(row.kind as i8);
        self.cpu.append_option(row.cpu.map(|cpu| i16::try_from(cpu.index()).unwrap_or(i16::MAX)));
        self.entity.append_option(row.entity.and_then(|entity| self.numbers.get(&(machine, entity)).copied()));
        self.value.append_option(row.value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)));
        if self.time.len() >= ROWS {
            self.end_batch();
        }
    }
}
