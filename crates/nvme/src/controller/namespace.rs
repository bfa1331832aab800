//! A namespace of the emulated subsystem: a Zonal queue and its Identify data.
//! A zoned one is one that the ZNS Command Set can describe.
use super::MDTS;
use crate::NvmeStatus;
use crate::wire::identify::{
    EXPLICIT_FLUSH, IdDescriptor, IdentifyNamespace, IndependentNamespace, NvmNamespace, OZCS_ZRWA,
    ZOC_EXCURSIONS, ZnsNamespace, id_type,
};
use crate::wire::opcode::Csi;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use zerocopy::IntoBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{
    AgingLimits, Buf, BufPool, DataPlacement, Limits, Queue, Sector, Status, Zone, ZoneAging,
    ZoneCondition, ZoneExtensions, ZoneKind, ZoneNo,
};

/// Operations on zones that the block layer does not have.
pub trait OfflineZones: Send + Sync {
    /// Transitions a zone to Offline (ZNS section 3.4.3, Offline Zone).
    ///
    /// # Errors
    /// The status with which the device refused.
    fn set_offline(&self, zone: ZoneNo) -> Result<(), Status>;
}

/// Puts a mark into the log of a recording: what completed before the call comes before the mark.
pub type PutMark = Arc<dyn Fn(&str) + Send + Sync>;

/// Why a queue cannot be a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// A conventional zone, which the ZNS Command Set does not have.
    #[error(
        "zone {0} is conventional; the ZNS Command Set has sequential write required zones only"
    )]
    Conventional(ZoneNo),
    /// The last zone is smaller than the others.
    #[error("{capacity} sectors are not a whole number of zones of {zone_size} sectors")]
    LastZone {
        /// The size of the device.
        capacity: Sector,
        /// The size of its zones.
        zone_size: Sector,
    },
    /// The longest zone append is shorter than a page.
    #[error("zone appends of {0} sectors, expected 8 or more")]
    Append(u32),
    /// The zones could not be read.
    #[error("the device did not report its zones: {0}")]
    Report(Status),
}

/// A namespace.
pub struct Namespace {
    queue: Arc<Queue>,
    uuid: [u8; 16],
    /// Size in blocks. It changes when the device has lost zones.
    blocks: AtomicU64,
    /// log2 of the number of sectors in a block.
    shift: u32,
    offline: Option<Arc<dyn OfflineZones>>,
    marks: Option<PutMark>,
    /// Zones that hosts know to be read-only or offline.
    failed_zones: Mutex<BTreeSet<ZoneNo>>,
}

impl Namespace {
    /// A namespace on a queue. `uuid` identifies it for ever.
    ///
    /// # Errors
    /// The ZNS Command Set cannot describe the device.
    pub fn new(queue: Arc<Queue>, uuid: [u8; 16]) -> Result<Self, NamespaceError> {
        let limits = queue.limits();
        let zones = if limits.nr_zones > 0 { check_zones(&queue)? } else { Vec::new() };
        let failed_zones = failed_of(limits, &zones);
        // ZNS has no write granularity other than the block.
        let shift = limits.zone_write_granularity().trailing_zeros() - SECTOR_SHIFT;
        let failed_zones = Mutex::new(failed_zones);
        let blocks = AtomicU64::new(queue.capacity().0 >> shift);
        Ok(Namespace { queue, uuid, blocks, shift, offline: None, marks: None, failed_zones })
    }

    /// Adds a device that can take zones offline.
    pub fn with_offline(mut self, offline: Arc<dyn OfflineZones>) -> Self {
        self.offline = Some(offline);
        self
    }

    /// Adds a log for the marks that hosts put there.
    pub fn with_marks(mut self, put: PutMark) -> Self {
        self.marks = Some(put);
        self
    }

    /// Records that a zone is read-only or offline. Returns whether hosts do not know yet.
    pub(super) fn mark_failed(&self, zone: ZoneNo) -> bool {
        self.failed_zones.lock().expect("failed zones lock").insert(zone)
    }

    /// Updates whether a zone that was changed without a command is read-only or offline. The caller
    /// reports the change to hosts.
    pub(super) fn look_at(&self, zone: ZoneNo) {
        let start = self.to_blocks(self.limits().zone_start(zone));
        let is_failed = self.report_zone(start).as_ref().is_some_and(is_failed);
        let mut failed = self.failed_zones.lock().expect("failed zones lock");
        if is_failed {
            failed.insert(zone)
        } else {
            failed.remove(&zone)
        };
    }

    /// Updates the size, and which zones are read-only or offline, when the layer has read all zones anew. The caller
    /// reports the change to hosts.
    pub(super) fn look_at_all(&self) {
        self.blocks.store(self.to_blocks(self.queue.capacity()), Ordering::Relaxed);
        let mut zones = Vec::new();
        // Without a report the zones are those that they were; a command that fails tells of others.
        if self.queue.report_zones(ZoneNo(0), usize::MAX, &mut zones).is_ok() {
            *self.failed_zones.lock().expect("failed zones lock") =
                failed_of(self.limits(), &zones);
        }
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// A buffer for a read of `len` bytes. What the device leaves as it was is zeroes to the host.
    pub(super) fn read_buf(&self, bufs: &mut BufPool, len: usize) -> Result<Buf, NvmeStatus> {
        let buf = bufs.for_read(len, self.queue.device().read_bufs());
        buf.ok_or(NvmeStatus::INTERNAL)
    }

    pub(super) fn offline(&self) -> Option<&dyn OfflineZones> {
        self.offline.as_deref()
    }

    pub(super) fn marks(&self) -> Option<&PutMark> {
        self.marks.as_ref()
    }

    /// The descriptor extensions of its zones, if it has any.
    pub(super) fn extensions(&self) -> Option<&dyn ZoneExtensions> {
        self.queue.device().zone_extensions()
    }

    /// The actions on zones that its device takes on its own.
    pub(super) fn aging(&self) -> Option<&dyn ZoneAging> {
        self.queue.device().zone_aging()
    }

    /// Its reclaim unit handles, if its device has any.
    pub(super) fn placement(&self) -> Option<&dyn DataPlacement> {
        self.queue.device().placement()
    }

    pub(super) fn limits(&self) -> &Limits {
        self.queue.limits()
    }

    pub(super) fn is_zoned(&self) -> bool {
        self.limits().nr_zones > 0
    }

    pub(super) fn csi(&self) -> Csi {
        if self.is_zoned() { Csi::ZNS } else { Csi::NVM }
    }

    /// Bytes of a block.
    pub(super) fn block_size(&self) -> u64 {
        1 << (self.shift + SECTOR_SHIFT)
    }

    /// Size in blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    pub(super) fn to_blocks(&self, sectors: Sector) -> u64 {
        sectors.0 >> self.shift
    }

    /// The sector at which a block begins, which must be one of the namespace's.
    pub(super) fn to_sector(&self, lba: u64) -> Sector {
        Sector(lba << self.shift)
    }

    /// The number of sectors of `blocks`; `None` if a bio cannot have as many.
    pub(super) fn to_sectors(&self, blocks: u32) -> Option<u32> {
        blocks.checked_mul(1 << self.shift)
    }

    /// The sectors of a command's blocks, which must be in the namespace.
    pub(super) fn range(&self, lba: u64, blocks: u32) -> Result<(Sector, u32), NvmeStatus> {
        let end = lba.checked_add(blocks.into());
        if end.is_none_or(|end| end > self.blocks()) {
            return Err(NvmeStatus::LBA_RANGE.do_not_retry());
        }
        let len = self.to_sectors(blocks).ok_or(NvmeStatus::INVALID_FIELD.do_not_retry())?;
        Ok((self.to_sector(lba), len))
    }

    /// The zone of a block, as the device reports it.
    pub(super) fn report_zone(&self, lba: u64) -> Option<Zone> {
        let mut zones = Vec::with_capacity(1);
        let zone = self.limits().zone_of(self.to_sector(lba));
        self.queue.report_zones(zone, 1, &mut zones).ok()?;
        zones.pop()
    }

    /// Identify Namespace (CNS 00h), without NMIC.
    pub(super) fn identify(&self) -> IdentifyNamespace {
        let mut id = IdentifyNamespace::zeroed();
        let blocks = self.blocks().into();
        (id.size, id.capacity, id.used) = (blocks, blocks, blocks);
        id.lba_formats[0].data_shift =
            u8::try_from(self.shift + SECTOR_SHIFT).expect("less than 32");
        // Deallocated blocks read as zeroes.
        id.deallocation = 1;
        id.bytes = (u128::from(self.blocks()) * u128::from(self.block_size())).into();
        id.nguid = self.uuid;
        id
    }

    /// Identify Namespace of the ZNS Command Set (CNS 05h, CSI 02h).
    pub(super) fn identify_zns(&self) -> ZnsNamespace {
        let limits = self.limits();
        let mut id = ZnsNamespace::zeroed();
        let zrwa = limits.zrwa;
        let has_zrwa = zrwa.max > 0;
        // Reads may cross zones.
        id.optional = (1 | if has_zrwa { OZCS_ZRWA } else { 0 }).into();
        if has_zrwa {
            let blocks = |sectors: u32| u16::try_from(sectors >> self.shift).unwrap_or(u16::MAX);
            id.zrwas = (zrwa.max - 1).into();
            id.zrwa_granularity = blocks(zrwa.granularity).into();
            id.zrwa_size = blocks(zrwa.size).into();
            id.zrwa_capability = EXPLICIT_FLUSH;
        }
        id.max_active = limits.max_active_zones.wrapping_sub(1).into();
        id.max_open = limits.max_open_zones.wrapping_sub(1).into();
        id.formats[0].zone_size = self.to_blocks(limits.zone_size).into();
        if let Some(aging) = self.aging() {
            let AgingLimits { excursions, finish } = aging.limits();
            id.zone_operation = if excursions { ZOC_EXCURSIONS } else { 0 }.into();
            let seconds = u32::try_from(finish.0 / 1_000_000_000).unwrap_or(u32::MAX);
            id.finish_limit = seconds.into();
        }
        let extension = self.extensions().map_or(0, |extensions| extensions.size() / 64);
        id.formats[0].extension = u8::try_from(extension).expect("at most 255 units of 64 bytes");
        id
    }

    /// Identify Namespace of the NVM Command Set (CNS 05h, CSI 00h).
    pub(super) fn identify_nvm(&self) -> NvmNamespace {
        NvmNamespace::zeroed()
    }

    /// Identify Namespace independent of the command set (CNS 08h), without NMIC.
    pub(super) fn identify_independent(&self) -> IndependentNamespace {
        let mut id = IndependentNamespace::zeroed();
        id.features = if self.limits().rotational { 1 << 4 } else { 0 };
        id.status = 1;
        id
    }

    /// The Namespace Identification Descriptor list (CNS 03h).
    pub(super) fn descriptors(&self) -> Vec<u8> {
        let mut list = Vec::with_capacity(4096);
        let mut add = |kind: u8, id: &[u8]| {
            let len = u8::try_from(id.len()).expect("at most 16");
            let head = IdDescriptor { kind, len, ..IdDescriptor::zeroed() };
            list.extend_from_slice(head.as_bytes());
            list.extend_from_slice(id);
        };
        add(id_type::NGUID, &self.uuid);
        add(id_type::UUID, &self.uuid);
        add(id_type::CSI, &[self.csi().0]);
        list.resize(4096, 0);
        list
    }

    /// Maximum zone append in sectors.
    pub(super) fn append_max(&self) -> u32 {
        append_max(self.limits())
    }
}

/// Maximum zone append of a queue in sectors: the device's, or for an emulated one that of a write.
fn append_max(limits: &Limits) -> u32 {
    let native = limits.append_max_sectors;
    let append = if native > 0 { native } else { limits.max_sectors };
    let zone = u32::try_from(limits.zone_size.0).unwrap_or(u32::MAX);
    append.min(limits.max_sectors).min(zone)
}

/// log2 of an append of `sectors` in units of 4 KiB (ZASL).
pub(super) fn append_shift(sectors: u32) -> u8 {
    let shift = (sectors / 8).max(1).ilog2();
    u8::try_from(shift).expect("less than 32").min(MDTS)
}

/// Whether a zone is read-only or offline, to which devices transition zones on their own.
pub(super) fn is_failed(zone: &Zone) -> bool {
    matches!(zone.cond, ZoneCondition::ReadOnly | ZoneCondition::Offline)
}

/// The zones that are read-only or offline.
fn failed_of(limits: &Limits, zones: &[Zone]) -> BTreeSet<ZoneNo> {
    zones.iter().filter(|zone| is_failed(zone)).map(|zone| limits.zone_of(zone.start)).collect()
}

fn check_zones(queue: &Queue) -> Result<Vec<Zone>, NamespaceError> {
    let limits = queue.limits();
    let (capacity, zone_size) = (limits.capacity, limits.zone_size);
    if !capacity.0.is_multiple_of(zone_size.0) {
        return Err(NamespaceError::LastZone { capacity, zone_size });
    }
    if append_max(limits) < 8 {
        return Err(NamespaceError::Append(append_max(limits)));
    }
    let mut zones = Vec::new();
    queue.report_zones(ZoneNo(0), usize::MAX, &mut zones).map_err(NamespaceError::Report)?;
    match zones.iter().find(|zone| zone.kind == ZoneKind::Conventional) {
        Some(zone) => Err(NamespaceError::Conventional(limits.zone_of(zone.start))),
        None => Ok(zones),
    }
}
