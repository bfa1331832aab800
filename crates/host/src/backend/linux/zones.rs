//! Zone reports and zone management of a block device, by ioctl (include/uapi/linux/blkzoned.h,
//! Linux 6.12).
//!
//! Takes a device and zones; gives the kernel's answers. Each call waits for the device.
use crate::blk_zone::BlkZone;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zonal_blk::{Op, Sector};

/// `struct blk_zone_report`, without the zones behind it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ReportHeader {
    sector: u64,
    nr_zones: u32,
    flags: u32,
}

/// `struct blk_zone_range`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Range {
    sector: u64,
    nr_sectors: u64,
}

/// `_IOWR(0x12, 130, struct blk_zone_report)`.
const REPORT_ZONE: libc::Ioctl = 0xc010_1282_u32 as libc::Ioctl;
/// `_IOW(0x12, 131, struct blk_zone_range)` and those after it.
const RESET_ZONE: libc::Ioctl = 0x4010_1283;
const OPEN_ZONE: libc::Ioctl = 0x4010_1286;
const CLOSE_ZONE: libc::Ioctl = 0x4010_1287;
const FINISH_ZONE: libc::Ioctl = 0x4010_1288;

/// The zones from `first` on, up to `most`; none behind the last.
///
/// # Errors
/// The kernel's.
pub fn report(file: &File, first: Sector, most: u32) -> io::Result<Vec<BlkZone>> {
    let header = size_of::<ReportHeader>();
    let mut buffer = vec![0u64; (header + most as usize * size_of::<BlkZone>()) / 8];
    let bytes = buffer.as_mut_bytes();
    let asked = ReportHeader { sector: first.0, nr_zones: most, flags: 0 };
    bytes[..header].copy_from_slice(asked.as_bytes());
    // SAFETY: the kernel writes a header and no more than `most` zones, for which there is room.
    let result =
        unsafe { libc::ioctl(file.as_raw_fd(), REPORT_ZONE, bytes.as_mut_ptr().cast::<c_void>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let (header, zones) = ReportHeader::read_from_prefix(&*bytes).expect("a header is first");
    let listed = header.nr_zones.min(most) as usize;
    let zone = |bytes| BlkZone::read_from_bytes(bytes).expect("as long as a zone");
    Ok(zones.chunks_exact(size_of::<BlkZone>()).take(listed).map(zone).collect())
}

/// Manages the zones of a range.
///
/// # Errors
/// The kernel's.
///
/// # Panics
/// If the operation does not manage zones.
pub fn manage(file: &File, op: Op, start: Sector, len: Sector) -> io::Result<()> {
    let request = match op {
        Op::ZoneReset | Op::ZoneResetAll => RESET_ZONE,
        Op::ZoneOpen => OPEN_ZONE,
        Op::ZoneClose => CLOSE_ZONE,
        Op::ZoneFinish => FINISH_ZONE,
        _ => unreachable!("{op:?} does not manage zones"),
    };
    let range = Range { sector: start.0, nr_sectors: len.0 };
    // SAFETY: the kernel reads a range, which is there.
    let result = unsafe {
        libc::ioctl(file.as_raw_fd(), request, std::ptr::from_ref(&range).cast::<c_void>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
