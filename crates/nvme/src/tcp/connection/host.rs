//! The host's side.
use super::{CloseReason, Endpoint, invalid_field, protocol_error};
use crate::tcp::decode::DataLimits;
use crate::tcp::encode::{command, host_data};
use crate::tcp::pdu::{Digests, FatalError, Format, Initialize, Payload, Pdu, Role};
use crate::wire::{Cqe, Sgl, Sqe};

/// Limits and preferences of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Digests to request.
    pub digests: Digests,
    /// Alignment of data sent to it, in dwords, minus one; at most 31 (HPDA).
    pub alignment: u8,
    /// Maximum data in a command capsule, in bytes: 8192 for Fabrics and admin commands (TCP section
    /// 3.5), for others what IOCCSZ allows.
    pub in_capsule: u32,
    /// Maximum data of a C2HData PDU, in bytes.
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

/// An event of a host's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The connection is initialized: commands can be submitted.
    Ready,
    /// A command has completed.
    Completed {
        /// Its completion.
        cqe: Cqe,
        /// Its data, which must not be used if damaged.
        data: Payload,
    },
}

/// Why a command cannot be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The connection is not initialized, or closed.
    #[error("the connection is not there")]
    NotReady,
    /// A command with this identifier is in flight.
    #[error("command identifier {0} is in use")]
    CidInUse(u16),
}

/// A host's connection.
#[derive(Debug)]
pub struct HostConnection {
    config: HostConfig,
    link: Endpoint,
    /// MAXH2CDATA, once the connection is initialized.
    max_data: Option<u32>,
    /// By CID.
    commands: Vec<Option<PendingCommand>>,
    outstanding: usize,
}

/// A command in flight.
#[derive(Debug)]
struct PendingCommand {
    /// Data that the target will request.
    outgoing: Vec<u8>,
    incoming: Payload,
    /// Maximum length of `incoming` in bytes.
    read_len: u32,
}

impl HostConnection {
    /// A connection that was just opened. Its output is ICReq.
    pub fn new(config: HostConfig) -> Self {
        let limits = DataLimits { in_capsule: 0, data: config.max_data };
        let mut link = Endpoint::new(Role::Host, limits);
        let HostConfig { digests, alignment, .. } = config;
        link.send(&Pdu::IcReq(Initialize { version: 0, alignment, digests, limit: 0 }));
        HostConnection { config, link, max_data: None, commands: Vec::new(), outstanding: 0 }
    }

    /// Sets the maximum data in a command capsule.
    pub fn set_in_capsule(&mut self, bytes: u32) {
        self.config.in_capsule = bytes;
    }

    /// A buffer for the data of a write: `len` bytes of any value, a [recycled](Self::recycle) one if
    /// possible.
    pub fn take_buffer(&mut self, len: usize) -> Vec<u8> {
        self.link.decoder.take_len(len)
    }

    /// Takes back the data of a completed command, to reuse the memory.
    pub fn recycle(&mut self, data: Vec<u8>) {
        self.link.decoder.recycle(data);
    }

    /// Submits a command with data for the target, or up to `read_len` bytes from it. Sets the command's
    /// data pointer. Commands are kept in a table by their identifiers, which should be small.
    ///
    /// # Errors
    /// Why it cannot be submitted.
    ///
    /// # Panics
    /// If the data are 4 GiB or more.
    pub fn submit(
        &mut self,
        mut sqe: Sqe,
        data: Vec<u8>,
        read_len: u32,
    ) -> Result<(), SubmitError> {
        if self.max_data.is_none() || self.link.closed.is_some() {
            return Err(SubmitError::NotReady);
        }
        let cid = sqe.cid.get();
        let place = usize::from(cid);
        if self.commands.len() <= place {
            self.commands.resize_with(place + 1, || None);
        } else if self.commands[place].is_some() {
            return Err(SubmitError::CidInUse(cid));
        }
        let len = u32::try_from(data.len()).expect("less than 4 GiB");
        let in_capsule = len > 0 && len <= self.config.in_capsule;
        sqe.dptr =
            if in_capsule { Sgl::in_capsule(len) } else { Sgl::transport(len.max(read_len)) };
        let travels = if in_capsule { &data[..] } else { &[] };
        command(&sqe, travels, self.link.format, &mut self.link.output);
        let mut sent =
            PendingCommand { outgoing: Vec::new(), incoming: Payload::default(), read_len };
        if in_capsule {
            self.recycle(data);
        } else {
            sent.outgoing = data;
        }
        self.commands[place] = Some(sent);
        self.outstanding += 1;
        Ok(())
    }

    /// Takes received bytes. Appends the events that they complete to `events`.
    pub fn receive(&mut self, mut bytes: &[u8], events: &mut Vec<HostEvent>) {
        while let Some(pdu) = self.link.next(&mut bytes) {
            if let Err(closed) = self.take(pdu, events) {
                self.link.fail(closed);
            }
        }
    }

    fn take(&mut self, pdu: Pdu, events: &mut Vec<HostEvent>) -> Result<(), CloseReason> {
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
                    let what = "success before the last data";
                    return Err(invalid_field(FatalError::HeaderField, 1, what));
                }
                if success {
                    self.complete(Cqe::new(cid, crate::NvmeStatus::SUCCESS), events)
                } else {
                    Ok(())
                }
            }
            (Pdu::Response(cqe), Some(_)) => self.complete(cqe, events),
            _ => Err(protocol_error(FatalError::Sequence, "a PDU that may not come now")),
        }
    }

    fn initialized(&mut self, response: &Initialize) -> Result<(), CloseReason> {
        /// The minimum of MAXH2CDATA (TCP section 3.6.2.3).
        const MIN_DATA: u32 = 4096;
        if response.version != 0 {
            return Err(invalid_field(FatalError::Unsupported, 8, "PFV of ICResp is not 0"));
        }
        if response.alignment > 31 {
            return Err(invalid_field(FatalError::HeaderField, 10, "CPDA of ICResp is above 31"));
        }
        if response.limit < MIN_DATA {
            let what = "MAXH2CDATA of ICResp is below 4096";
            return Err(invalid_field(FatalError::HeaderField, 12, what));
        }
        let (asked, granted) = (self.config.digests, response.digests);
        if granted.header && !asked.header || granted.data && !asked.data {
            let what = "ICResp has digests that were not requested";
            return Err(invalid_field(FatalError::HeaderField, 11, what));
        }
        self.link.format = Format { digests: granted, alignment: response.alignment };
        let alignment = self.config.alignment;
        self.link.decoder.set_format(Format { digests: granted, alignment });
        self.max_data = Some(response.limit);
        Ok(())
    }

    /// Sends the data of an R2T, in PDUs of at most `max` bytes.
    fn send_data(
        &mut self,
        cid: u16,
        ttag: u16,
        offset: u32,
        length: u32,
        max: u32,
    ) -> Result<(), CloseReason> {
        let sent = sent(&mut self.commands, cid, 8)?;
        let end = (offset as usize).saturating_add(length as usize);
        let range = sent.outgoing.get(offset as usize..end).filter(|range| !range.is_empty());
        let range =
            range.ok_or(protocol_error(FatalError::OutOfRange, "R2T beyond the command's data"))?;
        let mut at = offset;
        for piece in range.chunks(max as usize) {
            let last = at as usize + piece.len() == end;
            host_data(cid, ttag, at, last, piece, self.link.format, &mut self.link.output);
            at += u32::try_from(piece.len()).expect("a piece of 32-bit length");
        }
        Ok(())
    }

    fn data(&mut self, cid: u16, offset: u32, data: Payload) -> Result<(), CloseReason> {
        let sent = sent(&mut self.commands, cid, 8)?;
        let (received, read_len) = (sent.incoming.bytes.len(), sent.read_len as usize);
        if offset as usize != received || received + data.bytes.len() > read_len {
            return Err(protocol_error(
                FatalError::OutOfRange,
                "data out of order, or more than requested",
            ));
        }
        self.link.decoder.append_data(&mut sent.incoming, read_len, data);
        Ok(())
    }

    fn complete(&mut self, cqe: Cqe, events: &mut Vec<HostEvent>) -> Result<(), CloseReason> {
        let cid = cqe.cid.get();
        // CID is behind twelve bytes of the completion; the one of C2HData has been checked.
        sent(&mut self.commands, cid, 20)?;
        let sent = self.commands[usize::from(cid)].take().expect("just seen");
        self.outstanding -= 1;
        self.link.decoder.recycle(sent.outgoing);
        events.push(HostEvent::Completed { cqe, data: sent.incoming });
        Ok(())
    }

    /// Commands in flight.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Bytes to send. The caller removes those that it has sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.link.output
    }

    /// Why the connection is closed, once it is.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.link.closed.as_ref()
    }
}

/// A command in flight. `offset` is that of its identifier in the header.
fn sent(
    commands: &mut [Option<PendingCommand>],
    cid: u16,
    offset: u32,
) -> Result<&mut PendingCommand, CloseReason> {
    let sent = commands.get_mut(usize::from(cid)).and_then(Option::as_mut);
    let what = "a PDU for a command that was not sent";
    sent.ok_or(invalid_field(FatalError::HeaderField, offset, what))
}
