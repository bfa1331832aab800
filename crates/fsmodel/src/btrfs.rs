//! btrfs on zones.
//!
//! Data go by zone append to one zone after another: a zone is a block group, and one is active
//! for data. Each extent leaves items in the trees, which a transaction commit writes to a zone of
//! their own, followed by a flush and a superblock.
use super::metadata::MetadataStyle;
use super::zoned::FsVariant;

/// Of an extent of 128 KiB: 32 checksums of 4 bytes, a file extent item, an extent item with its
/// back reference, their keys and headers (25 bytes each), in leaves two thirds full.
const TREE_BYTES_PER_EXTENT: u64 = 512;
/// Inode item, reference, directory item and index.
const TREE_BYTES_PER_FILE: u64 = 512;

pub(super) const VARIANT: FsVariant = FsVariant {
    zone_per_file: false,
    metadata: MetadataStyle::Tree,
    per_extent: TREE_BYTES_PER_EXTENT,
    per_file: TREE_BYTES_PER_FILE,
};
