//! The metadata of a file system on a zoned device.
//!
//! Metadata accumulates in memory until a commit writes it in three stages: nodes, a flush of the
//! disk's write cache, and the superblock that makes it valid.
use super::zones::ZoneSpace;
use super::{BlockIo, Content};
use zonal_blk::{BioFlags, Op, Sector};

/// How metadata is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetadataStyle {
    /// A circular log on the conventional zones; on another device, if there are none.
    Log,
    /// Copy on write: nodes to a zone of their own, then a superblock to another.
    Tree,
}

/// Where metadata is written: a ring of bytes that can be overwritten, or zones.
struct Region {
    /// Start and end of the ring; empty for zones.
    ring: (u64, u64),
    at: u64,
    zone: Option<usize>,
    /// Extents that are dead after the next commit.
    live: Vec<(u64, u64)>,
}

/// The metadata of a file system.
pub(super) struct Metadata {
    style: MetadataStyle,
    nodes: Region,
    superblock: Region,
    /// Bytes to write in the next commit.
    due: u64,
    stage: Stage,
    in_flight: u32,
    max_bytes: u64,
    lba: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Nodes,
    Flush,
    Superblock,
}

/// A metadata I/O and the zone in which its room is reserved.
pub(super) struct MetaIo {
    pub(super) io: BlockIo,
    pub(super) zone: Option<usize>,
}

/// Bytes of a superblock (btrfs `BTRFS_SUPER_INFO_SIZE`).
const SUPERBLOCK: u64 = 4096;

impl Region {
    fn new(ring: (u64, u64)) -> Self {
        Region { ring, at: ring.0, zone: None, live: Vec::new() }
    }

    /// Takes room for up to `bytes`: returns offset, length and zone.
    fn take(&mut self, space: &mut ZoneSpace, bytes: u64) -> Option<(u64, u64, Option<usize>)> {
        let (start, end) = self.ring;
        if start < end {
            if self.at == end {
                self.at = start;
            }
            let (place, bytes) = (self.at, bytes.min(end - self.at));
            self.at += bytes;
            return Some((place, bytes, None));
        }
        if self.zone.is_none_or(|zone| space.room(zone) == 0) {
            self.zone = Some(space.open()?);
        }
        let zone = self.zone.expect("just opened");
        let bytes = bytes.min(space.room(zone));
        let place = space.reserve(zone, bytes);
        self.live.push((place, bytes));
        Some((place, bytes, Some(zone)))
    }
}

impl Metadata {
    pub(super) fn new(style: MetadataStyle, space: &ZoneSpace, max_bytes: u64, lba: u64) -> Self {
        let (start, end) = space.conventional();
        let rings = match style {
            MetadataStyle::Log => [(start, end), (0, 0)],
            MetadataStyle::Tree if start < end => {
                [(start + SUPERBLOCK, end), (start, start + SUPERBLOCK)]
            }
            MetadataStyle::Tree => [(0, 0), (0, 0)],
        };
        Metadata {
            style,
            nodes: Region::new(rings[0]),
            superblock: Region::new(rings[1]),
            due: 0,
            stage: Stage::Idle,
            in_flight: 0,
            max_bytes,
            lba,
        }
    }

    /// Adds bytes to the next commit.
    pub(super) fn add(&mut self, bytes: u64) {
        self.due += bytes;
    }

    /// Starts a commit, unless one is in progress.
    pub(super) fn commit(&mut self, space: &mut ZoneSpace) -> Vec<MetaIo> {
        if self.stage != Stage::Idle || self.due == 0 {
            return Vec::new();
        }
        let mut left = std::mem::take(&mut self.due).next_multiple_of(self.lba.max(SUPERBLOCK));
        if self.style == MetadataStyle::Log && self.nodes.ring == (0, 0) {
            // The log is on another device.
            return Vec::new();
        }
        self.stage = Stage::Nodes;
        let dead = std::mem::take(&mut self.nodes.live);
        let mut ios = Vec::new();
        while left > 0 {
            let Some((place, bytes, zone)) = self.nodes.take(space, left.min(self.max_bytes))
            else {
                // No room: the next commit tries again.
                self.due += left;
                break;
            };
            ios.push(self.write(place, bytes, zone));
            left -= bytes;
        }
        dead.into_iter().for_each(|(place, bytes)| space.release(place, bytes));
        if ios.is_empty() {
            self.stage = Stage::Idle;
        }
        ios
    }

    fn write(&mut self, place: u64, bytes: u64, zone: Option<usize>) -> MetaIo {
        self.in_flight += 1;
        let flags = if self.style == MetadataStyle::Log {
            BioFlags::PREFLUSH | BioFlags::FUA
        } else if self.stage == Stage::Superblock {
            BioFlags::FUA
        } else {
            BioFlags::NONE
        };
        MetaIo { io: io(Op::Write, flags, place, bytes), zone }
    }

    /// A metadata I/O has completed. Returns those of the next stage.
    pub(super) fn completed(&mut self, space: &mut ZoneSpace) -> Vec<MetaIo> {
        self.in_flight -= 1;
        if self.in_flight > 0 {
            return Vec::new();
        }
        match (self.style, self.stage) {
            (MetadataStyle::Tree, Stage::Nodes) => {
                self.stage = Stage::Flush;
                self.in_flight = 1;
                vec![MetaIo { io: io(Op::Flush, BioFlags::NONE, 0, 0), zone: None }]
            }
            (MetadataStyle::Tree, Stage::Flush) => {
                self.stage = Stage::Superblock;
                let dead = std::mem::take(&mut self.superblock.live);
                let room = self.superblock.take(space, SUPERBLOCK);
                dead.into_iter().for_each(|(place, bytes)| space.release(place, bytes));
                let Some((place, bytes, zone)) = room else {
                    self.stage = Stage::Idle;
                    return Vec::new();
                };
                vec![self.write(place, bytes, zone)]
            }
            _ => {
                self.stage = Stage::Idle;
                Vec::new()
            }
        }
    }
}

fn io(op: Op, flags: BioFlags, place: u64, bytes: u64) -> BlockIo {
    let content = if op == Op::Flush { Content::None } else { Content::Metadata };
    BlockIo {
        disk: 0,
        op,
        flags,
        sector: Sector(place / 512),
        nr_sectors: u32::try_from(bytes / 512).expect("a command is shorter than 2 TiB"),
        content,
        id: 0,
    }
}
