//! A metadata block: 4096 bytes with a header and a checksum.
//!
//! Takes what goes into a block; gives its bytes, and what is in bytes that were read. Keeps true:
//! a block that was torn, changed, or is of another image is none.
use super::entry::ZoneEntry;

/// Bytes of a metadata block.
pub const BLOCK: usize = 4096;
/// Bytes of a block before its entries.
const HEADER: usize = 64;
/// Entries that fit in a block.
pub(super) const ENTRIES: usize = (BLOCK - HEADER) / ZoneEntry::BYTES;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Which generation is in force.
    Root,
    /// A part of a zone table.
    Table,
    /// A part of a batch of the log.
    Log,
}

impl Kind {
    fn magic(self) -> [u8; 4] {
        match self {
            Kind::Root => *b"ZNLR",
            Kind::Table => *b"ZNLT",
            Kind::Log => *b"ZNLL",
        }
    }
}

/// What a block says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The first half of the image's UUID.
    pub(super) image: u64,
    pub(super) generation: u64,
    /// Which block of its kind it is.
    pub(super) index: u32,
    /// Entries in it.
    pub(super) count: u32,
    /// In the log: the number of the batch, the block's place in it, and its blocks.
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

/// The CRC-32C of a block whose checksum lies at `at`, counted as zero.
pub(super) fn checksum(block: &[u8], at: usize) -> u32 {
    let crc = crc32c::crc32c(&block[..at]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &block[at + 4..])
}

/// Makes a block.
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

/// What a block says of itself, if it is a whole block of this kind and image.
pub(super) fn decode_block(block: &[u8], kind: Kind, image: u64) -> Option<Header> {
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
    (whole && header.image == image && header.count as usize <= ENTRIES).then_some(header)
}

/// The encoded entries of a block.
pub(super) fn entries<'a>(block: &'a [u8], header: &Header) -> impl Iterator<Item = &'a [u8]> {
    block[HEADER..].chunks_exact(ZoneEntry::BYTES).take(header.count as usize)
}
