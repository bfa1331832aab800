//! Where a zone's data are: units on the dies of its stripe in turn.
//!
//! The zones of one stripe begin on different dies, so that zones written together from their
//! starts do not all contend for one.
//!
//! ```text
//!   4 dies, 2 per zone          zone 0: d0 d1 d0 d1 ...     zone 2: d1 d0 d1 d0 ...
//!                               zone 1: d2 d3 d2 d3 ...     zone 3: d3 d2 d3 d2 ...
//! ```
use super::ZnsConfig;
use zonal_blk::ZoneNo;

#[derive(Clone, Copy, Debug)]
pub(super) struct Stripe {
    /// Stripes of the drive.
    stripes: u32,
    zone_dies: u32,
    unit: u64,
    /// A page of one plane.
    page: u64,
    /// A page of all planes.
    row: u64,
    /// A block of all planes.
    block: u64,
}

/// The part of a read that is on one die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) die: u32,
    /// The number of the first page in the zone.
    pub(super) first: u64,
    /// Pages, each of all planes.
    pub(super) pages: u64,
    pub(super) bytes: u64,
}

impl Stripe {
    pub(super) fn new(config: &ZnsConfig) -> Self {
        let planes = u64::from(config.planes);
        Stripe {
            stripes: config.dies / config.zone_dies,
            zone_dies: config.zone_dies,
            unit: config.unit().0,
            page: config.page.0,
            row: config.page.0 * planes,
            block: config.block.0 * planes,
        }
    }

    /// The die of a zone's unit.
    pub(super) fn die(&self, zone: ZoneNo, unit: u64) -> u32 {
        let first = zone.0 % self.stripes * self.zone_dies;
        let turn = (unit + u64::from(zone.0 / self.stripes)) % u64::from(self.zone_dies);
        first + u32::try_from(turn).expect("a remainder is less than its divisor")
    }

    /// The dies of a zone, each with its number of units in `from..to`.
    pub(super) fn units_by_die(
        &self,
        zone: ZoneNo,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (u32, u64)> + use<> {
        let dies = u64::from(self.zone_dies);
        let this = *self;
        (from..to.min(from + dies))
            .map(move |unit| (this.die(zone, unit), (to - unit).div_ceil(dies)))
    }

    /// Blocks of a die that `units` units occupy.
    pub(super) fn blocks(&self, units: u64) -> u64 {
        (units * self.unit).div_ceil(self.block)
    }

    /// The parts of a read of bytes `from..to` of a zone, die by die.
    pub(super) fn pieces(
        &self,
        zone: ZoneNo,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = Piece> + use<> {
        let this = *self;
        let units = from / this.unit..to.div_ceil(this.unit);
        units.filter(move |_| from < to).map(move |unit| {
            let start = unit * this.unit;
            let (a, b) = (from.max(start) - start, to.min(start + this.unit) - start);
            Piece {
                die: this.die(zone, unit),
                first: (start + a) / this.page,
                pages: b.div_ceil(this.row) - a / this.row,
                bytes: b - a,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripe() -> Stripe {
        Stripe { stripes: 2, zone_dies: 2, unit: 96, page: 16, row: 32, block: 192 }
    }

    #[test]
    fn units_rotate_over_the_dies_of_the_zones_stripe() {
        let dies = |zone| (0..4).map(move |unit| stripe().die(ZoneNo(zone), unit));
        assert!(dies(0).eq([0, 1, 0, 1]));
        assert!(dies(1).eq([2, 3, 2, 3]));
        assert!(dies(2).eq([1, 0, 1, 0]));
        assert!(dies(3).eq([3, 2, 3, 2]));
    }

    #[test]
    fn units_are_counted_by_die() {
        let count = |from, to| stripe().units_by_die(ZoneNo(0), from, to).collect::<Vec<_>>();
        assert_eq!(count(0, 5), [(0, 3), (1, 2)]);
        assert_eq!(count(3, 5), [(1, 1), (0, 1)]);
        assert_eq!(count(3, 4), [(1, 1)]);
        assert_eq!(count(3, 3), []);
        assert_eq!(stripe().blocks(2), 1);
        assert_eq!(stripe().blocks(3), 2);
    }

    #[test]
    fn reads_touch_the_pages_that_hold_their_bytes() {
        let pieces = |from, to| {
            let pieces = stripe().pieces(ZoneNo(0), from, to);
            pieces.map(|p| (p.die, p.pages, p.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(pieces(0, 8), [(0, 1, 8)]);
        assert_eq!(pieces(24, 40), [(0, 2, 16)]);
        assert_eq!(pieces(90, 200), [(0, 1, 6), (1, 3, 96), (0, 1, 8)]);
        assert_eq!(pieces(8, 8), []);
    }
}
