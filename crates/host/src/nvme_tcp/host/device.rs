//! The device: limits, zone reports, hardware queues.
use super::exchange::{ConnectError, Exchange};
use super::keep_alive::KeepAlive;
use super::queue::Queue;
use super::scan::{Found, scan};
use crate::nvme_tcp::address::Address;
use std::sync::{Arc, Mutex};
use zerocopy::FromBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{Device, HwQueue, Limits, Sector, Status, Zone, ZoneCondition, ZoneKind, ZoneNo};
use zonal_device::model::Model;
use zonal_nvme::ns::Namespace;
use zonal_nvme::ns::NamespaceInfo;
use zonal_nvme::ns::{Arrangement, PathInfo};
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::sqe::PSDT_SGL;
use zonal_nvme::wire::zone::{
    NO_WRITE_POINTER, ReportHeader, SEQUENTIAL_WRITE_REQUIRED, ZoneDescriptor, ZoneReceive,
};

/// The longest zone report that is asked for, in bytes.
const MAX_REPORT: usize = 256 << 10;

/// A namespace of an NVMe/TCP target.
pub struct NvmeTcpDevice {
    address: Address,
    model: String,
    info: NamespaceInfo,
    pub(super) namespace: Arc<Namespace>,
    limits: Limits,
    /// For zone reports; `None` without zones.
    reports: Option<Mutex<Exchange>>,
    /// Connections that are not in use.
    idle: Mutex<Vec<Exchange>>,
    /// The admin queue.
    _keep_alive: KeepAlive,
}

impl NvmeTcpDevice {
    /// Connects to a namespace, with up to `queues` hardware queues, 1 or more.
    ///
    /// # Errors
    /// What went wrong.
    pub fn connect(address: &Address, queues: u16) -> Result<Self, ConnectError> {
        let found = scan(address, queues.max(1))?;
        let Found { admin, keep_alive, info, cntlid, limits, model, queues: mut idle } = found;
        let reports = if limits.nr_zones > 0 { idle.pop().map(Mutex::new) } else { None };
        let keep_alive = KeepAlive::start(admin, keep_alive)
            .map_err(|source| ConnectError::Io { doing: "keep alive", source })?;
        Ok(NvmeTcpDevice {
            address: address.clone(),
            model,
            info,
            namespace: Namespace::new(&info, &PathInfo { cntlid, ana_group: 0 }),
            limits,
            reports,
            idle: Mutex::new(idle),
            _keep_alive: keep_alive,
        })
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        let bytes = self.limits.lba_size;
        let mut parts = vec![self.address.to_string(), format!("namespace {}", self.info.nsid)];
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
        let shift = u32::from(self.info.lba_shift) - SECTOR_SHIFT;
        let sectors = Sector(blocks.checked_mul(1 << shift)?);
        (sectors <= self.limits.capacity).then_some(sectors)
    }

    fn blocks(&self, sectors: Sector) -> u64 {
        sectors.to_lba(self.limits.lba_size).0
    }

    /// A connection that is in use no longer.
    pub(super) fn give_back(&self, connection: Exchange) {
        self.idle.lock().expect("idle lock").push(connection);
    }

    /// A piece of the report.
    fn report(
        &self,
        reports: &mut Exchange,
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
        command.nsid = self.info.nsid.into();
        command.slba = self.blocks(self.limits.zone_start(first)).into();
        command.ndw = (len / 4 - 1).into();
        command.partial = 1;
        let sqe = Sqe::from(command);
        let (_, data) =
            reports.send("zone report", sqe, Vec::new(), len).map_err(|error| match error {
                ConnectError::Refused { status, .. } => status.to_block(),
                ConnectError::Timeout { .. } => Status::Timeout,
                _ => Status::IoError,
            })?;
        let (header, rest) = ReportHeader::read_from_prefix(&data).map_err(|_| Status::IoError)?;
        let listed = usize::try_from(header.nr_zones.get()).unwrap_or(usize::MAX).min(most);
        for bytes in rest.chunks_exact(ZoneDescriptor::SIZE).take(listed) {
            let descriptor = ZoneDescriptor::read_from_bytes(bytes).map_err(|_| Status::IoError)?;
            zones.push(self.zone(&descriptor).ok_or(Status::IoError)?);
        }
        Ok(listed)
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
        let reports = self.reports.as_ref().ok_or(Status::NotSupported)?;
        let mut reports = reports.lock().expect("report lock");
        let mut next = first.0;
        let mut left = max;
        while left > 0 && next < self.limits.nr_zones {
            let most = left.min((self.limits.nr_zones - next) as usize);
            let listed = self.report(&mut reports, ZoneNo(next), most, zones)?;
            if listed == 0 {
                return Err(Status::IoError);
            }
            left -= listed;
            next += u32::try_from(listed).expect("no more than there are zones");
        }
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let connection = self.idle.lock().expect("idle lock").pop();
        Box::new(Queue::new(self, connection))
    }
}

impl Model for NvmeTcpDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        vec![("address", self.address.to_string()), ("model", self.model.clone())]
    }
}
