//! Units between the buffer and the flash: those that wait for more pages, and those that are
//! programmed.
use super::translation::{Place, Translation};

/// Numbers of pages in the buffer, by their source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) host: u32,
    pub(super) collected: u32,
}

/// A unit that has pages in the buffer.
#[derive(Clone, Copy, Debug)]
struct Unit {
    superblock: u32,
    number: u32,
    pages: Pages,
}

#[derive(Debug)]
pub(super) struct Units {
    /// Pages of a unit.
    pages: u32,
    /// Units that wait for more pages, the newest last.
    filled: Vec<Unit>,
    programming: Vec<Unit>,
    /// By superblock, the units that have been programmed. They are assumed to be the first ones.
    programmed: Vec<u32>,
}

impl Units {
    /// The units of a drive whose dies are idle. Returns also the pages of those that are not full,
    /// which are in the buffer.
    pub(super) fn new(pages: u32, translation: &Translation) -> (Self, Pages) {
        let mut units =
            Units { pages, filled: Vec::new(), programming: Vec::new(), programmed: Vec::new() };
        let host = |frontier| translation.shape().stream_of(frontier).0.is_some();
        let waiting = units.add_superblocks(translation, host);
        (units, waiting)
    }

    /// Adds the superblocks of the map, after those of the data. Returns the pages that are in the buffer.
    pub(super) fn add_map(&mut self, layer: &Translation) -> Pages {
        self.add_superblocks(layer, |_| false)
    }

    /// Adds the superblocks of a layer, some of whose frontiers are the host's. Returns the pages that are
    /// in the buffer.
    fn add_superblocks(&mut self, layer: &Translation, is_host: impl Fn(u16) -> bool) -> Pages {
        let first =
            u32::try_from(self.programmed.len()).expect("superblocks are counted in 32 bits");
        let superblocks = 0..layer.shape().superblocks;
        self.programmed.extend(superblocks.map(|at| layer.written(at) / self.pages));
        let mut waiting = Pages::default();
        for (frontier, superblock) in layer.open() {
            let written = layer.written(superblock);
            let (number, rest) = (written / self.pages, written % self.pages);
            let pages = match is_host(frontier) {
                true => Pages { host: rest, collected: 0 },
                false => Pages { host: 0, collected: rest },
            };
            if rest > 0 {
                self.filled.push(Unit { superblock: first + superblock, number, pages });
                waiting.host += pages.host;
                waiting.collected += pages.collected;
            }
        }
        waiting
    }

    /// Pages of a unit have arrived. Returns whether these were the last, so that it is programmed.
    #[inline]
    pub(super) fn add(
        &mut self,
        superblock: u32,
        number: u32,
        count: u32,
        collected: bool,
    ) -> bool {
        let is = |unit: &Unit| (unit.superblock, unit.number) == (superblock, number);
        let at = self.filled.iter().rposition(is).unwrap_or_else(|| {
            self.filled.push(Unit { superblock, number, pages: Pages::default() });
            self.filled.len() - 1
        });
        let pages = &mut self.filled[at].pages;
        *(if collected { &mut pages.collected } else { &mut pages.host }) += count;
        let full = pages.host + pages.collected == self.pages;
        if full {
            let unit = self.filled.swap_remove(at);
            self.programming.push(unit);
        }
        full
    }

    /// The unit of a superblock that waits for more pages gets no more, so that it is programmed. Returns
    /// its number; `None` if none waits.
    pub(super) fn pad(&mut self, superblock: u32) -> Option<u32> {
        let at = self.filled.iter().position(|unit| unit.superblock == superblock)?;
        let unit = self.filled.swap_remove(at);
        self.programming.push(unit);
        Some(unit.number)
    }

    /// A unit has been programmed. Returns its pages.
    pub(super) fn programmed(&mut self, superblock: u32, number: u32) -> Pages {
        let is = |unit: &Unit| (unit.superblock, unit.number) == (superblock, number);
        let at = self.programming.iter().position(is).expect("the unit is being programmed");
        self.programmed[superblock as usize] += 1;
        self.programming.swap_remove(at).pages
    }

    /// A superblock has been erased.
    pub(super) fn erased(&mut self, superblock: u32) {
        self.programmed[superblock as usize] = 0;
    }

    /// Whether a page is on the flash.
    pub(super) fn is_programmed(&self, place: Place) -> bool {
        place.slot / self.pages < self.programmed[place.superblock as usize]
    }
}
