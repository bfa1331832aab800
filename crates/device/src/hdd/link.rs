//! The link: accepts commands that write, one by one with their data, and sends responses.
//!
//! Commands take effect in the order of submission. A piece of data is transferred only if the
//! buffer has room for it beside what is reserved for the commands that wait.
use super::config::HddConfig;
use super::head::Head;
use super::state::{DiskShared, Medium, byte_range};
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Op, Request, Status};

/// The state of the link.
#[derive(Debug)]
enum LinkStep {
    /// Nothing to do.
    Idle,
    /// The controller decodes the first command of the queue.
    Overhead,
    /// A piece of the first command arrives.
    Piece(u64),
    /// Waiting for room for the next piece of the first command.
    Full,
    /// Waiting for the buffer to drain to the medium.
    Drain,
    /// A completion goes to the host, with the data of a read.
    Response(Box<Request>),
}

/// Progress of the first command of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct CurrentCommand {
    /// Bytes that have arrived.
    moved: u64,
    /// When the link began to serve it.
    arrived: u64,
    /// The controller has decoded it.
    begun: bool,
    /// It found the buffer full.
    waited: bool,
}

/// The link to the host, with the commands that wait for it.
pub(super) struct Link {
    rate: u64,
    /// Length and time of the last transfer.
    last_transfer: (u64, u64),
    command: u64,
    piece: u64,
    reserve: u64,
    /// However many commands wait, one piece can arrive while another is written.
    max_reserved: u64,
    write_cache: bool,
    reset: u64,
    finish: u64,
    step: LinkStep,
    until: u64,
    /// All commands but reads, in the order in which they take effect. The first is on the link.
    queue: VecDeque<Box<Request>>,
    current: CurrentCommand,
    /// Bytes of the buffer reserved for the commands in the queue.
    reserved: u64,
}

impl Link {
    pub(super) fn new(config: &HddConfig) -> Self {
        Link {
            rate: config.link_rate,
            last_transfer: (0, 0),
            command: config.command.0,
            piece: config.piece.0,
            reserve: config.reserve.0,
            max_reserved: config.cache.0.saturating_sub(2 * config.piece.0),
            write_cache: config.write_cache,
            reset: config.reset.0,
            finish: config.finish.0,
            step: LinkStep::Idle,
            until: 0,
            queue: VecDeque::with_capacity(usize::from(config.queue_depth())),
            current: CurrentCommand::default(),
            reserved: 0,
        }
    }

    /// Whether a step is in progress whose end is known.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.step, LinkStep::Idle | LinkStep::Full | LinkStep::Drain)
    }

    /// Whether a command waits for the buffer to be written.
    pub(super) fn needs_writes(&self) -> bool {
        matches!(self.step, LinkStep::Full | LinkStep::Drain)
    }

    /// Whether a command is queued.
    pub(super) fn has_commands(&self) -> bool {
        !self.queue.is_empty()
    }

    /// When the current step ends.
    pub(super) fn step_end(&self) -> Option<u64> {
        self.is_busy().then_some(self.until)
    }

    /// The time before which the step in progress and what follows it complete no command: a write that
    /// is being decoded still has to arrive, unless its zone refuses it.
    #[inline]
    pub(super) fn completes_at(&mut self, medium: &Medium) -> Option<u64> {
        let end = self.step_end()?;
        if let LinkStep::Overhead = self.step
            && let Some(request) = self.queue.front()
            && request.op() == Op::Write
            && medium.would_write(request)
        {
            let (start, to) = byte_range(request);
            let len = (to - start).min(self.piece);
            return Some(end + self.transfer_time(len));
        }
        Some(end)
    }

    /// Most transfers are as long as the one before, and divisions are slow.
    fn transfer_time(&mut self, len: u64) -> u64 {
        if len != self.last_transfer.0 {
            self.last_transfer = (len, len * 1_000_000_000 / self.rate);
        }
        self.last_transfer.1
    }

    fn begin_step(&mut self, now: u64, step: LinkStep, time: u64) {
        self.step = step;
        self.until = now + time;
    }

    /// Begins the next step unless one is in progress: what the link waits for may have happened.
    pub(super) fn wake(&mut self, shared: &mut DiskShared) {
        if !self.is_busy() {
            self.begin(shared);
        }
    }

    fn begin(&mut self, shared: &mut DiskShared) {
        self.step = LinkStep::Idle;
        if let Some(request) = shared.responses.pop_front() {
            let (start, end) = byte_range(&request);
            let time = self.command + self.transfer_time(end - start);
            self.begin_step(shared.now, LinkStep::Response(request), time);
        } else if self.queue.is_empty() {
        } else if self.current.begun {
            self.continue_current(shared);
        } else {
            self.current = CurrentCommand { arrived: shared.now, ..CurrentCommand::default() };
            self.begin_step(shared.now, LinkStep::Overhead, self.command);
        }
    }

    /// Finishes the current step and begins the next one.
    pub(super) fn step(&mut self, shared: &mut DiskShared, head: &mut Head, medium: &Medium) {
        match std::mem::replace(&mut self.step, LinkStep::Idle) {
            LinkStep::Overhead => self.begin_current(shared, head, medium),
            LinkStep::Piece(len) => self.piece_arrived(shared, head, len),
            LinkStep::Response(mut request) => {
                if request.op() == Op::Read && request.status() == Status::Ok {
                    medium.execute(&mut request);
                }
                shared.done.push(request);
                self.begin(shared);
            }
            LinkStep::Idle | LinkStep::Full | LinkStep::Drain => {}
        }
    }

    /// The controller has decoded the first command of the queue.
    fn begin_current(&mut self, shared: &mut DiskShared, head: &Head, medium: &Medium) {
        self.current.begun = true;
        let request = self.queue.front_mut().expect("the link serves a command");
        let op = request.op();
        if op == Op::Flush {
            medium.execute(request);
            return self.continue_current(shared);
        }
        if op == Op::Discard {
            request.set_status(Status::NotSupported);
        } else {
            medium.execute(request);
        }
        let failed = request.status() != Status::Ok;
        if op == Op::Write && !failed {
            return self.continue_current(shared);
        }
        let zone = if op == Op::ZoneResetAll { (0, u64::MAX) } else { medium.zone_range(request) };
        let request = self.take_current();
        let time = match op {
            _ if failed => 0,
            Op::ZoneReset | Op::ZoneResetAll => {
                // Buffered writes to the zone are moot, and the read cache is stale.
                let (start, end) = zone;
                shared.segments.forget(start, end);
                shared.buffer.forget(start, end, head.run_being_written(), &mut shared.done);
                self.reset
            }
            _ => self.finish,
        };
        self.begin_step(shared.now, LinkStep::Response(request), time);
    }

    fn continue_current(&mut self, shared: &mut DiskShared) {
        let request = self.queue.front().expect("the link serves a command");
        let flags = request.flags();
        let is_flush = request.op() == Op::Flush;
        let flushes = is_flush || self.current.moved == 0 && flags.contains(BioFlags::PREFLUSH);
        if flushes && !shared.buffer.is_empty() {
            self.step = LinkStep::Drain;
            return;
        }
        if is_flush {
            let request = self.take_current();
            return self.begin_step(shared.now, LinkStep::Response(request), 0);
        }
        let (start, end) = byte_range(request);
        let from = start + self.current.moved;
        let len = (end - from).min(self.piece);
        let reserved = self.reserved.saturating_sub(self.share(request)).min(self.max_reserved);
        let CurrentCommand { moved, arrived, waited, .. } = self.current;
        if shared.buffer.has_room(from, len, reserved, arrived, moved == 0) {
            let time = self.transfer_time(len);
            return self.begin_step(shared.now, LinkStep::Piece(len), time);
        }
        shared.counters.full_waits += u64::from(!waited);
        self.current.waited = true;
        self.step = LinkStep::Full;
    }

    fn piece_arrived(&mut self, shared: &mut DiskShared, head: &mut Head, len: u64) {
        let request = self.queue.front().expect("the link serves a command");
        let (start, end) = byte_range(request);
        let CurrentCommand { moved, arrived, .. } = self.current;
        let (from, to) = (start + moved, start + moved + len);
        shared.segments.forget(from, to);
        let run = shared.buffer.add(from, to, arrived, moved == 0);
        self.current.moved += len;
        if to == end {
            let request = self.take_current();
            if self.write_cache && !request.flags().contains(BioFlags::FUA) {
                shared.done.push(request);
            } else {
                shared.buffer.complete_when_written(run, request);
            }
        }
        head.wake(shared, false);
        self.begin(shared);
    }

    /// Queues a command.
    pub(super) fn enqueue(&mut self, request: Box<Request>) {
        self.reserved += self.share(&request);
        self.queue.push_back(request);
    }

    /// Removes the first command from the queue.
    fn take_current(&mut self) -> Box<Request> {
        let request = self.queue.pop_front().expect("the link serves a command");
        self.reserved -= self.share(&request);
        self.current = CurrentCommand::default();
        request
    }

    /// The bytes of the buffer that are reserved for a command while it waits behind others.
    fn share(&self, request: &Request) -> u64 {
        let (start, end) = byte_range(request);
        (end - start).min(self.reserve)
    }
}
