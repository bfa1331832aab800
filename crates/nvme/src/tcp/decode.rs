//! Bytes to PDUs.
//!
//! ```text
//!  header (its length is in the first 8 bytes), digest -> Pdu without its data
//!  padding, data, digest                               -> pieces of the data, and whether they are damaged
//! ```
//!
//! A header is checked as soon as it is complete, before memory is spent on the data it announces.
//! [`Decoder::decode`] collects whole PDUs; a connection that knows where the data belong uses the
//! steps ([`Decoder::header`], [`Decoder::data`], [`Decoder::finish`]) and may read data from its
//! socket straight to where they belong ([`Decoder::missing_data`]).
use super::digest;
use super::pdu::{
    CommonHeader, DataBody, Digests, FatalError, Format, Initialize, InitializeBody,
    MAX_TERMINATE_DATA, Payload, Pdu, PduError, PduType, Role, TerminateBody, flag,
};
use crate::wire::{Cqe, Sqe};
use zerocopy::FromBytes;

/// Limits on the data of one PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataLimits {
    /// In a command capsule, in bytes.
    pub in_capsule: u32,
    /// In a data PDU, in bytes: MAXH2CDATA, or for a host what it accepts.
    pub data: u32,
}

/// The longest header, with its digest: ICReq has no digest, a command has 72 bytes and four.
const MAX_HEADER: usize = 128;

/// Decodes the bytes of a connection, in pieces of any length.
#[derive(Debug)]
pub struct Decoder {
    /// The side whose PDUs are decoded.
    sender: Role,
    format: Format,
    limits: DataLimits,
    /// The header and its digest, as far as received; kept until the next PDU begins. The capacity is that
    /// of the longest.
    header: Vec<u8>,
    /// The PDU of `header` has ended.
    finished: bool,
    /// The part after the header, once that is complete.
    body: Option<Body>,
    /// The PDU that [`Decoder::decode`] collects, with its data.
    partial: Option<(Pdu, Vec<u8>)>,
}

/// The part after a header.
#[derive(Debug, Default)]
struct Body {
    /// Bytes of padding that are missing.
    padding: usize,
    /// Bytes of data.
    len: usize,
    /// Bytes of data received.
    received: usize,
    digest: Option<Digest>,
}

/// The data digest.
#[derive(Debug, Default)]
struct Digest {
    /// Of the data received.
    crc: u32,
    bytes: [u8; 4],
    /// Of these bytes.
    received: usize,
}

impl Digest {
    /// Takes bytes of the digest from `input`.
    fn receive(&mut self, input: &mut &[u8]) {
        let missing = &mut self.bytes[self.received..];
        let (taken, rest) = input.split_at(input.len().min(missing.len()));
        missing[..taken.len()].copy_from_slice(taken);
        self.received += taken.len();
        *input = rest;
    }
}

impl Decoder {
    /// For PDUs of `sender`, from the first byte of a connection on.
    pub fn new(sender: Role, limits: DataLimits) -> Self {
        Decoder {
            sender,
            format: Format::default(),
            limits,
            header: Vec::with_capacity(MAX_HEADER),
            finished: false,
            body: None,
            partial: None,
        }
    }

    /// Sets the limits on data, from the next PDU on.
    pub fn set_limits(&mut self, limits: DataLimits) {
        self.limits = limits;
    }

    /// Sets what the sides agreed on, from the next PDU on. `format.alignment` is that of received
    /// data.
    pub fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    /// Takes bytes from the front of `input` up to the end of a PDU. `None` if it is incomplete;
    /// `input` is then empty.
    ///
    /// # Errors
    /// The PDU is invalid. The connection cannot go on.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Pdu>, PduError> {
        if self.partial.is_none() {
            let Some((pdu, _)) = self.header(input)? else { return Ok(None) };
            self.partial = Some((pdu, Vec::new()));
        }
        let (_, piece) = self.data(input);
        let (_, bytes) = self.partial.as_mut().expect("just set");
        append(bytes, self.body.as_ref().map_or(0, |body| body.len), piece);
        let Some(damaged) = self.finish() else { return Ok(None) };
        Ok(self.partial.take().map(|(pdu, bytes)| with_data(pdu, Payload { bytes, damaged })))
    }

    /// Takes bytes from the front of `input` up to the end of a header. Returns the PDU without its
    /// data, and their length; `None` if the header is incomplete. Then come [`Decoder::data`] and
    /// [`Decoder::finish`], also for a PDU without data.
    ///
    /// # Errors
    /// The PDU is invalid. The connection cannot go on.
    ///
    /// # Panics
    /// If the PDU before is not finished.
    pub fn header(&mut self, input: &mut &[u8]) -> Result<Option<(Pdu, usize)>, PduError> {
        assert!(self.body.is_none(), "the PDU before is not finished");
        if std::mem::take(&mut self.finished) {
            self.header.clear();
        }
        if !self.take_header(input)? {
            return Ok(None);
        }
        let (pdu, body) = self.read_header()?;
        let len = body.len;
        self.body = Some(body);
        Ok(Some((pdu, len)))
    }

    /// Takes bytes of the current PDU from the front of `input`. Returns the part of them that is
    /// data, and its offset in the data of the PDU.
    pub fn data<'a>(&mut self, input: &mut &'a [u8]) -> (usize, &'a [u8]) {
        let Some(body) = &mut self.body else { return (0, &[]) };
        let skipped = input.len().min(body.padding);
        body.padding -= skipped;
        let (piece, rest) = input[skipped..]
            .split_at_checked(body.len - body.received)
            .unwrap_or((&input[skipped..], &[]));
        *input = rest;
        let offset = body.received;
        body.receive(piece);
        if let Some(digest) = &mut body.digest
            && body.received == body.len
        {
            digest.receive(input);
        }
        (offset, piece)
    }

    /// The number of data bytes that the connection brings next, before anything else.
    pub fn missing_data(&self) -> usize {
        match &self.body {
            Some(body) if body.padding == 0 => body.len - body.received,
            _ => 0,
        }
    }

    /// Notes that `data`, the next of the [`Decoder::missing_data`], were received elsewhere.
    pub fn data_received(&mut self, data: &[u8]) {
        assert!(data.len() <= self.missing_data(), "more data than are missing");
        if let Some(body) = &mut self.body {
            body.receive(data);
        }
    }

    /// Ends the current PDU if it is complete. Returns whether its data are damaged.
    pub fn finish(&mut self) -> Option<bool> {
        let damaged = self.body.as_ref()?.is_complete()?;
        self.body = None;
        self.finished = true;
        Some(damaged)
    }

    /// The header of the current PDU, or of the last one, for a termination request.
    pub(super) fn last_header(&self) -> &[u8] {
        &self.header
    }

    /// Whether the header is complete, digest included.
    fn take_header(&mut self, input: &mut &[u8]) -> Result<bool, PduError> {
        if !fill(&mut self.header, CommonHeader::SIZE, input) {
            return Ok(false);
        }
        let common = self.common();
        let kind = PduType(common.kind);
        if kind.sender() != Some(self.sender) {
            return Err(self.field(0, "PDU type", common.kind.into(), 0));
        }
        if common.hlen != kind.hlen() {
            return Err(self.field(2, "HLEN", common.hlen.into(), kind.hlen().into()));
        }
        let digest = if self.digests(kind).header { 4 } else { 0 };
        Ok(fill(&mut self.header, usize::from(common.hlen) + digest, input))
    }

    fn common(&self) -> CommonHeader {
        CommonHeader::read_from_prefix(&self.header).expect("eight bytes were received").0
    }

    fn digests(&self, kind: PduType) -> Digests {
        if kind.has_digests() { self.format.digests } else { Digests::default() }
    }

    /// An invalid field of the header, at byte `offset`.
    fn field(&self, offset: u32, what: &'static str, found: u64, expected: u64) -> PduError {
        self.error(FatalError::HeaderField, offset, what, found, expected)
    }

    fn error(
        &self,
        fatal: FatalError,
        information: u32,
        what: &'static str,
        found: u64,
        expected: u64,
    ) -> PduError {
        let (kind, header) = (PduType(self.header[0]), self.header.clone());
        PduError { fatal, information, kind, what, found, expected, header }
    }

    /// Checks a complete header. Returns its PDU and what follows.
    fn read_header(&self) -> Result<(Pdu, Body), PduError> {
        let common = self.common();
        let kind = PduType(common.kind);
        let digests = self.digests(kind);
        let hlen = usize::from(common.hlen);
        if digests.header {
            let (header, digest) = self.header.split_at(hlen);
            let found = u32::from_le_bytes(digest.try_into().expect("four bytes were received"));
            let expected = digest::crc32c(header);
            if found != expected {
                let fatal = FatalError::HeaderDigest;
                return Err(self.error(fatal, found, "digest", found.into(), expected.into()));
            }
        }
        let says = |bit| common.flags & bit != 0;
        if says(flag::HEADER_DIGEST) != digests.header {
            let (found, expected) = (common.flags, u8::from(digests.header));
            return Err(self.field(1, "FLAGS, header digest", found.into(), expected.into()));
        }
        let before = hlen + if digests.header { 4 } else { 0 };
        let plen = common.plen.get();
        let has_data = plen as usize > before;
        if (plen as usize) < before || has_data && !kind.has_data() {
            return Err(self.field(4, "PLEN", plen.into(), before as u64));
        }
        if says(flag::DATA_DIGEST) != (digests.data && has_data) {
            let (found, expected) = (common.flags, u8::from(digests.data) << 1);
            return Err(self.field(1, "FLAGS, data digest", found.into(), expected.into()));
        }
        let mut body = Body::default();
        if has_data {
            self.expect_data(&common, before, digests.data, &mut body)?;
        }
        self.check_length(kind, body.len)?;
        Ok((self.pdu(kind, common.flags), body))
    }

    /// The padding, length and digest of the data.
    fn expect_data(
        &self,
        common: &CommonHeader,
        before: usize,
        digest: bool,
        body: &mut Body,
    ) -> Result<(), PduError> {
        let kind = PduType(common.kind);
        let (pdo, plen) = (usize::from(common.pdo), common.plen.get());
        // A termination request has no data offset; its data follow the header.
        let pdo = if kind.has_digests() { pdo } else { before };
        if pdo < before
            || !pdo.is_multiple_of(if kind.has_digests() { self.format.align() } else { 4 })
        {
            let expected = before.next_multiple_of(self.format.align());
            return Err(self.field(3, "PDO", pdo as u64, expected as u64));
        }
        let after = pdo + if digest { 4 } else { 0 };
        let Some(len) = (plen as usize).checked_sub(after).filter(|&len| len > 0) else {
            return Err(self.field(4, "PLEN", plen.into(), after as u64 + 1));
        };
        let most = match kind {
            PduType::COMMAND => self.limits.in_capsule as usize,
            PduType::H2C_DATA | PduType::C2H_DATA => self.limits.data as usize,
            _ => MAX_TERMINATE_DATA,
        };
        if len > most {
            let fatal = FatalError::LimitExceeded;
            return Err(self.error(fatal, 0, "length of the data", len as u64, most as u64));
        }
        body.padding = pdo - before;
        body.len = len;
        body.digest = digest.then(Digest::default);
        Ok(())
    }

    /// Checks DATAL against the length of the data.
    fn check_length(&self, kind: PduType, len: usize) -> Result<(), PduError> {
        if matches!(kind, PduType::H2C_DATA | PduType::C2H_DATA) {
            let said = self.data_body().length.get();
            if said as usize != len {
                return Err(self.field(16, "DATAL", said.into(), len as u64));
            }
        }
        Ok(())
    }

    fn rest(&self) -> &[u8] {
        &self.header[CommonHeader::SIZE..]
    }

    fn data_body(&self) -> DataBody {
        DataBody::read_from_prefix(self.rest()).expect("the header is complete").0
    }

    /// The PDU of a complete header.
    fn pdu(&self, kind: PduType, flags: u8) -> Pdu {
        const COMPLETE: &str = "the header is complete";
        let (last, success) = (flags & flag::LAST != 0, flags & flag::SUCCESS != 0);
        let data = Payload::default();
        match kind {
            PduType::IC_REQ | PduType::IC_RESP => {
                let body = InitializeBody::read_from_prefix(self.rest()).expect(COMPLETE).0;
                let values = Initialize {
                    version: body.version.get(),
                    alignment: body.alignment,
                    digests: Digests::from_bits(body.digests),
                    limit: body.limit.get(),
                };
                if kind == PduType::IC_REQ { Pdu::IcReq(values) } else { Pdu::IcResp(values) }
            }
            PduType::H2C_TERM | PduType::C2H_TERM => {
                let body = TerminateBody::read_from_prefix(self.rest()).expect(COMPLETE).0;
                let (status, information) = (body.status.get(), body.information.get());
                Pdu::Terminate { sender: self.sender, status, information, header: Vec::new() }
            }
            PduType::COMMAND => {
                Pdu::Command { sqe: Sqe::read_from_prefix(self.rest()).expect(COMPLETE).0, data }
            }
            PduType::RESPONSE => {
                Pdu::Response(Cqe::read_from_prefix(self.rest()).expect(COMPLETE).0)
            }
            _ => {
                let body = self.data_body();
                let (cid, ttag, offset) = (body.cid.get(), body.ttag.get(), body.offset.get());
                match kind {
                    PduType::H2C_DATA => Pdu::HostData { cid, ttag, offset, last, data },
                    PduType::C2H_DATA => Pdu::ControllerData { cid, offset, last, success, data },
                    _ => Pdu::ReadyToTransfer { cid, ttag, offset, length: body.length.get() },
                }
            }
        }
    }
}

/// Moves bytes from `input` until `buffer` has `len`. Returns whether it has.
fn fill(buffer: &mut Vec<u8>, len: usize, input: &mut &[u8]) -> bool {
    let (taken, rest) = input.split_at(input.len().min(len.saturating_sub(buffer.len())));
    buffer.extend_from_slice(taken);
    *input = rest;
    buffer.len() >= len
}

impl Body {
    fn receive(&mut self, data: &[u8]) {
        self.received += data.len();
        if let Some(digest) = &mut self.digest {
            digest.crc = digest::append(digest.crc, data);
        }
    }

    /// `None` if something is missing; else whether the data are damaged.
    fn is_complete(&self) -> Option<bool> {
        if self.padding > 0 || self.received < self.len {
            return None;
        }
        match &self.digest {
            None => Some(false),
            Some(digest) if digest.received < digest.bytes.len() => None,
            Some(digest) => Some(u32::from_le_bytes(digest.bytes) != digest.crc),
        }
    }
}

/// The PDU with its data.
fn with_data(mut pdu: Pdu, payload: Payload) -> Pdu {
    match &mut pdu {
        Pdu::Command { data, .. }
        | Pdu::HostData { data, .. }
        | Pdu::ControllerData { data, .. } => *data = payload,
        Pdu::Terminate { header, .. } => *header = payload.bytes,
        _ => {}
    }
    pdu
}

/// Appends `bytes` to what becomes `len` bytes in all. The memory grows with the bytes received, not
/// with the length announced, and never beyond `len`, so that its size class is that of `len`.
fn append(buffer: &mut Vec<u8>, len: usize, bytes: &[u8]) {
    let needed = buffer.len() + bytes.len();
    if needed > buffer.capacity() {
        let capacity = (2 * buffer.capacity()).min(len).max(needed);
        buffer.reserve_exact(capacity - buffer.len());
    }
    buffer.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::append;

    #[test]
    fn memory_grows_with_the_bytes_received_up_to_the_length() {
        let mut buffer = Vec::new();
        append(&mut buffer, 20480, &[1; 100]);
        while buffer.len() < 20480 {
            append(&mut buffer, 20480, &[1; 20]);
            assert!(buffer.capacity() <= 2 * buffer.len());
        }
        assert_eq!((buffer.len(), buffer.capacity()), (20480, 20480));
    }
}
