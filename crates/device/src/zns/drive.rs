//! The controller of the drive, and the events that its commands cause.
//!
//! Invariants: commands are fetched in the order of submission and take effect when they are
//! fetched; a write completes when its data are in the write buffer, where it has reserved space; a
//! flush completes when all writes that completed before it are safe.
//!
//! ```text
//!   commands --> controller + transfer --> zone's path into the buffer --> write completes
//!                (one at a time)           (one command of a zone at a time)
//!                                               |  a unit is full
//!                                               v
//!                                           dies of the zone's stripe
//! ```
//!
//! A command occupies the controller for the command's time and for the transfer of its data from
//! the host. Data to the host use the other direction of the link meanwhile.
use super::ZnsConfig;
use super::aging::Aging;
use super::buffer::Buffer;
use super::medium::{Effect, Medium};
use super::resets::{Batch, Resets};
use super::stripe::{Piece, Stripe};
use crate::control::Lateness;
use crate::flash::{
    CODEWORD, CommandId, Controller, DieOp, DieStep, Event, EventQueue, Flash, FlashActivity,
    FlashEntry, FlashTraceSink, Queues, Slot, Slots, Stream, Streams, Transfers, time_of,
};
use crate::rng::Rng;
use crate::storage::Storage;
use std::collections::VecDeque;
use std::sync::Arc;
use zonal_blk::{BioFlags, Bytes, Nanos, Op, Request, Sector, Status, Tag, ZoneCondition, ZoneNo};

/// An outstanding command, or the place of one.
#[derive(Default)]
struct Command {
    request: Option<Box<Request>>,
    queue: usize,
    effect: Effect,
    /// The zone's generation when the command was fetched.
    generation: u32,
    /// The stream that a read continues.
    stream: Stream,
    /// The place of a read that has begun.
    slot: Slot,
    /// Flash operations that it waits for.
    pending_ops: u32,
    /// A write's data are in the buffer.
    arrived: bool,
    /// The time that an append takes longer than a write, where that does not hold the controller, and once
    /// its data are in flight the time of both.
    extra: Nanos,
    /// Blocks that are erased after a reset, by die.
    cleans: Vec<(u32, u64)>,
}

impl Command {
    fn request(&self) -> &Request {
        self.request.as_deref().expect("the command is outstanding")
    }

    /// Its hardware queue and its tag.
    fn place(&self) -> (u32, Tag) {
        let queue = u32::try_from(self.queue).expect("there are at most 2^16 queues");
        (queue, self.request().tag())
    }
}

/// A transfer of a read's data to the host.
struct Sending {
    /// When the link is free after it.
    link_out: Nanos,
    /// When what has been read ahead and asked for is in memory.
    ahead_at: Nanos,
    end: Nanos,
}

/// The second turn of the controller that a write of a partial page needs.
#[derive(Clone, Copy, Debug)]
enum SecondTurn {
    /// The page is ready for the data.
    Write(CommandId),
    /// The data are merged; the block that they are a part of is written back.
    WriteBack,
}

/// Of the commands that wait for one another, the first of this many bytes of which one is drawn to be the
/// next.
const DRAWN_FROM: u64 = 256 << 10;

/// State shared by all hardware queues, behind one lock.
pub(super) struct Drive {
    config: ZnsConfig,
    medium: Arc<Medium>,
    stripe: Stripe,
    now: Nanos,
    /// Where [`Drive::advance`] goes to: the time of the call, when `now` is that of an event.
    advances_to: Nanos,
    lateness: Lateness,
    events: EventQueue,
    commands: Vec<Command>,
    free: Vec<CommandId>,
    /// Commands not yet fetched.
    waiting: VecDeque<CommandId>,
    /// Second turns of the controller that writes of partial pages need, at most one of each zone.
    second_turns: Vec<(ZoneNo, SecondTurn)>,
    /// The last command was a write of a partial page.
    takes_turns: bool,
    /// Decides which write has the next turn.
    turns: Rng,
    /// Writes that were fetched and found no space in the buffer, and since when.
    stalled: VecDeque<(CommandId, Nanos)>,
    /// The first of them is the next to have space.
    is_drawn: bool,
    /// Zones of which an append is being executed, and the appends that wait for it.
    appends: Vec<(ZoneNo, VecDeque<CommandId>)>,
    /// When the controller is free.
    free_at: Nanos,
    /// An event will have the controller go on when it is free.
    wakes: bool,
    /// The zone of the last write.
    last_zone: Option<ZoneNo>,
    streams: Streams,
    /// From the host to the drive.
    link: Transfers,
    /// Into a zone's part of the write buffer.
    zone_in: Transfers,
    /// From the drive to the host, and that of a read that continues another.
    read_link: Transfers,
    stream_link: Transfers,
    /// See [`ZnsConfig::write_unit`].
    write_unit: u64,
    /// At which a stream is read ahead of.
    ahead: Transfers,
    slots: Slots,
    /// The last read that was fetched is of data that have been read ahead, and has not begun.
    reads_ahead: bool,
    /// Reads that wait for a place.
    waiting_reads: VecDeque<CommandId>,
    /// When the link to the host is free.
    link_out: Nanos,
    /// When what has been read ahead and asked for is in memory.
    ahead_at: Nanos,
    buffer: Buffer,
    flash: Flash,
    resets: Resets,
    /// Erases after resets that are not done.
    cleaning: u32,
    /// Zones whose writes had to wait for space in the buffer within the last `program` time, and when.
    stalls: Vec<(ZoneNo, Nanos)>,
    /// Bytes that were queued to be programmed since the drive last wrote its log.
    since_log: u64,
    /// Scratch list of units to program, kept for its capacity.
    full: Vec<(u64, u64)>,
    queues: Queues,
    trace: Option<FlashTraceSink>,
    /// `None` for a drive whose zones do not age.
    aging: Option<Box<Aging>>,
}

impl Drive {
    pub(super) fn new(config: &ZnsConfig, medium: Arc<Medium>) -> Self {
        Drive {
            medium,
            stripe: Stripe::new(config),
            now: Nanos(0),
            advances_to: Nanos(0),
            lateness: Lateness::default(),
            events: EventQueue::default(),
            commands: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            second_turns: Vec::new(),
            takes_turns: false,
            turns: Rng::new(0),
            stalled: VecDeque::new(),
            is_drawn: false,
            appends: Vec::new(),
            free_at: Nanos(0),
            wakes: false,
            last_zone: None,
            streams: Streams::new(
                &config.nand(),
                config.zone_dies,
                config.reads,
                config.read_ahead.then_some(config.zones),
            ),
            link: Transfers::at(config.link_rate),
            zone_in: Transfers::at(config.zone_rate),
            read_link: Transfers::at(config.host_link_rate()),
            stream_link: Transfers::at(config.stream_rate),
            write_unit: config.write_unit.0,
            ahead: Transfers::at(config.nand().read_ahead_rate(config.zone_dies)),
            slots: Slots::new(config.reads),
            reads_ahead: false,
            waiting_reads: VecDeque::new(),
            link_out: Nanos(0),
            ahead_at: Nanos(0),
            buffer: Buffer::new(config),
            flash: Flash::new(&config.nand()),
            resets: Resets::new(),
            cleaning: 0,
            stalls: Vec::new(),
            since_log: 0,
            full: Vec::new(),
            queues: Queues::default(),
            trace: None,
            aging: Aging::new(config).map(Box::new),
            config: config.clone(),
        }
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
        for DieStep { die, activity, command, zone, from, to } in steps.drain(..) {
            let command = command.map(|id| self.commands[id.0 as usize].place());
            sink(&FlashEntry { from, to, activity, die: Some(die), zone, command });
        }
    }

    /// A write has waited for space in the buffer.
    #[cold]
    fn send_stall(&mut self, id: CommandId, from: Nanos, to: Nanos) {
        let command = &self.commands[id.0 as usize];
        let Some(sink) = &mut self.trace else { return };
        let (zone, activity) = (Some(command.request().zone()), FlashActivity::BufferFull);
        let command = Some(command.place());
        sink(&FlashEntry { from, to, activity, die: None, zone, command });
    }

    /// Bytes in the write buffer.
    pub(super) fn buffered(&self) -> u64 {
        self.buffer.used()
    }

    /// Dies that have programs or erases pending.
    pub(super) fn busy_dies(&self) -> u64 {
        (0..self.config.dies).filter(|&die| self.flash.is_writing(die)).count() as u64
    }

    /// Commands that completed late.
    pub(super) fn lateness(&self) -> Lateness {
        self.lateness
    }

    #[inline(never)]
    fn end_of_read(&mut self) -> Option<Nanos> {
        match self.events.only()? {
            (at, Event::Begin(id)) if self.command(id).stream == Stream::Ahead => {
                Some(self.sending(id, at).end)
            }
            _ => None,
        }
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
        self.buffer.drained(now);
        self.flash.drained(now);
    }

    /// A zone's write pointer or condition was changed past the hardware queues. Writes in flight
    /// to it no longer count.
    pub(super) fn reload_zone(&mut self, zone: ZoneNo) {
        let Ok(zones) = self.medium.storage.get().and_then(Storage::zones) else { return };
        if let Some(aging) = &mut self.aging {
            aging.note(zone, zones.condition(zone), self.now);
        }
        let wp = zones.write_pointer(zone) - zones.start(zone);
        self.load_zone(zone, wp.to_bytes(), zones.condition(zone));
    }

    /// Sets the written bytes and the condition of a zone.
    pub(super) fn load_zone(&mut self, zone: ZoneNo, written: Bytes, cond: ZoneCondition) {
        use ZoneCondition::{Full, Offline, ReadOnly};
        // A finished zone is programmed to its end.
        let bytes = if cond == Full { u64::MAX } else { written.0 };
        self.buffer.reload_zone(zone, bytes, !matches!(cond, Full | ReadOnly | Offline));
    }

    /// Does what the age of zones requires.
    fn age(&mut self, now: Nanos) {
        let Some(aging) =
            self.aging.as_mut().filter(|aging| aging.next().is_some_and(|at| at <= now))
        else {
            return;
        };
        let Ok(zones) = self.medium.storage.get().and_then(Storage::zones) else { return };
        for zone in aging.age(zones, now) {
            self.reload_zone(zone);
        }
    }

    /// See [`ZoneAging::age`](zonal_blk::ZoneAging::age).
    pub(super) fn zone_changes(&mut self, now: Nanos, changed: &mut Vec<ZoneNo>) -> Option<Nanos> {
        self.advance(now);
        let aging = self.aging.as_mut()?;
        changed.extend(aging.take_changed());
        aging.next()
    }

    fn process_events(&mut self, now: Nanos) {
        while let Some((at, event)) = self.events.pop(now) {
            self.now = self.now.max(at);
            match event {
                Event::Controller => self.wakes = false,
                Event::Begin(id) => self.begin_command(id),
                Event::Complete(id) => self.complete(id),
                Event::Appended(id) => self.appended(id),
                Event::Released(id) => self.released(id),
                Event::HoldEnds => {
                    self.flash.holds = false;
                    self.begin_all();
                }
                Event::Die { die, round } => {
                    let op = self.flash.step(self.now, die, round, &mut self.events);
                    if self.trace.is_some() {
                        self.send_steps();
                    }
                    // Nothing has changed but for the die.
                    if op.is_none() && self.flash.is_busy(die) {
                        continue;
                    }
                    if let Some(op) = op {
                        self.die_op_done(die, op);
                    }
                    self.begin(die);
                    if self.flash.take_waiting() {
                        self.begin_all();
                    }
                }
            }
            self.run_controller(self.now);
        }
    }

    fn command(&mut self, id: CommandId) -> &mut Command {
        &mut self.commands[id.0 as usize]
    }

    /// Whether the controller has commands to process, now or when it is free.
    #[inline]
    fn has_work(&self) -> bool {
        !(self.waiting.is_empty() && self.stalled.is_empty() && self.second_turns.is_empty())
    }

    /// Has the controller process commands while it is free.
    #[inline]
    fn run_controller(&mut self, now: Nanos) {
        if self.has_work() {
            self.process(now);
        }
    }

    fn process(&mut self, now: Nanos) {
        while self.free_at <= now {
            if let Some((id, since)) = self.take_stalled() {
                if self.trace.is_some() {
                    self.send_stall(id, since, now);
                }
                self.transfer(id, now);
            } else if self.waiting.is_empty() && self.second_turns.is_empty() {
                return;
            } else if self.takes_turns {
                self.take_turn(now);
            } else if let Some(id) = self.waiting.pop_front() {
                self.execute(id, now);
            }
        }
        if self.has_work() && !self.wakes {
            self.wakes = true;
            self.events.add(self.free_at, Event::Controller);
        }
    }

    /// Has the controller take one of the turns that it owes, those of zones with partial pages and
    /// those of commands that wait, in random order; a zone's turns are in order.
    fn take_turn(&mut self, now: Nanos) {
        let all = self.second_turns.len() + self.waiting.len();
        let chosen = self.turns.below(all as u64);
        let chosen = usize::try_from(chosen).expect("one of those that there are");
        let zone = match chosen.checked_sub(self.second_turns.len()) {
            None => self.second_turns[chosen].0,
            Some(at) => self.zone_of(self.waiting[at]),
        };
        if let Some(at) = self.second_turns.iter().position(|(other, _)| *other == zone) {
            return match self.second_turns.swap_remove(at).1 {
                SecondTurn::Write(id) => self.write(id, now),
                SecondTurn::WriteBack => self.free_at = now + self.config.partial_time,
            };
        }
        let first = self.waiting.iter().position(|id| self.zone_of(*id) == zone);
        let id = self.waiting.remove(first.expect("one of the zone was chosen"));
        self.execute(id.expect("it is in the queue"), now);
    }

    fn zone_of(&self, id: CommandId) -> ZoneNo {
        self.commands[id.0 as usize].request().zone()
    }

    /// The write that waited for space and has it now, if there is one: a random one of the first of them,
    /// for which the others wait.
    fn take_stalled(&mut self) -> Option<(CommandId, Nanos)> {
        if !self.is_drawn {
            let &(first, _) = self.stalled.front()?;
            let bytes = self.command(first).effect.buffer_bytes;
            let drawn = draw(&mut self.stalled, bytes, &mut self.turns)?;
            self.stalled.push_front(drawn);
        }
        self.is_drawn = true;
        let &(id, _) = self.stalled.front()?;
        if !self.reserve(id) {
            return None;
        }
        self.is_drawn = false;
        self.stalled.pop_front()
    }

    fn reserve(&mut self, id: CommandId) -> bool {
        let bytes = self.command(id).effect.buffer_bytes;
        self.buffer.reserve(bytes)
    }

    /// The controller fetches a command, which takes effect.
    #[inline]
    fn execute(&mut self, id: CommandId, now: Nanos) {
        let command = &mut self.commands[id.0 as usize];
        let request = command.request.as_deref_mut().expect("the command is outstanding");
        let (op, zone) = (request.op(), request.zone());
        if let Err(status) = self.medium.execute(command.queue, request, &mut command.effect) {
            request.refuse(status);
            let decided = now + self.time_of_command((op, zone), 0);
            self.free_at = decided;
            self.events.add(decided, Event::Complete(id));
            return;
        }
        request.set_status(Status::Ok);
        if let Some(aging) = &mut self.aging
            && op != Op::Read
        {
            note_age(aging, &self.medium, (op, zone), now);
        }
        let length = request.nr_sectors();
        let sector = request.sector();
        match op {
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => {
                command.generation = self.buffer.zone(zone).generation;
                let buffer_bytes = command.effect.buffer_bytes;
                let (pages, is_part) = self.partial_pages(sector, length);
                self.takes_turns = pages > 0 || !self.second_turns.is_empty();
                let ready = now + Nanos(self.config.partial_time.0 * pages);
                let bytes = Sector(length.into()).to_bytes().0;
                if op == Op::ZoneAppend && (pages > 0 || self.is_whole(bytes)) {
                    // The controller turns to other commands meanwhile.
                    self.command(id).extra = self.append_extra();
                }
                match (pages, is_part) {
                    (0, _) => {
                        self.take_over(id, (op, zone), [bytes, buffer_bytes], now);
                    }
                    // A part of a block is merged with the rest, which is fetched in the same turn.
                    (_, true) => {
                        self.write(id, ready);
                        self.second_turns.push((zone, SecondTurn::WriteBack));
                    }
                    (_, false) => {
                        self.second_turns.push((zone, SecondTurn::Write(id)));
                        self.free_at = ready;
                    }
                }
            }
            // What is committed is in the drive already.
            Op::ZrwaFlush => {
                command.generation = self.buffer.zone(zone).generation;
                let buffer_bytes = command.effect.buffer_bytes;
                self.takes_turns = !self.second_turns.is_empty();
                self.take_over(id, (op, zone), [0, buffer_bytes], now);
            }
            _ => {
                self.takes_turns = !self.second_turns.is_empty();
                let decided = now + self.time_of_command((op, zone), 0);
                if op == Op::ZoneFinish {
                    self.command(id).generation = self.buffer.zone(zone).generation;
                }
                let mut latency = Nanos(0);
                if op == Op::Read {
                    latency = self.config.latency;
                    self.note_stream(id, zone, sector, length);
                }
                self.events.add(decided + latency, Event::Begin(id));
                self.free_at = decided;
            }
        }
    }

    /// [`Drive::take_over`] of a write or append that writes a page in part.
    fn write(&mut self, id: CommandId, now: Nanos) {
        let command = self.command(id);
        let (request, buffer_bytes) = (command.request(), command.effect.buffer_bytes);
        let bytes = Sector(request.nr_sectors().into()).to_bytes().0;
        let what = (Op::Write, request.zone());
        self.take_over(id, what, [bytes, buffer_bytes], now);
    }

    /// The controller takes the data of a write over, or leaves it to wait for space in the buffer:
    /// that of the second number of bytes.
    #[inline(always)]
    fn take_over(
        &mut self,
        id: CommandId,
        (op, zone): (Op, ZoneNo),
        [bytes, buffer_bytes]: [u64; 2],
        now: Nanos,
    ) {
        let decided = now + self.time_of_command((op, zone), bytes);
        self.last_zone = Some(zone);
        if self.stalled.is_empty() && self.buffer.reserve(buffer_bytes) {
            self.transfer_bytes(id, zone, bytes, decided);
        } else {
            self.stalled.push_back((id, decided));
            self.stalls.retain(|&(other, at)| other != zone && at + self.config.program > now);
            self.stalls.push((zone, now));
            self.free_at = decided;
        }
    }

    /// Notes what a read continues.
    fn note_stream(&mut self, id: CommandId, zone: ZoneNo, sector: Sector, nr_sectors: u32) {
        let zone_size = self.config.zone_size.to_sectors().0;
        let from = Sector(sector.0 % zone_size).to_bytes().0;
        let stream = self.streams.read(zone, from, from + Sector(nr_sectors.into()).to_bytes().0);
        self.command(id).stream = stream;
        self.reads_ahead = stream == Stream::Ahead;
    }

    /// In the format with LBAs of 512 bytes, the number of pages that a write writes in part, and
    /// whether it writes a part of 4 KiB.
    #[inline(always)]
    fn partial_pages(&self, sector: Sector, nr_sectors: u32) -> (u64, bool) {
        if self.config.lba == 4096 || self.config.partial_time == Nanos(0) {
            return (0, false);
        }
        self.cut_pages(sector, nr_sectors)
    }

    fn cut_pages(&self, sector: Sector, nr_sectors: u32) -> (u64, bool) {
        const BLOCK: u64 = 4096;
        let zone_size = self.config.zone_size.to_sectors().0;
        let from = Sector(sector.0 % zone_size).to_bytes().0;
        let to = from + Sector(nr_sectors.into()).to_bytes().0;
        let page = self.config.write_unit().0;
        let cut = |at: u64, unit: u64| u64::from(!at.is_multiple_of(unit));
        let parts = match from / page == (to - 1) / page {
            true => cut(from, page).max(cut(to, page)),
            false => cut(from, page) + cut(to, page),
        };
        (parts, cut(from, BLOCK).max(cut(to, BLOCK)) > 0)
    }

    /// The controller is done with a command other than a write, whose flash operations begin.
    fn begin_command(&mut self, id: CommandId) {
        let request = self.command(id).request();
        let (op, zone) = (request.op(), request.zone());
        match op {
            Op::Read => return self.begin_read(id),
            Op::ZoneReset | Op::ZoneResetAll => self.reset(id),
            // A zone that was changed past the queues meanwhile has nothing to pad.
            Op::ZoneFinish if self.buffer.zone(zone).generation == self.command(id).generation => {
                self.finish(id, zone);
            }
            Op::Flush => self.flush(id),
            _ => {}
        }
        if self.command(id).pending_ops == 0 {
            self.complete(id);
        }
    }

    /// Whether a write is of whole units, which the controller takes for `unit_time`.
    #[inline(always)]
    fn is_whole(&self, bytes: u64) -> bool {
        self.write_unit > 0 && bytes.is_multiple_of(self.write_unit)
    }

    /// The time that an append takes longer than a write.
    fn append_extra(&self) -> Nanos {
        Nanos(self.config.append_time.0.saturating_sub(self.config.write_time.0))
    }

    #[inline(always)]
    fn time_of_command(&self, (op, zone): (Op, ZoneNo), bytes: u64) -> Nanos {
        let write = |time: Nanos| {
            let switches = self.last_zone.is_some_and(|last| last != zone);
            if switches { time + self.config.zone_switch } else { time }
        };
        let ZnsConfig { write_time, append_time, unit_time, manage_time, .. } = self.config;
        match op {
            // An append takes longer than a write by the same time, whatever its length; of whole units
            // that does not hold the controller.
            Op::Write | Op::WriteZeroes | Op::ZoneAppend if self.is_whole(bytes) => {
                write(unit_time)
            }
            Op::Write | Op::WriteZeroes => write(write_time),
            Op::ZoneAppend => write(append_time),
            Op::Read => self.config.read_time,
            // The drive records where the zone ends.
            Op::ZoneFinish if self.buffer.written(zone).1 => manage_time + write_time,
            Op::ZoneClose if self.buffer.written(zone).0 > 0 => manage_time + write_time,
            _ => manage_time,
        }
    }

    /// Transfers a write's data from the host into the buffer, where they have space.
    fn transfer(&mut self, id: CommandId, from: Nanos) {
        let request = self.command(id).request();
        let zone = request.zone();
        let sectors = if request.op() == Op::ZrwaFlush { 0 } else { request.nr_sectors() };
        let bytes = Sector(sectors.into()).to_bytes().0;
        self.transfer_bytes(id, zone, bytes, from);
    }

    #[inline(always)]
    fn transfer_bytes(&mut self, id: CommandId, zone: ZoneNo, bytes: u64, from: Nanos) {
        let moved = from + self.link.time(bytes);
        let end = if self.config.zone_rate.0 == 0 {
            moved
        } else {
            let buffered = self.zone_in.time(bytes);
            let state = self.buffer.zone(zone);
            state.busy_until = from.max(state.busy_until) + buffered;
            moved.max(state.busy_until)
        };
        self.free_at = moved;
        let extra = self.commands[id.0 as usize].extra;
        if extra.0 > 0 {
            return self.append(id, zone, from, end + extra);
        }
        let latency = self.write_latency();
        self.events.add(end + latency, Event::Complete(id));
    }

    /// The data of an append of whole units come from `from` on, and it would be done at `done` if it were
    /// alone. Of the appends to a zone, one is executed at a time.
    #[inline(never)]
    fn append(&mut self, id: CommandId, zone: ZoneNo, from: Nanos, done: Nanos) {
        self.command(id).extra = done - from;
        match self.appends.iter_mut().find(|(other, _)| *other == zone) {
            Some((_, waiting)) => waiting.push_back(id),
            None => {
                self.appends.push((zone, VecDeque::new()));
                self.events.add(done, Event::Appended(id));
            }
        }
    }

    /// An append is executed. The next one of its zone is a random one of the first that wait.
    fn appended(&mut self, id: CommandId) {
        let zone = self.zone_of(id);
        let bytes = self.command(id).effect.buffer_bytes;
        let latency = self.write_latency();
        self.events.add(self.now + latency, Event::Complete(id));
        let at = self.appends.iter().position(|(other, _)| *other == zone);
        let at = at.expect("an append of the zone was being executed");
        let waiting = &mut self.appends[at].1;
        match draw(waiting, bytes, &mut self.turns) {
            Some(next) => {
                let time = self.command(next).extra;
                self.events.add(self.now + time, Event::Appended(next));
            }
            None => {
                self.appends.swap_remove(at);
            }
        }
    }

    /// The length of a write's way: three eighths more for one in four, at random, and an eighth less for the
    /// others.
    #[inline(always)]
    fn write_latency(&mut self) -> Nanos {
        let latency = self.config.latency.0;
        if latency == 0 {
            return Nanos(0);
        }
        Nanos(if self.turns.below(4) == 0 { latency * 11 / 8 } else { latency * 7 / 8 })
    }

    /// A flash operation of a command is done; the last one completes the command.
    fn op_done(&mut self, id: CommandId) {
        let command = self.command(id);
        command.pending_ops -= 1;
        let left = command.pending_ops;
        match left {
            0 => {}
            // All programs that a reset waited for are done; the reset itself is left.
            1 if self.resets.is_draining(id) => return self.begin_resets(),
            _ => return,
        }
        if self.command(id).request().op() == Op::Read {
            self.send(id);
        } else {
            self.complete(id);
        }
    }

    /// Transfers a read's data to the host.
    fn send(&mut self, id: CommandId) {
        let Sending { link_out, ahead_at, end } = self.sending(id, self.now);
        self.link_out = link_out;
        self.ahead_at = ahead_at;
        self.events.add(end, Event::Complete(id));
    }

    /// The consequences of a transfer of a read's data to the host that begins at `now`.
    #[inline]
    fn sending(&mut self, id: CommandId, now: Nanos) -> Sending {
        let command = self.command(id);
        let bytes = Sector(command.request().nr_sectors().into()).to_bytes().0;
        let stream = command.stream;
        let config = &self.config;
        let row = config.page.0 * u64::from(config.planes);
        let continues = match stream {
            Stream::Alone => true,
            // Beside other streams, only reads of whole pages are slowed down.
            Stream::Continued => bytes >= config.page.0,
            Stream::None | Stream::Ahead => false,
        };
        let (send_time, link) = match config.stream_rate {
            rate if rate.0 > 0 && continues && bytes < row => (Nanos(0), &mut self.stream_link),
            _ => (config.send_time, &mut self.read_link),
        };
        // What was read ahead takes a whole codeword from memory, also if less is sent.
        let taken = if stream == Stream::Ahead { bytes.max(CODEWORD) } else { bytes };
        let begin = now.max(self.link_out) + send_time;
        let link_out = begin + link.time(taken);
        let mut end = begin + link.time(bytes);
        let mut ahead_at = self.ahead_at;
        if stream == Stream::Ahead {
            ahead_at = now.max(ahead_at) + self.ahead.time(bytes);
            end = end.max(ahead_at);
        }
        Sending { link_out, ahead_at, end }
    }

    /// Begins a read, unless the drive works on as many as it can.
    fn begin_read(&mut self, id: CommandId) {
        self.reads_ahead = false;
        if self.slots.is_full() {
            return self.waiting_reads.push_back(id);
        }
        let alone = self.command(id).stream == Stream::Alone;
        self.command(id).slot = self.slots.take(alone);
        self.read(id);
    }

    /// A read is done: those that have waited longest begin where it leaves room.
    fn end_read(&mut self, zone: ZoneNo, bytes: u64, slot: Slot) {
        self.streams.done(zone, bytes);
        self.slots.done(slot);
        while !self.slots.is_full()
            && let Some(id) = self.waiting_reads.pop_front()
        {
            self.begin_read(id);
        }
    }

    /// Reads what is on the flash; data in the buffer, data that were read ahead and unwritten data
    /// take no flash operation.
    fn read(&mut self, id: CommandId) {
        let zone_size = self.config.zone_size.to_sectors().0;
        let request = self.command(id).request();
        let zone = request.zone();
        let start = Sector(u64::from(zone.0) * zone_size);
        let from = (request.sector() - start).to_bytes().0;
        let end = (request.end() - start).to_bytes().0;
        let on_flash = self.buffer.on_flash(zone);
        let to = match self.command(id).stream {
            Stream::Ahead => from,
            _ => end.min(on_flash),
        };
        let mut ops = 0;
        for Piece { die, first, last, bytes } in self.stripe.pieces(zone, from, to) {
            let op = DieOp::Read { command: id, zone, first, last, bytes };
            self.enqueue(die, op);
            ops += 1;
        }
        self.command(id).pending_ops = ops;
        if ops == 0 {
            self.send(id);
        }
    }

    /// Erases the written blocks of the zones that a reset has emptied.
    fn reset(&mut self, id: CommandId) {
        let zones = std::mem::take(&mut self.command(id).effect.emptied);
        if self.config.reset_time > Nanos(0) {
            return self.release(id, &zones);
        }
        let mut ops = 0;
        for zone in zones {
            let sent = self.buffer.reset(zone);
            for (die, units) in self.stripe.units_by_die(zone, 0, sent) {
                let blocks = self.stripe.blocks(units);
                self.enqueue(die, DieOp::Erase { command: id, blocks });
                ops += 1;
            }
        }
        self.command(id).pending_ops = ops;
    }

    /// Releases the blocks of the zones that a reset has emptied. With `reset_hold` they are erased after
    /// the reset; without, the erase takes no time. For a zone that could take more data, the partial
    /// unit is programmed, after the rest of another program: a quarter of one, as measured.
    fn release(&mut self, id: CommandId, zones: &[ZoneNo]) {
        let mut time = Nanos(0);
        let mut cleans = Vec::new();
        for &zone in zones {
            let (written, open) = self.buffer.written(zone);
            let sent = self.buffer.reset(zone);
            time += self.config.reset_time + time_of(written, self.config.reset_rate);
            if open && sent > 0 {
                time += Nanos(self.config.program.0 * 5 / 4);
            }
            if self.config.reset_hold > 0 {
                cleans.extend(self.stripe.units_by_die(zone, 0, sent));
            }
        }
        let command = self.command(id);
        command.pending_ops = 1;
        if self.config.reset_hold == 0 {
            return self.events.add(self.now + time, Event::Released(id));
        }
        let most = cleans.iter().map(|&(_, units)| self.stripe.blocks(units)).max().unwrap_or(0);
        let erase = Nanos(self.config.erase.0.saturating_mul(most));
        self.command(id).cleans = cleans;
        self.resets.add(id, time, erase);
        self.prepare_resets();
    }

    /// Begins resets, unless others are being executed, once the units of other zones are programmed: of
    /// those that were appended, the ones that have begun.
    fn prepare_resets(&mut self) {
        let Some(id) = self.resets.drain_for() else { return };
        let zone = self.command(id).request().zone();
        if !self.buffer.others_program(zone) && self.cleaning == 0 {
            return self.begin_resets();
        }
        self.flash.drains = true;
        for die in 0..self.config.dies {
            if self.flash.is_writing(die) {
                self.flash.add(self.now, die, DieOp::Drain { command: id }, &mut self.events);
                self.commands[id.0 as usize].pending_ops += 1;
            }
        }
        self.begin_all();
    }

    fn begin_resets(&mut self) {
        self.flash.drains = false;
        let Batch { ends, hold_ends } = self.resets.begin(self.now, self.config.reset_hold);
        self.flash.holds = true;
        self.events.add(hold_ends, Event::HoldEnds);
        for (id, end) in ends {
            self.events.add(end, Event::Released(id));
        }
    }

    /// A reset is done: the blocks that it released are erased.
    fn released(&mut self, id: CommandId) {
        for (die, units) in std::mem::take(&mut self.command(id).cleans) {
            let blocks = self.stripe.blocks(units);
            self.cleaning += 1;
            self.enqueue(die, DieOp::Clean { blocks });
        }
        self.op_done(id);
        if self.config.reset_hold > 0 {
            self.resets.done();
            self.prepare_resets();
        }
    }

    /// Pads a zone to its end.
    fn finish(&mut self, id: CommandId, zone: ZoneNo) {
        let (partial, units) = self.buffer.finish(zone);
        let generation = self.buffer.zone(zone).generation;
        let mut from = units.start;
        let mut ops = 0;
        if partial > 0 {
            let die = self.program(zone, from, (partial, false), generation);
            self.flash.add(self.now, die, DieOp::Barrier { command: id }, &mut self.events);
            (from, ops) = (from + 1, 1);
        }
        for (die, units) in self.stripe.units_by_die(zone, from, units.end) {
            self.enqueue(die, DieOp::Pad { command: id, units });
            ops += 1;
        }
        self.command(id).pending_ops = ops;
    }

    /// Unless the buffer survives a loss of power, waits for all programs and erases in flight and
    /// saves partial units.
    fn flush(&mut self, id: CommandId) {
        if self.config.power_safe {
            return;
        }
        for (zone, unit) in self.buffer.save() {
            self.enqueue(self.stripe.die(zone, unit), DieOp::Save);
        }
        let mut ops = 0;
        for die in 0..self.config.dies {
            if self.flash.is_writing(die) {
                self.flash.add(self.now, die, DieOp::Barrier { command: id }, &mut self.events);
                ops += 1;
            }
        }
        self.command(id).pending_ops = ops;
    }

    /// Queues an operation on a die, which begins it if it is free.
    fn enqueue(&mut self, die: u32, op: DieOp) {
        self.flash.add(self.now, die, op, &mut self.events);
        if self.trace.is_some() {
            self.send_steps();
        }
        self.begin(die);
    }

    /// Has each free die begin its next operation.
    #[cold]
    fn begin_all(&mut self) {
        (0..self.config.dies).for_each(|die| self.begin(die));
    }

    /// Has a die begin its next operation, if it is free.
    fn begin(&mut self, die: u32) {
        if self.flash.pads() {
            let recent = |&&(_, at): &&(ZoneNo, Nanos)| at + self.config.program > self.now;
            let rivals = self.stalls.iter().filter(recent).count();
            self.flash.set_rivals(u32::try_from(rivals).expect("no more than zones"));
        }
        while let Some(op) = self.flash.begin(self.now, die, &mut self.events) {
            self.die_op_done(die, op);
        }
    }

    fn die_op_done(&mut self, die: u32, op: DieOp) {
        match op {
            DieOp::Program { bytes, steps, .. } if steps > 1 => self.buffer.release(bytes),
            DieOp::Program { zone, bytes, mark: generation, .. } => {
                self.buffer.programmed(die, zone, bytes, generation);
            }
            DieOp::Save => {}
            DieOp::Clean { .. } => self.cleaning -= 1,
            DieOp::Pad { command, .. }
            | DieOp::Erase { command, .. }
            | DieOp::Read { command, .. }
            | DieOp::Barrier { command }
            | DieOp::Drain { command } => self.op_done(command),
        }
    }

    /// Data of a zone have arrived in the buffer; units that are full now are programmed.
    #[inline]
    fn arrive(&mut self, (zone, yields): (ZoneNo, bool), bytes: u64) {
        self.buffer.arrive(zone, bytes, |unit, bytes| self.full.push((unit, bytes)));
        if !self.full.is_empty() {
            self.program_full(zone, yields);
        }
    }

    #[inline(never)]
    fn program_full(&mut self, zone: ZoneNo, yields: bool) {
        let generation = self.buffer.zone(zone).generation;
        let mut full = std::mem::take(&mut self.full);
        for (unit, bytes) in full.drain(..) {
            self.program(zone, unit, (bytes, yields), generation);
        }
        self.full = full;
    }

    /// The die that programs a unit: the one of the zone's stripe with the fewest programs and erases
    /// pending. Ties go to the die where reads look for the unit, then to the next one.
    fn die_for(&self, zone: ZoneNo, unit: u64) -> u32 {
        let first = self.stripe.die(zone, unit);
        let dies = self.stripe.dies(zone);
        let others = (first..dies.end).chain(dies.start..first);
        others.min_by_key(|&die| self.flash.programs(die)).unwrap_or(first)
    }

    /// Has a unit of a zone programmed, of which `bytes` are in the buffer.
    fn program(
        &mut self,
        zone: ZoneNo,
        unit: u64,
        (bytes, yields): (u64, bool),
        generation: u32,
    ) -> u32 {
        let die = self.die_for(zone, unit);
        self.buffer.queued(die, zone, bytes);
        let steps = self.config.nand().program_steps();
        self.enqueue(die, DieOp::Program { zone, bytes, mark: generation, steps, yields });
        self.log();
        die
    }

    /// A unit has been queued: after each `log_interval` of them the drive programs one on each die for
    /// itself.
    fn log(&mut self) {
        let interval = self.config.log_interval.0;
        self.since_log += self.config.unit().0;
        if interval == 0 || self.since_log < interval {
            return;
        }
        self.since_log -= interval;
        for die in 0..self.config.dies {
            self.enqueue(die, DieOp::Save);
        }
    }

    /// Completes a command, unless it is a write that has to be flushed first.
    fn complete(&mut self, id: CommandId) {
        let command = self.command(id);
        let request = command.request();
        let (op, zone, flags) = (request.op(), request.zone(), request.flags());
        let (bytes, generation) = (command.effect.buffer_bytes, command.generation);
        let executed = request.status() == Status::Ok;
        let writes = (op.is_write() || op == Op::ZrwaFlush) && executed;
        if writes && !std::mem::replace(&mut command.arrived, true) {
            if self.buffer.zone(zone).generation == generation {
                self.arrive((zone, op == Op::ZoneAppend), bytes);
            } else {
                self.buffer.release(bytes);
            }
            if flags.contains(BioFlags::FUA) || flags.contains(BioFlags::PREFLUSH) {
                self.flush(id);
                if self.command(id).pending_ops > 0 {
                    return;
                }
            }
        }
        let command = self.command(id);
        let (queue, slot) = (command.queue, command.slot);
        let request = command.request.take().expect("a command completes once");
        let length = Sector(request.nr_sectors().into()).to_bytes().0;
        self.free.push(id);
        self.queues.complete(queue, request);
        self.lateness.count(1, self.now, self.advances_to);
        if op == Op::Read && executed {
            self.end_read(zone, length, slot);
        }
    }
}

impl Controller for Drive {
    fn queues(&mut self) -> &mut Queues {
        &mut self.queues
    }

    #[inline]
    fn start(&mut self, now: Nanos, queue: usize, request: Box<Request>) {
        self.advance(now);
        let id = self.free.pop().unwrap_or_else(|| {
            self.commands.push(Command::default());
            CommandId(u32::try_from(self.commands.len() - 1).expect("2^16 queues of 2^16 tags"))
        });
        let command = self.command(id);
        command.request = Some(request);
        command.queue = queue;
        command.effect.clear();
        command.generation = 0;
        command.stream = Stream::None;
        command.slot = Slot::Free;
        command.pending_ops = 0;
        command.arrived = false;
        command.extra = Nanos(0);
        // Two threads may read slightly different clocks.
        let now = self.now;
        let waits = self.free_at > now || self.takes_turns || !self.stalled.is_empty();
        if waits || !self.waiting.is_empty() {
            self.waiting.push_back(id);
        } else {
            self.execute(id, now);
        }
        self.run_controller(now);
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.advances_to = now;
        if self.events.next().is_some_and(|at| at <= now) {
            self.process_events(now);
        }
        self.now = self.now.max(now);
        if self.aging.is_some() {
            self.age(now);
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        self.events.next()
    }

    /// If the only event is that of a read whose data have been read ahead, this is the end of the read.
    #[inline]
    fn next_completion(&mut self, next: Option<Nanos>) -> Option<Nanos> {
        if self.reads_ahead { self.end_of_read().or(next) } else { next }
    }
}

/// Takes a random one of the first commands that wait; `bytes` are those of the first.
fn draw<T>(waiting: &mut VecDeque<T>, bytes: u64, chance: &mut Rng) -> Option<T> {
    let first = (DRAWN_FROM / bytes.max(1)).clamp(1, waiting.len().max(1) as u64);
    let drawn = chance.below(first);
    waiting.remove(usize::try_from(drawn).expect("one of those that there are"))
}

/// A command other than a read has been executed.
fn note_age(aging: &mut Aging, medium: &Medium, (op, zone): (Op, ZoneNo), now: Nanos) {
    let Ok(zones) = medium.storage.get().and_then(Storage::zones) else { return };
    if op == Op::ZoneResetAll {
        return aging.note_all(zones, now);
    }
    aging.note(zone, zones.condition(zone), now);
}
