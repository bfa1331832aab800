//! A volatile write cache, as far as it shows: what a power loss may take.
//!
//! Takes note of writes, flushes and moved write pointers; gives, when the power fails, a medium in
//! which everything is that was flushed or written with FUA, and of the rest what chance has spared.
//! Keeps true: a sequential zone loses nothing but a tail, and its write pointer is where its data
//! end; writes elsewhere are lost each on its own.
use zonal_blk::{BioFlags, Device, Limits, Op, Request, Sector, ZoneCondition, ZoneKind, ZoneNo};
use zonal_device::control::FaultHooks;
use zonal_device::rng::Rng;

pub(super) struct Cache {
    limits: Limits,
    /// By zone; none on a device without zones.
    sequential: Vec<bool>,
    /// How much of each zone is safe, in sectors from its start.
    durable: Vec<u64>,
    /// Writes outside of sequential zones since the last flush, the oldest first.
    unflushed: Vec<UnflushedWrite>,
    /// What lies under the write that is about to be done.
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

    /// A command is about to be done.
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

    /// A write is on the medium, as far as can be seen.
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
            // What is older in these places must not come back over it.
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

    /// A reset or the like is never lost.
    pub(super) fn moved(&mut self, zone: ZoneNo, to: Sector) {
        self.durable[zone.index()] = to.0;
    }

    pub(super) fn finished(&mut self, zone: ZoneNo) {
        self.durable[zone.index()] = self.limits.zone_size.0;
    }

    pub(super) fn reset_all(&mut self) {
        self.durable.fill(0);
    }

    /// The zones are noted when the command begins, with [`Cache::before`].
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

    /// The power fails. No zone is open.
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
        // A full zone has given back its resources; that it is full is not forgotten.
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
