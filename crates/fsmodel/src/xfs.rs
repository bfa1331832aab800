//! XFS with its zoned allocator (Linux 6.15 and newer).
//!
//! Data go by zone append to open zones, up to `fs_open_zones` of them, files that are open for
//! writing each to one of their own as far as there are. Metadata go to a log on the conventional
//! zones.
use super::metadata::MetadataStyle;
use super::zoned::FsVariant;

/// A file made, written and closed puts an inode, a directory block's changes and its extents in
/// the log: of the order of 2 KiB.
const LOG_BYTES_PER_FILE: u64 = 1024;
/// An extent is recorded when its write completes: a mapping in the inode and one in the reverse
/// map, with the log's headers.
const LOG_BYTES_PER_EXTENT: u64 = 256;

pub(super) const VARIANT: FsVariant = FsVariant {
    zone_per_file: true,
    metadata: MetadataStyle::Log,
    per_extent: LOG_BYTES_PER_EXTENT,
    per_file: LOG_BYTES_PER_FILE,
};
