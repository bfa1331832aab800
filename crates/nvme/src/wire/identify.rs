//! Data structures of Identify (Base section 5.17.2), 4096 bytes each.
use super::{U16, U32, U64, U128, wire};

wire! {
    /// Identify Controller (CNS 01h; Base section 5.17.2.1).
    pub struct IdentifyController: 4096 {
        /// VID: PCI vendor.
        pub vid: U16,
        /// SSVID: PCI subsystem vendor.
        pub ssvid: U16,
        /// SN: serial number.
        pub sn: [u8; 20],
        /// MN: model number.
        pub mn: [u8; 40],
        /// FR: firmware revision.
        pub fr: [u8; 8],
        /// RAB: recommended arbitration burst.
        pub rab: u8,
        /// IEEE: OUI.
        pub ieee: [u8; 3],
        /// CMIC: bit 1 if the subsystem may have several controllers, bit 3 for ANA reporting.
        pub cmic: u8,
        /// MDTS: log2 of the longest transfer in units of the smallest page; 0 for no limit.
        pub mdts: u8,
        /// CNTLID.
        pub cntlid: U16,
        /// VER: version, as the property VS has it.
        pub ver: U32,
        /// RTD3R.
        pub rtd3r: U32,
        /// RTD3E: how long a shutdown may take, in microseconds.
        pub rtd3e: U32,
        /// OAES: optional asynchronous events; [`crate::wire::admin::notice`].
        pub oaes: U32,
        /// CTRATT: bit 0 for a 128-bit host identifier, [`ENDURANCE_GROUPS`],
        /// [`TRAFFIC_KEEP_ALIVE`], [`DATA_PLACEMENT`].
        pub ctratt: U32,
        /// RRLS.
        pub rrls: U16,
        pub(crate) _reserved_102: [u8; 9],
        /// CNTRLTYPE: 1 for an I/O controller, 2 for a discovery controller.
        pub cntrltype: u8,
        /// FGUID.
        pub fguid: [u8; 16],
        /// CRDT1 to CRDT3: command retry delays in units of 100 ms.
        pub crdt: [U16; 3],
        pub(crate) _reserved_134: [u8; 119],
        /// NVMSR.
        pub nvmsr: u8,
        /// VWCI.
        pub vwci: u8,
        /// MEC.
        pub mec: u8,
        /// OACS: optional admin commands.
        pub oacs: U16,
        /// ACL: concurrent abort commands, minus one.
        pub acl: u8,
        /// AERL: outstanding Asynchronous Event Requests, minus one.
        pub aerl: u8,
        /// FRMW: firmware updates; bit 0 if the first slot cannot be written, slots in bits 3:1.
        pub frmw: u8,
        /// LPA: bit 0 for SMART by namespace, bit 1 for the effects log, bit 2 for offsets.
        pub lpa: u8,
        /// ELPE: entries of the error log, minus one.
        pub elpe: u8,
        /// NPSS: power states, minus one.
        pub npss: u8,
        /// AVSCC.
        pub avscc: u8,
        /// APSTA.
        pub apsta: u8,
        /// WCTEMP: warning temperature in kelvins.
        pub wctemp: U16,
        /// CCTEMP: critical temperature in kelvins.
        pub cctemp: U16,
        /// MTFA.
        pub mtfa: U16,
        /// HMPRE.
        pub hmpre: U32,
        /// HMMIN.
        pub hmmin: U32,
        /// TNVMCAP: capacity in bytes.
        pub tnvmcap: U128,
        /// UNVMCAP: unallocated capacity in bytes.
        pub unvmcap: U128,
        /// RPMBS.
        pub rpmbs: U32,
        /// EDSTT.
        pub edstt: U16,
        /// DSTO.
        pub dsto: u8,
        /// FWUG.
        pub fwug: u8,
        /// KAS: granularity of the keep alive timer in units of 100 ms.
        pub kas: U16,
        /// HCTMA.
        pub hctma: U16,
        /// MNTMT.
        pub mntmt: U16,
        /// MXTMT.
        pub mxtmt: U16,
        /// SANICAP.
        pub sanicap: U32,
        /// HMMINDS.
        pub hmminds: U32,
        /// HMMAXD.
        pub hmmaxd: U16,
        /// NSETIDMAX.
        pub nsetidmax: U16,
        /// ENDGIDMAX.
        pub endgidmax: U16,
        /// ANATT: seconds that an ANA transition may take.
        pub anatt: u8,
        /// ANACAP: ANA states that are reported.
        pub anacap: u8,
        /// ANAGRPMAX.
        pub anagrpmax: U32,
        /// NANAGRPID: number of ANA groups.
        pub nanagrpid: U32,
        /// PELS.
        pub pels: U32,
        /// DOMAINID.
        pub domainid: U16,
        pub(crate) _reserved_358: [u8; 10],
        /// MEGCAP.
        pub megcap: U128,
        pub(crate) _reserved_384: [u8; 128],
        /// SQES: log2 of submission queue entry sizes, required in bits 3:0, largest in 7:4.
        pub sqes: u8,
        /// CQES: the same for completion queue entries.
        pub cqes: u8,
        /// MAXCMD: commands outstanding on one queue; required in fabrics.
        pub maxcmd: U16,
        /// NN: largest namespace identifier.
        pub nn: U32,
        /// ONCS: optional NVM commands: bit 0 Compare, 2 Dataset
        /// Management, 3 Write Zeroes, 4 saved features, 6 Timestamp, 7 Verify.
        pub oncs: U16,
        /// FUSES.
        pub fuses: U16,
        /// FNA.
        pub fna: u8,
        /// VWC: bit 0 if there is a volatile write cache; bits 2:1 are 3 if Flush may name all
        /// namespaces.
        pub vwc: u8,
        /// AWUN: atomic write unit, minus one.
        pub awun: U16,
        /// AWUPF: the same at power fail.
        pub awupf: U16,
        /// ICSVSCC.
        pub icsvscc: u8,
        /// NWPC.
        pub nwpc: u8,
        /// ACWU.
        pub acwu: U16,
        /// OCFS: copy formats.
        pub ocfs: U16,
        /// SGLS: bits 1:0 are 1 if SGLs need no alignment, bit 20 for offsets in capsules, bit 21
        /// for transport data blocks.
        pub sgls: U32,
        /// MNAN: most namespaces.
        pub mnan: U32,
        /// MAXDNA.
        pub maxdna: U128,
        /// MAXCNA.
        pub maxcna: U32,
        pub(crate) _reserved_564: [u8; 204],
        /// SUBNQN.
        pub subnqn: [u8; 256],
        pub(crate) _reserved_1024: [u8; 768],
        /// IOCCSZ: I/O command capsules in units of 16 bytes; 4 without data.
        pub ioccsz: U32,
        /// IORCSZ: I/O response capsules in units of 16 bytes; 1.
        pub iorcsz: U32,
        /// ICDOFF: offset of in-capsule data in units of 16 bytes.
        pub icdoff: U16,
        /// FCATT: bit 0 for the static controller model.
        pub fcatt: u8,
        /// MSDBD: SGL descriptors of a command.
        pub msdbd: u8,
        /// OFCS: bit 0 if I/O queues can be disconnected.
        pub ofcs: U16,
        /// DCTYPE.
        pub dctype: u8,
        pub(crate) _reserved_1807: [u8; 241],
        /// PSD0 to PSD31: power states.
        pub psd: [[u8; 32]; 32],
        /// Vendor specific.
        pub vendor: [u8; 1024],
    }

    /// Identify Controller of the NVM Command Set (CNS 06h, CSI 00h; NVM section 4.1.5.2).
    pub struct NvmController: 4096 {
        /// VSL: log2 of the longest Verify in units of the smallest page; 0 for no limit.
        pub verify_shift: u8,
        /// WZSL: the same for Write Zeroes.
        pub zeroes_shift: u8,
        /// WUSL: the same for Write Uncorrectable.
        pub uncorrectable_shift: u8,
        /// DMRL: ranges of a Dataset Management.
        pub dsm_ranges: u8,
        /// DMRSL: blocks of one of its ranges.
        pub dsm_range_blocks: U32,
        /// DMSL: blocks of all of its ranges.
        pub dsm_blocks: U64,
        pub(crate) _reserved_16: [u8; 4080],
    }

    /// Identify Controller of the ZNS Command Set (CNS 06h, CSI 02h; ZNS section 4.1.5.2).
    pub struct ZnsController: 4096 {
        /// ZASL: log2 of the longest append in units of the smallest page; 0 for MDTS.
        pub append_shift: u8,
        pub(crate) _reserved_1: [u8; 4095],
    }
}

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

/// CTRATT bit 4: there are endurance groups.
pub const ENDURANCE_GROUPS: u32 = 1 << 4;
/// CTRATT bit 6: any command restarts the keep alive timer (TBKAS).
pub const TRAFFIC_KEEP_ALIVE: u32 = 1 << 6;
/// CTRATT bit 19: endurance groups may have flexible data placement.
pub const DATA_PLACEMENT: u32 = 1 << 19;
/// OACS bit 5: Directive Send and Directive Receive.
pub const DIRECTIVES: u16 = 1 << 5;
/// ZOC bit 1: the controller may finish active zones (active zone excursions).
pub const ZOC_EXCURSIONS: u16 = 1 << 1;
/// OZCS bit 1: zones may have random write areas.
pub const OZCS_ZRWA: u16 = 1 << 1;
/// ZRWACAP bit 0: explicit ZRWA flushes.
pub const EXPLICIT_FLUSH: u8 = 1;

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
