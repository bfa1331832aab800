//! A connected socket that blocks nowhere but in `Socket::wait`.
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::sockopt::set_socket_keepalive;
use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are received at a time.
pub(crate) const RECEIVE_BUFFER: usize = 256 << 10;
/// Bytes at the front of the output that have been sent are removed at the latest when there are as
/// many.
const COMPACT_THRESHOLD: usize = 1 << 20;

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Arc<TcpStream>,
    /// Bytes at the front of the output that have been sent.
    sent: usize,
    /// When bytes were last sent.
    progress: Instant,
}

impl Socket {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A peer that has vanished is noticed, within hours, even where no other timeout runs.
        set_socket_keepalive(&stream, true)?;
        Ok(Socket { stream: Arc::new(stream), sent: 0, progress: Instant::now() })
    }

    /// The stream, for another thread to shut down.
    pub fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    /// Reads what has arrived into `buffer`. Returns the number of bytes, 0 if nothing has arrived.
    ///
    /// # Errors
    /// The connection is broken, or the peer closed it ([`ErrorKind::UnexpectedEof`]).
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_vectored(&mut [], buffer)
    }

    /// As [`Socket::receive`]; fills `data` before `buffer`.
    ///
    /// # Errors
    /// As [`Socket::receive`].
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

    /// Sends as much of `output` as the socket accepts now and returns the number of bytes. They are
    /// removed from `output` when all have been sent, or [`COMPACT_THRESHOLD`] of them.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, output: &mut Vec<u8>) -> io::Result<usize> {
        let before = self.sent;
        while self.sent < output.len() {
            match (&*self.stream).write(&output[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let len = self.sent - before;
        if len > 0 {
            self.progress = Instant::now();
        }
        if self.sent == output.len() {
            output.clear();
            self.sent = 0;
        } else if self.sent >= COMPACT_THRESHOLD {
            output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(len)
    }

    /// Bytes at the front of the output that have been sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Bytes of `output` that have not been sent.
    pub fn unsent(&self, output: &[u8]) -> usize {
        output.len() - self.sent
    }

    /// How long the peer has accepted nothing of what there is to send.
    pub fn stalled(&self, output: &[u8]) -> Duration {
        if self.unsent(output) == 0 { Duration::ZERO } else { self.progress.elapsed() }
    }

    /// Waits until bytes arrive (if `reads`) or can be sent (if `writes`), the peer is gone, or
    /// `timeout` is over.
    pub fn wait(&self, reads: bool, writes: bool, timeout: Option<Duration>) {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, reads);
        events.set(PollFlags::OUT, writes);
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        // Interrupted or not, the caller looks again.
        let _ = poll(&mut [PollFd::new(&*self.stream, events)], timeout.as_ref());
    }

    /// Closes the connection, best effort.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
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
