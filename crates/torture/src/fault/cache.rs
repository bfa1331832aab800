//! The observable part of a volatile write cache: what a power loss may lose.
//!
//! The cache tracks writes, flushes and write pointers. After a power loss, the medium holds what was
//! flushed or written with FUA, and a random part of the rest.
//!
//! Invariants: a sequential zone loses at most a tail, and its write pointer is at the end of its
//! data; other writes are lost or kept independently of one another.
use zonal_blk::{BioFlags, Device, Limits, Op, Request, Sector, ZoneCondition, ZoneKind, ZoneNo};
use zonal_device::control::FaultHooks;
use zonal_device::rng::Rng;

pub(super) struct Cache {
    limits: Limits,
    /// By zone; empty on a device without zones.
    sequential: Vec<bool>,
    /// The durable part of each zone, in sectors from its start.
    durable: Vec<u64>,
    /// Writes outside sequential zones since the last flush, oldest first.
    unflushed: Vec<UnflushedWrite>,
    /// The data that the next write overwrites.
    overwritten: Option<Vec<u8>>,
}

struct UnflushedWrite {
    sector: Sector,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Cache {
    pub(super) fn new(limits: &Limits, medium: &dyn FaultHooks) -> Self {
        let is_sequential = |number| {
            let zone = describe(medium, ZoneNo(number));
            zone.is_some_and(|zone| zone.kind == ZoneKind::SequentialRequired)
        };
        Cache {
            sequential: (0..limits.nr_zones).map(is_sequential).collect(),
            durable: vec![0; limits.nr_zones as usize],
            limits: limits.clone(),
            unflushed: Vec::new(),
            overwritten: None,
        }
    }

    fn is_sequential(&self, zone: ZoneNo) -> bool {
        self.sequential.get(zone.index()).is_some_and(|&sequential| sequential)
    }

    /// A command is about to be executed.
    pub(super) fn before(&mut self, medium: &dyn FaultHooks, request: &Request) {
        self.overwritten = None;
        if request.flags().contains(BioFlags::PREFLUSH) {
            self.flush_with(medium);
        }
        let writes = matches!(request.op(), Op::Write | Op::WriteZeroes | Op::Discard);
        if writes && !self.is_sequential(request.zone()) {
            let mut old = vec![0; request.nr_sectors() as usize * 512];
            medium.read_raw(request.sector(), &mut old);
            self.overwritten = Some(old);
        }
        if request.op() == Op::Flush {
            self.flush_with(medium);
        }
    }

    /// A write was executed.
    pub(super) fn wrote(&mut self, request: &Request, landed: Sector, nr_sectors: u32) {
        let fua = request.flags().contains(BioFlags::FUA);
        let Some(old) = self.overwritten.take() else {
            let start = self.limits.zone_start(request.zone());
            let end = (landed - start).0 + u64::from(nr_sectors);
            if fua {
                let safe = &mut self.durable[request.zone().index()];
                *safe = end.max(*safe);
            }
            return;
        };
        if fua {
            // Older unflushed data must not reappear over it.
            self.unflushed.clear();
            return;
        }
        let bytes = nr_sectors as usize * 512;
        self.unflushed.push(UnflushedWrite {
            sector: landed,
            old: old[..bytes].to_vec(),
            new: Vec::new(),
        });
    }

    /// A zone's write pointer was moved durably, as by a reset.
    pub(super) fn moved(&mut self, zone: ZoneNo, to: Sector) {
        self.durable[zone.index()] = to.0;
    }

    pub(super) fn finished(&mut self, zone: ZoneNo) {
        self.durable[zone.index()] = self.limits.zone_size.0;
    }

    pub(super) fn reset_all(&mut self) {
        self.durable.fill(0);
    }

    /// A flush was executed. [`Cache::before`] has recorded the write pointers.
    pub(super) fn flush(&mut self) {
        self.unflushed.clear();
    }

    fn flush_with(&mut self, medium: &dyn FaultHooks) {
        self.unflushed.clear();
        for number in 0..self.limits.nr_zones {
            if let Some(zone) = describe(medium, ZoneNo(number)) {
                self.durable[number as usize] = (zone.wp - zone.start).0;
            }
        }
    }

    /// The power fails. All zones are closed.
    pub(super) fn lose(&mut self, medium: &dyn FaultHooks, rng: &mut Rng) {
        for number in 0..self.limits.nr_zones {
            self.lose_unflushed_tail(medium, ZoneNo(number), rng);
        }
        for unflushed in self.unflushed.iter_mut().rev() {
            unflushed.new = vec![0; unflushed.old.len()];
            medium.read_raw(unflushed.sector, &mut unflushed.new);
            medium.write_raw(unflushed.sector, &unflushed.old);
        }
        for unflushed in self.unflushed.drain(..) {
            if rng.below(2) == 1 {
                medium.write_raw(unflushed.sector, &unflushed.new);
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
        let lba = u64::from(self.limits.lba_sectors());
        let (safe, wp) = (self.durable[number.index()], (zone.wp - zone.start).0);
        let lost = rng.below(wp.saturating_sub(safe) / lba + 1) * lba;
        if lost > 0 {
            medium.rewind(number, Sector(wp - lost)).expect("a closed zone can be rewound");
        }
        self.durable[number.index()] = wp - lost;
    }
}

fn describe(medium: &dyn FaultHooks, zone: ZoneNo) -> Option<zonal_blk::Zone> {
    let mut zones = Vec::with_capacity(1);
    Device::report_zones(medium, zone, 1, &mut zones).ok()?;
    zones.pop()
}
