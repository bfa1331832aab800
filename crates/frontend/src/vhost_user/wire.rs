//! vhost-user and virtio, to the byte.
//!
//! Messages from the protocol's description in the documentation of QEMU, which has numbers in the byte
//! order of the host; rings and requests from VIRTIO 1.3, sections 2.7 and 5.2. Little endian, as are all
//! machines that Zonal runs on.
use super::super::guest::message;
use zerocopy::little_endian::{U16, U32, U64};

/// Requests.
pub mod request {
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const RESET_OWNER: u32 = 4;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const GET_QUEUE_NUM: u32 = 17;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const GET_CONFIG: u32 = 24;
    pub const SET_CONFIG: u32 = 25;
    pub const GET_INFLIGHT_FD: u32 = 31;
    pub const SET_INFLIGHT_FD: u32 = 32;
    pub const RESET_DEVICE: u32 = 34;
    pub const GET_MAX_MEM_SLOTS: u32 = 36;
    pub const ADD_MEM_REG: u32 = 37;
    pub const REM_MEM_REG: u32 = 38;
}

/// The version of a message, in the lower bits of its flags.
pub const VERSION: u32 = 0b11;
pub const VERSION_1: u32 = 1;
pub const REPLY: u32 = 1 << 2;
pub const NEED_REPLY: u32 = 1 << 3;

/// Of a descriptor for a ring: there is none.
pub const NO_FD: u64 = 1 << 8;
/// Of a descriptor for a ring: its number.
pub const RING_NUMBER: u64 = 0xff;

/// Features of the protocol, by bit.
pub mod protocol {
    pub const MQ: u64 = 1 << 0;
    pub const REPLY_ACK: u64 = 1 << 3;
    pub const CONFIG: u64 = 1 << 9;
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub const RESET_DEVICE: u64 = 1 << 13;
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
}

/// Features of the device, by bit.
pub mod feature {
    pub const SIZE_MAX: u64 = 1 << 1;
    pub const SEG_MAX: u64 = 1 << 2;
    pub const BLK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const MQ: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
    pub const ZONED: u64 = 1 << 17;
    pub const INDIRECT_DESC: u64 = 1 << 28;
    pub const EVENT_IDX: u64 = 1 << 29;
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    pub const VERSION_1: u64 = 1 << 32;
}

/// Flags of a descriptor.
pub mod desc {
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 1 << 1;
    pub const INDIRECT: u16 = 1 << 2;
}

/// Of an available ring: the driver wants no interrupts.
pub const NO_INTERRUPT: u16 = 1;
/// Of a used ring: the device wants no kicks.
pub const NO_NOTIFY: u16 = 1;

/// Types of requests.
pub mod kind {
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
    pub const ZONE_APPEND: u32 = 15;
    pub const ZONE_REPORT: u32 = 16;
    pub const ZONE_OPEN: u32 = 18;
    pub const ZONE_CLOSE: u32 = 20;
    pub const ZONE_FINISH: u32 = 22;
    pub const ZONE_RESET: u32 = 24;
    pub const ZONE_RESET_ALL: u32 = 26;
}

/// How a request ended (`VIRTIO_BLK_S_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlkStatus {
    Ok = 0,
    IoErr = 1,
    Unsupported = 2,
    ZoneInvalidCmd = 3,
    ZoneUnalignedWp = 4,
    ZoneOpenResource = 5,
    ZoneActiveResource = 6,
}

/// Of Write Zeroes: the range may be deallocated.
pub const UNMAP: u32 = 1;
/// Bytes of a device ID.
pub const ID_LEN: usize = 20;
/// The model of a device with zones.
pub const HOST_MANAGED: u8 = 1;

message! {
    /// Before every message.
    pub struct Header: 12 {
        request: U32,
        flags: U32,
        size: U32,
    }

    /// Before the regions of a memory table.
    pub struct MemTable: 8 {
        regions: U32,
        padding: U32,
    }

    /// Memory of the guest: its address there, and that in the client's address space.
    pub struct MemRegion: 32 {
        guest: U64,
        size: U64,
        user: U64,
        offset: U64,
    }

    /// A region by itself.
    pub struct OneRegion: 40 {
        padding: U64,
        region: MemRegion,
    }

    pub struct VringState: 8 {
        index: U32,
        number: U32,
    }

    /// Where a ring is, by addresses of the client.
    pub struct VringAddr: 40 {
        index: U32,
        flags: U32,
        desc: U64,
        used: U64,
        avail: U64,
        log: U64,
    }

    /// Before the bytes of configuration space.
    pub struct ConfigRange: 12 {
        offset: U32,
        size: U32,
        flags: U32,
    }

    /// Memory for requests in flight. Some clients have padding after it.
    pub struct InflightArea: 20 {
        size: U64,
        offset: U64,
        queues: U16,
        queue_size: U16,
    }

    /// Before the requests in flight of one ring.
    pub struct InflightHeader: 16 {
        features: U64,
        version: U16,
        entries: U16,
        last_batch_head: U16,
        used_idx: U16,
    }

    /// The state of a descriptor that requests can begin with.
    pub struct InflightEntry: 16 {
        in_flight: u8,
        padding: [u8; 5],
        next: U16,
        counter: U64,
    }

    /// A descriptor of a ring.
    pub struct Descriptor: 16 {
        address: U64,
        len: U32,
        flags: U16,
        next: U16,
    }

    /// The element that the driver gets back.
    pub struct UsedElement: 8 {
        id: U32,
        len: U32,
    }

    /// Before the data of a request.
    pub struct RequestHeader: 16 {
        kind: U32,
        reserved: U32,
        sector: U64,
    }

    /// A range to discard, or to fill with zeroes.
    pub struct Range: 16 {
        sector: U64,
        sectors: U32,
        flags: U32,
    }

    /// Before the zones of a report.
    pub struct ZoneReport: 64 {
        zones: U64,
        reserved: [[u8; 8]; 7],
    }

    /// A zone of a report.
    pub struct ZoneDescriptor: 64 {
        capacity: U64,
        start: U64,
        wp: U64,
        kind: u8,
        state: u8,
        reserved: [u8; 6],
        more: [[u8; 8]; 4],
    }

    /// Configuration space.
    pub struct BlkConfig: 96 {
        capacity: U64,
        size_max: U32,
        seg_max: U32,
        geometry: [u8; 4],
        blk_size: U32,
        topology: [u8; 8],
        writeback: u8,
        unused: u8,
        queues: U16,
        max_discard_sectors: U32,
        max_discard_seg: U32,
        discard_sector_alignment: U32,
        max_write_zeroes_sectors: U32,
        max_write_zeroes_seg: U32,
        write_zeroes_may_unmap: u8,
        unused_too: [u8; 3],
        secure_erase: [U32; 3],
        zone_sectors: U32,
        max_open_zones: U32,
        max_active_zones: U32,
        max_append_sectors: U32,
        write_granularity: U32,
        model: u8,
        unused_three: [u8; 3],
    }
}
