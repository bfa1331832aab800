//! The head: reads what commands want, writes what the buffer holds, in an order that saves time.
//!
//! Reads go first, unless a command waits for the buffer to be written; then reads and runs of writes
//! alternate. A sequential stream of reads is read ahead of by some data before the head leaves it
//! (`min_ahead`), as a run is written for some data (`min_run`).
//!
//! # Which run to write next
//!
//! The head continues with the current run for as long as that holds the oldest data, and beyond
//! that until it has spent as much time there as the seek to the next run is worth (`stay`): it
//! leaves early for a neighbour, and late for the other end of the disk. The next run is the one
//! with the shortest access time, seek and rotational latency together.
use super::buffer::{Run, RunId};
use super::config::{HddConfig, Order};
use super::geometry::{DiskLocation, Geometry, Track};
use super::seek::SeekCurve;
use super::state::{Counters, DiskShared, byte_range};
use super::trace::{HeadActivity, HeadState, HeadTraceSink, Trace, TraceEntry};
use crate::rng::Rng;
use std::cell::RefCell;
use zonal_blk::{Nanos, Request, Status};

/// Read-ahead ends at a multiple of this many bytes from where it began: a physical sector.
const READ_AHEAD_STEP: u64 = 4096;

/// The purpose of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// The head's activity.
#[derive(Debug)]
enum HeadStep {
    /// Nothing.
    Idle,
    /// Writing that many bytes of a run.
    Write(RunId, u64),
    /// Reading for a command, up to this byte.
    Read(Box<Request>, u64),
    /// Reading ahead, between these bytes, until a command arrives.
    ReadAhead { start: u64, end: u64 },
}

/// Where the head is, or will be when its step ends.
#[derive(Debug)]
struct Position {
    /// The end of the last transfer.
    at: u64,
    /// The location of its last byte.
    location: DiskLocation,
}

/// The arm and its heads, of which one works at a time.
pub(super) struct Head {
    geometry: Geometry,
    /// The track that was looked for last: most addresses are on it.
    track: RefCell<Track>,
    curve: SeekCurve,
    capacity: u64,
    piece: u64,
    write_settle: u64,
    stay: u64,
    min_run: u64,
    order: Order,
    max_age: u64,
    write_age: u64,
    min_ahead: u64,
    error_rate: u64,
    max_retries: u64,
    rng: Rng,
    step: HeadStep,
    /// When the step ends; if idle, when the last one ended.
    until: u64,
    position: Position,
    /// How far it has moved: see [`HeadState`].
    travel: f64,
    /// The run that is being written, also between two steps.
    current: Option<RunId>,
    /// Time and bytes spent on it without leaving it.
    spent: u64,
    run_bytes: u64,
    /// A run has been written since the last read: it is the turn of reads.
    owes_read: bool,
    /// Up to here the head reads ahead whatever waits.
    ahead_to: u64,
    /// Transfer time of the current step.
    transfer: u64,
    /// Seek and rotation of the current step, before the transfer.
    approach: [u64; 2],
    /// The current step ends in a read error.
    gave_up: bool,
    trace: Option<Trace>,
}

impl Head {
    /// A head at rest over the first byte. `trace` is the length of its trace.
    pub(super) fn new(config: &HddConfig, trace: Option<usize>) -> Self {
        let geometry = Geometry::new(config);
        Head {
            curve: config.seek_curve(),
            capacity: config.capacity().0,
            piece: config.piece.0,
            write_settle: config.write_settle.0,
            stay: config.stay.into(),
            min_run: config.min_run.0,
            order: config.order,
            max_age: config.max_age.0,
            write_age: config.write_age.0,
            min_ahead: config.min_ahead.0.min(config.read_ahead.0),
            error_rate: config.error_rate.into(),
            max_retries: config.retries.into(),
            rng: Rng::new(config.seed),
            step: HeadStep::Idle,
            until: 0,
            position: Position { at: 0, location: geometry.locate(0) },
            travel: 0.0,
            current: None,
            spent: 0,
            run_bytes: 0,
            owes_read: false,
            ahead_to: 0,
            transfer: 0,
            approach: [0; 2],
            gave_up: false,
            trace: trace.map(Trace::new),
            track: RefCell::new(geometry.track_of(0)),
            geometry,
        }
    }

    pub(super) fn state(&self) -> HeadState {
        HeadState { radius: self.position.location.radius, travel: self.travel }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.step, HeadStep::Idle)
    }

    /// Whether it reads for a command.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.step, HeadStep::Read(..))
    }

    /// When its step ends.
    pub(super) fn step_end(&self) -> Option<u64> {
        (!self.is_idle()).then_some(self.until)
    }

    /// For how long it has been idle at `now`.
    pub(super) fn idle_time(&self, now: u64) -> u64 {
        if self.is_idle() { now - self.until } else { 0 }
    }

    /// The part of its step that is still to come at `now`, of which the counters already have all:
    /// seek, rotation and transfer.
    pub(super) fn to_come(&self, now: u64) -> [u64; 3] {
        let mut left = if self.is_idle() { 0 } else { self.until.saturating_sub(now) };
        let mut part = |most: u64| {
            let part = left.min(most);
            left -= part;
            part
        };
        let (transfer, [seek, rotation]) = (part(self.transfer), self.approach);
        let rotation = part(rotation);
        [part(seek), rotation, transfer]
    }

    /// All of its work is done, at `now`.
    pub(super) fn drained(&mut self, now: u64) {
        self.until = now;
    }

    /// The disk was formatted with another layout while nothing was left to do: the head is over its first byte.
    pub(super) fn lay_out(&mut self, config: &HddConfig) {
        self.geometry = Geometry::new(config);
        self.capacity = config.capacity().0;
        self.position = Position { at: 0, location: self.geometry.locate(0) };
        self.track = RefCell::new(self.geometry.track_of(0));
        (self.current, self.ahead_to) = (None, 0);
    }

    pub(super) fn trace(&self) -> &[TraceEntry] {
        self.trace.as_ref().map_or(&[], Trace::entries)
    }

    pub(super) fn trace_to(&mut self, sink: HeadTraceSink) {
        match &mut self.trace {
            Some(Trace::Sinks(sinks)) => sinks.push(sink),
            other => *other = Some(Trace::Sinks(vec![sink])),
        }
    }

    /// A command has arrived: begins the next step if the head is idle, and ends read-ahead. `urgent`
    /// if a command waits for the buffer to be written.
    pub(super) fn wake(&mut self, shared: &mut DiskShared, urgent: bool) {
        if self.is_idle() {
            self.begin(shared, urgent);
        } else if let HeadStep::ReadAhead { start, end } = self.step
            && end > self.ahead_to
        {
            self.end_read_ahead(shared, start, end);
        }
    }

    /// Ends read-ahead after the block that is under the head.
    fn end_read_ahead(&mut self, shared: &mut DiskShared, start: u64, end: u64) {
        let began = self.until - self.transfer;
        // The time of the first byte: the position is that of the last.
        let first = self.position.location.time - self.transfer;
        let block_end = |block: u64| end.min(start + block * READ_AHEAD_STEP);
        let passed = |block: u64| {
            let location = self.locate(block_end(block) - 1);
            (location, began + location.time - first)
        };
        let (mut low, mut high) = (1, (end - start).div_ceil(READ_AHEAD_STEP));
        // On one track blocks take equally long: it is this one or the one after it.
        let part = shared.now.saturating_sub(began).saturating_mul(high) / self.transfer.max(1);
        let (mut block, mut is_first) = ((part.min(high) + 1).min(high - 1), true);
        while low < high {
            let is_reached = passed(block).1 >= shared.now;
            (low, high) = if is_reached { (low, block) } else { (block + 1, high) };
            block = match (std::mem::take(&mut is_first), is_reached) {
                (true, true) => high - 1,
                (true, false) => low,
                (false, _) => low.midpoint(high),
            };
        }
        let (location, until) = passed(low);
        let end = block_end(low);
        shared.counters.transfer_time.0 -= self.until - until;
        self.transfer = until - began;
        self.until = until;
        self.position = Position { at: end, location };
        self.step = HeadStep::ReadAhead { start, end };
    }

    /// The run that is being written.
    pub(super) fn run_being_written(&self) -> Option<RunId> {
        if let HeadStep::Write(id, _) = self.step { Some(id) } else { None }
    }

    /// Finishes the current step and begins the next one. Returns whether the finished step may let
    /// the link continue.
    pub(super) fn step(&mut self, shared: &mut DiskShared, urgent: bool) -> bool {
        match std::mem::replace(&mut self.step, HeadStep::Idle) {
            HeadStep::Write(id, len) => {
                self.spent += self.transfer;
                self.run_bytes += len;
                if !shared.buffer.written(id, len, &mut shared.done) {
                    (self.current, self.owes_read) = (None, true);
                }
            }
            HeadStep::Read(mut request, end) => {
                if self.gave_up {
                    request.set_status(Status::Medium);
                    shared.responses.push_back(request);
                } else if end < byte_range(&request).1 {
                    // It continues in the next band.
                    self.read_from(shared, request, end);
                    return false;
                } else {
                    let (start, end) = byte_range(&request);
                    if shared.segments.fill(start, end) {
                        self.ahead_to = end + self.min_ahead;
                    }
                    shared.responses.push_back(request);
                }
            }
            HeadStep::ReadAhead { end, .. } => {
                shared.segments.extend(end);
                complete_hits(shared);
            }
            HeadStep::Idle => {}
        }
        self.begin(shared, urgent);
        true
    }

    fn begin(&mut self, shared: &mut DiskShared, urgent: bool) {
        let (reads, writes) = (!shared.reads.is_empty(), !shared.buffer.is_empty());
        if self.ahead_to > 0 && self.reads_on(shared) {
            return;
        }
        if reads && (self.owes_read || !(writes && urgent)) {
            return self.read_next(shared);
        }
        if !writes {
            return self.read_ahead(shared);
        }
        match self.current {
            Some(id) if self.stays(shared, id) => self.write(shared, id),
            Some(_) if reads => self.read_next(shared),
            _ => {
                let id = self.choose_run(shared);
                self.current = Some(id);
                self.spent = 0;
                self.run_bytes = 0;
                self.write(shared, id);
            }
        }
    }

    /// Whether the head continues with the current run.
    fn stays(&self, shared: &DiskShared, id: RunId) -> bool {
        if self.order == Order::Satf && self.run_bytes < self.min_run {
            return true;
        }
        let seek = if let Some(read) = self.choose_read(shared) {
            self.access(shared.now, Access::Read, missing(shared, &shared.reads[read].1)).0
        } else if shared.buffer.nr_runs() == 1 || holds_oldest(shared, id) {
            return true;
        } else if self.order == Order::Fifo {
            return false;
        } else {
            self.access(shared.now, Access::Write, shared.buffer.run(self.choose_run(shared)).at).0
        };
        self.spent < seek * self.stay / 100
    }

    /// The next run to write: another than the current one, if there is another.
    fn choose_run(&self, shared: &DiskShared) -> RunId {
        let age = |&(_, run): &(RunId, &Run)| run.oldest();
        let (oldest, run) = shared.buffer.runs().min_by_key(age).expect("the buffer is not empty");
        let aged = shared.now.saturating_sub(run.oldest()) > self.write_age;
        if self.order == Order::Fifo || aged {
            return oldest;
        }
        let others = shared.buffer.runs().filter(|&(id, _)| self.current != Some(id));
        let access = |(_, run): &(RunId, &Run)| self.access_time(shared.now, Access::Write, run.at);
        others.min_by_key(access).map_or(oldest, |(id, _)| id)
    }

    fn choose_read(&self, shared: &DiskShared) -> Option<usize> {
        let &(arrived, _) = shared.reads.first()?;
        if self.order == Order::Fifo || shared.now.saturating_sub(arrived) > self.max_age {
            return Some(0);
        }
        let access = |request| self.access_time(shared.now, Access::Read, missing(shared, request));
        let times = shared.reads.iter().map(|(_, request)| access(request));
        times.enumerate().min_by_key(|&(_, time)| time).map(|(at, _)| at)
    }

    /// The location of an address.
    #[inline]
    fn locate(&self, at: u64) -> DiskLocation {
        let mut track = self.track.borrow_mut();
        if !track.addresses.contains(&at) {
            *track = self.geometry.track_of(at);
        }
        self.geometry.locate_on(&track, at)
    }

    /// Time until a byte is under the head.
    fn access_time(&self, now: u64, access: Access, at: u64) -> u64 {
        let (seek, wait, _) = self.access(now, access, at);
        seek + wait
    }

    /// Seek time and rotational latency of an access to a byte, and the byte's location. An access
    /// to the same track, or one that continues the last, needs no seek.
    fn access(&self, now: u64, access: Access, at: u64) -> (u64, u64, DiskLocation) {
        let location = self.locate(at);
        let here = &self.position;
        let continues = at == here.at && location.band_end == here.location.band_end;
        let seek = if continues || location.track == here.location.track {
            0
        } else {
            let settle = if access == Access::Write { self.write_settle } else { 0 };
            self.curve.time((location.radius - here.location.radius).abs()) + settle
        };
        let revolution = self.geometry.revolution();
        let angle = (now + seek) % revolution;
        let wait = (location.time % revolution + revolution - angle) % revolution;
        (seek, wait, location)
    }

    fn write(&mut self, shared: &mut DiskShared, id: RunId) {
        let run = shared.buffer.run(id);
        let (start, end) = (run.at, run.end);
        let end = self.access_range(shared, Access::Write, start, end.min(start + self.piece));
        self.step = HeadStep::Write(id, end - start);
    }

    fn read_next(&mut self, shared: &mut DiskShared) {
        let index = self.choose_read(shared).expect("there are reads");
        let (_, request) = shared.reads.remove(index);
        (self.current, self.owes_read) = (None, false);
        let start = missing(shared, &request);
        self.read_from(shared, request, start);
    }

    fn read_from(&mut self, shared: &mut DiskShared, request: Box<Request>, start: u64) {
        let end = self.access_range(shared, Access::Read, start, byte_range(&request).1);
        self.step = HeadStep::Read(request, end);
    }

    /// Reads ahead of a sequential stream as far as it does before it leaves the stream. Returns whether
    /// there is more to read.
    fn reads_on(&mut self, shared: &mut DiskShared) -> bool {
        let (at, to) = (self.position.at, std::mem::take(&mut self.ahead_to).min(self.capacity));
        if shared.segments.ahead(at).is_none_or(|limit| limit < to) || at >= to {
            return false;
        }
        self.current = None;
        let end = self.access_range(shared, Access::Read, at, to);
        (self.step, self.ahead_to) = (HeadStep::ReadAhead { start: at, end }, to);
        true
    }

    /// With nothing else to do, reads ahead of the last read.
    fn read_ahead(&mut self, shared: &mut DiskShared) {
        self.current = None;
        let at = self.position.at;
        let limit = shared.segments.ahead(at).map(|limit| limit.min(self.capacity));
        if let Some(limit) = limit.filter(|&limit| limit > at) {
            let end = self.access_range(shared, Access::Read, at, limit.min(at + self.piece));
            self.step = HeadStep::ReadAhead { start: at, end };
        }
    }

    /// Begins an access to the bytes from `start` to `end` or to the end of the band; returns where
    /// it ends.
    fn access_range(
        &mut self,
        shared: &mut DiskShared,
        access: Access,
        start: u64,
        end: u64,
    ) -> u64 {
        let (seek, wait, location) = self.access(shared.now, access, start);
        let end = end.min(location.band_end);
        let last = self.locate(end - 1);
        let transfer = last.time - location.time;
        if self.trace.is_some() {
            self.record(shared, start, &location, [seek, wait, transfer]);
        }
        let retries = self.retries(&mut shared.counters);
        (self.approach, self.transfer) = ([seek, wait + retries], transfer);
        let c = &mut shared.counters;
        c.idle_time.0 += shared.now - self.until;
        c.seeks += u64::from(seek > 0);
        c.seek_time.0 += seek;
        c.rotate_time.0 += wait + retries;
        c.transfer_time.0 += transfer;
        self.until = shared.now + seek + wait + transfer + retries;
        self.travel += (location.radius - self.position.location.radius).abs();
        self.position = Position { at: end, location: last };
        end
    }

    /// Time of the revolutions lost to retries.
    fn retries(&mut self, counters: &mut Counters) -> u64 {
        if self.error_rate == 0 {
            return 0;
        }
        let mut retries = 0;
        let mut failed = self.rng.below(1_000_000) < self.error_rate;
        while failed && retries < self.max_retries {
            retries += 1;
            failed = self.rng.below(1_000_000) < self.error_rate;
        }
        self.gave_up = failed;
        counters.retries += retries;
        retries * self.geometry.revolution()
    }

    #[cold]
    fn record(
        &mut self,
        shared: &DiskShared,
        byte: u64,
        location: &DiskLocation,
        [seek, wait, transfer]: [u64; 3],
    ) {
        let buffered = shared.buffer.bytes();
        let here = self.position.location.radius;
        let idle = shared.now - self.until;
        let mut at = self.until;
        let Some(trace) = &mut self.trace else { return };
        for (activity, time, byte, radius) in [
            (HeadActivity::Idle, idle, self.position.at, here),
            (HeadActivity::Seek, seek, byte, here),
            (HeadActivity::Rotate, wait, byte, location.radius),
            (HeadActivity::Transfer, transfer, byte, location.radius),
        ] {
            // An idle entry of no length still records where the last transfer ended.
            if time > 0 || activity == HeadActivity::Idle {
                trace.push(TraceEntry { at: Nanos(at), activity, byte, radius, buffered });
            }
            at += time;
        }
    }
}

/// Moves reads that read-ahead has satisfied to the responses.
fn complete_hits(shared: &mut DiskShared) {
    let mut at = 0;
    while at < shared.reads.len() {
        let (start, end) = byte_range(&shared.reads[at].1);
        if shared.segments.hit(start, end) {
            let (_, request) = shared.reads.remove(at);
            shared.counters.cache_hits += 1;
            shared.responses.push_back(request);
        } else {
            at += 1;
        }
    }
}

fn holds_oldest(shared: &DiskShared, id: RunId) -> bool {
    let own = shared.buffer.run(id).oldest();
    shared.buffer.runs().all(|(_, run)| run.oldest() >= own)
}

/// The first byte of a read that is not cached: the head may have read ahead into it.
fn missing(shared: &DiskShared, request: &Request) -> u64 {
    let (start, end) = byte_range(request);
    shared.segments.missing(start).min(end - 1)
}
