//! A hardware queue: a connection with many commands in flight.
//!
//! Every request completes, with an error if the connection is lost. A command that times out loses
//! all connections of its controller, as in Linux, where NVMe/TCP does not abort single commands.
use super::connections::ActiveConnection;
use super::device::NvmeTcpDevice;
use super::scan::DEPTH;
use crate::backend::segments::{gather, scatter};
use crate::backend::tags::TagTable;
use std::os::fd::RawFd;
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Device, HwQueue, Nanos, Op, Request, Status, Tag, Wake};
use zonal_nvme::ns::NamespaceLayout;
use zonal_nvme::ns::{SpecialPayload, setup};
use zonal_nvme::tcp::{HostEvent, Payload};
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::{Cqe, Sqe};

/// Bit of the CID of a Flush that goes before a write.
const PREFLUSH: u16 = DEPTH.next_power_of_two();
/// Output that is sent at once; less waits for the next poll, which comes after a batch.
const SEND_NOW: usize = 64 << 10;

pub(super) struct Queue {
    device: Arc<NvmeTcpDevice>,
    /// `None` when the connection is lost.
    active: Option<ActiveConnection>,
    /// Requests with the time of their start.
    in_flight: TagTable<(Nanos, Box<Request>)>,
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
        let payload = match setup(&*active.namespace, &request, request.tag().0, &mut sqe) {
            Ok(payload) => payload,
            Err(status) => return self.complete(request, status),
        };
        let len = request.nr_sectors() << SECTOR_SHIFT;
        let (data, read_len) = match (request.op(), payload) {
            (Op::Read, _) => (Vec::new(), len),
            (Op::Write | Op::ZoneAppend, _) => {
                let mut data = active.connection.tcp.take_buffer(len as usize);
                if let Err(status) = gather(&mut request, &mut data) {
                    return self.complete(request, status);
                }
                (data, 0)
            }
            (_, SpecialPayload::Range(range)) => (range.as_bytes().to_vec(), 0),
            _ => (Vec::new(), 0),
        };
        if active.connection.tcp.submit(sqe, data, read_len).is_err() {
            return self.complete(request, Status::Transport);
        }
        self.track(now, request);
    }

    fn track(&mut self, now: Nanos, request: Box<Request>) {
        self.has_output = true;
        self.in_flight.insert(request.tag(), (now, request));
    }

    /// Sends the Flush that goes before a request's command.
    fn submit_preflush(&mut self, now: Nanos, request: Box<Request>) {
        let tag = request.tag();
        let submit = |active: &mut ActiveConnection| {
            let sqe = Sqe::new(IoOpcode::FLUSH.0, tag.0 | PREFLUSH, active.namespace.nsid());
            active.connection.tcp.submit(sqe, Vec::new(), 0)
        };
        match self.active.as_mut().map(submit) {
            Some(Ok(())) => self.track(now, request),
            _ => self.complete(request, Status::Transport),
        }
    }

    fn on_completion(&mut self, now: Nanos, cqe: &Cqe, data: &Payload) {
        let cid = cqe.cid.get();
        // The connection reports no command that it was not given.
        let Some((_, mut request)) = self.in_flight.remove(Tag(cid & !PREFLUSH)) else { return };
        let mut status = cqe.status().to_blk_status();
        if cid & PREFLUSH != 0 && status == Status::Ok {
            return self.submit(now, request);
        }
        if status == Status::Ok && request.op() == Op::Read {
            let len = (request.nr_sectors() as usize) << SECTOR_SHIFT;
            status = if data.damaged || data.bytes.len() != len {
                Status::IoError
            } else {
                scatter(&mut request, &data.bytes).err().unwrap_or_default()
            };
        } else if status == Status::Ok && request.op() == Op::ZoneAppend {
            match self.device.head().info.append_sector(request.zone(), cqe.result()) {
                Some(sector) => request.set_append_sector(sector),
                None => status = Status::IoError,
            }
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
        if let Some(active) = self.active.take() {
            active.connection.socket.close();
            self.device.connections.lost(active.generation, why);
        }
        let timeout = self.device.io_timeout();
        for (since, mut request) in self.in_flight.drain() {
            let late = now >= since + timeout;
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
        self.in_flight.iter().any(|&(since, _)| now >= since + timeout)
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
                self.on_completion(now, &cqe, &data);
                if let Some(ActiveConnection { connection, .. }) = &mut self.active {
                    connection.tcp.recycle(data.bytes);
                }
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
            && connection.tcp.output().len() >= SEND_NOW
        {
            // The next poll sees the same error.
            let _ = connection.socket.send(connection.tcp.output());
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
