//! An I/O queue: commands become bios, completions become responses.
//!
//! Responses are in the order in which the bios complete. A command with several bios completes with
//! the last of them, with the status of the first that failed. A queue belongs to one thread, like
//! the channels that it opens.
mod long;
mod pending;
mod rw;
mod zones;

use super::association::Association;
use super::data_pointer::DataPointer;
use super::namespace::{Namespace, is_failed};
use super::placement;
use super::queue_auth::QueueAuth;
use super::response::{CommandOutput, CommandResult, Data, INVALID_FIELD, Response, SqHead};
use super::subsystem::{Counted, Subsystem};
use crate::NvmeStatus;
use crate::auth::AuthState;
use crate::wire::Sqe;
use crate::wire::io::{DsmCommand, DsmRange, RwCommand};
use crate::wire::opcode::{FABRICS, IoOpcode};
use crate::wire::placement::{IoManagementReceive, IoManagementSend};
use crate::wire::queue::NSID_ALL;
use crate::wire::zone::{SendAction, ZoneReceive, ZoneSend};
use long::{MAX_BIOS, Remaining};
use pending::{CompletionKind, Pending};
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::{Bio, Buf, BufPool, Channel, Completion, Nanos, ReadBufs, Slab, Wake, WakeUp};

/// Bytes of buffers of commands in flight from which on no command may be submitted. Together with
/// the buffers kept for reuse they are no more either, but for one command.
const MAX_IN_FLIGHT: usize = 16 << 20;

/// An I/O queue of a controller.
pub struct IoQueue {
    subsystem: Arc<Subsystem>,
    association: Arc<Association>,
    queue_auth: QueueAuth,
    qid: u16,
    /// The controller's resets before the queue was connected.
    resets: u32,
    /// The identifier is this queue's.
    open: bool,
    head: SqHead,
    /// The subsystem's, when the queue was connected.
    mdts: u8,
    /// The subsystem's generation when `attached` was last compared with it.
    generation: u64,
    attached: BTreeMap<u32, AttachedNamespace>,
    /// By the `user_data` of their bios.
    pending: Slab<Pending>,
    /// Bytes of their buffers.
    in_flight: usize,
    /// The command that has bios left to submit.
    long: Option<LongCommand>,
    /// For reads.
    bufs: BufPool,
    done: Vec<Completion>,
}

/// A namespace, and the channel of its queue.
struct AttachedNamespace {
    namespace: Arc<Namespace>,
    channel: Channel,
    /// The namespace is no longer the subsystem's: commands in flight complete, none is started.
    removed: bool,
    /// When a zone changes on its own next; `None` if none does.
    next_change: Option<Nanos>,
}

impl AttachedNamespace {
    /// All hosts get an event for zones that the device has finished, or recommends to finish or reset.
    fn report_aged_zones(&mut self, now: Nanos, nsid: u32, subsystem: &Subsystem) {
        let Some(aging) = self.namespace.aging().filter(|_| !self.removed) else { return };
        let mut changed = Vec::new();
        self.next_change = aging.age(now, &mut changed);
        changed.into_iter().for_each(|zone| subsystem.zone_changed(nsid, zone));
    }
}

/// A command that has bios left to submit.
struct LongCommand {
    /// Its number in `pending`.
    slot: usize,
    nsid: u32,
    remaining: Remaining,
}

/// How a command is executed.
enum Submission {
    /// Complete.
    Done(CommandOutput),
    /// A bio, whose completion is the command's.
    Bio(Bio, CompletionKind),
    /// Bios without data for the host or from it. The command completes with the last.
    Bios(Remaining, CompletionKind),
}

impl IoQueue {
    pub(super) fn new(
        subsystem: Arc<Subsystem>,
        association: Arc<Association>,
        queue_auth: QueueAuth,
        (qid, resets): (u16, u32),
        head: SqHead,
    ) -> Self {
        IoQueue {
            generation: subsystem.generation(),
            mdts: subsystem.mdts(),
            subsystem,
            association,
            queue_auth,
            qid,
            resets,
            open: false,
            head,
            attached: BTreeMap::new(),
            pending: Slab::default(),
            in_flight: 0,
            long: None,
            bufs: BufPool::of_zeroes(),
            done: Vec::new(),
        }
    }

    /// The queue's identifier.
    pub fn qid(&self) -> u16 {
        self.qid
    }

    /// Whether the controller was reset or shut down, or its admin queue has ended: then this queue has
    /// ended too, and its connection has to be closed.
    pub fn has_ended(&self) -> bool {
        self.association.resets() != self.resets
    }

    /// Sets what to wake when the queue [has ended](IoQueue::has_ended). Does nothing before it is
    /// [open](IoQueue::open).
    pub fn set_waker(&self, waker: Arc<dyn WakeUp>) {
        if self.open {
            self.association.set_queue_waker(self.qid, self.resets, waker);
        }
    }

    /// Whether the host has authenticated, where it must.
    pub fn auth_state(&self) -> AuthState {
        self.queue_auth.auth_state()
    }

    /// Takes the queue's identifier, when the host has authenticated: before, anybody could keep it
    /// from the host. Returns false if another queue has it, or this one
    /// [has ended](IoQueue::has_ended).
    pub fn open(&mut self) -> bool {
        self.open = self.open || self.association.open_queue(self.qid, self.resets);
        self.open
    }

    /// Bytes of data that a command transfers, as its other fields say: over PCIe the data pointer
    /// does not. 0 if they do not say either, and the command fails.
    pub(super) fn transfer_len(&mut self, sqe: &Sqe) -> u64 {
        let blocks = |queue: &mut Self| {
            let nsid = sqe.nsid.get();
            let block = queue.attach(nsid).map(|()| queue.attached[&nsid].namespace.block_size());
            u64::from(RwCommand::from(*sqe).blocks()) * block.unwrap_or(0)
        };
        match IoOpcode(sqe.opcode) {
            IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE | IoOpcode::ZONE_APPEND => {
                blocks(self)
            }
            IoOpcode::DATASET_MANAGEMENT => {
                (u64::from(DsmCommand::from(*sqe).nr) + 1) * DsmRange::SIZE as u64
            }
            IoOpcode::ZONE_MANAGEMENT_SEND => {
                let sets = ZoneSend::from(*sqe).action == SendAction::SET_EXTENSION.0;
                let namespace = sets.then(|| self.attach(sqe.nsid.get()).ok()).flatten();
                let size =
                    namespace.and_then(|()| self.attached[&sqe.nsid.get()].namespace.extensions());
                size.map_or(0, |extensions| extensions.size() as u64)
            }
            IoOpcode::IO_MANAGEMENT_RECEIVE => IoManagementReceive::from(*sqe).length(),
            IoOpcode::IO_MANAGEMENT_SEND => IoManagementSend::from(*sqe).length(),
            IoOpcode::ZONE_MANAGEMENT_RECEIVE => ZoneReceive::from(*sqe).length(),
            _ => 0,
        }
    }

    /// Commands in flight.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// Whether one more command may be submitted. The data in flight are bounded, and a command of
    /// many bios goes on before the next begins.
    pub fn has_room(&self) -> bool {
        self.in_flight < MAX_IN_FLIGHT && self.long.is_none()
    }

    /// Executes a command with the data that the host sends with it. Its response follows here or
    /// from [`IoQueue::poll`], with the buffer of the data.
    #[inline]
    pub fn submit(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        data: Option<Buf>,
        responses: &mut Vec<Response>,
    ) {
        self.execute(now, sqe, DataPointer::Fabrics(&sqe.dptr), data, responses);
    }

    /// As [`IoQueue::submit`], with the command's data pointer as the transport understands it.
    pub(super) fn execute(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        pointer: DataPointer<'_>,
        mut data: Option<Buf>,
        responses: &mut Vec<Response>,
    ) {
        self.head.advance();
        if let Some(result) = self.start(now, sqe, pointer, &mut data).transpose() {
            self.respond((sqe, pointer.len()), result, data, responses);
        }
    }

    /// Completes a command with an error instead of executing it: its data were not received as they
    /// should.
    pub fn refuse(&mut self, sqe: &Sqe, status: NvmeStatus, responses: &mut Vec<Response>) {
        self.head.advance();
        self.respond((sqe, 0), Err(status), None, responses);
    }

    /// Responds to a command, whose host has a buffer of `room` bytes.
    fn respond(
        &mut self,
        (sqe, room): (&Sqe, u32),
        result: CommandResult,
        received: Option<Buf>,
        responses: &mut Vec<Response>,
    ) {
        let result = result.map_err(|status| self.association.log_error(self.qid, sqe, status));
        responses.push(Response { received, ..self.head.response(sqe, room, result) });
    }

    /// Starts a command. Returns `None` if it is in flight, and then has taken what it needs of
    /// `data`.
    fn start(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        pointer: DataPointer<'_>,
        data: &mut Option<Buf>,
    ) -> Result<Option<CommandOutput>, NvmeStatus> {
        if let Some(result) = self.queue_auth.check(sqe, data.as_deref().unwrap_or_default()) {
            return result.map(Some);
        }
        if !self.open() {
            return Err(NvmeStatus::SEQUENCE.do_not_retry());
        }
        pointer.check(sqe)?;
        if !self.association.is_ready() || sqe.opcode == FABRICS {
            return Err(NvmeStatus::SEQUENCE.do_not_retry());
        }
        self.association.note_traffic();
        self.association.port.as_ref().map_or(Ok(()), |port| port.state().check())?;
        let opcode = IoOpcode(sqe.opcode);
        let nsid = sqe.nsid.get();
        if opcode == IoOpcode::FLUSH && nsid == NSID_ALL {
            return self.flush_all(now, sqe);
        }
        self.attach(nsid)?;
        let (namespace, bufs) = (&*self.attached[&nsid].namespace, &mut self.bufs);
        let of_zones = matches!(
            opcode,
            IoOpcode::ZONE_APPEND
                | IoOpcode::ZONE_MANAGEMENT_SEND
                | IoOpcode::ZONE_MANAGEMENT_RECEIVE
        );
        if of_zones && !namespace.is_zoned() {
            return Err(NvmeStatus::INVALID_OPCODE.do_not_retry());
        }
        let (len, max_transfer) = (pointer.len(), 4096 << self.mdts);
        if transfers_blocks(opcode) && u64::from(len) > max_transfer {
            return Err(INVALID_FIELD);
        }
        let command = (*sqe).into();
        let start = match opcode {
            IoOpcode::FLUSH => rw::flush(),
            IoOpcode::READ => rw::read(namespace, &command, len, bufs)?,
            IoOpcode::WRITE => rw::write(now, namespace, &command, len, data)?,
            IoOpcode::WRITE_ZEROES => rw::write_zeroes(now, namespace, &command)?,
            IoOpcode::COMPARE => rw::compare(namespace, &command, len, data, bufs)?,
            IoOpcode::VERIFY => rw::verify(namespace, &command)?,
            IoOpcode::ZONE_APPEND => rw::append(namespace, &command, len, data)?,
            IoOpcode::DATASET_MANAGEMENT => {
                let data = data.as_deref().unwrap_or_default();
                rw::deallocate(namespace, &(*sqe).into(), len, data)?
            }
            IoOpcode::IO_MANAGEMENT_RECEIVE | IoOpcode::IO_MANAGEMENT_SEND => {
                let sent = (len, data.as_deref().unwrap_or_default());
                Submission::Done(placement::manage(now, &self.subsystem, namespace, sqe, sent)?)
            }
            IoOpcode::ZONE_MANAGEMENT_SEND => {
                let data = data.as_deref().unwrap_or_default();
                zones::management_send(namespace, &(*sqe).into(), len, data)?
            }
            IoOpcode::ZONE_MANAGEMENT_RECEIVE => {
                zones::management_receive(namespace, &(*sqe).into(), max_transfer)?
            }
            _ => return Err(NvmeStatus::INVALID_OPCODE.do_not_retry()),
        };
        self.begin(now, sqe, start, &[nsid])
    }

    /// Submits the bios of a command to each of `nsids`, which are attached.
    fn begin(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        start: Submission,
        nsids: &[u32],
    ) -> Result<Option<CommandOutput>, NvmeStatus> {
        let [first, others @ ..] = nsids else { unreachable!("a command has a namespace") };
        let mut submit = |nsid, bio| {
            self.attached
                .get_mut(nsid)
                .expect("the namespace is attached")
                .channel
                .submit(now, bio);
        };
        match start {
            Submission::Done(output) => return Ok(Some(output)),
            Submission::Bio(bio, kind) => {
                let bytes = kind.bytes() + bio.buf.as_ref().map_or(0, Buf::capacity);
                let pending = Pending::new(*sqe, kind, nsids.len(), bytes);
                let user_data = self.pending.insert(pending) as u64;
                self.in_flight += bytes;
                self.bufs.shrink(MAX_IN_FLIGHT.saturating_sub(self.in_flight));
                for nsid in others {
                    // Only commands without data have several namespaces.
                    submit(nsid, Bio::new(bio.op, bio.sector, bio.nr_sectors, user_data));
                }
                submit(first, Bio { user_data, ..bio });
            }
            Submission::Bios(remaining, _) if remaining.is_empty() => {
                return Ok(Some(CommandOutput::EMPTY));
            }
            Submission::Bios(remaining, kind) => {
                let slot = self.pending.insert(Pending::long(*sqe, kind, remaining.bytes()));
                self.long = Some(LongCommand { slot, nsid: *first, remaining });
                if let Some(pending) = self.submit_remaining(now) {
                    pending.status()?;
                }
            }
        }
        Ok(None)
    }

    /// Submits bios of the long command within the bounds. Returns the command if it has failed with
    /// no bios in flight, and so is complete.
    fn submit_remaining(&mut self, now: Nanos) -> Option<Pending> {
        while let Some(LongCommand { slot, nsid, remaining }) = &mut self.long {
            let slot = *slot;
            let pending = self.pending.get_mut(slot).expect("a command that is not complete");
            let full =
                pending.bios() >= MAX_BIOS || self.in_flight + pending.bytes_of_bio > MAX_IN_FLIGHT;
            if full && pending.bios() > 0 {
                return None;
            }
            let attached = self.attached.get_mut(nsid).filter(|attached| !attached.removed);
            let invalid = NvmeStatus::INVALID_NAMESPACE.do_not_retry();
            let next = attached.ok_or(invalid).and_then(|attached| {
                let bio = remaining.next(&attached.namespace, &mut self.bufs)?;
                Ok((attached, bio))
            });
            let last = next.is_err() || remaining.is_empty();
            match next {
                Ok((attached, bio)) => {
                    pending.add_bio(last);
                    self.in_flight += pending.bytes_of_bio;
                    attached.channel.submit(now, Bio { user_data: slot as u64, ..bio });
                }
                Err(status) => pending.fail(status),
            }
            if last {
                self.long = None;
            }
            if pending.is_done() {
                return self.pending.remove(slot);
            }
        }
        self.bufs.shrink(MAX_IN_FLIGHT.saturating_sub(self.in_flight));
        None
    }

    fn flush_all(&mut self, now: Nanos, sqe: &Sqe) -> Result<Option<CommandOutput>, NvmeStatus> {
        let nsids = self.subsystem.namespaces_after(0, |_| true);
        if nsids.is_empty() {
            return Ok(Some(CommandOutput::EMPTY));
        }
        for nsid in &nsids {
            self.attach(*nsid)?;
        }
        self.begin(now, sqe, rw::flush(), &nsids)
    }

    /// Opens a channel for a namespace when it is first used.
    fn attach(&mut self, nsid: u32) -> Result<(), NvmeStatus> {
        let invalid = NvmeStatus::INVALID_NAMESPACE.do_not_retry();
        self.refresh_namespaces();
        if let Some(attached) = self.attached.get(&nsid) {
            return if attached.removed { Err(invalid) } else { Ok(()) };
        }
        let namespace = self.subsystem.namespace(nsid).ok_or(invalid)?;
        let channel = namespace.queue().channel().map_err(|_| NvmeStatus::INTERNAL)?;
        if namespace.queue().device().read_bufs() != ReadBufs::Untouched {
            self.bufs.set_used();
        }
        let attached = AttachedNamespace { namespace, channel, removed: false, next_change: None };
        self.attached.insert(nsid, attached);
        Ok(())
    }

    fn refresh_namespaces(&mut self) {
        let generation = self.subsystem.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        for (nsid, attached) in &mut self.attached {
            let there = self.subsystem.namespace(*nsid);
            attached.removed = !there.is_some_and(|there| Arc::ptr_eq(&there, &attached.namespace));
        }
        self.attached.retain(|_, attached| {
            if attached.removed {
                attached.channel.drain();
            }
            !attached.removed || !attached.channel.is_idle()
        });
    }

    /// Appends the responses of commands that have completed.
    pub fn poll(&mut self, now: Nanos, responses: &mut Vec<Response>) {
        let mut done = std::mem::take(&mut self.done);
        let mut counted = Counted::default();
        for (nsid, attached) in &mut self.attached {
            attached.channel.poll(now, &mut done);
            attached.report_aged_zones(now, *nsid, &self.subsystem);
            for completion in done.drain(..) {
                let slot = usize::try_from(completion.user_data).expect("a number of the slab");
                let pending = self.pending.get_mut(slot).expect("a bio completes once");
                self.in_flight -= pending.bytes_of_bio;
                if let Some(buf) = pending.complete(&attached.namespace, completion) {
                    self.bufs.put(buf, MAX_IN_FLIGHT.saturating_sub(self.in_flight));
                }
                if pending.status().is_err()
                    && self.long.take_if(|long| long.slot == slot).is_some()
                {
                    pending.stop();
                }
                if pending.is_done() {
                    let mut pending = self.pending.remove(slot).expect("a command completes once");
                    self.in_flight -= pending.bytes;
                    pending.count(&attached.namespace, &mut counted);
                    if let Err(status) = pending.status() {
                        pending.fail(self.association.log_error(self.qid, &pending.sqe, status));
                        report_failed_zone(
                            &self.subsystem,
                            &attached.namespace,
                            &pending.sqe,
                            status,
                        );
                    }
                    responses.push(pending.response(&self.head));
                }
            }
        }
        self.done = done;
        self.subsystem.totals.add(&counted);
        if self.generation != self.subsystem.generation() {
            self.refresh_namespaces();
        }
        if self.long.is_some()
            && let Some(failed) = self.submit_remaining(now)
        {
            let result = failed.status().map(|()| CommandOutput::EMPTY);
            self.respond((&failed.sqe, 0), result, None, responses);
        }
    }

    /// Takes back the data of a response, unchanged, to reuse the buffer.
    pub fn recycle(&mut self, data: Data) {
        if let Data::Buf(buf) = data {
            self.bufs.put(buf, MAX_IN_FLIGHT.saturating_sub(self.in_flight));
        }
    }

    /// Begins to drain the queue: no commands may be submitted, and plugged writes of other queues are
    /// left to them. When [`IoQueue::is_idle`], the queue can be dropped.
    pub fn drain(&mut self) {
        self.long = None;
        self.channels().for_each(Channel::drain);
    }

    /// Whether nothing depends on this queue. Until then it has to be polled and must not be dropped,
    /// even without commands of its own: it may hold the next write of a zone for another queue.
    pub fn is_idle(&mut self) -> bool {
        self.channels().all(|channel| channel.is_idle())
    }

    /// The channels of the namespaces that commands have used.
    pub fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.attached.values_mut().map(|attached| &mut attached.channel)
    }

    /// When to call [`IoQueue::poll`] next.
    pub fn next_event(&mut self) -> Wake {
        let next = |attached: &mut AttachedNamespace| {
            let change = attached.next_change.map_or(Wake::Idle, Wake::At);
            attached.channel.next_event().min(change)
        };
        self.attached.values_mut().map(next).min().unwrap_or(Wake::Idle)
    }
}

/// Whether a command transfers as many blocks as it has: MDTS limits them (Base section 5.17.2.1).
fn transfers_blocks(opcode: IoOpcode) -> bool {
    matches!(opcode, IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE | IoOpcode::ZONE_APPEND)
}

/// If a command failed because its zone is read-only or offline, all hosts get an event, once.
fn report_failed_zone(subsystem: &Subsystem, namespace: &Namespace, sqe: &Sqe, status: NvmeStatus) {
    let of_blocks = matches!(
        IoOpcode(sqe.opcode),
        IoOpcode::READ
            | IoOpcode::WRITE
            | IoOpcode::WRITE_ZEROES
            | IoOpcode::COMPARE
            | IoOpcode::VERIFY
            | IoOpcode::ZONE_APPEND
    );
    let zone_failed =
        matches!(status.code(), NvmeStatus::ZONE_READ_ONLY | NvmeStatus::ZONE_OFFLINE);
    if !of_blocks || !zone_failed || !namespace.is_zoned() {
        return;
    }
    // If the whole device is offline, its zones are as they were.
    let report = namespace.report_zone(sqe.slba()).filter(is_failed);
    let Some(zone) = report.map(|zone| namespace.limits().zone_of(zone.start)) else { return };
    if namespace.mark_failed(zone) {
        subsystem.zone_changed(sqe.nsid.get(), zone);
    }
}

impl Drop for IoQueue {
    fn drop(&mut self) {
        if self.open {
            self.association.close_queue(self.qid, self.resets);
        }
    }
}
