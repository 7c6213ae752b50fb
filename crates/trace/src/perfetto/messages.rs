//! The messages of Perfetto's format that the writer uses. The field numbers are those of `perfetto_trace.proto` in the
//! package `perfetto` 0.59.1 on PyPI. Fields that the writer does not use are omitted.

use prost::{Enumeration, Message, Oneof};

/// One packet of a trace: an event, or the description of a track.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    /// Nanoseconds on the clock of the trace.
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(oneof = "Data", tags = "11, 60")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "14")]
    pub(super) description: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(enumeration = "ChildOrdering", optional, tag = "11")]
    pub(super) child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub(super) sibling_order_rank: Option<i32>,
    #[prost(enumeration = "SiblingMerge", optional, tag = "15")]
    pub(super) sibling_merge_behavior: Option<i32>,
}

/// The order of the tracks below a track.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Enumeration)]
#[repr(i32)]
pub(super) enum ChildOrdering {
    Unknown = 0,
    /// By `sibling_order_rank`.
    Explicit = 3,
}

/// Whether a viewer joins tracks with one parent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Enumeration)]
#[repr(i32)]
pub(super) enum SiblingMerge {
    Unspecified = 0,
    None = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(enumeration = "Unit", optional, tag = "3")]
    pub(super) unit: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) unit_name: Option<String>,
}

/// The unit of a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Enumeration)]
#[repr(i32)]
pub(super) enum Unit {
    Unspecified = 0,
    TimeNs = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
    /// Flows that begin at this event, or pass through it.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    /// Flows that end at this event.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

/// The type of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Enumeration)]
#[repr(i32)]
pub(super) enum EventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// A detail of an event.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(oneof = "Value", tags = "2, 3, 6")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(uint64, tag = "3")]
    Uint(u64),
    #[prost(string, tag = "6")]
    String(String),
}
