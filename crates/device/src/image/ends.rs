//! The ends of zones that were answered and not flushed: they survive the process, not the power.
//!
//! Each zone has two records in an area of the file that is mapped, of which one of a conventional zone says its
//! slot. A write that completes stores
//! the zone's end in the older of them, before it is answered: a few stores to memory, no write and no sync.
//! The file system may write the area at any time, before the data or after. So a record says what the data are
//! up to the end, by a sum over the checksums of their blocks, and counts only if they are: recovery reads
//! them.
//!
//! A record belongs to a session and to an epoch of its zone, which ends when the zone's data become less. What
//! is durable by itself is never read from here.
use super::block::{ZoneEntry, crc32c_append, u32_at, u64_at};
use super::error::ImageError;
use super::geometry::ImageGeometry;
use super::store::{ReadAt, SharedWords};
use super::sums::{PIECE, Summer};
use super::superblock::{FileLayout, SUM_BYTES, Superblock};
use std::io;
use std::ops::Range;
use zonal_blk::{Buf, Sector, ZoneCondition, ZoneNo};

/// Words of a record.
const WORDS: usize = 4;

/// The sum of blocks that have these checksums, of which the first is number `first` of its zone. The sum of
/// a range is that of its parts, in any order, modulo 2^64.
pub(super) fn sum_blocks(first: u64, sums: &[u8]) -> u64 {
    let sums = sums.chunks_exact(SUM_BYTES).map(|sum| {
        u64::from(u32::from_le_bytes(sum.try_into().expect("a checksum has four bytes")))
    });
    (first..).zip(sums).fold(0, |all, (block, sum)| all.wrapping_add(mix(block << 32 ^ sum)))
}

/// The finalizer of SplitMix64.
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The end of a zone's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZoneEnd {
    pub(super) slot: u32,
    /// That of the zone.
    pub(super) epoch: u16,
    /// Whether the zone was opened by a command.
    pub(super) explicit: bool,
    /// The end.
    pub(super) end: Sector,
    /// What was durable before, or less.
    pub(super) from: Sector,
    /// The [sum](fold) of the blocks between.
    pub(super) sum: u32,
}

impl ZoneEnd {
    /// Its words. `turn` counts records of the zone, modulo 256: the next of two is newer.
    fn encode(&self, turn: u8, seed: u32) -> [u64; WORDS] {
        let kind =
            u64::from(self.epoch) << 32 | u64::from(self.explicit) << 48 | u64::from(turn) << 56;
        let last = u64::from(self.slot) << 32 | u64::from(self.sum);
        let words = [kind, self.end.0, self.from.0, last];
        [words[0] | u64::from(check(&words, seed)), words[1], words[2], words[3]]
    }
}

/// The checksum of a record, whose own bytes are zero. The seed is of its image and its session.
fn check(words: &[u64; WORDS], seed: u32) -> u32 {
    crc32c_append(seed, words.map(u64::to_le_bytes).as_flattened())
}

fn seed_of(image: u64, session: u64) -> u32 {
    crc32c_append(crc32c_append(0, &image.to_le_bytes()), &session.to_le_bytes())
}

/// Stores the ends of zones.
pub(super) struct Ends {
    words: Box<dyn SharedWords>,
    layout: FileLayout,
    seed: u32,
}

impl Ends {
    pub(super) fn new(
        words: Box<dyn SharedWords>,
        layout: FileLayout,
        image: u64,
        session: u64,
    ) -> Self {
        Ends { words, layout, seed: seed_of(image, session) }
    }

    /// Stores the end of a zone, which is record number `turn` of it in this session.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn store(&self, zone: ZoneNo, turn: u8, end: &ZoneEnd) -> io::Result<()> {
        let first = self.layout.ends_of(zone) / 8 + usize::from(turn % 2) * WORDS;
        self.words.store(first, &end.encode(turn, self.seed))
    }
}

/// The ends of zones in a file.
struct FoundEnds<'a> {
    bytes: &'a [u8],
    layout: &'a FileLayout,
    image: u64,
    session: u64,
}

impl FoundEnds<'_> {
    /// The ends of a zone that this session has stored, the newest first.
    fn of(&self, zone: ZoneNo) -> impl Iterator<Item = ZoneEnd> {
        let at = self.layout.ends_of(zone);
        let [one, other] = [0, WORDS * 8].map(|offset| self.decode(at + offset));
        let newer = match (&one, &other) {
            (Some((turn, _)), Some((next, _))) => next.wrapping_sub(*turn) < 128,
            _ => false,
        };
        let both = if newer { [other, one] } else { [one, other] };
        both.into_iter().flatten().map(|(_, end)| end)
    }

    fn decode(&self, at: usize) -> Option<(u8, ZoneEnd)> {
        let record = &self.bytes[at..at + WORDS * 8];
        let mut words = [0, 8, 16, 24].map(|at| u64_at(record, at));
        words[0] &= !u64::from(u32::MAX);
        if check(&words, seed_of(self.image, self.session)) != u32_at(record, 0) {
            return None;
        }
        let end = ZoneEnd {
            slot: u32_at(record, 28),
            epoch: u16::from_le_bytes([record[4], record[5]]),
            explicit: record[6] == 1,
            end: Sector(words[1]),
            from: Sector(words[2]),
            sum: u32_at(record, 24),
        };
        Some((record[7], end))
    }
}

/// A sum of blocks as a record has it: no worse than a CRC of that size.
pub(super) fn fold(sum: u64) -> u32 {
    u32::try_from((sum ^ sum >> 32) & u64::from(u32::MAX)).expect("half of it")
}

impl ZoneEnd {
    /// Whether it goes on from the durable state of its zone.
    fn extends(&self, entry: &ZoneEntry, geometry: &ImageGeometry) -> bool {
        self.epoch == entry.epoch
            && self.from <= entry.written
            && entry.written < self.end
            && self.end <= geometry.zone_capacity
            && self.end.0.is_multiple_of(u64::from(geometry.lba) / 512)
            && self.from.0.is_multiple_of(u64::from(geometry.lba) / 512)
            && self.slot < geometry.zones
            && entry.slot.is_none_or(|slot| slot == self.slot)
    }
}

/// What the ends of zones that a session stored say beyond the durable state.
#[derive(Default)]
pub(super) struct Ended {
    /// Data, as offsets in their zones, that are there.
    pub(super) answered: Vec<(ZoneNo, Range<Sector>)>,
    /// Zones of which data are missing.
    pub(super) missing: Vec<ZoneNo>,
    /// Zones that were open by a command.
    pub(super) explicit: Vec<ZoneNo>,
}

impl Ended {
    /// Has zones go on from the ends that the session stored, as far as the data are there.
    pub(super) fn recover(
        file: &dyn ReadAt,
        superblock: &Superblock,
        session: u64,
        zones: &mut [ZoneEntry],
    ) -> Result<Self, ImageError> {
        let (layout, geometry) = (superblock.layout(), &superblock.geometry);
        let (at, len) = layout.ends();
        let mut bytes = Buf::zeroed(usize::try_from(len).expect("up to 2^26 bytes"));
        file.read(at, &mut bytes).map_err(ImageError::io("reading metadata"))?;
        let image = superblock.image();
        let found = FoundEnds { bytes: &bytes, layout: &layout, image, session };
        let mut owned = vec![false; geometry.zones as usize];
        zones.iter().flat_map(|zone| zone.slot).for_each(|slot| owned[slot as usize] = true);
        let mut to = Ended::default();
        for entry in zones {
            let mut ends = found.of(entry.zone).peekable();
            let is_free = |end: &ZoneEnd, owned: &[bool]| {
                entry.slot.is_some() || owned.get(end.slot as usize) == Some(&false)
            };
            if entry.cond == ZoneCondition::NotWritePointer {
                let end = ends.next().filter(|end| entry.slot.is_none() && is_free(end, &owned));
                if let Some(end) = end {
                    owned[end.slot as usize] = true;
                    entry.slot = Some(end.slot);
                }
                continue;
            }
            if !matches!(entry.cond, ZoneCondition::Empty | ZoneCondition::Closed) {
                continue;
            }
            let newest = ends.peek().filter(|end| end.epoch == entry.epoch);
            to.explicit.extend(newest.filter(|end| end.explicit).map(|_| entry.zone));
            let durable = *entry;
            for end in ends.filter(|end| end.extends(&durable, geometry)) {
                if !is_free(&end, &owned) || sum_data(file, &layout, &end)? != end.sum {
                    to.missing.push(entry.zone);
                    continue;
                }
                owned[end.slot as usize] = true;
                to.answered.push((entry.zone, entry.written..end.end));
                let full = end.end == geometry.zone_capacity;
                entry.cond = if full { ZoneCondition::Full } else { ZoneCondition::Closed };
                (entry.slot, entry.written) = (Some(end.slot), end.end);
                break;
            }
        }
        Ok(to)
    }
}

/// The sum of the blocks that an end is about, as they are in the file.
fn sum_data(file: &dyn ReadAt, layout: &FileLayout, end: &ZoneEnd) -> Result<u32, ImageError> {
    let summer = Summer::new(layout.lba());
    let (mut at, to) = (layout.in_slot(end.slot, end.from), layout.in_slot(end.slot, end.end));
    let mut block = end.from.to_bytes().0 / layout.lba();
    let (mut buf, mut sums, mut sum) = (Buf::zeroed(PIECE), Vec::new(), 0_u64);
    while at < to {
        let len = usize::try_from(to - at).map_or(PIECE, |left| left.min(PIECE));
        file.read(at, &mut buf[..len]).map_err(ImageError::io("reading data to verify them"))?;
        sums.clear();
        summer.append(&mut sums, &buf[..len]);
        sum = sum.wrapping_add(sum_blocks(block, &sums));
        (at, block) = (at + len as u64, block + len as u64 / layout.lba());
    }
    Ok(fold(sum))
}
