//! Where an image has the state of a model: two halves, each with a root, twice, a map and a log.
use super::block::BLOCK;

/// Bytes of a block before its contents.
pub(super) const HEADER: usize = 64;
/// Bytes of the state in a block.
pub(super) const PAYLOAD: usize = BLOCK - HEADER;
/// Fewest blocks of the log.
const LOG_BLOCKS: u32 = 4096;
/// Copies of a root.
pub(super) const ROOTS: u32 = 2;

/// Where the state is in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateLayout {
    /// Where it begins, in bytes.
    pub(super) at: u64,
    /// Blocks of the map.
    pub(super) map_blocks: u32,
    /// Copies of each block of the log, one after the other.
    pub(super) copies: u32,
}

impl StateLayout {
    /// The blocks of a map of this many bytes; `None` if it is too large.
    pub(super) fn map_blocks(bytes: u64) -> Option<u32> {
        let blocks = u32::try_from(bytes.div_ceil(PAYLOAD as u64)).ok()?;
        (blocks <= u32::MAX / 4).then_some(blocks)
    }

    /// Blocks of the log.
    pub(super) fn log_blocks(&self) -> u32 {
        LOG_BLOCKS.max(self.map_blocks / 2)
    }

    fn half(&self) -> u64 {
        let log = u64::from(self.copies) * u64::from(self.log_blocks());
        (u64::from(ROOTS + self.map_blocks) + log) * BLOCK as u64
    }

    /// Its size in the file.
    pub(super) fn bytes(&self) -> u64 {
        2 * self.half()
    }

    /// The copies of the root of a generation.
    pub(super) fn root(&self, generation: u64) -> u64 {
        self.at + generation % 2 * self.half()
    }

    /// A block of the map of a generation.
    pub(super) fn map(&self, generation: u64, index: u32) -> u64 {
        self.root(generation) + u64::from(ROOTS + index) * BLOCK as u64
    }

    /// The first copy of a block of the log of a generation.
    pub(super) fn log(&self, generation: u64, index: u32) -> u64 {
        let first = self.map(generation, self.map_blocks);
        first + u64::from(self.copies) * u64::from(index) * BLOCK as u64
    }
}
