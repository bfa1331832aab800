//! Log pages.
use super::{U16, U32, U64, U128, wire};

wire! {
    /// An entry of the Error Information log page (01h; Base section 5.16.1.2).
    pub struct ErrorEntry: 64 {
        /// Error Count: counts errors over the controller's life.
        pub count: U64,
        /// Submission Queue ID.
        pub sqid: U16,
        /// Command ID.
        pub cid: U16,
        /// Status field, with the phase tag.
        pub status: U16,
        /// Parameter Error Location.
        pub location: U16,
        /// LBA.
        pub lba: U64,
        /// Namespace.
        pub nsid: U32,
        /// Vendor specific information available.
        pub vendor: u8,
        /// Transport type.
        pub transport: u8,
        pub(crate) _reserved_30: [u8; 2],
        /// Command specific information.
        pub command: U64,
        /// Transport type specific information.
        pub transport_specific: U16,
        pub(crate) _reserved_42: [u8; 22],
    }

    /// The SMART / Health Information log page (02h; Base section 5.16.1.3).
    pub struct SmartLog: 512 {
        /// Critical Warning.
        pub critical_warning: u8,
        /// Composite Temperature in kelvins.
        pub temperature: U16,
        /// Available Spare in percent.
        pub spare: u8,
        /// Available Spare Threshold in percent.
        pub spare_threshold: u8,
        /// Percentage Used.
        pub used: u8,
        /// Endurance Group Critical Warning Summary.
        pub endurance_warning: u8,
        pub(crate) _reserved_7: [u8; 25],
        /// Data Units Read, in 1000 units of 512 bytes, rounded up.
        pub units_read: U128,
        /// Data Units Written, the same.
        pub units_written: U128,
        /// Host Read Commands.
        pub reads: U128,
        /// Host Write Commands.
        pub writes: U128,
        /// Controller Busy Time in minutes.
        pub busy: U128,
        /// Power Cycles.
        pub power_cycles: U128,
        /// Power On Hours.
        pub hours: U128,
        /// Unsafe Shutdowns.
        pub unsafe_shutdowns: U128,
        /// Media and Data Integrity Errors.
        pub media_errors: U128,
        /// Number of Error Information Log Entries.
        pub error_entries: U128,
        /// Temperatures and times.
        pub thermal: [U32; 10],
        pub(crate) _reserved_232: [u8; 280],
    }

    /// The Changed Namespace List log page (04h; Base section 5.16.1.5).
    pub struct ChangedNamespaces: 4096 {
        /// Identifiers, ascending, then zeroes; FFFFFFFFh alone if there are more.
        pub nsids: [U32; 1024],
    }

    /// The Commands Supported and Effects log page (05h; Base section 5.16.1.6).
    pub struct EffectsLog: 4096 {
        /// By opcode, what admin commands do: [`effect`].
        pub admin: [U32; 256],
        /// By opcode, what I/O commands of the command set asked about do.
        pub io: [U32; 256],
        pub(crate) _reserved: [u8; 2048],
    }

    /// The header of the Asymmetric Namespace Access log page (0Ch; Base section 5.16.1.13).
    pub struct AnaHeader: 16 {
        /// Change Count: counts changes of the log.
        pub changes: U64,
        /// Number of ANA Group Descriptors.
        pub groups: U16,
        pub(crate) _reserved_10: [u8; 6],
    }

    /// An ANA Group Descriptor, without the identifiers of its namespaces, which follow.
    pub struct AnaGroup: 32 {
        /// ANA Group ID.
        pub id: U32,
        /// Number of NSID Values.
        pub nsids: U32,
        /// Change Count of the group.
        pub changes: U64,
        /// ANA state in bits 3:0.
        pub state: u8,
        pub(crate) _reserved_17: [u8; 15],
    }

    /// The header of the Discovery log page (70h; Base section 5.16.1.23).
    pub struct DiscoveryHeader: 1024 {
        /// GENCTR: counts changes of the log.
        pub generation: U64,
        /// NUMREC: number of entries.
        pub count: U64,
        /// RECFMT: 0.
        pub record_format: U16,
        pub(crate) _reserved_18: [u8; 1006],
    }

    /// An entry of the Discovery log page (Base section 5.16.1.23).
    pub struct DiscoveryEntry: 1024 {
        /// TRTYPE: 3 for TCP.
        pub transport: u8,
        /// ADRFAM: 1 for IPv4, 2 for IPv6.
        pub family: u8,
        /// SUBTYPE: 2 for an NVM subsystem, 3 for the discovery subsystem itself.
        pub subsystem_type: u8,
        /// TREQ: whether a secure channel is required: [`SECURE_CHANNEL_REQUIRED`],
        /// [`SECURE_CHANNEL_NOT_REQUIRED`].
        pub requirements: u8,
        /// PORTID.
        pub port_id: U16,
        /// CNTLID: FFFFh for the dynamic controller model.
        pub cntlid: U16,
        /// ASQSZ: largest admin queue.
        pub admin_queue: U16,
        /// EFLAGS.
        pub flags: U16,
        pub(crate) _reserved_12: [u8; 20],
        /// TRSVCID: the port number, as text.
        pub service: [u8; 32],
        pub(crate) _reserved_64: [u8; 192],
        /// SUBNQN.
        pub subnqn: [u8; 256],
        /// TRADDR: the address, as text.
        pub address: [u8; 256],
        /// TSAS. The first byte is SECTYPE with TCP: [`NO_SECURITY`], [`TLS_1_3`].
        pub specific: [u8; 256],
    }
}

/// TREQ of a discovery log entry: fabric secure channel required.
pub const SECURE_CHANNEL_REQUIRED: u8 = 1;
/// TREQ of a discovery log entry: fabric secure channel not required.
pub const SECURE_CHANNEL_NOT_REQUIRED: u8 = 2;
/// SECTYPE of a discovery log entry (TCP, Transport Specific Address Subtype): no security.
pub const NO_SECURITY: u8 = 0;
/// SECTYPE of a discovery log entry: TLS 1.3 or a later version.
pub const TLS_1_3: u8 = 2;

/// The effects of a command (Base section 5.16.1.6, Commands Supported and Effects data structure).
pub mod effect {
    /// CSUPP: the command is supported.
    pub const SUPPORTED: u32 = 1 << 0;
    /// LBCC: it changes what logical blocks hold.
    pub const CONTENT_CHANGE: u32 = 1 << 1;
}
