//! The device that an image is.
//!
//! Takes commands from its hardware queues; gives places in the file, and makes zones durable.
//! Keeps true: [`Zones`] alone says what a zone takes and where; a flush ends when the data and the
//! records of all that had ended before are durable, a reset or a finish when its record is; no
//! write goes to a zone while it is reset.
//!
//! # Locks
//!
//! Each zone has a lock, that of its [`Tail`]; the journal has one. The order is journal, zone,
//! then those of [`Zones`]; nobody waits for the journal with a zone locked.
use super::entry::ZoneEntry;
use super::error::ImageError;
use super::file_layout::FileLayout;
use super::journal::{Journal, format, repair_superblock};
use super::queue::ImageQueue;
use super::recover::{Recovered, read_superblock, recover};
use super::store::ImageStore;
use super::superblock::{ImageGeometry, Profile, Superblock};
use super::tail::Tail;
use crate::control::{DeviceControl, DeviceStats};
use crate::quantity::format_size;
use crate::zones::Zones;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{
    Device, HwQueue, Limits, Op, Request, Sector, Status, Zone, ZoneCondition, ZoneNo,
};

/// Least and most bytes taken ahead of the write pointer, seldom: ext4 waits for all direct writes.
const AHEAD: (u64, u64) = (16 << 20, 128 << 20);
/// Zones that a reset of all makes durable at a time.
const RESET_AT_ONCE: usize = 1024;
/// The longest command of an image that takes longer ones than the drive that it was made as. With
/// twice as much outstanding, as much always goes as waits.
const LONG_COMMAND: u32 = 8 << 11;
/// Data that a batch of records vouches for at the most: what opening the image has to read.
const MAX_COVERED: u64 = 4 << 20;

/// A zoned device whose zones and data are in a file.
pub struct ImageDevice {
    pub(super) store: Arc<dyn ImageStore>,
    superblock: Superblock,
    file_layout: FileLayout,
    limits: Limits,
    zones: Zones,
    tails: Box<[Mutex<Tail>]>,
    journal: Mutex<Journal>,
    /// Zones that have changed since they were last recorded.
    dirty: Mutex<Vec<u32>>,
    /// Something was written that no record needs: to a conventional zone.
    unsynced: AtomicBool,
    slots: Mutex<Slots>,
    /// Something was written since the image was opened.
    used: AtomicBool,
    /// Something could not be made durable, so nothing more is written.
    failed: AtomicBool,
    reserves: AtomicBool,
    /// What gives the image the latencies of a drive.
    timing: Option<Arc<dyn DeviceControl>>,
}

/// Slots of the file that no zone has.
struct Slots {
    /// Those in front of the last one that a zone has.
    free: Vec<u32>,
    next: u32,
}

impl Slots {
    fn of(recovered: &Recovered) -> Self {
        let next = recovered.slots();
        let mut owned = vec![false; next as usize];
        recovered.zones.iter().flat_map(|zone| zone.slot).for_each(|n| owned[n as usize] = true);
        Slots { free: (0..next).filter(|&slot| !owned[slot as usize]).collect(), next }
    }

    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// What becomes of a command that was taken up.
pub(super) enum ExecResult {
    /// It has ended.
    Done(Status),
    /// Data move to or from this byte of the file, up to so many bytes; a read's rest is zeroes.
    Transfer { at: u64, len: u64 },
    /// It ends when all that has ended before is durable.
    Flush,
    /// Another command is in its way; to be taken up again.
    Retry,
}

impl ImageDevice {
    /// Makes an image in an empty file.
    ///
    /// # Errors
    /// The file could not be written. It is then no image.
    pub fn create(store: &dyn ImageStore, superblock: &Superblock) -> Result<(), ImageError> {
        format(store, superblock).map_err(ImageError::io("writing the metadata"))
    }

    /// Opens an image, after a loss of power too. `timing` makes the model, if any, whose
    /// latencies it has, from the bytes that each zone has.
    ///
    /// # Errors
    /// What is wrong with the image, or with the model.
    pub fn open<E: From<ImageError>>(
        store: Arc<dyn ImageStore>,
        timing: impl FnOnce(&Superblock, &[ZoneEntry]) -> Result<Option<Arc<dyn DeviceControl>>, E>,
    ) -> Result<Self, E> {
        let (superblock, damaged) = read_superblock(&*store)?;
        let recovered = recover(&*store, &superblock)?;
        let timing = timing(&superblock, &recovered.zones)?;
        if !damaged.is_empty() {
            repair_superblock(&*store, &superblock).map_err(ImageError::io("mending"))?;
        }
        let device = Self::with(store, superblock, &recovered, timing);
        device
            .finish_recovery(&recovered)
            .map_err(ImageError::io("bringing the image up to date"))?;
        Ok(device)
    }

    fn with(
        store: Arc<dyn ImageStore>,
        superblock: Superblock,
        recovered: &Recovered,
        timing: Option<Arc<dyn DeviceControl>>,
    ) -> Self {
        let geometry = &superblock.geometry;
        let entries = &recovered.zones;
        let zones = Zones::restore(&geometry.layout(), |zone| {
            let entry = &entries[zone.index()];
            let wp = if entry.cond == ZoneCondition::Full {
                geometry.zone_capacity
            } else {
                entry.written
            };
            (entry.cond, wp)
        });
        for entry in &entries[..geometry.conventional as usize] {
            if entry.cond != ZoneCondition::NotWritePointer {
                let set = zones.set_condition(entry.zone, entry.cond, || ());
                set.expect("a conventional zone can be read-only or offline");
            }
        }
        let (root, generation) = (recovered.root, recovered.generation);
        ImageDevice {
            file_layout: FileLayout::new(&superblock),
            limits: geometry.limits(),
            zones,
            tails: entries.iter().map(|entry| Mutex::new(Tail::new(entry))).collect(),
            journal: Mutex::new(Journal::new(&superblock, root, generation, entries.clone())),
            dirty: Mutex::default(),
            unsynced: AtomicBool::new(false),
            slots: Mutex::new(Slots::of(recovered)),
            used: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            reserves: AtomicBool::new(true),
            store,
            superblock,
            timing,
        }
    }

    /// The same with commands of up to 8 MiB, if those of the drive that it was made as are
    /// shorter: a zone has one write at a time on its way, and writes that wait go together.
    #[must_use]
    pub fn with_long_commands(mut self) -> Self {
        self.limits.max_sectors = self.limits.max_sectors.max(LONG_COMMAND);
        self
    }

    /// Makes what was recovered the state of the file, and gives back the space of what was not.
    fn finish_recovery(&self, recovered: &Recovered) -> io::Result<()> {
        let end = self.file_layout.slot(recovered.slots());
        if self.store.len()? > end {
            // Slots that no record speaks of.
            self.store.truncate(end)?;
        }
        // What a zone left in a slot that no record gave it, another one must not find there.
        for &slot in &self.slots().free {
            self.store.discard(self.file_layout.slot(slot), self.file_layout.stride())?;
        }
        for &zone in &recovered.touched {
            self.discard_beyond_data(&recovered.zones[zone as usize])?;
        }
        if recovered.clean && recovered.damaged.is_empty() {
            return Ok(());
        }
        let mut journal = self.journal();
        // What was read may be in memory only.
        self.store.sync()?;
        journal.checkpoint_after_crash(&*self.store)?;
        if recovered.damaged.is_empty() { Ok(()) } else { journal.checkpoint(&*self.store) }
    }

    /// Gives back the space behind a zone's data.
    fn discard_beyond_data(&self, entry: &ZoneEntry) -> io::Result<()> {
        let (Some(slot), false) = (entry.slot, self.zones.is_conventional(entry.zone)) else {
            return Ok(());
        };
        let from = self.file_layout.in_slot(slot, entry.written);
        let end = self.file_layout.slot(slot) + self.file_layout.stride();
        self.store.discard(from, end - from)
    }

    /// What the image is.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Its zones.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        format!("image, {}", self.superblock.geometry.summary())
    }

    pub(super) fn timing(&self) -> Option<&Arc<dyn DeviceControl>> {
        self.timing.as_ref()
    }

    fn geometry(&self) -> &ImageGeometry {
        &self.superblock.geometry
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().expect("lock of the image's journal")
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().expect("lock of the free slots")
    }

    pub(super) fn tail(&self, zone: ZoneNo) -> MutexGuard<'_, Tail> {
        self.tails[zone.index()].lock().expect("lock of a zone's tail")
    }

    /// Sectors from a zone's start.
    pub(super) fn offset_in_zone(&self, zone: ZoneNo, sector: Sector) -> Sector {
        sector - self.limits.zone_start(zone)
    }

    /// Takes up a command.
    pub(super) fn execute(&self, request: &mut Request) -> ExecResult {
        let result = match request.op() {
            Op::Read => return self.read(request.zone(), request.sector(), request.end()),
            Op::Write | Op::ZoneAppend => return self.write(request),
            Op::Flush => return ExecResult::Flush,
            Op::ZoneOpen => self.zones.open(request.zone()),
            Op::ZoneClose => self.zones.close(request.zone()),
            Op::ZoneFinish => return self.change(request.zone(), true),
            Op::ZoneReset => return self.change(request.zone(), false),
            Op::ZoneResetAll => return self.reset_all(),
            Op::Discard => self.discard(request),
            Op::WriteZeroes => Err(Status::NotSupported),
        };
        ExecResult::Done(result.err().unwrap_or(Status::Ok))
    }

    /// Where a range of one zone is in the file.
    pub(super) fn read(&self, zone: ZoneNo, sector: Sector, end: Sector) -> ExecResult {
        if let Err(status) = self.zones.check_read(zone) {
            return ExecResult::Done(status);
        }
        let tail = self.tail(zone);
        let (from, to) = (self.offset_in_zone(zone, sector), self.offset_in_zone(zone, end));
        let to = if self.zones.is_conventional(zone) { to } else { to.min(tail.done) };
        match tail.slot {
            Some(slot) => ExecResult::Transfer {
                at: self.file_layout.in_slot(slot, from),
                len: Sector(to.0.saturating_sub(from.0)).to_bytes().0,
            },
            None => ExecResult::Transfer { at: 0, len: 0 },
        }
    }

    fn write(&self, request: &mut Request) -> ExecResult {
        let zone = request.zone();
        let nr_sectors = request.nr_sectors();
        let mut tail = self.tail(zone);
        if tail.is_broken() || self.failed.load(Ordering::Relaxed) {
            return ExecResult::Done(Status::IoError);
        }
        self.used.store(true, Ordering::Relaxed);
        let accepted = if request.op() == Op::ZoneAppend {
            if self.limits.append_max_sectors == 0 {
                return ExecResult::Done(Status::NotSupported);
            }
            self.zones.append(zone, nr_sectors, |landed| request.set_append_sector(landed))
        } else {
            self.zones.write(zone, request.sector(), nr_sectors, || ())
        };
        if let Err(status) = accepted {
            return ExecResult::Done(status);
        }
        let slot = *tail.slot.get_or_insert_with(|| self.slots().take());
        let from = self.offset_in_zone(zone, request.sector());
        let end = self.offset_in_zone(zone, request.end());
        if !self.zones.is_conventional(zone) {
            tail.accept(end, |crc| {
                request.for_each_segment(|_, nr_sectors, buf| match buf {
                    Some(buf) => crc(buf),
                    None => (0..nr_sectors).for_each(|_| crc(&[0; 512])),
                });
            });
            self.reserve(&mut tail, slot, end);
        }
        ExecResult::Transfer {
            at: self.file_layout.in_slot(slot, from),
            len: Sector(nr_sectors.into()).to_bytes().0,
        }
    }

    /// Takes space to beyond `end`, more in a fuller zone. That there is none shows in the write.
    fn reserve(&self, tail: &mut Tail, slot: u32, end: Sector) {
        if end <= tail.reserved || !self.reserves.load(Ordering::Relaxed) {
            return;
        }
        let from = self.file_layout.in_slot(slot, tail.reserved);
        let most = self.file_layout.slot(slot) + self.file_layout.stride();
        let ahead = end.to_bytes().0.clamp(AHEAD.0, AHEAD.1);
        let to = (self.file_layout.in_slot(slot, end) + ahead).min(most);
        if let Err(error) = self.store.reserve(from, to - from)
            && error.kind() == io::ErrorKind::Unsupported
        {
            self.reserves.store(false, Ordering::Relaxed);
        }
        tail.reserved = Sector((to - self.file_layout.slot(slot)) / 512);
    }

    /// Data of a write are in the file, or could not be written.
    pub(super) fn landed(&self, request: &Request, ok: bool) {
        let zone = request.zone();
        if !self.zones.is_conventional(zone) {
            self.tail(zone).landed(self.offset_in_zone(zone, request.end()), ok);
        }
    }

    /// Ends a write that has landed; `None` while another one of its zone comes first.
    pub(super) fn end_write(&self, request: &Request) -> Option<Status> {
        let zone = request.zone();
        let mut tail = self.tail(zone);
        let mut status = Status::Ok;
        if self.zones.is_conventional(zone) {
            self.unsynced.store(true, Ordering::Relaxed);
        } else {
            status = tail.end(self.offset_in_zone(zone, request.end()))?;
            if tail.finish_failure() {
                self.zones.roll_back(zone, tail.done);
                tail.finished = self.zones.condition(zone) == ZoneCondition::Full;
            }
        }
        self.note(zone, &mut tail);
        Some(status)
    }

    /// Puts a zone on the list of those to be recorded.
    fn note(&self, zone: ZoneNo, tail: &mut Tail) {
        if !std::mem::replace(&mut tail.dirty, true) {
            self.dirty.lock().expect("lock of the list of changed zones").push(zone.0);
        }
    }

    /// Makes all that has ended durable.
    pub(super) fn commit(&self) -> Status {
        let mut journal = self.journal();
        let result = self.commit_with(&mut journal);
        self.note_failure(&journal);
        result.map_or(Status::IoError, |()| Status::Ok)
    }

    fn note_failure(&self, journal: &Journal) {
        if journal.has_failed() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    fn commit_with(&self, journal: &mut Journal) -> io::Result<()> {
        // Even if nothing has changed since: what a failure left out was promised to nobody.
        journal.check()?;
        let dirty = std::mem::take(&mut *self.dirty.lock().expect("lock of the list"));
        let unsynced = self.unsynced.swap(false, Ordering::Relaxed);
        let mut entries: Vec<ZoneEntry> = Vec::with_capacity(dirty.len());
        let (mut covered, mut all_covered) = (0, true);
        for &zone in &dirty {
            let durable = journal.durable(ZoneNo(zone));
            let Some(entry) = self.tail(ZoneNo(zone)).record(durable, self.geometry()) else {
                continue;
            };
            match &entry.covered {
                Some(cover) => covered += (entry.written - cover.from).to_bytes().0,
                None => all_covered &= entry.written <= durable.written,
            }
            entries.push(entry);
        }
        if entries.is_empty() {
            return if unsynced { self.sync(journal) } else { Ok(()) };
        }
        if !all_covered || covered > MAX_COVERED {
            self.sync(journal)?;
            entries.iter_mut().for_each(|entry| entry.covered = None);
        }
        journal.append(&*self.store, &entries)
    }

    /// Makes what was written durable. After a failure nobody knows what is, so nothing more is.
    fn sync(&self, journal: &mut Journal) -> io::Result<()> {
        self.store.sync().inspect_err(|_| journal.fail())
    }

    /// Resets a zone, or finishes it. Its record is durable before anything else happens to it.
    fn change(&self, zone: ZoneNo, finish: bool) -> ExecResult {
        let mut journal = self.journal();
        let mut tail = self.tail(zone);
        if tail.is_busy() {
            return ExecResult::Retry;
        }
        if journal.has_failed() {
            return ExecResult::Done(Status::IoError);
        }
        let before = (tail.done, tail.finished);
        let result = if finish { self.zones.finish(zone) } else { self.zones.reset(zone, || ()) };
        if let Err(status) = result {
            return ExecResult::Done(status);
        }
        if finish {
            tail.finished = true;
        } else {
            tail.empty();
        }
        if before == (tail.done, tail.finished) && !tail.dirty {
            return ExecResult::Done(Status::Ok);
        }
        let entry = tail.describe(journal.durable(zone), self.geometry());
        let durable = if entry.written > journal.durable(zone).written {
            self.sync(&mut journal).and_then(|()| journal.append(&*self.store, &[entry]))
        } else {
            journal.append(&*self.store, &[entry])
        };
        if durable.is_err() {
            self.note_failure(&journal);
            return ExecResult::Done(Status::IoError);
        }
        if !finish {
            // What cannot be given back is not in the way: nothing behind the data is ever read.
            let _kept = self.discard_beyond_data(&entry);
        }
        ExecResult::Done(Status::Ok)
    }

    /// Resets all zones, many at a time.
    fn reset_all(&self) -> ExecResult {
        let mut journal = self.journal();
        if journal.has_failed() {
            return ExecResult::Done(Status::IoError);
        }
        let mut zones =
            (self.geometry().conventional..self.geometry().zones).map(ZoneNo).peekable();
        while zones.peek().is_some() {
            let mut changed = Vec::with_capacity(RESET_AT_ONCE);
            let mut later = false;
            for zone in zones.by_ref() {
                let mut tail = self.tail(zone);
                if tail.is_busy() {
                    later = true;
                    break;
                }
                let was_empty = self.zones.condition(zone) == ZoneCondition::Empty;
                // A zone that is read-only or offline stays so, and is no failure of the others.
                if was_empty || self.zones.reset(zone, || ()).is_err() {
                    continue;
                }
                tail.empty();
                changed.push((tail.describe(journal.durable(zone), self.geometry()), tail));
                if changed.len() == RESET_AT_ONCE {
                    break;
                }
            }
            let entries: Vec<ZoneEntry> = changed.iter().map(|(entry, _)| *entry).collect();
            if !entries.is_empty() && journal.append(&*self.store, &entries).is_err() {
                self.note_failure(&journal);
                return ExecResult::Done(Status::IoError);
            }
            for (entry, _locked) in &changed {
                let _kept = self.discard_beyond_data(entry);
            }
            if later {
                return ExecResult::Retry;
            }
        }
        ExecResult::Done(Status::Ok)
    }

    /// Forgets data of a conventional zone.
    fn discard(&self, request: &Request) -> Result<(), Status> {
        let zone = request.zone();
        if !self.zones.is_conventional(zone) {
            return Err(Status::NotSupported);
        }
        let mut result = Ok(());
        self.zones.write(zone, request.sector(), request.nr_sectors(), || {
            let slot = self.tail(zone).slot;
            if let Some(slot) = slot {
                let at =
                    self.file_layout.in_slot(slot, self.offset_in_zone(zone, request.sector()));
                let len = Sector(request.nr_sectors().into()).to_bytes().0;
                result = self.store.discard(at, len).map_err(Status::from);
                self.unsynced.store(true, Ordering::Relaxed);
            }
        })?;
        result
    }

    /// Makes everything durable, empties the log and gives back what was reserved, as before the
    /// power is switched off.
    ///
    /// # Errors
    /// Those of the file. Then the image is as after a loss of power.
    pub fn close(&self) -> io::Result<()> {
        let mut journal = self.journal();
        self.commit_with(&mut journal)?;
        if !self.used.load(Ordering::Relaxed) && !journal.has_log() {
            return Ok(());
        }
        self.discard_unused(&journal, |tail| tail.reserved > tail.done)?;
        journal.checkpoint(&*self.store)
    }

    /// Gives back all space of the file that holds no data.
    ///
    /// # Errors
    /// Those of the file.
    pub fn reclaim_space(&self) -> io::Result<()> {
        let journal = self.journal();
        for &slot in &self.slots().free {
            self.store.discard(self.file_layout.slot(slot), self.file_layout.stride())?;
        }
        self.discard_unused(&journal, |_| true)
    }

    fn discard_unused(&self, journal: &Journal, which: impl Fn(&Tail) -> bool) -> io::Result<()> {
        for zone in (0..self.geometry().zones).map(ZoneNo) {
            let tail = self.tail(zone);
            if which(&tail) && !tail.is_busy() {
                self.discard_beyond_data(&tail.describe(journal.durable(zone), self.geometry()))?;
            }
        }
        Ok(())
    }
}

impl Drop for ImageDevice {
    fn drop(&mut self) {
        // What did not become durable is lost as with the power.
        let _lost = self.close();
    }
}

impl Device for ImageDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        self.zones.report(first, max, zones)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(ImageQueue::new(self))
    }
}

impl DeviceControl for ImageDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let profile = match &self.superblock.profile {
            Profile::Spec(text) => text.clone(),
            Profile::Toml(_) => "a profile of its own".to_owned(),
        };
        vec![("made as", profile), ("slot", format_size(self.file_layout.stride()))]
    }

    fn stats(&self) -> DeviceStats {
        let generation = self.journal().generation();
        DeviceStats { counts: vec![("zone tables written", generation)], times: Vec::new() }
    }
}
