//! The function: registers, doorbells and the admin queue.
use super::config_space::{ConfigSpace, PBA, VECTOR_TABLE};
use super::pointers::{Segment, gather, parse, scatter};
use super::ring::{CqRing, SqRing};
use super::shared::{Ended, FunctionShared, Mail};
use super::{BATCH, Dma, DmaError, IoWorker, PAGE};
use crate::NvmeStatus;
use crate::controller::admin::Controller;
use crate::controller::association::Association;
use crate::controller::async_events::EventType;
use crate::controller::data_pointer::DataPointer;
use crate::controller::queue_auth::QueueAuth;
use crate::controller::response::{INVALID_FIELD, Response, SqHead};
use crate::controller::subsystem::Subsystem;
use crate::controller::{MAX_IO_QUEUES, MAX_QUEUE, MDTS, Transport, VERSION};
use crate::wire::admin::LogCommand;
use crate::wire::fabrics::{
    CSTS_FATAL, CSTS_READY, CSTS_SHUTDOWN_COMPLETE, CSTS_SHUTDOWN_OCCURRING, Cc, Property,
    capabilities,
};
use crate::wire::opcode::{AdminOpcode, FeatureId};
use crate::wire::pcie::register;
use crate::wire::placement::{DirectiveCommand, EventSupport};
use crate::wire::queue::Transfer;
use crate::wire::{Cqe, Sqe};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_blk::{Channel, Mailbox, Nanos, Wake, WakeUp};

/// A PCIe function with an NVMe controller.
pub struct Function {
    pub(super) controller: Controller,
    pub(super) shared: Arc<FunctionShared>,
    pub(super) vectors: u16,
    config: ConfigSpace,
    registers: Registers,
    /// While the controller is ready.
    pub(super) admin: Option<AdminQueue>,
    pub(super) sqs: BTreeMap<u16, SqInfo>,
    pub(super) cqs: BTreeMap<u16, CqInfo>,
    /// Deletions under way: the queue, and the command that waits for its end.
    pub(super) deletions: Vec<(Ended, Sqe)>,
    pub(super) doorbell_buffers: Option<[u64; 2]>,
    /// To be given threads.
    pub(super) new_workers: VecDeque<IoWorker>,
    /// Workers that have not ended, those of completion queues before the last reset included.
    pub(super) workers: usize,
    /// The host has enabled the controller before it was disabled wholly.
    enable: bool,
    responses: Vec<Response>,
    segments: Vec<Segment>,
}

/// Registers that hold what was written.
struct Registers {
    cc: Cc,
    interrupt_mask: u32,
    aqa: u32,
    asq: u64,
    acq: u64,
    vector_table: Vec<u8>,
}

pub(super) struct AdminQueue {
    sq: SqRing,
    pub cq: CqRing,
}

pub(super) struct SqInfo {
    pub entries: u16,
    pub cqid: u16,
    pub deleting: bool,
}

pub(super) struct CqInfo {
    pub entries: u16,
    pub mailbox: Arc<Mailbox<Mail>>,
    pub deleting: bool,
}

impl Function {
    /// A function whose controller offers up to `io_queues` I/O queues, and an interrupt vector for
    /// each and for the admin queue. `None` if all identifiers of controllers are in use.
    pub fn new(now: Nanos, subsystem: &Arc<Subsystem>, io_queues: u16) -> Option<Self> {
        let io_queues = io_queues.clamp(1, MAX_IO_QUEUES);
        let make = |cntlid| Arc::new(Association::new(cntlid, [0; 16], String::new(), None));
        let association = subsystem.associate(make)?;
        association.limit_queues(io_queues);
        let shared = FunctionShared::new(Arc::clone(&association));
        let auth = QueueAuth::NOT_REQUIRED;
        let mut controller =
            Controller::new(now, Arc::clone(subsystem), association, auth, SqHead::unknown(), 0);
        controller.transport = Transport::Pcie;
        let vectors = io_queues + 1;
        Some(Function {
            controller,
            shared,
            vectors,
            config: ConfigSpace::new(vectors),
            registers: Registers::new(vectors),
            admin: None,
            sqs: BTreeMap::new(),
            cqs: BTreeMap::new(),
            deletions: Vec::new(),
            doorbell_buffers: None,
            new_workers: VecDeque::new(),
            workers: 0,
            enable: false,
            responses: Vec::new(),
            segments: Vec::new(),
        })
    }

    /// MSI-X vectors, of which the first is the admin queue's.
    pub fn vectors(&self) -> u16 {
        self.vectors
    }

    /// Sets what wakes the thread of the function: [`Function::poll`] then has to be called.
    pub fn set_waker(&self, waker: Arc<dyn WakeUp>) {
        self.controller.set_waker(Arc::clone(&waker));
        self.shared.set_waker(waker);
    }

    /// Reads configuration space. Beyond its end are zeroes.
    pub fn read_config(&self, offset: u64, to: &mut [u8]) {
        self.config.read(offset, to);
    }

    /// Writes configuration space; what cannot be written is ignored.
    pub fn write_config(&mut self, now: Nanos, offset: u64, from: &[u8]) {
        if self.config.write(offset, from) {
            self.reset(now);
        }
    }

    /// Resets the function: registers have their first values, and the I/O queues end. Those in flight
    /// are drained: see [`Function::is_quiescent`].
    pub fn reset(&mut self, now: Nanos) {
        self.disable(now);
        self.enable = false;
        self.config = ConfigSpace::new(self.vectors);
        self.registers = Registers::new(self.vectors);
    }

    /// Whether no I/O of queues that have ended is in flight, nor of a shutdown.
    pub fn is_quiescent(&self) -> bool {
        self.workers == self.cqs.len() && self.is_idle()
    }

    /// Whether no I/O of a shutdown is in flight: the function must not be dropped before.
    pub fn is_idle(&self) -> bool {
        self.controller.is_idle()
    }

    /// The channels of a shutdown.
    pub fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.controller.channels()
    }

    /// When to call [`Function::poll`] next, unless woken.
    pub fn next_event(&mut self) -> Wake {
        self.channels().map(Channel::next_event).min().unwrap_or(Wake::Idle)
    }

    /// A worker of a completion queue that was created, to be given a thread.
    pub fn take_worker(&mut self) -> Option<IoWorker> {
        self.new_workers.pop_front()
    }

    /// Reads BAR 0. Beyond its end, and where no register is, are zeroes.
    pub fn read_bar(&self, offset: u64, to: &mut [u8]) {
        for (at, byte) in (offset..=u64::MAX).zip(to) {
            let dword = u32::try_from(at & !3).map_or(0, |at| self.read_dword(at));
            *byte = dword.to_le_bytes()[usize::try_from(at & 3).expect("less than 4")];
        }
    }

    /// Writes BAR 0, by four or eight bytes; other widths, and addresses that are not multiples of
    /// four, have no effect.
    pub fn write_bar(&mut self, now: Nanos, offset: u64, from: &[u8]) {
        let Ok(offset) = u32::try_from(offset) else { return };
        if offset % 4 != 0 || !matches!(from.len(), 4 | 8) {
            return;
        }
        for (at, dword) in (offset..=u32::MAX).step_by(4).zip(from.chunks_exact(4)) {
            let value = u32::from_le_bytes(dword.try_into().expect("a chunk has four bytes"));
            self.write_dword(now, at, value);
        }
    }

    fn read_dword(&self, at: u32) -> u32 {
        let registers = &self.registers;
        const CAP: u64 = capabilities(MAX_QUEUE, 15);
        const CAP_HIGH: u32 = Property::CAP.0 + 4;
        match at {
            0x00 => half(CAP, 0),
            CAP_HIGH => half(CAP, 32),
            0x08 => VERSION,
            register::INTMS | register::INTMC => registers.interrupt_mask,
            0x14 => registers.cc.0,
            0x1c => self.status(),
            register::AQA => registers.aqa,
            register::ASQ => half(registers.asq, 0),
            register::ASQ_HIGH => half(registers.asq, 32),
            register::ACQ => half(registers.acq, 0),
            register::ACQ_HIGH => half(registers.acq, 32),
            VECTOR_TABLE..PBA => {
                let at = (at - VECTOR_TABLE) as usize;
                let entry = registers.vector_table.get(at..at + 4);
                entry.map_or(0, |entry| u32::from_le_bytes(entry.try_into().expect("four bytes")))
            }
            _ => 0,
        }
    }

    /// CSTS.
    fn status(&self) -> u32 {
        let mut status = self.controller.csts();
        if !self.is_quiescent() {
            if status & CSTS_SHUTDOWN_COMPLETE != 0 {
                status = status & !CSTS_SHUTDOWN_COMPLETE | CSTS_SHUTDOWN_OCCURRING;
            } else if !self.registers.cc.enabled() {
                // Not disabled wholly.
                status |= CSTS_READY;
            }
        }
        if self.shared.is_fatal() { status | CSTS_FATAL } else { status }
    }

    fn write_dword(&mut self, now: Nanos, at: u32, value: u32) {
        let registers = &mut self.registers;
        // The lower bits of the addresses are reserved: queues begin with a page.
        let address = value & !0xfff;
        match at {
            register::INTMS => registers.interrupt_mask |= value,
            register::INTMC => registers.interrupt_mask &= !value,
            0x14 => self.configure(now, Cc(value)),
            register::AQA => registers.aqa = value & 0x0fff_0fff,
            register::ASQ => registers.asq = registers.asq >> 32 << 32 | u64::from(address),
            register::ASQ_HIGH => {
                registers.asq = u64::from(half(registers.asq, 0)) | u64::from(value) << 32
            }
            register::ACQ => registers.acq = registers.acq >> 32 << 32 | u64::from(address),
            register::ACQ_HIGH => {
                registers.acq = u64::from(half(registers.acq, 0)) | u64::from(value) << 32
            }
            register::DOORBELLS..VECTOR_TABLE => self.ring(at, value),
            VECTOR_TABLE..PBA => {
                let at = (at - VECTOR_TABLE) as usize;
                if let Some(entry) = registers.vector_table.get_mut(at..at + 4) {
                    entry.copy_from_slice(&value.to_le_bytes());
                }
            }
            _ => {}
        }
    }

    /// CC was written.
    fn configure(&mut self, now: Nanos, cc: Cc) {
        let before = std::mem::replace(&mut self.registers.cc, cc);
        if !cc.enabled() && before.enabled() {
            self.enable = false;
            self.disable(now);
        } else if cc.enabled() && !before.enabled() {
            self.enable = true;
            self.enable_if_quiescent();
        } else if cc.shutdown() && !before.shutdown() && !self.enable {
            self.controller.configure(cc, true);
            self.end_queues();
        }
    }

    /// Ends the queues and resets the controller.
    fn disable(&mut self, now: Nanos) {
        self.end_queues();
        self.admin = None;
        self.responses.clear();
        self.controller.reset(now);
        self.shared.set_fatal(false);
        self.doorbell_buffers = None;
    }

    fn end_queues(&mut self) {
        for cq in self.cqs.values() {
            cq.mailbox.push(Mail::Abort);
        }
        // Those without a thread have nothing in flight.
        self.new_workers.clear();
        self.sqs.clear();
        self.cqs.clear();
        self.deletions.clear();
    }

    fn enable_if_quiescent(&mut self) {
        if !self.enable || !self.is_quiescent() {
            return;
        }
        self.enable = false;
        let Registers { cc, aqa, asq, acq, .. } = self.registers;
        let [sq, cq] = [aqa & 0xfff, aqa >> 16 & 0xfff].map(entries);
        // Pages of 4096 bytes, round robin (MPS in bits 10:7, AMS in bits 13:11).
        let usable = cc.0 & 0x3f80 == 0;
        if let (Some(sq), Some(cq)) = (sq, cq) {
            self.admin = Some(AdminQueue { sq: SqRing::new(asq, sq), cq: CqRing::new(acq, cq) });
        }
        for bell in [&self.shared.doorbell(0).tail, &self.shared.doorbell(0).head] {
            bell.store(0, Ordering::Relaxed);
        }
        // SHN is for a controller that is enabled.
        let cc = Cc(cc.0 & !(0b11 << 14));
        self.controller.configure(cc, usable && self.admin.is_some());
    }

    fn is_ready(&self) -> bool {
        self.controller.csts() & (CSTS_READY | CSTS_FATAL) == CSTS_READY && !self.shared.is_fatal()
    }

    /// A doorbell was written.
    fn ring(&mut self, at: u32, value: u32) {
        let index = (at - register::DOORBELLS) / 4;
        let (qid, is_head) = (u16::try_from(index / 2).expect("the doorbells fit"), index % 2 == 1);
        // The upper half is reserved.
        let value = u16::try_from(value & 0xffff).expect("it is masked");
        if !self.is_ready() {
            return;
        }
        let entries = match &self.admin {
            Some(admin) if qid == 0 && is_head => Some(admin.cq.entries()),
            Some(admin) if qid == 0 => Some(admin.sq.entries()),
            _ if is_head => self.cqs.get(&qid).map(|cq| cq.entries),
            _ => self.sqs.get(&qid).filter(|sq| !sq.deleting).map(|sq| sq.entries),
        };
        match entries {
            None => return self.shared.doorbell_error(EventType::InvalidDoorbell),
            Some(entries) if value >= entries => {
                return self.shared.doorbell_error(EventType::DoorbellValue);
            }
            Some(_) => {}
        }
        let doorbell = self.shared.doorbell(qid);
        let bell = if is_head { &doorbell.head } else { &doorbell.tail };
        bell.store(value, Ordering::Release);
        let cqid = if is_head { Some(qid) } else { self.sqs.get(&qid).map(|sq| sq.cqid) };
        if let Some(cq) = cqid.and_then(|cqid| self.cqs.get(&cqid)) {
            cq.mailbox.sleeper().wake();
        }
    }

    /// Executes admin commands, and collects what workers report. Returns whether anything was done,
    /// and whether to signal vector 0.
    pub fn poll(&mut self, now: Nanos, dma: &impl Dma) -> (bool, bool) {
        let mut worked = self.controller.poll_shutdown(now);
        worked |= self.note_ended();
        if !self.is_ready() {
            return (worked, false);
        }
        let Some(mut admin) = self.admin.take() else { return (worked, false) };
        let served = self.serve(now, dma, &mut admin);
        if served.is_err() {
            self.shared.set_fatal(true);
        }
        let (fetched, posted) = served.unwrap_or((true, false));
        worked |= fetched;
        self.admin = Some(admin);
        (worked || posted, posted)
    }

    fn note_ended(&mut self) -> bool {
        let ended = self.shared.take_ended();
        for &what in &ended {
            match what {
                Ended::Submission(qid) => drop(self.sqs.remove(&qid)),
                Ended::Completion(qid) => {
                    self.workers -= 1;
                    // One that nobody deleted has lost its thread.
                    if self.cqs.remove(&qid).is_some_and(|cq| !cq.deleting) {
                        self.shared.set_fatal(true);
                    }
                }
            }
            // Not there if the controller was reset meanwhile.
            let waits = self.deletions.iter().position(|(waits_for, _)| *waits_for == what);
            let Some((_, sqe)) = waits.map(|at| self.deletions.remove(at)) else { continue };
            self.responses.push(Response::new(Cqe::new(sqe.cid.get(), NvmeStatus::SUCCESS)));
        }
        self.enable_if_quiescent();
        !ended.is_empty()
    }

    fn serve(
        &mut self,
        now: Nanos,
        dma: &impl Dma,
        admin: &mut AdminQueue,
    ) -> Result<(bool, bool), DmaError> {
        let doorbell = self.shared.doorbell(0);
        let head = doorbell.head.load(Ordering::Acquire);
        let tail = doorbell.tail.load(Ordering::Acquire);
        // What workers report, and events.
        self.complete(dma, &mut admin.cq, admin.sq.head);
        self.controller.poll(now, &mut self.responses);
        self.complete(dma, &mut admin.cq, admin.sq.head);
        let mut posted = admin.cq.post(dma, head)?;
        let mut fetched = Vec::new();
        let mut worked = false;
        for _ in 0..BATCH {
            if admin.cq.is_full() {
                break;
            }
            admin.sq.fetch(dma, tail, 1, &mut fetched)?;
            let Some(sqe) = fetched.first() else { break };
            worked = true;
            self.execute(now, dma, sqe);
            self.complete(dma, &mut admin.cq, admin.sq.head);
            posted |= admin.cq.post(dma, head)?;
        }
        Ok((worked, posted))
    }

    /// Queues the responses; data of the last command are for `segments`.
    fn complete(&mut self, dma: &impl Dma, cq: &mut CqRing, head: u16) {
        for Response { mut cqe, data, .. } in self.responses.drain(..) {
            if let Some(data) = data
                && let Err(status) = scatter(dma, &self.segments, &data)
            {
                cqe = Cqe::new(cqe.cid.get(), status);
            }
            cq.push(Cqe { sqhd: head.into(), sqid: 0.into(), ..cqe });
        }
    }

    fn execute(&mut self, now: Nanos, dma: &impl Dma, sqe: &Sqe) {
        let mut responses = std::mem::take(&mut self.responses);
        // PRPs without a fused operation; admin commands have no SGLs over PCIe.
        let form = if sqe.flags & 0b1100_0011 == 0 { Ok(()) } else { Err(INVALID_FIELD) };
        let done = form.and_then(|()| match self.queue_command(sqe) {
            Some(result) => result.map(|completes| {
                if completes {
                    responses.push(Response::new(Cqe::new(sqe.cid.get(), NvmeStatus::SUCCESS)));
                }
            }),
            None => {
                let len = transfer_len(sqe);
                let data = self.fetch_data(dma, sqe, len)?;
                let pointer = DataPointer::resolved(len);
                self.controller.execute(now, sqe, pointer, &data, &mut responses);
                Ok(())
            }
        });
        if let Err(status) = done {
            self.controller.refuse(sqe, status, &mut responses);
        }
        self.responses = responses;
    }

    /// The data that the host has for a command; else `segments` for what the host gets.
    fn fetch_data(&mut self, dma: &impl Dma, sqe: &Sqe, len: u64) -> Result<Vec<u8>, NvmeStatus> {
        self.segments.clear();
        // The controller refuses what is longer.
        if len > 4096 << MDTS {
            return Ok(Vec::new());
        }
        parse(dma, sqe, len, &mut self.segments)?;
        let mut data = Vec::new();
        if sqe.transfer() == Transfer::ToController {
            data.resize(usize::try_from(len).expect("MDTS fits"), 0);
            gather(dma, &self.segments, &mut data)?;
        }
        Ok(data)
    }
}

impl Registers {
    fn new(vectors: u16) -> Self {
        let mut vector_table = vec![0; usize::from(vectors) * 16];
        // Each vector is masked.
        vector_table.chunks_exact_mut(16).for_each(|entry| entry[12] = 1);
        Registers { cc: Cc::default(), interrupt_mask: 0, aqa: 0, asq: 0, acq: 0, vector_table }
    }
}

/// 32 bits of a register of 64.
fn half(value: u64, shift: u32) -> u32 {
    u32::try_from(value >> shift & 0xffff_ffff).expect("it is masked")
}

/// The entries of a queue whose size is given minus one; `None` if a queue cannot have as many.
pub(super) fn entries(size: u32) -> Option<u16> {
    u16::try_from(size).ok().filter(|size| (1..MAX_QUEUE).contains(size)).map(|size| size + 1)
}

/// Whether a queue may begin there.
pub(super) fn is_page(address: u64) -> bool {
    address.is_multiple_of(PAGE)
}

/// Bytes of data of an admin command, which its data pointer does not have.
fn transfer_len(sqe: &Sqe) -> u64 {
    let feature = FeatureId(sqe.cdw10.get().to_le_bytes()[0]);
    match AdminOpcode(sqe.opcode) {
        AdminOpcode::IDENTIFY => 4096,
        AdminOpcode::GET_LOG_PAGE => LogCommand::from(*sqe).length(),
        AdminOpcode::SET_FEATURES | AdminOpcode::GET_FEATURES => match feature {
            FeatureId::TIMESTAMP => 8,
            FeatureId::HOST_BEHAVIOR => 512,
            FeatureId::DATA_PLACEMENT_EVENTS => {
                let types = u64::from(sqe.cdw11.get().to_le_bytes()[2]);
                let support = EventSupport::SIZE as u64;
                if sqe.transfer() == Transfer::ToHost { types * support } else { types }
            }
            _ => 0,
        },
        AdminOpcode::DIRECTIVE_RECEIVE => DirectiveCommand::from(*sqe).length(),
        // NDT, as other vendor specific commands have it (Base section 3.3.3.1).
        AdminOpcode::MARK => u64::from(sqe.cdw10.get()) * 4,
        _ => 0,
    }
}
