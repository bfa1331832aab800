//! The two sides of a connection.
//!
//! ```text
//!  host                                         target
//!    ICReq ------------------------------------->
//!    <------------------------------------- ICResp     digests, alignment, lengths agreed on
//!    command, short data in its capsule -------->      event: the command with its data
//!    command with longer data ------------------>
//!    <---------------------------------------- R2T
//!    data, in pieces that the target takes ----->      event: the command with its data
//!    <----------------------- data for the host
//!    <----------------------------------- response     event: the command has ended
//! ```
//!
//! Takes bytes that came, and commands or responses to send; gives events, and bytes to send. Keeps
//! true: a peer that breaks a rule is told which and the connection is closed; nothing that comes
//! later is looked at; what a peer can make this side keep is bounded.
mod host;
mod target;

pub use host::{HostConfig, HostConnection, HostEvent, SubmitError};
pub use target::{TargetConfig, TargetConnection, TargetEvent};

use super::decode::{DataLimits, Decoder};
use super::encode::encode;
use super::error::{FatalError, PduError};
use super::pdu::{Format, Pdu, Role};

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// A PDU that cannot be understood.
    #[error(transparent)]
    Pdu(#[from] PduError),
    /// A PDU that may not come now, or with these values.
    #[error("{what}")]
    ProtocolError {
        /// What the peer was told.
        fatal: FatalError,
        /// What is wrong.
        what: &'static str,
    },
    /// The peer ended it.
    #[error("the peer ended the connection with status {status}, information {information:#x}")]
    Peer {
        /// FES.
        status: u16,
        /// FEI.
        information: u32,
    },
}

fn protocol_error(fatal: FatalError, what: &'static str) -> CloseReason {
    CloseReason::ProtocolError { fatal, what }
}

/// What both sides have.
#[derive(Debug)]
struct Endpoint {
    role: Role,
    decoder: Decoder,
    /// Of what is sent.
    format: Format,
    output: Vec<u8>,
    closed: Option<CloseReason>,
}

impl Endpoint {
    fn new(role: Role, limits: DataLimits) -> Self {
        let sender = if role == Role::Host { Role::Controller } else { Role::Host };
        let decoder = Decoder::new(sender, limits);
        Endpoint { role, decoder, format: Format::default(), output: Vec::new(), closed: None }
    }

    fn send(&mut self, pdu: &Pdu) {
        encode(pdu, self.format, &mut self.output);
    }

    /// The next PDU; `None` if there is none, or will be none.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Pdu> {
        if self.closed.is_some() {
            return None;
        }
        match self.decoder.decode(bytes) {
            Ok(Some(Pdu::Terminate { status, information, .. })) => {
                self.closed = Some(CloseReason::Peer { status, information });
                None
            }
            Ok(pdu) => pdu,
            Err(error) => {
                let terminate = error.terminate(self.role);
                self.close(error.into(), &terminate);
                None
            }
        }
    }

    /// Closes the connection for what the peer did.
    fn fail(&mut self, closed: CloseReason) {
        let (status, sender) = match &closed {
            CloseReason::ProtocolError { fatal, .. } => (*fatal as u16, self.role),
            _ => return,
        };
        let terminate = Pdu::Terminate { sender, status, information: 0, header: Vec::new() };
        self.close(closed, &terminate);
    }

    fn close(&mut self, closed: CloseReason, terminate: &Pdu) {
        self.send(terminate);
        self.closed = Some(closed);
    }
}
