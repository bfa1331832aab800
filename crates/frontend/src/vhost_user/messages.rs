//! A client's messages.
use super::super::guest::socket::{MessageSocket, SocketError};
use super::refusal::Refusal;
use super::wire::{Header, REPLY, VERSION, VERSION_1};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Nanos, Wake};
use zonal_os::poll::WaitSet;

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
    let (flags, size) = (header.flags.get(), header.size.get());
    if flags & VERSION != VERSION_1 || flags & REPLY != 0 {
        return Err(Disconnect::Flags(flags));
    }
    if size > MAX_BODY {
        return Err(Disconnect::Size(size));
    }
    Ok(size_of::<Header>() + size as usize)
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
        Ok(Some(Message { header, body, fds }))
    }

    /// Replies to a message.
    pub fn reply(&mut self, to: &Header, body: &[u8], fd: Option<OwnedFd>) {
        let size = u32::try_from(body.len()).expect("a reply is short");
        let flags = (VERSION_1 | REPLY).into();
        let header = Header { flags, size: size.into(), ..*to };
        self.0.queue(&[header.as_bytes(), body].concat(), fd);
    }

    /// Sends what the client takes. Returns whether it took anything.
    ///
    /// # Errors
    /// The client is gone.
    pub fn send(&mut self, now: Nanos) -> Result<bool, Disconnect> {
        Ok(self.0.send(now)?)
    }
}
