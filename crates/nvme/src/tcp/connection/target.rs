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

/// A command that was received.
#[derive(Debug)]
pub enum TargetEvent {
    /// A command, with all the data that the host sends with it.
    Command {
        /// The command.
        sqe: Sqe,
        /// Its data; `None` if it has none.
        data: Option<Buf>,
    },
    /// A command to complete with an error instead of executing it: its data are damaged or too
    /// long.
    Refuse {
        /// The command.
        sqe: Sqe,
        /// Its status.
        status: NvmeStatus,
    },
}

impl TargetEvent {
    /// Bytes of data that the command requests from the target.
    pub(crate) fn data_for_host(&self) -> usize {
        match self {
            TargetEvent::Command { sqe, .. } if sqe.transfer() == Direction::ToHost => {
                sqe.dptr.length.get() as usize
            }
            _ => 0,
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
    /// Commands with an R2T outstanding, by TTAG.
    awaiting: Slab<AwaitingData>,
    /// Bytes that these R2Ts ask for.
    r2t_bytes: u64,
    /// Commands whose R2T was not sent yet, with the length of their data.
    r2t_queue: VecDeque<(Sqe, u32)>,
    /// For data of commands.
    bufs: BufPool,
    /// Data of responses that were sent, or copied.
    spent: Vec<Data>,
}

/// Where the data of a PDU belong.
#[derive(Debug)]
enum Receiving {
    /// A command and the data in its capsule; without memory for these it is refused.
    Command { sqe: Sqe, data: Option<Buf>, refused: Option<NvmeStatus> },
    /// The next `len` bytes for an R2T.
    Transfer { ttag: u16, len: usize },
    /// The PDU has no data, or nobody uses them.
    Other,
}

/// A command with an R2T outstanding.
#[derive(Debug)]
struct AwaitingData {
    sqe: Sqe,
    /// Allocated when the first data arrive; `None` if there is no memory for them.
    data: Option<Buf>,
    /// Bytes of the data.
    len: u32,
    /// Bytes of them in the PDUs received.
    received: usize,
    /// Why the command will be refused.
    refused: Option<NvmeStatus>,
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
            awaiting: Slab::default(),
            r2t_bytes: 0,
            r2t_queue: VecDeque::new(),
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

    /// Takes received bytes. Appends the commands that they complete to `events`.
    pub fn receive(&mut self, mut bytes: &[u8], events: &mut Vec<TargetEvent>) {
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
                && let Some(data) = pdu_data(&mut self.receiving, &mut self.awaiting)
            {
                data[offset..offset + piece.len()].copy_from_slice(piece);
            }
            if !self.finish(events) {
                return;
            }
        }
    }

    /// Whether an R2T is outstanding, so that more data than a capsule has may arrive next.
    pub fn expects_data(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// Where the next bytes of the connection belong, if they are data of a command. To save a copy,
    /// read from the socket into it and call [`TargetConnection::data_received`].
    pub fn data_buffer(&mut self) -> Option<&mut [u8]> {
        let missing = self.link.decoder.missing_data();
        if missing == 0 || self.link.closed.is_some() {
            return None;
        }
        let data = pdu_data(&mut self.receiving, &mut self.awaiting)?;
        let received = data.len() - missing;
        Some(&mut data[received..])
    }

    /// Notes that the first `len` bytes of the [`TargetConnection::data_buffer`] were received.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn data_received(&mut self, len: usize, events: &mut Vec<TargetEvent>) {
        let missing = self.link.decoder.missing_data();
        if let Some(data) = pdu_data(&mut self.receiving, &mut self.awaiting) {
            let received = data.len() - missing;
            self.link.decoder.data_received(&data[received..received + len]);
        }
        self.finish(events);
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
                let data = if len > 0 { self.bufs.sized(len) } else { None };
                let refused = (len > 0 && data.is_none()).then_some(NvmeStatus::INTERNAL);
                Ok(Receiving::Command { sqe, data, refused })
            }
            Pdu::HostData { cid, ttag, offset, last, .. } if self.initialized => {
                self.begin_transfer(cid, ttag, offset, last, len)
            }
            _ => Err(protocol_error(FatalError::Sequence, "a PDU that may not come now")),
        }
    }

    /// Ends the PDU that is being received if it is complete. Returns whether it is.
    fn finish(&mut self, events: &mut Vec<TargetEvent>) -> bool {
        let Some(damaged) = self.link.decoder.finish() else { return false };
        let finished = match self.receiving.take() {
            Some(Receiving::Command { sqe, data, refused }) => {
                let refused = if damaged { Some(NvmeStatus::TRANSPORT) } else { refused };
                self.command(sqe, data, refused, events)
            }
            Some(Receiving::Transfer { ttag, len }) => {
                self.finish_transfer(ttag, len, damaged, events);
                Ok(())
            }
            Some(Receiving::Other) | None => Ok(()),
        };
        if let Err(closed) = finished {
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

    fn command(
        &mut self,
        sqe: Sqe,
        data: Option<Buf>,
        refused: Option<NvmeStatus>,
        events: &mut Vec<TargetEvent>,
    ) -> Result<(), CloseReason> {
        let length = sqe.dptr.length.get();
        let needs_r2t = sqe.transfer() == Direction::ToController
            && sqe.dptr.kind == Sgl::TRANSPORT
            && length > 0;
        if let Some(status) = refused {
            events.push(TargetEvent::Refuse { sqe, status });
        } else if !needs_r2t {
            events.push(TargetEvent::Command { sqe, data });
            return Ok(());
        } else if length > self.config.max_transfer {
            let status = NvmeStatus::INVALID_FIELD.do_not_retry();
            events.push(TargetEvent::Refuse { sqe, status });
        } else {
            self.queue_r2t(sqe, length)?;
        }
        if let Some(unused) = data {
            self.recycle(unused);
        }
        Ok(())
    }

    fn queue_r2t(&mut self, sqe: Sqe, length: u32) -> Result<(), CloseReason> {
        let waiting = self.awaiting.len() + self.r2t_queue.len();
        if waiting >= self.config.max_r2ts.min(usize::from(u16::MAX)) {
            return Err(protocol_error(
                FatalError::LimitExceeded,
                "too many commands wait for data",
            ));
        }
        self.r2t_queue.push_back((sqe, length));
        self.send_r2ts();
        Ok(())
    }

    /// Sends R2Ts for as many commands as `max_r2t_bytes` allows.
    fn send_r2ts(&mut self) {
        let has_room = |r2t_bytes, length| {
            r2t_bytes == 0 || r2t_bytes + u64::from(length) <= self.config.max_r2t_bytes
        };
        while let Some((sqe, len)) =
            self.r2t_queue.pop_front_if(|(_, length)| has_room(self.r2t_bytes, *length))
        {
            self.r2t_bytes += u64::from(len);
            let cid = sqe.cid.get();
            let awaiting = AwaitingData { sqe, data: None, len, received: 0, refused: None };
            let ttag = self.awaiting.insert(awaiting);
            let ttag = u16::try_from(ttag).expect("fewer R2Ts than TTAGs");
            self.link.send(&Pdu::ReadyToTransfer { cid, ttag, offset: 0, length: len });
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
        let awaiting = self.awaiting.get_mut(ttag.into()).ok_or(unknown(10))?;
        if awaiting.sqe.cid.get() != cid {
            return Err(unknown(8));
        }
        if offset as usize != awaiting.received {
            return Err(protocol_error(FatalError::OutOfRange, "data out of order"));
        }
        let (received, expected) = (awaiting.received + len, awaiting.len as usize);
        if received > expected {
            return Err(protocol_error(FatalError::OutOfRange, "more data than requested"));
        }
        if last != (received == expected) {
            return Err(protocol_error(
                FatalError::Sequence,
                "LAST_PDU not set on the last data, or set on others",
            ));
        }
        if awaiting.data.is_none() && awaiting.refused.is_none() {
            awaiting.data = self.bufs.sized(expected);
            awaiting.refused = awaiting.data.is_none().then_some(NvmeStatus::INTERNAL);
        }
        Ok(Receiving::Transfer { ttag, len })
    }

    fn finish_transfer(
        &mut self,
        ttag: u16,
        len: usize,
        damaged: bool,
        events: &mut Vec<TargetEvent>,
    ) {
        let awaiting = self.awaiting.get_mut(ttag.into()).expect("checked with the header");
        awaiting.received += len;
        if damaged {
            awaiting.refused = Some(NvmeStatus::TRANSPORT);
        }
        if awaiting.received < awaiting.len as usize {
            return;
        }
        let AwaitingData { sqe, data, len, refused, .. } =
            self.awaiting.remove(ttag.into()).expect("just seen");
        self.r2t_bytes -= u64::from(len);
        self.send_r2ts();
        let Some(status) = refused else {
            return events.push(TargetEvent::Command { sqe, data });
        };
        events.push(TargetEvent::Refuse { sqe, status });
        if let Some(unused) = data {
            self.recycle(unused);
        }
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

/// The memory for the data of the PDU that is being received.
fn pdu_data<'a>(
    receiving: &'a mut Option<Receiving>,
    awaiting: &'a mut Slab<AwaitingData>,
) -> Option<&'a mut [u8]> {
    match receiving.as_mut()? {
        Receiving::Command { data, .. } => data.as_deref_mut(),
        Receiving::Transfer { ttag, len } => {
            let awaiting = awaiting.get_mut((*ttag).into())?;
            let range = awaiting.received..awaiting.received + *len;
            awaiting.data.as_deref_mut().map(|data| &mut data[range])
        }
        Receiving::Other => None,
    }
}
