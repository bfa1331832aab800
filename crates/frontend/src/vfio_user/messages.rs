//! A client's messages.
use super::super::guest::socket::{MessageHeader, MessageSocket, SocketError};
use super::wire::{ERROR, Header, NO_REPLY, TYPE, TYPE_COMMAND, TYPE_REPLY};
use rustix::io::Errno;
use zerocopy::IntoBytes;

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

impl MessageHeader for Header {
    type Error = Disconnect;

    fn message_len(&self) -> Result<usize, Disconnect> {
        let size = self.size.get();
        let len = usize::try_from(size).ok();
        let len = len.filter(|len| (size_of::<Header>()..=MAX_MESSAGE).contains(len));
        let len = len.ok_or(Disconnect::Size(size))?;
        if self.flags.get() & TYPE == TYPE_COMMAND { Ok(len) } else { Err(Disconnect::NotACommand) }
    }
}

impl MessageSocket<Header> {
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
        self.queue(&[header.as_bytes(), &body].concat(), None);
    }
}
