//! SGL descriptors.
use super::{U32, U64, wire};

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
