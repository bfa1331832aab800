//! A server, devices connected to it, and a raw connection.
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;
use zonal_blk::{
    Bio, Buf, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Zone, ZoneNo,
};
use zonal_device::device_spec;
use zonal_host::backend::nvme_tcp::{Address, ConnectError, NvmeTcpDevice};
use zonal_host::frontend::nvme_tcp::{Server, ServerConfig};
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_nvme::tcp::{Digests, Format, Initialize, Payload, Pdu, encode};
use zonal_nvme::wire::fabrics::{
    CNTLID_ANY, ConnectCommand, ConnectData, Property, PropertyCommand,
};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType, IoOpcode};
use zonal_nvme::wire::queue::PSDT_SGL;
use zonal_nvme::wire::{Sgl, Sqe, terminated};

pub const NQN: &str = "nqn.2026-11.org.example:zns";
pub const HOST: &str = "nqn.2026-11.org.example:host";

/// Sixteen zones of 1 MiB, 2048 sectors, with a capacity of 1536.
pub const ZONED: &str =
    "null:zones=16,zone_size=1M,zone_capacity=768K,memory=true,max_open=4,lba=4096";
pub const ZONE: u64 = 2048;

/// Timeout of whatever a test waits for.
const LONG: Duration = Duration::from_secs(30);

/// A device that is served.
pub struct Served {
    pub device: Arc<dyn Device>,
    pub server: Server,
    subsystem: Arc<Subsystem>,
    config: ServerConfig,
}

impl Served {
    pub fn new(device: &str) -> Self {
        Served::with(device, ServerConfig { peer_timeout: LONG, ..ServerConfig::default() })
    }

    pub fn with(device: &str, config: ServerConfig) -> Self {
        Served::on(0, device, config)
    }

    /// For hosts that authenticate.
    pub fn authenticated(device: &str, config: ServerConfig, auth: AuthConfig) -> Self {
        let subsystem = |config| Subsystem::authenticated(config, auth);
        Served::start(0, device, config, [7; 16], subsystem)
    }

    pub fn on(port: u16, device: &str, config: ServerConfig) -> Self {
        Served::start(port, device, config, [7; 16], Subsystem::new)
    }

    /// A device whose namespace has this identity.
    pub fn identified(port: u16, device: &str, uuid: [u8; 16]) -> Self {
        Served::start(port, device, ServerConfig::default(), uuid, Subsystem::new)
    }

    /// Any device.
    pub fn over(device: Arc<dyn Device>, config: ServerConfig) -> Self {
        Served::serve(0, device, config, [7; 16], Subsystem::new)
    }

    fn start(
        port: u16,
        device: &str,
        config: ServerConfig,
        uuid: [u8; 16],
        subsystem: impl FnOnce(SubsystemConfig) -> Arc<Subsystem>,
    ) -> Self {
        let device = device_spec::build(&device_spec::parse(device).expect("a spec"));
        Served::serve(port, device.expect("a device"), config, uuid, subsystem)
    }

    fn serve(
        port: u16,
        device: Arc<dyn Device>,
        config: ServerConfig,
        uuid: [u8; 16],
        subsystem: impl FnOnce(SubsystemConfig) -> Arc<Subsystem>,
    ) -> Self {
        let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
        let queue = Queue::attach(Arc::clone(&device), options).expect("a queue");
        let subsystem = subsystem(SubsystemConfig {
            nqn: NQN.to_owned(),
            serial: "1".to_owned(),
            model: "Zonal".to_owned(),
            firmware: "0".to_owned(),
        });
        let namespace = Namespace::new(queue, uuid).expect("a namespace");
        subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
        let server = listen(port, &subsystem, &config);
        Served { device, server, subsystem, config }
    }

    /// Another server for the same subsystem.
    pub fn another(&self) -> Server {
        self.another_on(0)
    }

    pub fn another_on(&self, port: u16) -> Server {
        listen(port, &self.subsystem, &self.config)
    }

    pub fn address(&self, options: &str) -> Address {
        let text = format!("nvme-tcp://{}/{NQN}?{options}", self.server.address());
        text.parse().expect("an address")
    }

    pub fn connect(&self, options: &str) -> Result<NvmeTcpDevice, ConnectError> {
        NvmeTcpDevice::connect(&self.address(options), 2)
    }

    /// A host that goes through a block layer of its own.
    pub fn host(&self, options: &str) -> Host {
        Host::new(Arc::new(self.connect(options).expect("a connection")), QueueOptions::default())
    }

    /// Waits until `count` connections are left.
    #[track_caller]
    pub fn wait_for_connections(&self, count: usize) {
        wait_until(|| self.server.connections() == count);
    }

    pub fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        stream.set_write_timeout(Some(LONG)).expect("a timeout");
        stream
    }
}

fn listen(port: u16, subsystem: &Arc<Subsystem>, config: &ServerConfig) -> Server {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Server::start(address, Arc::clone(subsystem), config.clone()).expect("a free port")
}

#[track_caller]
pub fn wait_until(mut reached: impl FnMut() -> bool) {
    let mut waited = Duration::ZERO;
    while !reached() {
        assert!(waited < LONG, "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
        waited += Duration::from_millis(2);
    }
}

/// A channel of a block layer over a connected device.
pub struct Host {
    pub device: Arc<dyn Device>,
    pub channel: Channel,
    pub done: Vec<Completion>,
}

impl Host {
    pub fn new(device: Arc<NvmeTcpDevice>, options: QueueOptions) -> Self {
        Host::over(device, options)
    }

    pub fn over(device: Arc<dyn Device>, options: QueueOptions) -> Self {
        let queue = Queue::attach(Arc::clone(&device), options);
        let channel = queue.expect("a queue").channel().expect("a hardware queue");
        Host { device, channel, done: Vec::new() }
    }

    pub fn submit(&mut self, bio: Bio) {
        self.channel.submit(Nanos(0), bio);
    }

    /// Waits for all completions and sorts them by `user_data`.
    #[track_caller]
    pub fn finish(&mut self) -> Vec<Completion> {
        wait_until(|| {
            // Polls often between looks at the time.
            for _ in 0..1000 {
                self.channel.poll(Nanos(0), &mut self.done);
            }
            self.channel.outstanding() == 0
        });
        let mut done = std::mem::take(&mut self.done);
        done.sort_by_key(|completion| completion.user_data);
        done
    }

    #[track_caller]
    pub fn one(&mut self, bio: Bio) -> Completion {
        self.submit(bio);
        self.finish().pop().expect("one completion")
    }

    pub fn write(&mut self, sector: u64, data: &[u8]) -> Completion {
        self.one(Bio::write(Sector(sector), Buf::from(data), 0))
    }

    pub fn read(&mut self, sector: u64, nr_sectors: u32) -> Completion {
        self.one(Bio::read(Sector(sector), nr_sectors, 0))
    }

    pub fn manage(&mut self, op: Op, sector: u64) -> Completion {
        self.one(Bio::new(op, Sector(sector), 0, 0))
    }
}

pub fn report(device: &dyn Device) -> Vec<Zone> {
    let mut zones = Vec::new();
    device.report_zones(ZoneNo(0), usize::MAX, &mut zones).expect("a report");
    zones
}

/// Bytes that differ everywhere.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |at: u64| (at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..len as u64 / 8).flat_map(word).collect()
}

/// A host that sends raw bytes.
pub struct Raw {
    pub stream: TcpStream,
    pub format: Format,
}

impl Raw {
    /// Initialized, not connected to a queue.
    pub fn new(served: &Served, digests: Digests) -> Self {
        let mut raw = Raw { stream: served.stream(), format: Format::default() };
        raw.send(&Pdu::IcReq(Initialize { digests, ..Initialize::default() }));
        raw.receive(128);
        raw.format = Format { digests, alignment: 0 };
        raw
    }

    /// With an admin queue.
    pub fn admin(served: &Served, digests: Digests, kato: u32) -> Self {
        let mut raw = Raw::new(served, digests);
        raw.send(&connect(0, CNTLID_ANY, kato));
        let digest = if digests.header { 4 } else { 0 };
        let response = raw.receive(24 + digest);
        assert_eq!(response[22..24], [0, 0], "success");
        raw
    }

    /// With I/O queue 1 of an enabled controller.
    pub fn queue(served: &Served, cntlid: u16) -> Self {
        let mut raw = Raw::new(served, Digests::default());
        raw.send(&connect(1, cntlid, 0));
        assert_eq!(raw.receive(24)[22..24], [0, 0], "success");
        raw
    }

    /// Enables the controller: Property Set of CC.
    pub fn enable(&mut self) {
        let mut command = PropertyCommand::zeroed();
        (command.opcode, command.fctype) = (FABRICS, FabricsType::PROPERTY_SET.0);
        (command.offset, command.value) = (Property::CC.0.into(), 0x46_0061.into());
        self.send(&Pdu::Command { sqe: command.into(), data: Payload::default() });
        assert_eq!(self.receive(24)[22..24], [0, 0], "success");
    }

    pub fn send(&mut self, pdu: &Pdu) {
        let bytes = self.bytes(pdu);
        self.stream.write_all(&bytes).expect("the server receives");
    }

    pub fn bytes(&self, pdu: &Pdu) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(pdu, self.format, &mut bytes);
        bytes
    }

    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("an answer");
        bytes
    }

    /// All bytes up to the end of the connection, which must be closed.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
        bytes
    }
}

pub fn connect(qid: u16, cntlid: u16, kato: u32) -> Pdu {
    connect_to(NQN, qid, cntlid, kato)
}

pub fn connect_to(nqn: &str, qid: u16, cntlid: u16, kato: u32) -> Pdu {
    let mut command = ConnectCommand::zeroed();
    (command.opcode, command.flags) = (FABRICS, PSDT_SGL);
    command.fctype = FabricsType::CONNECT.0;
    (command.qid, command.sqsize, command.kato) = (qid.into(), 31.into(), kato.into());
    command.dptr = Sgl::in_capsule(1024);
    let mut data = ConnectData::zeroed();
    data.host_id = [9; 16];
    data.cntlid = cntlid.into();
    data.subnqn = terminated(nqn);
    data.hostnqn = terminated(HOST);
    Pdu::Command { sqe: command.into(), data: data.as_bytes().to_vec().into() }
}

/// A read of `blocks` from the start.
pub fn read(cid: u16, blocks: u32) -> Pdu {
    let mut sqe = Sqe::new(IoOpcode::READ.0, cid, 1);
    sqe.dptr = Sgl::transport(blocks * 4096);
    sqe.cdw12 = (blocks - 1).into();
    Pdu::Command { sqe, data: Payload::default() }
}
