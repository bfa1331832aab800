//! The entries and groups of a report, in the order of the job file.
//!
//! There is one [`Entry`] for each clone, or one for all adjacent clones of a group with
//! `group_reporting`, and one [`Group`] for each reporting group.
use super::units::Units;
use super::{JobReport, Report};
use crate::job::{DataDir, Job, Rw, UnifiedReporting};
use crate::stats::{IoStats, per_second};
use zonal_blk::Nanos;

/// All directions, in the order in which fio prints them.
pub(super) const DIRS: [DataDir; 3] = [DataDir::Read, DataDir::Write, DataDir::Trim];

/// Directions as they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// One direction.
    Dir(DataDir),
    /// All together (`unified_rw_reporting`).
    Mixed,
}

impl Shown {
    /// The directions of a job's report, in order.
    pub fn of(job: &Job) -> Vec<Shown> {
        let dirs = DIRS.map(Shown::Dir);
        match job.report.unified {
            UnifiedReporting::None => dirs.to_vec(),
            UnifiedReporting::Mixed => vec![Shown::Mixed],
            UnifiedReporting::Both => [&dirs[..], &[Shown::Mixed]].concat(),
        }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Shown::Dir(dir) => ["read", "write", "trim"][dir as usize],
            Shown::Mixed => "mixed",
        }
    }

    /// The direction of the entry's or group's statistics: mixed ones are those of reads of the unified
    /// statistics.
    fn index(self) -> DataDir {
        match self {
            Shown::Dir(dir) => dir,
            Shown::Mixed => DataDir::Read,
        }
    }
}

/// The I/O of one direction of an entry.
#[derive(Clone, Copy)]
pub(super) struct DirStats<'a> {
    pub stats: &'a IoStats,
    /// The direction to look at in `stats`.
    pub dir: DataDir,
    /// Of the group.
    pub group: &'a GroupDir,
}

impl DirStats<'_> {
    /// The mean of the bandwidth samples, in percent of the bandwidth of the group.
    pub fn percent_of_group(&self) -> f64 {
        let samples = self.stats.bandwidth_samples(self.dir);
        let all = self.group.bandwidth / 1024;
        match (samples.count(), all) {
            (0, _) => 0.0,
            (_, 0) => 100.0,
            _ => (samples.mean() * 100.0 / all as f64).min(100.0),
        }
    }
}

/// A report's entries and groups.
pub(super) struct Summary<'a> {
    pub entries: Vec<Entry<'a>>,
    pub groups: Vec<Group>,
}

/// One clone, or several merged.
pub(super) struct Entry<'a> {
    /// The first clone: the entry has its name and options.
    pub head: &'a JobReport<'a>,
    /// Number of clones.
    pub jobs: u32,
    /// The status of the first clone that failed.
    pub error: Option<zonal_blk::Status>,
    pub eta: u64,
    pub elapsed: u64,
    pub stats: IoStats,
    /// All directions together, if they are shown.
    unified: Option<IoStats>,
}

/// A `Run status group`.
pub(super) struct Group {
    pub id: u32,
    /// The units of its first job.
    pub units: Units,
    /// The directions that are shown of its jobs.
    pub shown: Vec<Shown>,
    /// By [`DataDir`].
    pub dirs: [GroupDir; 3],
    /// All directions together.
    mixed: GroupDir,
}

impl Group {
    /// The totals in a direction.
    pub fn of(&self, shown: Shown) -> &GroupDir {
        match shown {
            Shown::Dir(dir) => &self.dirs[dir as usize],
            Shown::Mixed => &self.mixed,
        }
    }
}

/// The totals of a group in one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupDir {
    pub bytes: u64,
    /// All bytes over the longest runtime.
    pub bandwidth: u64,
    /// Of the entries.
    pub min_bandwidth: u64,
    pub max_bandwidth: u64,
    pub min_run: Nanos,
    pub max_run: Nanos,
}

impl<'a> Summary<'a> {
    /// Summarizes the clones of `report`.
    pub fn of(report: &'a Report<'a>) -> Self {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        for job in &report.jobs {
            match entries.last_mut() {
                Some(entry) if entry.can_merge(job) => entry.add(job),
                _ => entries.push(Entry::of(job)),
            }
        }
        for entry in &mut entries {
            let is_shown = entry.head.job.report.unified != UnifiedReporting::None;
            entry.unified = is_shown.then(|| entry.stats.unified());
        }
        let mut groups: Vec<Group> = Vec::new();
        for entry in &entries {
            let id = entry.head.groupid;
            if groups.last().is_none_or(|group| group.id != id) {
                let (units, shown) = (Units::of(entry.head.job), Shown::of(entry.head.job));
                let (dirs, mixed) = Default::default();
                groups.push(Group { id, units, shown, dirs, mixed });
            }
            let group = groups.last_mut().expect("a group was just pushed");
            DIRS.iter().for_each(|&dir| group.dirs[dir as usize].add(&entry.stats, dir));
            if let Some(unified) = &entry.unified {
                group.mixed.add(unified, DataDir::Read);
            }
        }
        Self { entries, groups }
    }

    /// The I/O of an entry in a direction that is shown.
    pub fn dir<'s>(&'s self, entry: &'s Entry<'_>, shown: Shown) -> DirStats<'s> {
        let group = self.groups.iter().find(|group| group.id == entry.head.groupid);
        let group = group.expect("each entry was added to its group").of(shown);
        let stats = match (shown, &entry.unified) {
            (Shown::Mixed, Some(unified)) => unified,
            _ => &entry.stats,
        };
        DirStats { stats, dir: shown.index(), group }
    }
}

impl<'a> Entry<'a> {
    fn of(job: &'a JobReport<'a>) -> Self {
        let stats = IoStats::new();
        let (error, unified) = (None, None);
        let mut entry = Self { head: job, jobs: 0, error, eta: 0, elapsed: 0, stats, unified };
        entry.add(job);
        entry
    }

    fn can_merge(&self, job: &JobReport<'_>) -> bool {
        let grouped = self.head.job.group_reporting && job.job.group_reporting;
        grouped && self.head.groupid == job.groupid
    }

    fn add(&mut self, job: &JobReport<'_>) {
        self.jobs += 1;
        self.error = self.error.or(job.error);
        self.eta = self.eta.max(job.eta);
        self.elapsed = self.elapsed.max(job.elapsed);
        self.stats.merge(&job.stats);
    }

    /// Error number of the entry, 0 for none.
    pub fn errno(&self) -> i32 {
        self.error.map_or(0, zonal_blk::Status::errno)
    }

    /// User and system CPU time in percent of the runtime of the clones.
    pub fn cpu_percent(&self) -> (f64, f64) {
        let usage = self.stats.usage();
        let percent = |time: Nanos| match self.stats.elapsed() {
            Nanos(0) => 0.0,
            elapsed => time.0 as f64 * 100.0 / elapsed.0 as f64,
        };
        (percent(usage.user), percent(usage.system))
    }
}

impl GroupDir {
    fn add(&mut self, stats: &IoStats, dir: DataDir) {
        if stats.ios(dir) == 0 {
            return;
        }
        let (bandwidth, ran) = (stats.bytes_per_second(dir), stats.runtime(dir));
        let first = self.bytes == 0;
        self.bytes += stats.bytes(dir);
        self.min_bandwidth = if first { bandwidth } else { self.min_bandwidth.min(bandwidth) };
        self.max_bandwidth = self.max_bandwidth.max(bandwidth);
        self.min_run = if first { ran } else { self.min_run.min(ran) };
        self.max_run = self.max_run.max(ran);
        self.bandwidth = per_second(self.bytes, self.max_run);
    }
}

/// `rw=` of a job as fio prints it.
pub(super) fn rw_name(job: &Job) -> String {
    let rw = match job.rw {
        Rw::Read => "read",
        Rw::Write => "write",
        Rw::Trim => "trim",
        Rw::Mixed => "rw",
        Rw::TrimWrite => "trimwrite",
    };
    let random = if job.random { "rand" } else { "" };
    format!("{random}{rw}")
}

/// Milliseconds of a runtime, rounded up as fio does: a run of 10 us lasted 1 ms.
pub(super) fn msec(time: Nanos) -> u64 {
    time.0.div_ceil(1_000_000)
}

/// `counts` in percent of `total`. As in fio, a count that is not zero is at least `least` percent.
pub(super) fn percents(counts: &[u64], total: u64, least: f64) -> Vec<f64> {
    let percent = |&count: &u64| match count {
        0 => 0.0,
        _ => (count as f64 * 100.0 / total as f64).max(least),
    };
    counts.iter().map(percent).collect()
}

/// Smallest printed share of a depth or batch size, in percent.
pub(super) const MIN_DEPTH_PERCENT: f64 = 0.1;
/// Smallest printed share of a latency band, in percent.
pub(super) const MIN_BAND_PERCENT: f64 = 0.01;
