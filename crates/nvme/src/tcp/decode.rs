//! Bytes to PDUs.
//!
//! ```text
//!  header (8 bytes say how long) -> digest -> padding -> data -> digest -> Pdu
//! ```
//!
//! A header is checked as soon as it is whole, before any of its data are taken in, so that a peer
//! that lies about lengths gets no memory for it.
use super::error::{FatalError, PduError};
use super::pdu::{
    CommonHeader, DataBody, Digests, Format, Initialize, InitializeBody, Kind, Payload, Pdu, Role,
    TerminateBody, flag,
};
use crate::buffer_pool::{BufferPool, append};
use crate::wire::{Cqe, Sqe};
use zerocopy::FromBytes;

/// The most data that one PDU may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataLimits {
    /// In a command capsule, in bytes.
    pub in_capsule: u32,
    /// In a data PDU, in bytes: MAXH2CDATA, or for a host what it is willing to take.
    pub data: u32,
}

/// The longest header, with its digest: ICReq has no digest, a command has 72 bytes and four.
const MAX_HEADER: usize = 128;

/// Takes bytes as they come.
#[derive(Debug)]
pub struct Decoder {
    /// Who sends what comes here.
    sender: Role,
    format: Format,
    limits: DataLimits,
    /// The header, as far as it came, with its digest.
    header: Vec<u8>,
    /// What the header announced, once it is whole.
    body: Option<Body>,
    /// For data; no more than those of the longest PDU.
    pool: BufferPool<Vec<u8>>,
}

/// Data that are still to come.
#[derive(Debug)]
struct Body {
    /// The PDU without its data.
    pdu: Pdu,
    /// Bytes of padding before them.
    padding: usize,
    data: Vec<u8>,
    len: usize,
    digest: Option<Digest>,
}

/// The digest of the data, as far as it came.
#[derive(Debug, Default)]
struct Digest {
    bytes: [u8; 4],
    came: usize,
}

impl Digest {
    /// Whether it is whole.
    fn take(&mut self, input: &mut &[u8]) -> bool {
        let missing = &mut self.bytes[self.came..];
        let (taken, rest) = input.split_at(input.len().min(missing.len()));
        missing[..taken.len()].copy_from_slice(taken);
        self.came += taken.len();
        *input = rest;
        self.came == self.bytes.len()
    }
}

impl Decoder {
    /// For what `sender` sends, from the first byte of a connection on.
    pub fn new(sender: Role, limits: DataLimits) -> Self {
        let header = Vec::with_capacity(MAX_HEADER);
        let pool = BufferPool::default();
        Decoder { sender, format: Format::default(), limits, header, body: None, pool }
    }

    /// Takes back data that are done with, for the PDUs to come.
    pub fn recycle(&mut self, data: Vec<u8>) {
        self.pool.put(data, self.limits.data as usize);
    }

    /// An empty vector, for `len` bytes if it was used before.
    pub(super) fn take_buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.pool.take(len).unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// A vector of `len` bytes with any values.
    pub(super) fn take_len(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.pool.take(len).unwrap_or_default();
        buffer.reserve_exact(len.saturating_sub(buffer.len()));
        buffer.resize(len, 0);
        buffer
    }

    /// Adds to the data of a command those of its next PDU. If the `len` bytes that the command has
    /// came in one, they are not copied.
    pub(super) fn append_data(&mut self, whole: &mut Payload, len: usize, next: Payload) {
        whole.damaged |= next.damaged;
        if next.bytes.len() == len {
            self.recycle(std::mem::replace(&mut whole.bytes, next.bytes));
            return;
        }
        if whole.bytes.capacity() == 0 {
            whole.bytes = self.take_buffer(len);
        }
        append(&mut whole.bytes, len, &next.bytes);
        self.recycle(next.bytes);
    }

    /// What was agreed on: from the next PDU on. `format.alignment` is that of data that come here.
    pub fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    /// Takes bytes from the front of `input` up to the end of a PDU. `None` if it is not whole;
    /// `input` is then empty.
    ///
    /// # Errors
    /// What is wrong with the PDU. The connection cannot go on.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Pdu>, PduError> {
        if self.body.is_none() {
            if !self.take_header(input)? {
                return Ok(None);
            }
            let body = self.read_header()?;
            let data = self.take_buffer(body.len);
            self.body = Some(Body { data, ..body });
        }
        let body = self.body.as_mut().expect("just made");
        if !body.take(input) {
            return Ok(None);
        }
        self.header.clear();
        Ok(self.body.take().map(Body::finish))
    }

    /// Whether the header is whole, digest included.
    fn take_header(&mut self, input: &mut &[u8]) -> Result<bool, PduError> {
        if !fill(&mut self.header, CommonHeader::SIZE, input) {
            return Ok(false);
        }
        let common = self.common();
        let kind = Kind(common.kind);
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
        CommonHeader::read_from_prefix(&self.header).expect("eight bytes came").0
    }

    fn digests(&self, kind: Kind) -> Digests {
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
        let (kind, header) = (Kind(self.header[0]), self.header.clone());
        PduError { fatal, information, kind, what, found, expected, header }
    }

    /// Checks a whole header; gives what is still to come.
    fn read_header(&self) -> Result<Body, PduError> {
        let common = self.common();
        let kind = Kind(common.kind);
        let digests = self.digests(kind);
        let hlen = usize::from(common.hlen);
        if digests.header {
            let (header, digest) = self.header.split_at(hlen);
            let found = u32::from_le_bytes(digest.try_into().expect("four bytes came"));
            let expected = crc32c::crc32c(header);
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
        let mut body = Body {
            pdu: self.pdu(kind, common.flags),
            padding: 0,
            data: Vec::new(),
            len: 0,
            digest: None,
        };
        if has_data {
            self.expect_data(&common, before, digests.data, &mut body)?;
        }
        self.check_length(kind, body.len)?;
        Ok(body)
    }

    /// Where the data lie, and how many.
    fn expect_data(
        &self,
        common: &CommonHeader,
        before: usize,
        digest: bool,
        body: &mut Body,
    ) -> Result<(), PduError> {
        let kind = Kind(common.kind);
        let (pdo, plen) = (usize::from(common.pdo), common.plen.get());
        // A termination request has no data offset; what it brings follows the header.
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
            Kind::COMMAND => self.limits.in_capsule as usize,
            Kind::H2C_DATA | Kind::C2H_DATA => self.limits.data as usize,
            _ => super::error::MAX_HEADER,
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

    /// The length that a data PDU's header has is that of its data.
    fn check_length(&self, kind: Kind, len: usize) -> Result<(), PduError> {
        if matches!(kind, Kind::H2C_DATA | Kind::C2H_DATA) {
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
        DataBody::read_from_prefix(self.rest()).expect("the header is whole").0
    }

    /// The PDU that a whole header begins.
    fn pdu(&self, kind: Kind, flags: u8) -> Pdu {
        const WHOLE: &str = "the header is whole";
        let (last, success) = (flags & flag::LAST != 0, flags & flag::SUCCESS != 0);
        let data = Payload::default();
        match kind {
            Kind::IC_REQ | Kind::IC_RESP => {
                let body = InitializeBody::read_from_prefix(self.rest()).expect(WHOLE).0;
                let values = Initialize {
                    version: body.version.get(),
                    alignment: body.alignment,
                    digests: Digests::from_bits(body.digests),
                    limit: body.limit.get(),
                };
                if kind == Kind::IC_REQ { Pdu::IcReq(values) } else { Pdu::IcResp(values) }
            }
            Kind::H2C_TERM | Kind::C2H_TERM => {
                let body = TerminateBody::read_from_prefix(self.rest()).expect(WHOLE).0;
                let (status, information) = (body.status.get(), body.information.get());
                Pdu::Terminate { sender: self.sender, status, information, header: Vec::new() }
            }
            Kind::COMMAND => {
                Pdu::Command { sqe: Sqe::read_from_prefix(self.rest()).expect(WHOLE).0, data }
            }
            Kind::RESPONSE => Pdu::Response(Cqe::read_from_prefix(self.rest()).expect(WHOLE).0),
            _ => {
                let body = self.data_body();
                let (cid, ttag, offset) = (body.cid.get(), body.ttag.get(), body.offset.get());
                match kind {
                    Kind::H2C_DATA => Pdu::HostData { cid, ttag, offset, last, data },
                    Kind::C2H_DATA => Pdu::ControllerData { cid, offset, last, success, data },
                    _ => Pdu::ReadyToTransfer { cid, ttag, offset, length: body.length.get() },
                }
            }
        }
    }
}

/// Moves bytes from `input` until `buffer` has `len`; whether it has.
fn fill(buffer: &mut Vec<u8>, len: usize, input: &mut &[u8]) -> bool {
    let (taken, rest) = input.split_at(input.len().min(len.saturating_sub(buffer.len())));
    append(buffer, len, taken);
    *input = rest;
    buffer.len() >= len
}

impl Body {
    /// Takes what is still to come; whether all of it came.
    fn take(&mut self, input: &mut &[u8]) -> bool {
        let skipped = input.len().min(self.padding);
        self.padding -= skipped;
        *input = &input[skipped..];
        self.padding == 0
            && fill(&mut self.data, self.len, input)
            && self.digest.as_mut().is_none_or(|digest| digest.take(input))
    }

    fn finish(self) -> Pdu {
        let damaged = self
            .digest
            .is_some_and(|came| u32::from_le_bytes(came.bytes) != crc32c::crc32c(&self.data));
        let mut pdu = self.pdu;
        match &mut pdu {
            Pdu::Command { data, .. }
            | Pdu::HostData { data, .. }
            | Pdu::ControllerData { data, .. } => *data = Payload { bytes: self.data, damaged },
            Pdu::Terminate { header, .. } => *header = self.data,
            _ => {}
        }
        pdu
    }
}
