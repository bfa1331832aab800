//! The zones below the controller: the way of a write into the buffer, and what resets, finishes and flushes
//! have the dies do.
//!
//! ```text
//!   controller --> zone's path into the buffer --> write completes
//!                  (one command of a zone at a time)
//!                         |  a unit is full
//!                         v
//!                     dies of the zone's stripe
//! ```
//!
//! Invariant: a flush completes when all writes that completed before it are safe.
use super::ZnsConfig;
use super::aging::Aging;
use super::buffer::Buffer;
use super::medium::{Effect, Medium};
use super::resets::{Batch, Resets};
use super::stripe::{Piece, Stripe};
use crate::flash::{
    CODEWORD, Command, CommandId, Controller, DieOp, Event, Media, Program, Setup, Stream,
    Transfers, draw, time_of,
};
use crate::storage::Storage;
use std::collections::VecDeque;
use std::sync::Arc;
use zonal_blk::{BioFlags, Bytes, Nanos, Op, Sector, Status, ZoneCondition, ZoneNo};

/// What is noted of a command.
#[derive(Default)]
pub(crate) struct Note {
    effect: Effect,
    /// The zone's generation when the command was fetched.
    generation: u32,
    /// A write's data are in the buffer.
    arrived: bool,
    /// The time that an append takes longer than a write, where that does not hold the controller, and once
    /// its data are in flight the time of both.
    extra: Nanos,
    /// Blocks that are erased after a reset, by die.
    cleans: Vec<(u32, u64)>,
}

/// An event of a drive with zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneEvent {
    /// An append is executed, but for the latency.
    Appended(CommandId),
    /// A reset has released the blocks of its zones.
    Released(CommandId),
    /// Programs may begin again after resets.
    HoldEnds,
}

/// The second turn of the controller that a write of a partial page needs.
#[derive(Clone, Copy, Debug)]
enum SecondTurn {
    /// The page is ready for the data.
    Write(CommandId),
    /// The data are merged; the block that they are a part of is written back.
    WriteBack,
}

/// The media of a drive with zones.
pub(crate) struct Zoned {
    medium: Arc<Medium>,
    stripe: Stripe,
    /// Second turns of the controller that writes of partial pages need, at most one of each zone.
    second_turns: Vec<(ZoneNo, SecondTurn)>,
    /// The last command was a write of a partial page.
    takes_turns: bool,
    /// Zones of which an append is being executed, and the appends that wait for it.
    appends: Vec<(ZoneNo, VecDeque<CommandId>)>,
    /// The zone of the last write.
    last_zone: Option<ZoneNo>,
    /// Into a zone's part of the write buffer.
    zone_in: Transfers,
    /// See [`ZnsConfig::write_unit`].
    write_unit: u64,
    buffer: Buffer,
    resets: Resets,
    /// Erases after resets that are not done.
    cleaning: u32,
    /// Zones whose writes had to wait for space in the buffer within the last `program` time, and when.
    stalls: Vec<(ZoneNo, Nanos)>,
    /// Bytes that were queued to be programmed since the drive last wrote its log.
    since_log: u64,
    /// Scratch list of units to program, kept for its capacity.
    full: Vec<(u64, u64)>,
    /// `None` for a drive whose zones do not age.
    aging: Option<Box<Aging>>,
}

/// A drive whose controller the media are below.
pub(super) type Drive = crate::flash::Drive<Zoned>;

/// A drive whose zones and data `medium` keeps.
pub(super) fn drive(config: &ZnsConfig, medium: Arc<Medium>) -> Drive {
    let media = Zoned {
        medium,
        stripe: Stripe::new(config),
        second_turns: Vec::new(),
        takes_turns: false,
        appends: Vec::new(),
        last_zone: None,
        zone_in: Transfers::at(config.zone_rate),
        write_unit: config.write_unit.0,
        buffer: Buffer::new(config),
        resets: Resets::new(),
        cleaning: 0,
        stalls: Vec::new(),
        since_log: 0,
        full: Vec::new(),
        aging: Aging::new(config).map(Box::new),
    };
    let setup = Setup {
        zones: config.zones,
        zone_dies: config.zone_dies,
        ahead_least: CODEWORD,
        stream_rate: config.stream_rate,
        write_spread: config.write_spread,
        drawn_from: config.drawn_from,
        ..config.setup()
    };
    Drive::new(&setup, config.clone(), media)
}

impl Drive {
    /// Bytes in the write buffer.
    pub(super) fn buffered(&self) -> u64 {
        self.media.buffer.used()
    }

    /// A zone's write pointer or condition was changed past the hardware queues. Writes in flight
    /// to it no longer count.
    pub(super) fn reload_zone(&mut self, zone: ZoneNo) {
        let Ok(zones) = self.media.medium.storage.get().and_then(Storage::zones) else { return };
        if let Some(aging) = &mut self.media.aging {
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
        self.media.buffer.reload_zone(zone, bytes, !matches!(cond, Full | ReadOnly | Offline));
    }

    fn age_zones(&mut self, now: Nanos) {
        let Some(aging) =
            self.media.aging.as_mut().filter(|aging| aging.next().is_some_and(|at| at <= now))
        else {
            return;
        };
        let Ok(zones) = self.media.medium.storage.get().and_then(Storage::zones) else { return };
        for zone in aging.age(zones, now) {
            self.reload_zone(zone);
        }
    }

    /// See [`ZoneAging::age`](zonal_blk::ZoneAging::age).
    pub(super) fn zone_changes(&mut self, now: Nanos, changed: &mut Vec<ZoneNo>) -> Option<Nanos> {
        self.advance(now);
        let aging = self.media.aging.as_mut()?;
        changed.extend(aging.take_changed());
        aging.next()
    }

    fn zone_of(&self, id: CommandId) -> ZoneNo {
        self.commands[id.0 as usize].request().zone()
    }

    /// The controller fetches a command, which takes effect.
    #[inline]
    fn execute(&mut self, id: CommandId, now: Nanos) {
        let command = &mut self.commands[id.0 as usize];
        let request = command.request.as_deref_mut().expect("the command is outstanding");
        let (op, zone) = (request.op(), request.zone());
        if let Err(status) =
            self.media.medium.execute(command.queue, request, &mut command.note.effect)
        {
            let decided = now + self.time_of_command(op, zone, 0);
            return self.refuse(id, status, decided);
        }
        request.set_status(Status::Ok);
        if let Some(aging) = &mut self.media.aging
            && op != Op::Read
        {
            note_age(aging, &self.media.medium, op, zone, now);
        }
        let length = request.nr_sectors();
        let sector = request.sector();
        match op {
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => {
                command.note.generation = self.media.buffer.zone(zone).generation;
                let buffer_bytes = command.note.effect.buffer_bytes;
                let (pages, is_part) = self.partial_pages(sector, length);
                self.media.takes_turns = pages > 0 || !self.media.second_turns.is_empty();
                let ready = now + Nanos(self.config.partial_time.0 * pages);
                let bytes = Sector(length.into()).to_bytes().0;
                if op == Op::ZoneAppend && (pages > 0 || self.is_whole(bytes)) {
                    // The controller turns to other commands meanwhile.
                    self.command(id).note.extra = self.append_extra();
                }
                match (pages, is_part) {
                    (0, _) => {
                        self.take_over(id, op, zone, bytes, buffer_bytes, now);
                    }
                    // A part of a block is merged with the rest, which is fetched in the same turn.
                    (_, true) => {
                        self.write(id, ready);
                        self.media.second_turns.push((zone, SecondTurn::WriteBack));
                    }
                    (_, false) => {
                        self.media.second_turns.push((zone, SecondTurn::Write(id)));
                        self.free_at = ready;
                    }
                }
            }
            // What is committed is in the drive already.
            Op::ZrwaFlush => {
                command.note.generation = self.media.buffer.zone(zone).generation;
                let buffer_bytes = command.note.effect.buffer_bytes;
                self.media.takes_turns = !self.media.second_turns.is_empty();
                self.take_over(id, op, zone, 0, buffer_bytes, now);
            }
            _ => {
                self.media.takes_turns = !self.media.second_turns.is_empty();
                let decided = now + self.time_of_command(op, zone, 0);
                if op == Op::ZoneFinish {
                    self.command(id).note.generation = self.media.buffer.zone(zone).generation;
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
        let (request, buffer_bytes) = (command.request(), command.note.effect.buffer_bytes);
        let bytes = Sector(request.nr_sectors().into()).to_bytes().0;
        let zone = request.zone();
        self.take_over(id, Op::Write, zone, bytes, buffer_bytes, now);
    }

    /// The controller takes the data of a write over, or leaves it to wait for space in the buffer:
    /// that of the second number of bytes.
    #[inline(always)]
    fn take_over(
        &mut self,
        id: CommandId,
        op: Op,
        zone: ZoneNo,
        bytes: u64,
        buffer_bytes: u64,
        now: Nanos,
    ) {
        let decided = now + self.time_of_command(op, zone, bytes);
        self.media.last_zone = Some(zone);
        if !self.has_stalled() && self.media.buffer.reserve(buffer_bytes) {
            self.transfer_bytes(id, zone, bytes, decided);
        } else {
            self.stall(id, decided);
            self.media
                .stalls
                .retain(|&(other, at)| other != zone && at + self.config.program > now);
            self.media.stalls.push((zone, now));
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

    /// Whether a write is of whole units, which the controller takes for `unit_time`.
    #[inline(always)]
    fn is_whole(&self, bytes: u64) -> bool {
        self.media.write_unit > 0 && bytes.is_multiple_of(self.media.write_unit)
    }

    /// The time that an append takes longer than a write.
    fn append_extra(&self) -> Nanos {
        Nanos(self.config.append_time.0.saturating_sub(self.config.write_time.0))
    }

    #[inline(always)]
    fn time_of_command(&self, op: Op, zone: ZoneNo, bytes: u64) -> Nanos {
        let write = |time: Nanos| {
            let switches = self.media.last_zone.is_some_and(|last| last != zone);
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
            Op::ZoneFinish if self.media.buffer.written(zone).1 => manage_time + write_time,
            Op::ZoneClose if self.media.buffer.written(zone).0 > 0 => manage_time + write_time,
            _ => manage_time,
        }
    }

    #[inline(always)]
    fn transfer_bytes(&mut self, id: CommandId, zone: ZoneNo, bytes: u64, from: Nanos) {
        let moved = from + self.link.time(bytes);
        let end = if self.config.zone_rate.0 == 0 {
            moved
        } else {
            let buffered = self.media.zone_in.time(bytes);
            let state = self.media.buffer.zone(zone);
            state.busy_until = from.max(state.busy_until) + buffered;
            moved.max(state.busy_until)
        };
        self.free_at = moved;
        let extra = self.commands[id.0 as usize].note.extra;
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
        self.command(id).note.extra = done - from;
        match self.media.appends.iter_mut().find(|(other, _)| *other == zone) {
            Some((_, waiting)) => waiting.push_back(id),
            None => {
                self.media.appends.push((zone, VecDeque::new()));
                self.events.add(done, Event::Media(ZoneEvent::Appended(id)));
            }
        }
    }

    /// An append is executed. The next one of its zone is a random one of the first that wait.
    fn appended(&mut self, id: CommandId) {
        let zone = self.zone_of(id);
        let bytes = self.command(id).note.effect.buffer_bytes;
        let latency = self.write_latency();
        self.events.add(self.now + latency, Event::Complete(id));
        let at = self.media.appends.iter().position(|(other, _)| *other == zone);
        let at = at.expect("an append of the zone was being executed");
        let waiting = &mut self.media.appends[at].1;
        match draw(waiting, self.drawn_from, bytes, &mut self.turns) {
            Some(next) => {
                let time = self.command(next).note.extra;
                self.events.add(self.now + time, Event::Media(ZoneEvent::Appended(next)));
            }
            None => {
                self.media.appends.swap_remove(at);
            }
        }
    }

    /// Erases the written blocks of the zones that a reset has emptied.
    fn reset(&mut self, id: CommandId) {
        let zones = std::mem::take(&mut self.command(id).note.effect.emptied);
        if self.config.reset_time > Nanos(0) {
            return self.release(id, &zones);
        }
        let mut ops = 0;
        for zone in zones {
            let sent = self.media.buffer.reset(zone);
            for (die, units) in self.media.stripe.units_by_die(zone, 0, sent) {
                let blocks = self.media.stripe.blocks(units);
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
            let (written, open) = self.media.buffer.written(zone);
            let sent = self.media.buffer.reset(zone);
            time += self.config.reset_time + time_of(written, self.config.reset_rate);
            if open && sent > 0 {
                time += self.config.time_to_close();
            }
            if self.config.reset_hold > 0 {
                cleans.extend(self.media.stripe.units_by_die(zone, 0, sent));
            }
        }
        let command = self.command(id);
        command.pending_ops = 1;
        if self.config.reset_hold == 0 {
            return self.events.add(self.now + time, Event::Media(ZoneEvent::Released(id)));
        }
        let most =
            cleans.iter().map(|&(_, units)| self.media.stripe.blocks(units)).max().unwrap_or(0);
        let erase = Nanos(self.config.erase.0.saturating_mul(most));
        self.command(id).note.cleans = cleans;
        self.media.resets.add(id, time, erase);
        self.prepare_resets();
    }

    /// Begins resets, unless others are being executed, once the units of other zones are programmed: of
    /// those that were appended, the ones that have begun.
    fn prepare_resets(&mut self) {
        let Some(id) = self.media.resets.drain_for() else { return };
        let zone = self.command(id).request().zone();
        if !self.media.buffer.others_program(zone) && self.media.cleaning == 0 {
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
        let Batch { ends, hold_ends } = self.media.resets.begin(self.now, self.config.reset_hold);
        self.flash.holds = true;
        self.events.add(hold_ends, Event::Media(ZoneEvent::HoldEnds));
        for (id, end) in ends {
            self.events.add(end, Event::Media(ZoneEvent::Released(id)));
        }
    }

    /// A reset is done: the blocks that it released are erased.
    fn released(&mut self, id: CommandId) {
        for (die, units) in std::mem::take(&mut self.command(id).note.cleans) {
            let blocks = self.media.stripe.blocks(units);
            self.media.cleaning += 1;
            self.enqueue(die, DieOp::Clean { blocks });
        }
        self.op_done(id);
        if self.config.reset_hold > 0 {
            self.media.resets.done();
            self.prepare_resets();
        }
    }

    /// Pads a zone to its end.
    fn finish(&mut self, id: CommandId, zone: ZoneNo) {
        let (partial, units) = self.media.buffer.finish(zone);
        let mut from = units.start;
        let mut ops = 0;
        if partial > 0 {
            let die = self.program(zone, from, partial, false);
            self.flash.add(self.now, die, DieOp::Barrier { command: id }, &mut self.events);
            (from, ops) = (from + 1, 1);
        }
        for (die, units) in self.media.stripe.units_by_die(zone, from, units.end) {
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
        for (zone, unit) in self.media.buffer.save() {
            self.enqueue(self.media.stripe.die(zone, unit), DieOp::Save);
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

    /// Data of a zone have arrived in the buffer; units that are full now are programmed.
    #[inline]
    fn arrive(&mut self, zone: ZoneNo, bytes: u64, yields: bool) {
        self.media.buffer.arrive(zone, bytes, |unit, bytes| self.media.full.push((unit, bytes)));
        if !self.media.full.is_empty() {
            self.program_full(zone, yields);
        }
    }

    #[inline(never)]
    fn program_full(&mut self, zone: ZoneNo, yields: bool) {
        let mut full = std::mem::take(&mut self.media.full);
        for (unit, bytes) in full.drain(..) {
            self.program(zone, unit, bytes, yields);
        }
        self.media.full = full;
    }

    /// The die that programs a unit: the one of the zone's stripe with the fewest programs and erases
    /// pending. Ties go to the die where reads look for the unit, then to the next one.
    fn die_for(&self, zone: ZoneNo, unit: u64) -> u32 {
        let first = self.media.stripe.die(zone, unit);
        let dies = self.media.stripe.dies(zone);
        let others = (first..dies.end).chain(dies.start..first);
        others.min_by_key(|&die| self.flash.programs(die)).unwrap_or(first)
    }

    /// Has a unit of a zone programmed, of which `bytes` are in the buffer.
    fn program(&mut self, zone: ZoneNo, unit: u64, bytes: u64, yields: bool) -> u32 {
        let die = self.die_for(zone, unit);
        self.media.buffer.queued(die, zone, bytes);
        let mark = self.media.buffer.zone(zone).generation;
        let steps = self.config.nand().program_steps();
        self.enqueue(die, DieOp::Program(Program { zone, bytes, mark, steps, yields }));
        self.log();
        die
    }

    /// A unit has been queued: after each `log_interval` of them the drive programs one on each die for
    /// itself.
    fn log(&mut self) {
        let interval = self.config.log_interval.0;
        self.media.since_log += self.config.unit().0;
        if interval == 0 || self.media.since_log < interval {
            return;
        }
        self.media.since_log -= interval;
        for die in 0..self.config.dies {
            self.enqueue(die, DieOp::Save);
        }
    }
}

impl Media for Zoned {
    type Config = ZnsConfig;
    type Note = Note;
    type Event = ZoneEvent;
    const HAS_ZONES: bool = true;

    #[inline]
    fn clear(note: &mut Note) {
        note.effect.clear();
        note.generation = 0;
        note.arrived = false;
        note.extra = Nanos(0);
    }

    #[inline]
    fn execute(drive: &mut Drive, id: CommandId, now: Nanos) {
        drive.execute(id, now);
    }

    #[inline]
    fn space_of(command: &Command<Note>) -> u64 {
        command.note.effect.buffer_bytes
    }

    #[inline]
    fn reserve(&mut self, bytes: u64) -> bool {
        self.buffer.reserve(bytes)
    }

    fn transfer(drive: &mut Drive, id: CommandId, from: Nanos) {
        let command = drive.command(id);
        let zone = command.request().zone();
        let bytes = if command.request().op() == Op::ZrwaFlush { 0 } else { command.bytes() };
        drive.transfer_bytes(id, zone, bytes, from);
    }

    fn begin(drive: &mut Drive, id: CommandId) {
        let command = drive.command(id);
        let (op, zone, generation) =
            (command.request().op(), command.request().zone(), command.note.generation);
        match op {
            Op::ZoneReset | Op::ZoneResetAll => drive.reset(id),
            // A zone that was changed past the queues meanwhile has nothing to pad.
            Op::ZoneFinish if drive.media.buffer.zone(zone).generation == generation => {
                drive.finish(id, zone);
            }
            Op::Flush => drive.flush(id),
            _ => {}
        }
    }

    /// Reads what is on the flash; data in the buffer, data that were read ahead and unwritten data
    /// take no flash operation.
    fn read(drive: &mut Drive, id: CommandId) {
        let zone_size = drive.config.zone_size.to_sectors().0;
        let command = drive.command(id);
        let (request, stream) = (command.request(), command.stream);
        let zone = request.zone();
        let start = Sector(u64::from(zone.0) * zone_size);
        let from = (request.sector() - start).to_bytes().0;
        let end = (request.end() - start).to_bytes().0;
        let to = match stream {
            Stream::Ahead => from,
            _ => end.min(drive.media.buffer.on_flash(zone)),
        };
        let mut ops = 0;
        for Piece { die, first, last, bytes } in drive.media.stripe.pieces(zone, from, to) {
            let op = DieOp::Read { command: id, zone, first, last, bytes };
            drive.enqueue(die, op);
            ops += 1;
        }
        drive.wait_to_send(id, ops);
    }

    /// A write that has to be flushed waits for that once its data are in the buffer.
    fn finish(drive: &mut Drive, id: CommandId) -> bool {
        let command = drive.command(id);
        let request = command.request();
        let (op, zone, flags) = (request.op(), request.zone(), request.flags());
        let (bytes, generation) = (command.note.effect.buffer_bytes, command.note.generation);
        let writes = op.is_write() || op == Op::ZrwaFlush;
        if !writes || std::mem::replace(&mut command.note.arrived, true) {
            return true;
        }
        if drive.media.buffer.zone(zone).generation == generation {
            drive.arrive(zone, bytes, op == Op::ZoneAppend);
        } else {
            drive.media.buffer.release(bytes);
        }
        if flags.contains(BioFlags::FUA) || flags.contains(BioFlags::PREFLUSH) {
            drive.flush(id);
            return drive.command(id).pending_ops == 0;
        }
        true
    }

    #[inline]
    fn programmed(drive: &mut Drive, die: u32, program: Program) {
        let Program { zone, bytes, mark: generation, steps, .. } = program;
        if steps > 1 {
            drive.media.buffer.release(bytes);
        } else {
            drive.media.buffer.programmed(die, zone, bytes, generation);
        }
    }

    /// Of a reset that waited for programs, itself is left when they are done.
    #[inline]
    fn op_done(drive: &mut Drive, id: CommandId) {
        if drive.op_done(id) == 1 && drive.media.resets.is_draining(id) {
            drive.begin_resets();
        }
    }

    fn event(drive: &mut Drive, event: ZoneEvent) {
        match event {
            ZoneEvent::Appended(id) => drive.appended(id),
            ZoneEvent::Released(id) => drive.released(id),
            ZoneEvent::HoldEnds => {
                drive.flash.holds = false;
                drive.begin_all();
            }
        }
    }

    fn cleaned(&mut self) {
        self.cleaning -= 1;
    }

    fn rivals(drive: &mut Drive) -> u32 {
        let recent = |&&(_, at): &&(ZoneNo, Nanos)| at + drive.config.program > drive.now;
        let rivals = drive.media.stalls.iter().filter(recent).count();
        u32::try_from(rivals).expect("no more than zones")
    }

    #[inline]
    fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    #[inline]
    fn has_turns(&self) -> bool {
        !self.second_turns.is_empty()
    }

    /// Has the controller take one of the turns that it owes, those of zones with partial pages and
    /// those of commands that wait, in random order; a zone's turns are in order.
    fn take_turn(drive: &mut Drive, now: Nanos) {
        let second_turns = &mut drive.media.second_turns;
        let all = second_turns.len() + drive.waiting.len();
        let chosen = drive.turns.below(all as u64);
        let chosen = usize::try_from(chosen).expect("one of those that there are");
        let zone_of = |id: CommandId| drive.commands[id.0 as usize].request().zone();
        let zone = match chosen.checked_sub(second_turns.len()) {
            None => second_turns[chosen].0,
            Some(at) => zone_of(drive.waiting[at]),
        };
        if let Some(at) = second_turns.iter().position(|(other, _)| *other == zone) {
            return match second_turns.swap_remove(at).1 {
                SecondTurn::Write(id) => drive.write(id, now),
                SecondTurn::WriteBack => drive.free_at = now + drive.config.partial_time,
            };
        }
        let first = drive.waiting.iter().position(|id| zone_of(*id) == zone);
        let id = drive.waiting.remove(first.expect("one of the zone was chosen"));
        drive.execute(id.expect("it is in the queue"), now);
    }

    /// Does what the age of zones requires.
    #[inline]
    fn age(drive: &mut Drive, now: Nanos) {
        if drive.media.aging.is_some() {
            drive.age_zones(now);
        }
    }

    fn drained(&mut self, now: Nanos) {
        self.buffer.drained(now);
    }
}

/// A command other than a read has been executed.
fn note_age(aging: &mut Aging, medium: &Medium, op: Op, zone: ZoneNo, now: Nanos) {
    let Ok(zones) = medium.storage.get().and_then(Storage::zones) else { return };
    if op == Op::ZoneResetAll {
        return aging.note_all(zones, now);
    }
    aging.note(zone, zones.condition(zone), now);
}
