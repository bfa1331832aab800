//! Admin commands that only queues in memory have: those that create and delete queues, and Doorbell
//! Buffer Config.
use super::function::{CqInfo, Function, SqInfo, entries, is_page};
use super::ring::{CqRing, SqRing};
use super::shared::{Ended, Mail, SqSetup};
use super::worker::IoWorker;
use crate::NvmeStatus;
use crate::controller::io::IoQueue;
use crate::controller::queue_auth::QueueAuth;
use crate::controller::response::{INVALID_FIELD, SqHead};
use crate::wire::Sqe;
use crate::wire::opcode::AdminOpcode;
use crate::wire::pcie::{CONTIGUOUS, CreateCq, CreateSq, INTERRUPTS, prps};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_blk::Mailbox;

const INVALID_QUEUE: NvmeStatus = NvmeStatus::INVALID_QUEUE.do_not_retry();

/// Whether the command completes now, else when the queue has ended.
type QueueResult = Result<bool, NvmeStatus>;

impl Function {
    /// Executes a command for queues; `None` for others.
    pub(super) fn queue_command(&mut self, sqe: &Sqe) -> Option<QueueResult> {
        Some(match AdminOpcode(sqe.opcode) {
            AdminOpcode::CREATE_CQ => self.create_cq(&(*sqe).into()),
            AdminOpcode::CREATE_SQ => self.create_sq(&(*sqe).into()),
            AdminOpcode::DELETE_CQ => self.delete_cq(sqe),
            AdminOpcode::DELETE_SQ => self.delete_sq(sqe),
            AdminOpcode::DOORBELL_BUFFER_CONFIG => self.set_doorbell_buffers(sqe),
            _ => return None,
        })
    }

    /// The entries of a queue that is to be created.
    fn check_queue(
        &self,
        qid: u16,
        exists: bool,
        size: u16,
        (address, contiguous): (u64, bool),
    ) -> Result<u16, NvmeStatus> {
        // Shut down: queues of before may still have I/O in flight.
        if !self.controller.association.is_ready() {
            return Err(NvmeStatus::SEQUENCE.do_not_retry());
        }
        if qid == 0 || qid > self.controller.association.granted() || exists {
            return Err(INVALID_QUEUE);
        }
        let entries = entries(size.into());
        let entries = entries.ok_or(NvmeStatus::INVALID_QUEUE_SIZE.do_not_retry())?;
        // CAP.CQR is set.
        if !contiguous {
            return Err(INVALID_FIELD);
        }
        if !is_page(address) {
            return Err(NvmeStatus::PRP_OFFSET.do_not_retry());
        }
        Ok(entries)
    }

    /// Base section 5.4.
    fn create_cq(&mut self, command: &CreateCq) -> QueueResult {
        let (qid, address, flags) =
            (command.qid.get(), command.address.get(), command.flags_11.get());
        let at = (address, flags & CONTIGUOUS != 0);
        let exists = self.cqs.contains_key(&qid);
        let entries = self.check_queue(qid, exists, command.size.get(), at)?;
        let vector = (flags & INTERRUPTS != 0).then_some(command.vector.get());
        if vector.is_some_and(|vector| vector >= self.vectors) {
            return Err(NvmeStatus::INVALID_VECTOR.do_not_retry());
        }
        self.shared.doorbell(qid).head.store(0, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox::default());
        let worker = IoWorker::new(
            Arc::clone(&self.shared),
            Arc::clone(&mailbox),
            qid,
            vector,
            CqRing::new(address, entries),
            self.doorbell_buffers,
        );
        self.new_workers.push_back(worker);
        self.workers += 1;
        self.cqs.insert(qid, CqInfo { entries, mailbox, deleting: false });
        Ok(true)
    }

    /// Base section 5.5.
    fn create_sq(&mut self, command: &CreateSq) -> QueueResult {
        let (qid, address) = (command.qid.get(), command.address.get());
        let at = (address, command.flags_11.get() & CONTIGUOUS != 0);
        let exists = self.sqs.contains_key(&qid);
        let entries = self.check_queue(qid, exists, command.size.get(), at)?;
        let cqid = command.cqid.get();
        let cq = self.cqs.get(&cqid).filter(|cq| !cq.deleting);
        let cq = cq.ok_or(NvmeStatus::INVALID_CQ.do_not_retry())?;
        let association = Arc::clone(&self.controller.association);
        let id = (qid, association.resets());
        let (auth, head) = (QueueAuth::NOT_REQUIRED, SqHead::unknown());
        let subsystem = Arc::clone(&self.controller.subsystem);
        let mut io = IoQueue::new(subsystem, association, auth, id, head);
        if !io.open() {
            return Err(INVALID_QUEUE);
        }
        self.shared.doorbell(qid).tail.store(0, Ordering::Relaxed);
        let setup = SqSetup { qid, ring: SqRing::new(address, entries), io };
        cq.mailbox.push(Mail::Add(Box::new(setup)));
        self.sqs.insert(qid, SqInfo { entries, cqid, deleting: false });
        Ok(true)
    }

    /// Base section 5.7: completes when no command of the queue is in flight.
    fn delete_sq(&mut self, sqe: &Sqe) -> QueueResult {
        let qid = u16::try_from(sqe.cdw10.get() & 0xffff).expect("it is masked");
        let sq = self.sqs.get_mut(&qid).filter(|sq| !sq.deleting).ok_or(INVALID_QUEUE)?;
        sq.deleting = true;
        let cqid = sq.cqid;
        self.deletions.push((Ended::Submission(qid), *sqe));
        self.cqs[&cqid].mailbox.push(Mail::Delete(qid));
        Ok(false)
    }

    /// Base section 5.6.
    fn delete_cq(&mut self, sqe: &Sqe) -> QueueResult {
        let qid = u16::try_from(sqe.cdw10.get() & 0xffff).expect("it is masked");
        let cq = self.cqs.get_mut(&qid).filter(|cq| !cq.deleting).ok_or(INVALID_QUEUE)?;
        if self.sqs.values().any(|sq| sq.cqid == qid) {
            return Err(NvmeStatus::INVALID_QUEUE_DELETION.do_not_retry());
        }
        cq.deleting = true;
        cq.mailbox.push(Mail::End);
        self.deletions.push((Ended::Completion(qid), *sqe));
        Ok(false)
    }

    /// Base section 5.9: a page of shadow doorbells, and a page of event indices.
    fn set_doorbell_buffers(&mut self, sqe: &Sqe) -> QueueResult {
        let buffers = prps(sqe);
        if buffers.iter().any(|&buffer| buffer == 0 || !is_page(buffer)) {
            return Err(INVALID_FIELD);
        }
        self.doorbell_buffers = Some(buffers);
        for cq in self.cqs.values() {
            cq.mailbox.push(Mail::DoorbellBuffers(buffers));
        }
        Ok(true)
    }
}
