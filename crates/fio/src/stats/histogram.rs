//! A log-linear latency histogram with fio's buckets.
//!
//! Takes: latencies in nanoseconds with a count. Gives: percentiles and the filled buckets. Keeps
//! true: a bucket is at most 1/64 as wide as the values in it, so a percentile is within 0.8% of
//! the exact one, and two histograms can be added bucket by bucket.
//!
//! ```text
//!  values   0 .. 127      128 .. 255     256 .. 511     512 .. 1023   ...  2^33 .. 2^34
//!  width    1             2              4              8                  2^27
//!  buckets  128           64             64             64                 64 (the last takes all above)
//! ```
//!
//! The bucket bounds and the value that stands for a bucket (its middle) were read off the `bins`
//! of fio 3.33's `json+` output, so that tools which join such files find the same keys.

/// Buckets between two powers of two.
const SUB_BUCKETS: usize = 64;
/// Number of buckets; fio 3.33 has as many.
pub const BUCKETS: usize = 29 * SUB_BUCKETS;

/// fio's default `percentile_list`, in percent.
pub const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Counts of latencies by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram; all the memory it will ever need is allocated here.
    pub fn new() -> Self {
        let counts = vec![0; BUCKETS].into_boxed_slice();
        Self { counts: counts.try_into().expect("a slice of BUCKETS counts") }
    }

    /// Counts `value` nanoseconds `count` times.
    #[inline]
    pub fn record(&mut self, value: u64, count: u64) {
        self.add(bucket_of(value), count);
    }

    /// Counts `count` values of a bucket that [`bucket_of`] named.
    #[inline]
    pub(super) fn add(&mut self, bucket: usize, count: u64) {
        self.counts[bucket.min(BUCKETS - 1)] += count;
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
    }

    /// Number of values counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The filled buckets in rising order: the nanoseconds that stand for the bucket, and its
    /// count. These are the `bins` of fio's `json+`.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        filled.map(|(bucket, &count)| (value_of(bucket), count))
    }

    /// For each of `percents` (rising, from 0 to 100) the nanoseconds that so many percent of the
    /// values do not exceed, as fio finds it: the bucket at which the count of values so far first
    /// reaches that share. All zeros if nothing was counted.
    ///
    /// The share is that of the binary fraction: 99.9 percent of 1000 is a little more than 999,
    /// because the nearest binary fraction is, and so is reached at the last value.
    pub fn percentiles(&self, percents: &[f64]) -> Vec<u64> {
        let total = u128::from(self.total());
        // Scaled up by 2^52 a fraction from 1 on is a whole number, which compares exactly.
        let share = |percent: f64| (percent * (1_u64 << 52) as f64) as u128 * total;
        let mut bins = self.bins();
        let (mut value, mut reached) = (0, 0_u64);
        let mut at = |percent: f64| {
            while (u128::from(reached) * 100) << 52 < share(percent) {
                let Some((next, count)) = bins.next() else {
                    break;
                };
                value = next;
                reached += count;
            }
            value
        };
        percents.iter().map(|&percent| at(percent)).collect()
    }
}

/// The bucket that counts `value` nanoseconds.
#[inline]
pub(super) const fn bucket_of(value: u64) -> usize {
    // Setting a bit makes values below 64 share the first shift, without a branch.
    let shift = 57 - (value | SUB_BUCKETS as u64).leading_zeros();
    let bucket = shift as usize * SUB_BUCKETS + (value >> shift) as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The smallest value in `bucket`, in nanoseconds.
pub(super) const fn low_of(bucket: usize) -> u64 {
    let shift = shift_of(bucket);
    ((bucket - shift * SUB_BUCKETS) as u64) << shift
}

/// The value that stands for `bucket` in reports, its middle, in nanoseconds.
const fn value_of(bucket: usize) -> u64 {
    low_of(bucket) + (1 << shift_of(bucket)) / 2
}

/// The logarithm of the width of `bucket`.
const fn shift_of(bucket: usize) -> usize {
    (bucket / SUB_BUCKETS).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies (a `clat_ns` minimum or maximum) and the bin in which fio 3.33 reported them.
    const FIO_FACTS: [(u64, u64); 17] = [
        (10, 10),
        (71, 71),
        (130, 131),
        (410, 410),
        (1_913, 1_912),
        (2_083, 2_096),
        (3_325, 3_312),
        (4_276, 4_256),
        (4_737, 4_768),
        (5_688, 5_664),
        (5_899, 5_920),
        (6_069, 6_048),
        (9_785, 9_792),
        (64_136, 64_256),
        (17_112_760_320, 17_112_760_320),
        (30_000_000_000, 17_112_760_320),
        (u64::MAX, 17_112_760_320),
    ];

    #[test]
    fn bins_are_those_of_fio() {
        for (latency, bin) in FIO_FACTS {
            let mut histogram = Histogram::new();
            histogram.record(latency, 3);
            assert_eq!(histogram.bins().collect::<Vec<_>>(), [(bin, 3)], "{latency} ns");
        }
    }

    #[test]
    fn buckets_tile_the_values_without_gaps() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(low_of(bucket)), bucket);
            assert_eq!(bucket_of(value_of(bucket)), bucket);
            if bucket > 0 {
                assert_eq!(bucket_of(low_of(bucket) - 1), bucket - 1);
            }
        }
    }

    #[test]
    fn an_empty_histogram_has_zero_percentiles() {
        assert_eq!(Histogram::new().percentiles(&PERCENTILES), [0; 17]);
    }

    #[test]
    fn a_percentile_is_the_first_bucket_that_reaches_its_share() {
        let mut histogram = Histogram::new();
        histogram.record(20, 1);
        histogram.record(30, 1);
        assert_eq!(histogram.percentiles(&[1.0, 50.0, 50.01, 100.0]), [20, 20, 30, 30]);
    }

    #[test]
    fn a_share_is_that_of_the_binary_fraction() {
        let mut histogram = Histogram::new();
        histogram.record(310, 999);
        histogram.record(7_840, 1);
        // 99.9 lies above its decimal fraction, 99.99 below: as fio printed for 1000 I/Os.
        assert_eq!(histogram.percentiles(&[99.5, 99.9]), [310, 7_840]);
        histogram.record(310, 9_000);
        assert_eq!(histogram.percentiles(&[99.9, 99.99]), [310, 310]);
    }

    #[test]
    fn merging_adds_counts() {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        a.record(5, 2);
        b.record(5, 1);
        b.record(500, 4);
        a.merge(&b);
        assert_eq!(a.bins().collect::<Vec<_>>(), [(5, 3), (502, 4)]);
        assert_eq!(a.total(), 7);
    }
}
