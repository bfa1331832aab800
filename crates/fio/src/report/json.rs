//! fio's `json` and `json+` formats.
//!
//! Takes: a summary. Gives: the text of the [tree](super::json_tree). Keeps true: numbers that are
//! fractions in fio's output always have a point, so that readers see the same types.
use super::Report;
use super::date::ctime;
use super::json_tree::{DirCounts, Direction, Job, Latency, Map, Root, Sync, Zonal, ZonalJob};
use super::summary::{
    Entry, GroupDir, MIN_BAND_PERCENT, MIN_DEPTH_PERCENT, Summary, msec, percents,
};
use crate::job::DataDir;
use crate::stats::{
    BATCH_LABELS, DEPTH_LABELS, Histogram, LatStat, MSEC_LABELS, NSEC_LABELS, PERCENTILES,
    USEC_LABELS,
};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io;

/// The whole JSON text. `bins` adds the histograms (`json+`).
pub(super) fn render(report: &Report<'_>, summary: &Summary<'_>, bins: bool) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Layout::default());
    let root = root(report, summary, bins);
    root.serialize(&mut serializer).expect("a tree with text keys is always JSON");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}

fn root(report: &Report<'_>, summary: &Summary<'_>, bins: bool) -> Root {
    let timestamp_ms = report.timestamp_ms.unwrap_or(0);
    Root {
        version: report.version.clone(),
        timestamp: timestamp_ms / 1000,
        timestamp_ms,
        time: ctime(timestamp_ms / 1000),
        global_options: Map(report.global_options.clone()),
        jobs: summary.entries.iter().map(|entry| job(summary, entry, bins)).collect(),
        disk_util: [],
        zonal: Zonal {
            device: report.device.clone(),
            clock: report.clock.to_owned(),
            policy: report.policy.clone(),
            seed: report.seed,
            jobs: summary.entries.iter().map(zonal_job).collect(),
            extra: Map(report.extra.clone()),
        },
    }
}

fn zonal_job(entry: &Entry<'_>) -> ZonalJob {
    let by_status = entry.stats.errors().by_status().iter();
    let errors = by_status.map(|&(status, [read, write, trim])| {
        (status.to_string(), DirCounts { read, write, trim })
    });
    ZonalJob {
        jobname: entry.head.job.name.clone(),
        zone_resets: entry.stats.zone_reset_count(),
        errors: Map(errors.collect()),
    }
}

fn job(summary: &Summary<'_>, entry: &Entry<'_>, bins: bool) -> Job {
    let (head, stats) = (entry.head, &entry.stats);
    let (usage, errors, bands) = (stats.usage(), stats.errors(), stats.latency_bands());
    let (usr_cpu, sys_cpu) = entry.cpu_percent();
    let dir = |dir| direction(entry, dir, summary.group_dir(entry, dir), bins);
    let band = |labels: &[&str], counts: &[u64]| {
        shares(labels, &percents(counts, bands.total(), MIN_BAND_PERCENT))
    };
    let level = |labels: &[&str], counts: &[u64; 7]| {
        shares(labels, &percents(counts, counts.iter().sum(), MIN_DEPTH_PERCENT))
    };
    Job {
        jobname: head.job.name.clone(),
        groupid: head.groupid,
        error: entry.errno(),
        eta: entry.eta,
        elapsed: entry.elapsed,
        job_options: Map(head.job.given.clone()),
        read: dir(DataDir::Read),
        write: dir(DataDir::Write),
        trim: dir(DataDir::Trim),
        sync: stats.syncs().map_or_else(Sync::default, |sync| Sync {
            total_ios: sync.lat.count(),
            lat_ns: with_histogram(&sync.lat, &sync.histogram, bins),
        }),
        job_runtime: msec(stats.elapsed()),
        usr_cpu,
        sys_cpu,
        ctx: usage.context_switches,
        majf: usage.major_faults,
        minf: usage.minor_faults,
        iodepth_level: level(&DEPTH_LABELS, stats.depth_levels().counts()),
        iodepth_submit: level(&BATCH_LABELS, stats.submit_sizes().counts()),
        iodepth_complete: level(&BATCH_LABELS, stats.complete_sizes().counts()),
        latency_ns: band(&NSEC_LABELS, bands.nsec()),
        latency_us: band(&USEC_LABELS, bands.usec()),
        latency_ms: band(&MSEC_LABELS, bands.msec()),
        latency_depth: head.job.iodepth,
        latency_target: 0,
        latency_percentile: 100.0,
        latency_window: 0,
        total_err: errors.first().map(|_| errors.total()),
        first_error: errors.first().map(|status| status.errno()),
        desc: Some(head.job.description.clone()).filter(|text| !text.is_empty()),
    }
}

fn direction(entry: &Entry<'_>, dir: DataDir, group: &GroupDir, bins: bool) -> Direction {
    let stats = &entry.stats;
    let (bandwidth, iops) = (stats.bandwidth_samples(dir), stats.iops_samples(dir));
    Direction {
        io_bytes: stats.bytes(dir),
        io_kbytes: stats.bytes(dir) / 1024,
        bw_bytes: stats.bytes_per_second(dir),
        bw: stats.bytes_per_second(dir) / 1024,
        iops: stats.ios_per_second(dir),
        runtime: msec(stats.runtime(dir)),
        total_ios: stats.ios(dir),
        short_ios: 0,
        drop_ios: 0,
        slat_ns: latency(stats.slat(dir)),
        clat_ns: with_histogram(stats.clat(dir), stats.clat_histogram(dir), bins),
        lat_ns: latency(stats.lat(dir)),
        bw_min: bandwidth.min(),
        bw_max: bandwidth.max(),
        bw_agg: entry.percent_of_group(dir, group),
        bw_mean: bandwidth.mean(),
        bw_dev: bandwidth.stddev(),
        bw_samples: bandwidth.count(),
        iops_min: iops.min(),
        iops_max: iops.max(),
        iops_mean: iops.mean(),
        iops_stddev: iops.stddev(),
        iops_samples: iops.count(),
    }
}

fn latency(stat: &LatStat) -> Latency {
    Latency {
        min: stat.min(),
        max: stat.max(),
        mean: stat.mean(),
        stddev: stat.stddev(),
        count: stat.count(),
        ..Latency::default()
    }
}

/// As [`latency`], with percentiles and, if asked for, bins; fio leaves out empty ones.
fn with_histogram(stat: &LatStat, histogram: &Histogram, bins: bool) -> Latency {
    let mut latency = latency(stat);
    if stat.count() > 0 {
        let values = histogram.percentiles(&PERCENTILES);
        let keys = PERCENTILES.iter().map(|percent| format!("{percent:.6}"));
        latency.percentile = Map(keys.zip(values).collect());
    }
    if bins {
        latency.bins = Map(histogram.bins().map(|(ns, count)| (ns.to_string(), count)).collect());
    }
    latency
}

fn shares(labels: &[&str], percents: &[f64]) -> Map<f64> {
    Map(labels.iter().map(|&label| label.to_owned()).zip(percents.iter().copied()).collect())
}

/// fio's way to write JSON: a space before the colon, six decimals.
#[derive(Default)]
struct Layout(PrettyFormatter<'static>);

impl Formatter for Layout {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value:.6}")
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}
