//! What can be wrong with a PDU.
use super::pdu::{Kind, Pdu, Role};

/// Why a connection ends (TCP section 3.6.2.4, FES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FatalError {
    /// A field of the header is invalid.
    HeaderField = 1,
    /// A PDU that may not come now.
    Sequence = 2,
    /// The header digest does not match.
    HeaderDigest = 3,
    /// Data beyond what was asked for.
    OutOfRange = 4,
    /// More data or transfers than allowed.
    LimitExceeded = 5,
    /// A parameter that is not supported.
    Unsupported = 6,
}

/// A PDU that ends the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {what}, found {found:#x}, expected {expected:#x}")]
pub struct PduError {
    /// What to tell the peer.
    pub fatal: FatalError,
    /// FEI: for a field the offset of its first byte, for a header digest the one that came.
    pub information: u32,
    /// The type of the PDU.
    pub kind: Kind,
    /// What is wrong.
    pub what: &'static str,
    /// Its value.
    pub found: u64,
    /// What it should be, or be at the most.
    pub expected: u64,
    /// The header, as far as it came.
    pub header: Vec<u8>,
}

impl PduError {
    /// The PDU with which the side `sender` ends the connection. Up to 128 bytes of the header go
    /// with it (TCP section 3.6.2.4).
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

/// The most of a wrong PDU that goes with a termination request.
pub(super) const MAX_HEADER: usize = 128;
