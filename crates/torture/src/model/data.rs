//! The content of the medium, sector by sector, and what must survive a power loss.
//!
//! A written sector carries a stamp: the number of its bio and its index in the bio. The expected
//! result of a read is recorded when the medium executes the read, so the order of reads and writes
//! in flight does not matter.
use super::bios::Bios;
use super::device::{Command, DeviceModel};
use super::{CheckResult, require};
use crate::config::Config;
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Buf, Completion, Limits, Op, Sector};

/// The stamp of a sector of a bio; 0 stands for zeroes.
fn stamp(bio: u64, index: u64) -> u64 {
    (bio + 1) << 16 | index
}

/// Puts the stamps of a bio into a buffer.
pub(crate) fn fill(buf: &mut Buf, bio: u64) {
    for (index, sector) in (0..).zip(buf.chunks_exact_mut(512)) {
        let stamp = stamp(bio, index).to_le_bytes();
        sector[..8].copy_from_slice(&stamp);
        sector[504..].copy_from_slice(&stamp);
    }
}

/// Tears each sector of a buffer, so that one which a read does not fill is no data.
pub(crate) fn tear(buf: &mut Buf) {
    for sector in buf.chunks_exact_mut(512) {
        sector[..8].fill(0xff);
        sector[504..].fill(0);
    }
}

/// The stamp in a sector; `None` if it is torn.
fn read_stamp(sector: &[u8]) -> Option<u64> {
    let read = |at: usize| {
        let bytes: [u8; 8] = sector[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    (read(0) == read(504)).then(|| read(0))
}

/// A write that completed successfully.
struct Acknowledged {
    bio: u32,
    zone: usize,
    /// Number of resets of the zone at that time.
    resets: u32,
    sequential: bool,
    sector: Sector,
    nr_sectors: u32,
}

pub(super) struct Data {
    stores_data: bool,
    cache: bool,
    /// 0 on a device without zones.
    zone_size: u64,
    content: Vec<u64>,
    /// With a volatile cache, for sectors outside sequential zones: the stamps from the last durable
    /// one on, oldest first.
    history: Vec<Vec<u64>>,
    /// By zone, the part that must survive, in sectors.
    durable: Vec<u64>,
    resets: Vec<u32>,
    /// Writes not known to be durable, oldest first.
    acknowledged: VecDeque<Acknowledged>,
    /// Number of acknowledged writes before the first in the list.
    settled: u64,
}

impl Data {
    pub(super) fn new(config: &Config, limits: &Limits) -> Self {
        let sectors = usize::try_from(limits.capacity.0).expect("a small device");
        Data {
            stores_data: config.data,
            zone_size: limits.zone_size.0,
            cache: config.cache,
            content: if config.data { vec![0; sectors] } else { Vec::new() },
            history: if config.data && config.cache { vec![vec![0]; sectors] } else { Vec::new() },
            durable: vec![0; limits.nr_zones as usize],
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
        if !self.stores_data {
            return;
        }
        let end = landed.0 + u64::from(done);
        for part in &command.parts {
            let spec = bios.get(part.bio);
            // An append is never split, and its bio does not contain its sector.
            let append = spec.op == Op::ZoneAppend;
            let first = if append { 0 } else { (part.sector - spec.sector).0 };
            let from = landed.0 + (part.sector - command.sector).0;
            for sector in from..(from + u64::from(part.nr_sectors)).min(end) {
                let index_in_bio = first + sector - from;
                let zeroes = matches!(spec.op, Op::WriteZeroes | Op::Discard);
                let stamp = if zeroes { 0 } else { stamp(part.bio.into(), index_in_bio) };
                let index = usize::try_from(sector).expect("an index");
                self.content[index] = stamp;
                if self.cache && !sequential {
                    self.history[index].push(stamp);
                }
            }
        }
    }

    /// Records the expected result of a read that the medium has just executed.
    pub(super) fn read(&self, bios: &mut Bios, command: &Command) {
        if !self.stores_data {
            return;
        }
        for part in &command.parts {
            let first = bios.get(part.bio).sector;
            let at = usize::try_from((part.sector - first).0).expect("an index");
            let from = usize::try_from(part.sector.0).expect("an index");
            let len = part.nr_sectors as usize;
            let expected = bios.expect_of(part.bio);
            expected[at..at + len].copy_from_slice(&self.content[from..from + len]);
        }
    }

    pub(super) fn check_read(&self, bios: &Bios, id: u64, completion: &Completion) -> CheckResult {
        let Some(buf) = completion.buf.as_ref().filter(|_| self.stores_data) else {
            return Ok(());
        };
        let sectors = buf.chunks_exact(512).map(read_stamp);
        for (index, (found, expected)) in sectors.zip(bios.expected(id)).enumerate() {
            require!(
                found == Some(*expected),
                "read {id} found {found:x?} at sector {}, expected {expected:x}",
                completion.sector.0 + index as u64
            );
        }
        Ok(())
    }

    /// A zone is empty from `wp` on.
    pub(super) fn truncate(&mut self, limits: &Limits, zone: usize, wp: u64) {
        if self.stores_data {
            let start = zone as u64 * limits.zone_size.0;
            let end = (start + limits.zone_size.0).min(self.content.len() as u64);
            let index = |sector| usize::try_from(sector).expect("an index");
            self.content[index(start + wp)..index(end)].fill(0);
        }
    }

    pub(super) fn was_reset(&mut self, zone: usize) {
        self.durable[zone] = 0;
        self.resets[zone] += 1;
    }

    /// The number of writes acknowledged so far.
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
                let durable =
                    self.acknowledged.pop_front().expect("settled counts removed entries");
                self.settled += 1;
                self.must_survive(&durable);
            }
        }
        if !spec.op.is_write() || spec.op == Op::ZoneAppend {
            // The write pointer accounts for the data of an append.
            return;
        }
        let end = spec.sector.0 + u64::from(spec.nr_sectors);
        let zone_of = |sector: u64| match self.zone_size {
            0 => 0,
            size => usize::try_from(sector / size).expect("an index"),
        };
        let zone = zone_of(spec.sector.0);
        if zone_of(end - 1) != zone {
            // A bio across zones is not tracked.
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
                let durable = &mut self.durable[written.zone];
                *durable = end.max(*durable);
            }
            return;
        }
        if self.history.is_empty() {
            return;
        }
        for offset in 0..u64::from(written.nr_sectors) {
            let index = usize::try_from(first + offset).expect("an index");
            let stamp = stamp(written.bio.into(), offset);
            let history = &mut self.history[index];
            if let Some(at) = history.iter().position(|&older| older == stamp) {
                history.drain(..at);
            }
        }
    }

    /// After a power loss: a sequential zone lost at most a tail that was not durable.
    pub(super) fn check_survival(&mut self, zone: usize, before: u64, after: u64) -> CheckResult {
        require!(
            after <= before,
            "zone {zone}: the write pointer was {before}, after a power loss {after}"
        );
        require!(
            after >= self.durable[zone],
            "zone {zone}: {} sectors were flushed, after a power loss there are {after}",
            self.durable[zone]
        );
        // A write before the loss that is acknowledged only now is not durable.
        self.resets[zone] += 1;
        Ok(())
    }

    /// After a power loss: any other sector has a content that it had since the last flush.
    pub(super) fn check_unordered(
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
            let found = read_stamp(&raw).filter(|found| history.contains(found));
            let Some(found) = found else {
                return Err(format!(
                    "sector {sector} has none of the contents allowed after a power loss: {history:x?}"
                ));
            };
            history.clear();
            history.push(found);
            self.content[index] = found;
        }
        Ok(())
    }
}
