//! Commands and structures of the Zoned Namespace Command Set.
use super::{Sgl, U16, U32, U64, command, values, wire};
use zonal_blk::ZoneCondition;

command! {
    /// Zone Management Send (ZNS section 3.4.3).
    pub struct ZoneSend {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// NSID.
        pub nsid: U32,
        pub(crate) _reserved: [u8; 16],
        /// DPTR: the zone descriptor extension, if one is set.
        pub dptr: Sgl,
        /// Dwords 10 and 11: the zone's first LBA, or for a ZRWA flush the last one to commit.
        pub slba: U64,
        pub(crate) _reserved_12: U32,
        /// Dword 13 bits 7:0: ZSA.
        pub action: u8,
        /// Dword 13 bit 8: select all; bit 9: ZSASO, which for open is to allocate a ZRWA.
        pub options: u8,
        pub(crate) _reserved_13: [u8; 10],
    }

    /// Zone Management Receive (ZNS section 3.4.2).
    pub struct ZoneReceive {
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
        /// Dwords 10 and 11: SLBA, in the first zone of the report.
        pub slba: U64,
        /// Dword 12: NDW, the number of dwords to transfer minus one.
        pub ndw: U32,
        /// Dword 13 bits 7:0: ZRA.
        pub action: u8,
        /// Dword 13 bits 15:8: ZRASF, which zones.
        pub filter: u8,
        /// Dword 13 bit 16: count only the zones whose descriptors are transferred.
        pub partial: u8,
        pub(crate) _reserved_13: [u8; 9],
    }
}

values! {
    /// ZSA (ZNS section 3.4.3).
    pub struct SendAction(u8) {
        /// Close Zone.
        CLOSE = 0x01,
        /// Finish Zone.
        FINISH = 0x02,
        /// Open Zone.
        OPEN = 0x03,
        /// Reset Zone.
        RESET = 0x04,
        /// Offline Zone.
        OFFLINE = 0x05,
        /// Set Zone Descriptor Extension.
        SET_EXTENSION = 0x10,
        /// Commit LBAs of a Zone Random Write Area.
        ZRWA_FLUSH = 0x11,
    }

    /// ZRA (ZNS section 3.4.2).
    pub struct ReceiveAction(u8) {
        /// Report Zones.
        REPORT = 0x00,
        /// Extended Report Zones: each descriptor is followed by its extension.
        EXTENDED_REPORT = 0x01,
    }

    /// ZRASF (ZNS section 3.4.2): which zones a report lists.
    pub struct Filter(u8) {
        /// All hash functions.
        ALL = 0x00,
        /// ZSE:Empty.
        EMPTY = 0x01,
        /// ZSIO:Implicitly Opened.
        IMPLICIT_OPEN = 0x02,
        /// ZSEO:Explicitly Opened.
        EXPLICIT_OPEN = 0x03,
        /// ZSC:Closed.
        CLOSED = 0x04,
        /// ZSF:Full.
        FULL = 0x05,
        /// ZSRO:Read Only.
        READ_ONLY = 0x06,
        /// ZSO:Offline.
        OFFLINE = 0x07,
    }
}

/// Select All, in [`ZoneSend::options`].
pub const SELECT_ALL: u8 = 1 << 0;
/// Allocate a ZRWA with Open Zone, in [`ZoneSend::options`].
pub const ALLOCATE_ZRWA: u8 = 1 << 1;

/// The zone type of sequential write required zones (ZNS section 2.1.1.1, ZT). The only one.
pub const SEQUENTIAL_WRITE_REQUIRED: u8 = 0x02;

/// Zone attributes (ZNS section 3.4.2.2.3, ZA).
pub mod attribute {
    /// ZFC: the controller finished the zone.
    pub const FINISHED_BY_CONTROLLER: u8 = 1 << 0;
    /// FZR: the host should finish the zone.
    pub const FINISH_RECOMMENDED: u8 = 1 << 1;
    /// RZR: the host should reset the zone.
    pub const RESET_RECOMMENDED: u8 = 1 << 2;
    /// ZRWAV: the zone has a ZRWA.
    pub const ZRWA_VALID: u8 = 1 << 3;
    /// ZDEV: the zone descriptor extension holds data.
    pub const EXTENSION_VALID: u8 = 1 << 7;
}

/// A write pointer that means nothing: the zone is full, read-only or offline.
pub const NO_WRITE_POINTER: u64 = u64::MAX;

wire! {
    /// The header of a zone report (ZNS section 3.4.2.2.1 and 3.4.2.2.2).
    pub struct ReportHeader: 64 {
        /// Number of zones that match, or with Partial that are in the buffer.
        pub nr_zones: U64,
        pub(crate) _reserved: [u8; 56],
    }

    /// A zone descriptor (ZNS section 3.4.2.2.3).
    pub struct ZoneDescriptor: 64 {
        /// ZT, in bits 3:0.
        pub zone_type: u8,
        /// ZS, in bits 7:4.
        pub state: u8,
        /// ZA: [`attribute`].
        pub attributes: u8,
        /// ZAI: how soon to follow the recommendations in ZA.
        pub attributes_info: u8,
        pub(crate) _reserved_4: [u8; 4],
        /// ZCAP, in logical blocks.
        pub capacity: U64,
        /// ZSLBA.
        pub slba: U64,
        /// WP.
        pub write_pointer: U64,
        pub(crate) _reserved_32: [u8; 32],
    }

    /// The Changed Zone List log page (BFh; ZNS section 4.1.4).
    pub struct ChangedZoneList: 4096 {
        /// NRZID: the number of entries; FFFFh if more zones changed than fit.
        pub count: U16,
        pub(crate) _reserved: [u8; 6],
        /// First LBAs of the zones that changed.
        pub zones: [U64; 511],
    }
}

impl ZoneReceive {
    /// The length asked for, in bytes.
    pub fn length(&self) -> u64 {
        (u64::from(self.ndw.get()) + 1) * 4
    }
}

impl ZoneDescriptor {
    /// The condition that ZS names, if it is one.
    pub fn condition(&self) -> Option<ZoneCondition> {
        Some(match self.state >> 4 {
            0x1 => ZoneCondition::Empty,
            0x2 => ZoneCondition::ImplicitOpen,
            0x3 => ZoneCondition::ExplicitOpen,
            0x4 => ZoneCondition::Closed,
            0xd => ZoneCondition::ReadOnly,
            0xe => ZoneCondition::Full,
            0xf => ZoneCondition::Offline,
            _ => return None,
        })
    }
}

impl Filter {
    /// Whether a report with this filter lists a zone in condition `cond`; `None` if the filter is
    /// none of the specification's. No filter but [`Filter::ALL`] names conventional zones.
    pub fn lists(self, cond: ZoneCondition) -> Option<bool> {
        let wanted = match self {
            Filter::ALL => return Some(true),
            Filter::EMPTY => ZoneCondition::Empty,
            Filter::IMPLICIT_OPEN => ZoneCondition::ImplicitOpen,
            Filter::EXPLICIT_OPEN => ZoneCondition::ExplicitOpen,
            Filter::CLOSED => ZoneCondition::Closed,
            Filter::FULL => ZoneCondition::Full,
            Filter::READ_ONLY => ZoneCondition::ReadOnly,
            Filter::OFFLINE => ZoneCondition::Offline,
            _ => return None,
        };
        Some(cond == wanted)
    }
}
