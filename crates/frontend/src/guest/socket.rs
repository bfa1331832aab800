//! A client's Unix socket: messages with their descriptors in, bytes out. Nothing blocks.
use super::closer::{ClientSocket, MAX_WAITING};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, take};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use zerocopy::{FromBytes, Immutable, IntoBytes};
use zonal_blk::{Nanos, Wake};
use zonal_os::poll::WaitSet;

/// How long a client may take for the rest of a message that it has begun, and to take any of what it was
/// sent. Descriptors of a message that never ends, or is never read, could be those of the client's own
/// end: it would never be seen to close.
pub const PATIENCE: Nanos = Nanos(10_000_000_000);
/// Descriptors that a message may have.
pub const MAX_FDS: usize = 8;
/// Most descriptors that can be received together (SCM_MAX_FD). The kernel closes those that there is no
/// room for, which may block.
const MAX_RECEIVED: usize = 253;

/// Why a socket cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the client closed the connection")]
    Closed,
    #[error("the socket failed: {0}")]
    Failed(Errno),
    #[error("found a message with more than {MAX_FDS} descriptors")]
    TooManyFds,
    #[error("found a part of a message and no more for {} s", PATIENCE.0 / 1_000_000_000)]
    Unfinished,
    #[error("{MAX_WAITING} of its descriptors wait to be closed")]
    Unclosed,
    #[error("it has taken none of its replies for {} s", PATIENCE.0 / 1_000_000_000)]
    Unread,
}

/// The header of a protocol's messages.
pub trait MessageHeader: FromBytes + IntoBytes + Immutable {
    /// Why a client is disconnected.
    type Error: From<SocketError>;

    /// The length of the message, with this header, in bytes.
    ///
    /// # Errors
    /// No client may send such a message.
    fn message_len(&self) -> Result<usize, Self::Error>;
}

/// A message from a client.
#[derive(Debug)]
pub struct Message<H> {
    pub header: H,
    pub body: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// A client's socket, with messages that begin with an `H`.
pub struct MessageSocket<H> {
    header: PhantomData<H>,
    socket: ClientSocket,
    /// The message that is being received.
    received: Vec<u8>,
    fds: Vec<OwnedFd>,
    /// When its first bytes came.
    begun: Option<Nanos>,
    unsent: Vec<u8>,
    /// Since when the client takes none of it.
    untaken: Option<Nanos>,
    /// Goes with the first byte that is not sent yet.
    unsent_fd: Option<OwnedFd>,
}

impl<H: MessageHeader> MessageSocket<H> {
    /// Wraps a connected client's socket.
    pub fn new(socket: ClientSocket) -> Self {
        MessageSocket {
            header: PhantomData,
            socket,
            received: Vec::new(),
            fds: Vec::new(),
            begun: None,
            unsent: Vec::new(),
            untaken: None,
            unsent_fd: None,
        }
    }

    /// When the client has been too slow.
    pub fn next_event(&self) -> Wake {
        let since = [self.begun, self.untaken].into_iter().flatten().min();
        since.map_or(Wake::Idle, |since| Wake::At(since + PATIENCE))
    }

    /// Waits until the client takes what is unsent, and with `reads` for what it sends.
    pub fn wait_fds(&self, reads: bool, set: &mut WaitSet) {
        if reads {
            set.read(self.socket.socket().as_raw_fd());
        }
        if self.has_unsent() {
            set.write(self.socket.socket().as_raw_fd());
        }
    }

    /// Whether the client has not taken everything yet.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The next message, if all of it has arrived by `now`.
    ///
    /// # Errors
    /// The client is gone, breaks the protocol, or is too slow.
    pub fn receive(&mut self, now: Nanos) -> Result<Option<Message<H>>, H::Error> {
        loop {
            let len = match H::read_from_prefix(&self.received) {
                Ok((header, _)) => header.message_len()?,
                Err(_) => size_of::<H>(),
            };
            let missing = len.saturating_sub(self.received.len());
            if missing == 0 {
                self.begun = None;
                let mut bytes = take(&mut self.received);
                let body = bytes.split_off(size_of::<H>());
                let header = H::read_from_bytes(&bytes).expect("a header");
                return Ok(Some(Message { header, body, fds: take(&mut self.fds) }));
            }
            if !self.receive_part(missing)? {
                return match self.begun {
                    Some(begun) if now >= begun + PATIENCE => Err(SocketError::Unfinished.into()),
                    _ => Ok(None),
                };
            }
            self.begun.get_or_insert(now);
        }
    }

    /// Receives up to `missing` bytes. Returns false if there are none yet.
    fn receive_part(&mut self, missing: usize) -> Result<bool, SocketError> {
        if self.socket.is_full() {
            return Err(SocketError::Unclosed);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_RECEIVED))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let before = self.received.len();
        self.received.resize(before + missing, 0);
        let mut data = [IoSliceMut::new(&mut self.received[before..])];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(self.socket.socket(), &mut data, &mut control, flags);
        let len = received.as_ref().map_or(0, |received| received.bytes);
        self.received.truncate(before + len);
        let received = match received {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(Errno::CONNRESET) => return Err(SocketError::Closed),
            Err(error) => return Err(SocketError::Failed(error)),
        };
        // None of them is closed here.
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        let usable = self.socket.usable(fds).map_err(|_| SocketError::Failed(Errno::MFILE))?;
        self.fds.extend(usable);
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

    /// Sends what the client takes by `now`. Returns whether it took anything.
    ///
    /// # Errors
    /// The client is gone, or has taken nothing for too long.
    pub fn send(&mut self, now: Nanos) -> Result<bool, SocketError> {
        if self.unsent.is_empty() {
            return Ok(false);
        }
        let sent = self.send_part()?;
        if sent {
            self.untaken = (!self.unsent.is_empty()).then_some(now);
        } else if now >= *self.untaken.get_or_insert(now) + PATIENCE {
            return Err(SocketError::Unread);
        }
        Ok(sent)
    }

    fn send_part(&mut self) -> Result<bool, SocketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = self.unsent_fd.as_ref().map(|fd| [fd.as_fd()]);
        if let Some(fds) = &fds {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "there is room for one");
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(self.socket.socket(), &[IoSlice::new(&self.unsent)], &mut control, flags) {
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

#[cfg(test)]
mod tests {
    use super::super::closer::Closer;
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// The header of messages that have one more byte.
    type Byte = [u8; 1];

    impl MessageHeader for Byte {
        type Error = SocketError;

        fn message_len(&self) -> Result<usize, SocketError> {
            Ok(2)
        }
    }

    fn message_socket(ours: UnixStream) -> MessageSocket<Byte> {
        MessageSocket::new(Closer::default().client(ours))
    }

    fn send_fd(to: &UnixStream, bytes: &[u8], fd: &impl AsFd) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).expect("sent");
    }

    /// A TCP connection with data that its peer does not read: closing its last descriptor takes an hour,
    /// or until the peer goes.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a port");
        let mut sender = TcpStream::connect(address).expect("it listens");
        let (peer, _) = listener.accept().expect("a connection");
        sender.set_nonblocking(true).expect("a socket");
        while sender.write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&sender, Some(Duration::from_secs(3600))).expect("a socket");
        (sender, peer)
    }

    /// Fails if `work` takes long.
    #[track_caller]
    fn waits_for_nobody(work: impl FnOnce() + Send + 'static) {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            work();
            done.send(()).expect("the test waits");
        });
        ended.recv_timeout(Duration::from_secs(60)).expect("nothing waits for the peer");
    }

    #[test]
    fn descriptors_that_take_long_to_close_delay_nobody() {
        let (ours, client) = UnixStream::pair().expect("sockets");
        let mut socket = message_socket(ours);
        let (sent, peer) = lingering();
        send_fd(&client, &[1, 2], &sent);
        // The last descriptor is then that of the message.
        drop(sent);
        let message = socket.receive(Nanos(5)).expect("a message").expect("all of it");
        assert_eq!(message.fds.len(), 1);
        waits_for_nobody(|| drop(message));
        // One that is never received.
        let (sent, other_peer) = lingering();
        send_fd(&client, &[1], &sent);
        drop((sent, client));
        waits_for_nobody(|| drop(socket));
        drop((peer, other_peer));
    }

    #[test]
    fn client_whose_descriptors_take_long_to_close_is_disconnected_and_no_other() {
        let (ours, client) = UnixStream::pair().expect("sockets");
        let mut socket = message_socket(ours);
        let (honest_ours, mut honest_client) = UnixStream::pair().expect("sockets");
        let mut honest = message_socket(honest_ours);
        let (sent, _peer) = lingering();
        send_fd(&client, &[1, 2], &sent);
        drop(sent);
        for _ in 0..15 {
            let message = socket.receive(Nanos(5)).expect("a message");
            assert!(message.is_some_and(|message| message.fds.len() == 1));
            // They wait for the first.
            send_fd(&client, &[1, 2], &std::fs::File::open("/dev/zero").expect("a device"));
        }
        // The last one comes with the first byte of its message.
        let error = socket.receive(Nanos(5)).expect_err("16 wait");
        assert!(matches!(error, SocketError::Unclosed), "{error}");
        honest_client.write_all(&[1, 2]).expect("sent");
        assert!(honest.receive(Nanos(5)).expect("a message").is_some());
    }

    #[test]
    fn message_that_does_not_end_in_time_disconnects_its_client() {
        let (ours, client) = UnixStream::pair().expect("sockets");
        let mut socket = message_socket(ours);
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        send_fd(&client, &[1], &pipe);
        assert!(socket.receive(Nanos(5)).expect("a part").is_none());
        let due = Nanos(5) + PATIENCE;
        assert_eq!(socket.next_event(), Wake::At(due));
        assert!(socket.receive(due - Nanos(1)).expect("a part").is_none());
        let error = socket.receive(due).expect_err("it took too long");
        assert!(matches!(error, SocketError::Unfinished), "{error}");
    }

    #[test]
    fn client_that_hides_its_own_end_in_an_unfinished_message_is_disconnected() {
        let (ours, client) = UnixStream::pair().expect("sockets");
        let mut socket = message_socket(ours);
        send_fd(&client, &[1], &client);
        drop(client);
        // The descriptor is not kept, so that the client is seen to be gone.
        waits_for_nobody(move || {
            let error = loop {
                match socket.receive(Nanos(5)) {
                    Ok(_) => thread::yield_now(),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, SocketError::Closed), "{error}");
        });
    }

    #[test]
    fn client_that_hides_its_own_end_in_a_message_that_is_not_read_is_disconnected() {
        let (ours, client) = UnixStream::pair().expect("sockets");
        let mut socket = message_socket(ours);
        socket.queue(&vec![0; 64 << 20], None);
        while socket.send(Nanos(1)).expect("it is there") {}
        send_fd(&client, &[1, 2], &client);
        drop(client);
        assert_eq!(socket.next_event(), Wake::At(Nanos(1) + PATIENCE));
        let error = socket.send(Nanos(1) + PATIENCE).expect_err("it took too long");
        assert!(matches!(error, SocketError::Unread), "{error}");
    }

    #[test]
    fn slow_client_that_goes_on_stays() {
        let (ours, mut client) = UnixStream::pair().expect("sockets");
        let mut socket = message_socket(ours);
        for time in [0, PATIENCE.0, 2 * PATIENCE.0] {
            client.write_all(&[1]).expect("sent");
            assert!(socket.receive(Nanos(time)).expect("a part").is_none());
            client.write_all(&[2]).expect("sent");
            let received = socket.receive(Nanos(time + 1)).expect("a message");
            let Message { header, body, .. } = received.expect("whole");
            assert_eq!((header, body), ([1], vec![2]));
            assert_eq!(socket.next_event(), Wake::Idle);
        }
    }
}
