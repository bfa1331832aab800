//! The controller of a flash drive, and the events that its commands cause. What is below it, zones or a
//! translation layer, is its [`Media`].
//!
//! Invariants: commands are fetched in the order of submission and take effect when they are fetched; a
//! write completes when its data are in the write buffer, where it has reserved space.
//!
//! ```text
//!   commands --> controller + transfer --> write buffer --> write completes
//!                (one at a time)               |  a unit is full
//!                                              v
//!                                            media --> dies
//! ```
//!
//! A command occupies the controller for the command's time and for the transfer of its data from
//! the host. Data to the host use the other direction of the link meanwhile.
use super::{
    CommandId, Controller, DieOp, DieStep, Event, EventQueue, Flash, FlashActivity, FlashEntry,
    FlashTraceSink, Nand, Program, Queues, Slot, Slots, Stream, Streams, Transfers,
};
use crate::control::Lateness;
use crate::rng::Rng;
use std::collections::VecDeque;
use std::fmt;
use zonal_blk::{Bytes, Nanos, Op, Request, Sector, Status, Tag, ZoneNo};

/// An outstanding command, or the place of one.
#[derive(Default)]
pub(crate) struct Command<N> {
    pub(crate) request: Option<Box<Request>>,
    pub(crate) queue: usize,
    /// The stream that a read continues.
    pub(crate) stream: Stream,
    /// The place of a read that has begun.
    slot: Slot,
    /// Flash operations that it waits for.
    pub(crate) pending_ops: u32,
    pub(crate) note: N,
}

impl<N> Command<N> {
    pub(crate) fn request(&self) -> &Request {
        self.request.as_deref().expect("the command is outstanding")
    }

    /// The length of its data.
    pub(crate) fn bytes(&self) -> u64 {
        Sector(self.request().nr_sectors().into()).to_bytes().0
    }

    /// Its hardware queue and its tag.
    fn place(&self) -> (u32, Tag) {
        let queue = u32::try_from(self.queue).expect("there are at most 2^16 queues");
        (queue, self.request().tag())
    }
}

/// A write that was fetched and found no space in the buffer.
#[derive(Clone, Copy)]
struct Stalled {
    id: CommandId,
    since: Nanos,
    /// Data in the buffer waited for the collection then.
    held: bool,
}

/// The consequences of a transfer of a read's data to the host.
struct Sending {
    /// When the link is free after it.
    link_out: Nanos,
    /// When what has been read ahead and asked for is in memory.
    ahead_at: Nanos,
    end: Nanos,
}

/// What is below the controller: it knows where the data are, and has the dies read and program them.
pub(crate) trait Media: Sized + Send + 'static {
    /// The options of the drive.
    type Config: Send;
    /// What it notes of each command.
    type Note: Default + Send;
    /// An event of its own.
    type Event: Copy + fmt::Debug + PartialEq + Send;
    /// Whether traces name zones.
    const HAS_ZONES: bool;

    /// Makes a note that of a new command.
    fn clear(note: &mut Self::Note);

    /// The controller fetches a command, which takes effect.
    fn execute(drive: &mut Drive<Self>, id: CommandId, now: Nanos);

    /// The buffer space that a write needs.
    fn space_of(command: &Command<Self::Note>) -> u64;

    /// Reserves space in the buffer; false if there is not enough.
    fn reserve(&mut self, bytes: u64) -> bool;

    /// Transfers a write's data from the host into the buffer, where they have space.
    fn transfer(drive: &mut Drive<Self>, id: CommandId, from: Nanos);

    /// Begins the flash operations of a command that neither reads nor writes.
    fn begin(drive: &mut Drive<Self>, id: CommandId);

    /// Begins those of a read, which has a place.
    fn read(drive: &mut Drive<Self>, id: CommandId);

    /// A command other than a read is about to complete. Returns false if it has to wait for flash
    /// operations, after which this is called again.
    fn finish(drive: &mut Drive<Self>, id: CommandId) -> bool;

    /// A die has programmed a unit or a part of it.
    fn programmed(drive: &mut Drive<Self>, die: u32, program: Program);

    /// A die has done an operation of a command.
    fn op_done(drive: &mut Drive<Self>, id: CommandId);

    /// A die has erased the blocks of a command.
    fn erased(drive: &mut Drive<Self>, id: CommandId) {
        Self::op_done(drive, id);
    }

    /// An event of its own is due.
    fn event(drive: &mut Drive<Self>, event: Self::Event);

    /// A die has erased blocks that a reset had released.
    fn cleaned(&mut self) {}

    /// Zones whose writes wait for space.
    fn rivals(_drive: &mut Drive<Self>) -> u32 {
        0
    }

    /// Whether data in the buffer wait for the collection.
    fn is_held(&self) -> bool {
        false
    }

    /// Whether the media decide what the controller does next.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Whether the controller has something to do besides the commands that wait.
    fn has_turns(&self) -> bool {
        false
    }

    /// Has the controller do what it decides.
    fn take_turn(_drive: &mut Drive<Self>, _now: Nanos) {}

    /// The drive's time is `now`.
    fn age(_drive: &mut Drive<Self>, _now: Nanos) {}

    /// All pending work is complete, at `now`.
    fn drained(&mut self, _now: Nanos) {}
}

/// What the controller needs to know of a drive's options. `zns` documents those that not all kinds of
/// drive have.
pub(crate) struct Setup {
    pub(crate) nand: Nand,
    pub(crate) latency: Nanos,
    pub(crate) link_rate: Bytes,
    pub(crate) read_link_rate: Bytes,
    pub(crate) send_time: Nanos,
    pub(crate) reads: u32,
    pub(crate) read_ahead: bool,
    /// Zones, of which each has streams of its own, and the dies of one.
    pub(crate) zones: u32,
    pub(crate) zone_dies: u32,
    /// The least that a read takes of what was read ahead.
    pub(crate) ahead_least: u64,
    pub(crate) stream_rate: Bytes,
    pub(crate) write_spread: u32,
    pub(crate) drawn_from: Bytes,
}

/// State shared by all hardware queues, under one lock.
pub(crate) struct Drive<M: Media> {
    pub(crate) config: M::Config,
    pub(crate) media: M,
    pub(crate) now: Nanos,
    /// Where [`Drive::advance`] goes to: the time of the call, when `now` is that of an event.
    advances_to: Nanos,
    lateness: Lateness,
    pub(crate) events: EventQueue<M::Event>,
    pub(crate) commands: Vec<Command<M::Note>>,
    free: Vec<CommandId>,
    /// Commands not yet fetched.
    pub(crate) waiting: VecDeque<CommandId>,
    stalled: VecDeque<Stalled>,
    /// The first of them is the next to have space.
    is_drawn: bool,
    pub(crate) drawn_from: u64,
    /// Decides what is next where the order is random.
    pub(crate) turns: Rng,
    /// When the controller is free.
    pub(crate) free_at: Nanos,
    /// An event will have the controller go on when it is free.
    wakes: bool,
    /// The latency of most writes, and that of one in four.
    write_latency: [Nanos; 2],
    /// From the host to the drive.
    pub(crate) link: Transfers,
    /// From the drive to the host, and that of a read that continues another.
    read_link: Transfers,
    stream_link: Transfers,
    has_stream_link: bool,
    send_time: Nanos,
    /// A page of a plane, and one of all planes of a die.
    page: u64,
    row: u64,
    /// At which a stream is read ahead of.
    ahead: Transfers,
    ahead_least: u64,
    /// When the link to the host is free.
    link_out: Nanos,
    /// When what has been read ahead and asked for is in memory.
    ahead_at: Nanos,
    pub(crate) streams: Streams,
    slots: Slots,
    /// The last read that was fetched is of data that have been read ahead and are in memory, and has not
    /// begun.
    pub(crate) reads_ahead: bool,
    /// Reads that wait for a place.
    waiting_reads: VecDeque<CommandId>,
    pub(crate) flash: Flash,
    dies: u32,
    queues: Queues,
    trace: Option<FlashTraceSink>,
}

impl<M: Media> Drive<M> {
    pub(crate) fn new(setup: &Setup, config: M::Config, media: M) -> Self {
        let nand = &setup.nand;
        let zones = setup.read_ahead.then_some(setup.zones);
        Drive {
            config,
            media,
            now: Nanos(0),
            advances_to: Nanos(0),
            lateness: Lateness::default(),
            events: EventQueue::default(),
            commands: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            stalled: VecDeque::new(),
            is_drawn: false,
            drawn_from: setup.drawn_from.0,
            turns: Rng::new(0),
            free_at: Nanos(0),
            wakes: false,
            write_latency: write_latency(setup.latency, setup.write_spread),
            link: Transfers::at(setup.link_rate),
            read_link: Transfers::at(setup.read_link_rate),
            stream_link: Transfers::at(setup.stream_rate),
            has_stream_link: setup.stream_rate.0 > 0,
            send_time: setup.send_time,
            page: nand.page.0,
            row: nand.row().0,
            ahead: Transfers::at(nand.read_ahead_rate(setup.zone_dies)),
            ahead_least: setup.ahead_least,
            link_out: Nanos(0),
            ahead_at: Nanos(0),
            streams: Streams::new(nand, setup.zone_dies, setup.reads, zones),
            slots: Slots::new(setup.reads),
            reads_ahead: false,
            waiting_reads: VecDeque::new(),
            flash: Flash::new(nand),
            dies: nand.dies,
            queues: Queues::default(),
            trace: None,
        }
    }

    /// Sends what the dies do to `sink` from now on.
    pub(crate) fn trace_to(&mut self, sink: FlashTraceSink) {
        self.trace = Some(sink);
        self.flash.steps = Some(Vec::new());
    }

    /// Sends the steps of dies that are over. A number beyond those of commands is one of the media's own.
    #[cold]
    fn send_steps(&mut self) {
        let (Some(sink), Some(steps)) = (&mut self.trace, &mut self.flash.steps) else { return };
        for DieStep { die, activity, command, zone, from, to } in steps.drain(..) {
            let command = command.and_then(|id| self.commands.get(id.0 as usize));
            let (command, zone) = (command.map(Command::place), zone.filter(|_| M::HAS_ZONES));
            sink(&FlashEntry { from, to, activity, die: Some(die), zone, command });
        }
    }

    /// A write has waited for space in the buffer.
    #[cold]
    fn send_stall(&mut self, Stalled { id, since: from, held }: Stalled, to: Nanos) {
        let held = held || self.media.is_held();
        let Some(sink) = &mut self.trace else { return };
        let command = &self.commands[id.0 as usize];
        let activity = if held { FlashActivity::Collection } else { FlashActivity::BufferFull };
        let zone = M::HAS_ZONES.then(|| command.request().zone());
        let command = Some(command.place());
        sink(&FlashEntry { from, to, activity, die: None, zone, command });
    }

    /// Dies that have programs or erases pending.
    pub(crate) fn busy_dies(&self) -> u64 {
        (0..self.dies).filter(|&die| self.flash.is_writing(die)).count() as u64
    }

    /// Commands that completed late.
    pub(crate) fn lateness(&self) -> Lateness {
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
    pub(crate) fn drain(&mut self) {
        let now = self.now;
        while let Some(at) = self.events.next() {
            self.advance(at);
        }
        self.now = now;
        self.free_at = self.free_at.min(now);
        self.link_out = self.link_out.min(now);
        self.ahead_at = self.ahead_at.min(now);
        self.media.drained(now);
        self.flash.drained(now);
    }

    #[inline]
    pub(crate) fn command(&mut self, id: CommandId) -> &mut Command<M::Note> {
        &mut self.commands[id.0 as usize]
    }

    fn process_events(&mut self, now: Nanos) {
        while let Some((at, event)) = self.events.pop(now) {
            self.now = self.now.max(at);
            match event {
                Event::Controller => self.wakes = false,
                Event::Begin(id) => self.begin_command(id),
                Event::Complete(id) => self.complete(id),
                Event::Media(event) => M::event(self, event),
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

    /// Whether the controller has commands to process, now or when it is free.
    #[inline]
    fn has_work(&self) -> bool {
        !(self.waiting.is_empty() && self.stalled.is_empty()) || self.media.has_turns()
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
            if let Some(stalled) = self.take_stalled() {
                if self.trace.is_some() {
                    self.send_stall(stalled, now);
                }
                M::transfer(self, stalled.id, now);
            } else if self.waiting.is_empty() && !self.media.has_turns() {
                return;
            } else if self.media.takes_turns() {
                M::take_turn(self, now);
            } else if let Some(id) = self.waiting.pop_front() {
                M::execute(self, id, now);
            }
        }
        if self.has_work() && !self.wakes {
            self.wakes = true;
            self.events.add(self.free_at, Event::Controller);
        }
    }

    /// The write that waited for space and has it now, if there is one: a random one of the first of them,
    /// for which the others wait.
    fn take_stalled(&mut self) -> Option<Stalled> {
        let first = self.stalled.front()?.id;
        if !self.is_drawn && self.drawn_from > 0 {
            let bytes = M::space_of(self.command(first));
            let drawn = draw(&mut self.stalled, self.drawn_from, bytes, &mut self.turns)?;
            self.stalled.push_front(drawn);
        }
        self.is_drawn = true;
        let next = self.stalled.front()?.id;
        let bytes = M::space_of(self.command(next));
        if !self.media.reserve(bytes) {
            return None;
        }
        self.is_drawn = false;
        self.stalled.pop_front()
    }

    /// Whether writes wait for space in the buffer.
    #[inline]
    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// A write has to wait for space from `since` on.
    pub(crate) fn stall(&mut self, id: CommandId, since: Nanos) {
        let held = self.media.is_held();
        self.stalled.push_back(Stalled { id, since, held });
        self.free_at = since;
    }

    /// A command is refused once the controller is done with it.
    pub(crate) fn refuse(&mut self, id: CommandId, status: Status, decided: Nanos) {
        let request = self.command(id).request.as_deref_mut();
        request.expect("the command is outstanding").refuse(status);
        self.free_at = decided;
        self.events.add(decided, Event::Complete(id));
    }

    /// The length of a write's way.
    #[inline(always)]
    pub(crate) fn write_latency(&mut self) -> Nanos {
        let [most, fourth] = self.write_latency;
        if fourth == Nanos(0) {
            return most;
        }
        if self.turns.below(4) == 0 { fourth } else { most }
    }

    /// The controller is done with a command other than a write, whose flash operations begin.
    fn begin_command(&mut self, id: CommandId) {
        if self.command(id).request().op() == Op::Read {
            return self.begin_read(id);
        }
        M::begin(self, id);
        if self.command(id).pending_ops == 0 {
            self.complete(id);
        }
    }

    /// Begins a read, unless the drive works on as many as it can.
    fn begin_read(&mut self, id: CommandId) {
        self.reads_ahead = false;
        if self.slots.is_full() {
            return self.waiting_reads.push_back(id);
        }
        let alone = self.command(id).stream == Stream::Alone;
        self.command(id).slot = self.slots.take(alone);
        M::read(self, id);
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

    /// The dies begin this many operations for a read, which are all that it waits for.
    #[inline]
    pub(crate) fn wait_to_send(&mut self, id: CommandId, ops: u32) {
        self.command(id).pending_ops = ops;
        if ops == 0 {
            self.send(id);
        }
    }

    /// A flash operation of a command is done; the last one completes the command. Returns the number of
    /// those that are left.
    #[inline]
    pub(crate) fn op_done(&mut self, id: CommandId) -> u32 {
        let command = self.command(id);
        command.pending_ops -= 1;
        let left = command.pending_ops;
        if left == 0 && command.request().op() == Op::Read {
            self.send(id);
        } else if left == 0 {
            self.complete(id);
        }
        left
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
        let (bytes, stream) = (command.bytes(), command.stream);
        let continues = match stream {
            Stream::Alone => true,
            // Beside other streams, only reads of whole pages are slowed down.
            Stream::Continued => bytes >= self.page,
            Stream::None | Stream::Ahead => false,
        };
        let (send_time, link) = match self.has_stream_link && continues && bytes < self.row {
            true => (Nanos(0), &mut self.stream_link),
            false => (self.send_time, &mut self.read_link),
        };
        // What was read ahead takes a whole codeword from memory, also if less is sent.
        let taken = if stream == Stream::Ahead { bytes.max(self.ahead_least) } else { bytes };
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

    /// Queues an operation on a die, which begins it if it is free.
    pub(crate) fn enqueue(&mut self, die: u32, op: DieOp) {
        self.flash.add(self.now, die, op, &mut self.events);
        if self.trace.is_some() {
            self.send_steps();
        }
        self.begin(die);
    }

    /// Has each free die begin its next operation.
    #[cold]
    pub(crate) fn begin_all(&mut self) {
        (0..self.dies).for_each(|die| self.begin(die));
    }

    /// Has a die begin its next operation, if it is free.
    fn begin(&mut self, die: u32) {
        if self.flash.pads() {
            let rivals = M::rivals(self);
            self.flash.set_rivals(rivals);
        }
        while let Some(op) = self.flash.begin(self.now, die, &mut self.events) {
            self.die_op_done(die, op);
        }
    }

    fn die_op_done(&mut self, die: u32, op: DieOp) {
        match op {
            DieOp::Program(program) => M::programmed(self, die, program),
            DieOp::Save => {}
            DieOp::Clean { .. } => self.media.cleaned(),
            DieOp::Erase { command, .. } => M::erased(self, command),
            DieOp::Pad { command, .. }
            | DieOp::Read { command, .. }
            | DieOp::Barrier { command }
            | DieOp::Drain { command } => M::op_done(self, command),
        }
    }

    /// Completes a command, unless the media have something left to do.
    pub(crate) fn complete(&mut self, id: CommandId) {
        let request = self.command(id).request();
        let (op, zone) = (request.op(), request.zone());
        let executed = request.status() == Status::Ok;
        if executed && op != Op::Read && !M::finish(self, id) {
            return;
        }
        let command = self.command(id);
        let (queue, slot) = (command.queue, command.slot);
        let request = command.request.take().expect("a command completes once");
        let bytes = Sector(request.nr_sectors().into()).to_bytes().0;
        self.free.push(id);
        self.queues.complete(queue, request);
        self.lateness.count(1, self.now, self.advances_to);
        if op == Op::Read && executed {
            self.end_read(zone, bytes, slot);
        }
    }
}

impl<M: Media> Controller for Drive<M> {
    fn queues(&mut self) -> &mut Queues {
        &mut self.queues
    }

    #[inline]
    fn start(&mut self, now: Nanos, queue: usize, request: Box<Request>) {
        self.advance(now);
        let id = self.free.pop().unwrap_or_else(|| {
            self.commands.push(Command::default());
            CommandId(u32::try_from(self.commands.len() - 1).expect("2^16 queues of 2^15 tags"))
        });
        let command = self.command(id);
        command.request = Some(request);
        command.queue = queue;
        command.stream = Stream::None;
        command.slot = Slot::Free;
        command.pending_ops = 0;
        M::clear(&mut command.note);
        // Two threads may read slightly different clocks.
        let now = self.now;
        let waits = self.free_at > now || self.media.takes_turns() || !self.stalled.is_empty();
        if waits || !self.waiting.is_empty() {
            self.waiting.push_back(id);
        } else {
            M::execute(self, id, now);
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
        M::age(self, now);
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

/// The latency of most writes, and that of one in four, which is so much longer that the mean is `latency`.
/// `spread`, in thousandths of a percent, is what the others take less.
fn write_latency(latency: Nanos, spread: u32) -> [Nanos; 2] {
    const WHOLE: u64 = 100_000;
    let part = |of: u64| {
        let time = u128::from(latency.0) * u128::from(of) / u128::from(WHOLE);
        Nanos(u64::try_from(time).expect("a latency is short"))
    };
    let spread = u64::from(spread);
    [part(WHOLE - spread), part(WHOLE + 3 * spread)]
}

/// Takes a random one of the first commands that wait, of `most` bytes or one command; `bytes` are those of the
/// first.
pub(crate) fn draw<T>(
    waiting: &mut VecDeque<T>,
    most: u64,
    bytes: u64,
    chance: &mut Rng,
) -> Option<T> {
    let first = (most / bytes.max(1)).clamp(1, waiting.len().max(1) as u64);
    let drawn = chance.below(first);
    waiting.remove(usize::try_from(drawn).expect("one of those that there are"))
}
