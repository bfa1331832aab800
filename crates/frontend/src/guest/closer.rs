//! Closes what a client has sent, where that may wait.
//!
//! To close the last descriptor of a file asks its file system, which may be one of FUSE that does not
//! answer, and that of a socket may wait for its peer (`SO_LINGER`). A thread that serves somebody must not.
use rustix::fs::{fcntl_get_seals, readlink};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Descriptors that may be waiting to be closed, each with a thread.
pub const MAX_CLOSING: usize = 64;

static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// Whether there are as many as may be: nothing that a client sends may be received.
pub fn is_full() -> bool {
    CLOSING.load(Ordering::Relaxed) >= MAX_CLOSING
}

/// A descriptor that is closed without waiting: the one that was sent, or in the place of one that no
/// message may have, another that is refused like it.
///
/// # Errors
/// There are no more file descriptors.
pub fn usable(fd: OwnedFd) -> io::Result<OwnedFd> {
    if closes_without_waiting(&fd) {
        return Ok(fd);
    }
    let instead = File::open("/dev/null");
    close(fd);
    Ok(instead?.into())
}

/// Whether to close this does not wait: files in memory, eventfds and pipes. Asks no file system.
fn closes_without_waiting(fd: &OwnedFd) -> bool {
    // Only files in memory have seals.
    let name = || readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
    fcntl_get_seals(fd).is_ok()
        || name().is_ok_and(|name| {
            let name = name.to_bytes();
            name == b"anon_inode:[eventfd]" || name.starts_with(b"pipe:[")
        })
}

/// Closes a descriptor in a thread of its own. Without one it stays open.
pub fn close(fd: impl Into<OwnedFd>) {
    CLOSING.fetch_add(1, Ordering::Relaxed);
    let kept = Arc::new(Mutex::new(Some(fd.into())));
    let closing = Arc::clone(&kept);
    let take =
        |kept: &Mutex<Option<OwnedFd>>| kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let run = move || {
        let fd = take(&closing);
        drop(fd);
        CLOSING.fetch_sub(1, Ordering::Relaxed);
    };
    if thread::Builder::new().name("close".to_owned()).spawn(run).is_err() {
        std::mem::forget(take(&kept));
    }
}
