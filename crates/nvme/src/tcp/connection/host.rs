//! The host's side.
use super::{Closed, Link, fault};
use crate::tcp::decode::DataLimits;
use crate::tcp::error::FatalError;
use crate::tcp::pdu::{Digests, Format, Initialize, Payload, Pdu, Role};
use crate::wire::{Cqe, Sgl, Sqe};
use std::collections::BTreeMap;

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Digests.
    pub digests: Digests,
    /// Alignment of data sent to it, in dwords, minus one; up to 31 (HPDA).
    pub alignment: u8,
    /// The most data that it puts in a command capsule, in bytes: 8192 for fabrics and admin
    /// commands (TCP section 3.5), for others what IOCCSZ allows.
    pub in_capsule: u32,
    /// The most data of a C2HData PDU that it takes, in bytes.
    pub max_data: u32,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            digests: Digests::default(),
            alignment: 0,
            in_capsule: 8192,
            max_data: 16 << 20,
        }
    }
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The connection is there: commands can be sent.
    Ready,
    /// A command has ended.
    Ended {
        /// How.
        cqe: Cqe,
        /// Data that it brought; damaged ones are not to be used.
        data: Payload,
    },
}

/// A command that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// There is no connection, or no longer.
    #[error("the connection is not there")]
    NotReady,
    /// A command with this identifier is on its way.
    #[error("command identifier {0} is in use")]
    Taken(u16),
}

/// A host's connection.
#[derive(Debug)]
pub struct HostConnection {
    config: HostConfig,
    link: Link,
    /// MAXH2CDATA, once the target has said it.
    max_data: Option<u32>,
    commands: BTreeMap<u16, Sent>,
}

/// A command on its way.
#[derive(Debug)]
struct Sent {
    /// Data that the target will ask for.
    outgoing: Vec<u8>,
    incoming: Payload,
    /// Bytes of data that may come.
    room: u32,
}

impl HostConnection {
    /// A connection that was just made: its output asks the target to initialize it.
    pub fn new(config: HostConfig) -> Self {
        let limits = DataLimits { in_capsule: 0, data: config.max_data };
        let mut link = Link::new(Role::Host, limits);
        let HostConfig { digests, alignment, .. } = config;
        link.send(&Pdu::IcReq(Initialize { version: 0, alignment, digests, limit: 0 }));
        HostConnection { config, link, max_data: None, commands: BTreeMap::new() }
    }

    /// Changes the most data that go in a command capsule.
    pub fn set_in_capsule(&mut self, bytes: u32) {
        self.config.in_capsule = bytes;
    }

    /// Sends a command with data for the target, or room for `room` bytes from it. The command's
    /// data pointer is set here.
    ///
    /// # Errors
    /// Why it cannot be sent.
    ///
    /// # Panics
    /// If the data are 4 GiB or more.
    pub fn submit(&mut self, mut sqe: Sqe, data: Vec<u8>, room: u32) -> Result<(), SubmitError> {
        if self.max_data.is_none() || self.link.closed.is_some() {
            return Err(SubmitError::NotReady);
        }
        let cid = sqe.cid.get();
        if self.commands.contains_key(&cid) {
            return Err(SubmitError::Taken(cid));
        }
        let len = u32::try_from(data.len()).expect("less than 4 GiB");
        let (in_capsule, outgoing) =
            if len <= self.config.in_capsule { (data, Vec::new()) } else { (Vec::new(), data) };
        sqe.dptr = match (in_capsule.len(), len.max(room)) {
            (0, 0) => Sgl::transport(0),
            (0, length) => Sgl::transport(length),
            _ => Sgl::in_capsule(len),
        };
        self.link.send(&Pdu::Command { sqe, data: in_capsule.into() });
        self.commands.insert(cid, Sent { outgoing, incoming: Payload::default(), room });
        Ok(())
    }

    /// Takes bytes that came; appends what they are to `events`.
    pub fn receive(&mut self, mut bytes: &[u8], events: &mut Vec<HostEvent>) {
        while let Some(pdu) = self.link.next(&mut bytes) {
            if let Err(closed) = self.take(pdu, events) {
                self.link.fail(closed);
            }
        }
    }

    fn take(&mut self, pdu: Pdu, events: &mut Vec<HostEvent>) -> Result<(), Closed> {
        let ready = self.max_data;
        match (pdu, ready) {
            (Pdu::IcResp(response), None) => {
                self.initialized(&response)?;
                events.push(HostEvent::Ready);
                Ok(())
            }
            (Pdu::ReadyToTransfer { cid, ttag, offset, length }, Some(max)) => {
                self.send_data(cid, ttag, offset, length, max)
            }
            (Pdu::ControllerData { cid, offset, last, success, data }, Some(_)) => {
                self.data(cid, offset, data)?;
                if success && !last {
                    return Err(fault(FatalError::HeaderField, "success before the last data"));
                }
                if success {
                    self.ended(Cqe::new(cid, crate::NvmeStatus::SUCCESS), events)
                } else {
                    Ok(())
                }
            }
            (Pdu::Response(cqe), Some(_)) => self.ended(cqe, events),
            _ => Err(fault(FatalError::Sequence, "a PDU that may not come now")),
        }
    }

    fn initialized(&mut self, response: &Initialize) -> Result<(), Closed> {
        /// The least that MAXH2CDATA may be (TCP section 3.6.2.3).
        const MIN_DATA: u32 = 4096;
        if response.version != 0 {
            return Err(fault(FatalError::Unsupported, "PFV of ICResp is not 0"));
        }
        if response.alignment > 31 || response.limit < MIN_DATA {
            return Err(fault(FatalError::HeaderField, "CPDA or MAXH2CDATA of ICResp is invalid"));
        }
        let (asked, granted) = (self.config.digests, response.digests);
        if granted.header && !asked.header || granted.data && !asked.data {
            return Err(fault(FatalError::HeaderField, "ICResp has digests that nobody asked for"));
        }
        self.link.format = Format { digests: granted, alignment: response.alignment };
        let alignment = self.config.alignment;
        self.link.decoder.agree(Format { digests: granted, alignment });
        self.max_data = Some(response.limit);
        Ok(())
    }

    fn sent(&mut self, cid: u16) -> Result<&mut Sent, Closed> {
        let none = fault(FatalError::HeaderField, "a PDU for a command that was not sent");
        self.commands.get_mut(&cid).ok_or(none)
    }

    /// Sends what the target asks for, in pieces that it takes.
    fn send_data(
        &mut self,
        cid: u16,
        ttag: u16,
        offset: u32,
        length: u32,
        max: u32,
    ) -> Result<(), Closed> {
        let sent = self.sent(cid)?;
        let end = (offset as usize).saturating_add(length as usize);
        let range = sent.outgoing.get(offset as usize..end).filter(|range| !range.is_empty());
        let range =
            range.ok_or(fault(FatalError::OutOfRange, "R2T for data that are not there"))?;
        let mut pieces = Vec::new();
        let mut at = offset;
        for piece in range.chunks(max as usize) {
            let (data, last) = (Payload::from(piece.to_vec()), at as usize + piece.len() == end);
            pieces.push(Pdu::HostData { cid, ttag, offset: at, last, data });
            at += u32::try_from(piece.len()).expect("a piece of 32-bit length");
        }
        pieces.iter().for_each(|pdu| self.link.send(pdu));
        Ok(())
    }

    fn data(&mut self, cid: u16, offset: u32, data: Payload) -> Result<(), Closed> {
        let sent = self.sent(cid)?;
        let came = sent.incoming.bytes.len();
        if offset as usize != came || came + data.bytes.len() > sent.room as usize {
            return Err(fault(FatalError::OutOfRange, "data out of order, or more than asked for"));
        }
        sent.incoming.add(data);
        Ok(())
    }

    fn ended(&mut self, cqe: Cqe, events: &mut Vec<HostEvent>) -> Result<(), Closed> {
        let cid = cqe.cid.get();
        self.sent(cid)?;
        let sent = self.commands.remove(&cid).expect("just seen");
        events.push(HostEvent::Ended { cqe, data: sent.incoming });
        Ok(())
    }

    /// Commands that have not ended.
    pub fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// Bytes to send; who sends them takes them out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.link.output
    }

    /// Why the connection is closed, once it is.
    pub fn closed(&self) -> Option<&Closed> {
        self.link.closed.as_ref()
    }
}
