//! The translation layer below the controller: where written pages get their places, and what reads and
//! programs the dies do.
//!
//! ```text
//!   controller --> write buffer --> write completes
//!                      |
//!                      v        a unit is full
//!                 translation -------------------> dies
//!                      ^                            |
//!                  collector <-- pages of victims --+
//! ```
//!
//! Invariants: pages get their places in the order in which they arrived in the buffer, and wait there
//! for the collection if there is no place. The buffer outlives a loss of power, so that a flush has
//! nothing to wait for.
use super::SsdConfig;
use super::collector::{COLLECTS, Collector, LOADS};
use super::layout::Layout;
use super::map::FlashMap;
use super::page::{self, PAGE, page_number, pages_of};
use super::placement_events::Events;
use super::translation::{Counts, Page, Place, Translation};
use super::units::{Pages, Units};
use crate::control::{Level, TranslationStats};
use crate::flash::{Command, CommandId, Controller, DieOp, Event, Media, Program, Stream};
use crate::storage::ModelStorage;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use zonal_blk::{
    Bytes, Nanos, Op, PlacementEvent, PlacementEventType, PlacementId, Sector, Status, ZoneNo,
};

/// The drive has no zones: for its streams of reads it is a single one.
const ALL: ZoneNo = ZoneNo(0);

/// A page in the buffer that waits for the translation layer to place it, with its write stream, or a
/// discard that follows one.
#[derive(Clone, Copy, Debug)]
enum Unplaced {
    Write(Page, u8),
    Discard(Page),
}

/// The media of a drive with a translation layer.
pub(crate) struct Translated {
    storage: Arc<ModelStorage>,
    pub(super) layout: Layout,
    pub(super) translation: Translation,
    /// The map on the flash, if a part of it is in memory.
    pub(super) map: Option<Box<FlashMap>>,
    /// Counts of the writes before the first command.
    before: Counts,
    pub(super) units: Units,
    pub(super) collector: Collector,
    /// The placement identifiers; none without data placement.
    ids: Vec<PlacementId>,
    pub(super) placement_events: Events,
    unplaced: VecDeque<Unplaced>,
    /// Pages of the host that had to wait there.
    waited: u64,
    /// Bytes of the buffer that the host's data take, and those that they may take.
    buffered: u64,
    buffer: u64,
}

/// A drive whose controller the media are below.
pub(super) type Drive = crate::flash::Drive<Translated>;

/// The units of a drive whose dies are idle, and the pages of those that are not full.
fn units_of(layout: &Layout, translation: &Translation, map: Option<&FlashMap>) -> (Units, Pages) {
    let (mut units, mut waiting) = Units::new(layout.unit, translation);
    if let Some(map) = map {
        waiting.collected += units.add_map(&map.layer).collected;
    }
    (units, waiting)
}

/// A drive that has been written as the configuration says, whose data `storage` keeps.
pub(super) fn drive(
    config: &SsdConfig,
    mut translation: Translation,
    storage: Arc<ModelStorage>,
) -> Drive {
    let mut map = config.flash_map().map(Box::new);
    match &mut map {
        None => config.prefill.apply(&mut translation, config.seed, |_| {}),
        Some(map) => {
            config.prefill.apply(&mut translation, config.seed, |page| map.prefill(page));
        }
    }
    let layout = Layout::new(config);
    let (units, waiting) = units_of(&layout, &translation, map.as_deref());
    let media = Translated {
        storage,
        layout,
        units,
        before: translation.counts(),
        ids: config.placement().map_or_else(Vec::new, |layout| layout.ids),
        placement_events: Events::default(),
        collector: Collector::new(config.gc_buffer, waiting.collected, layout.unit),
        translation,
        map,
        unplaced: VecDeque::new(),
        waited: 0,
        buffered: u64::from(waiting.host) * u64::from(PAGE),
        buffer: config.buffer.0 - config.gc_buffer.0,
    };
    Drive::new(&config.setup(), config.clone(), media)
}

impl Drive {
    /// Reads what is on the flash: data in the buffer, data that were read ahead and pages without data
    /// take no flash operation.
    pub(super) fn read_pages(&mut self, id: CommandId) {
        let mut ops = 0;
        if self.command(id).stream != Stream::Ahead {
            let mut run: Option<(Place, u32)> = None;
            for page in pages_of(self.command(id).request()) {
                let found = self.media.translation.find(page);
                let place = found.filter(|&place| self.media.units.is_programmed(place));
                match (&mut run, place) {
                    (Some((first, len)), Some(place)) if self.continues(*first, *len, place) => {
                        *len += 1;
                    }
                    (_, place) => {
                        ops += self.read_run(id, run);
                        run = place.map(|place| (place, 1));
                    }
                }
            }
            ops += self.read_run(id, run);
        }
        self.wait_to_send(id, ops);
    }

    /// Goes on with another translation layer, and another one of the map if it has one, before the first
    /// command: what is not programmed of the units that are filled is in the buffer. With them are their
    /// counts of the writes before the first command that there ever was.
    pub(super) fn resume(
        &mut self,
        (translation, before): (Translation, Counts),
        map: Option<(Translation, Counts)>,
    ) {
        if let (Some(map), Some((layer, before))) = (&mut self.media.map, map) {
            map.resume(layer, before);
        }
        let (units, waiting) =
            units_of(&self.media.layout, &translation, self.media.map.as_deref());
        self.media.units = units;
        self.media.collector =
            Collector::new(self.config.gc_buffer, waiting.collected, self.media.layout.unit);
        self.media.buffered = u64::from(waiting.host) * u64::from(PAGE);
        self.media.before = before;
        self.media.translation = translation;
    }

    /// Counts of the writes before the first command.
    pub(super) fn before(&self) -> Counts {
        self.media.before
    }

    /// How full and busy its parts are.
    pub(super) fn levels(&self) -> Vec<Level> {
        let config = &self.config;
        let busy = self.busy_dies();
        let shape = self.media.translation.shape();
        let free = u64::from(self.media.translation.free());
        let mapped = u64::from(self.media.translation.mapped());
        let bytes = self.media.buffered + self.media.collector.buffered();
        let waiting = self.media.unplaced.iter().filter(|what| matches!(what, Unplaced::Write(..)));
        let waiting = if self.host_waits() { waiting.count() } else { 0 };
        let waiting = waiting as u64 * u64::from(PAGE);
        let by_share = self.media.translation.closed_by_share();
        let quarters = [
            "superblocks up to 1/4 valid",
            "superblocks up to 2/4 valid",
            "superblocks up to 3/4 valid",
            "superblocks over 3/4 valid",
        ];
        let quarters = quarters.into_iter().zip(by_share);
        let quarters =
            quarters.map(|(name, value)| Level { name, value, of: shape.superblocks.into() });
        let parts = [
            Level { name: "write buffer, bytes", value: bytes, of: config.buffer.0 },
            Level { name: "dies programming or erasing", value: busy, of: config.dies.into() },
            Level { name: "free superblocks", value: free, of: shape.superblocks.into() },
            Level { name: "pages with data", value: mapped, of: shape.logical_pages.into() },
            Level { name: "waits for the collection, bytes", value: waiting, of: config.buffer.0 },
        ];
        let changed = self.media.map.as_ref().map(|map| {
            let (value, of) = map.changed();
            Level { name: "translation pages changed in memory", value, of }
        });
        parts.into_iter().chain(quarters).chain(changed).collect()
    }

    /// Statistics of the translation layer since the first command.
    pub(super) fn stats(&self) -> TranslationStats {
        let counts = self.media.translation.counts().since(&self.media.before);
        let mut stats = page::stats(&self.media.translation, counts, self.media.waited);
        if let Some(map) = &self.media.map {
            let of_map = page::stats(&map.layer, map.counts(), 0);
            stats.media += of_map.media;
            stats.erased_superblocks += of_map.erased_superblocks;
            stats.free_superblocks += of_map.free_superblocks;
            stats.superblocks += of_map.superblocks;
            stats.map = Some(map.stats());
        }
        stats
    }

    /// Whether a place is the next one of the same unit.
    fn continues(&self, first: Place, len: u32, place: Place) -> bool {
        place.superblock == first.superblock
            && place.slot == first.slot + len
            && self.media.layout.unit_of(place) == self.media.layout.unit_of(first)
    }

    /// Has a die read a run of pages of a unit. Returns the number of operations.
    fn read_run(&mut self, command: CommandId, run: Option<(Place, u32)>) -> u32 {
        let Some((first, len)) = run else { return 0 };
        self.read_flash(command, first, first.slot + len - 1, len);
        1
    }

    /// Has a die read this many pages of a unit, the first at `from` and the last in slot `last`.
    pub(super) fn read_flash(&mut self, command: CommandId, from: Place, last: u32, pages: u32) {
        let die = self.media.layout.die(from.superblock, self.media.layout.unit_of(from));
        let (first, last) = self.media.layout.flash_pages(from.slot, last);
        let bytes = u64::from(pages) * u64::from(PAGE);
        let zone = ZoneNo(from.superblock);
        self.enqueue(die, DieOp::Read { command, zone, first, last, bytes });
    }

    /// Pages have arrived in the buffer, or are discarded: they get their places, or wait for one.
    #[inline]
    fn accept(&mut self, what: Unplaced) {
        if self.media.unplaced.is_empty() && self.place(what) {
            return;
        }
        let waits = matches!(what, Unplaced::Write(..)) && !self.media.map_is_behind();
        self.media.waited += u64::from(waits);
        self.media.unplaced.push_back(what);
    }

    /// Gives a page its place. Returns false if it has to wait for one, or for the map.
    #[inline]
    fn place(&mut self, what: Unplaced) -> bool {
        if self.media.map.is_some() { self.place_in_map(what) } else { self.place_data(what) }
    }

    /// The same where the map is on the flash.
    #[cold]
    fn place_in_map(&mut self, what: Unplaced) -> bool {
        if self.media.map_is_behind() {
            return false;
        }
        let (page, changes) = match what {
            Unplaced::Write(page, _) => (page, true),
            Unplaced::Discard(page) => (page, self.media.translation.find(page).is_some()),
        };
        let placed = self.place_data(what);
        if placed {
            self.update_map(page, changes);
        }
        placed
    }

    fn place_data(&mut self, what: Unplaced) -> bool {
        match what {
            Unplaced::Discard(page) => {
                self.media.translation.discard(page);
            }
            Unplaced::Write(..) if self.media.collector.pace.host_is_ahead() => return false,
            Unplaced::Write(page, stream) => {
                let frontier = self.frontier(stream);
                if !self.media.translation.can_write(frontier) {
                    return false;
                }
                let place = self.media.translation.write(page, frontier);
                self.media.collector.pace.host_wrote();
                self.arrived(place, 1, false);
            }
        }
        true
    }

    /// The frontier of a write stream.
    #[inline]
    fn frontier(&self, stream: u8) -> u16 {
        if self.media.ids.is_empty() {
            return 0;
        }
        let id = stream.checked_sub(1).map(|at| self.media.ids[usize::from(at)]);
        let (unit_handle, group) =
            id.map_or((self.media.ids[0].unit_handle, None), |id| (id.unit_handle, Some(id.group)));
        self.media.translation.frontier(unit_handle, group)
    }

    /// Its placement handles.
    pub(super) fn handles(&self) -> u16 {
        self.media.ids.last().map_or(0, |id| id.handle + 1)
    }

    /// The frontier of a placement identifier, in its own group.
    fn frontier_of_id(&self, stream: u8) -> (u16, PlacementId) {
        let id = self.media.ids[usize::from(stream) - 1];
        (self.media.translation.shape().frontier(id.unit_handle, id.group), id)
    }

    /// What can still be written to the reclaim unit of a write stream.
    pub(super) fn available(&self, stream: u8) -> Sector {
        let pages = self.media.translation.room(self.frontier_of_id(stream).0);
        Bytes(u64::from(pages) * u64::from(PAGE)).to_sectors()
    }

    /// Has a write stream go on in another reclaim unit.
    pub(super) fn update(&mut self, now: Nanos, stream: u8) {
        self.advance(now);
        let (frontier, id) = self.frontier_of_id(stream);
        let closed = self.media.translation.close_early(frontier, self.media.layout.unit);
        let Some((superblock, _)) = closed else { return };
        if let Some(unit) = self.media.units.pad(superblock) {
            self.program(superblock, unit);
        }
        let kind = PlacementEventType::UnitNotFull;
        let (handle, moved) = (id.handle, Sector(0));
        let event = PlacementEvent { kind, handle, at: now, id: Some(id), named: None, moved };
        self.media.placement_events.add(event);
        self.place_waiting();
        self.collect();
    }

    /// Counts of data placement.
    pub(super) fn placement_counts(&self) -> [(&'static str, u64); 3] {
        let padded = self.media.translation.counts().since(&self.media.before).padded;
        let count = |kind| self.media.placement_events.count(kind);
        [
            ("bytes of padding", padded * u64::from(PAGE)),
            ("reclaim units left before they were full", count(PlacementEventType::UnitNotFull)),
            ("invalid placement identifiers", count(PlacementEventType::InvalidId)),
        ]
    }

    /// The collection begins to move the pages of a reclaim unit.
    pub(super) fn note_reallocation(&mut self, superblock: u32) {
        let pages = self.media.translation.valid(superblock);
        let (unit_handle, group) = self.media.translation.origin(superblock);
        let is_of = |id: &&PlacementId| (id.unit_handle, id.group) == (unit_handle, group);
        let Some(&id) = self.media.ids.iter().find(is_of).filter(|_| pages > 0) else { return };
        let moved = Bytes(u64::from(pages) * u64::from(PAGE)).to_sectors();
        let kind = PlacementEventType::Reallocated;
        let (handle, at) = (id.handle, self.now);
        self.media.placement_events.add(PlacementEvent {
            kind,
            handle,
            at,
            id: Some(id),
            named: None,
            moved,
        });
    }

    /// Pages that have places in a row of one unit are in the buffer: the unit is programmed once all its
    /// pages are.
    pub(super) fn arrived(&mut self, place: Place, count: u32, collected: bool) {
        let unit = self.media.layout.unit_of(place);
        if self.media.units.add(place.superblock, unit, count, collected) {
            self.program(place.superblock, unit);
        }
    }

    /// Has a die program a unit.
    fn program(&mut self, superblock: u32, unit: u32) {
        let die = self.media.layout.die(superblock, unit);
        let (zone, bytes) = (ZoneNo(superblock), self.config.unit().0);
        let program = Program { zone, bytes, mark: unit, steps: 1, yields: false };
        self.enqueue(die, DieOp::Program(program));
    }

    /// Whether the host waits for the collection.
    pub(super) fn host_waits(&self) -> bool {
        self.media.is_held()
    }

    /// There may be room again for what waits.
    pub(super) fn place_waiting(&mut self) {
        while let Some(&what) = self.media.unplaced.front()
            && self.place(what)
        {
            self.media.unplaced.pop_front();
        }
    }
}

impl Media for Translated {
    type Config = SsdConfig;
    type Note = ();
    type Event = Infallible;
    const HAS_ZONES: bool = false;

    fn clear((): &mut ()) {}

    fn execute(drive: &mut Drive, id: CommandId, now: Nanos) {
        let command = &mut drive.commands[id.0 as usize];
        let request = command.request.as_deref_mut().expect("the command is outstanding");
        let op = request.op();
        let queue = u16::try_from(command.queue).expect("hardware queues are counted in 16 bits");
        let ids = &drive.media.ids;
        let is_known = ids.is_empty() || usize::from(request.stream()) <= ids.len();
        let executed = drive.media.storage.observed(Some(queue), request, |storage, request| {
            if !is_known {
                return Err(Status::Invalid);
            }
            storage.map_or(Ok(()), |storage| storage.apply(request, |_| {}))
        });
        let writes = matches!(op, Op::Write | Op::WriteZeroes);
        let time = match op {
            _ if writes => drive.config.write_time,
            Op::Read => drive.config.read_time,
            _ => drive.config.manage_time,
        };
        let decided = now + time;
        if let Err(status) = executed {
            return drive.refuse(id, status, decided);
        }
        request.set_status(Status::Ok);
        if writes {
            let bytes = Self::space_of(command);
            if !drive.has_stalled() && drive.media.reserve(bytes) {
                Self::transfer(drive, id, decided);
            } else {
                drive.stall(id, decided);
            }
            return;
        }
        let mut latency = Nanos(0);
        if op == Op::Read {
            latency = drive.config.latency;
            let (from, to) = (request.sector().to_bytes().0, request.end().to_bytes().0);
            command.stream = drive.streams.read(ALL, from, to);
        }
        drive.free_at = decided;
        drive.events.add(decided + latency, Event::Begin(id));
    }

    fn space_of(command: &Command<()>) -> u64 {
        let pages = pages_of(command.request());
        u64::from(pages.end - pages.start) * u64::from(PAGE)
    }

    fn reserve(&mut self, bytes: u64) -> bool {
        let fits = self.buffered + bytes <= self.buffer;
        if fits {
            self.buffered += bytes;
        }
        fits
    }

    fn transfer(drive: &mut Drive, id: CommandId, from: Nanos) {
        let bytes = drive.command(id).bytes();
        let end = from + drive.link.time(bytes);
        drive.free_at = end;
        let latency = drive.write_latency();
        drive.events.add(end + latency, Event::Complete(id));
    }

    /// Pages that are discarded in part keep their data.
    fn begin(drive: &mut Drive, id: CommandId) {
        let request = drive.command(id).request();
        if request.op() == Op::Discard {
            let (from, to) = (request.sector().to_bytes().0, request.end().to_bytes().0);
            let page = u64::from(PAGE);
            for page in page_number(from.div_ceil(page))..page_number(to / page) {
                drive.accept(Unplaced::Discard(page));
            }
        }
    }

    fn read(drive: &mut Drive, id: CommandId) {
        if drive.media.map.is_none() || drive.look_up(id) {
            drive.read_pages(id);
        }
    }

    /// The pages of a write get their places.
    fn finish(drive: &mut Drive, id: CommandId) -> bool {
        let request = drive.command(id).request();
        if matches!(request.op(), Op::Write | Op::WriteZeroes) {
            let stream = request.stream();
            for page in pages_of(request) {
                drive.accept(Unplaced::Write(page, stream));
            }
            drive.collect();
        }
        true
    }

    fn programmed(drive: &mut Drive, _die: u32, program: Program) {
        let Pages { host, collected } = drive.media.units.programmed(program.zone.0, program.mark);
        drive.media.buffered -= u64::from(host) * u64::from(PAGE);
        drive.media.collector.release(collected);
        drive.collect();
        if drive.media.map.is_some() {
            drive.go_on_with_map();
        }
    }

    #[inline]
    fn op_done(drive: &mut Drive, id: CommandId) {
        match id.0 {
            ..COLLECTS => {
                drive.op_done(id);
            }
            COLLECTS..LOADS => drive.collected(id),
            LOADS.. => drive.loaded(id),
        }
    }

    fn erased(drive: &mut Drive, id: CommandId) {
        drive.erased(id);
    }

    fn event(_drive: &mut Drive, event: Infallible) {
        match event {}
    }

    fn is_held(&self) -> bool {
        !self.unplaced.is_empty() && !self.map_is_behind()
    }
}
