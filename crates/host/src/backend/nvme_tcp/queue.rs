//! A hardware queue: a connection with many commands at a time.
//!
//! Takes requests; gives them back done. Keeps true: a request that was taken comes back, with an
//! error if the connection breaks; a command that takes longer than it may ends all connections of
//! its controller, as in Linux, where NVMe/TCP aborts no single commands.
use super::device::NvmeTcpDevice;
use super::link::Lease;
use super::queue_connection::QueueConnection;
use super::scan::DEPTH;
use crate::poll::socket::{SPIN_TIME, SpinWait};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Device, HwQueue, Nanos, Op, Request, Status, Wake};
use zonal_nvme::ns::NamespaceLayout;
use zonal_nvme::ns::{SpecialPayload, setup};
use zonal_nvme::tcp::{HostEvent, Payload as Data};
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::{Cqe, Sqe};

/// Bit of the CID of a Flush that goes before a write.
const PREFLUSH: u16 = DEPTH.next_power_of_two();
/// The longest sleep of a poll.
const MAX_POLL_SLEEP: Duration = Duration::from_micros(100);
/// The same where the thread may have other paths to look after.
const MAX_POLL_SLEEP_MULTIPATH: Duration = Duration::from_micros(20);
/// Output that is sent at once; less waits for the next poll, which comes after a batch.
const SEND_NOW: usize = 64 << 10;

pub(super) struct Queue {
    device: Arc<NvmeTcpDevice>,
    /// `None` when the connection is gone.
    lease: Option<Lease>,
    /// By tag, with the time of the start.
    in_flight: Vec<Option<(Nanos, Box<Request>)>>,
    count: usize,
    /// Requests that ended without the target.
    ended: Vec<Box<Request>>,
    events: Vec<HostEvent>,
    look: SpinWait,
    /// When it is to be seen whether a command is late.
    next_timeout_check: Nanos,
}

impl Queue {
    pub fn new(device: Arc<NvmeTcpDevice>) -> Self {
        let depth = usize::from(device.limits().queue_depth);
        Queue {
            lease: device.link.lease(),
            device,
            in_flight: (0..depth).map(|_| None).collect(),
            count: 0,
            ended: Vec::new(),
            events: Vec::new(),
            look: SpinWait::default(),
            next_timeout_check: Nanos(0),
        }
    }

    /// Whether the connection is one that its controller still has.
    fn is_current(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.generation == self.device.link.generation())
    }

    /// Gets a new connection if the old one is lost and nothing is on it.
    fn reacquire_connection(&mut self) {
        if self.count == 0 && !self.is_current() {
            self.lease = self.device.link.lease();
        }
    }

    fn end(&mut self, mut request: Box<Request>, status: Status) {
        request.set_status(status);
        self.ended.push(request);
    }

    /// Sends a request's command.
    fn send(&mut self, now: Nanos, mut request: Box<Request>) {
        let Some(lease) = &mut self.lease else {
            return self.end(request, Status::Transport);
        };
        let cid = request.tag().0;
        let mut sqe = Sqe::zeroed();
        let payload = match setup(&*lease.namespace, &request, cid, &mut sqe) {
            Ok(payload) => payload,
            Err(status) => return self.end(request, status),
        };
        let len = request.nr_sectors() << SECTOR_SHIFT;
        let (data, room) = match (request.op(), payload) {
            (Op::Read, _) => (Vec::new(), len),
            (Op::Write | Op::ZoneAppend, _) => {
                let mut data = lease.connection.tcp.take_buffer(len as usize);
                gather(&mut request, &mut data);
                (data, 0)
            }
            (_, SpecialPayload::Range(range)) => (range.as_bytes().to_vec(), 0),
            _ => (Vec::new(), 0),
        };
        if lease.connection.tcp.submit(sqe, data, room).is_err() {
            return self.end(request, Status::Transport);
        }
        self.track(now, request);
    }

    fn track(&mut self, now: Nanos, request: Box<Request>) {
        let slot = usize::from(request.tag().0);
        self.in_flight[slot] = Some((now, request));
        self.count += 1;
    }

    /// Sends the Flush that goes before a request's command.
    fn send_flush(&mut self, now: Nanos, request: Box<Request>) {
        let tag = request.tag().0;
        let submit = |lease: &mut Lease| {
            let sqe = Sqe::new(IoOpcode::FLUSH.0, tag | PREFLUSH, lease.namespace.nsid());
            lease.connection.tcp.submit(sqe, Vec::new(), 0)
        };
        match self.lease.as_mut().map(submit) {
            Some(Ok(())) => self.track(now, request),
            _ => self.end(request, Status::Transport),
        }
    }

    /// A command has ended.
    fn complete(&mut self, now: Nanos, cqe: &Cqe, data: &Data, done: &mut Vec<Box<Request>>) {
        let cid = cqe.cid.get();
        let slot = usize::from(cid & !PREFLUSH);
        // The connection gives only ends of commands that were sent.
        let flight = self.in_flight.get_mut(slot).and_then(Option::take);
        let Some((_, mut request)) = flight else { return };
        self.count -= 1;
        let mut status = cqe.status().to_blk_status();
        if cid & PREFLUSH != 0 && status == Status::Ok {
            return self.send(now, request);
        }
        if status == Status::Ok && request.op() == Op::Read {
            status = scatter(&mut request, data);
        } else if status == Status::Ok && request.op() == Op::ZoneAppend {
            match self.device.head().info.append_sector(request.zone(), cqe.result()) {
                Some(sector) => request.set_append_sector(sector),
                None => status = Status::IoError,
            }
        }
        request.set_status(status);
        done.push(request);
    }

    /// The connection is gone, and with it the others of its controller: what was in flight ends
    /// so, and what was late with a timeout.
    fn fail(&mut self, now: Nanos, why: &str, done: &mut Vec<Box<Request>>) {
        if let Some(lease) = self.lease.take() {
            lease.connection.socket.close();
            self.device.link.lost(lease.generation, why);
        }
        let timeout = self.device.io_timeout();
        for (since, mut request) in self.in_flight.iter_mut().filter_map(Option::take) {
            let late = now >= since + timeout;
            request.set_status(if late { Status::Timeout } else { Status::Transport });
            done.push(request);
        }
        self.count = 0;
    }

    /// Whether a command has taken longer than it may. It is looked at eight times in that time.
    fn has_timed_out(&mut self, now: Nanos) -> bool {
        if now < self.next_timeout_check {
            return false;
        }
        let timeout = self.device.io_timeout();
        self.next_timeout_check = now + Nanos(timeout.0 / 8);
        self.in_flight.iter().flatten().any(|&(since, _)| now >= since + timeout)
    }
}

/// Sends and receives; whether anything came. If nothing did and nothing went, looks for a while and
/// then sleeps, until something comes or a moment is over: who polls may have other things to do.
fn send_and_receive(
    connection: &mut QueueConnection,
    look: &mut SpinWait,
    moment: Duration,
) -> io::Result<bool> {
    let before = connection.unsent();
    let mut came = connection.send_and_receive()?;
    if !came && connection.unsent() == before {
        while !came && look.spin(SPIN_TIME) {
            came = connection.send_and_receive()?;
        }
        if !came {
            let unsent = connection.unsent() > 0;
            connection.socket.wait(true, unsent, Some(moment));
            came = connection.send_and_receive()?;
        }
    }
    if came {
        look.reset();
    }
    Ok(came)
}

impl HwQueue for Queue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.reacquire_connection();
        if !self.is_current() {
            if !self.device.is_only_path {
                return Err(request);
            }
            self.end(request, Status::Offline);
            return Ok(());
        }
        if request.flags().contains(BioFlags::PREFLUSH) && request.op() != Op::Flush {
            self.send_flush(now, request);
        } else {
            self.send(now, request);
        }
        if let Some(Lease { connection, .. }) = &mut self.lease
            && connection.tcp.output().len() >= SEND_NOW
        {
            // An error is found again by the next poll.
            let _ = connection.socket.send(connection.tcp.output());
        }
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.ended);
        if self.count == 0 {
            return;
        }
        if !self.is_current() {
            return self.fail(now, "lost with another connection", done);
        }
        let Some(Lease { connection, .. }) = &mut self.lease else { return };
        let moment =
            if self.device.is_only_path { MAX_POLL_SLEEP } else { MAX_POLL_SLEEP_MULTIPATH };
        let came = send_and_receive(connection, &mut self.look, moment);
        std::mem::swap(&mut self.events, &mut connection.events);
        let closed = connection.tcp.close_reason().map(ToString::to_string);
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            if let HostEvent::Completed { cqe, data } = event {
                self.complete(now, &cqe, &data, done);
                if let Some(Lease { connection, .. }) = &mut self.lease {
                    connection.tcp.recycle(data.bytes);
                }
            }
        }
        self.events = events;
        match (came, closed) {
            (Err(error), _) => self.fail(now, &error.to_string(), done),
            (Ok(_), Some(why)) => self.fail(now, &why, done),
            (Ok(_), None) if self.has_timed_out(now) => self.fail(now, "a command timed out", done),
            (Ok(_), None) => {}
        }
    }

    /// Whatever comes comes over the network: it is to be looked for.
    fn next_event(&self) -> Wake {
        if self.count > 0 || !self.ended.is_empty() { Wake::Now } else { Wake::Idle }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take()
            && self.count == 0
        {
            self.device.link.give_back(lease);
        }
    }
}

/// Adds the data of a write. A bio without data writes zeroes, as the devices of `zonal-device` do.
fn gather(request: &mut Request, data: &mut Vec<u8>) {
    request.for_each_segment(|_, nr_sectors, buf| match buf {
        Some(buf) => data.extend_from_slice(buf),
        None => data.resize(data.len() + ((nr_sectors as usize) << SECTOR_SHIFT), 0),
    });
}

/// Gives a read its data; how it ended.
fn scatter(request: &mut Request, data: &Data) -> Status {
    if data.damaged || data.bytes.len() != (request.nr_sectors() as usize) << SECTOR_SHIFT {
        return Status::IoError;
    }
    let mut rest = &data.bytes[..];
    request.for_each_segment(|_, nr_sectors, buf| {
        let (part, behind) = rest.split_at((nr_sectors as usize) << SECTOR_SHIFT);
        if let Some(buf) = buf {
            buf.copy_from_slice(part);
        }
        rest = behind;
    });
    Status::Ok
}
