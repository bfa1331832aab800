//! Messages of vfio-user, to the byte.
//!
//! From the protocol's specification, version 0.1, in the documentation of QEMU. Numbers are those of
//! the host; little endian here, as on all machines that Zonal runs on.
use super::super::guest::message;
use zerocopy::little_endian::{U16, U32, U64};

/// Commands.
pub mod command {
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const GET_INFO: u16 = 4;
    pub const GET_REGION_INFO: u16 = 5;
    pub const GET_REGION_IO_FDS: u16 = 6;
    pub const GET_IRQ_INFO: u16 = 7;
    pub const SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const RESET: u16 = 13;
    pub const DIRTY_PAGES: u16 = 14;
    pub const REGION_WRITE_MULTI: u16 = 15;
    pub const FEATURE: u16 = 16;
    pub const MIGRATION_READ: u16 = 17;
    pub const MIGRATION_WRITE: u16 = 18;
}

/// The type of a message, in the lower bits of its flags.
pub const TYPE: u32 = 0xf;
pub const TYPE_COMMAND: u32 = 0;
pub const TYPE_REPLY: u32 = 1;
pub const NO_REPLY: u32 = 1 << 4;
pub const ERROR: u32 = 1 << 5;

/// Flags of memory.
pub const DMA_READABLE: u32 = 1;
pub const DMA_WRITABLE: u32 = 1 << 1;
/// Unmap everything.
pub const DMA_UNMAP_ALL: u32 = 1 << 1;

/// The device can be reset, and is a PCI device.
pub const DEVICE_FLAGS: u32 = 0b11;
/// Regions and interrupts have the numbers of VFIO.
pub const REGIONS: u32 = 9;
pub const REGION_BAR0: u32 = 0;
pub const REGION_CONFIG: u32 = 7;
pub const IRQS: u32 = 5;
pub const IRQ_MSIX: u32 = 2;
pub const IRQ_ERROR: u32 = 3;
pub const IRQ_REQUEST: u32 = 4;
/// A region can be read and written.
pub const REGION_READ_WRITE: u32 = 0b11;
/// An interrupt is signalled by eventfd.
pub const IRQ_EVENTFD: u32 = 1;

/// Flags of Set IRQs.
pub mod set_irqs {
    pub const DATA: u32 = 0b111;
    pub const DATA_NONE: u32 = 1;
    pub const DATA_BOOL: u32 = 1 << 1;
    pub const DATA_EVENTFD: u32 = 1 << 2;
    pub const ACTION: u32 = 0b111 << 3;
    pub const ACTION_TRIGGER: u32 = 1 << 5;
}

message! {
    /// Before every message.
    pub struct Header: 16 {
        id: U16,
        command: U16,
        size: U32,
        flags: U32,
        error: U32,
    }

    /// Before the capabilities, which are JSON.
    pub struct Version: 4 {
        major: U16,
        minor: U16,
    }

    pub struct DmaMap: 32 {
        argsz: U32,
        flags: U32,
        offset: U64,
        address: U64,
        size: U64,
    }

    pub struct DmaUnmap: 24 {
        argsz: U32,
        flags: U32,
        address: U64,
        size: U64,
    }

    pub struct DeviceInfo: 16 {
        argsz: U32,
        flags: U32,
        regions: U32,
        irqs: U32,
    }

    pub struct RegionInfo: 32 {
        argsz: U32,
        flags: U32,
        index: U32,
        cap_offset: U32,
        size: U64,
        offset: U64,
    }

    pub struct IrqInfo: 16 {
        argsz: U32,
        flags: U32,
        index: U32,
        count: U32,
    }

    pub struct SetIrqs: 20 {
        argsz: U32,
        flags: U32,
        index: U32,
        start: U32,
        count: U32,
    }

    /// Before the data of a region read or write.
    pub struct RegionAccess: 16 {
        offset: U64,
        region: U32,
        count: U32,
    }

    /// One of several writes.
    pub struct MultiWrite: 24 {
        access: RegionAccess,
        data: [u8; 8],
    }
}
