//! The inside of a drive: the controller, and what it sets going.
//!
//! Takes commands from the hardware queues; gives them back ended. Keeps true: commands are taken
//! up in the order in which they came, and have their effect then; a write ends when its data are
//! in the write buffer, in which there is always room for it by then; a flush ends when all that
//! had ended before it is safe.
//!
//! ```text
//!   commands --> controller + transfer --> zone's way into the buffer --> end of a write
//!                (one at a time)           (one command of a zone at a time)
//!                                               |  a unit is full
//!                                               v
//!                                           dies of the zone's stripe
//! ```
//!
//! The controller is held up by a command for the command's time and for the transfer of its
//! data from the host. Data for the host go out over the link's other direction meanwhile.
use super::buffer::Buffer;
use super::event_queue::{CommandId, Event, EventQueue};
use super::flash::{DieOp, Flash};
use super::medium::{Effect, Medium};
use super::stripe::Stripe;
use super::{ZnsConfig, time_of};
use std::collections::VecDeque;
use std::sync::Arc;
use zonal_blk::{BioFlags, Bytes, Nanos, Op, Request, Sector, Status, Wake, ZoneCondition, ZoneNo};

/// A command that the drive has.
struct Command {
    request: Box<Request>,
    queue: usize,
    effect: Effect,
    /// The zone's generation when the command was taken up.
    generation: u32,
    /// What the flash has yet to do for it.
    parts: u32,
    /// A write's data are in the buffer.
    arrived: bool,
}

/// What all hardware queues share, behind one lock.
pub(super) struct Drive {
    config: ZnsConfig,
    medium: Arc<Medium>,
    stripe: Stripe,
    now: Nanos,
    events: EventQueue,
    commands: Vec<Option<Command>>,
    free: Vec<CommandId>,
    /// Commands that were not taken up.
    waiting: VecDeque<CommandId>,
    /// Writes that were taken up and found no room in the buffer.
    stalled: VecDeque<CommandId>,
    busy: bool,
    /// The zone of the last write.
    last_zone: Option<ZoneNo>,
    /// When the link to the host is free.
    link_out: Nanos,
    buffer: Buffer,
    flash: Flash,
    /// For units that are to be programmed; kept for its capacity.
    full: Vec<(u64, u64)>,
    /// By hardware queue, what has ended and what has not.
    queues: Vec<QueueState>,
}

#[derive(Default)]
struct QueueState {
    done: Vec<Box<Request>>,
    in_flight: usize,
}

impl Drive {
    pub(super) fn new(config: &ZnsConfig, medium: Arc<Medium>) -> Self {
        Drive {
            medium,
            stripe: Stripe::new(config),
            now: Nanos(0),
            events: EventQueue::default(),
            commands: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            stalled: VecDeque::new(),
            busy: false,
            last_zone: None,
            link_out: Nanos(0),
            buffer: Buffer::new(config),
            flash: Flash::new(config),
            full: Vec::new(),
            queues: Vec::new(),
            config: config.clone(),
        }
    }

    /// Opens one more hardware queue; gives its number.
    pub(super) fn open_queue(&mut self) -> usize {
        self.queues.push(QueueState::default());
        self.queues.len() - 1
    }

    /// Bytes in the write buffer.
    pub(super) fn buffered(&self) -> u64 {
        self.buffer.used()
    }

    /// Moves a zone's write pointer in its random write area.
    pub(super) fn commit(&mut self, now: Nanos, zone: ZoneNo, to: Sector) -> Result<(), Status> {
        self.advance(now);
        // An area is all that a commit can move.
        if !self.stalled.is_empty() || !self.buffer.reserve(self.config.zrwa.0) {
            return Err(Status::Again);
        }
        let moves = self.medium.commit(zone, to);
        let bytes = moves.map_or(0, |moves| moves.to_bytes().0);
        self.buffer.release(self.config.zrwa.0 - bytes);
        self.arrive(zone, bytes);
        moves.map(|_| ())
    }

    /// Takes a command from a hardware queue.
    pub(super) fn start(&mut self, now: Nanos, queue: usize, request: Box<Request>) {
        self.advance(now);
        self.queues[queue].in_flight += 1;
        let command = Command {
            request,
            queue,
            effect: Effect::default(),
            generation: 0,
            parts: 0,
            arrived: false,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.commands.push(None);
            CommandId(u32::try_from(self.commands.len() - 1).expect("2^16 queues of 2^16 tags"))
        });
        self.commands[id.0 as usize] = Some(command);
        self.waiting.push_back(id);
        // The clocks of two threads can differ a little.
        self.run_controller(self.now);
    }

    /// Moves what has ended on a hardware queue by `now` to the end of `done`.
    pub(super) fn poll(&mut self, now: Nanos, queue: usize, done: &mut Vec<Box<Request>>) {
        self.advance(now);
        let ends = &mut self.queues[queue];
        ends.in_flight -= ends.done.len();
        done.append(&mut ends.done);
    }

    /// When to poll a hardware queue next: whatever happens next may end one of its commands.
    pub(super) fn next_event(&self, queue: usize) -> Wake {
        let ends = &self.queues[queue];
        match (ends.done.is_empty(), ends.in_flight) {
            (false, _) => Wake::Now,
            (true, 0) => Wake::Idle,
            (true, _) => self.events.next().map_or(Wake::Idle, Wake::At),
        }
    }

    /// Lets everything happen that is to happen, now.
    pub(super) fn drain(&mut self) {
        let now = self.now;
        while let Some(at) = self.events.next() {
            self.advance(at);
        }
        self.now = now;
        self.link_out = self.link_out.min(now);
        self.buffer.drained(now);
        self.flash.drained(now);
    }

    /// A zone's write pointer or condition was changed by no command. Writes that are on their way
    /// count no more.
    pub(super) fn reload_zone(&mut self, zone: ZoneNo) {
        let Ok(zones) = self.medium.zones() else { return };
        let wp = zones.write_pointer(zone) - self.medium.zone_start(zone);
        self.load_zone(zone, wp.to_bytes(), zones.condition(zone));
    }

    /// A zone has so many bytes and is in this condition.
    pub(super) fn load_zone(&mut self, zone: ZoneNo, written: Bytes, cond: ZoneCondition) {
        use ZoneCondition::{Full, Offline, ReadOnly};
        // One that was finished is programmed to its end.
        let bytes = if cond == Full { u64::MAX } else { written.0 };
        self.buffer.reload_zone(zone, bytes, !matches!(cond, Full | ReadOnly | Offline));
    }

    /// Lets everything happen that happens by `now`.
    fn advance(&mut self, now: Nanos) {
        while let Some((at, event)) = self.events.pop(now) {
            self.now = self.now.max(at);
            match event {
                Event::Controller => self.busy = false,
                Event::Begin(id) => self.begin_command(id),
                Event::End(id) => self.end(id),
                Event::Die { die, round } => {
                    let work = self.flash.ended(self.now, die, round, &mut self.events);
                    if let Some(work) = work {
                        self.die_op_done(work);
                    }
                    self.begin(die);
                }
            }
            self.run_controller(self.now);
        }
        self.now = self.now.max(now);
    }

    fn command(&mut self, id: CommandId) -> &mut Command {
        self.commands[id.0 as usize].as_mut().expect("the command has not ended")
    }

    /// Lets the controller go on, if it is free.
    fn run_controller(&mut self, now: Nanos) {
        while !self.busy {
            if let Some(&id) = self.stalled.front()
                && self.reserve(id)
            {
                self.stalled.pop_front();
                self.transfer(id, now);
            } else if let Some(id) = self.waiting.pop_front() {
                self.execute(id, now);
            } else {
                return;
            }
        }
    }

    fn occupy_controller(&mut self, until: Nanos) {
        self.busy = true;
        self.events.add(until, Event::Controller);
    }

    fn reserve(&mut self, id: CommandId) -> bool {
        let room = self.command(id).effect.room;
        self.buffer.reserve(room)
    }

    /// The controller looks at a command: it has its effect.
    fn execute(&mut self, id: CommandId, now: Nanos) {
        let medium = Arc::clone(&self.medium);
        let command = self.commands[id.0 as usize].as_mut().expect("a command that waits");
        let request = &mut command.request;
        let (op, zone) = (request.op(), request.zone());
        match medium.execute(command.queue, request) {
            Ok(effect) => command.effect = effect,
            Err(status) => {
                request.set_status(status);
                let decided = now + self.time_of_command(op, zone);
                self.occupy_controller(decided);
                self.events.add(decided, Event::End(id));
                return;
            }
        }
        request.set_status(Status::Ok);
        let room = command.effect.room;
        let decided = now + self.time_of_command(op, zone);
        match op {
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => {
                self.last_zone = Some(zone);
                self.command(id).generation = self.buffer.zone(zone).generation;
                if self.stalled.is_empty() && self.buffer.reserve(room) {
                    self.transfer(id, decided);
                } else {
                    self.stalled.push_back(id);
                    self.occupy_controller(decided);
                }
            }
            _ => {
                if op == Op::ZoneFinish {
                    self.command(id).generation = self.buffer.zone(zone).generation;
                }
                self.events.add(decided, Event::Begin(id));
                self.occupy_controller(decided);
            }
        }
    }

    /// The controller has decided what a command that is no write needs done.
    fn begin_command(&mut self, id: CommandId) {
        let request = &self.command(id).request;
        let (op, zone) = (request.op(), request.zone());
        match op {
            Op::Read => return self.read(id),
            Op::ZoneReset | Op::ZoneResetAll => self.reset(id),
            // A zone that was emptied meanwhile, past the drive, has nothing to fill.
            Op::ZoneFinish if self.buffer.zone(zone).generation == self.command(id).generation => {
                self.finish(id, zone);
            }
            Op::Flush => self.flush(id),
            _ => {}
        }
        if self.command(id).parts == 0 {
            self.end(id);
        }
    }

    fn time_of_command(&self, op: Op, zone: ZoneNo) -> Nanos {
        let write = |time: Nanos| {
            let switches = self.last_zone.is_some_and(|last| last != zone);
            if switches { time + self.config.zone_switch } else { time }
        };
        match op {
            Op::Write | Op::WriteZeroes => write(self.config.write_time),
            Op::ZoneAppend => write(self.config.append_time),
            Op::Read => self.config.read_time,
            _ => self.config.manage_time,
        }
    }

    /// Moves a write's data from the host into the buffer, where they have room.
    fn transfer(&mut self, id: CommandId, from: Nanos) {
        let request = &self.command(id).request;
        let zone = request.zone();
        let bytes = Sector(request.nr_sectors().into()).to_bytes().0;
        let moved = from + time_of(bytes, self.config.link_rate);
        let way = time_of(bytes, self.config.zone_rate);
        let state = self.buffer.zone(zone);
        state.busy_until = from.max(state.busy_until) + way;
        let end = moved.max(state.busy_until);
        self.occupy_controller(moved);
        self.events.add(end, Event::End(id));
    }

    /// Something that a command waited for has come: the end of the command, if it was the last.
    fn part_done(&mut self, id: CommandId) {
        let command = self.command(id);
        command.parts -= 1;
        if command.parts > 0 {
            return;
        }
        if self.command(id).request.op() == Op::Read {
            self.send(id);
        } else {
            self.end(id);
        }
    }

    /// Moves a read's data to the host.
    fn send(&mut self, id: CommandId) {
        let sectors = self.command(id).request.nr_sectors();
        let bytes = Sector(sectors.into()).to_bytes().0;
        self.link_out = self.now.max(self.link_out) + time_of(bytes, self.config.link_rate);
        self.events.add(self.link_out, Event::End(id));
    }

    /// Reads what is on the flash; what is in the buffer or was never written is at hand.
    fn read(&mut self, id: CommandId) {
        let zone_size = self.config.zone_size.to_sectors().0;
        let request = &self.command(id).request;
        let zone = request.zone();
        let start = Sector(u64::from(zone.0) * zone_size);
        let from = (request.sector() - start).to_bytes().0;
        let to = (request.end() - start).to_bytes().0.min(self.buffer.on_flash(zone));
        let mut parts = 0;
        for piece in self.stripe.pieces(zone, from, to) {
            let work = DieOp::Read { command: id, pages: piece.pages, bytes: piece.bytes };
            self.enqueue(piece.die, work);
            parts += 1;
        }
        self.command(id).parts = parts;
        if parts == 0 {
            self.send(id);
        }
    }

    /// Erases what was written of the zones that a reset has emptied.
    fn reset(&mut self, id: CommandId) {
        let zones = std::mem::take(&mut self.command(id).effect.emptied);
        let mut parts = 0;
        for zone in zones {
            let sent = self.buffer.reset(zone);
            for (die, units) in self.stripe.units_by_die(zone, 0, sent) {
                let blocks = self.stripe.blocks(units);
                let work = DieOp::Erase { command: id, blocks };
                self.enqueue(die, work);
                parts += 1;
            }
        }
        self.command(id).parts = parts;
    }

    /// Fills the rest of a zone with padding.
    fn finish(&mut self, id: CommandId, zone: ZoneNo) {
        let (partial, units) = self.buffer.finish(zone);
        let generation = self.buffer.zone(zone).generation;
        let mut from = units.start;
        if partial > 0 {
            let work = DieOp::Program { zone, bytes: partial, generation };
            self.enqueue(self.stripe.die(zone, from), work);
            from += 1;
        }
        let mut parts = 0;
        for (die, units) in self.stripe.units_by_die(zone, from, units.end) {
            self.enqueue(die, DieOp::Pad { command: id, units });
            parts += 1;
        }
        self.command(id).parts = parts;
    }

    /// Without a buffer that outlives a loss of power, waits for all that was given to the flash,
    /// and for copies of the units in part.
    fn flush(&mut self, id: CommandId) {
        if self.config.power_safe {
            return;
        }
        for (zone, unit) in self.buffer.save() {
            self.enqueue(self.stripe.die(zone, unit), DieOp::Save);
        }
        let mut parts = 0;
        for die in 0..self.config.dies {
            if self.flash.is_writing(die) {
                self.flash.add(self.now, die, DieOp::Barrier { command: id }, &mut self.events);
                parts += 1;
            }
        }
        self.command(id).parts = parts;
    }

    /// Gives a die something to do, which it begins if it is free.
    fn enqueue(&mut self, die: u32, work: DieOp) {
        self.flash.add(self.now, die, work, &mut self.events);
        self.begin(die);
    }

    /// Lets a die go on, if it is free.
    fn begin(&mut self, die: u32) {
        while let Some(work) = self.flash.begin(self.now, die, &mut self.events) {
            self.die_op_done(work);
        }
    }

    fn die_op_done(&mut self, work: DieOp) {
        match work {
            DieOp::Program { zone, bytes, generation } => {
                self.buffer.programmed(zone, bytes, generation);
            }
            DieOp::Save => {}
            DieOp::Pad { command, .. }
            | DieOp::Erase { command, .. }
            | DieOp::Read { command, .. }
            | DieOp::Barrier { command } => self.part_done(command),
        }
    }

    /// Data of a zone have arrived in the buffer: the units that they fill are programmed.
    fn arrive(&mut self, zone: ZoneNo, bytes: u64) {
        let generation = self.buffer.zone(zone).generation;
        let mut full = std::mem::take(&mut self.full);
        self.buffer.arrive(zone, bytes, |unit, bytes| full.push((unit, bytes)));
        for (unit, bytes) in full.drain(..) {
            let work = DieOp::Program { zone, bytes, generation };
            self.enqueue(self.stripe.die(zone, unit), work);
        }
        self.full = full;
    }

    /// A command ends, unless it is a write that must be safe and is not.
    fn end(&mut self, id: CommandId) {
        let command = self.command(id);
        let request = &command.request;
        let (op, zone, flags) = (request.op(), request.zone(), request.flags());
        let (room, generation) = (command.effect.room, command.generation);
        let writes = op.is_write() && request.status() == Status::Ok;
        if writes && !std::mem::replace(&mut command.arrived, true) {
            if self.buffer.zone(zone).generation == generation {
                self.arrive(zone, room);
            } else {
                self.buffer.release(room);
            }
            if flags.contains(BioFlags::FUA) || flags.contains(BioFlags::PREFLUSH) {
                self.flush(id);
                if self.command(id).parts > 0 {
                    return;
                }
            }
        }
        let command = self.commands[id.0 as usize].take().expect("a command ends once");
        self.free.push(id);
        self.queues[command.queue].done.push(command.request);
    }
}
