//! Errors in PDUs.
use super::pdu::{Pdu, PduType, Role};

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
    /// What is wrong.
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
        let len = self.header.len().min(MAX_HEADER);
        Pdu::Terminate {
            sender,
            status: self.fatal as u16,
            information: self.information,
            header: self.header[..len].to_vec(),
        }
    }
}

/// Bytes of an invalid PDU in a termination request.
pub(super) const MAX_HEADER: usize = 128;
