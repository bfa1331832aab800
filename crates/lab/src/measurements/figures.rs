//! Figures of a model under a load.
use super::{Cell, Metric};
use zonal_fio::job::DataDir;
use zonal_fio::stats::{Histogram, IoStats, PERCENTILES};

/// The I/O done in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Mean latency in microseconds.
    pub mean: f64,
    /// [`PERCENTILES`] of the completion latency in microseconds.
    pub percentiles: [f64; PERCENTILES.len()],
}

/// The figures of the model under a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// By [`DataDir`], and of all together; 0 in a direction in which nothing was done.
    pub figures: [Figures; 4],
    /// The figures by job, of jobs that ran side by side.
    pub jobs: Vec<Figures>,
}

impl Predicted {
    /// The I/O of a job in a direction, or in all of them.
    pub fn of(&self, dir: Option<DataDir>, job: Option<usize>) -> &Figures {
        let of_job = job.and_then(|job| self.jobs.get(job));
        of_job.unwrap_or(&self.figures[dir.map_or(3, |dir| dir as usize)])
    }

    /// The figure of a cell of the load.
    pub fn figure(&self, cell: &Cell) -> f64 {
        let figures = self.of(cell.dir, cell.job);
        match cell.metric {
            Metric::Iops => figures.iops,
            Metric::Bandwidth => figures.bytes / 1e6,
            Metric::LatMean => figures.mean,
            Metric::LatP50 | Metric::LatP99 | Metric::LatP999 => {
                let percent = cell.metric.percentile().expect("it is one");
                figures.percentile(percent).expect("all of them are in the list")
            }
        }
    }
}

impl Figures {
    /// One of [`PERCENTILES`].
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let at = PERCENTILES.iter().position(|known| *known == percent)?;
        Some(self.percentiles[at])
    }

    pub(super) fn of(stats: &IoStats, dir: DataDir) -> Self {
        if stats.ios(dir) == 0 {
            return Figures::default();
        }
        let seconds = stats.runtime(dir).0.max(1) as f64 / 1e9;
        Figures {
            iops: stats.ios(dir) as f64 / seconds,
            bytes: stats.bytes(dir) as f64 / seconds,
            mean: stats.lat(dir).mean() / 1e3,
            percentiles: percentiles(stats.clat_histogram(dir)),
        }
    }

    /// Of all directions together, over the time of the longest.
    pub(super) fn of_all(stats: &IoStats) -> Self {
        let dirs = [DataDir::Read, DataDir::Write, DataDir::Trim];
        let time = dirs.map(|dir| stats.runtime(dir).0).into_iter().max().unwrap_or(0).max(1);
        let sum = |of: fn(&IoStats, DataDir) -> f64| dirs.map(|dir| of(stats, dir)).iter().sum();
        let ios: f64 = sum(|stats, dir| stats.ios(dir) as f64);
        let bytes: f64 = sum(|stats, dir| stats.bytes(dir) as f64);
        let latency: f64 = sum(|stats, dir| stats.ios(dir) as f64 * stats.lat(dir).mean());
        let mut histogram = Histogram::new();
        dirs.iter().for_each(|&dir| histogram.merge(stats.clat_histogram(dir)));
        let seconds = time as f64 / 1e9;
        Figures {
            iops: ios / seconds,
            bytes: bytes / seconds,
            mean: if ios > 0.0 { latency / ios / 1e3 } else { 0.0 },
            percentiles: percentiles(&histogram),
        }
    }
}

pub(super) fn percentiles(histogram: &Histogram) -> [f64; PERCENTILES.len()] {
    let found = histogram.percentiles(&PERCENTILES);
    std::array::from_fn(|at| found[at] as f64 / 1e3)
}
