//! Frames: the units in which a log is compressed and checked.
use std::io::{self, Write};

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Blocks = 1,
    Events = 2,
    /// The last frame of a whole log.
    Footer = 3,
    /// Blocks that are not compressed, since they would hardly be shorter.
    RawBlocks = 4,
}

const MAGIC: [u8; 4] = *b"ZCLF";
/// Level of compression: fast, so that recording does not wait for it.
const LEVEL: i32 = 1;
/// How much of a frame is compressed to see whether that is worth it: a number of samples, and the bytes of each.
const SAMPLES: usize = 4;
const SAMPLE: usize = 1 << 12;
/// Bytes of a frame's header.
pub(super) const HEADER: usize = 40;
/// Longest payload, before compression. A frame has one command more than fits, and those are short.
pub(super) const MAX_RAW: u32 = 1 << 30;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub kind: FrameKind,
    /// Number of the first block or event.
    pub first: u64,
    /// How many there are.
    pub count: u32,
    /// Bytes before compression.
    pub raw: u32,
    /// Bytes in the file, after the header.
    pub stored: u32,
    /// CRC-32C of those.
    pub payload_sum: u32,
}

impl FrameHeader {
    pub(super) fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        let u32_at =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let first = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        if bytes[..4] != MAGIC || u32_at(36) != crc_fast::crc32_iscsi(&bytes[..36]) {
            return None;
        }
        let kind = match u32_at(4) {
            1 => FrameKind::Blocks,
            2 => FrameKind::Events,
            3 => FrameKind::Footer,
            4 => FrameKind::RawBlocks,
            _ => return None,
        };
        let (count, raw, stored, payload_sum) = (u32_at(16), u32_at(20), u32_at(24), u32_at(28));
        (raw <= MAX_RAW).then_some(FrameHeader { kind, first, count, raw, stored, payload_sum })
    }

    fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.first.to_le_bytes());
        let numbers = [
            (4, self.kind as u32),
            (16, self.count),
            (20, self.raw),
            (24, self.stored),
            (28, self.payload_sum),
        ];
        for (at, number) in numbers {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc_fast::crc32_iscsi(&bytes[..36]);
        bytes[36..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// Compresses frames, in memory that it uses again.
pub(super) struct Compressor {
    compressor: zstd::bulk::Compressor<'static>,
    stored: Vec<u8>,
}

impl Compressor {
    pub(super) fn new() -> io::Result<Self> {
        let compressor = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(Compressor { compressor, stored: Vec::new() })
    }

    /// Writes a frame, compressed if that is worth it.
    pub(super) fn write(
        &mut self,
        kind: FrameKind,
        first: u64,
        count: u64,
        payload: &[u8],
        file: &mut impl Write,
    ) -> io::Result<()> {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("frames are short");
        let (kind, stored) = match kind {
            FrameKind::Blocks if !self.shortens(payload)? => (FrameKind::RawBlocks, payload),
            kind => (kind, self.compressed(payload)?),
        };
        let header = FrameHeader {
            kind,
            first,
            count: u32::try_from(count).expect("frames are short"),
            raw: len(payload),
            stored: len(stored),
            payload_sum: crc_fast::crc32_iscsi(stored),
        };
        file.write_all(&header.encode())?;
        file.write_all(stored)
    }

    fn compressed(&mut self, payload: &[u8]) -> io::Result<&[u8]> {
        self.stored.clear();
        self.stored.reserve(zstd::zstd_safe::compress_bound(payload.len()));
        self.compressor.compress_to_buffer(payload, &mut self.stored)?;
        Ok(&self.stored)
    }

    /// Whether compression shortens blocks, going by samples of them.
    fn shortens(&mut self, payload: &[u8]) -> io::Result<bool> {
        let step = (payload.len() / SAMPLES).max(SAMPLE);
        let (mut before, mut after) = (0, 0);
        for part in payload.chunks(step) {
            let sample = &part[..part.len().min(SAMPLE)];
            before += sample.len();
            after += self.compressed(sample)?.len();
        }
        Ok(after < before - before / 16)
    }
}

/// The payload of a frame; `None` if it is damaged.
pub(super) fn decompress(header: &FrameHeader, stored: &[u8]) -> Option<Vec<u8>> {
    if crc_fast::crc32_iscsi(stored) != header.payload_sum {
        return None;
    }
    let payload = match header.kind {
        FrameKind::RawBlocks => stored.to_vec(),
        _ => zstd::bulk::decompress(stored, header.raw as usize).ok()?,
    };
    (payload.len() == header.raw as usize).then_some(payload)
}
