//! Minimum, maximum, mean and standard deviation from running sums.
//!
//! Takes: values with a count. Gives: the moments, computed only when asked for. Keeps true: the
//! sums are exact integers, so neither the order of the values nor a merge changes the result.

/// Running sums over latencies in nanoseconds.
///
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
        // Stores cost more here than branches which after a few values always go the same way.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
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
        // Squares around the whole part of the mean, exactly; the fraction is mended in floating
        // point, where nothing large cancels any more.
        let whole = self.sum / n;
        let fraction = (self.sum % n) as f64 / n as f64;
        let around_whole = self.sum_of_squares + n * whole * whole - 2 * whole * self.sum;
        let squares = around_whole as f64 - n as f64 * fraction * fraction;
        (squares.max(0.0) / (n - 1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_latencies_give_what_fio_printed_for_them() {
        let mut stat = LatStat::default();
        for value in [20, 30, 9_785] {
            stat.record(value, 1);
        }
        assert_eq!((stat.count(), stat.min(), stat.max()), (3, 20, 9_785));
        assert_eq!(format!("{:.2} {:.2}", stat.mean(), stat.stddev()), "3278.33 5634.94");
    }

    #[test]
    fn without_values_everything_is_zero() {
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
}
