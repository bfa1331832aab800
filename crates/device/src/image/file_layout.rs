//! Where things are in the file.
//!
//! ```text
//!  block 0, 1   superblock, twice
//!        2, 3   roots, of even and of odd generations
//!        4 ...  half 0: zone table, each block twice; log, each block twice
//!               half 1: the same, for odd generations
//!  1 MiB * n    slot 0, slot 1, ...: the data of the zones, in the order of their first writes
//! ```
use super::block::{BLOCK, ENTRIES};
use super::superblock::Superblock;
use zonal_blk::Sector;

const ROOTS: u64 = 2;
const HALVES: u64 = 4;
const MIB: u64 = 1 << 20;

/// Where things are in an image of one geometry. All places are bytes from the file's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLayout {
    table_blocks: u32,
    log_blocks: u32,
    stride: u64,
}

impl FileLayout {
    pub(super) fn new(superblock: &Superblock) -> Self {
        let geometry = &superblock.geometry;
        let entries = u32::try_from(ENTRIES).expect("a block has 126 entries");
        FileLayout {
            table_blocks: geometry.zones.div_ceil(entries),
            log_blocks: superblock.log_blocks,
            stride: geometry.most_data().0.next_multiple_of(BLOCK as u64),
        }
    }

    /// Blocks of a zone table.
    pub(super) fn table_blocks(&self) -> u32 {
        self.table_blocks
    }

    /// Blocks of a log.
    pub(super) fn log_blocks(&self) -> u32 {
        self.log_blocks
    }

    pub(super) fn superblock(copy: u64) -> u64 {
        copy * BLOCK as u64
    }

    /// The root of a generation.
    pub(super) fn root(generation: u64) -> u64 {
        (ROOTS + generation % 2) * BLOCK as u64
    }

    fn half_blocks(&self) -> u64 {
        2 * (u64::from(self.table_blocks) + u64::from(self.log_blocks))
    }

    /// The first copy of a table block of a generation; the second is behind it.
    pub(super) fn table(&self, generation: u64, index: u32) -> u64 {
        let first = HALVES + generation % 2 * self.half_blocks();
        (first + 2 * u64::from(index)) * BLOCK as u64
    }

    /// The first copy of a log block of a generation; the second is behind it.
    pub(super) fn log(&self, generation: u64, index: u32) -> u64 {
        self.table(generation, self.table_blocks + index)
    }

    /// Where data begin: slot 0.
    pub(super) fn data(&self) -> u64 {
        ((HALVES + 2 * self.half_blocks()) * BLOCK as u64).next_multiple_of(MIB)
    }

    /// The length of a slot.
    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// Where a slot begins.
    pub(super) fn slot(&self, slot: u32) -> u64 {
        self.data() + u64::from(slot) * self.stride
    }

    /// Where so many sectors from the start of a slot are.
    pub(super) fn in_slot(&self, slot: u32, at: Sector) -> u64 {
        self.slot(slot) + at.to_bytes().0
    }
}
