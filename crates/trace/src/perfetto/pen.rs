//! [`ProtobufPen`]: writes tracks as packets of Perfetto's format.

use super::messages::{
    ChildOrdering, CounterDescriptor, Data, DebugAnnotation, EventType, SiblingMerge, TracePacket, TrackDescriptor,
    TrackEvent, Unit, Value,
};
use crate::output::Output;
use crate::tracks::{Arg, Args, Counter, FIRST_TRACK, Pen, Place, Process, Slice, Track};
use crate::{Header, Inconsistent, WorldHeader};
use prost::Message;
use sched::Instant;
use std::io::{self, Write};

/// Number of the sequence of packets. A file has only one.
const SEQUENCE: u32 = 1;
/// The key of the field `packet` of the message `Trace`: number 1, with a length.
pub(super) const PACKET: u8 = 1 << 3 | 2;
/// Rank of the first process. Processes follow the CPUs of the same parent, whose ranks are below 2 × 1024.
const FIRST_PROCESS: usize = 1 << 20;

/// A writer of packets. The ids of tracks are the numbers of processes and tracks, which differ from each other.
#[derive(Debug)]
pub(super) struct ProtobufPen<W: Write> {
    output: Output<W>,
    bytes: Vec<u8>,
    next_track: u64,
    next_flow: u64,
}

impl<W: Write> ProtobufPen<W> {
    pub(super) fn new(to: W) -> ProtobufPen<W> {
        ProtobufPen { output: Output::new(to), bytes: Vec::new(), next_track: FIRST_TRACK, next_flow: 1 }
    }

    /// Completes the file.
    pub(super) fn finish(self) -> io::Result<W> {
        self.output.finish()
    }

    fn packet(&mut self, timestamp: Option<u64>, data: Data) {
        let packet = TracePacket { timestamp, trusted_packet_sequence_id: Some(SEQUENCE), data: Some(data) };
        self.bytes.clear();
        self.bytes.push(PACKET);
        packet.encode_length_delimited(&mut self.bytes).expect("a vector has room");
        self.output.write(&self.bytes);
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) {
        // Tracks with one name are distinct: entities and guests may share a name.
        let sibling_merge_behavior = Some(SiblingMerge::None.into());
        let child_ordering = Some(ChildOrdering::Explicit.into());
        let descriptor = TrackDescriptor { sibling_merge_behavior, child_ordering, ..descriptor };
        self.packet(None, Data::TrackDescriptor(descriptor));
    }

    fn event(&mut self, at: Instant, track: u64, kind: EventType, event: TrackEvent) {
        let event = TrackEvent { kind: Some(kind.into()), track_uuid: Some(track), ..event };
        self.packet(Some(at.as_ns()), Data::TrackEvent(event));
    }
}

impl<W: Write> Pen for ProtobufPen<W> {
    // The descriptions of the machines' tracks have the headers.
    fn begin(&mut self, _header: &WorldHeader) {}

    fn process(&mut self, &Process { number, name, rank, parent, header }: &Process<'_>) {
        self.descriptor(TrackDescriptor {
            uuid: Some(number.into()),
            parent_uuid: parent.map(u64::from),
            name: Some(name.to_string()),
            description: header.map(description),
            sibling_order_rank: i32::try_from(FIRST_PROCESS + rank).ok(),
            ..TrackDescriptor::default()
        });
    }

    fn track(&mut self, &Track { place, name, rank, parent }: &Track<'_>) {
        self.descriptor(TrackDescriptor {
            uuid: Some(place.track),
            parent_uuid: Some(parent.unwrap_or(place.process.into())),
            name: Some(name.to_string()),
            sibling_order_rank: Some(i32::try_from(rank).unwrap_or(i32::MAX)),
            ..TrackDescriptor::default()
        });
    }

    fn next_track(&mut self) -> u64 {
        self.next_track += 1;
        self.next_track - 1
    }

    fn slice(&mut self, place: Place, &Slice { name, category, span, args, woken, .. }: &Slice<'_>) {
        let mut terminating_flow_ids = Vec::new();
        if let Some((from, at)) = woken {
            let flow_ids = vec![self.next_flow];
            terminating_flow_ids.clone_from(&flow_ids);
            self.next_flow += 1;
            let wake = TrackEvent { flow_ids, ..named("wake-up", "wake", &[]) };
            self.event(at, from.track, EventType::Instant, wake);
        }
        let begin = TrackEvent { terminating_flow_ids, ..named(name, category, args) };
        self.event(span.from, place.track, EventType::SliceBegin, begin);
        self.event(span.to, place.track, EventType::SliceEnd, TrackEvent::default());
    }

    fn instant(&mut self, place: Place, name: &str, at: Instant, args: Args<'_>) {
        self.event(at, place.track, EventType::Instant, named(name, "job", args));
    }

    fn counter(&mut self, of: Place, _owner: &str, counter: Counter) -> u64 {
        let track = self.next_track();
        let (unit, unit_name) = if counter.is_time() {
            (Some(Unit::TimeNs.into()), None)
        } else {
            (None, Some(counter.name().to_string()))
        };
        self.descriptor(TrackDescriptor {
            uuid: Some(track),
            parent_uuid: Some(of.track),
            name: Some(counter.name().to_string()),
            counter: Some(CounterDescriptor { unit, unit_name }),
            sibling_order_rank: Some(0),
            ..TrackDescriptor::default()
        });
        track
    }

    fn count(&mut self, place: Place, _owner: &str, _counter: Counter, at: Instant, value: i64) {
        let event = TrackEvent { counter_value: Some(value), ..TrackEvent::default() };
        self.event(at, place.track, EventType::Counter, event);
    }

    fn fail(&mut self, error: Inconsistent) {
        self.output.fail(io::Error::new(io::ErrorKind::InvalidData, error));
    }

    fn has_failed(&self) -> bool {
        self.output.has_failed()
    }
}

/// Returns the description of a machine.
fn description(Header { policy, cpus, seed }: &Header) -> String {
    format!("policy {policy}, CPUs: {cpus}, seed {seed}")
}

/// Returns an event with this name, category and details.
fn named(name: &str, category: &str, args: Args<'_>) -> TrackEvent {
    let annotation = |&(name, arg): &(&str, Arg<'_>)| {
        let value = match arg {
            Arg::Number(number) => Value::Uint(number),
            Arg::Truth(truth) => Value::Bool(truth),
            Arg::Text(text) => Value::String(text.to_string()),
        };
        DebugAnnotation { name: Some(name.to_string()), value: Some(value) }
    };
    TrackEvent {
        name: Some(name.to_string()),
        categories: vec![category.to_string()],
        debug_annotations: args.iter().map(annotation).collect(),
        ..TrackEvent::default()
    }
}
