//! The controller of the drive, and the events that its commands cause.
//!
//! ```text
//!   commands --> controller + transfer --> write buffer --> write completes
//!                (one at a time)               |
//!                                              v        a unit is full
//!                                         translation -------------------> dies
//!                                              ^                            |
//!                                          collector <-- pages of victims --+
//! ```
//!
//! Invariants: commands are fetched in the order of submission; a write completes when its data are in
//! the write buffer; pages get their places in the order in which they arrived there, and wait there
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
use crate::control::{Lateness, Level, TranslationStats};
use crate::flash::{
    CommandId, Controller, DieOp, DieStep, Event, EventQueue, Flash, FlashActivity, FlashEntry,
    FlashTraceSink, Queues, Slot, Slots, Stream, Streams, Transfers,
};
use crate::storage::ModelStorage;
use std::collections::VecDeque;
use std::sync::Arc;
use zonal_blk::{
    Bytes, Nanos, Op, PlacementEvent, PlacementEventType, PlacementId, Request, Sector, Slab,
    Status, Tag, ZoneNo,
};

/// The drive has no zones: for its streams of reads it is a single one.
const ALL: ZoneNo = ZoneNo(0);

/// An outstanding command.
pub(super) struct Command {
    pub(super) request: Box<Request>,
    queue: usize,
    /// The stream that a read continues.
    stream: Stream,
    /// The place of a read that has begun.
    slot: Slot,
    /// Flash operations that it waits for, or translation pages.
    pub(super) pending_ops: u32,
}

impl Command {
    /// Its hardware queue and its tag.
    fn place(&self) -> (u32, Tag) {
        let queue = u32::try_from(self.queue).expect("there are at most 2^16 queues");
        (queue, self.request.tag())
    }
}

/// A page in the buffer that waits for the translation layer to place it, with its write stream, or a
/// discard that follows one.
#[derive(Clone, Copy, Debug)]
enum Unplaced {
    Write(Page, u8),
    Discard(Page),
}

/// State shared by all hardware queues, under one lock.
pub(super) struct Drive {
    config: SsdConfig,
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
    pub(super) flash: Flash,
    pub(super) events: EventQueue,
    pub(super) now: Nanos,
    advances_to: Nanos,
    lateness: Lateness,
    commands: Slab<Command>,
    /// Commands not yet fetched.
    waiting: VecDeque<CommandId>,
    /// Writes that were fetched and found no space in the buffer, since when, and whether data in it waited
    /// for the collection then.
    stalled: VecDeque<(CommandId, Nanos, bool)>,
    unplaced: VecDeque<Unplaced>,
    /// Pages of the host that had to wait there.
    waited: u64,
    /// When the controller is free.
    free_at: Nanos,
    /// An event will have the controller go on when it is free.
    wakes: bool,
    /// Bytes of the buffer that the host's data take, and those that they may take.
    buffered: u64,
    buffer: u64,
    link: Transfers,
    read_link: Transfers,
    /// Reading ahead of a stream.
    ahead: Transfers,
    /// When the link to the host is free.
    link_out: Nanos,
    /// When what has been read ahead and asked for is in memory.
    ahead_at: Nanos,
    streams: Streams,
    slots: Slots,
    /// Reads that wait for a place.
    waiting_reads: VecDeque<CommandId>,
    queues: Queues,
    trace: Option<FlashTraceSink>,
}

/// The units of a drive whose dies are idle, and the pages of those that are not full.
fn units_of(layout: &Layout, translation: &Translation, map: Option<&FlashMap>) -> (Units, Pages) {
    let (mut units, mut waiting) = Units::new(layout.unit, translation);
    if let Some(map) = map {
        waiting.collected += units.add_map(&map.layer).collected;
    }
    (units, waiting)
}

impl Drive {
    pub(super) fn new(
        config: &SsdConfig,
        mut translation: Translation,
        storage: Arc<ModelStorage>,
    ) -> Self {
        let mut map = config.flash_map().map(Box::new);
        match &mut map {
            None => config.prefill.apply(&mut translation, config.seed, |_| {}),
            Some(map) => {
                config.prefill.apply(&mut translation, config.seed, |page| map.prefill(page));
            }
        }
        let layout = Layout::new(config);
        let (units, waiting) = units_of(&layout, &translation, map.as_deref());
        Drive {
            storage,
            layout,
            units,
            before: translation.counts(),
            ids: config.placement().map_or_else(Vec::new, |layout| layout.ids),
            placement_events: Events::default(),
            collector: Collector::new(config.gc_buffer, waiting.collected, layout.unit),
            translation,
            map,
            flash: Flash::new(&config.nand()),
            events: EventQueue::default(),
            now: Nanos(0),
            advances_to: Nanos(0),
            lateness: Lateness::default(),
            commands: Slab::default(),
            waiting: VecDeque::new(),
            stalled: VecDeque::new(),
            unplaced: VecDeque::new(),
            waited: 0,
            free_at: Nanos(0),
            wakes: false,
            buffered: u64::from(waiting.host) * u64::from(PAGE),
            buffer: config.buffer.0 - config.gc_buffer.0,
            link: Transfers::at(config.link_rate),
            read_link: Transfers::at(config.host_link_rate()),
            ahead: Transfers::at(config.nand().read_ahead_rate(config.dies)),
            link_out: Nanos(0),
            ahead_at: Nanos(0),
            streams: config.streams(),
            slots: Slots::new(config.reads),
            waiting_reads: VecDeque::new(),
            queues: Queues::default(),
            trace: None,
            config: config.clone(),
        }
    }

    /// Goes on with another translation layer, and another one of the map if it has one, before the first
    /// command: what is not programmed of the units that are filled is in the buffer. With them are their
    /// counts of the writes before the first command that there ever was.
    pub(super) fn resume(
        &mut self,
        (translation, before): (Translation, Counts),
        map: Option<(Translation, Counts)>,
    ) {
        if let (Some(map), Some((layer, before))) = (&mut self.map, map) {
            map.resume(layer, before);
        }
        let (units, waiting) = units_of(&self.layout, &translation, self.map.as_deref());
        self.units = units;
        self.collector = Collector::new(self.config.gc_buffer, waiting.collected, self.layout.unit);
        self.buffered = u64::from(waiting.host) * u64::from(PAGE);
        self.before = before;
        self.translation = translation;
    }

    /// Counts of the writes before the first command.
    pub(super) fn before(&self) -> Counts {
        self.before
    }

    /// Sends what the dies do to `sink` from now on.
    pub(super) fn trace_to(&mut self, sink: FlashTraceSink) {
        self.trace = Some(sink);
        self.flash.steps = Some(Vec::new());
    }

    /// Sends the steps of dies that are over.
    #[cold]
    fn send_steps(&mut self) {
        let (Some(sink), Some(steps)) = (&mut self.trace, &mut self.flash.steps) else { return };
        for DieStep { die, activity, command, zone: _, from, to } in steps.drain(..) {
            let command = command.filter(|id| id.0 < COLLECTS);
            let command = command.map(|id| self.commands[id.0 as usize].place());
            sink(&FlashEntry { from, to, activity, die: Some(die), zone: None, command });
        }
    }

    /// A write has waited for space in the buffer, in which data wait for the collection if it is `held`.
    #[cold]
    fn send_stall(&mut self, id: CommandId, from: Nanos, to: Nanos, held: bool) {
        let command = Some(self.commands[id.0 as usize].place());
        let Some(sink) = &mut self.trace else { return };
        let activity = if held { FlashActivity::Collection } else { FlashActivity::BufferFull };
        sink(&FlashEntry { from, to, activity, die: None, zone: None, command });
    }

    /// How full and busy its parts are.
    pub(super) fn levels(&self) -> Vec<Level> {
        let config = &self.config;
        let busy = (0..config.dies).filter(|&die| self.flash.is_writing(die)).count() as u64;
        let shape = self.translation.shape();
        let free = u64::from(self.translation.free());
        let mapped = u64::from(self.translation.mapped());
        let bytes = self.buffered + self.collector.buffered();
        let waiting = self.unplaced.iter().filter(|what| matches!(what, Unplaced::Write(..)));
        let waiting = if self.host_waits() { waiting.count() } else { 0 };
        let waiting = waiting as u64 * u64::from(PAGE);
        let by_share = self.translation.closed_by_share();
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
        let changed = self.map.as_ref().map(|map| {
            let (value, of) = map.changed();
            Level { name: "translation pages changed in memory", value, of }
        });
        parts.into_iter().chain(quarters).chain(changed).collect()
    }

    /// Commands that completed late.
    pub(super) fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Statistics of the translation layer since the first command.
    pub(super) fn stats(&self) -> TranslationStats {
        let counts = self.translation.counts().since(&self.before);
        let mut stats = page::stats(&self.translation, counts, self.waited);
        if let Some(map) = &self.map {
            let of_map = page::stats(&map.layer, map.counts(), 0);
            stats.media += of_map.media;
            stats.erased_superblocks += of_map.erased_superblocks;
            stats.free_superblocks += of_map.free_superblocks;
            stats.superblocks += of_map.superblocks;
            stats.map = Some(map.stats());
        }
        stats
    }

    /// Completes all pending work immediately.
    pub(super) fn drain(&mut self) {
        let now = self.now;
        while let Some(at) = self.events.next() {
            self.advance(at);
        }
        self.now = now;
        self.free_at = self.free_at.min(now);
        self.link_out = self.link_out.min(now);
        self.ahead_at = self.ahead_at.min(now);
        self.flash.drained(now);
    }

    pub(super) fn command(&mut self, id: CommandId) -> &mut Command {
        &mut self.commands[id.0 as usize]
    }

    fn process_events(&mut self, now: Nanos) {
        while let Some((at, event)) = self.events.pop(now) {
            self.now = self.now.max(at);
            match event {
                Event::Controller => self.wakes = false,
                Event::Begin(id) => self.begin_command(id),
                Event::Complete(id) => self.complete(id),
                Event::Die { die, round } => {
                    let op = self.flash.step(self.now, die, round, &mut self.events);
                    if self.trace.is_some() {
                        self.send_steps();
                    }
                    if let Some(op) = op {
                        self.die_op_done(op);
                    }
                    self.begin(die);
                }
                other => unreachable!("{other:?} is an event of drives with zones"),
            }
            self.run_controller(self.now);
        }
    }

    /// Has the controller process commands while it is free.
    #[inline]
    fn run_controller(&mut self, now: Nanos) {
        if self.waiting.is_empty() && self.stalled.is_empty() {
            return;
        }
        while self.free_at <= now {
            if let Some(&(id, since, held)) = self.stalled.front()
                && self.reserve(id)
            {
                self.stalled.pop_front();
                if self.trace.is_some() {
                    self.send_stall(id, since, now, held || self.host_waits());
                }
                self.transfer(id, now);
            } else if let Some(id) = self.waiting.pop_front() {
                self.execute(id, now);
            } else {
                return;
            }
        }
        if !self.wakes {
            self.wakes = true;
            self.events.add(self.free_at, Event::Controller);
        }
    }

    /// Reserves the buffer space of a write.
    fn reserve(&mut self, id: CommandId) -> bool {
        let pages = pages_of(&self.command(id).request);
        let bytes = u64::from(pages.end - pages.start) * u64::from(PAGE);
        let fits = self.buffered + bytes <= self.buffer;
        if fits {
            self.buffered += bytes;
        }
        fits
    }

    /// The controller fetches a command, which takes effect.
    fn execute(&mut self, id: CommandId, now: Nanos) {
        let command = &mut self.commands[id.0 as usize];
        let request = &mut *command.request;
        let op = request.op();
        let queue = u16::try_from(command.queue).expect("hardware queues are counted in 16 bits");
        let is_known = self.ids.is_empty() || usize::from(request.stream()) <= self.ids.len();
        let executed = self.storage.observed(Some(queue), request, |storage, request| {
            if !is_known {
                return Err(Status::Invalid);
            }
            storage.map_or(Ok(()), |storage| storage.apply(request, |_| {}))
        });
        let time = match op {
            Op::Write | Op::WriteZeroes => self.config.write_time,
            Op::Read => self.config.read_time,
            _ => self.config.manage_time,
        };
        self.free_at = now + time;
        match (executed, op) {
            (Err(status), _) => {
                request.refuse(status);
                self.events.add(self.free_at, Event::Complete(id));
            }
            (Ok(()), Op::Write | Op::WriteZeroes) => {
                request.set_status(Status::Ok);
                if self.stalled.is_empty() && self.reserve(id) {
                    self.transfer(id, self.free_at);
                } else {
                    self.stalled.push_back((id, self.free_at, self.host_waits()));
                }
            }
            (Ok(()), _) => {
                request.set_status(Status::Ok);
                let mut latency = Nanos(0);
                if op == Op::Read {
                    latency = self.config.latency;
                    let from = request.sector().to_bytes().0;
                    let to = request.end().to_bytes().0;
                    command.stream = self.streams.read(ALL, from, to);
                }
                self.events.add(self.free_at + latency, Event::Begin(id));
            }
        }
    }

    /// Transfers a write's data from the host into the buffer, where they have space.
    fn transfer(&mut self, id: CommandId, from: Nanos) {
        let sectors = self.command(id).request.nr_sectors();
        let end = from + self.link.time(Sector(sectors.into()).to_bytes().0);
        self.free_at = end;
        self.events.add(end + self.config.latency, Event::Complete(id));
    }

    /// The controller is done with a command other than a write.
    fn begin_command(&mut self, id: CommandId) {
        let request = &self.command(id).request;
        match request.op() {
            Op::Read => return self.begin_read(id),
            Op::Discard => {
                // Pages that are discarded in part keep their data.
                let (from, to) = (request.sector().to_bytes().0, request.end().to_bytes().0);
                let page = u64::from(PAGE);
                for page in page_number(from.div_ceil(page))..page_number(to / page) {
                    self.accept(Unplaced::Discard(page));
                }
            }
            _ => {}
        }
        self.complete(id);
    }

    /// Begins a read, unless the drive works on as many as it can.
    fn begin_read(&mut self, id: CommandId) {
        if self.slots.is_full() {
            return self.waiting_reads.push_back(id);
        }
        let alone = self.command(id).stream == Stream::Alone;
        self.command(id).slot = self.slots.take(alone);
        if self.map.is_none() || self.look_up(id) {
            self.read(id);
        }
    }

    /// Reads what is on the flash: data in the buffer, data that were read ahead and pages without data
    /// take no flash operation.
    pub(super) fn read(&mut self, id: CommandId) {
        let mut ops = 0;
        if self.command(id).stream != Stream::Ahead {
            let mut run: Option<(Place, u32)> = None;
            for page in pages_of(&self.command(id).request) {
                let found = self.translation.find(page);
                let place = found.filter(|&place| self.units.is_programmed(place));
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
        self.command(id).pending_ops = ops;
        if ops == 0 {
            self.send(id);
        }
    }

    /// Whether a place is the next one of the same unit.
    fn continues(&self, first: Place, len: u32, place: Place) -> bool {
        place.superblock == first.superblock
            && place.slot == first.slot + len
            && self.layout.unit_of(place) == self.layout.unit_of(first)
    }

    /// Has a die read a run of pages of a unit. Returns the number of operations.
    fn read_run(&mut self, command: CommandId, run: Option<(Place, u32)>) -> u32 {
        let Some((first, len)) = run else { return 0 };
        self.read_flash(command, first, first.slot + len - 1, len);
        1
    }

    /// Has a die read this many pages of a unit, the first at `from` and the last in slot `last`.
    pub(super) fn read_flash(&mut self, command: CommandId, from: Place, last: u32, pages: u32) {
        let die = self.layout.die(from.superblock, self.layout.unit_of(from));
        let (first, last) = self.layout.flash_pages(from.slot, last);
        let bytes = u64::from(pages) * u64::from(PAGE);
        let zone = ZoneNo(from.superblock);
        self.enqueue(die, DieOp::Read { command, zone, first, last, bytes });
    }

    /// Transfers a read's data to the host.
    fn send(&mut self, id: CommandId) {
        let command = self.command(id);
        let bytes = Sector(command.request.nr_sectors().into()).to_bytes().0;
        let ahead = command.stream == Stream::Ahead;
        let begin = self.now.max(self.link_out) + self.config.send_time;
        self.link_out = begin + self.read_link.time(bytes);
        let mut end = self.link_out;
        if ahead {
            self.ahead_at = self.now.max(self.ahead_at) + self.ahead.time(bytes);
            end = end.max(self.ahead_at);
        }
        self.events.add(end, Event::Complete(id));
    }

    /// Queues an operation on a die, which begins it if it is free.
    pub(super) fn enqueue(&mut self, die: u32, op: DieOp) {
        self.flash.add(self.now, die, op, &mut self.events);
        if self.trace.is_some() {
            self.send_steps();
        }
        self.begin(die);
    }

    fn begin(&mut self, die: u32) {
        let barrier = self.flash.begin(self.now, die, &mut self.events);
        debug_assert_eq!(barrier, None, "the drive has no barriers");
    }

    fn die_op_done(&mut self, op: DieOp) {
        match op {
            DieOp::Program { zone, mark: unit, .. } => {
                let Pages { host, collected } = self.units.programmed(zone.0, unit);
                self.buffered -= u64::from(host) * u64::from(PAGE);
                self.collector.release(collected);
                self.collect();
                if self.map.is_some() {
                    self.go_on_with_map();
                }
            }
            DieOp::Read { command, .. } if command.0 < COLLECTS => {
                let waiting = self.command(command);
                waiting.pending_ops -= 1;
                if waiting.pending_ops == 0 {
                    self.send(command);
                }
            }
            DieOp::Read { command, .. } if command.0 < LOADS => self.collected(command),
            DieOp::Read { command, .. } => self.loaded(command),
            DieOp::Erase { command, .. } => self.erased(command),
            other => unreachable!("{other:?} is an operation of drives with zones"),
        }
    }

    /// Pages have arrived in the buffer, or are discarded: they get their places, or wait for one.
    #[inline]
    fn accept(&mut self, what: Unplaced) {
        if self.unplaced.is_empty() && self.place(what) {
            return;
        }
        let waits = matches!(what, Unplaced::Write(..)) && !self.map_is_behind();
        self.waited += u64::from(waits);
        self.unplaced.push_back(what);
    }

    /// Gives a page its place. Returns false if it has to wait for one, or for the map.
    #[inline]
    fn place(&mut self, what: Unplaced) -> bool {
        if self.map.is_some() { self.place_in_map(what) } else { self.place_data(what) }
    }

    /// The same where the map is on the flash.
    #[cold]
    fn place_in_map(&mut self, what: Unplaced) -> bool {
        if self.map_is_behind() {
            return false;
        }
        let (page, changes) = match what {
            Unplaced::Write(page, _) => (page, true),
            Unplaced::Discard(page) => (page, self.translation.find(page).is_some()),
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
                self.translation.discard(page);
            }
            Unplaced::Write(..) if self.collector.pace.host_is_ahead() => return false,
            Unplaced::Write(page, stream) => {
                let frontier = self.frontier(stream);
                if !self.translation.can_write(frontier) {
                    return false;
                }
                let place = self.translation.write(page, frontier);
                self.collector.pace.host_wrote();
                self.arrived(place, 1, false);
            }
        }
        true
    }

    /// The frontier of a write stream.
    #[inline]
    fn frontier(&self, stream: u8) -> u16 {
        if self.ids.is_empty() {
            return 0;
        }
        let id = stream.checked_sub(1).map(|at| self.ids[usize::from(at)]);
        let (unit_handle, group) =
            id.map_or((self.ids[0].unit_handle, None), |id| (id.unit_handle, Some(id.group)));
        self.translation.frontier(unit_handle, group)
    }

    /// Its placement handles.
    pub(super) fn handles(&self) -> u16 {
        self.ids.last().map_or(0, |id| id.handle + 1)
    }

    /// The frontier of a placement identifier, in its own group.
    fn frontier_of_id(&self, stream: u8) -> (u16, PlacementId) {
        let id = self.ids[usize::from(stream) - 1];
        (self.translation.shape().frontier(id.unit_handle, id.group), id)
    }

    /// What can still be written to the reclaim unit of a write stream.
    pub(super) fn available(&self, stream: u8) -> Sector {
        let pages = self.translation.room(self.frontier_of_id(stream).0);
        Bytes(u64::from(pages) * u64::from(PAGE)).to_sectors()
    }

    /// Has a write stream go on in another reclaim unit.
    pub(super) fn update(&mut self, now: Nanos, stream: u8) {
        self.advance(now);
        let (frontier, id) = self.frontier_of_id(stream);
        let closed = self.translation.close_early(frontier, self.layout.unit);
        let Some((superblock, _)) = closed else { return };
        if let Some(unit) = self.units.pad(superblock) {
            self.program(superblock, unit);
        }
        let kind = PlacementEventType::UnitNotFull;
        let (handle, moved) = (id.handle, Sector(0));
        let event = PlacementEvent { kind, handle, at: now, id: Some(id), named: None, moved };
        self.placement_events.add(event);
        self.place_waiting();
        self.collect();
    }

    /// Counts of data placement.
    pub(super) fn placement_counts(&self) -> [(&'static str, u64); 3] {
        let padded = self.translation.counts().since(&self.before).padded;
        let count = |kind| self.placement_events.count(kind);
        [
            ("bytes of padding", padded * u64::from(PAGE)),
            ("reclaim units left before they were full", count(PlacementEventType::UnitNotFull)),
            ("invalid placement identifiers", count(PlacementEventType::InvalidId)),
        ]
    }

    /// The collection begins to move the pages of a reclaim unit.
    pub(super) fn note_reallocation(&mut self, superblock: u32) {
        let pages = self.translation.valid(superblock);
        let (unit_handle, group) = self.translation.origin(superblock);
        let is_of = |id: &&PlacementId| (id.unit_handle, id.group) == (unit_handle, group);
        let Some(&id) = self.ids.iter().find(is_of).filter(|_| pages > 0) else { return };
        let moved = Bytes(u64::from(pages) * u64::from(PAGE)).to_sectors();
        let kind = PlacementEventType::Reallocated;
        let (handle, at) = (id.handle, self.now);
        self.placement_events.add(PlacementEvent {
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
        let unit = self.layout.unit_of(place);
        if self.units.add(place.superblock, unit, count, collected) {
            self.program(place.superblock, unit);
        }
    }

    /// Has a die program a unit.
    fn program(&mut self, superblock: u32, unit: u32) {
        let die = self.layout.die(superblock, unit);
        let (zone, bytes) = (ZoneNo(superblock), self.config.unit().0);
        self.enqueue(die, DieOp::Program { zone, bytes, mark: unit, steps: 1, yields: false });
    }

    /// Whether the host waits for the collection.
    pub(super) fn host_waits(&self) -> bool {
        !self.unplaced.is_empty() && !self.map_is_behind()
    }

    /// There may be room again for what waits.
    pub(super) fn place_waiting(&mut self) {
        while let Some(&what) = self.unplaced.front()
            && self.place(what)
        {
            self.unplaced.pop_front();
        }
    }

    /// Completes a command.
    fn complete(&mut self, id: CommandId) {
        let command = self.commands.remove(id.0 as usize).expect("a command completes once");
        let Command { request, queue, slot, .. } = command;
        let (op, executed) = (request.op(), request.status() == Status::Ok);
        if executed && matches!(op, Op::Write | Op::WriteZeroes) {
            let stream = request.stream();
            for page in pages_of(&request) {
                self.accept(Unplaced::Write(page, stream));
            }
            self.collect();
        }
        let length = Sector(request.nr_sectors().into()).to_bytes().0;
        self.queues.complete(queue, request);
        self.lateness.count(1, self.now, self.advances_to);
        if op == Op::Read && executed {
            self.end_read(length, slot);
        }
    }

    /// A read is done: those that have waited longest begin where it leaves room.
    fn end_read(&mut self, bytes: u64, slot: Slot) {
        self.streams.done(ALL, bytes);
        self.slots.done(slot);
        while !self.slots.is_full()
            && let Some(id) = self.waiting_reads.pop_front()
        {
            self.begin_read(id);
        }
    }
}

impl Controller for Drive {
    fn queues(&mut self) -> &mut Queues {
        &mut self.queues
    }

    fn start(&mut self, now: Nanos, queue: usize, request: Box<Request>) {
        self.advance(now);
        let (stream, slot) = (Stream::None, Slot::Free);
        let command = Command { request, queue, stream, slot, pending_ops: 0 };
        let id = self.commands.insert(command);
        let id = CommandId(u32::try_from(id).expect("2^16 queues of 2^15 tags"));
        self.waiting.push_back(id);
        self.run_controller(self.now);
    }

    fn advance(&mut self, now: Nanos) {
        self.advances_to = now;
        if self.events.next().is_some_and(|at| at <= now) {
            self.process_events(now);
        }
        self.now = self.now.max(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next()
    }

    fn next_completion(&mut self, next: Option<Nanos>) -> Option<Nanos> {
        next
    }
}
