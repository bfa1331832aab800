//! A hardware queue: an io_uring.
//!
//! Takes requests, and the [`Commands`] that they become; gives them back done. Keeps true: memory
//! that the kernel reads or writes is kept until the kernel is done with it, also when the queue is
//! dropped.
use io_uring::{IoUring, cqueue, squeue, types};
use std::io;
use std::thread;
use std::time::Duration;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Buf, HwQueue, Nanos, Op, Request, Status};

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

/// What requests become, and what the kernel's answers mean.
///
/// # Safety
/// Entries name a file that stays open as long as this lives, and of memory have the kernel touch
/// nothing but the [`data_len`] bytes at the `data` that they were made with.
pub(super) unsafe trait Commands: Send {
    /// An entry of the ring.
    type Entry: squeue::EntryMarker;
    /// An answer.
    type Answer: cqueue::EntryMarker;

    /// A flush.
    fn flush(&self) -> Self::Entry;

    /// The command for a request, with [`data_len`] bytes at `data`.
    ///
    /// # Errors
    /// The status of a request that has ended already, well or not.
    fn start(&self, request: &Request, data: *mut u8) -> Result<Self::Entry, Status>;

    /// The result of a command that did not fail.
    ///
    /// # Errors
    /// How it failed.
    fn result(&self, answer: &Self::Answer) -> Result<u64, Status>;

    /// A request's command ended with this result: how did the request?
    fn finish(&self, request: &mut Request, result: u64) -> Status;
}

pub(super) type Ring<C> = IoUring<<C as Commands>::Entry, <C as Commands>::Answer>;

pub(super) struct Queue<C: Commands> {
    commands: C,
    /// `None` if the kernel gives none, as when it is out of memory.
    ring: Option<Ring<C>>,
    /// By tag.
    in_flight: Vec<Option<InFlight>>,
    count: usize,
    /// Requests that ended at once.
    ended: Vec<Box<Request>>,
}

impl<C: Commands> Queue<C> {
    pub fn new(commands: C, depth: u16) -> Self {
        let ring = Ring::<C>::builder().setup_coop_taskrun().build(u32::from(depth));
        Queue {
            commands,
            ring: ring.ok(),
            in_flight: (0..depth).map(|_| None).collect(),
            count: 0,
            ended: Vec::new(),
        }
    }

    fn end(&mut self, mut request: Box<Request>, status: Status) {
        request.set_status(status);
        self.ended.push(request);
    }

    /// Gives the kernel a command.
    fn push(&mut self, mut entry: InFlight) {
        let Some(ring) = &mut self.ring else {
            return self.end(entry.request, Status::IoError);
        };
        let command = if entry.preflush {
            self.commands.flush()
        } else {
            let data = data(&mut entry);
            match self.commands.start(&entry.request, data) {
                Ok(command) => command,
                Err(status) => return self.end(entry.request, status),
            }
        };
        let tag = entry.request.tag().0;
        let command = with_user_data(command, tag.into());
        self.in_flight[usize::from(tag)] = Some(entry);
        // SAFETY: what the command points to is memory of the entry's buffers, which lie outside of
        // it and are neither moved nor looked at until the command has ended, and freed no sooner:
        // the entry stays in its slot until then, and `drop` waits for all. The file is open as long
        // as the queue is: `Commands` says so.
        unsafe { ring.submission().push(&command) }.expect("one command for each tag");
        self.count += 1;
    }

    /// A command has ended.
    fn take(&mut self, answer: &C::Answer, done: &mut Vec<Box<Request>>) {
        let slot = usize::try_from(cqueue::EntryMarker::user_data(answer)).expect("a tag");
        let mut entry = self.in_flight[slot].take().expect("a command that ends was out");
        self.count -= 1;
        let status = match self.commands.result(answer) {
            Err(status) => status,
            Ok(_) if std::mem::take(&mut entry.preflush) => return self.push(entry),
            Ok(result) => self.commands.finish(&mut entry.request, result),
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
            self.take(&end, done);
        }
    }
}

/// Bytes that the kernel moves for a request.
pub(super) fn data_len(request: &Request) -> u32 {
    match request.op() {
        Op::Read | Op::Write | Op::ZoneAppend => request.nr_sectors() << SECTOR_SHIFT,
        _ => 0,
    }
}

fn with_user_data<E: squeue::EntryMarker>(mut entry: E, data: u64) -> E {
    entry.set_user_data(data);
    entry
}

/// Where a request's data are, in one piece; null if it has none.
fn data(entry: &mut InFlight) -> *mut u8 {
    let request = &mut entry.request;
    let len = data_len(request);
    if len == 0 {
        return std::ptr::null_mut();
    }
    let mut pieces = 0;
    let mut whole = std::ptr::null_mut();
    request.for_each_segment(|_, _, buf| {
        pieces += 1;
        whole = buf.map_or(std::ptr::null_mut(), |buf| buf.as_mut_ptr());
    });
    if pieces == 1 && !whole.is_null() {
        return whole;
    }
    let bounce = entry.bounce.insert(Buf::zeroed(len as usize));
    if request.op() != Op::Read {
        gather(request, bounce);
    }
    bounce.as_mut_ptr()
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

impl<C: Commands> HwQueue for Queue<C> {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let preflush = request.op() != Op::Flush && request.flags().contains(BioFlags::PREFLUSH);
        self.push(InFlight { request, bounce: None, preflush });
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

impl<C: Commands> Drop for Queue<C> {
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
