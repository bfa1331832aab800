//! Bandwidth and IOPS over time, sampled.
//!
//! Takes: one rate for each interval. Gives: its minimum, maximum, mean and standard deviation over
//! the intervals. Keeps true: merged samples of jobs that ran side by side describe the rate of
//! all of them together.

/// Sampled rates: KiB/s or I/Os per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    count: u64,
    min: u64,
    max: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Samples {
    /// Adds the rate of one interval.
    pub fn add(&mut self, rate: u64) {
        self.min = if self.count == 0 { rate } else { self.min.min(rate) };
        self.max = self.max.max(rate);
        self.count += 1;
        // Welford's update: stable without keeping the samples.
        let distance = rate as f64 - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (rate as f64 - self.mean);
    }

    /// Joins the samples of a job that ran at the same time. Rates add up, so minima, maxima and
    /// means are added, as fio does for `group_reporting`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.squares += other.squares;
    }

    /// Number of samples of all merged jobs.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Lowest rate, 0 without samples.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Highest rate, 0 without samples.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean rate, 0 without samples.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Standard deviation of the rates, 0 for fewer than two samples.
    pub fn stddev(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rates: &[u64]) -> Samples {
        let mut samples = Samples::default();
        rates.iter().for_each(|&rate| samples.add(rate));
        samples
    }

    #[test]
    fn three_samples_give_what_fio_printed_for_them() {
        let bandwidth = of(&[8_000, 8_008, 8_008]);
        assert_eq!((bandwidth.min(), bandwidth.max(), bandwidth.count()), (8_000, 8_008, 3));
        assert_eq!(format!("{:.6}", bandwidth.mean()), "8005.333333");
        assert_eq!(format!("{:.6}", bandwidth.stddev()), "4.618802");
    }

    #[test]
    fn rates_of_jobs_side_by_side_add_up() {
        let mut group = of(&[8_000, 8_016]);
        group.merge(&of(&[7_900, 8_000]));
        assert_eq!((group.min(), group.max(), group.count()), (15_900, 16_016, 4));
        assert!((group.mean() - 15_958.0).abs() < 1e-9);
    }

    #[test]
    fn one_sample_has_no_deviation() {
        assert_eq!(of(&[5]).stddev(), 0.0);
    }
}
