//! Commands of a block device: reads, writes and flushes by io_uring, zone reports and management
//! by ioctl (include/uapi/linux/blkzoned.h, Linux 6.19).
//!
//! The ioctls block until the device is done. io_uring has no zone management.
use super::failure::Failure;
use super::queue::{Commands, data_len};
use io_uring::{cqueue, opcode, squeue, types};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zonal_blk::{BioFlags, Limits, Op, Request, Sector, Status, Zone, ZoneCondition, ZoneKind};
use zonal_os::blk_zone::BlkZone;
use zonal_os::poll::fixed_buffers::FixedBuffers;

/// Flags of a write, which with FUA is durable when it completes.
fn durability(request: &Request) -> i32 {
    if request.flags().contains(BioFlags::FUA) { libc::RWF_DSYNC } else { 0 }
}

pub(super) struct BlockCommands {
    pub file: Arc<File>,
    pub limits: Limits,
}

impl BlockCommands {
    fn fd(&self) -> types::Fd {
        types::Fd(self.file.as_raw_fd())
    }

    fn manage(&self, request: &Request) -> Status {
        let (start, len) = match request.op() {
            Op::ZoneResetAll => (Sector(0), self.limits.capacity),
            _ => (request.sector(), self.limits.zone_size),
        };
        let managed = manage_zones(&self.file, request.op(), start, len);
        managed.map_or_else(Status::from, |()| Status::Ok)
    }

    /// Whether a write failed with an I/O error because of its zone. The kernel has no error of its
    /// own for that, so the zone is asked.
    fn is_zone_error(&self, request: &Request, status: Status) -> bool {
        if status != Status::IoError || request.op() != Op::Write || self.limits.nr_zones == 0 {
            return false;
        }
        let start = self.limits.zone_start(request.zone());
        let report = report_zones(&self.file, start, 1).unwrap_or_default();
        let zone = report.first().and_then(BlkZone::zone);
        zone.is_some_and(|zone| forbids(&zone, &(request.sector()..=request.end())))
    }
}

/// Whether a zone, as a failed write of `range` left it, does not allow that write. A medium that
/// fails leaves the write pointer at the start of the write or after what was written.
fn forbids(zone: &Zone, range: &RangeInclusive<Sector>) -> bool {
    let is_gone = matches!(zone.cond, ZoneCondition::ReadOnly | ZoneCondition::Offline);
    zone.kind == ZoneKind::SequentialRequired && (is_gone || !range.contains(&zone.wp))
}

// SAFETY: the file is held open, and reads and writes are of the `data_len` bytes at `data`.
unsafe impl Commands for BlockCommands {
    type Entry = squeue::Entry;
    type Cqe = cqueue::Entry;

    fn flush(&self) -> squeue::Entry {
        opcode::Fsync::new(self.fd()).build()
    }

    fn start(&self, request: &Request, data: *mut u8) -> Result<squeue::Entry, Status> {
        let (len, offset) = (data_len(request), request.sector().to_bytes().0);
        Ok(match request.op() {
            Op::Read => opcode::Read::new(self.fd(), data, len).offset(offset).build(),
            Op::Write => {
                let flags = durability(request);
                opcode::Write::new(self.fd(), data, len).offset(offset).rw_flags(flags).build()
            }
            Op::Flush => self.flush(),
            // There is no system call for them.
            Op::ZoneOpenZrwa | Op::ZrwaFlush => return Err(Status::NotSupported),
            op if op.is_zone_management() || op == Op::ZoneResetAll => {
                return Err(self.manage(request));
            }
            _ => return Err(Status::NotSupported),
        })
    }

    /// The address of data in a fixed buffer is their offset in it.
    fn start_external(&self, request: &Request, index: u16) -> Option<[squeue::Entry; 3]> {
        let external = request.external_buf()?;
        let [register, unregister] = FixedBuffers::register_entries(external, index)?;
        let at = std::ptr::without_provenance_mut(external.offset());
        let (len, offset) = (data_len(request), request.sector().to_bytes().0);
        let transfer = match request.op() {
            Op::Read => opcode::ReadFixed::new(self.fd(), at, len, index).offset(offset).build(),
            Op::Write => opcode::WriteFixed::new(self.fd(), at, len, index)
                .offset(offset)
                .rw_flags(durability(request))
                .build(),
            _ => return None,
        };
        Some([register, transfer.flags(squeue::Flags::IO_HARDLINK), unregister])
    }

    fn result(&self, request: &Request, completion: &cqueue::Entry) -> Result<u64, Failure> {
        let result = completion.result();
        u64::try_from(result).map_err(|_| {
            let status = Status::from_errno(result.wrapping_neg());
            Failure { status, zone_error: self.is_zone_error(request, status) }
        })
    }

    /// The result is the number of bytes transferred.
    fn finish(&self, request: &mut Request, result: u64) -> Status {
        let complete = result == u64::from(data_len(request));
        if complete { Status::Ok } else { Status::IoError }
    }
}

/// `struct blk_zone_report`, without the zones after it.
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
/// `_IOWR(0x12, 142, struct blk_zone_report)`, since Linux 6.19.
const REPORT_ZONE_V2: libc::Ioctl = 0xc010_128e_u32 as libc::Ioctl;
/// `BLK_ZONE_REP_CACHED`.
const REPORT_CACHED: u32 = 1 << 31;
/// `_IOW(0x12, 131, struct blk_zone_range)` and those after it.
const RESET_ZONE: libc::Ioctl = 0x4010_1283;
const OPEN_ZONE: libc::Ioctl = 0x4010_1286;
const CLOSE_ZONE: libc::Ioctl = 0x4010_1287;
const FINISH_ZONE: libc::Ioctl = 0x4010_1288;

/// The source of a zone report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportKind {
    /// The device (`BLKREPORTZONE`).
    Device,
    /// The kernel's cache (`BLKREPORTZONEV2` with `BLK_ZONE_REP_CACHED`).
    Cached,
}

/// Up to `max` zones from `first` on, from the device (`BLKREPORTZONE`).
///
/// # Errors
/// The errors of the ioctl.
pub(super) fn report_zones(file: &File, first: Sector, max: u32) -> io::Result<Vec<BlkZone>> {
    report(file, ReportKind::Device, first, max)
}

fn report(file: &File, kind: ReportKind, first: Sector, max: u32) -> io::Result<Vec<BlkZone>> {
    let (request, flags) = match kind {
        ReportKind::Device => (REPORT_ZONE, 0),
        ReportKind::Cached => (REPORT_ZONE_V2, REPORT_CACHED),
    };
    let header = size_of::<ReportHeader>();
    let mut buffer = vec![0u64; (header + max as usize * size_of::<BlkZone>()) / 8];
    let bytes = buffer.as_mut_bytes();
    let query = ReportHeader { sector: first.0, nr_zones: max, flags };
    bytes[..header].copy_from_slice(query.as_bytes());
    // SAFETY: the kernel writes a header and up to `max` zones, for which there is room.
    let result =
        unsafe { libc::ioctl(file.as_raw_fd(), request, bytes.as_mut_ptr().cast::<c_void>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let (header, zones) = ReportHeader::read_from_prefix(&*bytes).expect("the header is first");
    let count = header.nr_zones.min(max) as usize;
    let zone = |bytes| BlkZone::read_from_bytes(bytes).expect("as long as a zone");
    Ok(zones.chunks_exact(size_of::<BlkZone>()).take(count).map(zone).collect())
}

/// Zone reports from the kernel's cache, which exists since Linux 6.19.
#[derive(Debug, Default)]
pub(super) struct CachedReports {
    /// The kernel has no cache, or none for this device: it is not asked again.
    missing: AtomicBool,
}

impl CachedReports {
    /// Up to `max` zones from `first` on, from the kernel's cache if there is one, otherwise from the device.
    ///
    /// # Errors
    /// The errors of the ioctl.
    pub fn report(&self, file: &File, first: Sector, max: u32) -> io::Result<Vec<BlkZone>> {
        self.report_by(|kind| report(file, kind, first, max))
    }

    /// The report that `report` gives, the cached one first. An old kernel does not know the ioctl (ENOTTY), and
    /// a disk whose zones the kernel did not accept has no cache (EINVAL, or no zones). After any other error the
    /// device is asked this time, for it knows, and the cache the next time again.
    fn report_by(
        &self,
        report: impl Fn(ReportKind) -> io::Result<Vec<BlkZone>>,
    ) -> io::Result<Vec<BlkZone>> {
        if !self.missing.load(Ordering::Relaxed) {
            match report(ReportKind::Cached) {
                Ok(zones) if !zones.is_empty() => return Ok(zones),
                Err(error)
                    if !matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {}
                _ => self.missing.store(true, Ordering::Relaxed),
            }
        }
        report(ReportKind::Device)
    }
}

/// Manages the zones of a range (`BLKRESETZONE` and so on). Returns when the device is done.
///
/// # Errors
/// The errors of the ioctl.
///
/// # Panics
/// If `op` is no zone management.
fn manage_zones(file: &File, op: Op, start: Sector, len: Sector) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;
    use zonal_blk::ZoneAttributes;

    #[test]
    fn zones_are_reported_from_memory_unless_the_kernel_has_none() {
        use ReportKind::{Cached, Device};
        let zone = |wp| BlkZone { wp, ..BlkZone::new_zeroed() };
        let asked = std::cell::RefCell::new(Vec::new());
        let (found, none) = (Ok(vec![zone(1)]), Ok(vec![]));
        for (cached, wp, expected) in [
            (found, 1, vec![Cached, Cached]),
            (none, 2, vec![Cached, Device, Device]),
            (Err(libc::ENOTTY), 2, vec![Cached, Device, Device]),
            (Err(libc::EINVAL), 2, vec![Cached, Device, Device]),
            // The cache may be there the next time.
            (Err(libc::EINTR), 2, vec![Cached, Device, Cached, Device]),
            (Err(libc::ENOMEM), 2, vec![Cached, Device, Cached, Device]),
        ] {
            let reports = CachedReports::default();
            let report = |kind| {
                asked.borrow_mut().push(kind);
                match kind {
                    Cached => cached.clone().map_err(io::Error::from_raw_os_error),
                    Device => Ok(vec![zone(2)]),
                }
            };
            for _ in 0..2 {
                assert_eq!(reports.report_by(report).expect("a report")[0].wp, wp);
            }
            assert_eq!(asked.take(), expected, "{cached:?}");
        }
    }

    #[test]
    fn a_zone_is_to_blame_unless_its_write_pointer_is_where_the_write_failed() {
        let zone = Zone {
            start: Sector(0),
            len: Sector(64),
            capacity: Sector(64),
            wp: Sector(16),
            kind: ZoneKind::SequentialRequired,
            cond: ZoneCondition::ImplicitOpen,
            attributes: ZoneAttributes::NONE,
        };
        let write = |first: u64| Sector(first)..=Sector(first + 8);
        for (first, expected) in [(0, true), (8, false), (12, false), (16, false), (24, true)] {
            assert_eq!(forbids(&zone, &write(first)), expected, "a write of sector {first}");
        }
        for cond in [ZoneCondition::ReadOnly, ZoneCondition::Offline] {
            assert!(forbids(&Zone { cond, wp: Sector(64), ..zone }, &write(56)), "{cond:?}");
        }
        let full = Zone { cond: ZoneCondition::Full, wp: Sector(64), ..zone };
        assert!(forbids(&full, &write(0)));
        let kind = ZoneKind::Conventional;
        assert!(!forbids(&Zone { kind, cond: ZoneCondition::NotWritePointer, ..full }, &write(0)));
    }
}
