//! The figure by which the points of a sweep are compared.
use super::{PERCENTILES, Point, Sample, Sweep};
use anyhow::{Result, bail};

/// A figure by which points are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Bytes a second.
    Bandwidth,
    /// I/Os a second.
    Iops,
    /// One of [`PERCENTILES`] of the completion latency, by its index.
    Latency(usize),
}

impl Metric {
    const ALL: [Metric; 5] = [
        Metric::Bandwidth,
        Metric::Iops,
        Metric::Latency(0),
        Metric::Latency(1),
        Metric::Latency(2),
    ];

    /// The metric of this name.
    ///
    /// # Errors
    /// There is none, with the nearest right name.
    pub fn from_name(name: &str) -> Result<Self> {
        let names = Metric::ALL.map(Metric::name);
        match names.iter().position(|known| known == name) {
            Some(at) => Ok(Metric::ALL[at]),
            None => {
                let hint = zonal_blk::did_you_mean(name, names.iter().map(String::as_str));
                bail!("found `{name}`, expected one of {}{hint}", names.join(", "))
            }
        }
    }

    /// Its name, with the unit where it has one.
    pub fn name(self) -> String {
        match self {
            Metric::Bandwidth => "bandwidth".to_owned(),
            Metric::Iops => "iops".to_owned(),
            Metric::Latency(at) => format!("clat_p{}_us", PERCENTILES[at]),
        }
    }

    /// Whether more of it is better.
    pub fn is_more_better(self) -> bool {
        !matches!(self, Metric::Latency(_))
    }

    fn of(self, sample: &Sample) -> f64 {
        match self {
            Metric::Bandwidth => sample.bytes,
            Metric::Iops => sample.iops,
            Metric::Latency(at) => sample.latencies[at] as f64 / 1e3,
        }
    }

    /// The best point of a sweep with its figure, the first of those that are equal. Points that failed
    /// do not count.
    pub fn best(self, sweep: &Sweep) -> Option<(&Point, f64)> {
        let of =
            |point| Point::estimate(point, |sample| self.of(sample)).map(|it| (point, it.mean));
        let good = sweep.points.iter().filter(|point| point.failure.is_none()).filter_map(of);
        good.reduce(|best, other| {
            let is_better = if self.is_more_better() { other.1 > best.1 } else { other.1 < best.1 };
            if is_better { other } else { best }
        })
    }
}
