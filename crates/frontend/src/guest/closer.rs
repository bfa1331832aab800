//! Closes descriptors that clients have sent, where close(2) may block.
//!
//! Closing the last descriptor of a file calls its file system, which may be a FUSE file system that does
//! not answer; closing that of a socket may wait for its peer (`SO_LINGER`). A thread that serves clients
//! must not block in either.
use rustix::fs::{fcntl_get_seals, readlink};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// No message is received while as many descriptors wait to be closed, each with a thread. One message can
/// add several, so that more may wait.
pub const MAX_CLOSING: usize = 64;

static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// Whether [`MAX_CLOSING`] is reached: nothing that a client sends may be received.
pub fn is_full() -> bool {
    CLOSING.load(Ordering::Relaxed) >= MAX_CLOSING
}

/// A descriptor that close(2) does not block on: the one that was sent, or, in place of one that no
/// message may have, `/dev/null`, which is refused like it.
///
/// # Errors
/// `/dev/null` cannot be opened, as without free file descriptors.
pub fn usable(fd: OwnedFd) -> io::Result<OwnedFd> {
    if closes_without_waiting(&fd) {
        return Ok(fd);
    }
    let instead = File::open("/dev/null");
    close(fd);
    Ok(instead?.into())
}

/// Whether close(2) cannot block: files in memory, eventfds and pipes. Calls no file system of the client's.
fn closes_without_waiting(fd: &OwnedFd) -> bool {
    // Only files in memory have seals.
    let name = || readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
    fcntl_get_seals(fd).is_ok()
        || name().is_ok_and(|name| {
            let name = name.to_bytes();
            name == b"anon_inode:[eventfd]" || name.starts_with(b"pipe:[")
        })
}

/// Closes a descriptor in a thread of its own. If the thread cannot be started, the descriptor stays open
/// and counts as waiting for ever.
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
