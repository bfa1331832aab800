//! Zone report and management, by the functions of libzbd under other names.
use crate::device::{self, Device, ZONAL_DM_HOST_MANAGED, ZONAL_DM_NOT_ZONED, command};
use crate::error::{Error, Result, guard};
use libc::off_t;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong};
use std::ops::Range;
use std::sync::LazyLock;
use zonal_blk::{Op, Zone, ZoneCondition, ZoneKind, ZoneNo};

/// A conventional zone.
pub const ZONAL_ZONE_TYPE_CNV: c_uint = 1;
/// A zone that must be written in order.
pub const ZONAL_ZONE_TYPE_SWR: c_uint = 2;
/// A conventional zone has no write pointer.
pub const ZONAL_ZONE_COND_NOT_WP: c_uint = 0;
/// Nothing was written since the last reset.
pub const ZONAL_ZONE_COND_EMPTY: c_uint = 1;
/// A write opened the zone.
pub const ZONAL_ZONE_COND_IMP_OPEN: c_uint = 2;
/// The zone was opened.
pub const ZONAL_ZONE_COND_EXP_OPEN: c_uint = 3;
/// Partly written, and closed.
pub const ZONAL_ZONE_COND_CLOSED: c_uint = 4;
/// The zone can only be read.
pub const ZONAL_ZONE_COND_READONLY: c_uint = 13;
/// Written to its end, or finished.
pub const ZONAL_ZONE_COND_FULL: c_uint = 14;
/// The zone can be neither read nor written.
pub const ZONAL_ZONE_COND_OFFLINE: c_uint = 15;

/// A zone: the fields of libzbd's `struct zbd_zone`. Positions and lengths are in bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zonal_zone {
    /// Where it starts.
    pub start: c_ulonglong,
    /// The distance to the next zone.
    pub len: c_ulonglong,
    /// How much of it can be written.
    pub capacity: c_ulonglong,
    /// The write pointer; meaningless in a zone that has none.
    pub wp: c_ulonglong,
    /// 0: no recommendation.
    pub flags: c_uint,
    /// `ZONAL_ZONE_TYPE_…`
    pub r#type: c_uint,
    /// `ZONAL_ZONE_COND_…`
    pub cond: c_uint,
}

impl From<&Zone> for zonal_zone {
    fn from(zone: &Zone) -> Self {
        zonal_zone {
            start: zone.start.0 * 512,
            len: zone.len.0 * 512,
            capacity: zone.capacity.0 * 512,
            wp: zone.wp.0 * 512,
            flags: 0,
            r#type: match zone.kind {
                ZoneKind::Conventional => ZONAL_ZONE_TYPE_CNV,
                ZoneKind::SequentialRequired => ZONAL_ZONE_TYPE_SWR,
            },
            cond: zone.cond as c_uint,
        }
    }
}

/// Which zones to report.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum zonal_report_option {
    /// All.
    ZONAL_RO_ALL = 0,
    /// Empty ones.
    ZONAL_RO_EMPTY = 1,
    /// Those that a write opened.
    ZONAL_RO_IMP_OPEN = 2,
    /// Those that were opened.
    ZONAL_RO_EXP_OPEN = 3,
    /// Closed ones.
    ZONAL_RO_CLOSED = 4,
    /// Full ones.
    ZONAL_RO_FULL = 5,
    /// Read-only ones.
    ZONAL_RO_RDONLY = 6,
    /// Offline ones.
    ZONAL_RO_OFFLINE = 7,
    /// Those whose reset the device recommends: none.
    ZONAL_RO_RWP_RECOMMENDED = 0x10,
    /// Those with writes out of order: none.
    ZONAL_RO_NON_SEQ = 0x11,
    /// Conventional ones.
    ZONAL_RO_NOT_WP = 0x3f,
}

/// The condition that an option selects: `None` for all, `Some(None)` for what no zone has.
fn selected(option: c_uint) -> Result<Option<Option<ZoneCondition>>> {
    Ok(Some(Some(match option {
        0 => return Ok(None),
        0x10 | 0x11 => return Ok(Some(None)),
        1 => ZoneCondition::Empty,
        2 => ZoneCondition::ImplicitOpen,
        3 => ZoneCondition::ExplicitOpen,
        4 => ZoneCondition::Closed,
        5 => ZoneCondition::Full,
        6 => ZoneCondition::ReadOnly,
        7 => ZoneCondition::Offline,
        0x3f => ZoneCondition::NotWritePointer,
        _ => {
            let text = format_args!("report option {option:#x}: expected a zonal_report_option");
            return Err(Error::invalid(text));
        }
    })))
}

/// The zones of `length` bytes from `offset` on, or all after it if the length is 0. The zone at each
/// end counts if part of it is in the range.
fn range(device: &Device, offset: off_t, length: off_t) -> Result<Range<u32>> {
    let limits = device.attached.queue.limits();
    let (name, capacity) = (&device.attached.name, limits.capacity.0 * 512);
    if limits.nr_zones == 0 {
        let text = format_args!("device {name}: it has no zones");
        return Err(Error::new(libc::ENOTTY, text));
    }
    let (Ok(offset), Ok(length)) = (u64::try_from(offset), u64::try_from(length)) else {
        let text = format_args!("{length} bytes at byte {offset}: expected no negative number");
        return Err(Error::invalid(text));
    };
    if offset >= capacity {
        let text = format_args!("device {name}: byte {offset}: it has {capacity} bytes");
        return Err(Error::invalid(text));
    }
    let end = match length {
        0 => capacity,
        _ => offset.saturating_add(length).min(capacity),
    };
    let zone = |byte: u64| (byte / (limits.zone_size.0 * 512)) as u32;
    Ok(zone(offset)..zone(end - 1) + 1)
}

/// Calls `visit` with each zone of a range that is in the condition.
fn for_each(
    device: &Device,
    zones: Range<u32>,
    condition: Option<Option<ZoneCondition>>,
    mut visit: impl FnMut(&Zone),
) -> Result<()> {
    for zone in device.attached.queue.zones(ZoneNo(zones.start)..ZoneNo(zones.end)) {
        let what = || format!("device {}: zone report", device.attached.name);
        let zone = zone.map_err(|status| Error::of(status, what()))?;
        if condition.is_none_or(|only| only == Some(zone.cond)) {
            visit(&zone);
        }
    }
    Ok(())
}

/// Reports the zones of `len` bytes from byte `ofst` on (0: to the end) that `option` selects. `nr_zones` is how many
/// `zones` has room for, and becomes how many it was given; with `zones` NULL, how many there are.
/// Returns 0, or -1.
///
/// # Safety
/// `nr_zones` is NULL or to a number; `zones` is NULL or to room for that many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_report_zones(
    device: c_int,
    ofst: off_t,
    len: off_t,
    option: c_uint,
    zones: *mut zonal_zone,
    nr_zones: *mut c_uint,
) -> c_int {
    guard(|| {
        let device = device::get(device)?;
        if nr_zones.is_null() {
            return Err(Error::new(libc::EFAULT, "nr_zones: found NULL"));
        }
        let room = match zones.is_null() {
            true => 0,
            // SAFETY: the caller's promise.
            false => (unsafe { nr_zones.read() }) as usize,
        };
        let mut count = 0;
        for_each(&device, range(&device, ofst, len)?, selected(option)?, |zone| {
            if count < room {
                // SAFETY: the caller's promise; `count` is below the room.
                unsafe { zones.add(count).write(zone.into()) };
            }
            count += 1;
        })?;
        let given = if zones.is_null() { count } else { count.min(room) };
        // SAFETY: the caller's promise.
        unsafe { nr_zones.write(c_uint::try_from(given).unwrap_or(c_uint::MAX)) };
        Ok(0)
    })
}

/// As `zonal_report_zones`, in memory that this allocates and the program frees with free(3).
/// `zones` becomes NULL if there are none.
///
/// # Safety
/// `zones` and `nr_zones` are NULL, or to a pointer and a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_list_zones(
    device: c_int,
    ofst: off_t,
    len: off_t,
    option: c_uint,
    zones: *mut *mut zonal_zone,
    nr_zones: *mut c_uint,
) -> c_int {
    guard(|| {
        let device = device::get(device)?;
        if zones.is_null() || nr_zones.is_null() {
            return Err(Error::new(libc::EFAULT, "zones, nr_zones: found NULL"));
        }
        let mut found: Vec<zonal_zone> = Vec::new();
        for_each(&device, range(&device, ofst, len)?, selected(option)?, |zone| {
            found.push(zone.into());
        })?;
        let mut list = std::ptr::null_mut::<zonal_zone>();
        if !found.is_empty() {
            // SAFETY: a multiplication that overflows is refused.
            list = unsafe { libc::calloc(found.len(), size_of::<zonal_zone>()) }.cast();
            if list.is_null() {
                return Err(Error::new(libc::ENOMEM, "no memory for the list of zones"));
            }
            // SAFETY: the list has room for as many.
            unsafe { list.copy_from_nonoverlapping(found.as_ptr(), found.len()) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            zones.write(list);
            nr_zones.write(c_uint::try_from(found.len()).unwrap_or(c_uint::MAX));
        }
        Ok(0)
    })
}

/// The action on zones.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum zonal_zone_op {
    /// Empties them.
    ZONAL_OP_RESET = 1,
    /// Opens them.
    ZONAL_OP_OPEN = 2,
    /// Closes them.
    ZONAL_OP_CLOSE = 3,
    /// Makes them full.
    ZONAL_OP_FINISH = 4,
}

/// Manages the zones of `len` bytes from byte `ofst` on (0: to the end); both are multiples of the zone
/// size, but for the end of the device. A reset of all zones passes over conventional ones. Returns 0,
/// or -1 with the error of the first zone that failed.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_zones_operation(
    device: c_int,
    op: c_uint,
    ofst: off_t,
    len: off_t,
) -> c_int {
    guard(|| {
        let op = match op {
            1 => Op::ZoneReset,
            2 => Op::ZoneOpen,
            3 => Op::ZoneClose,
            4 => Op::ZoneFinish,
            _ => {
                let text = format_args!("zone operation {op}: expected a zonal_zone_op, 1 to 4");
                return Err(Error::invalid(text));
            }
        };
        let device = device::get(device)?;
        let zones = range(&device, ofst, len)?;
        let limits = device.attached.queue.limits();
        let zone_size = limits.zone_size.0 * 512;
        // Neither is negative, or there would be no range.
        let (from, to) = (ofst as u64, (ofst as u64).saturating_add(len as u64));
        let whole = |byte: u64| byte.is_multiple_of(zone_size) || byte == limits.capacity.0 * 512;
        if !whole(from) || !whole(to) {
            return Err(Error::invalid(format_args!(
                "{len} bytes at byte {ofst}: expected multiples of {zone_size}, a zone"
            )));
        }
        let all = op == Op::ZoneReset && zones == (0..limits.nr_zones);
        let commands: Vec<_> = if all {
            vec![command(Op::ZoneResetAll, 0)]
        } else {
            zones.map(|zone| command(op, u64::from(zone) * zone_size)).collect()
        };
        // SAFETY: zone management has no data.
        unsafe { device.run(&commands) }.map(|_| 0)
    })
}

/// The name of a value: a long one, and a short one if `short`. Strings are static.
fn named(
    names: impl IntoIterator<Item = (c_uint, &'static CStr, &'static CStr)>,
    value: c_uint,
    short: bool,
) -> *const c_char {
    let found = names.into_iter().find(|(known, ..)| *known == value);
    let (long, brief) = found.map_or((c"????", c"??"), |(_, long, brief)| (long, brief));
    if short { brief } else { long }.as_ptr()
}

/// The name of a device model, such as `host-managed`, or short `hm`. Static.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_device_model_str(model: c_uint, short: bool) -> *const c_char {
    const NAMES: [(c_uint, &CStr, &CStr); 2] = [
        (ZONAL_DM_HOST_MANAGED, c"host-managed", c"hm"),
        (ZONAL_DM_NOT_ZONED, c"not-zoned", c"nz"),
    ];
    named(NAMES, model, short)
}

/// The name of a zone's type, such as `seq-write-required`, or short `swr`. Static.
///
/// # Safety
/// `zone` is NULL or a zone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_zone_type_str(
    zone: *const zonal_zone,
    short: bool,
) -> *const c_char {
    const NAMES: [(c_uint, &CStr, &CStr); 2] = [
        (ZONAL_ZONE_TYPE_CNV, c"conventional", c"cnv"),
        (ZONAL_ZONE_TYPE_SWR, c"seq-write-required", c"swr"),
    ];
    // SAFETY: the caller's promise.
    named(NAMES, unsafe { zone.as_ref() }.map_or(c_uint::MAX, |zone| zone.r#type), short)
}

/// The name of a zone's condition, such as `implicit-open`, or short `oi`. Static.
///
/// # Safety
/// `zone` is NULL or a zone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_zone_cond_str(
    zone: *const zonal_zone,
    short: bool,
) -> *const c_char {
    static NAMES: LazyLock<[(c_uint, [CString; 2]); 8]> = LazyLock::new(|| {
        let name = |name| CString::new(name).expect("no name has a zero in it");
        ZoneCondition::ALL.map(|cond| (cond as c_uint, [cond.long(), cond.short()].map(name)))
    });
    let names =
        NAMES.iter().map(|(cond, [long, brief])| (*cond, long.as_c_str(), brief.as_c_str()));
    // SAFETY: the caller's promise.
    named(names, unsafe { zone.as_ref() }.map_or(c_uint::MAX, |zone| zone.cond), short)
}
