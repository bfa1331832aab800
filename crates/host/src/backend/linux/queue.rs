//! A hardware queue: an io_uring.
//!
//! Takes requests, and the [`Commands`] that they become; gives them back done. Keeps true: memory
//! that the kernel reads or writes is kept until the kernel is done with it, also when the queue is
//! dropped. Lent data are moved where they are, and copied if the kernel does not lend them.
use super::chain::{Chain, Outcome, Step};
use io_uring::{IoUring, cqueue, squeue, types};
use std::io;
use std::thread;
use std::time::Duration;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Buf, HwQueue, Nanos, Op, Request, Status, Wake};

/// The longest sleep of a poll.
const MAX_POLL_SLEEP: Duration = Duration::from_micros(100);

/// What is with the kernel.
struct InFlight {
    request: Box<Request>,
    /// The data of a request whose bios have none, more than one piece, or such as are lent and
    /// cannot be moved where they are.
    bounce: Option<Buf>,
    /// A flush goes before the request.
    preflush: bool,
    /// The transfer of lent data that is with the kernel.
    chain: Option<Chain>,
    /// Data that are lent cannot be moved where they are.
    refused: bool,
}

/// What requests become, and what the kernel's answers mean.
///
/// # Safety
/// Entries name a file that stays open as long as this lives or the request does, and of memory have
/// the kernel touch nothing but the [`data_len`] bytes at the `data` that they were made with, or
/// lent pages that it has itself made a buffer of the ring.
pub(super) unsafe trait Commands: Send {
    /// An entry of the ring.
    type Entry: squeue::EntryMarker;
    /// An answer.
    type Cqe: cqueue::EntryMarker;

    /// A flush.
    fn flush(&self) -> Self::Entry;

    /// The command for a request, with [`data_len`] bytes at `data`.
    ///
    /// # Errors
    /// The status of a request that has ended already, well or not.
    fn start(&self, request: &Request, data: *mut u8) -> Result<Self::Entry, Status>;

    /// The commands for a request whose data are lent, with buffer `index` of the ring: one for each
    /// [`Step`], linked so that a failed first cancels the others and the last comes in any case
    /// else. `None` if nothing is known of the lender, or there is no such command.
    fn start_external(&self, request: &Request, index: u16) -> Option<[Self::Entry; 3]>;

    /// The result of a command that did not fail.
    ///
    /// # Errors
    /// How it failed.
    fn result(&self, answer: &Self::Cqe) -> Result<u64, Status>;

    /// A request's command ended with this result: how did the request?
    fn finish(&self, request: &mut Request, result: u64) -> Status;
}

pub(super) type Ring<C> = IoUring<<C as Commands>::Entry, <C as Commands>::Cqe>;

pub(super) struct Queue<C: Commands> {
    commands: C,
    /// `None` if the kernel gives none, as when it is out of memory.
    ring: Option<Ring<C>>,
    /// The ring has a table of buffers, one for each tag. It gets one with the first lent data;
    /// `Some(false)` if the kernel gives none.
    buf_table: Option<bool>,
    /// By tag.
    in_flight: Vec<Option<InFlight>>,
    count: usize,
    /// Requests that ended at once.
    ended: Vec<Box<Request>>,
}

impl<C: Commands> Queue<C> {
    pub fn new(commands: C, depth: u16) -> Self {
        let commands_at_once = u32::from(depth) * u32::try_from(Step::ALL.len()).expect("three");
        let ring = Ring::<C>::builder().setup_coop_taskrun().build(commands_at_once);
        Queue {
            commands,
            ring: ring.ok(),
            buf_table: None,
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
        if self.ring.is_none() {
            return self.end(entry.request, Status::IoError);
        }
        if !entry.preflush
            && let Some(commands) = self.external_commands(&entry)
        {
            entry.chain = Some(Chain::default());
            return self.send(entry, commands);
        }
        let command = if entry.preflush {
            self.commands.flush()
        } else {
            let started =
                data(&mut entry).and_then(|data| self.commands.start(&entry.request, data));
            match started {
                Ok(command) => command,
                Err(status) => return self.end(entry.request, status),
            }
        };
        self.send(entry, [command]);
    }

    /// The commands for a request whose data are lent, unless they are to be copied.
    fn external_commands(&mut self, entry: &InFlight) -> Option<[C::Entry; 3]> {
        if entry.refused || entry.request.external_buf().is_none() {
            return None;
        }
        let (ring, depth) = (self.ring.as_ref()?, self.in_flight.len());
        let depth = u32::try_from(depth).expect("as it was made with");
        let buf_table = self
            .buf_table
            .get_or_insert_with(|| ring.submitter().register_buffers_sparse(depth).is_ok());
        if *buf_table {
            self.commands.start_external(&entry.request, entry.request.tag().0)
        } else {
            None
        }
    }

    /// Gives the kernel the commands of a request. What they end with names the tag and, above it,
    /// the command.
    fn send<const N: usize>(&mut self, entry: InFlight, commands: [C::Entry; N]) {
        let ring = self.ring.as_mut().expect("commands are made for a ring");
        let tag = entry.request.tag().0;
        self.in_flight[usize::from(tag)] = Some(entry);
        for (step, command) in (0_u64..).zip(commands) {
            let command = with_user_data(command, step << 16 | u64::from(tag));
            // SAFETY: what the command points to is memory of the entry's buffers, which lie outside
            // of it and are neither moved nor looked at until the command has ended, and freed no
            // sooner: the entry stays in its slot until then, and `drop` waits for all. Lent pages
            // the kernel itself keeps until it is done with them. The files are open as long as the
            // queue is, or the entry: `Commands` says so.
            unsafe { ring.submission().push(&command) }.expect("no more commands for each tag");
        }
        self.count += N;
    }

    /// A command has ended.
    fn complete(&mut self, answer: &C::Cqe, done: &mut Vec<Box<Request>>) {
        let data = cqueue::EntryMarker::user_data(answer);
        let slot = usize::try_from(data & u64::from(u16::MAX)).expect("a tag");
        let mut entry = self.in_flight[slot].take().expect("a command that ends was out");
        self.count -= 1;
        let mut result = self.commands.result(answer);
        if let Some(chain) = &mut entry.chain {
            let step = Step::ALL[usize::try_from(data >> 16).expect("the number of a step")];
            result = match chain.ended(step, result) {
                None => {
                    self.in_flight[slot] = Some(entry);
                    return;
                }
                Some(Outcome::Refused) => {
                    (entry.chain, entry.refused) = (None, true);
                    return self.push(entry);
                }
                Some(Outcome::Transferred(result)) => result,
            };
        }
        let status = match result {
            Err(status) => status,
            Ok(_) if std::mem::take(&mut entry.preflush) => return self.push(entry),
            Ok(result) => self.commands.finish(&mut entry.request, result),
        };
        let status = match status {
            Status::Ok if entry.request.op() == Op::Read => scatter(&mut entry),
            status => status,
        };
        entry.request.set_status(status);
        done.push(entry.request);
    }

    /// Sends what has gathered, and waits for an end if `waits`.
    fn enter(&mut self, waits: bool) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if !waits {
            return ring.submit().map(drop);
        }
        let time = types::Timespec::from(MAX_POLL_SLEEP);
        ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time)).map(drop)
    }

    fn reap(&mut self, done: &mut Vec<Box<Request>>) {
        while let Some(end) = self.ring.as_mut().and_then(|ring| ring.completion().next()) {
            self.complete(&end, done);
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
///
/// # Errors
/// Lent data cannot be copied.
fn data(entry: &mut InFlight) -> Result<*mut u8, Status> {
    let request = &mut entry.request;
    let len = data_len(request);
    if len == 0 {
        return Ok(std::ptr::null_mut());
    }
    let mut pieces = 0;
    let mut whole = std::ptr::null_mut();
    request.for_each_segment(|_, _, buf| {
        pieces += 1;
        let here = buf.filter(|buf| buf.as_external().is_none());
        whole = here.map_or(std::ptr::null_mut(), |buf| buf.as_mut_ptr());
    });
    if pieces == 1 && !whole.is_null() {
        return Ok(whole);
    }
    let bounce = entry.bounce.insert(Buf::zeroed(len as usize));
    if request.op() != Op::Read {
        gather(request, bounce)?;
    }
    Ok(bounce.as_mut_ptr())
}

/// Copies the pieces of a write together. A bio without data writes zeroes.
///
/// # Errors
/// The lender does not have as much.
fn gather(request: &mut Request, whole: &mut [u8]) -> Result<(), Status> {
    let mut rest = whole;
    let mut gathered = Ok(());
    request.for_each_segment(|_, nr_sectors, buf| {
        let (part, behind) =
            std::mem::take(&mut rest).split_at_mut((nr_sectors as usize) << SECTOR_SHIFT);
        if let Some(buf) = buf {
            match buf.as_external() {
                Some(lent) => gathered = gathered.and(lent.read(part)),
                None => part.copy_from_slice(buf),
            }
        }
        rest = behind;
    });
    gathered
}

/// Gives the pieces of a read their data. How the read has ended then.
fn scatter(entry: &mut InFlight) -> Status {
    let Some(bounce) = &entry.bounce else { return Status::Ok };
    let mut rest = &bounce[..];
    let mut scattered = Ok(());
    entry.request.for_each_segment(|_, nr_sectors, buf| {
        let (part, behind) = rest.split_at((nr_sectors as usize) << SECTOR_SHIFT);
        if let Some(buf) = buf {
            match buf.as_external() {
                Some(lent) => scattered = scattered.and(lent.write(part)),
                None => buf.copy_from_slice(part),
            }
        }
        rest = behind;
    });
    scattered.map_or_else(|status| status, |()| Status::Ok)
}

impl<C: Commands> HwQueue for Queue<C> {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let preflush = request.op() != Op::Flush && request.flags().contains(BioFlags::PREFLUSH);
        let entry = InFlight { request, bounce: None, preflush, chain: None, refused: false };
        self.push(entry);
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
    fn next_event(&self) -> Wake {
        if self.count > 0 || !self.ended.is_empty() { Wake::Now } else { Wake::Idle }
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
        done.append(&mut self.ended);
        // A request that is dropped with a bio in it stops the program, in the midst of a panic
        // without a word.
        done.into_iter().for_each(std::mem::forget);
    }
}
