//! Admin commands.
use super::{Sgl, U16, U32, U64, command, wire};

command! {
    /// Identify (Base section 5.17).
    pub struct IdentifyCommand {
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
        /// Dword 10 bits 7:0: CNS.
        pub cns: u8,
        pub(crate) _reserved_10: u8,
        /// Dword 10 bits 31:16: CNTID.
        pub cntid: U16,
        /// Dword 11 bits 15:0: CNS specific identifier.
        pub specific: U16,
        pub(crate) _reserved_11: u8,
        /// Dword 11 bits 31:24: CSI.
        pub csi: u8,
        pub(crate) _reserved_12: [u8; 16],
    }

    /// Get Log Page (Base section 5.16).
    pub struct LogCommand {
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
        /// Dword 10 bits 7:0: LID.
        pub lid: u8,
        /// Dword 10 bits 15:8: RAE in bit 7, the log's own bits in 6:0.
        pub specific: u8,
        /// Dword 10 bits 31:16: NUMDL, the lower part of the number of dwords minus one.
        pub numdl: U16,
        /// Dword 11 bits 15:0: NUMDU, its upper part.
        pub numdu: U16,
        /// Dword 11 bits 31:16: log specific identifier.
        pub identifier: U16,
        /// Dwords 12 and 13: LPO, the offset in bytes.
        pub offset: U64,
        /// Dword 14 bits 7:0: UUID index.
        pub uuid: u8,
        pub(crate) _reserved_14: [u8; 2],
        /// Dword 14 bits 31:24: CSI.
        pub csi: u8,
        pub(crate) _reserved_15: U32,
    }

    /// Get Features and Set Features (Base sections 5.15 and 5.27).
    pub struct FeatureCommand {
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
        /// Dword 10 bits 7:0: FID.
        pub fid: u8,
        /// Dword 10 bits 15:8: SEL, of Get Features.
        pub select: u8,
        pub(crate) _reserved_10: u8,
        /// Dword 10 bits 31:24: SV in bit 31, of Set Features.
        pub save: u8,
        /// Dword 11: the value.
        pub value: U32,
        /// Dword 12: more of it, of some features.
        pub value_12: U32,
        pub(crate) _reserved_13: [u8; 12],
    }
}

wire! {
    /// Timestamp (Base section 5.27.1.10).
    pub struct Timestamp: 8 {
        /// Milliseconds since 1970-01-01, 48 bits.
        pub milliseconds: [u8; 6],
        /// The origin of the time in bits 3:1; whether the clock stopped in bit 0.
        pub attributes: u8,
        pub(crate) _reserved: u8,
    }
}

/// RAE: the event that points to the log page stays pending (Base section 5.16).
pub const RETAIN_EVENT: u8 = 1 << 7;

/// RGO, of the Asymmetric Namespace Access log page: groups only, without their namespaces (Base
/// section 5.16.1.13).
pub const GROUPS_ONLY: u8 = 1 << 0;

impl LogCommand {
    /// The length asked for, in bytes: up to 16 GiB.
    pub fn length(&self) -> u64 {
        let dwords = u64::from(self.numdu.get()) << 16 | u64::from(self.numdl.get());
        (dwords + 1) * 4
    }
}

/// Bits of the Asynchronous Event Configuration feature (Base section 5.27.1.8), and of OAES.
pub mod notice {
    /// SMART / Health critical warnings, of which OAES has none.
    pub const HEALTH: u32 = 0xff;
    /// The one about the temperature.
    pub const TEMPERATURE: u32 = 1 << 1;
    /// Attached namespaces changed.
    pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
    /// Asymmetric namespace access changed.
    pub const ANA_CHANGE: u32 = 1 << 11;
    /// A zone descriptor changed (ZNS section 4.1.2).
    pub const ZONE_DESCRIPTOR: u32 = 1 << 27;
    /// The discovery log page changed.
    pub const DISCOVERY_LOG: u32 = 1 << 31;
}

/// Dword 0 of the completion of an Asynchronous Event Request (Base section 5.2.1): the type in
/// bits 2:0, the information in bits 15:8, the log page in bits 23:16.
pub mod event {
    /// Error status: Write to Invalid Doorbell Register; see log page 01h.
    pub const INVALID_DOORBELL: u32 = 0x01_00_00;
    /// Error status: Invalid Doorbell Write Value; see log page 01h.
    pub const DOORBELL_VALUE: u32 = 0x01_01_00;
    /// SMART / Health status: Temperature Threshold; see log page 02h.
    pub const TEMPERATURE: u32 = 0x02_01_01;
    /// Notice: Attached Namespace Attribute Changed; see log page 04h.
    pub const NAMESPACE_ATTRIBUTE: u32 = 0x04_00_02;
    /// Notice: Asymmetric Namespace Access Change; see log page 0Ch.
    pub const ANA_CHANGE: u32 = 0x0c_03_02;
    /// Notice: Zone Descriptor Changed (ZNS section 3.1.1.1); see log page BFh.
    pub const ZONE_DESCRIPTOR: u32 = 0xbf_ef_02;
    /// Notice: Discovery Log Page Change; see log page 70h.
    pub const DISCOVERY_LOG: u32 = 0x70_f0_02;
}
