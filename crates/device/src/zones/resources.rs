//! Open and active resources: how many zones may be open or active at the same time, and which zone is
//! closed implicitly when another must open.
//!
//! Writes to zones that are already open do not come here.
use zonal_blk::{Status, ZoneCondition, ZoneNo};

/// Zones that hold open or active resources, by condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceCounts {
    /// Implicitly open zones.
    pub implicit: u32,
    /// Explicitly open zones.
    pub explicit: u32,
    /// Closed zones: active, not open.
    pub closed: u32,
}

impl ResourceCounts {
    /// Open zones.
    pub const fn open(&self) -> u32 {
        self.implicit + self.explicit
    }

    /// Active zones: open or closed.
    pub const fn active(&self) -> u32 {
        self.open() + self.closed
    }

    /// The counter of zones in condition `cond`, if they hold a resource.
    pub(super) fn counter(&mut self, cond: ZoneCondition) -> Option<&mut u32> {
        match cond {
            ZoneCondition::ImplicitOpen => Some(&mut self.implicit),
            ZoneCondition::ExplicitOpen => Some(&mut self.explicit),
            ZoneCondition::Closed => Some(&mut self.closed),
            _ => None,
        }
    }
}

/// The open and active zones of a device that limits them.
#[derive(Debug)]
pub(super) struct Resources {
    /// 0 for no limit, as is `max_active`.
    max_open: u32,
    max_active: u32,
    in_use: ResourceCounts,
    implicit: ZoneSet,
    /// Where the search for a zone to close continues: round robin.
    next_victim: usize,
}

impl Resources {
    pub(super) fn new(nr_zones: u32, max_open: u32, max_active: u32) -> Self {
        Resources {
            max_open,
            max_active,
            in_use: ResourceCounts::default(),
            implicit: ZoneSet::new(nr_zones as usize),
            next_victim: 0,
        }
    }

    pub(super) fn in_use(&self) -> ResourceCounts {
        self.in_use
    }

    pub(super) fn check_active(&self) -> Result<(), Status> {
        if self.max_active == 0 || self.in_use.active() < self.max_active {
            Ok(())
        } else {
            Err(Status::ZoneActiveResource)
        }
    }

    /// Makes room for a zone in condition `from`, empty or closed, to open. Returns the implicitly
    /// open zone that the caller must close for it, if any.
    ///
    /// A zone is closed only if one more zone could be active, even if the zone to open is closed
    /// and so active already, as in null_blk (drivers/block/null_blk/zoned.c).
    pub(super) fn make_room(&mut self, from: ZoneCondition) -> Result<Option<ZoneNo>, Status> {
        if from == ZoneCondition::Empty {
            self.check_active()?;
        }
        if self.max_open == 0 || self.in_use.open() < self.max_open {
            return Ok(None);
        }
        match self.implicit.first_from(self.next_victim) {
            Some(victim) if self.check_active().is_ok() => {
                self.next_victim = victim.index() + 1;
                Ok(Some(victim))
            }
            _ => Err(Status::ZoneOpenResource),
        }
    }

    /// Counts a change of condition.
    pub(super) fn moved(&mut self, zone: ZoneNo, from: ZoneCondition, to: ZoneCondition) {
        if let Some(count) = self.in_use.counter(from) {
            *count -= 1;
        }
        if let Some(count) = self.in_use.counter(to) {
            *count += 1;
        }
        let implicit = |cond| cond == ZoneCondition::ImplicitOpen;
        match (implicit(from), implicit(to)) {
            (true, false) => self.implicit.remove(zone),
            (false, true) => self.implicit.insert(zone),
            _ => {}
        }
    }
}

/// A set of zones, one bit each: the search for a zone to close covers 64 zones at a time.
#[derive(Debug)]
struct ZoneSet(Box<[u64]>);

impl ZoneSet {
    fn new(nr_zones: usize) -> Self {
        ZoneSet(vec![0; nr_zones.div_ceil(64)].into_boxed_slice())
    }

    fn insert(&mut self, zone: ZoneNo) {
        self.0[zone.index() / 64] |= 1 << (zone.index() % 64);
    }

    fn remove(&mut self, zone: ZoneNo) {
        self.0[zone.index() / 64] &= !(1 << (zone.index() % 64));
    }

    /// The first zone of the set at or after `start`, wrapping around.
    fn first_from(&self, start: usize) -> Option<ZoneNo> {
        let nr_words = self.0.len();
        let (first, bit) = (start / 64, start % 64);
        let from_start = self.0.get(first).map_or(0, |word| word & (u64::MAX << bit));
        if from_start != 0 {
            return Some(zone_at(first, from_start));
        }
        // The first word comes again last, for the bits before `start`.
        (first + 1..nr_words)
            .chain(0..nr_words.min(first + 1))
            .find(|&word| self.0[word] != 0)
            .map(|word| zone_at(word, self.0[word]))
    }
}

fn zone_at(word: usize, bits: u64) -> ZoneNo {
    let zone = word * 64 + bits.trailing_zeros() as usize;
    ZoneNo(u32::try_from(zone).expect("the set holds zone numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_begins_at_the_start_and_wraps_around() {
        let mut set = ZoneSet::new(200);
        assert_eq!(set.first_from(0), None);
        for zone in [3, 70, 199] {
            set.insert(ZoneNo(zone));
        }
        for (start, found) in [(0, 3), (3, 3), (4, 70), (70, 70), (71, 199), (199, 199)] {
            assert_eq!(set.first_from(start), Some(ZoneNo(found)), "from {start}");
        }
        assert_eq!(set.first_from(200), Some(ZoneNo(3)));
        assert_eq!(set.first_from(256), Some(ZoneNo(3)));
        set.remove(ZoneNo(3));
        set.remove(ZoneNo(199));
        assert_eq!(set.first_from(71), Some(ZoneNo(70)));
    }
}
