//! Minimum, maximum, mean and standard deviation of latencies and of sampled rates.

/// Running sums over latencies in nanoseconds.
///
/// The sums are exact integers, so neither the order of the values nor a merge changes the result.
/// The sum of squares fits as long as count times the squared latency stays below 2^128: at a
/// latency of one hour, 2^44 I/Os.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatStat {
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    sum_of_squares: u128,
}

impl Default for LatStat {
    fn default() -> Self {
        Self { count: 0, min: u64::MAX, max: 0, sum: 0, sum_of_squares: 0 }
    }
}

impl LatStat {
    /// Adds `value` nanoseconds `count` times.
    #[inline]
    pub fn record(&mut self, value: u64, count: u64) {
        self.count += count;
        // Branches that soon always go the same way are cheaper than stores.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
        // Submissions take no time in virtual time.
        if value == 0 {
            return;
        }
        let square = u128::from(value) * u128::from(value);
        if count == 1 {
            self.sum += u128::from(value);
            self.sum_of_squares += square;
        } else {
            self.sum += u128::from(value) * u128::from(count);
            self.sum_of_squares += square * u128::from(count);
        }
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the values in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Smallest value in nanoseconds, 0 if there is none.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Largest value in nanoseconds, 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean in nanoseconds, 0 if there is no value.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Standard deviation of the sample in nanoseconds (fio's: the squares are divided by one less
    /// than the count), 0 for fewer than two values.
    pub fn stddev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = u128::from(self.count);
        // Squares around the integer part of the mean, exactly. The fraction is corrected in floating
        // point, where nothing large cancels any more.
        let whole = self.sum / n;
        let fraction = (self.sum % n) as f64 / n as f64;
        let around_whole = self.sum_of_squares + n * whole * whole - 2 * whole * self.sum;
        let squares = around_whole as f64 - n as f64 * fraction * fraction;
        (squares.max(0.0) / (n - 1) as f64).sqrt()
    }
}

/// Sampled rates, in KiB/s or I/Os per second.
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

    /// Merges the samples of a job that ran at the same time. Rates add up, so minima, maxima and means
    /// are added, as fio does for `group_reporting`.
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

    #[test]
    fn latency_statistics_are_those_of_fio() {
        let mut stat = LatStat::default();
        for value in [20, 30, 9_785] {
            stat.record(value, 1);
        }
        assert_eq!((stat.count(), stat.min(), stat.max()), (3, 20, 9_785));
        assert_eq!(format!("{:.2} {:.2}", stat.mean(), stat.stddev()), "3278.33 5634.94");
    }

    #[test]
    fn statistics_of_no_values_are_zero() {
        let stat = LatStat::default();
        assert_eq!((stat.min(), stat.max(), stat.mean(), stat.stddev()), (0, 0, 0.0, 0.0));
    }

    #[test]
    fn merged_halves_equal_the_whole() {
        let (mut whole, mut left, mut right) =
            (LatStat::default(), LatStat::default(), LatStat::default());
        for value in 0..100_u64 {
            whole.record(value * value, 2);
            if value % 3 == 0 { &mut left } else { &mut right }.record(value * value, 2);
        }
        left.merge(&right);
        assert_eq!(left, whole);
    }

    #[test]
    fn deviation_of_close_large_values_does_not_cancel() {
        let mut stat = LatStat::default();
        stat.record(10_000_000_000, 1_000_000);
        stat.record(10_000_000_002, 1_000_000);
        assert!((stat.stddev() - 1.0).abs() < 1e-6, "{}", stat.stddev());
    }

    fn of(rates: &[u64]) -> Samples {
        let mut samples = Samples::default();
        rates.iter().for_each(|&rate| samples.add(rate));
        samples
    }

    #[test]
    fn sample_statistics_are_those_of_fio() {
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
