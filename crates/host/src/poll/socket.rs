//! A socket that is never waited for by accident.
//!
//! Takes bytes to send and a buffer; gives what came. Keeps true: nothing blocks but
//! [`Socket::wait`], which wakes up for bytes that came, for room to send, or when its time is over.
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_keepalive;
use rustix::thread::set_current_timer_slack;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

/// What is received at a time, in bytes.
pub(crate) const RECEIVE_BUFFER: usize = 256 << 10;
/// What was sent is taken out of the front of the output at the latest when it is this much.
const COMPACT_THRESHOLD: usize = 1 << 20;

/// How long a thread looks for bytes before it sleeps: longer than a peer takes that is at work.
pub(crate) const SPIN_TIME: Duration = Duration::from_micros(50);
/// Giving way to others that takes longer than this was to somebody who does not wait for bytes.
const SLOW_YIELD: Duration = Duration::from_micros(200);
/// How long nobody is given way to after that.
const NO_SPIN_TIME: Duration = Duration::from_millis(50);

/// Looks for bytes before sleeping, giving way to other threads: the peer may be one that needs
/// this processor.
///
/// On a machine with other work that can cost milliseconds each time, where who sleeps is woken at
/// once: then it does not look.
#[derive(Debug, Default)]
pub(crate) struct SpinWait {
    since: Option<Instant>,
    crowded: Option<Instant>,
}

impl SpinWait {
    /// Gives way once. Whether to look again; after `most`, or on a busy machine, it is time to
    /// sleep.
    pub fn spin(&mut self, most: Duration) -> bool {
        let now = Instant::now();
        if self.crowded.is_some_and(|since| now - since < NO_SPIN_TIME)
            || now - *self.since.get_or_insert(now) > most
        {
            return false;
        }
        thread::yield_now();
        let crowded = now.elapsed() > SLOW_YIELD;
        self.crowded = crowded.then_some(now);
        true
    }

    /// Something came.
    pub fn reset(&mut self) {
        self.since = None;
    }
}

/// Lets the calling thread's sleeps end within a microsecond of their time; by default Linux may
/// add 50 (prctl(2), PR_SET_TIMERSLACK).
pub(crate) fn set_timer_slack() {
    // Where it is refused, sleeps are longer.
    let _ = set_current_timer_slack(NonZeroU64::new(1000));
}

/// How a connection's thread waits for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// It sleeps, after having looked for this long.
    Sleep(Duration),
    /// It goes on looking: the least latency, for a processor.
    Poll,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        WaitPolicy::Sleep(SPIN_TIME)
    }
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    /// Bytes at the front of the output that were sent.
    sent: usize,
    /// When bytes were last sent, or there was nothing to send.
    progress: Instant,
}

impl Socket {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A peer that vanished without a word is noticed, in hours, also where nothing else is due.
        set_socket_keepalive(&stream, true)?;
        Ok(Socket { stream, sent: 0, progress: Instant::now() })
    }

    /// Reads what there is into `buffer`; 0 if there is nothing now.
    ///
    /// # Errors
    /// The connection is broken, or the peer closed it ([`ErrorKind::UnexpectedEof`]).
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            return match self.stream.read(buffer) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => Ok(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Sends from `output` what the peer takes now; gives the number of bytes. What was sent is
    /// taken out when all was, or when it has become much.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, output: &mut Vec<u8>) -> io::Result<usize> {
        let before = self.sent;
        while self.sent < output.len() {
            match self.stream.write(&output[self.sent..]) {
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

    /// Bytes of `output` that were not sent.
    pub fn unsent(&self, output: &[u8]) -> usize {
        output.len() - self.sent
    }

    /// How long the peer has taken none of what there is to send.
    pub fn stalled(&self, output: &[u8]) -> Duration {
        if self.unsent(output) == 0 { Duration::ZERO } else { self.progress.elapsed() }
    }

    /// Waits until bytes come (if `reads`) or can be sent (if `writes`), until the peer is gone, or
    /// for `timeout`.
    pub fn wait(&self, reads: bool, writes: bool, timeout: Option<Duration>) {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, reads);
        events.set(PollFlags::OUT, writes);
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        // Interrupted or not: who waits looks for itself.
        let _ = poll(&mut [PollFd::new(&self.stream, events)], timeout.as_ref());
    }

    /// Ends the connection, best effort.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
