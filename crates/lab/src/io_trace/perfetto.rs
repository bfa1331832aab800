//! Perfetto's format: a sequence of packets (protos/perfetto/trace/perfetto_trace.proto). Each name
//! is written once and then has a number.
use super::timeline::{Arg, Counter, Flow, Process, Slice};
use anyhow::Result;
use prost::Message;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use zonal_blk::Nanos;

/// The sequence of all packets; numbers of names belong to it.
const SEQUENCE: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const CLEARED: u32 = 1;
const NEEDED: u32 = 2;

/// Writes a trace.
pub(super) fn write(path: &Path, processes: &[Process]) -> Result<()> {
    let mut out = Writer {
        file: BufWriter::new(zonal_os::output_file::create(path)?),
        tracks: 0,
        names: HashMap::new(),
        args: HashMap::new(),
    };
    out.packet(TracePacket { sequence_flags: Some(CLEARED), ..TracePacket::default() })?;
    for (pid, process) in (1..).zip(processes) {
        let parent = out.track(TrackDescriptor {
            process: Some(ProcessDescriptor {
                pid: Some(pid),
                process_name: Some(process.name.clone()),
            }),
            ..TrackDescriptor::default()
        })?;
        for track in &process.tracks {
            for lane in &track.lanes {
                let name = Some(track.name.clone());
                let track =
                    TrackDescriptor { parent_uuid: Some(parent), name, ..Default::default() };
                let track = out.track(track)?;
                lane.iter().try_for_each(|slice| out.slice(track, slice))?;
            }
        }
        process.counters.iter().try_for_each(|counter| out.counter(parent, counter))?;
    }
    Ok(out.file.flush()?)
}

struct Writer {
    file: BufWriter<File>,
    /// Tracks so far; they are numbered from 1.
    tracks: u64,
    /// Names of slices and of arguments with their numbers, which have been written.
    names: HashMap<&'static str, u64>,
    args: HashMap<&'static str, u64>,
}

impl Writer {
    fn packet(&mut self, packet: TracePacket) -> Result<()> {
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: packet.sequence_flags.or(Some(NEEDED)),
            ..packet
        };
        Ok(self.file.write_all(&Trace { packet: vec![packet] }.encode_to_vec())?)
    }

    fn track(&mut self, track: TrackDescriptor) -> Result<u64> {
        self.tracks += 1;
        let track_descriptor = Some(TrackDescriptor { uuid: Some(self.tracks), ..track });
        self.packet(TracePacket { track_descriptor, ..TracePacket::default() })?;
        Ok(self.tracks)
    }

    fn slice(&mut self, track: u64, slice: &Slice) -> Result<()> {
        let mut new = InternedData::default();
        let mut begin = self.begin(track, slice.name, &mut new);
        for (name, value) in &slice.args {
            let next = self.args.len() as u64 + 1;
            let name_iid = *self.args.entry(name).or_insert_with(|| {
                new.debug_annotation_names.push(Name::new(next, name));
                next
            });
            let mut annotation = DebugAnnotation { name_iid: Some(name_iid), ..Default::default() };
            match value {
                Arg::Number(number) => annotation.uint_value = Some(*number),
                Arg::Text(text) => annotation.string_value = Some(text.clone()),
            }
            begin.debug_annotations.push(annotation);
        }
        match slice.flow {
            Some(Flow::From(flow)) => begin.flow_ids.push(flow),
            Some(Flow::To(flow)) => begin.terminating_flow_ids.push(flow),
            None => {}
        }
        self.event(slice.from, begin, new)?;
        for (name, from, to) in &slice.parts {
            let mut new = InternedData::default();
            let begin = self.begin(track, name, &mut new);
            self.event(*from, begin, new)?;
            self.end(track, *to)?;
        }
        self.end(track, slice.to)
    }

    fn begin(&mut self, track: u64, name: &'static str, new: &mut InternedData) -> TrackEvent {
        let next = self.names.len() as u64 + 1;
        let name_iid = *self.names.entry(name).or_insert_with(|| {
            new.event_names.push(Name::new(next, name));
            next
        });
        TrackEvent {
            r#type: Some(EventType::SliceBegin as i32),
            track_uuid: Some(track),
            name_iid: Some(name_iid),
            ..TrackEvent::default()
        }
    }

    fn end(&mut self, track: u64, at: Nanos) -> Result<()> {
        let end = TrackEvent {
            r#type: Some(EventType::SliceEnd as i32),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        self.event(at, end, InternedData::default())
    }

    fn counter(&mut self, parent: u64, counter: &Counter) -> Result<()> {
        let track = self.track(TrackDescriptor {
            parent_uuid: Some(parent),
            name: Some(counter.name.clone()),
            counter: Some(CounterDescriptor { unit_name: Some(counter.unit.to_owned()) }),
            ..TrackDescriptor::default()
        })?;
        for &(at, value) in &counter.values {
            let event = TrackEvent {
                r#type: Some(EventType::Counter as i32),
                track_uuid: Some(track),
                double_counter_value: Some(value),
                ..TrackEvent::default()
            };
            self.event(at, event, InternedData::default())?;
        }
        Ok(())
    }

    fn event(&mut self, at: Nanos, event: TrackEvent, new: InternedData) -> Result<()> {
        let interned_data = (new != InternedData::default()).then_some(new);
        self.packet(TracePacket {
            timestamp: Some(at.0),
            track_event: Some(event),
            interned_data,
            ..TracePacket::default()
        })
    }
}

// What is used of Perfetto's messages, with their field numbers.

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<Name>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<Name>,
}

/// `EventName` and `DebugAnnotationName`, which have the same fields.
#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

impl Name {
    fn new(iid: u64, name: &str) -> Self {
        Name { iid: Some(iid), name: Some(name.to_owned()) }
    }
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    unit_name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum EventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Counter = 4,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "EventType", optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(double, optional, tag = "44")]
    double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
}
