//! A client's socket: whole messages with their descriptors in, replies out. Nothing blocks.
use super::wire::{ERROR, Header, NO_REPLY, TYPE, TYPE_COMMAND, TYPE_REPLY};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use zerocopy::{FromBytes, IntoBytes};

/// Descriptors that a message may have.
pub const MAX_FDS: usize = 8;
/// Data of a region access, in bytes.
pub const MAX_DATA: usize = 16 << 10;
/// The longest message.
const MAX_MESSAGE: usize = MAX_DATA + 64;

/// Why a client is disconnected.
#[derive(Debug, thiserror::Error)]
pub enum Disconnect {
    #[error("the client closed the connection")]
    Closed,
    #[error("the socket failed: {0}")]
    Socket(Errno),
    #[error("found a message of {0} bytes, expected 16 to {MAX_MESSAGE}")]
    Size(u32),
    #[error("found a message with more than {MAX_FDS} descriptors")]
    TooManyFds,
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
pub struct Messages {
    socket: UnixStream,
    /// The message that is being received.
    received: Vec<u8>,
    fds: Vec<OwnedFd>,
    unsent: Vec<u8>,
}

impl Messages {
    /// A socket that does not block.
    pub fn new(socket: UnixStream) -> Self {
        Messages { socket, received: Vec::new(), fds: Vec::new(), unsent: Vec::new() }
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether replies wait for the client. No message is received meanwhile.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Bytes that are missing of the message that is being received.
    fn missing(&self) -> Result<usize, Disconnect> {
        let Ok((header, _)) = Header::read_from_prefix(&self.received) else {
            return Ok(size_of::<Header>() - self.received.len());
        };
        let size = header.size.get();
        let whole = usize::try_from(size)
            .ok()
            .filter(|&size| (size_of::<Header>()..=MAX_MESSAGE).contains(&size));
        Ok(whole.ok_or(Disconnect::Size(size))? - self.received.len())
    }

    /// The next message, if it has arrived wholly.
    ///
    /// # Errors
    /// The client is gone or breaks the protocol.
    pub fn receive(&mut self) -> Result<Option<Message>, Disconnect> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                let body = self.received.split_off(size_of::<Header>());
                let header = Header::read_from_bytes(&self.received).expect("a header");
                self.received.clear();
                let fds = std::mem::take(&mut self.fds);
                if header.flags.get() & TYPE != TYPE_COMMAND {
                    return Err(Disconnect::NotACommand);
                }
                return Ok(Some(Message { header, body, fds }));
            }
            if !self.receive_part(missing)? {
                return Ok(None);
            }
        }
    }

    /// Receives up to `missing` bytes. Returns false if there are none yet.
    fn receive_part(&mut self, missing: usize) -> Result<bool, Disconnect> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let before = self.received.len();
        self.received.resize(before + missing, 0);
        let mut data = [IoSliceMut::new(&mut self.received[before..])];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut data, &mut control, flags);
        let len = received.as_ref().map_or(0, |received| received.bytes);
        self.received.truncate(before + len);
        let received = match received {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(Errno::CONNRESET) => return Err(Disconnect::Closed),
            Err(error) => return Err(Disconnect::Socket(error)),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) || self.fds.len() > MAX_FDS {
            return Err(Disconnect::TooManyFds);
        }
        if len == 0 { Err(Disconnect::Closed) } else { Ok(true) }
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
        self.unsent.extend_from_slice(header.as_bytes());
        self.unsent.extend(body);
    }

    /// Sends what the client takes. Returns whether it took anything.
    ///
    /// # Errors
    /// The client is gone.
    pub fn send(&mut self) -> Result<bool, Disconnect> {
        if self.unsent.is_empty() {
            return Ok(false);
        }
        match send(&self.socket, &self.unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => {
                self.unsent.drain(..sent);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Disconnect::Closed),
            Err(error) => Err(Disconnect::Socket(error)),
        }
    }
}
