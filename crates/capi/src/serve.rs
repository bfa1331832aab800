//! Serving a device to other programs and machines, from the calling process.
use crate::device::{queue_options, text};
use crate::error::{Error, Result, guard};
use crate::handles::Handles;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zonal_serve::{Running, ServeOptions, Server, Stopper, UblkOptions, ZonefsOptions};

/// A device that is being served.
struct ServedDevice {
    locations: Vec<String>,
    stopper: Stopper,
    /// `None` once it has been stopped.
    running: Mutex<Option<Running>>,
}

static SERVERS: Handles<ServedDevice> = Handles::new("server");

impl ServedDevice {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of exports, for errors.
const EXPORTS: [&str; 6] = ["nvme_tcp", "vfio_user", "vhost_user", "ublk", "zonefs", "ctl"];

/// `NAME=VALUE,…`: where the device is offered.
fn exports(text: &str) -> Result<ServeOptions> {
    let mut options = ServeOptions::default();
    for export in text.split(',').filter(|export| !export.is_empty()) {
        let wrong = |form: &str| {
            let name = export.split('=').next().unwrap_or_default();
            let hint = zonal_blk::did_you_mean(name, EXPORTS);
            Error::invalid(format_args!("export `{export}`: expected {form}{hint}"))
        };
        let ublk = |id| Some(UblkOptions { id, ..UblkOptions::default() });
        match export.split_once('=') {
            Some(("nvme_tcp", address)) => {
                let address = address.parse().map_err(|_| wrong("nvme_tcp=ADDRESS:PORT"))?;
                options.nvme_tcp.push(address);
            }
            Some(("vfio_user", path)) => options.vfio_user = Some(path.into()),
            Some(("vhost_user", path)) => options.vhost_user = Some((path.into(), 1)),
            Some(("ublk", id)) => {
                options.ublk = ublk(Some(id.parse().map_err(|_| wrong("ublk or ublk=NUMBER"))?));
            }
            None if export == "ublk" => options.ublk = ublk(None),
            Some(("zonefs", directory)) => options.zonefs = Some(ZonefsOptions::new(directory)),
            Some(("ctl", path)) => options.control.ctl = Some(path.into()),
            _ => return Err(wrong(&format!("one of {}", EXPORTS.join(", ")))),
        }
    }
    Ok(options)
}

fn serve(name: &str, options: &str, text: &str) -> Result<c_int> {
    let options = ServeOptions { queue: queue_options(options)?, ..exports(text)? };
    let running = Server::open(name, options)?.start()?;
    SERVERS.add(ServedDevice {
        locations: running.locations(),
        stopper: running.stopper(),
        running: Mutex::new(Some(running)),
    })
}

/// Opens a device by its name, as `zonal_open_with`, and serves it to other programs and machines from
/// threads of this process. `exports` says where, one or more of these with commas between:
/// `nvme_tcp=ADDRESS:PORT` (port 0 for any that is free; may be repeated, each is a path),
/// `vfio_user=SOCKET`, `vhost_user=SOCKET`, `ublk` or `ublk=NUMBER`, `zonefs=DIRECTORY`, and
/// `ctl=SOCKET` for `zonal ctl`. NULL for no options.
///
/// Returns the handle of a server that is ready for clients, or -1: `EINVAL` for a malformed argument,
/// else the error number of what failed.
///
/// # Safety
/// `name` and `exports` are NULL or strings; `options` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_serve(
    name: *const c_char,
    options: *const c_char,
    exports: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "name of the device") }?;
        let options = match options.is_null() {
            true => "",
            // SAFETY: the caller's promise.
            false => unsafe { text(options, "options") }?,
        };
        // SAFETY: the caller's promise.
        serve(name, options, unsafe { text(exports, "exports") }?)
    })
}

/// Writes where an export of a server is, counted from 0 in the order nvme_tcp, vfio_user, vhost_user,
/// zonefs, ublk, ctl: such as `nvme-tcp://127.0.0.1:4420/NQN`, a name that `zonal_open` takes. At most
/// `size` bytes are written to `location`, with a zero at their end. Returns the length of the whole
/// text, or -1 with `EBADF`, `EFAULT`, or `ENOENT` if there is no such export.
///
/// # Safety
/// `location` is NULL or to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_server_location(
    server: c_int,
    export: c_uint,
    location: *mut c_char,
    size: usize,
) -> c_int {
    guard(|| {
        let served = SERVERS.get(server)?;
        let found = usize::try_from(export).ok().and_then(|at| served.locations.get(at));
        let found = found.ok_or_else(|| {
            Error::new(libc::ENOENT, format_args!("export {export}: the server has no such export"))
        })?;
        if location.is_null() && size > 0 {
            return Err(Error::new(libc::EFAULT, "location: found NULL"));
        }
        if let Some(room) = size.checked_sub(1) {
            let len = found.len().min(room);
            // SAFETY: the caller's promise; `len` and the zero fit in `size`.
            unsafe {
                location.copy_from_nonoverlapping(found.as_ptr().cast(), len);
                location.add(len).write(0);
            }
        }
        c_int::try_from(found.len()).map_err(Error::invalid)
    })
}

/// Waits until a server is stopped by another thread, or its last export has ended by itself. Returns 0, or
/// -1: `EIO` if an export failed, `EBADF`.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_server_wait(server: c_int) -> c_int {
    guard(|| {
        let served = SERVERS.get(server)?;
        if let Some(running) = &*served.running() {
            running.wait().map_err(|error| Error::new(libc::EIO, error))?
        }
        Ok(0)
    })
}

/// How long a server may take to end, as in `zonal serve` by default.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Ends a server, once I/O in flight has completed, commits what was answered, and closes the device.
/// Returns 0, or -1 with `EBADF`, with the error of the commit, or with `ETIMEDOUT` if that takes longer than
/// ten seconds: the server ends by itself then, and its device is in use until it has.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_server_stop(server: c_int) -> c_int {
    guard(|| {
        let served = SERVERS.remove(server)?;
        // A thread that waits has the lock until then.
        served.stopper.stop();
        if let Some(running) = served.running().take() {
            running.stop_within(STOP_LIMIT)?
        }
        Ok(0)
    })
}
