//! The data of a device, in memory.
//!
//! Memory is allocated for written data only, in chunks of 64 KiB, and freed when a range is zeroed,
//! as a zone reset does, or a whole chunk is written with zeroes. The block layer has checked that
//! ranges are within the device.
use std::sync::{Mutex, MutexGuard};
use zonal_blk::{Op, Request, Sector};

/// Size of an allocation, in bytes.
const CHUNK: usize = 64 << 10;
/// Size of the range that one lock guards, in bytes.
const REGION: usize = 16 << 20;

type Chunk = Box<[u8; CHUNK]>;

/// The chunks of a region, up to the last one ever written.
type Region = Vec<Option<Chunk>>;

pub(crate) struct Memory {
    regions: Box<[Mutex<Region>]>,
}

/// A part of one chunk.
struct Piece {
    region: usize,
    chunk: usize,
    at: usize,
    len: usize,
}

/// Splits `len` bytes at byte address `at` into parts of chunks.
fn pieces(mut at: u64, mut len: u64) -> impl Iterator<Item = Piece> {
    std::iter::from_fn(move || {
        let within = |unit: usize| {
            usize::try_from(at % unit as u64).expect("a remainder is less than its divisor")
        };
        let offset = within(CHUNK);
        let take = len.min((CHUNK - offset) as u64);
        let piece = Piece {
            region: usize::try_from(at / REGION as u64).expect("a region has an index"),
            chunk: within(REGION) / CHUNK,
            at: offset,
            len: usize::try_from(take).expect("a piece is no longer than a chunk"),
        };
        at += take;
        len -= take;
        (piece.len > 0).then_some(piece)
    })
}

impl Memory {
    pub(crate) fn new(capacity: Sector) -> Self {
        let regions = capacity.to_bytes().0.div_ceil(REGION as u64);
        Memory { regions: (0..regions).map(|_| Mutex::default()).collect() }
    }

    fn lock(&self, region: usize) -> MutexGuard<'_, Region> {
        self.regions[region].lock().expect("memory region lock")
    }

    pub(crate) fn read(&self, sector: Sector, mut to: &mut [u8]) {
        for piece in pieces(sector.to_bytes().0, to.len() as u64) {
            let (part, rest) = to.split_at_mut(piece.len);
            match self.lock(piece.region).get(piece.chunk) {
                Some(Some(chunk)) => part.copy_from_slice(&chunk[piece.at..][..piece.len]),
                _ => part.fill(0),
            }
            to = rest;
        }
    }

    pub(crate) fn write(&self, sector: Sector, mut from: &[u8]) {
        for piece in pieces(sector.to_bytes().0, from.len() as u64) {
            let (part, rest) = from.split_at(piece.len);
            let mut region = self.lock(piece.region);
            if region.len() <= piece.chunk {
                region.resize_with(piece.chunk + 1, || None);
            }
            from = rest;
            if piece.len == CHUNK && is_zero(part) {
                region[piece.chunk] = None;
                continue;
            }
            let chunk = region[piece.chunk].get_or_insert_with(zeroed_chunk);
            chunk[piece.at..][..piece.len].copy_from_slice(part);
        }
    }

    /// Stores the first `nr_sectors` of a write, at `at`.
    pub(crate) fn write_part(&self, request: &mut Request, at: Sector, nr_sectors: u32) {
        let first = request.sector();
        let zeroes = request.op() == Op::WriteZeroes;
        let end = at + Sector(u64::from(nr_sectors));
        request.for_each_segment(|sector, len, buf| {
            let to = at + (sector - first);
            let len = u64::from(len).min(end.0.saturating_sub(to.0));
            match buf.filter(|_| !zeroes) {
                Some(buf) => {
                    let bytes = usize::try_from(len * 512).expect("a buffer fits in memory");
                    self.write(to, &buf[..bytes]);
                }
                None => self.zero(to, len),
            }
        });
    }

    /// Makes a range read as zeroes and frees its memory.
    pub(crate) fn zero(&self, sector: Sector, nr_sectors: u64) {
        for piece in pieces(sector.to_bytes().0, Sector(nr_sectors).to_bytes().0) {
            let mut region = self.lock(piece.region);
            let Some(slot) = region.get_mut(piece.chunk) else {
                continue;
            };
            if piece.len == CHUNK {
                *slot = None;
            } else if let Some(chunk) = slot {
                chunk[piece.at..][..piece.len].fill(0);
            }
        }
    }
}

/// The first bytes decide for most data.
fn is_zero(data: &[u8]) -> bool {
    data.chunks(64).all(|line| line.iter().fold(0, |any, byte| any | byte) == 0)
}

fn zeroed_chunk() -> Chunk {
    // Through a slice: a chunk on the stack would be copied into the box.
    vec![0; CHUNK].into_boxed_slice().try_into().expect("the slice is as long as a chunk")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(memory: &Memory) -> usize {
        let used = |r: &Mutex<Region>| r.lock().unwrap().iter().flatten().count();
        memory.regions.iter().map(used).sum()
    }

    #[test]
    fn reads_return_what_was_written_and_zeroes_around_it() {
        let memory = Memory::new(Sector(4 * REGION as u64 / 512));
        let sector = Sector(REGION as u64 / 512 - 130);
        let data: Vec<u8> = (0..200 * 512).map(|i| (i % 251) as u8).collect();
        memory.write(sector, &data);
        assert_eq!(chunks(&memory), 3);
        let mut back = vec![1; 202 * 512];
        memory.read(sector - Sector(1), &mut back);
        assert!(back[..512].iter().all(|&b| b == 0));
        assert!(back[201 * 512..].iter().all(|&b| b == 0));
        assert_eq!(back[512..201 * 512], data);
    }

    #[test]
    fn zeroing_frees_memory_and_leaves_neighbours_alone() {
        let memory = Memory::new(Sector(REGION as u64 / 512));
        memory.write(Sector(0), &vec![7; 4 * CHUNK]);
        memory.zero(Sector(64), 256);
        assert_eq!(chunks(&memory), 3);
        let mut back = vec![0; 4 * CHUNK];
        memory.read(Sector(0), &mut back);
        let mut zeroed = back.iter().enumerate().filter(|(_, b)| **b == 0);
        let (first, last) = (zeroed.next(), zeroed.next_back());
        assert_eq!(first.map(|(i, _)| i), Some(64 * 512));
        assert_eq!(last.map(|(i, _)| i), Some(320 * 512 - 1));
        memory.zero(Sector(0), REGION as u64 / 512);
        assert_eq!(chunks(&memory), 0);
    }

    #[test]
    fn chunks_of_zeroes_take_no_memory() {
        let memory = Memory::new(Sector(REGION as u64 / 512));
        memory.write(Sector(0), &vec![7; 3 * CHUNK]);
        // The second chunk, and a part of each of its neighbours.
        memory.write(Sector(120), &vec![0; CHUNK + 2 * 8 * 512]);
        assert_eq!(chunks(&memory), 2);
        let mut back = vec![1; 3 * CHUNK];
        memory.read(Sector(0), &mut back);
        let zeroes =
            back.iter().position(|&byte| byte == 0)..back.iter().rposition(|&byte| byte == 0);
        assert_eq!(zeroes, Some(120 * 512)..Some(264 * 512 - 1));
        memory.write(Sector(0), &vec![0; CHUNK - 1]);
        assert_eq!(chunks(&memory), 2, "its last byte is not known to be zero");
    }
}
