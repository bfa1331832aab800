//! Completion queue entries.
use super::{U16, U32, wire};
use crate::status::NvmeStatus;

wire! {
    /// A completion queue entry (Base section 3.3.3.2).
    pub struct Cqe: 16 {
        /// Dword 0: the command's result.
        pub dw0: U32,
        /// Dword 1: the command's result, continued.
        pub dw1: U32,
        /// Dword 2 bits 15:0: SQHD, the submission queue head.
        pub sqhd: U16,
        /// Dword 2 bits 31:16: SQID; reserved in fabrics (Base section 3.3.3.2).
        pub sqid: U16,
        /// Dword 3 bits 15:0: CID of the command.
        pub cid: U16,
        /// Dword 3 bits 31:16: the status in bits 15:1, the phase tag in bit 0 (0 in fabrics).
        pub status: U16,
    }
}

impl Cqe {
    /// The completion of command `cid`, without a result.
    pub fn new(cid: u16, status: NvmeStatus) -> Self {
        Cqe { cid: cid.into(), status: (status.0 << 1).into(), ..Cqe::zeroed() }
    }

    /// The same with a result in dwords 0 and 1.
    pub fn with_result(mut self, result: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = result.to_le_bytes();
        self.dw0 = U32::from_bytes([a, b, c, d]);
        self.dw1 = U32::from_bytes([e, f, g, h]);
        self
    }

    /// The status of the command.
    pub fn status(&self) -> NvmeStatus {
        NvmeStatus(self.status.get() >> 1)
    }

    /// The result in dwords 0 and 1: the LBA of a zone append (ZNS section 3.4.1), or a property.
    pub fn result(&self) -> u64 {
        u64::from(self.dw1.get()) << 32 | u64::from(self.dw0.get())
    }
}
