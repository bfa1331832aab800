//! The drive at work: a link that takes commands and data, a head that reads and writes.
//!
//! Takes commands, and the time; gives commands back when they are done. Keeps true: commands that
//! write are taken up in the order in which they came; nothing is written before it has come over
//! the link.
//!
//! ```text
//!   command --> queue --> link: overhead, data piece by piece --> buffer --> head: seek, turn, write
//!                           ^   waits for room in the buffer                 ^
//!                           |                                                |
//!                 reads that are in the drive's memory <------ reads by order of access
//! ```
//!
//! Two activities, link and head, each with the time when its present step ends. Steps are worked
//! off in the order of those times, so it makes no difference how often the drive is looked at.
use super::buffer::{Buffer, RunId};
use super::config::{HddConfig, Order};
use super::geometry::{Geometry, Place};
use super::seek::SeekCurve;
use super::segments::Segments;
use super::trace::{Activity, Counters, Trace, TraceEntry};
use crate::rng::Rng;
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Nanos, Op, Request, Status};

/// What the drive does with a request beyond its mechanics: zones, write pointers, data.
pub(super) trait Execute {
    fn execute(&self, request: &mut Request);
    /// The bytes of the zone of a request.
    fn zone(&self, request: &Request) -> (u64, u64);
}

/// What the link is busy with, or waits for.
#[derive(Debug)]
enum Link {
    Idle,
    /// The controller looks at the first command of the queue.
    Overhead,
    /// A piece of the first command arrives.
    Piece(u64),
    /// Room for the next piece of the first command.
    Full,
    /// Nothing left to be written.
    Drain,
    /// The data of a read, or a command that has ended, go to the host.
    Answer(Box<Request>),
}

/// What the head is busy with.
#[derive(Debug)]
enum Head {
    Idle,
    /// Writes so many bytes of a run.
    Write(RunId, u64),
    Read(Box<Request>),
    /// Reads on to this byte, nobody having asked for it yet.
    Ahead(u64),
}

/// A command that is on its way over the link.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    /// Bytes that have arrived.
    moved: u64,
    arrived: u64,
    begun: bool,
}

pub(super) struct Drive {
    geometry: Geometry,
    curve: SeekCurve,
    link_rate: u64,
    command: u64,
    piece: u64,
    stay: u64,
    reserve: u64,
    /// However many commands wait, one piece can arrive while another is written.
    most_kept: u64,
    order: Order,
    max_age: u64,
    write_cache: bool,
    read_ahead: u64,
    reset: u64,
    finish: u64,
    error_rate: u64,
    max_retries: u32,
    rng: Rng,
    /// Commands that take effect in order, the first being on the link.
    queue: VecDeque<(u64, Box<Request>)>,
    /// The shares of all of them in the buffer.
    reserved: u64,
    first: First,
    /// Reads whose data are here.
    answers: VecDeque<Box<Request>>,
    /// Reads that need the head.
    reads: Vec<(u64, Box<Request>)>,
    link: Link,
    link_until: u64,
    buffer: Buffer,
    segments: Segments,
    head: Head,
    head_until: u64,
    /// Where the head is when its step ends: the byte behind the last that it passed over.
    at: u64,
    place: Place,
    /// The run that the head is at, and how long it has been there.
    current: Option<RunId>,
    /// How long it has been writing there.
    spent: u64,
    /// How long the present step has data under the head.
    transfer: u64,
    idle_since: u64,
    done: Vec<Box<Request>>,
    now: u64,
    counters: Counters,
    trace: Option<Trace>,
}

fn bytes(request: &Request) -> (u64, u64) {
    (request.sector().to_bytes().0, request.end().to_bytes().0)
}

impl Drive {
    pub(super) fn new(config: &HddConfig, trace: Option<usize>) -> Self {
        let geometry = Geometry::new(config);
        Drive {
            place: geometry.place(0),
            curve: SeekCurve::new(config),
            link_rate: config.link_rate,
            command: config.command.0,
            piece: config.piece.0,
            stay: config.stay.into(),
            reserve: config.reserve.0,
            order: config.order,
            max_age: config.max_age.0,
            write_cache: config.write_cache,
            read_ahead: config.read_ahead.0,
            reset: config.reset.0,
            finish: config.finish.0,
            error_rate: config.error_rate.into(),
            max_retries: config.retries,
            rng: Rng::new(config.seed),
            queue: VecDeque::with_capacity(32),
            reserved: 0,
            most_kept: config.cache.0.saturating_sub(2 * config.piece.0),
            first: First::default(),
            answers: VecDeque::with_capacity(32),
            reads: Vec::with_capacity(32),
            link: Link::Idle,
            link_until: 0,
            buffer: Buffer::new(config.cache.0, config.cache_commands),
            segments: Segments::new(config.segments as usize),
            head: Head::Idle,
            head_until: 0,
            at: 0,
            current: None,
            spent: 0,
            transfer: 0,
            idle_since: 0,
            done: Vec::with_capacity(32),
            now: 0,
            counters: Counters::default(),
            trace: trace.map(Trace::new),
            geometry,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        if matches!(self.head, Head::Idle) {
            counters.idle_time.0 += self.now - self.idle_since;
        }
        counters
    }

    pub(super) fn trace(&self) -> &[TraceEntry] {
        self.trace.as_ref().map_or(&[], Trace::entries)
    }

    /// Takes a command.
    pub(super) fn start(&mut self, now: Nanos, request: Box<Request>, execute: &impl Execute) {
        self.advance(now, execute);
        if request.op() == Op::Read {
            let (start, end) = bytes(&request);
            if self.is_here(start, end) {
                self.counters.cache_hits += 1;
                self.answers.push_back(request);
            } else {
                self.reads.push((self.now, request));
                self.wake_head();
            }
        } else {
            self.reserved += self.share(&request);
            self.queue.push_back((self.now, request));
        }
        if matches!(self.link, Link::Idle) {
            self.next_on_link(execute);
        }
    }

    /// Whether a range can be read without the head.
    fn is_here(&mut self, start: u64, end: u64) -> bool {
        self.buffer.holds(start, end) || self.segments.hit(start, end)
    }

    /// Works off all steps up to `now`, and gives the commands that are done by then.
    pub(super) fn poll(
        &mut self,
        now: Nanos,
        done: &mut Vec<Box<Request>>,
        execute: &impl Execute,
    ) {
        self.advance(now, execute);
        done.append(&mut self.done);
    }

    /// When the next command may be done.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        if !self.done.is_empty() {
            return Some(Nanos(self.now));
        }
        if self.queue.is_empty() && self.answers.is_empty() && self.reads.is_empty() {
            let waited_for = match (&self.link, &self.head) {
                (Link::Answer(_), _) | (_, Head::Read(_)) => true,
                _ => !self.write_cache || self.buffer.keeps_any(),
            };
            if !waited_for {
                return None;
            }
        }
        self.next_step().map(Nanos)
    }

    fn next_step(&self) -> Option<u64> {
        let link = match self.link {
            Link::Idle | Link::Full | Link::Drain => None,
            _ => Some(self.link_until),
        };
        let head = match self.head {
            Head::Idle => None,
            _ => Some(self.head_until),
        };
        match (link, head) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, now: Nanos, execute: &impl Execute) {
        while let Some(step) = self.next_step()
            && step <= now.0
        {
            self.now = step;
            let link_busy = !matches!(self.link, Link::Idle | Link::Full | Link::Drain);
            if link_busy && self.link_until == step {
                self.link_step(execute);
            } else {
                self.head_step(execute);
            }
        }
        self.now = self.now.max(now.0);
    }

    // The link.

    fn time_on_link(&self, len: u64) -> u64 {
        len * 1_000 / (self.link_rate / 1_000_000)
    }

    fn set_link(&mut self, link: Link, time: u64) {
        self.link = link;
        self.link_until = self.now + time;
    }

    /// Something happened that the link may wait for.
    fn wake_link(&mut self, execute: &impl Execute) {
        if matches!(self.link, Link::Idle | Link::Full | Link::Drain) {
            self.next_on_link(execute);
        }
    }

    fn next_on_link(&mut self, execute: &impl Execute) {
        self.link = Link::Idle;
        if let Some(request) = self.answers.pop_front() {
            let (start, end) = bytes(&request);
            let time = self.command + self.time_on_link(end - start);
            return self.set_link(Link::Answer(request), time);
        }
        if self.queue.is_empty() {
            return;
        }
        if self.first.begun {
            self.go_on_with_first();
        } else {
            self.first = First { moved: 0, arrived: self.now, begun: false };
            self.set_link(Link::Overhead, self.command);
        }
    }

    fn link_step(&mut self, execute: &impl Execute) {
        match std::mem::replace(&mut self.link, Link::Idle) {
            Link::Overhead => {
                self.first.begun = true;
                self.begin_first(execute);
            }
            Link::Piece(len) => self.piece_arrived(len, execute),
            Link::Answer(mut request) => {
                if request.op() == Op::Read && request.status() == Status::Ok {
                    execute.execute(&mut request);
                }
                self.done.push(request);
                self.next_on_link(execute);
            }
            Link::Idle | Link::Full | Link::Drain => {}
        }
    }

    /// The controller has understood the first command of the queue.
    fn begin_first(&mut self, execute: &impl Execute) {
        let (_, request) = self.queue.front_mut().expect("the link serves a command");
        let op = request.op();
        if op == Op::Flush {
            return self.go_on_with_first();
        }
        execute.execute(request);
        let failed = request.status() != Status::Ok;
        if failed || !op.is_write() || op == Op::WriteZeroes {
            let time = match op {
                _ if failed => 0,
                Op::ZoneReset | Op::ZoneResetAll => self.reset,
                Op::ZoneOpen | Op::ZoneClose | Op::ZoneFinish => self.finish,
                _ => 0,
            };
            let (start, end) = match op {
                Op::ZoneReset => execute.zone(request),
                Op::ZoneResetAll => (0, u64::MAX),
                Op::WriteZeroes | Op::Discard => bytes(request),
                _ => (0, 0),
            };
            if !failed && end > start {
                self.segments.forget(start, end);
            }
            if !failed && matches!(op, Op::ZoneReset | Op::ZoneResetAll) {
                self.forget(start, end);
            }
            let request = self.take_first();
            return self.set_link(Link::Answer(request), time);
        }
        self.go_on_with_first();
    }

    /// What waits to be written there need not be.
    fn forget(&mut self, start: u64, end: u64) {
        // What the head writes just now is written to its end.
        let busy = if let Head::Write(id, _) = self.head { Some(id) } else { None };
        self.buffer.forget(start, end, busy, &mut self.done);
    }

    fn go_on_with_first(&mut self) {
        let (_, request) = self.queue.front().expect("the link serves a command");
        if request.op() == Op::Flush {
            self.flush();
            return;
        }
        let flags = request.flags();
        if self.first.moved == 0 && flags.contains(BioFlags::PREFLUSH) && !self.buffer.is_empty() {
            self.link = Link::Drain;
            return;
        }
        let (start, end) = bytes(request);
        let left = end - start - self.first.moved;
        let len = left.min(self.piece);
        let kept = self.reserved.saturating_sub(self.share(request));
        let kept = kept.min(self.most_kept);
        let new = self.first.moved == 0;
        if self.buffer.has_room(len, kept, new) {
            let time = self.time_on_link(len);
            self.set_link(Link::Piece(len), time);
        } else {
            if !matches!(self.link, Link::Full) && new {
                self.counters.full_waits += 1;
            }
            self.link = Link::Full;
        }
    }

    /// The part of the buffer that is kept free for a command while it waits behind others.
    fn share(&self, request: &Request) -> u64 {
        let (start, end) = bytes(request);
        (end - start).min(self.reserve)
    }

    /// The first command leaves the queue.
    fn take_first(&mut self) -> Box<Request> {
        let (_, request) = self.queue.pop_front().expect("the link serves a command");
        self.reserved -= self.share(&request);
        self.first = First::default();
        request
    }

    fn flush(&mut self) {
        if !self.buffer.is_empty() {
            self.link = Link::Drain;
            return;
        }
        let mut request = self.take_first();
        request.set_status(Status::Ok);
        self.set_link(Link::Answer(request), 0);
    }

    fn piece_arrived(&mut self, len: u64, execute: &impl Execute) {
        let (_, request) = self.queue.front().expect("the link serves a command");
        let (start, end) = bytes(request);
        let from = start + self.first.moved;
        let new = self.first.moved == 0;
        self.segments.forget(from, from + len);
        let id = self.buffer.add(from, from + len, self.first.arrived, new);
        self.first.moved += len;
        if from + len == end {
            let request = self.take_first();
            if self.write_cache && !request.flags().contains(BioFlags::FUA) {
                self.done.push(request);
            } else {
                self.buffer.keep(id, request);
            }
        }
        self.wake_head();
        self.next_on_link(execute);
    }

    // The head.

    fn wake_head(&mut self) {
        if matches!(self.head, Head::Idle) {
            self.next_for_head();
        }
    }

    fn head_step(&mut self, execute: &impl Execute) {
        match std::mem::replace(&mut self.head, Head::Idle) {
            Head::Write(id, len) => {
                self.spent += self.transfer;
                if !self.buffer.written(id, len, &mut self.done) {
                    self.current = None;
                }
                self.idle_since = self.now;
                self.next_for_head();
                self.wake_link(execute);
            }
            Head::Read(request) => {
                let (start, end) = bytes(&request);
                self.segments.fill(start, end);
                self.answers.push_back(request);
                self.idle_since = self.now;
                self.next_for_head();
                self.wake_link(execute);
            }
            Head::Ahead(end) => {
                self.segments.extend(end);
                self.idle_since = self.now;
                self.answer_hits();
                self.next_for_head();
                self.wake_link(execute);
            }
            Head::Idle => {}
        }
    }

    /// Reads that wait for what has been read ahead.
    fn answer_hits(&mut self) {
        let mut at = 0;
        while at < self.reads.len() {
            let (start, end) = bytes(&self.reads[at].1);
            if self.segments.hit(start, end) {
                let (_, request) = self.reads.remove(at);
                self.counters.cache_hits += 1;
                self.answers.push_back(request);
            } else {
                at += 1;
            }
        }
    }

    /// Time to get from where the head is to a byte: seek, and wait for it to come round.
    fn access(&self, at: u64) -> (u64, u64, Place) {
        let place = self.geometry.place(at);
        let goes_on = at == self.at && place.band_end == self.place.band_end;
        let seek = if goes_on || place.track == self.place.track {
            0
        } else {
            self.curve.time((place.radius - self.place.radius).abs())
        };
        let turn = self.geometry.turn();
        let there = (self.now + seek) % turn;
        let wait = (place.time % turn + turn - there) % turn;
        (seek, wait, place)
    }

    fn next_for_head(&mut self) {
        if self.reads.is_empty() && self.buffer.is_empty() {
            self.current = None;
            return self.read_ahead();
        }
        if !self.reads.is_empty() && !matches!(self.link, Link::Full | Link::Drain) {
            return self.read_next();
        }
        if let Some(id) = self.current
            && self.reads.is_empty()
            && self.stays(id)
        {
            return self.write(id);
        }
        if self.buffer.is_empty() {
            return self.read_next();
        }
        let run = self.choose_run();
        let (seek, wait, _) = self.access(self.buffer.run(run).at);
        if let Some((read, time)) = self.choose_read()
            && time < seek + wait
        {
            return self.read(read);
        }
        if self.current != Some(run) {
            self.current = Some(run);
            self.spent = 0;
        }
        self.write(run);
    }

    /// Whether the head goes on with the run that it is at: while nothing else waits to be
    /// written, while it holds the oldest data, and until it has spent as much time there as
    /// makes the seek to the next place worth while.
    fn stays(&self, id: RunId) -> bool {
        if self.buffer.nr_runs() == 1 || self.holds_oldest(id) {
            return true;
        }
        if self.order == Order::Fifo {
            return false;
        }
        let (seek, _, _) = self.access(self.buffer.run(self.choose_run()).at);
        self.spent < seek * self.stay / 100
    }

    fn holds_oldest(&self, id: RunId) -> bool {
        let own = self.buffer.run(id).oldest();
        self.buffer.runs().all(|(_, run)| run.oldest() >= own)
    }

    fn choose_run(&self) -> RunId {
        let (oldest, run) = self.buffer.runs().min_by_key(|(_, run)| run.oldest()).expect("a run");
        if self.order == Order::Fifo || self.now.saturating_sub(run.oldest()) > self.max_age {
            return oldest;
        }
        let cost = |(_, run): &(RunId, &super::buffer::Run)| {
            let (seek, wait, _) = self.access(run.at);
            seek + wait
        };
        let others = self.buffer.runs().filter(|&(id, _)| self.current != Some(id));
        others.min_by_key(cost).map_or(oldest, |(id, _)| id)
    }

    fn choose_read(&self) -> Option<(usize, u64)> {
        let cost = |request: &Request| {
            let (seek, wait, _) = self.access(bytes(request).0);
            seek + wait
        };
        let (_, oldest) = self.reads.first()?;
        let aged = self.now.saturating_sub(self.reads[0].0) > self.max_age;
        if self.order == Order::Fifo || aged {
            return Some((0, cost(oldest)));
        }
        let costs = self.reads.iter().map(|(_, request)| cost(request)).enumerate();
        costs.min_by_key(|&(_, cost)| cost)
    }

    fn read_next(&mut self) {
        if let Some((read, _)) = self.choose_read() {
            self.read(read);
        }
    }

    fn write(&mut self, id: RunId) {
        let run = self.buffer.run(id);
        let (start, end) = (run.at, run.end);
        let end = end.min(start + self.piece).min(self.geometry.place(start).band_end);
        self.pass_over(start, end);
        self.head = Head::Write(id, end - start);
    }

    fn read(&mut self, index: usize) {
        let (_, request) = self.reads.remove(index);
        let (start, end) = bytes(&request);
        self.current = None;
        self.pass_over(start, end.min(self.geometry.place(start).band_end));
        self.head = Head::Read(request);
    }

    /// Nothing else to do: reads on behind the last read.
    fn read_ahead(&mut self) {
        if let Some(end) = self.segments.ahead(self.at, self.read_ahead) {
            let end = end.min(self.at + self.piece).min(self.geometry.place(self.at).band_end);
            self.pass_over(self.at, end);
            self.head = Head::Ahead(end);
        }
    }

    /// Sends the head to `start` and over the bytes up to `end`.
    fn pass_over(&mut self, start: u64, end: u64) {
        let (seek, wait, place) = self.access(start);
        let transfer = self.geometry.transfer(start, end);
        self.transfer = transfer;
        let c = &mut self.counters;
        c.idle_time.0 += self.now - self.idle_since;
        c.seeks += u64::from(seek > 0);
        c.seek_time.0 += seek;
        c.rotate_time.0 += wait;
        c.transfer_time.0 += transfer;
        let mut until = self.now + seek + wait + transfer;
        if self.error_rate > 0 {
            until += self.retry();
        }
        if self.trace.is_some() {
            self.record(start, end, seek, wait, transfer);
        }
        self.head_until = until;
        self.idle_since = until;
        self.at = end;
        // Behind the last byte of a band the head is still there.
        self.place = self.geometry.place(if place.band_end == end { end - 1 } else { end });
    }

    /// Turns lost because a track could not be read or written at once.
    fn retry(&mut self) -> u64 {
        let mut turns = 0;
        while turns < u64::from(self.max_retries) && self.rng.below(1_000_000) < self.error_rate {
            turns += 1;
        }
        self.counters.retries += turns;
        turns * self.geometry.turn()
    }

    #[cold]
    fn record(&mut self, start: u64, end: u64, seek: u64, wait: u64, transfer: u64) {
        let radius = self.geometry.place(start).radius;
        let buffered = self.buffer.bytes();
        let mut at = self.now;
        let last = self.geometry.place(end - 1).radius;
        let Some(trace) = &mut self.trace else { return };
        for (activity, time, byte, radius) in [
            (Activity::Seek, seek, start, self.place.radius),
            (Activity::Rotate, wait, start, radius),
            (Activity::Transfer, transfer, start, radius),
            (Activity::Idle, 0, end, last),
        ] {
            if time > 0 {
                trace.push(TraceEntry { at: Nanos(at), activity, byte, radius, buffered });
            }
            at += time;
        }
    }
}
