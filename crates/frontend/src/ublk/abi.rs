//! Structures and numbers of the ublk driver (include/uapi/linux/ublk_cmd.h, Linux 6.17).
//!
//! The driver copies structures byte by byte, so all padding is a field.
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A command to `/dev/ublk-control` (`struct ublksrv_ctrl_cmd`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CtrlCmd {
    /// The device; [`ANY_ID`] to let the driver choose a number.
    pub dev_id: u32,
    /// [`NO_QUEUE`] for a command to the device.
    pub queue_id: u16,
    /// Length of the buffer in bytes.
    pub len: u16,
    /// Address of the buffer.
    pub addr: u64,
    /// An argument, such as the server's process.
    pub data: u64,
    /// For devices of unprivileged users.
    pub dev_path_len: u16,
    pub pad: u16,
    pub reserved: u32,
}

/// A device (`struct ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DevInfo {
    pub nr_hw_queues: u16,
    pub queue_depth: u16,
    /// A [`state`].
    pub state: u16,
    pub pad0: u16,
    pub max_io_buf_bytes: u32,
    pub dev_id: u32,
    /// The server's process; -1 for none.
    pub ublksrv_pid: i32,
    pub pad1: u32,
    /// [`feature`]s.
    pub flags: u64,
    pub ublksrv_flags: u64,
    pub owner_uid: u32,
    pub owner_gid: u32,
    pub reserved1: u64,
    pub reserved2: u64,
}

/// A request, as the driver describes it in shared memory (`struct ublksrv_io_desc`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct IoDesc {
    /// An [`op`] in bits 0 to 7, flags above.
    pub op_flags: u32,
    /// Sectors; for a report, zones.
    pub count: u32,
    pub start_sector: u64,
    pub addr: u64,
}

/// A command to `/dev/ublkcN` (`struct ublksrv_io_cmd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IoCmd {
    pub q_id: u16,
    pub tag: u16,
    /// Bytes, or a negative errno.
    pub result: i32,
    /// With [`feature::USER_COPY`], the sector where a zone append was written; to register a buffer,
    /// its index in the ring's table.
    pub addr: u64,
}

/// `struct ublk_param_basic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ParamBasic {
    /// Attributes ([`attr`]).
    pub attrs: u32,
    pub logical_bs_shift: u8,
    pub physical_bs_shift: u8,
    pub io_opt_shift: u8,
    pub io_min_shift: u8,
    pub max_sectors: u32,
    /// The zone size; 0 without zones.
    pub chunk_sectors: u32,
    pub dev_sectors: u64,
    pub virt_boundary_mask: u64,
}

/// `struct ublk_param_discard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ParamDiscard {
    pub discard_alignment: u32,
    pub discard_granularity: u32,
    pub max_discard_sectors: u32,
    pub max_write_zeroes_sectors: u32,
    pub max_discard_segments: u16,
    pub reserved0: u16,
}

/// `struct ublk_param_devt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ParamDevt {
    pub char_major: u32,
    pub char_minor: u32,
    pub disk_major: u32,
    pub disk_minor: u32,
}

/// `struct ublk_param_zoned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ParamZoned {
    pub max_open_zones: u32,
    pub max_active_zones: u32,
    pub max_zone_append_sectors: u32,
    pub reserved: [u8; 20],
}

/// `struct ublk_param_dma_align`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ParamDmaAlign {
    /// A mask: the alignment less 1.
    pub alignment: u32,
    pub pad: u32,
}

/// The parameters of a device's request queue (`struct ublk_params`). Older drivers know a part of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Params {
    /// Length of the whole structure in bytes.
    pub len: u32,
    /// Which of the following are set ([`param`]).
    pub types: u32,
    pub basic: ParamBasic,
    pub discard: ParamDiscard,
    pub devt: ParamDevt,
    pub zoned: ParamZoned,
    pub dma: ParamDmaAlign,
    pub pad: u32,
}

impl Params {
    /// Nothing is set.
    pub fn empty() -> Self {
        let len = u32::try_from(size_of::<Params>()).expect("a small structure");
        Params { len, ..Params::new_zeroed() }
    }
}

/// A command's number, as `_IOR('u', ..)` and `_IOWR('u', ..)` do.
const fn encoded(writes: bool, number: u32, size: usize) -> u32 {
    let direction = if writes { 3 } else { 2 };
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

/// Commands to `/dev/ublk-control`.
pub mod ctrl {
    use super::{CtrlCmd, encoded};

    const fn reads(number: u32) -> u32 {
        encoded(false, number, size_of::<CtrlCmd>())
    }
    const fn writes(number: u32) -> u32 {
        encoded(true, number, size_of::<CtrlCmd>())
    }
    pub const GET_DEV_INFO: u32 = reads(0x02);
    pub const ADD_DEV: u32 = writes(0x04);
    pub const DEL_DEV: u32 = writes(0x05);
    pub const START_DEV: u32 = writes(0x06);
    pub const STOP_DEV: u32 = writes(0x07);
    pub const SET_PARAMS: u32 = writes(0x08);
    pub const GET_PARAMS: u32 = reads(0x09);
    pub const START_USER_RECOVERY: u32 = writes(0x10);
    pub const END_USER_RECOVERY: u32 = writes(0x11);
    pub const GET_FEATURES: u32 = reads(0x13);
    pub const DEL_DEV_ASYNC: u32 = reads(0x14);
    pub const UPDATE_SIZE: u32 = writes(0x15);
}

/// Commands to `/dev/ublkcN`.
pub mod io {
    use super::{IoCmd, encoded};

    pub const FETCH_REQ: u32 = encoded(true, 0x20, size_of::<IoCmd>());
    pub const COMMIT_AND_FETCH_REQ: u32 = encoded(true, 0x21, size_of::<IoCmd>());
    pub const REGISTER_IO_BUF: u32 = encoded(true, 0x23, size_of::<IoCmd>());
    pub const UNREGISTER_IO_BUF: u32 = encoded(true, 0x24, size_of::<IoCmd>());
    /// The result of a fetch whose tag has a request.
    pub const RES_OK: i32 = 0;
    /// The result of a fetch whose tag gets no more requests (`-ENODEV`).
    pub const RES_ABORT: i32 = -19;
}

/// Features of the driver and of a device (`UBLK_F_*`).
pub mod feature {
    pub const SUPPORT_ZERO_COPY: u64 = 1;
    pub const USER_RECOVERY: u64 = 1 << 3;
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    pub const USER_COPY: u64 = 1 << 7;
    pub const ZONED: u64 = 1 << 8;
    pub const UPDATE_SIZE: u64 = 1 << 10;
    pub const BUF_REG_OFF_DAEMON: u64 = 1 << 14;

    /// Requests' pages can be registered with any thread's ring: a write that was parked may be issued
    /// by another queue's thread.
    pub const LENDING: u64 = SUPPORT_ZERO_COPY | BUF_REG_OFF_DAEMON;

    /// Those that are required here: bit, name and the first Linux version with it.
    pub const NAMES: [(u64, &str, &str); 8] = [
        (SUPPORT_ZERO_COPY, "UBLK_F_SUPPORT_ZERO_COPY", "6.15"),
        (USER_RECOVERY, "UBLK_F_USER_RECOVERY", "6.1"),
        (USER_RECOVERY_REISSUE, "UBLK_F_USER_RECOVERY_REISSUE", "6.1"),
        (CMD_IOCTL_ENCODE, "UBLK_F_CMD_IOCTL_ENCODE", "6.4"),
        (USER_COPY, "UBLK_F_USER_COPY", "6.5"),
        (ZONED, "UBLK_F_ZONED", "6.6"),
        (UPDATE_SIZE, "UBLK_F_UPDATE_SIZE", "6.16"),
        (BUF_REG_OFF_DAEMON, "UBLK_F_BUF_REG_OFF_DAEMON", "6.17"),
    ];
}

/// States of a device (`UBLK_S_DEV_*`).
pub mod state {
    /// Not yet started, or stopped; 1 is live.
    pub const DEAD: u16 = 0;
    /// Its server was killed, and it waits for another one.
    pub const QUIESCED: u16 = 2;
}

/// Which parameters are set (`UBLK_PARAM_TYPE_*`).
pub mod param {
    pub const BASIC: u32 = 1;
    pub const DISCARD: u32 = 1 << 1;
    pub const ZONED: u32 = 1 << 3;
    pub const DMA_ALIGN: u32 = 1 << 4;
}

/// Attributes of a device (`UBLK_ATTR_*`).
pub mod attr {
    pub const ROTATIONAL: u32 = 1 << 1;
    pub const VOLATILE_CACHE: u32 = 1 << 2;
    pub const FUA: u32 = 1 << 3;
}

/// Operations (`UBLK_IO_OP_*`).
pub mod op {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const FLUSH: u8 = 2;
    pub const DISCARD: u8 = 3;
    pub const WRITE_ZEROES: u8 = 5;
    pub const ZONE_OPEN: u8 = 10;
    pub const ZONE_CLOSE: u8 = 11;
    pub const ZONE_FINISH: u8 = 12;
    pub const ZONE_APPEND: u8 = 13;
    pub const ZONE_RESET_ALL: u8 = 14;
    pub const ZONE_RESET: u8 = 15;
    pub const REPORT_ZONES: u8 = 18;
}

/// The write is durable when it completes (`UBLK_IO_F_FUA`).
pub const IO_F_FUA: u32 = 1 << 13;
/// The driver chooses a number.
pub const ANY_ID: u32 = u32::MAX;
/// A command to the device, not to a queue.
pub const NO_QUEUE: u16 = u16::MAX;
/// The most tags of a queue.
pub const MAX_QUEUE_DEPTH: u16 = 4096;
/// The most device numbers (`UBLK_MINORS`).
pub const MAX_IDS: u32 = 1 << 20;
/// The most bytes of a request (`UBLK_IO_BUF_BITS`).
pub const MAX_IO_BYTES: u32 = 1 << 25;
/// Where in `/dev/ublkcN` the data of requests are.
const IO_BUF_OFFSET: u64 = 0x8000_0000;

/// Where in `/dev/ublkcN` the data of a request are.
pub fn data_offset(queue: u16, tag: u16) -> u64 {
    IO_BUF_OFFSET + (u64::from(queue) << 41 | u64::from(tag) << 25)
}

/// The length of a queue's descriptors in shared memory: whole pages.
pub fn descriptors_len(depth: u16, page: usize) -> usize {
    (usize::from(depth) * size_of::<IoDesc>()).next_multiple_of(page)
}

/// Where in `/dev/ublkcN` a queue's descriptors are.
pub fn descriptors_offset(queue: u16, page: usize) -> u64 {
    u64::from(queue) * descriptors_len(MAX_QUEUE_DEPTH, page) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<CtrlCmd>(), 32);
        assert_eq!(size_of::<DevInfo>(), 64);
        assert_eq!(size_of::<IoDesc>(), 24);
        assert_eq!(size_of::<IoCmd>(), 16);
        assert_eq!(size_of::<ParamBasic>(), 32);
        assert_eq!(size_of::<ParamDiscard>(), 20);
        assert_eq!(size_of::<ParamDevt>(), 16);
        assert_eq!(size_of::<ParamZoned>(), 32);
        assert_eq!(size_of::<Params>(), 120);
    }

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        assert_eq!(offset_of!(CtrlCmd, addr), 8);
        assert_eq!(offset_of!(CtrlCmd, data), 16);
        assert_eq!(offset_of!(CtrlCmd, dev_path_len), 24);
        assert_eq!(offset_of!(DevInfo, state), 4);
        assert_eq!(offset_of!(DevInfo, max_io_buf_bytes), 8);
        assert_eq!(offset_of!(DevInfo, dev_id), 12);
        assert_eq!(offset_of!(DevInfo, ublksrv_pid), 16);
        assert_eq!(offset_of!(DevInfo, flags), 24);
        assert_eq!(offset_of!(DevInfo, owner_uid), 40);
        assert_eq!(offset_of!(IoDesc, start_sector), 8);
        assert_eq!(offset_of!(IoCmd, result), 4);
        assert_eq!(offset_of!(IoCmd, addr), 8);
        assert_eq!(offset_of!(ParamBasic, max_sectors), 8);
        assert_eq!(offset_of!(ParamBasic, dev_sectors), 16);
        assert_eq!(offset_of!(ParamDiscard, max_discard_segments), 16);
        assert_eq!(offset_of!(Params, basic), 8);
        assert_eq!(offset_of!(Params, discard), 40);
        assert_eq!(offset_of!(Params, devt), 60);
        assert_eq!(offset_of!(Params, zoned), 76);
        assert_eq!(offset_of!(Params, dma), 108);
    }

    #[test]
    fn commands_have_the_kernels_numbers() {
        assert_eq!(ctrl::GET_FEATURES, 0x8020_7513);
        assert_eq!(ctrl::GET_DEV_INFO, 0x8020_7502);
        assert_eq!(ctrl::ADD_DEV, 0xc020_7504);
        assert_eq!(io::FETCH_REQ, 0xc010_7520);
        assert_eq!(io::COMMIT_AND_FETCH_REQ, 0xc010_7521);
        assert_eq!(io::REGISTER_IO_BUF, 0xc010_7523);
        assert_eq!(io::UNREGISTER_IO_BUF, 0xc010_7524);
    }

    #[test]
    fn shared_memory_and_data_are_where_the_kernel_has_them() {
        assert_eq!(descriptors_len(1, 4096), 4096);
        assert_eq!(descriptors_len(171, 4096), 8192);
        assert_eq!(descriptors_offset(2, 4096), 2 * 98304);
        assert_eq!(data_offset(0, 0), 0x8000_0000);
        assert_eq!(data_offset(1, 2), 0x8000_0000 + (1 << 41) + (2 << 25));
    }
}
