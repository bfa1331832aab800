//! Submission queue entries, as all commands have them.
use super::{Sgl, U16, U32, U64, wire};

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
        /// Dwords 6 to 9: DPTR, the data pointer; always an SGL here (Base section 4.1.2).
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
