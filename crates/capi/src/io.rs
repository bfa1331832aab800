//! Reads, writes and appends, one after another.
use crate::channel::{Command, Memory};
use crate::device::{self, command};
use crate::error::guard;
use libc::{off_t, size_t, ssize_t};
use std::ffi::{c_int, c_void};
use zonal_blk::Op;

/// Runs one command with data, and returns its length.
///
/// # Safety
/// `data` is null or to `count` bytes.
unsafe fn transfer(
    op: Op,
    device: c_int,
    data: *mut c_void,
    count: size_t,
    offset: off_t,
) -> crate::error::Result<(ssize_t, off_t)> {
    // A negative offset is beyond the end, which the layer refuses.
    let (offset, length) = (offset as u64, count as u64);
    let command = Command { length, memory: Memory(data.cast()), ..command(op, offset) };
    // SAFETY: the caller's promise.
    let outcome = unsafe { device::get(device)?.run(&[command]) }?;
    Ok((outcome.length as ssize_t, outcome.offset as off_t))
}

/// Reads `count` bytes at `offset`, as pread(2). Both are multiples of the logical block. Beyond the write pointer
/// a device that keeps data reads zeroes. Returns `count`, or -1 with the error number that the
/// kernel gives for such a failure.
///
/// # Safety
/// `data` is NULL or to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_pread(
    device: c_int,
    data: *mut c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    guard(|| unsafe { transfer(Op::Read, device, data, count, offset) }.map(|(done, _)| done))
}

/// Writes `count` bytes at `offset`, as pwrite(2): in a sequential zone at its write pointer, or
/// after writes that are in flight. Returns `count`, or -1. What was written is durable after
/// `zonal_fsync`.
///
/// # Safety
/// `data` is NULL or to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_pwrite(
    device: c_int,
    data: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    guard(|| {
        // SAFETY: the caller's promise; a write only reads the data.
        let done = unsafe { transfer(Op::Write, device, data.cast_mut(), count, offset) };
        done.map(|(done, _)| done)
    })
}

/// Appends `count` bytes to the zone that starts at `zone`, and tells in `landed`, unless that is NULL,
/// where they are. Returns `count`, or -1.
///
/// # Safety
/// `data` is NULL or to `count` bytes; `landed` is NULL or to an `off_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_append(
    device: c_int,
    data: *const c_void,
    count: size_t,
    zone: off_t,
    landed: *mut off_t,
) -> ssize_t {
    guard(|| {
        // SAFETY: the caller's promise; an append only reads the data.
        let done = unsafe { transfer(Op::ZoneAppend, device, data.cast_mut(), count, zone) };
        let (done, offset) = done?;
        if !landed.is_null() {
            // SAFETY: the caller's promise.
            unsafe { landed.write(offset) };
        }
        Ok(done)
    })
}

/// Makes what has completed durable. Returns 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_fsync(device: c_int) -> c_int {
    // SAFETY: a flush has no data.
    guard(|| unsafe { device::get(device)?.run(&[command(Op::Flush, 0)]) }.map(|_| 0))
}
