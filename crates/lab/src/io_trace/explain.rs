//! Where the time of I/Os went, by the percentile of their latency.
use super::Traced;
use super::inside::Inside;
use super::lives::{Life, Stage};
use serde_json::{Map, Value, json};
use zonal_blk::Op;

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
    let inside = Inside::new(traced);
    let mut rows = Vec::new();
    for (kind, op) in [("read", Op::Read), ("write", Op::Write), ("append", Op::ZoneAppend)] {
        let mut lives: Vec<&Life> = traced.lives.iter().filter(|life| life.op == op).collect();
        lives.sort_by_key(|life| (life.latency(), life.id));
        for (percentile, part) in PERCENTILES {
            let around = around(lives.len(), part);
            // Too few I/Os to tell this percentile from the largest.
            if (1.0 - part) * lives.len() as f64 >= 1.0 {
                let latency = lives[rank(lives.len(), part)].latency().0;
                let parts = mean_parts(&lives[around.clone()], &inside);
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

fn mean_parts(lives: &[&Life], inside: &Inside<'_>) -> Vec<(&'static str, u64)> {
    let mut sums: Vec<(&'static str, u64)> = Stage::ALL.map(|stage| (stage.name(), 0)).to_vec();
    let device = Stage::ALL.len() - 1;
    let mut parts: Vec<(&'static str, u64)> =
        inside.parts().iter().map(|&part| (part, 0)).collect();
    for life in lives {
        for (stage, from, to) in life.stages() {
            sums[stage as usize].1 += (to - from).0;
            if stage == Stage::Device {
                let times = inside.during(life, from, to);
                parts.iter_mut().zip(times).for_each(|((_, sum), time)| *sum += time);
            }
        }
    }
    if !parts.is_empty() {
        sums[device].1 -= parts.iter().map(|(_, sum)| sum).sum::<u64>();
        sums[device].0 = "device_other";
        sums.splice(device..device, parts);
    }
    let count = lives.len().max(1) as u64;
    sums.iter_mut().for_each(|(_, sum)| *sum /= count);
    sums
}
