//! A hardware queue: requests become entries of an io_uring.
//!
//! Memory that the kernel may access stays with the queue until the kernel is done with it, also
//! when the queue is dropped. External buffers are transferred in place, and copied if the kernel or
//! the device cannot do that.
use super::chain::{Chain, ChainStep, Outcome};
use super::failure::Failure;
use crate::segments::{gather, scatter};
use crate::tags::TagTable;
use io_uring::{cqueue, squeue};
use std::os::fd::RawFd;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Buf, HwQueue, Nanos, Op, Request, Status, Tag, Wake};
use zonal_os::poll::uring::Uring;

/// A request that is with the kernel.
struct InFlight {
    request: Box<Request>,
    /// The data, where they are not in one buffer in memory that the kernel can be pointed to.
    bounce: Option<Buf>,
    /// The flush that precedes the request is in flight.
    preflush: bool,
    /// How far the transfer of an external buffer is.
    chain: Option<Chain>,
    /// The external buffer cannot be transferred in place.
    refused: bool,
}

/// Translation of requests into commands, and of completions.
///
/// # Safety
/// Entries name a file that stays open as long as this lives, and no memory but the [`data_len`]
/// bytes at the `data` that they were made with, or external pages that the kernel itself has
/// registered as a buffer of the ring.
pub(super) unsafe trait Commands: Send {
    /// An entry of the submission queue.
    type Entry: squeue::EntryMarker + Send;
    /// An entry of the completion queue.
    type Cqe: cqueue::EntryMarker;

    /// A flush.
    fn flush(&self) -> Self::Entry;

    /// The command for a request, with [`data_len`] bytes at `data`.
    ///
    /// # Errors
    /// The status of a request that is complete without one, successfully or not.
    fn start(&self, request: &Request, data: *mut u8) -> Result<Self::Entry, Status>;

    /// The commands for a request with an external buffer that becomes fixed buffer `index` of the
    /// ring: one for each [`ChainStep`], linked so that a failed first cancels the others, and the last
    /// runs in any other case. `None` if the kernel does not know the memory, or there is no such
    /// command.
    fn start_external(&self, request: &Request, index: u16) -> Option<[Self::Entry; 3]>;

    /// The result of a command for a request.
    ///
    /// # Errors
    /// How it failed.
    fn result(&self, request: &Request, completion: &Self::Cqe) -> Result<u64, Failure>;

    /// Completes a request whose command had this result.
    fn finish(&self, request: &mut Request, result: u64) -> Status;
}

pub(super) struct Queue<C: Commands> {
    commands: C,
    /// `None` if the kernel has no more: all requests then fail.
    ring: Option<Uring<C::Entry, C::Cqe>>,
    /// Whether the ring has a table of fixed buffers, one for each tag. It gets one with the first
    /// external buffer, if the kernel has it.
    fixed_buffers: Option<bool>,
    in_flight: TagTable<InFlight>,
    /// Requests that completed without a command.
    completed: Vec<Box<Request>>,
}

impl<C: Commands> Queue<C> {
    pub fn new(commands: C, depth: u16) -> Self {
        let entries = u32::from(depth) * u32::try_from(ChainStep::ALL.len()).expect("three");
        Queue {
            commands,
            ring: Uring::new(entries).ok(),
            fixed_buffers: None,
            in_flight: TagTable::new(depth),
            completed: Vec::new(),
        }
    }

    fn complete(&mut self, mut request: Box<Request>, status: Status) {
        request.set_status(status);
        self.completed.push(request);
    }

    /// Queues the next command of a request.
    fn issue(&mut self, mut entry: InFlight) {
        if self.ring.is_none() {
            return self.complete(entry.request, Status::IoError);
        }
        if !entry.preflush
            && let Some(commands) = self.external_commands(&entry)
        {
            entry.chain = Some(Chain::default());
            return self.push(entry, commands);
        }
        let command = if entry.preflush {
            Ok(self.commands.flush())
        } else {
            data(&mut entry).and_then(|data| self.commands.start(&entry.request, data))
        };
        match command {
            Ok(command) => self.push(entry, [command]),
            Err(status) => self.complete(entry.request, status),
        }
    }

    /// The commands for a request with an external buffer, unless it is to be copied.
    fn external_commands(&mut self, entry: &InFlight) -> Option<[C::Entry; 3]> {
        if entry.refused || entry.request.external_buf().is_none() {
            return None;
        }
        let (ring, depth) = (self.ring.as_ref()?, self.in_flight.depth());
        let depth = u32::try_from(depth).expect("tags have 16 bits");
        let fixed_buffers =
            self.fixed_buffers.get_or_insert_with(|| ring.register_buffers_sparse(depth).is_ok());
        if *fixed_buffers {
            self.commands.start_external(&entry.request, entry.request.tag().0)
        } else {
            None
        }
    }

    /// Queues the commands of a request. Their user data is the tag and, above it, the step.
    fn push<const N: usize>(&mut self, entry: InFlight, commands: [C::Entry; N]) {
        let ring = self.ring.as_mut().expect("commands are made for a ring");
        let tag = entry.request.tag();
        self.in_flight.insert(tag, entry);
        for (step, mut command) in (0_u64..).zip(commands) {
            squeue::EntryMarker::set_user_data(&mut command, step << 16 | u64::from(tag.0));
            // SAFETY: the command names memory of the entry's buffers, whose contents are neither
            // moved nor accessed nor freed while the entry is in the table, which is until the
            // completion; `drop` waits for all. External pages are pinned by the kernel. The files
            // stay open as long as the queue: `Commands` promises it.
            unsafe { ring.push(command) };
        }
    }

    fn on_completion(&mut self, completion: &C::Cqe) {
        let user_data = cqueue::EntryMarker::user_data(completion);
        let tag = Tag((user_data & u64::from(u16::MAX)) as u16);
        let mut entry = self.in_flight.remove(tag).expect("the command was in flight");
        let mut result = self.commands.result(&entry.request, completion);
        if let Some(chain) = &mut entry.chain {
            let step =
                ChainStep::ALL[usize::try_from(user_data >> 16).expect("the number of a step")];
            result = match chain.on_completion(step, result) {
                None => return self.in_flight.insert(tag, entry),
                Some(Outcome::Refused) => {
                    (entry.chain, entry.refused) = (None, true);
                    return self.issue(entry);
                }
                Some(Outcome::Transferred(result)) => result,
            };
        }
        let mut status = match result {
            Err(Failure { status, zone_error: true }) if !entry.preflush => {
                entry.request.refuse(status);
                return self.completed.push(entry.request);
            }
            Err(failure) => failure.status,
            Ok(_) if std::mem::take(&mut entry.preflush) => return self.issue(entry),
            Ok(result) => self.commands.finish(&mut entry.request, result),
        };
        if status == Status::Ok
            && entry.request.op() == Op::Read
            && let Some(bounce) = &entry.bounce
        {
            status = scatter(&mut entry.request, bounce).err().unwrap_or_default();
        }
        self.complete(entry.request, status);
    }

    fn reap(&mut self) {
        while let Some(completion) = self.ring.as_mut().and_then(Uring::reap) {
            self.on_completion(&completion);
        }
    }
}

/// Bytes that are transferred for a request.
pub(super) fn data_len(request: &Request) -> u32 {
    match request.op() {
        Op::Read | Op::Write | Op::ZoneAppend => request.nr_sectors() << SECTOR_SHIFT,
        _ => 0,
    }
}

/// Where a request's data are, in one piece; null if it has none.
///
/// # Errors
/// There is no memory for a copy, or an external buffer cannot be copied.
fn data(entry: &mut InFlight) -> Result<*mut u8, Status> {
    let request = &mut entry.request;
    let len = data_len(request);
    if len == 0 {
        return Ok(std::ptr::null_mut());
    }
    let mut segments = 0;
    let mut start = std::ptr::null_mut();
    request.for_each_segment(|_, _, buf| {
        segments += 1;
        let in_memory = buf.filter(|buf| buf.as_external().is_none());
        start = in_memory.map_or(std::ptr::null_mut(), |buf| buf.as_mut_ptr());
    });
    if segments == 1 && !start.is_null() {
        return Ok(start);
    }
    let bounce = entry.bounce.insert(Buf::try_zeroed(len as usize).ok_or(Status::Again)?);
    if request.op() != Op::Read {
        gather(request, bounce)?;
    }
    Ok(bounce.as_mut_ptr())
}

impl<C: Commands> HwQueue for Queue<C> {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let preflush = request.op() != Op::Flush && request.flags().contains(BioFlags::PREFLUSH);
        self.issue(InFlight { request, bounce: None, preflush, chain: None, refused: false });
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        if let Some(ring) = &mut self.ring {
            // What the kernel refuses to take now it is offered again by the next poll.
            let _ = ring.submit();
            self.reap();
        }
        if let Some(ring) = &mut self.ring {
            // Writes whose flush has completed.
            let _ = ring.submit();
        }
        done.append(&mut self.completed);
    }

    fn next_event(&self) -> Wake {
        let queued = self.ring.as_ref().is_some_and(Uring::has_queued);
        match () {
            () if queued || !self.completed.is_empty() => Wake::Now,
            () if self.in_flight.is_empty() => Wake::Idle,
            () => Wake::External,
        }
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend(self.ring.as_ref().filter(|ring| ring.in_flight() > 0).map(Uring::fd));
    }
}

impl<C: Commands> Drop for Queue<C> {
    fn drop(&mut self) {
        // The block layer drops idle queues. After a panic commands may be in flight, and the kernel
        // may still write to memory that is about to be freed.
        while let Some(ring) = self.ring.as_mut().filter(|ring| ring.in_flight() > 0) {
            if ring.wait(None).is_err() {
                std::thread::yield_now();
            }
            self.reap();
        }
        // Dropping a request that holds a bio panics, which during a panic aborts.
        self.completed.drain(..).for_each(std::mem::forget);
    }
}
