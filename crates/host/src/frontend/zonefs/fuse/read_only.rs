//! The mount becomes read-only with its view, as zonefs' does.
//!
//! Takes word that a file was closed; has mount(8) show `ro`, and the kernel refuse writes itself,
//! once no file of a view that became read-only is open to be written. Keeps true: without the right
//! to remount, the view alone refuses writes.
use crate::frontend::zonefs::View;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Besides being read-only, what [`super::Mount`] mounts with.
const FLAGS: MountFlags = MountFlags::RDONLY
    .union(MountFlags::NOSUID)
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME);

pub(super) struct RemountReadOnly {
    dir: Arc<PathBuf>,
    /// It was done, or a thread is at it.
    begun: Arc<AtomicBool>,
}

impl RemountReadOnly {
    /// Of what is mounted here.
    pub fn new(dir: PathBuf) -> Self {
        RemountReadOnly { dir: Arc::new(dir), begun: Arc::default() }
    }

    /// A file was closed.
    pub fn closed(&self, view: &View) {
        if !view.is_read_only() || self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let (dir, begun) = (Arc::clone(&self.dir), Arc::clone(&self.begun));
        // In a thread of its own: the kernel first writes pages back, and waits for the answers.
        let remount = move || {
            // The kernel tells of a close a little before it counts it.
            for _ in 0..100 {
                match mount_remount(dir.as_path(), FLAGS, "") {
                    Err(Errno::BUSY) => thread::sleep(Duration::from_millis(1)),
                    _ => return,
                }
            }
            // Another file is open: its close is the next occasion.
            begun.store(false, Ordering::Release);
        };
        if thread::Builder::new().name("fuse-remount".to_owned()).spawn(remount).is_err() {
            self.begun.store(false, Ordering::Release);
        }
    }
}
