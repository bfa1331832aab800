//! A server, devices connected to it, and hosts that send what they like.
use crate::hostile::{Client, Connect, Target};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zonal_backend::nvme_tcp::{Address, ConnectError, NvmeTcpDevice};
use zonal_blk::{
    Bio, Buf, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Zone, ZoneNo,
};
use zonal_device::device_spec;
use zonal_frontend::nvme_tcp::{Server, ServerConfig};
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_nvme::tcp::{Digests, Payload, Pdu};
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::{Sgl, Sqe};

pub const NQN: &str = "nqn.2026-11.org.example:zns";
pub const HOST: &str = "nqn.2026-11.org.example:host";

/// Sixteen zones of 1 MiB, 2048 sectors, with a capacity of 1536.
pub const ZONED: &str =
    "null:zones=16,zone_size=1M,zone_capacity=768K,memory=true,max_open=4,lba=4096";
pub const ZONE: u64 = 2048;

/// A response that does not come in this time does not come, however slow the machine is.
const LONG: Duration = Duration::from_secs(600);

/// A server that has time for hosts on a slow machine.
pub fn patient() -> ServerConfig {
    ServerConfig {
        init_timeout: LONG,
        handshake_timeout: LONG,
        peer_timeout: LONG,
        auth_timeout: LONG,
        discovery_timeout: LONG,
        ..ServerConfig::default()
    }
}

/// A device that is served.
pub struct Served {
    pub device: Arc<dyn Device>,
    pub server: Server,
    pub subsystem: Arc<Subsystem>,
    config: ServerConfig,
}

impl Served {
    pub fn new(device: &str) -> Self {
        Served::with(device, patient())
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
        Served::start(port, device, patient(), uuid, Subsystem::new)
    }

    /// A device of a subsystem that has this serial number.
    pub fn with_serial(device: &str, serial: &str) -> Self {
        let serial = serial.to_owned();
        let subsystem = |config| Subsystem::new(SubsystemConfig { serial, ..config });
        Served::start(0, device, patient(), [7; 16], subsystem)
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

    pub fn another_at(&self, address: SocketAddr) -> Server {
        Server::start(address, Arc::clone(&self.subsystem), self.config.clone())
            .expect("an address")
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

    /// Waits until at most `count` connections are left: on a busy machine a host may be between two.
    #[track_caller]
    pub fn wait_for_connections(&self, count: usize) {
        wait_until(|| self.server.connections() <= count);
    }

    /// For hosts that misbehave.
    pub fn target(&self) -> Target {
        Target { address: self.server.address(), nqn: NQN.to_owned() }
    }

    /// An admin queue of a host that may misbehave.
    pub fn admin(&self, digests: Digests, kato: u32) -> Client {
        self.try_admin(digests, kato).expect("an answer")
    }

    /// The same, where the server may have no time for it.
    pub fn try_admin(&self, digests: Digests, kato: u32) -> io::Result<Client> {
        let mut client = self.target().open()?;
        client.initialize(digests)?;
        let connect = Connect { hostnqn: HOST, kato, ..Connect::default() };
        let cqe = client.connect(NQN, &connect)?;
        assert!(cqe.status().is_success(), "{:?}", cqe.status());
        Ok(client)
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
    until(|| reached().then_some(()));
}

/// The result of a function in the end: on a slow machine a limit of time may have ended it before.
#[track_caller]
pub fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begin.elapsed() < LONG, "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
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

/// A read of `blocks` from the start.
pub fn read(cid: u16, blocks: u32) -> Pdu {
    let mut sqe = Sqe::new(IoOpcode::READ.0, cid, 1);
    sqe.dptr = Sgl::transport(blocks * 4096);
    sqe.cdw12 = (blocks - 1).into();
    Pdu::Command { sqe, data: Payload::default() }
}
