//! The head: reads what is asked for, writes what the buffer holds, in an order that saves time.
//!
//! Takes reads and the runs of the buffer; gives reads to the link, and room in the buffer. Keeps
//! true: reads go first unless a command waits for something to be written; then they take turns.
//!
//! # Where to write next
//!
//! The head goes on with the run that it is at for as long as that holds the oldest data, and
//! beyond that until it has spent as much time there as the seek to the next place is worth
//! (`stay`): it leaves a place early for a neighbour, and late for the other end of the disk. The
//! next place is that with the shortest access time, seek and turn together.
use super::buffer::{Run, RunId};
use super::config::Order;
use super::drive::{Drive, bytes};
use super::geometry::DiskLocation;
use super::trace::{HeadActivity, TraceEntry};
use zonal_blk::{Nanos, Request, Status};

/// What the head is busy with.
#[derive(Debug)]
pub(super) enum Head {
    /// Nothing.
    Idle,
    /// Writes so many bytes of a run.
    Write(RunId, u64),
    /// Reads for a command, up to this byte.
    Read(Box<Request>, u64),
    /// Reads on up to this byte, nobody having asked for it yet.
    ReadAhead(u64),
}

/// Where the head is, or will be when its step ends.
#[derive(Debug)]
pub(super) struct Position {
    /// The byte behind the last that it passed over.
    pub(super) at: u64,
    /// The place of that last byte.
    pub(super) place: DiskLocation,
}

impl Drive {
    pub(super) fn wake_head(&mut self) {
        if matches!(self.head, Head::Idle) {
            self.next_for_head();
        }
    }

    /// The run that the head is writing just now.
    pub(super) fn run_being_written(&self) -> Option<RunId> {
        if let Head::Write(id, _) = self.head { Some(id) } else { None }
    }

    pub(super) fn head_step(&mut self) {
        match std::mem::replace(&mut self.head, Head::Idle) {
            Head::Write(id, len) => {
                self.spent += self.transfer;
                if !self.buffer.written(id, len, &mut self.done) {
                    self.current = None;
                }
            }
            Head::Read(mut request, end) => {
                if self.gave_up {
                    request.set_status(Status::Medium);
                    self.responses.push_back(request);
                } else if end < bytes(&request).1 {
                    // It goes on in the next band.
                    self.read_from(request, end);
                    return;
                } else {
                    let (start, end) = bytes(&request);
                    self.segments.fill(start, end);
                    self.responses.push_back(request);
                }
            }
            Head::ReadAhead(end) => {
                self.segments.extend(end);
                self.complete_hits();
            }
            Head::Idle => {}
        }
        self.next_for_head();
        self.wake_link();
    }

    /// Reads that were waiting for what has been read ahead.
    fn complete_hits(&mut self) {
        let mut at = 0;
        while at < self.reads.len() {
            let (start, end) = bytes(&self.reads[at].1);
            if self.segments.hit(start, end) {
                let (_, request) = self.reads.remove(at);
                self.counters.cache_hits += 1;
                self.responses.push_back(request);
            } else {
                at += 1;
            }
        }
    }

    fn next_for_head(&mut self) {
        let (reads, writes) = (!self.reads.is_empty(), !self.buffer.is_empty());
        if reads && !(writes && self.link.needs_writes()) {
            return self.read_next();
        }
        if !writes {
            return self.read_ahead();
        }
        match self.current {
            Some(id) if self.stays(id) => self.write(id),
            Some(_) if reads => self.read_next(),
            _ => {
                let id = self.choose_run();
                self.current = Some(id);
                self.spent = 0;
                self.write(id);
            }
        }
    }

    /// Whether the head goes on with the run that it is at.
    fn stays(&self, id: RunId) -> bool {
        let seek = if let Some(read) = self.choose_read() {
            self.access(self.missing(&self.reads[read].1)).0
        } else if self.buffer.nr_runs() == 1 || self.holds_oldest(id) {
            return true;
        } else if self.order == Order::Fifo {
            return false;
        } else {
            self.access(self.buffer.run(self.choose_run()).at).0
        };
        self.spent < seek * self.stay / 100
    }

    fn holds_oldest(&self, id: RunId) -> bool {
        let own = self.buffer.run(id).oldest();
        self.buffer.runs().all(|(_, run)| run.oldest() >= own)
    }

    /// Another run than the current one, if there is another.
    fn choose_run(&self) -> RunId {
        let age = |&(_, run): &(RunId, &Run)| run.oldest();
        let (oldest, run) = self.buffer.runs().min_by_key(age).expect("the buffer is not empty");
        let aged = self.now.saturating_sub(run.oldest()) > self.max_age;
        if self.order == Order::Fifo || aged {
            return oldest;
        }
        let others = self.buffer.runs().filter(|&(id, _)| self.current != Some(id));
        others.min_by_key(|(_, run)| self.time_to(run.at)).map_or(oldest, |(id, _)| id)
    }

    fn choose_read(&self) -> Option<usize> {
        let &(arrived, _) = self.reads.first()?;
        if self.order == Order::Fifo || self.now.saturating_sub(arrived) > self.max_age {
            return Some(0);
        }
        let costs = self.reads.iter().map(|(_, request)| self.time_to(self.missing(request)));
        costs.enumerate().min_by_key(|&(_, cost)| cost).map(|(at, _)| at)
    }

    /// How long it takes until a byte is under the head.
    fn time_to(&self, at: u64) -> u64 {
        let (seek, wait, _) = self.access(at);
        seek + wait
    }

    /// The time to get to a byte: seek, then wait for it to come round. What goes on where the
    /// head is needs no seek, nor what is on the same track.
    fn access(&self, at: u64) -> (u64, u64, DiskLocation) {
        let place = self.geometry.locate(at);
        let here = &self.position;
        let goes_on = at == here.at && place.band_end == here.place.band_end;
        let seek = if goes_on || place.track == here.place.track {
            0
        } else {
            self.curve.time((place.radius - here.place.radius).abs())
        };
        let turn = self.geometry.revolution();
        let there = (self.now + seek) % turn;
        let wait = (place.time % turn + turn - there) % turn;
        (seek, wait, place)
    }

    fn write(&mut self, id: RunId) {
        let run = self.buffer.run(id);
        let (start, end) = (run.at, run.end);
        let end = self.access_range(start, end.min(start + self.piece));
        self.head = Head::Write(id, end - start);
    }

    fn read_next(&mut self) {
        let index = self.choose_read().expect("there are reads");
        let (_, request) = self.reads.remove(index);
        self.current = None;
        let start = self.missing(&request);
        self.read_from(request, start);
    }

    /// The first byte of a read that is not here: the head may have read ahead into it.
    fn missing(&self, request: &Request) -> u64 {
        let (start, end) = bytes(request);
        self.segments.missing(start).min(end - 1)
    }

    fn read_from(&mut self, request: Box<Request>, start: u64) {
        let end = self.access_range(start, bytes(&request).1);
        self.head = Head::Read(request, end);
    }

    /// Nothing to do: reads on behind the last read.
    fn read_ahead(&mut self) {
        self.current = None;
        let at = self.position.at;
        let limit = self.segments.ahead(at).map(|limit| limit.min(self.capacity));
        if let Some(limit) = limit.filter(|&limit| limit > at) {
            let end = self.access_range(at, limit.min(at + self.piece));
            self.head = Head::ReadAhead(end);
        }
    }

    /// Sends the head to `start` and on to `end`, or to the end of the band; gives where it ends.
    fn access_range(&mut self, start: u64, end: u64) -> u64 {
        let (seek, wait, place) = self.access(start);
        let end = end.min(place.band_end);
        let last = self.geometry.locate(end - 1);
        let transfer = last.time - place.time;
        if self.trace.is_some() {
            self.record(start, &place, [seek, wait, transfer]);
        }
        let retries = self.retries();
        self.transfer = transfer;
        let c = &mut self.counters;
        c.idle_time.0 += self.now - self.head_until;
        c.seeks += u64::from(seek > 0);
        c.seek_time.0 += seek;
        c.rotate_time.0 += wait + retries;
        c.transfer_time.0 += transfer;
        self.head_until = self.now + seek + wait + transfer + retries;
        self.position = Position { at: end, place: last };
        end
    }

    /// The time of the turns that are lost because the medium could not be read or written at once.
    fn retries(&mut self) -> u64 {
        if self.error_rate == 0 {
            return 0;
        }
        let mut turns = 0;
        let mut failed = self.rng.below(1_000_000) < self.error_rate;
        while failed && turns < self.max_retries {
            turns += 1;
            failed = self.rng.below(1_000_000) < self.error_rate;
        }
        self.gave_up = failed;
        self.counters.retries += turns;
        turns * self.geometry.revolution()
    }

    #[cold]
    fn record(&mut self, byte: u64, place: &DiskLocation, [seek, wait, transfer]: [u64; 3]) {
        let buffered = self.buffer.bytes();
        let here = self.position.place.radius;
        let idle = self.now - self.head_until;
        let mut at = self.head_until;
        let Some(trace) = &mut self.trace else { return };
        for (activity, time, byte, radius) in [
            (HeadActivity::Idle, idle, self.position.at, here),
            (HeadActivity::Seek, seek, byte, here),
            (HeadActivity::Rotate, wait, byte, place.radius),
            (HeadActivity::Transfer, transfer, byte, place.radius),
        ] {
            // Where the last transfer ended is told also if the head is never idle.
            if time > 0 || activity == HeadActivity::Idle {
                trace.push(TraceEntry { at: Nanos(at), activity, byte, radius, buffered });
            }
            at += time;
        }
    }
}
