//! fio's terse format: one line for each entry, fields separated by semicolons.
//!
//! The fields and their order are those of fio 3.41; times are in microseconds. Trims have no fields in
//! version 3, the number of samples and IOPS have some from version 5 on, and version 2 names neither the
//! program nor disks.
use super::summary::{
    DirStats, Entry, MIN_BAND_PERCENT, MIN_DEPTH_PERCENT, Shown, Summary, msec, percents,
};
use super::{DiskUtil, JobReport, Report, TerseVersion};
use crate::job::{DataDir, ReportOptions};
use crate::stats::{IoStats, LatStat};
use std::fmt::Display;
use zonal_blk::Status;

/// Number of percentile fields; unused ones are padded.
const PERCENTILE_FIELDS: usize = 20;

/// The lines of all entries.
pub(super) fn render(report: &Report<'_>, summary: &Summary<'_>, version: TerseVersion) -> String {
    summary.entries.iter().map(|entry| line(report, summary, entry, version)).collect()
}

/// The fields of a line.
struct Fields(Vec<String>);

impl Fields {
    fn add(&mut self, value: impl Display) {
        self.0.push(value.to_string());
    }

    /// A latency's minimum, maximum, mean and deviation in microseconds, the first two truncated.
    fn latency(&mut self, stat: &LatStat) {
        self.add(stat.min() / 1000);
        self.add(stat.max() / 1000);
        self.add(format_args!("{:.6}", stat.mean() / 1e3));
        self.add(format_args!("{:.6}", stat.stddev() / 1e3));
    }

    fn percents(&mut self, percents: &[f64], decimals: usize) {
        percents.iter().for_each(|percent| self.add(format_args!("{percent:.decimals$}%")));
    }
}

fn line(
    report: &Report<'_>,
    summary: &Summary<'_>,
    entry: &Entry<'_>,
    version: TerseVersion,
) -> String {
    let JobReport { job, groupid, .. } = entry.head;
    let mut fields = Fields(vec![(version as u8).to_string()]);
    if version != TerseVersion::V2 {
        fields.add(&report.version);
    }
    fields.add(&job.name);
    fields.add(groupid);
    fields.add(entry.errno());
    let has_fields =
        |&shown: &Shown| shown != Shown::Dir(DataDir::Trim) || version != TerseVersion::V3;
    for shown in Shown::of(job).into_iter().filter(has_fields) {
        let of = summary.dir(entry, shown);
        direction(&mut fields, of, &job.report);
        if version == TerseVersion::V5 {
            samples(&mut fields, of);
        }
    }
    cpu(&mut fields, entry);
    distributions(&mut fields, &entry.stats);
    if version != TerseVersion::V2 {
        report.disk_util.iter().for_each(|disk| disk_util(&mut fields, disk));
    }
    if job.errors.goes_on() {
        let errors = entry.stats.errors();
        fields.add(errors.total());
        fields.add(errors.first().map_or(0, Status::errno));
    }
    if !job.description.is_empty() {
        fields.add(&job.description);
    }
    fields.0.join(";") + "\n"
}

fn direction(fields: &mut Fields, of: DirStats<'_>, options: &ReportOptions) {
    let DirStats { stats, dir, .. } = of;
    fields.add(stats.bytes(dir) / 1024);
    fields.add(stats.bytes_per_second(dir) / 1024);
    fields.add(stats.ios_per_second(dir) as u64);
    fields.add(msec(stats.runtime(dir)));
    fields.latency(stats.slat(dir));
    fields.latency(stats.clat(dir));
    let percents: &[f64] = if options.clat_percentiles { &options.percentiles } else { &[] };
    let values = stats.clat_histogram(dir).percentiles(percents);
    for (percent, value) in percents.iter().zip(&values) {
        fields.add(format_args!("{percent:.6}%={}", value / 1000));
    }
    (values.len()..PERCENTILE_FIELDS).for_each(|_| fields.add("0%=0"));
    fields.latency(stats.lat(dir));
    let samples = stats.bandwidth_samples(dir);
    fields.add(samples.min());
    fields.add(samples.max());
    fields.add(format_args!("{:.6}%", of.percent_of_group()));
    fields.add(format_args!("{:.6}", samples.mean()));
    fields.add(format_args!("{:.6}", samples.stddev()));
}

/// The number of samples of bandwidth, and what the samples of IOPS are.
fn samples(fields: &mut Fields, DirStats { stats, dir, .. }: DirStats<'_>) {
    fields.add(stats.bandwidth_samples(dir).count());
    let iops = stats.iops_samples(dir);
    fields.add(iops.min());
    fields.add(iops.max());
    fields.add(format_args!("{:.6}", iops.mean()));
    fields.add(format_args!("{:.6}", iops.stddev()));
    fields.add(iops.count());
}

fn cpu(fields: &mut Fields, entry: &Entry<'_>) {
    let usage = entry.stats.usage();
    let (user, system) = entry.cpu_percent();
    fields.percents(&[user, system], 6);
    fields.add(usage.context_switches);
    fields.add(usage.major_faults);
    fields.add(usage.minor_faults);
}

fn distributions(fields: &mut Fields, stats: &IoStats) {
    let depths = stats.depth_levels().counts();
    fields.percents(&percents(depths, depths.iter().sum(), MIN_DEPTH_PERCENT), 1);
    let bands = stats.latency_bands();
    // This version has no bands below a microsecond: they count in the first band above.
    let mut usec = bands.usec().to_vec();
    usec[0] += bands.nsec().iter().sum::<u64>();
    fields.percents(&percents(&usec, bands.total(), MIN_BAND_PERCENT), 2);
    fields.percents(&percents(bands.msec(), bands.total(), MIN_BAND_PERCENT), 2);
}

fn disk_util(fields: &mut Fields, disk: &DiskUtil) {
    fields.add(&disk.name);
    let merges = [disk.read_merges, disk.write_merges];
    let ticks = [disk.read_ticks, disk.write_ticks, disk.in_queue];
    let counts = [disk.read_ios, disk.write_ios].into_iter().chain(merges).chain(ticks);
    counts.for_each(|count| fields.add(count));
    fields.percents(&[disk.util], 2);
}
