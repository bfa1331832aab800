//! fio's `json` and `json+` formats: field names, nesting and order of fio 3.33, with Zonal's own
//! values under `zonal`.
use super::summary::{
    DirStats, Entry, MIN_BAND_PERCENT, MIN_DEPTH_PERCENT, Shown, Summary, msec, percents,
};
use super::units::ctime;
use super::{DiskUtil, Report};
use crate::job::{ReportOptions, SteadyCriterion, ZoneMode};
use crate::stats::SteadyState;
use crate::stats::{
    BATCH_LABELS, DEPTH_LABELS, Histogram, LatStat, MSEC_LABELS, NSEC_LABELS, PrioStats,
    USEC_LABELS,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io;
use zonal_blk::Status;

/// Renders the JSON text. `bins` adds the histograms (`json+`).
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
    let started_ms = report.started_ms.unwrap_or(0);
    Root {
        version: report.version.clone(),
        timestamp: timestamp_ms / 1000,
        timestamp_ms,
        time: ctime(timestamp_ms / 1000),
        global_options: Map(report.global_options.clone()),
        jobs: summary.entries.iter().map(|entry| job(summary, entry, started_ms, bins)).collect(),
        disk_util: report.disk_util.clone(),
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

fn job(summary: &Summary<'_>, entry: &Entry<'_>, started_ms: u64, bins: bool) -> Job {
    let (head, stats) = (entry.head, &entry.stats);
    let (usage, errors, bands) = (stats.usage(), stats.errors(), stats.latency_bands());
    let (usr_cpu, sys_cpu) = entry.cpu_percent();
    let options = &head.job.report;
    let dirs = Shown::of(head.job).into_iter().map(|shown| {
        (shown.name().to_owned(), direction(summary.dir(entry, shown), options, bins))
    });
    let mut dirs: Vec<_> = dirs.collect();
    let mixed = dirs.pop_if(|(name, _)| name == Shown::Mixed.name());
    let sync = || {
        stats.syncs().map_or_else(Sync::default, |sync| Sync {
            total_ios: sync.lat.count(),
            lat_ns: with_histogram(&sync.lat, Some(&sync.histogram), options, bins),
        })
    };
    let counts_errors = head.job.errors.goes_on() || errors.first().is_some();
    let band = |labels: &[&str], counts: &[u64]| {
        shares(labels, &percents(counts, bands.total(), MIN_BAND_PERCENT))
    };
    let level = |labels: &[&str], counts: &[u64; 7]| {
        shares(labels, &percents(counts, counts.iter().sum(), MIN_DEPTH_PERCENT))
    };
    Job {
        jobname: head.job.name.clone(),
        groupid: head.groupid,
        job_start: started_ms + stats.begun().map_or(0, |begun| begun.0 / 1_000_000),
        error: entry.errno(),
        eta: entry.eta,
        elapsed: entry.elapsed,
        job_options: Map(head.job.own_options.clone()),
        sync: (!dirs.is_empty()).then(sync),
        dirs: Map(dirs),
        mixed: Map(mixed.into_iter().collect()),
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
        latency_depth: stats.latency_depth().unwrap_or(head.job.iodepth),
        latency_target: head.job.limits.latency.target.0,
        latency_percentile: head.job.limits.latency.percentile,
        latency_window: head.job.limits.latency.window.0 / 1000,
        total_err: counts_errors.then(|| errors.total()),
        first_error: counts_errors.then(|| errors.first().map_or(0, Status::errno)),
        desc: Some(head.job.description.clone()).filter(|text| !text.is_empty()),
        steadystate: stats.steady().map(steady),
        zone_resets: (head.job.zonemode == ZoneMode::Zbd).then(|| stats.zone_reset_count()),
    }
}

fn steady(steady: &SteadyState) -> Steady {
    let SteadyCriterion { iops, slope, limit, percent } = steady.criterion;
    let what = if iops { "iops" } else { "bw" };
    let (slope, unit) = (if slope { "_slope" } else { "" }, if percent { "%" } else { "" });
    let (iops_mean, bw_mean) = steady.means();
    let (iops, bw) = steady.measured.iter().copied().unzip();
    Steady {
        ss: format!("{what}{slope}:{limit:.6}{unit}"),
        duration: steady.window,
        attained: steady.is_attained.into(),
        criterion: format!("{:.6}{unit}", steady.value),
        max_deviation: steady.max_deviation,
        slope: steady.slope,
        data: SteadyData { bw_mean, iops_mean, iops, bw },
    }
}

fn direction(of: DirStats<'_>, options: &ReportOptions, bins: bool) -> Direction {
    let DirStats { stats, dir, .. } = of;
    let slat_histogram = stats.slat_histogram(dir).filter(|_| options.slat_percentiles);
    let clat_histogram = Some(stats.clat_histogram(dir)).filter(|_| options.clat_percentiles);
    let lat_histogram = stats.lat_histogram(dir).filter(|_| options.lat_percentiles);
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
        slat_ns: with_histogram(stats.slat(dir), slat_histogram, options, bins),
        clat_ns: with_histogram(stats.clat(dir), clat_histogram, options, bins),
        lat_ns: with_histogram(stats.lat(dir), lat_histogram, options, bins),
        prios: stats.prios(dir).into_iter().map(|it| prio(it, options, bins)).collect(),
        bw_min: bandwidth.min(),
        bw_max: bandwidth.max(),
        bw_agg: of.percent_of_group(),
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

fn prio(
    (prioclass, prio, stats): (u16, u16, &PrioStats),
    options: &ReportOptions,
    bins: bool,
) -> OfPrio {
    let histogram = Some(&stats.histogram);
    // No device here has command duration limits, which hints choose.
    let priohint = 0;
    let clat_ns = with_histogram(&stats.clat, histogram, options, bins);
    OfPrio { prioclass, prio, priohint, clat_ns }
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

/// As [`latency`], with percentiles and, with `bins`, the non-empty bins.
fn with_histogram(
    stat: &LatStat,
    histogram: Option<&Histogram>,
    options: &ReportOptions,
    bins: bool,
) -> Latency {
    let mut latency = latency(stat);
    let Some(histogram) = histogram else { return latency };
    if stat.count() > 0 {
        let values = histogram.percentiles(&options.percentiles);
        let keys = options.percentiles.iter().map(|percent| format!("{percent:.6}"));
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

/// fio's JSON style: a space before the colon, six decimals. Fractions always have a point, so that
/// readers see the same types.
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

/// An object whose keys are known only at run time, in the order given.
#[derive(Clone, Debug, Default)]
struct Map<V>(Vec<(String, V)>);

impl<V> Map<V> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

/// The whole output.
#[derive(serde::Serialize)]
struct Root {
    #[serde(rename = "fio version")]
    version: String,
    /// Seconds since 1970.
    timestamp: u64,
    /// Milliseconds since 1970.
    timestamp_ms: u64,
    time: String,
    #[serde(rename = "global options", skip_serializing_if = "Map::is_empty")]
    global_options: Map<String>,
    jobs: Vec<Job>,
    disk_util: Vec<DiskUtil>,
    zonal: Zonal,
}

/// Values that fio does not have.
#[derive(serde::Serialize)]
struct Zonal {
    device: String,
    clock: String,
    policy: String,
    seed: u64,
    jobs: Vec<ZonalJob>,
    #[serde(flatten)]
    extra: Map<Value>,
}

/// An entry of `zonal.jobs`, parallel to the entry of `jobs`.
#[derive(serde::Serialize)]
struct ZonalJob {
    jobname: String,
    zone_resets: u64,
    /// Failed I/Os by status.
    errors: Map<DirCounts>,
}

#[derive(serde::Serialize)]
struct DirCounts {
    read: u64,
    write: u64,
    trim: u64,
}

/// An entry of `jobs`.
#[derive(serde::Serialize)]
struct Job {
    jobname: String,
    groupid: u32,
    /// Milliseconds since 1970, or since the start of the run in virtual time.
    job_start: u64,
    error: i32,
    /// Seconds.
    eta: u64,
    /// Seconds.
    elapsed: u64,
    #[serde(rename = "job options")]
    job_options: Map<String>,
    #[serde(flatten)]
    dirs: Map<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync: Option<Sync>,
    #[serde(flatten)]
    mixed: Map<Direction>,
    /// Milliseconds, summed over the clones.
    job_runtime: u64,
    /// Percent.
    usr_cpu: f64,
    /// Percent.
    sys_cpu: f64,
    ctx: u64,
    majf: u64,
    minf: u64,
    /// Percent, as the five fields below.
    iodepth_level: Map<f64>,
    iodepth_submit: Map<f64>,
    iodepth_complete: Map<f64>,
    latency_ns: Map<f64>,
    latency_us: Map<f64>,
    latency_ms: Map<f64>,
    latency_depth: u32,
    latency_target: u64,
    latency_percentile: f64,
    latency_window: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_err: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steadystate: Option<Steady>,
    /// With `zonemode=zbd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_resets: Option<u64>,
}

/// `steadystate` of a job.
#[derive(serde::Serialize)]
struct Steady {
    ss: String,
    /// Measurements, one a second unless steadystate_check_interval is set.
    duration: usize,
    attained: u8,
    criterion: String,
    max_deviation: f64,
    slope: f64,
    data: SteadyData,
}

/// The measurements of the last duration, the oldest first.
#[derive(serde::Serialize)]
struct SteadyData {
    /// Bytes per second.
    bw_mean: u64,
    iops_mean: u64,
    iops: Vec<u64>,
    /// Bytes per second.
    bw: Vec<u64>,
}

/// `read`, `write` and `trim` of a job.
#[derive(serde::Serialize)]
struct Direction {
    io_bytes: u64,
    io_kbytes: u64,
    /// Bytes per second.
    bw_bytes: u64,
    /// KiB per second.
    bw: u64,
    iops: f64,
    /// Milliseconds.
    runtime: u64,
    total_ios: u64,
    short_ios: u64,
    drop_ios: u64,
    slat_ns: Latency,
    clat_ns: Latency,
    lat_ns: Latency,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prios: Vec<OfPrio>,
    /// KiB per second, as all fields `bw_*` except `bw_agg`, a percentage.
    bw_min: u64,
    bw_max: u64,
    bw_agg: f64,
    bw_mean: f64,
    bw_dev: f64,
    bw_samples: u64,
    iops_min: u64,
    iops_max: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: u64,
}

/// An entry of `prios`: the I/Os of one priority.
#[derive(serde::Serialize)]
struct OfPrio {
    prioclass: u16,
    prio: u16,
    priohint: u16,
    clat_ns: Latency,
}

/// A latency in nanoseconds.
#[derive(Default, serde::Serialize)]
struct Latency {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    count: u64,
    #[serde(skip_serializing_if = "Map::is_empty")]
    percentile: Map<u64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    bins: Map<u64>,
}

/// `sync` of a job.
#[derive(Default, serde::Serialize)]
struct Sync {
    total_ios: u64,
    lat_ns: Latency,
}
