//! Jobs, and fio's run as statistics.
use serde_json::Value;
use zonal_blk::Nanos;
use zonal_fio::job::{DataDir, Job, Rw};
use zonal_fio::report::{JobReport, Report};
use zonal_fio::stats::{IoStats, SAMPLE_PERIOD, Usage};

/// fio's run as JSON with bins.
pub const FIO_JSON: &str = include_str!("data/fio-3.33.json");
/// Another run of the job, as JSON with bins of a fio that has more fields.
pub const NEWER_FIO_JSON: &str = include_str!("data/fio-3.41.json");
/// The first run as text.
pub const FIO_NORMAL: &str = include_str!("data/fio-3.33.normal");
/// The same as a terse line.
pub const FIO_TERSE: &str = include_str!("data/fio-3.33.terse");

/// A job like the one in `data/`.
pub fn job(name: &str) -> Job {
    Job {
        name: name.to_owned(),
        rw: Rw::Mixed,
        random: true,
        iodepth: 8,
        numjobs: 2,
        group_reporting: true,
        ioengine: "null".to_owned(),
        own_options: vec![("rw".to_owned(), "randrw".to_owned())],
        ..Job::default()
    }
}

/// A finished clone of `job` in group 0.
pub fn clone_of(job: &Job, stats: IoStats) -> JobReport<'_> {
    JobReport { job, groupid: 0, pid: 1, transfers: true, stats, error: None, eta: 0, elapsed: 3 }
}

/// A report of `jobs` made in virtual time.
pub fn report(jobs: Vec<JobReport<'_>>) -> Report<'_> {
    Report {
        version: "zonal-0.1.0".to_owned(),
        timestamp_ms: None,
        started_ms: None,
        global_options: vec![("bs".to_owned(), "4k".to_owned())],
        jobs,
        device: "null:size=1g".to_owned(),
        clock: "virtual",
        seed: 1,
        policy: "plug".to_owned(),
        disk_util: Vec::new(),
        extra: Vec::new(),
    }
}

/// The two clones of fio's run: one that did its reads and one that did its writes, each I/O with
/// the latency that represents its bin, spread evenly over the run.
pub fn fio_run() -> [IoStats; 2] {
    let fio: Value = serde_json::from_str(FIO_JSON).expect("fio writes JSON");
    let usage = Usage { minor_faults: 11, context_switches: 3980, ..Usage::default() };
    [("read", DataDir::Read), ("write", DataDir::Write)].map(|(name, dir)| {
        let bins = fio["jobs"][0][name]["clat_ns"]["bins"].as_object().expect("an object");
        let latencies: Vec<u64> = bins.iter().flat_map(|(ns, count)| repeat(ns, count)).collect();
        let mut stats = IoStats::new();
        stats.start(Nanos(0));
        for (part, latencies) in latencies.chunks(latencies.len().div_ceil(4)).enumerate() {
            for &clat in latencies {
                stats.submitted(1, 1);
                stats.record(dir, 4096, Nanos(190), Nanos(clat), 1);
                stats.completed(1);
            }
            stats.sample(Nanos(SAMPLE_PERIOD.0 * (part as u64 + 1)));
        }
        stats.finish(Nanos(2_001_000_000));
        stats.set_usage(usage);
        stats
    })
}

fn repeat(ns: &str, count: &Value) -> impl Iterator<Item = u64> + use<> {
    let count = count.as_u64().expect("a count");
    std::iter::repeat_n(ns.parse().expect("nanoseconds"), count as usize)
}
