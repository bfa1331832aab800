//! PDUs to bytes.
use super::digest;
use super::pdu::{
    CommonHeader, DataBody, Digests, Format, Initialize, InitializeBody, Pdu, PduType, Role,
    TerminateBody, flag,
};
use crate::wire::Sqe;
use zerocopy::IntoBytes;

/// Appends a PDU to `out`. `format` is that of this direction; it does not apply to initialization
/// and termination.
///
/// # Panics
/// If the data are 4 GiB or more, which no command has.
pub fn encode(pdu: &Pdu, format: Format, out: &mut Vec<u8>) {
    match pdu {
        Pdu::IcReq(body) => initialize(PduType::IC_REQ, body, out),
        Pdu::IcResp(body) => initialize(PduType::IC_RESP, body, out),
        Pdu::Terminate { sender, status, information, header } => {
            let kind = if *sender == Role::Host { PduType::H2C_TERM } else { PduType::C2H_TERM };
            let mut body = TerminateBody::zeroed();
            (body.status, body.information) = ((*status).into(), (*information).into());
            whole(kind, 0, body.as_bytes(), header, Format::default(), out);
        }
        Pdu::Command { sqe, data } => {
            let digest = command(sqe, &data.bytes, format, out);
            append(&data.bytes, digest, out);
        }
        Pdu::Response(cqe) => whole(PduType::RESPONSE, 0, cqe.as_bytes(), &[], format, out),
        Pdu::HostData { cid, ttag, offset, last, data } => {
            let digest = host_data(*cid, *ttag, *offset, *last, &data.bytes, format, out);
            append(&data.bytes, digest, out);
        }
        Pdu::ControllerData { cid, offset, last, success, data } => {
            let digest = controller_data(*cid, *offset, *last, *success, &data.bytes, format, out);
            append(&data.bytes, digest, out);
        }
        Pdu::ReadyToTransfer { cid, ttag, offset, length } => {
            let body = transfer(*cid, *ttag, *offset, *length as usize);
            whole(PduType::R2T, 0, body.as_bytes(), &[], format, out);
        }
    }
}

/// Appends a CapsuleCmd PDU up to its data.
pub(super) fn command(sqe: &Sqe, data: &[u8], format: Format, out: &mut Vec<u8>) -> DataDigest {
    before_data(PduType::COMMAND, 0, sqe.as_bytes(), data, format, out)
}

/// The digest after the data of a PDU.
pub(super) type DataDigest = Option<[u8; 4]>;

/// Appends data and what follows them.
pub(super) fn append(data: &[u8], digest: DataDigest, out: &mut Vec<u8>) {
    out.extend_from_slice(data);
    out.extend(digest.into_iter().flatten());
}

/// Appends an H2CData PDU up to its data.
pub(super) fn host_data(
    cid: u16,
    ttag: u16,
    offset: u32,
    last: bool,
    data: &[u8],
    format: Format,
    out: &mut Vec<u8>,
) -> DataDigest {
    let flags = if last { flag::LAST } else { 0 };
    let body = transfer(cid, ttag, offset, data.len());
    before_data(PduType::H2C_DATA, flags, body.as_bytes(), data, format, out)
}

/// Appends a C2HData PDU up to its data.
pub(super) fn controller_data(
    cid: u16,
    offset: u32,
    last: bool,
    success: bool,
    data: &[u8],
    format: Format,
    out: &mut Vec<u8>,
) -> DataDigest {
    let flags = if last { flag::LAST } else { 0 } | if success { flag::SUCCESS } else { 0 };
    let body = transfer(cid, 0, offset, data.len());
    before_data(PduType::C2H_DATA, flags, body.as_bytes(), data, format, out)
}

fn transfer(cid: u16, ttag: u16, offset: u32, length: usize) -> DataBody {
    let length = u32::try_from(length).expect("less than 4 GiB");
    let mut body = DataBody::zeroed();
    (body.cid, body.ttag) = (cid.into(), ttag.into());
    (body.offset, body.length) = (offset.into(), length.into());
    body
}

fn initialize(kind: PduType, values: &Initialize, out: &mut Vec<u8>) {
    let mut body = InitializeBody::zeroed();
    (body.version, body.alignment) = (values.version.into(), values.alignment);
    (body.digests, body.limit) = (values.digests.bits(), values.limit.into());
    whole(kind, 0, body.as_bytes(), &[], Format::default(), out);
}

/// Appends a PDU.
fn whole(kind: PduType, flags: u8, body: &[u8], data: &[u8], format: Format, out: &mut Vec<u8>) {
    let digest = before_data(kind, flags, body, data, format, out);
    append(data, digest, out);
}

/// Appends header, digest and padding (TCP section 3.6.1). Then come the data, and their digest, which
/// it returns.
fn before_data(
    kind: PduType,
    flags: u8,
    body: &[u8],
    data: &[u8],
    format: Format,
    out: &mut Vec<u8>,
) -> DataDigest {
    let Digests { header: header_digest, data: data_digest } = format.digests;
    let data_digest = data_digest && !data.is_empty();
    let hlen = usize::from(kind.hlen());
    debug_assert_eq!(hlen, CommonHeader::SIZE + body.len());
    let before_data = hlen + if header_digest { 4 } else { 0 };
    let pdo = if data.is_empty() { 0 } else { before_data.next_multiple_of(format.align()) };
    let end = if data.is_empty() { before_data } else { pdo + data.len() };
    let plen = end + if data_digest { 4 } else { 0 };
    let digests = if header_digest { flag::HEADER_DIGEST } else { 0 }
        | if data_digest { flag::DATA_DIGEST } else { 0 };
    let common = CommonHeader {
        kind: kind.0,
        flags: flags | digests,
        hlen: kind.hlen(),
        pdo: u8::try_from(pdo).expect("a header of 76 bytes, aligned to at most 128"),
        plen: u32::try_from(plen).expect("less than 4 GiB").into(),
    };
    let start = out.len();
    out.extend_from_slice(common.as_bytes());
    out.extend_from_slice(body);
    if header_digest {
        let digest = digest::crc32c(&out[start..]);
        out.extend_from_slice(&digest.to_le_bytes());
    }
    if !data.is_empty() {
        out.resize(start + pdo, 0);
    }
    data_digest.then(|| digest::crc32c(data).to_le_bytes())
}
