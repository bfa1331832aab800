//! The volatile write cache of a device that executes each write immediately: how to take back what was
//! not durable.
use super::plan::{CutPlan, CutReport, Keep};
use crate::control::MediumAccess;
use crate::power_loss::{FlushPoint, UnflushedWrite, WriteCache};
use crate::rng::Rng;
use std::collections::BTreeMap;
use zonal_blk::{Limits, Sector, Status, Zone, ZoneNo};

pub(super) struct Cache {
    limits: Limits,
    held: WriteCache,
    /// The most that it holds, in sectors.
    size: u64,
    /// The data that unflushed writes outside sequential zones have replaced: first sector and data, by the
    /// number of the write.
    replaced: BTreeMap<u64, (Sector, Vec<u8>)>,
}

impl Cache {
    pub(super) fn new(limits: &Limits, zones: &[Zone], size: u64) -> Self {
        let held = WriteCache::new(limits, zones);
        Cache { limits: limits.clone(), held, size, replaced: BTreeMap::new() }
    }

    pub(super) fn is_sequential(&self, zone: ZoneNo) -> bool {
        self.held.is_sequential(zone)
    }

    pub(super) fn flush_point(&self) -> FlushPoint {
        self.held.flush_point()
    }

    /// A flush that began at `point` was executed.
    pub(super) fn flushed(&mut self, point: FlushPoint) {
        self.held.flushed(point);
        self.forget_replaced();
    }

    /// A write was executed. Returns its number. Outside sequential zones it is durable if it is not
    /// known what it has replaced.
    pub(super) fn wrote(
        &mut self,
        (zone, sector, nr_sectors): (ZoneNo, Sector, u32),
        fua: bool,
        replaced: Option<Vec<u8>>,
    ) -> u64 {
        let fua = fua || (replaced.is_none() && !self.is_sequential(zone));
        let number = self.held.wrote(zone, sector, nr_sectors.into(), fua);
        if let Some(replaced) = replaced.filter(|_| !fua) {
            self.replaced.insert(number, (sector, replaced));
        }
        if self.held.held().0 > self.size {
            self.held.limit(self.size);
            self.forget_replaced();
        }
        number
    }

    fn forget_replaced(&mut self) {
        let first = self.held.unordered().next().map_or(u64::MAX, |write| write.number);
        self.replaced = self.replaced.split_off(&first);
    }

    /// A zone's write pointer was moved durably, as by a reset.
    pub(super) fn moved(&mut self, zone: ZoneNo, to: Sector) {
        self.held.moved(zone, to);
    }

    pub(super) fn finished(&mut self, zone: ZoneNo) {
        if self.is_sequential(zone) {
            self.held.moved(zone, self.held.end(zone));
        }
    }

    pub(super) fn reset_all(&mut self) {
        (0..self.limits.nr_zones).for_each(|zone| self.held.moved(ZoneNo(zone), Sector(0)));
    }

    /// The power fails; nothing is in flight. All zones are closed, and what is left is durable.
    pub(super) fn lose(&mut self, medium: &dyn MediumAccess, plan: &CutPlan) -> CutReport {
        let mut rng = Rng::new(plan.seed);
        let tails: Vec<ZoneNo> = (0..self.limits.nr_zones)
            .map(ZoneNo)
            .filter(|&zone| {
                self.is_sequential(zone) && self.held.end(zone) > self.held.durable(zone)
            })
            .collect();
        let parts: Vec<UnflushedWrite> = self.held.unordered().collect();
        let mut writes: Vec<u64> = parts.iter().map(|part| part.number).collect();
        writes.dedup();
        let victim = rng.below((tails.len() + writes.len()).max(1) as u64);
        let mut report = CutReport::default();
        medium.close_zones();
        for (index, &zone) in (0..).zip(&tails) {
            let kept = self.kept_tail(zone, plan, index == victim, &mut rng);
            let fate = self.shorten(medium, zone, kept);
            report.fates.push(fate);
        }
        let mut fates = BTreeMap::new();
        for (index, &number) in (tails.len() as u64..).zip(&writes) {
            fates.insert(number, self.kept_blocks(number, plan, index == victim, &mut rng));
        }
        report.fates.extend(fates.iter().map(|(number, kept)| self.describe(*number, *kept)));
        if let Err(status) = self.take_back(medium, &parts, &fates) {
            report.fates.push(format!("writes cannot be taken back: {status}"));
        }
        self.held.lost();
        self.replaced.clear();
        if let Err(status) = medium.settle() {
            report.fates.push(format!("what was kept is not durable: {status}"));
        }
        report
    }

    /// Where a zone's data end afterwards, in sectors from its start.
    fn kept_tail(&self, zone: ZoneNo, plan: &CutPlan, is_victim: bool, rng: &mut Rng) -> u64 {
        let unit = u64::from(self.limits.zone_write_sectors());
        let (durable, end) = (self.held.durable(zone).0, self.held.end(zone).0);
        let blocks = (end - durable) / unit;
        if let Some((_, torn, sector, nr_sectors)) = plan.torn.filter(|torn| torn.1 == zone) {
            // At least one block of the write, and not all.
            let first = (sector - self.limits.zone_start(torn)).0;
            return first + (1 + rng.below(u64::from(nr_sectors) / unit - 1)) * unit;
        }
        durable
            + unit
                * match plan.keep {
                    Keep::None => 0,
                    Keep::Random => rng.below(blocks + 1),
                    Keep::AllButOne if is_victim => rng.below(blocks),
                    Keep::AllButOne => blocks,
                }
    }

    fn shorten(&mut self, medium: &dyn MediumAccess, zone: ZoneNo, kept: u64) -> String {
        let lba = u64::from(self.limits.lba_sectors());
        let (durable, end) = (self.held.durable(zone).0, self.held.end(zone).0);
        let mut fate = format!(
            "zone {zone}: kept {} blocks of {}, of which {} were durable",
            kept / lba,
            end / lba,
            durable / lba
        );
        let mut left = kept;
        if kept < end
            && let Err(status) = medium.shorten(zone, Sector(kept))
        {
            fate = format!("{fate}; the write pointer cannot be moved: {status}");
            left = end;
        }
        self.held.moved(zone, Sector(left));
        fate
    }

    /// Which of the blocks of a write are kept: from and to.
    fn kept_blocks(
        &self,
        number: u64,
        plan: &CutPlan,
        is_victim: bool,
        rng: &mut Rng,
    ) -> (u64, u64) {
        let lba = u64::from(self.limits.lba_sectors());
        let blocks = self.replaced[&number].1.len() as u64 / 512 / lba;
        let torn = |rng: &mut Rng| match (blocks, rng.below(2)) {
            (0 | 1, _) => (0, 0),
            (_, 0) => (0, 1 + rng.below(blocks - 1)),
            (_, _) => (1 + rng.below(blocks - 1), blocks),
        };
        if plan.torn.is_some_and(|torn| torn.0 == number) {
            return torn(rng);
        }
        match plan.keep {
            Keep::None => (0, 0),
            Keep::AllButOne if is_victim => (0, 0),
            Keep::AllButOne => (0, blocks),
            Keep::Random => match rng.below(3) {
                0 => (0, 0),
                1 => (0, blocks),
                _ => torn(rng),
            },
        }
    }

    /// Undoes all writes, the last one first, and does again what is kept.
    fn take_back(
        &self,
        medium: &dyn MediumAccess,
        parts: &[UnflushedWrite],
        fates: &BTreeMap<u64, (u64, u64)>,
    ) -> Result<(), Status> {
        let lba = u64::from(self.limits.lba_sectors());
        let mut written = Vec::new();
        for part in parts.iter().rev() {
            let mut new = vec![0; bytes(part.nr_sectors)];
            medium.peek(part.sector, &mut new)?;
            let (first, old) = &self.replaced[&part.number];
            let at = bytes((part.sector - *first).0);
            medium.poke(part.sector, &old[at..at + new.len()])?;
            written.push((part, first, new));
        }
        for (part, first, new) in written.into_iter().rev() {
            let (from, to) = fates[&part.number];
            let from = part.sector.0.max(first.0 + from * lba);
            let to = (part.sector.0 + part.nr_sectors).min(first.0 + to * lba);
            if from < to {
                let at = bytes(from - part.sector.0);
                medium.poke(Sector(from), &new[at..at + bytes(to - from)])?;
            }
        }
        Ok(())
    }

    fn describe(&self, number: u64, (from, to): (u64, u64)) -> String {
        let lba = u64::from(self.limits.lba_sectors());
        let (sector, old) = &self.replaced[&number];
        let blocks = old.len() as u64 / 512 / lba;
        let fate = match (from, to) {
            (0, all) if all == blocks => "kept".to_owned(),
            (from, to) if from == to => "lost".to_owned(),
            (0, to) => format!("kept its first {to} blocks of {blocks}"),
            (from, _) => format!("kept its last {} blocks of {blocks}", blocks - from),
        };
        format!("write at sector {sector}: {fate}")
    }
}

fn bytes(nr_sectors: u64) -> usize {
    usize::try_from(nr_sectors * 512).expect("a write fits in memory")
}
