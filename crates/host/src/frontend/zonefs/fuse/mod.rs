//! A view behind a mount point, through /dev/fuse.
//!
//! ```text
//!  kernel --> /dev/fuse --> one thread that reads --> WorkerPool --> the device
//!                 ^-------------- replies, from whichever thread has them
//! ```
//!
//! One thread reads, so that requests are begun in the order in which the kernel sends them: it
//! sends the parts of a long asynchronous write without waiting for one another.
//!
//! Takes a directory; gives its files to programs until it is unmounted, from here or outside.
mod filesystem;
mod read_only;

use super::view::View;
use super::workers::WorkerPool;
use filesystem::FuseFs;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::mount::UnmountFlags;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

const DEVICE: &str = "/dev/fuse";

/// Why a directory could not become a mount point.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no FUSE here.
    #[error(
        "{DEVICE}: {0}: expected the kernel's FUSE device; `modprobe fuse` loads the module, and a \
         container has to be given the device"
    )]
    Device(io::Error),
    /// A server died without unmounting.
    #[error(
        "{}: something is mounted here whose server is gone; `umount {}` removes it",
        .0.display(), .0.display()
    )]
    Stale(PathBuf),
    /// It would hide another mount.
    #[error("{}: something is mounted here already", .0.display())]
    Mounted(PathBuf),
    /// It is a file.
    #[error("{}: expected a directory", .0.display())]
    NoDirectory(PathBuf),
    /// It is not there, or the kernel refuses.
    #[error("{dir}: {error}", dir = .0.display(), error = .1)]
    Refused(PathBuf, io::Error),
}

/// A view that is mounted. Dropping it unmounts it.
pub struct Mount {
    dir: PathBuf,
    view: Arc<View>,
    unmounter: SessionUnmounter,
    session: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

impl Mount {
    /// Mounts a view on a directory; `source` is what mount(8) lists it as. `ended` is called when
    /// somebody else unmounts it, or when its session breaks down, with why in words.
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
        let view = Arc::clone(workers.view());
        let binding = FuseFs::new(workers, path.clone());
        let mut config = Config::default();
        config.mount_options = vec![
            // A comma would begin another option.
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
        Ok(Mount { dir: path, view, unmounter, session: Some(session), stopping })
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is mounted.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        let Some(session) = self.session.take() else { return };
        match self.unmounter.unmount() {
            // A thread that panicked has said so.
            Ok(()) => drop(session.join()),
            Err(error) => {
                let dir = self.dir.display();
                eprintln!("zonal: {dir}: {error}; detached: those that use it still get errors");
                if let Err(error) = rustix::mount::unmount(&self.dir, UnmountFlags::DETACH) {
                    eprintln!("zonal: {dir}: it stays mounted without a server: {error}");
                }
            }
        }
    }
}

/// Whether a directory can become a mount point.
fn check(dir: &Path) -> Result<(), MountError> {
    let here = || dir.to_owned();
    if let Err(error) = fs::metadata(DEVICE) {
        return Err(MountError::Device(error));
    }
    let found = fs::metadata(dir).map_err(|error| {
        let stale = error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_mount_point_is_named() {
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
