//! Runs of equal I/Os that are not yet in the statistics.
//!
//! I/Os often have the size and the latency of earlier ones: all of a batch on a null device, and in
//! virtual time each I/O of a queue those of the one before it in the same place. A run takes them
//! together, and the statistics get it with its count when a different I/O needs its place.
use crate::job::DataDir;
use zonal_blk::Nanos;

/// Places for runs, by a hash of the completion latency: enough for the I/Os of the usual depths.
const PLACES: usize = 64;

/// Equal I/Os.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub dir: DataDir,
    pub bytes: u64,
    pub slat: Nanos,
    pub clat: Nanos,
    /// How many; the other fields of an empty run have no meaning.
    pub count: u64,
}

impl Run {
    const EMPTY: Self =
        Self { dir: DataDir::Read, bytes: 0, slat: Nanos(0), clat: Nanos(0), count: 0 };
}

/// The runs that wait to be recorded.
#[derive(Clone, Debug)]
pub(super) struct PendingRuns([Run; PLACES]);

impl PendingRuns {
    /// No runs.
    pub(super) fn new() -> Self {
        PendingRuns([Run::EMPTY; PLACES])
    }

    /// Adds I/Os to the run of their equals. Returns the run that made place for them, to be recorded,
    /// unless it was empty.
    #[inline(always)]
    pub(super) fn add(&mut self, ios: Run) -> Option<Run> {
        let run = &mut self.0[place_of(ios.clat)];
        let is_equal = run.clat == ios.clat
            && run.slat == ios.slat
            && run.bytes == ios.bytes
            && run.dir == ios.dir;
        if is_equal {
            run.count += ios.count;
            return None;
        }
        Some(std::mem::replace(run, ios)).filter(|other| other.count > 0)
    }

    /// The runs.
    pub(super) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.0.iter().copied().filter(|run| run.count > 0)
    }

    /// Takes all runs.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new())
    }
}

/// The place of a latency: the upper bits of its product with 2^64 divided by the golden ratio, which
/// sets apart latencies that lie a constant distance from one another (Knuth, The Art of Computer
/// Programming, section 6.4).
#[inline]
fn place_of(clat: Nanos) -> usize {
    let hash = clat.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(clat: u64, bytes: u64) -> Run {
        Run { dir: DataDir::Write, bytes, slat: Nanos(0), clat: Nanos(clat), count: 1 }
    }

    #[test]
    fn latencies_that_repeat_are_runs_of_their_own() {
        let mut runs = PendingRuns::new();
        for _ in 0..100 {
            for latency in (10_000..).step_by(500).take(16) {
                assert!(runs.add(run(latency, 4096)).is_none(), "{latency} ns has a place");
            }
        }
        assert!(runs.iter().all(|run| run.count == 100));
        assert_eq!(runs.take().iter().count(), 16);
        assert_eq!(runs.iter().count(), 0, "they were taken");
    }

    #[test]
    fn an_io_of_the_same_latency_that_differs_ends_the_run() {
        let mut runs = PendingRuns::new();
        runs.add(run(100, 4096));
        runs.add(run(100, 4096));
        let ended = runs.add(run(100, 8192)).expect("another size");
        assert_eq!((ended.bytes, ended.count), (4096, 2));
        let ended = runs.add(Run { slat: Nanos(1), ..run(100, 8192) }).expect("another submission");
        assert_eq!((ended.bytes, ended.count), (8192, 1));
        let read = Run { slat: Nanos(1), dir: DataDir::Read, ..run(100, 8192) };
        assert!(runs.add(read).is_some_and(|ended| ended.dir == DataDir::Write));
        assert!(runs.iter().map(|run| run.dir).eq([DataDir::Read]));
    }
}
