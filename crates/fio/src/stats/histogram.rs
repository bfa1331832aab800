//! A log-linear latency histogram with fio's buckets, and fio's coarse latency bands.
//!
//! A bucket is at most 1/64 as wide as the values in it, so a percentile is within 0.8% of the exact
//! one, and two histograms can be added bucket by bucket.
//!
//! ```text
//!  values   0 .. 127      128 .. 255     256 .. 511     512 .. 1023   ...  2^33 .. 2^34
//!  width    1             2              4              8                  2^27
//!  buckets  128           64             64             64                 64 (the last takes all above)
//! ```
//!
//! The bounds of the buckets and the value that represents a bucket (its middle) were taken from the
//! `bins` of fio 3.33's `json+` output, so that tools which merge such files find the same keys.
//!
//! A latency is counted in a band (`lat (usec) : 2=1.5%, 4=...`) by its exact value: bands do not end
//! where buckets do.

/// Buckets between two powers of two.
const SUB_BUCKETS: usize = 64;
/// Number of buckets, as in fio 3.33.
pub const BUCKETS: usize = 29 * SUB_BUCKETS;

/// Counts of latencies by bucket.
///
/// An empty one takes no memory: thousands of jobs have three each and most use one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// `None` before the first value.
    counts: Option<Box<[u64; BUCKETS]>>,
}

/// The counts of an empty histogram.
static EMPTY: [u64; BUCKETS] = [0; BUCKETS];

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counts, to be changed.
    #[inline]
    fn counts_mut(&mut self) -> &mut [u64; BUCKETS] {
        self.counts.get_or_insert_with(|| {
            let counts = vec![0; BUCKETS].into_boxed_slice();
            counts.try_into().expect("a slice of BUCKETS counts")
        })
    }

    /// Counts `value` nanoseconds `count` times.
    #[inline]
    pub fn record(&mut self, value: u64, count: u64) {
        self.add(bucket_of(value), count);
    }

    /// Counts `count` values of a bucket returned by [`bucket_of`].
    #[inline]
    pub(super) fn add(&mut self, bucket: usize, count: u64) {
        self.counts_mut()[bucket.min(BUCKETS - 1)] += count;
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.counts else { return };
        for (mine, theirs) in self.counts_mut().iter_mut().zip(theirs.iter()) {
            *mine += theirs;
        }
    }

    /// Number of values counted.
    pub fn total(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The counts of all buckets in ascending order.
    pub fn counts(&self) -> &[u64; BUCKETS] {
        self.counts.as_deref().unwrap_or(&EMPTY)
    }

    /// The non-empty buckets in ascending order: the nanoseconds that represent the bucket, and its
    /// count. These are the `bins` of fio's `json+`.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.counts().iter().enumerate().filter(|&(_, &count)| count > 0);
        filled.map(|(bucket, &count)| (value_of(bucket), count))
    }

    /// The percentiles `percents` (ascending, from 0 to 100) in nanoseconds, determined as in fio: the
    /// first bucket at which the cumulative count reaches that share. Zero if nothing was counted.
    ///
    /// The share is that of the binary fraction: the binary fraction nearest to 99.9 is a little
    /// larger, so 99.9 percent of 1000 values are reached at the last value.
    pub fn percentiles(&self, percents: &[f64]) -> Vec<u64> {
        let total = u128::from(self.total());
        // Scaled by 2^52, a fraction of at least 1 is a whole number, which compares exactly.
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
    // Setting a bit gives values below 64 the first shift, without a branch.
    let shift = 57 - (value | SUB_BUCKETS as u64).leading_zeros();
    let bucket = shift as usize * SUB_BUCKETS + (value >> shift) as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The smallest value in `bucket`, in nanoseconds.
pub(super) const fn low_of(bucket: usize) -> u64 {
    let shift = shift_of(bucket);
    ((bucket - shift * SUB_BUCKETS) as u64) << shift
}

/// The value that represents `bucket` in reports, its middle, in nanoseconds.
const fn value_of(bucket: usize) -> u64 {
    low_of(bucket) + (1 << shift_of(bucket)) / 2
}

/// The logarithm of the width of `bucket`.
const fn shift_of(bucket: usize) -> usize {
    (bucket / SUB_BUCKETS).saturating_sub(1)
}

/// Labels of the bands below 1 us: upper bounds (exclusive) in nanoseconds.
pub const NSEC_LABELS: [&str; 10] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
/// Labels of the bands from 1 us: upper bounds (exclusive) in microseconds.
pub const USEC_LABELS: [&str; 10] = NSEC_LABELS;
/// Labels of the bands from 1 ms: upper bounds (exclusive) in milliseconds; the last band has none.
pub const MSEC_LABELS: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];

const BANDS: usize = 32;

/// Upper bound (exclusive) of each band in nanoseconds.
const BAND_ENDS: [u64; BANDS] = {
    let steps = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
    let mut ends = [u64::MAX; BANDS];
    let mut i = 0;
    while i < 10 {
        ends[i] = steps[i];
        ends[10 + i] = steps[i] * 1_000;
        ends[20 + i] = steps[i] * 1_000_000;
        i += 1;
    }
    ends[30] = 2_000_000_000;
    ends
};

/// The band of each bucket's smallest value. A bucket is narrower than any band, so its other values
/// are in that band or the next one.
const BAND_OF_BUCKET: [u8; BUCKETS] = {
    let mut bands = [0; BUCKETS];
    let (mut bucket, mut band) = (0, 0);
    while bucket < BUCKETS {
        while low_of(bucket) >= BAND_ENDS[band as usize] {
            band += 1;
        }
        bands[bucket] = band;
        bucket += 1;
    }
    bands
};

/// Counts of completion latencies by band, all directions together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyBands {
    counts: [u64; BANDS],
}

impl LatencyBands {
    /// Counts `count` latencies of `nanos`, which is in bucket `bucket`.
    #[inline]
    pub(super) fn add(&mut self, bucket: usize, nanos: u64, count: u64) {
        let band = usize::from(BAND_OF_BUCKET[bucket.min(BUCKETS - 1)]) % BANDS;
        let band = (band + usize::from(nanos >= BAND_ENDS[band])).min(BANDS - 1);
        self.counts[band] += count;
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }

    /// Number of latencies counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts below a microsecond, one for each of [`NSEC_LABELS`].
    pub fn nsec(&self) -> &[u64] {
        &self.counts[..10]
    }

    /// Counts from a microsecond on, one for each of [`USEC_LABELS`].
    pub fn usec(&self) -> &[u64] {
        &self.counts[10..20]
    }

    /// Counts from a millisecond on, one for each of [`MSEC_LABELS`].
    pub fn msec(&self) -> &[u64] {
        &self.counts[20..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::PERCENTILES;

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

    fn band_of(nanos: u64) -> usize {
        let mut bands = LatencyBands::default();
        bands.add(bucket_of(nanos), nanos, 1);
        bands.counts.iter().position(|&count| count == 1).expect("counted once")
    }

    #[test]
    fn a_band_ends_just_below_its_label() {
        for (band, &end) in BAND_ENDS[..31].iter().enumerate() {
            assert_eq!(band_of(end - 1), band, "{} ns", end - 1);
            assert_eq!(band_of(end), band + 1, "{end} ns");
        }
    }

    #[test]
    fn all_latencies_beyond_two_seconds_are_in_the_last_band() {
        assert_eq!(band_of(3_000_000_000), 31);
        assert_eq!(band_of(u64::MAX), 31);
    }

    #[test]
    fn the_three_ranges_split_at_micro_and_millisecond() {
        let mut bands = LatencyBands::default();
        for (nanos, count) in [(999, 1), (1_000, 2), (999_999, 4), (1_000_000, 8)] {
            bands.add(bucket_of(nanos), nanos, count);
        }
        assert_eq!(
            (bands.nsec()[9], bands.usec()[0], bands.usec()[9], bands.msec()[0]),
            (1, 2, 4, 8)
        );
        assert_eq!(bands.total(), 15);
    }
}
