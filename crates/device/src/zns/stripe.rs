//! Where a zone's data are: units on the dies of its stripe, one on each die, then one more.
//!
//! Each such turn has an order of its own, so that zones that are read or written together meet on
//! a die by chance only, and do not stay together for all the dies that follow.
//!
//! ```text
//!   8 dies, 4 per zone          zone 0: d2 d3 d0 d1 | d1 d0 d3 d2 ...
//!                               zone 1: d7 d4 d5 d6 | d4 d7 d6 d5 ...
//!                               zone 2: d0 d3 d2 d1 | d3 d0 d1 d2 ...
//! ```
use super::ZnsConfig;
use crate::rng::mix;
use zonal_blk::ZoneNo;

#[derive(Clone, Copy, Debug)]
pub(super) struct Stripe {
    /// Stripes of the drive.
    stripes: u32,
    zone_dies: u32,
    unit: u64,
    /// A page of one plane.
    page: u64,
    /// A block of all planes.
    block: u64,
}

/// The part of a read that is on one die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) die: u32,
    /// The numbers of the first and the last page in the zone, of one plane each.
    pub(super) first: u64,
    pub(super) last: u64,
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
            block: config.block.0 * planes,
        }
    }

    /// The die of a zone's unit.
    pub(super) fn die(&self, zone: ZoneNo, unit: u64) -> u32 {
        let dies = u64::from(self.zone_dies);
        let mixed = mix((u64::from(zone.0) << 32) ^ (unit / dies));
        // A step that is prime to the number of dies visits each once.
        let (mut step, start) = ((mixed % dies) | 1, mixed >> 32);
        while gcd(step, dies) > 1 {
            step += 2;
        }
        let turn = (unit % dies * step + start) % dies;
        let turn = u32::try_from(turn).expect("a remainder is less than its divisor");
        zone.0 % self.stripes * self.zone_dies + turn
    }

    /// The dies of a zone.
    pub(super) fn dies(&self, zone: ZoneNo) -> std::ops::Range<u32> {
        let first = zone.0 % self.stripes * self.zone_dies;
        first..first + self.zone_dies
    }

    /// The dies of a zone that have units in `from..to`, each with their number.
    pub(super) fn units_by_die(&self, zone: ZoneNo, from: u64, to: u64) -> Vec<(u32, u64)> {
        let dies = u64::from(self.zone_dies);
        let first = zone.0 % self.stripes * self.zone_dies;
        let whole = from.next_multiple_of(dies).min(to)..(to - to % dies).max(from).min(to);
        let turns = whole.end.saturating_sub(whole.start) / dies;
        let mut units: Vec<(u32, u64)> =
            (first..first + self.zone_dies).map(|die| (die, turns)).collect();
        let parts = (from..whole.start).chain(whole.end.max(whole.start)..to);
        for unit in parts {
            units[(self.die(zone, unit) - first) as usize].1 += 1;
        }
        units.retain(|&(_, units)| units > 0);
        units
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
                last: (start + b - 1) / this.page,
                bytes: b - a,
            }
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripe() -> Stripe {
        Stripe { stripes: 2, zone_dies: 2, unit: 96, page: 16, block: 192 }
    }

    #[test]
    fn each_turn_visits_every_die_of_the_zones_stripe_once() {
        for zone_dies in 1..=12 {
            let stripe = Stripe { zone_dies, ..stripe() };
            for (zone, turn) in (0..20).flat_map(|zone| (0..20).map(move |turn| (zone, turn))) {
                let units = turn * u64::from(zone_dies)..(turn + 1) * u64::from(zone_dies);
                let mut dies: Vec<u32> = units.map(|unit| stripe.die(ZoneNo(zone), unit)).collect();
                dies.sort_unstable();
                let first = zone % 2 * zone_dies;
                assert!(dies.into_iter().eq(first..first + zone_dies), "zone {zone}, turn {turn}");
            }
        }
    }

    #[test]
    fn zones_that_meet_on_a_die_part_again() {
        let stripe = Stripe { stripes: 1, zone_dies: 32, ..stripe() };
        let die = |zone, unit| stripe.die(ZoneNo(zone), unit);
        let meetings = (0..3200).filter(|&unit| die(0, unit) == die(1, unit)).count();
        assert!((50..200).contains(&meetings), "one in 32 is 100: {meetings}");
        let together = |unit| die(0, unit) == die(1, unit) && die(0, unit + 1) == die(1, unit + 1);
        let stay = (0..3200).filter(|&unit| together(unit)).count();
        assert!(stay < meetings / 3, "{stay} of {meetings}");
    }

    #[test]
    fn units_are_counted_by_die() {
        let stripe = Stripe { zone_dies: 3, ..stripe() };
        for (from, to) in (0..10).flat_map(|from| (0..12).map(move |to| (from, to))) {
            let mut expected = [0; 3];
            for unit in from..to {
                expected[stripe.die(ZoneNo(0), unit) as usize] += 1;
            }
            let expected: Vec<(u32, u64)> = (0..).zip(expected).filter(|die| die.1 > 0).collect();
            assert_eq!(stripe.units_by_die(ZoneNo(0), from, to), expected, "{from}..{to}");
        }
        assert_eq!(stripe.blocks(2), 1);
        assert_eq!(stripe.blocks(3), 2);
    }

    #[test]
    fn reads_touch_the_pages_that_hold_their_bytes() {
        let pieces = |from, to| {
            let pieces = stripe().pieces(ZoneNo(0), from, to);
            pieces.map(|p| (p.first, p.last, p.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(pieces(0, 8), [(0, 0, 8)]);
        assert_eq!(pieces(24, 40), [(1, 2, 16)]);
        assert_eq!(pieces(90, 200), [(5, 5, 6), (6, 11, 96), (12, 12, 8)]);
        assert_eq!(pieces(8, 8), []);
    }
}
