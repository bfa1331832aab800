//! Protocol data units (TCP section 3.6).
use crate::wire::{Cqe, Sqe, U16, U32, values, wire};

wire! {
    /// The start of every PDU (TCP section 3.6.1).
    pub struct CommonHeader: 8 {
        /// PDU-type.
        pub kind: u8,
        /// FLAGS: [`flag`].
        pub flags: u8,
        /// HLEN: length of the header.
        pub hlen: u8,
        /// PDO: offset of the data; 0 without data.
        pub pdo: u8,
        /// PLEN: length of the PDU.
        pub plen: U32,
    }

    /// The rest of ICReq and ICResp (TCP sections 3.6.2.2 and 3.6.2.3).
    pub struct InitializeBody: 120 {
        /// PFV: PDU format version, 0.
        pub version: U16,
        /// HPDA or CPDA: alignment of data in dwords, minus one.
        pub alignment: u8,
        /// DGST: header digest in bit 0, data digest in bit 1.
        pub digests: u8,
        /// MAXR2T or MAXH2CDATA.
        pub limit: U32,
        pub(crate) _reserved: [u8; 112],
    }

    /// The rest of H2CTermReq and C2HTermReq (TCP sections 3.6.2.4 and 3.6.2.5).
    pub struct TerminateBody: 16 {
        /// FES: fatal error status.
        pub status: U16,
        /// FEI: fatal error information.
        pub information: U32,
        pub(crate) _reserved: [u8; 10],
    }

    /// The rest of H2CData, C2HData and R2T (TCP sections 3.6.2.8 to 3.6.2.10).
    pub struct DataBody: 16 {
        /// CCCID: the command.
        pub cid: U16,
        /// TTAG: the transfer; reserved in C2HData.
        pub ttag: U16,
        /// DATAO or R2TO: offset in the command's data.
        pub offset: U32,
        /// DATAL or R2TL: length.
        pub length: U32,
        pub(crate) _reserved: [u8; 4],
    }
}

values! {
    /// PDU types (TCP section 3.6.1).
    pub struct PduType(u8) {
        /// Initialize Connection Request.
        IC_REQ = 0x00,
        /// Initialize Connection Response.
        IC_RESP = 0x01,
        /// Host to Controller Terminate Connection Request.
        H2C_TERM = 0x02,
        /// Controller to Host Terminate Connection Request.
        C2H_TERM = 0x03,
        /// Command Capsule.
        COMMAND = 0x04,
        /// Response Capsule.
        RESPONSE = 0x05,
        /// Host to Controller Data Transfer.
        H2C_DATA = 0x06,
        /// Controller to Host Data Transfer.
        C2H_DATA = 0x07,
        /// Ready to Transfer.
        R2T = 0x09,
    }
}

/// Bits of FLAGS.
pub mod flag {
    /// HDGSTF: a header digest follows the header.
    pub const HEADER_DIGEST: u8 = 1 << 0;
    /// DDGSTF: a data digest follows the data.
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// LAST_PDU: the last data of a transfer.
    pub const LAST: u8 = 1 << 2;
    /// SUCCESS: no response capsule will follow.
    pub const SUCCESS: u8 = 1 << 3;
}

/// The side that sends a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends commands.
    Host,
    /// Executes them.
    Controller,
}

impl PduType {
    /// The side that sends PDUs of this type; `None` for an unknown type.
    pub fn sender(self) -> Option<Role> {
        match self {
            PduType::IC_REQ | PduType::H2C_TERM | PduType::COMMAND | PduType::H2C_DATA => {
                Some(Role::Host)
            }
            PduType::IC_RESP
            | PduType::C2H_TERM
            | PduType::RESPONSE
            | PduType::C2H_DATA
            | PduType::R2T => Some(Role::Controller),
            _ => None,
        }
    }

    /// The length of the header; 0 for an unknown type.
    pub fn hlen(self) -> u8 {
        match self {
            PduType::IC_REQ | PduType::IC_RESP => 128,
            PduType::COMMAND => 72,
            _ if self.sender().is_some() => 24,
            _ => 0,
        }
    }

    /// Whether PDUs of this type may have digests (TCP section 3.3).
    pub fn has_digests(self) -> bool {
        !matches!(self, PduType::IC_REQ | PduType::IC_RESP | PduType::H2C_TERM | PduType::C2H_TERM)
    }

    /// Whether PDUs of this type may have data.
    pub fn has_data(self) -> bool {
        !matches!(self, PduType::IC_REQ | PduType::IC_RESP | PduType::RESPONSE | PduType::R2T)
    }
}

/// The digests of PDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Of headers.
    pub header: bool,
    /// Of data.
    pub data: bool,
}

impl Digests {
    pub(super) fn from_bits(bits: u8) -> Self {
        Digests { header: bits & 1 != 0, data: bits & 2 != 0 }
    }

    pub(super) fn bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
}

/// The format that the sides have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// The digests.
    pub digests: Digests,
    /// Alignment of the data in one direction, in dwords, minus one; at most 31 (HPDA, CPDA).
    pub alignment: u8,
}

impl Format {
    /// The alignment of data in bytes.
    pub(super) fn align(self) -> usize {
        (usize::from(self.alignment) + 1) * 4
    }
}

/// The fields of ICReq and ICResp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initialize {
    /// PFV: version of the PDUs' format; 0.
    pub version: u16,
    /// HPDA or CPDA: alignment of data sent to this side, in dwords, minus one.
    pub alignment: u8,
    /// Digests requested, or granted.
    pub digests: Digests,
    /// MAXR2T of a host: R2Ts outstanding for a command, minus one. MAXH2CDATA of a controller: the
    /// maximum data of one PDU, in bytes.
    pub limit: u32,
}

/// The data of a PDU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The data.
    pub bytes: Vec<u8>,
    /// The data digest did not match: the command fails with a Transient Transport Error, and the
    /// connection goes on (TCP section 3.3.2.2).
    pub damaged: bool,
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Payload { bytes, damaged: false }
    }
}

/// A protocol data unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pdu {
    /// ICReq.
    IcReq(Initialize),
    /// ICResp.
    IcResp(Initialize),
    /// H2CTermReq or C2HTermReq.
    Terminate {
        /// The side that terminates the connection.
        sender: Role,
        /// FES.
        status: u16,
        /// FEI.
        information: u32,
        /// The header of the invalid PDU.
        header: Vec<u8>,
    },
    /// CapsuleCmd.
    Command {
        /// The command.
        sqe: Sqe,
        /// Data in the capsule.
        data: Payload,
    },
    /// CapsuleResp.
    Response(Cqe),
    /// H2CData.
    HostData {
        /// CCCID: the command.
        cid: u16,
        /// TTAG: the R2T that the data are for.
        ttag: u16,
        /// DATAO.
        offset: u32,
        /// LAST_PDU.
        last: bool,
        /// The data.
        data: Payload,
    },
    /// C2HData.
    ControllerData {
        /// CCCID: the command.
        cid: u16,
        /// DATAO.
        offset: u32,
        /// LAST_PDU.
        last: bool,
        /// SUCCESS: the command has succeeded.
        success: bool,
        /// The data.
        data: Payload,
    },
    /// R2T.
    ReadyToTransfer {
        /// CCCID: the command.
        cid: u16,
        /// TTAG of the data to be sent.
        ttag: u16,
        /// R2TO.
        offset: u32,
        /// R2TL.
        length: u32,
    },
}

/// Why a connection is terminated (TCP section 3.6.2.4, FES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FatalError {
    /// A field of the header is invalid.
    HeaderField = 1,
    /// A PDU that may not come now.
    Sequence = 2,
    /// The header digest does not match.
    HeaderDigest = 3,
    /// Data out of the requested range.
    OutOfRange = 4,
    /// More data or transfers than allowed.
    LimitExceeded = 5,
    /// A parameter that is not supported.
    Unsupported = 6,
}

/// An invalid PDU, which terminates the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {what}, found {found:#x}, expected {expected:#x}")]
pub struct PduError {
    /// The error to report to the peer.
    pub fatal: FatalError,
    /// FEI: for a field the offset of its first byte, for a header digest the received one.
    pub information: u32,
    /// The type of the PDU.
    pub kind: PduType,
    /// The error.
    pub what: &'static str,
    /// Its value.
    pub found: u64,
    /// The expected value, or the limit.
    pub expected: u64,
    /// The header, as far as received.
    pub header: Vec<u8>,
}

impl PduError {
    /// The termination request of the side `sender`, with up to 128 bytes of the header (TCP section
    /// 3.6.2.4).
    pub fn terminate(&self, sender: Role) -> Pdu {
        let len = self.header.len().min(MAX_TERMINATE_DATA);
        Pdu::Terminate {
            sender,
            status: self.fatal as u16,
            information: self.information,
            header: self.header[..len].to_vec(),
        }
    }
}

/// Bytes of an invalid PDU in a termination request.
pub(super) const MAX_TERMINATE_DATA: usize = 128;
