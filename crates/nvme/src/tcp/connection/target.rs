//! The target's side.
use super::{CloseReason, Endpoint, invalid_field, protocol_error};
use crate::NvmeStatus;
use crate::controller::Data;
use crate::tcp::decode::DataLimits;
use crate::tcp::encode::{append, controller_data};
use crate::tcp::output::LONG_DATA;
use crate::tcp::pdu::{Digests, FatalError, Format, Initialize, Pdu, Role};
use crate::wire::queue::Transfer as Direction;
use crate::wire::{Cqe, Sgl, Sqe};
use std::collections::VecDeque;
use std::io::IoSlice;
use zonal_blk::{Buf, BufPool, Outgoing, Slab};

/// Bytes of a PDU for the host besides its data, at most: header, digests and padding.
const MAX_FRAMING: usize = 24 + 4 + 128 + 4;

/// Limits and preferences of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetConfig {
    /// Digests that it grants to hosts that request them.
    pub digests: Digests,
    /// Alignment of data sent to it, in dwords, minus one; at most 31 (CPDA).
    pub alignment: u8,
    /// Maximum data of an H2CData PDU, in bytes; 4096 or more (MAXH2CDATA).
    pub max_data: u32,
    /// Maximum data in a command capsule, in bytes.
    pub in_capsule: u32,
    /// Maximum data of a command, in bytes.
    pub max_transfer: u32,
    /// Commands with an R2T outstanding or queued.
    pub max_r2ts: usize,
    /// Bytes that outstanding R2Ts ask for; further commands wait. A command with more data gets an
    /// R2T when no other is outstanding.
    pub max_r2t_bytes: u64,
}

impl Default for TargetConfig {
    fn default() -> Self {
        TargetConfig {
            digests: Digests { header: true, data: true },
            alignment: 0,
            max_data: 4 << 20,
            in_capsule: crate::controller::IN_CAPSULE,
            max_transfer: 4 << 20,
            max_r2ts: 1024,
            max_r2t_bytes: 16 << 20,
        }
    }
}

/// A command that was received, to be executed or refused.
#[derive(Debug)]
pub struct ReceivedCommand {
    /// The command.
    pub sqe: Sqe,
    /// The data that the host sent with it, if it has any. An error is the status to complete it with
    /// instead of executing it: its data are damaged or too long, or there is no memory for them.
    pub data: Result<Option<Buf>, NvmeStatus>,
}

impl ReceivedCommand {
    /// Bytes of data that the command requests from the target.
    pub(crate) fn data_for_host(&self) -> usize {
        if self.data.is_ok() && self.sqe.transfer() == Direction::ToHost {
            self.sqe.dptr.length.get() as usize
        } else {
            0
        }
    }
}

/// A target's connection.
#[derive(Debug)]
pub struct TargetConnection {
    config: TargetConfig,
    link: Endpoint<Data>,
    initialized: bool,
    /// The last data of a command that succeeds say so, without a response capsule.
    success_with_data: bool,
    /// The PDU that is being received.
    receiving: Option<Receiving>,
    /// Commands from their header until they are [taken](TargetConnection::take_command). The number
    /// of one with an R2T is its TTAG.
    received: Slab<Incoming>,
    /// Those that are complete, in order.
    complete: VecDeque<usize>,
    /// Those whose R2T was not sent yet.
    r2t_queue: VecDeque<usize>,
    /// Commands whose R2T is outstanding or queued.
    r2ts: usize,
    /// Bytes that the outstanding R2Ts ask for.
    r2t_bytes: u64,
    /// For data of commands.
    bufs: BufPool,
    /// Data of responses that were sent, or copied.
    spent: Vec<Data>,
}

/// Where the data of a PDU belong.
#[derive(Clone, Copy, Debug)]
enum Receiving {
    /// They are the next `len` bytes of a command's data.
    Command { number: usize, len: usize },
    /// The PDU has no data, or nobody uses them.
    Other,
}

/// A command that was received, as far as it was.
#[derive(Debug)]
struct Incoming {
    command: ReceivedCommand,
    stage: Stage,
    /// Bytes of its data in the capsule, or that its R2T asks for.
    expected: usize,
    /// Bytes of them in the PDUs received.
    received: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its capsule is being received.
    Capsule,
    /// Its R2T is queued.
    Queued,
    /// Its R2T is outstanding. The buffer is allocated when the first data arrive.
    Requested,
    Complete,
}

impl TargetConnection {
    /// A connection that was just accepted.
    pub fn new(config: TargetConfig) -> Self {
        let limits = DataLimits { in_capsule: config.in_capsule, data: config.max_data };
        TargetConnection {
            config,
            link: Endpoint::new(Role::Controller, limits),
            initialized: false,
            success_with_data: false,
            receiving: None,
            received: Slab::default(),
            complete: VecDeque::new(),
            r2t_queue: VecDeque::new(),
            r2ts: 0,
            r2t_bytes: 0,
            bufs: BufPool::default(),
            spent: Vec::new(),
        }
    }

    /// Whether ICReq has been answered.
    pub fn is_initialized(&self) -> bool {
        self.initialized
    }

    /// Sets the limits on what the host sends from now on: on its commands, their data and R2Ts. What
    /// was agreed on in ICResp stays.
    pub fn set_limits(&mut self, limits: TargetConfig) {
        let TargetConfig { digests, alignment, max_data, .. } = self.config;
        self.config = TargetConfig { digests, alignment, max_data, ..limits };
        self.link.decoder.set_limits(DataLimits { in_capsule: limits.in_capsule, data: max_data });
    }

    /// From now on the last data of a command that succeeds without a result say so, and it has no
    /// response capsule. Only for a queue without flow control, whose host needs no SQHD.
    pub fn enable_success_with_data(&mut self) {
        self.success_with_data = true;
    }

    /// Takes received bytes. The commands that they complete can be
    /// [taken](TargetConnection::take_command).
    pub fn receive(&mut self, mut bytes: &[u8]) {
        while self.link.closed.is_none() {
            if self.receiving.is_none() {
                let Some((pdu, len)) = self.link.header(&mut bytes) else { return };
                match self.begin(&pdu, len) {
                    Ok(receiving) => self.receiving = Some(receiving),
                    Err(closed) => return self.link.fail(closed),
                }
            }
            let (offset, piece) = self.link.decoder.data(&mut bytes);
            if !piece.is_empty()
                && let Some(data) = pdu_data(self.receiving, &mut self.received)
            {
                data[offset..offset + piece.len()].copy_from_slice(piece);
            }
            if !self.finish() {
                return;
            }
        }
    }

    /// Whether there are commands to take.
    pub fn has_commands(&self) -> bool {
        !self.complete.is_empty()
    }

    /// The next command that has arrived with all its data.
    pub fn take_command(&mut self) -> Option<ReceivedCommand> {
        let number = self.complete.pop_front()?;
        self.received.remove(number).map(|incoming| incoming.command)
    }

    /// Whether an R2T is outstanding, so that more data than a capsule has may arrive next.
    pub fn expects_data(&self) -> bool {
        self.r2t_bytes > 0
    }

    /// Where the next bytes of the connection belong, if they are data of a command. To save a copy,
    /// read from the socket into it and call [`TargetConnection::data_received`].
    pub fn data_buffer(&mut self) -> Option<&mut [u8]> {
        let missing = self.link.decoder.missing_data();
        if missing == 0 || self.link.closed.is_some() {
            return None;
        }
        let data = pdu_data(self.receiving, &mut self.received)?;
        let received = data.len() - missing;
        Some(&mut data[received..])
    }

    /// Notes that the first `len` bytes of the [`TargetConnection::data_buffer`] were received.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn data_received(&mut self, len: usize) {
        let missing = self.link.decoder.missing_data();
        if let Some(data) = pdu_data(self.receiving, &mut self.received) {
            let received = data.len() - missing;
            self.link.decoder.data_received(&data[received..received + len]);
        }
        self.finish();
    }

    /// Takes back the buffer of a command's data, to reuse it.
    pub fn recycle(&mut self, data: Buf) {
        let most = self.config.max_r2t_bytes.saturating_sub(self.r2t_bytes);
        self.bufs.put(data, usize::try_from(most).unwrap_or(usize::MAX));
    }

    /// Handles a header. Returns where the `len` bytes of data that follow belong.
    fn begin(&mut self, pdu: &Pdu, len: usize) -> Result<Receiving, CloseReason> {
        match *pdu {
            Pdu::IcReq(ref request) if !self.initialized => {
                self.initialize(request)?;
                Ok(Receiving::Other)
            }
            Pdu::Command { sqe, .. } if self.initialized => {
                let data = if len == 0 {
                    Ok(None)
                } else {
                    self.bufs.sized(len).map(Some).ok_or(NvmeStatus::INTERNAL)
                };
                let command = ReceivedCommand { sqe, data };
                let stage = Stage::Capsule;
                let number =
                    self.received.insert(Incoming { command, stage, expected: len, received: 0 });
                Ok(Receiving::Command { number, len })
            }
            Pdu::HostData { cid, ttag, offset, last, .. } if self.initialized => {
                self.begin_transfer(cid, ttag, offset, last, len)
            }
            _ => Err(protocol_error(FatalError::Sequence, "a PDU that may not come now")),
        }
    }

    /// Ends the PDU that is being received if it is complete. Returns whether it is.
    fn finish(&mut self) -> bool {
        let Some(damaged) = self.link.decoder.finish() else { return false };
        if let Some(Receiving::Command { number, len }) = self.receiving.take()
            && let Err(closed) = self.finish_data(number, len, damaged)
        {
            self.link.fail(closed);
        }
        true
    }

    fn initialize(&mut self, request: &Initialize) -> Result<(), CloseReason> {
        if request.version != 0 {
            return Err(invalid_field(FatalError::Unsupported, 8, "PFV of ICReq is not 0"));
        }
        if request.alignment > 31 {
            return Err(invalid_field(FatalError::HeaderField, 10, "HPDA of ICReq is above 31"));
        }
        let TargetConfig { digests: granted, alignment, max_data: limit, .. } = self.config;
        let digests = Digests {
            header: request.digests.header && granted.header,
            data: request.digests.data && granted.data,
        };
        self.link.send(&Pdu::IcResp(Initialize { version: 0, alignment, digests, limit }));
        self.link.format = Format { digests, alignment: request.alignment };
        self.link.decoder.set_format(Format { digests, alignment });
        self.initialized = true;
        Ok(())
    }

    /// Notes that a PDU of a command has arrived, with `len` bytes of its data.
    fn finish_data(&mut self, number: usize, len: usize, damaged: bool) -> Result<(), CloseReason> {
        let incoming = self.received.get_mut(number).expect("it is being received");
        let stage = incoming.stage;
        incoming.received += len;
        let unused = if damaged { incoming.refuse(NvmeStatus::TRANSPORT) } else { None };
        if stage == Stage::Capsule && incoming.needs_r2t() {
            return self.queue_r2t(number);
        }
        if incoming.received == incoming.expected {
            incoming.stage = Stage::Complete;
            self.complete.push_back(number);
            if stage == Stage::Requested {
                self.r2ts -= 1;
                self.r2t_bytes -= incoming.expected as u64;
                self.send_r2ts();
            }
        }
        if let Some(unused) = unused {
            self.recycle(unused);
        }
        Ok(())
    }

    /// Asks for the data of a command; refuses one with too long data.
    fn queue_r2t(&mut self, number: usize) -> Result<(), CloseReason> {
        let incoming = self.received.get_mut(number).expect("a command that was received");
        let length = incoming.command.sqe.dptr.length.get();
        let in_capsule = incoming.command.data.as_mut().ok().and_then(Option::take);
        if length > self.config.max_transfer {
            incoming.refuse(NvmeStatus::INVALID_FIELD.do_not_retry());
            incoming.stage = Stage::Complete;
            self.complete.push_back(number);
        } else if self.r2ts >= self.config.max_r2ts || number > usize::from(u16::MAX) {
            // Its number has to be a TTAG.
            return Err(protocol_error(
                FatalError::LimitExceeded,
                "too many commands wait for data",
            ));
        } else {
            incoming.stage = Stage::Queued;
            (incoming.received, incoming.expected) = (0, length as usize);
            self.r2ts += 1;
            self.r2t_queue.push_back(number);
            self.send_r2ts();
        }
        if let Some(unused) = in_capsule {
            self.recycle(unused);
        }
        Ok(())
    }

    /// Sends R2Ts for as many commands as `max_r2t_bytes` allows.
    fn send_r2ts(&mut self) {
        while let Some(&number) = self.r2t_queue.front() {
            let incoming = self.received.get_mut(number).expect("a command that waits for its R2T");
            let length = incoming.command.sqe.dptr.length.get();
            let bytes = self.r2t_bytes + u64::from(length);
            if self.r2t_bytes > 0 && bytes > self.config.max_r2t_bytes {
                return;
            }
            incoming.stage = Stage::Requested;
            let cid = incoming.command.sqe.cid.get();
            let ttag = u16::try_from(number).expect("checked when it was queued");
            self.r2t_queue.pop_front();
            self.r2t_bytes = bytes;
            self.link.send(&Pdu::ReadyToTransfer { cid, ttag, offset: 0, length });
        }
    }

    fn begin_transfer(
        &mut self,
        cid: u16,
        ttag: u16,
        offset: u32,
        last: bool,
        len: usize,
    ) -> Result<Receiving, CloseReason> {
        let unknown = |field| invalid_field(FatalError::HeaderField, field, "data for no transfer");
        let number = usize::from(ttag);
        let incoming = self.received.get_mut(number).filter(|it| it.stage == Stage::Requested);
        let incoming = incoming.ok_or(unknown(10))?;
        if incoming.command.sqe.cid.get() != cid {
            return Err(unknown(8));
        }
        if offset as usize != incoming.received {
            return Err(protocol_error(FatalError::OutOfRange, "data out of order"));
        }
        let (received, expected) = (incoming.received + len, incoming.expected);
        if received > expected {
            return Err(protocol_error(FatalError::OutOfRange, "more data than requested"));
        }
        if last != (received == expected) {
            return Err(protocol_error(
                FatalError::Sequence,
                "LAST_PDU not set on the last data, or set on others",
            ));
        }
        if let Ok(data @ None) = &mut incoming.command.data {
            *data = self.bufs.sized(expected);
            if data.is_none() {
                incoming.command.data = Err(NvmeStatus::INTERNAL);
            }
        }
        Ok(Receiving::Command { number, len })
    }

    /// Sends the completion of a command, after its data for the host. Without memory for these, the
    /// command fails with Internal Error.
    pub fn respond(&mut self, cqe: Cqe, data: Option<Data>) {
        if self.link.closed.is_some() {
            return self.spent.extend(data);
        }
        let Some(data) = data else { return self.link.send(&Pdu::Response(cqe)) };
        let cid = cqe.cid.get();
        let success = self.success_with_data
            && !data.is_empty()
            && cqe.status() == NvmeStatus::SUCCESS
            && cqe.result() == 0;
        let sent = if (LONG_DATA..=self.config.max_data as usize).contains(&data.len()) {
            self.send_long_data(cid, success, data);
            true
        } else {
            let copied = self.copy_data(cid, success, &data);
            self.spent.push(data);
            copied
        };
        if !sent {
            let failed = Cqe::new(cid, NvmeStatus::INTERNAL);
            self.link.send(&Pdu::Response(Cqe { sqhd: cqe.sqhd, ..failed }));
        } else if !success {
            self.link.send(&Pdu::Response(cqe));
        }
    }

    /// Sends data that one PDU can carry from where they are.
    fn send_long_data(&mut self, cid: u16, success: bool, data: Data) {
        let out = self.link.output.copied();
        let digest = controller_data(cid, 0, true, success, &data, self.link.format, out);
        let len = data.len();
        self.link.output.push_long(data, len);
        self.link.output.copied().extend(digest.into_iter().flatten());
    }

    /// Copies data to the output. Returns whether there is memory for it.
    fn copy_data(&mut self, cid: u16, success: bool, data: &[u8]) -> bool {
        let chunk = self.config.max_data as usize;
        let out = self.link.output.copied();
        let framing = (data.len() / chunk + 2) * MAX_FRAMING;
        if out.try_reserve(data.len() + framing).is_err() {
            return false;
        }
        let mut offset = 0;
        for piece in data.chunks(chunk) {
            let last = offset as usize + piece.len() == data.len();
            let (format, success) = (self.link.format, success && last);
            let digest = controller_data(cid, offset, last, success, piece, format, out);
            append(piece, digest, out);
            offset += u32::try_from(piece.len()).expect("a chunk of at most max_data bytes");
        }
        true
    }

    /// Data of a response that are no longer needed, for their memory to be reused.
    pub fn take_spent(&mut self) -> Option<Data> {
        self.spent.pop()
    }

    /// Why the connection is closed, once it is. Shut the socket down when the output was sent.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.link.closed.as_ref()
    }
}

impl Outgoing for TargetConnection {
    fn unsent(&self) -> usize {
        self.link.output.unsent()
    }

    fn next_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.link.output.next_slices(slices, |data| data)
    }

    fn sent(&mut self, len: usize) {
        self.link.output.sent(len, |data| self.spent.push(data));
    }
}

impl Incoming {
    /// Whether the host sends the command's data when it gets an R2T.
    fn needs_r2t(&self) -> bool {
        let ReceivedCommand { sqe, data } = &self.command;
        data.is_ok()
            && sqe.transfer() == Direction::ToController
            && sqe.dptr.kind == Sgl::TRANSPORT
            && sqe.dptr.length.get() > 0
    }

    /// The command is to be refused. Returns the buffer of its data.
    fn refuse(&mut self, status: NvmeStatus) -> Option<Buf> {
        std::mem::replace(&mut self.command.data, Err(status)).ok().flatten()
    }
}

/// The memory for the data of the PDU that is being received.
fn pdu_data(receiving: Option<Receiving>, received: &mut Slab<Incoming>) -> Option<&mut [u8]> {
    let Receiving::Command { number, len } = receiving? else { return None };
    let Incoming { command, received, .. } = received.get_mut(number)?;
    let data = command.data.as_mut().ok()?.as_mut()?;
    Some(&mut data[*received..][..len])
}
