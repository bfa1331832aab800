//! A client's Unix socket: messages with their descriptors in, bytes out. Nothing blocks.
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, take};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use zonal_os::poll::WaitSet;

/// Descriptors that a message may have.
pub const MAX_FDS: usize = 8;

/// Why a socket cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the client closed the connection")]
    Closed,
    #[error("the socket failed: {0}")]
    Failed(Errno),
    #[error("found a message with more than {MAX_FDS} descriptors")]
    TooManyFds,
}

/// The bytes of a message, and its descriptors.
pub type RawMessage = (Vec<u8>, Vec<OwnedFd>);

/// A socket.
pub struct MessageSocket {
    socket: UnixStream,
    /// The message that is being received.
    received: Vec<u8>,
    fds: Vec<OwnedFd>,
    unsent: Vec<u8>,
    /// Goes with the first byte that is not sent yet.
    unsent_fd: Option<OwnedFd>,
}

impl MessageSocket {
    /// A client's.
    pub fn new(socket: UnixStream) -> Self {
        let (received, fds, unsent) = Default::default();
        MessageSocket { socket, received, fds, unsent, unsent_fd: None }
    }

    /// Waits until the client takes what is unsent, and with `reads` for what it sends.
    pub fn wait_fds(&self, reads: bool, set: &mut WaitSet) {
        if reads {
            set.read(self.socket.as_raw_fd());
        }
        if self.has_unsent() {
            set.write(self.socket.as_raw_fd());
        }
    }

    /// Whether the client has not taken everything yet.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The next message, if it has arrived wholly. `whole` has the length of a message that begins with
    /// these bytes, as far as they say: at least one more than there are, or as many.
    ///
    /// # Errors
    /// Those of `whole`, and of the socket.
    pub fn receive<E: From<SocketError>>(
        &mut self,
        whole: impl Fn(&[u8]) -> Result<usize, E>,
    ) -> Result<Option<RawMessage>, E> {
        loop {
            let missing = whole(&self.received)?.saturating_sub(self.received.len());
            if missing == 0 {
                return Ok(Some((take(&mut self.received), take(&mut self.fds))));
            }
            if !self.receive_part(missing)? {
                return Ok(None);
            }
        }
    }

    /// Receives up to `missing` bytes. Returns false if there are none yet.
    fn receive_part(&mut self, missing: usize) -> Result<bool, SocketError> {
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
            Err(Errno::CONNRESET) => return Err(SocketError::Closed),
            Err(error) => return Err(SocketError::Failed(error)),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) || self.fds.len() > MAX_FDS {
            return Err(SocketError::TooManyFds);
        }
        if len == 0 { Err(SocketError::Closed) } else { Ok(true) }
    }

    /// Sends these bytes as soon as the client takes them, with a descriptor. Nothing may be unsent
    /// before one.
    pub fn queue(&mut self, bytes: &[u8], fd: Option<OwnedFd>) {
        if fd.is_some() {
            assert!(self.unsent.is_empty(), "a descriptor belongs to its message");
            self.unsent_fd = fd;
        }
        self.unsent.extend_from_slice(bytes);
    }

    /// Sends what the client takes. Returns whether it took anything.
    ///
    /// # Errors
    /// The client is gone.
    pub fn send(&mut self) -> Result<bool, SocketError> {
        if self.unsent.is_empty() {
            return Ok(false);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = self.unsent_fd.as_ref().map(|fd| [fd.as_fd()]);
        if let Some(fds) = &fds {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "there is room for one");
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&self.socket, &[IoSlice::new(&self.unsent)], &mut control, flags) {
            Ok(sent) => {
                self.unsent.drain(..sent);
                self.unsent_fd = None;
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(SocketError::Closed),
            Err(error) => Err(SocketError::Failed(error)),
        }
    }
}
