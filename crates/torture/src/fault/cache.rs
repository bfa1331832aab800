//! The observable part of a volatile write cache: what a power loss may lose.
//!
//! [`WriteCache`] has the rules; here is what it takes to apply them to a medium that executes each
//! write immediately: the data that writes outside sequential zones have replaced. After a power loss,
//! the medium holds what was durable, and a random part of the rest.
use std::collections::BTreeMap;
use zonal_blk::{BioFlags, Device, Limits, Op, Request, Sector, ZoneCondition, ZoneKind, ZoneNo};
use zonal_device::control::FaultHooks;
use zonal_device::power_loss::WriteCache;
use zonal_device::rng::Rng;

pub(super) struct Cache {
    limits: Limits,
    held: WriteCache,
    /// The data that unflushed writes outside sequential zones have replaced, with their first sector, by
    /// the number of the write.
    replaced: BTreeMap<u64, (Sector, Vec<u8>)>,
    /// The data that the next write overwrites.
    overwritten: Option<Vec<u8>>,
}

impl Cache {
    pub(super) fn new(limits: &Limits, medium: &dyn FaultHooks) -> Self {
        let zones = (0..limits.nr_zones).filter_map(|zone| describe(medium, ZoneNo(zone)));
        let mut held = WriteCache::new(limits, &zones.collect::<Vec<_>>());
        // The medium is new, or as a loss of power has left it.
        (0..limits.nr_zones).for_each(|zone| held.moved(ZoneNo(zone), Sector(0)));
        let replaced = BTreeMap::new();
        Cache { limits: limits.clone(), held, replaced, overwritten: None }
    }

    /// A command is about to be executed.
    pub(super) fn before(&mut self, medium: &dyn FaultHooks, request: &Request) {
        self.overwritten = None;
        if request.flags().contains(BioFlags::PREFLUSH) || request.op() == Op::Flush {
            self.flush();
        }
        let writes = matches!(request.op(), Op::Write | Op::WriteZeroes | Op::Discard);
        if writes && !self.held.is_sequential(request.zone()) {
            let mut old = vec![0; request.nr_sectors() as usize * 512];
            medium.read_raw(request.sector(), &mut old);
            self.overwritten = Some(old);
        }
    }

    /// A write was executed.
    pub(super) fn wrote(&mut self, request: &Request, landed: Sector, nr_sectors: u32) {
        let fua = request.flags().contains(BioFlags::FUA);
        let number = self.held.wrote(request.zone(), landed, nr_sectors.into(), fua);
        if let Some(mut old) = self.overwritten.take().filter(|_| !fua) {
            old.truncate(nr_sectors as usize * 512);
            self.replaced.insert(number, (landed, old));
        }
    }

    /// A zone's write pointer was moved durably, as by a reset.
    pub(super) fn moved(&mut self, zone: ZoneNo, to: Sector) {
        self.held.moved(zone, to);
    }

    pub(super) fn finished(&mut self, zone: ZoneNo) {
        self.held.moved(zone, self.limits.zone_size);
    }

    pub(super) fn reset_all(&mut self) {
        (0..self.limits.nr_zones).for_each(|zone| self.held.moved(ZoneNo(zone), Sector(0)));
    }

    /// A flush was executed, which covers all writes executed before.
    pub(super) fn flush(&mut self) {
        self.held.flushed(self.held.flush_point());
        self.replaced.clear();
    }

    /// The power fails. All zones are closed.
    pub(super) fn lose(&mut self, medium: &dyn FaultHooks, rng: &mut Rng) {
        for number in 0..self.limits.nr_zones {
            self.lose_unflushed_tail(medium, ZoneNo(number), rng);
        }
        let mut written = Vec::new();
        for part in self.held.unordered().rev() {
            let len = part.nr_sectors as usize * 512;
            let mut new = vec![0; len];
            medium.read_raw(part.sector, &mut new);
            let (first, old) = &self.replaced[&part.number];
            let at = (part.sector - *first).0 as usize * 512;
            medium.write_raw(part.sector, &old[at..at + len]);
            written.push((part.sector, new));
        }
        for (sector, new) in written.into_iter().rev() {
            match rng.below(4) {
                0 | 1 => {}
                2 => medium.write_raw(sector, &new),
                _ => self.tear(medium, sector, &new, rng),
            }
        }
        self.held.lost();
        self.replaced.clear();
    }

    /// Leaves some of the logical blocks of a write: each is there as a whole or not at all.
    fn tear(&self, medium: &dyn FaultHooks, sector: Sector, new: &[u8], rng: &mut Rng) {
        let block = self.limits.lba_size as usize;
        for (number, data) in (0..).zip(new.chunks(block)) {
            if rng.below(2) == 1 {
                let at = Sector(sector.0 + number * u64::from(self.limits.lba_sectors()));
                medium.write_raw(at, data);
            }
        }
    }

    fn lose_unflushed_tail(&mut self, medium: &dyn FaultHooks, number: ZoneNo, rng: &mut Rng) {
        let Some(zone) = describe(medium, number) else {
            return;
        };
        // A full zone stays full.
        if zone.kind != ZoneKind::SequentialRequired || zone.cond != ZoneCondition::Closed {
            return;
        }
        let unit = u64::from(self.limits.zone_write_sectors());
        let (safe, wp) = (self.held.durable(number).0, (zone.wp - zone.start).0);
        let lost = rng.below(wp.saturating_sub(safe) / unit + 1) * unit;
        if lost > 0 {
            medium.rewind(number, Sector(wp - lost)).expect("a closed zone can be rewound");
        }
        self.held.moved(number, Sector(wp - lost));
    }
}

fn describe(medium: &dyn FaultHooks, zone: ZoneNo) -> Option<zonal_blk::Zone> {
    let mut zones = Vec::with_capacity(1);
    Device::report_zones(medium, zone, 1, &mut zones).ok()?;
    zones.pop()
}
