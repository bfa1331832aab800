//! The target's side.
use super::{CloseReason, Endpoint, protocol_error};
use crate::NvmeStatus;
use crate::slab::Slab;
use crate::tcp::decode::DataLimits;
use crate::tcp::encode::controller_data;
use crate::tcp::error::FatalError;
use crate::tcp::pdu::{Digests, Format, Initialize, Payload, Pdu, Role};
use crate::wire::sqe::Transfer as Direction;
use crate::wire::{Cqe, Sgl, Sqe};
use std::collections::VecDeque;

/// What a target takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetConfig {
    /// Digests that it grants to hosts that ask.
    pub digests: Digests,
    /// Alignment of data sent to it, in dwords, minus one; up to 31 (CPDA).
    pub alignment: u8,
    /// The most data of an H2CData PDU, in bytes; 4096 or more (MAXH2CDATA).
    pub max_data: u32,
    /// The most data in a command capsule, in bytes.
    pub in_capsule: u32,
    /// The most data of a command, in bytes.
    pub max_transfer: u32,
    /// Commands that may wait for their data at once.
    pub max_r2ts: usize,
    /// Bytes of data that are asked for at once; the other commands wait their turn. A command with
    /// more is asked for alone.
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

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// A command, with all the data that the host sends with it.
    Command {
        /// The command.
        sqe: Sqe,
        /// Its data.
        data: Vec<u8>,
    },
    /// A command that is to end so, unlooked at: its data were damaged or are too long.
    Refuse {
        /// The command.
        sqe: Sqe,
        /// How it is to end.
        status: NvmeStatus,
    },
}

/// A target's connection.
#[derive(Debug)]
pub struct TargetConnection {
    config: TargetConfig,
    link: Endpoint,
    initialized: bool,
    /// Commands whose data were asked for, by TTAG.
    waiting: Slab<AwaitingData>,
    /// The length of these data.
    r2t_bytes: u64,
    /// Commands whose data were not asked for yet, with the length of these.
    r2t_queue: VecDeque<(Sqe, u32)>,
}

#[derive(Debug)]
struct AwaitingData {
    sqe: Sqe,
    data: Payload,
    len: u32,
}

impl TargetConnection {
    /// A connection that was just accepted.
    pub fn new(config: TargetConfig) -> Self {
        let limits = DataLimits { in_capsule: config.in_capsule, data: config.max_data };
        TargetConnection {
            config,
            link: Endpoint::new(Role::Controller, limits),
            initialized: false,
            waiting: Slab::default(),
            r2t_bytes: 0,
            r2t_queue: VecDeque::new(),
        }
    }

    /// Takes bytes that came; appends what they are to `events`.
    pub fn receive(&mut self, mut bytes: &[u8], events: &mut Vec<TargetEvent>) {
        while let Some(pdu) = self.link.next(&mut bytes) {
            if let Err(closed) = self.take(pdu, events) {
                self.link.fail(closed);
            }
        }
    }

    /// Takes back what is done with, for what comes later.
    pub fn recycle(&mut self, event: TargetEvent) {
        if let TargetEvent::Command { data, .. } = event {
            self.link.decoder.recycle(data);
        }
    }

    fn take(&mut self, pdu: Pdu, events: &mut Vec<TargetEvent>) -> Result<(), CloseReason> {
        match pdu {
            Pdu::IcReq(request) if !self.initialized => self.initialize(&request),
            Pdu::Command { sqe, data } if self.initialized => self.command(sqe, data, events),
            Pdu::HostData { cid, ttag, offset, last, data } if self.initialized => {
                self.data(cid, ttag, offset, last, data, events)
            }
            _ => Err(protocol_error(FatalError::Sequence, "a PDU that may not come now")),
        }
    }

    fn initialize(&mut self, request: &Initialize) -> Result<(), CloseReason> {
        if request.version != 0 {
            return Err(protocol_error(FatalError::Unsupported, "PFV of ICReq is not 0"));
        }
        if request.alignment > 31 {
            return Err(protocol_error(FatalError::HeaderField, "HPDA of ICReq is above 31"));
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
        data: Payload,
        events: &mut Vec<TargetEvent>,
    ) -> Result<(), CloseReason> {
        let length = sqe.dptr.length.get();
        let travels = sqe.transfer() == Direction::ToController
            && sqe.dptr.kind == Sgl::TRANSPORT
            && length > 0;
        if data.damaged {
            let status = NvmeStatus::TRANSPORT;
            events.push(TargetEvent::Refuse { sqe, status });
        } else if !travels {
            events.push(TargetEvent::Command { sqe, data: data.bytes });
        } else if length > self.config.max_transfer {
            let status = NvmeStatus::INVALID_FIELD.do_not_retry();
            events.push(TargetEvent::Refuse { sqe, status });
        } else {
            return self.queue_r2t(sqe, length);
        }
        Ok(())
    }

    fn queue_r2t(&mut self, sqe: Sqe, length: u32) -> Result<(), CloseReason> {
        let waiting = self.waiting.len() + self.r2t_queue.len();
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

    /// Asks for the data of the commands whose turn it is.
    fn send_r2ts(&mut self) {
        let room = |r2t_bytes, length| {
            r2t_bytes == 0 || r2t_bytes + u64::from(length) <= self.config.max_r2t_bytes
        };
        while let Some((sqe, length)) =
            self.r2t_queue.pop_front_if(|(_, length)| room(self.r2t_bytes, *length))
        {
            self.r2t_bytes += u64::from(length);
            let cid = sqe.cid.get();
            let waiting = AwaitingData { sqe, data: Payload::default(), len: length };
            let ttag = self.waiting.insert(waiting);
            let ttag = u16::try_from(ttag).expect("no more wait than a TTAG can count");
            self.link.send(&Pdu::ReadyToTransfer { cid, ttag, offset: 0, length });
        }
    }

    fn data(
        &mut self,
        cid: u16,
        ttag: u16,
        offset: u32,
        last: bool,
        data: Payload,
        events: &mut Vec<TargetEvent>,
    ) -> Result<(), CloseReason> {
        let waiting = self.waiting.get_mut(ttag.into());
        let waiting = waiting.filter(|waiting| waiting.sqe.cid.get() == cid);
        let waiting =
            waiting.ok_or(protocol_error(FatalError::HeaderField, "data for no transfer"))?;
        if offset as usize != waiting.data.bytes.len() {
            return Err(protocol_error(FatalError::OutOfRange, "data out of order"));
        }
        let len = waiting.len as usize;
        let came = waiting.data.bytes.len() + data.bytes.len();
        if came > len {
            return Err(protocol_error(FatalError::OutOfRange, "more data than was asked for"));
        }
        if last != (came == len) {
            return Err(protocol_error(
                FatalError::Sequence,
                "the last data are not marked so, or others are",
            ));
        }
        self.link.decoder.append_data(&mut waiting.data, len, data);
        if last {
            let AwaitingData { sqe, data, len } =
                self.waiting.remove(ttag.into()).expect("just seen");
            self.r2t_bytes -= u64::from(len);
            self.send_r2ts();
            events.push(if data.damaged {
                TargetEvent::Refuse { sqe, status: NvmeStatus::TRANSPORT }
            } else {
                TargetEvent::Command { sqe, data: data.bytes }
            });
        }
        Ok(())
    }

    /// Sends the end of a command, after the data that it brings the host.
    pub fn respond(&mut self, cqe: Cqe, data: &[u8]) {
        if self.link.closed.is_some() {
            return;
        }
        let chunk = self.config.max_data as usize;
        let mut offset = 0;
        for piece in data.chunks(chunk) {
            let last = offset as usize + piece.len() == data.len();
            let (format, cid) = (self.link.format, cqe.cid.get());
            controller_data(cid, offset, last, false, piece, format, &mut self.link.output);
            offset += u32::try_from(piece.len()).expect("a piece of 32-bit length");
        }
        self.link.send(&Pdu::Response(cqe));
    }

    /// Bytes to send; who sends them takes them out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.link.output
    }

    /// Why the connection is closed, once it is: to be shut down when the output was sent.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.link.closed.as_ref()
    }
}
