//! A hardware queue: an io_uring.
//!
//! Takes requests; gives them back done. Keeps true: memory that the kernel reads or writes is kept
//! until the kernel is done with it, also when the queue is dropped.
use super::device::status;
use super::zones;
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Buf, HwQueue, Limits, Nanos, Op, Request, Sector, Status};

/// The longest sleep of a poll.
const MOMENT: Duration = Duration::from_micros(100);

/// What is with the kernel.
struct InFlight {
    request: Box<Request>,
    /// The data of a request whose bios have none, or more than one piece.
    bounce: Option<Buf>,
    /// A flush goes before the request.
    preflush: bool,
}

pub(super) struct Queue {
    file: Arc<File>,
    limits: Limits,
    /// `None` if the kernel gives none, as when it is out of memory.
    ring: Option<IoUring>,
    /// By tag.
    in_flight: Vec<Option<InFlight>>,
    count: usize,
    /// Requests that ended at once.
    ended: Vec<Box<Request>>,
}

impl Queue {
    pub fn new(file: Arc<File>, limits: Limits) -> Self {
        let depth = usize::from(limits.queue_depth);
        let ring = IoUring::builder().setup_coop_taskrun().build(u32::from(limits.queue_depth));
        Queue {
            file,
            limits,
            ring: ring.ok(),
            in_flight: (0..depth).map(|_| None).collect(),
            count: 0,
            ended: Vec::new(),
        }
    }

    fn end(&mut self, mut request: Box<Request>, ended: Result<(), Status>) {
        request.set_status(ended.err().unwrap_or(Status::Ok));
        self.ended.push(request);
    }

    /// Does what the kernel does only while one waits.
    fn manage(&mut self, request: Box<Request>) {
        let (start, len) = match request.op() {
            Op::ZoneResetAll => (Sector(0), self.limits.capacity),
            _ => (request.sector(), self.limits.zone_size),
        };
        let done = zones::manage(&self.file, request.op(), start, len);
        self.end(request, done.map_err(|error| status(&error)));
    }

    /// Gives the kernel a command.
    fn push(&mut self, mut entry: InFlight) {
        let Some(ring) = &mut self.ring else {
            return self.end(entry.request, Err(Status::IoError));
        };
        let tag = entry.request.tag().0;
        let command = command(&self.file, &mut entry).user_data(tag.into());
        self.in_flight[usize::from(tag)] = Some(entry);
        // SAFETY: what the command points to is memory of the entry's buffers, which lie outside of
        // it and are neither moved nor looked at until the command has ended, and freed no sooner:
        // the entry stays in its slot until then, and `drop` waits for all. The file is open as long
        // as the queue is.
        unsafe { ring.submission().push(&command) }.expect("one command for each tag");
        self.count += 1;
    }

    /// A command has ended.
    fn take(&mut self, tag: u64, result: i32, done: &mut Vec<Box<Request>>) {
        let slot = usize::try_from(tag).expect("a tag");
        let mut entry = self.in_flight[slot].take().expect("a command that ends was out");
        self.count -= 1;
        let status = match result {
            error if error < 0 => status(&io::Error::from_raw_os_error(-error)),
            _ if std::mem::take(&mut entry.preflush) => return self.push(entry),
            len if len.unsigned_abs() != data_len(&entry.request) => Status::IoError,
            _ => Status::Ok,
        };
        if status == Status::Ok && entry.request.op() == Op::Read {
            scatter(&mut entry);
        }
        entry.request.set_status(status);
        done.push(entry.request);
    }

    /// Sends what has gathered, and waits for an end if `waits`.
    fn enter(&mut self, waits: bool) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if !waits {
            return ring.submit().map(drop);
        }
        let time = types::Timespec::from(MOMENT);
        ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time)).map(drop)
    }

    fn reap(&mut self, done: &mut Vec<Box<Request>>) {
        while let Some(end) = self.ring.as_mut().and_then(|ring| ring.completion().next()) {
            self.take(end.user_data(), end.result(), done);
        }
    }
}

/// Bytes that the kernel moves for a request.
fn data_len(request: &Request) -> u32 {
    match request.op() {
        Op::Read | Op::Write => request.nr_sectors() << SECTOR_SHIFT,
        _ => 0,
    }
}

/// The command for a request, with the memory that it is about.
fn command(file: &File, entry: &mut InFlight) -> squeue::Entry {
    let fd = types::Fd(file.as_raw_fd());
    let request = &mut entry.request;
    if entry.preflush || request.op() == Op::Flush {
        return opcode::Fsync::new(fd).build();
    }
    let (len, offset) = (data_len(request), request.sector().to_bytes().0);
    let mut pieces = 0;
    let mut whole = std::ptr::null_mut();
    request.for_each_segment(|_, _, buf| {
        pieces += 1;
        whole = buf.map_or(std::ptr::null_mut(), |buf| buf.as_mut_ptr());
    });
    if pieces > 1 || whole.is_null() {
        let bounce = entry.bounce.insert(Buf::zeroed(len as usize));
        if request.op() == Op::Write {
            gather(request, bounce);
        }
        whole = bounce.as_mut_ptr();
    }
    if request.op() == Op::Read {
        return opcode::Read::new(fd, whole, len).offset(offset).build();
    }
    let fua = if request.flags().contains(BioFlags::FUA) { libc::RWF_DSYNC } else { 0 };
    opcode::Write::new(fd, whole, len).offset(offset).rw_flags(fua).build()
}

/// Copies the pieces of a write together. A bio without data writes zeroes.
fn gather(request: &mut Request, whole: &mut [u8]) {
    let mut rest = whole;
    request.for_each_segment(|_, nr_sectors, buf| {
        let (part, behind) =
            std::mem::take(&mut rest).split_at_mut((nr_sectors as usize) << SECTOR_SHIFT);
        if let Some(buf) = buf {
            part.copy_from_slice(buf);
        }
        rest = behind;
    });
}

/// Gives the pieces of a read their data.
fn scatter(entry: &mut InFlight) {
    let Some(bounce) = &entry.bounce else { return };
    let mut rest = &bounce[..];
    entry.request.for_each_segment(|_, nr_sectors, buf| {
        let (part, behind) = rest.split_at((nr_sectors as usize) << SECTOR_SHIFT);
        if let Some(buf) = buf {
            buf.copy_from_slice(part);
        }
        rest = behind;
    });
}

impl HwQueue for Queue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let op = request.op();
        match op {
            Op::Read | Op::Write | Op::Flush => {
                let preflush = op == Op::Write && request.flags().contains(BioFlags::PREFLUSH);
                self.push(InFlight { request, bounce: None, preflush });
            }
            op if op.is_zone_management() || op == Op::ZoneResetAll => self.manage(request),
            _ => self.end(request, Err(Status::NotSupported)),
        }
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.ended);
        if self.count == 0 {
            return;
        }
        // A signal, or the end of the moment: the next poll looks again.
        let _ = self.enter(false);
        let before = done.len();
        self.reap(done);
        if done.len() == before {
            let _ = self.enter(true);
            self.reap(done);
        }
    }

    /// Whatever comes comes from the kernel: it is to be looked for.
    fn next_event(&self) -> Option<Nanos> {
        (self.count > 0 || !self.ended.is_empty()).then_some(Nanos(0))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Where all goes well nothing is out; after a panic, the kernel may still write to memory
        // that is about to be freed.
        let mut done = Vec::new();
        while self.count > 0 {
            if self.enter(true).is_err() {
                thread::yield_now();
            }
            self.reap(&mut done);
        }
        // A request that is dropped with a bio in it stops the program, in the midst of a panic
        // without a word.
        done.into_iter().for_each(std::mem::forget);
    }
}
