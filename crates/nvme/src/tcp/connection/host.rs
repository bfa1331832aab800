//! The host's side.
use super::{CloseReason, Endpoint, invalid_field, protocol_error};
use crate::tcp::decode::DataLimits;
use crate::tcp::encode::{DataDigest, append, command, host_data};
use crate::tcp::output::{LONG_DATA, Output};
use crate::tcp::pdu::{Digests, FatalError, Format, Initialize, Pdu, Role};
use crate::wire::queue::Transfer;
use crate::wire::{Cqe, Sgl, Sqe};
use std::io::IoSlice;
use std::mem::take;
use zonal_blk::{Buf, BufPool, Outgoing};

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
#[derive(Debug)]
pub enum HostEvent {
    /// The connection is initialized: commands can be submitted.
    Ready,
    /// A command has completed.
    Completed {
        /// Its completion.
        cqe: Cqe,
        /// Its buffer, and what was received.
        data: CommandData,
    },
}

/// The data of a completed command.
#[derive(Debug, Default)]
pub struct CommandData {
    /// The buffer that was submitted with it.
    pub buf: Option<Buf>,
    /// Bytes of it that the target has sent.
    pub received: usize,
    /// A data digest did not match: what was received must not be used.
    pub damaged: bool,
}

impl CommandData {
    /// The data that the target has sent, which must not be used if damaged.
    pub fn received(&self) -> &[u8] {
        self.buf.as_deref().map_or(&[], |buf| &buf[..self.received])
    }
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

/// A command that was not submitted.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotSubmitted {
    /// Why.
    pub error: SubmitError,
    /// Its buffer.
    pub buf: Option<Buf>,
}

/// A host's connection.
#[derive(Debug)]
pub struct HostConnection {
    config: HostConfig,
    link: Endpoint<Place>,
    /// Commands that have completed and wait until their data have been sent, which are in their buffers.
    completed: Vec<Cqe>,
    /// MAXH2CDATA, once the connection is initialized.
    max_data: Option<u32>,
    /// By CID.
    commands: Vec<Option<PendingCommand>>,
    outstanding: usize,
    /// The commands of them that read long data.
    long_reads: usize,
    /// The PDU that is being received, and the length of its data.
    receiving: Option<(Pdu, usize)>,
    bufs: BufPool,
}

/// A command in flight.
#[derive(Debug)]
struct PendingCommand {
    transfer: Transfer,
    buf: Option<Buf>,
    received: usize,
    damaged: bool,
    /// Bytes of the buffer that the target has requested, or that are in the capsule.
    requested: usize,
    /// Where in the output the last of them end.
    sent_at: u64,
    /// The target has completed it.
    completed: bool,
}

impl PendingCommand {
    /// The buffer for data from the target.
    fn incoming(&mut self) -> Option<&mut [u8]> {
        self.buf.as_deref_mut().filter(|_| self.transfer == Transfer::ToHost)
    }

    fn is_long_read(&self) -> bool {
        self.transfer == Transfer::ToHost
            && self.buf.as_ref().is_some_and(|buf| buf.len() >= LONG_DATA)
    }
}

/// Where long data are that wait to be sent: in the buffer of a command in flight.
#[derive(Debug)]
struct Place {
    cid: u16,
    offset: usize,
}

impl HostConnection {
    /// A connection that was just opened. Its output is ICReq.
    pub fn new(config: HostConfig) -> Self {
        let limits = DataLimits { in_capsule: 0, data: config.max_data };
        let mut link = Endpoint::new(Role::Host, limits);
        let HostConfig { digests, alignment, .. } = config;
        link.send(&Pdu::IcReq(Initialize { version: 0, alignment, digests, limit: 0 }));
        HostConnection {
            config,
            link,
            max_data: None,
            completed: Vec::new(),
            commands: Vec::new(),
            outstanding: 0,
            long_reads: 0,
            receiving: None,
            bufs: BufPool::default(),
        }
    }

    /// Sets the maximum data in a command capsule.
    pub fn set_in_capsule(&mut self, bytes: u32) {
        self.config.in_capsule = bytes;
    }

    /// A buffer of `len` bytes of any value, a [recycled](Self::recycle) one if possible; `None` if there
    /// is no memory for it.
    pub fn take_buffer(&mut self, len: usize) -> Option<Buf> {
        self.bufs.sized(len)
    }

    /// Takes back a buffer, to reuse the memory.
    pub fn recycle(&mut self, buf: Buf) {
        self.bufs.put(buf, self.config.max_data as usize);
    }

    /// Submits a command with a buffer, which its completion gives back: with data for the target, or
    /// for data from it. Sets the command's data pointer. Commands are kept in a table by their
    /// identifiers, which should be small.
    ///
    /// # Errors
    /// Why it cannot be submitted.
    ///
    /// # Panics
    /// If the buffer has 4 GiB or more.
    pub fn submit(&mut self, mut sqe: Sqe, buf: Option<Buf>) -> Result<(), NotSubmitted> {
        let cid = sqe.cid.get();
        let place = usize::from(cid);
        if self.max_data.is_none() || self.link.closed.is_some() {
            return Err(NotSubmitted { error: SubmitError::NotReady, buf });
        }
        if self.commands.len() <= place {
            self.commands.resize_with(place + 1, || None);
        } else if self.commands[place].is_some() {
            return Err(NotSubmitted { error: SubmitError::CidInUse(cid), buf });
        }
        let len = buf.as_ref().map_or(0, Buf::len);
        let len = u32::try_from(len).expect("less than 4 GiB");
        let transfer = sqe.transfer();
        let outgoing = buf.as_deref().filter(|_| transfer == Transfer::ToController);
        let in_capsule = outgoing.filter(|_| len > 0 && len <= self.config.in_capsule);
        sqe.dptr = if in_capsule.is_some() { Sgl::in_capsule(len) } else { Sgl::transport(len) };
        let output = &mut self.link.output;
        let data = in_capsule.unwrap_or_default();
        let digest = command(&sqe, data, self.link.format, output.copied());
        push_data(output, data, Place { cid, offset: 0 }, digest);
        let (requested, sent_at) = (data.len(), output.end());
        let pending = PendingCommand {
            transfer,
            buf,
            received: 0,
            damaged: false,
            requested,
            sent_at,
            completed: false,
        };
        self.long_reads += usize::from(pending.is_long_read());
        self.commands[place] = Some(pending);
        self.outstanding += 1;
        Ok(())
    }

    /// Takes received bytes, of which there may be none. Appends the events that they complete to
    /// `events`, and those of commands whose data have been sent since. To be called after each call of
    /// [`sent`](Outgoing::sent).
    pub fn receive(&mut self, mut bytes: &[u8], events: &mut Vec<HostEvent>) {
        self.end_completed(events);
        while self.link.closed.is_none() {
            if self.receiving.is_none() {
                let Some((pdu, len)) = self.link.header(&mut bytes) else { return };
                if let Err(closed) = self.check(&pdu, len) {
                    return self.link.fail(closed);
                }
                self.receiving = Some((pdu, len));
            }
            let (offset, piece) = self.link.decoder.data(&mut bytes);
            if !piece.is_empty()
                && let Some(data) = self.pdu_data()
            {
                data[offset..offset + piece.len()].copy_from_slice(piece);
            }
            if !self.finish(events) {
                return;
            }
        }
    }

    /// Whether a command is in flight that reads long data.
    pub fn expects_long_data(&self) -> bool {
        self.long_reads > 0
    }

    /// Where the next bytes of the connection belong, if they are data of a command. To save a copy,
    /// read from the socket into it and call [`HostConnection::data_received`].
    pub fn data_buffer(&mut self) -> Option<&mut [u8]> {
        let missing = self.link.decoder.missing_data();
        if missing == 0 || self.link.closed.is_some() {
            return None;
        }
        let data = self.pdu_data()?;
        let received = data.len() - missing;
        Some(&mut data[received..])
    }

    /// Notes that the first `len` bytes of the [`HostConnection::data_buffer`] were received.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn data_received(&mut self, len: usize, events: &mut Vec<HostEvent>) {
        let missing = self.link.decoder.missing_data();
        if let Some(data) = pdu_data(self.receiving.as_ref(), &mut self.commands) {
            let received = data.len() - missing;
            self.link.decoder.data_received(&data[received..received + len]);
        }
        self.finish(events);
    }

    /// The memory for the data of the PDU that is being received.
    fn pdu_data(&mut self) -> Option<&mut [u8]> {
        pdu_data(self.receiving.as_ref(), &mut self.commands)
    }

    /// Whether a PDU with `len` bytes of data may come now.
    fn check(&mut self, pdu: &Pdu, len: usize) -> Result<(), CloseReason> {
        match (pdu, self.max_data) {
            (Pdu::IcResp(_), None) | (Pdu::ReadyToTransfer { .. } | Pdu::Response(_), Some(_)) => {
                Ok(())
            }
            (&Pdu::ControllerData { cid, offset, last, success, .. }, Some(_)) => {
                let pending = pending(&mut self.commands, cid, 8)?;
                let received = pending.received;
                let room = pending.incoming().map_or(0, |buf| buf.len());
                if offset as usize != received || received + len > room {
                    let what = "data out of order, or more than requested";
                    return Err(protocol_error(FatalError::OutOfRange, what));
                }
                if success && !last {
                    let what = "success before the last data";
                    return Err(invalid_field(FatalError::HeaderField, 1, what));
                }
                Ok(())
            }
            _ => Err(protocol_error(FatalError::Sequence, "a PDU that may not come now")),
        }
    }

    /// Ends the PDU that is being received if it is complete. Returns whether it is.
    fn finish(&mut self, events: &mut Vec<HostEvent>) -> bool {
        let Some(damaged) = self.link.decoder.finish() else { return false };
        let Some((pdu, len)) = self.receiving.take() else { return true };
        if let Err(closed) = self.execute(&pdu, len, damaged, events) {
            self.link.fail(closed);
        }
        true
    }

    /// Does what a complete PDU says.
    fn execute(
        &mut self,
        pdu: &Pdu,
        len: usize,
        damaged: bool,
        events: &mut Vec<HostEvent>,
    ) -> Result<(), CloseReason> {
        match *pdu {
            Pdu::IcResp(ref response) => {
                self.initialized(response)?;
                events.push(HostEvent::Ready);
                Ok(())
            }
            Pdu::ReadyToTransfer { cid, ttag, offset, length } => {
                self.send_data(cid, ttag, offset, length)
            }
            Pdu::ControllerData { cid, success, .. } => {
                let pending = pending(&mut self.commands, cid, 8)?;
                pending.received += len;
                pending.damaged |= damaged;
                let cqe = Cqe::new(cid, crate::NvmeStatus::SUCCESS);
                if success { self.complete(cqe, events) } else { Ok(()) }
            }
            Pdu::Response(cqe) => self.complete(cqe, events),
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

    /// Sends the data of an R2T, in PDUs of at most MAXH2CDATA bytes. ICReq allows one R2T of a command at
    /// a time; they request its data in order and once.
    fn send_data(
        &mut self,
        cid: u16,
        ttag: u16,
        offset: u32,
        length: u32,
    ) -> Result<(), CloseReason> {
        let max = self.max_data.unwrap_or_default() as usize;
        let output = &mut self.link.output;
        let pending = pending(&mut self.commands, cid, 8)?;
        if pending.sent_at > output.sent_until() {
            let what = "R2T before the data of the last one were sent, expected one at a time";
            return Err(protocol_error(FatalError::LimitExceeded, what));
        }
        let (start, end) = (offset as usize, (offset as usize).saturating_add(length as usize));
        let outgoing =
            pending.buf.as_deref().filter(|_| pending.transfer == Transfer::ToController);
        let range = outgoing
            .filter(|_| start == pending.requested)
            .and_then(|data| data.get(start..end))
            .filter(|range| !range.is_empty());
        let what = "R2T beyond the command's data, or out of order";
        let range = range.ok_or(protocol_error(FatalError::OutOfRange, what))?;
        let mut at = offset;
        for piece in range.chunks(max) {
            let last = at as usize + piece.len() == end;
            let digest = host_data(cid, ttag, at, last, piece, self.link.format, output.copied());
            push_data(output, piece, Place { cid, offset: at as usize }, digest);
            at += u32::try_from(piece.len()).expect("a piece of 32-bit length");
        }
        (pending.requested, pending.sent_at) = (end, output.end());
        Ok(())
    }

    /// Completes a command when its data have been sent. A target may complete it before, but may not
    /// make this side keep the data of more commands than are in flight.
    fn complete(&mut self, cqe: Cqe, events: &mut Vec<HostEvent>) -> Result<(), CloseReason> {
        let cid = cqe.cid.get();
        // CID is after twelve bytes of the completion; the one of C2HData has been checked.
        let pending = pending(&mut self.commands, cid, 20)?;
        if pending.sent_at > self.link.output.sent_until() {
            pending.completed = true;
            self.completed.push(cqe);
        } else {
            self.end(cqe, events);
        }
        Ok(())
    }

    /// Ends the completed commands whose data have been sent since.
    fn end_completed(&mut self, events: &mut Vec<HostEvent>) {
        if self.completed.is_empty() {
            return;
        }
        let sent = self.link.output.sent_until();
        let (ended, waiting) = take(&mut self.completed).into_iter().partition(|cqe| {
            let pending = self.commands[usize::from(cqe.cid.get())].as_ref();
            pending.is_some_and(|pending| pending.sent_at <= sent)
        });
        self.completed = waiting;
        Vec::into_iter(ended).for_each(|cqe| self.end(cqe, events));
    }

    /// Ends a command in flight.
    fn end(&mut self, cqe: Cqe, events: &mut Vec<HostEvent>) {
        let pending = self.commands[usize::from(cqe.cid.get())].take();
        let pending = pending.expect("a command in flight");
        self.outstanding -= 1;
        self.long_reads -= usize::from(pending.is_long_read());
        let PendingCommand { buf, received, damaged, .. } = pending;
        events.push(HostEvent::Completed { cqe, data: CommandData { buf, received, damaged } });
    }

    /// Ends the connection. Gives back the buffers of the commands in flight, by their identifiers.
    pub fn into_buffers(self) -> impl Iterator<Item = (u16, Buf)> {
        let commands = self.commands.into_iter().zip(0..);
        commands.filter_map(|(pending, cid)| Some((cid, pending?.buf?)))
    }

    /// Commands in flight.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Why the connection is closed, once it is.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.link.closed.as_ref()
    }
}

impl Outgoing for HostConnection {
    fn unsent(&self) -> usize {
        self.link.output.unsent()
    }

    fn next_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.link.output.next_slices(slices, |Place { cid, offset }| {
            let pending = self.commands[usize::from(*cid)].as_ref();
            let buf = pending.and_then(|pending| pending.buf.as_deref());
            &buf.expect("a command in flight with data")[*offset..]
        })
    }

    fn sent(&mut self, len: usize) {
        self.link.output.sent(len, drop);
    }
}

/// Appends data, which are at `place` if they are long, and their digest.
fn push_data(output: &mut Output<Place>, data: &[u8], place: Place, digest: DataDigest) {
    if data.len() < LONG_DATA {
        append(data, digest, output.copied());
    } else {
        output.push_long(place, data.len());
        append(&[], digest, output.copied());
    }
}

/// A command in flight that has not completed. `offset` is that of its identifier in the header.
fn pending(
    commands: &mut [Option<PendingCommand>],
    cid: u16,
    offset: u32,
) -> Result<&mut PendingCommand, CloseReason> {
    let pending = commands.get_mut(usize::from(cid)).and_then(Option::as_mut);
    let pending = pending.filter(|pending| !pending.completed);
    let what = "a PDU for a command that is not in flight";
    pending.ok_or(invalid_field(FatalError::HeaderField, offset, what))
}

/// The memory for the data of the PDU that is being received.
fn pdu_data<'a>(
    receiving: Option<&(Pdu, usize)>,
    commands: &'a mut [Option<PendingCommand>],
) -> Option<&'a mut [u8]> {
    let &(Pdu::ControllerData { cid, .. }, len) = receiving? else { return None };
    let pending = commands.get_mut(usize::from(cid))?.as_mut()?;
    let range = pending.received..pending.received + len;
    Some(&mut pending.incoming()?[range])
}
