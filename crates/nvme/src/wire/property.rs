//! Controller properties (Base section 3.1.3) as fabrics reads and writes them.
use super::values;

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
/// Controller Status: shutdown complete.
pub const CSTS_SHUTDOWN_COMPLETE: u32 = 0b10 << 2;

/// Controller Capabilities (Base section 3.1.3.1).
///
/// MQES in bits 15:0, CQR bit 16, TO in bits 31:24 in units of 500 ms, CSS in bits 44:37: bit 37
/// for the NVM Command Set, bit 43 for I/O command sets that are chosen with CC.CSS 6.
pub const fn capabilities(max_queue_entries: u16, timeout_500ms: u8) -> u64 {
    (max_queue_entries - 1) as u64 | 1 << 16 | (timeout_500ms as u64) << 24 | 1 << 37 | 1 << 43
}
