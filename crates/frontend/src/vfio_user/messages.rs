//! A client's messages.
use super::super::guest::socket::{MessageSocket, SocketError};
use super::wire::{ERROR, Header, NO_REPLY, TYPE, TYPE_COMMAND, TYPE_REPLY};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Nanos, Wake};
use zonal_os::poll::WaitSet;

/// Data of a region access, in bytes.
pub const MAX_DATA: usize = 16 << 10;
/// The longest message.
const MAX_MESSAGE: usize = MAX_DATA + 64;

/// Why a client is disconnected.
#[derive(Debug, thiserror::Error)]
pub enum Disconnect {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("found a message of {0} bytes, expected 16 to {MAX_MESSAGE}")]
    Size(u32),
    #[error("found a reply, expected a command")]
    NotACommand,
    #[error("found command {0}, expected VERSION first")]
    NoVersion(u16),
    #[error("found no version that both have: {0}")]
    Version(String),
    #[error("it has taken away memory that it shared")]
    LostMemory,
}

/// A message from a client.
#[derive(Debug)]
pub struct Message {
    pub header: Header,
    pub body: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// A client's socket.
pub struct Messages(MessageSocket);

/// The length of a message that begins with `received`, as far as it is known.
fn whole(received: &[u8]) -> Result<usize, Disconnect> {
    let Ok((header, _)) = Header::read_from_prefix(received) else {
        return Ok(size_of::<Header>());
    };
    let size = header.size.get();
    let whole = usize::try_from(size).ok();
    let whole = whole.filter(|size| (size_of::<Header>()..=MAX_MESSAGE).contains(size));
    whole.ok_or(Disconnect::Size(size))
}

impl Messages {
    /// Wraps a connected client's socket.
    pub fn new(socket: UnixStream) -> Self {
        Messages(MessageSocket::new(socket))
    }

    /// Waits until the client takes what is unsent, and with `reads` for what it sends.
    pub fn wait_fds(&self, reads: bool, set: &mut WaitSet) {
        self.0.wait_fds(reads, set);
    }

    /// When the client has been too slow.
    pub fn next_event(&self) -> Wake {
        self.0.next_event()
    }

    /// Whether replies wait for the client. No message is received meanwhile.
    pub fn has_unsent(&self) -> bool {
        self.0.has_unsent()
    }

    /// The next message, if it has arrived wholly.
    ///
    /// # Errors
    /// The client is gone or breaks the protocol.
    pub fn receive(&mut self, now: Nanos) -> Result<Option<Message>, Disconnect> {
        let Some((mut bytes, fds)) = self.0.receive(now, whole)? else { return Ok(None) };
        let body = bytes.split_off(size_of::<Header>());
        let header = Header::read_from_bytes(&bytes).expect("a header");
        if header.flags.get() & TYPE != TYPE_COMMAND {
            return Err(Disconnect::NotACommand);
        }
        Ok(Some(Message { header, body, fds }))
    }

    /// Replies to a message, unless the client wants no reply.
    pub fn reply(&mut self, to: &Header, result: Result<Vec<u8>, Errno>) {
        if to.flags.get() & NO_REPLY != 0 {
            return;
        }
        let (flags, error, body) = match result {
            Ok(body) => (TYPE_REPLY, 0, body),
            Err(error) => (TYPE_REPLY | ERROR, error.raw_os_error().unsigned_abs(), Vec::new()),
        };
        let size = u32::try_from(size_of::<Header>() + body.len()).expect("a reply is short");
        let header = Header { size: size.into(), flags: flags.into(), error: error.into(), ..*to };
        self.0.queue(&[header.as_bytes(), &body].concat(), None);
    }

    /// Sends what the client takes. Returns whether it took anything.
    ///
    /// # Errors
    /// The client is gone.
    pub fn send(&mut self, now: Nanos) -> Result<bool, Disconnect> {
        Ok(self.0.send(now)?)
    }
}
