//! A host without a network: connects to a target and sends commands one by one.
use std::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zonal_blk::{Buf, Bytes, Device, Nanos, Queue, QueueOptions, Status, ZoneCondition, ZoneNo};
use zonal_device::{NullConfig, NullDevice};
use zonal_nvme::NvmeStatus;
use zonal_nvme::ana::Port;
use zonal_nvme::controller::{
    ConnectedQueue, Controller, IoQueue, Namespace, OfflineZones, Response, Subsystem,
    SubsystemConfig, Target,
};
use zonal_nvme::wire::admin::{FeatureCommand, IdentifyCommand, LogCommand};
use zonal_nvme::wire::fabrics::{
    CNTLID_ANY, ConnectCommand, ConnectData, Property, PropertyCommand,
};
use zonal_nvme::wire::io::RwCommand;
use zonal_nvme::wire::opcode::{
    AdminOpcode, Cns, FABRICS, FabricsType, FeatureId, IoOpcode, LogId,
};
use zonal_nvme::wire::zone::{ReportHeader, ZoneDescriptor, ZoneReceive, ZoneSend};
use zonal_nvme::wire::{Sgl, Sqe, terminated};

pub const NQN: &str = "nqn.2026-11.org.example:zns";
pub const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:01234567-89ab-cdef-0123-456789abcdef";
pub const NOW: Nanos = Nanos(1_000_000);

/// Blocks of 4096 bytes in a zone of the usual device, and in its capacity.
pub const ZONE: u64 = 16;
pub const CAPACITY: u64 = 12;
pub const ZONES: u64 = 8;

pub fn config() -> SubsystemConfig {
    SubsystemConfig {
        nqn: NQN.to_owned(),
        serial: "1".to_owned(),
        model: "Zonal".to_owned(),
        firmware: "0.1".to_owned(),
    }
}

/// A device whose zones can be taken offline.
pub struct Offline(pub Arc<NullDevice>);

impl OfflineZones for Offline {
    fn set_offline(&self, zone: ZoneNo) -> Result<(), Status> {
        self.0.set_condition(zone, ZoneCondition::Offline)
    }
}

pub fn null() -> NullConfig {
    NullConfig {
        zones: ZONES as u32,
        zone_size: Bytes(ZONE * 4096),
        zone_capacity: Some(Bytes(CAPACITY * 4096)),
        max_open: Some(2),
        max_active: 3,
        lba: 4096,
        memory: true,
        ..NullConfig::default()
    }
}

pub fn queue_of(config: &NullConfig) -> (Arc<NullDevice>, Arc<Queue>) {
    let device = Arc::new(NullDevice::new(config).expect("a device"));
    let queue = queue_with(Arc::clone(&device) as _);
    (device, queue)
}

/// Any number of channels to a device.
pub fn queue_with(device: Arc<dyn Device>) -> Arc<Queue> {
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    Queue::attach(device, options).expect("a device that keeps the rules")
}

pub fn namespace(config: &NullConfig) -> (Arc<NullDevice>, Arc<Namespace>) {
    let (device, queue) = queue_of(config);
    let namespace = Namespace::new(queue, [7; 16]).expect("a namespace");
    let offline = Arc::new(Offline(Arc::clone(&device)));
    (device, Arc::new(namespace.with_offline(offline)))
}

pub fn connect_command(qid: u16, sqsize: u16, kato: u32) -> Sqe {
    let mut connect = ConnectCommand::zeroed();
    connect.opcode = FABRICS;
    connect.flags = 0x40;
    connect.fctype = FabricsType::CONNECT.0;
    connect.qid = qid.into();
    connect.sqsize = sqsize.into();
    connect.kato = kato.into();
    connect.dptr = Sgl::in_capsule(1024);
    connect.into()
}

pub fn connect_data(cntlid: u16, subnqn: &str) -> ConnectData {
    let mut data = ConnectData::zeroed();
    data.host_id = [9; 16];
    data.cntlid = cntlid.into();
    data.subnqn = terminated(subnqn);
    data.hostnqn = terminated(HOST_NQN);
    data
}

/// Data as they are received with a command.
pub fn received(data: &[u8]) -> Option<Buf> {
    (!data.is_empty()).then(|| Buf::from(data))
}

/// The completion of a command.
#[derive(Debug)]
pub struct Ended {
    pub status: NvmeStatus,
    pub result: u64,
    pub data: Vec<u8>,
}

impl Ended {
    pub fn of(answer: Response) -> Self {
        let data = answer.data.map_or_else(Vec::new, |data| data.to_vec());
        Ended { status: answer.cqe.status().code(), result: answer.cqe.result(), data }
    }

    #[track_caller]
    pub fn fine(self) -> Self {
        assert_eq!(self.status, NvmeStatus::SUCCESS);
        self
    }

    pub fn structure<T: FromBytes + KnownLayout + Immutable>(&self) -> T {
        T::read_from_prefix(&self.data).expect("a structure").0
    }
}

/// A host with an admin queue.
pub struct Host {
    pub target: Arc<Target>,
    /// The port that it has connected to, its own.
    pub port: Arc<Port>,
    pub subsystem: Arc<Subsystem>,
    /// The null device; with [`Host::of`] one that nobody uses.
    pub device: Arc<NullDevice>,
    pub admin: Controller,
    pub now: Nanos,
}

impl Host {
    /// Connected to a subsystem with namespace 1 over a null device, enabled.
    pub fn new(config: &NullConfig) -> Self {
        let mut host = Host::connected(config);
        host.set(Property::CC, 0x46_0061);
        host
    }

    /// As [`Host::new`], not enabled.
    pub fn connected(null: &NullConfig) -> Self {
        let (device, namespace) = namespace(null);
        let subsystem = Subsystem::new(config());
        subsystem.add(1, namespace).expect("a free identifier");
        Host::connected_to(subsystem, device)
    }

    /// Connected to any subsystem, enabled.
    pub fn of(subsystem: Arc<Subsystem>) -> Self {
        let mut host = Host::connected_to(subsystem, queue_of(&null()).0);
        host.set(Property::CC, 0x46_0061);
        host
    }

    fn connected_to(subsystem: Arc<Subsystem>, device: Arc<NullDevice>) -> Self {
        let port = Arc::default();
        let target = Arc::new(Target::new(vec![Arc::clone(&subsystem)], Arc::clone(&port)));
        let data = connect_data(CNTLID_ANY, NQN);
        let connected = target.connect(NOW, &connect_command(0, 31, 5000), data.as_bytes());
        let Ok((ConnectedQueue::Admin(admin), answer)) = connected else { panic!("not connected") };
        assert_eq!(answer.cqe.result(), u64::from(admin.cntlid()));
        Host { target, port, subsystem, device, admin: *admin, now: NOW }
    }

    /// An I/O queue of the controller.
    pub fn io(&self, qid: u16) -> Io {
        let data = connect_data(self.admin.cntlid(), NQN);
        let command = connect_command(qid, 127, 0);
        let Ok((ConnectedQueue::Io(queue), _)) =
            self.target.connect(self.now, &command, data.as_bytes())
        else {
            panic!("not connected")
        };
        Io { queue: *queue, now: self.now }
    }

    /// All responses to a command.
    pub fn responses(&mut self, sqe: Sqe, data: &[u8]) -> Vec<Response> {
        let mut responses = Vec::new();
        self.admin.submit(self.now, &sqe, data, &mut responses);
        responses
    }

    /// The only response to a command.
    pub fn send(&mut self, sqe: impl Into<Sqe>, data: &[u8]) -> Ended {
        let mut responses = self.responses(sqe.into(), data);
        assert_eq!(responses.len(), 1, "one answer, immediately");
        Ended::of(responses.remove(0))
    }

    pub fn get(&mut self, property: Property) -> u64 {
        self.send(property_command(FabricsType::PROPERTY_GET, property, 0), &[]).fine().result
    }

    pub fn set(&mut self, property: Property, value: u64) {
        self.send(property_command(FabricsType::PROPERTY_SET, property, value), &[]).fine();
    }

    pub fn identify(&mut self, cns: Cns, nsid: u32, csi: u8) -> Ended {
        let mut command = IdentifyCommand::zeroed();
        command.opcode = AdminOpcode::IDENTIFY.0;
        command.flags = 0x40;
        command.nsid = nsid.into();
        command.cns = cns.0;
        command.csi = csi;
        command.dptr = Sgl::transport(4096);
        self.send(command, &[])
    }

    pub fn log(&mut self, lid: LogId, nsid: u32, csi: u8, len: u32, offset: u64) -> Ended {
        let mut command = LogCommand::zeroed();
        command.opcode = AdminOpcode::GET_LOG_PAGE.0;
        command.flags = 0x40;
        command.nsid = nsid.into();
        command.lid = lid.0;
        command.csi = csi;
        command.numdl = ((len / 4 - 1) as u16).into();
        command.offset = offset.into();
        command.dptr = Sgl::transport(len);
        self.send(command, &[])
    }

    pub fn set_feature(&mut self, fid: FeatureId, value: u32, data: &[u8]) -> Ended {
        self.send(feature(AdminOpcode::SET_FEATURES, fid, value, data.len()), data)
    }

    pub fn get_feature(&mut self, fid: FeatureId) -> Ended {
        self.send(feature(AdminOpcode::GET_FEATURES, fid, 0, 4096), &[])
    }

    /// Sends an Asynchronous Event Request; `None` while it is outstanding.
    pub fn ask_for_event(&mut self, cid: u16) -> Option<(NvmeStatus, u64)> {
        let responses = self.responses(Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, cid, 0), &[]);
        first_event(responses, cid)
    }

    /// The completion of an Asynchronous Event Request; `None` while it is outstanding.
    pub fn event(&mut self, cid: u16) -> Option<(NvmeStatus, u64)> {
        let mut responses = Vec::new();
        self.admin.poll(self.now, &mut responses);
        first_event(responses, cid)
    }
}

fn first_event(responses: Vec<Response>, cid: u16) -> Option<(NvmeStatus, u64)> {
    assert!(responses.len() <= 1);
    let answer = responses.into_iter().next()?;
    assert_eq!(answer.cqe.cid.get(), cid);
    Some((answer.cqe.status().code(), answer.cqe.result()))
}

pub fn property_command(fctype: FabricsType, property: Property, value: u64) -> Sqe {
    let mut command = PropertyCommand::zeroed();
    command.opcode = FABRICS;
    command.fctype = fctype.0;
    command.attributes = u8::from(property == Property::CAP);
    command.offset = property.0.into();
    command.value = value.into();
    command.into()
}

pub fn feature(opcode: AdminOpcode, fid: FeatureId, value: u32, len: usize) -> Sqe {
    let mut command = FeatureCommand::zeroed();
    command.opcode = opcode.0;
    command.flags = 0x40;
    command.fid = fid.0;
    command.value = value.into();
    command.dptr = Sgl::transport(len as u32);
    command.into()
}

/// A host's I/O queue.
pub struct Io {
    pub queue: IoQueue,
    pub now: Nanos,
}

impl Io {
    pub fn send(&mut self, sqe: impl Into<Sqe>, data: &[u8]) -> Ended {
        let mut responses = Vec::new();
        self.queue.submit(self.now, &sqe.into(), received(data), &mut responses);
        while responses.is_empty() {
            self.now = self.queue.next_event().at().map_or(self.now, |at| at.max(self.now));
            self.queue.poll(self.now, &mut responses);
        }
        assert_eq!(responses.len(), 1);
        assert_eq!(self.queue.outstanding(), 0);
        Ended::of(responses.remove(0))
    }

    pub fn write(&mut self, slba: u64, data: &[u8]) -> Ended {
        self.send(rw(IoOpcode::WRITE, slba, (data.len() / 4096) as u32), data)
    }

    pub fn read(&mut self, slba: u64, blocks: u32) -> Ended {
        self.send(rw(IoOpcode::READ, slba, blocks), &[])
    }

    pub fn append(&mut self, slba: u64, data: &[u8]) -> Ended {
        self.send(rw(IoOpcode::ZONE_APPEND, slba, (data.len() / 4096) as u32), data)
    }

    pub fn manage(&mut self, slba: u64, action: u8, options: u8) -> NvmeStatus {
        self.send(zone_send(slba, action, options), &[]).status
    }

    /// A zone report: the number in its header, and the descriptors.
    pub fn report(&mut self, slba: u64, filter: u8, partial: bool, room: usize) -> (u64, Zones) {
        let ended = self.send(zone_receive(slba, filter, partial, 64 + 64 * room), &[]).fine();
        let header: ReportHeader = ended.structure();
        let zones = ended.data[64..].chunks(64).take(header.nr_zones.get() as usize);
        let zones = zones.map(|d| ZoneDescriptor::read_from_bytes(d).expect("64 bytes"));
        (header.nr_zones.get(), zones.collect())
    }

    pub fn zone(&mut self, zone: u64) -> ZoneDescriptor {
        self.report(zone * ZONE, 0, true, 1).1[0]
    }
}

pub type Zones = Vec<ZoneDescriptor>;

pub fn rw(opcode: IoOpcode, slba: u64, blocks: u32) -> RwCommand {
    let mut command = RwCommand::zeroed();
    command.opcode = opcode.0;
    command.flags = 0x40;
    command.nsid = 1.into();
    command.slba = slba.into();
    command.nlb = ((blocks - 1) as u16).into();
    let moves = !matches!(opcode, IoOpcode::WRITE_ZEROES | IoOpcode::VERIFY);
    command.dptr = if moves { Sgl::transport(blocks * 4096) } else { Sgl::zeroed() };
    command
}

pub fn zone_send(slba: u64, action: u8, options: u8) -> ZoneSend {
    let mut command = ZoneSend::zeroed();
    command.opcode = IoOpcode::ZONE_MANAGEMENT_SEND.0;
    command.flags = 0x40;
    command.nsid = 1.into();
    command.slba = slba.into();
    command.action = action;
    command.options = options;
    command
}

pub fn zone_receive(slba: u64, filter: u8, partial: bool, len: usize) -> ZoneReceive {
    let mut command = ZoneReceive::zeroed();
    command.opcode = IoOpcode::ZONE_MANAGEMENT_RECEIVE.0;
    command.flags = 0x40;
    command.nsid = 1.into();
    command.slba = slba.into();
    command.ndw = ((len / 4 - 1) as u32).into();
    command.filter = filter;
    command.partial = u8::from(partial);
    command.dptr = Sgl::transport(len as u32);
    command
}
