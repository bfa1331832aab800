//! An I/O queue: commands become bios, completions become responses.
//!
//! Takes I/O commands with the data that the host sends; gives responses, in the order in which the
//! bios end. Keeps true: a command is answered when all of its bios have ended, with the status of
//! the first that failed. Belongs to one thread, like the channels that it opens.
mod pending;
mod rw;
mod status;
mod zones;

use super::association::Association;
use super::namespace::{Namespace, is_failed};
use super::queue_auth::QueueAuth;
use super::response::{CommandOutput, CommandResult, Data, Response, SqHead, check_form};
use super::subsystem::Subsystem;
use crate::NvmeStatus;
use crate::auth::AuthState;
use crate::buffer_pool::BufferPool;
use crate::slab::Slab;
use crate::wire::Sqe;
use crate::wire::opcode::{FABRICS, IoOpcode};
use crate::wire::sqe::NSID_ALL;
use pending::{Kind, Pending};
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::{Bio, Buf, Channel, Completion, Nanos, Wake};

/// Buffers of commands on their way, in bytes, at which there is no room for one more. With those
/// kept for the next commands they are no more either, but for the one command.
const MAX_IN_FLIGHT: usize = 16 << 20;

/// An I/O queue of a controller.
pub struct IoQueue {
    subsystem: Arc<Subsystem>,
    association: Arc<Association>,
    queue_auth: QueueAuth,
    qid: u16,
    head: SqHead,
    /// The subsystem's count of changes when `attached` was last compared with it.
    generation: u64,
    attached: BTreeMap<u32, AttachedNamespace>,
    /// By the number that a command's bios carry.
    pending: Slab<Pending>,
    /// Their buffers, in bytes.
    in_flight: usize,
    /// Of commands that have ended.
    bufs: BufferPool<Buf>,
    done: Vec<Completion>,
}

/// The way to a namespace.
struct AttachedNamespace {
    namespace: Arc<Namespace>,
    channel: Channel,
    /// The namespace is no longer the subsystem's: what is on its way ends, nothing new begins.
    removed: bool,
}

/// What a command becomes.
enum Submission {
    /// It has ended.
    Ended(CommandOutput),
    /// It ends when this has.
    Bio(Bio, Kind),
    /// It ends when these have, which have no data.
    Bios(Vec<Bio>, Kind),
}

impl IoQueue {
    pub(super) fn new(
        subsystem: Arc<Subsystem>,
        association: Arc<Association>,
        queue_auth: QueueAuth,
        qid: u16,
        sqsize: u16,
    ) -> Self {
        let mut head = SqHead::new(sqsize);
        head.advance();
        IoQueue {
            generation: subsystem.generation(),
            subsystem,
            association,
            queue_auth,
            qid,
            head,
            attached: BTreeMap::new(),
            pending: Slab::default(),
            in_flight: 0,
            bufs: BufferPool::default(),
            done: Vec::new(),
        }
    }

    /// The queue's identifier.
    pub fn qid(&self) -> u16 {
        self.qid
    }

    /// Whether the host is known, where it has to be.
    pub fn auth_state(&self) -> AuthState {
        self.queue_auth.auth_state()
    }

    /// Commands that have not been answered.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// Whether one more command may be submitted: the data in flight are bounded.
    pub fn has_room(&self) -> bool {
        self.in_flight < MAX_IN_FLIGHT
    }

    /// Takes a command with the data that the host sends with it.
    pub fn submit(&mut self, now: Nanos, sqe: &Sqe, data: &[u8], responses: &mut Vec<Response>) {
        self.head.advance();
        let outcome = match self.start(now, sqe, data) {
            Ok(None) => return,
            Ok(Some(reply)) => Ok(reply),
            Err(status) => Err(status),
        };
        self.answer(sqe, outcome, responses);
    }

    /// Ends a command unlooked at: its data did not come as they should.
    pub fn refuse(&mut self, sqe: &Sqe, status: NvmeStatus, responses: &mut Vec<Response>) {
        self.head.advance();
        self.answer(sqe, Err(status), responses);
    }

    fn answer(&mut self, sqe: &Sqe, outcome: CommandResult, responses: &mut Vec<Response>) {
        if let Err(status) = outcome {
            self.association.note_error(self.qid, sqe, status);
        }
        responses.push(self.head.answer(sqe, outcome));
    }

    /// Begins a command; `None` if it has not ended.
    fn start(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        data: &[u8],
    ) -> Result<Option<CommandOutput>, NvmeStatus> {
        if let Some(outcome) = self.queue_auth.check(sqe, data) {
            return outcome.map(Some);
        }
        check_form(sqe)?;
        if !self.association.is_ready() || sqe.opcode == FABRICS {
            return Err(NvmeStatus::SEQUENCE.do_not_retry());
        }
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
        let command = (*sqe).into();
        let start = match opcode {
            IoOpcode::FLUSH => rw::flush(),
            IoOpcode::READ => rw::read(namespace, &command, bufs)?,
            IoOpcode::WRITE => rw::write(namespace, &command, data, bufs)?,
            IoOpcode::WRITE_ZEROES => rw::write_zeroes(namespace, &command)?,
            IoOpcode::COMPARE => rw::compare(namespace, &command, data)?,
            IoOpcode::VERIFY => rw::verify(namespace, &command)?,
            IoOpcode::ZONE_APPEND => rw::append(namespace, &command, data, bufs)?,
            IoOpcode::DATASET_MANAGEMENT => rw::deallocate(namespace, &(*sqe).into(), data)?,
            IoOpcode::ZONE_MANAGEMENT_SEND => zones::send(namespace, &(*sqe).into())?,
            IoOpcode::ZONE_MANAGEMENT_RECEIVE => zones::receive(namespace, &(*sqe).into())?,
            _ => return Err(NvmeStatus::INVALID_OPCODE.do_not_retry()),
        };
        Ok(self.begin(now, sqe, start, &[nsid]))
    }

    /// Sends the bios of a command to each of `nsids`, whose ways are open.
    fn begin(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        start: Submission,
        nsids: &[u32],
    ) -> Option<CommandOutput> {
        let [first, others @ ..] = nsids else { unreachable!("a command is for a namespace") };
        let mut submit = |nsid, bio| {
            self.attached.get_mut(nsid).expect("the way was opened").channel.submit(now, bio);
        };
        match start {
            Submission::Ended(reply) => return Some(reply),
            Submission::Bio(bio, kind) => {
                let bytes = kind.bytes() + bio.buf.as_ref().map_or(0, Buf::capacity);
                let pending = Pending::new(*sqe, kind, nsids.len(), bytes);
                let user_data = self.pending.insert(pending) as u64;
                self.in_flight += bytes;
                self.bufs.shrink(MAX_IN_FLIGHT.saturating_sub(self.in_flight));
                for nsid in others {
                    // Only commands without data are for several.
                    submit(nsid, Bio::new(bio.op, bio.sector, bio.nr_sectors, user_data));
                }
                submit(first, Bio { user_data, ..bio });
            }
            Submission::Bios(bios, _) if bios.is_empty() => return Some(CommandOutput::EMPTY),
            Submission::Bios(bios, kind) => {
                let pending = Pending::new(*sqe, kind, bios.len(), 0);
                let user_data = self.pending.insert(pending) as u64;
                for bio in bios {
                    submit(first, Bio { user_data, ..bio });
                }
            }
        }
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
        Ok(self.begin(now, sqe, rw::flush(), &nsids))
    }

    /// The way to a namespace, opened when it is first gone.
    fn attach(&mut self, nsid: u32) -> Result<&mut AttachedNamespace, NvmeStatus> {
        let invalid = NvmeStatus::INVALID_NAMESPACE.do_not_retry();
        self.refresh_namespaces();
        if !self.attached.contains_key(&nsid) {
            let namespace = self.subsystem.namespace(nsid).ok_or(invalid)?;
            let channel = namespace.queue().channel().map_err(|_| NvmeStatus::INTERNAL)?;
            self.attached.insert(nsid, AttachedNamespace { namespace, channel, removed: false });
        }
        let attachment = self.attached.get_mut(&nsid).expect("just seen");
        if attachment.removed { Err(invalid) } else { Ok(attachment) }
    }

    fn refresh_namespaces(&mut self) {
        let generation = self.subsystem.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        for (nsid, attachment) in &mut self.attached {
            let there = self.subsystem.namespace(*nsid);
            attachment.removed =
                !there.is_some_and(|there| Arc::ptr_eq(&there, &attachment.namespace));
        }
        self.attached.retain(|_, attachment| {
            if attachment.removed {
                attachment.channel.retire();
            }
            !attachment.removed || !attachment.channel.is_idle()
        });
    }

    /// Gives the responses of commands that have ended.
    pub fn poll(&mut self, now: Nanos, responses: &mut Vec<Response>) {
        let mut done = std::mem::take(&mut self.done);
        for attachment in self.attached.values_mut() {
            attachment.channel.poll(now, &mut done);
            for completion in done.drain(..) {
                let slot = usize::try_from(completion.user_data).expect("a number of the table");
                let pending = self.pending.get_mut(slot).expect("a bio ends once");
                if let Some(buf) = pending.ended(&attachment.namespace, completion) {
                    self.bufs.put(buf, MAX_IN_FLIGHT.saturating_sub(self.in_flight));
                }
                if pending.is_done() {
                    let pending = self.pending.remove(slot).expect("a command ends once");
                    self.in_flight -= pending.bytes;
                    pending.count(&self.subsystem.totals);
                    if let Err(status) = pending.status() {
                        self.association.note_error(self.qid, &pending.sqe, status);
                        report_failed_zone(
                            &self.subsystem,
                            &attachment.namespace,
                            &pending.sqe,
                            status,
                        );
                    }
                    responses.push(pending.answer(&self.head));
                }
            }
        }
        self.done = done;
        if self.generation != self.subsystem.generation() {
            self.refresh_namespaces();
        }
    }

    /// Takes back the data of an answer, which is done with, for the commands to come.
    pub fn recycle(&mut self, data: Data) {
        if let Data::Buf(buf) = data {
            self.bufs.put(buf, MAX_IN_FLIGHT.saturating_sub(self.in_flight));
        }
    }

    /// From now on takes no commands, and leaves the waiting writes of other queues to them. When
    /// [`IoQueue::is_idle`], the queue can be dropped.
    pub fn retire(&mut self) {
        self.attached.values_mut().for_each(|attachment| attachment.channel.retire());
    }

    /// Whether nothing that anybody waits for depends on this queue. Before that it is to be polled
    /// and not dropped, also without commands of its own: a zone's next write may be in its hands.
    pub fn is_idle(&mut self) -> bool {
        self.attached.values_mut().all(|attachment| attachment.channel.is_idle())
    }

    /// When to call [`IoQueue::poll`] next.
    pub fn next_event(&mut self) -> Wake {
        let channels = self.attached.values_mut().map(|attachment| &mut attachment.channel);
        channels.map(Channel::next_event).min().unwrap_or(Wake::Idle)
    }
}

/// A command that failed may have found a zone read-only or offline: that is told to all hosts, once.
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
    // The device itself may be offline, and its zones as they were.
    let report = status::zone(namespace, sqe.slba()).filter(is_failed);
    let Some(zone) = report.map(|zone| namespace.limits().zone_of(zone.start)) else { return };
    if namespace.mark_failed(zone) {
        subsystem.zone_changed(sqe.nsid.get(), zone);
    }
}

impl Drop for IoQueue {
    fn drop(&mut self) {
        self.association.close_queue(self.qid);
    }
}
