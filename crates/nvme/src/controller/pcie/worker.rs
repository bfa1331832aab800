//! A completion queue and its submission queues, for one thread.
use super::pointers::{Segment, gather, parse, scatter};
use super::ring::{CqRing, SqRing};
use super::shared::{Ended, FunctionShared, Mail, SqSetup};
use super::{BATCH, Dma, DmaError};
use crate::NvmeStatus;
use crate::controller::async_events::EventType;
use crate::controller::data_pointer::DataPointer;
use crate::controller::io::IoQueue;
use crate::controller::response::{INVALID_FIELD, Response};
use crate::controller::{MAX_QUEUE, MDTS};
use crate::wire::queue::Transfer;
use crate::wire::{Cqe, Sqe};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use zonal_blk::{BufPool, Channel, Mailbox, Nanos, Slab, Wake, WakeUp};

/// Commands in flight of a submission queue.
const MAX_COMMANDS: usize = MAX_QUEUE as usize;
/// Bytes of buffers kept for reuse.
const MAX_BUFFERS: usize = 4 << 20;

/// The result of [`IoWorker::poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Something was done: there may be more to do.
    pub worked: bool,
    /// The interrupt vector to signal.
    pub interrupt: Option<u16>,
    /// The queue was deleted or its controller was reset, and nothing depends on it any more: it can
    /// be dropped.
    pub done: bool,
}

/// An I/O completion queue and the submission queues that complete there. It must not be dropped
/// before it is [done](Polled::done), unless it was never polled.
pub struct IoWorker {
    shared: Arc<FunctionShared>,
    mailbox: Arc<Mailbox<Mail>>,
    cqid: u16,
    vector: Option<u16>,
    ring: CqRing,
    /// The head, when it was last looked at.
    head: u16,
    /// Shadow doorbells and event indices.
    buffers: Option<[u64; 2]>,
    queues: Vec<SubmissionQueue>,
    bufs: BufPool,
    fetched: Vec<Sqe>,
    responses: Vec<Response>,
    /// A queue is not in guest memory: nothing is done until the controller is reset.
    failed: bool,
    ending: bool,
    /// The controller was reset.
    aborted: bool,
}

struct SubmissionQueue {
    qid: u16,
    ring: SqRing,
    io: IoQueue,
    /// Fetched, not started.
    waiting: VecDeque<Sqe>,
    commands: Slab<Command>,
    /// By command identifier, its number in `commands` plus one.
    by_cid: Box<[u16]>,
    /// Segments of commands that have ended, for reuse.
    spare: Vec<Vec<Segment>>,
    /// The last invalid shadow doorbell.
    invalid: Option<u32>,
    deleting: bool,
}

struct Command {
    cid: u16,
    /// Where data for the host go.
    segments: Vec<Segment>,
}

impl IoWorker {
    pub(super) fn new(
        shared: Arc<FunctionShared>,
        mailbox: Arc<Mailbox<Mail>>,
        cqid: u16,
        vector: Option<u16>,
        ring: CqRing,
        buffers: Option<[u64; 2]>,
    ) -> Self {
        IoWorker {
            shared,
            mailbox,
            cqid,
            vector,
            ring,
            head: 0,
            buffers,
            queues: Vec::new(),
            bufs: BufPool::default(),
            fetched: Vec::new(),
            responses: Vec::new(),
            failed: false,
            ending: false,
            aborted: false,
        }
    }

    /// The identifier of the completion queue.
    pub fn cqid(&self) -> u16 {
        self.cqid
    }

    /// Sets what wakes the thread after [`IoWorker::prepare_to_sleep`]. Channels have wakers of their
    /// own.
    pub fn set_waker(&self, waker: Arc<dyn WakeUp>) {
        self.mailbox.sleeper().set_waker(waker);
    }

    /// Fetches and starts commands, posts completions.
    pub fn poll(&mut self, now: Nanos, dma: &impl Dma) -> Polled {
        if !self.mailbox.is_empty() {
            self.open_mail();
        }
        if self.failed || self.aborted {
            return self.wind_down(now);
        }
        match self.serve(now, dma) {
            Ok(polled) => polled,
            Err(DmaError { .. }) => {
                self.failed = true;
                self.shared.set_fatal(true);
                Polled { worked: true, ..Polled::default() }
            }
        }
    }

    fn open_mail(&mut self) {
        let mut received = Vec::new();
        self.mailbox.take(&mut received);
        for mail in received {
            match mail {
                Mail::Add(setup) => self.queues.push(SubmissionQueue::new(*setup)),
                Mail::Delete(qid) => {
                    for queue in self.queues.iter_mut().filter(|queue| queue.qid == qid) {
                        queue.deleting = true;
                        queue.io.drain();
                    }
                }
                Mail::DoorbellBuffers(buffers) => self.buffers = Some(buffers),
                Mail::End => self.ending = true,
                Mail::Abort => self.aborted = true,
            }
        }
    }

    fn serve(&mut self, now: Nanos, dma: &impl Dma) -> Result<Polled, DmaError> {
        self.head = self.read_head(dma)?;
        let mut posted = self.ring.post(dma, self.head)?;
        let mut worked = false;
        for queue in &mut self.queues {
            if !self.ring.is_full() && queue.can_fetch() {
                let tail = queue.tail(dma, self.buffers, &self.shared)?;
                let most = BATCH.min(MAX_COMMANDS - queue.commands.len());
                queue.ring.fetch(dma, tail, most, &mut self.fetched)?;
                queue.waiting.extend(self.fetched.drain(..));
            }
            while queue.io.has_room()
                && !queue.deleting
                && let Some(sqe) = queue.waiting.pop_front()
            {
                worked = true;
                queue.start(now, dma, &sqe, &mut self.bufs, (&mut self.ring, &mut self.responses));
            }
            queue.io.poll(now, &mut self.responses);
            worked |= !self.responses.is_empty();
            for response in self.responses.drain(..) {
                queue.complete(dma, response, &mut self.bufs, &mut self.ring);
            }
        }
        worked |= self.delete_queues();
        posted |= self.ring.post(dma, self.head)?;
        let done = self.ending && self.queues.is_empty();
        Ok(Polled { worked: worked || posted, interrupt: self.vector.filter(|_| posted), done })
    }

    /// Ends the queues that are deleted and idle. Returns whether there were any.
    fn delete_queues(&mut self) -> bool {
        let before = self.queues.len();
        let ring = &mut self.ring;
        for mut queue in self.queues.extract_if(.., |queue| queue.deleting && queue.io.is_idle()) {
            queue.abort_rest(ring);
            let qid = queue.qid;
            drop(queue);
            self.shared.report(Ended::Submission(qid));
        }
        self.queues.len() != before
    }

    /// After a reset: no guest memory is touched, and what is in flight is drained.
    fn wind_down(&mut self, now: Nanos) -> Polled {
        let mut idle = true;
        for queue in &mut self.queues {
            if !queue.deleting {
                queue.deleting = true;
                queue.io.drain();
            }
            queue.io.poll(now, &mut self.responses);
            self.responses.clear();
            idle &= queue.io.is_idle();
        }
        Polled { done: idle && self.aborted, ..Polled::default() }
    }

    fn read_head(&self, dma: &impl Dma) -> Result<u16, DmaError> {
        let Some([shadow, _]) = self.buffers else {
            return Ok(self.shared.doorbell(self.cqid).head.load(Ordering::Acquire));
        };
        let value = dma.load(shadow.wrapping_add(u64::from(self.cqid) * 8 + 4))?;
        // A value that the queue does not have is none.
        Ok(u16::try_from(value)
            .ok()
            .filter(|&head| head < self.ring.entries())
            .unwrap_or(self.head))
    }

    /// The thread is about to sleep: from now on the function wakes it, and the guest writes doorbells
    /// when there is work. Returns false if there is some already.
    pub fn prepare_to_sleep(&mut self, dma: &impl Dma) -> bool {
        self.mailbox.sleeper().fall_asleep();
        if !self.mailbox.is_empty() {
            return false;
        }
        // Then it waits for I/O in flight, or for the reset.
        if self.failed || self.aborted {
            return true;
        }
        // An error shows again in the next poll.
        self.set_event_indices(dma).is_ok() && self.has_work(dma).is_ok_and(|has_work| !has_work)
    }

    fn set_event_indices(&self, dma: &impl Dma) -> Result<(), DmaError> {
        let Some([_, indices]) = self.buffers else { return Ok(()) };
        for queue in &self.queues {
            let index = indices.wrapping_add(u64::from(queue.qid) * 8);
            dma.store(index, queue.ring.head.into())?;
        }
        if self.ring.is_full() {
            let index = indices.wrapping_add(u64::from(self.cqid) * 8 + 4);
            dma.store(index, self.head.into())?;
        }
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn has_work(&mut self, dma: &impl Dma) -> Result<bool, DmaError> {
        if self.ring.is_full() {
            return Ok(self.read_head(dma)? != self.head);
        }
        for queue in &mut self.queues {
            let tail = queue.tail(dma, self.buffers, &self.shared)?;
            if queue.can_fetch() && tail != queue.ring.head {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The thread no longer sleeps.
    pub fn awake(&mut self) {
        self.mailbox.sleeper().awake();
    }

    /// Visits the channels of the queues.
    pub fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        self.queues.iter_mut().flat_map(|queue| queue.io.channels()).for_each(visit);
    }

    /// When to poll next, unless woken.
    pub fn next_event(&mut self) -> Wake {
        self.queues.iter_mut().map(|queue| queue.io.next_event()).min().unwrap_or(Wake::Idle)
    }
}

impl Drop for IoWorker {
    fn drop(&mut self) {
        self.queues.clear();
        self.shared.report(Ended::Completion(self.cqid));
    }
}

impl SubmissionQueue {
    fn new(setup: SqSetup) -> Self {
        SubmissionQueue {
            qid: setup.qid,
            ring: setup.ring,
            io: setup.io,
            waiting: VecDeque::new(),
            commands: Slab::default(),
            by_cid: vec![0; 1 << 16].into_boxed_slice(),
            spare: Vec::new(),
            invalid: None,
            deleting: false,
        }
    }

    fn can_fetch(&self) -> bool {
        self.waiting.is_empty() && !self.deleting && self.commands.len() < MAX_COMMANDS
    }

    fn tail(
        &mut self,
        dma: &impl Dma,
        buffers: Option<[u64; 2]>,
        shared: &FunctionShared,
    ) -> Result<u16, DmaError> {
        let Some([shadow, _]) = buffers else {
            return Ok(shared.doorbell(self.qid).tail.load(Ordering::Acquire));
        };
        let value = dma.load(shadow.wrapping_add(u64::from(self.qid) * 8))?;
        let tail = u16::try_from(value).ok().filter(|&tail| tail < self.ring.entries());
        if tail.is_none() && self.invalid != Some(value) {
            self.invalid = Some(value);
            shared.doorbell_error(EventType::DoorbellValue);
        }
        Ok(tail.unwrap_or(self.ring.head))
    }

    fn start(
        &mut self,
        now: Nanos,
        dma: &impl Dma,
        sqe: &Sqe,
        bufs: &mut BufPool,
        (ring, responses): (&mut CqRing, &mut Vec<Response>),
    ) {
        let cid = sqe.cid.get();
        if self.by_cid[usize::from(cid)] != 0 {
            self.io.refuse(sqe, NvmeStatus::CID_CONFLICT.do_not_retry(), responses);
            // Not that of the command that has the identifier.
            let refused = responses.pop().expect("a refused command has a response");
            return ring.push(self.finished(refused.cqe));
        }
        let mut segments = self.spare.pop().unwrap_or_default();
        let len = self.io.transfer_len(sqe);
        let data = self.fetch_data(dma, sqe, len, bufs, &mut segments);
        let slot = self.commands.insert(Command { cid, segments });
        self.by_cid[usize::from(cid)] = u16::try_from(slot + 1).expect("MAX_COMMANDS fits");
        match data {
            Ok(data) => {
                self.io.execute(now, sqe, DataPointer::resolved(len), data, responses);
            }
            Err(status) => self.io.refuse(sqe, status, responses),
        }
    }

    /// The data that the host has for a command; else `segments` for what the host gets.
    fn fetch_data(
        &mut self,
        dma: &impl Dma,
        sqe: &Sqe,
        len: u64,
        bufs: &mut BufPool,
        segments: &mut Vec<Segment>,
    ) -> Result<Option<zonal_blk::Buf>, NvmeStatus> {
        segments.clear();
        if sqe.flags >> 6 == 0b11 {
            return Err(INVALID_FIELD);
        }
        // The queue refuses what is longer.
        if len > 4096 << MDTS {
            return Ok(None);
        }
        parse(dma, sqe, len, segments)?;
        if len == 0 || sqe.transfer() != Transfer::ToController {
            return Ok(None);
        }
        let len = usize::try_from(len).expect("MDTS fits");
        let mut buf = bufs.sized(len).ok_or(NvmeStatus::INTERNAL)?;
        gather(dma, segments, &mut buf)?;
        Ok(Some(buf))
    }

    fn complete(
        &mut self,
        dma: &impl Dma,
        response: Response,
        bufs: &mut BufPool,
        ring: &mut CqRing,
    ) {
        let Response { mut cqe, data, received } = response;
        let slot = std::mem::take(&mut self.by_cid[usize::from(cqe.cid.get())]);
        let command = self.commands.remove(usize::from(slot).wrapping_sub(1));
        let Command { segments, .. } = command.expect("a command completes once");
        if let Some(data) = data {
            if let Err(status) = scatter(dma, &segments, &data) {
                cqe = Cqe::new(cqe.cid.get(), status);
            }
            self.io.recycle(data);
        }
        if let Some(received) = received {
            bufs.put(received, MAX_BUFFERS);
        }
        self.spare.push(segments);
        ring.push(self.finished(cqe));
    }

    fn finished(&self, cqe: Cqe) -> Cqe {
        Cqe { sqhd: self.ring.head.into(), sqid: self.qid.into(), ..cqe }
    }

    /// Aborts what is left of a queue that is deleted: commands that were not started, or not whole.
    fn abort_rest(&mut self, ring: &mut CqRing) {
        let mut abort =
            |queue: &Self, cid| ring.push(queue.finished(Cqe::new(cid, NvmeStatus::QUEUE_DELETED)));
        while let Some(sqe) = self.waiting.pop_front() {
            abort(self, sqe.cid.get());
        }
        for slot in 0..MAX_COMMANDS {
            if let Some(Command { cid, .. }) = self.commands.remove(slot) {
                abort(self, cid);
            }
        }
    }
}
