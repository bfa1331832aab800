//! Fabrics commands, and the controller properties (Base section 3.1.3) that they read and write.
use super::{Sgl, U16, U32, U64, command, values, wire};

command! {
    /// Connect (Base section 6.3).
    pub struct ConnectCommand {
        /// OPC: 7Fh.
        pub opcode: u8,
        /// PSDT.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// FCTYPE: 01h.
        pub fctype: u8,
        pub(crate) _reserved_5: [u8; 19],
        /// SGL1.
        pub dptr: Sgl,
        /// RECFMT: 0.
        pub record_format: U16,
        /// QID: 0 for the admin queue.
        pub qid: U16,
        /// SQSIZE: the number of entries minus one.
        pub sqsize: U16,
        /// CATTR: [`DISABLE_SQ_FLOW`].
        pub attributes: u8,
        pub(crate) _reserved_47: u8,
        /// KATO in milliseconds; 0 for no keep alive.
        pub kato: U32,
        pub(crate) _reserved_52: [u8; 12],
    }

    /// Property Get and Property Set (Base sections 6.5 and 6.6).
    pub struct PropertyCommand {
        /// OPC: 7Fh.
        pub opcode: u8,
        pub(crate) _reserved_1: u8,
        /// CID.
        pub cid: U16,
        /// FCTYPE: 04h to get, 00h to set.
        pub fctype: u8,
        pub(crate) _reserved_5: [u8; 35],
        /// ATTRIB bits 2:0: 0 for four bytes, 1 for eight.
        pub attributes: u8,
        pub(crate) _reserved_41: [u8; 3],
        /// OFST.
        pub offset: U32,
        /// VALUE, to set.
        pub value: U64,
        pub(crate) _reserved_56: [u8; 8],
    }
}

wire! {
    /// The data of Connect (Base section 6.3).
    pub struct ConnectData: 1024 {
        /// HOSTID.
        pub host_id: [u8; 16],
        /// CNTLID; FFFFh for any controller.
        pub cntlid: U16,
        pub(crate) _reserved_18: [u8; 238],
        /// SUBNQN.
        pub subnqn: [u8; 256],
        /// HOSTNQN.
        pub hostnqn: [u8; 256],
        pub(crate) _reserved_768: [u8; 256],
    }
}

/// CNTLID of a Connect that leaves the choice to the subsystem (Base section 6.3, dynamic
/// controller model).
pub const CNTLID_ANY: u16 = 0xffff;

/// CATTR of Connect: no flow control of the submission queue, so that completions need no SQHD (Base
/// section 6.3).
pub const DISABLE_SQ_FLOW: u8 = 1 << 2;
/// SQHD of a Connect's completion: the controller does without that flow control.
pub const SQ_FLOW_DISABLED: u16 = 0xffff;

/// AUTHREQ of a Connect's result: the host is to authenticate with a secure channel (ASCR), which
/// there is none of here.
pub const AUTH_SECURE_CHANNEL: u64 = 1 << 18;
/// AUTHREQ of a Connect's result: the host is to authenticate (Base section 6.3, ATR).
pub const AUTH_TRANSACTION: u64 = 1 << 17;

/// The name of every discovery subsystem (Base section 4.5).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

values! {
    /// Offsets of properties (Base section 3.1.3).
    pub struct Property(u32) {
        /// Controller Capabilities, eight bytes.
        CAP = 0x00,
        /// Version.
        VS = 0x08,
        /// Controller Configuration.
        CC = 0x14,
        /// Controller Status.
        CSTS = 0x1c,
        /// NVM Subsystem Reset.
        NSSR = 0x20,
    }
}

impl Property {
    /// The property's length in bytes; `None` for an offset that has none.
    pub fn size(self) -> Option<usize> {
        match self {
            Property::CAP => Some(8),
            Property::VS | Property::CC | Property::CSTS | Property::NSSR => Some(4),
            _ => None,
        }
    }
}

/// Controller Configuration (Base section 3.1.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cc(pub u32);

impl Cc {
    /// EN: the controller is to be enabled.
    pub fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// CSS: the I/O command sets to use; 6 for all that the controller has.
    pub fn css(self) -> u32 {
        self.0 >> 4 & 0b111
    }

    /// SHN: whether the controller is to shut down.
    pub fn shutdown(self) -> bool {
        self.0 >> 14 & 0b11 != 0
    }
}

/// Controller Status (Base section 3.1.3.6): ready.
pub const CSTS_READY: u32 = 1 << 0;
/// Controller Status: fatal.
pub const CSTS_FATAL: u32 = 1 << 1;
/// Controller Status: shutdown processing occurring.
pub const CSTS_SHUTDOWN_OCCURRING: u32 = 0b01 << 2;
/// Controller Status: shutdown complete.
pub const CSTS_SHUTDOWN_COMPLETE: u32 = 0b10 << 2;

/// Controller Capabilities (Base section 3.1.3.1).
///
/// MQES in bits 15:0, CQR bit 16, TO in bits 31:24 in units of 500 ms, CSS in bits 44:37: bit 37
/// for the NVM Command Set, bit 43 for I/O command sets that are chosen with CC.CSS 6.
pub const fn capabilities(max_queue_entries: u16, timeout_500ms: u8) -> u64 {
    (max_queue_entries - 1) as u64 | 1 << 16 | (timeout_500ms as u64) << 24 | 1 << 37 | 1 << 43
}
