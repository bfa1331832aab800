//! Checksums of data blocks, and a cache of those in use.
//!
//! The checksum of a block is the CRC-32C of its data XOR that of a block of zeroes. So a block that
//! was never written, whose data and checksum are holes of the file, has the right one.
//!
//! Invariants: the cache holds a bounded number of pages; a page that has changed is in the file
//! before it leaves the cache, and after each [`Sums::flush`].
//!
//! # Why a page can be written in place
//!
//! A loss of power keeps or loses sectors of a page that was not synced. In a sequential zone the
//! page differs from the one in the file only after the durable data; in a conventional zone only
//! in regions that are marked (see `regions`), whose checksums recovery computes anew.
use super::block::BLOCK;
use super::store::ImageStore;
use super::superblock::{FileLayout, SUM_BYTES, SUMS_PER_PAGE};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard};
use zonal_blk::{Buf, Request};

/// Pages in the cache: 64 MiB, the checksums of 64 GiB of data in blocks of 4096 bytes.
const PAGES: usize = 16 << 10;
/// Parts of the cache, each with a lock of its own.
const SHARDS: usize = 64;
/// Successive pages that are in one part, and are written together.
const GROUP: u64 = 16;
/// Bytes read at a time to verify data.
pub(super) const PIECE: usize = 256 << 10;
/// Blocks that are compared at a time.
const AT_ONCE: usize = 64;

/// Computes checksums of blocks of one size.
#[derive(Clone, Copy)]
pub(super) struct Summer {
    lba: usize,
    zeroes: u32,
}

impl Summer {
    pub(super) fn new(lba: u64) -> Self {
        let lba = usize::try_from(lba).expect("blocks have 512 or 4096 bytes");
        Summer { lba, zeroes: crc_fast::crc32_iscsi(&vec![0; lba]) }
    }

    fn of(self, block: &[u8]) -> [u8; SUM_BYTES] {
        (crc_fast::crc32_iscsi(block) ^ self.zeroes).to_le_bytes()
    }

    /// Appends the checksums of the blocks of `data`.
    pub(super) fn append(self, sums: &mut Vec<u8>, data: &[u8]) {
        sums.extend(data.chunks(self.lba).flat_map(|block| self.of(block)));
    }

    /// Appends the checksums of `len` bytes of zeroes.
    pub(super) fn append_zeroes(self, sums: &mut Vec<u8>, len: usize) {
        sums.resize(sums.len() + len / self.lba * SUM_BYTES, 0);
    }

    /// The first block of `data` that has not its checksum of `sums`.
    pub(super) fn first_mismatch(self, data: &[u8], sums: &[u8]) -> Option<usize> {
        let pairs = data.chunks(self.lba).zip(sums.chunks(SUM_BYTES));
        pairs.into_iter().position(|(block, sum)| self.of(block) != *sum)
    }
}

struct Page {
    number: u64,
    sums: Buf,
    /// Differs from the file.
    dirty: bool,
    /// Was used since the clock's hand passed.
    used: bool,
}

#[derive(Default)]
struct Shard {
    pages: Vec<Page>,
    /// Where in `pages` a page is, by its number.
    places: HashMap<u64, usize>,
    /// Places of dirty pages.
    dirty: Vec<usize>,
    hand: usize,
}

/// The checksums of an image.
pub(super) struct Sums {
    layout: FileLayout,
    summer: Summer,
    shards: Box<[Mutex<Shard>]>,
    pages_per_shard: usize,
}

impl Sums {
    pub(super) fn new(layout: FileLayout) -> Self {
        Self::with_shards(layout, SHARDS, PAGES / SHARDS)
    }

    fn with_shards(layout: FileLayout, shards: usize, pages_per_shard: usize) -> Self {
        let summer = Summer::new(layout.lba());
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        Sums { layout, summer, shards, pages_per_shard }
    }

    pub(super) fn summer(&self) -> Summer {
        self.summer
    }

    /// Copies the checksums of blocks of a slot, from block `first` on.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn get(
        &self,
        store: &dyn ImageStore,
        (slot, first): (u32, u64),
        to: &mut [u8],
    ) -> io::Result<()> {
        for (page, at, part) in parts(first, to.len()) {
            let mut shard = self.shard(slot, page);
            let found = self.page(&mut shard, store, (slot, page), false)?;
            to[part.clone()].copy_from_slice(&found.sums[at..at + part.len()]);
        }
        Ok(())
    }

    /// Sets the checksums of blocks of a slot, from block `first` on. `append`: no block after them
    /// has data.
    ///
    /// # Errors
    /// The errors of the file; some may be set.
    pub(super) fn set(
        &self,
        store: &dyn ImageStore,
        (slot, first): (u32, u64),
        sums: &[u8],
        append: bool,
    ) -> io::Result<()> {
        for (page, at, part) in parts(first, sums.len()) {
            let mut shard = self.shard(slot, page);
            let fresh = at == 0 && (append || part.len() == BLOCK);
            let found = self.page(&mut shard, store, (slot, page), fresh)?;
            found.sums[at..at + part.len()].copy_from_slice(&sums[part]);
            if !std::mem::replace(&mut found.dirty, true) {
                let place = shard.places[&self.number(slot, page)];
                shard.dirty.push(place);
            }
        }
        Ok(())
    }

    /// The first of the blocks at address `at` whose checksum is wrong.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn check(
        &self,
        store: &dyn ImageStore,
        at: u64,
        data: &[u8],
    ) -> io::Result<Option<usize>> {
        let (slot, mut first) = self.layout.block_at(at);
        let mut sums = [0; AT_ONCE * SUM_BYTES];
        let (mut checked, mut wrong) = (0, None);
        for piece in data.chunks(AT_ONCE * self.summer.lba) {
            let blocks = piece.len() / self.summer.lba;
            let sums = &mut sums[..blocks * SUM_BYTES];
            self.get(store, (slot, first), sums)?;
            wrong = self.summer.first_mismatch(piece, sums).map(|block| checked + block);
            if wrong.is_some() {
                break;
            }
            checked += blocks;
            first += blocks as u64;
        }
        Ok(wrong)
    }

    /// Writes all changed pages to the file, without a sync.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn flush(&self, store: &dyn ImageStore) -> io::Result<()> {
        self.shards.iter().try_for_each(|shard| self.write_dirty(&mut lock(shard), store))
    }

    fn number(&self, slot: u32, page: u64) -> u64 {
        u64::from(slot) * self.layout.sum_pages() + page
    }

    fn shard(&self, slot: u32, page: u64) -> MutexGuard<'_, Shard> {
        let group = self.number(slot, page) / GROUP;
        lock(&self.shards[usize::try_from(group % self.shards.len() as u64).expect("a shard")])
    }

    fn address(&self, number: u64) -> u64 {
        let (slot, page) = (number / self.layout.sum_pages(), number % self.layout.sum_pages());
        self.layout.sum_page(u32::try_from(slot).expect("an image has up to 2^20 slots"), page)
    }

    /// A page, read from the file unless it is in the cache or `fresh`.
    fn page<'a>(
        &self,
        shard: &'a mut Shard,
        store: &dyn ImageStore,
        (slot, page): (u32, u64),
        fresh: bool,
    ) -> io::Result<&'a mut Page> {
        let number = self.number(slot, page);
        let place = match shard.places.get(&number) {
            Some(&place) => place,
            None => {
                let mut sums = Buf::zeroed(BLOCK);
                if !fresh {
                    store.read(self.layout.sum_page(slot, page), &mut sums)?;
                }
                let page = Page { number, sums, dirty: false, used: true };
                let place = self.make_room(shard, store)?;
                if place == shard.pages.len() {
                    shard.pages.push(page);
                } else {
                    let old = std::mem::replace(&mut shard.pages[place], page);
                    shard.places.remove(&old.number);
                }
                shard.places.insert(number, place);
                place
            }
        };
        let page = &mut shard.pages[place];
        page.used = true;
        Ok(page)
    }

    /// The place for another page: a free one, or that of one that was not used for long.
    fn make_room(&self, shard: &mut Shard, store: &dyn ImageStore) -> io::Result<usize> {
        if shard.pages.len() < self.pages_per_shard {
            return Ok(shard.pages.len());
        }
        while std::mem::take(&mut shard.pages[shard.hand].used) {
            shard.hand = (shard.hand + 1) % shard.pages.len();
        }
        let place = shard.hand;
        if shard.pages[place].dirty {
            self.write_dirty(shard, store)?;
        }
        shard.hand = (place + 1) % shard.pages.len();
        Ok(place)
    }

    /// Writes the changed pages of a part of the cache, successive ones together.
    fn write_dirty(&self, shard: &mut Shard, store: &dyn ImageStore) -> io::Result<()> {
        let pages = &mut shard.pages;
        shard.dirty.sort_unstable_by_key(|&place| pages[place].number);
        for run in shard.dirty.chunk_by(|&a, &b| {
            let (a, b) = (pages[a].number, pages[b].number);
            // Successive pages of one slot.
            b == a + 1 && b % self.layout.sum_pages() != 0
        }) {
            let at = self.address(pages[run[0]].number);
            if let [place] = run {
                store.write(at, &pages[*place].sums)?;
                continue;
            }
            let mut together = Buf::zeroed(run.len() * BLOCK);
            for (to, &place) in together.chunks_mut(BLOCK).zip(run) {
                to.copy_from_slice(&pages[place].sums);
            }
            store.write(at, &together)?;
        }
        shard.dirty.drain(..).for_each(|place| pages[place].dirty = false);
        Ok(())
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().expect("no thread panics with checksums locked")
}

/// Splits the checksums of blocks from `first` on by pages: the page, where in it, and which bytes.
fn parts(first: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let block = first + (done / SUM_BYTES) as u64;
        let at = usize::try_from(block % SUMS_PER_PAGE).expect("1024 in a page") * SUM_BYTES;
        let part = done..len.min(done + BLOCK - at);
        done = part.end;
        (!part.is_empty()).then_some((block / SUMS_PER_PAGE, at, part))
    })
}

/// The checksums of what a request writes; a segment without a buffer is zeroes.
pub(super) fn sum_request(summer: Summer, request: &mut Request, sums: &mut Vec<u8>) {
    sums.clear();
    request.for_each_segment(|_, nr_sectors, buf| match buf {
        Some(buf) => summer.append(sums, buf),
        None => summer.append_zeroes(sums, nr_sectors as usize * 512),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::store::ReadAt;
    use crate::image::store::testing::Memory;
    use crate::image::{ImageGeometry, Profile, Superblock};
    use crate::rng::Rng;
    use zonal_blk::Sector;

    /// Slots with 5 pages of checksums.
    fn layout() -> FileLayout {
        let geometry = ImageGeometry::simple(4, 1, Sector(5000));
        Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned())).unwrap().layout()
    }

    #[test]
    fn a_small_cache_has_what_a_map_has() {
        let store = Memory::default();
        let sums = Sums::with_shards(layout(), 1, 2);
        let mut rng = Rng::new(1);
        let mut expected = vec![vec![0; 5000 * SUM_BYTES]; 4];
        for _ in 0..2000 {
            let slot = u32::try_from(rng.below(4)).unwrap();
            let first = rng.below(3000);
            let range = usize::try_from(first).unwrap() * SUM_BYTES..;
            let len = usize::try_from(1 + rng.below(2000)).unwrap() * SUM_BYTES;
            let map = &mut expected[slot as usize][range][..len];
            if rng.below(2) == 0 {
                map.fill(u8::try_from(rng.below(256)).unwrap());
                sums.set(&store, (slot, first), map, false).unwrap();
            } else {
                let mut found = vec![0; len];
                sums.get(&store, (slot, first), &mut found).unwrap();
                assert!(found == *map, "slot {slot}, {len} bytes from block {first}");
            }
            assert!(sums.shards[0].lock().unwrap().pages.len() <= 2);
        }
        sums.flush(&store).unwrap();
        for (slot, expected) in (0..).zip(&expected) {
            let mut found = vec![0; expected.len()];
            store.read(layout().slot(slot), &mut found).unwrap();
            assert!(found == *expected, "slot {slot} in the file");
        }
    }

    #[test]
    fn a_flush_writes_changed_pages_once_and_successive_ones_together() {
        let store = Memory::default();
        let sums = Sums::with_shards(layout(), 1, 100);
        let set = |slot, first, blocks: usize| {
            sums.set(&store, (slot, first), &vec![7; blocks * SUM_BYTES], true).unwrap();
        };
        let writes = || {
            sums.flush(&store).unwrap();
            std::mem::take(&mut store.0.lock().unwrap().writes)
        };
        set(0, 0, 3000);
        set(2, 1024, 1);
        assert_eq!(writes(), 2);
        assert_eq!(writes(), 0);
        // The last page of a slot and the first of the next are not successive in the file.
        set(0, 4999, 1);
        set(1, 0, 1);
        assert_eq!(writes(), 2);
    }

    #[test]
    fn zeroes_have_the_checksum_zero() {
        for lba in [512, 4096] {
            let summer = Summer::new(lba as u64);
            let (mut computed, mut short) = (Vec::new(), Vec::new());
            summer.append(&mut computed, &vec![0; 3 * lba]);
            summer.append_zeroes(&mut short, 3 * lba);
            assert_eq!((&computed, short), (&vec![0; 3 * SUM_BYTES], computed.clone()));
            let mut data = vec![9; 2 * lba];
            let mut sums = Vec::new();
            summer.append(&mut sums, &data);
            assert_eq!(summer.first_mismatch(&data, &sums), None);
            data[lba + 1] ^= 16;
            assert_eq!(summer.first_mismatch(&data, &sums), Some(1));
        }
    }
}
