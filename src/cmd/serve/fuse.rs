//! The export of zones as files.
use super::ServeArgs;
use super::{Event, Export};
use anyhow::{Context, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use zonal_frontend::zonefs::{Mount, Options, WorkerPool, ZoneFs};
use zonal_lab::devices::AttachedDevice;
use zonal_os::RealClock;

impl Export for Mount {
    fn location(&self) -> String {
        self.dir().display().to_string()
    }

    fn files(&self) -> Option<Arc<ZoneFs>> {
        Some(Arc::clone(self.fs()))
    }
}

/// Mounts the device's zones on a directory.
///
/// # Errors
/// An option or the device is unsuitable, or the directory cannot be mounted on.
pub fn start(
    dir: &Path,
    args: &ServeArgs,
    device: &AttachedDevice,
    (clock, events): (&RealClock, Sender<Event>),
) -> Result<Mount> {
    // The files belong to the user who serves them, which is root for zonefs.
    let ours = std::fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()));
    let mut options = Options::owned_by(ours.0, ours.1);
    if let Some(list) = &args.fuse.options {
        options = options.with(list).context("--fuse-options")?;
    }
    let in_device = || format!("device {}", device.name);
    let queue = Arc::clone(&device.queue);
    let notify = Arc::new(|what: &str| tracing::warn!("{what}"));
    let fs = ZoneFs::new(queue, options, notify).with_context(in_device)?;
    let workers = WorkerPool::start(Arc::new(fs), clock.clone(), args.fuse.threads.into())
        .with_context(in_device)?;
    let ended = move |why: &str| {
        // Without a receiver the server is already shutting down.
        let _ = events.send(Event::Ended(why.to_owned()));
    };
    Mount::start(dir, &device.name, workers, ended).context("--fuse")
}
