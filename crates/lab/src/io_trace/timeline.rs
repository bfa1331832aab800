//! Traces as trace viewers show them: tracks of slices, and counters.
//!
//! Slices of a track may overlap, for instance I/Os of one thread; they are laid out in lanes, in
//! which they do not.
use super::lives::{self, Issued, Life};
use super::{FlashEntry, HeadEntry, Traced};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use zonal_blk::{Nanos, Op, Status};
use zonal_device::hdd::HeadActivity;

/// A device.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) tracks: Vec<Track>,
    pub(super) counters: Vec<Counter>,
}

/// The activities of one channel, hardware queue, zone, head or die.
pub(super) struct Track {
    pub(super) name: String,
    /// Slices of a lane follow one another.
    pub(super) lanes: Vec<Vec<Slice>>,
}

/// A time in which something lasts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) name: &'static str,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) args: Vec<(&'static str, Arg)>,
    /// Its parts, in order.
    pub(super) parts: Vec<(&'static str, Nanos, Nanos)>,
    /// Links it to others of the same number.
    pub(super) flow: Option<Flow>,
}

/// A link between slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// It begins or goes on here.
    From(u64),
    /// It ends here.
    To(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arg {
    Number(u64),
    Text(String),
}

/// A value over time.
pub(super) struct Counter {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) values: Vec<(Nanos, f64)>,
}

/// The tracks of all devices, and one that says from when on the trace is not whole.
pub(super) fn of(traced: &[Traced], full_at: Option<Nanos>) -> Vec<Process> {
    let devices = (0..).zip(traced).map(|(number, traced)| process(number, traced));
    devices.chain(full_at.map(|from| missing(from, traced))).collect()
}

/// The time from which on there was no memory for events.
fn missing(from: Nanos, traced: &[Traced]) -> Process {
    let lives = traced.iter().flat_map(|traced| &traced.lives);
    let to = lives.map(|life| life.completed).fold(from, Nanos::max);
    let name = "the memory for events was full: what followed is missing";
    let slice = Slice { name, from, to, args: Vec::new(), parts: Vec::new(), flow: None };
    let track = Track { name: "not whole".to_owned(), lanes: vec![vec![slice]] };
    Process { name: "trace".to_owned(), tracks: vec![track], counters: Vec::new() }
}

fn process(number: u64, traced: &Traced) -> Process {
    // Numbers of requests are unique within a device only.
    let unique = |id: u64| number << 56 | id;
    let lives = &traced.lives;
    let mut channels: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    let mut hw_queues: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    let mut zones: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    for life in lives {
        channels.entry(life.channel).or_default().push(io(life, unique));
        if let Some((hw_queue, command)) = command(life, unique) {
            hw_queues.entry(hw_queue).or_default().push(command.clone());
            if life.op != Op::Flush {
                let flow = Some(Flow::To(unique(life.id)));
                zones.entry(life.zone.0).or_default().push(Slice { flow, ..command });
            }
        }
    }
    let named = |kind: &'static str| {
        move |(number, slices): (u32, Vec<Slice>)| Track {
            name: format!("{kind} {number}"),
            lanes: lanes(slices),
        }
    };
    let mut tracks: Vec<Track> = channels.into_iter().map(named("channel")).collect();
    tracks.extend(hw_queues.into_iter().map(named("hctx")));
    tracks.extend(zones.into_iter().map(named("zone")));
    let mut counters: Vec<Counter> = plugs(lives);
    if !traced.heads.is_empty() {
        tracks.push(Track { name: "head".to_owned(), lanes: vec![head(&traced.heads)] });
        counters.extend(head_counters(&traced.heads));
    }
    tracks.extend(flash(&traced.flash));
    Process { name: traced.name.clone(), tracks, counters }
}

/// An I/O, for the track of its channel.
fn io(life: &Life, unique: impl Fn(u64) -> u64) -> Slice {
    let mut args = vec![
        ("zone", Arg::Number(life.zone.0.into())),
        ("sector", Arg::Number(life.sector.0)),
        ("sectors", Arg::Number(life.nr_sectors.into())),
    ];
    if life.status != Status::Ok {
        args.push(("status", Arg::Text(life.status.to_string())));
    }
    let flow = match life.issued.map(|issue| issue.how) {
        Some(Issued::Alone { .. }) => Some(Flow::From(unique(life.id))),
        Some(Issued::Merged { into }) => {
            args.push(("merged", Arg::Text("yes".to_owned())));
            (into != 0).then(|| Flow::From(unique(into)))
        }
        None => None,
    };
    let parts = life.stages().map(|(stage, from, to)| (stage.name(), from, to)).collect();
    Slice { name: life.op.info().name, from: life.queued, to: life.completed, args, parts, flow }
}

/// The command that an I/O was issued as, for the tracks of its hardware queue and its zone.
fn command(life: &Life, unique: impl Fn(u64) -> u64) -> Option<(u32, Slice)> {
    let issue = life.issued?;
    let Issued::Alone { hw_queue, tag, nr_sectors } = issue.how else { return None };
    let args = vec![
        ("zone", Arg::Number(life.zone.0.into())),
        ("sector", Arg::Number(life.sector.0)),
        ("sectors", Arg::Number(nr_sectors.into())),
        ("tag", Arg::Number(tag.0.into())),
    ];
    let flow = Some(Flow::From(unique(life.id)));
    let (from, to) = (issue.at, life.completed);
    Some((hw_queue, Slice { name: life.op.info().name, from, to, args, parts: Vec::new(), flow }))
}

/// Lays slices out in as few lanes as they need.
fn lanes(mut slices: Vec<Slice>) -> Vec<Vec<Slice>> {
    slices.sort_by_key(|slice| slice.from);
    let mut lanes: Vec<Vec<Slice>> = Vec::new();
    // Lanes by the end of their last slice.
    let mut ends: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    for slice in slices {
        let lane = match ends.peek() {
            Some(&Reverse((end, lane))) if end <= slice.from => {
                ends.pop();
                lane
            }
            _ => {
                lanes.push(Vec::new());
                lanes.len() - 1
            }
        };
        ends.push(Reverse((slice.to, lane)));
        lanes[lane].push(slice);
    }
    lanes
}

/// The head's activity until its next activity; the last one has no end.
fn head(entries: &[HeadEntry]) -> Vec<Slice> {
    let slice = |pair: &[HeadEntry]| {
        let (entry, next) = (&pair[0], &pair[1]);
        let lasts = entry.activity != HeadActivity::Idle && next.at > entry.at;
        lasts.then(|| Slice {
            name: entry.activity.name(),
            from: entry.at,
            to: next.at,
            args: vec![("byte", Arg::Number(entry.byte))],
            parts: Vec::new(),
            flow: None,
        })
    };
    entries.windows(2).filter_map(slice).collect()
}

/// The activities of each die, and the writes that wait for space in the buffer.
fn flash(entries: &[FlashEntry]) -> Vec<Track> {
    let mut parts: BTreeMap<Option<u32>, Vec<Slice>> = BTreeMap::new();
    for FlashEntry { from, to, activity, die, zone, command: _ } in entries {
        let zone = zone.map(|zone| ("zone", Arg::Number(zone.0.into())));
        parts.entry(*die).or_default().push(Slice {
            name: activity.name(),
            from: *from,
            to: *to,
            args: zone.into_iter().collect(),
            parts: Vec::new(),
            flow: None,
        });
    }
    let track = |(die, slices): (Option<u32>, _)| Track {
        name: die.map_or_else(|| "write buffer".to_owned(), |die| format!("die {die}")),
        lanes: lanes(slices),
    };
    parts.into_iter().map(track).collect()
}

fn head_counters(entries: &[HeadEntry]) -> [Counter; 2] {
    let counter = |name: &str, unit, value: fn(&HeadEntry) -> f64| Counter {
        name: name.to_owned(),
        unit,
        values: entries.iter().map(|entry| (entry.at, value(entry))).collect(),
    };
    [
        counter("head position", "radius", |entry| entry.radius),
        counter("write buffer", "bytes", |entry| entry.buffered as f64),
    ]
}

/// The writes that wait in each plug.
fn plugs(lives: &[Life]) -> Vec<Counter> {
    let by_zone: BTreeMap<_, _> = lives::plugged(lives).into_iter().collect();
    let counter = |(zone, values): (zonal_blk::ZoneNo, Vec<(Nanos, u32)>)| Counter {
        name: format!("zone {zone} plug"),
        unit: "I/Os",
        values: values.into_iter().map(|(at, waiting)| (at, waiting.into())).collect(),
    };
    by_zone.into_iter().map(counter).collect()
}
