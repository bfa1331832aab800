//! The link: takes the commands that write one by one, with their data, and sends responses.
//!
//! Takes the queue of commands; gives pieces of data to the buffer, and ends commands. Keeps true:
//! commands take effect in the order in which they came; a piece comes only if the buffer has room
//! for it beside what is kept free for the commands that wait.
use super::drive::{CommandExecutor, Drive, bytes};
use zonal_blk::{BioFlags, Op, Request, Status};

/// What the link is busy with, or waits for.
#[derive(Debug)]
pub(super) enum Link {
    /// Nothing to do.
    Idle,
    /// The controller looks at the first command of the queue.
    Overhead,
    /// A piece of the first command arrives.
    Piece(u64),
    /// Room for the next piece of the first command.
    Full,
    /// All that is in the buffer to be on the medium.
    Drain,
    /// The end of a command goes to the host, with the data of a read.
    Response(Box<Request>),
}

impl Link {
    /// Whether a step of the link has an end that is known.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self, Link::Idle | Link::Full | Link::Drain)
    }

    /// Whether a command waits for something to be written.
    pub(super) fn needs_writes(&self) -> bool {
        matches!(self, Link::Full | Link::Drain)
    }
}

/// The first command of the queue, on its way over the link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CurrentCommand {
    /// Bytes that have arrived.
    moved: u64,
    /// When it came onto the link.
    arrived: u64,
    /// The controller knows what it is.
    begun: bool,
    /// It found the buffer full.
    waited: bool,
}

impl Drive {
    fn time_on_link(&self, len: u64) -> u64 {
        len * 1_000_000_000 / self.link_rate
    }

    fn set_link(&mut self, link: Link, time: u64) {
        self.link = link;
        self.link_until = self.now + time;
    }

    /// Something happened that the link may have waited for.
    pub(super) fn wake_link(&mut self) {
        if !self.link.is_busy() {
            self.next_on_link();
        }
    }

    fn next_on_link(&mut self) {
        self.link = Link::Idle;
        if let Some(request) = self.responses.pop_front() {
            let (start, end) = bytes(&request);
            let time = self.command + self.time_on_link(end - start);
            self.set_link(Link::Response(request), time);
        } else if self.queue.is_empty() {
        } else if self.current_command.begun {
            self.continue_current();
        } else {
            self.current_command =
                CurrentCommand { arrived: self.now, ..CurrentCommand::default() };
            self.set_link(Link::Overhead, self.command);
        }
    }

    pub(super) fn link_step(&mut self, execute: &impl CommandExecutor) {
        match std::mem::replace(&mut self.link, Link::Idle) {
            Link::Overhead => self.begin_current(execute),
            Link::Piece(len) => self.piece_arrived(len),
            Link::Response(mut request) => {
                if request.op() == Op::Read && request.status() == Status::Ok {
                    execute.execute(&mut request);
                }
                self.done.push(request);
                self.next_on_link();
            }
            Link::Idle | Link::Full | Link::Drain => {}
        }
    }

    /// The controller has understood the first command of the queue.
    fn begin_current(&mut self, execute: &impl CommandExecutor) {
        self.current_command.begun = true;
        let request = self.queue.front_mut().expect("the link serves a command");
        let op = request.op();
        if op == Op::Flush {
            execute.execute(request);
            return self.continue_current();
        }
        if op == Op::Discard {
            request.set_status(Status::NotSupported);
        } else {
            execute.execute(request);
        }
        let failed = request.status() != Status::Ok;
        if op == Op::Write && !failed {
            return self.continue_current();
        }
        let zone = if op == Op::ZoneResetAll { (0, u64::MAX) } else { execute.zone(request) };
        let request = self.take_current();
        let time = match op {
            _ if failed => 0,
            Op::ZoneReset | Op::ZoneResetAll => {
                self.forget(zone);
                self.reset
            }
            _ => self.finish,
        };
        self.set_link(Link::Response(request), time);
    }

    /// A zone is empty: what waits to be written there need not be, what was read there is stale.
    fn forget(&mut self, (start, end): (u64, u64)) {
        self.segments.forget(start, end);
        self.buffer.forget(start, end, self.run_being_written(), &mut self.done);
    }

    fn continue_current(&mut self) {
        let request = self.queue.front().expect("the link serves a command");
        let flags = request.flags();
        let is_flush = request.op() == Op::Flush;
        let flushes =
            is_flush || self.current_command.moved == 0 && flags.contains(BioFlags::PREFLUSH);
        if flushes && !self.buffer.is_empty() {
            self.link = Link::Drain;
            return;
        }
        if is_flush {
            let request = self.take_current();
            return self.set_link(Link::Response(request), 0);
        }
        let (start, end) = bytes(request);
        let from = start + self.current_command.moved;
        let len = (end - from).min(self.piece);
        let kept = self.reserved.saturating_sub(self.share(request)).min(self.max_reserved);
        if self.buffer.has_room(
            from,
            len,
            kept,
            self.current_command.arrived,
            self.current_command.moved == 0,
        ) {
            return self.set_link(Link::Piece(len), self.time_on_link(len));
        }
        self.counters.full_waits += u64::from(!self.current_command.waited);
        self.current_command.waited = true;
        self.link = Link::Full;
    }

    fn piece_arrived(&mut self, len: u64) {
        let request = self.queue.front().expect("the link serves a command");
        let (start, end) = bytes(request);
        let (from, to) =
            (start + self.current_command.moved, start + self.current_command.moved + len);
        self.segments.forget(from, to);
        let run = self.buffer.add(
            from,
            to,
            self.current_command.arrived,
            self.current_command.moved == 0,
        );
        self.current_command.moved += len;
        if to == end {
            let request = self.take_current();
            if self.write_cache && !request.flags().contains(BioFlags::FUA) {
                self.done.push(request);
            } else {
                self.buffer.keep(run, request);
            }
        }
        self.wake_head();
        self.next_on_link();
    }

    /// A command joins the queue.
    pub(super) fn enqueue(&mut self, request: Box<Request>) {
        self.reserved += self.share(&request);
        self.queue.push_back(request);
    }

    /// The first command leaves the queue.
    fn take_current(&mut self) -> Box<Request> {
        let request = self.queue.pop_front().expect("the link serves a command");
        self.reserved -= self.share(&request);
        self.current_command = CurrentCommand::default();
        request
    }

    /// The part of the buffer that is kept free for a command while it waits behind others.
    fn share(&self, request: &Request) -> u64 {
        let (start, end) = bytes(request);
        (end - start).min(self.reserve)
    }
}
