//! Where the time of I/Os went, by the percentile of their latency.
use super::Traced;
use super::lives::{Life, Stage};
use serde_json::{Map, Value, json};
use zonal_blk::{Nanos, Op};
use zonal_device::hdd::HeadActivity;

/// The percentiles that are explained.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// I/Os around a percentile: at most this part of all on each side.
const AROUND: f64 = 0.005;

/// The I/Os of a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Explained {
    /// The device's name.
    device: String,
    /// By kind of I/O and percentile.
    rows: Vec<Row>,
}

/// I/Os of one kind around a percentile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// `read`, `write` or `append`.
    pub(super) kind: &'static str,
    /// The percentile's name.
    pub(super) percentile: &'static str,
    /// How many I/Os the means are of.
    pub(super) ios: usize,
    /// From submission to completion, in nanoseconds: the percentile.
    pub(super) latency: u64,
    /// The mean time of each part, in nanoseconds.
    pub(super) parts: Vec<(&'static str, u64)>,
}

impl Explained {
    #[cfg(test)]
    pub(super) fn new(device: &str, rows: Vec<Row>) -> Self {
        Explained { device: device.to_owned(), rows }
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// As a section of a report.
    pub(super) fn section(&self) -> Value {
        let mut section = Map::new();
        section.insert("device".to_owned(), self.device.as_str().into());
        for row in &self.rows {
            let mut of = json!({"ios": row.ios, "lat_ns": row.latency});
            for (part, nanos) in &row.parts {
                of[format!("{part}_ns")] = (*nanos).into();
            }
            section.insert(format!("{} {}", row.kind, row.percentile), of);
        }
        section.into()
    }
}

/// Explains what was traced of a device.
pub(super) fn of(traced: &Traced) -> Explained {
    let head = Head::new(traced);
    let mut rows = Vec::new();
    for (kind, op) in [("read", Op::Read), ("write", Op::Write), ("append", Op::ZoneAppend)] {
        let mut lives: Vec<&Life> = traced.lives.iter().filter(|life| life.op == op).collect();
        lives.sort_by_key(|life| (life.latency(), life.id));
        for (percentile, part) in PERCENTILES {
            let around = around(lives.len(), part);
            // Too few I/Os to tell this percentile from the largest.
            if (1.0 - part) * lives.len() as f64 >= 1.0 {
                let latency = lives[rank(lives.len(), part)].latency().0;
                let parts = mean_parts(&lives[around.clone()], head.as_ref());
                rows.push(Row { kind, percentile, ios: around.len(), latency, parts });
            }
        }
    }
    Explained { device: traced.name.clone(), rows }
}

/// The rank of a percentile, from 0 (the "nearest rank").
fn rank(count: usize, part: f64) -> usize {
    ((count as f64 * part).ceil() as usize).clamp(1, count.max(1)) - 1
}

/// The ranks around a percentile: symmetrical, and no more on each side than half of what lies above.
fn around(count: usize, part: f64) -> std::ops::Range<usize> {
    if count == 0 {
        return 0..0;
    }
    let width = (AROUND.min((1.0 - part) / 2.0) * count as f64) as usize;
    let rank = rank(count, part);
    rank.saturating_sub(width)..(rank + width + 1).min(count)
}

fn mean_parts(lives: &[&Life], head: Option<&Head<'_>>) -> Vec<(&'static str, u64)> {
    let mut sums: Vec<(&'static str, u64)> = Stage::ALL.map(|stage| (stage.name(), 0)).to_vec();
    let device = Stage::ALL.len() - 1;
    let mut of_head = [0; Head::ACTIVITIES.len()];
    for life in lives {
        for (stage, from, to) in life.stages() {
            sums[stage as usize].1 += (to - from).0;
            if let (Stage::Device, Some(head)) = (stage, head) {
                head.during(from, to).iter().zip(&mut of_head).for_each(|(time, sum)| *sum += time);
            }
        }
    }
    if head.is_some() {
        // What the head did while the I/O was with the device, for this one or for another.
        sums[device].1 -= of_head.iter().sum::<u64>();
        sums[device].0 = "device_other";
        let names = Head::ACTIVITIES.map(HeadActivity::name);
        sums.splice(device..device, names.into_iter().zip(of_head));
    }
    let count = lives.len().max(1) as u64;
    sums.iter_mut().for_each(|(_, sum)| *sum /= count);
    sums
}

/// What the head did, and how long so far.
struct Head<'a> {
    entries: &'a [super::HeadEntry],
    /// Before each entry: the time of each activity.
    before: Vec<[u64; 3]>,
}

impl<'a> Head<'a> {
    const ACTIVITIES: [HeadActivity; 3] =
        [HeadActivity::Seek, HeadActivity::Rotate, HeadActivity::Transfer];

    fn new(traced: &'a Traced) -> Option<Self> {
        let entries = &traced.heads[..];
        let mut sums = [0; 3];
        let mut before = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            before.push(sums);
            if let Some(next) = entries.get(at + 1) {
                add(&mut sums, entry.activity, next.at - entry.at);
            }
        }
        (!entries.is_empty()).then_some(Head { entries, before })
    }

    /// The time of each activity from `from` to `to`.
    fn during(&self, from: Nanos, to: Nanos) -> [u64; 3] {
        let (until, since) = (self.until(to), self.until(from));
        std::array::from_fn(|at| until[at] - since[at])
    }

    /// The time of each activity until `time`.
    fn until(&self, time: Nanos) -> [u64; 3] {
        let next = self.entries.partition_point(|entry| entry.at <= time);
        let Some(current) = next.checked_sub(1) else { return [0; 3] };
        let mut sums = self.before[current];
        // The end of the last activity is not known.
        if next < self.entries.len() {
            let entry = &self.entries[current];
            add(&mut sums, entry.activity, time - entry.at);
        }
        sums
    }
}

fn add(sums: &mut [u64; 3], activity: HeadActivity, time: Nanos) {
    if let Some(at) = Head::ACTIVITIES.iter().position(|&it| it == activity) {
        sums[at] += time.0;
    }
}
