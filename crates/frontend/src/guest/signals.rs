//! Signals to eventfds of others without ever blocking.
//!
//! A write to an eventfd that is full blocks unless its description says otherwise, and that flag is the
//! client's as well: it may change between a look at it and the write. So the kernel does it: the
//! completion of an asynchronous operation (io_submit(2), `IOCB_FLAG_RESFD`) adds 1 as far as there is
//! room, from inside the kernel. The operation is a read at the end of an empty file, which completes
//! during the system call.
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;

/// Operations whose completions the kernel keeps.
const EVENTS: usize = 256;
/// How often completions are fetched to make room for an operation, while other threads need it too.
const MAX_TRIES: usize = 1000;

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_FLAG_RESFD: u32 = 1;

/// `struct iocb` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent([u64; 4]);

/// The means to signal, which all threads of the process share without a lock of ours.
#[derive(Debug)]
pub struct Signals {
    /// `aio_context_t` of the kernel.
    context: libc::c_ulong,
    /// Empty.
    file: OwnedFd,
}

impl Signals {
    /// The instance of this process.
    ///
    /// # Errors
    /// `ENOSYS`: the kernel has no asynchronous I/O; `EAGAIN`: others use all of it (`fs.aio-max-nr`);
    /// those of memfd.
    pub fn get() -> Result<&'static Self, Errno> {
        static SIGNALS: OnceLock<Signals> = OnceLock::new();
        if let Some(signals) = SIGNALS.get() {
            return Ok(signals);
        }
        // Another thread may have made one meanwhile; this one is removed then.
        let new = Signals::new()?;
        Ok(SIGNALS.get_or_init(|| new))
    }

    fn new() -> Result<Self, Errno> {
        let file = memfd_create("zonal-signals", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the call writes a number to `context`.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, EVENTS, &raw mut context) };
        if made < 0 { Err(last_error()) } else { Ok(Signals { context, file }) }
    }

    /// Adds 1 to an eventfd, as far as there is room.
    pub fn signal(&self, eventfd: &OwnedFd) {
        let mut operation = Iocb {
            opcode: IOCB_CMD_PREAD,
            file: self.file.as_raw_fd().unsigned_abs(),
            flags: IOCB_FLAG_RESFD,
            eventfd: eventfd.as_raw_fd().unsigned_abs(),
            ..Iocb::default()
        };
        let mut operations = [&raw mut operation];
        for _ in 0..MAX_TRIES {
            // SAFETY: one valid operation, which reads no byte and has ended when the call returns.
            let submitted = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, 1_usize, operations.as_mut_ptr())
            };
            if submitted == 1 {
                return;
            }
            if last_error() != Errno::AGAIN {
                break;
            }
            self.forget_completions();
        }
        tracing::warn!("cannot signal an eventfd: {}", last_error());
    }

    /// Makes room for completions.
    fn forget_completions(&self) {
        let mut events = [IoEvent::default(); EVENTS];
        let none = ptr::null_mut::<libc::timespec>();
        // SAFETY: room for as many events as may be written; no event needs to be there, so it returns.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0_usize,
                EVENTS,
                events.as_mut_ptr(),
                none,
            )
        };
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the context is this object's, and no operation is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
