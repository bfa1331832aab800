//! A connection to one queue of a controller, and commands that are waited for.
use super::address::{Address, HOST_ID};
use super::error::ConnectError;
use super::secure::secure;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;
use zonal_blk::{Buf, Outgoing};
use zonal_nvme::tcp::{HostConfig, HostConnection, HostEvent};
use zonal_nvme::wire::fabrics::{ConnectCommand, ConnectData, DISABLE_SQ_FLOW};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType};
use zonal_nvme::wire::queue::PSDT_SGL;
use zonal_nvme::wire::{Cqe, Sqe, terminated};
use zonal_os::poll::socket::{End, HEADER_BUFFER, RECEIVE_BUFFER, Socket};

/// How long connect(2) may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a command may take, as in Linux (`nvme_core.io_timeout`).
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a queue of a controller.
#[derive(Debug)]
pub(super) struct QueueConnection {
    pub socket: Socket,
    pub tcp: HostConnection,
    pub buffer: Vec<u8>,
    pub events: Vec<HostEvent>,
    /// Readable when bytes have arrived or can be sent.
    readiness: OwnedFd,
    /// There are bytes that the socket did not accept.
    blocked: bool,
}

/// Fields of a Connect command.
pub(super) struct ConnectParams {
    pub cntlid: u16,
    pub qid: u16,
    /// Entries, minus one.
    pub sqsize: u16,
    /// Keep alive timeout in milliseconds; 0 for none.
    pub kato: u32,
}

impl QueueConnection {
    /// Connects to the target and to one of its queues, and authenticates. Also returns the result of
    /// Connect.
    ///
    /// # Errors
    /// Which step failed.
    pub fn connect(address: &Address, queue: &ConnectParams) -> Result<(Self, u64), ConnectError> {
        let failed = |source| ConnectError::Connect { target: address.target.clone(), source };
        let stream = open(&address.target).map_err(failed)?;
        let mut socket = Socket::new(stream, End::Host).map_err(failed)?;
        if let Some(tls) = &address.tls {
            secure(&mut socket, address, tls)?;
        }
        QueueConnection::over(socket, address, queue)
    }

    /// The same over a socket, whatever it was used for before.
    pub fn over(
        socket: Socket,
        address: &Address,
        queue: &ConnectParams,
    ) -> Result<(Self, u64), ConnectError> {
        let failed = |source| ConnectError::Connect { target: address.target.clone(), source };
        let config = HostConfig { digests: address.digests, ..HostConfig::default() };
        let mut connection = QueueConnection {
            readiness: socket.readiness().map_err(failed)?,
            socket,
            tcp: HostConnection::new(config),
            buffer: vec![0; RECEIVE_BUFFER],
            events: Vec::new(),
            blocked: false,
        };
        connection.wait_for("ICReq", TIMEOUT, |event| matches!(event, HostEvent::Ready))?;
        let mut command = ConnectCommand::zeroed();
        (command.opcode, command.flags) = (FABRICS, PSDT_SGL);
        command.fctype = FabricsType::CONNECT.0;
        command.qid = queue.qid.into();
        command.sqsize = queue.sqsize.into();
        command.kato = queue.kato.into();
        if queue.qid > 0 {
            // A queue has no more commands in flight than entries: it needs no SQHD, and so no response
            // capsules after data.
            command.attributes = DISABLE_SQ_FLOW;
        }
        let mut data = ConnectData::zeroed();
        data.host_id = HOST_ID;
        data.cntlid = queue.cntlid.into();
        data.subnqn = terminated(&address.nqn);
        data.hostnqn = terminated(&address.host_nqn);
        let data = data.as_bytes().to_vec();
        let (cqe, _) = connection.execute("Connect", command.into(), data, 0)?;
        connection.authenticate(address, cqe.result())?;
        Ok((connection, cqe.result()))
    }

    /// Sends a command, with 0 as its identifier, and waits for its completion, and for `read_len` bytes
    /// of data.
    ///
    /// # Errors
    /// The connection or the command failed.
    pub fn execute(
        &mut self,
        doing: &'static str,
        sqe: Sqe,
        data: Vec<u8>,
        read_len: u32,
    ) -> Result<(Cqe, Vec<u8>), ConnectError> {
        self.execute_within(TIMEOUT, doing, sqe, data, read_len)
    }

    /// The same with another timeout.
    pub fn execute_within(
        &mut self,
        timeout: Duration,
        doing: &'static str,
        mut sqe: Sqe,
        data: Vec<u8>,
        read_len: u32,
    ) -> Result<(Cqe, Vec<u8>), ConnectError> {
        sqe.cid = 0.into();
        let buf = match read_len as usize {
            0 if data.is_empty() => None,
            0 => Some(Buf::from(&data[..])),
            len => Some(Buf::zeroed(len)),
        };
        let submitted = self.tcp.submit(sqe, buf);
        submitted.map_err(|refused| ConnectError::Submit { doing, source: refused.error })?;
        // An Asynchronous Event Request may complete at any time.
        let completed = |event: &HostEvent| matches!(event, HostEvent::Completed { cqe, .. } if cqe.cid.get() == 0);
        let event = self.wait_for(doing, timeout, completed)?;
        let HostEvent::Completed { cqe, data } = event else {
            unreachable!("the event waited for")
        };
        let status = cqe.status();
        if !status.is_success() {
            return Err(ConnectError::Refused { doing, status });
        }
        if data.damaged || data.received < read_len as usize {
            let (found, expected) = (data.received, read_len as usize);
            return Err(ConnectError::Data { doing, found, expected });
        }
        Ok((cqe, data.received().to_vec()))
    }

    fn wait_for(
        &mut self,
        doing: &'static str,
        timeout: Duration,
        wanted: impl Fn(&HostEvent) -> bool,
    ) -> Result<HostEvent, ConnectError> {
        let begin = Instant::now();
        loop {
            self.send_and_receive().map_err(|source| ConnectError::Io { doing, source })?;
            if let Some(found) = self.events.iter().position(&wanted) {
                return Ok(self.events.swap_remove(found));
            }
            if let Some(source) = self.tcp.close_reason().cloned() {
                return Err(ConnectError::Protocol { doing, source });
            }
            let Some(left) = timeout.checked_sub(begin.elapsed()) else {
                return Err(ConnectError::Timeout { doing, after: timeout });
            };
            self.socket.wait(true, self.blocked, Some(left));
        }
    }

    /// Waits until the connection can go on, `other` can be read, or `timeout` is over.
    pub fn wait(&self, other: BorrowedFd<'_>, timeout: Duration) {
        self.socket.wait_with(self.blocked, other, timeout);
    }

    /// Sends what the socket accepts, and receives what has arrived into `events`.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send_and_receive(&mut self) -> io::Result<()> {
        self.socket.send(&mut self.tcp, false)?;
        self.receive()?;
        while self.socket.has_more() {
            match self.receive() {
                // The next call returns it, after what has arrived.
                Err(_) if !self.events.is_empty() => break,
                received => received?,
            }
        }
        self.blocked = self.tcp.unsent() > 0 || self.socket.wants_write();
        Ok(())
    }

    /// Receives what has arrived, data of reads straight into their buffers.
    fn receive(&mut self) -> io::Result<()> {
        let long = self.tcp.expects_long_data();
        let len = if long { HEADER_BUFFER } else { RECEIVE_BUFFER };
        let buffer = &mut self.buffer[..len];
        let data = self.tcp.data_buffer().unwrap_or_default();
        let missing = data.len();
        let received = self.socket.receive_vectored(data, buffer, long)?;
        if missing > 0 {
            self.tcp.data_received(received.min(missing), &mut self.events);
        }
        self.tcp.receive(&buffer[..received.saturating_sub(missing)], &mut self.events);
        Ok(())
    }

    /// A descriptor that becomes readable when [`send_and_receive`](Self::send_and_receive) can go
    /// on.
    pub fn wait_fd(&self) -> RawFd {
        if self.blocked { self.readiness.as_raw_fd() } else { self.socket.as_fd().as_raw_fd() }
    }
}

/// Connects to the first address of a name that answers.
fn open(target: &str) -> io::Result<TcpStream> {
    let mut last = None;
    for address in target.to_socket_addrs()? {
        match connect_to(&address) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn connect_to(address: &SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(address, CONNECT_TIMEOUT)
}
