"""Reads a trace with the schema of Perfetto, which the package `perfetto` contains, and prints a summary as JSON.

Checks that the schema knows every field, that every event is on a described track, that the tracks are trees, that the
slices of each track nest, and that each flow leads from the instant of a wake-up to the start of a run.

The summary names a track by the names of the tracks from the root to the track, separated by " / ":

- tracks: the description of each track
- slices: for each track and name of slices, their number and total length in nanoseconds
- instants: for each track and name of instants, their number
- flows: for each flow the track and time of its wake-up, and the track, time and entity of its run
- counters: for each counter its unit, and its values as pairs of time and value, in order of time
"""

import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, Trace, TrackDescriptor, TrackEvent


def assert_known(message):
    """Asserts that the schema knows all fields of `message` and of the messages in it."""
    assert len(UnknownFieldSet(message)) == 0, message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                assert_known(part)


def paths(descriptors):
    """Returns the path of each track. Asserts that parents precede their children, and that no two tracks share a path."""
    found = {}
    for descriptor in descriptors:
        assert descriptor.uuid not in found, descriptor
        above = found[descriptor.parent_uuid] + " / " if descriptor.HasField("parent_uuid") else ""
        assert descriptor.sibling_merge_behavior == TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE, descriptor
        found[descriptor.uuid] = above + descriptor.name
    assert len(set(found.values())) == len(found), "two tracks have one path"
    return found


def events_in_order(packets, tracks):
    """Returns the events of each track, in order of time. Events of one time keep their order."""
    events = {uuid: [] for uuid in tracks}
    for packet in packets:
        assert packet.HasField("timestamp") and packet.trusted_packet_sequence_id == 1, packet
        events[packet.track_event.track_uuid].append((packet.timestamp, packet.track_event))
    for track in events.values():
        track.sort(key=lambda event: event[0])
    return events


def read_track(events, slices, instants, values, starts, ends):
    """Reads the events of one track. Asserts that its slices nest, and that every slice ends."""
    stack = []
    for at, event in events:
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.name and event.categories, event
            assert not stack, (stack, event)
            stack.append((at, event))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            begin, opened = stack.pop()
            assert at > begin, (begin, at, opened)
            count, total = slices.get(opened.name, (0, 0))
            slices[opened.name] = count + 1, total + at - begin
        elif event.type == TrackEvent.TYPE_INSTANT:
            assert event.name, event
            instants[event.name] = instants.get(event.name, 0) + 1
        else:
            assert event.type == TrackEvent.TYPE_COUNTER, event
            values.append((at, event.counter_value))
        for flow in event.flow_ids:
            assert flow not in starts and event.type == TrackEvent.TYPE_INSTANT and event.name == "wake-up", event
            starts[flow] = at
        for flow in event.terminating_flow_ids:
            assert flow not in ends and event.type == TrackEvent.TYPE_SLICE_BEGIN, event
            assert list(event.categories) == ["run"], event
            entities = [detail.string_value for detail in event.debug_annotations if detail.name == "entity"]
            ends[flow] = at, *entities
    assert not stack, ("a slice does not end", stack)


def read(path):
    with open(path, "rb") as file:
        trace = Trace.FromString(file.read())
    assert_known(trace)
    descriptors = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    tracks = paths(descriptors)
    packets = [packet for packet in trace.packet if packet.HasField("track_event")]
    assert len(packets) + len(descriptors) == len(trace.packet)
    slices, instants, counters, starts, ends = {}, {}, {}, {}, {}
    events = events_in_order(packets, tracks)
    for descriptor in descriptors:
        name = tracks[descriptor.uuid]
        own, values, from_here, to_here = {}, [], {}, {}
        slices[name] = {}
        read_track(events[descriptor.uuid], slices[name], own, values, from_here, to_here)
        instants[name] = own
        if descriptor.HasField("counter"):
            assert not slices[name] and not own, name
            unit = descriptor.counter.unit_name or CounterDescriptor.Unit.Name(descriptor.counter.unit)
            counters[name] = {"unit": unit, "values": values}
        else:
            assert not values, name
        for flows, here in [(starts, {flow: (name, at) for flow, at in from_here.items()}),
                            (ends, {flow: (name, *to) for flow, to in to_here.items()})]:
            assert not flows.keys() & here.keys(), "a flow has two starts or two ends"
            flows.update(here)
    assert starts.keys() == ends.keys(), "a flow lacks its start or its end"
    return {
        "tracks": {tracks[descriptor.uuid]: descriptor.description for descriptor in descriptors},
        "slices": slices,
        "instants": instants,
        "flows": [starts[flow] + ends[flow] for flow in starts],
        "counters": counters,
    }


print(json.dumps(read(sys.argv[1])))
