"""Checks a trace against Perfetto's published schema: every field is known, slices nest, times of a
track do not go back, the tracks of channels have so many I/Os, and there is a track of this name.

usage: check.py TRACE IOS TRACK
"""

import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def known(message):
    """Whether the schema knows all fields of a message and of those in it."""
    if len(UnknownFieldSet(message)):
        return False
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            repeated = hasattr(value, "__len__")
            if not all(known(inner) for inner in (value if repeated else [value])):
                return False
    return True


def main(path, expected, inside):
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    tracks, names, begun, last, ios, counters, flows = {}, {}, {}, {}, 0, 0, {}
    for packet in trace.packet:
        assert known(packet), f"unknown fields in {packet}"
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert not track.parent_uuid or track.parent_uuid in tracks, "a parent comes first"
            tracks[track.uuid] = track.name or track.process.process_name
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert last.get(event.track_uuid, 0) <= packet.timestamp, "time goes back on a track"
        last[event.track_uuid] = packet.timestamp
        stack = begun.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            ios += not stack and tracks[event.track_uuid].startswith("channel")
            stack.append(names[event.name_iid])
            for flow in [*event.flow_ids, *event.terminating_flow_ids]:
                flows[flow] = flows.get(flow, 0) + 1
        elif event.type == event.TYPE_SLICE_END:
            stack.pop()
        else:
            counters += event.type == event.TYPE_COUNTER
    assert not any(begun.values()), "slices without an end"
    assert ios == expected, f"expected {expected} I/Os on channels, found {ios}"
    assert inside in tracks.values() and counters > 0, f"no {inside} in {set(tracks.values())}"
    assert flows and all(count >= 2 for count in flows.values()), "a flow has two ends"


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
