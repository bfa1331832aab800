//! A hardware queue: a connection with many commands at a time.
//!
//! Takes requests; gives them back done. Keeps true: a request that was taken comes back, with an
//! error if the connection breaks, or if nothing comes for as long as a command may take.
use super::device::NvmeTcpDevice;
use super::exchange::{Exchange, TIMEOUT};
use crate::nvme_tcp::socket::{LOOK, Look};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Device, HwQueue, Nanos, Op, Request, Sector, Status};
use zonal_nvme::ns::Arrangement;
use zonal_nvme::ns::{Payload, setup};
use zonal_nvme::tcp::{HostEvent, Payload as Data};
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::{Cqe, Sqe};

/// Bit of the CID of a Flush that goes before a write.
const PREFLUSH: u16 = 1 << 15;
/// The longest sleep of a poll.
const MOMENT: Duration = Duration::from_micros(100);
/// Output that is sent at once; less waits for the next poll, which comes after a batch.
const SEND_NOW: usize = 64 << 10;

pub(super) struct Queue {
    device: Arc<NvmeTcpDevice>,
    /// `None` when the connection is gone.
    connection: Option<Exchange>,
    /// By tag.
    in_flight: Vec<Option<Box<Request>>>,
    count: usize,
    /// Requests that ended without the target.
    ended: Vec<Box<Request>>,
    events: Vec<HostEvent>,
    look: Look,
    /// Since when nothing has come.
    quiet: Option<Instant>,
}

impl Queue {
    pub fn new(device: Arc<NvmeTcpDevice>, connection: Option<Exchange>) -> Self {
        let depth = usize::from(device.limits().queue_depth);
        Queue {
            device,
            connection,
            in_flight: (0..depth).map(|_| None).collect(),
            count: 0,
            ended: Vec::new(),
            events: Vec::new(),
            look: Look::default(),
            quiet: None,
        }
    }

    fn end(&mut self, mut request: Box<Request>, status: Status) {
        request.set_status(status);
        self.ended.push(request);
    }

    /// Sends a request's command.
    fn send(&mut self, mut request: Box<Request>) {
        let Some(connection) = &mut self.connection else {
            return self.end(request, Status::Offline);
        };
        let cid = request.tag().0;
        let mut sqe = Sqe::zeroed();
        let payload = match setup(&*self.device.namespace, &request, cid, &mut sqe) {
            Ok(payload) => payload,
            Err(status) => return self.end(request, status),
        };
        let len = request.nr_sectors() << SECTOR_SHIFT;
        let (data, room) = match (request.op(), payload) {
            (Op::Read, _) => (Vec::new(), len),
            (Op::Write | Op::ZoneAppend, _) => (gather(&mut request), 0),
            (_, Payload::Range(range)) => (range.as_bytes().to_vec(), 0),
            _ => (Vec::new(), 0),
        };
        if connection.tcp.submit(sqe, data, room).is_err() {
            return self.end(request, Status::Offline);
        }
        self.put(request);
    }

    fn put(&mut self, request: Box<Request>) {
        if self.count == 0 {
            self.quiet = None;
        }
        let slot = usize::from(request.tag().0);
        self.in_flight[slot] = Some(request);
        self.count += 1;
    }

    /// Sends the Flush that goes before a request's command.
    fn send_flush(&mut self, request: Box<Request>) {
        let (tag, nsid) = (request.tag().0, self.device.namespace.nsid());
        let sqe = Sqe::new(IoOpcode::FLUSH.0, tag | PREFLUSH, nsid);
        let connection = self.connection.as_mut();
        match connection.map(|connection| connection.tcp.submit(sqe, Vec::new(), 0)) {
            Some(Ok(())) => self.put(request),
            _ => self.end(request, Status::Offline),
        }
    }

    /// A command has ended.
    fn take(&mut self, cqe: &Cqe, data: &Data, done: &mut Vec<Box<Request>>) {
        let cid = cqe.cid.get();
        let slot = usize::from(cid & !PREFLUSH);
        // The connection gives only ends of commands that were sent.
        let Some(mut request) = self.in_flight.get_mut(slot).and_then(Option::take) else { return };
        self.count -= 1;
        let mut status = cqe.status().to_block();
        if cid & PREFLUSH != 0 && status == Status::Ok {
            return self.send(request);
        }
        if status == Status::Ok && request.op() == Op::Read {
            status = scatter(&mut request, data);
        } else if status == Status::Ok && request.op() == Op::ZoneAppend {
            match self.landed(&request, cqe.result()) {
                Some(sector) => request.set_landed(sector),
                None => status = Status::IoError,
            }
        }
        request.set_status(status);
        done.push(request);
    }

    /// Where an append landed, if that is in its zone.
    fn landed(&self, request: &Request, block: u64) -> Option<Sector> {
        let sector = self.device.sectors(block)?;
        let limits = self.device.limits();
        let start = limits.zone_start(request.zone());
        (start <= sector && sector < start + limits.zone_size).then_some(sector)
    }

    /// The connection is gone: what was in flight ends so.
    fn fail(&mut self, status: Status, done: &mut Vec<Box<Request>>) {
        if let Some(connection) = self.connection.take() {
            connection.socket.close();
        }
        for mut request in self.in_flight.iter_mut().filter_map(Option::take) {
            request.set_status(status);
            done.push(request);
        }
        self.count = 0;
    }

    /// Whether nothing came for too long.
    fn is_late(&mut self, came: bool) -> bool {
        if came {
            self.quiet = None;
            return false;
        }
        self.quiet.get_or_insert_with(Instant::now).elapsed() > TIMEOUT
    }
}

/// Sends and receives; whether anything came. If nothing did and nothing went, looks for a while and
/// then sleeps, until something comes or a moment is over: who polls may have other things to do.
fn exchange(connection: &mut Exchange, look: &mut Look) -> io::Result<bool> {
    let before = connection.unsent();
    let mut came = connection.exchange()?;
    if !came && connection.unsent() == before {
        while !came && look.again(LOOK) {
            came = connection.exchange()?;
        }
        if !came {
            let unsent = connection.unsent() > 0;
            connection.socket.wait(true, unsent, Some(MOMENT));
            came = connection.exchange()?;
        }
    }
    if came {
        look.reset();
    }
    Ok(came)
}

impl HwQueue for Queue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        if request.flags().contains(BioFlags::PREFLUSH) && request.op() != Op::Flush {
            self.send_flush(request);
        } else {
            self.send(request);
        }
        if let Some(connection) = &mut self.connection
            && connection.tcp.output().len() >= SEND_NOW
        {
            // An error is found again by the next poll.
            let _ = connection.socket.send(connection.tcp.output());
        }
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.ended);
        if self.count == 0 {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        let came = exchange(connection, &mut self.look);
        std::mem::swap(&mut self.events, &mut connection.events);
        let closed = connection.tcp.closed().is_some();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            if let HostEvent::Ended { cqe, data } = event {
                self.take(&cqe, &data, done);
            }
        }
        self.events = events;
        match came {
            Ok(_) if closed => self.fail(Status::IoError, done),
            Ok(came) if self.is_late(came) => self.fail(Status::Timeout, done),
            Ok(_) => {}
            Err(_) => self.fail(Status::IoError, done),
        }
    }

    /// Whatever comes comes over the network: it is to be looked for.
    fn next_event(&self) -> Option<Nanos> {
        (self.count > 0 || !self.ended.is_empty()).then_some(Nanos(0))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.count == 0
        {
            self.device.give_back(connection);
        }
    }
}

/// The data of a write. A bio without data writes zeroes, as the devices of `zonal-device` do.
fn gather(request: &mut Request) -> Vec<u8> {
    let mut data = Vec::with_capacity((request.nr_sectors() as usize) << SECTOR_SHIFT);
    request.for_each_segment(|_, nr_sectors, buf| match buf {
        Some(buf) => data.extend_from_slice(buf),
        None => data.resize(data.len() + ((nr_sectors as usize) << SECTOR_SHIFT), 0),
    });
    data
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
