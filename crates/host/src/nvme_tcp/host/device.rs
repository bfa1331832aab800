//! The device: limits, zone reports, hardware queues.
use super::exchange::{ConnectError, Exchange};
use super::keeper::{Keeper, Promise};
use super::link::Link;
use super::queue::Queue;
use super::scan::{Found, scan};
use crate::nvme_tcp::Notify;
use crate::nvme_tcp::address::Address;
use std::sync::Arc;
use zerocopy::FromBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{
    Device, HwQueue, Limits, Nanos, Sector, Status, Zone, ZoneCondition, ZoneKind, ZoneNo,
};
use zonal_device::model::Model;
use zonal_device::multipath::{Path, PathState, ReconnectConfig};
use zonal_nvme::ns::NamespaceHead;
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::sqe::PSDT_SGL;
use zonal_nvme::wire::zone::{
    NO_WRITE_POINTER, ReportHeader, SEQUENTIAL_WRITE_REQUIRED, ZoneDescriptor, ZoneReceive,
};

/// The longest zone report that is asked for, in bytes.
const MAX_REPORT: usize = 256 << 10;

/// A namespace of an NVMe/TCP target, over one path.
pub struct NvmeTcpDevice {
    address: Address,
    model: String,
    head: Arc<NamespaceHead>,
    limits: Limits,
    pub(super) link: Arc<Link>,
    /// Whether there is nobody above who would use another path.
    pub(super) alone: bool,
    _keeper: Keeper,
}

impl NvmeTcpDevice {
    /// Connects to a namespace, over the first path of the address, with up to `queues` hardware
    /// queues, 1 or more. If it is lost it fails: [`open`](super::open) gives a device that holds
    /// commands and repeats them.
    ///
    /// # Errors
    /// What went wrong.
    pub fn connect(address: &Address, queues: u16) -> Result<Self, ConnectError> {
        let reconnect = ReconnectConfig { patience: Some(Nanos(0)), ..address.reconnect };
        let address = Address { reconnect, ..address.clone() };
        let mut device = NvmeTcpDevice::path(
            &address,
            queues,
            None,
            false,
            &(Arc::new(|_: &str| ()) as Notify),
        )?;
        device.alone = true;
        Ok(device)
    }

    /// Connects to a namespace over a path that may be lost and found again; to that of `head`, if
    /// there is one. `shared` if there are more paths.
    ///
    /// # Errors
    /// What went wrong.
    pub(super) fn path(
        address: &Address,
        queues: u16,
        head: Option<&Arc<NamespaceHead>>,
        shared: bool,
        notify: &Notify,
    ) -> Result<Self, ConnectError> {
        let found = scan(address, queues.max(1))?;
        let head = head.map_or_else(|| NamespaceHead::new(&found.info), Arc::clone);
        let (limits, model) = (found.limits.clone(), found.model.clone());
        NvmeTcpDevice::make(address, head, shared, limits, model, notify, Some(found))
    }

    /// A path that is not there now, and may be some time, to what `other` leads to.
    pub(super) fn absent(
        address: &Address,
        other: &NvmeTcpDevice,
        notify: &Notify,
    ) -> Result<Self, ConnectError> {
        let (head, limits) = (Arc::clone(&other.head), other.limits.clone());
        NvmeTcpDevice::make(address, head, true, limits, other.model.clone(), notify, None)
    }

    fn make(
        address: &Address,
        head: Arc<NamespaceHead>,
        shared: bool,
        limits: Limits,
        model: String,
        notify: &Notify,
        found: Option<Found>,
    ) -> Result<Self, ConnectError> {
        let link = Link::new();
        let promise = Promise {
            address: address.clone(),
            head: Arc::clone(&head),
            shared,
            limits: limits.clone(),
            notify: Arc::clone(notify),
        };
        let admin = found.map(|found| promise.take(&link, found)).transpose()?;
        let keeper = Keeper::start(&link, promise, admin)
            .map_err(|source| ConnectError::Io { doing: "keep alive", source })?;
        let address = address.clone();
        Ok(NvmeTcpDevice { address, model, head, limits, link, alone: false, _keeper: keeper })
    }

    /// What the paths of the namespace share.
    pub(super) fn head(&self) -> &Arc<NamespaceHead> {
        &self.head
    }

    /// How long a command may take.
    pub(super) fn io_timeout(&self) -> Nanos {
        Nanos(u64::try_from(self.address.io_timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// What a command ends with that the path cannot take.
    fn lost_status(&self) -> Status {
        let gone = self.alone && self.link.state() == PathState::Gone;
        if gone { Status::Offline } else { Status::Transport }
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        let bytes = self.limits.lba_size;
        let nsid = self.head.info.nsid;
        let mut parts = vec![self.address.to_string(), format!("namespace {nsid}")];
        if self.limits.nr_zones > 0 {
            let size = self.limits.zone_size.to_bytes();
            parts.push(format!("{} zones of {size} bytes", self.limits.nr_zones));
        } else {
            parts.push(format!("{} bytes without zones", self.limits.capacity.to_bytes()));
        }
        parts.push(format!("{bytes}B blocks"));
        parts.join(", ")
    }

    /// Sectors of so many blocks; `None` if they are beyond the device.
    pub(super) fn sectors(&self, blocks: u64) -> Option<Sector> {
        let shift = u32::from(self.head.info.lba_shift) - SECTOR_SHIFT;
        let sectors = Sector(blocks.checked_mul(1 << shift)?);
        (sectors <= self.limits.capacity).then_some(sectors)
    }

    fn blocks(&self, sectors: Sector) -> u64 {
        sectors.to_lba(self.limits.lba_size).0
    }

    /// A piece of the report.
    fn report(
        &self,
        reports: &mut Exchange,
        life: u32,
        first: ZoneNo,
        most: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<usize, Status> {
        let limit = MAX_REPORT.min(self.limits.max_sectors as usize * 512);
        let room = limit.saturating_sub(ReportHeader::SIZE) / ZoneDescriptor::SIZE;
        let most = most.min(room);
        let len = ReportHeader::SIZE + most * ZoneDescriptor::SIZE;
        let len = u32::try_from(len).expect("256 KiB at the most");
        let mut command = ZoneReceive::zeroed();
        (command.opcode, command.flags) = (IoOpcode::ZONE_MANAGEMENT_RECEIVE.0, PSDT_SGL);
        command.nsid = self.head.info.nsid.into();
        command.slba = self.blocks(self.limits.zone_start(first)).into();
        command.ndw = (len / 4 - 1).into();
        command.partial = 1;
        let sqe = Sqe::from(command);
        let timeout = self.address.io_timeout;
        let (_, data) = reports
            .send_within(timeout, "zone report", sqe, Vec::new(), len)
            .map_err(|error| self.report_failed(life, &error))?;
        let (header, rest) = ReportHeader::read_from_prefix(&data).map_err(|_| Status::IoError)?;
        let listed = usize::try_from(header.nr_zones.get()).unwrap_or(usize::MAX).min(most);
        for bytes in rest.chunks_exact(ZoneDescriptor::SIZE).take(listed) {
            let descriptor = ZoneDescriptor::read_from_bytes(bytes).map_err(|_| Status::IoError)?;
            zones.push(self.zone(&descriptor).ok_or(Status::IoError)?);
        }
        Ok(listed)
    }

    /// What a report ends with that did not come; the path is lost, unless it was refused.
    fn report_failed(&self, life: u32, error: &ConnectError) -> Status {
        if let ConnectError::Refused { status, .. } = error {
            return status.to_block();
        }
        self.link.lost(life, &error.to_string());
        match error {
            ConnectError::Timeout { .. } => Status::Timeout,
            _ => Status::Transport,
        }
    }

    /// What a descriptor says; `None` if it makes no sense.
    fn zone(&self, descriptor: &ZoneDescriptor) -> Option<Zone> {
        let start = self.sectors(descriptor.slba.get())?;
        let len = self.limits.zone_size;
        let cond = descriptor.condition()?;
        let has_pointer = cond.is_active() || cond == ZoneCondition::Empty;
        let wp = match descriptor.write_pointer.get() {
            NO_WRITE_POINTER => start + len,
            _ if !has_pointer => start + len,
            wp => self.sectors(wp)?,
        };
        if descriptor.zone_type & 0xf != SEQUENTIAL_WRITE_REQUIRED {
            return None;
        }
        let capacity = self.sectors(descriptor.capacity.get())?;
        Some(Zone { start, len, capacity, wp, kind: ZoneKind::SequentialRequired, cond })
    }
}

impl Device for NvmeTcpDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        if self.limits.nr_zones == 0 {
            return Err(Status::NotSupported);
        }
        let mut reports = self.link.reports.lock().expect("report lock");
        let now = self.link.life();
        let (life, reports) = match reports.as_mut() {
            Some((life, reports)) if *life == now => (now, reports),
            _ => return Err(self.lost_status()),
        };
        let mut next = first.0;
        let mut left = max;
        while left > 0 && next < self.limits.nr_zones {
            let most = left.min((self.limits.nr_zones - next) as usize);
            let listed = self.report(reports, life, ZoneNo(next), most, zones)?;
            if listed == 0 {
                return Err(Status::IoError);
            }
            left -= listed;
            next += u32::try_from(listed).expect("no more than there are zones");
        }
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(Queue::new(self))
    }
}

impl Path for NvmeTcpDevice {
    fn state(&self) -> PathState {
        self.link.state()
    }

    fn name(&self) -> String {
        self.address.target.clone()
    }
}

impl Model for NvmeTcpDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        vec![("address", self.address.to_string()), ("model", self.model.clone())]
    }
}
