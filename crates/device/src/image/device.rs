//! The device in an image: executes commands on its zones, maps them to addresses in the file, and
//! makes zones durable.
//!
//! Invariants: a flush completes when the data and the entries of everything that completed before
//! are durable, a reset or a finish when its entry is; no write is in flight to a zone that is being
//! reset.
//!
//! # Locks
//!
//! Each zone has a lock, that of its [`ZoneTail`]; the journal and the list of regions have one. The
//! lock order is journal, zone, then those of [`Zones`], of the list and of [`Sums`]; no thread waits
//! for the journal with a zone locked.
use super::block::{BLOCK, ZoneEntry};
use super::ends::{Ends, sum_blocks};
use super::error::ImageError;
use super::geometry::ImageGeometry;
use super::journal::{Journal, format, mark_unfinished, repair_superblock};
use super::kept::StateLog;
use super::recover::{Recovered, read_superblock, recover};
use super::regions::{Begun, Region, Regions};
use super::session::Session;
use super::store::ImageStore;
use super::sums::{Summer, Sums, sum_request};
use super::superblock::{FileLayout, Superblock};
use super::tail::ZoneTail;
use crate::control::{DeviceControl, KeptState, MediumAccess};
use crate::storage::{self, Deferred};
use crate::zones::Zones;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{BioFlags, Buf, Limits, Op, Request, Sector, Status, ZoneCondition, ZoneNo};

/// Bounds of the space reserved ahead of the write pointer, in bytes. It is reserved in large steps
/// because ext4 waits for all direct writes to do so.
const AHEAD: (u64, u64) = (16 << 20, 128 << 20);
/// Zones per batch of a reset of all zones.
const RESET_AT_ONCE: usize = 1024;
/// Longest command of an image that is not bound to the longest of the drive that it emulates, in
/// sectors.
const LONG_COMMAND: u32 = 8 << 11;
/// Most data that a batch covers with checksums: recovery has to read them.
const MAX_COVERED: u64 = 4 << 20;
/// After this many flushes that each followed a single write, the next write is expected to be
/// flushed, too.
const FLUSHES: u32 = 2;
/// Bounds of the space that is written with zeroes ahead of such writes, in bytes, and how many of
/// them it is for.
const PREPARED: (u64, u64) = (4 << 20, 16 << 20);
const PREPARED_WRITES: u64 = 1024;
/// Zeroes written at a time.
const ZEROES: u64 = 1 << 20;
/// Most sectors that are answered without a commit: recovery has to read them.
const MAX_UNCOMMITTED: u64 = 4 << 21;
/// What the errors of opening an image are about.
const OPENING: &str = "bringing the image up to date";
/// Commands after which the length of the file is looked at, without a flush.
const CHECK_AFTER: u32 = 1 << 10;
/// Commands after which the changes of the model's state are written, without a flush.
const KEEP_AFTER: u32 = 1 << 12;

/// A zoned device whose zones and data are in a file.
pub struct ImageDevice {
    pub(super) store: Arc<dyn ImageStore>,
    pub(super) superblock: Superblock,
    layout: FileLayout,
    pub(super) limits: Limits,
    zones: Zones,
    tails: Box<[Mutex<ZoneTail>]>,
    journal: Mutex<Journal>,
    /// Zones that have changed since their last entries.
    dirty: Mutex<Vec<u32>>,
    /// Data were written to a conventional zone, which needs no entry.
    unsynced: AtomicBool,
    slots: Mutex<Slots>,
    /// Data were written since the image was opened.
    used: AtomicBool,
    /// Something could not be made durable: all writes fail.
    failed: AtomicBool,
    reserves: AtomicBool,
    /// Writes to sequential zones since the last flush.
    unflushed: AtomicU32,
    /// Successive flushes that each followed a single write.
    flushes: AtomicU32,
    /// `None` in an image without checksums.
    pub(super) sums: Option<Sums>,
    regions: Mutex<Regions>,
    /// Reads and scrubs of blocks that do not match their checksums.
    pub(super) damaged_blocks: AtomicU64,
    model: Option<Model>,
    /// What is kept of the model in the file.
    state: Option<Mutex<StateLog>>,
    /// Why the state of the model that was in the file could not be used.
    state_damage: Option<String>,
    /// Commands since changes of that state were last written.
    unkept: AtomicU32,
    session: Mutex<Session>,
    /// The ends of zones that survive the process; `None` if the file cannot keep them.
    ends: Option<Ends>,
    /// Sectors of sequential zones that were answered since the last commit.
    uncommitted: AtomicU64,
    /// The greatest length that the file was seen to have: only others make it shorter.
    len: AtomicU64,
    /// They have.
    truncated: AtomicBool,
    /// Commands since the length was last looked at.
    unchecked: AtomicU32,
}

/// A model that the commands of an image go through.
pub struct Model {
    /// The model, which keeps no data.
    pub device: Arc<dyn DeviceControl>,
    /// Commands complete no earlier than in the model. Otherwise it has only a state to keep, and completes
    /// all of its work immediately.
    pub paced: bool,
}

/// Free slots of the file.
struct Slots {
    /// Those before the last slot in use.
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

/// The next step of an executed command.
pub(super) enum ExecResult {
    /// Nothing: it is complete.
    Done(Status),
    /// Nothing: its zone does not allow it.
    Refused(Status),
    /// A transfer of `len` bytes at address `at` of the file; the rest of a read is zeroes.
    Transfer { at: u64, len: u64 },
    /// A commit: it completes when everything completed before is durable.
    Flush,
    /// To be executed again: writes to the zone are in flight.
    Retry,
    /// A write that its zone has accepted and that cannot be transferred.
    Failed(Status),
}

impl ImageDevice {
    /// Creates an image in an empty file.
    ///
    /// # Errors
    /// The file could not be written, and is not an image then.
    pub fn create(store: &dyn ImageStore, superblock: &Superblock) -> Result<(), ImageError> {
        Self::create_with(store, superblock, &mut |_| Ok(()))
    }

    /// The same; if the image is preallocated, calls `progress` with the number of bytes of its zones
    /// that were written so far, whose error ends it.
    ///
    /// # Errors
    /// The file could not be written, and is not an image then.
    pub fn create_with(
        store: &dyn ImageStore,
        superblock: &Superblock,
        progress: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<(), ImageError> {
        format(store, superblock, progress).map_err(ImageError::io("writing the new image"))
    }

    /// Marks an empty file as an image that is being created, so that it is recognised if that is
    /// interrupted.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn begin_creation(store: &dyn ImageStore) -> Result<(), ImageError> {
        mark_unfinished(store).map_err(ImageError::io("writing the new image"))
    }

    /// Opens an image, recovering it after a loss of power. `model` creates the model that its commands
    /// are to go through, if any, from the state of its zones. A model that has a state to keep goes on
    /// from the one in the file.
    ///
    /// # Errors
    /// The error in the image or with the model.
    pub fn open<E: From<ImageError>>(
        store: Arc<dyn ImageStore>,
        model: impl FnOnce(&Superblock, &[ZoneEntry]) -> Result<Option<Model>, E>,
    ) -> Result<Self, E> {
        let (superblock, damaged) = read_superblock(&*store)?;
        let recovered = recover(&*store, &superblock)?;
        let model = model(&superblock, &recovered.zones)?;
        if !damaged.is_empty() {
            repair_superblock(&*store, &superblock)
                .map_err(ImageError::io("repairing the superblock"))?;
        }
        let mut device = Self::with(store, superblock, &recovered, model);
        device.finish_recovery(&recovered).map_err(ImageError::io(OPENING))?;
        device.resume_state()?;
        device.begin_session(&recovered).map_err(ImageError::io(OPENING))?;
        Ok(device)
    }

    /// Has the model go on from the state in the file.
    fn resume_state(&mut self) -> Result<(), ImageError> {
        let (Some(layout), Some(model)) = (self.layout.state(), self.kept()) else { return Ok(()) };
        let image = self.superblock.image();
        let (state, damage) = StateLog::open(&*self.store, layout, image, model)?;
        self.state = Some(Mutex::new(state));
        self.state_damage = damage;
        Ok(())
    }

    fn with(
        store: Arc<dyn ImageStore>,
        superblock: Superblock,
        recovered: &Recovered,
        model: Option<Model>,
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
            layout: superblock.layout(),
            limits: geometry.limits(),
            zones,
            tails: entries
                .iter()
                .map(|entry| Mutex::new(ZoneTail::new(entry, superblock.preallocated)))
                .collect(),
            journal: Mutex::new(Journal::new(&superblock, root, generation, entries.clone())),
            dirty: Mutex::default(),
            unsynced: AtomicBool::new(false),
            slots: Mutex::new(Slots::of(recovered)),
            used: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            reserves: AtomicBool::new(true),
            unflushed: AtomicU32::new(0),
            flushes: AtomicU32::new(0),
            sums: superblock.checksums.then(|| Sums::new(superblock.layout())),
            regions: Mutex::new(Regions::new(
                superblock.layout(),
                superblock.image(),
                &recovered.list,
            )),
            damaged_blocks: AtomicU64::new(0),
            store,
            superblock,
            model,
            state: None,
            state_damage: None,
            unkept: AtomicU32::new(0),
            session: Mutex::new(recovered.session.unwrap_or_default()),
            ends: None,
            uncommitted: AtomicU64::new(0),
            len: AtomicU64::new(0),
            truncated: AtomicBool::new(false),
            unchecked: AtomicU32::new(0),
        }
    }

    /// Looks whether somebody has truncated the file. Then all commands fail from now on: what is missing would read
    /// as zeroes, with the right checksums.
    pub(super) fn check_length(&self) -> io::Result<()> {
        self.unchecked.store(0, Ordering::Relaxed);
        let len = self.store.len()?;
        let longest = self.len.fetch_max(len, Ordering::Relaxed);
        // Another thread may have seen it longer since it was looked at here.
        if len < longest && self.store.len()? < longest {
            self.truncated.store(true, Ordering::Relaxed);
            self.failed.store(true, Ordering::Relaxed);
        }
        if self.truncated.load(Ordering::Relaxed) {
            return Err(io::Error::other("the file was truncated"));
        }
        Ok(())
    }

    /// The status of commands once the file was truncated.
    pub(super) fn gone(&self) -> Option<Status> {
        self.truncated.load(Ordering::Relaxed).then_some(Status::Medium)
    }

    /// Marks the image as open, and stores the ends of zones from now on. Zones that a command had opened are
    /// open again if there was power all the time.
    fn begin_session(&mut self, recovered: &Recovered) -> io::Result<()> {
        self.check_length()?;
        let Some(before) = &recovered.session else { return Ok(()) };
        let mut session = before.next(self.store.boot(), !recovered.missing.is_empty());
        let image = self.superblock.image();
        session.write(&*self.store, &self.layout, image)?;
        *self.session() = session;
        let (at, len) = self.layout.ends();
        match self.store.share(at, len) {
            Ok(words) => {
                self.ends = Some(Ends::new(words, self.layout, image, session.history.cycles));
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
        if session.history.losses > before.history.losses {
            return Ok(());
        }
        for &zone in &recovered.explicit {
            // It fails if it has become full.
            if self.zones.open(zone).is_ok() {
                self.set_explicit(zone, true)?;
            }
        }
        Ok(())
    }

    /// A zone is open by a command, or no longer.
    fn set_explicit(&self, zone: ZoneNo, explicit: bool) -> io::Result<()> {
        let mut tail = self.tail(zone);
        if std::mem::replace(&mut tail.explicit, explicit) == explicit {
            return Ok(());
        }
        self.store_end(zone, &mut tail)
    }

    /// Stores the end of a zone, so that it survives the process. If that fails, no more is written.
    fn store_end(&self, zone: ZoneNo, tail: &mut ZoneTail) -> io::Result<()> {
        let Some(ends) = &self.ends else { return Ok(()) };
        let (turn, end) = tail.next_end();
        ends.store(zone, turn, &end).inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }

    /// Opens an image to write a given state into it, zone after zone: any number of zones may be open
    /// and active. For those who open it next, the limits are those of the image.
    ///
    /// # Errors
    /// The error in the image.
    pub fn open_without_limits(store: Arc<dyn ImageStore>) -> Result<Self, ImageError> {
        let (mut superblock, _) = read_superblock(&*store)?;
        let recovered = recover(&*store, &superblock)?;
        // It is not written again.
        (superblock.geometry.max_open, superblock.geometry.max_active) = (0, 0);
        let mut device = Self::with(store, superblock, &recovered, None);
        device
            .finish_recovery(&recovered)
            .and_then(|()| device.begin_session(&recovered))
            .map_err(ImageError::io(OPENING))?;
        Ok(device)
    }

    /// The same device with commands of up to 8 MiB, if those of the emulated drive are shorter: a
    /// zone has one write in flight at a time, and the writes that wait are merged.
    #[must_use]
    pub fn with_long_commands(mut self) -> Self {
        self.limits.max_sectors = self.limits.max_sectors.max(LONG_COMMAND);
        self
    }

    /// Makes the recovered state the state of the file, and frees the space of everything else.
    fn finish_recovery(&self, recovered: &Recovered) -> io::Result<()> {
        let end = self.layout.slot(recovered.slots());
        if self.store.len()? > end {
            // Slots without an entry.
            self.store.truncate(end)?;
        }
        // Remains of a zone that never got an entry for the slot: the next zone must read zeroes.
        for &slot in &self.slots().free {
            self.store.discard(self.layout.slot(slot), self.layout.slot_size())?;
        }
        for &zone in &recovered.touched {
            self.discard_beyond_data(&recovered.zones[zone as usize])?;
        }
        self.recover_sums(recovered)?;
        if recovered.clean && recovered.damaged.is_empty() {
            return Ok(());
        }
        let mut journal = self.journal();
        // What was read may be in the page cache only.
        self.store.sync()?;
        journal.checkpoint_after_crash(&*self.store)?;
        if recovered.damaged.is_empty() { Ok(()) } else { journal.checkpoint(&*self.store) }
    }

    /// Computes the checksums that a loss of power may have left wrong.
    fn recover_sums(&self, recovered: &Recovered) -> io::Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        if !recovered.damaged.is_empty() {
            // Both lists, each in its turn.
            self.regions().write(&*self.store)?;
            self.regions().write(&*self.store)?;
        }
        for (zone, range) in &recovered.covered {
            self.resum_zone(*zone, range)?;
        }
        for region in recovered.overwritten() {
            self.resum_zone(region.zone, &region.sectors(&self.layout, self.geometry()))?;
        }
        for (zone, range) in &recovered.damaged_data {
            if let Some(slot) = self.tail(*zone).slot {
                self.spoil(slot, range)?;
            }
        }
        let lists = [recovered.covered.len(), recovered.damaged_data.len()];
        if lists == [0, 0] && recovered.overwritten().is_empty() {
            return Ok(());
        }
        sums.flush(&*self.store)?;
        // The data as well: what was read may be in the page cache only.
        self.store.sync()?;
        self.regions().clear(&*self.store)
    }

    fn resum_zone(&self, zone: ZoneNo, range: &Range<Sector>) -> io::Result<()> {
        let slot = self.tail(zone).slot;
        slot.map_or(Ok(()), |slot| self.resum(slot, range))
    }

    /// Frees the space after a zone's data, unless it is preallocated.
    fn discard_beyond_data(&self, entry: &ZoneEntry) -> io::Result<()> {
        if self.superblock.preallocated {
            return Ok(());
        }
        let (Some(slot), false) = (entry.slot, self.zones.is_conventional(entry.zone)) else {
            return Ok(());
        };
        let from = self.layout.in_slot(slot, entry.written);
        let end = self.layout.slot_data(slot) + self.layout.stride();
        self.store.discard(from, end - from)
    }

    /// The superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The zones.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        format!("image, {}", self.superblock.geometry.summary())
    }

    /// The model that the commands go through.
    pub(super) fn model(&self) -> Option<&Model> {
        self.model.as_ref()
    }

    /// The model whose latencies the image has.
    pub(super) fn timing(&self) -> Option<&Arc<dyn DeviceControl>> {
        self.model.as_ref().filter(|model| model.paced).map(|model| &model.device)
    }

    /// The state of the model that the image keeps.
    pub(super) fn kept(&self) -> Option<&dyn KeptState> {
        self.model.as_ref()?.device.kept()
    }

    /// Why the state of the model that was in the file could not be used, so that the model began anew; the
    /// data are not affected.
    pub fn state_damage(&self) -> Option<&str> {
        self.state_damage.as_deref()
    }

    fn geometry(&self) -> &ImageGeometry {
        &self.superblock.geometry
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().expect("no thread panics with the journal locked")
    }

    pub(super) fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().expect("no thread panics with the session locked")
    }

    fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().expect("no thread panics with the list locked")
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().expect("no thread panics with the slots locked")
    }

    pub(super) fn tail(&self, zone: ZoneNo) -> MutexGuard<'_, ZoneTail> {
        self.tails[zone.index()].lock().expect("no thread panics with a zone locked")
    }

    /// The offset of a sector in its zone.
    pub(super) fn offset_in_zone(&self, zone: ZoneNo, sector: Sector) -> Sector {
        sector - self.limits.zone_start(zone)
    }

    /// The size of a zone.
    pub(super) fn zone_size(&self) -> Sector {
        self.geometry().zone_size
    }

    pub(super) fn layout(&self) -> &FileLayout {
        &self.layout
    }

    pub(super) fn zone_of(&self, sector: Sector) -> ZoneNo {
        if self.geometry().regular { ZoneNo(0) } else { self.limits.zone_of(sector) }
    }

    /// The end of a zone's data, as an offset in the zone.
    pub(super) fn data_end(&self, zone: ZoneNo) -> Sector {
        let tail = self.tail(zone);
        match tail.slot {
            Some(_) if self.zones.is_conventional(zone) => self.zone_size(),
            _ => tail.done,
        }
    }

    /// Executes a command.
    pub(super) fn execute(&self, request: &mut Request) -> ExecResult {
        if let Some(status) = self.gone() {
            return ExecResult::Done(status);
        }
        match request.op() {
            Op::Read => self.read(request.zone(), request.sector(), request.end()),
            Op::Write | Op::ZoneAppend => self.write(request),
            Op::Flush => ExecResult::Flush,
            Op::ZoneOpen | Op::ZoneClose => match self.apply(request) {
                Ok(()) => {
                    let stored = self.set_explicit(request.zone(), request.op() == Op::ZoneOpen);
                    ExecResult::Done(stored.map_or_else(Status::from, |()| Status::Ok))
                }
                Err(status) => ExecResult::Refused(status),
            },
            Op::ZoneFinish | Op::ZoneReset => self.change(request),
            Op::ZoneResetAll => self.reset_all(),
            Op::Discard => self.discard(request),
            // An image has no random write areas.
            Op::WriteZeroes | Op::ZoneOpenZrwa | Op::ZrwaFlush => {
                ExecResult::Done(Status::NotSupported)
            }
        }
    }

    /// Applies a command to the zones; its data are transferred afterwards.
    fn apply(&self, request: &mut Request) -> Result<(), Status> {
        let native_append = self.limits.append_max_sectors > 0;
        storage::apply(&self.zones, &Deferred, native_append, request, |_| {})
    }

    /// The address of a range of one zone in the file.
    pub(super) fn read(&self, zone: ZoneNo, sector: Sector, end: Sector) -> ExecResult {
        if let Err(status) = self.zones.check_read(zone) {
            return ExecResult::Refused(status);
        }
        let range = self.offset_in_zone(zone, sector)..self.offset_in_zone(zone, end);
        let (at, len) = self.locate(&self.tail(zone), zone, &range);
        ExecResult::Transfer { at, len }
    }

    /// The address of a range of one zone in the file, and how many bytes of it have data.
    pub(super) fn locate(
        &self,
        tail: &ZoneTail,
        zone: ZoneNo,
        range: &Range<Sector>,
    ) -> (u64, u64) {
        let all = self.zones.is_conventional(zone);
        let to = if all { range.end } else { range.end.min(tail.done) };
        match tail.slot {
            Some(slot) => {
                let len = Sector(to.0.saturating_sub(range.start.0)).to_bytes().0;
                (self.layout.in_slot(slot, range.start), len)
            }
            None => (0, 0),
        }
    }

    fn write(&self, request: &mut Request) -> ExecResult {
        let zone = request.zone();
        if self.zones.is_conventional(zone) {
            return self.overwrite(request);
        }
        let mut tail = self.tail(zone);
        if tail.is_broken() || self.failed.load(Ordering::Relaxed) {
            return ExecResult::Done(Status::IoError);
        }
        self.used.store(true, Ordering::Relaxed);
        if let Err(status) = self.apply(request) {
            return ExecResult::Refused(status);
        }
        let from = self.offset_in_zone(zone, request.sector());
        let end = self.offset_in_zone(zone, request.end());
        if self.unflushed.fetch_add(1, Ordering::Relaxed) > 0 {
            self.flushes.store(0, Ordering::Relaxed);
        }
        tail.accept(end);
        if self.sums.is_none() {
            tail.cover(end, |crc| {
                request.for_each_segment(|_, nr_sectors, buf| match buf {
                    Some(buf) => crc(buf),
                    None => (0..nr_sectors).for_each(|_| crc(&[0; 512])),
                });
            });
            if self.ends.is_some() {
                let mut sums = Vec::new();
                sum_request(Summer::new(self.layout.lba()), request, &mut sums);
                tail.set_sum(end, sum_blocks(from.to_bytes().0 / self.layout.lba(), &sums));
            }
        }
        match self.slot_of(zone, &mut tail) {
            Ok(slot) => {
                let len = Sector(request.nr_sectors().into()).to_bytes().0;
                self.reserve(&mut tail, slot, end);
                if end > tail.prepared && self.expects_flush() {
                    self.prepare(&mut tail, slot, end, len);
                }
                ExecResult::Transfer { at: self.layout.in_slot(slot, from), len }
            }
            Err(error) => ExecResult::Failed(error.into()),
        }
    }

    /// Whether the writes before were flushed one by one.
    fn expects_flush(&self) -> bool {
        self.flushes.load(Ordering::Relaxed) >= FLUSHES
    }

    /// Writes zeroes into the reserved space after a write of `len` bytes up to `end`. The file
    /// system keeps space that is reserved and not written as such, and each write to it changes
    /// metadata, which the next sync would have to write as well.
    fn prepare(&self, tail: &mut ZoneTail, slot: u32, end: Sector, len: u64) {
        let from = self.layout.in_slot(slot, end).next_multiple_of(BLOCK as u64);
        let ahead = (len * PREPARED_WRITES).clamp(PREPARED.0, PREPARED.1);
        let to = (from + ahead).min(self.layout.in_slot(slot, tail.reserved));
        tail.prepared = end;
        if from >= to {
            return;
        }
        let zeroes = Buf::zeroed(usize::try_from(ZEROES).expect("a mebibyte"));
        for at in (from..to).step_by(zeroes.len()) {
            let len = usize::try_from((to - at).min(ZEROES)).expect("at most a mebibyte");
            if self.store.write(at, &zeroes[..len]).is_err() {
                // Nothing depends on them: the write itself will fail if the file does.
                return;
            }
        }
        tail.prepared = Sector((to - self.layout.slot_data(slot)) / 512);
    }

    /// Writes the log's record of a write, whose data are being transferred and whose checksums are
    /// set, if a flush of just that is expected.
    pub(super) fn write_ahead(&self, zone: ZoneNo) {
        if !self.expects_flush() {
            return;
        }
        let Ok(mut journal) = self.journal.try_lock() else { return };
        let others = |dirty: &[u32]| dirty.iter().any(|&other| other != zone.0);
        if others(&self.dirty.lock().expect("no thread panics with the list locked")) {
            return;
        }
        let foreseen = self.tail(zone).foresee(journal.durable(zone), self.geometry());
        let Some(entry) = foreseen else { return };
        let stored = self.store_end_ahead(&journal, &[]);
        if stored.and_then(|()| journal.write_ahead(&*self.store, entry)).is_err() {
            self.note_failure(&journal);
        }
    }

    /// Stores the end that the entry written ahead keeps, which another batch is about to replace: one of these
    /// entries, whose zones may be locked.
    fn store_end_ahead(&self, journal: &Journal, entries: &[ZoneEntry]) -> io::Result<()> {
        let Some(ahead) = journal.ahead() else { return Ok(()) };
        if entries.iter().any(|entry| entry.zone == ahead.zone) {
            return Ok(());
        }
        let mut tail = self.tail(ahead.zone);
        if tail.is_at(ahead.zone, ahead) { self.store_end(ahead.zone, &mut tail) } else { Ok(()) }
    }

    /// Whether a command appends to a sequential zone.
    pub(super) fn appends(&self, request: &Request) -> bool {
        matches!(request.op(), Op::Write | Op::ZoneAppend)
            && !self.zones.is_conventional(request.zone())
    }

    /// The computation of the checksums of a command that appends to a zone, to be [set](Self::set_sums)
    /// before its data are [written](Self::written); `None` for other commands.
    pub(super) fn append_summer(&self, request: &Request) -> Option<Summer> {
        self.sums.as_ref().filter(|_| self.appends(request)).map(Sums::summer)
    }

    /// Sets the checksums of data that a command, which was executed, appends to a zone.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn set_sums(&self, request: &Request, sums: &[u8]) -> io::Result<()> {
        let Some(own) = &self.sums else { return Ok(()) };
        let range = self.range_in_zone(request);
        let sum = sum_blocks(range.start.to_bytes().0 / self.layout.lba(), sums);
        let mut tail = self.tail(request.zone());
        tail.cover(range.end, |crc| crc(sums));
        tail.set_sum(range.end, sum);
        let slot = tail.slot.expect("a zone that is being written has a slot");
        let first = self.layout.block_at(self.layout.in_slot(slot, range.start));
        // Another queue's thread may have set those of a write after it.
        own.set(&*self.store, first, sums, tail.is_last(range.end))
    }

    /// The slot of a zone, which gets one if it has none.
    fn slot_of(&self, zone: ZoneNo, tail: &mut ZoneTail) -> io::Result<u32> {
        if let Some(slot) = tail.slot {
            return Ok(slot);
        }
        let slot = self.slots().take();
        if self.sums.is_some() && self.reserves.load(Ordering::Relaxed) {
            // Checksums that do not fit into the file system would fail all writes, so the first
            // write of the zone fails instead.
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, Unsupported};
            match self.store.reserve(self.layout.slot(slot), self.layout.sums()) {
                Err(error) if error.kind() == Unsupported => {
                    self.reserves.store(false, Ordering::Relaxed);
                }
                Err(error)
                    if matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull) =>
                {
                    self.slots().free.push(slot);
                    return Err(error);
                }
                _ => {}
            }
        }
        tail.slot = Some(slot);
        if self.zones.is_conventional(zone) {
            // All of its end that there is: any block of it may have data from now on.
            self.store_end(zone, tail)?;
        }
        Ok(slot)
    }

    /// Writes to a conventional zone, in place.
    fn overwrite(&self, request: &mut Request) -> ExecResult {
        let zone = request.zone();
        let mut tail = self.tail(zone);
        if self.failed.load(Ordering::Relaxed) {
            return ExecResult::Done(Status::IoError);
        }
        self.used.store(true, Ordering::Relaxed);
        let range = self.range_in_zone(request);
        if tail.overlaps(&range) {
            return ExecResult::Retry;
        }
        if let Err(status) = self.apply(request) {
            return ExecResult::Refused(status);
        }
        let slot = match self.slot_of(zone, &mut tail) {
            Ok(slot) => slot,
            Err(error) => return ExecResult::Done(error.into()),
        };
        if let Some(wait) = self.begin_overwrite(&mut tail, zone, &range) {
            return wait;
        }
        let len = (range.end - range.start).to_bytes().0;
        ExecResult::Transfer { at: self.layout.in_slot(slot, range.start), len }
    }

    /// The range of a request, as offsets in its zone.
    fn range_in_zone(&self, request: &Request) -> Range<Sector> {
        let zone = request.zone();
        self.offset_in_zone(zone, request.sector())..self.offset_in_zone(zone, request.end())
    }

    /// Puts the regions of a range on the durable list of those being overwritten. Returns why the
    /// command cannot go ahead, if it cannot.
    fn begin_overwrite(
        &self,
        tail: &mut ZoneTail,
        zone: ZoneNo,
        range: &Range<Sector>,
    ) -> Option<ExecResult> {
        let sums = self.sums.as_ref()?;
        let settle = || sums.flush(&*self.store).and_then(|()| self.store.sync());
        let regions = Region::of(zone, range, &self.layout);
        match self.regions().begin(&*self.store, &regions, settle) {
            Ok(Begun::Yes) => {
                tail.begin_overwrite(range.clone());
                None
            }
            Ok(Begun::Later) => Some(ExecResult::Retry),
            Err(_) => {
                self.failed.store(true, Ordering::Relaxed);
                Some(ExecResult::Done(Status::IoError))
            }
        }
    }

    /// Sets the checksums of a range that was overwritten. `new` are those of the data, unless it is
    /// unknown what of them was written.
    fn end_overwrite(
        &self,
        tail: &mut ZoneTail,
        zone: ZoneNo,
        range: &Range<Sector>,
        new: Option<&[u8]>,
    ) -> io::Result<()> {
        let (Some(sums), Some(slot)) = (&self.sums, tail.slot) else { return Ok(()) };
        let result = match new {
            Some(new) => {
                let first = self.layout.block_at(self.layout.in_slot(slot, range.start));
                sums.set(&*self.store, first, new, false)
            }
            None => self.resum(slot, range),
        };
        self.regions().end(&Region::of(zone, range, &self.layout));
        tail.end_overwrite(range);
        result
    }

    /// Reserves space beyond `end`, more in a fuller zone. If there is none, the write will fail.
    fn reserve(&self, tail: &mut ZoneTail, slot: u32, end: Sector) {
        if end <= tail.reserved || !self.reserves.load(Ordering::Relaxed) {
            return;
        }
        let from = self.layout.in_slot(slot, tail.reserved);
        let slot_end = self.layout.slot_data(slot) + self.layout.stride();
        let ahead = end.to_bytes().0.clamp(AHEAD.0, AHEAD.1);
        let to = (self.layout.in_slot(slot, end) + ahead).min(slot_end);
        if let Err(error) = self.store.reserve(from, to - from)
            && error.kind() == io::ErrorKind::Unsupported
        {
            self.reserves.store(false, Ordering::Relaxed);
        }
        tail.reserved = Sector((to - self.layout.slot_data(slot)) / 512);
    }

    /// The data of a write are in the file, or could not be written.
    ///
    /// # Errors
    /// Its checksums could not be set.
    pub(super) fn written(
        &self,
        request: &mut Request,
        ok: bool,
        sums: &mut Vec<u8>,
    ) -> io::Result<()> {
        let zone = request.zone();
        if !self.zones.is_conventional(zone) {
            self.tail(zone).written(self.offset_in_zone(zone, request.end()), ok);
            return Ok(());
        }
        let Some(own) = &self.sums else { return Ok(()) };
        sum_request(own.summer(), request, sums);
        let range = self.range_in_zone(request);
        let new = ok.then_some(&sums[..]);
        self.end_overwrite(&mut self.tail(zone), zone, &range, new)
    }

    /// Completes a write whose transfer is done; `None` while an earlier one of its zone is in flight.
    pub(super) fn complete_write(&self, request: &Request) -> Option<Status> {
        let zone = request.zone();
        // While it is locked, an entry that was written ahead stays, or the zone is in the next batch.
        let journal = if self.expects_flush() { self.journal.try_lock().ok() } else { None };
        let mut tail = self.tail(zone);
        let mut status = Status::Ok;
        if self.zones.is_conventional(zone) {
            self.unsynced.store(true, Ordering::Relaxed);
        } else {
            status = tail.complete(self.offset_in_zone(zone, request.end()))?;
            if tail.finish_failure() {
                self.zones.roll_back(zone, tail.done);
                tail.finished = self.zones.condition(zone) == ZoneCondition::Full;
            }
            let ahead = journal.as_ref().and_then(|journal| journal.ahead());
            let kept = request.flags().contains(BioFlags::FUA)
                || ahead.is_some_and(|entry| tail.is_at(zone, entry));
            if status == Status::Ok && !kept {
                status = self.store_end(zone, &mut tail).map_or_else(Status::from, |()| status);
            }
            self.uncommitted.fetch_add(u64::from(request.nr_sectors()), Ordering::Relaxed);
        }
        self.mark_dirty(zone, &mut tail);
        Some(status)
    }

    /// Whether so much was answered that it is to be committed, though nobody has asked for it.
    pub(super) fn must_commit(&self) -> bool {
        self.ends.is_some() && self.uncommitted.load(Ordering::Relaxed) >= MAX_UNCOMMITTED
    }

    /// Puts a zone on the list of changed zones.
    fn mark_dirty(&self, zone: ZoneNo, tail: &mut ZoneTail) {
        if !std::mem::replace(&mut tail.dirty, true) {
            self.dirty.lock().expect("no thread panics with the list locked").push(zone.0);
        }
    }

    /// Makes everything that has completed durable.
    pub(super) fn commit(&self) -> Status {
        let mut journal = self.journal();
        let result = self.check_length().and_then(|()| self.commit_with(&mut journal));
        self.note_failure(&journal);
        result.map_or(self.gone().unwrap_or(Status::IoError), |()| Status::Ok)
    }

    fn note_failure(&self, journal: &Journal) {
        if journal.has_failed() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    fn commit_with(&self, journal: &mut Journal) -> io::Result<()> {
        self.commit_zones(journal)?;
        if let Some(state) = &self.state {
            state.lock().expect("no thread panics with the state locked").note_sync();
        }
        Ok(())
    }

    fn commit_zones(&self, journal: &mut Journal) -> io::Result<()> {
        // Checked even if nothing has changed: a flush must not succeed after a failure.
        if self.failed.load(Ordering::Relaxed) {
            journal.fail();
        }
        journal.check()?;
        let kept = self.write_changes(journal)?;
        self.uncommitted.store(0, Ordering::Relaxed);
        let dirty =
            std::mem::take(&mut *self.dirty.lock().expect("no thread panics with the list locked"));
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
        let leave = unsynced && self.sums.is_some() && self.regions().prepare_to_leave();
        if leave || !self.superblock.logs_cover_sums() {
            self.flush_sums(journal)?;
        }
        let alone = self.unflushed.swap(0, Ordering::Relaxed) == 1;
        if alone {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        if entries.is_empty() {
            let withdrawn = journal.withdraw(&*self.store)?;
            if unsynced || withdrawn || kept {
                self.sync(journal)?;
            }
            return self.leave_regions(journal, leave);
        }
        if !all_covered || covered > MAX_COVERED {
            self.flush_sums(journal)?;
            self.sync(journal)?;
            entries.iter_mut().for_each(|entry| entry.covered = None);
        }
        self.append(journal, &entries)?;
        self.leave_regions(journal, leave)
    }

    /// Regions leave the list, if they are to: everything before is durable.
    fn leave_regions(&self, journal: &mut Journal, leave: bool) -> io::Result<()> {
        if !leave {
            return Ok(());
        }
        self.regions().leave(&*self.store).inspect_err(|_| journal.fail())
    }

    /// Writes the changes of the model's state, for the next sync. Returns whether that has something to do.
    fn write_changes(&self, journal: &mut Journal) -> io::Result<bool> {
        let (Some(state), Some(model)) = (&self.state, self.kept()) else { return Ok(false) };
        self.unkept.store(0, Ordering::Relaxed);
        let mut state = state.lock().expect("no thread panics with the state locked");
        state.write_changes(&*self.store, model).inspect_err(|_| journal.fail())
    }

    /// Commands have completed. Writes the changes of the model's state if they have become many, so
    /// that they take no memory.
    pub(super) fn note_commands(&self, commands: usize) {
        let unchecked =
            self.unchecked.fetch_add(u32::try_from(commands).unwrap_or(1), Ordering::Relaxed);
        if unchecked >= CHECK_AFTER {
            // Those that come next fail.
            let _truncated = self.check_length();
        }
        if self.state.is_none() {
            return;
        }
        let commands = u32::try_from(commands).expect("a queue has few commands");
        let unkept = self.unkept.fetch_add(commands, Ordering::Relaxed);
        if unkept >= KEEP_AFTER
            && let Ok(mut journal) = self.journal.try_lock()
            && journal.check().is_ok()
        {
            let _failed = self.write_changes(&mut journal);
            self.note_failure(&journal);
        }
    }

    /// Saves the state of the model if it has changed, durably.
    fn save_state(&self, journal: &mut Journal) -> io::Result<()> {
        let (Some(state), Some(model)) = (&self.state, self.kept()) else { return Ok(()) };
        let mut state = state.lock().expect("no thread panics with the state locked");
        if !state.has_changes() {
            return Ok(());
        }
        state.save(&*self.store, model).inspect_err(|_| journal.fail())
    }

    fn append(&self, journal: &mut Journal, entries: &[ZoneEntry]) -> io::Result<()> {
        self.store_end_ahead(journal, entries)?;
        journal.append(&*self.store, self.sums.as_ref(), entries)
    }

    /// Writes the checksums of everything that has been accepted, for the next sync.
    fn flush_sums(&self, journal: &mut Journal) -> io::Result<()> {
        let flushed = self.sums.iter().try_for_each(|sums| sums.flush(&*self.store));
        flushed.inspect_err(|_| journal.fail())
    }

    /// Syncs the file. After a failure it is unknown what is durable, so the journal fails.
    fn sync(&self, journal: &mut Journal) -> io::Result<()> {
        self.store.sync().inspect_err(|_| journal.fail())
    }

    /// Resets or finishes a zone. The entry is durable before the next command executes.
    fn change(&self, request: &mut Request) -> ExecResult {
        let (zone, finish) = (request.zone(), request.op() == Op::ZoneFinish);
        let mut journal = self.journal();
        let mut tail = self.tail(zone);
        if tail.is_busy() {
            return ExecResult::Retry;
        }
        if journal.has_failed() {
            return ExecResult::Done(Status::IoError);
        }
        let (before, was_explicit) = ((tail.done, tail.finished), tail.explicit);
        if let Err(status) = self.apply(request) {
            return ExecResult::Refused(status);
        }
        if finish {
            tail.finished = true;
        } else {
            tail.empty(self.layout.has_sessions());
            if was_explicit && self.store_end(zone, &mut tail).is_err() {
                return ExecResult::Done(Status::IoError);
            }
        }
        if before == (tail.done, tail.finished) && !tail.dirty {
            return ExecResult::Done(Status::Ok);
        }
        let entry = tail.describe(journal.durable(zone), self.geometry());
        let durable = if entry.written > journal.durable(zone).written {
            self.flush_sums(&mut journal)
                .and_then(|()| self.sync(&mut journal))
                .and_then(|()| self.append(&mut journal, &[entry]))
        } else {
            self.append(&mut journal, &[entry])
        };
        if durable.is_err() {
            self.note_failure(&journal);
            return ExecResult::Done(Status::IoError);
        }
        if !finish {
            // A failure is harmless: nothing after the data is ever read.
            let _kept = self.discard_beyond_data(&entry);
        }
        ExecResult::Done(Status::Ok)
    }

    /// Resets all zones, a batch at a time.
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
                // Zones that are read-only or offline are skipped.
                if was_empty || self.zones.reset(zone, || ()).is_err() {
                    continue;
                }
                let was_explicit = tail.explicit;
                tail.empty(self.layout.has_sessions());
                if was_explicit && self.store_end(zone, &mut tail).is_err() {
                    return ExecResult::Done(Status::IoError);
                }
                changed.push((tail.describe(journal.durable(zone), self.geometry()), tail));
                if changed.len() == RESET_AT_ONCE {
                    break;
                }
            }
            let entries: Vec<ZoneEntry> = changed.iter().map(|(entry, _)| *entry).collect();
            if !entries.is_empty() && self.append(&mut journal, &entries).is_err() {
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

    /// Discards data of a conventional zone.
    fn discard(&self, request: &mut Request) -> ExecResult {
        let zone = request.zone();
        let mut tail = self.tail(zone);
        if let Err(status) = self.apply(request) {
            return ExecResult::Refused(status);
        }
        let Some(slot) = tail.slot else { return ExecResult::Done(Status::Ok) };
        let range = self.range_in_zone(request);
        if tail.overlaps(&range) {
            return ExecResult::Retry;
        }
        self.used.store(true, Ordering::Relaxed);
        if let Some(wait) = self.begin_overwrite(&mut tail, zone, &range) {
            return wait;
        }
        let len = (range.end - range.start).to_bytes().0;
        let discarded = self.store.discard(self.layout.in_slot(slot, range.start), len);
        let mut zeroes = Vec::new();
        if let Some(sums) = &self.sums {
            let len = usize::try_from(len).expect("a zone's checksums fit in memory");
            sums.summer().append_zeroes(&mut zeroes, len);
        }
        let new = discarded.is_ok().then_some(&zeroes[..]);
        let summed = self.end_overwrite(&mut tail, zone, &range, new);
        self.unsynced.store(true, Ordering::Relaxed);
        ExecResult::Done(discarded.and(summed).map_or_else(Status::from, |()| Status::Ok))
    }

    /// Calls `each` for the part of a range in each of its zones, with the range in the zone and that of
    /// the bytes.
    fn for_each_zone(
        &self,
        sector: Sector,
        len: usize,
        mut each: impl FnMut(ZoneNo, Range<Sector>, Range<usize>) -> io::Result<()>,
    ) -> Result<(), Status> {
        let end = sector + Sector(len as u64 / 512);
        let (mut at, mut done) = (sector, 0);
        while at < end {
            let zone = self.zone_of(at);
            let to = end.min(self.limits.zone_start(zone) + self.zone_size());
            let bytes = usize::try_from((to - at).to_bytes().0).expect("a part of the buffer");
            let range = self.offset_in_zone(zone, at)..self.offset_in_zone(zone, to);
            each(zone, range, done..done + bytes)?;
            (at, done) = (to, done + bytes);
        }
        Ok(())
    }

    /// Makes everything durable, empties the log and frees reserved space: an orderly shutdown.
    ///
    /// # Errors
    /// The errors of the file. The image is as after a loss of power then.
    pub fn close(&self) -> io::Result<()> {
        let mut journal = self.journal();
        self.commit_with(&mut journal)?;
        self.save_state(&mut journal)?;
        let image = self.superblock.image();
        if !self.used.load(Ordering::Relaxed) && !journal.has_log() {
            return self.session().close(&*self.store, &self.layout, image);
        }
        self.discard_unused(&journal, |tail| tail.reserved > tail.done)?;
        self.flush_sums(&mut journal)?;
        self.sync(&mut journal)?;
        // No command is in flight, and the commit has made all of them durable.
        self.regions().clear(&*self.store).inspect_err(|_| journal.fail())?;
        journal.checkpoint(&*self.store)?;
        self.session().close(&*self.store, &self.layout, image)
    }

    /// Frees all space of the file that holds no data.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn reclaim_space(&self) -> io::Result<()> {
        let journal = self.journal();
        for &slot in &self.slots().free {
            self.store.discard(self.layout.slot(slot), self.layout.slot_size())?;
        }
        self.discard_unused(&journal, |_| true)
    }

    fn discard_unused(
        &self,
        journal: &Journal,
        which: impl Fn(&ZoneTail) -> bool,
    ) -> io::Result<()> {
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
        // What did not become durable is lost, as with a loss of power.
        let _lost = self.close();
    }
}

impl MediumAccess for ImageDevice {
    fn peek(&self, sector: Sector, to: &mut [u8]) -> Result<(), Status> {
        self.for_each_zone(sector, to.len(), |zone, range, part| {
            let (at, len) = self.locate(&self.tail(zone), zone, &range);
            let len = usize::try_from(len).expect("a part of the buffer");
            let mut data = Buf::zeroed(len);
            self.store.read(at, &mut data)?;
            to[part.clone()].fill(0);
            to[part.start..part.start + len].copy_from_slice(&data);
            Ok(())
        })
    }

    fn poke(&self, sector: Sector, from: &[u8]) -> Result<(), Status> {
        self.for_each_zone(sector, from.len(), |zone, range, part| {
            let mut tail = self.tail(zone);
            let slot = self.slot_of(zone, &mut tail)?;
            if self.begin_overwrite(&mut tail, zone, &range).is_some() {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            let data = Buf::from(&from[part]);
            let written = self.store.write(self.layout.in_slot(slot, range.start), &data);
            let summed = self.end_overwrite(&mut tail, zone, &range, None);
            self.unsynced.store(true, Ordering::Relaxed);
            self.mark_dirty(zone, &mut tail);
            written.and(summed)
        })
    }

    fn shorten(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        let mut journal = self.journal();
        let mut tail = self.tail(zone);
        if tail.is_busy() || journal.has_failed() {
            return Err(Status::IoError);
        }
        self.zones.rewind(zone, wp, || ())?;
        tail.shorten(wp, self.layout.has_sessions());
        let entry = tail.describe(journal.durable(zone), self.geometry());
        let appended = self
            .flush_sums(&mut journal)
            .and_then(|()| self.sync(&mut journal))
            .and_then(|()| self.append(&mut journal, &[entry]));
        self.note_failure(&journal);
        appended.and_then(|()| self.discard_beyond_data(&entry)).map_err(Status::from)
    }

    fn close_zones(&self) {
        self.zones.close_all();
        for zone in (self.geometry().conventional..self.geometry().zones).map(ZoneNo) {
            // A failure is one of the image, which takes no more commands then.
            let _failed = self.set_explicit(zone, false);
        }
    }

    fn settle(&self) -> Result<(), Status> {
        match self.commit() {
            Status::Ok => Ok(()),
            status => Err(status),
        }
    }
}
