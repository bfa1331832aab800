//! The sizes and places of the files of a clone (`nrfiles=`, `filesize=`).
use crate::job::{DataDir, Extent, Job};
use crate::rng::Rng;

/// Files begin at multiples of this many bytes: the largest LBA.
const ALIGN: u64 = 4096;
/// The stream of random numbers for the sizes of files; the generator uses 0, 1 and 3.
pub(super) const SIZE_STREAM: u64 = 4;

/// Sizes of the files of a clone in bytes.
pub(super) struct Layout {
    pub(super) sizes: Vec<u64>,
    /// Bytes from one file to the next.
    pub(super) slot: u64,
}

impl Layout {
    /// The files of a clone; `None` if the job has no more than one, or has a file system for them.
    ///
    /// As in fio, files whose size is not given divide `size`, and a range of sizes is cut off there.
    pub(super) fn new(job: &Job, clone: u32) -> Option<Self> {
        let count = job.fs.nrfiles.filter(|&files| files > 1 && job.fs.kind.is_none())?;
        let block = DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
        let block = block.map(|dir| job.min_bs(dir)).min().expect("a direction");
        let share = match job.size {
            Some(Extent::Bytes(size)) => size / u64::from(count),
            _ => u64::MAX,
        };
        let (min, max) = match job.fs.filesize {
            Some((min, max)) if min < max => (min.min(share), max.min(share)),
            Some(size) => size,
            None => (share, share),
        };
        let mut rng = Rng::new(job.randseed, [u64::from(clone), 0, 0, SIZE_STREAM]);
        let blocks = |bytes: u64| (bytes / block * block).max(block);
        let draw = |_| blocks(if min < max { min + rng.below(max - min + 1) } else { max });
        Some(Layout {
            sizes: (0..count).map(draw).collect(),
            slot: max.checked_next_multiple_of(ALIGN)?,
        })
    }

    /// Bytes from the first file of a clone to that of the next; `None` if that is beyond any device.
    pub(super) fn len(&self) -> Option<u64> {
        self.slot.checked_mul(self.sizes.len() as u64)
    }

    /// Where the files of a clone begin if those of the first begin at `start`.
    pub(super) fn place(&self, start: u64, clone: u32) -> Option<u64> {
        start.checked_add(self.len()?.checked_mul(u64::from(clone))?)
    }

    /// Bytes of all files.
    pub(super) fn total(&self) -> u64 {
        self.sizes.iter().fold(0, |total, size| total.saturating_add(*size))
    }
}
