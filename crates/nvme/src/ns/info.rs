//! The format of a namespace from its Identify data, if the block layer can use it.
use crate::wire::identify::{
    EXPLICIT_FLUSH, IdentifyNamespace, OZCS_ZRWA, ZOC_EXCURSIONS, ZnsNamespace,
};
use crate::wire::opcode::Csi;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{Sector, ZrwaLimits};

/// The persistent identifiers of a namespace (Base section 4.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// EUI64; zero for none.
    pub eui64: [u8; 8],
    /// NGUID; zero for none.
    pub nguid: [u8; 16],
    /// UUID; zero for none.
    pub uuid: [u8; 16],
}

/// The zones of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Distance between zone starts.
    pub size: Sector,
    /// Zones that may be open at the same time; 0 for no limit.
    pub max_open: u32,
    /// Zones that may be active at the same time; 0 for no limit.
    pub max_active: u32,
    /// Their random write areas.
    pub zrwa: ZrwaLimits,
}

/// The format of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// The namespace identifier.
    pub nsid: u32,
    /// Its persistent identifiers.
    pub ids: Ids,
    /// Its command set.
    pub csi: Csi,
    /// log2 of the block size in bytes.
    pub lba_shift: u8,
    /// Metadata bytes of a block.
    pub metadata: u16,
    /// Protection information: its type, 0 for none (NVM section 5.2).
    pub pi_type: u8,
    /// Its length in bytes; 0 for none.
    pub pi_size: u8,
    /// The guard: 0 for 16 bits (NVM section 4.1.5.3, PIF).
    pub guard: u8,
    /// Whether metadata follow each block, instead of having a buffer of their own (FLBAS bit 4).
    pub extended: bool,
    /// Whether several controllers may have the namespace (NMIC bit 0).
    pub shared: bool,
    /// Preferred write granularity in blocks (NPWG).
    pub write_granularity: u32,
    /// Optimal write size in blocks (NOWS).
    pub write_size: u32,
    /// Size.
    pub capacity: Sector,
    /// Blocks in use.
    pub used: u64,
    /// Its zones, if it is zoned.
    pub zones: Option<ZoneInfo>,
}

/// Why the block layer cannot use a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// FLBAS selects a format beyond NLBAF.
    #[error("LBA format {found} is in use, expected one of 0 to {last}")]
    Format {
        /// The format that is in use.
        found: u8,
        /// The last format.
        last: u8,
    },
    /// A block size out of range.
    #[error("blocks of 2^{0} bytes, expected 512 or 4096 bytes")]
    BlockSize(u8),
    /// More sectors than 64 bits can count.
    #[error("{blocks} blocks of 2^{shift} bytes are too many to count in sectors")]
    Capacity {
        /// Number of blocks.
        blocks: u64,
        /// log2 of their size in bytes.
        shift: u8,
    },
    /// Metadata other than protection information: bios carry none.
    #[error(
        "blocks have {metadata} bytes of metadata and protection information of type {pi_type}, \
         expected none or 8 bytes of type 1 to 3"
    )]
    Metadata {
        /// Metadata bytes of a block.
        metadata: u16,
        /// Type of protection information; 0 for none.
        pi_type: u8,
    },
    /// ZOC has a bit other than that of active zone excursions: zone capacities change.
    #[error("zone operation characteristics {0:#x}, expected 0 or 2")]
    ZoneOperation(u16),
    /// Zones of no size, or too large to count in sectors.
    #[error("zones of {0} blocks")]
    ZoneSize(u64),
    /// Zones that the block layer cannot count.
    #[error("{} sectors are not 1 to 2^32 zones of {} sectors", capacity.0, zone_size.0)]
    ZoneCount {
        /// Size of the namespace.
        capacity: Sector,
        /// Size of its zones.
        zone_size: Sector,
    },
    /// Neither the NVM nor the ZNS Command Set.
    #[error("command set {0:?}, expected NVM or ZNS")]
    CommandSet(Csi),
}

impl NamespaceInfo {
    /// The format of namespace `nsid` from its Identify data: CNS 00h and, for a zoned namespace, CNS
    /// 05h with CSI 02h.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(
        nsid: u32,
        ids: Ids,
        id: &IdentifyNamespace,
        zns: Option<&ZnsNamespace>,
    ) -> Result<Self, ScanError> {
        // Bits 6:5 extend bits 3:0 (NVM section 4.1.5.1, FLBAS).
        let number = id.format & 0xf | id.format >> 1 & 0x30;
        if number > id.formats.min(63) {
            return Err(ScanError::Format { found: number, last: id.formats });
        }
        let format = &id.lba_formats[usize::from(number)];
        let shift = format.data_shift;
        if shift != 9 && shift != 12 {
            return Err(ScanError::BlockSize(shift));
        }
        let sectors = |blocks: u64| blocks.checked_mul(1 << (u32::from(shift) - SECTOR_SHIFT));
        let blocks = id.size.get();
        let capacity = sectors(blocks).ok_or(ScanError::Capacity { blocks, shift })?;
        let (metadata, pi_type) = (format.metadata.get(), id.protection & 0b111);
        if !matches!((metadata, pi_type), (0, 0) | (8, 1..=3)) {
            return Err(ScanError::Metadata { metadata, pi_type });
        }
        let zones = zns.map(|zns| {
            // Zones that the controller finishes are found when a write to them fails.
            if zns.zone_operation.get() & !ZOC_EXCURSIONS != 0 {
                return Err(ScanError::ZoneOperation(zns.zone_operation.get()));
            }
            let size = zns.formats[usize::from(number)].zone_size.get();
            let size = sectors(size).filter(|&size| size > 0).ok_or(ScanError::ZoneSize(size))?;
            Ok(ZoneInfo {
                size: Sector(size),
                max_open: zns.max_open.get().wrapping_add(1),
                max_active: zns.max_active.get().wrapping_add(1),
                zrwa: zrwa(zns, u32::from(shift) - SECTOR_SHIFT),
            })
        });
        Ok(NamespaceInfo {
            nsid,
            ids,
            csi: if zns.is_some() { Csi::ZNS } else { Csi::NVM },
            lba_shift: shift,
            metadata,
            pi_type,
            pi_size: if pi_type == 0 { 0 } else { 8 },
            guard: 0,
            extended: id.format & 1 << 4 != 0,
            shared: id.sharing & 1 != 0,
            write_granularity: u32::from(id.write_granularity.get()) + 1,
            write_size: u32::from(id.write_size.get()) + 1,
            capacity: Sector(capacity),
            used: id.used.get(),
            zones: zones.transpose()?,
        })
    }
}

/// The random write areas that a namespace reports; none if it reports areas that are no whole number
/// of granules, or without explicit flushes (ZNS section 4.1.5.1).
fn zrwa(zns: &ZnsNamespace, shift: u32) -> ZrwaLimits {
    let sectors = |blocks: u16| u32::from(blocks) << shift;
    let (size, granularity) = (zns.zrwa_size.get(), zns.zrwa_granularity.get());
    let supported =
        zns.optional.get() & OZCS_ZRWA != 0 && zns.zrwa_capability & EXPLICIT_FLUSH != 0;
    if !supported || granularity == 0 || size == 0 || !size.is_multiple_of(granularity) {
        return ZrwaLimits::NONE;
    }
    ZrwaLimits {
        size: sectors(size),
        granularity: sectors(granularity),
        max: zns.zrwas.get().saturating_add(1),
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// 16 zones of 64 blocks of 4 KiB.
    pub fn info() -> NamespaceInfo {
        NamespaceInfo {
            nsid: 5,
            ids: Ids::default(),
            csi: Csi::ZNS,
            lba_shift: 12,
            metadata: 0,
            pi_type: 0,
            pi_size: 0,
            guard: 0,
            extended: false,
            shared: false,
            write_granularity: 1,
            write_size: 1,
            capacity: Sector(16 * 512),
            used: 0,
            zones: Some(ZoneInfo {
                size: Sector(512),
                max_open: 0,
                max_active: 0,
                zrwa: ZrwaLimits::NONE,
            }),
        }
    }
}
