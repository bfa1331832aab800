//! Counters: queue depths, batch sizes, errors, and what a file system did.
use crate::job::DataDir;
use zonal_blk::Status;

/// Labels of the depth levels: each counts depths from its label up to the next one (exclusive).
pub const DEPTH_LABELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
/// Labels of the batch sizes: each counts sizes above the label before up to its own (inclusive).
pub const BATCH_LABELS: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// Counts of I/Os by the depth that they were submitted at (fio's `IO depths`).
///
/// Each I/O of a batch counts with its own depth: a batch of 4 that fills the queue to 8 counts the
/// depths 5, 6, 7 and 8.
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

/// Counts of submissions, or of reaped completions, by batch size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSizes {
    counts: [u64; 7],
}

impl BatchSizes {
    /// Counts a batch of `size` I/Os.
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

/// The index of `depth` in [`DEPTH_LABELS`].
#[inline]
fn depth_level(depth: u32) -> usize {
    (depth.max(1).ilog2() as usize).min(6)
}

/// The index of `size` in [`BATCH_LABELS`].
#[inline]
fn batch_level(size: u32) -> usize {
    match size.checked_sub(1) {
        None => 0,
        Some(below) => ((32 - below.leading_zeros()).clamp(2, 7) - 1) as usize,
    }
}

/// Failed I/Os of a job by direction and status, in the order in which statuses were first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    by_status: Vec<(Status, [u64; 3])>,
}

impl Errors {
    /// Counts one failed I/O.
    pub fn add(&mut self, dir: DataDir, status: Status) {
        self.counts_of(status)[dir as usize] += 1;
    }

    /// Adds all counts of `other`; its statuses come after those seen here.
    pub fn merge(&mut self, other: &Self) {
        for &(status, theirs) in &other.by_status {
            for (mine, theirs) in self.counts_of(status).iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }

    fn counts_of(&mut self, status: Status) -> &mut [u64; 3] {
        let seen = self.by_status.iter().position(|&(s, _)| s == status);
        let index = seen.unwrap_or_else(|| {
            self.by_status.push((status, [0; 3]));
            self.by_status.len() - 1
        });
        &mut self.by_status[index].1
    }

    /// The same errors, as if all I/Os were reads.
    pub fn unified(&self) -> Self {
        let all = |&(status, counts): &(Status, [u64; 3])| (status, [counts.iter().sum(), 0, 0]);
        Errors { by_status: self.by_status.iter().map(all).collect() }
    }

    /// Number of failed I/Os.
    pub fn total(&self) -> u64 {
        self.by_status.iter().flat_map(|(_, counts)| counts).sum()
    }

    /// Number of failed I/Os of `dir`.
    pub fn of(&self, dir: DataDir) -> u64 {
        self.by_status.iter().map(|(_, counts)| counts[dir as usize]).sum()
    }

    /// The status of the first failed I/O.
    pub fn first(&self) -> Option<Status> {
        self.by_status.first().map(|&(status, _)| status)
    }

    /// Each status seen, with its counts by [`DataDir`].
    pub fn by_status(&self) -> &[(Status, [u64; 3])] {
        &self.by_status
    }
}

/// Counters of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsCounters {
    /// Its name.
    pub name: &'static str,
    /// Bytes that processes read and wrote.
    pub file_bytes: [u64; 2],
    /// Of the bytes read, those that were cached.
    pub cached_bytes: u64,
    /// Block reads and writes of file data.
    pub data_ios: [u64; 2],
    /// Their bytes.
    pub data_bytes: [u64; 2],
    /// Block reads and writes of metadata.
    pub metadata_ios: [u64; 2],
    /// Their bytes.
    pub metadata_bytes: [u64; 2],
    /// Of the block writes, those that were zone appends.
    pub appends: u64,
    /// Whether the device executes zone appends; otherwise the block layer emulates them.
    pub native_appends: bool,
    /// Zone resets.
    pub zone_resets: u64,
    /// Flushes of the write caches of the disks.
    pub flushes: u64,
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
    fn batches_are_labelled_by_their_largest_size() {
        let levels = [0, 1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 1000].map(batch_level);
        assert_eq!(levels, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
    }

    #[test]
    fn a_batch_counts_each_depth_it_passes() {
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

    #[test]
    fn errors_are_counted_by_status_and_direction() {
        let mut errors = Errors::default();
        errors.add(DataDir::Write, Status::IoError);
        errors.add(DataDir::Read, Status::Medium);
        errors.add(DataDir::Write, Status::IoError);
        let mut sum = Errors::default();
        sum.add(DataDir::Read, Status::Medium);
        sum.merge(&errors);
        assert_eq!((sum.total(), sum.of(DataDir::Read), sum.of(DataDir::Write)), (4, 2, 2));
        assert_eq!(sum.by_status(), [(Status::Medium, [2, 0, 0]), (Status::IoError, [0, 2, 0])]);
        assert_eq!((errors.first(), sum.first()), (Some(Status::IoError), Some(Status::Medium)));
    }
}
