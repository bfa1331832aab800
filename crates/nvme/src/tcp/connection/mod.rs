//! The two sides of a connection.
//!
//! ```text
//!  host                                         target
//!    ICReq ------------------------------------->
//!    <------------------------------------- ICResp     digests, alignment, lengths
//!    command, short data in its capsule -------->      event: the command with its data
//!    command with longer data ------------------>
//!    <---------------------------------------- R2T
//!    data, in pieces of at most MAXH2CDATA ----->      event: the command with its data
//!    <----------------------- data for the host
//!    <----------------------------------- response     event: the command has completed
//! ```
//!
//! A peer that breaks a rule is told which, and the connection is closed: later bytes are ignored.
//! The memory that a peer can make this side use is bounded.
mod host;
mod target;

pub use host::{CommandData, HostConfig, HostConnection, HostEvent, NotSubmitted, SubmitError};
pub use target::{ReceivedCommand, TargetConfig, TargetConnection};

use super::decode::{DataLimits, Decoder};
use super::encode::encode;
use super::output::Output;
use super::pdu::{FatalError, Format, Pdu, PduError, Role};

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// An invalid PDU.
    #[error(transparent)]
    Pdu(#[from] PduError),
    /// A PDU that may not come now, or with these values.
    #[error("{what}")]
    ProtocolError {
        /// The error that the peer is told.
        fatal: FatalError,
        /// FEI: for a field or parameter the offset of its first byte in the header.
        information: u32,
        /// The rule that was broken.
        what: &'static str,
    },
    /// The peer terminated it.
    #[error("the peer ended the connection with status {status}, information {information:#x}")]
    Peer {
        /// FES.
        status: u16,
        /// FEI.
        information: u32,
    },
}

fn protocol_error(fatal: FatalError, what: &'static str) -> CloseReason {
    CloseReason::ProtocolError { fatal, information: 0, what }
}

/// As [`protocol_error`], for the field or parameter at byte `offset` of the header.
fn invalid_field(fatal: FatalError, offset: u32, what: &'static str) -> CloseReason {
    CloseReason::ProtocolError { fatal, information: offset, what }
}

/// State that both sides share. `T` says where long data are that wait to be sent.
#[derive(Debug)]
struct Endpoint<T> {
    role: Role,
    decoder: Decoder,
    /// Of sent PDUs.
    format: Format,
    output: Output<T>,
    closed: Option<CloseReason>,
}

impl<T> Endpoint<T> {
    fn new(role: Role, limits: DataLimits) -> Self {
        let sender = if role == Role::Host { Role::Controller } else { Role::Host };
        let decoder = Decoder::new(sender, limits);
        Endpoint {
            role,
            decoder,
            format: Format::default(),
            output: Output::default(),
            closed: None,
        }
    }

    fn send(&mut self, pdu: &Pdu) {
        encode(pdu, self.format, self.output.copied());
    }

    /// The next header, with the length of its PDU's data. Closes the connection if it is invalid.
    fn header(&mut self, bytes: &mut &[u8]) -> Option<(Pdu, usize)> {
        match self.decoder.header(bytes) {
            Ok(Some((Pdu::Terminate { status, information, .. }, _))) => {
                self.closed = Some(CloseReason::Peer { status, information });
                None
            }
            Ok(header) => header,
            Err(error) => {
                let terminate = error.terminate(self.role);
                self.close(error.into(), &terminate);
                None
            }
        }
    }

    /// Closes the connection because the peer broke a rule.
    fn fail(&mut self, closed: CloseReason) {
        let CloseReason::ProtocolError { fatal, information, .. } = closed else { return };
        let header = self.decoder.last_header().to_vec();
        let (sender, status) = (self.role, fatal as u16);
        let terminate = Pdu::Terminate { sender, status, information, header };
        self.close(closed, &terminate);
    }

    fn close(&mut self, closed: CloseReason, terminate: &Pdu) {
        self.send(terminate);
        self.closed = Some(closed);
    }
}
