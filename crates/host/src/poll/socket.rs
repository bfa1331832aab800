//! A connected socket that blocks nowhere but in `Socket::wait`.
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_congestion};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zonal_nvme::tcp::Outgoing;

/// Bytes that are received at a time.
pub(crate) const RECEIVE_BUFFER: usize = 256 << 10;
/// The same while long data may follow: what the header of their PDU leaves of them is copied, the rest
/// is received where it belongs.
pub(crate) const HEADER_BUFFER: usize = 16 << 10;
/// Pieces of memory that are sent at a time.
const MAX_SLICES: usize = 64;

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Arc<TcpStream>,
    /// When bytes were last sent.
    progress: Instant,
}

impl Socket {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A peer that has vanished is noticed, within hours, even where no other timeout runs.
        set_socket_keepalive(&stream, true)?;
        if stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback()) {
            // Nothing is congested there, and to be paced (BBR) costs up to half of the rate. Reno is
            // always available.
            let _ = set_tcp_congestion(&stream, "reno");
        }
        Ok(Socket { stream: Arc::new(stream), progress: Instant::now() })
    }

    /// The stream, for another thread to shut down.
    pub fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    /// Reads what has arrived into `data` and, once that is full, into `buffer`. Returns the number of
    /// bytes, 0 if nothing has arrived.
    ///
    /// # Errors
    /// The connection is broken, or the peer closed it ([`ErrorKind::UnexpectedEof`]).
    pub fn receive_vectored(&mut self, data: &mut [u8], buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut stream = &*self.stream;
            let received = if data.is_empty() {
                stream.read(buffer)
            } else {
                stream.read_vectored(&mut [IoSliceMut::new(data), IoSliceMut::new(buffer)])
            };
            return match received {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => Ok(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Sends as much of `output` as the socket accepts now and returns the number of bytes.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, output: &mut impl Outgoing) -> io::Result<usize> {
        let mut total = 0;
        while output.unsent() > 0 {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = output.next_slices(&mut slices);
            let sent = match &slices[..count] {
                [slice] => (&*self.stream).write(slice),
                slices => {
                    let nothing = &mut SendAncillaryBuffer::default();
                    sendmsg(&*self.stream, slices, nothing, SendFlags::NOSIGNAL).map_err(Into::into)
                }
            };
            match sent {
                Ok(len) => {
                    output.sent(len);
                    total += len;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if total > 0 {
            self.progress = Instant::now();
        }
        Ok(total)
    }

    /// How long the peer has accepted nothing of what there is to send.
    pub fn stalled(&self, output: &impl Outgoing) -> Duration {
        if output.unsent() == 0 { Duration::ZERO } else { self.progress.elapsed() }
    }

    /// Waits until bytes arrive (if `reads`) or can be sent (if `writes`), the peer is gone, or
    /// `timeout` is over.
    pub fn wait(&self, reads: bool, writes: bool, timeout: Option<Duration>) {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, reads);
        events.set(PollFlags::OUT, writes);
        let timeout = timeout.map(timespec);
        // Interrupted or not, the caller looks again.
        let _ = poll(&mut [PollFd::new(&*self.stream, events)], timeout.as_ref());
    }

    /// Waits until bytes arrive or can be sent (if `writes`), the peer is gone, `other` can be read, or
    /// `timeout` is over.
    pub fn wait_with(&self, writes: bool, other: BorrowedFd<'_>, timeout: Duration) {
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, writes);
        let fds = &mut [
            PollFd::new(&*self.stream, events),
            PollFd::from_borrowed_fd(other, PollFlags::IN),
        ];
        // Interrupted or not, the caller looks again.
        let _ = poll(fds, Some(&timespec(timeout)));
    }

    /// Closes the connection, best effort.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    }
}

impl Socket {
    /// An epoll instance: a descriptor that is readable while the socket can be read or written.
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let events = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        epoll::add(&epoll, &*self.stream, epoll::EventData::new_u64(0), events)?;
        Ok(epoll)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
