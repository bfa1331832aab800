//! The same bytes over a bare socket, in the pattern of ours: each end sends in one call what one call
//! has received the counterpart of, and does nothing else. The bound of what any initiator and target
//! reach that send and receive with these calls.
use super::loads::Row;
use super::loopback::pause;
use super::measured::{Counts, Measured, Threads};
use super::{RESPONSE, ROUND};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{SendFlags, send};
use std::hint::spin_loop;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;
use zonal_blk::Op;
use zonal_os::poll::WaitPolicy;
use zonal_os::poll::socket::{HEADER_BUFFER, RECEIVE_BUFFER, pause_for};

/// A command capsule without data.
const COMMAND: usize = 72;
/// Bytes that one call sends at most, but for one message that is longer: as many as our ends collect.
const SEND: usize = 64 << 10;

/// One end.
struct End {
    stream: TcpStream,
    waiting: WaitPolicy,
    /// Bytes of a message from the other end, and of one to it.
    expected: usize,
    sent: usize,
    /// Bytes that have arrived of a message that is not complete.
    partial: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Calls that sent bytes.
    sends: u64,
    /// Calls that found nothing to receive.
    empty: u64,
}

impl End {
    fn new(stream: TcpStream, waiting: WaitPolicy, expected: usize, sent: usize) -> Self {
        stream.set_nonblocking(true).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        // As the sockets of both ends: others may be paced.
        set_tcp_congestion(&stream, "reno").expect("Reno is always available");
        let input = vec![0; expected.max(RECEIVE_BUFFER)];
        let output = vec![0; sent * (SEND / sent).max(1)];
        End { stream, waiting, expected, sent, partial: 0, input, output, sends: 0, empty: 0 }
    }

    /// Waits for messages: the number that has arrived, or `None` if the other end has gone.
    fn receive(&mut self) -> Option<u64> {
        // Long messages one by one, as ours are received where they belong.
        let is_long = self.expected > HEADER_BUFFER;
        loop {
            let missing = self.expected - self.partial;
            let len = if is_long { missing } else { self.input.len() };
            match self.stream.read(&mut self.input[..len]) {
                Ok(0) => return None,
                Ok(len) => {
                    let arrived = self.partial + len;
                    self.partial = arrived % self.expected;
                    if arrived >= self.expected {
                        return Some((arrived / self.expected) as u64);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(missing),
                Err(_) => return None,
            }
        }
    }

    /// Passes the time until the next look, as long as a socket of ours leaves the sender alone.
    fn wait(&mut self, missing: usize) {
        self.empty += 1;
        let Some(time) = pause_for(missing) else { return pause(self.waiting) };
        let begin = Instant::now();
        while begin.elapsed() < time {
            spin_loop();
        }
    }

    /// Sends messages; whether the other end is there.
    fn send(&mut self, count: u64) -> bool {
        let mut left = self.sent * usize::try_from(count).expect("no more than the depth");
        while left > 0 {
            let len = left.min(self.output.len());
            let mut flags = SendFlags::NOSIGNAL;
            flags.set(SendFlags::MORE, left > len);
            match send(&self.stream, &self.output[..len], flags) {
                Ok(sent) => {
                    left -= sent;
                    self.sends += 1;
                }
                Err(error) if error == rustix::io::Errno::AGAIN => pause(self.waiting),
                Err(_) => return false,
            }
        }
        true
    }
}

/// Commands and their answers: the data follow the commands of writes, and are in the answers to reads.
pub fn round(row: &Row) -> Measured {
    let (len, waiting) = (row.len as usize, row.waiting);
    let (command, answer) = match row.op {
        Op::Write => (COMMAND + len, RESPONSE),
        _ => (COMMAND, RESPONSE + len),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let target = thread::spawn(move || {
        let stream = listener.accept().expect("a connection").0;
        let mut target = End::new(stream, waiting, command, answer);
        while let Some(count) = target.receive()
            && target.send(count)
        {}
        (target.sends, target.empty)
    });
    let stream = TcpStream::connect(address).expect("it listens");
    let mut host = End::new(stream, waiting, answer, command);
    assert!(host.send(row.depth as u64), "the other end has gone");
    let (begin, threads, mut count) = (Instant::now(), Threads::now(), 0);
    while begin.elapsed() < ROUND {
        let arrived = host.receive().expect("the other end is there");
        count += arrived;
        assert!(host.send(arrived), "the other end has gone");
    }
    let measured = Measured::new(count, row.depth, begin.elapsed(), threads);
    let mut in_flight = row.depth as u64;
    while in_flight > 0 {
        in_flight -= host.receive().expect("the other end is there");
    }
    let End { stream, sends: host_sends, empty: host_empty, .. } = host;
    drop(stream);
    let (target_sends, target_empty) = target.join().expect("the other end");
    let of_io = |calls: u64| calls as f64 / count as f64;
    let counts = Counts {
        host_sends: of_io(host_sends),
        target_sends: of_io(target_sends),
        empty: of_io(host_empty + target_empty),
        ..measured.counts
    };
    Measured { counts, ..measured }
}
