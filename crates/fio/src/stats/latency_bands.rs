//! The share of I/Os in each of fio's coarse latency bands (`lat (usec) : 2=1.5%, 4=...`).
//!
//! Takes: completion latencies with their histogram bucket. Gives: counts for 10 bands below a
//! microsecond, 10 below a millisecond and 12 above. Keeps true: each latency is counted in
//! exactly one band, by its exact value: bands do not end where buckets do.
use super::histogram::{BUCKETS, low_of};

/// Names of the bands below 1 us: each holds latencies below so many nanoseconds.
pub const NSEC_LABELS: [&str; 10] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
/// Names of the bands from 1 us: each holds latencies below so many microseconds.
pub const USEC_LABELS: [&str; 10] = NSEC_LABELS;
/// Names of the bands from 1 ms: each holds latencies below so many milliseconds, but the last.
pub const MSEC_LABELS: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];

const BANDS: usize = 32;

/// Where each band ends, in nanoseconds.
const ENDS: [u64; BANDS] = {
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

/// The band of each bucket's smallest value. A bucket is narrower than any band, so its other
/// values are in that band or in the next one.
const BAND_OF_BUCKET: [u8; BUCKETS] = {
    let mut bands = [0; BUCKETS];
    let (mut bucket, mut band) = (0, 0);
    while bucket < BUCKETS {
        while low_of(bucket) >= ENDS[band as usize] {
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
    /// Counts `count` latencies of `nanos`, which is in histogram bucket `bucket`.
    #[inline]
    pub(super) fn add(&mut self, bucket: usize, nanos: u64, count: u64) {
        let band = usize::from(BAND_OF_BUCKET[bucket.min(BUCKETS - 1)]) % BANDS;
        let band = (band + usize::from(nanos >= ENDS[band])).min(BANDS - 1);
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
    use super::super::histogram::bucket_of;
    use super::*;

    fn band_of(nanos: u64) -> usize {
        let mut bands = LatencyBands::default();
        bands.add(bucket_of(nanos), nanos, 1);
        bands.counts.iter().position(|&count| count == 1).expect("counted once")
    }

    #[test]
    fn a_band_ends_just_below_its_name() {
        for (band, &end) in ENDS[..31].iter().enumerate() {
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
