//! Entries of submission and completion queues, as all commands have them.
use super::{U16, U32, U64, wire};
use crate::status::NvmeStatus;

wire! {
    /// A submission queue entry (Base section 3.3.3.1, Common Command Format).
    pub struct Sqe: 64 {
        /// Dword 0 bits 7:0: OPC, the opcode.
        pub opcode: u8,
        /// Dword 0 bits 15:8: PSDT in bits 7:6, FUSE in bits 1:0.
        pub flags: u8,
        /// Dword 0 bits 31:16: CID, the command identifier.
        pub cid: U16,
        /// Dword 1: NSID, the namespace identifier.
        pub nsid: U32,
        /// Dword 2.
        pub cdw2: U32,
        /// Dword 3.
        pub cdw3: U32,
        /// Dwords 4 and 5: MPTR, the metadata pointer.
        pub mptr: U64,
        /// Dwords 6 to 9: DPTR, the data pointer: an SGL descriptor (Base section 4.1.2), or PRPs
        /// ([`prps`](super::pcie::prps)).
        pub dptr: Sgl,
        /// Dword 10.
        pub cdw10: U32,
        /// Dword 11.
        pub cdw11: U32,
        /// Dword 12.
        pub cdw12: U32,
        /// Dword 13.
        pub cdw13: U32,
        /// Dword 14.
        pub cdw14: U32,
        /// Dword 15.
        pub cdw15: U32,
    }
}

/// PSDT: the data pointer is an SGL, the metadata pointer an address (Base section 3.3.3.1).
pub const PSDT_SGL: u8 = 0b01 << 6;

/// All namespaces (Base section 3.2.1.2).
pub const NSID_ALL: u32 = u32::MAX;

/// The direction of a command's data (Base section 3.3.3.1, bits 1:0 of the opcode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The command has no data.
    None,
    /// From host to controller.
    ToController,
    /// From controller to host.
    ToHost,
    /// Both. No command of the three command sets has it.
    Both,
}

impl Sqe {
    /// A command without data.
    pub fn new(opcode: u8, cid: u16, nsid: u32) -> Self {
        let (cid, nsid) = (cid.into(), nsid.into());
        Sqe { opcode, flags: PSDT_SGL, cid, nsid, ..Sqe::zeroed() }
    }

    /// The direction of the command's data, for Fabrics commands from their type.
    pub fn transfer(&self) -> Transfer {
        let code = if self.opcode == super::opcode::FABRICS {
            // FCTYPE is byte 4, which is the namespace of other commands.
            self.nsid.get()
        } else {
            self.opcode.into()
        };
        match code & 0b11 {
            0b00 => Transfer::None,
            0b01 => Transfer::ToController,
            0b10 => Transfer::ToHost,
            _ => Transfer::Both,
        }
    }

    /// The 64-bit number in dwords 10 and 11: the first LBA of most I/O commands.
    pub fn slba(&self) -> u64 {
        u64::from(self.cdw11.get()) << 32 | u64::from(self.cdw10.get())
    }
}

wire! {
    /// An SGL descriptor (Base section 4.1.2).
    pub struct Sgl: 16 {
        /// Bytes 7:0: an address, or an offset into the capsule.
        pub address: U64,
        /// Bytes 11:8: length in bytes.
        pub length: U32,
        pub(crate) _reserved: [u8; 3],
        /// Byte 15: type in bits 7:4, sub type in bits 3:0.
        pub kind: u8,
    }
}

impl Sgl {
    /// Data block, offset: the data follow in the capsule (Base section 4.1.2, type 0h sub type 1h).
    pub const IN_CAPSULE: u8 = 0x01;
    /// Transport data block, transport specific sub type: the data have PDUs of their own
    /// (TCP section 3.4: type 5h, sub type Ah).
    pub const TRANSPORT: u8 = 0x5a;

    /// Data that follow the command in its capsule.
    pub fn in_capsule(length: u32) -> Self {
        Sgl { length: length.into(), kind: Sgl::IN_CAPSULE, ..Sgl::zeroed() }
    }

    /// Data that the transport transfers.
    pub fn transport(length: u32) -> Self {
        Sgl { length: length.into(), kind: Sgl::TRANSPORT, ..Sgl::zeroed() }
    }
}

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
