//! Verification of a clone's writes: which blocks hold which write, and which reads to verify.
//!
//! A block is verified only if it holds one known write: if two writes to it were in flight at the same time it is
//! read and not checked, and if its zone has been reset, by any job, it is not read.
use super::slots::IoRole;
use crate::generate::{Io, ZbdTable};
use crate::job::{DataDir, Job, Rw, TrimOptions};
use crate::mistake::mistake;
use crate::rng::Rng;
use crate::verify::{
    BlockFormat, Dump, Expected, Finding, Findings, Log, Mismatch, Record, StateTracker,
    VerifyState, WriteId,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use zonal_blk::{Bio, BioFlags, Buf, Nanos, Op, Sector, Status};

pub(crate) struct Verifier {
    format: BlockFormat,
    log: Log,
    zones: Zones,
    /// By slot.
    in_flight_ios: Vec<InFlightIo>,
    /// First sector and slot of each write and verified read in flight.
    in_flight: BTreeSet<(u64, u32)>,
    /// Sectors of the max_sectors one.
    max_sectors: u64,
    /// The write whose verifying read is about to be submitted.
    to_verify: Option<Record>,
    /// The job only reads, and verifies what another one wrote.
    reads_only: bool,
    /// Writes submitted so far.
    nr_writes: u32,
    backlog: u32,
    batch: u32,
    /// Writes in flight that are to be verified.
    nr_in_flight: u32,
    /// What completed last was a read, or nothing has.
    has_read: bool,
    /// Reads left of the current batch.
    batch_left: u32,
    dump: bool,
    /// Trims of what is to be verified, with `trim_percentage`.
    trims: Option<Box<Trims>>,
    /// With `verify_state_save`.
    tracker: Option<Box<StateTracker>>,
    /// With `verify_state_load`: what an earlier run left, and whether only what was synced is certain.
    loaded: Option<(Arc<VerifyState>, bool)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct InFlightIo {
    /// First sector; of an append that of its zone.
    sector: u64,
    nr_sectors: u64,
    /// Number of the write, if known.
    number: Option<u32>,
    /// Offset in the header.
    header_offset: u64,
    appended: bool,
    trimmed: bool,
    is_read: bool,
    /// Its blocks were written or reset meanwhile, or a read that is not to be checked.
    invalidated: bool,
    /// A write that was submitted with another one to its blocks in flight.
    uncertain: bool,
    /// A write that is to be verified and not in the log yet, as nothing was submitted later that changes its
    /// blocks.
    is_counted: bool,
    /// Resets of its zone at submission.
    resets: u32,
}

/// Chooses which of the writes to be verified are trimmed, and when (`trim_percentage`, ...).
struct Trims {
    options: TrimOptions,
    rng: Rng,
    /// First sector and number of each write to be trimmed.
    marked: VecDeque<(u64, u32)>,
    /// Writes since the last batch.
    since: u32,
    /// Trims left of the current batch.
    left: u32,
    /// The write whose trim is about to be submitted.
    next: Option<Record>,
}

impl Trims {
    fn new(options: TrimOptions, rng: Rng) -> Option<Self> {
        let used = options.percentage > 0 && options.backlog > 0;
        let marked = VecDeque::new();
        used.then_some(Trims { options, rng, marked, since: 0, left: 0, next: None })
    }

    fn wrote(&mut self, record: Record) {
        self.since = self.since.saturating_add(1);
        if self.rng.below(100) < self.options.percentage.into() {
            self.marked.push_back((record.sector, record.number));
        }
    }

    /// The next write to trim, if one is due and is still there.
    fn next(&mut self, log: &Log) -> Option<Record> {
        let TrimOptions { backlog, batch, .. } = self.options;
        if self.left == 0 && self.since >= backlog {
            (self.since, self.left) = (0, if batch == 0 { backlog } else { batch });
        }
        while self.left > 0 {
            let Some((sector, number)) = self.marked.pop_front() else {
                self.left = 0;
                break;
            };
            self.next = log.get(sector).filter(|record| record.number == number);
            if self.next.is_some() {
                self.left -= 1;
                return self.next;
            }
        }
        None
    }
}

/// Zones, which other jobs may reset.
struct Zones {
    table: Option<Arc<ZbdTable>>,
    /// Sectors; 0 without zones.
    zone_size: u64,
    /// By zone, its resets when its records in the log were written.
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

    /// Resets of the zone by jobs with `zonemode=zbd`.
    fn resets_of(&self, sector: u64) -> u32 {
        let zone = || u32::try_from(self.zone_of(sector)).expect("zones are counted in u32");
        self.table.as_ref().map_or(0, |table| table.resets(zone()))
    }
}

/// Whether the job is verified in the order of its writes. As in fio, one that may write blocks again before they are
/// verified is not; nor is one of which nothing may be verified for a long time, so that its log stays small.
fn verifies_in_order(job: &Job) -> bool {
    let in_runs = if job.random { job.rw_modifier > 1 } else { job.rw_modifier != 0 };
    let may_repeat = in_runs || job.norandommap || job.random && !job.has_random_map();
    let options = &job.verify;
    let is_soon = !job.time_based || options.backlog > 0 || job.verifies_each_pass();
    options.do_verify && !options.only && !may_repeat && is_soon
}

/// An I/O on the blocks of a write.
fn io_on(record: Record, op: Op, dir: DataDir) -> Io {
    let offset = Sector(record.sector).to_bytes().0;
    let len = Sector(record.nr_sectors.into()).to_bytes().0;
    Io { op, dir, offset, len, zone: None, flags: BioFlags::NONE }
}

impl Verifier {
    /// The verifier of a clone of `job` with `seed`; `table` is for `zonemode=zbd`. `None` without
    /// verification. `seed` is for the data, `rng` for `trim_percentage`.
    pub fn new(
        job: &Job,
        clone: u32,
        (seed, rng): (u64, Rng),
        table: Option<Arc<ZbdTable>>,
        zone_size: Sector,
    ) -> Option<Self> {
        let options = &job.verify;
        let batch = options.backlog_batch;
        Some(Verifier {
            format: BlockFormat::new(options, seed, clone)?,
            log: Log::new(verifies_in_order(job)),
            zones: Zones { table, zone_size: zone_size.0, resets: BTreeMap::new() },
            in_flight_ios: vec![InFlightIo::default(); job.iodepth as usize + 1],
            in_flight: BTreeSet::new(),
            max_sectors: 0,
            to_verify: None,
            reads_only: job.rw == Rw::Read,
            nr_writes: 0,
            backlog: if options.do_verify { options.backlog } else { 0 },
            batch: if batch == 0 { options.backlog } else { batch },
            nr_in_flight: 0,
            has_read: true,
            batch_left: 0,
            dump: options.dump,
            trims: Trims::new(options.trim, rng).map(Box::new),
            tracker: options.state_save.then(|| Box::new(StateTracker::new(job.sync.is_fua()))),
            loaded: None,
        })
    }

    /// Verifies what the job wrote in an earlier run, which ended in this state.
    pub fn load(&mut self, state: Arc<VerifyState>, synced: bool) {
        self.loaded = Some((state, synced));
    }

    /// The state of the writes, if it is to be saved.
    pub fn state(&self) -> Option<VerifyState> {
        self.tracker.as_ref().map(|tracker| tracker.state())
    }

    /// A flush is about to be submitted.
    pub fn flushes(&mut self) {
        if let Some(tracker) = &mut self.tracker {
            tracker.flushes();
        }
    }

    /// A flush has completed, or failed.
    pub fn flushed(&mut self, succeeded: bool) {
        if let Some(tracker) = &mut self.tracker {
            tracker.flushed(succeeded);
        }
    }

    /// Whether blocks are left to verify.
    pub fn has_more(&self) -> bool {
        !self.log.is_empty()
    }

    /// Whether a batch has reads left. As in fio, it goes on in the next pass.
    pub fn is_amid_batch(&self) -> bool {
        self.batch_left > 0
    }

    /// The next trim, if one is due.
    pub fn next_trim(&mut self) -> Option<Io> {
        let record = self.trims.as_mut()?.next(&self.log)?;
        Some(io_on(record, Op::Discard, DataDir::Trim))
    }

    /// Whether the job has a `verify_backlog`.
    pub fn has_backlog(&self) -> bool {
        self.backlog > 0
    }

    /// Whether a batch of `verify_backlog` begins. As in fio, it does whenever the number of writes that are still to be
    /// verified, those in flight included, is a multiple of the backlog, but not after a read.
    pub fn begins_batch(&self) -> bool {
        if self.batch_left > 0 || self.backlog == 0 || self.has_read {
            return false;
        }
        let count = self.log.len() + self.nr_in_flight as usize;
        count > 0 && count.is_multiple_of(self.backlog as usize)
    }

    /// The next read of a backlog batch, if one is due. As in fio, a batch waits for the write that is next, and the job
    /// goes on writing meanwhile.
    pub fn next_of_backlog(&mut self) -> Option<Io> {
        if self.begins_batch() {
            self.batch_left = self.batch;
        }
        if self.batch_left == 0 {
            return None;
        }
        let next = self.next();
        self.batch_left -= u32::from(next.is_some());
        next
    }

    /// Whether a read of `verify_backlog` is next.
    pub fn has_next_of_backlog(&self) -> bool {
        (self.batch_left > 0 || self.begins_batch())
            && !self.log.is_empty()
            && !self.is_next_in_flight()
    }

    /// Whether the write that is to be verified next is still in flight.
    fn is_next_in_flight(&self) -> bool {
        let io = |slot: u32| &self.in_flight_ios[slot as usize];
        match self.log.front() {
            None => false,
            Some((sector, Some(number))) => {
                let mut there = self.in_flight.range((sector, 0)..=(sector, u32::MAX));
                there.any(|&(_, slot)| !io(slot).is_read && io(slot).number == Some(number))
            }
            Some((lowest, None)) => {
                self.in_flight.range(..(lowest, 0)).any(|&(_, slot)| io(slot).is_counted)
            }
        }
    }

    /// The read of the next block to verify; `None` if there is none, or its write is in flight.
    pub fn next(&mut self) -> Option<Io> {
        loop {
            if self.is_next_in_flight() {
                return None;
            }
            let record = self.log.pop()?;
            let known = self.zones.resets.get(&self.zones.zone_of(record.sector)).copied();
            if known.unwrap_or(0) != self.zones.resets_of(record.sector) {
                self.log.remove(self.zones.range_of(record.sector));
                continue;
            }
            if mistake!(SomeUnverified) && record.number % 10 == 9 {
                continue;
            }
            if record.trimmed && !self.trims.as_ref().is_some_and(|it| it.options.zero) {
                continue;
            }
            self.to_verify = Some(record);
            return Some(io_on(record, Op::Read, DataDir::Read));
        }
    }

    /// An I/O is about to be submitted. Returns its role, which may have changed.
    pub fn submit(&mut self, now: Nanos, slot: u32, bio: &mut Bio, role: IoRole) -> IoRole {
        let (sector, nr_sectors) = (bio.sector.0, u64::from(bio.nr_sectors));
        let range = match bio.op {
            Op::ZoneReset => self.zones.range_of(sector),
            Op::ZoneResetAll => 0..u64::MAX,
            _ => sector..sector + nr_sectors,
        };
        let resets = self.zones.resets_of(sector);
        let header_offset = bio.sector.to_bytes().0;
        let io = InFlightIo { sector, nr_sectors, header_offset, resets, ..InFlightIo::default() };
        match bio.op {
            Op::Read => match self.to_verify.take() {
                Some(record) => {
                    let header_offset = match record.appended {
                        true => Sector(self.zones.range_of(sector).start).to_bytes().0,
                        false => header_offset,
                    };
                    let (number, trimmed) = (Some(record.number), record.trimmed);
                    let (is_read, invalidated) = (true, record.uncertain);
                    let read = InFlightIo { number, header_offset, trimmed, is_read, ..io };
                    self.track(slot, InFlightIo { invalidated, ..read });
                    IoRole::Verify
                }
                None if self.reads_only => {
                    self.track(slot, InFlightIo { is_read: true, ..io });
                    IoRole::Verify
                }
                None if self.backlog > 0 && role == IoRole::Plain => IoRole::Watched,
                None => role,
            },
            Op::Write | Op::ZoneAppend => {
                let number = self.nr_writes;
                self.nr_writes = self.nr_writes.wrapping_add(1);
                if let Some(tracker) = &mut self.tracker {
                    tracker.wrote(number);
                }
                if let Some(buf) = &mut bio.buf {
                    self.format.fill(buf, WriteId { offset: header_offset, number, time: now });
                }
                let appended = bio.op == Op::ZoneAppend;
                // An append lands where nothing was.
                let uncertain = !appended && self.invalidate(range);
                let is_counted = appended || !self.log.is_in_order();
                if !appended {
                    self.log.queue(sector, bio.nr_sectors, number);
                }
                self.nr_in_flight += u32::from(is_counted);
                let number = Some(number);
                self.track(slot, InFlightIo { number, appended, uncertain, is_counted, ..io });
                IoRole::Write
            }
            Op::WriteZeroes | Op::Discard | Op::ZoneReset | Op::ZoneResetAll => {
                let invalidated = self.invalidate(range);
                match self.take_trim() {
                    Some(Record { number, .. }) => {
                        let number = Some(number);
                        self.track(slot, InFlightIo { number, trimmed: true, invalidated, ..io });
                        IoRole::Trim
                    }
                    None => role,
                }
            }
            _ => role,
        }
    }

    /// The write that the next I/O trims.
    fn take_trim(&mut self) -> Option<Record> {
        self.trims.as_mut()?.next.take()
    }

    fn track(&mut self, slot: u32, flight: InFlightIo) {
        self.in_flight_ios[slot as usize] = flight;
        self.in_flight.insert((flight.sector, slot));
        self.max_sectors = self.max_sectors.max(flight.nr_sectors);
    }

    /// The contents of a range are about to change. Returns whether something in flight changes it, too: then
    /// its contents are unknown.
    fn invalidate(&mut self, range: Range<u64>) -> bool {
        self.log.remove(range.clone());
        let mut overlaps = false;
        let from = range.start.saturating_sub(self.max_sectors);
        for &(sector, slot) in self.in_flight.range((from, 0)..(range.end, 0)) {
            let flight = &mut self.in_flight_ios[slot as usize];
            if sector + flight.nr_sectors > range.start {
                flight.invalidated = true;
                self.nr_in_flight -= u32::from(std::mem::take(&mut flight.is_counted));
                overlaps |= !flight.is_read;
            }
        }
        overlaps
    }

    /// A read of the job that is not verified has completed.
    pub fn has_read(&mut self) {
        self.has_read = true;
    }

    /// A write or a verified read has completed. Returns its status after verification.
    pub fn completed(
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
        self.nr_in_flight -= u32::from(flight.is_counted);
        self.has_read = role == IoRole::Verify;
        if let (Some(tracker), Some(number)) = (&mut self.tracker, flight.number)
            && (role, status) == (IoRole::Write, Status::Ok)
        {
            tracker.completed(number);
        }
        if let Some(number) =
            flight.number.filter(|_| role == IoRole::Write && status != Status::Ok)
        {
            self.log.cancel(number);
        }
        if status != Status::Ok || flight.invalidated {
            return status;
        }
        match (role, buf) {
            (IoRole::Write | IoRole::Trim, _) => self.log_write(&flight, landed.0),
            (_, Some(buf)) if flight.resets == self.zones.resets_of(flight.sector) => {
                return self.verify_read(&flight, buf, findings);
            }
            _ => {}
        }
        Status::Ok
    }

    /// Logs a completed write, or the trim of one.
    fn log_write(&mut self, flight: &InFlightIo, sector: u64) {
        let zone = self.zones.zone_of(sector);
        if self.zones.resets.insert(zone, flight.resets).unwrap_or(0) != flight.resets {
            self.log.remove(self.zones.range_of(sector));
        }
        let record = Record {
            sector,
            nr_sectors: u32::try_from(flight.nr_sectors).expect("a bio's length"),
            number: flight.number.expect("a write has a number"),
            appended: flight.appended,
            trimmed: flight.trimmed,
            uncertain: flight.uncertain,
        };
        if record.appended {
            self.log.queue(sector, record.nr_sectors, record.number);
        }
        self.log.insert(record);
        if let Some(trims) = self.trims.as_mut().filter(|_| !flight.trimmed) {
            trims.wrote(record);
        }
    }

    fn verify_read(
        &mut self,
        flight: &InFlightIo,
        buf: &mut Buf,
        findings: &mut Findings,
    ) -> Status {
        let offset = Sector(flight.sector).to_bytes().0;
        if flight.trimmed {
            let Some(at) = buf.iter().position(|&byte| byte != 0) else { return Status::Ok };
            let (len, mismatch) = (buf.len() as u64, Mismatch::NotTrimmed { at });
            findings.add(|| Finding { offset, len, io: (offset, len), mismatch, dump: None });
            return Status::Protection;
        }
        let received: Option<Box<[u8]>> = self.dump.then(|| buf[..].into());
        let time = self.format.time_of(buf);
        let expected = Expected { offset: flight.header_offset, number: flight.number };
        let mut errors = Vec::new();
        self.format.check(buf, expected, |at, len, mismatch| errors.push((at, len, mismatch)));
        if errors.is_empty() {
            return Status::Ok;
        }
        let io = (offset, buf.len() as u64);
        for (at, len, mismatch) in errors {
            findings.add(|| {
                let expected = |number| {
                    let mut expected = vec![0; buf.len()];
                    let write = WriteId { offset: flight.header_offset, number, time };
                    self.format.fill(&mut expected, write);
                    expected.into_boxed_slice()
                };
                let dump = received
                    .clone()
                    .map(|received| Dump { received, expected: flight.number.map(expected) });
                Finding { offset: offset + at as u64, len: len as u64, io, mismatch, dump }
            });
        }
        Status::Protection
    }

    /// Logs an I/O as if it had been done. Returns whether there may be more: not after the last write of
    /// the run whose state was loaded.
    pub fn dry_run(&mut self, io: &Io) -> bool {
        let sector = io.offset / 512;
        let range = match io.op {
            Op::ZoneReset => self.zones.range_of(sector),
            Op::ZoneResetAll => 0..u64::MAX,
            _ => sector..sector + io.len / 512,
        };
        match io.op {
            Op::Write if self.loaded.as_ref().is_some_and(|it| self.nr_writes >= it.0.writes) => {
                return false;
            }
            Op::Write if self.is_uncertain() => {
                self.log.remove(range);
                self.nr_writes = self.nr_writes.wrapping_add(1);
            }
            Op::Write => {
                let (nr_sectors, resets) = (range.end - sector, self.zones.resets_of(sector));
                let number = Some(self.nr_writes);
                let flight =
                    InFlightIo { sector, nr_sectors, number, resets, ..InFlightIo::default() };
                self.log_write(&flight, sector);
                self.nr_writes = self.nr_writes.wrapping_add(1);
            }
            // It is not known where it was written.
            Op::ZoneAppend => self.nr_writes = self.nr_writes.wrapping_add(1),
            Op::WriteZeroes | Op::Discard | Op::ZoneReset | Op::ZoneResetAll => {
                self.log.remove(range);
            }
            _ => {}
        }
        true
    }

    /// Whether the next write of a dry run may or may not have reached the device.
    fn is_uncertain(&self) -> bool {
        let state = self.loaded.as_ref();
        state.is_some_and(|(state, synced)| !state.is_certain(self.nr_writes, *synced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Checksum, VerifyMethod, VerifyOptions};

    const SECTORS: u32 = 8;

    fn verifier() -> Verifier {
        let method = Some(VerifyMethod::Checksum(Checksum::Crc32c));
        let trim = TrimOptions { percentage: 100, backlog: 1, batch: 0, zero: true };
        let verify = VerifyOptions { method, trim, ..VerifyOptions::default() };
        let job = Job { rw: Rw::Write, verify, iodepth: 2, ..Job::default() };
        let seeds = (1, Rng::new(1, [0; 4]));
        Verifier::new(&job, 0, seeds, None, Sector(0)).expect("it verifies")
    }

    /// Submits an I/O in slot 0, as the device would do it on a block that holds `data`.
    fn io(verifier: &mut Verifier, op: Op, data: u8) -> (Status, Findings) {
        let mut bio = Bio::new(op, Sector(0), SECTORS, 0);
        let mut buf = Buf::zeroed(SECTORS as usize * 512);
        buf.fill(data);
        bio.buf = op.has_range().then_some(buf);
        let role = verifier.submit(Nanos(0), 0, &mut bio, IoRole::Plain);
        let mut findings = Findings::default();
        let buf = bio.buf.as_mut();
        let status = verifier.completed(0, role, Status::Ok, Sector(0), buf, &mut findings);
        (status, findings)
    }

    #[test]
    fn a_trimmed_block_has_to_be_zero() {
        for (data, wanted) in [(0, Status::Ok), (7, Status::Protection)] {
            let mut verifier = verifier();
            assert!(verifier.next_trim().is_none(), "nothing is written");
            io(&mut verifier, Op::Write, 1);
            let trim = verifier.next_trim().expect("one is due");
            assert_eq!((trim.op, trim.offset, trim.len), (Op::Discard, 0, 4096));
            io(&mut verifier, Op::Discard, 0);
            assert!(verifier.next_trim().is_none());
            assert_eq!(verifier.next().expect("it is read").op, Op::Read);
            let (status, findings) = io(&mut verifier, Op::Read, data);
            assert_eq!(status, wanted);
            let texts: Vec<String> = findings.kept().iter().map(|it| it.text("f")).collect();
            let text = "trim: verify failed at file f offset 0, length 4096, block offset 0";
            assert!(texts.iter().eq((data > 0).then_some(text)), "{texts:?}");
        }
    }

    #[test]
    fn a_block_that_is_written_again_is_not_trimmed() {
        let mut verifier = verifier();
        io(&mut verifier, Op::Write, 1);
        let first = verifier.trims.as_ref().map(|trims| trims.marked.len());
        assert_eq!(first, Some(1));
        verifier.trims.as_mut().expect("it trims").options.percentage = 0;
        io(&mut verifier, Op::Write, 1);
        assert!(verifier.next_trim().is_none(), "the write to trim is gone");
    }

    /// A job at a depth of 4 that may write blocks again, with a backlog.
    fn with_backlog(backlog: u32) -> Verifier {
        let method = Some(VerifyMethod::Checksum(Checksum::Crc32c));
        let verify = VerifyOptions { method, backlog, ..VerifyOptions::default() };
        let (rw, norandommap) = (Rw::Write, true);
        let job = Job { rw, verify, norandommap, iodepth: 4, ..Job::default() };
        let seeds = (1, Rng::new(1, [0; 4]));
        Verifier::new(&job, 0, seeds, None, Sector(0)).expect("it verifies")
    }

    fn submit(verifier: &mut Verifier, slot: u32, op: Op, block: u64) -> IoRole {
        let mut bio = Bio::new(op, Sector(block * u64::from(SECTORS)), SECTORS, 0);
        verifier.submit(Nanos(0), slot, &mut bio, IoRole::Plain)
    }

    fn complete(verifier: &mut Verifier, slot: u32, role: IoRole, block: u64) {
        let (landed, findings) = (Sector(block * u64::from(SECTORS)), &mut Findings::default());
        verifier.completed(slot, role, Status::Ok, landed, None, findings);
    }

    #[test]
    fn a_batch_begins_when_what_is_to_be_verified_is_a_multiple_of_the_backlog() {
        // fio 3.41 with --iodepth=16 --verify_backlog=11, which begins with 22 writes.
        let mut verifier = with_backlog(2);
        for slot in 0..2 {
            submit(&mut verifier, slot, Op::Write, slot.into());
        }
        assert!(!verifier.begins_batch(), "nothing has completed");
        complete(&mut verifier, 1, IoRole::Write, 1);
        assert!(verifier.begins_batch(), "those in flight count");
        assert_eq!(verifier.next_of_backlog(), None, "block 0 is next, and in flight");
        submit(&mut verifier, 1, Op::Write, 2);
        complete(&mut verifier, 0, IoRole::Write, 0);
        let first = verifier.next_of_backlog().expect("block 0 has completed");
        assert_eq!((first.op, first.offset), (Op::Read, 0));
        let role = submit(&mut verifier, 0, Op::Read, 0);
        assert_eq!(verifier.next_of_backlog().map(|io| io.offset), Some(4096));
        submit(&mut verifier, 2, Op::Read, 1);
        complete(&mut verifier, 0, role, 0);
        submit(&mut verifier, 0, Op::Write, 3);
        assert!(!verifier.begins_batch(), "two again, but after a read");
        complete(&mut verifier, 1, IoRole::Write, 2);
        assert!(verifier.begins_batch());
    }

    #[test]
    fn a_block_with_two_writes_in_flight_is_read_once_and_not_checked() {
        // fio 3.41 with --rw=randwrite --norandommap --iodepth=8 --verify=crc32c reads it once.
        let mut verifier = with_backlog(3);
        for (slot, block) in [(0, 5), (1, 5), (2, 6)] {
            submit(&mut verifier, slot, Op::Write, block);
        }
        // The one that was submitted first may be done last.
        for (slot, block) in [(1, 5), (0, 5), (2, 6)] {
            complete(&mut verifier, slot, IoRole::Write, block);
        }
        let offsets: Vec<u64> =
            std::iter::from_fn(|| verifier.next()).map(|io| io.offset).collect();
        assert_eq!(offsets, [5 * 4096, 6 * 4096]);
        let mut verifier = with_backlog(3);
        (0..2).for_each(|slot| _ = submit(&mut verifier, slot, Op::Write, 5));
        (0..2).for_each(|slot| complete(&mut verifier, slot, IoRole::Write, 5));
        assert!(verifier.next().is_some());
        let role = submit(&mut verifier, 0, Op::Read, 5);
        let (mut zeroes, findings) = (Buf::zeroed(4096), &mut Findings::default());
        let landed = Sector(5 * u64::from(SECTORS));
        let status = verifier.completed(0, role, Status::Ok, landed, Some(&mut zeroes), findings);
        assert_eq!((role, status), (IoRole::Verify, Status::Ok));
    }

    #[test]
    fn writes_that_are_verified_in_their_order_are_read_each_also_if_they_were_in_flight_together()
    {
        // fio 3.41 with --rw=write --zonemode=strided --zonesize=3 blocks --zonerange=2 blocks.
        let method = Some(VerifyMethod::Checksum(Checksum::Crc32c));
        let verify = VerifyOptions { method, backlog: 3, ..VerifyOptions::default() };
        let job = Job { rw: Rw::Write, verify, iodepth: 4, ..Job::default() };
        let seeds = (1, Rng::new(1, [0; 4]));
        let mut verifier = Verifier::new(&job, 0, seeds, None, Sector(0)).expect("it verifies");
        for (slot, block) in [(0, 0), (1, 1), (2, 0)] {
            submit(&mut verifier, slot, Op::Write, block);
        }
        complete(&mut verifier, 1, IoRole::Write, 1);
        assert_eq!(verifier.next_of_backlog(), None, "the first one is in flight");
        complete(&mut verifier, 0, IoRole::Write, 0);
        let next = |verifier: &mut Verifier| verifier.next_of_backlog().map(|io| io.offset);
        assert_eq!([next(&mut verifier), next(&mut verifier)], [Some(0), Some(4096)]);
        assert_eq!(next(&mut verifier), None);
        complete(&mut verifier, 2, IoRole::Write, 0);
        assert_eq!(next(&mut verifier), Some(0));
        assert!(!verifier.has_more());
    }

    #[test]
    fn a_block_that_is_written_again_counts_once_for_the_backlog() {
        // fio 3.41 with --norandommap --verify_backlog=8, which writes nine blocks if one comes twice.
        let mut verifier = with_backlog(3);
        for block in [4, 4, 5, 5, 4] {
            submit(&mut verifier, 0, Op::Write, block);
            complete(&mut verifier, 0, IoRole::Write, block);
            assert!(!verifier.begins_batch());
        }
        submit(&mut verifier, 0, Op::Write, 6);
        complete(&mut verifier, 0, IoRole::Write, 6);
        assert!(verifier.begins_batch());
    }
}
