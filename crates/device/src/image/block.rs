//! Metadata blocks: 4096 bytes with a header, a checksum and up to 126 zone entries.
//!
//! A block that was torn, changed, or belongs to another image does not decode.
use super::geometry::ImageGeometry;
use crc_fast::{CrcAlgorithm, Digest};
use zonal_blk::{Sector, ZoneCondition, ZoneNo};

/// Size of a metadata block.
pub const BLOCK: usize = 4096;
/// Generations, and numbers of lists of regions, are below this: more than any writer counts to, and
/// the next one can be computed.
pub(super) const GENERATIONS: u64 = 1 << 63;
/// Size of a block's header.
const HEADER: usize = 64;
/// Unflushed data of a zone beyond which no checksum is kept: the data are synced before the entry
/// then.
pub(super) const MAX_COVERED: Sector = Sector(1 << 11);
/// Entries of a full block.
pub(super) const ENTRIES: usize = (BLOCK - HEADER) / ZoneEntry::BYTES;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Names the current generation.
    Root,
    /// A part of a zone table.
    Table,
    /// A part of a batch of the log.
    Log,
}

impl BlockKind {
    fn magic(self) -> [u8; 4] {
        match self {
            BlockKind::Root => *b"ZNLR",
            BlockKind::Table => *b"ZNLT",
            BlockKind::Log => *b"ZNLL",
        }
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: BlockKind,
    /// The first half of the image's UUID.
    pub(super) image: u64,
    pub(super) generation: u64,
    /// The block's index in its table or log.
    pub(super) index: u32,
    /// Entries in it.
    pub(super) count: u32,
    /// In the log: the number of the batch, the block's index in it, and the batch's number of blocks.
    pub(super) batch: u32,
    pub(super) part: u32,
    pub(super) parts: u32,
}

/// The little-endian number at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The little-endian number at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The CRC-32C of a block, with the checksum at `at` counted as zero.
pub(super) fn checksum(block: &[u8], at: usize) -> u32 {
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for bytes in [&block[..at], &[0; 4], &block[at + 4..]] {
        crc.update(bytes);
    }
    finish(&crc)
}

/// The CRC-32C `crc`, 0 for that of no bytes, continued with `bytes`.
pub(super) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    finish(&digest)
}

fn finish(crc: &Digest) -> u32 {
    u32::try_from(crc.finalize()).expect("a CRC of 32 bits")
}

/// Encodes a block.
pub(super) fn encode_block(block: &mut [u8], header: &Header, entries: &[ZoneEntry]) {
    block.fill(0);
    put(block, 0, &header.kind.magic());
    put(block, 8, &header.image.to_le_bytes());
    put(block, 16, &header.generation.to_le_bytes());
    put(block, 24, &header.index.to_le_bytes());
    put(block, 28, &header.count.to_le_bytes());
    put(block, 32, &header.batch.to_le_bytes());
    put(block, 36, &header.part.to_le_bytes());
    put(block, 40, &header.parts.to_le_bytes());
    for (entry, to) in entries.iter().zip(block[HEADER..].chunks_exact_mut(ZoneEntry::BYTES)) {
        entry.encode(to);
    }
    let crc = checksum(block, 4);
    put(block, 4, &crc.to_le_bytes());
}

/// The header of a block; `None` unless the checksum, the kind and the image are right, and the
/// generation and the number of entries are possible.
pub(super) fn decode_block(block: &[u8], kind: BlockKind, image: u64) -> Option<Header> {
    let whole = block[..4] == kind.magic() && u32_at(block, 4) == checksum(block, 4);
    let header = Header {
        kind,
        image: u64_at(block, 8),
        generation: u64_at(block, 16),
        index: u32_at(block, 24),
        count: u32_at(block, 28),
        batch: u32_at(block, 32),
        part: u32_at(block, 36),
        parts: u32_at(block, 40),
    };
    let possible = header.generation < GENERATIONS && header.count as usize <= ENTRIES;
    (whole && header.image == image && possible).then_some(header)
}

/// The encoded entries of a block.
pub(super) fn entries<'a>(block: &'a [u8], header: &Header) -> impl Iterator<Item = &'a [u8]> {
    block[HEADER..].chunks_exact(ZoneEntry::BYTES).take(header.count as usize)
}

/// A zone without a slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// Data that a log entry covers with a checksum, so that they need not be synchronized before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveredData {
    /// Their start, as an offset in the zone. They end where the zone's data end.
    pub from: Sector,
    /// Their CRC-32C.
    pub crc: u32,
}

/// The state of one zone in the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneEntry {
    /// The zone.
    pub zone: ZoneNo,
    /// Its condition; no zone is open.
    pub cond: ZoneCondition,
    /// The slot of the file with its data; `None` for a zone that was never written.
    pub slot: Option<u32>,
    /// Where its data end, as an offset in the zone. 0 for a conventional zone.
    pub written: Sector,
    /// Counts, from version 4 on, how often the end of its data has moved back, modulo 2^16.
    pub epoch: u16,
    /// In the log: the entry counts only if these data are there.
    pub covered: Option<CoveredData>,
}

impl ZoneEntry {
    pub(super) const BYTES: usize = 32;

    /// A zone that was never written.
    pub(super) fn new(zone: ZoneNo, geometry: &ImageGeometry) -> Self {
        let conventional = zone.0 < geometry.conventional;
        let cond = if conventional { ZoneCondition::NotWritePointer } else { ZoneCondition::Empty };
        ZoneEntry { zone, cond, slot: None, written: Sector(0), epoch: 0, covered: None }
    }

    /// How much data it covers.
    pub(super) fn covered_len(&self) -> Sector {
        self.covered.map_or(Sector(0), |data| self.written - data.from)
    }

    pub(super) fn encode(&self, to: &mut [u8]) {
        to.fill(0);
        to[0] = self.cond as u8;
        to[1] = self.covered.is_some().into();
        put(to, 2, &self.epoch.to_le_bytes());
        put(to, 4, &self.zone.0.to_le_bytes());
        put(to, 8, &self.slot.unwrap_or(NO_SLOT).to_le_bytes());
        put(to, 16, &self.written.0.to_le_bytes());
        if let Some(covered) = self.covered {
            put(to, 12, &covered.crc.to_le_bytes());
            put(to, 24, &covered.from.0.to_le_bytes());
        }
    }

    /// Decodes an entry; `None` for a state that no zone of this geometry can have.
    pub(super) fn decode(from: &[u8], geometry: &ImageGeometry) -> Option<Self> {
        use ZoneCondition::{Closed, Empty, Full, NotWritePointer, Offline, ReadOnly};
        let known = [NotWritePointer, Empty, Closed, ReadOnly, Full, Offline];
        let cond = known.into_iter().find(|&cond| cond as u8 == from[0])?;
        let zone = ZoneNo(u32_at(from, 4));
        let written = Sector(u64_at(from, 16));
        let slot = Some(u32_at(from, 8)).filter(|&slot| slot != NO_SLOT);
        let covered = match from[1] {
            0 => None,
            1 => Some(CoveredData { from: Sector(u64_at(from, 24)), crc: u32_at(from, 12) }),
            _ => return None,
        };
        let conventional = zone.0 < geometry.conventional;
        let capacity = if conventional { Sector(0) } else { geometry.zone_capacity };
        let fits = match cond {
            NotWritePointer => conventional,
            Empty => !conventional && written == Sector(0),
            Closed => !conventional && written > Sector(0) && written < capacity,
            Full => !conventional,
            _ => true,
        };
        let valid = zone.0 < geometry.zones
            && slot.is_none_or(|slot| slot < geometry.zones)
            && (slot.is_some() || written == Sector(0))
            && written <= capacity
            && written.0.is_multiple_of(u64::from(geometry.lba) / 512)
            && covered.is_none_or(|data| data.from < written && written - data.from <= MAX_COVERED);
        let epoch = u16::from_le_bytes([from[2], from[3]]);
        (fits && valid).then_some(ZoneEntry { zone, cond, slot, written, epoch, covered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CRC-32C bit by bit, as the format defines it.
    fn by_definition(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
            })
        })
    }

    #[test]
    fn checksums_are_crc_32c() {
        assert_eq!(by_definition(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_append(0, b"123456789"), 0xe306_9283);
        assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn checksums_are_crc_32c_whatever_the_bytes(
            bytes in prop::collection::vec(any::<u8>(), 16..4200),
            cut in 0_usize..4200,
        ) {
            let expected = by_definition(&bytes);
            prop_assert_eq!(crc_fast::crc32_iscsi(&bytes), expected);
            let (head, rest) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(crc32c_append(crc32c_append(0, head), rest), expected);
            for at in [4, 12] {
                let mut zeroed = bytes.clone();
                zeroed[at..at + 4].fill(0);
                prop_assert_eq!(checksum(&bytes, at), by_definition(&zeroed));
            }
        }
    }

    #[test]
    fn a_generation_without_a_next_one_is_none() {
        let decoded = |generation| {
            let header = Header {
                kind: BlockKind::Root,
                image: 7,
                generation,
                index: 0,
                count: 0,
                batch: 0,
                part: 0,
                parts: 0,
            };
            let mut block = [0; BLOCK];
            encode_block(&mut block, &header, &[]);
            decode_block(&block, BlockKind::Root, 7).map(|header| header.generation)
        };
        assert_eq!(decoded(GENERATIONS - 1), Some(GENERATIONS - 1));
        assert_eq!(decoded(GENERATIONS), None);
        assert_eq!(decoded(u64::MAX), None);
    }

    #[test]
    fn an_entry_covers_no_more_data_than_recovery_may_read() {
        let geometry = ImageGeometry::simple(2, 0, Sector(1 << 20));
        let decoded = |from| {
            let entry = ZoneEntry {
                zone: ZoneNo(1),
                cond: ZoneCondition::Closed,
                slot: Some(0),
                written: Sector(1 << 16),
                epoch: 7,
                covered: Some(CoveredData { from: Sector(from), crc: 7 }),
            };
            let mut bytes = [0; ZoneEntry::BYTES];
            entry.encode(&mut bytes);
            ZoneEntry::decode(&bytes, &geometry) == Some(entry)
        };
        assert!(decoded((1 << 16) - MAX_COVERED.0));
        assert!(!decoded((1 << 16) - MAX_COVERED.0 - 1));
        assert!(!decoded(1 << 16), "nothing is covered");
    }
}
