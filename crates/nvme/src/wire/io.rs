//! Commands of the NVM Command Set, and Zone Append, which has the same fields.
use super::{Sgl, U16, U32, U64, command, wire};

command! {
    /// Read, Write, Compare, Verify, Write Zeroes (NVM sections 3.2.1, 3.2.4 to 3.2.8) and Zone
    /// Append (ZNS section 3.4.1).
    pub struct RwCommand {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// NSID.
        pub nsid: U32,
        /// Dword 2: upper part of a larger reference tag (NVM section 5.2.1.2).
        pub cdw2: U32,
        /// Dword 3: the same.
        pub cdw3: U32,
        /// MPTR.
        pub mptr: U64,
        /// DPTR.
        pub dptr: Sgl,
        /// Dwords 10 and 11: SLBA, or for an append ZSLBA, the zone's first LBA.
        pub slba: U64,
        /// Dword 12 bits 15:0: NLB, the number of logical blocks minus one.
        pub nlb: U16,
        /// Dword 12 bits 31:16: [`control`].
        pub control: U16,
        /// Dword 13: dataset management hints in bits 7:0, DSPEC in bits 31:16.
        pub dsm: U32,
        /// Dword 14: (E)ILBRT, the reference tag of the first block.
        pub reference_tag: U32,
        /// Dword 15 bits 15:0: (E)LBAT, the application tag.
        pub application_tag: U16,
        /// Dword 15 bits 31:16: (E)LBATM, its mask.
        pub application_mask: U16,
    }

    /// Dataset Management (NVM section 3.2.3).
    pub struct DsmCommand {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// NSID.
        pub nsid: U32,
        pub(crate) _reserved: [u8; 16],
        /// DPTR: the ranges.
        pub dptr: Sgl,
        /// Dword 10 bits 7:0: NR, the number of ranges minus one.
        pub nr: u8,
        pub(crate) _reserved_10: [u8; 3],
        /// Dword 11: [`DSM_DEALLOCATE`] and hints.
        pub attributes: U32,
        pub(crate) _reserved_12: [u8; 16],
    }
}

wire! {
    /// A range of Dataset Management (NVM section 3.2.3, Range Definition).
    pub struct DsmRange: 16 {
        /// Context attributes: hints.
        pub context: U32,
        /// Length in logical blocks.
        pub nlb: U32,
        /// Starting LBA.
        pub slba: U64,
    }
}

/// Bits of dword 12 bits 31:16 (NVM section 3.2.4 and others).
pub mod control {
    /// LR: do not try long to recover.
    pub const LIMITED_RETRY: u16 = 1 << 15;
    /// FUA: the data are durable when the command completes.
    pub const FUA: u16 = 1 << 14;
    /// PRINFO.PRACT: the controller inserts and strips protection information (NVM section 5.2).
    pub const PRACT: u16 = 1 << 13;
    /// PRINFO.PRCHK: check the guard.
    pub const CHECK_GUARD: u16 = 1 << 12;
    /// PRINFO.PRCHK: check the application tag.
    pub const CHECK_APPLICATION: u16 = 1 << 11;
    /// PRINFO.PRCHK: check the reference tag.
    pub const CHECK_REFERENCE: u16 = 1 << 10;
    /// DEAC, of Write Zeroes: the blocks may be deallocated.
    pub const DEALLOCATE: u16 = 1 << 9;
    /// PIREMAP, of Zone Append: the controller adds the block's place in its zone to the reference
    /// tag (ZNS section 3.4.1).
    pub const PI_REMAP: u16 = 1 << 9;
}

/// AD, of Dataset Management: the ranges are no longer needed.
pub const DSM_DEALLOCATE: u32 = 1 << 2;

impl RwCommand {
    /// The number of logical blocks.
    pub fn blocks(&self) -> u32 {
        u32::from(self.nlb.get()) + 1
    }

    /// The directive of a write: its type, in dword 12 bits 23:20, and what is specific to it, DSPEC.
    #[inline]
    pub fn directive(&self) -> (u8, u16) {
        let [kind, _] = (self.control.get() >> 4 & 0xf).to_le_bytes();
        let [_, _, low, high] = self.dsm.get().to_le_bytes();
        (kind, u16::from_le_bytes([low, high]))
    }

    /// Whether all bits of `control` are set.
    pub fn has(&self, control: u16) -> bool {
        self.control.get() & control == control
    }
}
