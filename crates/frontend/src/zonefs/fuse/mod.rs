//! A file system mounted through /dev/fuse.
//!
//! ```text
//!  kernel --> /dev/fuse --> one thread that reads --> WorkerPool --> the device
//!                 ^-------------- replies, from any thread
//! ```
//!
//! One thread reads, so that requests begin in the order in which the kernel sends them: it sends the
//! parts of a long asynchronous write without waiting for each other.
mod filesystem;

use super::fs::ZoneFs;
use super::workers::WorkerPool;
use filesystem::FuseFs;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_remount};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zonal_os::poll::retry;

const DEVICE: &str = "/dev/fuse";

/// Why a directory could not become a mount point.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE.
    #[error(
        "{DEVICE}: {0}: expected the kernel's FUSE device; `modprobe fuse` loads the module, and a \
         container has to be given the device"
    )]
    Device(io::Error),
    /// A server was killed and has left its mount.
    #[error(
        "{}: something is mounted here whose server is gone; `umount {}` removes it",
        .0.display(), .0.display()
    )]
    Stale(PathBuf),
    /// Something is mounted there.
    #[error("{}: something is mounted here already", .0.display())]
    Mounted(PathBuf),
    /// It is a file.
    #[error("{}: expected a directory", .0.display())]
    NoDirectory(PathBuf),
    /// There is no such directory, or the kernel refuses the mount.
    #[error("{dir}: {error}", dir = .0.display(), error = .1)]
    Refused(PathBuf, io::Error),
}

/// The file system that is mounted. Dropping it unmounts it.
pub struct Mount {
    dir: PathBuf,
    fs: Arc<ZoneFs>,
    unmounter: SessionUnmounter,
    session: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

impl Mount {
    /// Mounts a file system on a directory; mount(8) lists it as `source`. `ended` is called with the reason
    /// when another program unmounts it, or when the session fails.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn start(
        dir: &Path,
        source: &str,
        workers: WorkerPool,
        ended: impl FnOnce(&str) + Send + 'static,
    ) -> Result<Self, MountError> {
        check(dir)?;
        let refused = |error| MountError::Refused(dir.to_owned(), error);
        let path = dir.canonicalize().map_err(refused)?;
        let fs = Arc::clone(workers.fs());
        let binding = FuseFs::new(workers, path.clone());
        let mut config = Config::default();
        config.mount_options = vec![
            // A comma would start another option.
            MountOption::FSName(source.replace(',', ";")),
            MountOption::Subtype("zonal".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        if rustix::process::geteuid().is_root() {
            config.acl = SessionACL::All;
        }
        let mut session = Session::new(binding, &path, &config).map_err(refused)?;
        let unmounter = session.unmount_callable();
        let stopping = Arc::new(AtomicBool::new(false));
        let (ours, named) = (Arc::clone(&stopping), dir.to_owned());
        let run = move || {
            let ending = session.run();
            if !ours.load(Ordering::Acquire) {
                match ending {
                    Ok(()) => ended(&format!("{} was unmounted", named.display())),
                    Err(error) => ended(&format!("{}: {error}", named.display())),
                }
            }
        };
        let session = thread::Builder::new().name("fuse".to_owned()).spawn(run).map_err(refused)?;
        Ok(Mount { dir: path, fs, unmounter, session: Some(session), stopping })
    }

    /// The mount point.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file system that is mounted.
    pub fn fs(&self) -> &Arc<ZoneFs> {
        &self.fs
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        let Some(session) = self.session.take() else { return };
        match self.unmounter.unmount().or_else(|error| retry_unmount(&self.dir, error)) {
            // A thread that panicked has said so.
            Ok(()) => drop(session.join()),
            Err(error) => {
                let dir = self.dir.display();
                tracing::warn!("{dir}: {error}; detached: open files return errors");
                if let Err(error) = rustix::mount::unmount(&self.dir, UnmountFlags::DETACH) {
                    tracing::error!("{dir}: still mounted, without a server: {error}");
                }
            }
        }
    }
}

/// Unmounts a directory that was busy for at most a second more: a process that ends, or that has
/// forked and not yet called exec, holds its files for a moment.
fn retry_unmount(dir: &Path, error: io::Error) -> io::Result<()> {
    if error.kind() != io::ErrorKind::ResourceBusy {
        return Err(error);
    }
    let unmounted = retry(Duration::from_millis(10), Duration::from_secs(1), || {
        let result = rustix::mount::unmount(dir, UnmountFlags::empty());
        (result != Err(Errno::BUSY)).then_some(result)
    });
    unmounted.map_or(Err(error), |result| result.map_err(io::Error::from))
}

/// Checks that a directory can become a mount point.
fn check(dir: &Path) -> Result<(), MountError> {
    let here = || dir.to_owned();
    if let Err(error) = fs::metadata(DEVICE) {
        return Err(MountError::Device(error));
    }
    let found = fs::metadata(dir).map_err(|error| {
        let stale = error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
        if stale { MountError::Stale(here()) } else { MountError::Refused(here(), error) }
    })?;
    if !found.is_dir() {
        return Err(MountError::NoDirectory(here()));
    }
    let above = fs::metadata(dir.join("..")).map_err(|e| MountError::Refused(here(), e))?;
    if found.dev() != above.dev() || found.ino() == above.ino() {
        return Err(MountError::Mounted(here()));
    }
    Ok(())
}

/// The flags of a read-only mount, with those of [`Mount::start`].
const READ_ONLY_FLAGS: MountFlags = MountFlags::RDONLY
    .union(MountFlags::NOSUID)
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME);

/// Remounts the file system read-only, as zonefs does, once [`ZoneFs`] is and no file is open for
/// writing: mount(8) then shows `ro`, and the kernel refuses writes. Without the right to remount, only
/// `ZoneFs` refuses them.
struct RemountReadOnly {
    dir: Arc<PathBuf>,
    /// Done, or in progress.
    begun: Arc<AtomicBool>,
}

impl RemountReadOnly {
    /// For the mount on `dir`.
    fn new(dir: PathBuf) -> Self {
        RemountReadOnly { dir: Arc::new(dir), begun: Arc::default() }
    }

    /// A file was closed.
    fn closed(&self, fs: &ZoneFs) {
        if !fs.is_read_only() || self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let (dir, begun) = (Arc::clone(&self.dir), Arc::clone(&self.begun));
        // On a thread of its own: the kernel first writes pages back, which this session serves.
        let remount = move || {
            // The kernel sends a release a moment before the file counts as closed.
            let remounted = retry(Duration::from_millis(1), Duration::from_millis(100), || {
                let result = mount_remount(dir.as_path(), READ_ONLY_FLAGS, "");
                (result != Err(Errno::BUSY)).then_some(())
            });
            if remounted.is_none() {
                // Another file is open: tries again when it is closed.
                begun.store(false, Ordering::Release);
            }
        };
        if thread::Builder::new().name("fuse-remount".to_owned()).spawn(remount).is_err() {
            self.begun.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_mount_points_are_named() {
        if fs::metadata(DEVICE).is_err() {
            let error = check(Path::new("/")).unwrap_err().to_string();
            return assert!(error.contains("modprobe fuse"), "{error}");
        }
        for (dir, expected) in [
            ("/", "/: something is mounted here already"),
            ("/proc", "/proc: something is mounted here already"),
            ("/proc/version", "/proc/version: expected a directory"),
            ("/nowhere", "/nowhere: No such file or directory (os error 2)"),
        ] {
            assert_eq!(check(Path::new(dir)).unwrap_err().to_string(), expected);
        }
        assert!(check(&std::env::temp_dir()).is_ok() || check(Path::new("/usr")).is_ok());
    }
}
