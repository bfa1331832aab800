//! A clone's checks of what it wrote: which blocks hold what, and which reads are to be judged.
//!
//! Takes each I/O when it is submitted and when it has ended; gives reads of blocks that were
//! written, and what is wrong with them. Keeps true: a block is judged only if it holds one known
//! write: not after two writes to it were in flight together, and not if its zone was reset, by
//! whichever job.
use super::run_state::IoRole;
use crate::generate::{Io, ZbdTable};
use crate::job::{DataDir, Job, Rw};
use crate::verify::{Dump, Expected, Finding, Findings, Log, Record, Stamp, WriteId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use zonal_blk::{Bio, BioFlags, Buf, Nanos, Op, Sector, Status};

pub(crate) struct Verifier {
    stamp: Stamp,
    log: Log,
    zones: Zones,
    /// What is known of the I/O in flight, by slot.
    in_flight_ios: Vec<InFlightIo>,
    /// First sector and slot of each write and check in flight.
    in_flight: BTreeSet<(u64, u32)>,
    /// Sectors of the longest of them.
    longest: u64,
    /// The check that is about to be submitted.
    check: Option<Record>,
    /// The job only reads: it reads what another one wrote.
    reads_only: bool,
    /// Writes so far.
    written: u32,
    backlog: u32,
    batch: u32,
    /// Writes since the last batch of checks, and checks left of the batch.
    since_batch: u32,
    batch_left: u32,
    dump: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct InFlightIo {
    /// First sector; of an append, its zone's.
    sector: u64,
    nr_sectors: u64,
    /// Which write of the clone, if that is known.
    number: Option<u32>,
    /// The byte that the header has as its place.
    header_offset: u64,
    appended: bool,
    /// Something else was done to its blocks meanwhile.
    invalidated: bool,
    /// Resets of its zone before it.
    resets: u32,
}

/// The zones that other jobs may reset.
struct Zones {
    table: Option<Arc<ZbdTable>>,
    /// Sectors; 0 without zones.
    zone_size: u64,
    /// By zone, the resets before its records in the log.
    resets: BTreeMap<u64, u32>,
}

impl Zones {
    fn zone_of(&self, sector: u64) -> u64 {
        sector.checked_div(self.zone_size).unwrap_or(0)
    }

    fn range_of(&self, sector: u64) -> Range<u64> {
        let start = self.zone_of(sector) * self.zone_size;
        start..start + self.zone_size
    }

    /// How often the zone was reset, as far as jobs of `zonemode=zbd` did it.
    fn resets_of(&self, sector: u64) -> u32 {
        let zone = || u32::try_from(self.zone_of(sector)).expect("zones are counted in u32");
        self.table.as_ref().map_or(0, |table| table.resets(zone()))
    }
}

impl Verifier {
    /// The checks of a clone of `job` that writes with `seed`; `table` is for `zonemode=zbd`.
    /// `None` if the job checks nothing.
    pub fn new(
        job: &Job,
        clone: u32,
        seed: u64,
        table: Option<Arc<ZbdTable>>,
        zone_size: Sector,
    ) -> Option<Self> {
        let options = &job.verify;
        let batch = options.backlog_batch;
        Some(Verifier {
            stamp: Stamp::new(options, seed, clone)?,
            log: Log::default(),
            zones: Zones { table, zone_size: zone_size.0, resets: BTreeMap::new() },
            in_flight_ios: vec![InFlightIo::default(); job.iodepth as usize + 1],
            in_flight: BTreeSet::new(),
            longest: 0,
            check: None,
            reads_only: job.rw == Rw::Read,
            written: 0,
            backlog: if options.do_verify { options.backlog } else { 0 },
            batch: if batch == 0 { options.backlog } else { batch },
            since_batch: 0,
            batch_left: 0,
            dump: options.dump,
        })
    }

    /// Whether blocks are left to be checked.
    pub fn has_more(&self) -> bool {
        !self.log.is_empty()
    }

    /// The next block of a batch of checks between writes, if it is time.
    pub fn next_of_backlog(&mut self) -> Option<Io> {
        if self.batch_left == 0 {
            if self.backlog == 0 || self.since_batch < self.backlog {
                return None;
            }
            self.since_batch = 0;
            self.batch_left = self.batch;
        }
        let next = self.next();
        self.batch_left = if next.is_some() { self.batch_left - 1 } else { 0 };
        next
    }

    /// The next block to be checked.
    pub fn next(&mut self) -> Option<Io> {
        loop {
            let record = self.log.pop()?;
            let known = self.zones.resets.get(&self.zones.zone_of(record.sector)).copied();
            if known.unwrap_or(0) != self.zones.resets_of(record.sector) {
                self.log.forget(self.zones.range_of(record.sector));
                continue;
            }
            self.check = Some(record);
            return Some(Io {
                op: Op::Read,
                dir: DataDir::Read,
                offset: Sector(record.sector).to_bytes().0,
                len: Sector(record.nr_sectors.into()).to_bytes().0,
                zone: None,
                flags: BioFlags::NONE,
            });
        }
    }

    /// An I/O is about to be submitted. Gives its role, which may be another now.
    pub fn submit(&mut self, now: Nanos, slot: u32, bio: &mut Bio, role: IoRole) -> IoRole {
        let (sector, nr_sectors) = (bio.sector.0, u64::from(bio.nr_sectors));
        let range = match bio.op {
            Op::ZoneReset => self.zones.range_of(sector),
            Op::ZoneResetAll => 0..u64::MAX,
            _ => sector..sector + nr_sectors,
        };
        let resets = self.zones.resets_of(sector);
        let header_offset = bio.sector.to_bytes().0;
        let flight =
            InFlightIo { sector, nr_sectors, header_offset, resets, ..InFlightIo::default() };
        match bio.op {
            Op::Read => match self.check.take() {
                Some(record) => {
                    let header_offset = match record.appended {
                        true => Sector(self.zones.range_of(sector).start).to_bytes().0,
                        false => header_offset,
                    };
                    let number = Some(record.number);
                    self.track(slot, InFlightIo { number, header_offset, ..flight });
                    IoRole::Check
                }
                None if self.reads_only => {
                    self.track(slot, flight);
                    IoRole::Check
                }
                None => role,
            },
            Op::Write | Op::ZoneAppend => {
                let number = self.written;
                self.written = self.written.wrapping_add(1);
                self.since_batch = self.since_batch.saturating_add(1);
                if let Some(buf) = &mut bio.buf {
                    self.stamp.fill(buf, WriteId { offset: header_offset, number, time: now });
                }
                let appended = bio.op == Op::ZoneAppend;
                // An append lands where nothing was.
                let invalidated = !appended && self.invalidate(range);
                self.track(
                    slot,
                    InFlightIo { number: Some(number), appended, invalidated, ..flight },
                );
                IoRole::Write
            }
            Op::WriteZeroes | Op::Discard | Op::ZoneReset | Op::ZoneResetAll => {
                self.invalidate(range);
                role
            }
            _ => role,
        }
    }

    fn track(&mut self, slot: u32, flight: InFlightIo) {
        self.in_flight_ios[slot as usize] = flight;
        self.in_flight.insert((flight.sector, slot));
        self.longest = self.longest.max(flight.nr_sectors);
    }

    /// The blocks of a range will not hold what they did. Whether a write to one of them is in
    /// flight: then nobody knows what they will hold.
    fn invalidate(&mut self, range: Range<u64>) -> bool {
        self.log.forget(range.clone());
        let mut by_write = false;
        let from = range.start.saturating_sub(self.longest);
        for &(sector, slot) in self.in_flight.range((from, 0)..(range.end, 0)) {
            let flight = &mut self.in_flight_ios[slot as usize];
            if sector + flight.nr_sectors > range.start {
                flight.invalidated = true;
                by_write = true;
            }
        }
        by_write
    }

    /// A write or a check has ended. Gives the status that it has after that.
    pub fn ended(
        &mut self,
        slot: u32,
        role: IoRole,
        status: Status,
        landed: Sector,
        buf: Option<&mut Buf>,
        findings: &mut Findings,
    ) -> Status {
        let flight = std::mem::take(&mut self.in_flight_ios[slot as usize]);
        self.in_flight.remove(&(flight.sector, slot));
        if status != Status::Ok || flight.invalidated {
            return status;
        }
        match (role, buf) {
            (IoRole::Write, _) => self.written(&flight, landed.0),
            (_, Some(buf)) if flight.resets == self.zones.resets_of(flight.sector) => {
                return self.verify_read(&flight, buf, findings);
            }
            _ => {}
        }
        Status::Ok
    }

    /// A write is on the device.
    fn written(&mut self, flight: &InFlightIo, sector: u64) {
        let zone = self.zones.zone_of(sector);
        if self.zones.resets.insert(zone, flight.resets).unwrap_or(0) != flight.resets {
            self.log.forget(self.zones.range_of(sector));
        }
        self.log.insert(Record {
            sector,
            nr_sectors: u32::try_from(flight.nr_sectors).expect("a bio's length"),
            number: flight.number.expect("a write has a number"),
            appended: flight.appended,
        });
    }

    fn verify_read(
        &mut self,
        flight: &InFlightIo,
        buf: &mut Buf,
        findings: &mut Findings,
    ) -> Status {
        let offset = Sector(flight.sector).to_bytes().0;
        let received: Option<Box<[u8]>> = self.dump.then(|| buf[..].into());
        let time = self.stamp.time_of(buf);
        let expected = Expected { offset: flight.header_offset, number: flight.number };
        let mut wrong = Vec::new();
        self.stamp.check(buf, expected, |at, len, mismatch| wrong.push((at, len, mismatch)));
        if wrong.is_empty() {
            return Status::Ok;
        }
        let io = (offset, buf.len() as u64);
        for (at, len, mismatch) in wrong {
            findings.add(|| {
                let should = |number| {
                    let mut should = vec![0; buf.len()];
                    let place = WriteId { offset: flight.header_offset, number, time };
                    self.stamp.fill(&mut should, place);
                    should.into_boxed_slice()
                };
                let dump = received.clone().map(|received| {
                    let expected = flight.number.map(should);
                    Dump { received, expected }
                });
                Finding { offset: offset + at as u64, len: len as u64, io, mismatch, dump }
            });
        }
        Status::Protection
    }

    /// Notes an I/O as if it had been done.
    pub fn dry_run(&mut self, io: &Io) {
        let sector = io.offset / 512;
        let range = match io.op {
            Op::ZoneReset => self.zones.range_of(sector),
            Op::ZoneResetAll => 0..u64::MAX,
            _ => sector..sector + io.len / 512,
        };
        match io.op {
            Op::Write => {
                let (nr_sectors, resets) = (range.end - sector, self.zones.resets_of(sector));
                let number = Some(self.written);
                let flight =
                    InFlightIo { sector, nr_sectors, number, resets, ..InFlightIo::default() };
                self.written(&flight, sector);
                self.written = self.written.wrapping_add(1);
            }
            // Nobody knows where it landed.
            Op::ZoneAppend => self.written = self.written.wrapping_add(1),
            Op::WriteZeroes | Op::Discard | Op::ZoneReset | Op::ZoneResetAll => {
                self.log.forget(range);
            }
            _ => {}
        }
    }
}
