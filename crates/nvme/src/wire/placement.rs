//! Commands and structures of flexible data placement, as in the NVM Express Base Specification 2.1
//! (TP4146), and the endurance groups that it is a property of.
use super::{Sgl, U16, U32, U64, U128, command, values, wire};

command! {
    /// I/O Management Receive (Base 2.1 section 7.3).
    pub struct IoManagementReceive {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// NSID.
        pub nsid: U32,
        pub(crate) _reserved: [u8; 16],
        /// DPTR.
        pub dptr: Sgl,
        /// Dword 10 bits 7:0: MO, [`ReceiveOperation`].
        pub operation: u8,
        pub(crate) _reserved_10: u8,
        /// Dword 10 bits 31:16: MOS.
        pub specific: U16,
        /// Dword 11: NUMD, the number of dwords to transfer minus one.
        pub numd: U32,
        pub(crate) _reserved_12: [u8; 16],
    }

    /// I/O Management Send (Base 2.1 section 7.4).
    pub struct IoManagementSend {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// NSID.
        pub nsid: U32,
        pub(crate) _reserved: [u8; 16],
        /// DPTR: placement identifiers, of two bytes each.
        pub dptr: Sgl,
        /// Dword 10 bits 7:0: MO, [`SendOperation`].
        pub operation: u8,
        pub(crate) _reserved_10: u8,
        /// Dword 10 bits 31:16: MOS, of an update the number of placement identifiers minus one.
        pub specific: U16,
        pub(crate) _reserved_11: [u8; 20],
    }

    /// Directive Receive and Directive Send (Base 2.1 sections 5.1.6 and 5.1.7).
    pub struct DirectiveCommand {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// NSID.
        pub nsid: U32,
        pub(crate) _reserved: [u8; 16],
        /// DPTR.
        pub dptr: Sgl,
        /// Dword 10: NUMD, the number of dwords to transfer minus one.
        pub numd: U32,
        /// Dword 11 bits 7:0: DOPER.
        pub operation: u8,
        /// Dword 11 bits 15:8: DTYPE.
        pub kind: u8,
        /// Dword 11 bits 31:16: DSPEC.
        pub specific: U16,
        pub(crate) _reserved_12: [u8; 16],
    }
}

values! {
    /// MO of I/O Management Receive (Base 2.1 section 7.3).
    pub struct ReceiveOperation(u8) {
        /// No action.
        NONE = 0x00,
        /// Reclaim Unit Handle Status.
        UNIT_HANDLE_STATUS = 0x01,
    }

    /// MO of I/O Management Send (Base 2.1 section 7.4).
    pub struct SendOperation(u8) {
        /// No action.
        NONE = 0x00,
        /// Reclaim Unit Handle Update.
        UNIT_HANDLE_UPDATE = 0x01,
    }

    /// Types of directives (Base 2.1 section 8.1.8, DTYPE).
    pub struct DirectiveType(u8) {
        /// Identify.
        IDENTIFY = 0x00,
        /// Data Placement.
        DATA_PLACEMENT = 0x02,
    }

    /// FDP event types (Base 2.1 section 5.1.12.1.31).
    pub struct EventType(u8) {
        /// Reclaim Unit Not Fully Written To.
        UNIT_NOT_FULL = 0x00,
        /// Invalid Placement Identifier.
        INVALID_ID = 0x03,
        /// Media Reallocated.
        REALLOCATED = 0x80,
    }
}

impl IoManagementReceive {
    /// The length asked for, in bytes.
    pub fn length(&self) -> u64 {
        (u64::from(self.numd.get()) + 1) * 4
    }
}

impl IoManagementSend {
    /// The length of the placement identifiers of an update, in bytes.
    pub fn length(&self) -> u64 {
        (u64::from(self.specific.get()) + 1) * 2
    }
}

impl DirectiveCommand {
    /// The length of the data, in bytes.
    pub fn length(&self) -> u64 {
        (u64::from(self.numd.get()) + 1) * 4
    }
}

/// The operation of a Directive Receive of type Identify: Return Parameters.
pub const RETURN_PARAMETERS: u8 = 1;

wire! {
    /// The Endurance Group Information log page (09h; Base section 5.16.1.10).
    pub struct EnduranceGroupLog: 512 {
        /// Critical Warning.
        pub critical_warning: u8,
        /// Endurance Group Features.
        pub features: u8,
        pub(crate) _reserved_2: u8,
        /// Available Spare in percent.
        pub spare: u8,
        /// Available Spare Threshold in percent.
        pub spare_threshold: u8,
        /// Percentage Used.
        pub used: u8,
        /// Domain Identifier.
        pub domain: U16,
        pub(crate) _reserved_8: [u8; 24],
        /// Endurance Estimate in units of 10^9 bytes; 0 if it is not reported.
        pub endurance: U128,
        /// Data Units Read, in units of 10^9 bytes, rounded up.
        pub units_read: U128,
        /// Data Units Written, the same.
        pub units_written: U128,
        /// Media Units Written, the same.
        pub media_written: U128,
        /// Host Read Commands.
        pub reads: U128,
        /// Host Write Commands.
        pub writes: U128,
        /// Media and Data Integrity Errors.
        pub media_errors: U128,
        /// Number of Error Information Log Entries.
        pub error_entries: U128,
        /// Total Endurance Group Capacity in bytes.
        pub capacity: U128,
        /// Unallocated Endurance Group Capacity in bytes.
        pub unallocated: U128,
        pub(crate) _reserved_192: [u8; 320],
    }

    /// The header of the FDP Configurations log page (20h; Base 2.1 section 5.1.12.1.28).
    pub struct ConfigurationsHeader: 16 {
        /// Number of configurations, minus one.
        pub count: U16,
        /// Version of the page.
        pub version: u8,
        pub(crate) _reserved_3: u8,
        /// Size of the page in bytes.
        pub size: U32,
        pub(crate) _reserved_8: [u8; 8],
    }

    /// An FDP configuration descriptor, without the descriptors of reclaim unit handles, which follow.
    pub struct Configuration: 64 {
        /// Size of the descriptor in bytes.
        pub size: U16,
        /// FDPA: RGIF in bits 3:0, [`WRITE_CACHE`], [`VALID`].
        pub attributes: u8,
        /// Size of a vendor specific part in bytes.
        pub vendor_size: u8,
        /// NRG: reclaim groups.
        pub groups: U32,
        /// NRUH: reclaim unit handles.
        pub unit_handles: U16,
        /// MAXPIDS: most placement identifiers of a namespace, minus one.
        pub max_ids: U16,
        /// NNS: most namespaces.
        pub namespaces: U32,
        /// RUNS: nominal size of a reclaim unit in bytes.
        pub unit_size: U64,
        /// ERUTL: seconds that a reclaim unit may stay open; 0 if it is not reported.
        pub time_limit: U32,
        pub(crate) _reserved_28: [u8; 36],
    }

    /// A reclaim unit handle descriptor.
    pub struct UnitHandle: 4 {
        /// RUHT: 1 for initially isolated, 2 for persistently isolated.
        pub kind: u8,
        pub(crate) _reserved: [u8; 3],
    }

    /// The header of the Reclaim Unit Handle Usage log page (21h; Base 2.1 section 5.1.12.1.29), before
    /// a [`UnitHandleUsage`] for each handle.
    pub struct UsageHeader: 8 {
        /// NRUH: reclaim unit handles.
        pub count: U16,
        pub(crate) _reserved: [u8; 6],
    }

    /// The use of a reclaim unit handle.
    pub struct UnitHandleUsage: 8 {
        /// RUHA: 0 for unused, 1 if a host has given it to a namespace, 2 if the controller has.
        pub attributes: u8,
        pub(crate) _reserved: [u8; 7],
    }

    /// The FDP Statistics log page (22h; Base 2.1 section 5.1.12.1.30).
    pub struct Statistics: 64 {
        /// HBMW: bytes that the host wrote, with metadata.
        pub host: U128,
        /// MBMW: bytes written to the medium, with metadata.
        pub media: U128,
        /// MBE: bytes erased.
        pub erased: U128,
        pub(crate) _reserved_48: [u8; 16],
    }

    /// The header of the FDP Events log page (23h; Base 2.1 section 5.1.12.1.31), before the events.
    pub struct EventsHeader: 64 {
        /// Number of events.
        pub count: U32,
        pub(crate) _reserved_4: [u8; 60],
    }

    /// An FDP event.
    pub struct Event: 64 {
        /// [`EventType`].
        pub kind: u8,
        /// FDPEF: [`ID_VALID`], [`NSID_VALID`], [`LOCATION_VALID`].
        pub flags: u8,
        /// PID.
        pub id: U16,
        /// When, as [`Timestamp`](super::admin::Timestamp).
        pub timestamp: [u8; 8],
        /// NSID.
        pub nsid: U32,
        pub(crate) _specific: U16,
        /// Of a Media Reallocated event, NLBAM: blocks that were moved.
        pub moved: U16,
        pub(crate) _specific_4: [u8; 12],
        /// RGID.
        pub group: U16,
        /// RUHID.
        pub unit_handle: u8,
        pub(crate) _reserved_35: [u8; 5],
        /// Vendor specific.
        pub vendor: [u8; 24],
    }

    /// A Supported FDP Event descriptor, of Get Features.
    pub struct EventSupport: 2 {
        /// [`EventType`].
        pub kind: u8,
        /// Bit 0 if events of the type are recorded.
        pub attributes: u8,
    }

    /// The header of the Reclaim Unit Handle Status, before a [`UnitHandleStatus`] for each placement
    /// identifier.
    pub struct StatusHeader: 16 {
        pub(crate) _reserved: [u8; 14],
        /// NRUHSD: number of descriptors.
        pub count: U16,
    }

    /// A Reclaim Unit Handle Status descriptor.
    pub struct UnitHandleStatus: 32 {
        /// PID.
        pub id: U16,
        /// RUHID.
        pub unit_handle: U16,
        /// EARUTR: seconds that the unit may stay open; 0 if it is not reported.
        pub time_left: U32,
        /// RUAMW: blocks that can still be written to the unit.
        pub available: U64,
        pub(crate) _reserved_16: [u8; 16],
    }
}

/// FDPA bit 4: the controller has a volatile write cache.
pub const WRITE_CACHE: u8 = 1 << 4;
/// FDPA bit 7: the configuration is valid.
pub const VALID: u8 = 1 << 7;
/// FDPEF bit 0: PID is valid.
pub const ID_VALID: u8 = 1 << 0;
/// FDPEF bit 1: NSID is valid.
pub const NSID_VALID: u8 = 1 << 1;
/// FDPEF bit 2: RGID and RUHID are valid.
pub const LOCATION_VALID: u8 = 1 << 2;
/// LSP bit 0 of Get Log Page for FDP events: those that the host has caused, else those of the
/// controller.
pub const HOST_EVENTS: u8 = 1 << 0;
