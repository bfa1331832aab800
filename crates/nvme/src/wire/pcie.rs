//! Structures that PCIe adds: commands that create queues in memory, and properties of memory-mapped
//! controllers.
use super::{Sgl, Sqe, U16, U64, command};
use zerocopy::IntoBytes;

command! {
    /// Create I/O Completion Queue (Base section 5.4).
    pub struct CreateCq {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        pub(crate) _reserved: [u8; 20],
        /// PRP1: the address of the queue.
        pub address: U64,
        pub(crate) _reserved_32: U64,
        /// Dword 10 bits 15:0: QID.
        pub qid: U16,
        /// Dword 10 bits 31:16: QSIZE, entries minus one.
        pub size: U16,
        /// Dword 11 bits 15:0: [`CONTIGUOUS`], [`INTERRUPTS`].
        pub flags_11: U16,
        /// Dword 11 bits 31:16: IV, the interrupt vector.
        pub vector: U16,
        pub(crate) _reserved_12: [u8; 16],
    }

    /// Create I/O Submission Queue (Base section 5.5).
    pub struct CreateSq {
        /// OPC.
        pub opcode: u8,
        /// PSDT and FUSE.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        pub(crate) _reserved: [u8; 20],
        /// PRP1: the address of the queue.
        pub address: U64,
        pub(crate) _reserved_32: U64,
        /// Dword 10 bits 15:0: QID.
        pub qid: U16,
        /// Dword 10 bits 31:16: QSIZE, entries minus one.
        pub size: U16,
        /// Dword 11 bits 15:0: [`CONTIGUOUS`]; the priority in bits 2:1.
        pub flags_11: U16,
        /// Dword 11 bits 31:16: CQID.
        pub cqid: U16,
        pub(crate) _reserved_12: [u8; 16],
    }
}

/// PC of the commands that create queues: the queue is contiguous.
pub const CONTIGUOUS: u16 = 1;
/// IEN of [`CreateCq`]: interrupts are enabled.
pub const INTERRUPTS: u16 = 1 << 1;

/// Offsets of properties that only memory-mapped controllers have (Base section 3.1.3), beside those
/// of [`Property`](super::fabrics::Property).
pub mod register {
    /// Interrupt Mask Set.
    pub const INTMS: u32 = 0x0c;
    /// Interrupt Mask Clear.
    pub const INTMC: u32 = 0x10;
    /// Admin Queue Attributes: ASQS in bits 11:0, ACQS in bits 27:16, entries minus one.
    pub const AQA: u32 = 0x24;
    /// Admin Submission Queue Base Address, eight bytes.
    pub const ASQ: u32 = 0x28;
    /// Its upper half.
    pub const ASQ_HIGH: u32 = ASQ + 4;
    /// Admin Completion Queue Base Address, eight bytes.
    pub const ACQ: u32 = 0x30;
    /// Its upper half.
    pub const ACQ_HIGH: u32 = ACQ + 4;
    /// The first doorbell; each has four bytes, first that of a queue's tail, then that of its head.
    pub const DOORBELLS: u32 = 0x1000;
}

/// PRP1 and PRP2 of a command whose data pointer has them (Base section 4.1.1).
pub fn prps(sqe: &Sqe) -> [u64; 2] {
    let bytes = sqe.dptr.as_bytes();
    let at = |from: usize| {
        u64::from_le_bytes(bytes[from..from + 8].try_into().expect("a pointer has eight bytes"))
    };
    [at(0), at(8)]
}

/// The data pointer with these PRPs.
pub fn prp_pointer(prps: [u64; 2]) -> Sgl {
    zerocopy::transmute!(prps.map(U64::new))
}

/// Types of SGL descriptors in memory, byte 15 (Base section 4.1.2).
pub mod sgl {
    /// Data Block at an address.
    pub const DATA_BLOCK: u8 = 0x00;
    /// Segment: more descriptors.
    pub const SEGMENT: u8 = 0x20;
    /// Last Segment: descriptors, of which none points to a segment.
    pub const LAST_SEGMENT: u8 = 0x30;
}
