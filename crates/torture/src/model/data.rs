//! What the medium holds, sector by sector, and what must survive a loss of power.
//!
//! A written sector carries a stamp: the number of its bio and its place in the bio. What a read is
//! to find is noted when the medium does the read, so reads and writes that are on their way
//! together need no rule.
use super::super::config::Config;
use super::bios::Bios;
use super::device::{Command, DeviceModel};
use super::{CheckResult, require};
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Buf, Completion, Limits, Op, Sector};

/// The stamp of a sector of a bio; 0 stands for zeroes.
fn stamp(bio: u64, place: u64) -> u64 {
    (bio + 1) << 16 | place
}

/// A buffer for a bio's write.
pub(in super::super) fn filled(bio: u64, nr_sectors: u32) -> Buf {
    let mut buf = Buf::zeroed(nr_sectors as usize * 512);
    for (place, sector) in (0..).zip(buf.chunks_exact_mut(512)) {
        let stamp = stamp(bio, place).to_le_bytes();
        sector[..8].copy_from_slice(&stamp);
        sector[504..].copy_from_slice(&stamp);
    }
    buf
}

/// The stamp in a sector; none if it is torn.
fn found(sector: &[u8]) -> Option<u64> {
    let read = |at: usize| {
        let bytes: [u8; 8] = sector[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    (read(0) == read(504)).then(|| read(0))
}

/// A write that its submitter was told is done.
struct Acknowledged {
    bio: u32,
    zone: usize,
    /// How often the zone had been reset.
    resets: u32,
    sequential: bool,
    sector: Sector,
    nr_sectors: u32,
}

pub(super) struct Data {
    kept: bool,
    cache: bool,
    /// 0 on a device without zones.
    zone_size: u64,
    content: Vec<u64>,
    /// Behind a volatile cache, for sectors that can be written anywhere: stamps since the last that
    /// must survive, the oldest first.
    history: Vec<Vec<u64>>,
    /// By zone, what of it must survive.
    safe: Vec<u64>,
    resets: Vec<u32>,
    /// Not yet known to be durable, the oldest first.
    acknowledged: VecDeque<Acknowledged>,
    /// Of all acknowledged writes, those before the first in the list.
    settled: u64,
}

impl Data {
    pub(super) fn new(config: &Config, limits: &Limits) -> Self {
        let sectors = usize::try_from(limits.capacity.0).expect("a small device");
        Data {
            kept: config.data,
            zone_size: limits.zone_size.0,
            cache: config.cache,
            content: if config.data { vec![0; sectors] } else { Vec::new() },
            history: if config.data && config.cache { vec![vec![0]; sectors] } else { Vec::new() },
            safe: vec![0; limits.nr_zones as usize],
            resets: vec![0; limits.nr_zones as usize],
            acknowledged: VecDeque::new(),
            settled: 0,
        }
    }

    /// The first `done` sectors of a write are on the medium.
    pub(super) fn written(
        &mut self,
        bios: &mut Bios,
        command: &Command,
        landed: Sector,
        done: u32,
        sequential: bool,
    ) {
        let resets = self.resets.get(command.zone).copied().unwrap_or(0);
        for part in &command.parts {
            bios.written_after(part.bio, resets);
        }
        if !self.kept {
            return;
        }
        let end = landed.0 + u64::from(done);
        for part in &command.parts {
            let spec = bios.get(part.bio);
            // An append is never cut, and its bio does not say where it goes.
            let append = spec.op == Op::ZoneAppend;
            let first = if append { 0 } else { (part.sector - spec.sector).0 };
            let from = landed.0 + (part.sector - command.sector).0;
            for sector in from..(from + u64::from(part.nr_sectors)).min(end) {
                let place = first + sector - from;
                let zeroes = matches!(spec.op, Op::WriteZeroes | Op::Discard);
                let stamp = if zeroes { 0 } else { stamp(part.bio.into(), place) };
                let index = usize::try_from(sector).expect("an index");
                self.content[index] = stamp;
                if self.cache && !sequential {
                    self.history[index].push(stamp);
                }
            }
        }
    }

    /// What a read that the medium has just done is to find.
    pub(super) fn read(&self, bios: &mut Bios, command: &Command) {
        if !self.kept {
            return;
        }
        for part in &command.parts {
            let first = bios.get(part.bio).sector;
            let place = usize::try_from((part.sector - first).0).expect("an index");
            let from = usize::try_from(part.sector.0).expect("an index");
            let len = part.nr_sectors as usize;
            let expected = bios.expect_of(part.bio);
            expected[place..place + len].copy_from_slice(&self.content[from..from + len]);
        }
    }

    pub(super) fn check_read(&self, bios: &Bios, id: u64, completion: &Completion) -> CheckResult {
        let Some(buf) = completion.buf.as_ref().filter(|_| self.kept) else {
            return Ok(());
        };
        let sectors = buf.chunks_exact(512).map(found);
        for (place, (found, expected)) in sectors.zip(bios.expected(id)).enumerate() {
            require!(
                found == Some(*expected),
                "read {id} found {found:x?} at sector {}, expected {expected:x}",
                completion.sector.0 + place as u64
            );
        }
        Ok(())
    }

    /// A zone is empty from `wp` on.
    pub(super) fn truncate(&mut self, limits: &Limits, zone: usize, wp: u64) {
        if self.kept {
            let start = zone as u64 * limits.zone_size.0;
            let end = (start + limits.zone_size.0).min(limits.capacity.0);
            let index = |sector| usize::try_from(sector).expect("an index");
            self.content[index(start + wp)..index(end)].fill(0);
        }
    }

    pub(super) fn was_reset(&mut self, zone: usize) {
        self.safe[zone] = 0;
        self.resets[zone] += 1;
    }

    /// So many writes were ever acknowledged.
    pub(super) fn acknowledged_so_far(&self) -> u64 {
        self.settled + self.acknowledged.len() as u64
    }

    /// A bio completed without error.
    pub(super) fn acknowledged(&mut self, bios: &Bios, id: u64, device: &DeviceModel) {
        if !self.cache {
            return;
        }
        let bio = u32::try_from(id).expect("a number of a bio");
        let spec = bios.get(bio);
        let flushes = spec.op == Op::Flush || spec.flags.contains(BioFlags::PREFLUSH);
        if flushes && (spec.op == Op::Flush || spec.op.is_write()) {
            let upto = bios.acknowledged_before(bio);
            while self.settled < upto {
                let durable = self.acknowledged.pop_front().expect("as many as were counted");
                self.settled += 1;
                self.must_survive(&durable);
            }
        }
        if !spec.op.is_write() || spec.op == Op::ZoneAppend {
            // An append's place is in its completion; the zone's pointer speaks for its data.
            return;
        }
        let end = spec.sector.0 + u64::from(spec.nr_sectors);
        let zone_of = |sector: u64| match self.zone_size {
            0 => 0,
            size => usize::try_from(sector / size).expect("an index"),
        };
        let zone = zone_of(spec.sector.0);
        if zone_of(end - 1) != zone {
            // A bio across zones is not followed.
            return;
        }
        let written = Acknowledged {
            bio,
            zone,
            resets: bios.resets_before(bio),
            sequential: device.is_sequential(zone),
            sector: spec.sector,
            nr_sectors: spec.nr_sectors,
        };
        if spec.flags.contains(BioFlags::FUA) {
            self.must_survive(&written);
        } else {
            self.acknowledged.push_back(written);
        }
    }

    fn must_survive(&mut self, written: &Acknowledged) {
        let first = written.sector.0;
        if written.sequential {
            if self.resets[written.zone] == written.resets {
                let end = first % self.zone_size + u64::from(written.nr_sectors);
                let safe = &mut self.safe[written.zone];
                *safe = end.max(*safe);
            }
            return;
        }
        if self.history.is_empty() {
            return;
        }
        for place in 0..u64::from(written.nr_sectors) {
            let index = usize::try_from(first + place).expect("an index");
            let stamp = stamp(written.bio.into(), place);
            let history = &mut self.history[index];
            if let Some(at) = history.iter().position(|&older| older == stamp) {
                history.drain(..at);
            }
        }
    }

    /// The power failed: a zone lost no more than a tail that nobody was promised.
    pub(super) fn check_survival(&mut self, zone: usize, before: u64, after: u64) -> CheckResult {
        require!(
            after <= before,
            "zone {zone}: the write pointer was {before}, after a loss of power {after}"
        );
        require!(
            after >= self.safe[zone],
            "zone {zone}: {} sectors were flushed, after a loss of power there are {after}",
            self.safe[zone]
        );
        // Whoever hears only now of a write before this has been promised nothing.
        self.resets[zone] += 1;
        Ok(())
    }

    /// ... and elsewhere each sector holds what it held at some time since the last flush.
    pub(super) fn check_loose(
        &mut self,
        limits: &Limits,
        device: &DeviceModel,
        read_raw: impl Fn(Sector, &mut [u8]),
    ) -> CheckResult {
        self.settled += self.acknowledged.len() as u64;
        self.acknowledged.clear();
        for (index, history) in self.history.iter_mut().enumerate() {
            let sector = Sector(index as u64);
            let zoned = limits.nr_zones > 0;
            if zoned && device.is_sequential(limits.zone_of(sector).index()) {
                continue;
            }
            let mut raw = [0; 512];
            read_raw(sector, &mut raw);
            let found = found(&raw).filter(|found| history.contains(found));
            let Some(found) = found else {
                return Err(format!(
                    "sector {sector} does not hold what it may after a loss of power: {history:x?}"
                ));
            };
            history.clear();
            history.push(found);
            self.content[index] = found;
        }
        Ok(())
    }
}
