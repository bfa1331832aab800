//! A hardware queue of an image.
//!
//! Commands execute in `poll`, newest first as in the null device, never in `start`. A command
//! completes when its data are transferred, when what it flushes is durable, and not before the
//! timing model, if there is one, completes it.
//!
//! ```text
//!   start --> pending --> executed --> ring ---------> completing --> done
//!     |                      \--> no transfer needed ----^   ^ earlier writes of its zone
//!     +--> a timing request goes through the model ---------+ | commit
//! ```
use super::device::{ExecResult, ImageDevice};
use super::store::{Ring, Transfer};
use super::sums::sum_request;
use super::verify::ReadResult;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use zonal_blk::{BioFlags, Buf, Device, HwQueue, Nanos, Op, Request, Sector, Status, Tag, Wake};

/// The stage of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandStage {
    /// Not executed yet.
    Pending,
    /// Its transfer is in flight.
    Moving,
    /// The transfer of a write is done or failed.
    Written(Status),
    /// Completes with the next commit.
    Flush,
    /// Complete.
    Complete(Status),
    /// Complete: its zone does not allow it.
    Refused(Status),
}

/// A command of the queue.
struct Command {
    request: Box<Request>,
    stage: CommandStage,
    /// Why the checksums of what it writes could not be set.
    sum_error: Option<Status>,
    /// Its timing request is with the model.
    timed: bool,
}

pub(super) struct ImageQueue {
    device: Arc<ImageDevice>,
    /// `None` if the system refuses rings to a second queue: transfers then wait for each other.
    ring: io::Result<Box<dyn Ring>>,
    /// By tag.
    commands: Vec<Option<Command>>,
    /// To be executed, the newest last.
    pending: Vec<Tag>,
    /// To be executed again.
    later: Vec<Tag>,
    /// Executed, without a transfer in flight.
    completing: Vec<Tag>,
    moving: usize,
    /// Writes that append to zones and are in flight, without checksums yet, in the order of their
    /// execution.
    unsummed: Vec<Tag>,
    timed: usize,
    timing: Option<Box<dyn HwQueue>>,
    /// Kept for their capacity and their empty buffers.
    timing_requests: Vec<Box<Request>>,
    returned: Vec<Box<Request>>,
    /// Completed transfers whose commands are to be finished, the first last.
    landed: Vec<(Transfer, io::Result<usize>)>,
    lists: Vec<Vec<Buf>>,
    placeholders: Vec<Buf>,
    /// For the checksums of a command.
    sums: Vec<u8>,
    /// The time of the last poll.
    polled: Nanos,
}

impl ImageQueue {
    pub(super) fn new(device: Arc<ImageDevice>) -> Self {
        let depth = device.limits().queue_depth;
        ImageQueue {
            ring: device.store.open_ring(depth),
            commands: (0..depth).map(|_| None).collect(),
            pending: Vec::new(),
            later: Vec::new(),
            completing: Vec::new(),
            moving: 0,
            unsummed: Vec::new(),
            timed: 0,
            timing: device.model().map(|model| Arc::clone(&model.device).open_queue()),
            timing_requests: Vec::new(),
            returned: Vec::new(),
            landed: Vec::new(),
            lists: Vec::new(),
            placeholders: Vec::new(),
            sums: Vec::new(),
            polled: Nanos(0),
            device,
        }
    }

    fn command(&mut self, tag: Tag) -> &mut Command {
        self.commands[usize::from(tag.0)].as_mut().expect("a tag in use has a command")
    }

    /// Starts a timing request in the model; returns whether there is one.
    fn start_timing(&mut self, now: Nanos, request: &Request) -> bool {
        let Some(timing) = &mut self.timing else {
            return false;
        };
        let mut timing_request = self.timing_requests.pop().unwrap_or_else(Request::for_timing);
        timing_request.copy_command(request);
        match timing.start(now, timing_request) {
            Ok(()) => {
                self.timed += 1;
                true
            }
            Err(timing_request) => {
                self.timing_requests.push(timing_request);
                false
            }
        }
    }

    /// Collects the timing requests that the model has completed by `now`; all of a model that has only
    /// a state to keep.
    fn poll_timing(&mut self, now: Nanos) {
        let Some(timing) = &mut self.timing else {
            return;
        };
        if self.timed > 0
            && self.device.timing().is_none()
            && let Some(model) = self.device.kept()
        {
            model.complete_pending();
        }
        let mut returned = std::mem::take(&mut self.returned);
        timing.poll(now, &mut returned);
        for timing_request in returned.drain(..) {
            self.timed -= 1;
            let tag = timing_request.tag();
            let gave_up = timing_request.status() == Status::Medium;
            let command = self.command(tag);
            command.timed = false;
            if gave_up && let CommandStage::Complete(status) = &mut command.stage {
                *status = Status::Medium;
            }
            self.timing_requests.push(timing_request);
        }
        self.returned = returned;
    }

    fn execute(&mut self, tag: Tag) {
        let device = Arc::clone(&self.device);
        let command = self.command(tag);
        let request = &mut command.request;
        let (op, flags) = (request.op(), request.flags());
        if op.is_write() && flags.contains(BioFlags::PREFLUSH) {
            let status = device.commit();
            if status != Status::Ok {
                return self.set_stage(tag, CommandStage::Complete(status));
            }
        }
        if op == Op::Read
            && device.offset_in_zone(request.zone(), request.end()) > device.zone_size()
        {
            // Reads merged across a zone boundary.
            let result = read_parts(&device, request);
            return self.complete_read(tag, result);
        }
        match device.execute(&mut self.command(tag).request) {
            ExecResult::Done(status) => self.set_stage(tag, CommandStage::Complete(status)),
            ExecResult::Refused(status) => self.set_stage(tag, CommandStage::Refused(status)),
            ExecResult::Flush => self.set_stage(tag, CommandStage::Flush),
            ExecResult::Retry => self.later.push(tag),
            ExecResult::Failed(status) => self.moved(tag, Some(status), (0, 0)),
            ExecResult::Transfer { at, len } => self.transfer(tag, at, len),
        }
    }

    fn complete_read(&mut self, tag: Tag, result: ReadResult) {
        match result {
            ReadResult::Done(status) => self.set_stage(tag, CommandStage::Complete(status)),
            ReadResult::Refused(status) => self.set_stage(tag, CommandStage::Refused(status)),
            ReadResult::Retry => self.later.push(tag),
        }
    }

    fn set_stage(&mut self, tag: Tag, stage: CommandStage) {
        self.command(tag).stage = stage;
        self.completing.push(tag);
    }

    /// Moves the data of a command.
    fn transfer(&mut self, tag: Tag, at: u64, len: u64) {
        let device = Arc::clone(&self.device);
        let mut bufs = self.lists.pop().unwrap_or_default();
        let placeholders = &mut self.placeholders;
        let command = self.commands[usize::from(tag.0)].as_mut().expect("it was executed");
        let write = command.request.op() != Op::Read;
        let mut complete = true;
        command.request.for_each_segment(|_, _, buf| complete &= buf.is_some());
        let len = usize::try_from(len).expect("a command fits in memory");
        if !complete || len == 0 || self.ring.is_err() {
            self.lists.push(bufs);
            let mut result = Ok(());
            if let Some(summer) = device.append_summer(&command.request) {
                sum_request(summer, &mut command.request, &mut self.sums);
                result = device.set_sums(&command.request, &self.sums);
            }
            let result =
                result.and_then(|()| move_segments(&device, &mut command.request, at, len));
            return self.moved(tag, result.map_err(Status::from).err(), (at, len));
        }
        command.request.for_each_segment(|_, _, buf| {
            if let Some(buf) = buf {
                let placeholder = placeholders.pop().unwrap_or_else(|| Buf::zeroed(0));
                bufs.push(std::mem::replace(buf, placeholder));
            }
        });
        command.stage = CommandStage::Moving;
        self.moving += 1;
        if device.appends(&command.request) {
            self.unsummed.push(tag);
        }
        if let Ok(ring) = &mut self.ring {
            ring.start(Transfer { tag, write, at, len, bufs });
        }
    }

    /// Starts the transfers that are queued; computes the checksums of writes, and writes what a flush
    /// of them would write, while these are in flight.
    fn sum_writes(&mut self) {
        let (false, Ok(ring)) = (self.unsummed.is_empty(), &mut self.ring) else { return };
        ring.submit();
        for tag in self.unsummed.drain(..) {
            let command = self.commands[usize::from(tag.0)].as_mut().expect("its data are moving");
            if let Some(summer) = self.device.append_summer(&command.request) {
                self.sums.clear();
                ring.write_bufs(tag).iter().for_each(|buf| summer.append(&mut self.sums, buf));
                let set = self.device.set_sums(&command.request, &self.sums);
                command.sum_error = set.err().map(Status::from);
            }
            if command.sum_error.is_none() {
                self.device.write_ahead(command.request.zone());
            }
        }
    }

    /// Starts transfers, and collects completed ones and their buffers: at most as many as are in
    /// flight. A drive may complete all immediately; what clients submit when they have the first is in
    /// flight then while the checksums of the others are verified.
    fn poll_transfers(&mut self) {
        if let Ok(ring) = &mut self.ring {
            if self.landed.is_empty() {
                ring.poll(&mut self.landed);
                // The first to complete is taken first.
                self.landed.reverse();
            } else {
                ring.submit();
            }
        }
        let in_flight = self.moving - self.landed.len();
        for _ in 0..in_flight.max(1) {
            let Some((mut transfer, result)) = self.landed.pop() else { break };
            self.moving -= 1;
            let result = match result {
                Ok(moved) if moved < transfer.len => {
                    finish_synchronously(&self.device, &mut transfer, moved)
                }
                other => other.map(|_| ()),
            };
            self.give_back(transfer.tag, transfer.bufs, transfer.len);
            let moved = (transfer.at, transfer.len);
            let status = |error| self.device.gone().unwrap_or_else(|| Status::from(error));
            let error = result.map_err(status).err();
            self.moved(transfer.tag, error, moved);
        }
    }

    /// Puts buffers back into their bios and zeroes what a read found no data for.
    fn give_back(&mut self, tag: Tag, mut bufs: Vec<Buf>, len: usize) {
        let placeholders = &mut self.placeholders;
        let command = self.commands[usize::from(tag.0)].as_mut().expect("its data were moving");
        let is_read = command.request.op() == Op::Read;
        let mut back = bufs.drain(..);
        let mut at = 0;
        command.request.for_each_segment(|_, _, slot| {
            if let (Some(slot), Some(mut buf)) = (slot, back.next()) {
                if is_read && at + buf.len() > len {
                    let from = len.saturating_sub(at).min(buf.len());
                    buf[from..].fill(0);
                }
                at += buf.len();
                placeholders.push(std::mem::replace(slot, buf));
            }
        });
        drop(back);
        self.lists.push(bufs);
    }

    /// The data of a command have moved, or not: bytes at an address.
    fn moved(&mut self, tag: Tag, error: Option<Status>, (at, len): (u64, usize)) {
        let device = Arc::clone(&self.device);
        let mut sums = std::mem::take(&mut self.sums);
        let Command { request, sum_error, .. } = self.command(tag);
        let sum_error = sum_error.take();
        if request.op() == Op::Read {
            let result = match error {
                Some(status) => ReadResult::Done(status),
                None => device.check_read(request, at, len),
            };
            self.sums = sums;
            return self.complete_read(tag, result);
        }
        let error = error.or(sum_error);
        let summed = device.written(request, error.is_none(), &mut sums);
        self.sums = sums;
        let error = error.or(summed.map_err(Status::from).err());
        self.set_stage(tag, CommandStage::Written(error.unwrap_or(Status::Ok)));
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.ring.as_ref().ok()?.wait_fd()
    }

    /// Completes the commands that can be completed.
    fn complete_ready(&mut self, done: &mut Vec<Box<Request>>) {
        let device = Arc::clone(&self.device);
        let mut flushes = false;
        for at in 0..self.completing.len() {
            let command = self.commands[usize::from(self.completing[at].0)].as_mut();
            let command = command.expect("a command completes once");
            if let CommandStage::Written(own) = command.stage
                && let Some(status) = device.complete_write(&command.request)
            {
                let status = if own == Status::Ok { status } else { own };
                let fua = command.request.flags().contains(BioFlags::FUA);
                command.stage = match status {
                    Status::Ok if fua => CommandStage::Flush,
                    status => CommandStage::Complete(status),
                };
            }
            flushes |= command.stage == CommandStage::Flush;
        }
        let flushed = if flushes || device.must_commit() { device.commit() } else { Status::Ok };
        let completed = done.len();
        let commands = &mut self.commands;
        self.completing.retain(|tag| {
            let slot = &mut commands[usize::from(tag.0)];
            let command = slot.as_mut().expect("a command completes once");
            if command.stage == CommandStage::Flush {
                command.stage = CommandStage::Complete(flushed);
            }
            if command.timed {
                return true;
            }
            match command.stage {
                CommandStage::Complete(status) => command.request.set_status(status),
                CommandStage::Refused(status) => command.request.refuse(status),
                _ => return true,
            }
            done.push(slot.take().expect("it is there").request);
            false
        });
        device.note_commands(done.len() - completed);
    }
}

impl HwQueue for ImageQueue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let tag = request.tag();
        let timed = self.start_timing(now, &request);
        self.commands[usize::from(tag.0)] =
            Some(Command { request, stage: CommandStage::Pending, sum_error: None, timed });
        self.pending.push(tag);
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        self.polled = now;
        while let Some(tag) = self.pending.pop() {
            self.execute(tag);
        }
        self.sum_writes();
        self.poll_transfers();
        std::mem::swap(&mut self.pending, &mut self.later);
        self.poll_timing(now);
        self.complete_ready(done);
    }

    fn next_event(&self) -> Wake {
        let waits_for_model = |tag: &Tag| {
            let command = self.commands[usize::from(tag.0)].as_ref();
            command.is_some_and(|command| {
                matches!(command.stage, CommandStage::Complete(_) | CommandStage::Refused(_))
            })
        };
        if !self.pending.is_empty() || !self.completing.iter().all(waits_for_model) {
            return Wake::Now;
        }
        if !self.landed.is_empty() {
            // Not in the same poll of the channel: first, its user gets those that are finished.
            return Wake::At(Nanos(self.polled.0 + 1));
        }
        let transfers = match self.wait_fd() {
            _ if self.moving == 0 => Wake::Idle,
            None => Wake::Now,
            Some(_) => Wake::External,
        };
        let timing = self
            .timing
            .as_ref()
            .filter(|_| self.timed > 0)
            .map_or(Wake::Idle, |timing| timing.next_event());
        transfers.min(timing)
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        if self.moving > 0 {
            fds.extend(self.wait_fd());
        }
    }

    fn reopen(&mut self) {
        if let Some(timing) = &mut self.timing {
            timing.reopen();
        }
    }
}

/// Does the rest of a transfer that moved less than it should, to hear why.
fn finish_synchronously(
    device: &ImageDevice,
    transfer: &mut Transfer,
    moved: usize,
) -> io::Result<()> {
    let mut at = 0;
    for buf in &mut transfer.bufs {
        let len = buf.len();
        let (from, to) = (moved.saturating_sub(at).min(len), (transfer.len - at).min(len));
        if from < to {
            let place = transfer.at + (at + from) as u64;
            // A buffer of its own: what is left need not begin where direct I/O wants it.
            let mut part = Buf::from(&buf[from..to]);
            if transfer.write {
                device.store.write(place, &part)?;
            } else {
                device.check_length()?;
                device.store.read(place, &mut part)?;
                buf[from..to].copy_from_slice(&part);
            }
        }
        at += to;
        if at >= transfer.len {
            break;
        }
    }
    Ok(())
}

/// Moves the data of a request without a ring; a write without a buffer is one of zeroes.
fn move_segments(
    device: &ImageDevice,
    request: &mut Request,
    at: u64,
    len: usize,
) -> io::Result<()> {
    let is_read = request.op() == Op::Read;
    let first = request.sector();
    let end = len as u64;
    let mut result = Ok(());
    request.for_each_segment(|sector, nr_sectors, buf| {
        if result.is_err() {
            return;
        }
        let offset = (sector - first).to_bytes().0;
        let bytes = Sector(nr_sectors.into()).to_bytes().0;
        let in_file = end.saturating_sub(offset).min(bytes);
        result = match buf {
            Some(buf) if is_read => {
                let split = usize::try_from(in_file).expect("no longer than the buffer");
                let (there, beyond) = buf.split_at_mut(split);
                beyond.fill(0);
                if there.is_empty() { Ok(()) } else { device.store.read(at + offset, there) }
            }
            Some(buf) => device.store.write(at + offset, buf),
            None if is_read => Ok(()),
            None => device.store.discard(at + offset, bytes),
        };
    });
    result
}

/// Reads bio by bio.
fn read_parts(device: &ImageDevice, request: &mut Request) -> ReadResult {
    let mut result = ReadResult::Done(Status::Ok);
    request.for_each_segment(|sector, _, buf| {
        if let (Some(buf), ReadResult::Done(Status::Ok)) = (buf, &result) {
            result = device.read_now(sector, buf);
        }
    });
    result
}
