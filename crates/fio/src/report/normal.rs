//! fio's normal format: a paragraph for each entry, then a line for each group and direction.
//!
//! The lines, their order and their padding are those of fio 3.41. Zonal adds the section `Zonal` and,
//! after a run of several groups, a table with a line for each, to compare them: what the jobs of a
//! group have in common is printed once, differences are separated by commas, directions are summed.
//! After it come a few lines in sentences ([`closing`]).
//! A device that transfers nothing and takes no time has no bandwidth there.
use super::summary::{
    DIRS, DirStats, Entry, Group, MIN_BAND_PERCENT, MIN_DEPTH_PERCENT, Shown, Summary, msec,
    percents, rw_name,
};
use super::units::{TimeUnit, Units, count, ctime, digits_of, duration};
use super::{DiskUtil, JobReport, Report, closing};
use crate::job::{DataDir, Job, LatencyOptions, Rw, SteadyCriterion};
use crate::options::format_size;
use crate::stats::SteadyState;
use crate::stats::{
    BATCH_LABELS, BatchSizes, DEPTH_LABELS, Histogram, IoStats, LatStat, MSEC_LABELS, NSEC_LABELS,
    USEC_LABELS,
};
use serde_json::Value;

/// Bands on a line of the latency distribution.
const BANDS_PER_LINE: usize = 5;
/// Mean in KiB/s above which bandwidth samples are printed in MiB/s.
const MIB_SAMPLES: f64 = 1024.0 * 1024.0;

/// The line about a job before it runs, with a second line if it has clones.
pub fn announce(job: &Job, groupid: u32) -> String {
    let sizes = |dir: DataDir| {
        let [min, max] = [job.min_bs(dir), job.bs[dir as usize]].map(|it| Units::of(job).bytes(it));
        format!("{min}-{max}")
    };
    let [read, write, trim] = DIRS.map(sizes);
    let rw = rw_name(job);
    let clones = if job.numjobs > 1 { "...\n" } else { "" };
    format!(
        "{}: (g={groupid}): rw={rw}, bs=(R) {read}, (W) {write}, (T) {trim}, \
         ioengine={}, iodepth={}\n{clones}",
        job.name, job.ioengine, job.iodepth
    )
}

/// The text of the whole report.
pub(super) fn render(report: &Report<'_>, summary: &Summary<'_>) -> String {
    let mut out = String::from("\n");
    for entry in &summary.entries {
        out += &header(report, entry);
        for shown in Shown::of(entry.head.job) {
            let of = summary.dir(entry, shown);
            if of.stats.ios(of.dir) > 0 {
                out += &direction(entry, shown, of);
            }
        }
        out += &latency_bands(&entry.stats);
        out += &syncs(entry);
        out += &resources(entry);
    }
    for group in &summary.groups {
        out += &format!("\nRun status group {} (all jobs):\n", group.id);
        for &shown in &group.shown {
            out += &group_line(shown, group);
        }
    }
    out += &disk_stats(&report.disk_util);
    out += &format!(
        "\nZonal ({} clock):\n  device={}, policy={}, seed={}\n",
        report.clock, report.device, report.policy, report.seed
    );
    for (name, value) in &report.extra {
        out += &section(name, value);
    }
    out + &comparison(summary) + &closing::lines(report, summary)
}

fn header(report: &Report<'_>, entry: &Entry<'_>) -> String {
    let JobReport { job, groupid, pid, .. } = entry.head;
    let (name, jobs, errno) = (&job.name, entry.jobs, entry.errno());
    let error = entry.error.map_or(String::new(), |status| format!(" ({status})"));
    let date = ctime(report.timestamp_ms.unwrap_or(0) / 1000);
    let mut out = format!(
        "{name}: (groupid={groupid}, jobs={jobs}): err={errno:2}{error}: pid={pid}: {date}\n"
    );
    if !job.description.is_empty() {
        out += &format!("  Description  : [{}]\n", job.description);
    }
    out
}

fn direction(entry: &Entry<'_>, shown: Shown, of: DirStats<'_>) -> String {
    let DirStats { stats, dir, .. } = of;
    let (units, bandwidth) = (Units::of(entry.head.job), stats.bytes_per_second(dir));
    let (name, options) = (shown.name(), &entry.head.job.report);
    let resets = match shown {
        Shown::Dir(DataDir::Write) => format!("; {} zone resets", stats.zone_reset_count()),
        _ => String::new(),
    };
    let mut out = format!(
        "  {name}: IOPS={}, BW={} ({})({}/{}msec){resets}\n",
        units.iops(stats.ios_per_second(dir) as u64),
        units.rate(bandwidth),
        units.other_rate(bandwidth),
        units.bytes(stats.bytes(dir)),
        msec(stats.runtime(dir)),
    );
    let left_out = options.left_out;
    for (name, is_left_out, of) in [
        ("slat", left_out.slat, stats.slat(dir)),
        ("clat", left_out.clat, stats.clat(dir)),
        (" lat", left_out.lat, stats.lat(dir)),
    ] {
        out += &if is_left_out { String::new() } else { latency(name, of) };
    }
    let clat = Some(stats.clat_histogram(dir)).filter(|_| !left_out.clat);
    let histograms = [
        ("slat", stats.slat_histogram(dir).filter(|_| options.slat_percentiles)),
        ("clat", clat.filter(|_| options.clat_percentiles)),
        ("lat", stats.lat_histogram(dir).filter(|_| options.lat_percentiles)),
    ];
    for (name, histogram) in histograms {
        out += &histogram.map_or(String::new(), |it| percentiles(name, it, &options.percentiles));
    }
    if stats.bandwidth_samples(dir).count() > 0 {
        out += &sample_lines(of);
    }
    out
}

fn latency(name: &str, stat: &LatStat) -> String {
    let unit = TimeUnit::of_spread(stat.min(), stat.max(), stat.stddev());
    let nanos = unit.nanos();
    format!(
        "    {name} ({}): min={}, max={}, avg={:5.2}, stdev={:5.2}\n",
        unit.name(),
        count(stat.min() / nanos, 6),
        count(stat.max() / nanos, 6),
        stat.mean() / nanos as f64,
        stat.stddev() / nanos as f64,
    )
}

/// The paragraph of flushes, which have no bandwidth.
fn syncs(entry: &Entry<'_>) -> String {
    let Some(sync) = entry.stats.syncs() else { return String::new() };
    format!(
        "  fsync/fdatasync/sync_file_range:\n{}{}",
        latency("sync", &sync.lat),
        percentiles("sync", &sync.histogram, &entry.head.job.report.percentiles)
    )
}

/// The percentiles of latencies, which are ascending.
fn percentiles(name: &str, histogram: &Histogram, percents: &[f64]) -> String {
    let values = histogram.percentiles(percents);
    let (lowest, highest) = (values[0], values[values.len() - 1]);
    let unit = TimeUnit::of_range(lowest, highest);
    let scaled = |nanos: u64| nanos.div_ceil(unit.nanos());
    let width = digits_of(scaled(highest)).max(5);
    // A line has 73 columns for items; each takes 12 for the percentile and the punctuation.
    let per_line = 73 / (12 + width);
    let items = percents.iter().zip(&values);
    let items =
        items.map(|(percent, &nanos)| format!("{percent:5.2}th=[{:width$}]", scaled(nanos)));
    let items: Vec<_> = items.collect();
    let lines: Vec<_> = items.chunks(per_line).map(|line| line.join(", ")).collect();
    format!("    {name} percentiles ({}):\n     | {}\n", unit.name(), lines.join(",\n     | "))
}

fn sample_lines(of: DirStats<'_>) -> String {
    let DirStats { stats, dir, .. } = of;
    let (bandwidth, iops) = (stats.bandwidth_samples(dir), stats.iops_samples(dir));
    let (unit, size) = if bandwidth.mean() > MIB_SAMPLES { ("MiB", 1024) } else { ("KiB", 1) };
    format!(
        "   bw ({unit:>5}/s): min={:5}, max={:5}, per={:.2}%, avg={:5.2}, stdev={:5.2}, \
         samples={}\n   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}\n",
        bandwidth.min() / size,
        bandwidth.max() / size,
        of.percent_of_group(),
        bandwidth.mean() / size as f64,
        bandwidth.stddev() / size as f64,
        bandwidth.count(),
        iops.min(),
        iops.max(),
        iops.mean(),
        iops.stddev(),
        iops.count(),
    )
}

fn latency_bands(stats: &IoStats) -> String {
    let bands = stats.latency_bands();
    let ranges = [
        ("nsec", &NSEC_LABELS[..], bands.nsec()),
        ("usec", &USEC_LABELS[..], bands.usec()),
        ("msec", &MSEC_LABELS[..], bands.msec()),
    ];
    let mut out = String::new();
    for (unit, labels, counts) in ranges {
        let shares = percents(counts, bands.total(), MIN_BAND_PERCENT);
        let filled = labels.iter().zip(shares).filter(|&(_, share)| share > 0.0);
        let items: Vec<_> = filled.map(|(label, share)| format!("{label}={share:3.2}%")).collect();
        for line in items.chunks(BANDS_PER_LINE) {
            out += &format!("  lat ({unit})   : {}\n", line.join(", "));
        }
    }
    out
}

/// The lines for all directions together: CPU, depths and counts.
fn resources(entry: &Entry<'_>) -> String {
    let stats = &entry.stats;
    let usage = stats.usage();
    let (user, system) = entry.cpu_percent();
    let issued = DIRS.map(|dir| stats.ios(dir) + stats.errors().of(dir));
    let [reads, writes, trims] = issued;
    let depth = stats.latency_depth().unwrap_or(entry.head.job.iodepth);
    let syncs = stats.syncs().map_or(0, |sync| sync.lat.count());
    let mut out = format!(
        "  cpu          : usr={user:3.2}%, sys={system:3.2}%, ctx={}, majf={}, minf={}\n",
        usage.context_switches, usage.major_faults, usage.minor_faults
    );
    out += &shares("IO depths    ", &DEPTH_LABELS, stats.depth_levels().counts());
    out += &batch_line("submit", stats.submit_sizes());
    out += &batch_line("complete", stats.complete_sizes());
    out += &format!(
        "     issued rwts: total={reads},{writes},{trims},{syncs} short=0,0,0,0 dropped=0,0,0,0\n"
    );
    if let Some(first) = stats.errors().first() {
        let total = stats.errors().total();
        out +=
            &format!("     errors    : total={total}, first_error={}/<{first}>\n", first.errno());
    }
    let &LatencyOptions { target, window, percentile, .. } = &entry.head.job.limits.latency;
    out += &format!(
        "     latency   : target={target}, window={}, percentile={percentile:.2}%, depth={depth}\n",
        window.0 / 1000
    );
    out + &stats.steady().map_or(String::new(), |steady| steady_line(steady, entry))
}

fn steady_line(steady: &SteadyState, entry: &Entry<'_>) -> String {
    let (units, (iops, bandwidth)) = (Units::of(entry.head.job), steady.means());
    let SteadyCriterion { iops: of_iops, slope, percent, .. } = steady.criterion;
    format!(
        "  steadystate  : attained={}, bw={} ({}), iops={}, {} {}={:.3}{}\n",
        if steady.is_attained { "yes" } else { "no" },
        units.rate(bandwidth),
        units.other_rate(bandwidth),
        units.iops(iops),
        if of_iops { "iops" } else { "bw" },
        if slope { "slope" } else { "mean dev" },
        steady.value,
        if percent { "%" } else { "" },
    )
}

fn batch_line(name: &str, sizes: &BatchSizes) -> String {
    shares(&format!("   {name:<10}"), &BATCH_LABELS, sizes.counts())
}

fn shares(name: &str, labels: &[&str; 7], counts: &[u64; 7]) -> String {
    let shares = percents(counts, counts.iter().sum(), MIN_DEPTH_PERCENT);
    let items = labels.iter().zip(shares).map(|(label, share)| format!("{label}={share:3.1}%"));
    format!("  {name}: {}\n", items.collect::<Vec<_>>().join(", "))
}

fn group_line(shown: Shown, group: &Group) -> String {
    let (units, did) = (group.units, group.of(shown));
    if did.bytes == 0 {
        return String::new();
    }
    let name = shown.name().to_uppercase();
    let (min, max) = (did.min_bandwidth, did.max_bandwidth);
    format!(
        "{name:>7}: bw={} ({}), {}-{} ({}-{}), io={} ({}), run={}-{}msec\n",
        units.rate(did.bandwidth),
        units.other_rate(did.bandwidth),
        units.rate(min),
        units.rate(max),
        units.other_rate(min),
        units.other_rate(max),
        units.bytes(did.bytes),
        units.other_bytes(did.bytes),
        msec(did.min_run),
        msec(did.max_run),
    )
}

/// The paragraph about the devices.
fn disk_stats(disks: &[DiskUtil]) -> String {
    if disks.is_empty() {
        return String::new();
    }
    let line = |disk: &DiskUtil| {
        format!(
            "  {}: ios={}/{}, sectors={}/{}, merge={}/{}, ticks={}/{}, in_queue={}, util={:.2}%\n",
            disk.name,
            disk.read_ios,
            disk.write_ios,
            disk.read_sectors,
            disk.write_sectors,
            disk.read_merges,
            disk.write_merges,
            disk.read_ticks,
            disk.write_ticks,
            disk.in_queue,
            disk.util,
        )
    };
    let lines: String = disks.iter().map(line).collect();
    format!("\nDisk stats (read/write):\n{lines}")
}

/// A section of [`Report::extra`]: single values on the first line, then each group of values on its
/// own line; repeated for each device if there are several.
fn section(name: &str, value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(|value| section(name, value)).collect(),
        Value::Object(_) => format!("  {name}: {}\n{}", singles(value), groups("", value)),
        single => format!("  {name}: {}\n", plain(single)),
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn singles(value: &Value) -> String {
    let single = members(value).filter(|(_, value)| !value.is_object());
    single.map(|(key, value)| format!("{key}={}", plain(value))).collect::<Vec<_>>().join(", ")
}

fn groups(path: &str, value: &Value) -> String {
    let group = |(key, value): (&String, &Value)| {
        let path = if path.is_empty() { key.clone() } else { format!("{path} {key}") };
        let own = singles(value);
        let line = if own.is_empty() { String::new() } else { format!("    {path}: {own}\n") };
        line + &groups(&path, value)
    };
    members(value).filter(|(_, value)| value.is_object()).map(group).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

const HEADINGS: [&str; COLUMNS] = ["job", "rw", "bs", "qd", "IOPS", "BW", "clat avg", "clat 99th"];
const COLUMNS: usize = 8;
/// The first columns are words, aligned left; the others are numbers, aligned right.
const WORDS: usize = 3;

/// The table that compares groups, after a blank line; empty for a single group.
fn comparison(summary: &Summary<'_>) -> String {
    if summary.groups.len() < 2 {
        return String::new();
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    let mut failures = vec![String::new()];
    for group in &summary.groups {
        let here = |entry: &&Entry<'_>| entry.head.groupid == group.id;
        let entries: Vec<_> = summary.entries.iter().filter(here).collect();
        rows.push(cells(group, &entries));
        let error = entries.iter().find_map(|entry| entry.error);
        failures.push(error.map_or(String::new(), |error| format!("  failed: {error}")));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut out = String::from("\n");
    for (row, failure) in rows.iter().zip(&failures) {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if column < WORDS {
                out += &format!("  {cell:<width$}");
            } else {
                out += &format!("  {cell:>width$}");
            }
        }
        out += failure;
        out.push('\n');
    }
    out
}

fn cells(group: &Group, entries: &[&Entry<'_>]) -> [String; COLUMNS] {
    let mut stats = IoStats::new();
    let (mut clat, mut histogram) = (LatStat::default(), Histogram::new());
    for entry in entries {
        stats.merge(&entry.stats);
    }
    for dir in DIRS {
        clat.merge(stats.clat(dir));
        histogram.merge(stats.clat_histogram(dir));
    }
    let iops: f64 = DIRS.iter().map(|&dir| stats.ios_per_second(dir)).sum();
    let bandwidth = group.dirs.iter().map(|dir| dir.bandwidth).sum();
    let transfers = entries.iter().all(|entry| entry.head.transfers);
    let each = |text: fn(&Job) -> String| {
        let mut texts: Vec<_> = entries.iter().map(|entry| text(entry.head.job)).collect();
        texts.dedup();
        texts.join(",")
    };
    [
        each(|job| job.name.clone()),
        each(rw_name),
        each(block_size),
        each(depth),
        group.units.iops(iops as u64),
        if transfers { group.units.rate(bandwidth) } else { "-".to_owned() },
        duration(clat.mean()),
        duration(histogram.percentiles(&[99.0])[0] as f64),
    ]
}

/// The block sizes of the directions that the job uses.
fn block_size(job: &Job) -> String {
    let [read, write, trim] = job.bs.map(format_size);
    match job.rw {
        Rw::Mixed if read != write => format!("{read}/{write}"),
        Rw::Read | Rw::Mixed => read,
        Rw::Write => write,
        Rw::Trim | Rw::TrimWrite => trim,
    }
}

/// The depth, preceded by the number of clones if there are several.
fn depth(job: &Job) -> String {
    match job.numjobs {
        0 | 1 => job.iodepth.to_string(),
        clones => format!("{clones}x{}", job.iodepth),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sections_put_single_values_first_and_groups_below() {
        let value = json!([{
            "device": "null",
            "name": "mq-deadline",
            "attributes": { "read_expire": "500ms" },
            "classes": { "rt": { "inserted": 1, "merged": 0 }, "be": { "inserted": 2 } },
        }]);
        let expected = "  scheduler: device=null, name=mq-deadline\n    \
                        attributes: read_expire=500ms\n    \
                        classes rt: inserted=1, merged=0\n    \
                        classes be: inserted=2\n";
        assert_eq!(section("scheduler", &value), expected);
        assert_eq!(section("depth", &json!(3)), "  depth: 3\n");
    }
}
