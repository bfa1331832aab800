//! A client's messages.
use super::super::guest::socket::{MessageHeader, MessageSocket, SocketError};
use super::refusal::Refusal;
use super::wire::{Header, REPLY, VERSION, VERSION_1};
use std::os::fd::OwnedFd;
use zerocopy::IntoBytes;

/// The longest message, without its header.
const MAX_BODY: u32 = 4096;

/// Why a client is disconnected.
#[derive(Debug, thiserror::Error)]
pub enum Disconnect {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("found a message with a body of {0} bytes, expected {MAX_BODY} at most")]
    Size(u32),
    #[error("found a message with flags {0:#x}, expected a request of version 1")]
    Flags(u32),
    #[error("request {request}: {why}")]
    Refused { request: u32, why: Refusal },
    #[error("it has taken away memory that it shared")]
    LostMemory,
    #[error(
        "ring {0} has stopped, and the device could not be flushed: what was answered may be lost"
    )]
    NotCommitted(usize),
}

impl MessageHeader for Header {
    type Error = Disconnect;

    fn message_len(&self) -> Result<usize, Disconnect> {
        let (flags, size) = (self.flags.get(), self.size.get());
        if flags & VERSION != VERSION_1 || flags & REPLY != 0 {
            return Err(Disconnect::Flags(flags));
        }
        if size > MAX_BODY {
            return Err(Disconnect::Size(size));
        }
        Ok(size_of::<Header>() + size as usize)
    }
}

impl MessageSocket<Header> {
    /// Replies to a message.
    pub fn reply(&mut self, to: &Header, body: &[u8], fd: Option<OwnedFd>) {
        let size = u32::try_from(body.len()).expect("a reply is short");
        let flags = (VERSION_1 | REPLY).into();
        let header = Header { flags, size: size.into(), ..*to };
        self.queue(&[header.as_bytes(), body].concat(), fd);
    }
}
