//! The state of the collection: victims that are being read or erased, reads of their rows, and its
//! pace.
use super::pace::Pace;
use super::page::PAGE;
use super::translation::Place;
use zonal_blk::Bytes;

/// The numbers of reads of the collection begin here.
pub(super) const COLLECTS: u32 = 1 << 31;
/// The numbers of reads of translation pages begin here.
pub(super) const LOADS: u32 = COLLECTS | 1 << 30;
/// Units of copies by which the host may be ahead of the collection.
const AHEAD: u32 = 8;

/// A superblock whose pages are being moved or have been, until it is erased.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emptied {
    pub(super) superblock: u32,
    /// Reads that are not done.
    pub(super) reads: u32,
    /// Dies that erase their blocks.
    pub(super) erasing: u32,
    /// All of its pages have places elsewhere.
    pub(super) moved: bool,
}

impl Emptied {
    /// One that is begun.
    pub(super) fn new(superblock: u32) -> Self {
        Emptied { superblock, reads: 0, erasing: 0, moved: false }
    }
}

/// A read of a row of a victim, and where its pages go to.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) from: Option<Place>,
    pub(super) last: u32,
    /// The slot of the victim where the row ends.
    pub(super) end: u32,
    /// Places in a row of one unit: the first, and their number.
    pub(super) to: Vec<(Place, u32)>,
    /// All of them.
    pub(super) pages: u32,
}

impl Row {
    /// Adds a page.
    #[inline]
    pub(super) fn add(&mut self, to: Place, unit: u32) {
        self.pages += 1;
        if let Some((first, count)) = self.to.last_mut()
            && (first.superblock, first.slot + *count) == (to.superblock, to.slot)
            && !to.slot.is_multiple_of(unit)
        {
            *count += 1;
        } else {
            self.to.push((to, 1));
        }
    }
}

#[derive(Debug)]
pub(super) struct Collector {
    /// It goes on until there are as many free superblocks as it wants.
    pub(super) has_begun: bool,
    /// The superblocks that are collected or erased, the newest last.
    pub(super) emptied: Vec<Emptied>,
    /// Pages in the buffer, and those that it has room for.
    pub(super) pages: u32,
    pub(super) room: u32,
    pub(super) rows: Vec<Row>,
    pub(super) free_rows: Vec<u32>,
    pub(super) pace: Pace,
}

impl Collector {
    /// `pages` of the collection are in its part of the buffer; a program writes `unit` pages.
    pub(super) fn new(buffer: Bytes, pages: u32, unit: u32) -> Self {
        let room = buffer.0 / u64::from(PAGE);
        Collector {
            has_begun: false,
            emptied: Vec::new(),
            pages,
            room: u32::try_from(room).unwrap_or(u32::MAX),
            rows: Vec::new(),
            free_rows: Vec::new(),
            pace: Pace::new(AHEAD * unit),
        }
    }

    /// Bytes in the buffer.
    pub(super) fn buffered(&self) -> u64 {
        u64::from(self.pages) * u64::from(PAGE)
    }

    /// Pages have been programmed.
    pub(super) fn release(&mut self, pages: u32) {
        self.pages -= pages;
    }

    /// A number for a read, with an empty list of pages.
    pub(super) fn new_row(&mut self) -> u32 {
        self.free_rows.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            u32::try_from(self.rows.len() - 1).expect("there are few reads")
        })
    }
}
