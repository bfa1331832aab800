//! The data that a drive must keep when the power fails, and the data that it may lose. The fault simulator and the
//! crash lab both go by these rules.
//!
//! - A flush makes the writes durable that had completed when it began, a FUA write itself. A command
//!   with PREFLUSH is executed after such a flush.
//! - A sequential zone keeps a prefix of its data that has at least the durable part; its write
//!   pointer is at the end of that. Zones are independent of one another.
//! - Elsewhere each unflushed write is kept or lost, all or some of its blocks, independently of
//!   the others. Where writes overlap, the last one that was kept counts.
//! - A reset or a finish that has completed is durable.
use std::collections::VecDeque;
use zonal_blk::{Limits, Sector, Zone, ZoneCondition, ZoneKind, ZoneNo};

/// The data that a drive holds beyond what is durable.
#[derive(Clone, Debug)]
pub struct WriteCache {
    limits: Limits,
    /// Empty on a device without zones.
    zones: Vec<ZoneCache>,
    unordered: VecDeque<UnflushedWrite>,
    /// Lengths of the writes that are not known to be durable, oldest first.
    sizes: VecDeque<(u64, u64)>,
    /// Their sum, in sectors.
    held: u64,
    /// Writes so far.
    writes: u64,
}

#[derive(Clone, Debug)]
struct ZoneCache {
    sequential: bool,
    /// Sectors from the zone's start.
    durable: u64,
    /// Numbers and ends of the writes since, oldest first.
    unflushed: VecDeque<(u64, u64)>,
}

/// A write outside sequential zones that may be lost, or the part of it that was not overwritten
/// durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnflushedWrite {
    /// The number that [`WriteCache::wrote`] returned.
    pub number: u64,
    /// First sector.
    pub sector: Sector,
    /// Length.
    pub nr_sectors: u64,
}

/// The moment at which a flush began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushPoint(u64);

impl FlushPoint {
    /// Whether a flush that began then covers a write of this number.
    pub fn covers(self, write: u64) -> bool {
        write < self.0
    }
}

impl WriteCache {
    /// The cache of a device with these zones, all of whose data are durable.
    pub fn new(limits: &Limits, zones: &[Zone]) -> Self {
        let zone = |zone: &Zone| ZoneCache {
            sequential: zone.kind == ZoneKind::SequentialRequired,
            durable: match zone.cond {
                ZoneCondition::Full => zone.capacity.0,
                cond if cond.is_active() => (zone.wp - zone.start).0,
                _ => 0,
            },
            unflushed: VecDeque::new(),
        };
        WriteCache {
            limits: limits.clone(),
            zones: zones.iter().map(zone).collect(),
            unordered: VecDeque::new(),
            sizes: VecDeque::new(),
            held: 0,
            writes: 0,
        }
    }

    /// Whether a zone must be written in order. Not so for the one zone of a device without zones.
    pub fn is_sequential(&self, zone: ZoneNo) -> bool {
        self.zones.get(zone.index()).is_some_and(|zone| zone.sequential)
    }

    /// A write within one zone was executed. Returns its number.
    pub fn wrote(&mut self, zone: ZoneNo, sector: Sector, nr_sectors: u64, fua: bool) -> u64 {
        let number = self.writes;
        self.writes += 1;
        if self.is_sequential(zone) {
            let end = (sector - self.limits.zone_start(zone)).0 + nr_sectors;
            let zone = &mut self.zones[zone.index()];
            if fua {
                // Zones lose tails only, so what is before it is durable as well.
                zone.durable = end.max(zone.durable);
                return number;
            }
            zone.unflushed.push_back((number, end));
        } else {
            let written = UnflushedWrite { number, sector, nr_sectors };
            if fua {
                self.overwritten_durably(written);
                return number;
            }
            self.unordered.push_back(written);
        }
        self.sizes.push_back((number, nr_sectors));
        self.held += nr_sectors;
        number
    }

    /// Older unflushed data must not reappear over durable data.
    fn overwritten_durably(&mut self, durable: UnflushedWrite) {
        let (from, to) = (durable.sector.0, durable.sector.0 + durable.nr_sectors);
        let parts = |older: UnflushedWrite| {
            let (start, end) = (older.sector.0, older.sector.0 + older.nr_sectors);
            let part = move |start: u64, end: u64| UnflushedWrite {
                sector: Sector(start),
                nr_sectors: end.saturating_sub(start),
                ..older
            };
            [part(start, end.min(from)), part(start.max(to), end)]
        };
        let all = std::mem::take(&mut self.unordered).into_iter();
        self.unordered = all.flat_map(parts).filter(|part| part.nr_sectors > 0).collect();
    }

    /// The moment for a flush that begins now.
    pub fn flush_point(&self) -> FlushPoint {
        FlushPoint(self.writes)
    }

    /// A flush that began at `point` was executed.
    pub fn flushed(&mut self, point: FlushPoint) {
        for zone in &mut self.zones {
            while let Some((_, end)) = zone.unflushed.pop_front_if(|write| point.covers(write.0)) {
                zone.durable = end.max(zone.durable);
            }
        }
        self.unordered.retain(|write| !point.covers(write.number));
        while let Some((_, size)) = self.sizes.pop_front_if(|write| point.covers(write.0)) {
            self.held -= size;
        }
    }

    /// Sectors written that are not known to be durable.
    pub fn held(&self) -> Sector {
        Sector(self.held)
    }

    /// A cache has a size: if it would hold more than `sectors`, the oldest writes are durable.
    pub fn limit(&mut self, sectors: u64) {
        let (mut held, mut point) = (self.held, None);
        for &(number, size) in &self.sizes {
            if held <= sectors {
                break;
            }
            held -= size;
            point = Some(FlushPoint(number + 1));
        }
        if let Some(point) = point {
            self.flushed(point);
        }
    }

    /// A zone's write pointer was moved durably, as by a reset, a finish or a loss of power, to this
    /// distance from its start.
    pub fn moved(&mut self, zone: ZoneNo, to: Sector) {
        if let Some(zone) = self.zones.get_mut(zone.index()) {
            zone.durable = to.0;
            zone.unflushed.clear();
        }
    }

    /// The durable part of a sequential zone, in sectors from its start.
    pub fn durable(&self, zone: ZoneNo) -> Sector {
        Sector(self.zones[zone.index()].durable)
    }

    /// The part of a sequential zone that is durable after a flush that began at `point`, in sectors
    /// from its start.
    pub fn durable_after(&self, zone: ZoneNo, point: FlushPoint) -> Sector {
        let zone = &self.zones[zone.index()];
        let covered = zone.unflushed.iter().take_while(|write| point.covers(write.0));
        Sector(covered.map(|&(_, end)| end).fold(zone.durable, u64::max))
    }

    /// Where the unflushed writes of a sequential zone end, in sectors from its start, oldest first.
    pub fn unflushed_ends(&self, zone: ZoneNo) -> impl Iterator<Item = Sector> {
        self.zones[zone.index()].unflushed.iter().map(|&(_, end)| Sector(end))
    }

    /// Where the data of a sequential zone end, from its start.
    pub fn end(&self, zone: ZoneNo) -> Sector {
        let zone = &self.zones[zone.index()];
        Sector(zone.unflushed.iter().map(|&(_, end)| end).fold(zone.durable, u64::max))
    }

    /// Unflushed writes outside sequential zones, oldest first.
    pub fn unordered(&self) -> impl DoubleEndedIterator<Item = UnflushedWrite> {
        self.unordered.iter().copied()
    }

    /// Forgets all that is not durable: the power has failed.
    pub fn lost(&mut self) {
        self.zones.iter_mut().for_each(|zone| zone.unflushed.clear());
        self.unordered.clear();
        self.sizes.clear();
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENTIAL: ZoneNo = ZoneNo(1);

    /// Zone 0 is conventional, zone 1 sequential, both of 100 sectors.
    fn cache() -> WriteCache {
        let limits = Limits::zoned(2, Sector(100));
        let mut zones: Vec<Zone> = limits.empty_zones(ZoneNo(0), 2).collect();
        zones[0].kind = ZoneKind::Conventional;
        zones[0].cond = ZoneCondition::NotWritePointer;
        WriteCache::new(&limits, &zones)
    }

    fn pieces(cache: &WriteCache) -> Vec<(u64, u64, u64)> {
        cache.unordered().map(|write| (write.number, write.sector.0, write.nr_sectors)).collect()
    }

    #[test]
    fn flush_covers_the_writes_that_completed_before_it_began() {
        let mut cache = cache();
        cache.wrote(SEQUENTIAL, Sector(100), 8, false);
        cache.wrote(ZoneNo(0), Sector(0), 8, false);
        let point = cache.flush_point();
        cache.wrote(SEQUENTIAL, Sector(108), 8, false);
        cache.wrote(ZoneNo(0), Sector(8), 8, false);
        assert_eq!((cache.durable(SEQUENTIAL), cache.end(SEQUENTIAL)), (Sector(0), Sector(16)));
        cache.flushed(point);
        assert_eq!((cache.durable(SEQUENTIAL), cache.end(SEQUENTIAL)), (Sector(8), Sector(16)));
        assert_eq!(pieces(&cache), [(3, 8, 8)]);
    }

    #[test]
    fn fua_write_makes_the_prefix_of_its_zone_durable_and_nothing_else() {
        let mut cache = cache();
        cache.wrote(ZoneNo(0), Sector(0), 8, false);
        cache.wrote(SEQUENTIAL, Sector(100), 8, false);
        cache.wrote(SEQUENTIAL, Sector(108), 8, true);
        assert_eq!(cache.durable(SEQUENTIAL), Sector(16));
        assert_eq!(pieces(&cache), [(0, 0, 8)]);
    }

    #[test]
    fn older_data_do_not_reappear_over_a_fua_write() {
        let mut cache = cache();
        cache.wrote(ZoneNo(0), Sector(0), 8, false);
        cache.wrote(ZoneNo(0), Sector(20), 4, false);
        cache.wrote(ZoneNo(0), Sector(3), 2, true);
        assert_eq!(pieces(&cache), [(0, 0, 3), (0, 5, 3), (1, 20, 4)]);
        cache.wrote(ZoneNo(0), Sector(0), 50, true);
        assert_eq!(pieces(&cache), []);
    }

    #[test]
    fn reset_is_durable_and_forgets_the_writes_before_it() {
        let mut cache = cache();
        cache.wrote(SEQUENTIAL, Sector(100), 8, false);
        let point = cache.flush_point();
        cache.moved(SEQUENTIAL, Sector(0));
        cache.wrote(SEQUENTIAL, Sector(100), 4, false);
        cache.flushed(point);
        assert_eq!((cache.durable(SEQUENTIAL), cache.end(SEQUENTIAL)), (Sector(0), Sector(4)));
    }

    #[test]
    fn cache_of_a_size_holds_the_newest_writes() {
        let mut cache = cache();
        for sector in [100, 108, 116] {
            cache.wrote(SEQUENTIAL, Sector(sector), 8, false);
        }
        cache.limit(24);
        assert_eq!(cache.durable(SEQUENTIAL), Sector(0));
        cache.limit(15);
        assert_eq!((cache.durable(SEQUENTIAL), cache.end(SEQUENTIAL)), (Sector(16), Sector(24)));
    }
}
