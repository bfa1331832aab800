//! How deep the queue was, and how many I/Os were submitted and completed at a time.
//!
//! Takes: batch sizes and depths. Gives: counts in fio's seven levels. Keeps true: each I/O of a
//! batch counts with the depth that it saw itself: a batch of 4 that fills the queue to 8 has
//! seen the depths 5, 6, 7 and 8.

/// Names of the depth levels: each holds depths from its name up to below the next.
pub const DEPTH_LABELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
/// Names of the batch sizes: each holds sizes above the one before up to its name; above 64 the
/// last.
pub const BATCH_LABELS: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// Counts of I/Os by the depth they were submitted at (fio's `IO depths`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepthLevels {
    counts: [u64; 7],
}

impl DepthLevels {
    /// Counts a batch of `count` I/Os with `depth` I/Os in flight after it.
    #[inline]
    pub fn add(&mut self, count: u32, depth: u32) {
        let last = depth_level(depth);
        let first_depth = depth.saturating_sub(count.saturating_sub(1)).max(1);
        if depth_level(first_depth) == last {
            self.counts[last] += u64::from(count);
        } else {
            self.spread(first_depth, depth);
        }
    }

    /// Counts one I/O at each depth from `from` to `to`.
    fn spread(&mut self, from: u32, to: u32) {
        for depth in from..=to {
            self.counts[depth_level(depth)] += 1;
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        merge_counts(&mut self.counts, &other.counts);
    }

    /// One count of I/Os for each of [`DEPTH_LABELS`].
    pub fn counts(&self) -> &[u64; 7] {
        &self.counts
    }
}

/// Counts of submissions, or of reapings, by the number of I/Os in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSizes {
    counts: [u64; 7],
}

impl BatchSizes {
    /// Counts one batch of `size` I/Os.
    #[inline]
    pub fn add(&mut self, size: u32) {
        self.counts[batch_level(size)] += 1;
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        merge_counts(&mut self.counts, &other.counts);
    }

    /// One count of batches for each of [`BATCH_LABELS`].
    pub fn counts(&self) -> &[u64; 7] {
        &self.counts
    }
}

fn merge_counts(mine: &mut [u64; 7], theirs: &[u64; 7]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += theirs;
    }
}

/// The place of `depth` in [`DEPTH_LABELS`].
#[inline]
fn depth_level(depth: u32) -> usize {
    (depth.max(1).ilog2() as usize).min(6)
}

/// The place of `size` in [`BATCH_LABELS`].
#[inline]
fn batch_level(size: u32) -> usize {
    match size.checked_sub(1) {
        None => 0,
        Some(below) => ((32 - below.leading_zeros()).clamp(2, 7) - 1) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_fall_into_powers_of_two() {
        let levels = [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 1000].map(depth_level);
        assert_eq!(levels, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
    }

    #[test]
    fn batches_are_named_by_their_largest_size() {
        let levels = [0, 1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 1000].map(batch_level);
        assert_eq!(levels, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
    }

    #[test]
    fn a_batch_counts_each_depth_on_its_way() {
        let mut levels = DepthLevels::default();
        levels.add(16, 16);
        assert_eq!(levels.counts(), &[1, 2, 4, 8, 1, 0, 0]);
        levels.add(2, 16);
        assert_eq!(levels.counts(), &[1, 2, 4, 9, 2, 0, 0]);
        levels.add(5, 64 + 10);
        assert_eq!(levels.counts(), &[1, 2, 4, 9, 2, 0, 5]);
    }

    #[test]
    fn one_io_at_a_time_is_depth_one() {
        let mut levels = DepthLevels::default();
        levels.add(1, 1);
        assert_eq!(levels.counts(), &[1, 0, 0, 0, 0, 0, 0]);
    }
}
