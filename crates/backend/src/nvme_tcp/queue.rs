//! A hardware queue: a connection with many commands in flight.
//!
//! Every request completes, with an error if the connection is lost. A command that times out loses
//! all connections of its controller, as in Linux, where NVMe/TCP does not abort single commands.
use super::connections::ActiveConnection;
use super::device::NvmeTcpDevice;
use super::scan::DEPTH;
use crate::segments::{gather, scatter};
use crate::tags::TagTable;
use std::os::fd::RawFd;
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Buf, Device, HwQueue, Nanos, Op, Outgoing, Request, Status, Tag, Wake};
use zonal_nvme::ns::{SpecialPayload, setup};
use zonal_nvme::tcp::{CommandData, HostEvent};
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::{Cqe, Sqe};

/// Bit of the CID of a Flush that goes before a write.
const PREFLUSH: u16 = DEPTH.next_power_of_two();
/// Output that is sent immediately; less waits for the next poll, which comes after a batch.
const SEND_NOW: usize = 64 << 10;

/// A request in flight.
struct InFlight {
    request: Box<Request>,
    started: Nanos,
    /// The connection has the request's own buffer.
    buf_taken: bool,
}

pub(super) struct Queue {
    device: Arc<NvmeTcpDevice>,
    /// `None` when the connection is lost.
    active: Option<ActiveConnection>,
    in_flight: TagTable<InFlight>,
    /// Requests that completed without the target.
    completed: Vec<Box<Request>>,
    events: Vec<HostEvent>,
    next_timeout_check: Nanos,
    /// There are commands that no poll has tried to send.
    has_output: bool,
}

impl Queue {
    pub fn new(device: Arc<NvmeTcpDevice>) -> Self {
        Queue {
            active: device.connections.acquire(),
            in_flight: TagTable::new(device.limits().queue_depth),
            device,
            completed: Vec::new(),
            events: Vec::new(),
            next_timeout_check: Nanos(0),
            has_output: false,
        }
    }

    /// Whether the connection is one of the controller's current ones.
    fn is_current(&self) -> bool {
        let generation = self.device.connections.generation();
        self.active.as_ref().is_some_and(|active| active.generation == generation)
    }

    /// Acquires a new connection if the old one is lost and has nothing in flight.
    fn reacquire_connection(&mut self) {
        if self.in_flight.is_empty() && !self.is_current() {
            self.active = self.device.connections.acquire();
        }
    }

    fn complete(&mut self, mut request: Box<Request>, status: Status) {
        request.set_status(status);
        self.completed.push(request);
    }

    /// Sends a request's command.
    fn submit(&mut self, now: Nanos, mut request: Box<Request>) {
        let Some(active) = &mut self.active else {
            return self.complete(request, Status::Transport);
        };
        let mut sqe = Sqe::zeroed();
        let payload = match setup(active.namespace.format(), &request, request.tag().0, &mut sqe) {
            Ok(payload) => payload,
            Err(status) => return self.complete(request, status),
        };
        let (buf, buf_taken) = match command_buf(active, &mut request, &payload) {
            Ok(buf) => buf,
            Err(status) => return self.complete(request, status),
        };
        if let Err(refused) = active.connection.tcp.submit(sqe, buf) {
            if let Some(buf) = refused.buf.filter(|_| buf_taken) {
                request.put_buf(buf);
            }
            return self.complete(request, Status::Transport);
        }
        self.track(InFlight { request, started: now, buf_taken });
    }

    fn track(&mut self, in_flight: InFlight) {
        self.has_output = true;
        self.in_flight.insert(in_flight.request.tag(), in_flight);
    }

    /// Sends the Flush that goes before a request's command.
    fn submit_preflush(&mut self, now: Nanos, request: Box<Request>) {
        let tag = request.tag();
        let submit = |active: &mut ActiveConnection| {
            let sqe = Sqe::new(IoOpcode::FLUSH.0, tag.0 | PREFLUSH, active.namespace.format().nsid);
            active.connection.tcp.submit(sqe, None)
        };
        match self.active.as_mut().map(submit) {
            Some(Ok(())) => self.track(InFlight { request, started: now, buf_taken: false }),
            _ => self.complete(request, Status::Transport),
        }
    }

    fn on_completion(&mut self, now: Nanos, cqe: &Cqe, mut data: CommandData) {
        let cid = cqe.cid.get();
        // The connection reports no command that it was not given.
        let Some(in_flight) = self.in_flight.remove(Tag(cid & !PREFLUSH)) else { return };
        let InFlight { mut request, buf_taken, .. } = in_flight;
        let mut status = cqe.status().to_blk_status();
        if let Some(active) = self.active.as_ref().filter(|_| cqe.status().is_ana_error()) {
            self.device.connections.doubt_access(active.generation);
        }
        if cid & PREFLUSH != 0 && status == Status::Ok {
            return self.submit(now, request);
        }
        if status == Status::Ok && request.op() == Op::Read {
            let len = (request.nr_sectors() as usize) << SECTOR_SHIFT;
            if data.damaged || data.received != len {
                status = Status::IoError;
            } else if !buf_taken {
                status = scatter(&mut request, data.received()).err().unwrap_or_default();
            }
        } else if status == Status::Ok && request.op() == Op::ZoneAppend {
            match self.device.head().info.append_sector(request.zone(), cqe.result()) {
                Some(sector) => request.set_append_sector(sector),
                None => status = Status::IoError,
            }
        }
        match data.buf.take() {
            Some(buf) if buf_taken => request.put_buf(buf),
            Some(buf) => {
                if let Some(ActiveConnection { connection, .. }) = &mut self.active {
                    connection.tcp.recycle(buf);
                }
            }
            None => {}
        }
        if cqe.status().is_zone_error() {
            request.refuse(status);
            return self.completed.push(request);
        }
        self.complete(request, status);
    }

    /// Gives up the connection, and with it the others of its controller. What was in flight fails,
    /// with a timeout where that was its time.
    fn fail(&mut self, now: Nanos, why: &str) {
        if let Some(mut active) = self.active.take() {
            active.connection.socket.close();
            self.device.connections.lost(active.generation, why);
            for (cid, buf) in active.connection.tcp.into_buffers() {
                if let Some(in_flight) = self.in_flight.get_mut(Tag(cid))
                    && in_flight.buf_taken
                {
                    in_flight.request.put_buf(buf);
                }
            }
        }
        let timeout = self.device.io_timeout();
        for InFlight { mut request, started, .. } in self.in_flight.drain() {
            let late = now >= started + timeout;
            request.set_status(if late { Status::Timeout } else { Status::Transport });
            self.completed.push(request);
        }
    }

    /// Whether a command has timed out. Checks eight times in that time.
    fn has_timed_out(&mut self, now: Nanos) -> bool {
        if now < self.next_timeout_check {
            return false;
        }
        let timeout = self.device.io_timeout();
        self.next_timeout_check = now + Nanos(timeout.0 / 8);
        self.in_flight.iter().any(|in_flight| now >= in_flight.started + timeout)
    }

    /// Sends and receives, and handles what was received.
    fn process(&mut self, now: Nanos) {
        if !self.is_current() {
            return self.fail(now, "lost with another connection");
        }
        let Some(ActiveConnection { connection, .. }) = &mut self.active else { return };
        self.has_output = false;
        let received = connection.send_and_receive();
        let closed = connection.tcp.close_reason().map(ToString::to_string);
        std::mem::swap(&mut self.events, &mut connection.events);
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            if let HostEvent::Completed { cqe, data } = event {
                self.on_completion(now, &cqe, data);
            }
        }
        self.events = events;
        match (received, closed) {
            (Err(error), _) => self.fail(now, &error.to_string()),
            (Ok(_), Some(why)) => self.fail(now, &why),
            (Ok(_), None) if self.has_timed_out(now) => self.fail(now, "a command timed out"),
            (Ok(_), None) => {}
        }
    }
}

/// The buffer of a request's command, if it has data, and whether it is the request's own. Several
/// bios, or an external buffer, are copied.
fn command_buf(
    active: &mut ActiveConnection,
    request: &mut Request,
    payload: &SpecialPayload,
) -> Result<(Option<Buf>, bool), Status> {
    let tcp = &mut active.connection.tcp;
    let mut copy = |len| tcp.take_buffer(len).ok_or(Status::IoError);
    match (request.op(), payload) {
        (op @ (Op::Read | Op::Write | Op::ZoneAppend), _) => {
            if let Some(own) = request.take_buf() {
                return Ok((Some(own), true));
            }
            let mut buf = copy((request.nr_sectors() as usize) << SECTOR_SHIFT)?;
            if op != Op::Read {
                gather(request, &mut buf)?;
            }
            Ok((Some(buf), false))
        }
        (_, SpecialPayload::Range(range)) => {
            let mut buf = copy(range.as_bytes().len())?;
            buf.copy_from_slice(range.as_bytes());
            Ok((Some(buf), false))
        }
        _ => Ok((None, false)),
    }
}

impl HwQueue for Queue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.reacquire_connection();
        if !self.is_current() {
            if !self.device.is_only_path {
                return Err(request);
            }
            self.complete(request, Status::Offline);
            return Ok(());
        }
        if request.flags().contains(BioFlags::PREFLUSH) && request.op() != Op::Flush {
            self.submit_preflush(now, request);
        } else {
            self.submit(now, request);
        }
        if let Some(ActiveConnection { connection, .. }) = &mut self.active
            && connection.tcp.unsent() >= SEND_NOW
        {
            // The next poll sends what is left, and sees the same error.
            let _ = connection.socket.send(&mut connection.tcp, true);
        }
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        if !self.in_flight.is_empty() {
            self.process(now);
        }
        done.append(&mut self.completed);
    }

    fn next_event(&self) -> Wake {
        match () {
            () if self.has_output || !self.completed.is_empty() => Wake::Now,
            () if self.in_flight.is_empty() => Wake::Idle,
            () => Wake::At(self.next_timeout_check),
        }
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        if !self.in_flight.is_empty()
            && let Some(active) = &self.active
        {
            fds.extend([active.connection.wait_fd(), self.device.connections.lost_fd()]);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Some(active) = self.active.take()
            && self.in_flight.is_empty()
        {
            self.device.connections.release(active);
        }
    }
}
