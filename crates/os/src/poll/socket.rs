//! A connected socket that blocks nowhere but in `Socket::wait`.
use super::pause;
use crate::tls::TlsStream;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_congestion, set_tcp_nodelay};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zonal_blk::Outgoing;

/// Bytes that are received at a time.
pub const RECEIVE_BUFFER: usize = 256 << 10;
/// The same while long data may follow: what the header of their PDU leaves of them is copied, the rest
/// is received where it belongs.
pub const HEADER_BUFFER: usize = 16 << 10;
/// Data from this length on are under way for longer than a call takes.
const LONG_MISSING: usize = 32 << 10;
/// How long a call lasts that finds none of such data. Each takes the lock of the socket, for which a
/// sender on this machine waits: fewer calls that find more cost both ends less.
const PAUSE: Duration = Duration::from_micros(2);
/// Pieces of memory that are sent at a time.
const MAX_SLICES: usize = 64;

/// The side of a connection that this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// NVMe/TCP host.
    Host,
    /// NVMe/TCP target.
    Target,
}

/// System calls on sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCalls {
    /// That sent bytes.
    pub sends: u64,
    /// That received bytes.
    pub receives: u64,
    /// That found nothing to receive.
    pub empty: u64,
}

/// By [`End`]; of sockets that are closed.
static CALLS: [[AtomicU64; 3]; 2] = [const { [const { AtomicU64::new(0) }; 3] }; 2];

impl SocketCalls {
    /// Those on the sockets of one end that this process has closed.
    pub fn of_closed(end: End) -> Self {
        let [sends, receives, empty] =
            CALLS[end as usize].each_ref().map(|count| count.load(Ordering::Relaxed));
        SocketCalls { sends, receives, empty }
    }

    fn add(self, end: End) {
        let counts = [self.sends, self.receives, self.empty];
        for (total, count) in CALLS[end as usize].iter().zip(counts) {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// How long a thread lets a sender work that has found none of this many bytes of data.
#[doc(hidden)]
pub fn pause_for(missing: usize) -> Option<Duration> {
    (missing >= LONG_MISSING).then_some(PAUSE)
}

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    stream: Arc<TcpStream>,
    end: End,
    calls: SocketCalls,
    /// The TLS layer, if the connection has one.
    tls: Option<Box<TlsStream>>,
    /// When bytes were last sent.
    progress: Instant,
    /// The last bytes were sent with the promise of more: the kernel may keep them to fill a segment.
    promised: bool,
}

impl Socket {
    /// Makes the stream a socket that does not block.
    ///
    /// # Errors
    /// The options of a socket cannot be set.
    pub fn new(stream: TcpStream, end: End) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A peer that has vanished is noticed, within hours, even where no other timeout runs.
        set_socket_keepalive(&stream, true)?;
        if stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback()) {
            // Nothing is congested there, and to be paced (BBR) costs up to half of the rate. Reno is
            // always available.
            let _ = set_tcp_congestion(&stream, "reno");
        }
        Ok(Socket {
            stream: Arc::new(stream),
            end,
            calls: SocketCalls::default(),
            tls: None,
            progress: Instant::now(),
            promised: false,
        })
    }

    /// Everything goes through TLS from now on, whose handshake is still to be made.
    pub fn begin_tls(&mut self, tls: TlsStream) {
        self.tls = Some(Box::new(tls));
    }

    /// TLS of the connection.
    pub fn tls(&mut self) -> Option<&mut TlsStream> {
        self.tls.as_deref_mut()
    }

    /// Whether there may be more to [receive](Self::receive_vectored) although the descriptor is not
    /// readable: what TLS has read from the socket.
    pub fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_more())
    }

    /// Whether TLS has to be called again when the descriptor can be written.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// The stream, for another thread to shut down.
    pub fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    /// Reads what has arrived into `data` and, once that is full, into `buffer`. Returns the number of
    /// bytes, 0 if nothing has arrived: after a pause of 2 us if `data` is long, or if a header is next
    /// and `long` data follow it.
    ///
    /// # Errors
    /// The connection is broken, or the peer closed it ([`ErrorKind::UnexpectedEof`]).
    pub fn receive_vectored(
        &mut self,
        data: &mut [u8],
        buffer: &mut [u8],
        long: bool,
    ) -> io::Result<usize> {
        self.receive_or_pause(data, buffer, long, pause)
    }

    fn receive_or_pause(
        &mut self,
        data: &mut [u8],
        buffer: &mut [u8],
        long: bool,
        pause: impl FnOnce(Duration),
    ) -> io::Result<usize> {
        if let Some(tls) = &mut self.tls {
            return tls.receive(data, buffer);
        }
        loop {
            let mut stream = &*self.stream;
            let received = if data.is_empty() {
                stream.read(buffer)
            } else {
                stream.read_vectored(&mut [IoSliceMut::new(data), IoSliceMut::new(buffer)])
            };
            return match received {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.calls.receives += 1;
                    Ok(len)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.calls.empty += 1;
                    let missing = if long && data.is_empty() { LONG_MISSING } else { data.len() };
                    if let Some(time) = pause_for(missing) {
                        pause(time);
                    }
                    Ok(0)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Sends as much of `output` as the socket accepts now and returns the number of bytes. If `more`
    /// follows soon, what does not fill a segment waits for it, as every segment costs both ends about
    /// as much as several commands: the caller then has to call this again, without `more` in the end.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, output: &mut impl Outgoing, more: bool) -> io::Result<usize> {
        if let Some(tls) = &mut self.tls {
            let total = tls.send(output)?;
            if total > 0 {
                self.progress = Instant::now();
            }
            return Ok(total);
        }
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        let mut total = 0;
        while output.unsent() > 0 {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = output.next_slices(&mut slices);
            let sent = match &slices[..count] {
                [slice] => send(&*self.stream, slice, flags),
                slices => {
                    sendmsg(&*self.stream, slices, &mut SendAncillaryBuffer::default(), flags)
                }
            };
            match sent.map_err(io::Error::from) {
                Ok(len) => {
                    output.sent(len);
                    total += len;
                    self.calls.sends += 1;
                    self.promised = more;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if total > 0 {
            self.progress = Instant::now();
        }
        if self.promised && !more {
            // Nothing more came. Setting the option sends what the kernel has kept (tcp(7)).
            set_tcp_nodelay(&*self.stream, true)?;
            self.promised = false;
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
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close();
        }
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

impl Drop for Socket {
    fn drop(&mut self) {
        self.calls.add(self.end);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};

    /// Bytes to send, all that there are.
    struct Bytes(Vec<u8>);

    impl Outgoing for Bytes {
        fn unsent(&self) -> usize {
            self.0.len()
        }
        fn next_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
            slices[0] = IoSlice::new(&self.0);
            1
        }
        fn sent(&mut self, len: usize) {
            self.0.drain(..len);
        }
    }

    /// A socket and its peer.
    fn connected() -> (Socket, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).expect("it listens");
        let socket = Socket::new(stream, End::Host).expect("a socket");
        (socket, listener.accept().expect("a connection").0)
    }

    /// One call that receives into `data`: the bytes that it found and whether it paused.
    fn receive(socket: &mut Socket, data: &mut [u8], long: bool) -> (usize, bool) {
        let mut pauses = Vec::new();
        let len = socket
            .receive_or_pause(data, &mut [0; 16], long, |time| pauses.push(time))
            .expect("an open connection");
        assert!(pauses.iter().all(|&time| time == PAUSE));
        (len, !pauses.is_empty())
    }

    #[test]
    fn only_a_call_that_finds_none_of_long_data_pauses() {
        let (mut socket, mut peer) = connected();
        let mut data = vec![0; 2 * LONG_MISSING];
        assert_eq!(receive(&mut socket, &mut data, false), (0, true));
        assert_eq!(receive(&mut socket, &mut data[..LONG_MISSING], false), (0, true));
        assert_eq!(receive(&mut socket, &mut data[..LONG_MISSING - 1], false), (0, false), "short");
        assert_eq!(receive(&mut socket, &mut [], false), (0, false), "no data are missing");
        assert_eq!(receive(&mut socket, &mut [], true), (0, true), "a header is next");
        let short = &mut data[..LONG_MISSING - 1];
        assert_eq!(receive(&mut socket, short, true), (0, false), "its data come first");
        // A part of the data, then the rest of them.
        let mut came = 0;
        for len in [LONG_MISSING + 1, LONG_MISSING - 1] {
            peer.write_all(&vec![7; len]).expect("room");
            let until = came + len;
            while came < until {
                socket.wait(true, false, None);
                let (found, paused) = receive(&mut socket, &mut data[came..], false);
                assert!(found > 0 && !paused, "data that have arrived are taken immediately");
                came += found;
            }
            let missing = data.len() - came;
            let expected = (0, missing >= LONG_MISSING);
            assert_eq!(
                receive(&mut socket, &mut data[came..], false),
                expected,
                "{missing} are missing"
            );
        }
        assert!(data.iter().all(|&byte| byte == 7));
        assert_eq!(socket.calls.empty, 8);
    }

    #[test]
    fn promised_bytes_are_followed_by_others_or_pushed() {
        let (mut socket, mut peer) = connected();
        let mut found = [0; 6];
        socket.send(&mut Bytes(vec![1, 2]), true).expect("room");
        assert!(socket.promised);
        socket.send(&mut Bytes(vec![3, 4]), false).expect("room");
        assert!(!socket.promised, "the bytes after them push them");
        socket.send(&mut Bytes(vec![5, 6]), true).expect("room");
        socket.send(&mut Bytes(Vec::new()), false).expect("an open connection");
        assert!(!socket.promised, "pushed without bytes");
        peer.read_exact(&mut found).expect("all bytes");
        assert_eq!((found, socket.calls.sends), ([1, 2, 3, 4, 5, 6], 3));
    }
}
