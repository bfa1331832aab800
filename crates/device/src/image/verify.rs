//! Data against their checksums: at each read, in the background, and of an image that is not open.
//!
//! A read does not lock its zone while data are transferred, so the data may be those before a
//! command that has completed since, or a mixture. Therefore data that do not match are read once
//! more with the zone locked: only if they do not match then, the block is damaged.
use super::block::BLOCK;
use super::device::{ExecResult, ImageDevice};
use super::error::ImageError;
use super::recover::{Finding, Recovered};
use super::regions::Region;
use super::store::ReadAt;
use super::sums::{PIECE, Summer, Sums};
use super::superblock::{FileLayout, SUM_BYTES, SUMS_PER_PAGE, Superblock};
use crate::control::ScrubStep;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use zonal_blk::{Buf, Device, Request, Sector, Status, ZoneCondition, ZoneNo};

/// Ranges of damaged blocks that are listed one by one.
const MAX_LISTED: usize = 100;

/// The result of a read that is verified.
pub(super) enum ReadResult {
    /// The data are in the buffers, or why they are not.
    Done(Status),
    /// The zone does not allow it.
    Refused(Status),
    /// A block is being overwritten: to be executed again.
    Retry,
}

impl ImageDevice {
    /// Checks what a read has transferred: `len` bytes from address `at`.
    pub(super) fn check_read(&self, request: &mut Request, at: u64, len: usize) -> ReadResult {
        let mut result = ReadResult::Done(Status::Ok);
        let Some(sums) = &self.sums else { return result };
        let mut begin = 0;
        request.for_each_segment(|sector, _, buf| {
            let Some(buf) = buf else { return };
            let there = len.saturating_sub(begin).min(buf.len());
            let address = at + begin as u64;
            begin += buf.len();
            if there == 0 || !matches!(result, ReadResult::Done(Status::Ok)) {
                return;
            }
            match sums.check(&*self.store, address, &buf[..there]) {
                Ok(None) => {}
                Ok(Some(_)) => result = self.read_locked(sums, sector, buf, &mut |_| ()),
                Err(error) => result = ReadResult::Done(error.into()),
            }
        });
        result
    }

    /// Reads a range of one zone, and checks the data.
    pub(super) fn read_now(&self, sector: Sector, buf: &mut Buf) -> ReadResult {
        self.read_and_report(sector, buf, &mut |_| ())
    }

    fn read_and_report(
        &self,
        sector: Sector,
        buf: &mut Buf,
        damaged: &mut dyn FnMut(Sector),
    ) -> ReadResult {
        let end = sector + Sector(buf.len() as u64 / 512);
        let (at, len) = match self.read(self.zone_of(sector), sector, end) {
            ExecResult::Transfer { at, len } => (at, len),
            ExecResult::Refused(status) => return ReadResult::Refused(status),
            ExecResult::Done(status) | ExecResult::Failed(status) => {
                return ReadResult::Done(status);
            }
            ExecResult::Flush | ExecResult::Retry => return ReadResult::Retry,
        };
        let there = match self.fill(buf, at, len) {
            Ok(there) => there,
            Err(error) => return ReadResult::Done(error.into()),
        };
        let Some(sums) = self.sums.as_ref().filter(|_| there > 0) else {
            return ReadResult::Done(Status::Ok);
        };
        match sums.check(&*self.store, at, &buf[..there]) {
            Ok(None) => ReadResult::Done(Status::Ok),
            Ok(Some(_)) => self.read_locked(sums, sector, buf, damaged),
            Err(error) => ReadResult::Done(error.into()),
        }
    }

    /// Reads `len` bytes at address `at`, and zeroes the rest of the buffer.
    fn fill(&self, buf: &mut Buf, at: u64, len: u64) -> io::Result<usize> {
        let there = usize::try_from(len).expect("no longer than the buffer");
        let (data, rest) = buf.split_at_mut(there);
        rest.fill(0);
        if !data.is_empty() {
            self.store.read(at, data)?;
        }
        Ok(there)
    }

    /// Reads with the zone locked, so that nothing changes meanwhile, and passes each damaged block
    /// to `damaged`.
    fn read_locked(
        &self,
        sums: &Sums,
        sector: Sector,
        buf: &mut Buf,
        damaged: &mut dyn FnMut(Sector),
    ) -> ReadResult {
        let zone = self.zone_of(sector);
        let from = self.offset_in_zone(zone, sector);
        let range = from..from + Sector(buf.len() as u64 / 512);
        let tail = self.tail(zone);
        if tail.overlaps(&range) {
            return ReadResult::Retry;
        }
        let (at, len) = self.locate(&tail, zone, &range);
        let mut check = || -> io::Result<u64> {
            let there = self.fill(buf, at, len)?;
            let (mut done, mut found) = (0, 0);
            while let Some(block) = sums.check(&*self.store, at + done as u64, &buf[done..there])? {
                let lba = self.limits().lba_size as usize;
                let bad = done + block * lba;
                damaged(sector + Sector(bad as u64 / 512));
                found += 1;
                done = bad + lba;
            }
            Ok(found)
        };
        match check() {
            Ok(0) => ReadResult::Done(Status::Ok),
            Ok(found) => {
                self.damaged_blocks.fetch_add(found, Ordering::Relaxed);
                // Wrong data are never handed out.
                buf.fill(0);
                ReadResult::Done(Status::Medium)
            }
            Err(error) => ReadResult::Done(error.into()),
        }
    }

    /// See [`DeviceControl::scrub`](crate::control::DeviceControl::scrub).
    pub(super) fn scrub_step(&self, from: Sector) -> Result<ScrubStep, Status> {
        if self.sums.is_none() {
            return Err(Status::NotSupported);
        }
        let mut at = from;
        while at < self.limits().capacity {
            let zone = self.zone_of(at);
            let start = at - self.offset_in_zone(zone, at);
            let offset = at - start;
            let end = self.data_end(zone).min(offset + Sector(PIECE as u64 / 512));
            if end > offset {
                let mut buf =
                    Buf::zeroed(usize::try_from((end - offset).0 * 512).expect("a piece"));
                let mut damaged = Vec::new();
                let read = self.read_and_report(at, &mut buf, &mut |sector| damaged.push(sector));
                // What cannot be read is damaged too. What is being overwritten has no data to check.
                if damaged.is_empty()
                    && !matches!(read, ReadResult::Done(Status::Ok) | ReadResult::Retry)
                {
                    damaged.push(at);
                }
                let next = Some(start + end).filter(|&next| next < self.limits().capacity);
                return Ok(ScrubStep { next, bytes: buf.len() as u64, damaged });
            }
            at = start + self.zone_size();
        }
        Ok(ScrubStep { next: None, bytes: 0, damaged: Vec::new() })
    }

    /// Computes the checksums of a range of a slot from the data.
    pub(super) fn resum(&self, slot: u32, range: &Range<Sector>) -> io::Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let mut new = Vec::new();
        let mut from = range.start;
        while from < range.end {
            let to = range.end.min(from + Sector(PIECE as u64 / 512));
            let len = usize::try_from((to - from).0 * 512).expect("a piece");
            let mut data = Buf::zeroed(len);
            let at = self.layout().in_slot(slot, from);
            self.store.read(at, &mut data)?;
            new.clear();
            sums.summer().append(&mut new, &data);
            sums.set(&*self.store, self.layout().block_at(at), &new, false)?;
            from = to;
        }
        Ok(())
    }
}

impl ImageDevice {
    /// Makes the checksums of a range of a slot wrong whose data are not those that were flushed, so
    /// that no read passes them on. Blocks whose checksums are in the file and right are kept.
    pub(super) fn spoil(&self, slot: u32, range: &Range<Sector>) -> io::Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let len = usize::try_from((range.end - range.start).0 * 512).expect("at most a mebibyte");
        let mut data = Buf::zeroed(len);
        let at = self.layout().in_slot(slot, range.start);
        self.store.read(at, &mut data)?;
        let mut new = Vec::new();
        sums.summer().append(&mut new, &data);
        let mut stored = vec![0; new.len()];
        let first = self.layout().block_at(at);
        sums.get(&*self.store, first, &mut stored)?;
        for (new, stored) in new.chunks_mut(SUM_BYTES).zip(stored.chunks(SUM_BYTES)) {
            // Zeroes may be data that were lost, with a checksum that was never written.
            if new != stored || stored == [0; SUM_BYTES] {
                new.iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        sums.set(&*self.store, first, &new, false)
    }
}

/// A check of the data of an image that is not open.
struct DataCheck<'a> {
    file: &'a dyn ReadAt,
    superblock: &'a Superblock,
    recovered: &'a Recovered,
    layout: FileLayout,
    summer: Summer,
    /// Damaged sectors: those that follow each other are one range.
    damaged: Vec<(ZoneNo, u64, Range<Sector>)>,
    ranges: u64,
    bytes: u64,
}

/// Reads all data of an image and compares them with their checksums. Calls `progress` with the
/// number of bytes read so far.
///
/// # Errors
/// The file cannot be read.
pub fn check_data(
    file: &dyn ReadAt,
    superblock: &Superblock,
    recovered: &Recovered,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Finding>, ImageError> {
    if !superblock.checksums {
        let what = "data were not checked: the image has no checksums of them";
        return Ok(vec![Finding::Note(what.to_owned())]);
    }
    let layout = superblock.layout();
    let summer = Summer::new(layout.lba());
    let (damaged, ranges, bytes) = (Vec::new(), 0, 0);
    let mut check =
        DataCheck { file, superblock, recovered, layout, summer, damaged, ranges, bytes };
    for (zone, end) in recovered.data(superblock) {
        check.zone(zone, end, progress)?;
    }
    Ok(check.findings())
}

impl Recovered {
    /// Zones with data that can be read, and where those end.
    fn data(&self, superblock: &Superblock) -> impl Iterator<Item = (ZoneNo, Sector)> {
        let geometry = &superblock.geometry;
        let (conventional, zone_size) = (geometry.conventional, geometry.zone_size);
        let zones = self.zones.iter().filter(|zone| zone.slot.is_some());
        zones.filter(|zone| zone.cond != ZoneCondition::Offline).map(move |zone| {
            let end = if zone.zone.0 < conventional { zone_size } else { zone.written };
            (zone.zone, end)
        })
    }

    /// The regions of conventional zones that were being overwritten: opening the image computes
    /// their checksums from the data.
    pub fn overwritten(&self) -> &[Region] {
        &self.list.regions
    }
}

impl DataCheck<'_> {
    fn zone(
        &mut self,
        zone: ZoneNo,
        end: Sector,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ImageError> {
        let slot = self.recovered.zones[zone.index()].slot.expect("a zone with data");
        let (mut data, mut sums) = (Buf::zeroed(PIECE), Buf::zeroed(BLOCK));
        let mut page = None;
        let mut from = Sector(0);
        while from < end {
            let to = end.min(from + Sector(PIECE as u64 / 512));
            let data = &mut data[..usize::try_from((to - from).0 * 512).expect("a piece")];
            let at = self.layout.in_slot(slot, from);
            let (_, block) = self.layout.block_at(at);
            let needed = block / SUMS_PER_PAGE;
            if page.replace(needed) != Some(needed) {
                let at = self.layout.sum_page(slot, needed);
                self.file.read(at, &mut sums).map_err(ImageError::io("reading checksums"))?;
            }
            self.file.read(at, data).map_err(ImageError::io("reading data"))?;
            let first = usize::try_from(block % SUMS_PER_PAGE).expect("1024 in a page");
            self.piece(zone, from, at, data, &sums[first * SUM_BYTES..]);
            self.bytes += data.len() as u64;
            progress(self.bytes);
            from = to;
        }
        Ok(())
    }

    /// Checks data of one page of checksums.
    fn piece(&mut self, zone: ZoneNo, from: Sector, at: u64, data: &[u8], sums: &[u8]) {
        let lba = self.superblock.geometry.lba as usize;
        let mut done = 0;
        while let Some(block) =
            self.summer.first_mismatch(&data[done * lba..], &sums[done * SUM_BYTES..])
        {
            let bad = (done + block) * lba;
            let range = from + Sector(bad as u64 / 512)..from + Sector((bad + lba) as u64 / 512);
            self.note(zone, at + bad as u64, range);
            done += block + 1;
        }
    }

    /// Notes a damaged block, unless opening the image computes its checksum anew.
    fn note(&mut self, zone: ZoneNo, at: u64, block: Range<Sector>) {
        let geometry = &self.superblock.geometry;
        let is_in = |range: &Range<Sector>| range.start <= block.start && block.end <= range.end;
        let covered = self.recovered.covered.iter();
        let mut covered = covered.filter(|data| data.0 == zone).map(|data| data.1.clone());
        let regions = self.recovered.overwritten().iter().filter(|region| region.zone == zone);
        let mut regions = regions.map(|region| region.sectors(&self.layout, geometry));
        if covered.any(|range| is_in(&range)) || regions.any(|range| is_in(&range)) {
            return;
        }
        match self.damaged.last_mut() {
            Some((last, _, range)) if *last == zone && range.end == block.start => {
                range.end = block.end;
            }
            _ => {
                self.ranges += 1;
                if self.damaged.len() <= MAX_LISTED {
                    self.damaged.push((zone, at, block));
                }
            }
        }
    }

    fn findings(self) -> Vec<Finding> {
        let zone_size = self.superblock.geometry.zone_size;
        let listed = self.damaged.iter().take(MAX_LISTED).map(|(zone, at, range)| {
            let start = u64::from(zone.0) * zone_size.0;
            let (first, last) = (start + range.start.0, start + range.end.0 - 1);
            Finding::Damage(format!(
                "zone {zone}: the data of sectors {first} to {last} do not match their checksums, \
                 at byte {at}"
            ))
        });
        let mut findings: Vec<Finding> = listed.collect();
        if self.ranges > MAX_LISTED as u64 {
            let more = self.ranges - MAX_LISTED as u64;
            findings.push(Finding::Damage(format!("{more} more ranges of damaged data")));
        }
        let checked = format!("{} bytes of data were read and compared", self.bytes);
        findings.push(Finding::Note(checked));
        findings
    }
}
