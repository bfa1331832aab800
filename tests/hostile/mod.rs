//! A hostile NVMe/TCP host: it sends what it likes, keeps connections open and need not read.
//!
//! ```text
//!  Target   where the server listens, and its NQN
//!  Client   one connection: bytes, PDUs, Connect, commands; counts what the server answers
//!  attacks  ways to misbehave, for load beside an honest host
//!  local    the same at exports of several devices: virtual machines, pages, the control socket
//!  single   the same at exports of one device: virtio disks, files, block devices
//! ```
//!
//! Nothing here fails a test by itself: a server may refuse or close at any time, and that is an
//! `io::Error` or an answer. The tests decide what is right.
#![allow(dead_code, reason = "each test binary uses a part of it")]
pub mod attacks;
pub mod local;
pub mod single;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use zerocopy::IntoBytes;
use zonal_nvme::NvmeStatus;
use zonal_nvme::tcp::{
    DataLimits, Decoder, Digests, Format, Initialize, Payload, Pdu, Role, encode,
};
use zonal_nvme::wire::fabrics::{
    CNTLID_ANY, ConnectCommand, ConnectData, Property, PropertyCommand,
};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType};
use zonal_nvme::wire::queue::PSDT_SGL;
use zonal_nvme::wire::{Cqe, Sgl, Sqe, terminated};

/// How long an answer may take before it counts as none.
const PATIENCE: Duration = Duration::from_secs(600);

/// A server.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    pub nqn: String,
}

impl Target {
    /// From the address that `zonal serve` prints: `nvme-tcp://ADDRESS:PORT/NQN`.
    pub fn parse(location: &str) -> Self {
        let rest = location.strip_prefix("nvme-tcp://").expect("an address of NVMe/TCP");
        let (address, nqn) = rest.split_once('/').expect("an NQN");
        Target { address: address.parse().expect("one address"), nqn: nqn.to_owned() }
    }

    /// A connection on which nothing was sent yet.
    pub fn open(&self) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let limits = DataLimits { in_capsule: 0, data: 16 << 20 };
        Ok(Client {
            stream,
            format: Format::default(),
            decoder: Decoder::new(Role::Controller, limits),
            received: Vec::new(),
            answers: Answers::default(),
            cid: 0,
        })
    }

    /// A connection with ICReq and ICResp exchanged.
    pub fn initialized(&self) -> io::Result<Client> {
        let mut client = self.open()?;
        client.initialize(Digests::default())?;
        Ok(client)
    }

    /// A connection after Connect, whatever the server answered to that.
    pub fn connected(&self, connect: &Connect) -> io::Result<(Client, Cqe)> {
        let mut client = self.initialized()?;
        let cqe = client.connect(&self.nqn, connect)?;
        Ok((client, cqe))
    }

    /// An enabled controller and its I/O queue 1.
    pub fn queues(&self, hostnqn: &str) -> io::Result<(Client, Client)> {
        let admin = Connect { hostnqn, ..Connect::default() };
        let (mut client, cqe) = self.connected(&admin)?;
        let cntlid = u16::try_from(cqe.result() & 0xffff).expect("16 bits");
        client.enable()?;
        let io = Connect { qid: 1, cntlid, ..admin };
        Ok((client, self.connected(&io)?.0))
    }
}

/// The parameters of Connect.
#[derive(Clone, Copy, Debug)]
pub struct Connect<'a> {
    pub hostnqn: &'a str,
    pub host_id: [u8; 16],
    /// 0 for an admin queue.
    pub qid: u16,
    pub cntlid: u16,
    /// Entries, minus one.
    pub sqsize: u16,
    /// Keep Alive Timeout in milliseconds; 0 for none.
    pub kato: u32,
}

impl Default for Connect<'_> {
    fn default() -> Self {
        Connect {
            hostnqn: "nqn.2026-11.org.example:hostile",
            host_id: [6; 16],
            qid: 0,
            cntlid: CNTLID_ANY,
            sqsize: 127,
            kato: 0,
        }
    }
}

/// What a server has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Response capsules by status code, without More and Do Not Retry.
    pub responses: BTreeMap<u16, u64>,
    pub r2ts: u64,
    /// Bytes of data.
    pub data: u64,
    /// Termination requests by Fatal Error Status.
    pub terminations: BTreeMap<u16, u64>,
}

impl Answers {
    /// Adds those of another connection.
    pub fn add(&mut self, other: &Answers) {
        self.r2ts += other.r2ts;
        self.data += other.data;
        for (status, count) in &other.responses {
            *self.responses.entry(*status).or_default() += count;
        }
        for (status, count) in &other.terminations {
            *self.terminations.entry(*status).or_default() += count;
        }
    }

    fn count(&mut self, pdu: &Pdu) {
        match pdu {
            Pdu::Response(cqe) => {
                *self.responses.entry(cqe.status().code().0).or_default() += 1;
            }
            Pdu::ReadyToTransfer { .. } => self.r2ts += 1,
            Pdu::ControllerData { data, .. } => self.data += data.bytes.len() as u64,
            Pdu::Terminate { status, .. } => *self.terminations.entry(*status).or_default() += 1,
            _ => {}
        }
    }
}

/// One connection to a server.
pub struct Client {
    stream: TcpStream,
    format: Format,
    decoder: Decoder,
    /// Received and not decoded.
    received: Vec<u8>,
    pub answers: Answers,
    cid: u16,
}

impl Client {
    /// Sends any bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends as many bytes as the server takes without waiting. Returns their number.
    pub fn send_without_waiting(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_nonblocking(true)?;
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.stream.set_nonblocking(false)?;
        Ok(sent)
    }

    /// The bytes of a PDU as this connection has agreed on them.
    pub fn bytes(&self, pdu: &Pdu) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(pdu, self.format, &mut bytes);
        bytes
    }

    pub fn send(&mut self, pdu: &Pdu) -> io::Result<()> {
        self.send_bytes(&self.bytes(pdu))
    }

    /// The next PDU.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] if the server closed the connection, [`ErrorKind::InvalidData`] if
    /// it sent no PDU, [`ErrorKind::WouldBlock`] if it sent nothing for long.
    pub fn receive(&mut self) -> io::Result<Pdu> {
        loop {
            let mut bytes = &self.received[..];
            let decoded = self.decoder.decode(&mut bytes);
            let used = self.received.len() - bytes.len();
            self.received.drain(..used);
            if let Some(pdu) =
                decoded.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?
            {
                self.answers.count(&pdu);
                return Ok(pdu);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.received.extend_from_slice(&buffer[..len]),
                // With a timeout it ends when the process was stopped and goes on.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next response capsule. Data and R2Ts before it are counted and not used.
    pub fn response(&mut self) -> io::Result<Cqe> {
        loop {
            match self.receive()? {
                Pdu::Response(cqe) => return Ok(cqe),
                Pdu::Terminate { .. } => return Err(ErrorKind::ConnectionAborted.into()),
                _ => {}
            }
        }
    }

    /// Whether the server has closed the connection, or does so soon. What it sends before counts.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.receive() {
                Ok(_) => {}
                Err(error) => {
                    return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                }
            }
        }
    }

    /// Whether the connection is open now. Does not wait, and uses up what the server has sent.
    pub fn is_open(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let open = !self.is_closed();
        self.stream.set_nonblocking(false).expect("a socket");
        open
    }

    /// Exchanges ICReq and ICResp.
    pub fn initialize(&mut self, digests: Digests) -> io::Result<Initialize> {
        self.send(&Pdu::IcReq(Initialize { digests, ..Initialize::default() }))?;
        let Pdu::IcResp(response) = self.receive()? else {
            return Err(ErrorKind::InvalidData.into());
        };
        self.format = Format { digests: response.digests, alignment: response.alignment };
        self.decoder.set_format(Format { digests: response.digests, alignment: 0 });
        Ok(response)
    }

    /// Sends Connect and returns the response to it.
    pub fn connect(&mut self, subnqn: &str, connect: &Connect) -> io::Result<Cqe> {
        self.send(&connect_pdu(subnqn, connect))?;
        self.response()
    }

    /// Enables the controller.
    pub fn enable(&mut self) -> io::Result<Cqe> {
        let mut command = PropertyCommand::zeroed();
        (command.opcode, command.fctype) = (FABRICS, FabricsType::PROPERTY_SET.0);
        (command.offset, command.value) = (Property::CC.0.into(), 0x46_0061.into());
        self.command(command.into(), &[])
    }

    /// Sends a command with data in its capsule, and returns its completion.
    pub fn command(&mut self, sqe: Sqe, data: &[u8]) -> io::Result<Cqe> {
        let pdu = self.capsule(sqe, data);
        self.send(&pdu)?;
        self.response()
    }

    /// A command with the next identifier and data in its capsule, to be sent.
    pub fn capsule(&mut self, mut sqe: Sqe, data: &[u8]) -> Pdu {
        self.cid = self.cid.wrapping_add(1);
        sqe.cid = self.cid.into();
        sqe.flags = PSDT_SGL;
        if !data.is_empty() {
            let len = u32::try_from(data.len()).expect("short data");
            sqe.dptr = Sgl::in_capsule(len);
        }
        Pdu::Command { sqe, data: Payload::from(data.to_vec()) }
    }
}

/// A Connect capsule.
pub fn connect_pdu(subnqn: &str, connect: &Connect) -> Pdu {
    let mut command = ConnectCommand::zeroed();
    (command.opcode, command.flags) = (FABRICS, PSDT_SGL);
    command.fctype = FabricsType::CONNECT.0;
    (command.qid, command.sqsize) = (connect.qid.into(), connect.sqsize.into());
    command.kato = connect.kato.into();
    command.dptr = Sgl::in_capsule(1024);
    let mut data = ConnectData::zeroed();
    data.host_id = connect.host_id;
    data.cntlid = connect.cntlid.into();
    data.subnqn = terminated(subnqn);
    data.hostnqn = terminated(connect.hostnqn);
    Pdu::Command { sqe: command.into(), data: data.as_bytes().to_vec().into() }
}

/// Whether a completion has this status code, whatever its Do Not Retry.
pub fn is(cqe: &Cqe, status: NvmeStatus) -> bool {
    cqe.status().code() == status.code()
}
