//! Where the pages of a superblock are: units on its dies in turn. A die programs a unit at a time and
//! senses a row at a time.
use super::SsdConfig;
use super::page::PAGE;
use super::translation::Place;
use crate::rng::mix;

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Pages of a unit, and of a row.
    pub(super) unit: u32,
    pub(super) row: u32,
    /// Mapped pages in a page of a plane.
    flash_page: u32,
    dies: u32,
    /// Groups of dies, each of which has superblocks of its own.
    groups: u32,
}

impl Layout {
    pub(super) fn new(config: &SsdConfig) -> Self {
        let pages = |bytes: u64| u32::try_from(bytes / u64::from(PAGE)).expect("a unit is small");
        let row = config.page.0 * u64::from(config.planes);
        Layout {
            unit: pages(config.unit().0),
            row: pages(row),
            flash_page: pages(config.page.0),
            dies: config.dies_of_superblock(),
            groups: config.dies / config.dies_of_superblock(),
        }
    }

    /// The dies of a superblock.
    pub(super) fn dies(&self, superblock: u32) -> std::ops::Range<u32> {
        let first = superblock % self.groups * self.dies;
        first..first + self.dies
    }

    /// The die of a unit of a superblock. Each superblock begins with another die, so that those that
    /// are filled together do not stay on one.
    pub(super) fn die(&self, superblock: u32, unit: u32) -> u32 {
        let start = mix(superblock.into()) % u64::from(self.dies);
        let turn = (u64::from(unit) + start) % u64::from(self.dies);
        self.dies(superblock).start + u32::try_from(turn).expect("below a number of 32 bits")
    }

    /// The unit of a place.
    #[inline]
    pub(super) fn unit_of(&self, place: Place) -> u32 {
        place.slot / self.unit
    }

    /// The numbers in the superblock of the flash pages, of one plane each, that hold the slots from
    /// `first` to `last`.
    pub(super) fn flash_pages(&self, first: u32, last: u32) -> (u64, u64) {
        ((first / self.flash_page).into(), (last / self.flash_page).into())
    }
}
