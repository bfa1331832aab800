//! The export as files.
use super::ServeArgs;
use super::{Event, Export};
use anyhow::{Context, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use zonal_host::RealClock;
use zonal_host::frontend::zonefs::{Mount, Options, View, WorkerPool};
use zonal_lab::devices::AttachedDevice;

impl Export for Mount {
    fn location(&self) -> String {
        self.dir().display().to_string()
    }

    fn files(&self) -> Option<Arc<View>> {
        Some(Arc::clone(self.view()))
    }
}

/// Mounts the device's zones on a directory.
///
/// # Errors
/// What is wrong with an option or the device, or why nothing can be mounted there.
pub fn start(
    dir: &Path,
    args: &ServeArgs,
    device: &AttachedDevice,
    (clock, events): (&RealClock, Sender<Event>),
) -> Result<Mount> {
    // The files are root's, as zonefs', or of who serves them if that is somebody else.
    let ours = std::fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()));
    let mut options = Options::owned_by(ours.0, ours.1);
    if let Some(list) = &args.fuse.options {
        options = options.with(list).context("--fuse-options")?;
    }
    let in_device = || format!("device {}", device.name);
    let queue = Arc::clone(&device.queue);
    let notify = Arc::new(|what: &str| eprintln!("zonal: {what}"));
    let view = View::new(queue, options, notify).with_context(in_device)?;
    let workers = WorkerPool::start(Arc::new(view), clock.clone(), args.fuse.threads.into())
        .with_context(in_device)?;
    let ended = move |why: &str| {
        // If nobody listens, the server ends already.
        let _ = events.send(Event::Ended(why.to_owned()));
    };
    Mount::start(dir, &device.name, workers, ended).context("--fuse")
}
