//! Identify Namespace data structures.
use crate::wire::{U16, U32, U64, U128, wire};

wire! {
    /// An LBA format (NVM section 4.1.5.1, LBAF).
    pub struct LbaFormat: 4 {
        /// MS: metadata bytes of a block.
        pub metadata: U16,
        /// LBADS: log2 of the block size.
        pub data_shift: u8,
        /// RP: relative performance, 0 is best.
        pub performance: u8,
    }

    /// Identify Namespace (CNS 00h; NVM section 4.1.5.1).
    pub struct IdentifyNamespace: 4096 {
        /// NSZE: size in logical blocks.
        pub size: U64,
        /// NCAP: capacity.
        pub capacity: U64,
        /// NUSE: blocks in use.
        pub used: U64,
        /// NSFEAT.
        pub features: u8,
        /// NLBAF: number of LBA formats minus one.
        pub formats: u8,
        /// FLBAS: the format in use in bits 3:0; metadata at the end of the data in bit 4.
        pub format: u8,
        /// MC: how metadata can travel.
        pub metadata_capabilities: u8,
        /// DPC: protection information that can be used.
        pub protection_capabilities: u8,
        /// DPS: that in use: type in bits 2:0; in the first eight bytes of metadata in bit 3.
        pub protection: u8,
        /// NMIC: bit 0 if several controllers may have the namespace.
        pub sharing: u8,
        /// RESCAP: reservations.
        pub reservations: u8,
        /// FPI: progress of a format.
        pub format_progress: u8,
        /// DLFEAT: what reads of deallocated blocks give in bits 2:0, 1 for zeroes.
        pub deallocation: u8,
        /// NAWUN: atomic write unit, minus one.
        pub atomic_write: U16,
        /// NAWUPF: the same at power fail.
        pub atomic_write_power_fail: U16,
        /// NACWU: atomic compare and write unit.
        pub atomic_compare: U16,
        /// NABSN: atomic boundary size.
        pub boundary_size: U16,
        /// NABO: atomic boundary offset.
        pub boundary_offset: U16,
        /// NABSPF: atomic boundary size at power fail.
        pub boundary_power_fail: U16,
        /// NOIOB: optimal I/O boundary in blocks.
        pub io_boundary: U16,
        /// NVMCAP: size in bytes.
        pub bytes: U128,
        /// NPWG: preferred write granularity, minus one.
        pub write_granularity: U16,
        /// NPWA: preferred write alignment, minus one.
        pub write_alignment: U16,
        /// NPDG: preferred deallocate granularity, minus one.
        pub deallocate_granularity: U16,
        /// NPDA: preferred deallocate alignment, minus one.
        pub deallocate_alignment: U16,
        /// NOWS: optimal write size, minus one.
        pub write_size: U16,
        /// MSSRL: longest source range of a copy.
        pub copy_range: U16,
        /// MCL: longest copy.
        pub copy_length: U32,
        /// MSRC: source ranges of a copy, minus one.
        pub copy_ranges: u8,
        pub(crate) _reserved_81: [u8; 11],
        /// ANAGRPID.
        pub ana_group: U32,
        pub(crate) _reserved_96: [u8; 3],
        /// NSATTR: bit 0 if write protected.
        pub attributes: u8,
        /// NVMSETID.
        pub nvm_set: U16,
        /// ENDGID.
        pub endurance_group: U16,
        /// NGUID.
        pub nguid: [u8; 16],
        /// EUI64.
        pub eui64: [u8; 8],
        /// LBAF0 to LBAF63.
        pub lba_formats: [LbaFormat; 64],
        /// Vendor specific.
        pub vendor: [u8; 3712],
    }

    /// Identify Namespace of the NVM Command Set (CNS 05h, CSI 00h; NVM section 4.1.5.3).
    pub struct NvmNamespace: 4096 {
        /// LBSTM: mask of the storage tag.
        pub storage_tag_mask: U64,
        /// PIC: protection information capabilities.
        pub protection: u8,
        pub(crate) _reserved_9: [u8; 3],
        /// ELBAF0 to ELBAF63: the guard's size in bits 8:7, 0 for 16 bits.
        pub formats: [U32; 64],
        pub(crate) _reserved_268: [u8; 3828],
    }

    /// An LBA format's extension (ZNS section 4.1.5.1, LBAFE).
    pub struct ZnsFormat: 16 {
        /// ZSZE: zone size in logical blocks.
        pub zone_size: U64,
        /// ZDES: size of zone descriptor extensions in units of 64 bytes.
        pub extension: u8,
        pub(crate) _reserved: [u8; 7],
    }

    /// Identify Namespace of the ZNS Command Set (CNS 05h, CSI 02h; ZNS section 4.1.5.1).
    pub struct ZnsNamespace: 4096 {
        /// ZOC: bit 0 if zone capacities can change, bit 1 for active zone excursions.
        pub zone_operation: U16,
        /// OZCS: bit 0 if reads may cross zones, bit 1 for ZRWA.
        pub optional: U16,
        /// MAR: active zones minus one; FFFFFFFFh for no limit.
        pub max_active: U32,
        /// MOR: open zones minus one; FFFFFFFFh for no limit.
        pub max_open: U32,
        /// RRL: seconds after which a reset is due, as recommended.
        pub reset_limit: U32,
        /// FRL: seconds after which a finish is due.
        pub finish_limit: U32,
        /// RRL1 to RRL3.
        pub reset_limits: [U32; 3],
        /// FRL1 to FRL3.
        pub finish_limits: [U32; 3],
        /// NUMZRWA: ZRWA resources minus one.
        pub zrwas: U32,
        /// ZRWAFG: granularity of a flush in blocks.
        pub zrwa_granularity: U16,
        /// ZRWASZ: size of a ZRWA in blocks.
        pub zrwa_size: U16,
        /// ZRWACAP: bit 0 if explicit flushes are supported.
        pub zrwa_capability: u8,
        pub(crate) _reserved_53: [u8; 2763],
        /// LBAFE0 to LBAFE63.
        pub formats: [ZnsFormat; 64],
        /// Vendor specific.
        pub vendor: [u8; 256],
    }

    /// Identify Namespace independent of the command set (CNS 08h; Base section 5.17.2.8).
    pub struct IndependentNamespace: 4096 {
        /// NSFEAT: bit 4 if rotational.
        pub features: u8,
        /// NMIC.
        pub sharing: u8,
        /// RESCAP.
        pub reservations: u8,
        /// FPI.
        pub format_progress: u8,
        /// ANAGRPID.
        pub ana_group: U32,
        /// NSATTR.
        pub attributes: u8,
        pub(crate) _reserved_9: u8,
        /// NVMSETID.
        pub nvm_set: U16,
        /// ENDGID.
        pub endurance_group: U16,
        /// NSTAT: bit 0 if ready.
        pub status: u8,
        pub(crate) _reserved_15: [u8; 4081],
    }

    /// A list of namespaces (CNS 02h, 07h; Base section 5.17.2.2).
    pub struct NamespaceList: 4096 {
        /// Identifiers, ascending, then zeroes.
        pub nsids: [U32; 1024],
    }

    /// The head of a Namespace Identification Descriptor (CNS 03h; Base section 5.17.2.3). The
    /// identifier follows it.
    pub struct IdDescriptor: 4 {
        /// NIDT: [`id_type`]; 0 ends the list.
        pub kind: u8,
        /// NIDL: length of the identifier in bytes.
        pub len: u8,
        pub(crate) _reserved: U16,
    }
}

/// Types of namespace identifiers (Base section 5.17.2.3, NIDT), with their lengths.
pub mod id_type {
    /// EUI64: 8 bytes.
    pub const EUI64: u8 = 1;
    /// NGUID: 16 bytes.
    pub const NGUID: u8 = 2;
    /// UUID: 16 bytes.
    pub const UUID: u8 = 3;
    /// CSI: 1 byte.
    pub const CSI: u8 = 4;
}
