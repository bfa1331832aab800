//! Devices: opening and closing them, and what they are.
use crate::channel::{Command, Io, Memory, Outcome};
use crate::error::{Error, Result, guard};
use crate::handles::Handles;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use zonal_backend::{OpenOptions, Stack};
use zonal_blk::{BioFlags, Op, QueueOptions, Status};
use zonal_os::RealClock;

/// Queues to ask for, of a device that one connects to.
const QUEUES: usize = 8;

/// An open device.
pub(crate) struct Device {
    pub attached: Stack,
    pub clock: RealClock,
    writable: bool,
    /// For commands one after another; opened by the first.
    io: Mutex<Option<Io>>,
    /// Why the last command that failed did so.
    failure: Arc<Mutex<Option<String>>>,
}

static DEVICES: Handles<Device> = Handles::new("device");

/// The device of a handle.
pub(crate) fn get(device: c_int) -> Result<Arc<Device>> {
    DEVICES.get(device)
}

impl Device {
    pub(crate) fn open(name: &str, flags: c_int, options: QueueOptions) -> Result<Self> {
        let open = OpenOptions { channels: QUEUES, ..OpenOptions::default() };
        // Any number of channels, whatever the device has.
        let options = QueueOptions { share_queues: true, ..options };
        let attached = Stack::open_with(name, &open)?.attach(options)?;
        let failure = Arc::new(Mutex::new(None));
        let last = Arc::clone(&failure);
        attached.queue.on_failure(move |failure| {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.to_string());
        });
        let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let clock = RealClock::start();
        Ok(Device { attached, clock, writable, io: Mutex::new(None), failure })
    }

    /// Whether the device was opened for what an operation does.
    pub(crate) fn allows(&self, op: Op) -> Result<()> {
        if self.writable || matches!(op, Op::Read | Op::Flush) {
            return Ok(());
        }
        let name = &self.attached.name;
        Err(Error::new(libc::EBADF, format_args!("device {name}: {op:?}: it was opened O_RDONLY")))
    }

    /// Runs commands that are independent of one another, and waits for all. Returns the outcome of the last one
    /// to complete.
    ///
    /// # Safety
    /// As [`Io::submit`]; the memory need not be valid any more when this returns.
    pub(crate) unsafe fn run(&self, commands: &[Command]) -> Result<Outcome> {
        commands.iter().try_for_each(|command| self.allows(command.op))?;
        // What panicked left commands in flight or none.
        let mut io = self.io.lock().unwrap_or_else(PoisonError::into_inner);
        if io.is_none() {
            *io = Some(Io::open(&self.attached, &self.clock)?);
        }
        let Some(io) = &mut *io else { unreachable!("it was opened above") };
        *self.failure() = None;
        // SAFETY: the caller's promise.
        let submitted = commands.iter().try_for_each(|&command| unsafe { io.submit(command) });
        let mut outcomes = Vec::new();
        while io.in_flight() > 0 {
            io.poll(None, &mut outcomes);
        }
        submitted?;
        match outcomes.iter().find(|outcome| outcome.status != Status::Ok) {
            Some(failed) => Err(self.explain(failed.status)),
            None => outcomes.pop().ok_or_else(|| Error::invalid("found no command")),
        }
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, status: Status) -> Error {
        let name = &self.attached.name;
        match self.failure().take() {
            Some(failure) => Error::new(status.errno(), format_args!("device {name}: {failure}")),
            None => Error::of(status, format_args!("device {name}")),
        }
    }
}

/// A command without data.
pub(crate) fn command(op: Op, offset: u64) -> Command {
    let memory = Memory(std::ptr::null_mut());
    Command { op, flags: BioFlags::NONE, offset, length: 0, memory, user_data: 0 }
}

/// A device with zones that must be written in order.
pub const ZONAL_DM_HOST_MANAGED: c_uint = 1;
/// A device without zones.
pub const ZONAL_DM_NOT_ZONED: c_uint = 3;

/// The properties of a device: the fields of libzbd's `struct zbd_info`.
#[repr(C)]
pub struct zonal_info {
    /// The kind of device, such as `Zonal zns`.
    pub vendor_id: [c_char; 32],
    /// Its size, in sectors of 512 bytes.
    pub nr_sectors: c_ulonglong,
    /// Its size, in logical blocks.
    pub nr_lblocks: c_ulonglong,
    /// Its size, in physical blocks.
    pub nr_pblocks: c_ulonglong,
    /// The distance between zones, in bytes; 0 without zones.
    pub zone_size: c_ulonglong,
    /// The same, in sectors.
    pub zone_sectors: c_uint,
    /// Bytes of a logical block: I/O is aligned to it.
    pub lblock_size: c_uint,
    /// Bytes of a physical block: the unit of writes to sequential zones.
    pub pblock_size: c_uint,
    /// Zones; 0 on a device without.
    pub nr_zones: c_uint,
    /// Zones that may be open at the same time; 0 for no limit.
    pub max_nr_open_zones: c_uint,
    /// Zones that may be active at the same time; 0 for no limit.
    pub max_nr_active_zones: c_uint,
    /// `ZONAL_DM_HOST_MANAGED` or `ZONAL_DM_NOT_ZONED`.
    pub model: c_uint,
}

fn info(device: &Stack) -> zonal_info {
    let limits = device.queue.limits();
    let mut vendor_id = [0; 32];
    let name = format!("Zonal {}", device.kind);
    let bytes = name.bytes().map(|byte| byte as c_char);
    vendor_id.iter_mut().take(31).zip(bytes).for_each(|(to, byte)| *to = byte);
    let blocks = limits.capacity.0 / u64::from(limits.lba_sectors());
    zonal_info {
        vendor_id,
        nr_sectors: limits.capacity.0,
        nr_lblocks: blocks,
        nr_pblocks: limits.capacity.0 / u64::from(limits.zone_write_sectors()),
        zone_size: limits.zone_size.0 * 512,
        // As in the kernel, whose zones are below 2 TiB.
        zone_sectors: c_uint::try_from(limits.zone_size.0).unwrap_or(c_uint::MAX),
        lblock_size: limits.lba_size,
        pblock_size: limits.zone_write_granularity(),
        nr_zones: limits.nr_zones,
        max_nr_open_zones: limits.max_open_zones,
        max_nr_active_zones: limits.max_active_zones,
        model: if limits.nr_zones > 0 { ZONAL_DM_HOST_MANAGED } else { ZONAL_DM_NOT_ZONED },
    }
}

/// The text of a string of C.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::new(libc::EFAULT, format_args!("{what}: found NULL")));
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| Error::invalid(format_args!("{what}: {error}")))
}

/// `NAME=VALUE,…`: scheduler and zone_write.
pub(crate) fn queue_options(text: &str) -> Result<QueueOptions> {
    let mut options = QueueOptions::default();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("scheduler", name)) => options.scheduler = parsed(option, name)?,
            Some(("zone_write", name)) => options.zone_write = Some(parsed(option, name)?),
            _ => {
                let name = option.split('=').next().unwrap_or_default();
                return Err(Error::invalid(format_args!(
                    "option `{option}`: expected scheduler=NAME or zone_write=NAME{}",
                    zonal_blk::did_you_mean(name, ["scheduler", "zone_write"])
                )));
            }
        }
    }
    Ok(options)
}

/// The value of an option.
fn parsed<T: FromStr<Err: Display>>(option: &str, value: &str) -> Result<T> {
    value.parse().map_err(|error| Error::invalid(format_args!("option {option}: {error}")))
}

/// Opens a device by its name: a spec such as `null:zones=64,zone_size=64M,memory=true`, a profile of a
/// drive such as `zns-1t`, an image such as `disk.img`, `nvme-tcp://HOST:PORT/NQN`, or a block device
/// (`zonal devices` explains names). `flags` are those of open(2), of which only the access mode counts.
/// Unless `info` is NULL, it gets what the device is.
///
/// Returns a handle, or -1: `EINVAL` for a malformed name, else the error number of what failed.
///
/// # Safety
/// `name` is NULL or a string; `info` is NULL or a `zonal_info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_open(
    name: *const c_char,
    flags: c_int,
    info: *mut zonal_info,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { zonal_open_with(name, flags, std::ptr::null(), info) }
}

/// As `zonal_open`, with options of the block layer, `NAME=VALUE` with commas between: `scheduler`
/// (`none`, `mq-deadline`, `bfq`, `kyber`) and `zone_write` (`plug`, `qd1`, `lock`, `off`), with
/// the defaults that suit the device. NULL for none.
///
/// # Safety
/// As `zonal_open`; `options` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_open_with(
    name: *const c_char,
    flags: c_int,
    options: *const c_char,
    info: *mut zonal_info,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "name of the device") }?;
        let options = match options.is_null() {
            true => QueueOptions::default(),
            // SAFETY: the caller's promise.
            false => queue_options(unsafe { text(options, "options") }?)?,
        };
        let device = Device::open(name, flags, options)?;
        if !info.is_null() {
            // SAFETY: the caller's promise.
            unsafe { info.write(self::info(&device.attached)) };
        }
        DEVICES.add(device)
    })
}

/// Whether a device keeps data: 1, or 0 for one that drops them and reads as zeroes, such as a spec without
/// `memory=true`. -1 with `EBADF` for a handle that is not open.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_keeps_data(device: c_int) -> c_int {
    guard(|| Ok(c_int::from(get(device)?.attached.keeps_data)))
}

/// Closes a device, and commits what has completed on one that was opened for writing, as
/// `zonal_flush`. Its queues stay open until they are closed themselves. Returns 0, or -1 with `EBADF`, or
/// with the error of the flush: the device is closed, and what was not flushed before may be lost.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_close(device: c_int) -> c_int {
    guard(|| {
        let device = DEVICES.remove(device)?;
        if device.writable {
            // SAFETY: a flush has no memory.
            unsafe { device.run(&[command(Op::Flush, 0)]) }?;
        }
        Ok(0)
    })
}

/// Gets the properties of a device. Returns 0, or -1 with `EBADF` or `EFAULT`.
///
/// # Safety
/// `info` is NULL or a `zonal_info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_get_info(device: c_int, info: *mut zonal_info) -> c_int {
    guard(|| {
        let device = get(device)?;
        if info.is_null() {
            return Err(Error::new(libc::EFAULT, "info: found NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { info.write(self::info(&device.attached)) };
        Ok(0)
    })
}

/// Whether the device of a name is zoned: 1, 0, or -1 as `zonal_open`, which it does.
///
/// # Safety
/// `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_device_is_zoned(name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "name of the device") }?;
        let device = Device::open(name, libc::O_RDONLY, QueueOptions::default())?;
        Ok((device.attached.queue.limits().nr_zones > 0).into())
    })
}
